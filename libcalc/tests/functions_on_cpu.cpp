/*
 * functions_on_cpu.cpp - the kernels of functions (functions.cu) compiled for the CPU: see
 * on_cpu.h.
 */
#include "on_cpu.h"

#include "cuda_standin/cuda_standin.h"

static cudaError_t launch_on_cpu(const void *kernel, dim3 grid, dim3 block, void **parameters,
                                 size_t shared_nbytes, cudaStream_t stream);
#define cudaLaunchKernel launch_on_cpu
#define cudaFuncSetAttribute(kernel, attribute, value) cudaSuccess
#define cudaDeviceGetAttribute(value, attribute, device) (*(value) = 2, cudaSuccess)
#include "cuda/functions.cu"
#undef cudaDeviceGetAttribute
#undef cudaFuncSetAttribute
#undef cudaLaunchKernel

namespace
{
alignas(16) thread_local uint16_t results[MYLIB_TABLE_NBYTES / 2];
} // namespace

static cudaError_t launch_on_cpu(const void *kernel, dim3 grid, dim3 block, void **parameters,
                                 size_t shared_nbytes, cudaStream_t stream)
{
    (void)stream;
    if (int error = cuda_standin_launch())
        return (cudaError_t)error;
    return run_grid(kernel, grid, block, (const mylib_function_args *)parameters[0],
                    shared_nbytes != 0, NULL, NULL);
}
