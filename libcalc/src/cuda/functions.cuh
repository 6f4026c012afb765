/*
 * functions.cuh - the functions of ops.h as types: function<OP, T>::apply(a, b) returns a
 * function<OP, T>::type.  It ignores b if function<OP, T>::inputs is 1.
 */
#pragma once

#include "interpreter.cuh"
#include "../elementary.h"
#include "../plain_functions.h"

namespace
{

template <int OP, typename T> struct function {
    static constexpr bool is_defined = false;
};
#define FUNCTION(op, s, inputs_, R, value) \
    template <> struct function<MYLIB_OP_##op, t_##s> { \
        static constexpr bool is_defined = true; \
        static constexpr int inputs = inputs_; \
        typedef R type; \
        static __device__ __forceinline__ R apply(t_##s a, t_##s b) \
        { \
            (void)b; \
            return value; \
        } \
    };
#define FUNCTION_UNARY(op, s) FUNCTION(op, s, 1, t_##s, op##_##s(a))
#define FUNCTION_BINARY(op, s) FUNCTION(op, s, 2, t_##s, op##_##s(a, b))
#define FUNCTION_UNARY_REAL(op, s) FUNCTION(op, s, 1, real_of<t_##s>::type, op##_##s(a))
#define FUNCTION_TEST(op, s) FUNCTION(op, s, 1, t_bool, {(uint8_t)(op##_##s(a) != 0)})
#define ROW(kind, op, set) MYLIB_SET_##set(FUNCTION_##kind, op)
MYLIB_FUNCTIONS(ROW)
#undef ROW

/*
 * Tells whether a result, within `ulps` as an f32, may differ from the f16 nearest to it: near the
 * middle of two f16, and all results that are subnormal or NaN.
 */
__device__ __forceinline__ bool may_round_twice(float x, uint32_t ulps)
{
    const uint32_t bits = bits_of_f32(x), size = bits & 0x7fffffff;
    return (((bits - 0x1000 + ulps) & 0x1fff) <= 2 * ulps) |
           ((size != 0) & (size - 0x38800000 > 0x7f800000 - 0x38800000));
}

/* In f32, where the squares are exact: within 2 ulps. */
__device__ __forceinline__ t_quick hypot_quick_f32(float x, float y)
{
    return {sqrtf(FMA_F32(x, x, y * y)), 0};
}

/*
 * Splits a function: easy(a, b, is_hard), short and without a branch, returns the value or sets
 * is_hard; it never clears is_hard.  any(a, b) always returns the value.
 */
template <int OP, typename T> struct by_hardness {
    static constexpr bool has_hard = false;
    typedef typename function<OP, T>::type type;
    static __device__ __forceinline__ type easy(T a, T b, bool &)
    {
        return function<OP, T>::apply(a, b);
    }
};
#define BY_HARDNESS(op, s, find_hard, value) \
    template <> struct by_hardness<MYLIB_OP_##op, t_##s> { \
        static constexpr bool has_hard = true; \
        static __device__ __forceinline__ t_##s easy(t_##s a, t_##s b, bool &is_hard) \
        { \
            find_hard; \
            return value; \
        } \
        static __device__ __noinline__ t_##s any(t_##s a, t_##s b) \
        { \
            return function<MYLIB_OP_##op, t_##s>::apply(a, b); \
        } \
    };
#define HARD(op, s) \
    BY_HARDNESS(op, s, (void)b; is_hard |= op##_is_hard_##s(a) != 0, op##_easy_##s(a))
#define HARD_BINARY(op, s) \
    BY_HARDNESS(op, s, is_hard |= op##_is_hard_##s(a, b) != 0, op##_easy_##s(a, b))
#define IN_TWO_STEPS(op, s) \
    BY_HARDNESS(op, s, const t_dd first = op##_first_##s(a); \
                is_hard |= op##_is_rare_##s(a, b, first) != 0, op##_second_##s(a, b, first))
#define QUICK(op, way) \
    BY_HARDNESS(op, f32, (void)b; const t_quick quick = way(a); \
                is_hard |= quick.is_rare != 0, quick.value)
#define QUICK_BINARY(op, way) \
    BY_HARDNESS(op, f32, const t_quick quick = way(a, b); \
                is_hard |= quick.is_rare != 0, quick.value)
#define QUICK_F16(op, way, ulps) \
    BY_HARDNESS(op, f16, const t_quick quick = way(f32_from_f16(a), f32_from_f16(b)); \
                is_hard |= (quick.is_rare != 0) | may_round_twice(quick.value, ulps), \
                f16_from_f32(quick.value))
#define QUICK_BINARY_F16(op, way) QUICK_F16(op, way, 0)
#define QUICK_COMPLEX(op) \
    BY_HARDNESS(op, c64, (void)b; const t_quick_c64 quick = op##_quick_c64(a); \
                is_hard |= quick.is_rare != 0, quick.value)
#define ORDINARY(op) \
    BY_HARDNESS(op, f64, (void)b; const t_quick_f64 quick = op##_ordinary_f64(a); \
                is_hard |= quick.is_rare >> 63 != 0, quick.value)
#define ORDINARY_BINARY(op) \
    BY_HARDNESS(op, f64, const t_quick_f64 quick = op##_ordinary_f64(a, b); \
                is_hard |= quick.is_rare >> 63 != 0, quick.value)
MYLIB_HARD(HARD)
MYLIB_HARD_BINARY(HARD_BINARY)
MYLIB_QUICK_BINARY_ON_GPU(QUICK_BINARY)
MYLIB_QUICK_BINARY_ON_GPU(QUICK_BINARY_F16)
QUICK_F16(hypot, hypot_quick_f32, 2)
MYLIB_QUICK_COMPLEX(QUICK_COMPLEX)
MYLIB_QUICK_ON_GPU(QUICK)
MYLIB_ORDINARY_ON_GPU(ORDINARY)
MYLIB_ORDINARY_BINARY_ON_GPU(ORDINARY_BINARY)
MYLIB_IN_TWO_STEPS(IN_TWO_STEPS)
#undef ORDINARY_BINARY
#undef ORDINARY
#undef QUICK_COMPLEX
#undef QUICK_BINARY_F16
#undef QUICK_F16
#undef QUICK_BINARY
#undef QUICK
#undef IN_TWO_STEPS
#undef HARD_BINARY
#undef HARD

/* Functions with long code, which is repeated for fewer elements of f64. */
template <int OP>
constexpr bool is_long = OP == MYLIB_OP_arctan2 || OP == MYLIB_OP_power || OP == MYLIB_OP_logaddexp;

/* Functions of f64 that take longer than their loads and stores. */
template <int OP>
constexpr bool is_slow = OP == MYLIB_OP_tan || OP == MYLIB_OP_arcsin || OP == MYLIB_OP_arccos ||
                         OP == MYLIB_OP_log1p || OP == MYLIB_OP_tanh || OP == MYLIB_OP_arcsinh ||
                         OP == MYLIB_OP_arccosh || OP == MYLIB_OP_arctanh || OP == MYLIB_OP_erf;

/* Compute-bound functions. */
template <int OP> constexpr bool is_elementary = OP >= MYLIB_OP_sin;

/*
 * Elements that a thread computes at once, so that their steps overlap: 16 bytes, or 4 small
 * integers.  Elementary functions take 32 bytes, which share the loads of constants, or 4 f16 or 2
 * complex numbers; slow ones of f64 take 64, long ones 16.
 */
template <int OP, typename T>
constexpr int AT_ONCE = sizeof(T) == 1 || (sizeof(T) == 2 && class_of<T>::value != HALF) ? 4
                        : !is_elementary<OP>                    ? 16 / (int)sizeof(T)
                        : sizeof(T) == 2                        ? 4
                        : sizeof(T) == 4                        ? 8
                        : is_long<OP> || real_of<T>::is_complex ? 2
                        : is_slow<OP>                           ? 8
                                                                : 4;

} // namespace
