/*
 * program.cu - programs of several statements in one pass; fused.h has the whole of it.
 *
 * A statement reads its second operand and then its first into hardware registers, where the result
 * of the last one may be already, and leaves its result there.  All threads take the same way, but
 * for those at the end of a row.
 */
#include "interpreter.cuh"

#include "fused.h"

namespace
{

constexpr int GROUPS = MYLIB_FUSED_GROUPS;
typedef mylib_fused_args fused_args;
typedef mylib_fused_statement fused_statement;
static_assert(GROUPS * 16 == MYLIB_FUSED_REGISTER_NBYTES, "a group of the widest type is a uint4");

/* The group of elements that is the first of this thread's, and whether all of its are whole. */
struct position {
    int64_t first;
    bool is_full;
};

template <int G> __device__ __forceinline__ position position_of(const fused_args &args)
{
    position at;
    at.first = (int64_t)blockIdx.x * (blockDim.x * GROUPS) + threadIdx.x;
    at.is_full = true;
#pragma unroll
    for (int v = 0; v < GROUPS; v++) {
        int32_t row;
        int64_t column, group = at.first + v * blockDim.x;
        at.is_full &= mylib_fused_group(&args, group, G, &row, &column) == G;
    }
    return at;
}

/*
 * Group v of a thread, as mylib_fused_group() finds it.  Found anew each time: what it is computed
 * from takes fewer registers than what there is to know of it.
 */
template <int G>
__device__ __forceinline__ int find_group(const fused_args &args, int64_t first, int v,
                                          int32_t *row, int64_t *column)
{
    if (args.ndim > 1)
        first = (uint32_t)anew((uint32_t)first);
    return mylib_fused_group(&args, first + v * blockDim.x, G, row, column);
}

/* Whether the groups of operand k are read and written as vectors without a detour. */
__device__ __forceinline__ bool is_direct(const fused_args &args, const position &at, int k)
{
    return at.is_full && args.ndim <= 2 && args.access[k] == MYLIB_FUSED_VECTOR;
}

/* Where the groups then are in operand k, of elements of `size` bytes. */
template <int G>
__device__ __forceinline__ void find_vectors(const fused_args &args, int64_t first, int k, int size,
                                             char *(&p)[GROUPS])
{
#pragma unroll
    for (int v = 0; v < GROUPS; v++) {
        if (args.ndim == 1) {
            p[v] = v == 0 ? args.data[k] + first * (G * size) : p[v - 1] + blockDim.x * (G * size);
        } else {
            int32_t row;
            int64_t column;
            (void)find_group<G>(args, first, v, &row, &column);
            p[v] = args.data[k] + row * args.strides[0][k] + column * size;
        }
    }
}

/*
 * This thread's place of a register in shared memory; its second group is blockDim.x further on.
 * Behind the registers are two more, for what is done by calls: no value waits in a hardware
 * register while a function runs, for there are few that functions leave alone.
 */
__device__ __forceinline__ uint4 *place_of(const uint4 *own, int number)
{
    return (uint4 *)own + number * (int)(GROUPS * blockDim.x);
}

/* ---- Programs of one type ------------------------------------------------------------------ */

template <typename T> struct single {
    static constexpr int G = MYLIB_FUSED_GROUP(sizeof(T)), N = G * GROUPS;
};

/*
 * An input of any type and layout, converted, into the thread's place for it.  A function of its
 * own, so that it takes no registers from the common way.
 */
template <typename T>
__device__ __noinline__ void read_slowly(const fused_args &args, int input, int64_t first,
                                         uint4 *place)
{
    constexpr int G = single<T>::G;
    int k = 1 + input, type = args.input_type[input];
    int64_t step = args.strides[args.ndim - 1][k];
#pragma unroll 1
    for (int v = 0; v < GROUPS; v++, place += blockDim.x) {
        int32_t row;
        int64_t column;
        int n = mylib_fused_group(&args, first + v * blockDim.x, G, &row, &column);
        const char *p = args.data[k] + mylib_fused_row(&args, k, row);
        alignas(16) T x[G];
        if (n == 0)
            continue;
        p += column * step; /* of a SINGLE the step is 0 */
        if (type == number_of<T>::value) {
#pragma unroll
            for (int i = 0; i < G; i++)
                x[i] = i < n ? load_element<T>(p + i * step) : T();
            *place = *(const uint4 *)x;
            continue;
        }
        bool is_done = false;
        if (n == G && args.access[k] == MYLIB_FUSED_VECTOR) {
            switch (type) {
#define DT(s, S)                                                                                   \
    case MYLIB_##S:                                                                                \
        if constexpr (is_promoted<T, t_##s>()) {                                                   \
            alignas(16) t_##s values[G];                                                           \
            typedef typename bits_of<sizeof values>::type bits;                                    \
            *(bits *)values = *(const bits *)p;                                                    \
            _Pragma("unroll") for (int i = 0; i < G; i++) x[i] = convert<T>(values[i]);            \
            is_done = true;                                                                        \
        }                                                                                          \
        break;
                MYLIB_STORED_TYPES(DT)
#undef DT
            }
            if (is_done)
                *place = *(const uint4 *)x;
        }
#pragma unroll 1
        for (int i = 0; i < n && !is_done; i++, p += step)
            ((T *)place)[i] = load_as<T>(type, p);
    }
}

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

/* An operand into x, while `other` is needed too. */
template <typename T>
__device__ __forceinline__ void read_operand(const fused_args &args, int operand,
                                             const position &at, uint4 *own, T (&x)[single<T>::N],
                                             T (&other)[single<T>::N])
{
    constexpr int G = single<T>::G;
    if (operand >= MYLIB_FUSED_REGISTER) {
        read_place(place_of(own, operand - MYLIB_FUSED_REGISTER), x);
    } else if (operand >= MYLIB_FUSED_CONSTANT) {
        uint4 value = *(const uint4 *)args.constant[operand - MYLIB_FUSED_CONSTANT];
#pragma unroll
        for (int v = 0; v < GROUPS; v++)
            *(uint4 *)&x[v * G] = value;
    } else if (is_direct(args, at, 1 + operand) &&
               args.input_type[operand] == number_of<T>::value) {
        char *p[GROUPS];
        find_vectors<G>(args, at.first, 1 + operand, sizeof(T), p);
#pragma unroll
        for (int v = 0; v < GROUPS; v++)
            *(uint4 *)&x[v * G] = *(const uint4 *)p[v];
    } else {
        write_place(place_of(own, args.registers), other);
        read_slowly<T>(args, operand, at.first, place_of(own, args.registers + 1));
        read_place(place_of(own, args.registers), other);
        read_place(place_of(own, args.registers + 1), x);
    }
}

/* Whether an operation is done by a call. */
template <typename T> __device__ __forceinline__ bool is_called(int opcode)
{
    bool found = false;
#define ROW(arity, op, set)                                                                        \
    if constexpr (meaning<MYLIB_OP_##op, T>::is_defined && is_costly<MYLIB_OP_##op, T>())          \
        found |= opcode == MYLIB_OP_##op;
    MYLIB_OPS(ROW)
#undef ROW
    return found;
}

/* What is done by calls: *x = opcode(*x, *y). */
template <typename T> __device__ __forceinline__ void call_one(int opcode, T *x, const T *y)
{
    switch (opcode) {
#define ROW(arity, op, set)                                                                        \
    case MYLIB_OP_##op:                                                                            \
        if constexpr (meaning<MYLIB_OP_##op, T>::is_defined && is_costly<MYLIB_OP_##op, T>())      \
            *x = meaning<MYLIB_OP_##op, T>::apply(*x, *y);                                         \
        break;
        MYLIB_OPS(ROW)
#undef ROW
    }
}

/* The same for all elements of a thread. */
template <typename T> __device__ __noinline__ void call_costly(int opcode, uint4 *x, const uint4 *y)
{
#pragma unroll 1
    for (int i = 0; i < single<T>::N; i++) {
        int v = i / single<T>::G * (int)blockDim.x, j = i % single<T>::G;
        call_one(opcode, (T *)(x + v) + j, (const T *)(y + v) + j);
    }
}

/* x[i] = opcode(x[i], y[i]), of what is not done by calls. */
template <typename T, int N>
__device__ __forceinline__ void step_in_line(int opcode, T (&x)[N], const T (&y)[N])
{
    switch (opcode) {
#define ROW(arity, op, set)                                                                        \
    case MYLIB_OP_##op:                                                                            \
        if constexpr (meaning<MYLIB_OP_##op, T>::is_defined && !is_costly<MYLIB_OP_##op, T>()) {   \
            _Pragma("unroll") for (int i = 0; i < N; i++) x[i] =                                   \
                meaning<MYLIB_OP_##op, T>::apply(x[i], y[i]);                                      \
        }                                                                                          \
        break;
        MYLIB_OPS(ROW)
#undef ROW
    }
}

/* The results as elements of type R. */
template <typename T, typename R>
__device__ __forceinline__ void write_result(const fused_args &args, const position &at,
                                             const T (&x)[single<T>::N])
{
    constexpr int G = single<T>::G;
    typedef typename bits_of<G * sizeof(R)>::type bits;
    alignas(16) R r[single<T>::N];
#pragma unroll
    for (int i = 0; i < single<T>::N; i++)
        r[i] = convert<R>(x[i]);
    if (is_direct(args, at, 0)) {
        char *p[GROUPS];
        find_vectors<G>(args, at.first, 0, sizeof(R), p);
#pragma unroll
        for (int v = 0; v < GROUPS; v++)
            __stcs((bits *)p[v], *(const bits *)&r[v * G]);
        return;
    }
    int64_t step = args.strides[args.ndim - 1][0];
#pragma unroll
    for (int v = 0; v < GROUPS; v++) {
        int32_t row;
        int64_t column;
        int n = find_group<G>(args, at.first, v, &row, &column);
        char *p = args.data[0] + mylib_fused_row(&args, 0, row) + column * step;
#pragma unroll
        for (int i = 0; i < G; i++)
            if (i < n)
                *(R *)(p + i * step) = r[v * G + i];
    }
}

/* More thread blocks at once would leave too few registers: complex numbers need more of them. */
constexpr int most_blocks(int blocks) { return MAX_BLOCKS < blocks ? MAX_BLOCKS : blocks; }
template <typename T> constexpr int SINGLE_BLOCKS = most_blocks(real_of<T>::is_complex ? 4 : 5);
constexpr int MIXED_BLOCKS = most_blocks(5);

extern __shared__ uint4 fused_shared[];

template <typename T>
__global__ void __launch_bounds__(MYLIB_FUSED_MOST_THREADS, SINGLE_BLOCKS<T>)
    fused_kernel(const __grid_constant__ fused_args args)
{
    constexpr int N = single<T>::N;
    alignas(16) T x[N] = {}, y[N] = {};
    uint4 *own = fused_shared + threadIdx.x;
    uint32_t mask = 0;
    const position at = position_of<single<T>::G>(args);
    if (at.first >= args.groups)
        return;
#pragma unroll 1
    for (int i = 0; i < args.statements; i++) {
        const fused_statement s = args.statement[i];
        if (s.operand[1] == MYLIB_FUSED_FORWARDED) {
#pragma unroll
            for (int j = 0; j < N; j++)
                y[j] = x[j];
        } else if (s.operand[1] != MYLIB_FUSED_ABSENT) {
            read_operand(args, s.operand[1], at, own, y, x);
        }
        if (s.operand[0] != MYLIB_FUSED_FORWARDED)
            read_operand(args, s.operand[0], at, own, x, y);
        if (s.opcode == MYLIB_FUSED_MASK) {
            mask = 0;
#pragma unroll
            for (int j = 0; j < N; j++)
                mask |= (uint32_t)is_nonzero(y[j]) << j;
        } else if (s.opcode == MYLIB_FUSED_TEST) {
#pragma unroll
            for (int j = 0; j < N; j++)
                x[j] = convert<T>(convert<t_bool>(x[j]));
        } else if (s.opcode == MYLIB_OPCODE_SELECT) {
            select(x, y, mask);
        } else if (is_called<T>(s.opcode)) {
            uint4 *place = place_of(own, args.registers);
            write_place(place, x);
            write_place(place_of(own, args.registers + 1), y);
            call_costly<T>(s.opcode, place, place_of(own, args.registers + 1));
            read_place(place, x);
        } else {
            step_in_line(s.opcode, x, y);
        }
        if (s.target != MYLIB_FUSED_ABSENT)
            write_place(place_of(own, s.target - MYLIB_FUSED_REGISTER), x);
    }
    if (args.result_type == number_of<T>::value)
        write_result<T, T>(args, at, x);
    else if (args.result_type == MYLIB_BOOL)
        write_result<T, t_bool>(args, at, x);
    else if constexpr (real_of<T>::is_complex)
        write_result<T, typename real_of<T>::type>(args, at, x);
}

/* ---- Programs of several types ------------------------------------------------------------- */

/* The elements of a thread, of any type of 8 bytes at most, are packed in as many words. */
constexpr int MIXED_G = MYLIB_FUSED_MIXED_GROUP, MIXED_N = MIXED_G * GROUPS;
constexpr int WORDS = MYLIB_FUSED_REGISTER_NBYTES / 4;
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

/* Those with operations that are done by calls. */
#define MIXED_COSTLY_TYPES(DT)                                                                     \
    DT(f16, F16)                                                                                   \
    DT(f32, F32)                                                                                   \
    DT(f64, F64)                                                                                   \
    DT(c64, C64)

__device__ __forceinline__ int size_of(int type)
{
    switch (type) {
#define DT(s, S)                                                                                   \
    case MYLIB_##S:                                                                                \
        return sizeof(t_##s);
        MIXED_TYPES(DT)
#undef DT
    }
    return 0;
}

/* One element, in the low bytes of its bits, as one of another type. */
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

/* Element i of what is packed at a place in shared memory: two uint4 that are apart. */
__device__ __forceinline__ char *element_of(uint4 *place, int size, int i)
{
    int at = i * size;
    return (char *)(place + at / 16 * blockDim.x) + at % 16;
}

/* What is at a place converted there. */
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

/* An input of any layout into the thread's place for it. */
__device__ __noinline__ void read_any(const fused_args &args, int input, int64_t first,
                                      uint4 *place)
{
    int k = 1 + input, size = size_of(args.input_type[input]);
    int64_t step = args.strides[args.ndim - 1][k];
#pragma unroll 1
    for (int i = 0; i < MIXED_N; i++) {
        int32_t row;
        int64_t column, group = first + i / MIXED_G * (int)blockDim.x;
        int n = mylib_fused_group(&args, group, MIXED_G, &row, &column);
        const char *p = args.data[k] + mylib_fused_row(&args, k, row);
        uint64_t bits = 0;
        if (i % MIXED_G < n)
            bits = load_bits(
                size, args.access[k] == MYLIB_FUSED_SINGLE ? p : p + (column + i % MIXED_G) * step);
        store_bits(size, element_of(place, size, i), bits);
    }
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

/* Groups of vectors of memory to packed words, and back. */
__device__ __forceinline__ void read_vectors(const fused_args &args, int operand,
                                             const position &at, int size, uint32_t (&w)[WORDS])
{
    char *p[GROUPS];
    find_vectors<MIXED_G>(args, at.first, 1 + operand, size, p);
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
__device__ __forceinline__ void write_vectors(const fused_args &args, const position &at, int size,
                                              const uint32_t (&w)[WORDS])
{
    char *p[GROUPS];
    find_vectors<MIXED_G>(args, at.first, 0, size, p);
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

/* An operand as the words of type `to`, while `other` is needed too. */
__device__ __forceinline__ void read_mixed(const fused_args &args, int operand, int from, int to,
                                           const position &at, uint4 *own, uint32_t (&w)[WORDS],
                                           uint32_t (&other)[WORDS])
{
    uint4 *place = place_of(own, args.registers);
    bool is_there = true;
    if (operand >= MYLIB_FUSED_CONSTANT && operand < MYLIB_FUSED_REGISTER) {
        uint4 q = *(const uint4 *)args.constant[operand - MYLIB_FUSED_CONSTANT];
#pragma unroll
        for (int v = 0; v < GROUPS; v++)
            w[4 * v] = q.x, w[4 * v + 1] = q.y, w[4 * v + 2] = q.z, w[4 * v + 3] = q.w;
        return; /* converted already */
    }
    if (operand < MYLIB_FUSED_CONSTANT) {
        is_there = is_direct(args, at, 1 + operand);
        if (is_there)
            read_vectors(args, operand, at, size_of(from), w);
    } else if (operand != MYLIB_FUSED_FORWARDED) {
        read_words(place_of(own, operand - MYLIB_FUSED_REGISTER), w);
    }
    if (is_there && from == to)
        return;
    write_words(place_of(own, args.registers + 1), other);
    if (is_there)
        write_words(place, w);
    else
        read_any(args, operand, at.first, place);
    if (from != to)
        convert_place(from, to, place);
    read_words(place, w);
    read_words(place_of(own, args.registers + 1), other);
}

/* The operation on packed words, for one type. */
template <typename T>
__device__ __forceinline__ void step_words(const fused_statement &s, uint32_t (&x)[WORDS],
                                           const uint32_t (&y)[WORDS])
{
    typedef typename real_of<T>::type R;
    alignas(16) T a[MIXED_N], b[MIXED_N];
    memcpy(a, x, sizeof a);
    memcpy(b, y, sizeof b);
    step_in_line(s.opcode, a, b);
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
}

/*
 * What is done by calls: all elements of a thread, at two places.  The result of an absolute is
 * packed as it is of the real type.
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
        MIXED_COSTLY_TYPES(DT)
#undef DT
    }
}
__device__ __forceinline__ bool is_called_of(int type, int opcode)
{
    switch (type) {
#define DT(s, S)                                                                                   \
    case MYLIB_##S:                                                                                \
        return is_called<t_##s>(opcode);
        MIXED_COSTLY_TYPES(DT)
#undef DT
    }
    return false;
}

/* x = mask ? x : y, of elements of the size of B. */
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
    const position at = position_of<MIXED_G>(args);
    if (at.first >= args.groups)
        return;
#pragma unroll 1
    for (int i = 0; i < args.statements; i++) {
        const fused_statement s = args.statement[i];
        bool is_mask = s.opcode == MYLIB_FUSED_MASK;
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
        if (is_mask) {
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
        } else if (is_called_of(s.type, s.opcode)) {
            uint4 *place = place_of(own, args.registers);
            write_words(place, x);
            write_words(place_of(own, args.registers + 1), y);
            call_words(s.type, s.opcode, place, place_of(own, args.registers + 1));
            read_words(place, x);
        } else if (s.opcode != MYLIB_OPCODE_LOAD) {
            switch (s.type) {
#define DT(t, S)                                                                                   \
    case MYLIB_##S:                                                                                \
        step_words<t_##t>(s, x, y);                                                                \
        break;
                MIXED_TYPES(DT)
#undef DT
            }
        }
        if (s.target != MYLIB_FUSED_ABSENT)
            write_words(place_of(own, s.target - MYLIB_FUSED_REGISTER), x);
    }

    int size = size_of(args.result_type);
    if (is_direct(args, at, 0)) {
        write_vectors(args, at, size, x);
        return;
    }
    uint4 *place = place_of(own, args.registers);
    int64_t step = args.strides[args.ndim - 1][0];
    write_words(place, x);
#pragma unroll 1
    for (int j = 0; j < MIXED_N; j++) {
        int32_t row;
        int64_t column;
        int n = find_group<MIXED_G>(args, at.first, j / MIXED_G, &row, &column);
        char *p = args.data[0] + mylib_fused_row(&args, 0, row) + (column + j % MIXED_G) * step;
        if (j % MIXED_G < n)
            store_bits(size, p, load_bits(size, element_of(place, size, j)));
    }
}

cudaError_t launch(const fused_args *args, cudaStream_t stream)
{
    void *parameters[] = {(void *)args};
    const void *kernel = (const void *)mixed_kernel;
    size_t shared = (size_t)args->threads *
                    (size_t)(args->registers + MYLIB_FUSED_SPARE_REGISTERS) *
                    MYLIB_FUSED_REGISTER_NBYTES;
    switch (args->computed_type) {
#define DT(s, S)                                                                                   \
    case MYLIB_##S:                                                                                \
        kernel = (const void *)fused_kernel<t_##s>;                                                \
        break;
        MYLIB_FUSED_TYPES(DT)
#undef DT
    }
    return cudaLaunchKernel(kernel, dim3((unsigned)mylib_fused_blocks(args)),
                            dim3((unsigned)args->threads), parameters, shared, stream);
}

} // namespace

mylib_status mylib_cuda_launch_fused(const mylib_fused_args *args, void *stream)
{
    return mylib_from_cuda(launch(args, (cudaStream_t)stream), "cudaLaunchKernel", __FILE__,
                           __LINE__);
}
