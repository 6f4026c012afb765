/*
 * functions.cu - functions (ops.h) of contiguous elements.  Each function and type has a kernel,
 * with only the registers it needs.  One kernel has the elementary functions of complex numbers
 * that have no quick way, which share most of their code.
 */
#include <type_traits>

#include "functions.cuh"
#include "launch.cuh"

namespace
{

/* ---- A function and a type ---- */

/* How many of a thread's N elements form a vector, of at most 16 bytes. */
template <int N, typename T> constexpr int GROUP = N *(int)sizeof(T) > 16 ? 16 / (int)sizeof(T) : N;

/* A thread block's elements: a vector or a single element for each thread, at most `left`. */
struct block_elements {
    int64_t first; /* of the block */
    int64_t left;
    bool is_vector;
};

/* Returns the elements of a thread block of M threads that take N each. */
template <int N, int M = THREADS>
__device__ __forceinline__ block_elements elements_of(const mylib_function_args &args,
                                                      int64_t block)
{
    const int64_t first = block * (M * N), left = args.n - first;
    return {first, left, args.is_aligned && left >= M * N};
}

/* Returns the index of a thread's element i in the block; 0 for one beyond the end. */
template <int N, int G, int M = THREADS>
__device__ __forceinline__ int place(const block_elements &e, int i)
{
    if (e.is_vector)
        return (i / G * M + (int)threadIdx.x) * G + i % G;
    const int at = i * M + (int)threadIdx.x;
    return at < e.left ? at : 0;
}

template <typename T, int M = THREADS, int N>
__device__ __forceinline__ void read_operand(const mylib_function_args &args, int k,
                                             const block_elements &e, T (&x)[N])
{
    constexpr int G = GROUP<N, T>;
    typedef typename bits_of<G * sizeof(T)>::type bits;
    const char *p = args.in[k];
    if (p == NULL || args.is_single[k]) {
        T value = p == NULL ? *(const T *)args.constant[k] : load_element<T>(p);
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] = value;
        return;
    }
    p += e.first * (int64_t)sizeof(T);
    if (e.is_vector) {
#pragma unroll
        for (int i = 0; i < N; i += G)
            *(bits *)(x + i) = *(const bits *)(p + place<N, G, M>(e, i) * (int64_t)sizeof(T));
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] = load_element<T>(p + place<N, G, M>(e, i) * (int64_t)sizeof(T));
    }
}

/* Writes a thread's results; G of them form a vector. */
template <int G, int M = THREADS, typename R, int N>
__device__ __forceinline__ void write_results(const mylib_function_args &args,
                                              const block_elements &e, const R (&r)[N])
{
    typedef typename bits_of<G * sizeof(R)>::type bits;
    R *out = (R *)args.out + e.first;
    if (e.is_vector) {
#pragma unroll
        for (int i = 0; i < N; i += G)
            __stcs((bits *)(out + place<N, G, M>(e, i)), *(const bits *)(r + i));
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i * M + (int)threadIdx.x < e.left)
            out[i * M + (int)threadIdx.x] = r[i];
}

/* Computes any element `at`.  Reads it again, so that no register keeps it for this rare call. */
template <int OP, typename T>
__device__ __noinline__ typename function<OP, T>::type compute_at(const mylib_function_args &args,
                                                                  int64_t at)
{
    T x[2] = {};
#pragma unroll
    for (int k = 0; k < function<OP, T>::inputs; k++) {
        const char *p = args.in[k] == NULL ? (const char *)args.constant[k] : args.in[k];
        const bool is_single = args.in[k] == NULL || args.is_single[k];
        x[k] = load_element<T>(p + (is_single ? 0 : at) * (int64_t)sizeof(T));
    }
    return function<OP, T>::apply(x[0], x[1]);
}

/* Logarithms have few registers: reading again took 2 % longer. */
template <int OP>
constexpr bool READS_AGAIN = OP != MYLIB_OP_log &&OP != MYLIB_OP_log2 &&OP != MYLIB_OP_log10;

/* Computes r[i] from a[i] and b[i]: easy elements together, then hard ones one by one. */
template <int OP, typename T, int N>
__device__ __forceinline__ void
apply_at_once(const mylib_function_args &args, const block_elements &e, const T (&a)[N],
              const T (&b)[N], typename function<OP, T>::type (&r)[N])
{
    bool is_hard[N] = {}, is_any_hard = false;
#pragma unroll
    for (int i = 0; i < N; i++) {
        r[i] = by_hardness<OP, T>::easy(a[i], b[i], is_hard[i]);
        is_any_hard |= is_hard[i];
    }
    if constexpr (by_hardness<OP, T>::has_hard)
        if (is_any_hard) {
#pragma unroll
            for (int i = 0; i < N; i++)
                if (is_hard[i]) {
                    if constexpr (READS_AGAIN<OP>)
                        r[i] = compute_at<OP, T>(args, e.first + place<N, GROUP<N, T>>(e, i));
                    else
                        r[i] = by_hardness<OP, T>::any(a[i], b[i]);
                }
        }
}

/* The least blocks per multiprocessor, which limits registers; 0: the compiler's choice. */
template <int OP, typename T>
constexpr int LEAST_BLOCKS = OP == MYLIB_OP_arctan2 && sizeof(T) == 4 ? 4 : 0;

template <int OP, typename T>
__global__ void __launch_bounds__(THREADS, LEAST_BLOCKS<OP, T>)
    function_kernel(const __grid_constant__ mylib_function_args args)
{
    typedef typename function<OP, T>::type R;
    constexpr int N = AT_ONCE<OP, T>;
    alignas(16) T a[N], b[N];
    alignas(16) R r[N];
    const block_elements e = elements_of<N>(args, blockIdx.x);
    wait_for_previous();
    read_operand(args, 0, e, a);
    if constexpr (function<OP, T>::inputs == 2) {
        read_operand(args, 1, e, b);
        apply_at_once<OP>(args, e, a, b, r);
    } else {
        apply_at_once<OP>(args, e, a, a, r);
    }
    write_results<GROUP<N, T>>(args, e, r);
}

/* ---- A table of all results ---- */

constexpr int TABLED_THREADS = 1024;
extern __shared__ uint16_t results[];

/*
 * A function of one f16, as a table of the results of all bit patterns: args.in[1].  A thread block
 * fills a multiprocessor, keeps the table in shared memory, and takes blocks of elements in turn.
 */
__global__ void __launch_bounds__(TABLED_THREADS)
    tabled_kernel(const __grid_constant__ mylib_function_args args)
{
    constexpr int N = 16, M = TABLED_THREADS;
    wait_for_previous();
    for (int i = threadIdx.x; i < MYLIB_TABLE_NBYTES / 16; i += M)
        ((uint4 *)results)[i] = ((const uint4 *)args.in[1])[i];
    __syncthreads();
    alignas(16) uint16_t x[N], next[N];
    block_elements e = elements_of<N, M>(args, blockIdx.x);
    if (e.left > 0)
        read_operand<uint16_t, M>(args, 0, e, next);
#pragma unroll 1
    for (int64_t block = blockIdx.x; e.left > 0;) {
        const block_elements now = e;
        memcpy(x, next, sizeof x);
        /* Load before the results of this block are found and stored. */
        e = elements_of<N, M>(args, block += gridDim.x);
        if (e.left > 0)
            read_operand<uint16_t, M>(args, 0, e, next);
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] = results[x[i]];
        write_results<GROUP<N, uint16_t>, M>(args, now, x);
    }
}

/* ---- Elementary functions of complex numbers ---- */

template <typename T>
__device__ __forceinline__ T read_complex(const mylib_function_args &args, int k, int64_t at)
{
    const char *p = args.in[k];
    if (p == NULL)
        p = (const char *)args.constant[k];
    else if (!args.is_single[k])
        p += at * (int64_t)sizeof(T);
    return load_element<T>(p);
}

template <int OP> __device__ __forceinline__ t_c128 apply_complex(t_c128 a, t_c128 b)
{
    if constexpr (function<OP, t_c128>::is_defined)
        return function<OP, t_c128>::apply(a, b);
    return a;
}
__device__ __noinline__ t_c128 compute_complex(int opcode, t_c128 a, t_c128 b)
{
    switch (opcode) {
#define ROW(kind, op, set) \
    case MYLIB_OP_##op: \
        return apply_complex<MYLIB_OP_##op>(a, b);
        MYLIB_ELEMENTARY_FUNCTIONS(ROW)
#undef ROW
    }
    return a;
}

/* Computes the functions of c64 that have no kernel of their own. */
__device__ __forceinline__ t_quick_c64 compute_quick(int opcode, t_c64 a, t_c64 b)
{
    switch (opcode) {
#define QUICK(op) \
    case MYLIB_OP_##op: \
        return op##_quick_c64(a);
        MYLIB_QUICK_COMPLEX_TOGETHER(QUICK)
#undef QUICK
    }
    return power_quick_c64(a, b);
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    complex_kernel(const __grid_constant__ mylib_function_args args)
{
    const int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    wait_for_previous();
    if (at >= args.n)
        return;
    const T a = read_complex<T>(args, 0, at),
            b = args.inputs == 2 ? read_complex<T>(args, 1, at) : a;
    T *out = (T *)args.out + at;
    if constexpr (std::is_same<T, t_c64>::value) {
        const t_quick_c64 quick = compute_quick(args.opcode, a, b);
        *out = quick.value;
        if (quick.is_rare)
            *out = narrow_c128(compute_complex(args.opcode, widen_c64(a), widen_c64(b)));
    } else {
        *out = compute_complex(args.opcode, a, b);
    }
}

/* ---- Launch ---- */

typedef struct chosen {
    void (*kernel)(mylib_function_args);
    int64_t elements; /* of a block */
} chosen;

/* No integer is NaN or infinite. */
template <int OP> constexpr int SAME = OP == MYLIB_OP_isinf ? MYLIB_OP_isnan : OP;
/* Tells whether a function does the same to signed and unsigned integers: they share a kernel. */
template <int OP>
constexpr bool ignores_sign =
    SAME<OP> == MYLIB_OP_isnan || OP == MYLIB_OP_isfinite || OP == MYLIB_OP_imag;
/* Tells whether arithmetic computes it for integers: copies, minimum and maximum (program.c). */
template <int OP>
constexpr bool is_arithmetic =
    OP == MYLIB_OP_positive || OP == MYLIB_OP_floor || OP == MYLIB_OP_ceil ||
    OP == MYLIB_OP_trunc || OP == MYLIB_OP_conjugate || OP == MYLIB_OP_real ||
    OP == MYLIB_OP_fmin || OP == MYLIB_OP_fmax;

template <int OP, typename T> chosen choose()
{
    constexpr bool is_shared = std::is_integral<T>::value && ignores_sign<OP>;
    if constexpr (std::is_integral<T>::value && is_arithmetic<OP>)
        return {NULL, 1};
    else if constexpr (is_shared && !(SAME<OP> == OP && std::is_unsigned<T>::value)) {
        return choose<SAME<OP>, std::make_unsigned_t<T>>();
    } else if constexpr (is_elementary<OP> && real_of<T>::is_complex &&
                         !by_hardness<OP, T>::has_hard)
        return {complex_kernel<T>, THREADS};
    else
        return {function_kernel<OP, T>, (int64_t)THREADS * AT_ONCE<OP, T>};
}

} // namespace

cudaError_t mylib_launch_function(const mylib_function_args *args, cudaStream_t stream)
{
    chosen c = {NULL, 1};
    switch (args->opcode * MYLIB_TYPE_COUNT + args->type) {
#define CASE(op, s) \
    case MYLIB_OP_##op *MYLIB_TYPE_COUNT + number_of<t_##s>::value: \
        c = choose<MYLIB_OP_##op, t_##s>(); \
        break;
#define ROW(kind, op, set) MYLIB_SET_##set(CASE, op)
        MYLIB_FUNCTIONS(ROW)
#undef ROW
#undef CASE
    }
    const int64_t blocks = (args->n + c.elements - 1) / c.elements;
    if (c.kernel == NULL || blocks > INT32_MAX)
        return c.kernel == NULL ? cudaErrorInvalidValue : cudaErrorInvalidConfiguration;
    return launch((const void *)c.kernel, dim3((unsigned)blocks), THREADS, args, 0, stream);
}

int mylib_tabled_blocks(void)
{
    int device, blocks = 0;
    if (cudaGetDevice(&device) == cudaSuccess &&
        cudaFuncSetAttribute((const void *)tabled_kernel,
                             cudaFuncAttributeMaxDynamicSharedMemorySize,
                             MYLIB_TABLE_NBYTES) == cudaSuccess &&
        cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, device) == cudaSuccess)
        return blocks;
    (void)cudaGetLastError();
    return 0;
}

cudaError_t mylib_launch_tabled(const mylib_function_args *args, int blocks, cudaStream_t stream)
{
    return launch((const void *)tabled_kernel, dim3((unsigned)blocks), TABLED_THREADS, args,
                  MYLIB_TABLE_NBYTES, stream);
}
