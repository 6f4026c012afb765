/*
 * strided_on_cpu.cpp - the kernels of single operations over any strides (strided.cu) compiled for
 * the CPU; see on_cpu.h.
 */
#include "on_cpu.h"

#include "cuda_standin/cuda_standin.h"

static cudaError_t launch_on_cpu(const void *kernel, dim3 grid, dim3 block, void **parameters,
                                 size_t shared_nbytes, cudaStream_t stream);
#define cudaLaunchKernel launch_on_cpu
#include "cuda/strided.cu"
#undef cudaLaunchKernel

/* Threads wait for each other only where elements go through shared memory. */
static bool is_together(const mylib_strided_args *args)
{
    bool is_shared = !args->is_vector && !args->is_regular;
    for (int k = 0; k < args->statement.operands; k++)
        is_shared |=
            args->access[k] == MYLIB_ACCESS_GATHERED || args->access[k] == MYLIB_ACCESS_STAGED;
    return is_shared;
}

static cudaError_t launch_on_cpu(const void *kernel, dim3 grid, dim3 block, void **parameters,
                                 size_t shared_nbytes, cudaStream_t stream)
{
    const mylib_strided_args *args = (const mylib_strided_args *)parameters[0];
    (void)shared_nbytes, (void)stream;
    if (int error = cuda_standin_launch())
        return (cudaError_t)error;
    return run_grid(kernel, grid, block, args, is_together(args), NULL, NULL);
}
