/*
 * reduce_transposed.cuh - the kernel of terms that are neighbours in memory and far apart in their
 * order, as those of a transposed matrix.
 *
 * The dimensions inside that of the neighbours are a run of terms, and all others number the runs:
 * run c begins with the term c * args.run.  Each thread has a run; the next thread has the next
 * one, so a warp loads whole rows.  A thread block goes through its runs by windows of TERMS terms.
 * In each window one block of every run ends, at a place of its own, and another begins.  A block
 * may begin before its run; then the thread begins one window earlier.
 *
 * The lanes of a run are shifted by a number of its own.  The tree combines lanes that are some
 * distance apart, so only which of two lanes is the earlier one depends on that.
 */
#pragma once

#include "reduce_lanes.cuh"

namespace
{

/* A thread takes two lanes at once, which the tree combines first: their terms are one row. */
constexpr int PAIR_APART = LANES / 2, PAIR_TERMS = 2 * ROWS;

/* A minimum is the maximum of the negative numbers, negated. */
template <typename F, typename C> __device__ __forceinline__ C negate_if(bool is_minimum, C x)
{
    if constexpr (F::REDUCTION == MYLIB_MAX) {
        typedef std::conditional_t<sizeof(C) == 4, uint32_t, uint64_t> words;
        words bits;
        memcpy(&bits, &x, sizeof bits);
        bits ^= (words)is_minimum << (8 * sizeof(C) - 1);
        memcpy(&x, &bits, sizeof x);
    }
    return x;
}

/*
 * Loads two lanes of a window, `row` and the other; terms that are not among `from` to `to` - 1
 * become the identity element.
 */
template <typename F, typename C>
__device__ __forceinline__ void load_pair(const reduce_args &args,
                                          const char *const (&p)[PAIR_TERMS], int row, int from,
                                          int to, C (&x)[PAIR_TERMS])
{
    const C absent = identity<F::REDUCTION, C>();
    const auto is_there = [&](int i) {
        return (unsigned)(row + i * PAIR_APART - from) < (unsigned)(to - from);
    };
    if (std::is_same<C, t_f32>::value && args.input_type[0] == MYLIB_F16) {
        uint16_t bits[PAIR_TERMS] = {};
#pragma unroll
        for (int i = 0; i < PAIR_TERMS; i++)
            if (is_there(i))
                bits[i] = __ldcs((const uint16_t *)p[i]);
#pragma unroll
        for (int i = 0; i < PAIR_TERMS; i++) {
            t_f16 half;
            memcpy(&half, &bits[i], sizeof half);
            x[i] = is_there(i) ? convert<C>(half) : absent;
        }
    } else {
#pragma unroll
        for (int i = 0; i < PAIR_TERMS; i++)
            x[i] = is_there(i) ? __ldcs((const C *)p[i]) : absent;
    }
    const bool is_minimum = args.reduction == MYLIB_MIN;
    if (args.op != 0 || is_minimum) {
#pragma unroll
        for (int i = 0; i < PAIR_TERMS; i++) {
            const C term = args.op != 0 ? make_term<MAPPED>(args.op, x[i]) : x[i];
            x[i] = is_there(i) ? negate_if<F>(is_minimum, term) : absent;
        }
    }
}

/* C is real; a complex number is two runs. */
template <typename F, typename C>
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS<C>)
    transposed_kernel(const __grid_constant__ reduce_args args)
{
    wait_for_previous();
    constexpr int SIDE_BITS = sizeof(C) == 4 ? 5 : 4; /* at most */
    static_assert(THREADS == 1 << STEPS && sizeof(C) << SIDE_BITS == MYLIB_TRANSPOSED_NBYTES,
                  "a row of memory");
    const F f(args.reduction);
    const C absent = identity<F::REDUCTION, C>();
    /* The lanes of blocks that do not end in a window. */
    __shared__ C begun[LANES << SIDE_BITS];
    __shared__ C waits[(SIDE_BITS - 1) * THREADS], room[THREADS];
    /* 2^steps threads have a run each; 2^bits share its lanes. */
    const int steps = args.width_bits, bits = STEPS - steps;
    const int side = threadIdx.x & ((1 << steps) - 1), sub = threadIdx.x >> steps;
    const bool is_complex = args.carrier >= MYLIB_C64;
    const bool is_plain =
        args.op == 0 && args.reduction != MYLIB_MIN && args.input_type[0] != MYLIB_F16;

    const uint32_t tile = blockIdx.x % (uint32_t)args.tiles,
                   rest = blockIdx.x / (uint32_t)args.tiles;
    const uint32_t output = rest / (uint32_t)args.shares;
    const int64_t begin = (rest - output * (uint32_t)args.shares) * args.group;
    const int64_t number = ((int64_t)tile << steps) + side, run = args.run;
    const int64_t first = (is_complex ? number >> 1 : number) * run;
    const int part = is_complex ? side & 1 : 0;
    const bool is_run = first < args.terms, is_last = first + run == args.terms;
    const char *const base = first_term(args, 0, output) + part * sizeof(C);
    const char *const start = base + offset_of(args.walk[0], place_of_term(args, first));

    /* Terms of a window before `end` belong to the block that ends; none is needed from stop on. */
    const int shift = (int)(first % TERMS), end = TERMS - shift;
    const int64_t stop = !is_run ? -TERMS : is_last ? run : (first + run) / TERMS * TERMS - first;
    const bool is_cut = run % TERMS != 0;
    int64_t windows = begin + args.group;
    if (windows >= args.windows)
        /* The last block of all may be incomplete. */
        windows = args.windows + ((int)tile == args.tiles - 1 && args.terms % TERMS != 0);

#pragma unroll 1
    for (int64_t window = begin - is_cut; window < windows; window++) {
        const int64_t at = window * TERMS;
        const int from = window < begin ? end : 0;
        const int to = stop - at < from ? from : stop - at < TERMS ? (int)(stop - at) : TERMS;
        const bool is_first = window == begin - is_cut;
        C value = absent;
#pragma unroll 1
        for (unsigned m = 0; m < 1u << (steps - 1); m++) {
            const int row = lane_of(m, sub, steps - 1, bits);
            const char *p[PAIR_TERMS];
            C x[PAIR_TERMS], ending[2];
            if (args.is_run_linear && at >= 0) {
                p[0] = start + (at + row) * args.walk[0].stride[0];
#pragma unroll
                for (int i = 1; i < PAIR_TERMS; i++)
                    p[i] = p[i - 1] + PAIR_APART * args.walk[0].stride[0];
            } else {
                find_terms(args, 0, base - args.lead_nbytes, first + at + row + args.lead_terms,
                           PAIR_TERMS, p);
            }
            if (is_plain && from == 0 && to == TERMS) {
#pragma unroll
                for (int i = 0; i < PAIR_TERMS; i++)
                    x[i] = __ldcs((const C *)p[i]);
            } else {
                load_pair<F>(args, p, row, from, to, x);
            }
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const int lane = row + j * PAIR_APART, ended = (end - lane + LANES - 1) / LANES;
                C &kept = begun[(lane << steps) + side], next = absent;
                ending[j] = is_first ? absent : kept;
#pragma unroll
                for (int i = 0; i < ROWS; i++)
                    if (i < ended)
                        ending[j] = f(ending[j], x[2 * i + j]);
                    else
                        next = f(next, x[2 * i + j]);
                kept = next;
            }
            value = combine_in_order(f, ending[0], ending[1], ((shift + row) & PAIR_APART) != 0);
            int k = 0;
#pragma unroll 1
            for (; m >> k & 1; k++)
                value = combine_in_order(f, value, waits[k * THREADS + threadIdx.x],
                                         ((shift + row) & PAIR_APART / 2 >> k) != 0);
            if (k < steps - 1)
                waits[k * THREADS + threadIdx.x] = value;
        }
        room[threadIdx.x] = value;
        __syncthreads();
#pragma unroll 1
        for (int half = 1 << bits >> 1; half > 0; half >>= 1) {
            if (sub < half)
                value = room[threadIdx.x] = combine_in_order(
                    f, value, room[threadIdx.x + (half << steps)], ((shift + sub) & half) != 0);
            __syncthreads();
        }
        const int64_t next = at + end; /* the first term after the block, in the run */
        if (sub == 0 && window >= begin && is_run &&
            (next <= run || (is_last && next - TERMS < run))) {
            const int64_t block = (first + next) / TERMS - 1, place = block * args.outputs + output;
            ((C *)args.partial)[is_complex ? 2 * place + part : place] =
                negate_if<F>(args.reduction == MYLIB_MIN, value);
        }
    }
}

} // namespace
