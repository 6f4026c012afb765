/*
 * reduce.cu - reductions of GPU memory, in the order of mylib.h.
 *
 * Values are carried in one of six types.  Two kernels take dense memory:
 *
 * - short: many outputs of few contiguous terms; a thread block copies a tile of rows to shared
 *   memory, where a few threads reduce each of them;
 * - integers: along contiguous memory or across adjacent outputs.  The order of integers does not
 *   matter, so a thread takes vectors and combines them element by element.
 *
 * Three kernels reduce blocks of MYLIB_BLOCK_TERMS:
 *
 * - rows: contiguous terms of the carrying type, or of f16; a warp reduces a block;
 * - lanes: terms of any type and strides; each thread of a thread block is a lane;
 * - columns: many adjacent outputs; a thread has one output, or 16 bytes of outputs in the carrying
 *   type, and walks the pairwise tree over the lanes depth first, which keeps few values alive.
 *
 * A warp or thread block reduces an aligned group of 2^k blocks: a whole subtree of the pairwise
 * tree over the blocks.  A second launch combines the groups of an output; a few groups of lanes
 * are combined within a cluster of thread blocks, on GPUs that have clusters.
 */
#include <type_traits>

#include "reduction.cuh"

namespace
{

constexpr int WARPS = THREADS / WARP;
constexpr int STEPS = 8;       /* of the tree over the lanes */
constexpr int MAX_LEVELS = 32; /* of the tree over the blocks */
static_assert(THREADS == LANES, "a thread of lanes_kernel is a lane");

/* Resident thread blocks of a multiprocessor: enough loads in flight to keep memory busy. */
template <typename C> constexpr int MIN_BLOCKS = sizeof(C) == 16 ? 3 : 4;
constexpr int VECTOR_BLOCKS = MAX_BLOCKS < 5 ? MAX_BLOCKS : 5; /* of columns */

typedef mylib_reduce_args reduce_args;

/* ---- Values -------------------------------------------------------------------------------- */

/*
 * Combines two values by a call.  A kernel that is not memory-bound saves much code so: it serves
 * all reductions with one copy of each.
 */
template <typename C> __device__ __noinline__ C combine_by_number(int reduction, C a, C b)
{
    return combine_any(reduction)(a, b);
}
struct combine_by_call : combine_any {
    __device__ __forceinline__ combine_by_call(int number) : combine_any(number) {}
    template <typename C> __device__ __forceinline__ C operator()(C a, C b) const
    {
        return combine_by_number(reduction, a, b);
    }
};

/*
 * Complex minima and maxima: the result is the first of equal terms.  Any tree that keeps the order
 * of the terms gives it, so a lane takes a run of consecutive terms, and the last term replaces
 * missing ones.
 */
struct combine_runs : combine_by_call {
    __device__ __forceinline__ combine_runs(int number) : combine_by_call(number) {}
};
template <typename F> constexpr bool IN_RUNS = std::is_same<F, combine_runs>::value;

template <typename C> __device__ __forceinline__ C product(C a, C b)
{
    return meaning<MYLIB_OP_multiply, C>::apply(a, b);
}

/* Tells whether S is an integer or bool. */
template <typename S>
constexpr bool IS_WHOLE =
    class_of<S>::value == SIGNED || class_of<S>::value == UNSIGNED || class_of<S>::value == BOOL;

/*
 * Tells whether the kernels by lanes load S, besides C itself, as it is stored and widen it in
 * registers.  Sums of narrower integers in a float are not among them: they are exact, and the
 * kernels for integers compute them.
 */
template <typename C, typename S> __host__ __device__ constexpr bool widens()
{
    if (std::is_same<C, t_f32>::value)
        return std::is_same<S, t_f16>::value;
    return std::is_same<C, t_f64>::value &&
           (std::is_same<S, t_f32>::value || std::is_same<S, t_i64>::value ||
            std::is_same<S, t_u64>::value);
}

/*
 * Converts a term of any stored type, given by its bits, to the program's type and then to C.  Not
 * inlined: its cases take a kilobyte of code.
 *
 * C holds every number of a narrower integer type, and has the same signedness.  An integer wraps
 * in the narrower type; a float becomes the nearest number of C (NaN the lowest), then the nearest
 * of the narrower type: the same as in one step.
 */
template <typename C>
__device__ __noinline__ C convert_bits(int input_type, int narrow, uint64_t low, uint64_t high)
{
    uint64_t bits[2] = {low, high};
    if (class_of<C>::value == FLOAT && narrow == MYLIB_F16)
        return convert<C>(load_as<t_f16>(input_type, bits));
    C x = load_as<C>(input_type, bits);
    if constexpr (class_of<C>::value == SIGNED || class_of<C>::value == UNSIGNED) {
        static_assert(MYLIB_I8 == 0 && MYLIB_I64 == 3 && MYLIB_U8 == 4 && MYLIB_U64 == 7, "sizes");
        if (narrow == MYLIB_NOT_NARROWED)
            return x;
        const bool is_integer = input_type <= MYLIB_U64 || input_type == MYLIB_BOOL;
        const int cut = 64 - (8 << narrow % 4);
        const C lowest = lowest_of<C>() >> cut, highest = (C)~lowest_of<C>() >> cut;
        if (is_integer)
            x = (C)((uint64_t)x << cut) >> cut;
        else
            x = x < lowest ? lowest : x > highest ? highest : x;
    }
    return x;
}

/* Loads the terms of input k at p[0..N); issues all loads before the first conversion. */
template <typename C, int N>
__device__ __forceinline__ void load_terms(const reduce_args &args, int k,
                                           const char *const (&p)[N], C (&x)[N])
{
    if (args.is_stored_as_carrier[k]) {
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] = *(const C *)p[i];
        return;
    }
    uint64_t low[N], high[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        high[i] = 0;
    switch (args.input_size[k]) {
#define CASE(T)                                                                                    \
    case sizeof(T):                                                                                \
        _Pragma("unroll") for (int i = 0; i < N; i++) low[i] = *(const T *)p[i];                   \
        break;
        CASE(uint8_t)
        CASE(uint16_t)
        CASE(uint32_t)
        CASE(uint64_t)
#undef CASE
    default:
#pragma unroll
        for (int i = 0; i < N; i++) {
            low[i] = ((const uint64_t *)p[i])[0];
            high[i] = ((const uint64_t *)p[i])[1];
        }
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = convert_bits<C>(args.input_type[k], args.narrow[k], low[i], high[i]);
}

/* ---- Places -------------------------------------------------------------------------------- */

/* Returns the address of an output's first term. */
__device__ __noinline__ const char *first_term(const reduce_args &args, int k, uint32_t output)
{
    const char *p = args.in[k];
#pragma unroll 1
    for (int d = args.kept_ndim - 1; d >= 0; d--) {
        uint32_t size = (uint32_t)args.shape[d], index = output % size;
        output /= size;
        p += index * args.in_strides[k][d];
    }
    return p;
}

/* Returns a term's offset from the first one when several dimensions are reduced. */
__device__ __noinline__ int64_t offset_of_term(const reduce_args &args, int k, int64_t term)
{
    int64_t offset = 0;
#pragma unroll 1
    for (int d = args.ndim - 1; d >= args.kept_ndim; d--) {
        int64_t size = args.shape[d], index;
        if (((term | size) >> 32) == 0) {
            index = (uint32_t)term % (uint32_t)size;
            term = (uint32_t)term / (uint32_t)size;
        } else {
            index = term % size;
            term /= size;
        }
        offset += index * args.in_strides[k][d];
    }
    return offset;
}

/* Returns the address of an output. */
__device__ __noinline__ char *place_of(const reduce_args &args, uint32_t output)
{
    char *p = args.out;
#pragma unroll 1
    for (int d = args.kept_ndim - 1; d >= 0; d--) {
        uint32_t size = (uint32_t)args.shape[d], index = output % size;
        output /= size;
        p += index * args.out_strides[d];
    }
    return p;
}

/*
 * Stores `value` at p as the output's type: C, a type that C carries, or the float in which a sum
 * of integers is exact.
 */
template <typename C>
__device__ __forceinline__ void store_at(const reduce_args &args, char *p, C value)
{
    if constexpr (class_of<C>::value == FLOAT && sizeof(C) == 4) {
        if (args.out_type == MYLIB_F16)
            *(t_f16 *)p = f16_from_f32(value);
        else
            *(C *)p = value;
    } else if constexpr (class_of<C>::value == FLOAT || real_of<C>::is_complex) {
        *(C *)p = value;
    } else if (args.out_type == MYLIB_F64) {
        *(t_f64 *)p = (t_f64)value;
    } else if (args.out_type == MYLIB_F32) {
        *(t_f32 *)p = (t_f32)value;
    } else if (args.out_type == MYLIB_F16) {
        *(t_f16 *)p = f16_from_f32((t_f32)value);
    } else {
        switch (args.out_size) {
        case 1:
            *(uint8_t *)p = (uint8_t)value;
            break;
        case 2:
            *(uint16_t *)p = (uint16_t)value;
            break;
        case 4:
            *(uint32_t *)p = (uint32_t)value;
            break;
        default:
            *(C *)p = value;
        }
    }
}
template <typename C>
__device__ __noinline__ void store_output(const reduce_args &args, uint32_t output, C value)
{
    store_at(args, place_of(args, output), value);
}

/* ---- Trees --------------------------------------------------------------------------------- */

/*
 * Combines consecutive blocks pairwise: level[k] is the result of 2^k consecutive blocks, or
 * absent.  Merging as a binary counter carries builds the same tree as pairing all blocks level by
 * level.  Used by one thread.
 */
template <typename F, typename C>
__device__ __forceinline__ void count_block(F f, C *level, uint32_t blocks, C value)
{
    int k = 0;
#pragma unroll 1
    for (; blocks >> k & 1; k++)
        value = f(level[k], value);
    level[k] = value;
}

/* Returns the result of all `blocks`, at least one. */
template <typename F, typename C>
__device__ __forceinline__ C count_end(F f, const C *level, uint32_t blocks)
{
    int k = __ffs((int)blocks) - 1;
    C value = level[k];
#pragma unroll 1
    for (k++; blocks >> k; k++)
        if (blocks >> k & 1)
            value = f(level[k], value);
    return value;
}

/* Reduces the values of the first `lanes` threads of a warp; thread 0 gets the result. */
template <typename F, typename C> __device__ __forceinline__ C reduce_warp(F f, C value, int lanes)
{
    int t = threadIdx.x % WARP;
#pragma unroll
    for (int half = WARP / 2; half > 0; half /= 2) {
        C both = combine_pair(f, value, half);
        if ((t & ~half) + half < lanes)
            value = both;
    }
    return value;
}

/* Takes the result of part `part` of an output; stores it if the output has no other part. */
template <typename C>
__device__ __forceinline__ void finish(const reduce_args &args, uint32_t output, uint32_t part,
                                       C value)
{
    const uint64_t at = (uint64_t)part * args.outputs + output;
    if (args.parts == 1)
        return store_output(args, output, value);
    if constexpr (std::is_same<C, t_i64>::value) {
        if (args.carrier == MYLIB_F64) {
            ((t_f64 *)args.partial)[at] = (t_f64)value;
            return;
        }
        if (args.carrier == MYLIB_F32) {
            ((t_f32 *)args.partial)[at] = (t_f32)value;
            return;
        }
    }
    ((C *)args.partial)[at] = value;
}

/* ---- Rows ---------------------------------------------------------------------------------- */

/*
 * Reduces a full block at a[0], aligned to 16 bytes, of elements of type S: element j of vector v
 * of thread t is lane (32 v + t) E + j.  A chunk of rows is loaded before the first is used.
 */
template <typename F, typename C, typename S, bool DOT>
__device__ __forceinline__ C reduce_full_row(F f, const char *a, const char *b)
{
    constexpr int E = 16 / sizeof(S), V = LANES / (WARP * E);
    constexpr int AHEAD = DOT ? 4 : 8, CHUNK = V < AHEAD ? AHEAD / V : 1;
    int t = threadIdx.x % WARP;
    C acc[V][E];
#pragma unroll
    for (int i = 0; i < V * E; i++)
        if constexpr (F::REDUCTION == MYLIB_SUM) /* others begin with their first term */
            acc[i / E][i % E] = identity<MYLIB_SUM, C>();
        else
            acc[i / E][i % E] = C();
    a += t * 16;
    b += t * 16;
#pragma unroll 1
    for (int r = 0; r < ROWS; r += CHUNK) {
        alignas(16) S x[CHUNK * V][E], y[CHUNK * V][E];
#pragma unroll
        for (int i = 0; i < CHUNK * V; i++) {
            *(uint4 *)x[i] = __ldcs((const uint4 *)(a + i * WARP * 16));
            if constexpr (DOT)
                *(uint4 *)y[i] = __ldcs((const uint4 *)(b + i * WARP * 16));
        }
        a += CHUNK * V * WARP * 16;
        b += CHUNK * V * WARP * 16;
#pragma unroll
        for (int i = 0; i < CHUNK * V; i++) {
#pragma unroll
            for (int j = 0; j < E; j++) {
                C term = convert<C>(x[i][j]);
                if constexpr (DOT)
                    term = product(term, convert<C>(y[i][j]));
                C both = f(acc[i % V][j], term);
                acc[i % V][j] = F::REDUCTION != MYLIB_SUM && i < V && r == 0 ? term : both;
            }
        }
    }
    return reduce_vectors(f, acc);
}

/*
 * Combines SOME rows of lanes from a[0] on with acc: value v of thread t is lane 32 v + t.  Only
 * `left` terms exist, at least one.  All loads come before the first use; a missing term reloads
 * another, since nvcc would move each conditional load just before its use.
 */
template <typename S, bool DOT, int SOME, typename F, typename C, int V>
__device__ __forceinline__ void take_rows(F f, const char *a, const char *b, int left,
                                          bool is_first, C (&acc)[V])
{
    constexpr int N = SOME * V;
    const int t = threadIdx.x % WARP, mine = left > t ? (left - t - 1) / WARP + 1 : 0;
    const int64_t start = t < left ? t : 0, last = mine > 0 ? mine - 1 : 0;
    const S *p = (const S *)a + start, *q = (const S *)b + start;
    S x[N], y[DOT ? N : 1];
    if (left >= SOME * LANES) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            x[i] = p[i * WARP];
            if constexpr (DOT)
                y[i] = q[i * WARP];
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) {
            const int64_t at = (i < last ? i : last) * WARP;
            x[i] = p[at];
            if constexpr (DOT)
                y[i] = q[at];
        }
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        C term = convert<C>(x[i]);
        if constexpr (DOT)
            term = product(term, convert<C>(y[i]));
        const C both = is_first && i < V ? term : f(acc[i % V], term);
        if (i < mine)
            acc[i % V] = both;
    }
}

/* Reduces n terms whose address is a multiple of their size. */
template <typename F, typename C, typename S, bool DOT>
__device__ __forceinline__ C reduce_any_row(F f, int n, const char *a, const char *b)
{
    constexpr int V = LANES / WARP, SOME = sizeof(C) * (DOT ? 2 : 1) <= 4 ? 2 : 1;
    constexpr int NBYTES = SOME * LANES * sizeof(S);
    int t = threadIdx.x % WARP, lanes = n < LANES ? n : LANES;
    C acc[V];
#pragma unroll 1
    for (int left = n; left > 0; left -= SOME * LANES, a += NBYTES, b += NBYTES)
        take_rows<S, DOT, SOME>(f, a, b, left, left == n, acc);
#pragma unroll
    for (int half = V / 2; half > 0; half /= 2)
#pragma unroll
        for (int v = 0; v < half; v++)
            if ((v + half) * WARP + t < lanes)
                acc[v] = f(acc[v], acc[v + half]);
    return reduce_warp(f, acc[0], lanes);
}

/* Reduces n terms in runs, one run for each thread. */
template <typename F, typename C>
__device__ __forceinline__ C reduce_row_of_runs(F f, int n, const char *a)
{
    constexpr int AHEAD = 8;
    const C *terms = (const C *)a;
    int run = (n + WARP - 1) / WARP, begin = threadIdx.x % WARP * run;
    C value = terms[begin < n ? begin : n - 1];
#pragma unroll 1
    for (int i = 0; i < run; i += AHEAD) {
        C x[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            int at = begin + (i + j < run ? i + j : run - 1);
            x[j] = terms[at < n ? at : n - 1];
        }
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            value = f(value, x[j]);
    }
#pragma unroll
    for (int half = 1; half < WARP; half *= 2)
        value = combine_pair(f, value, half);
    return value;
}

/*
 * Reduces blocks begin to end - 1 of an output, at least one, by a warp; thread 0 gets the result.
 */
template <typename F, typename C, typename S, bool DOT>
__device__ __forceinline__ C reduce_blocks(F f, const reduce_args &args, const char *a,
                                           const char *b, int64_t begin, int64_t end, C *level)
{
    C value = C();
#pragma unroll 1
    for (int64_t block = begin; block < end; block++) {
        int64_t at = block * TERMS * (int64_t)sizeof(S), rest = args.terms - block * TERMS;
        if constexpr (IN_RUNS<F>)
            value = reduce_row_of_runs<F, C>(f, rest < TERMS ? (int)rest : TERMS, a + at);
        else if (rest >= TERMS && args.is_aligned)
            value = reduce_full_row<F, C, S, DOT>(f, a + at, b + at);
        else
            value =
                reduce_any_row<F, C, S, DOT>(f, rest < TERMS ? (int)rest : TERMS, a + at, b + at);
        if (threadIdx.x % WARP == 0 && end - begin > 1)
            count_block(f, level, (uint32_t)(block - begin), value);
    }
    if (threadIdx.x % WARP == 0 && end - begin > 1)
        value = count_end(f, level, (uint32_t)(end - begin));
    return value;
}

/*
 * With one warp for each output, the warp takes all its blocks; otherwise the warps of a thread
 * block take consecutive groups of one output.  S is the type of the stored elements.
 */
template <typename F, typename C, typename S, bool DOT>
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS<C>)
    rows_kernel(const __grid_constant__ reduce_args args)
{
    const F f(args.reduction);
    alignas(16) __shared__ unsigned char levels[WARPS][MAX_LEVELS * sizeof(C)];
    alignas(16) __shared__ unsigned char storage[WARPS * sizeof(C)];
    int warp = threadIdx.x / WARP, t = threadIdx.x % WARP;
    C *room = (C *)storage;
    uint32_t output, part = 0, outputs = (uint32_t)args.outputs;
    int64_t begin = 0;
    if (args.has_warp_per_output) {
        output = blockIdx.x * WARPS + warp;
        if (output >= outputs)
            return;
    } else {
        output = blockIdx.x % outputs;
        part = blockIdx.x / outputs;
        begin = ((int64_t)part * WARPS + warp) * args.group;
    }
    int64_t end = begin + args.group < args.blocks ? begin + args.group : args.blocks;
    const char *a = first_term(args, 0, output), *b = DOT ? first_term(args, 1, output) : a;
    C value = C();
    if (begin < end)
        value = reduce_blocks<F, C, S, DOT>(f, args, a, b, begin, end, (C *)levels[warp]);
    if (args.has_warp_per_output) {
        if (t == 0)
            store_output(args, output, value);
        return;
    }
    if (t == 0)
        room[warp] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        /* Existing groups come first. */
        int left = 1;
        while (left < WARPS && begin + left * args.group < args.blocks)
            left++;
        reduce_pairwise(f, room, left);
        finish(args, output, part, room[0]);
    }
}

/* ---- Integers ------------------------------------------------------------------------------ */

/*
 * Sums, products and maxima of integers are computed in i64.  A minimum is a maximum of flipped
 * bits, and flipping the highest bit makes unsigned numbers comparable: args.flip has the bits to
 * flip in an element, extended to i64, and in the result.
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

/*
 * Combines the elements of some words with one accumulator each, or with a single one: the sum of
 * all narrow elements.
 */
template <int R, typename S, typename P, int E, int WORDS>
__device__ __forceinline__ void combine_words(const uint32_t (&words)[WORDS], uint64_t flip,
                                              P (&acc)[E])
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
            acc[j] = f(acc[j], (P)(R == MYLIB_MAX ? x ^ flip : x));
        }
    } else {
        constexpr int PER_WORD = 4 / sizeof(S);
#pragma unroll
        for (int i = 0; i < WORDS; i++) {
            const uint32_t word = truths<S>(words[i]) ^ flip_of_word<R, S>(flip);
#pragma unroll
            for (int j = 0; j < PER_WORD; j++)
                acc[i * PER_WORD + j] =
                    f(acc[i * PER_WORD + j], (P)(T)(word >> 8 * (int)sizeof(S) * j));
        }
    }
}

/*
 * Reduces `count` vectors, possibly none, `step` bytes apart, from p on.  Returns the result of all
 * elements; or, given `room`, writes a result for each element of a vector there, for at most
 * EXACT_TERMS vectors.
 */
template <int R, typename S>
__device__ __forceinline__ t_i64 reduce_integers(const char *p, int64_t step, int64_t count,
                                                 uint64_t flip, t_i64 *room)
{
    constexpr int E = 16 / sizeof(S);
    typedef exact_type<R, S> P;
    constexpr int AHEAD = sizeof(P) * E <= 64 ? 4 : 1; /* within 64 registers */
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
                if (i < n) {
                    const uint4 v = __ldcs((const uint4 *)(p + i * step));
                    words[i][0] = v.x;
                    words[i][1] = v.y;
                    words[i][2] = v.z;
                    words[i][3] = v.w;
                }
            }
            p += AHEAD * step;
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                combine_words<R, S>(words[i], flip, acc);
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
 * Along: a warp reduces an output, or a thread block a part of one.
 *
 * Across: 2^width_bits threads take a vector of adjacent outputs each; the others of a thread block
 * have the same outputs, and other terms of the part.
 */
template <int R>
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS<t_i64>)
    integers_kernel(const __grid_constant__ reduce_args args)
{
    const combine<R> f;
    alignas(16) __shared__ t_i64 room[THREADS * 16];
    const uint64_t flip = args.flip;
    const int threads = args.has_warp_per_output ? WARP : THREADS, t = threadIdx.x % threads;
    const int size = args.input_size[0], per_vector = 16 / size;
    const int lanes = THREADS >> args.width_bits, lane = threadIdx.x >> args.width_bits;
    const uint32_t outputs = (uint32_t)args.outputs;
    uint32_t output, part = 0;
    if (args.is_across) {
        const uint32_t column = threadIdx.x & ((1u << args.width_bits) - 1);
        output = ((blockIdx.x << args.width_bits) + column) * per_vector;
        output = output < outputs ? output : outputs - per_vector;
        part = blockIdx.y;
    } else if (args.has_warp_per_output) {
        output = blockIdx.x * WARPS + threadIdx.x / WARP;
        if (output >= outputs)
            return;
    } else {
        output = blockIdx.x % outputs;
        part = blockIdx.x / outputs;
    }
    const int64_t from = part * args.group;
    const int64_t n = args.terms - from < args.group ? args.terms - from : args.group;
    int64_t step = args.is_across ? args.in_strides[0][args.kept_ndim] : size, count;
    const char *p = first_term(args, 0, output) + from * step;
    t_i64 value = identity<R, t_i64>(), edge = value;
    if (args.is_across) {
        p += lane * step;
        step *= lanes;
        count = (n - lane + lanes - 1) / lanes;
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
            edge = R == MYLIB_MAX ? x[0] ^ (t_i64)flip : x[0];
        }
        p += head * size + t * 16;
        step = threads * 16;
        count = t < vectors ? (vectors - t + threads - 1) / threads : 0;
    }
    t_i64 *own = args.is_across ? room + threadIdx.x * per_vector : NULL;
    value = with_type(args.input_type[0], value, [=](auto s) {
        typedef TYPE_OF(s) S;
        if constexpr (IS_WHOLE<S>)
            return reduce_integers<R, S>(p, step, count, flip, own);
        else
            return identity<R, t_i64>();
    });
    if (args.is_across) {
        const int width = per_vector << args.width_bits;
        __syncthreads();
        for (int i = threadIdx.x; i < width; i += THREADS) {
            value = room[i];
#pragma unroll 4
            for (int k = 1; k < lanes; k++)
                value = f(value, room[k * width + i]);
            if (blockIdx.x * width + i < outputs)
                finish(args, blockIdx.x * width + i, part, value ^ (t_i64)flip);
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

/* ---- Short rows ---------------------------------------------------------------------------- */

constexpr int SHORT_VECTORS = MYLIB_SHORT_TILE / 16 / THREADS;

/*
 * Combines a thread's terms of a row, from p on: some threads have `most` of them, the others one
 * less.  More than MYLIB_SHORT_TERMS occur only if the threads are a whole warp.
 */
template <typename S, typename F, typename C>
__device__ __forceinline__ C reduce_short_lanes(F f, const char *p, int step, int most, int count)
{
    static_assert(MYLIB_SHORT_TERMS == 8, "reduce_few() takes eight");
    if (most > 8)
        return reduce_few<8, 8, S, F, C>(f, p, step, count);
    switch (most) {
    case 1:
    case 2:
        return reduce_few<2, 1, S, F, C>(f, p, step, count);
    case 3:
        return reduce_few<3, 2, S, F, C>(f, p, step, count);
    case 4:
        return reduce_few<4, 3, S, F, C>(f, p, step, count);
    default:
        return reduce_few<8, 4, S, F, C>(f, p, step, count);
    }
}

/*
 * Combines integers of a row, in any order: words s, s + 2^bits, ... of those that hold the row.
 */
template <int R, typename S>
__device__ __forceinline__ t_i64 reduce_short_words(const char *a, int terms, int s, int bits,
                                                    uint64_t flip)
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
            uint32_t mask = 0xffffffffu;
            if (at < lead)
                mask <<= 8 * (lead - at);
            if (at + 4 > end)
                mask &= 0xffffffffu >> 8 * (at + 4 - end);
            words[0] = (words[0] & mask) | (word_of_nothing<R, S>(flip, 0) & ~mask);
        }
        combine_words<R, S>(words, flip, acc);
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
template <typename F, typename C>
__device__ __forceinline__ C reduce_short(F f, const reduce_args &args, const char *a,
                                          const short_share &own)
{
    const char *p = a + own.offset;
    if constexpr (IS_WHOLE<C>) {
        return with_type(args.input_type[0], C(), [&](auto s) {
            typedef TYPE_OF(s) S;
            if constexpr (IS_WHOLE<S>)
                return reduce_short_words<F::REDUCTION, S>(a, (int)args.terms, own.thread, own.bits,
                                                           args.flip);
            else
                return C();
        });
    } else if (!args.is_stored_as_carrier[0]) {
        switch (args.input_type[0]) {
#define DT(s, S)                                                                                   \
    case MYLIB_##S:                                                                                \
        if constexpr (widens<C, t_##s>())                                                          \
            return reduce_short_lanes<t_##s, F, C>(f, p, own.step, own.most, own.count);           \
        break;
            MYLIB_STORED_TYPES(DT)
#undef DT
        }
    }
    if constexpr (!IS_WHOLE<C>)
        return reduce_short_lanes<C, F, C>(f, p, own.step, own.most, own.count);
}

/*
 * A thread block has tile_rows outputs, or the last ones, along the innermost kept dimension.  It
 * copies the memory from the first term to the last by vectors.  Gaps of `gap` bytes follow rows of
 * an even number of vectors, to reduce bank conflicts.  Then 2^lane_bits threads reduce each row.
 */
template <typename F, typename C>
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS<C>)
    short_kernel(const __grid_constant__ reduce_args args)
{
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
        C value = reduce_short<F, C>(f, args, tile + row_of_tile * pitch, share);
#pragma unroll 1
        for (int half = lanes / 2; half > 0; half /= 2)
            value = combine_pair(f, value, half);
        if constexpr (IS_WHOLE<C>)
            value ^= (C)args.flip;
        if (s == 0 && own < rows)
            store_at(args, out, value);
    }
}

/* ---- Clusters ------------------------------------------------------------------------------ */

/*
 * The thread blocks of a cluster compute the parts of an output.  The first block's shared memory
 * has a slot for the result of each part, and a barrier that counts arriving bytes.  This needs no
 * other memory and no fence, and the other blocks may exit early.  Requires CUDA 12.1.
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

/* ---- Lanes --------------------------------------------------------------------------------- */

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
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                p[i] = i < count ? first[k] + offset_of_term(args, k, term + i * APART<F>) : p[0];
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
        /*
         * The upper half of the threads passes its values on; the last five steps stay within a
         * warp.
         */
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

/* ---- Columns ------------------------------------------------------------------------------- */

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
#define DT(s, S)                                                                                   \
    case MYLIB_##S:                                                                                \
        if constexpr (widens<C, t_##s>())                                                          \
            return reduce_stored_columns<F, C, W, t_##s>(f, p, step, count);                       \
        break;
            MYLIB_STORED_TYPES(DT)
#undef DT
        }
    }
    return reduce_stored_columns<F, C, W, C>(f, p, step, count);
}

/*
 * Reduces lanes of a single term, the m-th to the (m + SOME - 1)-th visited; all are loaded before
 * they are combined.
 */
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
#pragma unroll
    for (int step = 1; step < SOME; step *= 2)
#pragma unroll
        for (int i = 0; i < SOME; i += 2 * step)
            if (is_there[i + step])
                x[i] = f(x[i], x[i + step]);
    return x[0];
}

template <typename F, typename C, int W>
__global__ void __launch_bounds__(THREADS, W > 1 ? VECTOR_BLOCKS : MIN_BLOCKS<C>)
    columns_kernel(const __grid_constant__ reduce_args args)
{
    const F f(args.reduction);
    typedef columns_of<C, W> values;
    constexpr int SOME_BITS = 3;
    alignas(16) __shared__ unsigned char storage[STEPS * THREADS * sizeof(values)];
    values *waits = (values *)storage, *room = waits;
    const int t = threadIdx.x % WARP, warp = threadIdx.x / WARP, bits = args.warp_bits;
    const int sub = warp & ((1 << bits) - 1), steps = args.lane_bits - bits;
    const int64_t wanted =
        (((int64_t)blockIdx.x * (WARPS >> bits) + (warp >> bits)) * WARP + t) * W;
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
                        combine_columns(f, value, room[threadIdx.x + half * WARP]);
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

/* ---- Partial results ----------------------------------------------------------------------- */

/*
 * Combines the parts of each output pairwise.  The threads of a thread block cover 2^width_bits
 * adjacent outputs, times aligned groups of args.group parts; each thread combines one group, some
 * parts at a time.
 */
template <typename F, typename C>
__global__ void __launch_bounds__(THREADS) combine_kernel(const __grid_constant__ reduce_args args)
{
    const F f(args.reduction);
    constexpr int SOME = 8;
    alignas(16) __shared__ unsigned char storage[THREADS * sizeof(C)];
    C *room = (C *)storage, level[MAX_LEVELS], value = C();
    int width = 1 << args.width_bits, groups = THREADS >> args.width_bits;
    int column = threadIdx.x & (width - 1), g = threadIdx.x >> args.width_bits;
    int64_t wanted = (int64_t)blockIdx.x * width + column;
    uint32_t output = (uint32_t)(wanted < args.outputs ? wanted : args.outputs - 1);
    int begin = g * (int)args.group, parts = (int)args.parts;
    int end = begin + args.group < parts ? begin + (int)args.group : parts;
    const C *partial = (const C *)args.partial + output + begin * args.outputs;

#pragma unroll 1
    for (int i = begin; i < end; i += SOME) {
        C x[SOME];
#pragma unroll
        for (int j = 0; j < SOME; j++) {
            x[j] = *partial;
            if (i + j + 1 < end)
                partial += args.outputs;
        }
#pragma unroll
        for (int step = 1; step < SOME; step *= 2)
#pragma unroll
            for (int j = 0; j + step < SOME; j += 2 * step)
                if (i + j + step < end)
                    x[j] = f(x[j], x[j + step]);
        if (end - begin <= SOME)
            value = x[0];
        else
            count_block(f, level, (uint32_t)(i - begin) / SOME, x[0]);
    }
    if (end - begin > SOME)
        value = count_end(f, level, (uint32_t)(end - begin + SOME - 1) / SOME);
    room[threadIdx.x] = value;
#pragma unroll 1
    for (int step = 1; step < groups; step *= 2) {
        __syncthreads();
        if (g % (2 * step) == 0 && (g + step) * (int)args.group < parts)
            room[threadIdx.x] = f(room[threadIdx.x], room[threadIdx.x + step * width]);
    }
    if (g == 0 && wanted < args.outputs)
        store_output(args, output, room[threadIdx.x]);
}

/* ---- Launches ------------------------------------------------------------------------------ */

typedef void (*reduce_kernel)(reduce_args);

/* Selects the kernel for a reduction carried in C. */
template <int R, typename C> reduce_kernel kernel_as(const reduce_args *args)
{
    constexpr bool IS_INTEGER = class_of<C>::value == SIGNED || class_of<C>::value == UNSIGNED;
    constexpr int W = 16 / sizeof(C);
    constexpr bool IS_COMPLEX = real_of<C>::is_complex;
    typedef std::conditional_t<IS_COMPLEX && R >= MYLIB_MIN, combine_runs, combine_by_call> ANY;
    /* For complex numbers only sums are common enough for a kernel of their own. */
    typedef std::conditional_t<R != MYLIB_SUM && IS_COMPLEX, ANY, combine<R>> F;
    /* Sums and products modulo 2^64 have the same bits for signed and unsigned numbers. */
    constexpr bool IS_MODULAR =
        class_of<C>::value == UNSIGNED && (R == MYLIB_SUM || R == MYLIB_PROD);
    typedef std::conditional_t<IS_MODULAR, t_i64, C> M;
    constexpr int FLIPPED = R == MYLIB_MIN ? MYLIB_MAX : R; /* of integers */
    reduce_kernel kernel = NULL;
    switch (args->way) {
    case MYLIB_REDUCE_SHORT:
        if constexpr (IS_INTEGER)
            kernel = short_kernel<combine<FLIPPED>, t_i64>;
        else if constexpr (R == MYLIB_SUM || !IS_COMPLEX)
            kernel = short_kernel<F, C>;
        break;
    case MYLIB_REDUCE_INTEGERS:
        if constexpr (IS_INTEGER)
            kernel = integers_kernel<FLIPPED>;
        break;
    case MYLIB_REDUCE_ROWS:
        if constexpr (R == MYLIB_SUM)
            if (args->inputs == 2)
                kernel = rows_kernel<F, M, M, true>;
        if constexpr (std::is_same<C, t_f32>::value)
            if (args->input_type[0] == MYLIB_F16)
                kernel = rows_kernel<F, C, t_f16, false>;
        if constexpr (!IS_INTEGER)
            if (kernel == NULL)
                kernel = rows_kernel<F, C, C, false>;
        break;
    case MYLIB_REDUCE_LANES:
        kernel = lanes_kernel<ANY, C>;
        break;
    case MYLIB_REDUCE_COLUMNS:
        kernel = columns_kernel<ANY, C, 1>;
        if constexpr (!IS_INTEGER && W > 1)
            if (args->width != 1)
                kernel = columns_kernel<F, C, W>;
        break;
    case MYLIB_REDUCE_PARTS:
        kernel = combine_kernel<combine_by_call, C>;
        break;
    }
    return kernel;
}

reduce_kernel kernel_of(const reduce_args *args)
{
    return with_type(args->computed, (reduce_kernel)NULL, [=](auto type) {
        typedef TYPE_OF(type) C;
        if constexpr (class_of<C>::value == FLOAT || real_of<C>::is_complex ||
                      number_of<C>::value == MYLIB_I64 || number_of<C>::value == MYLIB_U64)
            return with_reduction((int)args->reduction, [=](auto known) {
                return kernel_as<decltype(known)::REDUCTION, C>(args);
            });
        else
            return (reduce_kernel)NULL;
    });
}

} // namespace

cudaError_t mylib_launch_reduce(const mylib_reduce_args *args, cudaStream_t stream)
{
    reduce_kernel kernel = kernel_of(args);
    void *parameters[] = {(void *)args};
    cudaLaunchAttribute cluster = {};
    cudaLaunchConfig_t config = {};
    if (kernel == NULL)
        return cudaErrorInvalidValue;
    config.gridDim = dim3((unsigned)args->grid, (unsigned)args->grid_rows);
    config.blockDim = dim3(THREADS);
    config.stream = stream;
    if (args->cluster_bits != 0) {
        cluster.id = cudaLaunchAttributeClusterDimension;
        cluster.val.clusterDim.x = 1u << args->cluster_bits;
        cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
        config.attrs = &cluster;
        config.numAttrs = 1;
    }
    return cudaLaunchKernelExC(&config, (const void *)kernel, parameters);
}

cudaError_t mylib_reduce_max_cluster(int *blocks_ret)
{
    /*
     * Query the kernel with the highest resource use; all are compiled for the same architectures.
     */
    const void *kernel = (const void *)lanes_kernel<combine_by_call, t_c128>;
    cudaFuncAttributes attributes;
    cudaLaunchConfig_t config = {};
    *blocks_ret = 1;
    cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
    /* Code for older GPUs, which newer GPUs may run too, has no clusters. */
    if (!HAS_CLUSTERS || error != cudaSuccess || attributes.ptxVersion < 90)
        return error;
    config.gridDim = dim3(MYLIB_MAX_CLUSTER);
    config.blockDim = dim3(THREADS);
    return cudaOccupancyMaxPotentialClusterSize(blocks_ret, kernel, &config);
}
