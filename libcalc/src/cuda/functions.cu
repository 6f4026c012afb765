/*
 * functions.cu - functions (ops.h) of contiguous elements: a kernel for each function and type, so
 * that each has only the registers it needs.
 */
#include "functions.cuh"

namespace
{

/* Stands for all elementary functions of a complex type. */
constexpr int ANY_ELEMENTARY = -1;
template <typename T> struct function<ANY_ELEMENTARY, T> {
    typedef T type;
};

/* The operation whose kernel computes an operation of a type. */
template <typename T> constexpr int kernel_of(int op)
{
    const bool is_complex = number_of<T>::value >= MYLIB_C64 && number_of<T>::value <= MYLIB_C128;
    return is_complex && op >= MYLIB_OP_sin ? ANY_ELEMENTARY : op;
}

template <int OP, typename T>
__device__ __forceinline__ typename function<OP, T>::type apply(int op, T a, T b)
{
    if constexpr (OP != ANY_ELEMENTARY) {
        return function<OP, T>::apply(a, b);
    } else {
        switch (op * MYLIB_TYPE_COUNT + number_of<T>::value) {
#define CASE(op, s)                                                                                \
    case MYLIB_OP_##op *MYLIB_TYPE_COUNT + number_of<t_##s>::value:                                \
        if constexpr (number_of<T>::value == number_of<t_##s>::value)                              \
            return function<MYLIB_OP_##op, t_##s>::apply(a, b);                                    \
        break;
#define ROW(kind, op, set) MYLIB_SET_##set(CASE, op)
            MYLIB_ELEMENTARY_FUNCTIONS(ROW)
#undef ROW
#undef CASE
        }
        return a;
    }
}

/* ---- The kernel ---------------------------------------------------------------------------- */

/* Elements of a thread: 16 bytes, or 4 elements of small types. */
template <typename T> constexpr int ELEMENTS = sizeof(T) < 4 ? 4 : 16 / (int)sizeof(T);

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
    constexpr int N = ELEMENTS<T>;
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
        r[i] = apply<OP>(args.opcode, a[i], args.inputs == 2 ? b[i] : a[i]);
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

template <int OP, typename T>
cudaError_t launch_function(const mylib_function_args &args, cudaStream_t stream)
{
    const int64_t elements = (int64_t)THREADS * ELEMENTS<T>;
    const int64_t blocks = (args.n + elements - 1) / elements;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    function_kernel<OP, T><<<(unsigned)blocks, THREADS, 0, stream>>>(args);
    return cudaGetLastError();
}

} // namespace

cudaError_t mylib_launch_function(const mylib_function_args *args, cudaStream_t stream)
{
    switch (args->opcode * MYLIB_TYPE_COUNT + args->type) {
#define CASE(op, s)                                                                                \
    case MYLIB_OP_##op *MYLIB_TYPE_COUNT + number_of<t_##s>::value:                                \
        return launch_function<kernel_of<t_##s>(MYLIB_OP_##op), t_##s>(*args, stream);
#define ROW(kind, op, set) MYLIB_SET_##set(CASE, op)
        MYLIB_FUNCTIONS(ROW)
#undef ROW
#undef CASE
    }
    return cudaErrorInvalidValue;
}
