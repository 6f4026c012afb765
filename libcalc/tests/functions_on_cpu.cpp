/*
 * functions_on_cpu.cpp - the kernels of functions (functions.cu) compiled for the CPU: see
 * on_cpu.h.
 */
#include "on_cpu.h"

#include "cuda_standin/cuda_standin.h"

static cudaError_t launch_on_cpu(const void *kernel, dim3 grid, dim3 block, void **parameters,
                                 size_t shared_nbytes, cudaStream_t stream);
#define cudaLaunchKernel launch_on_cpu
#include "cuda/functions.cu"
#undef cudaLaunchKernel

static cudaError_t launch_on_cpu(const void *kernel, dim3 grid, dim3 block, void **parameters,
                                 size_t shared_nbytes, cudaStream_t stream)
{
    (void)shared_nbytes, (void)stream;
    if (int error = cuda_standin_launch())
        return (cudaError_t)error;
    return run_grid(kernel, grid, block, (const mylib_function_args *)parameters[0], false, NULL,
                    NULL);
}
