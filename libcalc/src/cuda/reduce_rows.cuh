/*
 * reduce_rows.cuh - the kernel of rows: a warp reduces a block of terms that are contiguous or
 * strided, in one run or in long ones.
 */
#pragma once

#include "reduce_values.cuh"

namespace
{

/*
 * Reduces a full block at a[0], aligned to 16 bytes, of elements of type S: element j of vector v
 * of thread t is lane (32 v + t) E + j.  A chunk of rows is loaded before the first is used.
 */
template <typename F, typename C, typename S, term_kind KIND>
__device__ __forceinline__ C reduce_full_row(F f, int op, const char *a, const char *b)
{
    constexpr int E = 16 / sizeof(S), V = LANES / (WARP * E);
    constexpr int AHEAD = KIND == PRODUCTS ? 4 : 8, CHUNK = V < AHEAD ? AHEAD / V : 1;
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
            if constexpr (KIND == PRODUCTS)
                *(uint4 *)y[i] = __ldcs((const uint4 *)(b + i * WARP * 16));
        }
        a += CHUNK * V * WARP * 16;
        b += CHUNK * V * WARP * 16;
#pragma unroll
        for (int i = 0; i < CHUNK * V; i++) {
#pragma unroll
            for (int j = 0; j < E; j++) {
                C term = make_term<KIND>(op, convert<C>(x[i][j]));
                if constexpr (KIND == PRODUCTS)
                    term = product(term, convert<C>(y[i][j]));
                C both = f(acc[i % V][j], term);
                acc[i % V][j] = F::REDUCTION != MYLIB_SUM && i < V && r == 0 ? term : both;
            }
        }
    }
    return reduce_vectors(f, acc);
}

/* Other terms are contiguous, for the sake of smaller code. */
template <typename F, term_kind KIND>
constexpr bool MAY_BE_STRIDED = KIND == STORED &&F::REDUCTION != MYLIB_PROD;

/* Gives the place of a warp's next terms: `turn` more of this run, then `jump` bytes on. */
struct run_place {
    const char *p;
    int32_t turn, rows_left;
    int64_t jump;
};

__device__ __forceinline__ int64_t jump_of(const reduce_args &args, int32_t rows_left)
{
    return args.walk[0].end_of_row + (rows_left == 1 ? args.walk[0].end_of_plane : 0);
}

/* Returns the place of a block of an output's terms, of which a[0] is the first. */
__device__ __forceinline__ run_place place_of_block(const reduce_args &args, const char *a,
                                                    int64_t term)
{
    if (args.ndim <= args.kept_ndim + 1)
        return {a + term * args.walk[0].stride[0], INT32_MAX, 1, 0};
    const term_place at = place_of_term(args, term);
    const int32_t rows_left = limit_size(args.rows - at.row);
    return {a + offset_of(args.walk[0], at), limit_size(args.columns - at.column), rows_left,
            jump_of(args, rows_left)};
}

/* Goes on by `terms`, which are less than a run; only `is_any` may have a stride and a turn. */
template <typename S>
__device__ __forceinline__ void go_on(const reduce_args &args, bool is_any, int terms,
                                      run_place &at)
{
    at.p += terms * (is_any ? (int32_t)args.walk[0].stride[0] : (int32_t)sizeof(S));
    at.turn -= terms;
    if (!is_any || at.turn > 0)
        return;
    at.p += at.jump;
    at.turn += args.row_width;
    if (--at.rows_left == 0)
        at.rows_left = args.plane_height;
    at.jump = jump_of(args, at.rows_left);
}

/*
 * Combines SOME rows of lanes from `at` on with acc: value v of thread t is lane 32 v + t.  Only
 * `left` terms exist, at least one.  All loads come before the first use; a missing term reloads
 * another, since nvcc would move each conditional load just before its use.
 */
template <typename S, term_kind KIND, int SOME, typename F, typename C, int V>
__device__ __forceinline__ void take_rows(F f, const reduce_args &args, const run_place &at,
                                          const char *b, int left, bool is_first, C (&acc)[V])
{
    constexpr int N = SOME * V;
    const int t = threadIdx.x % WARP, mine = left > t ? (left - t - 1) / WARP + 1 : 0;
    const int start = t < left ? t : 0, last = mine > 0 ? mine - 1 : 0;
    const bool is_any = MAY_BE_STRIDED<F, KIND>;
    const int step = is_any ? (int32_t)args.walk[0].stride[0] : (int)sizeof(S);
    const S *const p = (const S *)at.p, *const q = (const S *)b;
    S x[N], y[KIND == PRODUCTS ? N : 1];
    if (left >= SOME * LANES && (!is_any || at.turn >= SOME * LANES) && step == (int)sizeof(S)) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            x[i] = p[start + i * WARP];
            if constexpr (KIND == PRODUCTS)
                y[i] = q[start + i * WARP];
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) {
            const int term = start + (i < last ? i : last) * WARP;
            const int64_t place = (int64_t)term * step + (!is_any || term < at.turn ? 0 : at.jump);
            x[i] = *(const S *)(at.p + place);
            if constexpr (KIND == PRODUCTS)
                y[i] = q[term];
        }
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        C term = make_term<KIND>(args.op, convert<C>(x[i]));
        if constexpr (KIND == PRODUCTS)
            term = product(term, convert<C>(y[i]));
        const C both = is_first && i < V ? term : f(acc[i % V], term);
        if (i < mine)
            acc[i % V] = both;
    }
}

/* Reduces n terms whose addresses are multiples of their size. */
template <typename F, typename C, typename S, term_kind KIND>
__device__ __forceinline__ C reduce_any_row(F f, const reduce_args &args, int n, run_place at,
                                            const char *b)
{
    constexpr int V = LANES / WARP, SOME = sizeof(C) * (KIND == PRODUCTS ? 2 : 1) <= 4 ? 2 : 1;
    static_assert(SOME * LANES <= MYLIB_LEAST_RUN, "at most one turn");
    int t = threadIdx.x % WARP, lanes = n < LANES ? n : LANES;
    C acc[V];
#pragma unroll 1
    for (int left = n; left > 0; left -= SOME * LANES) {
        take_rows<S, KIND, SOME>(f, args, at, b, left, left == n, acc);
        go_on<S>(args, MAY_BE_STRIDED<F, KIND>, SOME * LANES, at);
        b += SOME * LANES * sizeof(S);
    }
#pragma unroll
    for (int half = V / 2; half > 0; half /= 2)
#pragma unroll
        for (int v = 0; v < half; v++)
            if ((v + half) * WARP + t < lanes)
                acc[v] = f(acc[v], acc[v + half]);
    return reduce_warp(f, acc[0], lanes);
}

/* Reduces blocks begin to end - 1, at least one, by a warp; thread 0 gets the result. */
template <typename F, typename C, typename S, term_kind KIND>
__device__ __forceinline__ C reduce_blocks(F f, const reduce_args &args, const char *a,
                                           const char *b, int64_t begin, int64_t end, C *level)
{
    C value = C();
#pragma unroll 1
    for (int64_t block = begin; block < end; block++) {
        const int64_t term = block * TERMS, rest = args.terms - term;
        const int64_t at = term * (int64_t)sizeof(S);
        if (rest >= TERMS && args.is_aligned)
            value = reduce_full_row<F, C, S, KIND>(f, args.op, a + at, b + at);
        else
            value = reduce_any_row<F, C, S, KIND>(f, args, rest < TERMS ? (int)rest : TERMS,
                                                  MAY_BE_STRIDED<F, KIND>
                                                      ? place_of_block(args, a, term)
                                                      : run_place{a + at, INT32_MAX, 1, 0},
                                                  b + at);
        if (threadIdx.x % WARP == 0 && end - begin > 1)
            count_block(f, level, (uint32_t)(block - begin), value);
    }
    if (threadIdx.x % WARP == 0 && end - begin > 1)
        value = count_end(f, level, (uint32_t)(end - begin));
    return value;
}

/* S is the type of the stored elements. */
template <typename F, typename C, typename S, term_kind KIND>
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS<C>)
    rows_kernel(const __grid_constant__ reduce_args args)
{
    wait_for_previous();
    const F f(args.reduction);
    alignas(16) __shared__ unsigned char levels[WARPS][MAX_LEVELS * sizeof(C)];
    alignas(16) __shared__ unsigned char storage[WARPS * sizeof(C)];
    const share s = take_share(args);
    if (s.output >= args.outputs)
        return;
    const char *const a = first_term(args, 0, s.output);
    const char *const b = KIND == PRODUCTS ? first_term(args, 1, s.output) : a;
    C value = C();
    if (s.begin < s.end)
        value = reduce_blocks<F, C, S, KIND>(f, args, a, b, s.begin, s.end,
                                             (C *)levels[threadIdx.x / WARP]);
    finish_warps(f, args, s, (C *)storage, value);
}

} // namespace
