/*
 * walk.c - chooses how thread blocks walk over a layout; see walk.h.  Plain C: runs without a GPU.
 */
#include <string.h>

#include "walk.h"

#include "../counting.h"

mylib_divider mylib_divider_of(int32_t divisor)
{
    mylib_divider d = {0, 0};
    while (d.shift < 31 && ((int64_t)1 << d.shift) < divisor)
        d.shift++;
    uint64_t power = (uint64_t)1 << d.shift;
    d.multiplier =
        (uint32_t)((((uint64_t)1 << 32) * (power - (uint64_t)divisor)) / (uint64_t)divisor + 1);
    return d;
}

/* A warp reads whole cache lines if each thread reads a vector; a block then reads 8 rows. */
int32_t mylib_threads_across(int64_t units, int32_t rows, int32_t threads)
{
    const int32_t usual =
        rows >= threads / MYLIB_CUDA_WARP ? MYLIB_CUDA_WARP : threads / rows / 8 * 8;
    if (units <= usual + usual / 2)
        return (int32_t)mylib_lesser(units, threads);
    const int64_t share = mylib_divide_up(units, mylib_divide_up(units, usual));
    return (int32_t)mylib_round_up(share, 8);
}

/* The layout's dimension before the first one of the rows; -1 for a single row. */
static int outer_of(const mylib_walk *w, const mylib_layout *l)
{
    return l->ndim - 1 - w->row_ndim;
}

void mylib_walk_begin(mylib_walk *w, const mylib_layout *l)
{
    int outer = 0;
    while (outer < l->ndim - 2 && l->shape[outer] == 1)
        outer++;
    memset(w, 0, sizeof *w);
    w->rows = 1;
    w->row_ndim = l->ndim > 1 ? l->ndim - 1 - outer : 1;
    for (int d = 0; d < w->row_ndim; d++) {
        w->row_shape[d] = l->ndim > 1 ? (int32_t)l->shape[outer + d] : 1;
        w->row_divider[d] = mylib_divider_of(w->row_shape[d]);
        w->rows *= w->row_shape[d];
    }
}

void mylib_walk_take_strides(const mylib_walk *w, const mylib_layout *l, int k, int64_t *row_stride,
                             int operands)
{
    const int outer = outer_of(w, l);
    for (int d = 0; d < w->row_ndim; d++)
        row_stride[d * operands] = outer < 0 ? 0 : l->strides[k][outer + d];
}

int mylib_walk_longest(const mylib_walk *w)
{
    int longest = w->row_ndim - 1;
    for (int d = 0; d < w->row_ndim - 1; d++)
        longest = w->row_shape[d] > w->row_shape[longest] ? d : longest;
    return longest;
}

void mylib_walk_move_inward(mylib_walk *w, int d, int64_t *row_stride, int operands)
{
    for (; d < w->row_ndim - 1; d++) {
        const int32_t size = w->row_shape[d];
        const mylib_divider divider = w->row_divider[d];
        w->row_shape[d] = w->row_shape[d + 1];
        w->row_shape[d + 1] = size;
        w->row_divider[d] = w->row_divider[d + 1];
        w->row_divider[d + 1] = divider;
        for (int64_t *s = row_stride + d * operands; s < row_stride + (d + 1) * operands; s++) {
            const int64_t stride = *s;
            *s = s[operands];
            s[operands] = stride;
        }
    }
}

int mylib_walk_space(mylib_walk *w, int64_t columns, int elements, int32_t threads)
{
    const int goes_down = w->rows > 1 && columns < MYLIB_CUDA_WARP * elements;
    const int32_t across = mylib_threads_across(
        goes_down ? columns : mylib_divide_up(columns, elements), w->rows, threads);
    const int32_t down = threads / across;
    w->column_step[0] = goes_down ? 0 : across;
    w->row_step[0] = goes_down ? down : 0;
    mylib_walk_set_tile(w, across, goes_down ? across : across * elements,
                        goes_down ? down * elements : down);
    return goes_down;
}

void mylib_walk_set_tile(mylib_walk *w, int32_t across, int32_t tile_columns, int32_t tile_rows)
{
    w->across = across;
    w->across_divider = mylib_divider_of(across);
    w->tile_columns = tile_columns;
    w->tile_rows = tile_rows;
}

void mylib_walk_cut(mylib_walk *w, int64_t columns, int32_t slice_rows, int32_t band)
{
    const int64_t tiles_across = mylib_divide_up(columns, w->tile_columns);
    w->slice_rows = slice_rows;
    w->slice_tiles = (int32_t)mylib_divide_up(slice_rows, w->tile_rows);
    const int32_t tiles_down = w->rows / slice_rows * w->slice_tiles;
    w->tiles = tiles_across * tiles_down;
    w->band_rows = band < tiles_down ? band : tiles_down;
    w->band_tiles = (int32_t)(w->band_rows * tiles_across);
    w->last_band = (int32_t)mylib_divide_up(tiles_down, w->band_rows) - 1;
    w->last_band_rows = tiles_down - w->last_band * w->band_rows;
    w->slice_tiles_divider = mylib_divider_of(w->slice_tiles);
    w->band_divider = mylib_divider_of(w->band_tiles);
    w->band_rows_divider = mylib_divider_of(w->band_rows);
    w->last_band_rows_divider = mylib_divider_of(w->last_band_rows);
    w->is_banded = w->band_rows != 1 || slice_rows != w->rows;
}
