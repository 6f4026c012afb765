/*
 * truths.h - seeks or counts the elements that are true: that differ from 0, or are NaN.
 *
 * Part of kernels.c.  An element is true if some bit is set, except the signs of floating-point
 * numbers.  So four sizes of integers serve all types, and no flag is raised.
 */
#ifndef MYLIB_TRUTHS_H
#define MYLIB_TRUTHS_H

#include "counting.h"
#include "cpu/loops.h"

/* Bytes of a few vectors, for which sums or unions stay in registers. */
#define SPAN_NBYTES 256

/* Spans between two looks at what has been found. */
#define SPANS_PER_LOOK 16

/* The number of spans whose counts fit one byte. */
#define SPANS_PER_COUNT 255

/*
 * Answers for n contiguous elements, of at most SPANS_PER_COUNT spans.  The last span is completed
 * by elements that change nothing.
 */
#define TRUTHS(s)                                                                                  \
    enum { SPAN_##s = SPAN_NBYTES / sizeof(t_##s) };                                               \
    static ALWAYS_INLINE int64_t truths_of_spans_##s(mylib_truths what, ptrdiff_t spans,           \
                                                     const char *p, t_##s mask)                    \
    {                                                                                              \
        t_##s part[SPAN_##s];                                                                      \
        memset(part, 0, sizeof part);                                                              \
        NOT_UNROLLED for (ptrdiff_t i = 0; i < spans; i++, p += SPAN_NBYTES)                       \
        {                                                                                          \
            for (ptrdiff_t k = 0; k < SPAN_##s; k++) {                                             \
                const t_##s x = load_##s(p + k * (ptrdiff_t)sizeof x) & mask;                      \
                part[k] = (t_##s)(what == MYLIB_SEEK_TRUE    ? part[k] | x                         \
                                  : what == MYLIB_SEEK_FALSE ? part[k] | (x == 0)                  \
                                                             : part[k] + (x != 0));                \
            }                                                                                      \
        }                                                                                          \
        int64_t total = 0;                                                                         \
        for (ptrdiff_t k = 0; k < SPAN_##s; k++)                                                   \
            total = what == MYLIB_COUNT_TRUE ? total + (int64_t)part[k] : total | (part[k] != 0);  \
        return total;                                                                              \
    }                                                                                              \
    static ALWAYS_INLINE int64_t truths_of_row_##s(mylib_truths what, ptrdiff_t n, const char *p,  \
                                                   t_##s mask)                                     \
    {                                                                                              \
        const ptrdiff_t most = what == MYLIB_COUNT_TRUE ? SPANS_PER_COUNT : SPANS_PER_LOOK;        \
        int64_t total = 0;                                                                         \
        for (ptrdiff_t spans; (spans = n / SPAN_##s) > 0;) {                                       \
            spans = spans < most ? spans : most;                                                   \
            total += truths_of_spans_##s(what, spans, p, mask);                                    \
            if (what != MYLIB_COUNT_TRUE && total != 0)                                            \
                return 1;                                                                          \
            n -= spans * SPAN_##s;                                                                 \
            p += spans * SPAN_NBYTES;                                                              \
        }                                                                                          \
        if (n > 0) {                                                                               \
            char rest[SPAN_NBYTES];                                                                \
            memset(rest, what == MYLIB_SEEK_FALSE ? 0xff : 0, sizeof rest);                        \
            memcpy(rest, p, (size_t)n * sizeof(t_##s));                                            \
            total += truths_of_spans_##s(what, 1, rest, mask);                                     \
        }                                                                                          \
        return total;                                                                              \
    }                                                                                              \
    NOINLINE static int64_t truths_##s(mylib_truths what, ptrdiff_t n, const char *p, t_##s mask)  \
    {                                                                                              \
        return what == MYLIB_SEEK_TRUE    ? truths_of_row_##s(MYLIB_SEEK_TRUE, n, p, mask)         \
               : what == MYLIB_SEEK_FALSE ? truths_of_row_##s(MYLIB_SEEK_FALSE, n, p, mask)        \
                                          : truths_of_row_##s(MYLIB_COUNT_TRUE, n, p, mask);       \
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
        mylib_copy_strided((size_t)size, m, packed, size, p, stride);
        total += truths_of_contiguous(what, type, m, packed);
        if (what != MYLIB_COUNT_TRUE && total != 0)
            return 1;
    }
    return total;
}

#undef PACK_NBYTES
#undef SPANS_PER_COUNT
#undef SPANS_PER_LOOK
#undef SPAN_NBYTES

#endif /* MYLIB_TRUTHS_H */
