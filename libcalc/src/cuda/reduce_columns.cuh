/*
 * reduce_columns.cuh - the kernel of many adjacent outputs: a thread has one, or some of them.
 */
#ifndef MYLIB_REDUCE_COLUMNS_CUH
#define MYLIB_REDUCE_COLUMNS_CUH

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
    int64_t base, unit; /* bytes from the column's start to the first one, and between them */
    int count;
    bool is_tree; /* of lanes: combined in halves, else from the first to the last */
};

/*
 * Finds the elements of a lane, or of lanes of one term each, the m-th to (m + ROWS - 1)-th: their
 * numbers differ in the highest bits, in any order, which here is ascending.
 */
__device__ __forceinline__ column_terms find_column_terms(int64_t step, int64_t from, int64_t to,
                                                          int lanes, int lane, int shift)
{
    const bool is_tree = to - from <= LANES;
    const int log2_apart = is_tree ? shift : STEPS;
    const int rest = (int)(is_tree ? lanes : to - from) - lane;
    const int count = (rest + (1 << log2_apart) - 1) >> log2_apart;
    return {(from + lane) * step, step << log2_apart, count < ROWS ? count : ROWS, is_tree};
}

/*
 * Reduces elements of type S of W columns: vectors from first[0] on, or, if the columns are spaced,
 * single elements from first[j] on.  Reloads the first one instead of missing ones.
 */
template <typename F, typename C, int W, typename S>
__device__ __forceinline__ columns_of<C, W>
reduce_stored_columns(F f, const char *const (&first)[W], const column_terms &terms, bool is_spaced)
{
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
    const auto place = [&](int i) {
        return i < terms.count ? terms.base + i * terms.unit : terms.base;
    };
    if (!is_spaced && terms.count == ROWS) {
        const char *p = first[0] + terms.base;
#pragma unroll
        for (int i = 0; i < ROWS; i++, p += terms.unit)
            x[i].loaded = __ldcs((const bits *)p);
    } else if (!is_spaced) {
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
            return reduce_stored_columns<F, C, W, t_##s>(f, first, terms, args.is_spaced); \
        break;
            MYLIB_STORED_TYPES(DT)
#undef DT
        }
    }
    return reduce_stored_columns<F, C, W, C>(f, first, terms, args.is_spaced);
}

/* Reduces lanes of a single term, the m-th to (m + SOME - 1)-th; loads all of them first. */
template <typename F, typename C, int SOME>
__device__ __forceinline__ C reduce_some_lanes(F f, const reduce_args &args,
                                               const char *const *first, int64_t from, int lanes,
                                               unsigned m, int sub, int steps, int bits)
{
    const char *p[SOME];
    bool is_there[SOME];
    C x[SOME];
#pragma unroll
    for (int i = 0; i < SOME; i++) {
        int lane = lane_of(m + i, sub, steps, bits);
        is_there[i] = m + i < 1u << steps && lane < lanes;
        const int64_t term = from + (is_there[i] ? lane : 0);
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
    /* Output j of a thread is wanted + j * apart. */
    const int apart = W > 1 && args.is_spaced ? 1 << side : 1;
    const int64_t wanted = (group << side) * W + (apart > 1 ? t : t * W);
    const char *first[W == 1 ? 2 : W];
#pragma unroll
    for (int j = 0; j < W; j++) {
        const int64_t output = wanted + j * apart;
        if (j == 0 || args.is_spaced)
            first[j] = first_term(args, 0, (uint32_t)(output < args.outputs ? output : 0));
    }

#pragma unroll 1
    for (int64_t block = blockIdx.y; block < args.blocks; block += gridDim.y) {
        int64_t from = block * TERMS, to = from + TERMS < args.terms ? from + TERMS : args.terms;
        int lanes = count_lanes<F>(args.lane_bits, from, to);
        values value = values();
        /* A lane of several terms alone has enough loads in flight. */
        const int some_bits = to - from <= LANES ? SOME_BITS : 0;
#pragma unroll 1
        for (unsigned m = 0; m < 1u << steps; m += 1u << some_bits) {
            int lane = lane_of(m, sub, steps, bits);
            if (lane < lanes) {
                if constexpr (W > 1) {
                    const int shift = bits + (steps > SOME_BITS ? steps - SOME_BITS : 0);
                    value = reduce_columns<F, C, W>(
                        f, args, first,
                        find_column_terms(args.in_strides[0][args.kept_ndim], from, to, lanes, lane,
                                          shift));
                } else if (some_bits == 0) {
                    lane_terms terms = terms_of_lane<F>(lane, args.lane_bits, from, to);
                    value.e[0] = reduce_lane<F, C>(f, args, first, terms.begin, terms.end);
                } else {
                    value.e[0] = reduce_some_lanes<F, C, 1 << SOME_BITS>(
                        f, args, first, from, lanes, m, sub, steps, bits);
                }
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
        if (sub != 0)
            continue;
#pragma unroll
        for (int j = 0; j < W; j++) {
            const int64_t output = wanted + j * apart;
            if (output >= args.outputs)
                break;
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

#endif
