/*
 * reduce_lanes.cuh - the kernel of terms of any type and strides: a warp takes a block of terms, or
 * a thread block does, whose threads are the lanes.
 */
#pragma once

#include "clusters.cuh"

namespace
{

/* Reduces x[0..count) from left to right; count is at least 1. */
template <typename F, typename C, int N>
__device__ __forceinline__ C reduce_terms(F f, const C (&x)[N], int count)
{
    return with_functor<C>(f, [&](auto g) {
        C value = x[0];
#pragma unroll
        for (int i = 1; i < N; i++)
            if (i < count)
                value = g(value, x[i]);
        return value;
    });
}

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

/*
 * Finds the places of `count` terms of a lane, at most N, from `term` on; beyond them it repeats
 * the first.  Several dimensions are columns, rows and planes.
 */
template <int N>
__device__ __forceinline__ void find_terms(const reduce_args &args, int k, const char *first,
                                           int64_t term, int count, const char *(&p)[N])
{
    const mylib_reduce_walk &walk = args.walk[k];
    const int dims = args.ndim - args.kept_ndim;
    if (dims <= 1) {
        p[0] = first + term * walk.stride[0];
#pragma unroll
        for (int i = 1; i < N; i++)
            p[i] = i < count ? p[0] + i * walk.step : p[0];
        return;
    }
    const term_place at = place_of_term(args, term);
    int32_t columns_left = limit_size(args.columns - at.column);
    int32_t rows_left = dims == 2 ? INT32_MAX : limit_size(args.rows - at.row);
    const char *next = first + offset_of(walk, at);
    p[0] = next;
#pragma unroll
    for (int i = 1; i < N; i++) {
        next += walk.step;
        columns_left -= args.right;
        rows_left -= args.down;
        if (columns_left <= 0) {
            columns_left += args.row_width;
            rows_left--;
            next += walk.end_of_row;
        }
        if (rows_left <= 0) {
            rows_left += args.plane_height;
            next += walk.end_of_plane;
        }
        p[i] = i < count ? next : p[0];
    }
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
        find_terms(args, k, first[k], term, count, p);
        load_terms<C, ROWS>(args, k, p, y);
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            x[i] = k == 0 ? y[i] : product(x[i], y[i]);
    }
    return reduce_terms(f, x, count);
}

/* Combines a thread's values: the v-th is of lane 32 v + t, of the first `lanes` ones. */
template <typename F, typename C>
__device__ __forceinline__ C reduce_lanes(F f, const C *own, int lanes)
{
    constexpr int V = LANES / WARP;
    const int t = threadIdx.x % WARP;
    C x[V];
#pragma unroll
    for (int v = 0; v < V; v++)
        x[v] = own[v * WARP + t];
    return with_functor<C>(f, [&](auto g) {
#pragma unroll
        for (int half = V / 2; half > 0; half /= 2)
#pragma unroll
            for (int v = 0; v < half; v++)
                if ((v + half) * WARP + t < lanes)
                    x[v] = g(x[v], x[v + half]);
        return reduce_warp(g, x[0], lanes);
    });
}

template <typename F, typename C>
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS<C>)
    lanes_kernel(const __grid_constant__ reduce_args args)
{
    wait_for_previous();
    const F f(args.reduction);
    const int warp = threadIdx.x / WARP, t = threadIdx.x % WARP;
    alignas(16) __shared__ unsigned char levels[WARPS][MAX_LEVELS * sizeof(C)];
    alignas(16) __shared__ unsigned char storage[(WARPS * LANES + WARPS) * sizeof(C)];
    C *const level = (C *)levels[warp], *const room = (C *)storage;
    C *const own = room + (args.is_by_warp ? warp * LANES : 0);
    const share s = take_share(args);
#if IN_CLUSTERS
    __shared__ cluster_room<C> all;
    if (args.cluster_bits != 0)
        begin_in_cluster(args, all, s.part);
#endif
    if (s.output >= args.outputs)
        return;
    const char *const first[2] = {first_term(args, 0, s.output),
                                  args.inputs == 2 ? first_term(args, 1, s.output) : NULL};
    C value = C();
#pragma unroll 1
    for (int64_t block = s.begin; block < s.end; block++) {
        int64_t from = block * TERMS, to = from + TERMS < args.terms ? from + TERMS : args.terms;
        int lanes = count_lanes<F>(STEPS, from, to);
#pragma unroll 1
        for (int l = args.is_by_warp ? t : threadIdx.x; l < lanes;
             l += args.is_by_warp ? WARP : LANES) {
            lane_terms terms = terms_of_lane<F>(l, STEPS, from, to);
            own[l] = reduce_lane<F, C>(f, args, first, terms.begin, terms.end);
        }
        if (!args.is_by_warp)
            __syncthreads();
        if (args.is_by_warp || warp == 0) {
            value = reduce_lanes(f, own, lanes);
            if (t == 0 && s.end - s.begin > 1)
                count_block(f, level, (uint32_t)(block - s.begin), value);
        }
        if (!args.is_by_warp)
            __syncthreads();
    }
    if (t == 0 && s.end - s.begin > 1 && (args.is_by_warp || warp == 0))
        value = count_end(f, level, (uint32_t)(s.end - s.begin));
#if IN_CLUSTERS
    if (args.cluster_bits != 0)
        return finish_in_cluster(f, args, all, s.output, s.part, value);
#endif
    finish_warps(f, args, s, room + WARPS * LANES, value);
}

} // namespace
