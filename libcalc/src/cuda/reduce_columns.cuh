/*
 * reduce_columns.cuh - the kernel of many adjacent outputs: a thread has one, or a vector of them.
 */
#ifndef MYLIB_REDUCE_COLUMNS_CUH
#define MYLIB_REDUCE_COLUMNS_CUH

#include "reduce_lanes.cuh"

namespace
{

constexpr int VECTOR_BLOCKS = MAX_BLOCKS < 5 ? MAX_BLOCKS : 5; /* resident, with vectors */

/* Adjacent outputs of a thread. */
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

/* Reduces W adjacent elements of type S in each of `count` rows; reloads the first one beyond. */
template <typename F, typename C, int W, typename S>
__device__ __forceinline__ columns_of<C, W> reduce_stored_columns(F f, const char *p, int64_t step,
                                                                  int count)
{
    typedef typename bits_of<W * sizeof(S)>::type bits;
    union vector {
        bits loaded;
        S e[W];
    } x[ROWS];
    columns_of<C, W> value, next;
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        x[i].loaded = __ldcs((const bits *)(i < count ? p + i * step : p));
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
        for (int j = 0; j < W; j++)
            next.e[j] = convert<C>(x[i].e[j]);
        if (i == 0)
            value = next;
        else if (i < count)
            value = combine_columns(f, value, next);
    }
    return value;
}

/* Reduces a lane of each column; the terms are of the carrying type or one that widens to it. */
template <typename F, typename C, int W>
__device__ __forceinline__ columns_of<C, W>
reduce_columns(F f, const reduce_args &args, const char *first, int64_t term, int64_t end)
{
    static_assert(sizeof(C) * W == 16, "a vector");
    int64_t step = args.in_strides[0][args.kept_ndim] * APART<F>;
    int64_t rows = (end - term + APART<F> - 1) / APART<F>;
    int count = rows < ROWS ? (int)rows : ROWS;
    const char *p = first + term * args.in_strides[0][args.kept_ndim];
    if (!args.is_stored_as_carrier[0]) {
        switch (args.input_type[0]) {
#define DT(s, S) \
    case MYLIB_##S: \
        if constexpr (widens<C, t_##s>()) \
            return reduce_stored_columns<F, C, W, t_##s>(f, p, step, count); \
        break;
            MYLIB_STORED_TYPES(DT)
#undef DT
        }
    }
    return reduce_stored_columns<F, C, W, C>(f, p, step, count);
}

/* Reduces lanes of a single term, the m-th to (m + SOME - 1)-th; loads all of them first. */
template <typename F, typename C, int SOME>
__device__ __forceinline__ C reduce_some_lanes(F f, const reduce_args &args,
                                               const char *const *first, int64_t from, int64_t to,
                                               int lanes, unsigned m, int sub, int steps, int bits)
{
    const char *p[SOME];
    bool is_there[SOME];
    C x[SOME];
#pragma unroll
    for (int i = 0; i < SOME; i++) {
        int lane = lane_of(m + i, sub, steps, bits);
        is_there[i] = m + i < 1u << steps && lane < lanes;
        int64_t term = from + (is_there[i] ? lane : 0);
        if constexpr (IN_RUNS<F>)
            term = terms_of_lane<F>(is_there[i] ? lane : 0, steps + bits, from, to).begin;
        if (args.ndim <= args.kept_ndim + 1)
            p[i] = first[0] +
                   (args.ndim > args.kept_ndim ? term * args.in_strides[0][args.kept_ndim] : 0);
        else
            p[i] = first[0] + offset_of_term(args, 0, term);
    }
    load_terms<C, SOME>(args, 0, p, x);
    return with_functor<C>(f, [&](auto g) {
#pragma unroll
        for (int step = 1; step < SOME; step *= 2)
#pragma unroll
            for (int i = 0; i < SOME; i += 2 * step)
                if (is_there[i + step])
                    x[i] = g(x[i], x[i + step]);
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
    alignas(16) __shared__ unsigned char storage[STEPS * THREADS * sizeof(values)];
    values *waits = (values *)storage, *room = waits;
    /* 2^side threads have adjacent columns; 2^bits such groups share them. */
    const int side = args.width_bits, bits = args.share_bits, steps = args.lane_bits - bits;
    const int t = threadIdx.x & ((1 << side) - 1), sub = threadIdx.x >> side & ((1 << bits) - 1);
    const int64_t group = ((int64_t)blockIdx.x * THREADS + threadIdx.x) >> side >> bits;
    const int64_t wanted = ((group << side) + t) * W;
    const uint32_t output = (uint32_t)(wanted < args.outputs ? wanted : args.outputs - W);
    const char *const first[2] = {first_term(args, 0, output), NULL};

#pragma unroll 1
    for (int64_t block = blockIdx.y; block < args.blocks; block += gridDim.y) {
        int64_t from = block * TERMS, to = from + TERMS < args.terms ? from + TERMS : args.terms;
        int lanes = count_lanes<F>(args.lane_bits, from, to);
        values value = values();
        /* A lane of several terms alone has enough loads in flight. */
        const int some_bits = W == 1 && to - from <= LANES ? SOME_BITS : 0;
#pragma unroll 1
        for (unsigned m = 0; m < 1u << steps; m += 1u << some_bits) {
            int lane = lane_of(m, sub, steps, bits);
            if (lane < lanes) {
                lane_terms terms = terms_of_lane<F>(lane, args.lane_bits, from, to);
                if constexpr (W > 1)
                    value = reduce_columns<F, C, W>(f, args, first[0], terms.begin, terms.end);
                else if (some_bits == 0)
                    value.e[0] = reduce_lane<F, C>(f, args, first, terms.begin, terms.end);
                else
                    value.e[0] = reduce_some_lanes<F, C, 1 << SOME_BITS>(
                        f, args, first, from, to, lanes, m, sub, steps, bits);
            }
            /*
             * Combine the value that waits at step k with the next one, if it exists: a pair
             * without its first value has no second one.
             */
            int k = some_bits;
#pragma unroll 1
            for (; m >> k & 1; k++) {
                values waiting = waits[k * THREADS + threadIdx.x];
                bool is_there = lane_of(m >> k << k, sub, steps, bits) < lanes;
                value = is_there ? combine_columns(f, waiting, value) : waiting;
            }
            if (k < steps)
                waits[k * THREADS + threadIdx.x] = value;
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
        if (sub == 0 && wanted < args.outputs) {
#pragma unroll
            for (int i = 0; i < W; i++) {
                if (W == 1 && args.terms == 0)
                    value.e[i] = convert<C>((t_i32)(args.reduction == MYLIB_PROD));
                if (args.blocks == 1)
                    store_output(args, output + i, value.e[i]);
                else
                    ((C *)args.partial)[block * args.outputs + output + i] = value.e[i];
            }
        }
    }
}

} // namespace

#endif
