/*
 * reduce_tiles.cuh - the kernel of many outputs of few terms, which lie in a small piece of memory:
 * tiles of such pieces in shared memory.
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
__device__ __forceinline__ C reduce_short_lanes(F f, evenly place, int most, int count, int op = 0)
{
    static_assert(MYLIB_SHORT_TERMS == 8, "reduce_few() takes eight");
    if (most > 8)
        return reduce_few<8, 8, S, F, C, KIND>(f, place, count, op);
    switch (most) {
    case 1:
    case 2:
        return reduce_few<2, 1, S, F, C, KIND>(f, place, count, op);
    case 3:
        return reduce_few<3, 2, S, F, C, KIND>(f, place, count, op);
    case 4:
        return reduce_few<4, 3, S, F, C, KIND>(f, place, count, op);
    default:
        return reduce_few<8, 4, S, F, C, KIND>(f, place, count, op);
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
    const evenly place = {a + own.offset, own.step};
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
            return reduce_short_lanes<t_##s, F, C>(f, place, own.most, own.count); \
        break;
            MYLIB_STORED_TYPES(DT)
#undef DT
        }
    }
    if constexpr (!IS_WHOLE<C>)
        return reduce_short_lanes<C, F, C, KIND>(f, place, own.most, own.count, args.op);
}

/*
 * Copies nbytes at `a` to shared memory by vectors, with gaps; see mylib_short_row_factor(). Gaps
 * need addresses that are aligned to 16 bytes.  Returns the place of the first byte.
 */
__device__ __forceinline__ char *load_tile(char *tile, const char *a, int nbytes, int gap,
                                           uint32_t row_factor)
{
    const int lead = (int)((uintptr_t)a % 16);
    int head = (16 - lead) % 16;
    head = head < nbytes ? head : nbytes;
    const int vectors = (nbytes - head) / 16, done = head + vectors * 16;
    const auto gaps_before = [=](int v) { return (int)((uint32_t)v * row_factor >> 20) * gap; };
    const uint4 *from = (const uint4 *)(a + head);
    uint4 words[SHORT_VECTORS];
#pragma unroll
    for (int k = 0; k < SHORT_VECTORS; k++)
        if ((int)threadIdx.x + k * THREADS < vectors)
            words[k] = __ldcs(from + threadIdx.x + k * THREADS);
    /* Bytes before the first vector and after the last: at most 15 each. */
    const int i = threadIdx.x < 16 ? (int)threadIdx.x : done + (int)threadIdx.x - 16;
    tile += lead;
    if (threadIdx.x < 32 && i < (threadIdx.x < 16 ? head : nbytes))
        tile[i + (threadIdx.x < 16 ? 0 : gaps_before(vectors))] = a[i];
#pragma unroll
    for (int k = 0; k < SHORT_VECTORS; k++) {
        const int v = (int)threadIdx.x + k * THREADS;
        if (v < vectors)
            *(uint4 *)(tile + head + v * 16 + gaps_before(v)) = words[k];
    }
    return tile;
}

/* Returns how far a term of an output is from the first, in shared memory. */
__device__ __forceinline__ int offset_in_tile(const mylib_reduce_tile &tile, int term)
{
    return term * tile.stride +
           (int)__umulhi((uint32_t)term, tile.columns_factor) * tile.end_of_row;
}

/* Sums or, of real numbers, extremes. */
struct sum_or_extreme : combine_any {
    __device__ __forceinline__ sum_or_extreme(int number) : combine_any(number) {}
    template <typename C> __device__ __forceinline__ C operator()(C a, C b) const
    {
        return with<C>([&](auto f) { return f(a, b); });
    }
    /* Calls g with the functor of the reduction. */
    template <typename C, typename G> __device__ __forceinline__ auto with(G g) const
    {
        if constexpr (!real_of<C>::is_complex)
            if (reduction != MYLIB_SUM)
                return reduction == MYLIB_MIN && !IS_WHOLE<C> ? g(combine<MYLIB_MIN>())
                                                              : g(combine<MYLIB_MAX>());
        return g(combine<MYLIB_SUM>());
    }
};

/* Combines a thread's terms of an output: integers, in any order, in P; see reduce_integers.cuh. */
template <int R, typename S, typename P>
__device__ __forceinline__ t_i64 reduce_integers_in(const reduce_args &args, const char *first,
                                                    int s)
{
    const bool is_bool = sizeof(S) == 1 && args.input_type[0] == MYLIB_BOOL;
    const P sign = args.input_type[0] <= MYLIB_I64 ? (P)1 << (8 * sizeof(S) - 1) : (P)0;
    P value = identity<R, P>();
#pragma unroll 2
    for (int term = s; term < (int)args.terms; term += 1 << args.lane_bits) {
        P x = (P) * (const S *)(first + offset_in_tile(args.tile, term));
        if (sizeof(S) < sizeof(P))
            x = is_bool ? x != 0 : (x ^ sign) - sign;
        value = combine<R>()(value, R == MYLIB_MAX ? (x & (P)args.mask) ^ (P)args.flip : x);
    }
    return (t_i64)value;
}
template <int R>
__device__ __forceinline__ t_i64 reduce_integer_piece(const reduce_args &args, const char *first,
                                                      int s)
{
    switch (args.input_size[0]) {
    case 1:
        return reduce_integers_in<R, uint8_t, int32_t>(args, first, s);
    case 2:
        return reduce_integers_in<R, uint16_t, int32_t>(args, first, s);
    case 4:
        return reduce_integers_in<R, uint32_t, t_i64>(args, first, s);
    default:
        return reduce_integers_in<R, t_i64, t_i64>(args, first, s);
    }
}

/* Combines a thread's terms of an output, the s-th, (s + 2^bits)-th, ..., of type S. */
template <typename S, typename C>
__device__ __forceinline__ C reduce_piece(sum_or_extreme f, const reduce_args &args,
                                          const char *first, int s)
{
    const int bits = args.lane_bits, step = 1 << bits;
    const int count = ((int)args.terms - s + step - 1) >> bits;
    const auto place = [&](int i) { return first + offset_in_tile(args.tile, s + (i << bits)); };
    return f.with<C>([&](auto g) {
        return args.terms > LANES ? reduce_few<8, 8, S, decltype(g), C>(g, place, count)
                                  : reduce_few<8, 1, S, decltype(g), C>(g, place, count);
    });
}

/*
 * A thread block has tile_rows pieces, or the last ones, along a kept dimension.  It copies the
 * memory from the first term to the last by vectors.  Gaps of `gap` bytes follow rows of an even
 * number of vectors, to reduce bank conflicts.  Then 2^lane_bits threads reduce each output.
 *
 * A piece is a row of terms that has one output; or IS_ANY: see mylib_reduce_tile.
 */
template <typename F, typename C, term_kind KIND, bool IS_ANY>
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS<C>)
    tiles_kernel(const __grid_constant__ reduce_args args)
{
    wait_for_previous();
    const F f(args.reduction);
    alignas(16) __shared__ unsigned char storage[MYLIB_SHORT_TILE + 16];
    const mylib_reduce_tile &tile = args.tile;
    const int outputs = IS_ANY ? tile.outputs : 1;
    const uint32_t outer = blockIdx.x / (uint32_t)args.tiles;
    const int64_t piece = (int64_t)(blockIdx.x % (uint32_t)args.tiles) * args.tile_rows;
    const int count =
        tile.pieces - piece < args.tile_rows ? (int)(tile.pieces - piece) : args.tile_rows;
    const char *a = args.in[0];
    char *out = args.out;
    if (args.kept_ndim > 1) {
        a = first_term(args, 0, outer);
        out = place_of(args, outer);
    }
    out += piece * tile.out_apart;
    const char *const pieces =
        load_tile((char *)storage, a + piece * tile.apart,
                  (count - 1) * (int)tile.apart + tile.nbytes, args.gap, args.row_factor);
    __syncthreads();
    const int bits = args.lane_bits, lanes = 1 << bits, s = (int)threadIdx.x & (lanes - 1);
    const int together = THREADS >> bits, terms = (int)args.terms, size = args.input_size[0];
    const int pitch = anew((uint32_t)tile.pitch);
    const short_share share = {s,
                               bits,
                               anew((uint32_t)(s * size)),
                               anew((uint32_t)(size << bits)),
                               anew((uint32_t)(terms + lanes - 1) >> bits),
                               anew((uint32_t)(terms - s + lanes - 1) >> bits)};
    const int64_t out_step = IS_ANY ? 0 : together * tile.out_apart;
    int own = (int)threadIdx.x >> bits;
    out += IS_ANY ? 0 : own * tile.out_apart;
    char *to = out;
#pragma unroll 1
    for (int r = 0; r < count * outputs; r += together, own += together, out += out_step) {
        const int number = own < count * outputs ? own : count * outputs - 1;
        C value;
        if constexpr (IS_ANY) {
            const int at =
                outputs > 1 ? (int)__umulhi((uint32_t)number, tile.outputs_factor) : number;
            const int column = number - at * outputs;
            const char *const first = pieces + at * pitch + column * tile.output_stride;
            to = out + at * tile.out_apart + column * tile.out_stride;
            if constexpr (!IS_WHOLE<C>)
                value = std::is_same<C, t_f32>::value && args.input_type[0] == MYLIB_F16
                            ? reduce_piece<std::conditional_t<sizeof(C) == 4, t_f16, C>, C>(
                                  f, args, first, s)
                            : reduce_piece<C, C>(f, args, first, s);
            else if (args.reduction == MYLIB_SUM)
                value = reduce_integer_piece<MYLIB_SUM>(args, first, s);
            else
                value = reduce_integer_piece<MYLIB_MAX>(args, first, s);
        } else {
            value = reduce_short<F, C, KIND>(f, args, pieces + number * pitch, share);
        }
#pragma unroll 1
        for (int half = lanes / 2; half > 0; half /= 2)
            value = combine_pair(f, value, half);
        if constexpr (IS_WHOLE<C>)
            value ^= (C)args.flip;
        if (s == 0 && own < count * outputs)
            store_at(args, IS_ANY ? to : out, value);
    }
}

} // namespace
