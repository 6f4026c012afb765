/*
 * on_cpu.h - compiles GPU kernels for the CPU, under the sanitizers too, which find misplaced
 * vectors and wrong addresses.  The threads of a thread block run one after the other; threads that
 * wait for each other have stacks of their own, and while one waits the next one runs.  A source
 * file includes this, then one .cu file.
 *
 * Part of emulated GPUs if CMake is given MYLIB_EMULATED_KERNELS, the include directory of a CUDA
 * toolkit.
 */
#ifndef MYLIB_ON_CPU_H
#define MYLIB_ON_CPU_H

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

static thread_local uint3 threadIdx, blockIdx, blockDim, gridDim;

template <typename T> static inline void __stcs(T *p, T value) { *p = value; }
template <typename T> static inline T __ldcs(const T *p) { return *p; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}
static inline unsigned __brev(unsigned x)
{
    unsigned reversed = 0;
    for (int i = 0; i < 32; i++)
        reversed |= (x >> i & 1) << (31 - i);
    return reversed;
}

/* Return c plus the sum of the bytes, or of the halves, of a word, each times a byte of b. */
template <typename T> static inline T __dp4a(T a, T b, T c)
{
    typedef typename std::conditional<std::is_signed<T>::value, int8_t, uint8_t>::type byte;
    for (int i = 0; i < 32; i += 8)
        c += (T)(byte)(a >> i) * (T)(byte)(b >> i);
    return c;
}
template <typename T> static inline T __dp2a_lo(T a, T b, T c)
{
    typedef typename std::conditional<std::is_signed<T>::value, int8_t, uint8_t>::type byte;
    typedef typename std::conditional<std::is_signed<T>::value, int16_t, uint16_t>::type half;
    for (int i = 0; i < 2; i++)
        c += (T)(half)(a >> 16 * i) * (T)(byte)(b >> 8 * i);
    return c;
}

static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)((((uint64_t)high << 32) | low) >> (shift & 31));
}

/* Returns four of the bytes of two words; digit i of the selector is the number of byte i. */
static inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector)
{
    const uint64_t bytes = ((uint64_t)high << 32) | low;
    unsigned result = 0;
    for (int i = 0; i < 4; i++)
        result |= (unsigned)(bytes >> (selector >> 4 * i & 7) * 8 & 255) << 8 * i;
    return result;
}

/* ---- Threads that wait for each other ---- */

#define STACK_NBYTES (128 * 1024)
#define MOST_THREADS 1024
#define WARP_THREADS 32

struct barrier {
    unsigned arrived, round;
};
struct thread_on_cpu {
    ucontext_t context;
    bool is_done;
};
static thread_local struct {
    ucontext_t scheduler;
    thread_on_cpu thread[MOST_THREADS];
    barrier block, warp[MOST_THREADS / WARP_THREADS];
    uint32_t exchanged[MOST_THREADS];
    void (*run)(const void *kernel, const void *args);
    const void *kernel, *args;
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
    barrier *b = &running.warp[threadIdx.x / WARP_THREADS];
    running.exchanged[threadIdx.x] = value;
    wait_at(b, WARP_THREADS);
    value = running.exchanged[threadIdx.x ^ other];
    wait_at(b, WARP_THREADS);
    return value;
}

static void begin_thread()
{
    running.run(running.kernel, running.args);
    running.thread[threadIdx.x].is_done = true;
}

/* Stacks of all threads, which last: fresh pages for each launch would take most of its time. */
static thread_local struct stacks {
    char *memory = NULL;
    ~stacks() { free(memory); }
} stacks;

/* Runs the threads of a thread block. */
static void run_together()
{
    for (unsigned i = 0; i < blockDim.x; i++) {
        thread_on_cpu *t = &running.thread[i];
        t->is_done = false;
        getcontext(&t->context);
        t->context.uc_stack.ss_sp = stacks.memory + (size_t)i * STACK_NBYTES;
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

/*
 * Runs a grid of thread blocks, whose threads wait for each other or not; before_block and
 * after_block may be NULL.
 */
template <typename A>
static cudaError_t run_grid(const void *kernel, dim3 grid, dim3 block, const A *args,
                            bool is_together, void (*before_block)(), bool (*after_block)())
{
    cudaError_t error = cudaSuccess;
    if (block.x > MOST_THREADS)
        return cudaErrorInvalidConfiguration;
    if (is_together && stacks.memory == NULL &&
        (stacks.memory = (char *)malloc((size_t)MOST_THREADS * STACK_NBYTES)) == NULL)
        return cudaErrorMemoryAllocation;
    running.run = [](const void *k, const void *a) { ((void (*)(A))k)(*(const A *)a); };
    running.kernel = kernel;
    running.args = args;
    blockDim.x = block.x;
    gridDim.x = grid.x;
    gridDim.y = grid.y;
    for (uint64_t i = 0; i < (uint64_t)grid.x * grid.y; i++) {
        blockIdx.x = (unsigned)(i % grid.x);
        blockIdx.y = (unsigned)(i / grid.x);
        if (before_block != NULL)
            before_block();
        if (is_together)
            run_together();
        else
            for (threadIdx.x = 0; threadIdx.x < block.x; threadIdx.x++)
                running.run(kernel, args);
        if (after_block != NULL && !after_block())
            error = cudaErrorIllegalAddress;
    }
    return error;
}

#endif /* MYLIB_ON_CPU_H */
