/*
 * block_reduce.h - reductions of one block of contiguous terms: sums, products, minima, maxima and
 * sums of products.
 *
 * Part of kernels.c.  mylib.h promises the order of the terms, so it must not change: rows of 256
 * lanes are combined lane by lane, then the lanes pairwise.
 *
 * These loops stay macros.  For force-inlined functions clang makes worse code: it unrolls them
 * before it knows the operation.
 */
#ifndef MYLIB_BLOCK_REDUCE_H
#define MYLIB_BLOCK_REDUCE_H

#include "counting.h"
#include "cpu/half.h"
#include "cpu/loops.h"

BEGIN_WITHOUT_CHOICES

/* Bytes of lanes (a few vectors) that stay in registers over all full rows. */
#define SPAN_NBYTES 256

/*
 * Runs `statement` for i from 0 to m - 1, in chunks of plain vector code: compilers would expand a
 * loop of any length into kilobytes of cases.
 */
#define CHUNK 16
#define IN_CHUNKS(m, statement) \
    do { \
        const ptrdiff_t whole = (m)-CHUNK; \
        ptrdiff_t i0 = 0; \
        NOT_UNROLLED for (; i0 <= whole; i0 += CHUNK) \
            NO_DEPENDENCE for (ptrdiff_t k = 0; k < CHUNK; k++) \
        { \
            const ptrdiff_t i = i0 + k; \
            statement; \
        } \
        NOT_UNROLLED for (ptrdiff_t i = i0; i < (m); i++) \
        { \
            STAYS_SCALAR; \
            statement; \
        } \
    } while (0)

/* The last lanes, which are combined by code without loops. */
#define LAST_LANES 16

/* Combines `lanes` lanes pairwise, down to PARTS. */
#define FOLD(name, C, PARTS, COMBINE) \
    NOINLINE static void name(C *lane, ptrdiff_t lanes) \
    { \
        enum { LAST = LAST_LANES * (PARTS) }; \
        const ptrdiff_t end = lanes < LAST ? (PARTS) : LAST; \
        ptrdiff_t half = MYLIB_BLOCK_LANES * (PARTS) / 2; \
        NOT_UNROLLED for (; half >= end; half /= 2) \
        { \
            if (half < lanes) \
                IN_CHUNKS(lanes - half < half ? lanes - half : half, \
                          lane[i] = COMBINE(lane[i], lane[i + half])); \
        } \
        if (half >= (PARTS)) { \
            C last[LAST]; \
            memcpy(last, lane, sizeof last); \
            for (ptrdiff_t i = 0; i < LAST / 2; i++) \
                last[i] = COMBINE(last[i], last[i + LAST / 2]); \
            for (ptrdiff_t i = 0; i < LAST / 4; i++) \
                last[i] = COMBINE(last[i], last[i + LAST / 4]); \
            for (ptrdiff_t i = 0; i < LAST / 8; i++) \
                last[i] = COMBINE(last[i], last[i + LAST / 8]); \
            for (ptrdiff_t i = 0; i < (PARTS); i++) \
                lane[i] = COMBINE(last[i], last[i + (PARTS)]); \
        } \
    }

/*
 * Prefetches the same span of the block after the next one.  A block's spans are not read in memory
 * order, so the processor's own prefetching does not help.
 */
static ALWAYS_INLINE void fetch_ahead(const char *p, ptrdiff_t nbytes, size_t size)
{
    for (ptrdiff_t i = 0; i < nbytes; i += MYLIB_LINE_NBYTES)
        __builtin_prefetch(p + (ptrdiff_t)(2 * MYLIB_BLOCK_TERMS * size) + i, 0, 2);
}

/*
 * Reduces n terms in the carrying type C; TERM(s, i) is term i, FETCH(s, i, m) prefetches m terms
 * that lie well after term i.  If complex numbers are added part by part, a term is PARTS of C.
 */
#define BLOCK(name, s, C, PARTS, TERM, FETCH, COMBINE, fold) \
    static void name(ptrdiff_t n, char *result, const char *a, const char *b) \
    { \
        enum { LANES = MYLIB_BLOCK_LANES * (PARTS), SPAN = SPAN_NBYTES / sizeof(C) }; \
        _Alignas(64) C lane[LANES]; \
        (void)b; \
        n *= (PARTS); \
        const ptrdiff_t rows = n / LANES, rest = n - rows * LANES; \
        if (rows == 0) { \
            IN_CHUNKS(rest, lane[i] = TERM(s, i)); \
        } else { \
            NOT_UNROLLED for (ptrdiff_t l = 0; l < LANES; l += SPAN) \
            { \
                C part[SPAN]; \
                FETCH(s, l, SPAN); \
                for (ptrdiff_t k = 0; k < SPAN; k++) \
                    part[k] = TERM(s, l + k); \
                NOT_UNROLLED for (ptrdiff_t r = 1; r < rows; r++) \
                { \
                    FETCH(s, r *LANES + l, SPAN); \
                    for (ptrdiff_t k = 0; k < SPAN; k++) \
                        part[k] = COMBINE(part[k], TERM(s, r * LANES + l + k)); \
                } \
                memcpy(lane + l, part, sizeof part); \
            } \
            IN_CHUNKS(rest, lane[i] = COMBINE(lane[i], TERM(s, rows * LANES + i))); \
        } \
        fold(lane, rows == 0 ? rest : LANES); \
        memcpy(result, lane, (PARTS) * sizeof(C)); \
    }

#define TERM_SAME(s, i) load_##s(a + (i) * (ptrdiff_t)sizeof(t_##s))
#define TERM_WIDENED(s, i) ((t_u64)TERM_SAME(s, i)) /* negative terms modulo 2^64 */
#define FETCH_1(s, i, m) \
    fetch_ahead(a + (i) * (ptrdiff_t)sizeof(t_##s), (m) * (ptrdiff_t)sizeof(t_##s), sizeof(t_##s))
#define FETCH_2(s, i, m) \
    (FETCH_1(s, i, m), fetch_ahead(b + (i) * (ptrdiff_t)sizeof(t_##s), \
                                   (m) * (ptrdiff_t)sizeof(t_##s), sizeof(t_##s)))
#define TERM_PRODUCT(s, i) (TERM_SAME(s, i) * load_##s(b + (i) * (ptrdiff_t)sizeof(t_##s)))

/*
 * Reduces n integers in the carrying type C.  The order of the terms changes nothing, so that the
 * lanes stay in registers, and short rows need no pairwise folding.
 */
#define EXACT_BLOCK(name, s, C, TERM, COMBINE) \
    static void name(ptrdiff_t n, char *result, const char *a, const char *b) \
    { \
        enum { SPAN = SPAN_NBYTES / sizeof(C) }; \
        C total = (C)TERM(s, 0); \
        ptrdiff_t i = 1; \
        (void)b; \
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

/* Sums of every type. */
FOLD(fold_add_f32, t_f32, 1, add_f32)
FOLD(fold_add_f64, t_f64, 1, add_f64)
FOLD(fold_pairs_f32, t_f32, 2, add_f32)
FOLD(fold_pairs_f64, t_f64, 2, add_f64)
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
    static void sum_block_##s(ptrdiff_t n, char *result, const char *a, const char *b) \
    { \
        const ptrdiff_t w = sizeof(t_##s), lanes = (ptrdiff_t)sizeof(__m256i) / w; \
        const __m256i bias = bias_bits; \
        __m256i sums = _mm256_setzero_si256(); \
        ptrdiff_t i = 0; \
        int64_t sum = 0; \
        (void)b; \
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
/* A block of two-byte integers has less than 2^31 in each lane. */
_Static_assert(MYLIB_BLOCK_TERMS < 1 << 16, "the sums of a block fit int32_t");
#define ADD_BYTES(x) _mm256_sad_epu8(x, _mm256_setzero_si256())
#define ADD_PAIRS(x) _mm256_madd_epi16(x, _mm256_set1_epi16(1))
NARROW_SUM(u8, _mm256_setzero_si256(), 0, ADD_BYTES, 64)
NARROW_SUM(i8, _mm256_set1_epi8(INT8_MIN), INT8_MIN, ADD_BYTES, 64)
NARROW_SUM(i16, _mm256_setzero_si256(), 0, ADD_PAIRS, 32)
NARROW_SUM(u16, _mm256_set1_epi16(INT16_MIN), -INT16_MIN, ADD_PAIRS, 32)
#undef ADD_PAIRS
#undef ADD_BYTES
#undef NARROW_SUM
#else
SUM(, i8)
SUM(, i16)
SUM(, u8)
SUM(, u16)
#endif
#undef SUM
BLOCK(sum_block_f32, f32, t_f32, 1, TERM_SAME, FETCH_1, add_f32, fold_add_f32)
BLOCK(sum_block_f64, f64, t_f64, 1, TERM_SAME, FETCH_1, add_f64, fold_add_f64)
BLOCK(sum_block_c64, f32, t_f32, 2, TERM_SAME, FETCH_1, add_f32, fold_pairs_f32)
BLOCK(sum_block_c128, f64, t_f64, 2, TERM_SAME, FETCH_1, add_f64, fold_pairs_f64)

static void sum_block_f16(ptrdiff_t n, char *result, const char *a, const char *b)
{
    _Alignas(64) float wide[MYLIB_BLOCK_TERMS];
    widen(n, wide, a);
    sum_block_f32(n, result, (const char *)wide, b);
}

/* Products of the carrying types; sums of products for types where one pass pays. */
#define PRODUCT(s) \
    FOLD(fold_multiply_##s, t_##s, 1, multiply_##s) \
    BLOCK(prod_block_##s, s, t_##s, 1, TERM_SAME, FETCH_1, multiply_##s, fold_multiply_##s)
EXACT_BLOCK(prod_block_u64, u64, t_u64, TERM_SAME, multiply_u64)
PRODUCT(f32)
PRODUCT(f64)
PRODUCT(c64)
PRODUCT(c128)
#undef PRODUCT
BLOCK(dot_block_f32, f32, t_f32, 1, TERM_PRODUCT, FETCH_2, add_f32, fold_add_f32)
BLOCK(dot_block_f64, f64, t_f64, 1, TERM_PRODUCT, FETCH_2, add_f64, fold_add_f64)

/* Minima and maxima of all types but f16. */
#define EXTREME(name, op, s) \
    FOLD(fold_##op##_##s, t_##s, 1, op##_##s) \
    BLOCK(name, s, t_##s, 1, TERM_SAME, FETCH_1, op##_##s, fold_##op##_##s)
#define EXTREME_EXACT(op, s) EXACT_BLOCK(op##_block_##s, s, t_##s, TERM_SAME, op##_##s)
#define EXTREME_QUIET(op, s) \
    EXTREME(op##_any_block_##s, op, s) \
    static void op##_block_##s(ptrdiff_t n, char *result, const char *a, const char *b) \
    { \
        QUIETLY(s, op##_any_block_##s(n, result, a, b)) \
    }
#define EXTREME_NONE(op, s)
#define EXTREMES(op, s) \
    BY_CLASS(s, EXTREME_EXACT, EXTREME_NONE, EXTREME_QUIET, EXTREME_QUIET)(op, s)
#define DT(s, S) EXTREMES(minimum, s) EXTREMES(maximum, s)
MYLIB_TYPES(DT)
#undef DT
#undef EXTREMES
#undef EXTREME_NONE
#undef EXTREME_QUIET
#undef EXTREME_EXACT
#undef EXTREME
#undef TERM_PRODUCT
#undef TERM_SAME
#undef TERM_WIDENED
#undef FETCH_2
#undef FETCH_1
#undef BLOCK
#undef EXACT_BLOCK
#undef FOLD
#undef LAST_LANES
#undef IN_CHUNKS
#undef CHUNK
#undef SPAN_NBYTES

END_WITHOUT_CHOICES

static mylib_block_reduce *lookup_block_reduce(mylib_reduction reduction, mylib_type type)
{
    switch ((int)reduction * MYLIB_TYPE_COUNT + (int)type) {
#define CASE(reduction, S, kernel) \
    case MYLIB_##reduction *MYLIB_TYPE_COUNT + MYLIB_##S: \
        return kernel;
#define EXTREMES(s, S) CASE(MIN, S, minimum_block_##s) CASE(MAX, S, maximum_block_##s)
#define NO_EXTREMES(s, S)
#define DT(s, S) \
    CASE(SUM, S, sum_block_##s) BY_CLASS(s, EXTREMES, NO_EXTREMES, EXTREMES, EXTREMES)(s, S)
        MYLIB_TYPES(DT)
#undef DT
#undef NO_EXTREMES
#undef EXTREMES
        CASE(PROD, I64, prod_block_u64)
        CASE(PROD, U64, prod_block_u64)
        CASE(PROD, F32, prod_block_f32)
        CASE(PROD, F64, prod_block_f64)
        CASE(PROD, C64, prod_block_c64)
        CASE(PROD, C128, prod_block_c128)
#undef CASE
    default:
        return NULL;
    }
}

static mylib_block_reduce *lookup_block_dot(mylib_type type)
{
    return type == MYLIB_F32 ? dot_block_f32 : type == MYLIB_F64 ? dot_block_f64 : NULL;
}

#endif /* MYLIB_BLOCK_REDUCE_H */
