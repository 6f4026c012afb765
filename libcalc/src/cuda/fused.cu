/*
 * fused.cu - programs of several statements in one pass; fused.h explains the design.
 *
 * A statement loads its second operand, then its first, into hardware registers, unless the
 * previous statement left its result there; its own result stays there too.  Threads diverge only
 * at the end of a row.
 */
#include <type_traits>

#include "functions.cuh"

#include "fused.h"

namespace
{

constexpr int GROUPS = MYLIB_FUSED_GROUPS;
typedef mylib_fused_args fused_args;
typedef mylib_fused_statement fused_statement;
constexpr int WORDS = MYLIB_FUSED_REGISTER_NBYTES / 4;
static_assert(GROUPS * 16 == MYLIB_FUSED_REGISTER_NBYTES, "a group of the widest type is a uint4");

/*
 * Returns the index of a thread's first group; the next one is blockDim.x further on.  Recomputed
 * at each use: it would hold registers.
 */
__device__ __forceinline__ int64_t first_group()
{
    return (int64_t)blockIdx.x * (blockDim.x * GROUPS) + (uint32_t)anew(threadIdx.x);
}

/*
 * Kinds of kernels: for any layout; for programs with functions, by groups, since functions leave
 * no registers for spaced elements; for vectors of one dimension; for a reduction of such vectors,
 * for each output.
 */
enum { ANY, FUNCTIONS, FLAT, REDUCED };

/*
 * Positions of a thread's groups; is_full if all of them are whole.  Of a spaced launch: the first
 * element's column, and its row and the number of elements; none is full.
 */
template <int WAY> struct position {
    int64_t group[GROUPS]; /* with two dimensions the upper half holds the row */
    bool is_full;
    __device__ __forceinline__ int count() const { return (int)(uint32_t)group[1]; }
};
template <> struct position<FLAT> {
    bool is_full;
};
template <> struct position<REDUCED> {
    int64_t term; /* first term of the first group; the next group is LANES further on */
    bool is_full;
};
constexpr int LANES = MYLIB_BLOCK_LANES, TERMS = MYLIB_BLOCK_TERMS;

template <int G, int WAY>
__device__ __forceinline__ position<WAY> position_of(const fused_args &args)
{
    position<WAY> at;
    if constexpr (WAY == FLAT) {
        int full = (first_group() + (GROUPS - 1) * blockDim.x + 1) * G <= args.columns;
        asm volatile("" : "+r"(full));
        at.is_full = full != 0;
    } else if (WAY == ANY && args.is_spaced) {
        int32_t row;
        int n = mylib_fused_spaced(&args, (int32_t)blockIdx.x, (int32_t)anew(threadIdx.x),
                                   G * GROUPS, &row, &at.group[0]);
        at.group[1] = (int64_t)row << 32 | n;
        at.is_full = false;
    } else {
        at.is_full = true;
#pragma unroll
        for (int v = 0; v < GROUPS; v++) {
            int32_t row;
            int64_t column;
            at.group[v] = first_group() + v * blockDim.x;
            at.is_full &= mylib_fused_group(&args, at.group[v], G, &row, &column) == G;
            if (args.ndim > 1)
                at.group[v] = (int64_t)row << 32 | column / G;
        }
    }
    return at;
}

/* Returns a thread block's first term. */
template <int G> __device__ __forceinline__ int64_t first_term(const fused_args &args)
{
    return (int64_t)anew(blockIdx.y) * (args.sets * (int)(blockDim.x * G / LANES) * TERMS);
}

/* Returns the address in operand k of the first term of the block's output. */
__device__ __forceinline__ char *terms_of(const fused_args &args, int k)
{
    return args.data[k] + (args.ndim == 1 ? 0 : blockIdx.x * args.strides[0][k]);
}

/* Finds the groups in operand k, which has elements of `size` bytes and at most two dimensions. */
template <int G, int WAY>
__device__ __forceinline__ void find_groups(const fused_args &args, const position<WAY> &at, int k,
                                            int size, char *(&p)[GROUPS])
{
#pragma unroll
    for (int v = 0; v < GROUPS; v++) {
        if constexpr (WAY == ANY || WAY == FUNCTIONS) {
            if (args.ndim > 1) {
                p[v] = args.data[k] + (at.group[v] >> 32) * args.strides[0][k] +
                       (uint64_t)(uint32_t)at.group[v] * (uint32_t)(G * size);
                continue;
            }
        }
        if constexpr (WAY == REDUCED)
            p[v] = v == 0 ? terms_of(args, k) + at.term * size : p[v - 1] + LANES * size;
        else
            p[v] = v == 0 ? args.data[k] + first_group() * (G * size)
                          : p[v - 1] + blockDim.x * (G * size);
    }
}

/* Tells whether find_groups() finds whole vectors in operand k. */
template <int WAY>
__device__ __forceinline__ bool has_groups(const fused_args &args, const position<WAY> &at, int k)
{
    return at.is_full && (WAY == FLAT || args.access[k] == MYLIB_FUSED_VECTOR);
}

/* Returns the address in operand k of a thread's first element of a spaced launch. */
__device__ __forceinline__ char *first_of(const fused_args &args, const position<ANY> &at, int k)
{
    return args.data[k] + mylib_fused_row(&args, k, (int32_t)(at.group[1] >> 32)) +
           at.group[0] * args.strides[args.ndim - 1][k];
}

/* Tells whether the launch has a thread's elements at all. */
template <int WAY>
__device__ __forceinline__ bool has_elements(const fused_args &args, const position<WAY> &at)
{
    if constexpr (WAY == ANY)
        if (args.is_spaced)
            return at.count() != 0;
    return first_group() < args.groups;
}

/*
 * Returns this thread's slot of a register in shared memory; its second group is blockDim.x further
 * on.  Two more slots follow the registers, for operations that are calls: values stay there during
 * a call, because calls preserve few hardware registers.
 */
__device__ __forceinline__ uint4 *place_of(const uint4 *own, int number)
{
    return (uint4 *)own + number * (int)(GROUPS * blockDim.x);
}

/* Returns the thread's slot of the mask, after all registers. */
extern __shared__ uint4 fused_shared[];
__device__ __forceinline__ uint32_t *mask_of(const fused_args &args)
{
    uint32_t *first =
        (uint32_t *)place_of(fused_shared, args.registers + MYLIB_FUSED_SPARE_REGISTERS);
    return first + threadIdx.x;
}

__device__ __forceinline__ int size_of(int type)
{
    switch (type) {
#define DT(s, S)                                                                                   \
    case MYLIB_##S:                                                                                \
        return sizeof(t_##s);
        MYLIB_STORED_TYPES(DT)
#undef DT
    }
    return 0;
}

#define EACH_SIZE(CASE) CASE(1) CASE(2) CASE(4) CASE(8) CASE(16)

/*
 * Loads up to two groups of G elements of `size` bytes, which lie `step` apart, and packs each in a
 * uint4.  Not inlined, and all parameters are values: so the common path keeps its registers.
 */
template <int G>
__device__ __noinline__ void gather(const char *p, int64_t step, int count, int size, uint4 *place)
{
#pragma unroll 1
    for (; count > 0; count -= G, place += blockDim.x) {
        switch (size) {
#define CASE(nbytes)                                                                               \
    case nbytes:                                                                                   \
        if constexpr (G * nbytes <= 16) {                                                          \
            typedef typename bits_of<nbytes>::type element;                                        \
            alignas(16) element x[G];                                                              \
            _Pragma("unroll") for (int i = 0; i < G; i++, p += step) if (i < count) x[i] =         \
                *(const element *)p;                                                               \
            *(typename bits_of<G * nbytes>::type *)place =                                         \
                *(const typename bits_of<G * nbytes>::type *)x;                                    \
        }                                                                                          \
        break;
            EACH_SIZE(CASE)
#undef CASE
        }
    }
}

/* Stores them so. */
template <int G>
__device__ __noinline__ void scatter(char *p, int64_t step, int count, int size, const uint4 *place)
{
#pragma unroll 1
    for (; count > 0; count -= G, place += blockDim.x) {
        switch (size) {
#define CASE(nbytes)                                                                               \
    case nbytes:                                                                                   \
        if constexpr (G * nbytes <= 16) {                                                          \
            typedef typename bits_of<nbytes>::type element;                                        \
            _Pragma("unroll") for (int i = 0; i < G; i++, p += step) if (i < count) *              \
                (element *)p = ((const element *)place)[i];                                        \
        }                                                                                          \
        break;
            EACH_SIZE(CASE)
#undef CASE
        }
    }
}

/*
 * Calls f(first, p, step, n) for each part of a thread's elements in operand k: n elements from
 * number `first` on lie at p, `step` apart.
 */
template <int G, int WAY, typename F>
__device__ __forceinline__ void each_part(const fused_args &args, const position<WAY> &at, int k,
                                          const F &f)
{
    if constexpr (WAY == ANY) {
        if (args.is_spaced) {
            f(0, first_of(args, at, k), args.step[k], at.count());
            return;
        }
    }
    const int64_t step = args.strides[args.ndim - 1][k]; /* 0 for a SINGLE */
#pragma unroll 1
    for (int v = 0; v < GROUPS; v++) {
        int32_t row;
        int64_t column, group = first_group() + v * (int)blockDim.x;
        const int n = mylib_fused_group(&args, group, G, &row, &column);
        f(v * G, args.data[k] + mylib_fused_row(&args, k, row) + column * step, step, n);
    }
}

/* ---- Programs of one type ------------------------------------------------------------------ */

template <typename T> struct single {
    static constexpr int G = MYLIB_FUSED_GROUP(sizeof(T)), N = G * GROUPS;
};

template <typename T>
__device__ __forceinline__ void read_place(const uint4 *place, T (&x)[single<T>::N])
{
#pragma unroll
    for (int v = 0; v < GROUPS; v++)
        *(uint4 *)&x[v * single<T>::G] = place[v * blockDim.x];
}
template <typename T>
__device__ __forceinline__ void write_place(uint4 *place, const T (&x)[single<T>::N])
{
#pragma unroll
    for (int v = 0; v < GROUPS; v++)
        place[v * blockDim.x] = *(const uint4 *)&x[v * single<T>::G];
}

/*
 * Converts whole groups, the first at p and the next ones `step` bytes further on, into the
 * thread's slot; returns false if the type is not promoted to T.  All parameters are values: a
 * pointer to the kernel's arguments would force them into memory.
 */
template <typename T>
__device__ __noinline__ bool convert_groups(int type, const char *p, int step, uint4 *place)
{
    constexpr int G = single<T>::G;
    switch (type) {
#define DT(s, S)                                                                                   \
    case MYLIB_##S:                                                                                \
        if constexpr (is_promoted<T, t_##s>()) {                                                   \
            typedef typename bits_of<sizeof(t_##s) * G>::type bits;                                \
            alignas(16) t_##s values[single<T>::N];                                                \
            alignas(16) T x[single<T>::N];                                                         \
            _Pragma("unroll") for (int v = 0; v < GROUPS; v++) * (bits *)&values[v * G] =          \
                *(const bits *)(p + v * step);                                                     \
            _Pragma("unroll") for (int i = 0; i < single<T>::N; i++) x[i] = convert<T>(values[i]); \
            write_place(place, x);                                                                 \
            return true;                                                                           \
        }                                                                                          \
        return false;
        MYLIB_STORED_TYPES(DT)
#undef DT
    }
    return false;
}

/*
 * Reads and converts groups of any type, whole ones or not, into the thread's slot.  Not inlined,
 * so that the common path keeps its registers.
 */
template <typename T>
__device__ __noinline__ void read_input(const fused_args &args, int input, uint4 *place)
{
    constexpr int G = single<T>::G;
    int k = 1 + input, type = args.input_type[input];
    if (args.access[k] == MYLIB_FUSED_VECTOR) {
        const position<FUNCTIONS> at = position_of<G, FUNCTIONS>(args);
        int size = (int)args.strides[args.ndim - 1][k], step = blockDim.x * G * size;
        char *p[GROUPS];
        find_groups<G>(args, at, k, size, p);
        if (at.is_full && p[GROUPS - 1] - p[0] == (GROUPS - 1) * step &&
            convert_groups<T>(type, p[0], step, place))
            return;
    }
    int64_t step = args.strides[args.ndim - 1][k]; /* 0 for a SINGLE */
#pragma unroll 1
    for (int v = 0; v < GROUPS; v++, place += blockDim.x) {
        int32_t row;
        int64_t column;
        int n = mylib_fused_group(&args, first_group() + v * blockDim.x, G, &row, &column);
        const char *p = args.data[k] + mylib_fused_row(&args, k, row) + column * step;
        if (type == number_of<T>::value) {
#pragma unroll
            for (int i = 0; i < G; i++)
                if (i < n)
                    ((T *)place)[i] = load_element<T>(p + i * step);
            continue;
        }
#pragma unroll 1
        for (int i = 0; i < n; i++, p += step)
            ((T *)place)[i] = load_as<T>(type, p);
    }
}

/* Reads a spaced input of any type into the thread's slot. */
template <typename T>
__device__ __noinline__ void read_spaced(const char *p, int64_t step, int count, int type,
                                         uint4 *place)
{
    constexpr int G = single<T>::G;
    const int size = size_of(type);
    if (G * size <= 16) {
        gather<G>(p, step, count, size, place);
        if (type == number_of<T>::value ||
            convert_groups<T>(type, (const char *)place, 16 * (int)blockDim.x, place))
            return;
    }
#pragma unroll 1
    for (int i = 0; i < count; i++, p += step)
        ((T *)(place + i / G * blockDim.x))[i % G] = load_as<T>(type, p);
}

/* Reads the last terms of a reduction. */
template <typename T>
__device__ __noinline__ void read_terms(const char *p, int type, int step, int64_t left,
                                        uint4 *place)
{
#pragma unroll 1
    for (int v = 0; v < GROUPS; v++, place += blockDim.x, p += LANES * step)
#pragma unroll 1
        for (int i = 0; i < single<T>::G && v * LANES + i < left; i++)
            ((T *)place)[i] = load_as<T>(type, p + i * step);
}

/*
 * Reads whole groups of i32 or f32 in a program of f64; returns false for other types.  Only these
 * common conversions are inlined: more would need too many registers.
 */
template <typename T, int WAY>
__device__ __forceinline__ bool read_words(const fused_args &args, int k, const position<WAY> &at,
                                           T (&x)[single<T>::N])
{
    if constexpr (number_of<T>::value == MYLIB_F64) {
        constexpr int G = single<T>::G;
        int type = args.input_type[k - 1];
        if (type != MYLIB_I32 && type != MYLIB_F32)
            return false;
        uint32_t words[single<T>::N];
        char *p[GROUPS];
        find_groups<G>(args, at, k, 4, p);
#pragma unroll
        for (int v = 0; v < GROUPS; v++)
            *(uint2 *)&words[v * G] = *(const uint2 *)p[v];
#pragma unroll
        for (int i = 0; i < single<T>::N; i++) {
            t_f32 value;
            memcpy(&value, &words[i], sizeof value);
            x[i] = type == MYLIB_I32 ? convert<T>((t_i32)words[i]) : convert<T>(value);
        }
        return true;
    }
    return false;
}

/* Reads an operand into x and keeps `other`. */
template <typename T, int WAY>
__device__ __forceinline__ void read_operand(const fused_args &args, int operand,
                                             const position<WAY> &at, uint4 *own,
                                             T (&x)[single<T>::N], T (&other)[single<T>::N])
{
    constexpr int G = single<T>::G;
    if (operand >= MYLIB_FUSED_VECTOR_INPUT && at.is_full) {
        char *p[GROUPS];
        find_groups<G>(args, at, 1 + operand - MYLIB_FUSED_VECTOR_INPUT, sizeof(T), p);
#pragma unroll
        for (int v = 0; v < GROUPS; v++)
            *(uint4 *)&x[v * G] = *(const uint4 *)p[v];
    } else if (operand >= MYLIB_FUSED_REGISTER && operand < MYLIB_FUSED_VECTOR_INPUT) {
        read_place(place_of(own, operand - MYLIB_FUSED_REGISTER), x);
    } else if (operand >= MYLIB_FUSED_CONSTANT && operand < MYLIB_FUSED_REGISTER) {
        uint4 value = *(const uint4 *)args.constant[operand - MYLIB_FUSED_CONSTANT];
#pragma unroll
        for (int v = 0; v < GROUPS; v++)
            *(uint4 *)&x[v * G] = value;
    } else {
        int input = mylib_fused_input(operand), k = 1 + input, type = args.input_type[input];
        if constexpr (WAY == ANY) {
            if (args.is_spaced && type == number_of<T>::value) {
                const char *p = first_of(args, at, k);
                const int64_t step = args.step[k];
#pragma unroll
                for (int i = 0; i < single<T>::N; i++, p += step)
                    if (i < at.count())
                        x[i] = load_element<T>(p);
                return;
            }
        } else if constexpr (WAY != FUNCTIONS) {
            if (at.is_full && read_words(args, k, at, x))
                return;
        }
        uint4 *place = place_of(own, args.registers + 1);
        write_place(place_of(own, args.registers), other);
        bool is_done = false;
        if ((WAY == FLAT || WAY == REDUCED) && at.is_full) {
            int size = (int)args.strides[args.ndim - 1][k];
            char *p[GROUPS];
            find_groups<G>(args, at, k, size, p);
            is_done = convert_groups<T>(type, p[0], (int)(p[1] - p[0]), place);
        }
        if (!is_done) {
            if constexpr (WAY == REDUCED) {
                int size = (int)args.strides[args.ndim - 1][k];
                read_terms<T>(terms_of(args, k) + at.term * size, type, size,
                              args.columns - at.term, place);
            } else if constexpr (WAY == ANY) {
                if (args.is_spaced)
                    read_spaced<T>(first_of(args, at, k), args.step[k], at.count(), type, place);
                else
                    read_input<T>(args, input, place);
            } else {
                read_input<T>(args, input, place);
            }
        }
        read_place(place_of(own, args.registers), other);
        read_place(place, x);
    }
}

/* Computes *x = opcode(*x, *y) for the operations that are calls. */
template <typename T> __device__ __forceinline__ void call_one(int opcode, T *x, const T *y)
{
    switch (opcode) {
#define ROW(kind, op, set)                                                                         \
    case MYLIB_OP_##op:                                                                            \
        if constexpr (meaning<MYLIB_OP_##op, T>::is_defined && is_by_call<MYLIB_OP_##op, T>())     \
            *x = meaning<MYLIB_OP_##op, T>::apply(*x, *y);                                         \
        break;
        MYLIB_ARITHMETIC(ROW)
#undef ROW
    }
}

/* Does so for all elements of a thread. */
template <typename T> __device__ __noinline__ void call_costly(int opcode, uint4 *x, const uint4 *y)
{
#pragma unroll 1
    for (int i = 0; i < single<T>::N; i++) {
        int v = i / single<T>::G * (int)blockDim.x, j = i % single<T>::G;
        call_one(opcode, (T *)(x + v) + j, (const T *)(y + v) + j);
    }
}

/*
 * Computes a function of all elements of a thread, of which AT_ONCE are mixed; more would take too
 * many registers, or too much code.  In a call of its own it has its own registers.
 */
template <int OP, typename T> __device__ __noinline__ void call_each(uint4 *x, const uint4 *y)
{
    constexpr int G = single<T>::G, N = single<T>::N;
    constexpr int AT_ONCE = is_long<OP> ? 1 : sizeof(T) == 8 ? 2 : N;
#pragma unroll AT_ONCE
    for (int i = 0; i < N; i++) {
        T *a = (T *)(x + i / G * (int)blockDim.x) + i % G;
        *a = convert<T>(
            function<OP, T>::apply(*a, ((const T *)(y + i / G * (int)blockDim.x))[i % G]));
    }
}
/* Returns false if the opcode is no function. */
template <typename T>
__device__ __forceinline__ bool call_function(int opcode, uint4 *x, const uint4 *y)
{
    switch (opcode) {
#define ROW(kind, op, set)                                                                         \
    case MYLIB_OP_##op:                                                                            \
        if constexpr (function<MYLIB_OP_##op, T>::is_defined)                                      \
            call_each<MYLIB_OP_##op, T>(x, y);                                                     \
        return true;
        MYLIB_FUNCTIONS(ROW)
#undef ROW
    }
    return false;
}

/* Computes x[i] = opcode(x[i], y[i]); returns false for calls, functions among them. */
template <typename T, int N>
__device__ __forceinline__ bool step_in_line(int opcode, T (&x)[N], const T (&y)[N])
{
    switch (opcode) {
#define ROW(kind, op, set)                                                                         \
    case MYLIB_OP_##op:                                                                            \
        if constexpr (is_by_call<MYLIB_OP_##op, T>())                                              \
            return false;                                                                          \
        else if constexpr (meaning<MYLIB_OP_##op, T>::is_defined) {                                \
            _Pragma("unroll") for (int i = 0; i < N; i++) x[i] =                                   \
                meaning<MYLIB_OP_##op, T>::apply(x[i], y[i]);                                      \
        }                                                                                          \
        break;
        MYLIB_ARITHMETIC(ROW)
#undef ROW
    default:
        return false;
    }
    return true;
}

/* Stores the results as elements of type R; or packs spaced ones, and returns their size. */
template <typename T, typename R, int WAY>
__device__ __forceinline__ int write_result(const fused_args &args, const position<WAY> &at,
                                            uint4 *own, const T (&x)[single<T>::N])
{
    constexpr int G = single<T>::G;
    typedef typename bits_of<G * sizeof(R)>::type bits;
    alignas(16) R r[single<T>::N];
#pragma unroll
    for (int i = 0; i < single<T>::N; i++)
        r[i] = convert<R>(x[i]);
    if constexpr (WAY == ANY) {
        if (args.is_spaced) {
            uint4 *place = place_of(own, args.registers);
#pragma unroll
            for (int v = 0; v < GROUPS; v++)
                *(bits *)(place + v * blockDim.x) = *(const bits *)&r[v * G];
            return sizeof(R);
        }
    }
    if (has_groups(args, at, 0)) {
        char *p[GROUPS];
        find_groups<G>(args, at, 0, sizeof(R), p);
#pragma unroll
        for (int v = 0; v < GROUPS; v++)
            __stcs((bits *)p[v], *(const bits *)&r[v * G]);
        return 0;
    }
    int64_t step = args.strides[args.ndim - 1][0];
#pragma unroll
    for (int v = 0; v < GROUPS; v++) {
        int32_t row;
        int64_t column;
        int n = mylib_fused_group(&args, first_group() + v * blockDim.x, G, &row, &column);
        char *p = args.data[0] + mylib_fused_row(&args, 0, row) + column * step;
#pragma unroll
        for (int i = 0; i < G; i++)
            if (i < n)
                *(R *)(p + i * step) = r[v * G + i];
    }
    return 0;
}

/* The asm keeps nvcc from hoisting the copy out of the branch. */
__device__ __forceinline__ void copy_words(const uint32_t *from, uint32_t *to)
{
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        to[i] = from[i];
        asm volatile("" : "+r"(to[i]));
    }
}

/*
 * Thread blocks of a multiprocessor: enough of them to keep loads in flight, few enough that the
 * loop over statements holds all its values in registers.
 */
constexpr int most_blocks(int blocks) { return MAX_BLOCKS < blocks ? MAX_BLOCKS : blocks; }
template <typename T, int WAY>
constexpr int SINGLE_BLOCKS = most_blocks(WAY == FLAT && class_of<T>::value == FLOAT ? 6 : 4);
constexpr int MIXED_BLOCKS = most_blocks(4);

/* Runs the statements for a thread's elements. */
template <typename T, int WAY>
__device__ __forceinline__ void run_statements(const fused_args &args, const position<WAY> &at,
                                               uint4 *own, uint32_t *mask, T (&x)[single<T>::N])
{
    constexpr int N = single<T>::N;
#pragma unroll 1
    for (int i = 0; i < args.statements; i++) {
        const fused_statement s = args.statement[i];
        alignas(16) T y[N];
        if (s.operand[1] >= MYLIB_FUSED_ABSENT) {
            copy_words((const uint32_t *)x, (uint32_t *)y);
        } else {
            read_operand(args, s.operand[1], at, own, y, x);
        }
        if (s.operand[0] != MYLIB_FUSED_FORWARDED)
            read_operand(args, s.operand[0], at, own, x, y);
        if (s.opcode < MYLIB_OP_COUNT) {
            if (!step_in_line(s.opcode, x, y)) {
                uint4 *again = WAY == REDUCED ? fused_shared + anew(threadIdx.x) : own;
                uint4 *place = place_of(again, args.registers);
                write_place(place, x);
                write_place(place_of(again, args.registers + 1), y);
                const uint4 *other = place_of(again, args.registers + 1);
                if (WAY != FUNCTIONS || !call_function<T>(s.opcode, place, other))
                    call_costly<T>(s.opcode, place, other);
                read_place(place, x);
            }
        } else if (s.opcode == MYLIB_OPCODE_SET_MASK) {
            uint32_t bits = 0;
#pragma unroll
            for (int j = 0; j < N; j++)
                bits |= (uint32_t)is_nonzero(y[j]) << j;
            *mask = bits;
        } else if (s.opcode == MYLIB_OPCODE_TEST) {
#pragma unroll
            for (int j = 0; j < N; j++)
                x[j] = convert<T>(convert<t_bool>(x[j]));
        } else if (s.opcode == MYLIB_OPCODE_SELECT) {
            select(x, y, *mask);
        }
        int target = WAY == REDUCED ? args.statement[anew(i)].target : s.target;
        if (target != MYLIB_FUSED_ABSENT)
            write_place(place_of(own, target - MYLIB_FUSED_REGISTER), x);
    }
}

template <typename T, int WAY>
__global__ void __launch_bounds__(MYLIB_FUSED_MOST_THREADS, SINGLE_BLOCKS<T, WAY>)
    fused_kernel(const __grid_constant__ fused_args args)
{
    alignas(16) T x[single<T>::N] = {};
    uint4 *own = fused_shared + threadIdx.x;
    uint32_t *mask = mask_of(args);
    position<WAY> at = position_of<single<T>::G, WAY>(args);
    if (!has_elements(args, at))
        return;
    run_statements(args, at, own, mask, x);
    int packed = 0;
    if (args.result_type == number_of<T>::value)
        packed = write_result<T, T>(args, at, own, x);
    else if (args.result_type == MYLIB_BOOL)
        packed = write_result<T, t_bool>(args, at, own, x);
    else if constexpr (real_of<T>::is_complex)
        packed = write_result<T, typename real_of<T>::type>(args, at, own, x);
    if constexpr (WAY == ANY)
        if (packed != 0)
            scatter<single<T>::G>(first_of(args, at, 0), args.step[0], at.count(), packed,
                                  place_of(own, args.registers));
}

/* ---- Reductions of such programs ----------------------------------------------------------- */

/*
 * A thread owns a vector of lanes of a block of terms and walks through all their terms, two rows
 * of lanes at a time: its two groups.  A warp then reduces the lanes of a block, and one thread the
 * blocks of a thread block, which are an aligned group of 2^k.
 *
 * While statements run, lanes and other idle values stay in shared memory, and cheap values are
 * recomputed.
 */
template <typename T> struct in_block {
    static constexpr int G = single<T>::G, VECTORS = LANES / G; /* of a row of lanes */
    /* Blocks of terms that the threads process at once. */
    static __device__ __forceinline__ int set() { return blockDim.x / VECTORS; }
    static __device__ __forceinline__ int blocks(const fused_args &args)
    {
        int64_t left = (args.columns - first_term<G>(args) + TERMS - 1) / TERMS;
        return left < args.sets * set() ? (int)left : args.sets * set();
    }
    /* Two slots for the vectors of lanes of all threads, and one for the result of each block. */
    static __device__ __forceinline__ uint4 *vectors(const fused_args &args, int done)
    {
        uint32_t *masks = mask_of(args) - threadIdx.x;
        return (uint4 *)(masks + blockDim.x) + (done & set() ? blockDim.x : 0);
    }
    static __device__ __forceinline__ T *results(const fused_args &args)
    {
        return (T *)(vectors(args, 0) + 2 * blockDim.x);
    }
};

/*
 * Returns the identity of the reduction, exact even for the sign of a zero: it replaces terms
 * beyond the end.
 */
template <typename T> __device__ __forceinline__ T neutral_of(int reduction)
{
    constexpr T INFINITE = sizeof(T) == 4 ? (T)__builtin_huge_valf() : (T)__builtin_huge_val();
    return reduction == MYLIB_SUM    ? (T)-0.0
           : reduction == MYLIB_PROD ? (T)1
           : reduction == MYLIB_MIN  ? INFINITE
                                     : -INFINITE;
}

/* Combines two rows of terms into the lanes. */
template <int R, typename T>
__device__ __forceinline__ void take_terms(const T (&x)[single<T>::N], T (&lane)[single<T>::G])
{
#pragma unroll
    for (int j = 0; j < single<T>::N; j++)
        lane[j % single<T>::G] = combine<R>()(lane[j % single<T>::G], x[j]);
}

/* Reduces the lanes of a block by a warp; thread 0 gets the result. */
template <int R, typename T> __device__ __forceinline__ T reduce_lanes(const uint4 *vectors)
{
    constexpr int G = single<T>::G, V = LANES / (WARP * G);
    const int t = threadIdx.x % WARP;
    alignas(16) T x[V][G];
#pragma unroll
    for (int v = 0; v < V; v++)
        *(uint4 *)x[v] = vectors[v * WARP + t];
    return reduce_vectors(combine<R>(), x);
}

/* Reduces blocks pairwise in place; the first slot gets the result. */
template <int R, typename T> __device__ __forceinline__ void reduce_blocks(T *block, int blocks)
{
#pragma unroll 1
    for (int step = 1; step < blocks; step *= 2)
#pragma unroll 1
        for (int i = 0; i + step < blocks; i += 2 * step)
            block[i] = combine<R>()(block[i], block[i + step]);
}

#define EACH_REDUCTION(CASE) CASE(MYLIB_SUM) CASE(MYLIB_PROD) CASE(MYLIB_MIN) CASE(MYLIB_MAX)

template <typename T>
__global__ void __launch_bounds__(MYLIB_FUSED_MOST_THREADS, SINGLE_BLOCKS<T, REDUCED>)
    reduced_kernel(const __grid_constant__ fused_args args)
{
    typedef in_block<T> in;
    constexpr int G = single<T>::G, VECTORS = in::VECTORS;
    alignas(16) T x[single<T>::N] = {};
    uint4 *own = fused_shared + threadIdx.x;
    uint32_t *mask = mask_of(args);
    position<REDUCED> at;
    at.term =
        first_term<G>(args) + (int)threadIdx.x / VECTORS * TERMS + (int)threadIdx.x % VECTORS * G;

#pragma unroll 1
    for (int done = 0; done < in::blocks(args); done += in::set()) {
#pragma unroll 1
        for (int row = 0; row < TERMS / LANES; row += GROUPS) {
            int full = at.term + ((GROUPS - 1) * LANES + G) <= args.columns;
            asm volatile("" : "+r"(full));
            at.is_full = full != 0;
            if (at.term < args.columns)
                run_statements(args, at, own, mask, x);
            const T neutral = neutral_of<T>(args.reduction);
            if (!at.is_full) {
                const int64_t left = args.columns - at.term;
#pragma unroll
                for (int j = 0; j < single<T>::N; j++)
                    x[j] = j / G * LANES + j % G < left ? x[j] : neutral;
            }
            uint4 *place = in::vectors(args, done) + threadIdx.x;
            alignas(16) T lane[G];
            *(uint4 *)lane = *place;
#pragma unroll
            for (int j = 0; j < G; j++)
                lane[j] = row == 0 ? neutral : lane[j];
            switch (args.reduction) {
#define CASE(R)                                                                                    \
    case R:                                                                                        \
        take_terms<R>(x, lane);                                                                    \
        break;
                EACH_REDUCTION(CASE)
#undef CASE
            }
            *place = *(const uint4 *)lane;
            at.term += GROUPS * LANES;
        }
        at.term += (in::set() - 1) * TERMS;
        /* Write the next lanes to the other slot while these are read. */
        __syncthreads();
        /* The warps take turns. */
        const int warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
        const int block = (warp - done) & (warps - 1);
        if (block < in::set()) {
            const uint4 *vectors = in::vectors(args, done) + block * VECTORS;
            T value = T();
            switch (args.reduction) {
#define CASE(R)                                                                                    \
    case R:                                                                                        \
        value = reduce_lanes<R, T>(vectors);                                                       \
        break;
                EACH_REDUCTION(CASE)
#undef CASE
            }
            if (threadIdx.x % WARP == 0)
                in::results(args)[done + block] = value;
        }
    }
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    T *results = in::results(args);
    switch (args.reduction) {
#define CASE(R)                                                                                    \
    case R:                                                                                        \
        reduce_blocks<R>(results, in::blocks(args));                                               \
        break;
        EACH_REDUCTION(CASE)
#undef CASE
    }
    char *out = args.data[0] + blockIdx.y * args.part_stride;
    *(T *)(out + blockIdx.x * args.strides[0][0]) = results[0];
}

/* ---- Programs of several types ------------------------------------------------------------- */

/* Packs the elements of a thread, of any type of at most 8 bytes, into words. */
constexpr int MIXED_G = MYLIB_FUSED_MIXED_GROUP, MIXED_N = MIXED_G * GROUPS;
static_assert(MIXED_N == 4, "a mask is one word of bools");

#define MIXED_TYPES(DT)                                                                            \
    DT(i8, I8)                                                                                     \
    DT(i16, I16)                                                                                   \
    DT(i32, I32)                                                                                   \
    DT(i64, I64)                                                                                   \
    DT(u8, U8)                                                                                     \
    DT(u16, U16)                                                                                   \
    DT(u32, U32)                                                                                   \
    DT(u64, U64)                                                                                   \
    DT(f16, F16)                                                                                   \
    DT(f32, F32)                                                                                   \
    DT(f64, F64)                                                                                   \
    DT(c64, C64)                                                                                   \
    DT(bool, BOOL)

/* Converts one element, held in the low bytes of its bits, to another type. */
template <typename S> __device__ __forceinline__ uint64_t convert_from(int to, uint64_t bits)
{
    S x;
    memcpy(&x, &bits, sizeof x);
    bits = 0;
    switch (to) {
#define DT(s, D)                                                                                   \
    case MYLIB_##D: {                                                                              \
        t_##s result = convert<t_##s>(x);                                                          \
        memcpy(&bits, &result, sizeof result);                                                     \
        break;                                                                                     \
    }
        MIXED_TYPES(DT)
#undef DT
    }
    return bits;
}
__device__ __noinline__ uint64_t convert_element(int from, int to, uint64_t bits)
{
    switch (from) {
#define DT(s, S)                                                                                   \
    case MYLIB_##S:                                                                                \
        return convert_from<t_##s>(to, bits);
        MIXED_TYPES(DT)
#undef DT
    }
    return 0;
}

__device__ __forceinline__ uint64_t load_bits(int size, const void *p)
{
    switch (size) {
    case 1:
        return *(const uint8_t *)p;
    case 2:
        return *(const uint16_t *)p;
    case 4:
        return *(const uint32_t *)p;
    default:
        return *(const uint64_t *)p;
    }
}
__device__ __forceinline__ void store_bits(int size, void *p, uint64_t bits)
{
    switch (size) {
    case 1:
        *(uint8_t *)p = (uint8_t)bits;
        break;
    case 2:
        *(uint16_t *)p = (uint16_t)bits;
        break;
    case 4:
        *(uint32_t *)p = (uint32_t)bits;
        break;
    default:
        *(uint64_t *)p = bits;
    }
}

/* Returns packed element i of a slot in shared memory: two separate uint4. */
__device__ __forceinline__ char *element_of(uint4 *place, int size, int i)
{
    int at = i * size;
    return (char *)(place + at / 16 * blockDim.x) + at % 16;
}

/* Converts a slot in place. */
__device__ __noinline__ void convert_place(int from, int to, uint4 *place)
{
    uint64_t bits[MIXED_N];
#pragma unroll
    for (int i = 0; i < MIXED_N; i++)
        bits[i] = load_bits(size_of(from), element_of(place, size_of(from), i));
#pragma unroll
    for (int i = 0; i < MIXED_N; i++)
        store_bits(size_of(to), element_of(place, size_of(to), i),
                   convert_element(from, to, bits[i]));
}

/* Load n elements into a slot from number `first` on, where they lie without gaps; store them. */
__device__ __noinline__ void load_any(int first, const char *p, int64_t step, int n, int size,
                                      uint4 *place)
{
    uint64_t bits[MIXED_N];
#pragma unroll
    for (int i = 0; i < MIXED_N; i++, p += step)
        if (i < n)
            bits[i] = load_bits(size, p);
#pragma unroll
    for (int i = 0; i < MIXED_N; i++)
        if (i < n)
            store_bits(size, element_of(place, size, first + i), bits[i]);
}
__device__ __noinline__ void store_any(int first, char *p, int64_t step, int n, int size,
                                       uint4 *place)
{
#pragma unroll
    for (int i = 0; i < MIXED_N; i++, p += step)
        if (i < n)
            store_bits(size, p, load_bits(size, element_of(place, size, first + i)));
}

__device__ __forceinline__ void read_words(const uint4 *place, uint32_t (&w)[WORDS])
{
#pragma unroll
    for (int v = 0; v < GROUPS; v++) {
        uint4 q = place[v * blockDim.x];
        w[4 * v] = q.x, w[4 * v + 1] = q.y, w[4 * v + 2] = q.z, w[4 * v + 3] = q.w;
    }
}
__device__ __forceinline__ void write_words(uint4 *place, const uint32_t (&w)[WORDS])
{
#pragma unroll
    for (int v = 0; v < GROUPS; v++)
        place[v * blockDim.x] = make_uint4(w[4 * v], w[4 * v + 1], w[4 * v + 2], w[4 * v + 3]);
}

/* Convert between groups of vectors in memory and packed words. */
__device__ __forceinline__ void read_vectors(const fused_args &args, int input,
                                             const position<ANY> &at, int size,
                                             uint32_t (&w)[WORDS])
{
    char *p[GROUPS];
    find_groups<MIXED_G>(args, at, 1 + input, size, p);
#pragma unroll
    for (int v = 0; v < GROUPS; v++) {
        if (size == 8) {
            uint4 q = *(const uint4 *)p[v];
            w[4 * v] = q.x, w[4 * v + 1] = q.y, w[4 * v + 2] = q.z, w[4 * v + 3] = q.w;
        } else if (size == 4) {
            uint2 q = *(const uint2 *)p[v];
            w[2 * v] = q.x, w[2 * v + 1] = q.y;
        } else if (size == 2) {
            w[v] = *(const uint32_t *)p[v];
        } else {
            uint32_t half = *(const uint16_t *)p[v];
            w[0] = v == 0 ? half : w[0] | half << 16;
        }
    }
}
__device__ __forceinline__ void write_vectors(const fused_args &args, const position<ANY> &at,
                                              int size, const uint32_t (&w)[WORDS])
{
    char *p[GROUPS];
    find_groups<MIXED_G>(args, at, 0, size, p);
#pragma unroll
    for (int v = 0; v < GROUPS; v++) {
        if (size == 8)
            __stcs((uint4 *)p[v], make_uint4(w[4 * v], w[4 * v + 1], w[4 * v + 2], w[4 * v + 3]));
        else if (size == 4)
            __stcs((uint2 *)p[v], make_uint2(w[2 * v], w[2 * v + 1]));
        else if (size == 2)
            __stcs((uint32_t *)p[v], w[v]);
        else
            __stcs((uint16_t *)p[v], (uint16_t)(w[0] >> 16 * v));
    }
}

/* Reads an operand as words of type `to` and keeps `other`. */
__device__ __forceinline__ void read_mixed(const fused_args &args, int operand, int from, int to,
                                           const position<ANY> &at, uint4 *own,
                                           uint32_t (&w)[WORDS], uint32_t (&other)[WORDS])
{
    uint4 *place = place_of(own, args.registers);
    int input = mylib_fused_input(operand);
    bool is_there = true;
    if (operand >= MYLIB_FUSED_CONSTANT && operand < MYLIB_FUSED_REGISTER) {
        uint4 q = *(const uint4 *)args.constant[operand - MYLIB_FUSED_CONSTANT];
#pragma unroll
        for (int v = 0; v < GROUPS; v++)
            w[4 * v] = q.x, w[4 * v + 1] = q.y, w[4 * v + 2] = q.z, w[4 * v + 3] = q.w;
        return; /* converted already */
    }
    if (input >= 0) {
        is_there = at.is_full && operand >= MYLIB_FUSED_VECTOR_INPUT;
        if (is_there)
            read_vectors(args, input, at, size_of(from), w);
    } else if (operand != MYLIB_FUSED_FORWARDED) {
        read_words(place_of(own, operand - MYLIB_FUSED_REGISTER), w);
    }
    if (is_there && from == to)
        return;
    write_words(place_of(own, args.registers + 1), other);
    if (is_there)
        write_words(place, w);
    else
        each_part<MIXED_G>(args, at, 1 + input, [&](int first, const char *p, int64_t step, int n) {
            load_any(first, p, step, n, size_of(from), place);
        });
    if (from != to)
        convert_place(from, to, place);
    read_words(place, w);
    read_words(place_of(own, args.registers + 1), other);
}

/*
 * Computes the operation on packed words of one type; returns false for operations that are calls.
 */
template <typename T>
__device__ __forceinline__ bool step_words(const fused_statement &s, uint32_t (&x)[WORDS],
                                           const uint32_t (&y)[WORDS])
{
    typedef typename real_of<T>::type R;
    alignas(16) T a[MIXED_N], b[MIXED_N];
    memcpy(a, x, sizeof a);
    memcpy(b, y, sizeof b);
    if (!step_in_line(s.opcode, a, b))
        return false;
    if (s.result_type == number_of<T>::value) {
        memcpy(x, a, sizeof a);
    } else if (s.result_type == MYLIB_BOOL) {
        alignas(16) t_bool r[MIXED_N];
#pragma unroll
        for (int i = 0; i < MIXED_N; i++)
            r[i] = convert<t_bool>(a[i]);
        memcpy(x, r, sizeof r);
    } else if constexpr (real_of<T>::is_complex) {
        alignas(16) R r[MIXED_N];
#pragma unroll
        for (int i = 0; i < MIXED_N; i++)
            r[i] = a[i].re;
        memcpy(x, r, sizeof r);
    }
    return true;
}

/*
 * Computes the operations that are calls, for all elements of a thread in two slots.  The result of
 * absolute is packed as the real type.
 */
template <typename T> __device__ __forceinline__ void call_words_as(int opcode, uint4 *x, uint4 *y)
{
#pragma unroll 1
    for (int i = 0; i < MIXED_N; i++) {
        T *a = (T *)element_of(x, sizeof(T), i);
        call_one(opcode, a, (const T *)element_of(y, sizeof(T), i));
        if constexpr (real_of<T>::is_complex) {
            typedef typename real_of<T>::type R;
            if (opcode == MYLIB_OP_absolute)
                *(R *)element_of(x, sizeof(R), i) = a->re;
        }
    }
}
__device__ __noinline__ void call_words(int type, int opcode, uint4 *x, uint4 *y)
{
    switch (type) {
#define DT(s, S)                                                                                   \
    case MYLIB_##S:                                                                                \
        call_words_as<t_##s>(opcode, x, y);                                                        \
        break;
        MIXED_TYPES(DT)
#undef DT
    }
}
/* Computes x = mask ? x : y for elements of B's size. */
template <typename B>
__device__ __forceinline__ void select_words(uint32_t (&x)[WORDS], const uint32_t (&y)[WORDS],
                                             uint32_t mask)
{
    alignas(16) B a[MIXED_N], b[MIXED_N];
    memcpy(a, x, sizeof a);
    memcpy(b, y, sizeof b);
    select(a, b, mask);
    memcpy(x, a, sizeof a);
}

__global__ void __launch_bounds__(MYLIB_FUSED_MOST_THREADS, MIXED_BLOCKS)
    mixed_kernel(const __grid_constant__ fused_args args)
{
    alignas(16) uint32_t x[WORDS] = {0}, y[WORDS] = {0};
    uint4 *own = fused_shared + threadIdx.x;
    uint32_t mask = 0;
    const position<ANY> at = position_of<MIXED_G, ANY>(args);
    if (!has_elements(args, at))
        return;
#pragma unroll 1
    for (int i = 0; i < args.statements; i++) {
        const fused_statement s = args.statement[i];
        bool is_mask = s.opcode == MYLIB_OPCODE_SET_MASK;
        int type = is_mask ? MYLIB_BOOL : s.type;
        if (s.operand[1] == MYLIB_FUSED_FORWARDED) {
#pragma unroll
            for (int j = 0; j < WORDS; j++)
                y[j] = x[j];
        }
        if (s.operand[1] != MYLIB_FUSED_ABSENT &&
            (s.operand[1] != MYLIB_FUSED_FORWARDED || s.operand_type[1] != type))
            read_mixed(args, s.operand[1], s.operand_type[1], type, at, own, y, x);
        if (s.operand[0] != MYLIB_FUSED_FORWARDED || (!is_mask && s.operand_type[0] != type))
            read_mixed(args, s.operand[0], s.operand_type[0], type, at, own, x, y);
        if (s.opcode < MYLIB_OP_COUNT) {
            bool is_done = true;
            switch (s.type) {
#define DT(t, S)                                                                                   \
    case MYLIB_##S:                                                                                \
        is_done = step_words<t_##t>(s, x, y);                                                      \
        break;
                MIXED_TYPES(DT)
#undef DT
            }
            if (!is_done) {
                uint4 *place = place_of(own, args.registers);
                write_words(place, x);
                write_words(place_of(own, args.registers + 1), y);
                call_words(s.type, s.opcode, place, place_of(own, args.registers + 1));
                read_words(place, x);
            }
        } else if (is_mask) {
            mask = 0;
#pragma unroll
            for (int j = 0; j < MIXED_N; j++)
                mask |= (uint32_t)((y[0] >> 8 * j & 0xff) != 0) << j;
        } else if (s.opcode == MYLIB_OPCODE_SELECT) {
            switch (size_of(s.type)) {
            case 1:
                select_words<uint8_t>(x, y, mask);
                break;
            case 2:
                select_words<uint16_t>(x, y, mask);
                break;
            case 4:
                select_words<uint32_t>(x, y, mask);
                break;
            default:
                select_words<uint64_t>(x, y, mask);
            }
        }
        if (s.target != MYLIB_FUSED_ABSENT)
            write_words(place_of(own, s.target - MYLIB_FUSED_REGISTER), x);
    }

    int size = size_of(args.result_type);
    if (has_groups(args, at, 0)) {
        write_vectors(args, at, size, x);
        return;
    }
    uint4 *place = place_of(own, args.registers);
    write_words(place, x);
    each_part<MIXED_G>(args, at, 0, [&](int first, char *p, int64_t step, int n) {
        store_any(first, p, step, n, size, place);
    });
}

/* Selects the kernel of contiguous vectors for T, or that of any layout where it is as fast. */
template <typename T>
constexpr int FLAT_WAY = std::is_same<T, t_i32>::value || std::is_same<T, t_c64>::value ? (int)ANY
                                                                                        : (int)FLAT;

cudaError_t launch(const fused_args *args, cudaStream_t stream)
{
    void *parameters[] = {(void *)args};
    const void *kernel = (const void *)mixed_kernel;
    switch (args->computed_type) {
#define DT(s, S)                                                                                   \
    case MYLIB_##S:                                                                                \
        kernel = args->is_flat ? (const void *)fused_kernel<t_##s, FLAT_WAY<t_##s>>                \
                               : (const void *)fused_kernel<t_##s, ANY>;                           \
        break;
        MYLIB_FUSED_TYPES(DT)
#undef DT
    }
    if (args->has_functions)
        kernel = args->computed_type == MYLIB_F32 ? (const void *)fused_kernel<t_f32, FUNCTIONS>
                                                  : (const void *)fused_kernel<t_f64, FUNCTIONS>;
    if (args->is_reduced)
        kernel = args->computed_type == MYLIB_F32 ? (const void *)reduced_kernel<t_f32>
                                                  : (const void *)reduced_kernel<t_f64>;
    const int64_t parts = args->is_reduced ? mylib_fused_parts(args) : 1;
    return cudaLaunchKernel(
        kernel, dim3((unsigned)(mylib_fused_blocks(args) / parts), (unsigned)parts),
        dim3((unsigned)args->threads), parameters, (size_t)mylib_fused_shared(args), stream);
}

} // namespace

mylib_status mylib_cuda_launch_fused(const mylib_fused_args *args, void *stream)
{
    return mylib_from_cuda(launch(args, (cudaStream_t)stream), "cudaLaunchKernel", __FILE__,
                           __LINE__);
}

void mylib_cuda_load_fused(void)
{
    cudaFuncAttributes attributes;
    /* Loading one kernel loads the code of all.  A failure here is reported by the launch. */
    if (cudaFuncGetAttributes(&attributes, (const void *)fused_kernel<t_f64, FLAT>) != cudaSuccess)
        (void)cudaGetLastError();
}
