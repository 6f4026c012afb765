/*
 * kernels_on_cpu.cpp - the fused kernels (fused.cu) compiled for the CPU; see on_cpu.h.
 */
#include "on_cpu.h"

#include "cuda_standin/cuda_standin.h"

static cudaError_t launch_on_cpu(const void *kernel, dim3 grid, dim3 block, void **parameters,
                                 size_t shared_nbytes, cudaStream_t stream);
#define cudaLaunchKernel launch_on_cpu
#define cudaFuncGetAttributes(...) cudaSuccess
#define cudaGetLastError() cudaSuccess
#include "cuda/fused.cu"
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

static thread_local size_t used_nbytes; /* of fused_shared, by the launch */

static_assert(MYLIB_FUSED_MOST_THREADS <= MOST_THREADS, "threads");

static void poison_shared() { memset((void *)fused_shared, POISON, sizeof fused_shared); }

static bool is_rest_poison()
{
    const unsigned char *bytes = (const unsigned char *)fused_shared;
    for (size_t k = used_nbytes; k < sizeof fused_shared; k++)
        if (bytes[k] != POISON)
            return false;
    return true;
}

static cudaError_t launch_on_cpu(const void *kernel, dim3 grid, dim3 block, void **parameters,
                                 size_t shared_nbytes, cudaStream_t stream)
{
    const mylib_fused_args *args = (const mylib_fused_args *)parameters[0];
    (void)stream;
    if (int error = cuda_standin_launch())
        return (cudaError_t)error;
    if (shared_nbytes > MYLIB_FUSED_SHARED_NBYTES || block.x > MYLIB_FUSED_MOST_THREADS)
        return cudaErrorInvalidConfiguration;
    used_nbytes = shared_nbytes;
    return run_grid(kernel, grid, block, args, args->is_reduced, poison_shared, is_rest_poison);
}
