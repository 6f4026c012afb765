/*
 * reduce_values.cuh - shared by the kernels of reduce.cu: loads terms as the type that carries
 * them, finds their places, combines the results of blocks, and stores outputs.
 */
#pragma once

#include <type_traits>

#include "launch.cuh"
#include "reduction.cuh"

namespace
{

constexpr int WARPS = THREADS / WARP;
constexpr int STEPS = 8;       /* of the tree over the lanes */
constexpr int MAX_LEVELS = 32; /* of the tree over the blocks */
static_assert(THREADS == LANES, "a thread of lanes_kernel is a lane");

/* Resident thread blocks of a multiprocessor: enough loads in flight to keep memory busy. */
template <typename C> constexpr int MIN_BLOCKS = sizeof(C) == 16 ? 3 : 4;

typedef mylib_reduce_args reduce_args;

/* ---- Values ---- */

/* Combines two values by a call, to save code where memory is not the limit. */
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

/* Calls g with f, or with the functor of the reduction that f chooses at run time. */
template <typename C, typename F, typename G> __device__ __forceinline__ auto with_functor(F f, G g)
{
    if constexpr (F::REDUCTION == -1 && !real_of<C>::is_complex)
        return with_reduction(f.reduction, g);
    else
        return g(f);
}

/*
 * Complex minima and maxima: the result is the first of equal terms.  Any tree that keeps the order
 * of the terms gives it, so a lane takes a run of terms, and the last term replaces missing ones.
 */
struct combine_runs : combine_by_call {
    __device__ __forceinline__ combine_runs(int number) : combine_by_call(number) {}
};
template <typename F> constexpr bool IN_RUNS = std::is_same<F, combine_runs>::value;

template <typename C> __device__ __forceinline__ C product(C a, C b)
{
    return meaning<MYLIB_OP_multiply, C>::apply(a, b);
}

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
 * Converts a term of any stored type, given by its bits, to the program's type and then to C.
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

/* Converts terms, given by their bits, if that takes few instructions; else returns false. */
template <typename C, int N>
__device__ __forceinline__ bool convert_quickly(int input_type, int narrow,
                                                const uint64_t (&bits)[N], C (&x)[N])
{
    if (narrow != MYLIB_NOT_NARROWED)
        return false;
    if constexpr (std::is_same<C, t_f32>::value) {
        if (input_type != MYLIB_F16)
            return false;
#pragma unroll
        for (int i = 0; i < N; i++) {
            const uint16_t half = (uint16_t)bits[i];
            t_f16 value;
            memcpy(&value, &half, sizeof value);
            x[i] = convert<C>(value);
        }
        return true;
    } else if constexpr (class_of<C>::value == SIGNED || class_of<C>::value == UNSIGNED) {
        if (input_type > MYLIB_U64)
            return false;
        static_assert(MYLIB_I8 == 0 && MYLIB_I64 == 3 && MYLIB_U8 == 4 && MYLIB_U64 == 7, "sizes");
        const int cut = input_type <= MYLIB_I64 ? 64 - (8 << input_type) : 0;
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] = (C)((int64_t)(bits[i] << cut) >> cut);
        return true;
    }
    return false;
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
#define CASE(T) \
    case sizeof(T): \
        _Pragma("unroll") for (int i = 0; i < N; i++) low[i] = *(const T *)p[i]; \
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
    if (convert_quickly(args.input_type[k], args.narrow[k], low, x))
        return;
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = convert_bits<C>(args.input_type[k], args.narrow[k], low[i], high[i]);
}

/* ---- Places ---- */

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

__device__ __forceinline__ int64_t quotient_of(int64_t number, int64_t size)
{
    return ((number | size) >> 32) == 0 ? (uint32_t)number / (uint32_t)size : number / size;
}

/* A term's place: in a column, row and plane. */
struct term_place {
    int64_t column, row, plane;
};

__device__ __forceinline__ term_place place_of_term(const reduce_args &args, int64_t term)
{
    const int64_t row = quotient_of(term, args.columns), column = term - row * args.columns;
    const int64_t plane = args.ndim - args.kept_ndim <= 2 ? 0 : quotient_of(row, args.rows);
    return {column, row - plane * args.rows, plane};
}
__device__ __forceinline__ int64_t offset_of(const mylib_reduce_walk &walk, const term_place &at)
{
    return at.column * walk.stride[0] + at.row * walk.stride[1] + at.plane * walk.stride[2];
}

/* Limits a count to 32 bits: the few terms of a thread never go that far. */
__device__ __forceinline__ int32_t limit_size(int64_t size)
{
    return size < INT32_MAX ? (int32_t)size : INT32_MAX;
}

__device__ __noinline__ char *place_of(const reduce_args &args, uint32_t output)
{
    char *p = args.out;
    if (args.is_out_dense)
        return p + (int64_t)output * args.out_size;
#pragma unroll 1
    for (int d = args.kept_ndim - 1; d >= 0; d--) {
        uint32_t size = (uint32_t)args.shape[d], index = output % size;
        output /= size;
        p += index * args.out_strides[d];
    }
    return p;
}

/* Stores `value` as the output's type: C, one that C carries, or a float that holds the sum. */
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
            *(uint8_t *)p = args.is_truth ? (uint8_t)(value != 0) : (uint8_t)value;
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

/* The tile of a row of outputs that a thread block has, and the row's first output. */
struct row_tile {
    uint32_t tile, begin;
    __device__ __forceinline__ row_tile(const reduce_args &args)
    {
        const uint32_t row = blockIdx.x / (uint32_t)args.tiles;
        tile = blockIdx.x - row * (uint32_t)args.tiles;
        begin = row * (uint32_t)args.row_outputs;
    }
};

/* ---- Trees ---- */

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

/* ---- Shares of warps and thread blocks ---- */

/* The terms of a warp or a thread block: those of blocks begin to end - 1 of an output. */
struct share {
    uint32_t output, part;
    int64_t begin, end;
};

/* Divides the outputs, or the parts of each, among warps, if args.is_by_warp, or thread blocks. */
__device__ __forceinline__ share take_share(const reduce_args &args)
{
    const int warp = threadIdx.x / WARP;
    const uint32_t outputs = (uint32_t)args.outputs;
    share s = {blockIdx.x % outputs, blockIdx.x / outputs, 0, 0};
    if (args.cluster_bits != 0)
        s = {blockIdx.x >> args.cluster_bits, blockIdx.x & ((1u << args.cluster_bits) - 1), 0, 0};
    if (args.has_warp_per_output)
        s = {blockIdx.x * WARPS + warp, 0, 0, 0};
    else
        s.begin = (args.is_by_warp ? (int64_t)s.part * WARPS + warp : s.part) * args.group;
    s.end = s.begin + args.group < args.blocks ? s.begin + args.group : args.blocks;
    return s;
}

/* Stores the result of each warp, or combines those of a thread block; thread 0 of each has it. */
template <typename F, typename C>
__device__ __forceinline__ void finish_warps(F f, const reduce_args &args, const share &s, C *room,
                                             C value)
{
    if (args.has_warp_per_output) {
        if (threadIdx.x % WARP == 0)
            store_output(args, s.output, value);
        return;
    }
    if (args.is_by_warp) {
        if (threadIdx.x % WARP == 0)
            room[threadIdx.x / WARP] = value;
        __syncthreads();
        if (threadIdx.x == 0) {
            /* Existing groups come first. */
            int left = 1;
            while (left < WARPS && s.begin + left * args.group < args.blocks)
                left++;
            reduce_pairwise(f, room, left);
            value = room[0];
        }
    }
    if (threadIdx.x == 0)
        finish(args, s.output, s.part, value);
}

} // namespace
