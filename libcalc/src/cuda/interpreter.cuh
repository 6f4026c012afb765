/*
 * interpreter.cuh - shared by the kernels: conversions, the table as types, and one step of a
 * computation.
 *
 * A kernel interprets statements: one step at a time for all elements of a thread, in registers.
 * The switch over opcodes is expanded from the table; memory traffic hides its cost.
 */
#pragma once

#include <cuda_fp16.h>

#include "cuda_internal.h"
#include "../scalar_ops.h"

namespace
{

constexpr int THREADS = MYLIB_CUDA_THREADS;

/* Maximum resident thread blocks of THREADS threads on a multiprocessor. */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || \
    __CUDA_ARCH__ / 100 == 10
constexpr int MAX_BLOCKS = 8;
#elif __CUDA_ARCH__ == 750
constexpr int MAX_BLOCKS = 4;
#else
constexpr int MAX_BLOCKS = 6;
#endif

/* Hides a value: cold paths recompute what depends on it, and hold no registers. */
__device__ __forceinline__ int32_t anew(uint32_t number)
{
    asm volatile("" : "+r"(number));
    return (int32_t)number;
}

/* ---- Memory ---- */

/* Elements are aligned to their size, complex ones too: one access each. */
template <int SIZE> struct bits_of;
template <> struct bits_of<1> {
    typedef uint8_t type;
};
template <> struct bits_of<2> {
    typedef uint16_t type;
};
template <> struct bits_of<4> {
    typedef uint32_t type;
};
template <> struct bits_of<8> {
    typedef uint2 type;
};
template <> struct bits_of<16> {
    typedef uint4 type;
};

template <typename T> __device__ __forceinline__ T load_element(const char *p)
{
    typedef typename bits_of<sizeof(T)>::type bits;
    alignas(16) T value;
    *(bits *)&value = *(const bits *)p;
    return value;
}
/* ---- Conversions ---- */

enum element_class { SIGNED, UNSIGNED, HALF, FLOAT, COMPLEX, BOOL };

template <typename T> struct class_of;
#define DT(s, S) \
    template <> struct class_of<t_##s> { \
        static constexpr element_class value = MYLIB_CLASS_##s; \
    };
MYLIB_STORED_TYPES(DT)
#undef DT

/* The type of the parts and of the modulus, and its conversion to the type itself. */
template <typename T> struct real_of {
    static constexpr bool is_complex = false;
    typedef T type;
    static __device__ __forceinline__ T widen(T x) { return x; }
};
template <> struct real_of<t_c64> {
    static constexpr bool is_complex = true;
    typedef t_f32 type;
    static __device__ __forceinline__ t_c64 widen(t_f32 x) { return make_c64(x, 0); }
};
template <> struct real_of<t_c128> {
    static constexpr bool is_complex = true;
    typedef t_f64 type;
    static __device__ __forceinline__ t_c128 widen(t_f64 x) { return make_c128(x, 0); }
};

template <typename S> __device__ __forceinline__ bool is_nonzero(S x)
{
    constexpr element_class s = class_of<S>::value;
    if constexpr (s == COMPLEX)
        return x.re != 0 || x.im != 0;
    else if constexpr (s == HALF)
        return (x.bits & 0x7fff) != 0;
    else if constexpr (s == BOOL)
        return x.value != 0;
    else
        return x != 0;
}

/* truncate<T>(x) converts a float to an integer. */
template <typename T> __device__ T truncate(t_f32 x);
template <typename T> __device__ T truncate(t_f64 x);
#define TRUNCATE(op, s) \
    template <> __device__ __forceinline__ t_##s truncate(t_f32 x) { return s##_from_f32(x); } \
    template <> __device__ __forceinline__ t_##s truncate(t_f64 x) { return s##_from_f64(x); }
MYLIB_SET_INT(TRUNCATE, )
#undef TRUNCATE

template <typename T, typename S> __device__ __forceinline__ T convert(S x)
{
    constexpr element_class t = class_of<T>::value, s = class_of<S>::value;
    typedef typename real_of<T>::type R;
    if constexpr (t == BOOL) {
        T result = {(uint8_t)is_nonzero(x)};
        return result;
    } else if constexpr (s == COMPLEX && t == COMPLEX) {
        T result = {(R)x.re, (R)x.im};
        return result;
    } else if constexpr (s == COMPLEX) {
        return convert<T>(x.re);
    } else if constexpr (t == COMPLEX) {
        return real_of<T>::widen(convert<R>(x));
    } else if constexpr (s == BOOL) {
        return convert<T>((t_i32)is_nonzero(x));
    } else if constexpr (t == HALF && s == HALF) {
        return x;
    } else if constexpr (s == HALF) {
        return convert<T>(f32_from_f16(x));
    } else if constexpr (t == HALF && sizeof(S) == sizeof(t_f64) && s == FLOAT) {
        t_f16 result = {__half_as_ushort(__double2half(x))};
        return result;
    } else if constexpr (t == HALF) {
        return f16_from_f32((t_f32)x);
    } else if constexpr (s == FLOAT && t != FLOAT) {
        return truncate<T>(x);
    } else {
        return (T)x;
    }
}

/* The number of a type. */
template <typename T> struct number_of;
#define DT(s, S) \
    template <> struct number_of<t_##s> { \
        static constexpr int value = MYLIB_##S; \
    };
MYLIB_STORED_TYPES(DT)
#undef DT

/* Calls g with the type_of a stored type's number; returns `otherwise` for other numbers. */
template <typename T> struct type_of {
    typedef T type;
};
#define TYPE_OF(tag) typename decltype(tag)::type
#pragma nv_exec_check_disable
template <typename R, typename G>
__host__ __device__ __forceinline__ R with_type(int type, R otherwise, G g)
{
    switch (type) {
#define DT(s, S) \
    case MYLIB_##S: \
        return g(type_of<t_##s>());
        MYLIB_STORED_TYPES(DT)
#undef DT
    }
    return otherwise;
}

/*
 * Tells whether elements of type S are read in vectors and converted to D in registers: types that
 * are promoted to D and no larger than D. The other conversions are too many to compile for each
 * number of elements.
 */
template <typename D, typename S> __host__ __device__ constexpr bool is_promoted()
{
    constexpr element_class d = class_of<D>::value, s = class_of<S>::value;
    if (sizeof(S) > sizeof(D) || d == BOOL || (s == COMPLEX && d != COMPLEX))
        return false;
    if (d == SIGNED || d == UNSIGNED)
        return s == BOOL ||
               ((s == UNSIGNED || (s == SIGNED && d == SIGNED)) && sizeof(S) < sizeof(D));
    if (d == HALF)
        return sizeof(S) < sizeof(D);
    return true;
}

/* Loads element i of an array of any stored type, aligned to its elements, and converts it. */
template <typename T> __device__ T load_at(int input_type, const void *p, int64_t i)
{
    return with_type(input_type, T(),
                     [=](auto s) { return convert<T>(((const TYPE_OF(s) *)p)[i]); });
}
template <typename T> __device__ T load_as(int input_type, const void *p)
{
    return load_at<T>(input_type, p, 0);
}

/* ---- The table as types ---- */

/* meaning<op, T>::apply is the operation, if the table defines it for T. */
template <int OP, typename T> struct meaning {
    static constexpr bool is_defined = false;
};

#define APPLY_BINARY(op, s) return op##_##s(a, b);
#define APPLY_UNARY(op, s) \
    (void)b; \
    return op##_##s(a);
#define APPLY_UNARY_REAL(op, s) \
    (void)b; \
    return real_of<t_##s>::widen(op##_##s(a));
#define APPLY_COMPARE(op, s) return convert<t_##s>((t_i32)op##_##s(a, b));
#define MEANING(APPLY, op, s) \
    template <> struct meaning<MYLIB_OP_##op, t_##s> { \
        static constexpr bool is_defined = true; \
        static __device__ __forceinline__ t_##s apply(t_##s a, t_##s b) { APPLY(op, s) } \
    };
#define MEANING_BINARY(op, s) MEANING(APPLY_BINARY, op, s)
#define MEANING_UNARY(op, s) MEANING(APPLY_UNARY, op, s)
#define MEANING_UNARY_REAL(op, s) MEANING(APPLY_UNARY_REAL, op, s)
#define MEANING_COMPARE(op, s) MEANING(APPLY_COMPARE, op, s)
#define MEANING_REVERSED(op, s)
#define APPLY_TEST(op, s) \
    (void)b; \
    return convert<t_##s>((t_i32)op##_##s(a));
#define MEANING_LOGIC(op, s) MEANING(APPLY_COMPARE, op, s)
#define MEANING_TEST(op, s) MEANING(APPLY_TEST, op, s)
#define ROW(kind, op, set) MYLIB_SET_##set(MEANING_##kind, op)
MYLIB_ARITHMETIC(ROW)
#undef ROW
MEANING_LOGIC(logical_and, bool)
MEANING_LOGIC(logical_or, bool)
MEANING_LOGIC(logical_xor, bool)
MEANING_TEST(logical_not, bool)

template <int OP, typename T> __device__ __noinline__ T apply_costly(T a, T b)
{
    return meaning<OP, T>::apply(a, b);
}
template <int OP, typename T, bool CALLS> __device__ __forceinline__ T apply(T a, T b)
{
    constexpr int TYPE = number_of<T>::value;
    if constexpr (CALLS ? mylib_is_by_call(OP, TYPE) : mylib_is_costly(OP, TYPE))
        return apply_costly<OP, T>(a, b);
    else
        return meaning<OP, T>::apply(a, b);
}

/*
 * packed<OP, T>::apply computes all elements of a word at once: a few instructions, where unpacking
 * takes several for each element.
 */
template <int OP, typename T> struct packed {
    static constexpr bool is_defined = false;
};
#define PACKED(op, s, result) \
    template <> struct packed<MYLIB_OP_##op, t_##s> { \
        static constexpr bool is_defined = true; \
        static __device__ __forceinline__ uint32_t apply(uint32_t a, uint32_t b) \
        { \
            return result; \
        } \
    };
#define EACH_TOP_BIT 0x80808080u
#define SUM_OF_BYTES(a, b) (((a & ~EACH_TOP_BIT) + (b & ~EACH_TOP_BIT)) ^ ((a ^ b) & EACH_TOP_BIT))
#define DIFFERENCE_OF_BYTES(a, b) \
    (((a | EACH_TOP_BIT) - (b & ~EACH_TOP_BIT)) ^ (~(a ^ b) & EACH_TOP_BIT))
PACKED(add, i8, SUM_OF_BYTES(a, b))
PACKED(add, u8, SUM_OF_BYTES(a, b))
PACKED(subtract, i8, DIFFERENCE_OF_BYTES(a, b))
PACKED(subtract, u8, DIFFERENCE_OF_BYTES(a, b))

/* These round once, as does rounding the exact result, or that of f32, to f16. */
template <typename F> __device__ __forceinline__ uint32_t with_halves(F f, uint32_t a, uint32_t b)
{
    __half2 x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    x = f(x, y);
    memcpy(&a, &x, sizeof a);
    return a;
}
PACKED(add, f16, with_halves([](__half2 x, __half2 y) { return __hadd2_rn(x, y); }, a, b))
PACKED(subtract, f16, with_halves([](__half2 x, __half2 y) { return __hsub2_rn(x, y); }, a, b))
PACKED(multiply, f16, with_halves([](__half2 x, __half2 y) { return __hmul2_rn(x, y); }, a, b))

/* Computes x[i] = OP(x[i], y[i]); both are aligned to 4 bytes. */
template <int OP, bool CALLS, typename T, int N>
__device__ __forceinline__ void apply_all(T (&x)[N], const T (&y)[N])
{
    if constexpr (packed<OP, T>::is_defined && sizeof(T) * N % 4 == 0) {
#pragma unroll
        for (int i = 0; i < N; i += (int)(4 / sizeof(T))) {
            uint32_t a, b; /* by memcpy(): the compiler assumes that a T is never a uint32_t */
            memcpy(&a, &x[i], sizeof a);
            memcpy(&b, &y[i], sizeof b);
            a = packed<OP, T>::apply(a, b);
            memcpy(&x[i], &a, sizeof a);
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] = apply<OP, T, CALLS>(x[i], y[i]);
    }
}

/* Computes acc[i] = bit i of mask ? acc[i] : x[i]; small elements stay packed in registers. */
template <typename T, int N>
__device__ __forceinline__ void select(T (&acc)[N], const T (&x)[N], uint32_t mask)
{
    if constexpr (sizeof(T) < 4 && sizeof(T) * N % 4 == 0) {
        constexpr int PACKED = 4 / sizeof(T);
#pragma unroll
        for (int i = 0; i < N; i += PACKED) {
            uint32_t bits = mask >> i & ((1 << PACKED) - 1), kept;
            if (PACKED == 4)
                kept = (bits * 0x00204081 & 0x01010101) * 0xff;
            else
                kept = (bits & 1) * 0xffff | (bits >> 1) * 0xffff0000;
            uint32_t *a = (uint32_t *)&acc[i];
            *a = (*a & kept) | (*(const uint32_t *)&x[i] & ~kept);
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            acc[i] = mask >> i & 1 ? acc[i] : x[i];
    }
}

/*
 * Computes acc[i] = opcode(acc[i], x[i]) for the N elements of a thread; bit i of mask belongs to
 * element i.  acc and x are aligned to at least 4 bytes.  CALLS: see mylib_is_by_call().
 */
template <typename T, int N, bool CALLS = false>
__device__ __forceinline__ void step(int opcode, T (&acc)[N], const T (&x)[N], uint32_t mask = 0)
{
    static_assert(N <= 32, "a mask has 32 bits");
    switch (opcode) {
    case MYLIB_OPCODE_LOAD:
#pragma unroll
        for (int i = 0; i < N; i++)
            acc[i] = x[i];
        break;
    case MYLIB_OPCODE_SELECT:
        select(acc, x, mask);
        break;
#define ROW(kind, op, set) \
    case MYLIB_OP_##op: \
        if constexpr (meaning<MYLIB_OP_##op, T>::is_defined) \
            apply_all<MYLIB_OP_##op, CALLS>(acc, x); \
        break;
        MYLIB_ARITHMETIC(ROW)
#undef ROW
    }
}

} // namespace
