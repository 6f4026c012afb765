/*
 * contiguous.cu - single operations over rows of vectors; floating-point flags; scalars; ranges.
 */
#include <string.h>

#include "interpreter.cuh"
#include "launch.cuh"
#include "../warnings.h"

namespace
{

/* ---- One operation ---- */

/*
 * Computes a single operation, a selection or a conversion.  It loads operands of the computed type
 * first; the others are located and converted while those loads are in flight.
 */
template <typename T> struct contiguous {
    /* At full occupancy, one vector in flight for each operand keeps the memory busy. */
    static constexpr int N = 16 / sizeof(T);
    static constexpr int64_t TILE = (int64_t)THREADS * N;
};

/*
 * Tells whether elements of type S are read as vectors and converted to T: S is promoted to T, or
 * has at most twice its size.
 */
template <typename T, typename S> __host__ __device__ constexpr bool is_read()
{
    constexpr element_class t = class_of<T>::value, s = class_of<S>::value;
    return is_promoted<T, S>() || (number_of<T>::value != number_of<S>::value && t != BOOL &&
                                   (s != COMPLEX || t == COMPLEX) && sizeof(S) <= 2 * sizeof(T));
}

/* Converts a vector of another type; returns false if is_read() is false. */
template <typename T> __device__ __forceinline__ bool read_converted(int type, const char *p, T *x)
{
    constexpr int N = contiguous<T>::N;
    return with_type(type, false, [=](auto s) {
        typedef TYPE_OF(s) S;
        if constexpr (is_read<T, S>()) {
            alignas(16) S values[N];
            constexpr int WIDTH = sizeof values < 16 ? sizeof values : 16;
            typedef typename bits_of<WIDTH>::type bits;
#pragma unroll
            for (int i = 0; i < (int)sizeof values / WIDTH; i++)
                ((bits *)values)[i] = ((const bits *)p)[i];
#pragma unroll
            for (int i = 0; i < N; i++)
                x[i] = convert<T>(values[i]);
        }
        return is_read<T, S>();
    });
}

/* Finds the indices of thread block and thread; recomputed at each use, to hold no registers. */
__device__ __forceinline__ void find_thread(uint32_t &block, uint32_t &thread)
{
    asm volatile("mov.u32 %0, %%ctaid.x; mov.u32 %1, %%tid.x;" : "=r"(block), "=r"(thread));
}

/* Finds this thread's vector: its row, and its first element in the row. */
__device__ __forceinline__ void find_vector(const mylib_contiguous_args &args, int n, int32_t &row,
                                            int64_t &at)
{
    uint32_t block, thread;
    find_thread(block, thread);
    int64_t vector = (int64_t)block * THREADS + thread;
    row = 0;
    if (args.row_vectors != 0) {
        row = mylib_divide((int32_t)vector, args.row_divider);
        vector = (int32_t)vector - row * args.row_vectors;
    }
    at = vector * n;
}

__device__ __forceinline__ bool takes_vectors(const mylib_contiguous_args &args)
{
    uint32_t block, thread;
    find_thread(block, thread);
    return block < args.full_blocks || (block == args.full_blocks && thread < args.last_vectors);
}

/*
 * Finds the thread's element i in a single row, clamped to the last element; tells whether it
 * exists.  Threads of a warp take adjacent elements.
 */
__device__ __forceinline__ bool find_element(const mylib_contiguous_args &args, int i,
                                             int64_t &index)
{
    uint32_t block, thread;
    find_thread(block, thread);
    index = args.first_element + (int64_t)block * args.block_elements + i * THREADS + thread;
    bool is_there = index < args.n;
    index = is_there ? index : args.n - 1;
    return is_there;
}

/*
 * Reads operand k element by element: the rare case of small elements or of a conversion.  Not
 * inlined, so that the common path keeps its registers.
 */
template <typename T>
__device__ __noinline__ void read_elements(const mylib_contiguous_args &args, int k, T *x)
{
    int64_t index;
#pragma unroll 1
    for (int i = 0; i < args.elements; i++) {
        find_element(args, i, index);
        x[i] = load_at<T>(args.type[k], args.in[k], index);
    }
#pragma unroll 1
    for (int i = args.elements; i < contiguous<T>::N; i++)
        x[i] = x[0];
}

/* Returns a mask: bit i is set where the condition of this thread's element i differs from 0. */
template <typename T>
__device__ __forceinline__ uint32_t read_condition(const mylib_contiguous_args &args)
{
    constexpr int N = contiguous<T>::N;
    uint32_t mask = 0;
    int64_t at;
    if (takes_vectors(args)) {
        alignas(16) uint8_t values[N];
        int32_t row;
        find_vector(args, N, row, at);
        const char *p = args.condition + row * args.condition_stride + at;
        *(typename bits_of<N>::type *)values = *(const typename bits_of<N>::type *)p;
#pragma unroll
        for (int i = 0; i < N; i++)
            mask |= (uint32_t)(values[i] != 0) << i;
        return mask;
    }
#pragma unroll 1
    for (int i = 0; i < args.elements; i++) {
        find_element(args, i, at);
        mask |= (uint32_t)(args.condition[at] != 0) << i;
    }
    return mask;
}

template <typename T, typename R>
__device__ __forceinline__ void write_contiguous(const mylib_contiguous_args &args, const T *acc)
{
    constexpr int N = contiguous<T>::N;
    typedef typename bits_of<N * sizeof(R)>::type W;
    alignas(16) R r[N];
    int64_t at;
#pragma unroll
    for (int i = 0; i < N; i++)
        r[i] = convert<R>(acc[i]);
    if (takes_vectors(args)) {
        int32_t row;
        find_vector(args, N, row, at);
        R *out = (R *)(args.out + row * args.out_stride) + at;
        __stcs((W *)out, *(const W *)r);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        if (find_element(args, i, at))
            ((R *)args.out)[at] = r[i];
}

/*
 * Needs full occupancy to hide latency.  Threads read single elements after the last vector of a
 * single row, and if an operand is not aligned.
 */
template <typename T>
__global__ void __launch_bounds__(THREADS, MAX_BLOCKS)
    contiguous_kernel(const __grid_constant__ mylib_contiguous_args args)
{
    constexpr int N = contiguous<T>::N;
    alignas(16) T operand[2][N];
    int64_t at;
    int32_t row;
    wait_for_previous();
    if (!takes_vectors(args) && (args.row_vectors != 0 || !find_element(args, 0, at)))
        return;
    find_vector(args, N, row, at);
#pragma unroll
    for (int k = 0; k < 2; k++) {
        const char *p = args.in[k] + row * args.stride[k];
        if (args.kind[k] == MYLIB_CONTIGUOUS_VECTOR) {
            if (takes_vectors(args)) {
                *(uint4 *)operand[k] = *(const uint4 *)(p + at * sizeof(T));
            } else if (sizeof(T) >= MYLIB_CONTIGUOUS_ELEMENT_MIN) {
#pragma unroll
                for (int i = 0; i < N; i++) {
                    int64_t index;
                    find_element(args, i, index);
                    operand[k][i] = load_element<T>(p + index * (int64_t)sizeof(T));
                }
            }
        } else if (args.kind[k] == MYLIB_CONTIGUOUS_CONSTANT) {
            *(uint4 *)operand[k] = *(const uint4 *)args.constant[k];
        } else if (args.kind[k] == MYLIB_CONTIGUOUS_SINGLE) {
            T value = load_element<T>(p);
#pragma unroll
            for (int i = 0; i < N; i++)
                operand[k][i] = value;
        }
    }
    if (args.has_conversions) {
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const char *p = args.in[k] + row * args.stride[k];
            if (args.kind[k] == MYLIB_CONTIGUOUS_CONVERTED_VECTOR) {
                if (takes_vectors(args))
                    read_converted<T>(args.type[k], p + (at << args.shift[k]), operand[k]);
            } else if (args.kind[k] == MYLIB_CONTIGUOUS_CONVERTED_SINGLE) {
                T value = load_as<T>(args.type[k], p);
#pragma unroll
                for (int i = 0; i < N; i++)
                    operand[k][i] = value;
            }
        }
    }
    if (!takes_vectors(args)) {
#pragma unroll
        for (int k = 0; k < 2; k++) {
            if (args.kind[k] != MYLIB_CONTIGUOUS_CONVERTED_VECTOR &&
                (args.kind[k] != MYLIB_CONTIGUOUS_VECTOR ||
                 sizeof(T) >= MYLIB_CONTIGUOUS_ELEMENT_MIN))
                continue;
            alignas(16) T elements[N];
            read_elements(args, k, elements);
#pragma unroll
            for (int i = 0; i < N; i++)
                operand[k][i] = elements[i];
        }
    }
    step<T, N>(args.opcode, operand[0], operand[1],
               args.condition == NULL ? 0 : read_condition<T>(args));

    /* Recompute the addresses instead of holding them in registers. */
    if (args.result_type == number_of<T>::value)
        write_contiguous<T, T>(args, operand[0]);
    else if (args.result_type == MYLIB_BOOL)
        write_contiguous<T, t_bool>(args, operand[0]);
    else if constexpr (real_of<T>::is_complex)
        write_contiguous<T, typename real_of<T>::type>(args, operand[0]);
}

template <typename T> __host__ __device__ constexpr unsigned types_read()
{
    unsigned types = 0;
#define DT(s, S) \
    if (number_of<T>::value == MYLIB_##S || is_read<T, t_##s>()) \
        types |= 1u << MYLIB_##S;
    MYLIB_STORED_TYPES(DT)
#undef DT
    return types;
}

/* ---- Floating-point flags ---- */

__device__ __forceinline__ bool is_division(int op)
{
    return op == MYLIB_OP_divide || op == MYLIB_OP_floor_divide || op == MYLIB_OP_remainder;
}

/* Raises the flags of an integer operation, as scalar_ops.h does on the CPU. */
template <typename T> __device__ __forceinline__ unsigned flags_of(int op, T a, T b, T)
{
    bool is_remainder = op == MYLIB_OP_remainder || op == MYLIB_OP_fmod;
    if (!is_division(op) && !is_remainder && op != MYLIB_OP_reciprocal)
        return 0;
    if (b == 0) /* b is a for reciprocal */
        return MYLIB_FLAG_DIVBYZERO;
    bool is_signed = (T)-1 < (T)0;
    T lowest = (T)((uint64_t)1 << (8 * sizeof(T) - 1));
    return is_signed && a == lowest && b == (T)-1 && is_division(op) && !is_remainder
               ? MYLIB_FLAG_OVERFLOW
               : 0;
}

/*
 * Finds flags from results: a new NaN is invalid; a new infinity is an overflow or a division by
 * zero.
 */
__device__ __forceinline__ unsigned flags_of_part(int op, bool has_nan, bool is_finite,
                                                  bool is_zero, double result)
{
    if (isnan(result))
        return has_nan ? 0 : MYLIB_FLAG_INVALID;
    if (!isinf(result) || !is_finite)
        return 0;
    return is_division(op) && is_zero ? MYLIB_FLAG_DIVBYZERO : MYLIB_FLAG_OVERFLOW;
}
__device__ __forceinline__ unsigned flag_of_warning(int warning)
{
    return warning == MYLIB_WARNS_INVALID     ? MYLIB_FLAG_INVALID
           : warning == MYLIB_WARNS_DIVBYZERO ? MYLIB_FLAG_DIVBYZERO
           : warning == MYLIB_WARNS_OVERFLOW  ? MYLIB_FLAG_OVERFLOW
                                              : 0;
}
__device__ __forceinline__ unsigned flags_of(int op, t_f64 a, t_f64 b, t_f64 result)
{
    if (can_warn((mylib_op)op))
        return flag_of_warning(warning_of_real((mylib_op)op, a, b, result));
    return flags_of_part(op, isnan(a) || isnan(b), isfinite(a) && isfinite(b), b == 0, result);
}
__device__ __forceinline__ unsigned flags_of(int op, t_f32 a, t_f32 b, t_f32 result)
{
    return flags_of(op, (t_f64)a, (t_f64)b, (t_f64)result);
}
__device__ __forceinline__ unsigned flags_of(int op, t_f16 a, t_f16 b, t_f16 result)
{
    return flags_of(op, f32_from_f16(a), f32_from_f16(b), f32_from_f16(result));
}
__device__ __forceinline__ unsigned flags_of(int op, t_c128 a, t_c128 b, t_c128 result)
{
    if (can_warn((mylib_op)op))
        return flag_of_warning(warning_of_complex((mylib_op)op, a, b, result.re)) |
               flag_of_warning(warning_of_complex((mylib_op)op, a, b, result.im));
    bool has_nan = isnan(a.re) || isnan(a.im) || isnan(b.re) || isnan(b.im);
    bool is_finite = isfinite(a.re) && isfinite(a.im) && isfinite(b.re) && isfinite(b.im);
    bool is_zero = b.re == 0 && b.im == 0;
    return flags_of_part(op, has_nan, is_finite, is_zero, result.re) |
           flags_of_part(op, has_nan, is_finite, is_zero, result.im);
}
__device__ __forceinline__ unsigned flags_of(int op, t_c64 a, t_c64 b, t_c64 result)
{
    return flags_of(op, make_c128(a.re, a.im), make_c128(b.re, b.im),
                    make_c128(result.re, result.im));
}

template <typename T>
__device__ __forceinline__ T read_one(const mylib_flags_args &args, int k, int64_t i)
{
    if (args.in[k] == NULL)
        return *(const T *)args.constant[k];
    return load_at<T>(args.input_type[k], args.in[k], i);
}

constexpr int FLAG_BLOCKS = 1024;

template <typename T>
__global__ void __launch_bounds__(THREADS)
    flags_kernel(const __grid_constant__ mylib_flags_args args, unsigned *flags)
{
    typedef typename real_of<T>::type R;
    int op = args.opcode;
    unsigned found = 0;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < args.n;
         i += (int64_t)FLAG_BLOCKS * THREADS) {
        T a = read_one<T>(args, 0, i), b = args.operands == 2 ? read_one<T>(args, 1, i) : a;
        T result = args.result_type != args.type ? real_of<T>::widen(((const R *)args.out)[i])
                                                 : ((const T *)args.out)[i];
        found |= flags_of(op, a, b, result);
    }
    if (found != 0)
        atomicOr(flags, found);
}

/* ---- Scalars, and words for the host ---- */

__device__ int exact_scalar(int op, t_i64 a, t_i64 b, t_i64 *result)
{
    switch (op) {
#define EXACT_CASE(op) \
    case MYLIB_OP_##op: \
        return exact_##op(a, b, result);
#define CASES_INT(op) EXACT_CASE(op)
#define CASES_REAL(op) EXACT_CASE(op)
#define CASES_ALL(op) EXACT_CASE(op)
#define CASES_INEXACT(op)
#define CASES_FLOAT(op)
#define ROW(kind, op, set) CASES_##set(op)
        MYLIB_ARITHMETIC(ROW)
#undef ROW
    }
    return MYLIB_ERR_UNSUPPORTED;
}

template <typename T>
__device__ __forceinline__ void inexact_scalar(const mylib_scalar_args &args,
                                               mylib_scalar_result &result)
{
    T acc[1] = {*(const T *)args.a}, x[1] = {*(const T *)args.b};
    step<T, 1>(args.op, acc, x);
    *(T *)result.value = acc[0];
}

__device__ __forceinline__ void send_word(uint64_t *to, uint32_t value)
{
    *(volatile uint64_t *)to = MYLIB_MARK | value;
}

__global__ void scalar_kernel(const __grid_constant__ mylib_scalar_args args)
{
    mylib_scalar_result result = {};
    wait_for_previous();
    if (args.type == MYLIB_I64)
        result.status = exact_scalar(args.op, *(const t_i64 *)args.a, *(const t_i64 *)args.b,
                                     (t_i64 *)result.value);
    else if (args.type == MYLIB_F64)
        inexact_scalar<t_f64>(args, result);
    else
        inexact_scalar<t_c128>(args, result);
    uint32_t words[MYLIB_SCALAR_WORDS];
    memcpy(words, &result, sizeof words);
#pragma unroll
    for (int i = 0; i < MYLIB_SCALAR_WORDS; i++)
        send_word(args.result + i, words[i]);
}

__global__ void __launch_bounds__(THREADS)
    fetch_kernel(const __grid_constant__ mylib_fetch_args args)
{
    const int at = (int)threadIdx.x * 4;
    const char *p = args.from + at;
    uint32_t word = 0;
    wait_for_previous();
    if (at >= args.nbytes)
        return;
    if (((uintptr_t)p | (uintptr_t)args.nbytes) % 4 == 0)
        word = *(const uint32_t *)p;
    else
        for (int i = 0; i < 4 && at + i < args.nbytes; i++)
            word |= (uint32_t)(uint8_t)p[i] << 8 * i;
    send_word(args.to + threadIdx.x, word);
}

template <typename T>
cudaError_t launch_contiguous(mylib_contiguous_args *args, cudaStream_t stream)
{
    constexpr int N = contiguous<T>::N;
    constexpr int64_t TILE = contiguous<T>::TILE;
    const bool is_converted = args->kind[0] == MYLIB_CONTIGUOUS_CONVERTED_VECTOR ||
                              args->kind[1] == MYLIB_CONTIGUOUS_CONVERTED_VECTOR;
    int64_t blocks = (args->n + TILE - 1) / TILE;
    /* A short last block reads N elements a thread if that takes no call of read_elements(). */
    args->full_blocks = args->is_by_elements ? 0 : (uint32_t)(args->n / TILE);
    args->last_vectors = 0;
    args->first_element = 0;
    args->block_elements = TILE;
    args->elements = N;
    if (args->row_vectors != 0 ||
        (!args->is_by_elements && (is_converted || sizeof(T) < MYLIB_CONTIGUOUS_ELEMENT_MIN))) {
        /* Each thread after the last vector takes one of the elements that are left. */
        const int64_t vectors = args->n / N, left = args->n % N;
        blocks = (vectors + left + THREADS - 1) / THREADS;
        args->last_vectors = (uint32_t)(vectors % THREADS);
        args->first_element = args->n - left - vectors;
        args->block_elements = THREADS;
        args->elements = 1;
    }
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    return launch((const void *)contiguous_kernel<T>, dim3((unsigned)blocks), THREADS, args, 0,
                  stream);
}

template <typename T>
cudaError_t launch_flags(const mylib_flags_args *args, unsigned *flags, cudaStream_t stream)
{
    int64_t blocks = (args->n + THREADS - 1) / THREADS;
    flags_kernel<T>
        <<<(unsigned)(blocks < FLAG_BLOCKS ? blocks : FLAG_BLOCKS), THREADS, 0, stream>>>(*args,
                                                                                          flags);
    return cudaGetLastError();
}

/* ---- Small copies ---- */

constexpr int COPY_N = 4;

template <typename T> __device__ __forceinline__ void copy_piece(const mylib_copy_piece &p)
{
    const int first = (int)(blockIdx.x * (THREADS * COPY_N) + threadIdx.x);
    T x[COPY_N];
#pragma unroll
    for (int pass = 0; pass < 2; pass++) {
#pragma unroll
        for (int k = 0; k < COPY_N; k++) {
            const int i = first + k * THREADS, row = i / p.columns, column = i - row * p.columns;
            if (pass == 0 && i < p.count)
                x[k] = *(const T *)(p.from + row * p.from_stride[0] + column * p.from_stride[1]);
            if (pass == 1 && i < p.count)
                *(T *)(p.to + row * p.to_stride[0] + column * p.to_stride[1]) = x[k];
        }
    }
}

__global__ void __launch_bounds__(THREADS)
    copies_kernel(const __grid_constant__ mylib_copies copies)
{
    const mylib_copy_piece &p = copies.piece[blockIdx.y];
    wait_for_previous();
    switch (p.size) {
    case 1:
        return copy_piece<uint8_t>(p);
    case 2:
        return copy_piece<uint16_t>(p);
    case 4:
        return copy_piece<uint32_t>(p);
    case 8:
        return copy_piece<uint64_t>(p);
    default:
        return copy_piece<uint4>(p);
    }
}

/* ---- Ranges ---- */

/* Elements of a thread, at a distance of THREADS. */
constexpr int RANGE_N = 4;

/* The type of start and step. */
template <typename T> struct range_of {
    typedef T type;
};
template <> struct range_of<t_f16> {
    typedef t_f32 type;
};

#define RANGE(op, s) \
    __device__ __forceinline__ t_##s range_element(t_##s start, t_##s step, int64_t i) \
    { \
        return range_##s(start, step, i); \
    }
MYLIB_SET_INT(RANGE, )
RANGE(, f32)
RANGE(, f64)
MYLIB_SET_COMPLEX(RANGE, )
#undef RANGE

template <typename T, typename R>
__global__ void __launch_bounds__(THREADS)
    range_kernel(int64_t n, char *out, int64_t stride, R start, R step)
{
    int64_t first = (int64_t)blockIdx.x * (THREADS * RANGE_N) + threadIdx.x;
#pragma unroll
    for (int k = 0; k < RANGE_N; k++) {
        int64_t i = first + k * THREADS;
        if (i < n)
            *(T *)(out + i * stride) = convert<T>(range_element(start, step, i));
    }
}

template <typename T>
cudaError_t launch_range(int64_t n, char *out, int64_t stride, const void *start, const void *step,
                         cudaStream_t stream)
{
    typedef typename range_of<T>::type R;
    int64_t tile = THREADS * RANGE_N, blocks = (n + tile - 1) / tile;
    R first, distance;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    memcpy(&first, start, sizeof first);
    memcpy(&distance, step, sizeof distance);
    range_kernel<T, R><<<(unsigned)blocks, THREADS, 0, stream>>>(n, out, stride, first, distance);
    return cudaGetLastError();
}

} // namespace

int mylib_contiguous_reads(mylib_type type, mylib_type input_type)
{
    return with_type(type, 0,
                     [=](auto t) { return (int)(types_read<TYPE_OF(t)>() >> input_type & 1); });
}

cudaError_t mylib_launch_contiguous(mylib_contiguous_args *args, cudaStream_t stream)
{
    return with_type(args->computed_type, cudaErrorInvalidValue,
                     [=](auto t) { return launch_contiguous<TYPE_OF(t)>(args, stream); });
}

cudaError_t mylib_launch_flags(const mylib_flags_args *args, unsigned *flags, cudaStream_t stream)
{
    switch (args->type) {
#define DT(s, S) \
    case MYLIB_##S: \
        return launch_flags<t_##s>(args, flags, stream);
        MYLIB_TYPES(DT)
#undef DT
    }
    return cudaErrorInvalidValue;
}

cudaError_t mylib_launch_scalar(const mylib_scalar_args *args, cudaStream_t stream)
{
    return launch((const void *)scalar_kernel, dim3(1), 1, args, 0, stream);
}

cudaError_t mylib_launch_fetch(const mylib_fetch_args *args, cudaStream_t stream)
{
    return launch((const void *)fetch_kernel, dim3(1), (args->nbytes + 3) / 4, args, 0, stream);
}

cudaError_t mylib_launch_copies(const mylib_copies *copies, cudaStream_t stream)
{
    int most = 1;
    for (int k = 0; k < copies->pieces; k++)
        most = copies->piece[k].count > most ? copies->piece[k].count : most;
    const unsigned blocks = (unsigned)(most + THREADS * COPY_N - 1) / (THREADS * COPY_N);
    return launch((const void *)copies_kernel, dim3(blocks, (unsigned)copies->pieces), THREADS,
                  copies, 0, stream);
}

cudaError_t mylib_launch_arange(mylib_type type, int64_t n, char *out, int64_t stride,
                                const void *start, const void *step, cudaStream_t stream)
{
    switch (type) {
#define DT(s, S) \
    case MYLIB_##S: \
        return launch_range<t_##s>(n, out, stride, start, step, stream);
        MYLIB_TYPES(DT)
#undef DT
    default:
        return cudaErrorInvalidValue;
    }
}
