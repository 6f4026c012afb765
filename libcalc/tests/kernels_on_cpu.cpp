/*
 * kernels_on_cpu.cpp - the fused kernels (program.cu) compiled for the CPU: the threads of a launch
 * run one after the other.  They never wait for each other, so that they do what they do on a GPU,
 * under the sanitizers too: misplaced vectors and wrong addresses are found.
 *
 * A part of emulated GPUs where CMake is given MYLIB_EMULATED_KERNELS, the include directory of a
 * CUDA toolkit.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

/* The words of CUDA C++, as the kernels use them. */
#undef __device__
#undef __forceinline__
#undef __global__
#undef __grid_constant__
#undef __host__
#undef __launch_bounds__
#undef __noinline__
#undef __shared__
#define __device__
#define __forceinline__ inline
#define __global__
#define __grid_constant__
#define __host__
#define __launch_bounds__(...)
#define __noinline__
#define __shared__ thread_local
#define __CUDACC__ 1

static thread_local uint3 threadIdx, blockIdx, blockDim;

template <typename T> static inline void __stcs(T *p, T value) { *p = value; }

static cudaError_t launch_on_cpu(const void *kernel, dim3 grid, dim3 block, void **parameters,
                                 size_t shared_nbytes, cudaStream_t stream);
#define cudaLaunchKernel launch_on_cpu
#define cudaFuncGetAttributes(attributes, kernel) ((void)(attributes), (void)(kernel), cudaSuccess)
#define cudaGetLastError() cudaSuccess
#include "cuda/program.cu"
#undef cudaLaunchKernel
#undef cudaFuncGetAttributes
#undef cudaGetLastError

#define POISON 0x77

namespace
{
/* More than a launch may ask for, to see that no more is used. */
constexpr size_t ROOM = MYLIB_FUSED_SHARED_NBYTES / 16 + 64;
alignas(16) thread_local uint4 fused_shared[ROOM];
} // namespace

static cudaError_t launch_on_cpu(const void *kernel, dim3 grid, dim3 block, void **parameters,
                                 size_t shared_nbytes, cudaStream_t stream)
{
    void (*run)(mylib_fused_args) = (void (*)(mylib_fused_args))kernel;
    const unsigned char *bytes = (const unsigned char *)fused_shared;
    (void)stream;
    if (shared_nbytes > MYLIB_FUSED_SHARED_NBYTES || block.x > MYLIB_FUSED_MOST_THREADS)
        return cudaErrorInvalidConfiguration;
    blockDim.x = block.x;
    for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) {
        memset((void *)fused_shared, POISON, sizeof fused_shared);
        for (threadIdx.x = 0; threadIdx.x < block.x; threadIdx.x++)
            run(*(const mylib_fused_args *)parameters[0]);
        for (size_t i = shared_nbytes; i < sizeof fused_shared; i++)
            if (bytes[i] != POISON)
                return cudaErrorIllegalAddress;
    }
    return cudaSuccess;
}

mylib_status mylib_from_cuda(cudaError_t error, const char *call, const char *file, int line)
{
    if (error == cudaSuccess)
        return MYLIB_OK;
    return mylib_fail(MYLIB_ERR_CUDA, "error %d in %s (%s:%d)", (int)error, call, file, line);
}
