/*
 * reduce_short.cuh - the kernel of many outputs of few contiguous terms: tiles of rows in shared
 * memory.
 */
#pragma once

#include "reduce_integers.cuh"

namespace
{

constexpr int SHORT_VECTORS = MYLIB_SHORT_TILE / 16 / THREADS;

/*
 * Combines a thread's terms of a row, from p on: some threads have `most` of them, the others one
 * less.  More than MYLIB_SHORT_TERMS occur only if the threads are a whole warp.
 */
template <typename S, typename F, typename C, term_kind KIND = STORED>
__device__ __forceinline__ C reduce_short_lanes(F f, const char *p, int step, int most, int count,
                                                int op = 0)
{
    static_assert(MYLIB_SHORT_TERMS == 8, "reduce_few() takes eight");
    if (most > 8)
        return reduce_few<8, 8, S, F, C, KIND>(f, p, step, count, op);
    switch (most) {
    case 1:
    case 2:
        return reduce_few<2, 1, S, F, C, KIND>(f, p, step, count, op);
    case 3:
        return reduce_few<3, 2, S, F, C, KIND>(f, p, step, count, op);
    case 4:
        return reduce_few<4, 3, S, F, C, KIND>(f, p, step, count, op);
    default:
        return reduce_few<8, 4, S, F, C, KIND>(f, p, step, count, op);
    }
}

/* Combines integers of a row, in any order: words s, s + 2^bits, ... of those that hold the row. */
template <int R, typename S>
__device__ __forceinline__ t_i64 reduce_short_words(const char *a, int terms, int s, int bits,
                                                    uint64_t flip, uint64_t mask)
{
    constexpr int E = sizeof(S) < 4 && R != MYLIB_SUM ? 4 / sizeof(S) : 1;
    constexpr int WORDS = sizeof(S) == 8 ? 2 : 1, NBYTES = 4 * WORDS;
    typedef exact_type<R, S> P;
    const int lead = (int)((uintptr_t)a % NBYTES), end = lead + terms * (int)sizeof(S);
    P acc[E];
#pragma unroll
    for (int j = 0; j < E; j++)
        acc[j] = identity<R, P>();
#pragma unroll 1
    for (int at = s * NBYTES; at < end; at += NBYTES << bits) {
        uint32_t words[WORDS];
        *(typename bits_of<NBYTES>::type *)words =
            *(const typename bits_of<NBYTES>::type *)(a - lead + at);
        if constexpr (sizeof(S) < 4) {
            uint32_t own = 0xffffffffu;
            if (at < lead)
                own <<= 8 * (lead - at);
            if (at + 4 > end)
                own &= 0xffffffffu >> 8 * (at + 4 - end);
            words[0] = (words[0] & own) | (word_of_nothing<R, S>(flip, 0) & ~own);
        }
        combine_words<R, S>(words, flip, mask, acc);
    }
#pragma unroll
    for (int j = 1; j < E; j++)
        acc[0] = combine<R>()(acc[0], acc[j]);
    return (t_i64)acc[0];
}

/* A thread's share of a row: thread s of 2^bits has the terms s, s + 2^bits, ... */
struct short_share {
    int thread, bits, offset, step, most, count; /* offset and step in bytes */
};

/* Combines a thread's share of row `a`. */
template <typename F, typename C, term_kind KIND>
__device__ __forceinline__ C reduce_short(F f, const reduce_args &args, const char *a,
                                          const short_share &own)
{
    const char *p = a + own.offset;
    if constexpr (IS_WHOLE<C>) {
        return with_type(args.input_type[0], C(), [&](auto s) {
            typedef TYPE_OF(s) S;
            if constexpr (IS_WHOLE<S>)
                return reduce_short_words<F::REDUCTION, S>(a, (int)args.terms, own.thread, own.bits,
                                                           args.flip, args.mask);
            else
                return C();
        });
    } else if (KIND == STORED && !args.is_stored_as_carrier[0]) {
        switch (args.input_type[0]) {
#define DT(s, S) \
    case MYLIB_##S: \
        if constexpr (widens<C, t_##s>()) \
            return reduce_short_lanes<t_##s, F, C>(f, p, own.step, own.most, own.count); \
        break;
            MYLIB_STORED_TYPES(DT)
#undef DT
        }
    }
    if constexpr (!IS_WHOLE<C>)
        return reduce_short_lanes<C, F, C, KIND>(f, p, own.step, own.most, own.count, args.op);
}

/*
 * A thread block has tile_rows outputs, or the last ones, along the innermost kept dimension.  It
 * copies the memory from the first term to the last by vectors.  Gaps of `gap` bytes follow rows of
 * an even number of vectors, to reduce bank conflicts.  Then 2^lane_bits threads reduce each row.
 */
template <typename F, typename C, term_kind KIND = STORED>
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS<C>)
    short_kernel(const __grid_constant__ reduce_args args)
{
    wait_for_previous();
    const F f(args.reduction);
    alignas(16) __shared__ unsigned char storage[MYLIB_SHORT_TILE + 16];
    char *tile = (char *)storage;
    const int inner = args.kept_ndim - 1, stride = (int)args.in_strides[0][inner];
    const uint32_t outer = blockIdx.x / (uint32_t)args.tiles;
    const int64_t row = (int64_t)(blockIdx.x % (uint32_t)args.tiles) * args.tile_rows;
    const int rows =
        args.shape[inner] - row < args.tile_rows ? (int)(args.shape[inner] - row) : args.tile_rows;
    const char *a = args.in[0] + row * stride;
    char *out = args.out + row * args.out_strides[inner];
    if (inner != 0) {
        const uint32_t output = (uint32_t)(outer * args.shape[inner] + row);
        a = first_term(args, 0, output);
        out = place_of(args, output);
    }
    {
        const int nbytes = (rows - 1) * stride + (int)args.terms * args.input_size[0];
        const int lead = (int)((uintptr_t)a % 16);
        int head = (16 - lead) % 16;
        head = head < nbytes ? head : nbytes;
        const int vectors = (nbytes - head) / 16, done = head + vectors * 16;
        const uint4 *from = (const uint4 *)(a + head);
        uint4 words[SHORT_VECTORS];
#pragma unroll
        for (int k = 0; k < SHORT_VECTORS; k++)
            if ((int)threadIdx.x + k * THREADS < vectors)
                words[k] = __ldcs(from + threadIdx.x + k * THREADS);
        /* Bytes before the first vector and after the last, of the last row: at most 15 each. */
        const int i = threadIdx.x < 16 ? (int)threadIdx.x : done + (int)threadIdx.x - 16;
        if (threadIdx.x < 32 && i < (threadIdx.x < 16 ? head : nbytes))
            tile[lead + i + (threadIdx.x < 16 ? 0 : (rows - 1) * args.gap)] = a[i];
#pragma unroll
        for (int k = 0; k < SHORT_VECTORS; k++) {
            const int v = (int)threadIdx.x + k * THREADS;
            if (v < vectors)
                *(uint4 *)(tile + lead + head + v * 16 +
                           (int)((uint32_t)v * args.row_factor >> 20) * args.gap) = words[k];
        }
        tile += lead;
    }
    __syncthreads();
    const int bits = args.lane_bits, lanes = 1 << bits, s = (int)threadIdx.x & (lanes - 1);
    const int together = THREADS >> bits, terms = (int)args.terms, size = args.input_size[0];
    const int pitch = anew((uint32_t)(stride + args.gap));
    const short_share share = {s,
                               bits,
                               anew((uint32_t)(s * size)),
                               anew((uint32_t)(size << bits)),
                               anew((uint32_t)(terms + lanes - 1) >> bits),
                               anew((uint32_t)(terms - s + lanes - 1) >> bits)};
    const int64_t out_step = together * args.out_strides[inner];
    int own = (int)threadIdx.x >> bits;
    out += own * args.out_strides[inner];
#pragma unroll 1
    for (int r = 0; r < rows; r += together, own += together, out += out_step) {
        const int row_of_tile = own < rows ? own : rows - 1;
        C value = reduce_short<F, C, KIND>(f, args, tile + row_of_tile * pitch, share);
#pragma unroll 1
        for (int half = lanes / 2; half > 0; half /= 2)
            value = combine_pair(f, value, half);
        if constexpr (IS_WHOLE<C>)
            value ^= (C)args.flip;
        if (s == 0 && own < rows)
            store_at(args, out, value);
    }
}

} // namespace
