/*
 * kernels.cu - the kernels.  Each interprets a program: one instruction at a time for all elements
 * of a thread, which it carries in registers.
 *
 * One kernel per element type and kind of layout.  The switch over opcodes is an expansion of the
 * table; the branch is the same for all threads, and its cost disappears behind the memory traffic.
 */
#include <cuda_fp16.h>

#include "cuda_internal.h"
#include "../scalar_ops.h"

namespace
{

constexpr int THREADS = 256;

/* ---- The table as types -------------------------------------------------------------------- */

/* meaning<op, T>::apply is the operation, where the table has it. */
template <int OP, typename T> struct meaning {
    static constexpr bool is_defined = false;
};

/* The type of the modulus, and a modulus as a value of the type itself. */
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

#define APPLY_BINARY(op, s) return op##_##s(a, b);
#define APPLY_UNARY(op, s)                                                                         \
    (void)b;                                                                                       \
    return op##_##s(a);
#define APPLY_UNARY_REAL(op, s)                                                                    \
    (void)b;                                                                                       \
    return real_of<t_##s>::widen(op##_##s(a));
#define MEANING(APPLY, op, s)                                                                      \
    template <> struct meaning<MYLIB_OP_##op, t_##s> {                                             \
        static constexpr bool is_defined = true;                                                   \
        static __device__ __forceinline__ t_##s apply(t_##s a, t_##s b) { APPLY(op, s) }           \
    };
#define MEANING_BINARY(op, s) MEANING(APPLY_BINARY, op, s)
#define MEANING_UNARY(op, s) MEANING(APPLY_UNARY, op, s)
#define MEANING_UNARY_REAL(op, s) MEANING(APPLY_UNARY_REAL, op, s)
#define ROW(arity, op, set) MYLIB_SET_##set(MEANING_##arity, op)
MYLIB_OPS(ROW)
#undef ROW

/* acc[i] = opcode(acc[i], x[i]) for the N elements of a thread. */
template <typename T, int N>
__device__ __forceinline__ void step(int opcode, T (&acc)[N], const T (&x)[N])
{
    switch (opcode) {
    case MYLIB_OPCODE_LOAD:
#pragma unroll
        for (int i = 0; i < N; i++)
            acc[i] = x[i];
        break;
#define ROW(arity, op, set)                                                                        \
    case MYLIB_OP_##op:                                                                            \
        if constexpr (meaning<MYLIB_OP_##op, T>::is_defined) {                                     \
            _Pragma("unroll") for (int i = 0; i < N; i++) acc[i] =                                 \
                meaning<MYLIB_OP_##op, T>::apply(acc[i], x[i]);                                    \
        }                                                                                          \
        break;
        MYLIB_OPS(ROW)
#undef ROW
    }
}

/* ---- Contiguous operands ------------------------------------------------------------------- */

template <typename T> struct flat {
    /* 32 bytes in flight for each operand of a thread keep the memory busy. */
    static constexpr int VECTOR = 16 / sizeof(T);
    static constexpr int VECTORS = 2;
    static constexpr int N = VECTOR * VECTORS;
    static constexpr int64_t TILE = (int64_t)THREADS * N;

    /* The index within the tile of element i of this thread. */
    static __device__ __forceinline__ int64_t index(int i)
    {
        return ((int64_t)(i / VECTOR) * THREADS + threadIdx.x) * VECTOR + i % VECTOR;
    }
};

template <typename T>
__device__ __forceinline__ void read_flat(const mylib_flat_args &args, int k, int64_t base,
                                          bool is_full, T (&x)[flat<T>::N])
{
    typedef flat<T> F;
    const T *in = (const T *)args.in[k];
    int read = args.read[k];
    if (read == MYLIB_READ_VECTOR && is_full) {
#pragma unroll
        for (int v = 0; v < F::VECTORS; v++)
            *(uint4 *)&x[v * F::VECTOR] =
                __ldcs((const uint4 *)(in + base + F::index(v * F::VECTOR)));
    } else if (read <= MYLIB_READ_ELEMENT) {
#pragma unroll
        for (int i = 0; i < F::N; i++) {
            int64_t at = base + F::index(i);
            x[i] = in[is_full || at < args.n ? at : base];
        }
    } else {
        T value = read == MYLIB_READ_UNIFORM ? *in : *(const T *)args.constant[k];
#pragma unroll
        for (int i = 0; i < F::N; i++)
            x[i] = value;
    }
}

template <typename T, typename R>
__device__ __forceinline__ void write_elements(R *out, int64_t base, int64_t n,
                                               const T (&acc)[flat<T>::N])
{
#pragma unroll
    for (int i = 0; i < flat<T>::N; i++) {
        int64_t at = base + flat<T>::index(i);
        if (at < n)
            out[at] = *(const R *)&acc[i]; /* the real part is the first of a complex number */
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS) flat_kernel(const __grid_constant__ mylib_flat_args args)
{
    typedef flat<T> F;
    alignas(16) T acc[F::N], x[F::N];
    int64_t base = (int64_t)blockIdx.x * F::TILE;
    bool is_full = base + F::TILE <= args.n;

    for (int i = 0; i < args.program.instructions; i++) {
        mylib_instruction code = args.program.code[i];
        if (code.operand != MYLIB_NO_OPERAND)
            read_flat<T>(args, code.operand, base, is_full, x);
        step<T, F::N>(code.opcode, acc, x);
    }

    if (real_of<T>::is_complex && args.program.result_type != args.program.type) {
        write_elements<T>((typename real_of<T>::type *)args.out, base, args.n, acc);
    } else if (is_full && args.out_is_aligned) {
#pragma unroll
        for (int v = 0; v < F::VECTORS; v++)
            __stcs((uint4 *)((T *)args.out + base + F::index(v * F::VECTOR)),
                   *(const uint4 *)&acc[v * F::VECTOR]);
    } else {
        write_elements<T>((T *)args.out, base, args.n, acc);
    }
}

/* ---- Floating-point flags ------------------------------------------------------------------ */

__device__ __forceinline__ bool is_division(int op)
{
    return op == MYLIB_OP_divide || op == MYLIB_OP_floor_divide || op == MYLIB_OP_remainder;
}

/* An integer operation flags as scalar_ops.h does on the CPU. */
template <typename T> __device__ __forceinline__ unsigned flags_of(int op, T a, T b, T)
{
    if (!is_division(op))
        return 0;
    if (b == 0)
        return MYLIB_FLAG_DIVBYZERO;
    bool is_signed = (T)-1 < (T)0;
    T lowest = (T)((uint64_t)1 << (8 * sizeof(T) - 1));
    return is_signed && a == lowest && b == (T)-1 && op != MYLIB_OP_remainder ? MYLIB_FLAG_OVERFLOW
                                                                              : 0;
}

/* A NaN out of none is invalid; an infinity out of none, an overflow or a division by zero. */
__device__ __forceinline__ unsigned flags_of_part(int op, bool has_nan, bool is_finite,
                                                  bool is_zero, double result)
{
    if (isnan(result))
        return has_nan ? 0 : MYLIB_FLAG_INVALID;
    if (!isinf(result) || !is_finite)
        return 0;
    return is_division(op) && is_zero ? MYLIB_FLAG_DIVBYZERO : MYLIB_FLAG_OVERFLOW;
}
__device__ __forceinline__ unsigned flags_of(int op, t_f64 a, t_f64 b, t_f64 result)
{
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
__device__ __forceinline__ T read_one(const mylib_flat_args &args, int k, int64_t i)
{
    if (args.read[k] == MYLIB_READ_CONSTANT)
        return *(const T *)args.constant[k];
    return ((const T *)args.in[k])[args.read[k] == MYLIB_READ_UNIFORM ? 0 : i];
}

constexpr int FLAG_BLOCKS = 1024;

template <typename T>
__global__ void __launch_bounds__(THREADS)
    flags_kernel(const __grid_constant__ mylib_flat_args args, unsigned *flags)
{
    typedef typename real_of<T>::type R;
    int op = args.program.code[1].opcode;
    unsigned found = 0;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < args.n;
         i += (int64_t)FLAG_BLOCKS * THREADS) {
        T a = read_one<T>(args, 0, i), b = args.program.inputs == 2 ? read_one<T>(args, 1, i) : a;
        T result = args.program.result_type != args.program.type
                       ? real_of<T>::widen(((const R *)args.out)[i])
                       : ((const T *)args.out)[i];
        found |= flags_of(op, a, b, result);
    }
    if (found != 0)
        atomicOr(flags, found);
}

/* ---- Any strides --------------------------------------------------------------------------- */

/*
 * Elements of a thread; a block's elements are consecutive, so that neighbours share cache lines.
 */
constexpr int STRIDED_N = 4;

__device__ __forceinline__ uint32_t divide_by(uint32_t x, int64_t, mylib_divider d)
{
    return (__umulhi(x, d.multiplier) + x) >> d.shift;
}
__device__ __forceinline__ uint64_t divide_by(uint64_t x, int64_t divisor, mylib_divider)
{
    return x / (uint64_t)divisor;
}

/*
 * Where element `at` of operand k is.  It is worked out again for each operand: a few
 * multiplications, against an array of offsets that would not fit the registers.
 */
template <typename Index, typename Offset>
__device__ __forceinline__ Offset offset_of(const mylib_strided_args &args, int k, Index at)
{
    Offset offset = 0;
    for (int d = args.ndim - 1; d >= 0; d--) {
        Index quotient = divide_by(at, args.shape[d], args.divider[d]);
        offset += (Offset)(at - quotient * (Index)args.shape[d]) * (Offset)args.strides[d][k];
        at = quotient;
    }
    return offset;
}

/* Offset is the signed type as wide as Index. */
template <typename T, typename Index, typename Offset>
__global__ void __launch_bounds__(THREADS)
    strided_kernel(const __grid_constant__ mylib_strided_args args)
{
    T acc[STRIDED_N], x[STRIDED_N];
    Index n = (Index)args.n, first = (Index)blockIdx.x * (STRIDED_N * THREADS) + threadIdx.x;

    for (int j = 0; j < args.program.instructions; j++) {
        mylib_instruction code = args.program.code[j];
        if (code.operand != MYLIB_NO_OPERAND) {
            int k = 1 + code.operand;
#pragma unroll
            for (int i = 0; i < STRIDED_N; i++) {
                Index at = first + i * THREADS;
                x[i] =
                    *(const T *)(args.data[k] + offset_of<Index, Offset>(args, k, at < n ? at : 0));
            }
        }
        step<T, STRIDED_N>(code.opcode, acc, x);
    }

#pragma unroll
    for (int i = 0; i < STRIDED_N; i++) {
        Index at = first + i * THREADS;
        if (at < n) {
            char *out = args.data[0] + offset_of<Index, Offset>(args, 0, at);
            if (real_of<T>::is_complex && args.program.result_type != args.program.type)
                *(typename real_of<T>::type *)out = *(const typename real_of<T>::type *)&acc[i];
            else
                *(T *)out = acc[i];
        }
    }
}

/* ---- Sums ---------------------------------------------------------------------------------- */

template <typename S> __device__ __forceinline__ S plus(S a, S b) { return a + b; }
template <> __device__ __forceinline__ t_i64 plus(t_i64 a, t_i64 b) { return add_i64(a, b); }
template <> __device__ __forceinline__ t_c64 plus(t_c64 a, t_c64 b) { return add_c64(a, b); }
template <> __device__ __forceinline__ t_c128 plus(t_c128 a, t_c128 b) { return add_c128(a, b); }

template <typename S, typename T> __device__ __forceinline__ S widened(T x) { return (S)x; }
template <> __device__ __forceinline__ float widened(t_f16 x) { return f32_from_f16(x); }

/* One block of MYLIB_SUM_BLOCK terms, thread l its lane l; the order is mylib_trace()'s. */
template <typename T, typename S>
__global__ void __launch_bounds__(MYLIB_SUM_LANES)
    block_sum_kernel(int64_t n, const char *a, int64_t stride, S *partial)
{
    __shared__ alignas(16) unsigned char storage[MYLIB_SUM_LANES * sizeof(S)];
    S *lane = (S *)storage;
    int64_t begin = (int64_t)blockIdx.x * MYLIB_SUM_BLOCK;
    int64_t end = begin + MYLIB_SUM_BLOCK < n ? begin + MYLIB_SUM_BLOCK : n;
    int l = threadIdx.x,
        lanes = end - begin < MYLIB_SUM_LANES ? (int)(end - begin) : MYLIB_SUM_LANES;

    if (l < lanes) {
        S sum = widened<S>(*(const T *)(a + (begin + l) * stride));
        for (int64_t i = begin + l + MYLIB_SUM_LANES; i < end; i += MYLIB_SUM_LANES)
            sum = plus(sum, widened<S>(*(const T *)(a + i * stride)));
        lane[l] = sum;
    }
    for (int half = MYLIB_SUM_LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (l < half && l + half < lanes)
            lane[l] = plus(lane[l], lane[l + half]);
    }
    if (l == 0)
        partial[blockIdx.x] = lane[0];
}

/* Adds `blocks` partial sums pairwise, level by level, in place; one thread block. */
template <typename S>
__global__ void __launch_bounds__(1024) tree_kernel(int64_t blocks, S *partial, S *result)
{
    while (blocks > 1) {
        int64_t pairs = blocks / 2;
        for (int64_t i = 0; i < pairs; i += 1024) {
            int64_t k = i + threadIdx.x;
            S sum;
            if (k < pairs)
                sum = plus(partial[2 * k], partial[2 * k + 1]);
            __syncthreads(); /* all have read before any writes to where others read */
            if (k < pairs)
                partial[k] = sum;
            __syncthreads();
        }
        if (blocks % 2 != 0 && threadIdx.x == 0)
            partial[pairs] = partial[blocks - 1];
        blocks = pairs + blocks % 2;
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *result = partial[0];
}

/* ---- Scalars ------------------------------------------------------------------------------- */

__device__ int exact_scalar(int op, t_i64 a, t_i64 b, t_i64 *result)
{
    switch (op) {
#define EXACT_CASE(op)                                                                             \
    case MYLIB_OP_##op:                                                                            \
        return exact_##op(a, b, result);
#define CASES_INT(op) EXACT_CASE(op)
#define CASES_REAL(op) EXACT_CASE(op)
#define CASES_ALL(op) EXACT_CASE(op)
#define CASES_INEXACT(op)
#define CASES_FLOAT(op)
#define ROW(arity, op, set) CASES_##set(op)
        MYLIB_OPS(ROW)
#undef ROW
    }
    return MYLIB_ERR_UNSUPPORTED;
}

template <typename T> __device__ __forceinline__ void inexact_scalar(const mylib_scalar_args &args)
{
    T acc[1] = {*(const T *)args.a}, x[1] = {*(const T *)args.b};
    step<T, 1>(args.op, acc, x);
    *(T *)args.result->value = acc[0];
    args.result->status = MYLIB_OK;
}

__global__ void scalar_kernel(const __grid_constant__ mylib_scalar_args args)
{
    if (args.type == MYLIB_I64) {
        t_i64 value = 0;
        args.result->status =
            exact_scalar(args.op, *(const t_i64 *)args.a, *(const t_i64 *)args.b, &value);
        *(t_i64 *)args.result->value = value;
    } else if (args.type == MYLIB_F64) {
        inexact_scalar<t_f64>(args);
    } else {
        inexact_scalar<t_c128>(args);
    }
}

template <typename T> cudaError_t launch_flat(const mylib_flat_args *args, cudaStream_t stream)
{
    int64_t blocks = (args->n + flat<T>::TILE - 1) / flat<T>::TILE;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    flat_kernel<T><<<(unsigned)blocks, THREADS, 0, stream>>>(*args);
    return cudaGetLastError();
}

template <typename T>
cudaError_t launch_flags(const mylib_flat_args *args, unsigned *flags, cudaStream_t stream)
{
    int64_t blocks = (args->n + THREADS - 1) / THREADS;
    flags_kernel<T>
        <<<(unsigned)(blocks < FLAG_BLOCKS ? blocks : FLAG_BLOCKS), THREADS, 0, stream>>>(*args,
                                                                                          flags);
    return cudaGetLastError();
}

template <typename T>
cudaError_t launch_strided(const mylib_strided_args *args, int is_small, cudaStream_t stream)
{
    int64_t tile = (int64_t)THREADS * STRIDED_N, blocks = (args->n + tile - 1) / tile;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    if (is_small)
        strided_kernel<T, uint32_t, int32_t><<<(unsigned)blocks, THREADS, 0, stream>>>(*args);
    else
        strided_kernel<T, uint64_t, int64_t><<<(unsigned)blocks, THREADS, 0, stream>>>(*args);
    return cudaGetLastError();
}

template <typename T, typename S>
cudaError_t launch_sum(int64_t n, const char *a, int64_t stride, void *partial, void *sum,
                       cudaStream_t stream)
{
    int64_t blocks = (n + MYLIB_SUM_BLOCK - 1) / MYLIB_SUM_BLOCK;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    S *first = blocks == 1 ? (S *)sum : (S *)partial;
    block_sum_kernel<T, S><<<(unsigned)blocks, MYLIB_SUM_LANES, 0, stream>>>(n, a, stride, first);
    cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess && blocks > 1) {
        tree_kernel<S><<<1, 1024, 0, stream>>>(blocks, (S *)partial, (S *)sum);
        error = cudaGetLastError();
    }
    return error;
}

} // namespace

/* ---- What the C files call ----------------------------------------------------------------- */

cudaError_t mylib_launch_flat(const mylib_flat_args *args, cudaStream_t stream)
{
    switch (args->program.type) {
#define DT(s, S)                                                                                   \
    case MYLIB_##S:                                                                                \
        return launch_flat<t_##s>(args, stream);
        MYLIB_TYPES(DT)
#undef DT
    }
    return cudaErrorInvalidValue;
}

cudaError_t mylib_launch_flags(const mylib_flat_args *args, unsigned *flags, cudaStream_t stream)
{
    switch (args->program.type) {
#define DT(s, S)                                                                                   \
    case MYLIB_##S:                                                                                \
        return launch_flags<t_##s>(args, flags, stream);
        MYLIB_TYPES(DT)
#undef DT
    }
    return cudaErrorInvalidValue;
}

cudaError_t mylib_launch_strided(const mylib_strided_args *args, int is_small, cudaStream_t stream)
{
    switch (args->program.type) {
#define DT(s, S)                                                                                   \
    case MYLIB_##S:                                                                                \
        return launch_strided<t_##s>(args, is_small, stream);
        MYLIB_TYPES(DT)
#undef DT
    }
    return cudaErrorInvalidValue;
}

cudaError_t mylib_launch_sum(mylib_type type, int64_t n, const char *a, int64_t a_stride,
                             void *partial, void *sum, cudaStream_t stream)
{
    switch (type) {
#define DT(s, S)                                                                                   \
    case MYLIB_##S:                                                                                \
        return launch_sum<t_##s, sum_##s>(n, a, a_stride, partial, sum, stream);
        MYLIB_TYPES(DT)
#undef DT
    }
    return cudaErrorInvalidValue;
}

cudaError_t mylib_launch_scalar(const mylib_scalar_args *args, cudaStream_t stream)
{
    scalar_kernel<<<1, 1, 0, stream>>>(*args);
    return cudaGetLastError();
}
