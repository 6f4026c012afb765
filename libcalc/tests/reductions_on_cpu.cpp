/*
 * reductions_on_cpu.cpp - the kernels of reductions (reduce.cu) compiled for the CPU; see
 * on_cpu.h.
 */
#include "on_cpu.h"

#include "cuda_standin/cuda_standin.h"

static cudaError_t launch_on_cpu(const cudaLaunchConfig_t *config, const void *kernel,
                                 void **parameters);
#define cudaLaunchKernelExC launch_on_cpu
#define cudaFuncGetAttributes(attributes, kernel) ((attributes)->ptxVersion = 0, cudaSuccess)
#define cudaOccupancyMaxPotentialClusterSize(...) cudaErrorNotSupported
#include "cuda/reduce.cu"
#undef cudaLaunchKernelExC
#undef cudaFuncGetAttributes
#undef cudaOccupancyMaxPotentialClusterSize

static cudaError_t launch_on_cpu(const cudaLaunchConfig_t *config, const void *kernel,
                                 void **parameters)
{
    const mylib_reduce_args *args = (const mylib_reduce_args *)parameters[0];
    const bool is_together = args->terms != 0 || args->way != MYLIB_REDUCE_COLUMNS;
    if (int error = cuda_standin_launch())
        return (cudaError_t)error;
    if (config->gridDim.x == 0 || config->gridDim.y == 0 || config->gridDim.y > 65535)
        return cudaErrorInvalidConfiguration;
    return run_grid(kernel, config->gridDim, config->blockDim, args, is_together, NULL, NULL);
}
