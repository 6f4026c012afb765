/*
 * kernels_on_cpu.cpp - the fused kernels (program.cu) compiled for the CPU, where they do what they
 * do on a GPU, under the sanitizers too: misplaced vectors and wrong addresses are found.  The
 * threads of a launch run one after the other; those of reductions, which wait for each other, have
 * stacks of their own, and the next one runs where one waits.
 *
 * A part of emulated GPUs where CMake is given MYLIB_EMULATED_KERNELS, the include directory of a
 * CUDA toolkit.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

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
static void __syncthreads();
static uint32_t __shfl_xor_sync(unsigned mask, uint32_t value, int other);

static cudaError_t launch_on_cpu(const void *kernel, dim3 grid, dim3 block, void **parameters,
                                 size_t shared_nbytes, cudaStream_t stream);
#define cudaLaunchKernel launch_on_cpu
#define cudaFuncGetAttributes(...) cudaSuccess
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

/* ---- Threads that wait for each other ------------------------------------------------------ */

#define STACK_NBYTES (128 * 1024)
#define MOST_WARPS (MYLIB_FUSED_MOST_THREADS / WARP)

typedef void kernel_on_cpu(mylib_fused_args);

struct barrier {
    unsigned arrived, round;
};
struct thread_on_cpu {
    ucontext_t context;
    bool is_done;
};
static thread_local struct {
    ucontext_t scheduler;
    thread_on_cpu thread[MYLIB_FUSED_MOST_THREADS];
    barrier block, warp[MOST_WARPS];
    uint32_t exchanged[MYLIB_FUSED_MOST_THREADS];
    kernel_on_cpu *kernel;
    const mylib_fused_args *args;
} running;

/* Until so many threads have come. */
static void wait_at(barrier *b, unsigned threads)
{
    const unsigned round = b->round;
    if (++b->arrived == threads) {
        b->arrived = 0;
        b->round++;
    }
    while (b->round == round)
        swapcontext(&running.thread[threadIdx.x].context, &running.scheduler);
}

static void __syncthreads() { wait_at(&running.block, blockDim.x); }

static uint32_t __shfl_xor_sync(unsigned, uint32_t value, int other)
{
    barrier *b = &running.warp[threadIdx.x / WARP];
    running.exchanged[threadIdx.x] = value;
    wait_at(b, WARP);
    value = running.exchanged[threadIdx.x ^ other];
    wait_at(b, WARP);
    return value;
}

static void begin_thread()
{
    running.kernel(*running.args);
    running.thread[threadIdx.x].is_done = true;
}

static void run_together(kernel_on_cpu *kernel, const mylib_fused_args *args, char *stacks)
{
    running.kernel = kernel;
    running.args = args;
    for (unsigned i = 0; i < blockDim.x; i++) {
        thread_on_cpu *t = &running.thread[i];
        t->is_done = false;
        getcontext(&t->context);
        t->context.uc_stack.ss_sp = stacks + (size_t)i * STACK_NBYTES;
        t->context.uc_stack.ss_size = STACK_NBYTES;
        t->context.uc_link = &running.scheduler;
        makecontext(&t->context, begin_thread, 0);
    }
    for (unsigned left = blockDim.x; left > 0;) {
        for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) {
            thread_on_cpu *t = &running.thread[threadIdx.x];
            if (t->is_done)
                continue;
            swapcontext(&running.scheduler, &t->context);
            left -= t->is_done;
        }
    }
}

static cudaError_t launch_on_cpu(const void *kernel, dim3 grid, dim3 block, void **parameters,
                                 size_t shared_nbytes, cudaStream_t stream)
{
    kernel_on_cpu *run = (kernel_on_cpu *)kernel;
    const mylib_fused_args *args = (const mylib_fused_args *)parameters[0];
    const unsigned char *bytes = (const unsigned char *)fused_shared;
    cudaError_t error = cudaSuccess;
    char *stacks = NULL;
    (void)stream;
    if (shared_nbytes > MYLIB_FUSED_SHARED_NBYTES || block.x > MYLIB_FUSED_MOST_THREADS)
        return cudaErrorInvalidConfiguration;
    if (args->is_reduced && (stacks = (char *)malloc((size_t)block.x * STACK_NBYTES)) == NULL)
        return cudaErrorMemoryAllocation;
    blockDim.x = block.x;
    for (unsigned i = 0; i < grid.x * grid.y; i++) {
        blockIdx.x = i % grid.x;
        blockIdx.y = i / grid.x;
        memset((void *)fused_shared, POISON, sizeof fused_shared);
        if (args->is_reduced)
            run_together(run, args, stacks);
        else
            for (threadIdx.x = 0; threadIdx.x < block.x; threadIdx.x++)
                run(*args);
        for (size_t k = shared_nbytes; k < sizeof fused_shared; k++)
            if (bytes[k] != POISON)
                error = cudaErrorIllegalAddress;
    }
    free(stacks);
    return error;
}

mylib_status mylib_from_cuda(cudaError_t error, const char *call, const char *file, int line)
{
    if (error == cudaSuccess)
        return MYLIB_OK;
    return mylib_fail(MYLIB_ERR_CUDA, "error %d in %s (%s:%d)", (int)error, call, file, line);
}
