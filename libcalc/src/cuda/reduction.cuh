/*
 * reduction.cuh - shared by the kernels that reduce: combines two values, and reduces the values of
 * a thread, a warp and a block of terms by trees, in the order of mylib.h.
 *
 * A functor F combines two values of any type; F::REDUCTION is the reduction that it stands for, or
 * -1 if that is chosen at run time.
 */
#pragma once

#include "interpreter.cuh"

namespace
{

constexpr int LANES = MYLIB_BLOCK_LANES, TERMS = MYLIB_BLOCK_TERMS;
constexpr int ROWS = TERMS / LANES; /* of lanes in a block */
constexpr int WARP = MYLIB_CUDA_WARP;
constexpr unsigned ALL = 0xffffffff; /* threads of a warp */

/* ---- Combining two values ---- */

/* f(a, b) combines a with b; a has the earlier terms. */
template <int R> struct combine {
    static constexpr int REDUCTION = R;
    __host__ __device__ __forceinline__ combine(int = R) {}
    template <typename C> __device__ __forceinline__ C operator()(C a, C b) const
    {
        if constexpr (R == MYLIB_SUM)
            return meaning<MYLIB_OP_add, C>::apply(a, b);
        else if constexpr (R == MYLIB_PROD)
            return meaning<MYLIB_OP_multiply, C>::apply(a, b);
        else if constexpr (R == MYLIB_MIN)
            return meaning<MYLIB_OP_minimum, C>::apply(a, b);
        else
            return meaning<MYLIB_OP_maximum, C>::apply(a, b);
    }
};

/* Calls g with the functor of a reduction that is known at run time only. */
#pragma nv_exec_check_disable
template <typename G> __host__ __device__ __forceinline__ auto with_reduction(int reduction, G g)
{
    switch (reduction) {
    case MYLIB_SUM:
        return g(combine<MYLIB_SUM>());
    case MYLIB_PROD:
        return g(combine<MYLIB_PROD>());
    case MYLIB_MIN:
        return g(combine<MYLIB_MIN>());
    default:
        return g(combine<MYLIB_MAX>());
    }
}

/* Chooses at run time: for work that is not done for each term. */
struct combine_any {
    static constexpr int REDUCTION = -1;
    int reduction;
    __device__ __forceinline__ combine_any(int number) : reduction(number) {}
    template <typename C> __device__ __forceinline__ C operator()(C a, C b) const
    {
        return with_reduction(reduction, [&](auto f) { return f(a, b); });
    }
};

template <typename C> __device__ __forceinline__ C lowest_of()
{
    return (C)-1 < (C)0 ? (C)((uint64_t)1 << (8 * sizeof(C) - 1)) : (C)0;
}

/* Returns the identity element, exact even for the sign of a zero: -0 + x is x. */
template <int R, typename C> __device__ __forceinline__ C identity()
{
    constexpr element_class CLASS = class_of<C>::value;
    static_assert(R == MYLIB_SUM || CLASS != COMPLEX, "other reductions have none");
    if constexpr (CLASS == COMPLEX) {
        typedef typename real_of<C>::type part;
        return {identity<R, part>(), identity<R, part>()};
    } else if constexpr (R == MYLIB_SUM) {
        return CLASS == FLOAT ? (C)-0.0 : (C)0;
    } else if constexpr (R == MYLIB_PROD) {
        return (C)1;
    } else if constexpr (CLASS == FLOAT) {
        constexpr C INFINITE = sizeof(C) == 4 ? (C)__builtin_huge_valf() : (C)__builtin_huge_val();
        return R == MYLIB_MIN ? INFINITE : -INFINITE;
    } else {
        static_assert(R == MYLIB_MAX, "a minimum of integers is a maximum of flipped bits");
        return lowest_of<C>();
    }
}

/* ---- Trees ---- */

/* Reduces values pairwise in place; the first one gets the result. */
template <typename F, typename C>
__device__ __forceinline__ void reduce_pairwise(F f, C *value, int count)
{
#pragma unroll 1
    for (int step = 1; step < count; step *= 2)
#pragma unroll 1
        for (int i = 0; i + step < count; i += 2 * step)
            value[i] = f(value[i], value[i + step]);
}

/* Returns the value of the thread whose index in the warp differs in the bits of `mask`. */
template <typename C> __device__ __forceinline__ C shuffle(C x, int mask)
{
    uint32_t words[sizeof(C) / 4];
    memcpy(words, &x, sizeof x);
#pragma unroll
    for (int i = 0; i < (int)sizeof(C) / 4; i++)
        words[i] = __shfl_xor_sync(ALL, words[i], mask);
    memcpy(&x, words, sizeof x);
    return x;
}

/* Combines a thread's value with its partner's, whose terms come before or after its own. */
template <typename F, typename C>
__device__ __forceinline__ C combine_in_order(F f, const C &own, const C &other, bool is_later)
{
    /* Sums and products commute; equal minima may differ in sign. */
    if constexpr (F::REDUCTION == MYLIB_SUM || F::REDUCTION == MYLIB_PROD)
        return f(own, other);
    else
        return f(is_later ? other : own, is_later ? own : other);
}

/* Combines the values of threads that are `half` apart; both get the result. */
template <typename F, typename C> __device__ __forceinline__ C combine_pair(F f, C value, int half)
{
    return combine_in_order(f, value, shuffle(value, half), (threadIdx.x & half) != 0);
}

/*
 * Reduces the lanes of a warp: value j of thread t is lane t E + j.  While a thread has several
 * values, it swaps half of them with its partner, so that no sum is computed twice.
 */
template <typename F, typename C, int E>
__device__ __forceinline__ C reduce_full_warp(F f, C (&x)[E])
{
    int half = WARP / 2;
#pragma unroll
    for (int e = E / 2; e > 0; e /= 2, half /= 2) {
        bool is_later = (threadIdx.x & half) != 0;
#pragma unroll
        for (int j = 0; j < e; j++) {
            C early = x[j], late = x[j + e], kept = is_later ? late : early;
            C other = shuffle(is_later ? early : late, half);
            x[j] = combine_in_order(f, kept, other, is_later);
        }
    }
    C value = x[0];
#pragma unroll
    for (; half > 0; half /= 2)
        value = combine_pair(f, value, half);

        /* Combine the swapped halves, the larger first. */
#pragma unroll
    for (half = WARP / 2; half >= WARP / E && half > 0; half /= 2)
        if (E > 1)
            value = combine_pair(f, value, half);
    return value;
}

/* Reduces all lanes of a block: value j of vector v of thread t is lane (32 v + t) E + j. */
template <typename F, typename C, int V, int E>
__device__ __forceinline__ C reduce_vectors(F f, C (&x)[V][E])
{
#pragma unroll
    for (int half = V / 2; half > 0; half /= 2)
#pragma unroll
        for (int v = 0; v < half; v++)
#pragma unroll
            for (int j = 0; j < E; j++)
                x[v][j] = f(x[v][j], x[v + half][j]);
    return reduce_full_warp(f, x[0]);
}

/*
 * 2^bits threads share an output, and thread `sub` takes lanes sub, sub + 2^bits, ... The tree
 * visits these, 2^steps of them, in the order of their bit-reversed numbers.
 */
__device__ __forceinline__ int lane_of(unsigned m, int sub, int steps, int bits)
{
    return sub + (steps == 0 ? 0 : (int)(__brev(m) >> (32 - steps)) << bits);
}

/* Terms are elements, products of two, or squares or magnitudes of floats (mylib_terms). */
enum term_kind { STORED, PRODUCTS, MAPPED };

/* Makes a term of an element.  Other kernels do without the choice of `op`. */
template <term_kind KIND, typename C> __device__ __forceinline__ C make_term(int op, C x)
{
    if constexpr (KIND == MAPPED)
        return op == MYLIB_OP_square ? meaning<MYLIB_OP_square, C>::apply(x, x)
                                     : meaning<MYLIB_OP_absolute, C>::apply(x, x);
    return x;
}

/* The places of terms that are `step` bytes apart. */
struct evenly {
    const char *p;
    int step;
    __device__ __forceinline__ const char *operator()(int i) const { return p + i * step; }
};

/*
 * Combines at most N terms, the i-th of which is at place(i), in the order of the tree over lanes;
 * `count` of them exist, at least SURE.  Terms beyond N belong to further rows of lanes.
 */
template <int N, int SURE, typename S, typename F, typename C, term_kind KIND = STORED,
          typename PLACE>
__device__ __forceinline__ C reduce_few(F f, PLACE place, int count, int op = 0)
{
    C x[N];
    const auto term = [&](int i) {
        return make_term<KIND>(op, convert<C>(load_element<S>(place(i))));
    };
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i < SURE || i < count)
            x[i] = term(i);
    if constexpr (SURE == N) {
#pragma unroll 1
        for (int done = N; done < count; done += N)
#pragma unroll
            for (int i = 0; i < N; i++)
                if (done + i < count)
                    x[i] = f(x[i], term(done + i));
    }
#pragma unroll
    for (int half = N > 4 ? 4 : N > 2 ? 2 : 1; half > 0; half /= 2)
#pragma unroll
        for (int i = 0; i < half; i++)
            if (i + half < N && (i + half < SURE || i + half < count))
                x[i] = f(x[i], x[i + half]);
    return x[0];
}

} // namespace
