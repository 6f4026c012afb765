/*
 * fused.cu - programs of several statements in one pass; see fused.h.
 *
 * A statement loads its second operand, then its first, into hardware registers, unless the
 * previous statement left its result there; its own result stays there too.  Threads diverge only
 * at the end of a row.
 */
#include "functions.cuh"
#include "launch.cuh"
#include "reduction.cuh"

#include "fused.h"

namespace
{

typedef mylib_fused_args fused_args;

/*
 * Kinds of kernels: spaced elements, for any layout, or groups (FLAT), for vectors of one
 * dimension; with or without inlined functions; for spaced elements also with calls, which preserve
 * few registers, and for f32 with inlined conversions of small types (NARROW); for vectors also for
 * long programs (LONG).
 */
enum { SPACED, FUNCTIONS, CALLS, CALLS_AND_FUNCTIONS, NARROW };
enum { FLAT = NARROW + 1, FLAT_FUNCTIONS, FLAT_LONG, FLAT_CHAIN };
enum { STREAMED = FLAT_CHAIN + 1 }; /* for reductions: the input is in shared memory */
template <int WAY> constexpr bool HAS_CALLS = WAY == CALLS || WAY == CALLS_AND_FUNCTIONS;
template <int WAY> constexpr bool IS_FLAT = (WAY >= FLAT && WAY < STREAMED);
template <int WAY>
constexpr bool HAS_FUNCTIONS =
    WAY == FUNCTIONS || WAY == CALLS_AND_FUNCTIONS || WAY == FLAT_FUNCTIONS;

/* Elements of a group (16 bytes); groups of a thread; elements of a thread. */
template <typename T> constexpr int G = MYLIB_FUSED_GROUP(sizeof(T));
template <typename T, int WAY>
constexpr int GROUPS = WAY == FLAT_LONG     ? MYLIB_FUSED_LONG_GROUPS
                       : WAY == FLAT_CHAIN  ? MYLIB_FUSED_CHAIN_GROUPS
                       : HAS_FUNCTIONS<WAY> ? MYLIB_FUSED_FUNCTION_GROUPS(sizeof(T), HAS_CALLS<WAY>)
                       : IS_FLAT<WAY>       ? MYLIB_FUSED_FLAT_GROUPS
                                            : MYLIB_FUSED_SPACED_GROUPS;
template <typename T>
constexpr bool IS_REAL = number_of<T>::value == MYLIB_F32 || number_of<T>::value == MYLIB_F64;
template <typename T, int WAY> constexpr int N = MYLIB_FUSED_GROUP(sizeof(T)) * GROUPS<T, WAY>;

/* The elements of a thread. */
struct spaced_position { /* the first one, and how many exist */
    int64_t column;
    int32_t row;
    int count;
};
struct flat_position {
    bool is_full; /* all exist */
};
template <int WAY>
struct position : std::conditional_t<IS_FLAT<WAY>, flat_position, spaced_position> {
};

__device__ __forceinline__ char *first_of(const fused_args &args, const spaced_position &at, int k)
{
    return args.data[k] + mylib_fused_row(&args, k, at.row) + at.column * args.column_stride[k];
}

/*
 * Returns the index of a thread's first group; the next one is blockDim.x further on.  Recomputed
 * at each use: it would hold registers.
 */
template <typename T, int WAY> __device__ __forceinline__ int64_t first_group()
{
    const uint32_t groups = blockDim.x * (uint32_t)GROUPS<T, WAY>;
    return (int64_t)blockIdx.x * groups + (uint32_t)anew(threadIdx.x);
}

/* Returns the bytes from a thread's group of elements of `size` bytes to the next one. */
template <typename T> __device__ __forceinline__ int group_step(int size)
{
    return (int)blockDim.x * (G<T> * size);
}
template <typename T, int WAY>
__device__ __forceinline__ int64_t elements_left(const fused_args &args)
{
    return args.columns - first_group<T, WAY>() * G<T>;
}

extern __shared__ uint4 fused_shared[];

/*
 * Returns this thread's slot of a register in shared memory; its next group is blockDim.x further
 * on.  Spare slots follow, where values stay during calls, which preserve few hardware registers.
 */
template <typename T, int WAY>
__device__ __forceinline__ uint4 *place_of(const uint4 *own, int number)
{
    if (HAS_CALLS<WAY>) /* across calls the address would be spilled: recompute it */
        own = fused_shared + (uint32_t)anew(threadIdx.x);
    return (uint4 *)own + number * (int)(GROUPS<T, WAY> * blockDim.x);
}

/* Returns the masks of all threads, which lie after all registers. */
template <typename T, int WAY> __device__ __forceinline__ uint32_t *masks_of(const fused_args &args)
{
    const int slots = (args.registers + args.spare) * GROUPS<T, WAY>;
    return (uint32_t *)(fused_shared + slots * (int)blockDim.x);
}
/* Returns the thread's mask; recomputed at each use. */
template <typename T, int WAY> __device__ __forceinline__ uint32_t *mask_of(const fused_args &args)
{
    return masks_of<T, WAY>(args) + anew(threadIdx.x);
}

/* The inputs that a thread of a long program keeps. */
template <typename T, int WAY> struct some_kept {
    alignas(16) T x[MYLIB_FUSED_MAX_KEPT][N<T, WAY>];
};
struct none_kept {
};
template <typename T, int WAY>
struct kept_inputs
    : std::conditional_t<WAY == FLAT_LONG || WAY == FLAT_CHAIN, some_kept<T, WAY>, none_kept> {
};

/* ---- Programs of one type ---- */

template <typename T, int WAY>
__device__ __forceinline__ void read_place(const uint4 *place, T (&x)[N<T, WAY>])
{
#pragma unroll
    for (int v = 0; v < GROUPS<T, WAY>; v++)
        *(uint4 *)&x[v * G<T>] = place[v * blockDim.x];
}
template <typename T, int WAY>
__device__ __forceinline__ void write_place(uint4 *place, const T (&x)[N<T, WAY>])
{
#pragma unroll
    for (int v = 0; v < GROUPS<T, WAY>; v++)
        place[v * blockDim.x] = *(const uint4 *)&x[v * G<T>];
}

/*
 * Loads `count` elements of any type, `step` bytes apart, and converts them into the thread's slot.
 * Elements of types that are promoted to T are all loaded before the first is converted.
 */
template <typename T, int WAY>
__device__ __noinline__ void convert_spaced(int type, const char *p, int64_t step, int count,
                                            uint4 *place)
{
    alignas(16) T x[N<T, WAY>];
    switch (type) {
#define DT(s, S) \
    case MYLIB_##S: \
        if constexpr (is_promoted<T, t_##s>()) { \
            t_##s values[N<T, WAY>]; \
            _Pragma("unroll") for (int i = 0; i < N<T, WAY>; i++, p += step) if (i < count) \
                values[i] = load_element<t_##s>(p); \
            _Pragma("unroll") for (int i = 0; i < N<T, WAY>; i++) x[i] = convert<T>(values[i]); \
            write_place<T, WAY>(place, x); \
            return; \
        } \
        break;
        MYLIB_STORED_TYPES(DT)
#undef DT
    }
#pragma unroll 1
    for (int i = 0; i < count; i++, p += step)
        ((T *)(place + i / G<T> * blockDim.x))[i % G<T>] = load_as<T>(type, p);
}

/* Loads an input of a program of T; its elements have type S or the size of S. */
template <typename T, typename S, int WAY>
__device__ __forceinline__ void load_input(const fused_args &args, int input,
                                           const position<WAY> &at, S (&x)[N<T, WAY>])
{
    if constexpr (!IS_FLAT<WAY>) {
        const char *p = first_of(args, at, 1 + input);
        const int64_t step = args.step[1 + input];
        if ((HAS_CALLS<WAY> || WAY == NARROW) && step == 0) {
            const S one = load_element<S>(p);
#pragma unroll
            for (int i = 0; i < N<T, WAY>; i++)
                x[i] = one;
            return;
        }
#pragma unroll
        for (int i = 0; i < N<T, WAY>; i++, p += step)
            if (i < at.count)
                x[i] = load_element<S>(p);
    } else {
        typedef typename bits_of<sizeof(S) * G<T>>::type group;
        const char *p = args.data[1 + input] + first_group<T, WAY>() * (int)(G<T> * sizeof(S));
        const int step = group_step<T>(sizeof(S));
        if (at.is_full) {
#pragma unroll
            for (int v = 0; v < GROUPS<T, WAY>; v++, p += step)
                *(group *)&x[v * G<T>] = *(const group *)p;
        } else {
            const int64_t left = elements_left<T, WAY>(args), apart = step / (int)sizeof(S);
#pragma unroll
            for (int v = 0; v < GROUPS<T, WAY>; v++, p += step)
#pragma unroll
                for (int i = 0; i < G<T>; i++)
                    if (v * apart + i < left)
                        x[v * G<T> + i] = load_element<S>(p + i * sizeof(S));
        }
    }
}

/* Reads an input of i32 or f32 in a program of f64: the conversions without a call. */
template <typename T, int WAY>
__device__ __forceinline__ void read_words(const fused_args &args, int input,
                                           const position<WAY> &at, T (&x)[N<T, WAY>])
{
    static_assert(number_of<T>::value == MYLIB_F64, "it has every number of these types");
    alignas(16) uint32_t words[N<T, WAY>];
    load_input<T>(args, input, at, words);
#pragma unroll
    for (int i = 0; i < N<T, WAY>; i++) {
        t_f32 value;
        memcpy(&value, &words[i], sizeof value);
        x[i] =
            args.input_type[input] == MYLIB_I32 ? convert<T>((t_i32)words[i]) : convert<T>(value);
    }
}

/* Reads an input of a type of one or two bytes in a program of f32. */
template <int WAY>
__device__ __forceinline__ void read_narrow(const fused_args &args, int input,
                                            const position<WAY> &at, t_f32 (&x)[N<t_f32, WAY>])
{
    const int type = args.input_type[input], size = mylib_narrow_size(type);
    const char *p = first_of(args, at, 1 + input);
    const int64_t step = args.step[1 + input];
    uint32_t words[N<t_f32, WAY>];
    if (size == 1) {
#pragma unroll
        for (int i = 0; i < N<t_f32, WAY>; i++, p += step)
            if (i < at.count)
                words[i] = *(const uint8_t *)p;
    } else {
#pragma unroll
        for (int i = 0; i < N<t_f32, WAY>; i++, p += step)
            if (i < at.count)
                words[i] = *(const uint16_t *)p;
    }
    switch (type) {
#define DT(s, S) \
    case MYLIB_##S: \
        if constexpr (sizeof(t_##s) <= 2) { \
            _Pragma("unroll") for (int i = 0; i < N<t_f32, WAY>; i++) \
            { \
                t_##s value; \
                memcpy(&value, &words[i], sizeof value); \
                x[i] = convert<t_f32>(value); \
            } \
        } \
        break;
        MYLIB_STORED_TYPES(DT)
#undef DT
    }
}

/* Reads an input of another type into x, by calls; keeps `other`. */
template <typename T, int WAY>
__device__ __forceinline__ void read_by_call(const fused_args &args, int input,
                                             const position<WAY> &at, uint4 *own, T (&x)[N<T, WAY>],
                                             T (&other)[N<T, WAY>])
{
    uint4 *place = place_of<T, WAY>(own, args.registers + 1);
    write_place<T, WAY>(place_of<T, WAY>(own, args.registers), other);
    convert_spaced<T, WAY>(args.input_type[input], first_of(args, at, 1 + input),
                           args.step[1 + input], at.count, place);
    read_place<T, WAY>(place_of<T, WAY>(own, args.registers), other);
    read_place<T, WAY>(place, x);
}

/* The asm keeps nvcc from hoisting the copy out of the branch. */
template <typename T> __device__ __forceinline__ void copy_words(const T &from, T &to)
{
#pragma unroll
    for (int i = 0; i < (int)sizeof(T) / 4; i++) {
        ((uint32_t *)&to)[i] = ((const uint32_t *)&from)[i];
        asm volatile("" : "+r"(((uint32_t *)&to)[i]));
    }
}

template <typename T, int WAY>
__device__ __forceinline__ void
read_operand(const fused_args &args, int operand, const position<WAY> &at,
             const kept_inputs<T, WAY> &kept, uint4 *own, T (&x)[N<T, WAY>], T (&other)[N<T, WAY>])
{
    if constexpr (WAY == FLAT_LONG) {
        if (operand == MYLIB_FUSED_KEPT)
            return copy_words(kept.x[0], x);
        if (operand == MYLIB_FUSED_KEPT + 1)
            return copy_words(kept.x[1], x);
    }
    if (operand < MYLIB_FUSED_REGISTER) {
        if constexpr (WAY == STREAMED)
            read_place<T, WAY>(place_of<T, WAY>(own, args.registers), x);
        else
            load_input<T>(args, operand - MYLIB_FUSED_DIRECT, at, x);
    } else if (operand < MYLIB_FUSED_CONSTANT) {
        read_place<T, WAY>(place_of<T, WAY>(own, operand - MYLIB_FUSED_REGISTER), x);
    } else if (operand < MYLIB_FUSED_CONVERTED) {
        uint4 value = *(const uint4 *)args.constant[operand - MYLIB_FUSED_CONSTANT];
#pragma unroll
        for (int v = 0; v < GROUPS<T, WAY>; v++)
            *(uint4 *)&x[v * G<T>] = value;
    } else if constexpr (HAS_CALLS<WAY>) {
        read_by_call(args, operand - MYLIB_FUSED_CONVERTED, at, own, x, other);
    } else if constexpr (WAY == NARROW) {
        read_narrow(args, operand - MYLIB_FUSED_CONVERTED, at, x);
    } else if constexpr (number_of<T>::value == MYLIB_F64 && WAY != STREAMED) {
        read_words(args, operand - MYLIB_FUSED_CONVERTED, at, x);
    }
}

/* Computes *x = opcode(*x, *y) for operations that are calls. */
template <typename T> __device__ __forceinline__ void call_one(int opcode, T *x, const T *y)
{
    switch (opcode) {
#define ROW(kind, op, set) \
    case MYLIB_OP_##op: \
        if constexpr (meaning<MYLIB_OP_##op, T>::is_defined && \
                      mylib_is_by_call(MYLIB_OP_##op, number_of<T>::value)) \
            *x = meaning<MYLIB_OP_##op, T>::apply(*x, *y); \
        break;
        MYLIB_ARITHMETIC(ROW)
#undef ROW
    }
}

/* Does the same for all elements of a thread. */
template <typename T, int WAY>
__device__ __noinline__ void call_costly(int opcode, uint4 *x, const uint4 *y)
{
#pragma unroll 1
    for (int i = 0; i < N<T, WAY>; i++) {
        int v = i / G<T> * (int)blockDim.x, j = i % G<T>;
        call_one(opcode, (T *)(x + v) + j, (const T *)(y + v) + j);
    }
}

template <typename T, int WAY>
__device__ __forceinline__ void call_with(const fused_args &args, int opcode, const uint4 *own,
                                          T (&x)[N<T, WAY>], const T (&y)[N<T, WAY>])
{
    uint4 *place = place_of<T, WAY>(own, args.registers);
    uint4 *other = place_of<T, WAY>(own, args.registers + 1);
    write_place<T, WAY>(place, x);
    write_place<T, WAY>(other, y);
    call_costly<T, WAY>(opcode, place, other);
    read_place<T, WAY>(place, x);
}

/*
 * The elements that a kernel computes: easy ones (functions.cuh), while a flag reports others; or
 * any, with functions one by one.
 */
enum { EASY, ANY };

/* For rare elements, where short code matters more than speed. */
template <typename T, int N, typename F>
__device__ __forceinline__ void apply_one_by_one(T (&x)[N], const T (&y)[N], F f)
{
#pragma unroll 1
    for (int i = 0; i < N; i++)
        x[i] = f(x[i], y[i]);
}

/* Operations with long code; beside functions also those that are rare there. */
template <int OP, int WAY>
constexpr bool HAS_LONG_CODE = OP == MYLIB_OP_fmod ||
                               (HAS_FUNCTIONS<WAY> &&
                                (OP == MYLIB_OP_divide || OP == MYLIB_OP_sqrt ||
                                 OP == MYLIB_OP_reciprocal || OP == MYLIB_OP_nextafter));

/*
 * Computes x[i] = f(x[i], y[i]) for some elements at a time, where all of them would need too many
 * registers or much code.  They take turns in the first places.
 */
template <int AT_ONCE, typename T, int N, typename F>
__device__ __forceinline__ void apply_in_turn(T (&x)[N], const T (&y)[N], F f)
{
    if constexpr (N <= AT_ONCE) {
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] = f(x[i], y[i]);
    } else {
        T b[N], own[AT_ONCE];
        memcpy(b, y, sizeof b);
#pragma unroll 1
        for (int done = 0; done < N; done += AT_ONCE) {
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
                own[i] = f(x[i], b[i]);
#pragma unroll
            for (int i = 0; i < N - AT_ONCE; i++) {
                x[i] = x[i + AT_ONCE];
                b[i] = b[i + AT_ONCE];
            }
            memcpy(x + N - AT_ONCE, own, sizeof own);
        }
    }
}

/* Computes x[i] = opcode(x[i], y[i]); returns false for operations that are calls. */
template <int WAY, int WHICH, typename T, int N>
__device__ __forceinline__ bool step_in_line(int opcode, T (&x)[N], const T (&y)[N], bool &is_hard)
{
    switch (opcode) {
#define ROW(kind, op, set) \
    case MYLIB_OP_##op: \
        if constexpr (mylib_is_by_call(MYLIB_OP_##op, number_of<T>::value)) { \
            return false; \
        } else if constexpr (!meaning<MYLIB_OP_##op, T>::is_defined) { \
        } else if constexpr (WHICH == ANY) { \
            apply_one_by_one(x, y, meaning<MYLIB_OP_##op, T>::apply); \
        } else if constexpr (HAS_LONG_CODE<MYLIB_OP_##op, WAY>) { \
            apply_in_turn<4>(x, y, meaning<MYLIB_OP_##op, T>::apply); \
        } else { \
            apply_all<MYLIB_OP_##op, true>(x, y); \
        } \
        break;
        MYLIB_ARITHMETIC(ROW)
#undef ROW
#define ROW(kind, op, set) \
    case MYLIB_OP_##op: \
        if constexpr (!HAS_FUNCTIONS<WAY> || !function<MYLIB_OP_##op, T>::is_defined) { \
        } else if constexpr (WHICH == ANY) { \
            apply_one_by_one(x, y, [](T a, T b) { \
                return convert<T>(function<MYLIB_OP_##op, T>::apply(a, b)); \
            }); \
        } else { \
            apply_in_turn<is_long<MYLIB_OP_##op> ? 8 : 4>(x, y, [&](T a, T b) { \
                return convert<T>(by_hardness<MYLIB_OP_##op, T>::easy(a, b, is_hard)); \
            }); \
        } \
        break;
        MYLIB_FUNCTIONS(ROW)
#undef ROW
    }
    return true;
}

/*
 * Computes x = OP(x, y) for a source of a quick statement: its bits begin at bit SOURCE, the number
 * of a constant at bit CONSTANT.
 */
template <int OP, int SOURCE, int CONSTANT, typename T>
__device__ __forceinline__ void run_quick_op(const fused_args &args, uint32_t statement,
                                             const kept_inputs<T, FLAT_LONG> &kept,
                                             T (&x)[N<T, FLAT_LONG>])
{
    if (statement & MYLIB_FUSED_QUICK_CONSTANT << SOURCE) {
        const int constant = (anew(statement) >> CONSTANT & 255) - MYLIB_FUSED_CONSTANT;
        const T value = *(const T *)args.constant[constant];
#pragma unroll
        for (int i = 0; i < N<T, FLAT_LONG>; i++)
            x[i] = meaning<OP, T>::apply(x[i], value);
    } else if (statement & 1 << SOURCE) {
#pragma unroll
        for (int i = 0; i < N<T, FLAT_LONG>; i++)
            x[i] = meaning<OP, T>::apply(x[i], kept.x[1][i]);
    } else {
#pragma unroll
        for (int i = 0; i < N<T, FLAT_LONG>; i++)
            x[i] = meaning<OP, T>::apply(x[i], kept.x[0][i]);
    }
}

/* Runs a quick statement: a few branches on its bits wait less than a jump table. */
template <typename T>
__device__ __forceinline__ void run_quick(const fused_args &args, uint32_t statement,
                                          const kept_inputs<T, FLAT_LONG> &kept,
                                          T (&x)[N<T, FLAT_LONG>])
{
    if (statement & MYLIB_FUSED_QUICK_PAIR) {
        run_quick_op<MYLIB_OP_multiply, 0, 16>(args, statement, kept, x);
        run_quick_op<MYLIB_OP_add, MYLIB_FUSED_QUICK_SECOND, 8>(args, statement, kept, x);
    } else if (statement & MYLIB_FUSED_QUICK(MYLIB_OP_multiply, 0))
        run_quick_op<MYLIB_OP_multiply, 0, 16>(args, statement, kept, x);
    else if (statement & MYLIB_FUSED_QUICK(MYLIB_OP_subtract, 0))
        run_quick_op<MYLIB_OP_subtract, 0, 16>(args, statement, kept, x);
    else
        run_quick_op<MYLIB_OP_add, 0, 16>(args, statement, kept, x);
}

/*
 * Runs the quick statements from a byte of the arguments on; returns the next one that is not
 * quick. A statement is loaded before its predecessor runs; two variables take turns, so that no
 * copy is needed.
 */
template <typename T>
__device__ __forceinline__ uint32_t run_quick_ones(const fused_args &args, int &at_byte,
                                                   const kept_inputs<T, FLAT_LONG> &kept,
                                                   T (&x)[N<T, FLAT_LONG>])
{
    const auto load = [&](int place) {
        return (uint32_t)anew(*(const uint32_t *)((const char *)&args + place));
    };
    const auto is_quick = [](uint32_t bits) { return bits >> 24 == MYLIB_FUSED_IS_QUICK; };
    uint32_t first = load(at_byte);
#pragma unroll 1
    while (is_quick(first)) {
        const uint32_t second = load(at_byte + 4);
        run_quick(args, first, kept, x);
        at_byte += 4;
        if (!is_quick(second))
            return second;
        first = load(at_byte + 4);
        run_quick(args, second, kept, x);
        at_byte += 4;
    }
    return first;
}

/*
 * Computes x = OP(x, y) for a source of a quick statement: the number of a constant is at bit
 * CONSTANT.
 */
template <int OP, int SOURCE, int CONSTANT, typename T>
__device__ __forceinline__ void run_chain_op(const fused_args &args, uint32_t statement,
                                             const kept_inputs<T, FLAT_CHAIN> &kept,
                                             T (&x)[N<T, FLAT_CHAIN>])
{
    if constexpr (SOURCE == MYLIB_FUSED_QUICK_CONSTANT) {
        typedef typename bits_of<sizeof(T) < 4 ? 4 : sizeof(T)>::type word;
        alignas(16) T y[N<T, FLAT_CHAIN>];
        const int constant = (anew(statement) >> CONSTANT & 255) - MYLIB_FUSED_CONSTANT;
        const word value = *(const word *)args.constant[constant];
#pragma unroll
        for (int i = 0; i < (int)(sizeof y / sizeof value); i++)
            ((word *)y)[i] = value;
        apply_all<OP, true>(x, y);
    } else {
        apply_all<OP, true>(x, kept.x[SOURCE]);
    }
}

enum { ALONE = -1 }; /* no second operation */

/*
 * Runs a quick statement, of one product or sum, or a product and a sum from SECOND, and those
 * alike that follow: a loop without decoding.  Loads each statement before its predecessor runs;
 * returns the first one that differs.
 */
template <int OP, int SOURCE, int SECOND, typename T>
__device__ __forceinline__ uint32_t run_alike(const fused_args &args, uint32_t statement,
                                              int &at_byte, const kept_inputs<T, FLAT_CHAIN> &kept,
                                              T (&x)[N<T, FLAT_CHAIN>])
{
#pragma unroll 1
    for (;;) {
        at_byte += sizeof statement;
        const uint32_t next = anew(*(const uint32_t *)((const char *)&args + at_byte));
        run_chain_op<OP, SOURCE, 16>(args, statement, kept, x);
        if constexpr (SECOND != ALONE)
            run_chain_op<MYLIB_OP_add, SECOND, 8>(args, statement, kept, x);
        if (((next ^ statement) & 0xff0000ff) != 0) /* the opcode, or IS_QUICK */
            return next;
        statement = next;
    }
}

/* Chooses the loop by a few branches on bits, which wait less than a jump table. */
template <int OP, int SECOND, typename T>
__device__ __forceinline__ uint32_t run_from(const fused_args &args, uint32_t statement,
                                             int &at_byte, const kept_inputs<T, FLAT_CHAIN> &kept,
                                             T (&x)[N<T, FLAT_CHAIN>])
{
    if (statement & MYLIB_FUSED_QUICK_CONSTANT)
        return run_alike<OP, MYLIB_FUSED_QUICK_CONSTANT, SECOND>(args, statement, at_byte, kept, x);
    if (statement & 1)
        return run_alike<OP, 1, SECOND>(args, statement, at_byte, kept, x);
    return run_alike<OP, 0, SECOND>(args, statement, at_byte, kept, x);
}

template <typename T>
__device__ __forceinline__ void
run_chain(const fused_args &args, const kept_inputs<T, FLAT_CHAIN> &kept, T (&x)[N<T, FLAT_CHAIN>])
{
    constexpr int CONSTANT = MYLIB_FUSED_QUICK_CONSTANT, SECOND = MYLIB_FUSED_QUICK_SECOND;
    constexpr int MULTIPLY = MYLIB_OP_multiply;
    int at_byte = offsetof(fused_args, statement);
    uint32_t next = anew(*(const uint32_t *)((const char *)&args + at_byte));
#pragma unroll 1
    while (next >> 24 == MYLIB_FUSED_IS_QUICK) {
        if (next & MYLIB_FUSED_QUICK_PAIR) {
            if (next & CONSTANT << SECOND)
                next = run_from<MULTIPLY, CONSTANT>(args, next, at_byte, kept, x);
            else if (next & 1 << SECOND)
                next = run_from<MULTIPLY, 1>(args, next, at_byte, kept, x);
            else
                next = run_from<MULTIPLY, 0>(args, next, at_byte, kept, x);
        } else if (next & MYLIB_FUSED_QUICK(MYLIB_OP_multiply, 0))
            next = run_from<MULTIPLY, ALONE>(args, next, at_byte, kept, x);
        else if (next & MYLIB_FUSED_QUICK(MYLIB_OP_subtract, 0))
            next = run_from<MYLIB_OP_subtract, ALONE>(args, next, at_byte, kept, x);
        else
            next = run_from<MYLIB_OP_add, ALONE>(args, next, at_byte, kept, x);
    }
}

template <typename T, typename R, int WAY>
__device__ __forceinline__ void write_result(const fused_args &args, const position<WAY> &at,
                                             const T (&x)[N<T, WAY>])
{
    typedef typename bits_of<G<T> * sizeof(R)>::type group;
    typedef typename bits_of<sizeof(R)>::type element;
    alignas(16) R r[N<T, WAY>];
#pragma unroll
    for (int i = 0; i < N<T, WAY>; i++)
        r[i] = convert<R>(x[i]);
    if constexpr (!IS_FLAT<WAY>) {
        char *p = first_of(args, at, 0);
#pragma unroll
        for (int i = 0; i < N<T, WAY>; i++, p += args.step[0])
            if (i < at.count)
                *(element *)p = *(const element *)&r[i];
    } else {
        char *p = args.data[0] + first_group<T, WAY>() * (int)(G<T> * sizeof(R));
        const int step = group_step<T>(sizeof(R));
        if (at.is_full) {
#pragma unroll
            for (int v = 0; v < GROUPS<T, WAY>; v++, p += step)
                __stcs((group *)p, *(const group *)&r[v * G<T>]);
        } else {
            const int64_t left = elements_left<T, WAY>(args), apart = step / (int)sizeof(R);
#pragma unroll
            for (int v = 0; v < GROUPS<T, WAY>; v++, p += step)
#pragma unroll
                for (int i = 0; i < G<T>; i++)
                    if (v * apart + i < left)
                        *((element *)p + i) = *(const element *)&r[v * G<T> + i];
        }
    }
}

/*
 * Thread blocks of a multiprocessor: enough of them to keep loads in flight, few enough that the
 * loop over statements holds all its values in registers.  Measured on an H200.
 */
constexpr int most_blocks(int blocks) { return MAX_BLOCKS < blocks ? MAX_BLOCKS : blocks; }
template <typename T, int WAY>
constexpr int BLOCKS = most_blocks(WAY == FLAT_LONG                                           ? 2
                                   : WAY == CALLS                                             ? 3
                                   : WAY == FLAT_CHAIN                                        ? 4
                                   : WAY == CALLS_AND_FUNCTIONS                               ? 4
                                   : WAY == SPACED && real_of<T>::is_complex                  ? 4
                                   : WAY == NARROW                                            ? 4
                                   : HAS_FUNCTIONS<WAY> && sizeof(T) == 4                     ? 3
                                   : WAY == FLAT_FUNCTIONS || (WAY == FLAT && sizeof(T) == 4) ? 6
                                                                                              : 5);
template <typename T, int WAY>
constexpr int REDUCED_BLOCKS = most_blocks(WAY == CALLS || sizeof(T) == 8 ? 3 : 4);

/* Runs the statements for a thread's elements; returns false if an element is not easy. */
template <int WHICH, typename T, int WAY>
__device__ __forceinline__ bool run_statements(const fused_args &args, const position<WAY> &at,
                                               const kept_inputs<T, WAY> &kept, uint4 *own,
                                               T (&x)[N<T, WAY>])
{
    bool is_hard = false;
    uint32_t bits;
    int at_byte = offsetof(fused_args, statement);
#pragma unroll 1
    for (int i = 0; WAY == FLAT_LONG || i < args.statements; i++) {
        if constexpr (WAY == FLAT_LONG) {
            bits = run_quick_ones(args, at_byte, kept, x);
            if (bits == MYLIB_FUSED_END)
                break;
            at_byte += sizeof bits;
        } else {
            memcpy(&bits, &args.statement[i], sizeof bits); /* one load */
        }
        const int opcode = bits & 255, first = bits >> 8 & 255, second = bits >> 16 & 255;
        alignas(16) T y[N<T, WAY>];
        if (second == MYLIB_FUSED_FORWARDED)
            copy_words(x, y);
        else if (second != MYLIB_FUSED_ABSENT)
            read_operand(args, second, at, kept, own, y, x);
        if (first != MYLIB_FUSED_FORWARDED)
            read_operand(args, first, at, kept, own, x, y);
        if (opcode < MYLIB_OP_COUNT) {
            const bool is_done = step_in_line<WAY, WHICH>(opcode, x, y, is_hard);
            if constexpr (HAS_CALLS<WAY>) {
                if (!is_done)
                    call_with<T, WAY>(args, opcode, own, x, y);
            }
        } else if (N<T, WAY> <= 32 && opcode == MYLIB_OPCODE_SET_MASK) {
            uint32_t set = 0;
#pragma unroll
            for (int j = 0; j < N<T, WAY>; j++)
                set |= (uint32_t)is_nonzero(y[j]) << j % 32;
            *mask_of<T, WAY>(args) = set;
        } else if (opcode == MYLIB_OPCODE_TEST) {
#pragma unroll
            for (int j = 0; j < N<T, WAY>; j++)
                x[j] = convert<T>(convert<t_bool>(x[j]));
        } else if (N<T, WAY> <= 32 && opcode == MYLIB_OPCODE_SELECT) {
            select(x, y, *mask_of<T, WAY>(args));
        }
        const int target = bits >> 24;
        if (target != MYLIB_FUSED_ABSENT)
            write_place<T, WAY>(place_of<T, WAY>(own, target - MYLIB_FUSED_REGISTER), x);
    }
    return !is_hard;
}

/*
 * Does the same for any elements; not inlined, so that kernels need registers only for easy ones.
 */
template <typename T, int WAY>
__device__ __noinline__ void run_again(const fused_args &args, position<WAY> at, T *results)
{
    alignas(16) T x[N<T, WAY>] = {};
    run_statements<ANY>(args, at, kept_inputs<T, WAY>(), fused_shared + threadIdx.x, x);
    memcpy(results, x, sizeof x);
}

template <typename T, int WAY>
__global__ void __launch_bounds__(MYLIB_FUSED_MOST_THREADS, BLOCKS<T, WAY>)
    fused_kernel(const __grid_constant__ fused_args args)
{
    alignas(16) T x[N<T, WAY>] = {};
    uint4 *own = fused_shared + threadIdx.x;
    position<WAY> at;
    wait_for_previous();
    if constexpr (IS_FLAT<WAY>) {
        if (elements_left<T, WAY>(args) <= 0)
            return;
        int full =
            elements_left<T, WAY>(args) >= (int)((GROUPS<T, WAY> - 1) * blockDim.x + 1) * G<T>;
        asm volatile("" : "+r"(full));
        at.is_full = full != 0;
    } else {
        at.count = mylib_fused_spaced(&args, (int32_t)blockIdx.x, (int32_t)threadIdx.x, N<T, WAY>,
                                      &at.row, &at.column);
        if (at.count == 0)
            return;
    }
    kept_inputs<T, WAY> kept;
    /* All these loads are in flight at the same time. */
    if constexpr (WAY == FLAT_LONG || WAY == FLAT_CHAIN) {
        if (args.begun != MYLIB_FUSED_ABSENT)
            load_input<T>(args, args.begun, at, x);
#pragma unroll
        for (int k = 0; k < MYLIB_FUSED_MAX_KEPT; k++)
            if (args.kept[k] != MYLIB_FUSED_ABSENT)
                load_input<T>(args, args.kept[k], at, kept.x[k]);
    }
    bool is_easy = true;
    if constexpr (WAY == FLAT_CHAIN)
        run_chain(args, kept, x);
    else
        is_easy = run_statements<EASY>(args, at, kept, own, x);
    if constexpr (HAS_FUNCTIONS<WAY>)
        if (!is_easy) {
            alignas(16) T results[N<T, WAY>]; /* x itself would be spilled */
            run_again<T, WAY>(args, at, results);
            memcpy(x, results, sizeof x);
        }
    if (args.result_type == number_of<T>::value)
        write_result<T, T>(args, at, x);
    else if (args.result_type == MYLIB_BOOL)
        write_result<T, t_bool>(args, at, x);
    else if constexpr (real_of<T>::is_complex)
        write_result<T, typename real_of<T>::type>(args, at, x);
    else if constexpr (WAY == NARROW)
        switch (args.result_type) {
#define DT(s, S) \
    case MYLIB_##S: \
        if constexpr (sizeof(t_##s) <= 2 && class_of<t_##s>::value != BOOL) \
            write_result<T, t_##s>(args, at, x); \
        break;
            MYLIB_STORED_TYPES(DT)
#undef DT
        }
}

/* ---- Reductions of such programs ---- */

/*
 * A thread's elements are the terms of a lane, one row of lanes after the other, of one or two
 * blocks of terms.  Terms beyond the end count as the identity.  Between rounds of a thread block,
 * the results of lanes wait in shared memory.
 *
 * - Along: the threads are adjacent lanes.  A warp reduces the lanes of a block; one thread reduces
 *   the blocks of a thread block, which are an aligned group of 2^k.
 * - Across: the threads of a warp are adjacent outputs, and each walks through lanes in the order
 *   of the tree; 2^k warps share outputs, and each has every 2^k-th lane.
 * - Short: a thread block computes all terms of some outputs into a tile; a few threads reduce each
 *   output.  A thread's elements lie at equal distances in the tile.
 */

template <typename T, int WAY> constexpr int BLOCKS_AT_ONCE = N<T, WAY> / ROWS;

template <typename T, int WAY> __device__ __forceinline__ T *reduced_values(const fused_args &args)
{
    return (T *)(masks_of<T, WAY>(args) + blockDim.x);
}

/* Combines a thread's terms to its lane of each block. */
template <typename F, typename T, int NUMBER, int B>
__device__ __forceinline__ void combine_terms(F f, const T (&x)[NUMBER], T (&lane)[B])
{
#pragma unroll
    for (int i = 0; i < NUMBER; i++)
        lane[i / ROWS] = i % ROWS == 0 ? x[i] : f(lane[i / ROWS], x[i]);
}

/* Reduces the lanes of a block by a warp; thread 0 gets the result. */
template <typename F, typename T> __device__ __forceinline__ T reduce_lanes(F f, const T *lanes)
{
    T x[LANES / WARP][1];
#pragma unroll
    for (int v = 0; v < LANES / WARP; v++)
        x[v][0] = lanes[v * WARP + threadIdx.x % WARP];
    return reduce_vectors(f, x);
}

template <typename T, int WAY> __device__ __forceinline__ int blocks_of_part(const fused_args &args)
{
    const int most = args.sets * BLOCKS_AT_ONCE<T, WAY>;
    const int64_t left = args.columns - (int64_t)blockIdx.y * most * TERMS;
    return left < (int64_t)most * TERMS ? ((int)left + TERMS - 1) / TERMS : most;
}

/* The warps that share outputs, across. */
struct sharing {
    int sub, steps; /* the warp's number among those that share; steps of the tree over its lanes */
    int32_t output;
    bool is_own; /* else the thread repeats the last output */
    __device__ __forceinline__ sharing(const fused_args &args)
    {
        const int t = anew(threadIdx.x), warp = t / WARP, bits = args.warp_bits;
        sub = warp & ((1 << bits) - 1);
        steps = args.lane_bits - bits;
        const int64_t wanted =
            ((int64_t)blockIdx.x * (blockDim.x / WARP >> bits) + (warp >> bits)) * WARP + t % WARP;
        is_own = wanted < args.walk.rows;
        output = is_own ? (int32_t)wanted : args.walk.rows - 1;
    }
};

template <typename T, int WAY>
__device__ __forceinline__ position<WAY> position_of_round(const fused_args &args, int round)
{
    position<WAY> at;
    int64_t left;
    int apart = LANES;
    if (args.reduced_way == MYLIB_FUSED_SHORT) {
        const int first = anew(threadIdx.x);
        const int32_t rows = mylib_fused_tile(&args, (int32_t)blockIdx.x);
        at.row = 0;
        at.column = (int64_t)blockIdx.x * args.walk.tile_rows * args.columns + first;
        left = rows * (int)args.columns - first;
        apart = blockDim.x;
    } else {
        int lane = round * (int)blockDim.x + anew(threadIdx.x);
        at.row = (int32_t)blockIdx.x;
        at.column = (int64_t)blockIdx.y * args.sets * (BLOCKS_AT_ONCE<T, WAY> * TERMS);
        if (args.reduced_way == MYLIB_FUSED_ACROSS) {
            const sharing own(args);
            lane = lane_of((unsigned)round, own.sub, own.steps, args.warp_bits);
            at.row = own.output;
        } else { /* all lanes are done: the next set of blocks */
            at.column += (int64_t)(lane / LANES) * (BLOCKS_AT_ONCE<T, WAY> * TERMS);
            lane %= LANES;
        }
        at.column += lane;
        left = args.columns - at.column;
    }
    at.count = left <= 0                        ? 0
               : left > (N<T, WAY> - 1) * apart ? N<T, WAY>
                                                : ((int)left - 1) / apart + 1;
    return at;
}

template <typename T, int WAY>
__device__ __forceinline__ void write_terms(const fused_args &args, int count,
                                            const T (&x)[N<T, WAY>])
{
    char *tile = (char *)reduced_values<T, WAY>(args);
    uint32_t at = threadIdx.x;
#pragma unroll
    for (int i = 0; i < N<T, WAY>; i++, at += blockDim.x)
        if (i < count)
            *(T *)(tile + at * (int)sizeof(T) + (at * args.row_factor >> 20) * args.gap) = x[i];
}

template <typename T>
__device__ __forceinline__ void store_part(const fused_args &args, int32_t output, T value)
{
    *(T *)(args.data[0] + blockIdx.y * args.part_stride + mylib_fused_row(&args, 0, output)) =
        value;
}

/* Short: reduces the outputs of a tile; `values` are their terms. */
template <typename F, typename T>
__device__ __forceinline__ void reduce_tile(F f, const fused_args &args, int32_t tile,
                                            const T *values)
{
    const int bits = args.lane_bits, lanes = 1 << bits, s = (int)threadIdx.x & (lanes - 1);
    const int together = (int)blockDim.x >> bits, size = sizeof(T), columns = (int)args.columns;
    const int pitch = columns * size + args.gap, count = (columns - s + lanes - 1) >> bits;
    const int32_t rows = mylib_fused_tile(&args, tile);
    const int64_t stride = args.row_stride[0][0];
    int row = (int)threadIdx.x >> bits;
    char *out = args.data[0] + ((int64_t)tile * args.walk.tile_rows + row) * stride;
    if (columns <= 4) { /* an output for each thread */
        const char *p = (const char *)values + row * pitch;
#pragma unroll 1
        for (; row < rows; row += together, p += together * pitch, out += together * stride)
            *(T *)out = reduce_few<4, 1, T, F, T>(f, evenly{p, size}, columns);
        return;
    }
#pragma unroll 1
    for (int r = 0; r < rows; r += together, row += together, out += together * stride) {
        const int row_of_tile = row < rows ? row : rows - 1;
        const evenly place = {(const char *)values + row_of_tile * pitch + s * size, size << bits};
        T value = columns > LANES ? reduce_few<8, 8, T, F, T>(f, place, count)
                                  : reduce_few<8, 4, T, F, T>(f, place, count);
#pragma unroll 1
        for (int half = lanes / 2; half > 0; half /= 2)
            value = combine_pair(f, value, half);
        if (s == 0 && row < rows)
            *(T *)out = value;
    }
}

/*
 * Across: merges as a binary counter carries; value k waits for the result of the next 2^k lanes.
 * After the last round the last value is the result of all.
 */
template <typename F, typename T, int B>
__device__ __forceinline__ void count_lane(F f, T *values, int round, T (&lane)[B])
{
    values += threadIdx.x;
#pragma unroll 1
    for (; round & 1; round >>= 1, values += B * blockDim.x)
#pragma unroll
        for (int b = 0; b < B; b++)
            lane[b] = f(values[b * blockDim.x], lane[b]);
#pragma unroll
    for (int b = 0; b < B; b++)
        values[b * blockDim.x] = lane[b];
}
template <typename F, typename T, int B>
__device__ __forceinline__ void finish_across(F f, const fused_args &args, T *values)
{
    const sharing own(args);
    values += own.steps * B * (int)blockDim.x + threadIdx.x;
#pragma unroll 1
    for (int half = 1 << args.warp_bits >> 1; half > 0; half >>= 1) {
#pragma unroll
        for (int b = 0; b < B && own.sub < half; b++) {
            T *value = values + b * (int)blockDim.x;
            *value = f(*value, value[half * WARP]);
        }
        __syncthreads();
    }
    if (own.sub != 0 || !own.is_own)
        return;
    T value = values[0]; /* a second block without terms has the identity */
#pragma unroll
    for (int b = 1; b < B; b++)
        value = f(value, values[b * (int)blockDim.x]);
    store_part(args, own.output, value);
}

/* Along: keeps the lanes of some blocks; a warp reduces each block when it is complete. */
template <typename F, typename T, int B>
__device__ __forceinline__ void keep_lane(F f, T *values, int round, int rounds, const T (&lane)[B])
{
    constexpr int KEPT = MYLIB_FUSED_KEPT_BLOCKS;
    const int at = round * (int)blockDim.x + (int)threadIdx.x, block = at / LANES * B;
    const int first = block % KEPT;
    T *results = values + KEPT * LANES + block - first;
#pragma unroll
    for (int b = 0; b < B; b++)
        values[(first + b) * LANES + at % LANES] = lane[b];
    if ((round + 1) * (int)blockDim.x % (LANES * KEPT / B) != 0 && round + 1 < rounds)
        return;
    __syncthreads();
#pragma unroll 1
    for (int b = threadIdx.x / WARP; b < first + B; b += blockDim.x / WARP) {
        const T value = reduce_lanes(f, values + b * LANES);
        if (threadIdx.x % WARP == 0)
            results[b] = value;
    }
    __syncthreads();
}

template <typename T, int WAY>
__global__ void __launch_bounds__(MYLIB_FUSED_MOST_THREADS, REDUCED_BLOCKS<T, WAY>)
    reduced_kernel(const __grid_constant__ fused_args args)
{
    constexpr int B = BLOCKS_AT_ONCE<T, WAY>;
    const combine_any f(args.reduction);
    alignas(16) T x[N<T, WAY>] = {};
    uint4 *own = fused_shared + threadIdx.x;
    T *const values = reduced_values<T, WAY>(args);
    int rounds = args.rounds;
    wait_for_previous();
    if (args.reduced_way == MYLIB_FUSED_ALONG) /* for all lanes of each set */
        rounds = (blocks_of_part<T, WAY>(args) + B - 1) / B * (LANES / (int)blockDim.x);
#pragma unroll 1
    for (int round = 0; round < rounds; round++) {
        const position<WAY> at = position_of_round<T, WAY>(args, round);
        if (at.count > 0)
            run_statements<EASY>(args, at, kept_inputs<T, WAY>(), own, x);
        if (args.reduced_way == MYLIB_FUSED_SHORT) {
            write_terms<T, WAY>(args, at.count, x);
            break;
        }
        T lane[B];
        const T nothing = with_reduction(
            args.reduction, [](auto known) { return identity<decltype(known)::REDUCTION, T>(); });
#pragma unroll
        for (int i = 0; i < N<T, WAY>; i++)
            x[i] = i < at.count ? x[i] : nothing;
        with_reduction(args.reduction, [&](auto known) { combine_terms(known, x, lane); });
        if (args.reduced_way == MYLIB_FUSED_ACROSS)
            count_lane(f, values, round, lane);
        else
            keep_lane(f, values, round, rounds, lane);
    }
    __syncthreads();
    if (args.reduced_way == MYLIB_FUSED_SHORT) {
        with_reduction(args.reduction,
                       [&](auto known) { reduce_tile(known, args, (int32_t)blockIdx.x, values); });
    } else if (args.reduced_way == MYLIB_FUSED_ACROSS) {
        finish_across<combine_any, T, B>(f, args, values);
    } else if (threadIdx.x == 0) {
        T *results = values + MYLIB_FUSED_KEPT_BLOCKS * LANES;
        reduce_pairwise(f, results, blocks_of_part<T, WAY>(args));
        store_part(args, (int32_t)blockIdx.x, results[0]);
    }
}

/* ---- Streamed reductions ---- */

/*
 * A thread copies its next groups of the input to shared memory, and meanwhile reduces those
 * before.  A thread block has some tiles of outputs, one after the other:
 *
 * - Short: as above, except that a thread has groups of adjacent terms.
 * - Along: a warp has an output, whose terms are one block; a thread has groups of adjacent lanes.
 */

/* Begins to copy the first `nbytes` of a group to shared memory. */
__device__ __forceinline__ void copy_group(uint4 *to, const char *from, int nbytes)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(nbytes)
                 : "memory");
#else
    memcpy(to, __builtin_assume_aligned(from, 16), (size_t)nbytes);
#endif
}

/* Waits for the groups that the thread copies. */
__device__ __forceinline__ void wait_for_copies()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/* Begins to copy a thread's groups of a tile; along, those after `done` terms of each output. */
template <typename T>
__device__ __forceinline__ void copy_ahead(const fused_args &args, int32_t tile, int done)
{
    constexpr int SIZE = sizeof(T), LAST = GROUPS<T, STREAMED> - 1;
    const int thread = anew(threadIdx.x), columns = (int)args.columns;
    const int rows = mylib_fused_tile(&args, tile), k = args.streamed;
    int32_t row = tile * args.walk.tile_rows;
    int first = thread * G<T>, end = rows * columns, apart = (int)blockDim.x * G<T>;
    if (args.reduced_way == MYLIB_FUSED_ALONG) {
        first = done + thread % WARP * G<T>;
        end = thread / WARP < rows ? columns : 0;
        apart = WARP * G<T>;
        row += thread / WARP;
    }
    const char *p = args.data[k] + mylib_fused_row(&args, k, row) + first * SIZE;
    uint4 *place = place_of<T, STREAMED>(fused_shared + threadIdx.x, args.registers);
    if (first + LAST * apart + G<T> <= end) {
#pragma unroll
        for (int v = 0; v <= LAST; v++)
            copy_group(place + v * blockDim.x, p + v * apart * SIZE, 16);
    } else {
#pragma unroll
        for (int v = 0; v <= LAST; v++) {
            const int nbytes = (end - first - v * apart) * SIZE;
            copy_group(place + v * blockDim.x, p + v * apart * SIZE,
                       nbytes < 0    ? 0
                       : nbytes < 16 ? nbytes
                                     : 16);
        }
    }
}

/* Short: writes a thread's groups of terms to the tile. */
template <typename T>
__device__ __forceinline__ void write_groups(const fused_args &args, const T (&x)[N<T, STREAMED>])
{
    char *tile = (char *)reduced_values<T, STREAMED>(args);
    uint32_t at = threadIdx.x;
#pragma unroll
    for (int v = 0; v < GROUPS<T, STREAMED>; v++, at += blockDim.x)
        *(uint4 *)(tile + at * 16 + (at * args.row_factor >> 20) * args.gap) =
            *(const uint4 *)&x[v * G<T>];
}

/*
 * Along: combines a warp's terms after the first `done` ones with those, whose lanes wait in shared
 * memory; stores the result after the last term.
 */
template <typename F, typename T>
__device__ __forceinline__ void combine_groups(F f, const fused_args &args, int32_t tile, int done,
                                               T (&x)[N<T, STREAMED>])
{
    constexpr int V = LANES / (WARP * G<T>), TAKEN = WARP * N<T, STREAMED>;
    const int thread = (int)threadIdx.x, left = (int)args.columns - done;
    uint4 *place = place_of<T, STREAMED>(fused_shared + thread, args.registers + 1);
    alignas(16) T lanes[V][G<T>];
    if (left < TAKEN) {
#pragma unroll
        for (int i = 0; i < N<T, STREAMED>; i++)
            if ((i / G<T> * WARP + thread % WARP) * G<T> + i % G<T> >= left)
                x[i] = identity<F::REDUCTION, T>();
    }
#pragma unroll
    for (int v = 0; v < V; v++)
        *(uint4 *)lanes[v] = done == 0 ? *(const uint4 *)&x[v * G<T>] : place[v * blockDim.x];
#pragma unroll
    for (int i = 0; i < N<T, STREAMED>; i++) {
        T &lane = lanes[i / G<T> % V][i % G<T>];
        lane = done == 0 && i < V * G<T> ? lane : f(lane, x[i]);
    }
    if (left > TAKEN) {
#pragma unroll
        for (int v = 0; v < V; v++)
            place[v * blockDim.x] = *(const uint4 *)lanes[v];
        return;
    }
    const T value = reduce_vectors(f, lanes);
    if (thread % WARP == 0 && thread / WARP < mylib_fused_tile(&args, tile))
        store_part(args, tile * args.walk.tile_rows + thread / WARP, value);
}

template <typename T>
__global__ void __launch_bounds__(MYLIB_FUSED_STREAMED_THREADS, sizeof(T) == 4 ? 7 : 6)
    streamed_kernel(const __grid_constant__ fused_args args)
{
    const bool is_short = args.reduced_way == MYLIB_FUSED_SHORT;
    const int taken = is_short ? (int)args.columns : WARP * N<T, STREAMED>;
    alignas(16) T x[N<T, STREAMED>] = {};
    int32_t tile = (int32_t)blockIdx.x * args.rounds;
    int done = 0;
    bool is_last = false;
    wait_for_previous();
    copy_ahead<T>(args, tile, done);
#pragma unroll 1
    while (!is_last) {
        wait_for_copies();
        run_statements<EASY>(args, position<STREAMED>(), kept_inputs<T, STREAMED>(),
                             fused_shared + threadIdx.x, x);
        const int32_t now = tile;
        const int before = done;
        done = done + taken < args.columns ? done + taken : 0;
        tile += done == 0;
        is_last = done == 0 && (tile == args.walk.tiles || tile % args.rounds == 0);
        if (!is_last)
            copy_ahead<T>(args, tile, done);
        if (is_short) {
            write_groups<T>(args, x);
            __syncthreads();
            with_reduction(args.reduction, [&](auto known) {
                reduce_tile(known, args, now, reduced_values<T, STREAMED>(args));
            });
            __syncthreads();
        } else {
            with_reduction(args.reduction,
                           [&](auto known) { combine_groups(known, args, now, before, x); });
        }
    }
}

/* ---- Launches ---- */

/* Only f32 and f64 have reductions and functions. */
template <typename T> const void *kernel_of(const fused_args &args)
{
    const bool has_calls = args.spare > 0;
    if constexpr (IS_REAL<T>) {
        if (args.streamed)
            return (const void *)streamed_kernel<T>;
        if (args.is_reduced)
            return has_calls ? (const void *)reduced_kernel<T, CALLS>
                             : (const void *)reduced_kernel<T, SPACED>;
        if (args.has_functions)
            return has_calls      ? (const void *)fused_kernel<T, CALLS_AND_FUNCTIONS>
                   : args.is_flat ? (const void *)fused_kernel<T, FLAT_FUNCTIONS>
                                  : (const void *)fused_kernel<T, FUNCTIONS>;
    }
    if constexpr (!real_of<T>::is_complex)
        if (args.is_chain)
            return (const void *)fused_kernel<T, FLAT_CHAIN>;
    if constexpr (number_of<T>::value == MYLIB_F32)
        if (args.is_narrow)
            return (const void *)fused_kernel<T, NARROW>;
    return has_calls      ? (const void *)fused_kernel<T, CALLS>
           : args.is_long ? (const void *)fused_kernel<T, FLAT_LONG>
           : args.is_flat ? (const void *)fused_kernel<T, FLAT>
                          : (const void *)fused_kernel<T, SPACED>;
}

} // namespace

mylib_status mylib_cuda_launch_fused(const mylib_fused_args *args, void *stream)
{
    const void *kernel = NULL;
    switch (args->computed_type) {
#define DT(s, S) \
    case MYLIB_##S: \
        kernel = kernel_of<t_##s>(*args); \
        break;
        MYLIB_FUSED_TYPES(DT)
#undef DT
    }
    const int64_t parts = args->is_reduced ? mylib_fused_parts(args) : 1;
    const dim3 grid((unsigned)(mylib_fused_blocks(args) / parts), (unsigned)parts);
    const cudaError_t error =
        launch(kernel, grid, args->threads, args, (size_t)mylib_fused_shared(args), stream);
    return mylib_from_cuda(error, "cudaLaunchKernel", __FILE__, __LINE__);
}

void mylib_cuda_load_fused(void)
{
    cudaFuncAttributes attributes;
    /* Loading one kernel loads the code of all.  A failure here is reported by the launch. */
    if (cudaFuncGetAttributes(&attributes, (const void *)fused_kernel<t_f64, FLAT>) != cudaSuccess)
        (void)cudaGetLastError();
}
