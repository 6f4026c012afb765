/*
 * counting.h - arithmetic on counts, sizes and indices that several files need.
 */
#pragma once

#include "internal.h"

/* Neither number is negative; `unit` is not 0. */
static inline int64_t mylib_divide_up(int64_t count, int64_t unit)
{
    return (count + unit - 1) / unit;
}

static inline int64_t mylib_round_up(int64_t count, int64_t multiple)
{
    return mylib_divide_up(count, multiple) * multiple;
}

static inline int64_t mylib_lesser(int64_t a, int64_t b) { return a < b ? a : b; }

#define MYLIB_LINE_NBYTES 64
static inline size_t mylib_round_up_to_lines(size_t nbytes)
{
    return (nbytes + MYLIB_LINE_NBYTES - 1) / MYLIB_LINE_NBYTES * MYLIB_LINE_NBYTES;
}

/* Tells whether operand k is a single element, repeated for all. */
static inline int mylib_layout_is_single(const mylib_layout *layout, int k)
{
    for (int d = 0; d < layout->ndim; d++)
        if (layout->strides[k][d] != 0 && layout->shape[d] > 1)
            return 0;
    return 1;
}

/*
 * Moves data[0..operands) from the first element of a layout to the element with a given number in
 * the layout's order, and writes the element's indices.  strides[k] belong to data[k].
 */
static inline void mylib_layout_seek(const mylib_layout *layout, mylib_strides *strides,
                                     int operands, int64_t number, int64_t *index, char **data)
{
    for (int d = layout->ndim - 1; d >= 0; d--) {
        index[d] = number % layout->shape[d];
        number /= layout->shape[d];
        for (int k = 0; k < operands; k++)
            data[k] += index[d] * strides[k][d];
    }
}

/* Moves data[0..operands) from the first element of a row to that of the next row. */
static inline void mylib_layout_next_row(const mylib_layout *layout, mylib_strides *strides,
                                         int operands, int64_t *index, char **data)
{
    for (int d = layout->ndim - 2; d >= 0; d--) {
        int wraps = ++index[d] == layout->shape[d];
        for (int k = 0; k < operands; k++)
            data[k] += strides[k][d] * (wraps ? 1 - layout->shape[d] : 1);
        if (!wraps)
            break;
        index[d] = 0;
    }
}
