/*
 * strided.c - chooses how the GPU walks a layout; see strided.h.  Plain C: runs without a GPU.
 */
#include <string.h>

#include "strided.h"

/* A warp that reads this many vectors of a row reads whole cache lines; a block reads 8 rows. */
#define USUAL_ACROSS 32

/* A transposing walk pays where tiles are mostly full; its bands are this many tiles high. */
#define TRANSPOSE_MIN 16
#define TRANSPOSE_BAND 16

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

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

static int32_t tiles_of(int32_t n, int32_t tile) { return (n - 1) / tile + 1; }

int32_t mylib_threads_across(int32_t units, int32_t rows, int32_t threads)
{
    int32_t usual = rows >= threads / USUAL_ACROSS ? USUAL_ACROSS : threads / rows / 8 * 8;
    if (units <= usual + usual / 2)
        return units < threads ? units : threads;
    int32_t share = tiles_of(units, tiles_of(units, usual));
    return (share + 7) / 8 * 8;
}

/*
 * Tiles of tile_columns x tile_rows within slices of slice_rows, in bands of 'band' rows of tiles.
 */
static void set_tiles(mylib_strided_args *p, int32_t columns, int32_t tile_columns,
                      int32_t slice_rows, int32_t tile_rows, int32_t band)
{
    int32_t tiles_across = tiles_of(columns, tile_columns);
    int32_t slice_tiles = tiles_of(slice_rows, tile_rows);
    int32_t tiles_down = p->rows / slice_rows * slice_tiles;
    p->slice_rows = slice_rows;
    p->slice_tiles = slice_tiles;
    p->slice_tiles_divider = mylib_divider_of(slice_tiles);
    p->tile_columns = tile_columns;
    p->tile_rows = tile_rows;
    p->tiles = tiles_across * tiles_down;
    p->band_rows = band < tiles_down ? band : tiles_down;
    p->band_tiles = p->band_rows * tiles_across;
    p->last_band = tiles_of(tiles_down, p->band_rows) - 1;
    p->last_band_rows = tiles_down - p->last_band * p->band_rows;
    p->band_divider = mylib_divider_of(p->band_tiles);
    p->band_rows_divider = mylib_divider_of(p->band_rows);
    p->last_band_rows_divider = mylib_divider_of(p->last_band_rows);
}

static void set_threads(mylib_strided_args *p, int32_t across, int32_t column_unit)
{
    p->across = across;
    p->across_divider = mylib_divider_of(across);
    p->column_unit = column_unit;
}

/* ---- The three kinds of walk --------------------------------------------------------------- */

static int is_repeated(const mylib_strided_args *p, int k)
{
    for (int d = 0; d < p->ndim; d++)
        if (p->strides[d][k] != 0)
            return 0;
    return 1;
}

/*
 * Tells whether the vectors of input k are aligned wherever the output's are: counted in elements,
 * the addresses are equal modulo a vector; for a reversed input their sum is -1.
 */
static int agrees_with_output(const mylib_strided_args *p, int k, size_t size, int is_reversed,
                              uintptr_t vector)
{
    uintptr_t out_size = (uintptr_t)1 << p->out_shift, sign = is_reversed ? 1 : (uintptr_t)-1;
    uintptr_t differs =
        (uintptr_t)p->data[k] / size + sign * ((uintptr_t)p->data[0] / out_size) + is_reversed;
    for (int d = 0; d < p->ndim - 1; d++)
        differs |= (uintptr_t)(p->strides[d][k] / (int64_t)size) +
                   sign * (uintptr_t)(p->strides[d][0] / (int64_t)out_size);
    return (differs & (vector - 1)) == 0;
}

/* Tells whether all rows of the output begin where its vectors are aligned. */
static int has_aligned_rows(const mylib_strided_args *p, int vector)
{
    int64_t out_size = (int64_t)1 << p->out_shift;
    uintptr_t leads = (uintptr_t)p->data[0] / (uintptr_t)out_size;
    for (int d = 0; d < p->ndim - 1; d++)
        leads |= (uintptr_t)(p->strides[d][0] / out_size);
    return (leads & (uintptr_t)(vector - 1)) == 0;
}

/* Tells whether the rows of the output and the vectors of all inputs are aligned. */
static int agree_with_output(const mylib_strided_args *p, int size, int vector)
{
    for (int k = 1; k < p->operands; k++) {
        int64_t stride = p->strides[p->ndim - 1][k];
        if (p->access[k - 1] == MYLIB_ACCESS_ELEMENT && stride != 0 &&
            !agrees_with_output(p, k, (size_t)size, stride < 0, (uintptr_t)vector))
            return 0;
    }
    return has_aligned_rows(p, vector);
}

/* Makes groups vectors, and reads the inputs as vectors that lie so. */
static void set_vectors(mylib_strided_args *p, int size, int vector)
{
    p->is_vector = 1;
    for (int k = 1; k < p->operands; k++) {
        uint8_t *access = &p->access[k - 1];
        int64_t stride = p->strides[p->ndim - 1][k];
        if (*access != MYLIB_ACCESS_ELEMENT || (stride != 0 && magnitude(stride) != size))
            continue;
        if (stride == 0)
            *access = MYLIB_ACCESS_ROW;
        else if (agrees_with_output(p, k, (size_t)size, stride < 0, (uintptr_t)vector))
            *access = MYLIB_ACCESS_VECTOR;
        else if (size < MYLIB_STRIDED_SHIFTED_BELOW)
            *access = MYLIB_ACCESS_SHIFTED;
        p->is_reversed[k - 1] = stride < 0 && *access != MYLIB_ACCESS_ELEMENT;
    }
}

/* Chooses vectors along the rows; returns false if the layout does not allow it. */
static int choose_vectors(mylib_strided_args *p, int size, int vector, int vectors)
{
    int inner = p->ndim - 1, is_aligned = has_aligned_rows(p, vector);
    if (p->strides[inner][0] != (int64_t)1 << p->out_shift ||
        (p->columns < (is_aligned ? 2 : 4) * vector && vector > 1))
        return 0;
    for (int k = 1; k < p->operands; k++) {
        int64_t in_size = (int64_t)mylib_type_size((mylib_type)p->statement.operand[k - 1].type);
        int64_t stride = p->strides[inner][k];
        if (stride != 0 && magnitude(stride) != in_size)
            return 0;
    }
    if (size >= MYLIB_STRIDED_SHIFTED_BELOW && !agree_with_output(p, size, vector))
        return 0;

    set_vectors(p, size, vector);
    p->has_leads = !is_aligned;
    int32_t units = tiles_of(p->columns + (is_aligned ? 0 : vector - 1), vector);
    int32_t across = mylib_threads_across(units, p->rows, MYLIB_CUDA_THREADS),
            down = MYLIB_CUDA_THREADS / across;
    /* Down, where a thread takes the same columns again, if few threads are left without rows. */
    int goes_down = p->rows >= 4 * down * vectors || units < across * vectors;
    set_threads(p, across, vector);
    p->column_step[0] = 1;
    p->row_step[0] = 0;
    p->column_step[1] = goes_down ? 0 : across * vector;
    p->row_step[1] = goes_down ? down : 0;
    set_tiles(p, units * vector, across * vector * (goes_down ? 1 : vectors), p->rows,
              down * (goes_down ? vectors : 1), 1);
    p->is_regular = 1;
    return 1;
}

/* Makes dimension d the innermost of the rows. */
static void move_next_to_columns(mylib_strided_args *p, int d)
{
    int64_t strides[MYLIB_STRIDED_OPERANDS];
    int32_t size = p->shape[d];
    memcpy(strides, p->strides[d], sizeof strides);
    for (; d < p->ndim - 2; d++) {
        p->shape[d] = p->shape[d + 1];
        memcpy(p->strides[d], p->strides[d + 1], sizeof strides);
    }
    p->shape[d] = size;
    memcpy(p->strides[d], strides, sizeof strides);
}

/* Returns the dimension of the rows in which input k is denser than in the columns, or -1. */
static int own_dimension(const mylib_strided_args *p, int k)
{
    int inner = p->ndim - 1, best = -1;
    int64_t least = magnitude(p->strides[inner][k]);
    if (least <= (int64_t)mylib_type_size((mylib_type)p->statement.operand[k - 1].type))
        return -1;
    for (int d = 0; d < inner; d++) {
        int64_t stride = magnitude(p->strides[d][k]);
        if (stride != 0 && stride < least && p->shape[d] >= TRANSPOSE_MIN) {
            best = d;
            least = stride;
        }
    }
    return best;
}

/* Chooses square tiles; returns false if no input is transposed against the output. */
static int choose_transpose(mylib_strided_args *p, int size, int vector)
{
    int turned = -1;
    if (p->columns < TRANSPOSE_MIN)
        return 0;
    for (int k = 1; k <= p->statement.operands && turned < 0; k++)
        turned = own_dimension(p, k);
    if (turned < 0)
        return 0;
    move_next_to_columns(p, turned);
    for (int k = 1; k < p->operands; k++)
        if (own_dimension(p, k) == p->ndim - 2)
            p->access[k - 1] = MYLIB_ACCESS_STAGED;

    int32_t columns = MYLIB_STRIDED_TILE_COLUMNS(size), rows = MYLIB_STRIDED_TILE_ROWS(size);
    if (p->strides[p->ndim - 1][0] == (int64_t)1 << p->out_shift && has_aligned_rows(p, vector)) {
        set_vectors(p, size, vector);
        set_threads(p, columns / vector, vector);
        p->column_step[0] = 1;
        p->row_step[1] = MYLIB_CUDA_THREADS / p->across;
    } else {
        set_threads(p, columns, 1);
        p->row_step[0] = MYLIB_CUDA_THREADS / columns;
        p->row_step[1] = p->row_step[0] * vector;
    }
    set_tiles(p, p->columns, columns, p->shape[p->ndim - 2], rows, TRANSPOSE_BAND);
    p->is_regular = 1;
    return 1;
}

static void choose_scattered(mylib_strided_args *p, int vector, int vectors)
{
    int32_t elements = vector * vectors;
    int goes_down = p->columns < USUAL_ACROSS * elements && p->rows > 1;
    int32_t across = mylib_threads_across(goes_down ? p->columns : tiles_of(p->columns, elements),
                                          p->rows, MYLIB_CUDA_THREADS);
    int32_t down = MYLIB_CUDA_THREADS / across;
    set_threads(p, across, 1);
    p->column_step[0] = goes_down ? 0 : across;
    p->column_step[1] = goes_down ? 0 : across * vector;
    p->row_step[0] = goes_down ? down : 0;
    p->row_step[1] = goes_down ? down * vector : 0;
    /* Keep tiles within slices, of the longest dimension, unless too many threads would idle. */
    int longest = p->ndim - 2;
    for (int d = 0; d < p->ndim - 2; d++)
        longest = p->shape[d] > p->shape[longest] ? d : longest;
    if (goes_down && p->shape[p->ndim - 2] < down * elements / 2)
        move_next_to_columns(p, longest);
    int32_t slice_rows = p->shape[p->ndim - 2];
    p->is_regular = !goes_down || slice_rows == p->rows || slice_rows >= down * elements / 2;
    if (!goes_down || !p->is_regular)
        slice_rows = p->rows;
    set_tiles(p, p->columns, goes_down ? across : across * elements, slice_rows,
              goes_down ? down * elements : down, 1);
}

void mylib_strided_init(mylib_strided_args *p, const mylib_statement *s, const mylib_layout *layout)
{
    int size = (int)mylib_type_size((mylib_type)s->type);
    int vector = MYLIB_STRIDED_VECTOR(size), vectors = MYLIB_STRIDED_VECTORS(size);
    size_t out_size = mylib_type_size((mylib_type)s->result_type);

    memset(p, 0, sizeof *p);
    p->statement = *s;
    p->first = s->opcode == MYLIB_OPCODE_SELECT;
    p->steps = (uint8_t)(s->operands + (s->operands == 1 && s->opcode != MYLIB_OPCODE_CONVERT));
    p->operands = 1 + s->operands;
    /* Leave out outer dimensions of size 1, but keep one for the rows. */
    int outer = 0, missing = 0;
    while (outer < layout->ndim - 2 && layout->shape[outer] == 1)
        outer++;
    if (layout->ndim == 1)
        missing = 1;
    p->ndim = layout->ndim - outer + missing;
    p->shape[0] = 1;
    for (int d = missing; d < p->ndim; d++)
        p->shape[d] = (int32_t)layout->shape[outer + d - missing];
    for (int k = 0; k < p->operands; k++) {
        int row = k == 0 ? 0 : 1 + s->operand[k - 1].index;
        p->data[k] = layout->data[row];
        for (int d = missing; d < p->ndim; d++)
            p->strides[d][k] = layout->strides[row][outer + d - missing];
    }
    p->columns = p->shape[p->ndim - 1];
    p->rows = 1;
    for (int d = 0; d < p->ndim - 1; d++)
        p->rows *= p->shape[d];
    while (((size_t)1 << p->out_shift) < out_size)
        p->out_shift++;
    for (int k = 1; k < p->operands; k++) {
        const mylib_value operand = s->operand[k - 1];
        p->access[k - 1] = layout->is_host_scalar[1 + operand.index] ? MYLIB_ACCESS_CONSTANT
                           : operand.type != s->type                 ? MYLIB_ACCESS_GATHERED
                           : is_repeated(p, k)                       ? MYLIB_ACCESS_UNIFORM
                                                                     : MYLIB_ACCESS_ELEMENT;
    }

    if (!choose_vectors(p, size, vector, vectors) && !choose_transpose(p, size, vector))
        choose_scattered(p, vector, vectors);
    int inner = p->ndim - 1;
    p->is_plain = !p->has_leads && p->ndim == 2;
    p->is_banded = p->band_rows != 1 || p->slice_rows != p->rows;
    for (int k = 0; k < p->operands; k++) {
        const int64_t *column = &p->strides[inner][k], *row = &p->strides[inner - 1][k];
        p->element_step[k] = p->column_step[0] * *column + p->row_step[0] * *row;
        p->group_step[k] = p->column_step[1] * *column + p->row_step[1] * *row;
        if (k > 0 && p->is_reversed[k - 1])
            p->data[k] -= (vector - 1) * size;
    }
    for (int k = 1; k < p->operands; k++)
        if (p->access[k - 1] == MYLIB_ACCESS_ELEMENT && !p->is_regular)
            p->access[k - 1] = MYLIB_ACCESS_GATHERED;
    for (int d = 0; d < p->ndim - 1; d++)
        p->divider[d] = mylib_divider_of(p->shape[d]);
}
