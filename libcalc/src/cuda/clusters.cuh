/*
 * clusters.cuh - combines the results of the thread blocks of a cluster.
 */
#pragma once

#include "reduce_values.cuh"

namespace
{

/*
 * The thread blocks of a cluster compute the parts of an output.  The first block's shared memory
 * has a slot for the result of each part, and a barrier that counts arriving bytes.  The other
 * blocks may exit early.  Requires CUDA 12.1.
 */
#if CUDART_VERSION >= 12010
#define HAS_CLUSTERS 1
#else
#define HAS_CLUSTERS 0
#endif

#if HAS_CLUSTERS && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define IN_CLUSTERS 1

template <typename C> struct cluster_room {
    alignas(16) C value[MYLIB_MAX_CLUSTER];
    uint64_t barrier;
};

__device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Called in the first thread block, before any block of the cluster sends. */
__device__ __forceinline__ void expect_bytes(uint64_t *barrier, uint32_t nbytes)
{
    uint32_t at = shared_address(barrier);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n\t"
                 "fence.mbarrier_init.release.cluster;\n\t"
                 "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at),
                 "r"(nbytes)
                 : "memory");
}

/* Sends to the same address in the shared memory of the cluster's first thread block. */
template <typename C>
__device__ __forceinline__ void send_to_first(C *place, uint64_t *barrier, const C &value)
{
    uint32_t to, bar;
    asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(to) : "r"(shared_address(place)));
    asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(bar) : "r"(shared_address(barrier)));
    uint32_t words[sizeof(C) / 4];
    memcpy(words, &value, sizeof value);
#define SEND "st.async.shared::cluster.mbarrier::complete_tx::bytes"
    if constexpr (sizeof(C) == 4)
        asm volatile(SEND ".b32 [%0], %1, [%2];" ::"r"(to), "r"(words[0]), "r"(bar) : "memory");
    else if constexpr (sizeof(C) == 8)
        asm volatile(SEND ".v2.b32 [%0], {%1, %2}, [%3];" ::"r"(to), "r"(words[0]), "r"(words[1]),
                     "r"(bar)
                     : "memory");
    else
        asm volatile(SEND ".v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to), "r"(words[0]),
                     "r"(words[1]), "r"(words[2]), "r"(words[3]), "r"(bar)
                     : "memory");
#undef SEND
}

/* Waits until all expected bytes have arrived and can be read. */
__device__ __forceinline__ void wait_for_bytes(uint64_t *barrier)
{
    asm volatile("{\n\t"
                 ".reg .pred done;\n\t"
                 "again:\n\t"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], 0;\n\t"
                 "@!done bra again;\n\t"
                 "}" ::"r"(shared_address(barrier))
                 : "memory");
}

/* Called by every thread of the cluster, before finish_in_cluster(). */
template <typename C>
__device__ __forceinline__ void begin_in_cluster(const reduce_args &args, cluster_room<C> &all,
                                                 uint32_t part)
{
    if (part == 0 && threadIdx.x == 0)
        expect_bytes(&all.barrier, (uint32_t)args.parts * (uint32_t)sizeof(C));
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}

/*
 * Combines the parts in the order of combine_kernel().  Thread 0 has the value of its part.  A
 * cluster may have more thread blocks than parts.
 */
template <typename F, typename C>
__device__ __forceinline__ void finish_in_cluster(F f, const reduce_args &args,
                                                  cluster_room<C> &all, uint32_t output,
                                                  uint32_t part, C value)
{
    /* From here on, all thread blocks are running and the barrier of the first one exists. */
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
    if (threadIdx.x != 0 || part >= args.parts)
        return;
    send_to_first(&all.value[part], &all.barrier, value);
    if (part != 0)
        return;
    wait_for_bytes(&all.barrier);
    reduce_pairwise(f, all.value, (int)args.parts);
    store_output(args, output, all.value[0]);
}
#else
#define IN_CLUSTERS 0
#endif

} // namespace
