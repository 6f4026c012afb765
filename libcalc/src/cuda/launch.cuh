/*
 * launch.cuh - launches kernels, early where the GPU can.
 *
 * Early: the GPU prepares the kernel while the one before it in the stream ends.  Every kernel
 * launched so begins with wait_for_previous().
 */
#pragma once

#include <atomic>

#include "cuda_internal.h"

/* Older toolkits cannot capture such a launch in a graph.  Tests compile kernels without nvcc. */
#if CUDART_VERSION >= 12030 && defined(__NVCC__)
#define HAS_EARLY_LAUNCH 1
#else
#define HAS_EARLY_LAUNCH 0
#endif

namespace
{

/* Waits until the work before the kernel has ended; only then may the kernel use memory. */
__device__ __forceinline__ void wait_for_previous()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#if HAS_EARLY_LAUNCH
/* Asks whether a kernel waits on the current device: code for older GPUs does not. */
inline bool waits(const void *kernel)
{
    cudaFuncAttributes attributes;
    int driver;
    if (cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess &&
        cudaDriverGetVersion(&driver) == cudaSuccess)
        return attributes.ptxVersion >= 90 && driver >= 12030;
    (void)cudaGetLastError();
    return false;
}

/* Tells whether kernels wait on the current device: all are compiled for the same architectures. */
inline bool is_early(const void *kernel)
{
    enum { UNKNOWN, EARLY, LATE };
    static std::atomic<unsigned char> known[MYLIB_CUDA_MAX_DEVICES];
    int device;
    if (cudaGetDevice(&device) != cudaSuccess)
        return false; /* the launch reports it */
    unsigned char answer = known[device].load(std::memory_order_relaxed);
    if (answer == UNKNOWN) {
        answer = waits(kernel) ? EARLY : LATE;
        known[device].store(answer, std::memory_order_relaxed);
    }
    return answer == EARLY;
}

inline void launch_early(cudaLaunchAttribute *attribute)
{
    attribute->id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute->val.programmaticStreamSerializationAllowed = 1;
}
#endif

/* Launches a kernel that begins with wait_for_previous() and has one argument. */
inline cudaError_t launch(const void *kernel, dim3 grid, int threads, const void *args,
                          size_t shared, void *stream)
{
    void *parameters[] = {(void *)args};
    const dim3 block((unsigned)threads);
#if HAS_EARLY_LAUNCH
    if (is_early(kernel)) {
        cudaLaunchAttribute early = {};
        cudaLaunchConfig_t config = {};
        launch_early(&early);
        config.gridDim = grid;
        config.blockDim = block;
        config.dynamicSmemBytes = shared;
        config.stream = (cudaStream_t)stream;
        config.attrs = &early;
        config.numAttrs = 1;
        return cudaLaunchKernelExC(&config, kernel, parameters);
    }
#endif
    return cudaLaunchKernel(kernel, grid, block, parameters, shared, (cudaStream_t)stream);
}

} // namespace
