/*
 * truths.h - seeks or counts the elements that are true: that differ from 0, or are NaN.
 *
 * An element is true if some bit is set, except the signs of floating-point numbers.  So four sizes
 * of integers serve all types, and no flag is raised.
 */
#pragma once

#include "counting.h"
#include "cpu/loops.h"

BEGIN_EXPANDED

/* Bytes of a few vectors, for which sums or unions stay in registers. */
#define SPAN_NBYTES 256

/* Spans between two looks at what has been found. */
#define SPANS_PER_LOOK 16

/* Bytes of a vector, for what is shorter than a span. */
#define PIECE_NBYTES 32

/* The number of spans whose counts fit one byte. */
#define SPANS_PER_COUNT 254 /* and the rest */

/*
 * Counts the zeros of n contiguous elements, and answers each question from their number.  The rest
 * after the last whole span is read as a span that ends with it and counts no element twice.
 */
#define TRUTHS(s) \
    enum { SPAN_##s = SPAN_NBYTES / sizeof(t_##s), PIECE_##s = PIECE_NBYTES / sizeof(t_##s) }; \
    static ALWAYS_INLINE uint32_t zeros_of_spans_##s(ptrdiff_t size, ptrdiff_t n, const char *p, \
                                                     t_##s mask) \
    { \
        t_##s part[SPAN_##s]; \
        const char *const rest = p + (n - size) * (ptrdiff_t)sizeof(t_##s); \
        const ptrdiff_t again = size - n % size; \
        memset(part, 0, (size_t)size * sizeof *part); \
        NOT_UNROLLED for (; n >= size; n -= size, p += size * (ptrdiff_t)sizeof(t_##s)) \
        { \
            for (ptrdiff_t k = 0; k < size; k++) { \
                const t_##s x = load_##s(p + k * (ptrdiff_t)sizeof x) & mask; \
                part[k] = (t_##s)(part[k] + (x == 0)); \
            } \
        } \
        if (n > 0) { \
            for (ptrdiff_t k = 0; k < size; k++) { \
                const t_##s x = load_##s(rest + k * (ptrdiff_t)sizeof x) & mask; \
                part[k] = (t_##s)(part[k] + ((k >= again) & (x == 0))); \
            } \
        } \
        uint32_t zeros = 0; \
        NOT_UNROLLED for (ptrdiff_t k = 0; k < size; k++) zeros += (uint32_t)part[k]; \
        return zeros; \
    } \
    NOINLINE static int64_t truths_##s(mylib_truths what, ptrdiff_t n, const char *p, t_##s mask) \
    { \
        const ptrdiff_t spans = what == MYLIB_COUNT_TRUE ? SPANS_PER_COUNT : SPANS_PER_LOOK; \
        const ptrdiff_t most = spans * SPAN_##s; \
        int64_t total = 0; \
        for (; n >= 4 * SPAN_##s; n -= most, p += most * (ptrdiff_t)sizeof(t_##s)) { \
            const ptrdiff_t m = mylib_lesser(n, most); \
            const ptrdiff_t zeros = zeros_of_spans_##s(SPAN_##s, m, p, mask); \
            total += what == MYLIB_SEEK_FALSE ? zeros : m - zeros; \
            if (n <= most || (what != MYLIB_COUNT_TRUE && total != 0)) \
                return total; \
        } \
        ptrdiff_t zeros = 0; \
        if (n >= PIECE_##s) \
            zeros = zeros_of_spans_##s(PIECE_##s, n, p, mask); \
        else \
            NOT_UNROLLED for (ptrdiff_t k = 0; k < n; k++) \
            { \
                STAYS_SCALAR; \
                zeros += (load_##s(p + k * (ptrdiff_t)sizeof(t_##s)) & mask) == 0; \
            } \
        return total + (what == MYLIB_SEEK_FALSE ? zeros : n - zeros); \
    }
TRUTHS(u8)
TRUTHS(u16)
TRUTHS(u32)
TRUTHS(u64)

/* An element of 16 bytes is true if one of its halves is. */
#define LOAD_PAIR(p) (load_u64(p) | load_u64((p) + 8))
static int64_t truths_pairs(mylib_truths what, ptrdiff_t n, const char *p)
{
    enum { PAIRS = 512 };
    int64_t total = 0;
    t_u64 joined[PAIRS];
    for (; n > 0; n -= PAIRS, p += 16 * PAIRS) {
        const ptrdiff_t m = mylib_lesser(n, PAIRS);
        NO_DEPENDENCE for (ptrdiff_t i = 0; i < m; i++) joined[i] = LOAD_PAIR(p + 16 * i);
        total += truths_u64(what, m, (const char *)joined, (t_u64)INT64_MAX);
        if (what != MYLIB_COUNT_TRUE && total != 0)
            return 1;
    }
    return total;
}

NOINLINE static t_u64 truth_bits(mylib_type type)
{
    const int is_float = type == MYLIB_F16 || type == MYLIB_F32 || type == MYLIB_F64;
    if (type == MYLIB_C64)
        return ((t_u64)INT32_MAX << 32) | INT32_MAX;
    return UINT64_MAX >> (64 - 8 * mylib_type_size(type) + (size_t)is_float);
}

static int64_t truths_of_contiguous(mylib_truths what, mylib_type type, ptrdiff_t n, const char *p)
{
    switch (mylib_type_size(type)) {
    case 1:
        return truths_u8(what, n, p, UINT8_MAX);
    case 2:
        return truths_u16(what, n, p, (t_u16)truth_bits(type));
    case 4:
        return truths_u32(what, n, p, (t_u32)truth_bits(type));
    case 8:
        return truths_u64(what, n, p, truth_bits(type));
    default:
        return truths_pairs(what, n, p);
    }
}

/* The number of rows whose counts fit one byte. */
#define ROWS_PER_COUNT 255

/*
 * Updates the answers for n columns, where zeros[k] of m more elements of column k are 0: how many
 * are true (int64_t), or whether any is (MYLIB_SEEK_TRUE) or all are (MYLIB_SEEK_FALSE; a byte).
 */
NOINLINE static void answer(mylib_truths what, ptrdiff_t m, ptrdiff_t n,
                            const uint8_t *restrict zeros, void *answers)
{
    uint8_t *restrict bytes = answers;
    int64_t *restrict totals = answers;
    const uint8_t other = (uint8_t)(what == MYLIB_SEEK_TRUE ? m : 0);
    const uint8_t flip = what == MYLIB_SEEK_FALSE;
    if (what == MYLIB_COUNT_TRUE)
        for (ptrdiff_t k = 0; k < n; k++)
            totals[k] += m - zeros[k];
    else
        for (ptrdiff_t k = 0; k < n; k++)
            bytes[k] = (uint8_t)(((bytes[k] ^ flip) | (zeros[k] != other)) ^ flip);
}

/* Counts the zeros of each column, at most those of one span at a time, and answers for all. */
#define COLUMNS(name, s, SIZE, LOAD) \
    static ALWAYS_INLINE void zeros_of_rows_##name(ptrdiff_t rows, ptrdiff_t row_stride, \
                                                   ptrdiff_t columns, const char *p, \
                                                   ptrdiff_t stride, t_##s mask, uint8_t *zeros) \
    { \
        t_##s part[SPAN_##s]; \
        memset(part, 0, sizeof part); \
        NOT_UNROLLED for (; rows > 0; rows--, p += row_stride) \
        { \
            for (ptrdiff_t k = 0; k < columns; k++) { \
                const t_##s x = LOAD(p + k * stride) & mask; \
                part[k] = (t_##s)(part[k] + (x == 0)); \
            } \
        } \
        for (ptrdiff_t k = 0; k < columns; k++) \
            zeros[k] = (uint8_t)part[k]; \
    } \
    NOINLINE static void columns_##name(mylib_truths what, ptrdiff_t rows, ptrdiff_t row_stride, \
                                        ptrdiff_t columns, const char *p, ptrdiff_t stride, \
                                        t_##s mask, char *answers) \
    { \
        enum { FEW = SPAN_##s / 4 }; \
        const ptrdiff_t width = what == MYLIB_COUNT_TRUE ? sizeof(int64_t) : 1; \
        uint8_t zeros[SPAN_##s]; \
        for (ptrdiff_t n; columns > 0; columns -= n, p += n * stride, answers += n * width) { \
            n = mylib_lesser(columns, SPAN_##s); \
            if (stride == (SIZE) && n >= FEW && n < SPAN_##s) \
                n = FEW; \
            for (ptrdiff_t i = 0, m; i < rows; i += m) { \
                const char *q = p + i * row_stride; \
                m = mylib_lesser(rows - i, ROWS_PER_COUNT); \
                if (stride == (SIZE) && n == SPAN_##s) \
                    zeros_of_rows_##name(m, row_stride, SPAN_##s, q, SIZE, mask, zeros); \
                else if (stride == (SIZE) && n == FEW) \
                    zeros_of_rows_##name(m, row_stride, FEW, q, SIZE, mask, zeros); \
                else \
                    zeros_of_rows_##name(m, row_stride, n, q, stride, mask, zeros); \
                answer(what, m, n, zeros, answers); \
            } \
        } \
    }
COLUMNS(u8, u8, 1, load_u8)
COLUMNS(u16, u16, 2, load_u16)
COLUMNS(u32, u32, 4, load_u32)
COLUMNS(u64, u64, 8, load_u64)
COLUMNS(pairs, u64, 16, LOAD_PAIR)

static void truths_of_columns(mylib_truths what, mylib_type type, ptrdiff_t rows,
                              ptrdiff_t row_stride, ptrdiff_t columns, const char *p,
                              ptrdiff_t stride, char *answers)
{
#define ANSWER(name, s, mask) \
    columns_##name(what, rows, row_stride, columns, p, stride, (t_##s)(mask), answers)
    switch (mylib_type_size(type)) {
    case 1:
        ANSWER(u8, u8, UINT8_MAX);
        break;
    case 2:
        ANSWER(u16, u16, truth_bits(type));
        break;
    case 4:
        ANSWER(u32, u32, truth_bits(type));
        break;
    case 8:
        ANSWER(u64, u64, truth_bits(type));
        break;
    default:
        ANSWER(pairs, u64, INT64_MAX);
    }
}

#define PACK_NBYTES 4096

static int64_t truths(mylib_truths what, mylib_type type, ptrdiff_t n, const char *p,
                      ptrdiff_t stride)
{
    const ptrdiff_t size = (ptrdiff_t)mylib_type_size(type);
    _Alignas(64) char packed[PACK_NBYTES];
    int64_t total = 0;
    if (stride == size)
        return truths_of_contiguous(what, type, n, p);
    for (ptrdiff_t m; n > 0; n -= m, p += m * stride) {
        m = mylib_lesser(n, PACK_NBYTES / size);
        pack_strided(size, m, packed, p, stride);
        total += truths_of_contiguous(what, type, m, packed);
        if (what != MYLIB_COUNT_TRUE && total != 0)
            return 1;
    }
    return total;
}

#undef PACK_NBYTES
#undef SPAN_NBYTES

END_EXPANDED
