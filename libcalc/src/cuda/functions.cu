/*
 * functions.cu - functions (ops.h) of contiguous elements: a kernel for each function and type, so
 * that each has only the registers it needs, and one for all elementary functions of complex
 * numbers, which share most of their code.
 */
#include "functions.cuh"

namespace
{

/* ---- A function and a type ------------------------------------------------------------------- */

/* Elements of a thread: 16 bytes, or 4 elements of small types; half as many of a long function. */
template <int OP, typename T>
constexpr int ELEMENTS = (sizeof(T) < 4 ? 4 : 16 / (int)sizeof(T)) / (is_long<OP> ? 2 : 1);

template <typename T, int N>
__device__ __forceinline__ void read_operand(const mylib_function_args &args, int k, int64_t at,
                                             int n, bool is_vector, T (&x)[N])
{
    typedef typename bits_of<N * sizeof(T)>::type bits;
    const char *p = args.in[k];
    if (p == NULL || args.is_single[k]) {
        T value = p == NULL ? *(const T *)args.constant[k] : load_element<T>(p);
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] = value;
    } else if (is_vector) {
        *(bits *)x = *(const bits *)(p + at * (int64_t)sizeof(T));
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] = load_element<T>(p + (at + (i < n ? i : 0)) * (int64_t)sizeof(T));
    }
}

template <int OP, typename T>
__global__ void __launch_bounds__(THREADS)
    function_kernel(const __grid_constant__ mylib_function_args args)
{
    typedef typename function<OP, T>::type R;
    constexpr int N = ELEMENTS<OP, T>;
    typedef typename bits_of<N * sizeof(R)>::type bits;
    alignas(16) T a[N], b[N];
    alignas(16) R r[N];
    const int64_t at = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    if (at >= args.n)
        return;
    const int n = args.n - at < N ? (int)(args.n - at) : N;
    const bool is_vector = args.is_aligned && n == N;
    read_operand(args, 0, at, n, is_vector, a);
    if (args.inputs == 2)
        read_operand(args, 1, at, n, is_vector, b);
#pragma unroll
    for (int i = 0; i < N; i++)
        r[i] = function<OP, T>::apply(a[i], args.inputs == 2 ? b[i] : a[i]);
    R *out = (R *)args.out + at;
    if (is_vector) {
        __stcs((bits *)out, *(const bits *)r);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i < n)
            out[i] = r[i];
}

/* ---- Elementary functions of complex numbers ------------------------------------------------- */

/* Element `at` of an operand; c64 goes by way of c128. */
__device__ __forceinline__ t_c128 read_complex(const mylib_function_args &args, int k, int64_t at)
{
    const bool is_wide = args.type == MYLIB_C128;
    const char *p = args.in[k];
    if (p == NULL)
        p = (const char *)args.constant[k];
    else if (!args.is_single[k])
        p += at * (is_wide ? 16 : 8);
    if (is_wide)
        return load_element<t_c128>(p);
    const t_c64 z = load_element<t_c64>(p);
    return make_c128(z.re, z.im);
}

template <int OP> __device__ __forceinline__ t_c128 apply_complex(t_c128 a, t_c128 b)
{
    if constexpr (function<OP, t_c128>::is_defined)
        return function<OP, t_c128>::apply(a, b);
    return a;
}

__global__ void __launch_bounds__(THREADS)
    complex_kernel(const __grid_constant__ mylib_function_args args)
{
    const int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= args.n)
        return;
    const t_c128 a = read_complex(args, 0, at),
                 b = args.inputs == 2 ? read_complex(args, 1, at) : a;
    t_c128 r = a;
    switch (args.opcode) {
#define ROW(kind, op, set)                                                                         \
    case MYLIB_OP_##op:                                                                            \
        r = apply_complex<MYLIB_OP_##op>(a, b);                                                    \
        break;
        MYLIB_ELEMENTARY_FUNCTIONS(ROW)
#undef ROW
    }
    if (args.type == MYLIB_C128)
        ((t_c128 *)args.out)[at] = r;
    else
        ((t_c64 *)args.out)[at] = make_c64((float)r.re, (float)r.im);
}

/* ---- Launch ---------------------------------------------------------------------------------- */

typedef struct chosen {
    void (*kernel)(mylib_function_args);
    int64_t elements; /* of a block */
} chosen;

template <int OP, typename T> chosen choose()
{
    if constexpr (OP >= MYLIB_OP_sin && class_of<T>::value == COMPLEX)
        return {complex_kernel, THREADS};
    else
        return {function_kernel<OP, T>, (int64_t)THREADS * ELEMENTS<OP, T>};
}

} // namespace

cudaError_t mylib_launch_function(const mylib_function_args *args, cudaStream_t stream)
{
    chosen c = {NULL, 1};
    switch (args->opcode * MYLIB_TYPE_COUNT + args->type) {
#define CASE(op, s)                                                                                \
    case MYLIB_OP_##op *MYLIB_TYPE_COUNT + number_of<t_##s>::value:                                \
        c = choose<MYLIB_OP_##op, t_##s>();                                                        \
        break;
#define ROW(kind, op, set) MYLIB_SET_##set(CASE, op)
        MYLIB_FUNCTIONS(ROW)
#undef ROW
#undef CASE
    }
    const int64_t blocks = (args->n + c.elements - 1) / c.elements;
    if (c.kernel == NULL || blocks > INT32_MAX)
        return c.kernel == NULL ? cudaErrorInvalidValue : cudaErrorInvalidConfiguration;
    void *parameters[] = {(void *)args};
    return cudaLaunchKernel((const void *)c.kernel, dim3((unsigned)blocks), dim3(THREADS),
                            parameters, 0, stream);
}
