/*
 * fused.cu - programs of several statements in one pass; fused.h explains the design.
 *
 * A statement loads its second operand, then its first, into hardware registers, unless the
 * previous statement left its result there; its own result stays there too.  Threads diverge only
 * at the end of a row.
 */
#include "functions.cuh"

#include "fused.h"

namespace
{

typedef mylib_fused_args fused_args;
constexpr int LANES = MYLIB_BLOCK_LANES, TERMS = MYLIB_BLOCK_TERMS;

/*
 * Kinds of kernels: for any layout, by spaced elements; the same for programs with calls, during
 * which few registers are kept; by groups, for vectors of one dimension; by groups, for a reduction
 * of such vectors for each output; for programs of several types, by spaced elements.
 */
enum { SPACED, CALLS, FLAT, REDUCED, MIXED };

/* Elements of a group of 16 bytes; groups of a thread; its elements. */
template <typename T> constexpr int G = MYLIB_FUSED_GROUP(sizeof(T));
template <int WAY>
constexpr int GROUPS = WAY == SPACED  ? MYLIB_FUSED_SPACED_GROUPS
                       : WAY == CALLS ? MYLIB_FUSED_CALL_GROUPS
                       : WAY == MIXED ? MYLIB_FUSED_MIXED_GROUPS
                                      : MYLIB_FUSED_FLAT_GROUPS;
template <typename T, int WAY> constexpr int N = MYLIB_FUSED_GROUP(sizeof(T)) * GROUPS<WAY>;
template <int WAY> constexpr bool HAS_CALLS = WAY == CALLS || WAY == REDUCED;

/* The elements of a thread. */
template <int WAY> struct position { /* spaced: the place of the first one, and how many exist */
    int64_t column;
    int32_t row;
    int count;
};
template <> struct position<FLAT> {
    bool is_full; /* all exist */
};
template <> struct position<REDUCED> {
    int64_t term; /* first term of the first group; the next group is LANES further on */
    bool is_full;
};

/* Returns the address in operand k of a thread's first spaced element. */
template <int WAY>
__device__ __forceinline__ char *first_of(const fused_args &args, const position<WAY> &at, int k)
{
    return args.data[k] + mylib_fused_row(&args, k, at.row) + at.column * args.column_stride[k];
}

/*
 * Returns the index of a thread's first group; the next one is blockDim.x further on.  Recomputed
 * at each use: it would hold registers.
 */
__device__ __forceinline__ int64_t first_group()
{
    const uint32_t groups = blockDim.x * (uint32_t)GROUPS<FLAT>;
    return (int64_t)blockIdx.x * groups + (uint32_t)anew(threadIdx.x);
}

/* Returns a thread block's first term. */
template <typename T> __device__ __forceinline__ int64_t first_term(const fused_args &args)
{
    return (int64_t)anew(blockIdx.y) * (args.sets * (int)(blockDim.x * G<T> / LANES) * TERMS);
}

/* Finds a thread's first group in operand k, of elements of `size` bytes. */
template <typename T, int WAY>
__device__ __forceinline__ char *first_group_of(const fused_args &args, const position<WAY> &at,
                                                int k, int size)
{
    if constexpr (WAY == REDUCED)
        return args.data[k] + blockIdx.x * args.row_stride[0][k] + at.term * size;
    else
        return args.data[k] + first_group() * (G<T> * size);
}
/* Returns the bytes from a thread's group to the next one. */
template <typename T, int WAY> __device__ __forceinline__ int group_step(int size)
{
    return WAY == REDUCED ? LANES * size : (int)blockDim.x * (G<T> * size);
}
/* Returns how many elements there are from a thread's first one to the end. */
template <typename T, int WAY>
__device__ __forceinline__ int64_t elements_left(const fused_args &args, const position<WAY> &at)
{
    if constexpr (WAY == REDUCED)
        return args.columns - at.term;
    else
        return args.columns - first_group() * G<T>;
}

extern __shared__ uint4 fused_shared[];

/*
 * Returns this thread's slot of a register in shared memory; its next group is blockDim.x further
 * on.  Spare slots follow the registers, for operations that are calls: values stay there during a
 * call, because calls preserve few hardware registers.
 */
template <int WAY> __device__ __forceinline__ uint4 *place_of(const uint4 *own, int number)
{
    if (WAY == CALLS) /* an address that is kept would be kept in memory */
        own = fused_shared + (uint32_t)anew(threadIdx.x);
    return (uint4 *)own + number * (int)(GROUPS<WAY> * blockDim.x);
}

/* Returns the thread's slot of the mask, after all registers. */
template <int WAY> __device__ __forceinline__ uint32_t *mask_of(const fused_args &args)
{
    const int slots = (args.registers + args.spare) * GROUPS<WAY>;
    return (uint32_t *)(fused_shared + slots * (int)blockDim.x) + threadIdx.x;
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

/* ---- Programs of one type ------------------------------------------------------------------ */

template <typename T, int WAY>
__device__ __forceinline__ void read_place(const uint4 *place, T (&x)[N<T, WAY>])
{
#pragma unroll
    for (int v = 0; v < GROUPS<WAY>; v++)
        *(uint4 *)&x[v * G<T>] = place[v * blockDim.x];
}
template <typename T, int WAY>
__device__ __forceinline__ void write_place(uint4 *place, const T (&x)[N<T, WAY>])
{
#pragma unroll
    for (int v = 0; v < GROUPS<WAY>; v++)
        place[v * blockDim.x] = *(const uint4 *)&x[v * G<T>];
}

/*
 * Converts whole groups, the first at p and the next ones `step` bytes further on, into the
 * thread's slot; returns false if the type is not promoted to T.  Not inlined, and all parameters
 * are values: so the common path keeps its registers.
 */
template <typename T, int WAY>
__device__ __noinline__ bool convert_groups(int type, const char *p, int step, uint4 *place)
{
    switch (type) {
#define DT(s, S)                                                                                   \
    case MYLIB_##S:                                                                                \
        if constexpr (is_promoted<T, t_##s>()) {                                                   \
            typedef typename bits_of<sizeof(t_##s) * G<T>>::type bits;                             \
            alignas(16) t_##s values[N<T, WAY>];                                                   \
            alignas(16) T x[N<T, WAY>];                                                            \
            _Pragma("unroll") for (int v = 0; v < GROUPS<WAY>; v++) * (bits *)&values[v * G<T>] =  \
                *(const bits *)(p + v * step);                                                     \
            _Pragma("unroll") for (int i = 0; i < N<T, WAY>; i++) x[i] = convert<T>(values[i]);    \
            write_place<T, WAY>(place, x);                                                         \
            return true;                                                                           \
        }                                                                                          \
        return false;
        MYLIB_STORED_TYPES(DT)
#undef DT
    }
    return false;
}

/*
 * Loads `count` elements of any type, which lie `step` apart, and converts them into the thread's
 * slot.  Those of the types that are promoted to T are all loaded before the first is converted.
 */
template <typename T, int WAY>
__device__ __noinline__ void convert_spaced(int type, const char *p, int64_t step, int count,
                                            uint4 *place)
{
    alignas(16) T x[N<T, WAY>];
    switch (type) {
#define DT(s, S)                                                                                   \
    case MYLIB_##S:                                                                                \
        if constexpr (is_promoted<T, t_##s>()) {                                                   \
            t_##s values[N<T, WAY>];                                                               \
            _Pragma("unroll") for (int i = 0; i < N<T, WAY>; i++, p += step) if (i < count)        \
                values[i] = load_element<t_##s>(p);                                                \
            _Pragma("unroll") for (int i = 0; i < N<T, WAY>; i++) x[i] = convert<T>(values[i]);    \
            write_place<T, WAY>(place, x);                                                         \
            return;                                                                                \
        }                                                                                          \
        break;
        MYLIB_STORED_TYPES(DT)
#undef DT
    }
#pragma unroll 1
    for (int i = 0; i < count; i++, p += step)
        ((T *)(place + i / G<T> * blockDim.x))[i % G<T>] = load_as<T>(type, p);
}

/* Converts the last elements of vectors, the next group `step` bytes further on. */
template <typename T, int WAY>
__device__ __noinline__ void convert_last(int type, int size, const char *p, int step,
                                          int64_t apart, int64_t left, uint4 *place)
{
#pragma unroll 1
    for (int v = 0; v < GROUPS<WAY>; v++, place += blockDim.x, p += step)
#pragma unroll 1
        for (int i = 0; i < G<T> && v * apart + i < left; i++)
            ((T *)place)[i] = load_as<T>(type, p + i * size);
}

/* Loads an input of a program of T, of elements of type S, or of as many bytes. */
template <typename T, typename S, int WAY>
__device__ __forceinline__ void load_input(const fused_args &args, int input,
                                           const position<WAY> &at, S (&x)[N<T, WAY>])
{
    if constexpr (WAY == SPACED || WAY == CALLS) {
        const char *p = first_of(args, at, 1 + input);
        const int64_t step = args.step[1 + input];
        if (WAY == CALLS && step == 0) {
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
        const char *p = first_group_of<T>(args, at, 1 + input, sizeof(S));
        const int step = group_step<T, WAY>(sizeof(S));
        if (at.is_full) {
#pragma unroll
            for (int v = 0; v < GROUPS<WAY>; v++, p += step)
                *(group *)&x[v * G<T>] = *(const group *)p;
        } else {
            const int64_t left = elements_left<T>(args, at), apart = step / (int)sizeof(S);
#pragma unroll
            for (int v = 0; v < GROUPS<WAY>; v++, p += step)
#pragma unroll
                for (int i = 0; i < G<T>; i++)
                    if (v * apart + i < left)
                        x[v * G<T> + i] = load_element<S>(p + i * sizeof(S));
        }
    }
}

/* Reads an input of i32 or f32 in a program of f64, the conversions that are no calls. */
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

/* Reads an input of another type into x, by calls; keeps `other`. */
template <typename T, int WAY>
__device__ __forceinline__ void read_by_call(const fused_args &args, int input,
                                             const position<WAY> &at, uint4 *own, T (&x)[N<T, WAY>],
                                             T (&other)[N<T, WAY>])
{
    const int type = args.input_type[input];
    uint4 *place = place_of<WAY>(own, args.registers + 1);
    write_place<T, WAY>(place_of<WAY>(own, args.registers), other);
    if constexpr (WAY == CALLS) {
        convert_spaced<T, WAY>(type, first_of(args, at, 1 + input), args.step[1 + input], at.count,
                               place);
    } else {
        const int size = (int)args.column_stride[1 + input], step = group_step<T, WAY>(size);
        const char *p = first_group_of<T>(args, at, 1 + input, size);
        if (!at.is_full || !convert_groups<T, WAY>(type, p, step, place))
            convert_last<T, WAY>(type, size, p, step, step / size,
                                 at.is_full ? INT64_MAX : elements_left<T>(args, at), place);
    }
    read_place<T, WAY>(place_of<WAY>(own, args.registers), other);
    read_place<T, WAY>(place, x);
}

/* Reads an operand into x and keeps `other`. */
template <typename T, int WAY>
__device__ __forceinline__ void read_operand(const fused_args &args, int operand,
                                             const position<WAY> &at, uint4 *own, T (&x)[N<T, WAY>],
                                             T (&other)[N<T, WAY>])
{
    if (operand < MYLIB_FUSED_REGISTER) {
        load_input<T>(args, operand - MYLIB_FUSED_DIRECT, at, x);
    } else if (operand < MYLIB_FUSED_CONSTANT) {
        read_place<T, WAY>(place_of<WAY>(own, operand - MYLIB_FUSED_REGISTER), x);
    } else if (operand < MYLIB_FUSED_CONVERTED) {
        uint4 value = *(const uint4 *)args.constant[operand - MYLIB_FUSED_CONSTANT];
#pragma unroll
        for (int v = 0; v < GROUPS<WAY>; v++)
            *(uint4 *)&x[v * G<T>] = value;
    } else if constexpr (HAS_CALLS<WAY>) {
        read_by_call(args, operand - MYLIB_FUSED_CONVERTED, at, own, x, other);
    } else if constexpr (number_of<T>::value == MYLIB_F64) {
        read_words(args, operand - MYLIB_FUSED_CONVERTED, at, x);
    }
}

/* Computes *x = opcode(*x, *y) for the operations that are calls. */
template <typename T> __device__ __forceinline__ void call_one(int opcode, T *x, const T *y)
{
    switch (opcode) {
#define ROW(kind, op, set)                                                                         \
    case MYLIB_OP_##op:                                                                            \
        if constexpr (meaning<MYLIB_OP_##op, T>::is_defined &&                                     \
                      mylib_is_by_call(MYLIB_OP_##op, number_of<T>::value))                        \
            *x = meaning<MYLIB_OP_##op, T>::apply(*x, *y);                                         \
        break;
        MYLIB_ARITHMETIC(ROW)
#undef ROW
    }
}

/* Does so for all elements of a thread. */
template <typename T, int WAY>
__device__ __noinline__ void call_costly(int opcode, uint4 *x, const uint4 *y)
{
#pragma unroll 1
    for (int i = 0; i < N<T, WAY>; i++) {
        int v = i / G<T> * (int)blockDim.x, j = i % G<T>;
        call_one(opcode, (T *)(x + v) + j, (const T *)(y + v) + j);
    }
}

/*
 * Computes a function of all elements of a thread, of which AT_ONCE are mixed; more would take too
 * many registers, or too much code.  In a call of its own it has its own registers.
 */
template <int OP, typename T, int WAY>
__device__ __noinline__ void call_each(uint4 *x, const uint4 *y)
{
    constexpr int AT_ONCE = is_long<OP> ? 1 : sizeof(T) == 8 ? 2 : N<T, WAY>;
#pragma unroll AT_ONCE
    for (int i = 0; i < N<T, WAY>; i++) {
        T *a = (T *)(x + i / G<T> * (int)blockDim.x) + i % G<T>;
        *a = convert<T>(
            function<OP, T>::apply(*a, ((const T *)(y + i / G<T> * (int)blockDim.x))[i % G<T>]));
    }
}
/* Returns false if the opcode is no function. */
template <typename T, int WAY>
__device__ __forceinline__ bool call_function(int opcode, uint4 *x, const uint4 *y)
{
    switch (opcode) {
#define ROW(kind, op, set)                                                                         \
    case MYLIB_OP_##op:                                                                            \
        if constexpr (function<MYLIB_OP_##op, T>::is_defined)                                      \
            call_each<MYLIB_OP_##op, T, WAY>(x, y);                                                \
        return true;
        MYLIB_FUNCTIONS(ROW)
#undef ROW
    }
    return false;
}

/* Computes x = opcode(x, y) for calls, functions among them. */
template <typename T, int WAY>
__device__ __forceinline__ void call_with(const fused_args &args, int opcode, const uint4 *own,
                                          T (&x)[N<T, WAY>], const T (&y)[N<T, WAY>])
{
    uint4 *place = place_of<WAY>(own, args.registers);
    uint4 *other = place_of<WAY>(own, args.registers + 1);
    write_place<T, WAY>(place, x);
    write_place<T, WAY>(other, y);
    bool is_done = false;
    if constexpr (WAY == CALLS &&
                  (number_of<T>::value == MYLIB_F32 || number_of<T>::value == MYLIB_F64))
        is_done = call_function<T, WAY>(opcode, place, other);
    if (!is_done)
        call_costly<T, WAY>(opcode, place, other);
    read_place<T, WAY>(place, x);
}

/* Computes x[i] = opcode(x[i], y[i]); returns false for calls, functions among them. */
template <typename T, int N>
__device__ __forceinline__ bool step_in_line(int opcode, T (&x)[N], const T (&y)[N])
{
    switch (opcode) {
#define ROW(kind, op, set)                                                                         \
    case MYLIB_OP_##op:                                                                            \
        if constexpr (mylib_is_by_call(MYLIB_OP_##op, number_of<T>::value))                        \
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

/* Stores the results as elements of type R. */
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
    if constexpr (WAY == SPACED || WAY == CALLS) {
        char *p = first_of(args, at, 0);
#pragma unroll
        for (int i = 0; i < N<T, WAY>; i++, p += args.step[0])
            if (i < at.count)
                *(element *)p = *(const element *)&r[i];
    } else {
        char *p = first_group_of<T>(args, at, 0, sizeof(R));
        const int step = group_step<T, WAY>(sizeof(R));
        if (at.is_full) {
#pragma unroll
            for (int v = 0; v < GROUPS<WAY>; v++, p += step)
                __stcs((group *)p, *(const group *)&r[v * G<T>]);
        } else {
            const int64_t left = elements_left<T>(args, at), apart = step / (int)sizeof(R);
#pragma unroll
            for (int v = 0; v < GROUPS<WAY>; v++, p += step)
#pragma unroll
                for (int i = 0; i < G<T>; i++)
                    if (v * apart + i < left)
                        *((element *)p + i) = *(const element *)&r[v * G<T> + i];
        }
    }
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

/*
 * Thread blocks of a multiprocessor: enough of them to keep loads in flight, few enough that the
 * loop over statements holds all its values in registers.
 */
constexpr int most_blocks(int blocks) { return MAX_BLOCKS < blocks ? MAX_BLOCKS : blocks; }
template <int WAY> constexpr int BLOCKS = most_blocks(WAY == FLAT ? 5 : WAY == CALLS ? 3 : 4);

/* Runs the statements for a thread's elements. */
template <typename T, int WAY>
__device__ __forceinline__ void run_statements(const fused_args &args, const position<WAY> &at,
                                               uint4 *own, uint32_t *mask, T (&x)[N<T, WAY>])
{
#pragma unroll 1
    for (int i = 0; i < args.statements; i++) {
        uint32_t bits; /* one load */
        memcpy(&bits, &args.statement[i], sizeof bits);
        const int opcode = bits & 255, first = bits >> 8 & 255, second = bits >> 16 & 255;
        alignas(16) T y[N<T, WAY>];
        if (second >= MYLIB_FUSED_ABSENT)
            copy_words(x, y);
        else
            read_operand(args, second, at, own, y, x);
        if (first != MYLIB_FUSED_FORWARDED)
            read_operand(args, first, at, own, x, y);
        if (opcode < MYLIB_OP_COUNT) {
            const bool is_done = step_in_line(opcode, x, y);
            if constexpr (HAS_CALLS<WAY>) {
                if (!is_done)
                    call_with<T, WAY>(args, opcode,
                                      WAY == REDUCED ? fused_shared + anew(threadIdx.x) : own, x,
                                      y);
            }
        } else if (opcode == MYLIB_OPCODE_SET_MASK) {
            uint32_t set = 0;
#pragma unroll
            for (int j = 0; j < N<T, WAY>; j++)
                set |= (uint32_t)is_nonzero(y[j]) << j;
            *mask = set;
        } else if (opcode == MYLIB_OPCODE_TEST) {
#pragma unroll
            for (int j = 0; j < N<T, WAY>; j++)
                x[j] = convert<T>(convert<t_bool>(x[j]));
        } else if (opcode == MYLIB_OPCODE_SELECT) {
            select(x, y, *mask);
        }
        const int target = WAY == REDUCED ? args.statement[anew(i)].target : bits >> 24;
        if (target != MYLIB_FUSED_ABSENT)
            write_place<T, WAY>(place_of<WAY>(own, target - MYLIB_FUSED_REGISTER), x);
    }
}

template <typename T, int WAY>
__global__ void __launch_bounds__(MYLIB_FUSED_MOST_THREADS, BLOCKS<WAY>)
    fused_kernel(const __grid_constant__ fused_args args)
{
    alignas(16) T x[N<T, WAY>] = {};
    uint4 *own = fused_shared + threadIdx.x;
    uint32_t *mask = mask_of<WAY>(args);
    position<WAY> at;
    if constexpr (WAY == FLAT) {
        if (elements_left<T>(args, at) <= 0)
            return;
        int full = elements_left<T>(args, at) >= (int)((GROUPS<WAY> - 1) * blockDim.x + 1) * G<T>;
        asm volatile("" : "+r"(full));
        at.is_full = full != 0;
    } else {
        at.count = mylib_fused_spaced(&args, (int32_t)blockIdx.x, (int32_t)threadIdx.x, N<T, WAY>,
                                      &at.row, &at.column);
        if (at.count == 0)
            return;
    }
    run_statements(args, at, own, mask, x);
    if (args.result_type == number_of<T>::value)
        write_result<T, T>(args, at, x);
    else if (args.result_type == MYLIB_BOOL)
        write_result<T, t_bool>(args, at, x);
    else if constexpr (real_of<T>::is_complex)
        write_result<T, typename real_of<T>::type>(args, at, x);
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
    static constexpr int VECTORS = LANES / G<T>; /* of a row of lanes */
    /* Blocks of terms that the threads process at once. */
    static __device__ __forceinline__ int set() { return blockDim.x / VECTORS; }
    static __device__ __forceinline__ int blocks(const fused_args &args)
    {
        int64_t left = (args.columns - first_term<T>(args) + TERMS - 1) / TERMS;
        return left < args.sets * set() ? (int)left : args.sets * set();
    }
    /* Two slots for the vectors of lanes of all threads, and one for the result of each block. */
    static __device__ __forceinline__ uint4 *vectors(const fused_args &args, int done)
    {
        uint32_t *masks = mask_of<REDUCED>(args) - threadIdx.x;
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
__device__ __forceinline__ void take_terms(const T (&x)[N<T, REDUCED>], T (&lane)[G<T>])
{
#pragma unroll
    for (int j = 0; j < N<T, REDUCED>; j++)
        lane[j % G<T>] = combine<R>()(lane[j % G<T>], x[j]);
}

/* Reduces the lanes of a block by a warp; thread 0 gets the result. */
template <int R, typename T> __device__ __forceinline__ T reduce_lanes(const uint4 *vectors)
{
    constexpr int V = LANES / (WARP * G<T>);
    const int t = threadIdx.x % WARP;
    alignas(16) T x[V][G<T>];
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
__global__ void __launch_bounds__(MYLIB_FUSED_MOST_THREADS, BLOCKS<REDUCED>)
    reduced_kernel(const __grid_constant__ fused_args args)
{
    typedef in_block<T> in;
    constexpr int VECTORS = in::VECTORS;
    alignas(16) T x[N<T, REDUCED>] = {};
    uint4 *own = fused_shared + threadIdx.x;
    uint32_t *mask = mask_of<REDUCED>(args);
    position<REDUCED> at;
    at.term = first_term<T>(args) + (int)threadIdx.x / VECTORS * TERMS +
              (int)threadIdx.x % VECTORS * G<T>;

#pragma unroll 1
    for (int done = 0; done < in::blocks(args); done += in::set()) {
#pragma unroll 1
        for (int row = 0; row < TERMS / LANES; row += GROUPS<REDUCED>) {
            int full = at.term + ((GROUPS<REDUCED> - 1) * LANES + G<T>) <= args.columns;
            asm volatile("" : "+r"(full));
            at.is_full = full != 0;
            if (at.term < args.columns)
                run_statements(args, at, own, mask, x);
            const T neutral = neutral_of<T>(args.reduction);
            if (!at.is_full) {
                const int64_t left = args.columns - at.term;
#pragma unroll
                for (int j = 0; j < N<T, REDUCED>; j++)
                    x[j] = j / G<T> * LANES + j % G<T> < left ? x[j] : neutral;
            }
            uint4 *place = in::vectors(args, done) + threadIdx.x;
            alignas(16) T lane[G<T>];
            *(uint4 *)lane = *place;
#pragma unroll
            for (int j = 0; j < G<T>; j++)
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
            at.term += GROUPS<REDUCED> * LANES;
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
    *(T *)(out + blockIdx.x * args.row_stride[0][0]) = results[0];
}

/* ---- Programs of several types ------------------------------------------------------------- */

/* Packs the elements of a thread, of any type of at most 8 bytes, into words. */
constexpr int WORDS = 4 * GROUPS<MIXED>, MIXED_N = WORDS / 2;

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

__device__ __forceinline__ void read_words(const uint4 *place, uint32_t (&w)[WORDS])
{
#pragma unroll
    for (int v = 0; v < WORDS / 4; v++) {
        uint4 q = place[v * blockDim.x];
        w[4 * v] = q.x, w[4 * v + 1] = q.y, w[4 * v + 2] = q.z, w[4 * v + 3] = q.w;
    }
}
__device__ __forceinline__ void write_words(uint4 *place, const uint32_t (&w)[WORDS])
{
#pragma unroll
    for (int v = 0; v < WORDS / 4; v++)
        place[v * blockDim.x] = make_uint4(w[4 * v], w[4 * v + 1], w[4 * v + 2], w[4 * v + 3]);
}

#define EACH_ELEMENT(CASE) CASE(uint8_t) CASE(uint16_t) CASE(uint32_t) CASE(uint64_t)

/* Load a thread's elements of operand k as packed words, and store them. */
__device__ __forceinline__ void load_words(const fused_args &args, int k,
                                           const position<SPACED> &at, int size,
                                           uint32_t (&w)[WORDS])
{
    const char *p = first_of(args, at, k);
    const int64_t step = args.step[k];
    switch (size) {
#define CASE(element)                                                                              \
    case sizeof(element): {                                                                        \
        element values[MIXED_N] = {};                                                              \
        _Pragma("unroll") for (int i = 0; i < MIXED_N; i++, p += step) if (i < at.count)           \
            values[i] = *(const element *)p;                                                       \
        memcpy(w, values, sizeof values);                                                          \
        break;                                                                                     \
    }
        EACH_ELEMENT(CASE)
#undef CASE
    }
}
__device__ __forceinline__ void store_words(const fused_args &args, const position<SPACED> &at,
                                            int size, const uint32_t (&w)[WORDS])
{
    char *p = first_of(args, at, 0);
    const int64_t step = args.step[0];
    switch (size) {
#define CASE(element)                                                                              \
    case sizeof(element): {                                                                        \
        element values[MIXED_N];                                                                   \
        memcpy(values, w, sizeof values);                                                          \
        _Pragma("unroll") for (int i = 0; i < MIXED_N; i++, p += step) if (i < at.count) *         \
            (element *)p = values[i];                                                              \
        break;                                                                                     \
    }
        EACH_ELEMENT(CASE)
#undef CASE
    }
}

/* Reads an operand as words of type `to` and keeps `other`. */
__device__ __forceinline__ void read_mixed(const fused_args &args, int operand, int from, int to,
                                           const position<SPACED> &at, uint4 *own,
                                           uint32_t (&w)[WORDS], uint32_t (&other)[WORDS])
{
    if (operand >= MYLIB_FUSED_CONSTANT && operand < MYLIB_FUSED_CONVERTED) {
        uint4 q = *(const uint4 *)args.constant[operand - MYLIB_FUSED_CONSTANT];
#pragma unroll
        for (int v = 0; v < WORDS / 4; v++)
            w[4 * v] = q.x, w[4 * v + 1] = q.y, w[4 * v + 2] = q.z, w[4 * v + 3] = q.w;
        return; /* converted already */
    }
    if (operand < MYLIB_FUSED_REGISTER)
        load_words(args, 1 + operand - MYLIB_FUSED_DIRECT, at, size_of(from), w);
    else if (operand != MYLIB_FUSED_FORWARDED)
        read_words(place_of<MIXED>(own, operand - MYLIB_FUSED_REGISTER), w);
    if (from == to)
        return;
    uint4 *place = place_of<MIXED>(own, args.registers);
    write_words(place_of<MIXED>(own, args.registers + 1), other);
    write_words(place, w);
    convert_place(from, to, place);
    read_words(place, w);
    read_words(place_of<MIXED>(own, args.registers + 1), other);
}

/*
 * Computes the operation on packed words of one type; returns false for operations that are calls.
 */
template <typename T>
__device__ __forceinline__ bool step_words(const mylib_fused_statement &s, uint32_t (&x)[WORDS],
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

__global__ void __launch_bounds__(MYLIB_FUSED_MOST_THREADS, BLOCKS<MIXED>)
    mixed_kernel(const __grid_constant__ fused_args args)
{
    alignas(16) uint32_t x[WORDS] = {0}, y[WORDS] = {0};
    uint4 *own = fused_shared + threadIdx.x;
    uint32_t mask = 0;
    position<SPACED> at;
    at.count = mylib_fused_spaced(&args, (int32_t)blockIdx.x, (int32_t)threadIdx.x, MIXED_N,
                                  &at.row, &at.column);
    if (at.count == 0)
        return;
#pragma unroll 1
    for (int i = 0; i < args.statements; i++) {
        const mylib_fused_statement s = args.statement[i];
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
                uint4 *place = place_of<MIXED>(own, args.registers);
                write_words(place, x);
                write_words(place_of<MIXED>(own, args.registers + 1), y);
                call_words(s.type, s.opcode, place, place_of<MIXED>(own, args.registers + 1));
                read_words(place, x);
            }
        } else if (is_mask) {
            mask = 0;
#pragma unroll
            for (int j = 0; j < MIXED_N; j++)
                mask |= (uint32_t)((y[j / 4] >> 8 * (j % 4) & 0xff) != 0) << j;
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
            write_words(place_of<MIXED>(own, s.target - MYLIB_FUSED_REGISTER), x);
    }

    store_words(args, at, size_of(args.result_type), x);
}

cudaError_t launch(const fused_args *args, cudaStream_t stream)
{
    void *parameters[] = {(void *)args};
    const void *kernel = (const void *)mixed_kernel;
    switch (args->computed_type) {
#define DT(s, S)                                                                                   \
    case MYLIB_##S:                                                                                \
        kernel = args->spare > 0 ? (const void *)fused_kernel<t_##s, CALLS>                        \
                 : args->is_flat ? (const void *)fused_kernel<t_##s, FLAT>                         \
                                 : (const void *)fused_kernel<t_##s, SPACED>;                      \
        break;
        MYLIB_FUSED_TYPES(DT)
#undef DT
    }
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
