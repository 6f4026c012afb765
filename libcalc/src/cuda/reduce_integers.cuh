/*
 * reduce_integers.cuh - the kernel of integers, whose order does not matter: vectors along
 * contiguous memory or across adjacent outputs.
 */
#pragma once

#include "reduce_values.cuh"

namespace
{

/*
 * Sums, products and maxima of integers are computed in i64.  A minimum is a maximum of flipped
 * bits, and flipping the highest bit makes unsigned numbers comparable: args.flip has the bits to
 * flip in an element, extended to i64, and in the result.  `any` and `all` are extremes of unsigned
 * numbers, of which args.mask keeps all bits but the sign of a float.
 *
 * Narrow elements are combined in 32 bits first, as long as that is exact: for the sum of at most
 * EXACT_TERMS of them.
 */
constexpr int EXACT_TERMS = MYLIB_EXACT_TERMS;
template <int R, typename S> constexpr bool IS_SMALL = sizeof(S) <= 2 && R != MYLIB_PROD;
template <int R, typename S>
using exact_type =
    std::conditional_t<IS_SMALL<R, S>,
                       std::conditional_t<class_of<S>::value == SIGNED, int32_t, uint32_t>, t_i64>;

/* Returns the bits to flip in a word of elements of at most four bytes. */
template <int R, typename S> __device__ __forceinline__ uint32_t flip_of_word(uint64_t flip)
{
    if (R != MYLIB_MAX || (flip & 1) == 0)
        return 0;
    return class_of<S>::value == BOOL ? 0x01010101u : 0xffffffffu;
}

/* Returns word i of a vector of identity elements. */
template <int R, typename S>
__device__ __forceinline__ uint32_t word_of_nothing(uint64_t flip, int i)
{
    if constexpr (sizeof(S) == 8)
        return (uint32_t)(((uint64_t)identity<R, t_i64>() ^ (R == MYLIB_MAX ? flip : 0)) >>
                          32 * (i % 2));
    else {
        constexpr int BITS = 8 * sizeof(S);
        constexpr uint32_t each = 0xffffffffu / (0xffffffffu >> (32 - BITS));
        constexpr bool IS_SIGNED = class_of<S>::value == SIGNED;
        return each * (R == MYLIB_SUM    ? 0
                       : R == MYLIB_PROD ? 1
                                         : (uint32_t)IS_SIGNED << (BITS - 1)) ^
               flip_of_word<R, S>(flip);
    }
}

/* Makes each byte of a word 0 or 1 if it is a bool. */
template <typename S> __device__ __forceinline__ uint32_t truths(uint32_t word)
{
    if constexpr (class_of<S>::value == BOOL)
        return (((word & 0x7f7f7f7f) + 0x7f7f7f7f) | word) >> 7 & 0x01010101;
    return word;
}

/* Repeats the mask of an element of two or four bytes in a word. */
template <int R, typename S> __device__ __forceinline__ uint32_t mask_of_word(uint64_t mask)
{
    if (R != MYLIB_MAX || sizeof(S) == 1)
        return 0xffffffffu;
    return sizeof(S) == 2 ? (uint32_t)(uint16_t)mask * 0x10001u : (uint32_t)mask;
}

/* Combines the elements of some words: each with an accumulator, or all with one, a sum. */
template <int R, typename S, typename P, int E, int WORDS>
__device__ __forceinline__ void combine_words(const uint32_t (&words)[WORDS], uint64_t flip,
                                              uint64_t mask, P (&acc)[E])
{
    typedef std::conditional_t<class_of<S>::value == BOOL, uint8_t, S> T;
    const combine<R> f;
    if constexpr (E == 1 && sizeof(S) <= 2) {
        static_assert(R == MYLIB_SUM, "one sum for all elements of a word");
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            acc[0] = sizeof(S) == 1 ? __dp4a((P)truths<S>(words[i]), (P)0x01010101, acc[0])
                                    : __dp2a_lo((P)words[i], (P)0x0101, acc[0]);
    } else if constexpr (sizeof(S) == 8) {
#pragma unroll
        for (int j = 0; j < E; j++) {
            const uint64_t x = (uint64_t)words[2 * j + 1] << 32 | words[2 * j];
            acc[j] = f(acc[j], (P)(R == MYLIB_MAX ? (x & mask) ^ flip : x));
        }
    } else {
        constexpr int PER_WORD = 4 / sizeof(S);
#pragma unroll
        for (int i = 0; i < WORDS; i++) {
            const uint32_t word =
                (truths<S>(words[i]) & mask_of_word<R, S>(mask)) ^ flip_of_word<R, S>(flip);
#pragma unroll
            for (int j = 0; j < PER_WORD; j++)
                acc[i * PER_WORD + j] =
                    f(acc[i * PER_WORD + j], (P)(T)(word >> 8 * (int)sizeof(S) * j));
        }
    }
}

/*
 * Columns or terms of a thread that are single elements, `spacing` bytes apart, and not vectors.
 * Only `count` of them exist; the last one replaces the others.
 */
struct spaced_columns {
    int64_t spacing;
    int count;
};

template <typename S>
__device__ __forceinline__ void load_words(const char *p, uint32_t (&words)[4])
{
    const uint4 v = __ldcs((const uint4 *)p);
    words[0] = v.x;
    words[1] = v.y;
    words[2] = v.z;
    words[3] = v.w;
}
template <typename S>
__device__ __forceinline__ void load_words(const char *p, const spaced_columns &columns,
                                           uint32_t (&words)[4])
{
    constexpr int SIZE = sizeof(S), E = 16 / SIZE;
    typename bits_of<SIZE>::type x[E];
#pragma unroll
    for (int j = 0; j < E; j++) {
        x[j] = *(const typename bits_of<SIZE>::type *)p;
        p += j + 1 < columns.count ? columns.spacing : 0;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if constexpr (SIZE == 8) {
            words[i] = i % 2 == 0 ? x[i / 2].x : x[i / 2].y;
        } else {
            words[i] = 0;
#pragma unroll
            for (int j = 0; j < 4 / SIZE; j++)
                words[i] |= (uint32_t)x[i * 4 / SIZE + j] << 8 * SIZE * j;
        }
    }
}

/*
 * Reduces `count` vectors, possibly none, `step` bytes apart, from p on.  Returns the result of all
 * elements; or, given `room`, writes a result for each element of a vector there, for at most
 * EXACT_TERMS vectors.  `columns` are spaced ones, or missing.
 */
template <int R, typename S, typename... COLUMNS>
__device__ __forceinline__ t_i64 reduce_integers(const char *p, int64_t step, int64_t count,
                                                 uint64_t flip, uint64_t mask, t_i64 *room,
                                                 const COLUMNS &...columns)
{
    constexpr int E = 16 / sizeof(S);
    typedef exact_type<R, S> P;
    /* Within 64 registers; spaced columns alone have enough loads in flight. */
    constexpr int AHEAD = sizeof(P) * E <= 64 && sizeof...(columns) == 0 ? 4 : 1;
    const combine<R> f;
    t_i64 value = identity<R, t_i64>();
#pragma unroll 1
    do {
        P acc[E];
#pragma unroll
        for (int j = 0; j < E; j++)
            acc[j] = identity<R, P>();
        int n = count < EXACT_TERMS ? (int)count : EXACT_TERMS;
        count -= n;
#pragma unroll 1
        for (; n > 0; n -= AHEAD) {
            uint32_t words[AHEAD][4];
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
#pragma unroll
                for (int j = 0; j < 4; j++)
                    words[i][j] = word_of_nothing<R, S>(flip, j);
                if (AHEAD == 1 || i < n)
                    load_words<S>(p + i * step, columns..., words[i]);
            }
            p += AHEAD * step;
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                combine_words<R, S>(words[i], flip, mask, acc);
        }
        if (room != NULL) {
#pragma unroll
            for (int j = 0; j < E; j++)
                room[j] = (t_i64)acc[j];
            return value;
        }
#pragma unroll
        for (int j = 1; j < E; j++)
            acc[0] = f(acc[0], acc[j]);
        value = f(value, (t_i64)acc[0]);
    } while (count > 0);
    return value;
}

/*
 * Along: a warp reduces an output, or a thread block a part of a run of terms, which are contiguous
 * or spaced.
 *
 * Across: 2^width_bits threads take a vector of outputs each, adjacent or spaced; the others of a
 * thread block have the same outputs, and other terms of the part.
 */
enum integer_way { DENSE, SPACED_ACROSS, SPACED_ALONG };

template <int R, integer_way WAY>
__global__ void __launch_bounds__(THREADS, WAY == SPACED_ALONG    ? 2
                                           : WAY == SPACED_ACROSS ? 3
                                                                  : MIN_BLOCKS<t_i64>)
    integers_kernel(const __grid_constant__ reduce_args args)
{
    wait_for_previous();
    constexpr bool IS_SPACED = WAY != DENSE;
    const combine<R> f;
    alignas(16) __shared__ t_i64 room[THREADS * 16];
    const uint64_t flip = args.flip, mask = args.mask;
    const bool is_across = IS_SPACED ? WAY == SPACED_ACROSS : args.is_across;
    const int threads = args.has_warp_per_output ? WARP : THREADS, t = threadIdx.x % threads;
    const int size = args.input_size[0], per_vector = 16 / size;
    const int lanes = THREADS >> args.width_bits, lane = threadIdx.x >> args.width_bits;
    const uint32_t outputs = (uint32_t)(is_across ? args.row_outputs : args.outputs);
    const row_tile at_tile(args);
    uint32_t output, part = 0;
    spaced_columns columns;
    if (is_across) {
        const uint32_t column = threadIdx.x & ((1u << args.width_bits) - 1);
        output = at_tile.tile * per_vector << args.width_bits;
        output += IS_SPACED ? column : column * per_vector;
        if (output >= outputs)
            output = IS_SPACED ? outputs - 1 : outputs - per_vector;
        if (IS_SPACED) {
            columns.spacing = args.in_strides[0][args.kept_ndim - 1] * (1 << args.width_bits);
            columns.count = ((outputs - output - 1) >> args.width_bits) + 1;
        }
        output += at_tile.begin;
        part = blockIdx.y;
    } else if (args.has_warp_per_output) {
        output = blockIdx.x * WARPS + threadIdx.x / WARP;
        if (output >= outputs)
            return;
    } else {
        output = blockIdx.x % outputs;
        part = blockIdx.x / outputs;
    }
    /* A part of a run, or of all terms across. */
    const int64_t terms = is_across ? args.terms : args.columns;
    const uint32_t row = is_across ? 0 : part / (uint32_t)args.parts_of_run;
    const int64_t from = (part - row * args.parts_of_run) * args.group;
    const int64_t n = terms - from < args.group ? terms - from : args.group;
    int64_t step = args.walk[0].stride[0], count;
    const char *p = first_term(args, 0, output) + from * step;
    if (row != 0)
        p += offset_of(args.walk[0], place_of_term(args, row * args.columns));
    t_i64 value = identity<R, t_i64>(), edge = value;
    if (is_across) {
        p += lane * step;
        step *= lanes;
        count = (n - lane + lanes - 1) / lanes;
    } else if (IS_SPACED) {
        /* Each thread takes as many elements as a vector has, then the last ones singly. */
        columns = {threads * step, per_vector};
        count = n / (per_vector * threads);
        for (int64_t i = count * per_vector * threads + t; i < n; i += threads) {
            const char *const at[1] = {p + i * step};
            t_i64 x[1];
            load_terms<t_i64, 1>(args, 0, at, x);
            edge = f(edge, R == MYLIB_MAX ? (x[0] & (t_i64)mask) ^ (t_i64)flip : x[0]);
        }
        p += t * step;
        step *= per_vector * threads;
    } else {
        /* Elements before the first vector and after the last: at most 15 each. */
        int64_t head = (int64_t)(-(uintptr_t)p % 16) / size;
        head = head < n ? head : n;
        const int64_t vectors = (n - head) / per_vector, done = head + vectors * per_vector;
        const int64_t i = t < 16 ? t : done + t - 16;
        if (t < 32 && i < (t < 16 ? head : n)) {
            const char *const at[1] = {p + i * size};
            t_i64 x[1];
            load_terms<t_i64, 1>(args, 0, at, x);
            edge = R == MYLIB_MAX ? (x[0] & (t_i64)mask) ^ (t_i64)flip : x[0];
        }
        p += head * size + t * 16;
        step = threads * 16;
        count = t < vectors ? (vectors - t + threads - 1) / threads : 0;
    }
    t_i64 *own = is_across ? room + threadIdx.x * per_vector : NULL;
    value = with_type(args.input_type[0], value, [=](auto s) {
        typedef TYPE_OF(s) S;
        if constexpr (IS_WHOLE<S>)
            if constexpr (IS_SPACED)
                return reduce_integers<R, S>(p, step, count, flip, mask, own, columns);
            else
                return reduce_integers<R, S>(p, step, count, flip, mask, own);
        else
            return identity<R, t_i64>();
    });
    if (is_across) {
        const int width = per_vector << args.width_bits;
        __syncthreads();
        for (int i = threadIdx.x; i < width; i += THREADS) {
            value = room[i];
#pragma unroll 4
            for (int k = 1; k < lanes; k++)
                value = f(value, room[k * width + i]);
            /* Element i % per_vector of the thread i / per_vector. */
            const int at = IS_SPACED ? (i % per_vector << args.width_bits) + i / per_vector : i;
            const uint32_t column = at_tile.tile * width + at;
            if (column < outputs)
                finish(args, at_tile.begin + column, part, value ^ (t_i64)flip);
        }
        return;
    }
    value = f(value, edge);
#pragma unroll
    for (int half = WARP / 2; half > 0; half /= 2)
        value = combine_pair(f, value, half);
    if (!args.has_warp_per_output) {
        if (t % WARP == 0)
            room[t / WARP] = value;
        __syncthreads();
        for (int i = 1; i < WARPS && t == 0; i++)
            value = f(value, room[i]);
    }
    if (t == 0)
        finish(args, output, part, value ^ (t_i64)flip);
}

} // namespace
