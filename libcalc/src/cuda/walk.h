/*
 * walk.h - how thread blocks walk over the rows and columns of a layout.  Compiles as C and as CUDA
 * C++; needs no CUDA.
 *
 * The innermost dimension of a layout is its columns; all others, numbered as one, are its rows.  A
 * thread block computes a tile, a rectangle of columns and rows: `across` threads side by side form
 * a row of threads, and further rows of threads lie below.  A thread's elements are column_step
 * columns or row_step rows apart, the same for all threads.  Tiles may be kept within a slice, the
 * rows along the innermost row dimension: these lie at equal distances.
 *
 * Operations over any strides (strided.h) and programs (fused.h) hold a walk.  In the former a
 * thread has groups of elements and columns are 32-bit; in the latter single ones, and 64-bit.
 */
#pragma once

#include "shared.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MYLIB_WALK_MAX_NDIM 7 /* of the rows */

/*
 * Division of 32-bit numbers below 2^31 by an invariant: (high word of x * multiplier + x) >>
 * shift, by T. Granlund and P. Montgomery, "Division by Invariant Integers using Multiplication"
 * (PLDI 1994).
 */
typedef struct mylib_divider {
    uint32_t multiplier, shift;
} mylib_divider;

typedef struct mylib_walk {
    /* The dimensions of the rows, outermost first: at least one. */
    int32_t rows, row_ndim;
    int32_t row_shape[MYLIB_WALK_MAX_NDIM];
    mylib_divider row_divider[MYLIB_WALK_MAX_NDIM];
    int32_t across;
    mylib_divider across_divider;
    int32_t column_step[2], row_step[2]; /* [0] to the next element, [1] to the next group */
    int32_t tile_columns, tile_rows;
    int32_t slice_rows;  /* rows of a slice; all rows if tiles may cross slices */
    int32_t slice_tiles; /* rows of tiles in a slice */
    mylib_divider slice_tiles_divider;
    /*
     * Within a band of rows of tiles, tiles are numbered down first, so that tiles that run at the
     * same time are near each other in every operand.
     */
    int64_t tiles;
    int32_t band_rows, band_tiles, last_band, last_band_rows; /* rows of tiles */
    mylib_divider band_divider, band_rows_divider, last_band_rows_divider;
    uint8_t is_banded; /* 0: tiles are numbered row by row */
} mylib_walk;

mylib_divider mylib_divider_of(int32_t divisor);

/*
 * Returns how many of `threads` threads lie side by side along a row of `units` units, so that few
 * of them idle; there are `rows` rows.
 */
int32_t mylib_threads_across(int64_t units, int32_t rows, int32_t threads);

/* Numbers the rows of a layout; leaves out outer dimensions of size 1. */
void mylib_walk_begin(mylib_walk *w, const mylib_layout *l);

/*
 * Copies the row strides of the layout's operand k.  As in all functions here, the strides of
 * `operands` operands are adjacent; those in dimension d begin at row_stride[d * operands].
 */
void mylib_walk_take_strides(const mylib_walk *w, const mylib_layout *l, int k, int64_t *row_stride,
                             int operands);

/* Returns the longest dimension of the rows; makes dimension d the innermost of them. */
int mylib_walk_longest(const mylib_walk *w);
void mylib_walk_move_inward(mylib_walk *w, int d, int64_t *row_stride, int operands);

/*
 * Places a thread's elements at equal distances: along a row, or if rows are short, down the rows;
 * returns true for the latter.  Neighbours in a warp take neighbouring elements, so that loads are
 * coalesced.
 */
int mylib_walk_space(mylib_walk *w, int64_t columns, int elements, int32_t threads);

/* mylib_walk_space() does this too. */
void mylib_walk_set_tile(mylib_walk *w, int32_t across, int32_t tile_columns, int32_t tile_rows);

/* Cuts slices of slice_rows into tiles, numbered in bands of `band` rows of tiles. */
void mylib_walk_cut(mylib_walk *w, int64_t columns, int32_t slice_rows, int32_t band);

/* Returns the bytes of step i in an operand, given its strides along a row and to the next row. */
static inline int64_t mylib_walk_step(const mylib_walk *w, int i, int64_t column, int64_t row)
{
    return w->column_step[i] * column + w->row_step[i] * row;
}

/* ---- Arithmetic that host and GPU share ---- */

MYLIB_DEVICE_FN int32_t mylib_divide(int32_t x, mylib_divider d)
{
    uint32_t high = (uint32_t)(((uint64_t)(uint32_t)x * d.multiplier) >> 32);
    return (int32_t)((high + (uint32_t)x) >> d.shift);
}

/* Returns the bytes from an operand's first element to the first of a row; strides as above. */
MYLIB_DEVICE_FN int64_t mylib_walk_row(const mylib_walk *w, int32_t row, const int64_t *row_stride,
                                       int operands)
{
    int64_t offset = 0;
    MYLIB_ROLLED for (int d = w->row_ndim - 1; d > 0; d--)
    {
        int32_t quotient = mylib_divide(row, w->row_divider[d]);
        offset += (int64_t)(row - quotient * w->row_shape[d]) * row_stride[d * operands];
        row = quotient;
    }
    return offset + (uint32_t)row * row_stride[0];
}

/* Finds the tile of a thread block: its number in a row of tiles, its first row and its end. */
MYLIB_DEVICE_FN void mylib_walk_tile(const mylib_walk *w, int32_t block, int32_t *tile_column,
                                     int32_t *row, int32_t *end_row)
{
    int32_t band = mylib_divide(block, w->band_divider), rest = block - band * w->band_tiles;
    if (!w->is_banded) {
        *tile_column = rest;
        *row = band * w->tile_rows;
        *end_row = w->rows;
        return;
    }
    int32_t is_last = band == w->last_band;
    *tile_column = mylib_divide(rest, is_last ? w->last_band_rows_divider : w->band_rows_divider);
    rest -= *tile_column * (is_last ? w->last_band_rows : w->band_rows);
    rest += band * w->band_rows;
    int32_t slice = mylib_divide(rest, w->slice_tiles_divider);
    *row = slice * w->slice_rows + (rest - slice * w->slice_tiles) * w->tile_rows;
    *end_row = (slice + 1) * w->slice_rows;
}

/* Finds a thread's position in the tile; returns false if its row of threads is incomplete. */
MYLIB_DEVICE_FN int mylib_walk_thread(const mylib_walk *w, int32_t thread, int32_t threads,
                                      int32_t *across, int32_t *down)
{
    *down = mylib_divide(thread, w->across_divider);
    *across = thread - *down * w->across;
    return (*down + 1) * w->across <= threads;
}

#ifdef __cplusplus
}
#endif
