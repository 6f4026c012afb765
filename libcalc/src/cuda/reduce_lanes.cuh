/*
 * reduce_lanes.cuh - the kernel of terms of any type and strides: each thread of a block is a lane.
 */
#ifndef MYLIB_REDUCE_LANES_CUH
#define MYLIB_REDUCE_LANES_CUH

#include "clusters.cuh"

namespace
{

/* Reduces x[0..count) from left to right; count is at least 1. */
template <typename F, typename C, int N>
__device__ __forceinline__ C reduce_terms(F f, const C (&x)[N], int count)
{
    C value = x[0];
#pragma unroll
    for (int i = 1; i < N; i++)
        if (i < count)
            value = f(value, x[i]);
    return value;
}

/* Returns the distance between the terms of a lane. */
template <typename F> constexpr int APART = IN_RUNS<F> ? 1 : LANES;

/* A lane's terms: `begin` to `end` - 1. */
struct lane_terms {
    int64_t begin, end;
};

/*
 * Returns the terms of one of 2^bits lanes in a block of the terms [from, to).  The tree combines
 * the lanes in bit-reversed order, so they take their runs in that order.
 */
template <typename F>
__device__ __forceinline__ lane_terms terms_of_lane(int lane, int bits, int64_t from, int64_t to)
{
    if constexpr (!IN_RUNS<F>)
        return {from + lane, to};
    int64_t run = (to - from + LANES - 1) / LANES;
    int64_t begin = from + run * (bits == 0 ? 0 : (int)(__brev(lane) >> (32 - bits)));
    begin = begin < to ? begin : to - 1;
    return {begin, begin + run < to ? begin + run : to};
}

/* Counts the lanes of 2^bits that have terms. */
template <typename F> __device__ __forceinline__ int count_lanes(int bits, int64_t from, int64_t to)
{
    if constexpr (IN_RUNS<F>)
        return 1 << bits;
    return to - from < LANES ? (int)(to - from) : LANES;
}

/* Reduces the terms of a lane, at most ROWS and below `end`; beyond `end` it reloads `term`. */
template <typename F, typename C>
__device__ __forceinline__ C reduce_lane(F f, const reduce_args &args, const char *const *first,
                                         int64_t term, int64_t end)
{
    const char *p[ROWS];
    C x[ROWS], y[ROWS];
    int64_t rows = (end - term + APART<F> - 1) / APART<F>;
    int count = rows < ROWS ? (int)rows : ROWS;
#pragma unroll 1
    for (int k = 0; k < args.inputs; k++) {
        if (args.ndim <= args.kept_ndim + 1) {
            int64_t step = args.ndim > args.kept_ndim ? args.in_strides[k][args.kept_ndim] : 0;
            p[0] = first[k] + term * step;
#pragma unroll
            for (int i = 1; i < ROWS; i++)
                p[i] = i < count ? p[0] + i * APART<F> * step : p[0];
        } else {
            /* Offsets take divisions: within a row of the innermost dimension, they are added. */
            const int64_t size = args.shape[args.ndim - 1];
            const int64_t step = args.in_strides[k][args.ndim - 1] * APART<F>;
            int64_t index = remainder_of(term, size);
            p[0] = first[k] + offset_of_term(args, k, term);
#pragma unroll
            for (int i = 1; i < ROWS; i++) {
                index += APART<F>;
                if (i >= count) {
                    p[i] = p[0];
                } else if (index < size) {
                    p[i] = p[i - 1] + step;
                } else {
                    p[i] = first[k] + offset_of_term(args, k, term + i * APART<F>);
                    index -= size;
                }
            }
        }
        load_terms<C, ROWS>(args, k, p, y);
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            x[i] = k == 0 ? y[i] : product(x[i], y[i]);
    }
    return reduce_terms(f, x, count);
}

template <typename F, typename C>
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS<C>)
    lanes_kernel(const __grid_constant__ reduce_args args)
{
    wait_for_previous();
    const F f(args.reduction);
    alignas(16) __shared__ unsigned char levels[MAX_LEVELS * sizeof(C)];
    alignas(16) __shared__ unsigned char storage[THREADS * sizeof(C)];
    C *level = (C *)levels, *room = (C *)storage;
    uint32_t output, part;
#if IN_CLUSTERS
    __shared__ cluster_room<C> all;
    if (args.cluster_bits != 0) {
        output = blockIdx.x >> args.cluster_bits;
        part = blockIdx.x & ((1u << args.cluster_bits) - 1);
        begin_in_cluster(args, all, part);
    } else
#endif
    {
        output = blockIdx.x % (uint32_t)args.outputs;
        part = blockIdx.x / (uint32_t)args.outputs;
    }
    int64_t begin = part * args.group;
    int64_t end = begin + args.group < args.blocks ? begin + args.group : args.blocks;
    const char *const first[2] = {first_term(args, 0, output),
                                  args.inputs == 2 ? first_term(args, 1, output) : NULL};
    int l = threadIdx.x;
    C value = C();
#pragma unroll 1
    for (int64_t block = begin; block < end; block++) {
        int64_t from = block * TERMS, to = from + TERMS < args.terms ? from + TERMS : args.terms;
        int lanes = count_lanes<F>(STEPS, from, to);
        if (l < lanes) {
            lane_terms terms = terms_of_lane<F>(l, STEPS, from, to);
            value = reduce_lane<F, C>(f, args, first, terms.begin, terms.end);
        }
        /* The upper half of the threads passes its values on; five steps stay within a warp. */
#pragma unroll
        for (int half = LANES / 2; half >= WARP; half /= 2) {
            if (l >= half && l < 2 * half)
                room[l] = value;
            __syncthreads();
            if (l < half && l + half < lanes)
                value = f(value, room[l + half]);
        }
        if (l < WARP) {
            value = reduce_warp(f, value, lanes);
            if (l == 0 && end - begin > 1)
                count_block(f, level, (uint32_t)(block - begin), value);
        }
        __syncthreads();
    }
    if (l == 0 && end - begin > 1)
        value = count_end(f, level, (uint32_t)(end - begin));
#if IN_CLUSTERS
    if (args.cluster_bits != 0)
        return finish_in_cluster(f, args, all, output, part, value);
#endif
    if (l == 0)
        finish(args, output, part, value);
}

} // namespace

#endif
