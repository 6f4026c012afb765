/*
 * reduce_columns.cuh - the kernel of many adjacent outputs: a thread has one, or some of them.
 */
#pragma once

#include "reduce_lanes.cuh"

namespace
{

constexpr int VECTOR_BLOCKS = MAX_BLOCKS < 4 ? MAX_BLOCKS : 4; /* resident, with vectors */

/* Outputs of a thread. */
template <typename C, int W> struct alignas(W == 1 ? alignof(C) : 16) columns_of {
    C e[W];
};

template <typename F, typename C, int W>
__device__ __forceinline__ columns_of<C, W> combine_columns(F f, const columns_of<C, W> &a,
                                                            const columns_of<C, W> &b)
{
    columns_of<C, W> both;
#pragma unroll
    for (int i = 0; i < W; i++)
        both.e[i] = f(a.e[i], b.e[i]);
    return both;
}

/* Elements to reduce for each column of a thread, at most ROWS. */
struct column_terms {
    int64_t first;
    int log2_apart, count;
    bool is_tree; /* of lanes: combined in halves, else from the first to the last */
};

/*
 * Finds the elements of a lane, or, for a tree, of lanes of one term each, the m-th to the
 * (m + ROWS - 1)-th: their numbers differ in the highest bits, and here ascend.
 */
__device__ __forceinline__ column_terms find_column_terms(bool is_tree, int64_t from, int64_t to,
                                                          int lanes, int lane, int shift)
{
    const int log2_apart = is_tree ? shift : STEPS;
    const int rest = (int)(is_tree ? lanes : to - from) - lane;
    const int count = (rest + (1 << log2_apart) - 1) >> log2_apart;
    return {from + lane, log2_apart, count < ROWS ? count : ROWS, is_tree};
}

/*
 * Reduces elements of type S of W columns: vectors from first[0] on, or, if the columns are spaced,
 * single elements from first[j] on.  Reloads the first one instead of missing ones.
 */
template <typename F, typename C, int W, typename S>
__device__ __forceinline__ columns_of<C, W> reduce_stored_columns(F f, const reduce_args &args,
                                                                  const char *const (&first)[W],
                                                                  const column_terms &terms)
{
    const int64_t step = args.walk[0].stride[0];
    const int64_t base = terms.first * step, unit = step << terms.log2_apart;
    typedef typename bits_of<W * sizeof(S)>::type bits;
    union vector {
        bits loaded;
        S e[W];
    } x[ROWS];
    const auto convert_all = [](const vector &v) {
        columns_of<C, W> y;
#pragma unroll
        for (int j = 0; j < W; j++)
            y.e[j] = convert<C>(v.e[j]);
        return y;
    };
    const auto place = [&](int i) { return i < terms.count ? base + i * unit : base; };
    if (!args.is_spaced && terms.count == ROWS) {
        const char *p = first[0] + base;
#pragma unroll
        for (int i = 0; i < ROWS; i++, p += unit)
            x[i].loaded = __ldcs((const bits *)p);
    } else if (!args.is_spaced) {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            x[i].loaded = __ldcs((const bits *)(first[0] + place(i)));
    } else {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < W; j++)
                x[i].e[j] = *(const S *)(first[j] + place(i));
    }
    if (!terms.is_tree) {
        columns_of<C, W> value = convert_all(x[0]);
#pragma unroll
        for (int i = 1; i < ROWS; i++)
            if (i < terms.count)
                value = combine_columns(f, value, convert_all(x[i]));
        return value;
    }
    columns_of<C, W> value[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        value[i] = convert_all(x[i]);
#pragma unroll
    for (int half = ROWS / 2; half > 0; half /= 2)
#pragma unroll
        for (int i = 0; i < half; i++)
            if (i + half < terms.count)
                value[i] = combine_columns(f, value[i], value[i + half]);
    return value[0];
}

/* Reduces columns whose elements are of the carrying type or one that widens to it. */
template <typename F, typename C, int W>
__device__ __forceinline__ columns_of<C, W> reduce_columns(F f, const reduce_args &args,
                                                           const char *const (&first)[W],
                                                           const column_terms &terms)
{
    static_assert(sizeof(C) * W == 16, "a vector");
    if (!args.is_stored_as_carrier[0]) {
        switch (args.input_type[0]) {
#define DT(s, S) \
    case MYLIB_##S: \
        if constexpr (widens<C, t_##s>()) \
            return reduce_stored_columns<F, C, W, t_##s>(f, args, first, terms); \
        break;
            MYLIB_STORED_TYPES(DT)
#undef DT
        }
    }
    return reduce_stored_columns<F, C, W, C>(f, args, first, terms);
}

/* Reduces lanes of a single term each; loads all of them first. */
template <typename F, typename C>
__device__ __forceinline__ C reduce_some_lanes(F f, const reduce_args &args, const char *first,
                                               const column_terms &terms)
{
    const char *p[ROWS];
    C x[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        const int64_t term = terms.first + (i < terms.count ? i << terms.log2_apart : 0);
        p[i] = first + term * args.walk[0].stride[0];
    }
    load_terms<C, ROWS>(args, 0, p, x);
    return with_functor<C>(f, [&](auto g) {
#pragma unroll
        for (int half = ROWS / 2; half > 0; half /= 2)
#pragma unroll
            for (int i = 0; i < half; i++)
                if (i + half < terms.count)
                    x[i] = g(x[i], x[i + half]);
        return x[0];
    });
}

template <typename F, typename C, int W>
__global__ void __launch_bounds__(THREADS, W > 1 ? VECTOR_BLOCKS : MIN_BLOCKS<C>)
    columns_kernel(const __grid_constant__ reduce_args args)
{
    wait_for_previous();
    const F f(args.reduction);
    typedef columns_of<C, W> values;
    constexpr int SOME_BITS = 3;
    static_assert(1 << SOME_BITS == ROWS,
                  "a thread loads as many lanes at once as terms of a lane");
    alignas(16) __shared__ unsigned char storage[STEPS * THREADS * sizeof(values)];
    values *waits = (values *)storage, *room = waits;
    /* 2^side threads have adjacent columns; 2^bits such groups share them. */
    const int side = args.width_bits, bits = args.share_bits, steps = args.lane_bits - bits;
    const int shift = bits + (steps > SOME_BITS ? steps - SOME_BITS : 0);
    const int t = threadIdx.x & ((1 << side) - 1), sub = threadIdx.x >> side & ((1 << bits) - 1);
    const row_tile at(args);
    const int64_t group = ((int64_t)at.tile * THREADS + threadIdx.x) >> side >> bits;
    /* Output j of a thread is at.begin + wanted + j * apart. */
    const int apart = W > 1 && args.is_spaced ? 1 << side : 1;
    const int64_t wanted = (group << side) * W + (apart > 1 ? t : t * W);
    const bool is_row = W > 1 && args.row_outputs == args.shape[args.kept_ndim - 1];
    const char *first[W == 1 ? 2 : W];
#pragma unroll
    for (int j = 0; j < W; j++) {
        const bool is_there = wanted + j * apart < args.row_outputs;
        if (j == 0 || (args.is_spaced && !is_row))
            first[j] =
                first_term(args, 0, at.begin + (uint32_t)(is_there ? wanted + j * apart : 0));
        else if (args.is_spaced)
            first[j] = first[0] +
                       (is_there ? j * apart * args.in_strides[0][args.kept_ndim - 1] : (int64_t)0);
    }

#pragma unroll 1
    for (int64_t block = blockIdx.y; block < args.blocks; block += gridDim.y) {
        int64_t from = block * TERMS, to = from + TERMS < args.terms ? from + TERMS : args.terms;
        values value = values();
        /* Two terms of each lane are a tree over twice the lanes; more are enough loads. */
        const bool is_tree =
            (to - from <= LANES || args.terms <= 2 * LANES) && args.ndim <= args.kept_ndim + 1;
        const int lanes = is_tree || to - from < LANES ? (int)(to - from) : LANES;
        const int some_bits = is_tree ? SOME_BITS : 0;
#pragma unroll 1
        for (unsigned m = 0; m < 1u << steps; m += 1u << some_bits) {
            int lane = lane_of(m, sub, steps, bits);
            if (lane < lanes) {
                const column_terms terms = find_column_terms(is_tree, from, to, lanes, lane, shift);
                if constexpr (W > 1)
                    value = reduce_columns<F, C, W>(f, args, first, terms);
                else if (is_tree)
                    value.e[0] = reduce_some_lanes<F, C>(f, args, first[0], terms);
                else
                    value.e[0] = reduce_lane<F, C>(f, args, first, from + lane, to);
            }
            /*
             * Combine the value that waits at step k with the next one, if it exists: a pair
             * without its first value has no second one.
             */
            int k = some_bits;
#pragma unroll 1
            for (; m >> k & 1; k++) {
                values waiting = waits[k % STEPS * THREADS + threadIdx.x];
                bool is_there = lane_of(m >> k << k, sub, steps, bits) < lanes;
                value = is_there ? combine_columns(f, waiting, value) : waiting;
            }
            if (k < steps)
                waits[k % STEPS * THREADS + threadIdx.x] = value;
        }
        if (bits != 0) {
            /* A thread's own slot; its old value is no longer needed. */
            room[threadIdx.x] = value;
            __syncthreads();
#pragma unroll 1
            for (int half = 1 << bits >> 1; half > 0; half >>= 1) {
                if (sub < half && sub + half < lanes)
                    value = room[threadIdx.x] =
                        combine_columns(f, value, room[threadIdx.x + (half << side)]);
                __syncthreads();
            }
        }
        if (sub != 0)
            continue;
#pragma unroll
        for (int j = 0; j < W; j++) {
            if (wanted + j * apart >= args.row_outputs)
                break;
            const int64_t output = at.begin + wanted + j * apart;
            if (W == 1 && args.terms == 0)
                value.e[j] = convert<C>((t_i32)(args.reduction == MYLIB_PROD));
            if (args.blocks == 1)
                store_output(args, (uint32_t)output, value.e[j]);
            else
                ((C *)args.partial)[block * args.outputs + output] = value.e[j];
        }
    }
}

} // namespace
