/*
 * truths.h - seeks or counts elements that are true: not 0, or NaN.
 *
 * Part of kernels.c.  An element is true if any of its bits is set, apart from the signs of
 * floating-point numbers.  So four sizes of integers serve all types, and no flag is raised.
 */
#ifndef MYLIB_TRUTHS_H
#define MYLIB_TRUTHS_H

#include "counting.h"
#include "cpu/loops.h"

/* The bytes of a few vectors, whose sums or unions stay in registers. */
#define SPAN_NBYTES 256

/* Spans between two checks whether the answer is known. */
#define SPANS_PER_LOOK 16

/* The bytes of one vector, for rows shorter than a span. */
#define PIECE_NBYTES 32

/* The number of spans whose counts fit one byte. */
#define SPANS_PER_COUNT 254 /* and the rest */

/*
 * Answers for n contiguous elements.  The rest after the last whole span is read as a span that
 * ends with it and counts no element twice.
 */
#define TRUTHS(s) \
    enum { SPAN_##s = SPAN_NBYTES / sizeof(t_##s), PIECE_##s = PIECE_NBYTES / sizeof(t_##s) }; \
    static ALWAYS_INLINE t_##s add_truth_##s(mylib_truths what, t_##s part, t_##s x) \
    { \
        return (t_##s)(what == MYLIB_SEEK_TRUE    ? part | x \
                       : what == MYLIB_SEEK_FALSE ? part | (x == 0) \
                                                  : part + (x != 0)); \
    } \
    static ALWAYS_INLINE int64_t truths_of_spans_##s(mylib_truths what, ptrdiff_t size, \
                                                     ptrdiff_t n, const char *p, t_##s mask) \
    { \
        t_##s part[SPAN_##s]; \
        const char *const rest = p + (n - size) * (ptrdiff_t)sizeof(t_##s); \
        const ptrdiff_t again = size - n % size; \
        memset(part, 0, (size_t)size * sizeof *part); \
        NOT_UNROLLED for (; n >= size; n -= size, p += size * (ptrdiff_t)sizeof(t_##s)) \
        { \
            for (ptrdiff_t k = 0; k < size; k++) { \
                const t_##s x = load_##s(p + k * (ptrdiff_t)sizeof x) & mask; \
                part[k] = add_truth_##s(what, part[k], x); \
            } \
        } \
        if (n > 0) { \
            for (ptrdiff_t k = 0; k < size; k++) { \
                const t_##s x = load_##s(rest + k * (ptrdiff_t)sizeof x) & mask; \
                part[k] = \
                    add_truth_##s(what, part[k], what == MYLIB_COUNT_TRUE && k < again ? 0 : x); \
            } \
        } \
        int64_t total = 0; \
        for (ptrdiff_t k = 0; k < size; k++) \
            total = what == MYLIB_COUNT_TRUE ? total + (int64_t)part[k] : total | (part[k] != 0); \
        return total; \
    } \
    static ALWAYS_INLINE int64_t truths_of_row_##s(mylib_truths what, ptrdiff_t n, const char *p, \
                                                   t_##s mask) \
    { \
        const ptrdiff_t spans = what == MYLIB_COUNT_TRUE ? SPANS_PER_COUNT : SPANS_PER_LOOK; \
        const ptrdiff_t most = spans * SPAN_##s; \
        int64_t total = 0; \
        for (; n >= 4 * SPAN_##s; n -= most, p += most * (ptrdiff_t)sizeof(t_##s)) { \
            total += truths_of_spans_##s(what, SPAN_##s, mylib_lesser(n, most), p, mask); \
            if (n <= most || (what != MYLIB_COUNT_TRUE && total != 0)) \
                return total; \
        } \
        if (n >= PIECE_##s) \
            return total + truths_of_spans_##s(what, PIECE_##s, n, p, mask); \
        NOT_UNROLLED for (ptrdiff_t k = 0; k < n; k++) \
        { \
            STAYS_SCALAR; \
            const t_##s x = load_##s(p + k * (ptrdiff_t)sizeof x) & mask; \
            total += what == MYLIB_SEEK_FALSE ? x == 0 : x != 0; \
        } \
        return total; \
    } \
    NOINLINE static int64_t truths_##s(mylib_truths what, ptrdiff_t n, const char *p, t_##s mask) \
    { \
        return what == MYLIB_SEEK_TRUE    ? truths_of_row_##s(MYLIB_SEEK_TRUE, n, p, mask) \
               : what == MYLIB_SEEK_FALSE ? truths_of_row_##s(MYLIB_SEEK_FALSE, n, p, mask) \
                                          : truths_of_row_##s(MYLIB_COUNT_TRUE, n, p, mask); \
    }
TRUTHS(u8)
TRUTHS(u16)
TRUTHS(u32)
TRUTHS(u64)
#undef TRUTHS

/* An element of 16 bytes is true if one of its halves is. */
static int64_t truths_pairs(mylib_truths what, ptrdiff_t n, const char *p)
{
    enum { PAIRS = 512 };
    int64_t total = 0;
    t_u64 joined[PAIRS];
    for (; n > 0; n -= PAIRS, p += 16 * PAIRS) {
        const ptrdiff_t m = mylib_lesser(n, PAIRS);
        NO_DEPENDENCE for (ptrdiff_t i = 0; i < m; i++) joined[i] =
            load_u64(p + 16 * i) | load_u64(p + 16 * i + 8);
        total += truths_u64(what, m, (const char *)joined, (t_u64)INT64_MAX);
        if (what != MYLIB_COUNT_TRUE && total != 0)
            return 1;
    }
    return total;
}

static int64_t truths_of_contiguous(mylib_truths what, mylib_type type, ptrdiff_t n, const char *p)
{
    switch (type) {
    case MYLIB_F16:
        return truths_u16(what, n, p, INT16_MAX);
    case MYLIB_F32:
        return truths_u32(what, n, p, INT32_MAX);
    case MYLIB_F64:
        return truths_u64(what, n, p, INT64_MAX);
    case MYLIB_C64:
        return truths_u64(what, n, p, ((t_u64)INT32_MAX << 32) | INT32_MAX);
    case MYLIB_C128:
        return truths_pairs(what, n, p);
    default:
        break;
    }
    switch (mylib_type_size(type)) {
    case 1:
        return truths_u8(what, n, p, UINT8_MAX);
    case 2:
        return truths_u16(what, n, p, UINT16_MAX);
    case 4:
        return truths_u32(what, n, p, UINT32_MAX);
    default:
        return truths_u64(what, n, p, UINT64_MAX);
    }
}

/* The number of rows whose counts fit one byte. */
#define ROWS_PER_COUNT 255

/*
 * For each column k, adds to totals[k] how many elements are true, or a value other than 0 if the
 * truth sought is there.  There are at most as many columns as elements of a span.
 */
#define COLUMNS(s) \
    static ALWAYS_INLINE void truths_of_some_##s( \
        mylib_truths what, ptrdiff_t rows, ptrdiff_t row_stride, ptrdiff_t columns, const char *p, \
        ptrdiff_t stride, t_##s mask, int64_t *totals) \
    { \
        while (rows > 0) { \
            const ptrdiff_t m = mylib_lesser(rows, ROWS_PER_COUNT); \
            t_##s part[SPAN_##s]; \
            memset(part, 0, sizeof part); \
            NOT_UNROLLED for (ptrdiff_t i = 0; i < m; i++, p += row_stride) \
            { \
                for (ptrdiff_t k = 0; k < columns; k++) { \
                    const t_##s x = load_##s(p + k * stride) & mask; \
                    part[k] = (t_##s)(what == MYLIB_SEEK_TRUE    ? part[k] | x \
                                      : what == MYLIB_SEEK_FALSE ? part[k] | (x == 0) \
                                                                 : part[k] + (x != 0)); \
                } \
            } \
            for (ptrdiff_t k = 0; k < columns; k++) \
                totals[k] = what == MYLIB_COUNT_TRUE ? totals[k] + (int64_t)part[k] \
                                                     : totals[k] | (part[k] != 0); \
            rows -= m; \
        } \
    } \
    static ALWAYS_INLINE void truths_of_all_##s( \
        mylib_truths what, ptrdiff_t rows, ptrdiff_t row_stride, ptrdiff_t columns, const char *p, \
        ptrdiff_t stride, t_##s mask, int64_t *totals) \
    { \
        enum { SIZE = sizeof(t_##s), FEW = SPAN_##s / 4 }; \
        for (ptrdiff_t n; columns > 0; columns -= n, totals += n, p += n * stride) { \
            n = mylib_lesser(columns, SPAN_##s); \
            if (stride == SIZE && n == SPAN_##s) { \
                truths_of_some_##s(what, rows, row_stride, SPAN_##s, p, SIZE, mask, totals); \
            } else if (stride == SIZE && n >= FEW) { \
                n = FEW; \
                truths_of_some_##s(what, rows, row_stride, FEW, p, SIZE, mask, totals); \
            } else { \
                truths_of_some_##s(what, rows, row_stride, n, p, stride, mask, totals); \
            } \
        } \
    } \
    NOINLINE static void columns_##s(mylib_truths what, ptrdiff_t rows, ptrdiff_t row_stride, \
                                     ptrdiff_t columns, const char *p, ptrdiff_t stride, \
                                     t_##s mask, int64_t *totals) \
    { \
        if (what == MYLIB_SEEK_TRUE) \
            truths_of_all_##s(MYLIB_SEEK_TRUE, rows, row_stride, columns, p, stride, mask, \
                              totals); \
        else if (what == MYLIB_SEEK_FALSE) \
            truths_of_all_##s(MYLIB_SEEK_FALSE, rows, row_stride, columns, p, stride, mask, \
                              totals); \
        else \
            truths_of_all_##s(MYLIB_COUNT_TRUE, rows, row_stride, columns, p, stride, mask, \
                              totals); \
    }
COLUMNS(u8)
COLUMNS(u16)
COLUMNS(u32)
COLUMNS(u64)
#undef COLUMNS

/* Answers for each column of rows of elements; returns false for elements of 16 bytes. */
static int truths_of_columns(mylib_truths what, mylib_type type, ptrdiff_t rows,
                             ptrdiff_t row_stride, ptrdiff_t columns, const char *p,
                             ptrdiff_t stride, int64_t *totals)
{
    const int is_float = type == MYLIB_F16 || type == MYLIB_F32 || type == MYLIB_F64;
    memset(totals, 0, (size_t)columns * sizeof *totals);
    switch (mylib_type_size(type)) {
    case 1:
        columns_u8(what, rows, row_stride, columns, p, stride, UINT8_MAX, totals);
        return 1;
    case 2:
        columns_u16(what, rows, row_stride, columns, p, stride, is_float ? INT16_MAX : UINT16_MAX,
                    totals);
        return 1;
    case 4:
        columns_u32(what, rows, row_stride, columns, p, stride, is_float ? INT32_MAX : UINT32_MAX,
                    totals);
        return 1;
    case 8:
        columns_u64(what, rows, row_stride, columns, p, stride,
                    is_float            ? (t_u64)INT64_MAX
                    : type == MYLIB_C64 ? ((t_u64)INT32_MAX << 32) | INT32_MAX
                                        : UINT64_MAX,
                    totals);
        return 1;
    default:
        return 0;
    }
}

#define PACK_NBYTES 4096

/* Answers for n elements with a byte stride: packs them, block by block. */
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
#undef ROWS_PER_COUNT
#undef SPANS_PER_COUNT
#undef SPANS_PER_LOOK
#undef PIECE_NBYTES
#undef SPAN_NBYTES

#endif /* MYLIB_TRUTHS_H */
