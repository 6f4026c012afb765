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
    return with_functor<C>(f, [&](auto g) {
        C value = x[0];
#pragma unroll
        for (int i = 1; i < N; i++)
            if (i < count)
                value = g(value, x[i]);
        return value;
    });
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

/* A size in a dimension, or what is left of it: a lane's terms do not go on for INT32_MAX. */
__device__ __forceinline__ int32_t limit_size(int64_t size)
{
    return size < INT32_MAX ? (int32_t)size : INT32_MAX;
}

/*
 * Finds the places of `count` terms of a lane, at most ROWS, from `term` on; beyond them it repeats
 * the first.  There are at most MYLIB_REDUCED_NDIM reduced dimensions.
 */
template <typename F>
__device__ __forceinline__ void find_terms(const reduce_args &args, int k, const char *first,
                                           int64_t term, int count, const char *(&p)[ROWS])
{
    static_assert(MYLIB_REDUCED_NDIM == 3, "columns, rows and planes");
    const int64_t *stride = &args.in_strides[k][args.ndim], *shape = &args.shape[args.ndim];
    const int dims = args.ndim - args.kept_ndim;
    if (dims <= 1) {
        const int64_t step = dims == 1 ? stride[-1] : 0;
        p[0] = first + term * step;
#pragma unroll
        for (int i = 1; i < ROWS; i++)
            p[i] = i < count ? p[0] + i * APART<F> * step : p[0];
        return;
    }
    const int64_t columns = shape[-1], rows = dims == 2 ? INT64_MAX : shape[-2];
    const int64_t plane_stride = dims == 2 ? 0 : stride[-3];
    const int64_t row = quotient_of(term, columns), plane = dims == 2 ? 0 : quotient_of(row, rows);
    const int64_t at_column = term - row * columns, at_row = dims == 2 ? row : row - plane * rows;
    p[0] = first + at_column * stride[-1] + at_row * stride[-2] + plane * plane_stride;

    /* The next term is so many columns, rows and planes ahead, plus the carries. */
    const int32_t width = limit_size(columns), height = limit_size(rows);
    const int rows_ahead = APART<F> / width, planes_ahead = rows_ahead / height;
    const int right = APART<F> - rows_ahead * width, down = rows_ahead - planes_ahead * height;
    const int64_t step = right * stride[-1] + down * stride[-2] + planes_ahead * plane_stride;
    const int64_t end_of_row = stride[-2] - columns * stride[-1];
    const int64_t end_of_plane = dims == 2 ? 0 : plane_stride - rows * stride[-2];
    int32_t columns_left = limit_size(columns - at_column), rows_left = limit_size(rows - at_row);
    const char *next = p[0];
#pragma unroll
    for (int i = 1; i < ROWS; i++) {
        next += step;
        columns_left -= right;
        rows_left -= down;
        if (columns_left <= 0) {
            columns_left += width;
            rows_left--;
            next += end_of_row;
        }
        if (rows_left <= 0) {
            rows_left += height;
            next += end_of_plane;
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
        find_terms<F>(args, k, first[k], term, count, p);
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
        value = with_functor<C>(f, [=](auto g) {
            C own = value;
#pragma unroll
            for (int half = LANES / 2; half >= WARP; half /= 2) {
                if (l >= half && l < 2 * half)
                    room[l] = own;
                __syncthreads();
                if (l < half && l + half < lanes)
                    own = g(own, room[l + half]);
            }
            return l < WARP ? reduce_warp(g, own, lanes) : own;
        });
        if (l < WARP) {
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
