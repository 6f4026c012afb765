/*
 * block_reduce.h - reductions of one block of contiguous terms: sums, products, minima, maxima and
 * sums of products.
 *
 * mylib.h promises the order of the terms, so it must not change: rows of 256 lanes are combined
 * lane by lane, then the lanes pairwise.
 *
 * These loops stay macros.  For force-inlined functions clang makes worse code: it unrolls them
 * before it knows the operation.
 */
#pragma once

#include "counting.h"
#include "cpu/half.h"
#include "cpu/loops.h"

BEGIN_WITHOUT_CHOICES
BEGIN_EXPANDED

#define BLOCK_KERNEL(name) \
    static void name(ptrdiff_t n, char *result, const char *a, \
                     const char *b __attribute__((unused)))

/* The bytes of a few vectors, which stay in registers. */
#define SPAN_NBYTES 256

/* ---- Vectors ---- */

#if defined(HAS_V4)
#define VECTOR_NBYTES 64
#elif defined(HAS_V3)
#define VECTOR_NBYTES 32
#else
#define VECTOR_NBYTES 16
#endif

#if defined(HAS_V3) && !defined(HAS_V4)
static const uint32_t first_bits[2 * VECTOR_NBYTES / 4] = {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u};
#endif

/*
 * load_vector_T() loads a vector of T.  load_up_to_T() loads at most n elements, and reads no
 * others; the rest of the vector is `nothing`.
 */
#define VECTOR(s, masked_load_v4) \
    typedef t_##s v_##s __attribute__((vector_size(VECTOR_NBYTES))); \
    static ALWAYS_INLINE v_##s load_vector_##s(const char *p) \
    { \
        v_##s x; \
        memcpy(&x, p, sizeof x); \
        return x; \
    } \
    static ALWAYS_INLINE v_##s load_up_to_##s(const char *p, ptrdiff_t n, v_##s nothing) \
    { \
        if (n >= (ptrdiff_t)(VECTOR_NBYTES / sizeof(t_##s))) \
            return load_vector_##s(p); \
        if (n <= 0) \
            return nothing; \
        LOAD_FIRST(s, masked_load_v4) \
    }
#if defined(HAS_V4)
#define LOAD_FIRST(s, masked_load_v4) \
    return (v_##s)masked_load_v4(nothing, (uint16_t)((1u << n) - 1), p);
#elif defined(HAS_V3)
#define LOAD_FIRST(s, masked_load_v4) \
    const __m256i mask = _mm256_loadu_si256( \
        (const __m256i *)((const char *)first_bits + VECTOR_NBYTES - n * (int)sizeof(t_##s))); \
    const __m256 first = _mm256_maskload_ps((const float *)p, mask); \
    return (v_##s)_mm256_blendv_ps((__m256)nothing, first, (__m256)mask);
#else
#define LOAD_FIRST(s, masked_load_v4) \
    for (ptrdiff_t k = 0; k < n; k++) { \
        STAYS_SCALAR; \
        nothing[k] = load_##s(p + k * (ptrdiff_t)sizeof(t_##s)); \
    } \
    return nothing;
#endif
VECTOR(f32, _mm512_mask_loadu_ps)
VECTOR(f64, _mm512_mask_loadu_pd)

/* ---- Sums and products of floats ---- */

/*
 * Combines `lanes` lanes pairwise; if complex numbers are added part by part, each is PARTS lanes.
 * Absent lanes are NOTHING, which changes no number: -0 + x is x even if x is 0.
 */
#define FOLD(name, s, PARTS, NOTHING, OP) \
    NOINLINE static void name(ptrdiff_t lanes, char *result, const char *p) \
    { \
        enum { W = VECTOR_NBYTES / sizeof(t_##s), QUARTER = MYLIB_BLOCK_LANES * (PARTS) / 4 }; \
        enum { VECTORS = QUARTER / W, NEXT = QUARTER * sizeof(t_##s) }; \
        const v_##s nothing = NOTHING - (v_##s){0}; \
        const ptrdiff_t used = (lanes + W - 1) / W, first = mylib_lesser(used, VECTORS); \
        v_##s part[VECTORS]; \
        if (used < VECTORS) \
            for (ptrdiff_t i = 0; i < VECTORS; i++) \
                part[i] = nothing; \
        NOT_UNROLLED for (ptrdiff_t i = 0; i < first; i++, p += VECTOR_NBYTES) \
        { \
            const ptrdiff_t n = lanes - i * W; \
            part[i] = load_up_to_##s(p, n, nothing); \
            if (n > 2 * QUARTER) \
                part[i] = (part[i] OP load_up_to_##s(p + 2 * NEXT, n - 2 * QUARTER, nothing)) \
                    OP(load_vector_##s(p + NEXT) \
                           OP load_up_to_##s(p + 3 * NEXT, n - 3 * QUARTER, nothing)); \
            else if (n > QUARTER) \
                part[i] = part[i] OP load_up_to_##s(p + NEXT, n - QUARTER, nothing); \
        } \
        HALVE_LANES(32, OP) \
        HALVE_LANES(16, OP) \
        HALVE_LANES(8, OP) \
        HALVE_LANES(4, OP) \
        part[0] = (part[0] OP part[2])OP(part[1] OP part[3]); \
        t_##s last[W]; \
        memcpy(last, part, sizeof last); \
        if ((NOTHING) == 0) { \
            for (ptrdiff_t half = W / 2; half >= (PARTS); half /= 2) \
                for (ptrdiff_t i = 0; i < half; i++) \
                    last[i] = last[i] OP last[i + half]; \
        } else { /* gcc would fill vectors with zeros; infinity times 0 raises a flag */ \
            NOT_UNROLLED for (ptrdiff_t half = W / 2; half >= (PARTS); half /= 2) \
                NOT_UNROLLED for (ptrdiff_t i = 0; i < half; i++) \
            { \
                STAYS_SCALAR; \
                last[i] = last[i] OP last[i + half]; \
            } \
        } \
        memcpy(result, last, (PARTS) * sizeof *last); \
    }

#define HALVE_LANES(half, OP) \
    if (VECTORS > (half) && used > (half)) \
        for (ptrdiff_t i = 0; i < (half) && i + (half) < VECTORS; i++) \
            part[i] = part[i] OP part[i + (half)];

/*
 * Reduces n terms; TERM(s, at, m) is a vector of at most m terms, `at` bytes behind the first.
 * With IN_PLACE they are the elements at `a`.
 */
#define BLOCK(name, s, PARTS, NOTHING, IN_PLACE, TERM, OP, fold) \
    BLOCK_KERNEL(name) \
    { \
        enum { W = VECTOR_NBYTES / sizeof(t_##s), SPAN = SPAN_NBYTES / VECTOR_NBYTES }; \
        enum { ROW = MYLIB_BLOCK_LANES * (PARTS) * sizeof(t_##s) }; \
        const v_##s nothing = NOTHING - (v_##s){0}; \
        v_##s lane[ROW / VECTOR_NBYTES]; \
        n *= (PARTS); \
        const ptrdiff_t rows = n * (ptrdiff_t)sizeof(t_##s) / ROW; \
        if (IN_PLACE && n <= MYLIB_BLOCK_LANES * (PARTS) / 2) { \
            if (n == (PARTS)) /* adding nothing to a signaling NaN would raise a flag */ \
                memcpy(result, a, (PARTS) * sizeof(t_##s)); \
            else \
                fold(n, result, a); \
            return; \
        } \
        /* Longer rows are read in the order of memory, which processors fetch ahead. */ \
        for (ptrdiff_t i = 0; i < (rows > 0) * ROW; i += VECTOR_NBYTES) \
            lane[i / VECTOR_NBYTES] = TERM(s, i, W); \
        for (ptrdiff_t i = ROW; i < rows * ROW; i += ROW) \
            NOT_UNROLLED for (ptrdiff_t at = 0; at < ROW; at += SPAN_NBYTES) \
            { \
                v_##s *part = lane + at / VECTOR_NBYTES; \
                for (ptrdiff_t k = 0; k < SPAN; k++) \
                    part[k] = part[k] OP TERM(s, i + at + k * VECTOR_NBYTES, W); \
            } \
        ptrdiff_t rest = n - rows * (ROW / (ptrdiff_t)sizeof(t_##s)); \
        NOT_UNROLLED for (ptrdiff_t i = 0; rest > 0; i++, rest -= W) \
        { \
            const v_##s x = TERM(s, rows * ROW + i * VECTOR_NBYTES, rest); \
            lane[i] = rows > 0 ? lane[i] OP x : x; \
        } \
        fold(rows > 0 ? ROW / (ptrdiff_t)sizeof(t_##s) : n, result, (const char *)lane); \
    }
#define TERM_SAME(s, at, m) load_up_to_##s(a + (at), m, nothing)
#define TERM_PRODUCT(s, at, m) (TERM_SAME(s, at, m) * load_up_to_##s(b + (at), m, (v_##s){0}))
FOLD(fold_add_f32, f32, 1, -0.0f, +)
FOLD(fold_add_f64, f64, 1, -0.0, +)
FOLD(fold_pairs_f32, f32, 2, -0.0f, +)
FOLD(fold_pairs_f64, f64, 2, -0.0, +)
FOLD(fold_multiply_f32, f32, 1, 1.0f, *)
FOLD(fold_multiply_f64, f64, 1, 1.0, *)
BLOCK(sum_block_f32, f32, 1, -0.0f, 1, TERM_SAME, +, fold_add_f32)
BLOCK(sum_block_f64, f64, 1, -0.0, 1, TERM_SAME, +, fold_add_f64)
BLOCK(sum_block_c64, f32, 2, -0.0f, 1, TERM_SAME, +, fold_pairs_f32)
BLOCK(sum_block_c128, f64, 2, -0.0, 1, TERM_SAME, +, fold_pairs_f64)
BLOCK(prod_block_f32, f32, 1, 1.0f, 1, TERM_SAME, *, fold_multiply_f32)
BLOCK(prod_block_f64, f64, 1, 1.0, 1, TERM_SAME, *, fold_multiply_f64)
BLOCK(dot_block_f32, f32, 1, -0.0f, 0, TERM_PRODUCT, +, fold_add_f32)
BLOCK(dot_block_f64, f64, 1, -0.0, 0, TERM_PRODUCT, +, fold_add_f64)
#undef TERM_SAME

BLOCK_KERNEL(sum_block_f16)
{
    float wide[MYLIB_BLOCK_TERMS];
    widen(n, wide, a);
    sum_block_f32(n, result, (const char *)wide, b);
}

/* ---- Integers ---- */

#define CHUNK 16 /* elements */
#define TERM_SAME(s, i) load_##s(a + (i) * (ptrdiff_t)sizeof(t_##s))
#define TERM_WIDENED(s, i) ((t_u64)TERM_SAME(s, i)) /* negative terms modulo 2^64 */

/* Reduces n integers in C, in any order: lanes stay in registers, and nothing is folded. */
#define EXACT_BLOCK(name, s, C, TERM, COMBINE) \
    BLOCK_KERNEL(name) \
    { \
        enum { SPAN = SPAN_NBYTES / sizeof(C) }; \
        C total = (C)TERM(s, 0); \
        ptrdiff_t i = 1; \
        if (n >= CHUNK) { \
            C last[CHUNK]; \
            for (ptrdiff_t k = 0; k < CHUNK; k++) \
                last[k] = (C)TERM(s, k); \
            i = CHUNK; \
            if (n >= CHUNK + SPAN) { \
                C part[SPAN]; \
                for (ptrdiff_t k = 0; k < SPAN; k++) \
                    part[k] = (C)TERM(s, i + k); \
                NOT_UNROLLED for (i += SPAN; i + SPAN <= n; i += SPAN) \
                { \
                    for (ptrdiff_t k = 0; k < SPAN; k++) \
                        part[k] = COMBINE(part[k], TERM(s, i + k)); \
                } \
                for (ptrdiff_t l = 0; l < SPAN; l += CHUNK) \
                    for (ptrdiff_t k = 0; k < CHUNK; k++) \
                        last[k] = COMBINE(last[k], part[l + k]); \
            } \
            NOT_UNROLLED for (; i + CHUNK <= n; i += CHUNK) \
            { \
                for (ptrdiff_t k = 0; k < CHUNK; k++) \
                    last[k] = COMBINE(last[k], TERM(s, i + k)); \
            } \
            total = last[0]; \
            for (ptrdiff_t k = 1; k < CHUNK; k++) \
                total = COMBINE(total, last[k]); \
        } \
        for (; i < n; i++) { \
            STAYS_SCALAR; \
            total = COMBINE(total, TERM(s, i)); \
        } \
        memcpy(result, &total, sizeof total); \
    }

#define SUM(op, s) EXACT_BLOCK(sum_block_##s, s, t_u64, TERM_WIDENED, add_u64)
SUM(, i32)
SUM(, i64)
SUM(, u32)
SUM(, u64)
#if defined(__AVX2__)
/*
 * Sums of integers are exact in any order, and some instructions add neighbours: of unsigned bytes,
 * and of signed two-byte integers.  `bias` shifts the other types into their range.
 */
#define NARROW_SUM(s, bias_bits, bias_value, ADD_NEIGHBOURS, bits) \
    BLOCK_KERNEL(sum_block_##s) \
    { \
        const ptrdiff_t w = sizeof(t_##s), lanes = (ptrdiff_t)sizeof(__m256i) / w; \
        const __m256i bias = bias_bits; \
        __m256i sums = _mm256_setzero_si256(); \
        ptrdiff_t i = 0; \
        int64_t sum = 0; \
        for (; i + lanes <= n; i += lanes) { \
            __m256i x = _mm256_loadu_si256((const __m256i *)(a + i * w)); \
            sums = _mm256_add_epi##bits(sums, ADD_NEIGHBOURS(_mm256_xor_si256(x, bias))); \
        } \
        sum = sum_of_lanes_##bits(sums) + i * (bias_value); \
        for (; i < n; i++) { \
            STAYS_SCALAR; \
            sum += load_##s(a + i * w); \
        } \
        memcpy(result, &sum, sizeof sum); \
    }
static inline int64_t sum_of_lanes_64(__m256i sums)
{
    int64_t part[4];
    _mm256_storeu_si256((__m256i *)part, sums);
    return part[0] + part[1] + part[2] + part[3];
}
static inline int64_t sum_of_lanes_32(__m256i sums)
{
    int32_t part[8];
    int64_t sum = 0;
    _mm256_storeu_si256((__m256i *)part, sums);
    for (int i = 0; i < 8; i++)
        sum += part[i];
    return sum;
}
/* A lane adds pairs of two-byte integers. */
_Static_assert(MYLIB_BLOCKS_AT_ONCE *MYLIB_BLOCK_TERMS / 8 < 1 << 15, "the sums fit int32_t");
#define ADD_BYTES(x) _mm256_sad_epu8(x, _mm256_setzero_si256())
#define ADD_PAIRS(x) _mm256_madd_epi16(x, _mm256_set1_epi16(1))
NARROW_SUM(u8, _mm256_setzero_si256(), 0, ADD_BYTES, 64)
NARROW_SUM(i8, _mm256_set1_epi8(INT8_MIN), INT8_MIN, ADD_BYTES, 64)
NARROW_SUM(i16, _mm256_setzero_si256(), 0, ADD_PAIRS, 32)
NARROW_SUM(u16, _mm256_set1_epi16(INT16_MIN), -INT16_MIN, ADD_PAIRS, 32)
#else
SUM(, i8)
SUM(, i16)
SUM(, u8)
SUM(, u16)
#endif
EXACT_BLOCK(prod_block_u64, u64, t_u64, TERM_WIDENED, multiply_u64)

/* Adds rows of integers to the sums of their columns, a span of which stays in registers. */
#define SUM_COLUMNS(s) \
    NOINLINE static void sum_columns_##s(ptrdiff_t rows, ptrdiff_t row_stride, ptrdiff_t columns, \
                                         const char *p, char *sums) \
    { \
        enum { SPAN = SPAN_NBYTES / sizeof(t_u64) }; \
        for (ptrdiff_t n; columns > 0; columns -= n, p += n * (ptrdiff_t)sizeof(t_##s)) { \
            t_u64 part[SPAN]; \
            const char *a = p; \
            n = mylib_lesser(columns, SPAN); \
            memcpy(part, sums, (size_t)n * sizeof *part); \
            NOT_UNROLLED for (ptrdiff_t i = 0; i < rows; i++, a += row_stride) \
            { \
                if (n == SPAN) \
                    for (ptrdiff_t k = 0; k < SPAN; k++) \
                        part[k] += TERM_WIDENED(s, k); \
                else \
                    for (ptrdiff_t k = 0; k < n; k++) \
                        part[k] += TERM_WIDENED(s, k); \
            } \
            memcpy(sums, part, (size_t)n * sizeof *part); \
            sums += sizeof part; \
        } \
    }
SUM_COLUMNS(i8)
SUM_COLUMNS(i16)
SUM_COLUMNS(i32)
SUM_COLUMNS(i64)
SUM_COLUMNS(u8)
SUM_COLUMNS(u16)
SUM_COLUMNS(u32)
SUM_COLUMNS(u64)

/* ---- Minima and maxima, complex products ---- */

#define IN_ORDER(name, s, COMBINE) \
    NOINLINE static void name(ptrdiff_t n, char *result, const char *a) \
    { \
        t_##s lane[MYLIB_BLOCK_LANES]; \
        const ptrdiff_t lanes = mylib_lesser(n, MYLIB_BLOCK_LANES); \
        memcpy(lane, a, (size_t)lanes * sizeof *lane); \
        NOT_UNROLLED for (ptrdiff_t t = MYLIB_BLOCK_LANES; t < n; t += MYLIB_BLOCK_LANES) \
        { \
            const ptrdiff_t end = mylib_lesser(n - t, MYLIB_BLOCK_LANES); \
            NOT_UNROLLED for (ptrdiff_t l = 0; l < end; l++) \
            { \
                lane[l] = COMBINE(lane[l], TERM_SAME(s, t + l)); \
            } \
        } \
        NOT_UNROLLED for (ptrdiff_t half = MYLIB_BLOCK_LANES / 2; half > 0; half /= 2) \
            NOT_UNROLLED for (ptrdiff_t l = 0; l < mylib_lesser(lanes - half, half); l++) \
        { \
            STAYS_SCALAR; /* for short code */ \
            lane[l] = COMBINE(lane[l], lane[l + half]); \
        } \
        memcpy(result, lane, sizeof *lane); \
    }

/* Finds a NaN, else the least (or greatest: BETTER is >) number. */
#define EXTREME(name, s, BETTER) \
    NOINLINE static void name(ptrdiff_t n, char *result, const char *a) \
    { \
        enum { SPAN = SPAN_NBYTES / sizeof(t_##s), FEW = sizeof(t_##s) == 1 ? 32 : 16 }; \
        t_##s best = TERM_SAME(s, 0), nan = 0; \
        if (n >= SPAN) { \
            EXTREME_OF_SPANS(s, BETTER, SPAN) \
        } else if (n >= FEW) { \
            EXTREME_OF_SPANS(s, BETTER, FEW) \
        } else { \
            NOT_UNROLLED for (ptrdiff_t i = 0; i < n; i++) \
            { \
                STAYS_SCALAR; \
                CHOOSE(best, nan, TERM_SAME(s, i), BETTER) \
            } \
        } \
        best = nan == 0 ? best : nan; \
        memcpy(result, &best, sizeof best); \
    }
#define CHOOSE(best, nan, term, BETTER) \
    best = (term)BETTER best ? (term) : best; \
    nan = (term) != (term) ? (term) : nan;
#define EXTREME_OF_SPANS(s, BETTER, SPAN) \
    enum { NANS = MYLIB_CLASS_##s < HALF ? 1 : (SPAN) }; /* integers need none */ \
    t_##s part[SPAN], nans[NANS] = {0}; \
    for (ptrdiff_t k = 0; k < SPAN; k++) \
        part[k] = TERM_SAME(s, k); \
    NOT_UNROLLED for (ptrdiff_t i = (MYLIB_CLASS_##s < HALF) * SPAN; i < n; i += SPAN) \
    { \
        const ptrdiff_t at = i < n - SPAN ? i : n - SPAN; \
        STAYS_SCALAR; /* this loop, not the one inside */ \
        for (ptrdiff_t k = 0; k < SPAN; k++) { \
            const t_##s x = TERM_SAME(s, at + k); \
            CHOOSE(part[k], nans[k % NANS], x, BETTER) \
        } \
    } \
    NOT_UNROLLED for (ptrdiff_t l = FEW; l < SPAN; l += FEW) \
    { \
        STAYS_SCALAR; \
        for (ptrdiff_t k = 0; k < FEW; k++) { \
            part[k] = part[l + k] BETTER part[k] ? part[l + k] : part[k]; \
            nans[k % NANS] = nans[(l + k) % NANS] != 0 ? nans[(l + k) % NANS] : nans[k % NANS]; \
        } \
    } \
    for (ptrdiff_t k = 0; k < FEW; k++) { \
        best = part[k] BETTER best ? part[k] : best; \
        nan = nans[k % NANS] != 0 ? nans[k % NANS] : nan; \
    }

#define EXACT_EXTREME(op, s, BETTER) \
    EXTREME(op##_of_##s, s, BETTER) \
    BLOCK_KERNEL(op##_block_##s) { op##_of_##s(n, result, a); }

#if defined(HAS_V3)
#define FLOAT_EXTREME_OF(name, s, p, op, BETTER) \
    NOINLINE static void name(ptrdiff_t n, char *result, const char *a) \
    { \
        enum { W = 32 / sizeof(t_##s) }; \
        t_##s best = TERM_SAME(s, 0), nan = 0, last[W]; \
        if (n >= W) { \
            const t_##s *from = (const t_##s *)a; \
            V3(p) part = _mm256_loadu_##p(from), nans = _mm256_cmp_##p(part, part, _CMP_UNORD_Q); \
            if (n >= 4 * W) { \
                V3(p) b = part, c = part, d = part; \
                NOT_UNROLLED for (ptrdiff_t i = 0; i < n; i += 4 * W) \
                { \
                    from = (const t_##s *)a + (i < n - 4 * W ? i : n - 4 * W); \
                    const V3(p) w = _mm256_loadu_##p(from), x = _mm256_loadu_##p(from + W); \
                    const V3(p) y = _mm256_loadu_##p(from + 2 * W); \
                    const V3(p) z = _mm256_loadu_##p(from + 3 * W); \
                    part = _mm256_##op##_##p(w, part), b = _mm256_##op##_##p(x, b); \
                    c = _mm256_##op##_##p(y, c), d = _mm256_##op##_##p(z, d); \
                    nans = _mm256_or_##p(nans, _mm256_cmp_##p(w, x, _CMP_UNORD_Q)); \
                    nans = _mm256_or_##p(nans, _mm256_cmp_##p(y, z, _CMP_UNORD_Q)); \
                } \
                part = _mm256_##op##_##p(_mm256_##op##_##p(part, b), _mm256_##op##_##p(c, d)); \
            } else { \
                NOT_UNROLLED for (ptrdiff_t i = W; i < n; i += W) \
                { \
                    const V3(p) x = _mm256_loadu_##p(from + (i < n - W ? i : n - W)); \
                    part = _mm256_##op##_##p(x, part); \
                    nans = _mm256_or_##p(nans, _mm256_cmp_##p(x, x, _CMP_UNORD_Q)); \
                } \
            } \
            _mm256_storeu_##p(last, part); \
            nan = _mm256_movemask_##p(nans) != 0 ? (t_##s)NAN : 0; \
            a = (const char *)last; \
            n = W; \
        } \
        NOT_UNROLLED for (ptrdiff_t i = 0; i < n; i++) \
        { \
            STAYS_SCALAR; \
            CHOOSE(best, nan, TERM_SAME(s, i), BETTER) \
        } \
        best = nan == 0 ? best : nan; \
        memcpy(result, &best, sizeof best); \
    }
#define V3(p) __typeof__(_mm256_setzero_##p())
#else
#define FLOAT_EXTREME_OF(name, s, p, op, BETTER) EXTREME(name, s, BETTER)
#endif

/* Zeros of both signs are left to the order of mylib.h. */
#define FLOAT_EXTREME(name, s, p, op, BETTER) \
    FLOAT_EXTREME_OF(name##_of_##s, s, p, op, BETTER) \
    IN_ORDER(name##_in_order_##s, s, name##_##s) \
    static void name##_in_any_order_##s(ptrdiff_t n, char *result, const char *a) \
    { \
        name##_of_##s(n, result, a); \
        if (load_##s(result) == 0 && has_both_zeros_##s(n, result, a)) \
            name##_in_order_##s(n, result, a); \
    } \
    BLOCK_KERNEL(name##_block_##s) { QUIETLY(s, name##_in_any_order_##s(n, result, a)) }
#define COMPLEX_EXTREME(op, s) \
    IN_ORDER(op##_in_order_##s, s, op##_##s) \
    BLOCK_KERNEL(op##_block_##s) { QUIETLY(s, op##_in_order_##s(n, result, a)) }

#define EXACT_EXTREMES(s) EXACT_EXTREME(minimum, s, <) EXACT_EXTREME(maximum, s, >)
#define NO_EXTREMES(s)
#define DT(s, S) BY_CLASS(s, EXACT_EXTREMES, NO_EXTREMES, NO_EXTREMES, NO_EXTREMES)(s)
MYLIB_TYPES(DT)
#undef DT
#undef NO_EXTREMES

/*
 * Tells whether the terms include both 0 and -0; else stores the one that they include.  As an
 * integer, -0 is the least signed number, and 0 the least unsigned one.
 */
#define HAS_BOTH_ZEROS(s, I, U) \
    static int has_both_zeros_##s(ptrdiff_t n, char *result, const char *a) \
    { \
        t_##I least; \
        t_##U zero = 0; \
        minimum_of_##I(n, (char *)&least, a); \
        if ((t_##U)least != (t_##U)1 << (8 * sizeof least - 1)) { \
            memcpy(result, &zero, sizeof zero); \
            return 0; \
        } \
        minimum_of_##U(n, (char *)&zero, a); \
        memcpy(result, &least, sizeof least); \
        return zero == 0; \
    }
HAS_BOTH_ZEROS(f32, i32, u32)
HAS_BOTH_ZEROS(f64, i64, u64)
FLOAT_EXTREME(minimum, f32, ps, min, <)
FLOAT_EXTREME(maximum, f32, ps, max, >)
FLOAT_EXTREME(minimum, f64, pd, min, <)
FLOAT_EXTREME(maximum, f64, pd, max, >)
COMPLEX_EXTREME(minimum, c64)
COMPLEX_EXTREME(maximum, c64)
COMPLEX_EXTREME(minimum, c128)
COMPLEX_EXTREME(maximum, c128)

#define COMPLEX_PRODUCT(s) \
    IN_ORDER(multiply_in_order_##s, s, multiply_##s) \
    BLOCK_KERNEL(prod_block_##s) { multiply_in_order_##s(n, result, a); }
COMPLEX_PRODUCT(c64)
COMPLEX_PRODUCT(c128)
#undef TERM_SAME
#undef SPAN_NBYTES

END_EXPANDED
END_WITHOUT_CHOICES

static mylib_block_reduce *lookup_block_reduce(mylib_reduction reduction, mylib_type type)
{
    if (is_of_other_level(type))
        return COMPLEX_LEVEL.block_reduce(reduction, type);
    switch ((int)reduction * MYLIB_TYPE_COUNT + (int)type) {
#define CASE(reduction, s, kernel) \
    case MYLIB_##reduction *MYLIB_TYPE_COUNT + type_##s: \
        return is_of_other_level((mylib_type)type_##s) ? NULL : kernel;
#define EXTREMES(s) CASE(MIN, s, minimum_block_##s) CASE(MAX, s, maximum_block_##s)
#define NO_EXTREMES(s)
#define DT(s, S) \
    CASE(SUM, s, sum_block_##s) BY_CLASS(s, EXTREMES, NO_EXTREMES, EXTREMES, EXTREMES)(s)
        MYLIB_TYPES(DT)
#undef DT
#undef NO_EXTREMES
        CASE(PROD, i64, prod_block_u64)
        CASE(PROD, u64, prod_block_u64)
        CASE(PROD, f32, prod_block_f32)
        CASE(PROD, f64, prod_block_f64)
        CASE(PROD, c64, prod_block_c64)
        CASE(PROD, c128, prod_block_c128)
#undef CASE
    default:
        return NULL;
    }
}

static mylib_column_sums *const column_sums[] = {sum_columns_i8,  sum_columns_i16, sum_columns_i32,
                                                 sum_columns_i64, sum_columns_u8,  sum_columns_u16,
                                                 sum_columns_u32, sum_columns_u64};

static mylib_block_reduce *lookup_block_dot(mylib_type type)
{
    return type == MYLIB_F32 ? dot_block_f32 : type == MYLIB_F64 ? dot_block_f64 : NULL;
}
