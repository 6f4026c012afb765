/*
 * strided.c - chooses how the GPU walks a layout; see strided.h.  Plain C: runs without a GPU.
 */
#include <stdlib.h>
#include <string.h>

#include "strided.h"

#include "../counting.h"

/* The height of the bands of a transposing walk, in tiles. */
#define TRANSPOSE_BAND 16

static void set_threads(mylib_strided_args *p, int32_t across, int32_t column_unit,
                        int32_t tile_columns, int32_t tile_rows)
{
    p->column_unit = column_unit;
    mylib_walk_set_tile(&p->walk, across, tile_columns, tile_rows);
}

static int is_repeated(const mylib_strided_args *p, int k)
{
    for (int d = 0; d < p->walk.row_ndim; d++)
        if (p->row_stride[d][k] != 0)
            return 0;
    return p->column_stride[k] == 0;
}

/*
 * Tells whether the vectors of input k are aligned wherever the output's are: the addresses, in
 * elements, are equal modulo a vector; for a reversed input their sum is -1.
 */
static int agrees_with_output(const mylib_strided_args *p, int k, size_t size, int is_reversed,
                              uintptr_t vector)
{
    uintptr_t out_size = (uintptr_t)1 << p->out_shift, sign = is_reversed ? 1 : (uintptr_t)-1;
    uintptr_t differs =
        (uintptr_t)p->data[k] / size + sign * ((uintptr_t)p->data[0] / out_size) + is_reversed;
    for (int d = 0; d < p->walk.row_ndim; d++)
        differs |= (uintptr_t)(p->row_stride[d][k] / (int64_t)size) +
                   sign * (uintptr_t)(p->row_stride[d][0] / (int64_t)out_size);
    return (differs & (vector - 1)) == 0;
}

/* Tells whether all rows of the output begin where its vectors are aligned. */
static int has_aligned_rows(const mylib_strided_args *p, int vector)
{
    int64_t out_size = (int64_t)1 << p->out_shift;
    uintptr_t leads = (uintptr_t)p->data[0] / (uintptr_t)out_size;
    for (int d = 0; d < p->walk.row_ndim; d++)
        leads |= (uintptr_t)(p->row_stride[d][0] / out_size);
    return (leads & (uintptr_t)(vector - 1)) == 0;
}

static int agree_with_output(const mylib_strided_args *p, int size, int vector)
{
    for (int k = 1; k < p->operands; k++) {
        int64_t stride = p->column_stride[k];
        if (p->access[k - 1] == MYLIB_ACCESS_ELEMENT && stride != 0 &&
            !agrees_with_output(p, k, (size_t)size, stride < 0, (uintptr_t)vector))
            return 0;
    }
    return has_aligned_rows(p, vector);
}

/* Tells whether elements `stride` bytes apart can be picked out of vectors. */
static int is_spread(int64_t stride, int64_t size)
{
    return size < MYLIB_STRIDED_SHIFTED_BELOW && llabs(stride) > size &&
           llabs(stride) <= MYLIB_STRIDED_MOST_SPREAD * size;
}

/* Makes groups vectors, and chooses how to read inputs whose rows are dense or constant. */
static void set_vectors(mylib_strided_args *p, int size, int vector)
{
    p->is_vector = 1;
    for (int k = 1; k < p->operands; k++) {
        uint8_t *access = &p->access[k - 1];
        int64_t stride = p->column_stride[k];
        const int spreads = is_spread(stride, size);
        if (*access != MYLIB_ACCESS_ELEMENT || (stride != 0 && llabs(stride) != size && !spreads))
            continue;
        if (stride == 0)
            *access = MYLIB_ACCESS_ROW;
        else if (spreads)
            *access = MYLIB_ACCESS_SPREAD;
        else if (agrees_with_output(p, k, (size_t)size, stride < 0, (uintptr_t)vector))
            *access = MYLIB_ACCESS_VECTOR;
        else if (size < MYLIB_STRIDED_SHIFTED_BELOW)
            *access = MYLIB_ACCESS_SHIFTED;
        p->is_reversed[k - 1] = stride < 0 && *access != MYLIB_ACCESS_ELEMENT;
    }
}

/* Returns false if the layout does not allow it. */
static int choose_vectors(mylib_strided_args *p, int size, int vector, int vectors)
{
    const int is_aligned = has_aligned_rows(p, vector);
    if (p->column_stride[0] != (int64_t)1 << p->out_shift ||
        (p->columns < (is_aligned ? 2 : 4) * vector && vector > 1))
        return 0;
    for (int k = 1; k < p->operands; k++) {
        int64_t in_size = (int64_t)mylib_type_size((mylib_type)p->statement.operand[k - 1].type);
        int64_t stride = p->column_stride[k];
        if (stride != 0 && llabs(stride) != in_size &&
            !(p->access[k - 1] == MYLIB_ACCESS_ELEMENT && is_spread(stride, size)))
            return 0;
    }
    if (size >= MYLIB_STRIDED_SHIFTED_BELOW && !agree_with_output(p, size, vector))
        return 0;

    set_vectors(p, size, vector);
    p->has_leads = !is_aligned;
    mylib_walk *w = &p->walk;
    const int32_t units =
        (int32_t)mylib_divide_up(p->columns + (is_aligned ? 0 : vector - 1), vector);
    int32_t across = mylib_threads_across(units, w->rows, MYLIB_CUDA_THREADS),
            down = MYLIB_CUDA_THREADS / across;
    /* Go down, so that a thread keeps its columns, unless too many threads would have no row. */
    int goes_down = w->rows >= 4 * down * vectors || units < across * vectors;
    set_threads(p, across, vector, across * vector * (goes_down ? 1 : vectors),
                down * (goes_down ? vectors : 1));
    w->column_step[0] = 1;
    w->column_step[1] = goes_down ? 0 : across * vector;
    w->row_step[1] = goes_down ? down : 0;
    mylib_walk_cut(w, units * vector, w->rows, 1);
    p->is_regular = 1;
    return 1;
}

static void move_inward(mylib_strided_args *p, int d)
{
    mylib_walk_move_inward(&p->walk, d, p->row_stride[0], MYLIB_STRIDED_OPERANDS);
}

/* Returns the dimension of the rows in which input k is denser than in the columns, or -1. */
static int own_dimension(const mylib_strided_args *p, int k)
{
    int best = -1;
    int64_t least = llabs(p->column_stride[k]);
    if (least <= (int64_t)mylib_type_size((mylib_type)p->statement.operand[k - 1].type))
        return -1;
    for (int d = 0; d < p->walk.row_ndim; d++) {
        int64_t stride = llabs(p->row_stride[d][k]);
        if (stride != 0 && stride < least && p->walk.row_shape[d] >= MYLIB_TRANSPOSE_MIN) {
            best = d;
            least = stride;
        }
    }
    return best;
}

/* Returns own_dimension() of the first input that has one. */
static int find_turned(const mylib_strided_args *p)
{
    int turned = -1;
    for (int k = 1; k <= p->statement.operands && turned < 0; k++)
        turned = own_dimension(p, k);
    return turned;
}

/* By log2 of the size: this share of a tile must exist, or flat is faster. */
static const double least_used[] = {0.30, 0.40, 0.55, 0.75, 0.85};

/* Returns which share of a tile exists, in slices of `rows` rows. */
static double share_used(const mylib_strided_args *p, int32_t rows)
{
    const mylib_walk *w = &p->walk;
    const double threads = MYLIB_CUDA_THREADS / w->across * w->across;
    return threads / MYLIB_CUDA_THREADS * p->columns /
           (double)mylib_round_up(p->columns, w->tile_columns) * rows /
           (double)mylib_round_up(rows, w->tile_rows);
}

/* Returns the columns of the fullest tiles of slices of `rows` rows: the usual ones if possible. */
static int32_t choose_tile(const mylib_strided_args *p, int32_t rows, int size)
{
    const int32_t usual = MYLIB_STRIDED_TILE_COLUMNS(size), least = MYLIB_STRIDED_TILE_LEAST(size),
                  elements = MYLIB_CUDA_THREADS * MYLIB_STRIDED_ELEMENTS(size);
    int32_t best = usual, columns = usual;
    int64_t fewest = INT64_MAX;
    do {
        const int64_t tiles =
            mylib_divide_up(p->columns, columns) * mylib_divide_up(rows, elements / columns);
        best = tiles < fewest ? columns : best;
        fewest = mylib_lesser(tiles, fewest);
        columns = columns * least < elements ? columns * 2 : least;
    } while (columns != usual);
    return best;
}

/* Returns false if no input is transposed against the output, or tiles would be too empty. */
static int choose_transpose(mylib_strided_args *p, int size, int vector)
{
    mylib_walk *w = &p->walk;
    const int inner = w->row_ndim - 1;
    const int turned = find_turned(p);
    if (p->columns < MYLIB_TRANSPOSE_MIN || turned < 0)
        return 0;
    const int is_vector =
        p->column_stride[0] == (int64_t)1 << p->out_shift && has_aligned_rows(p, vector);
    const int32_t columns = choose_tile(p, w->row_shape[turned], size),
                  rows = MYLIB_CUDA_THREADS * MYLIB_STRIDED_ELEMENTS(size) / columns;
    set_threads(p, is_vector ? columns / vector : columns, is_vector ? vector : 1, columns, rows);
    if (share_used(p, w->row_shape[turned]) < least_used[mylib_log2_of(size)])
        return 0;
    move_inward(p, turned);
    for (int k = 1; k < p->operands; k++)
        if (own_dimension(p, k) == inner)
            p->access[k - 1] = MYLIB_ACCESS_STAGED;

    p->tile_bits = (uint8_t)mylib_log2_of(rows);
    p->tile_pitch = MYLIB_STRIDED_TILE_PITCH(columns, size);
    if (is_vector) {
        set_vectors(p, size, vector);
        w->column_step[0] = 1;
        w->row_step[1] = MYLIB_CUDA_THREADS / w->across;
    } else {
        w->row_step[0] = MYLIB_CUDA_THREADS / columns;
        w->row_step[1] = w->row_step[0] * vector;
    }
    mylib_walk_cut(w, p->columns, w->row_shape[inner], TRANSPOSE_BAND);
    p->is_regular = 1;
    return 1;
}

/* Numbers the elements in C order: those of a thread are as far apart as there are threads. */
static void choose_flat(mylib_strided_args *p, const mylib_layout *layout, int elements, int vector)
{
    mylib_walk *w = &p->walk;
    for (int k = 1; k < p->operands; k++) {
        const mylib_value operand = p->statement.operand[k - 1];
        uint8_t *access = &p->access[k - 1];
        if ((*access == MYLIB_ACCESS_ELEMENT || *access == MYLIB_ACCESS_MASK) &&
            !mylib_layout_is_contiguous(layout, 1 + operand.index,
                                        mylib_type_size((mylib_type)operand.type)))
            *access = MYLIB_ACCESS_GATHERED;
    }
    p->is_regular = (uint8_t)mylib_layout_is_contiguous(layout, 0, (size_t)1 << p->out_shift);
    p->is_flat = 1;
    p->flat_columns = p->columns;
    p->flat_divider = mylib_divider_of(p->columns);
    p->columns *= w->rows;
    w->rows = 1;
    set_threads(p, MYLIB_CUDA_THREADS, 1, MYLIB_CUDA_THREADS * elements, 1);
    w->column_step[0] = MYLIB_CUDA_THREADS;
    w->column_step[1] = MYLIB_CUDA_THREADS * vector;
    w->row_step[0] = w->row_step[1] = 0;
    mylib_walk_cut(w, p->columns, 1, 1);
}

/* Returns false if tiles would be too empty. */
static int choose_scattered(mylib_strided_args *p, int size, int vector, int vectors)
{
    mylib_walk *w = &p->walk;
    const int goes_down = mylib_walk_space(w, p->columns, vector * vectors, MYLIB_CUDA_THREADS);
    const int longest = mylib_walk_longest(w), inner = w->row_ndim - 1;
    const double least = least_used[mylib_log2_of(size)];
    const double along = share_used(p, w->row_shape[longest]);
    int32_t slice_rows = goes_down ? w->row_shape[inner] : w->rows;
    double used = share_used(p, slice_rows);
    /* Along the longest dimension, unless neighbouring rows of an input lie in the same sectors. */
    if (goes_down && along >= least && along > 1.2 * used && find_turned(p) < 0) {
        move_inward(p, longest);
        slice_rows = w->row_shape[inner];
        used = along;
    }
    if (used < least)
        return 0;
    p->column_unit = 1;
    w->column_step[1] = w->column_step[0] * vector;
    w->row_step[1] = w->row_step[0] * vector;
    mylib_walk_cut(w, p->columns, slice_rows, 1);
    p->is_regular = 1;
    return 1;
}

/* Finds the aligned vectors that lie within input k. */
static void set_extent(mylib_strided_args *p, int k, int64_t size)
{
    uintptr_t begin = (uintptr_t)p->data[k], end = begin + (uintptr_t)size;
    for (int d = -1; d < p->walk.row_ndim; d++) {
        const int64_t stride = d < 0 ? p->column_stride[k] : p->row_stride[d][k];
        const int64_t reach = ((d < 0 ? p->columns : p->walk.row_shape[d]) - 1) * stride;
        begin += (uintptr_t)(reach < 0 ? reach : 0);
        end += (uintptr_t)(reach > 0 ? reach : 0);
    }
    p->vectors_begin[k - 1] = (const char *)((begin + 15) / 16 * 16);
    p->vectors_end[k - 1] = (const char *)(end / 16 * 16);
}

/*
 * Chooses vectors of pixels for a copy of small elements between images and planes; returns false
 * for other layouts, or if vectors would not be aligned.
 */
static int choose_channels(mylib_strided_args *p, int size, int vector)
{
    mylib_walk *w = &p->walk;
    const int inner = w->row_ndim - 1;
    /* The channels are the columns of an image, or the rows of planes. */
    const int from_planes = p->columns <= MYLIB_STRIDED_MOST_SPREAD;
    const int32_t channels = from_planes ? p->columns : w->row_shape[inner];
    const int32_t pixels = from_planes ? w->row_shape[inner] : p->columns;
    const int64_t *channel_step = from_planes ? p->column_stride : p->row_stride[inner];
    const int64_t *pixel_step = from_planes ? p->row_stride[inner] : p->column_stride;
    const int images = from_planes ? 0 : 1, planes = 1 - images;
    uintptr_t bits =
        (uintptr_t)p->data[0] | (uintptr_t)p->data[1] | (uintptr_t)channel_step[planes];
    if (p->statement.opcode != MYLIB_OPCODE_CONVERT || p->access[0] != MYLIB_ACCESS_ELEMENT ||
        size >= MYLIB_STRIDED_SHIFTED_BELOW || channels < 2 ||
        channels > MYLIB_STRIDED_MOST_SPREAD || pixels % vector != 0 ||
        pixel_step[planes] != size || channel_step[images] != size ||
        pixel_step[images] != channels * size)
        return 0;
    for (int d = 0; d < inner; d++)
        bits |= (uintptr_t)p->row_stride[d][0] | (uintptr_t)p->row_stride[d][1];
    if (bits % 16 != 0)
        return 0;
    p->channels = (uint8_t)channels;
    p->planes = (uint8_t)planes;
    p->plane_step = channel_step[planes];
    p->units = pixels / vector;
    p->all_units = w->rows / w->row_shape[inner] * p->units;
    w->across_divider = mylib_divider_of(p->units);
    w->tiles = mylib_divide_up(p->all_units, MYLIB_CUDA_THREADS);
    return 1;
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
    mylib_walk_begin(&p->walk, layout);
    p->columns = (int32_t)layout->shape[layout->ndim - 1];
    for (int k = 0; k < p->operands; k++) {
        int row = k == 0 ? 0 : 1 + s->operand[k - 1].index;
        p->data[k] = layout->data[row];
        p->column_stride[k] = layout->strides[row][layout->ndim - 1];
        mylib_walk_take_strides(&p->walk, layout, row, &p->row_stride[0][k],
                                MYLIB_STRIDED_OPERANDS);
    }
    p->out_shift = (uint8_t)mylib_log2_of((int64_t)out_size);
    for (int k = 1; k < p->operands; k++) {
        const mylib_value operand = s->operand[k - 1];
        p->access[k - 1] = layout->is_host_scalar[1 + operand.index] ? MYLIB_ACCESS_CONSTANT
                           : operand.type != s->type
                               ? (k <= p->first ? MYLIB_ACCESS_MASK : MYLIB_ACCESS_GATHERED)
                           : is_repeated(p, k) ? MYLIB_ACCESS_UNIFORM
                                               : MYLIB_ACCESS_ELEMENT;
    }

    if (choose_channels(p, size, vector))
        return;
    if (!choose_vectors(p, size, vector, vectors) && !choose_transpose(p, size, vector) &&
        !choose_scattered(p, size, vector, vectors))
        choose_flat(p, layout, vector * vectors, vector);
    const mylib_walk *w = &p->walk;
    p->is_plain = !p->has_leads && (w->row_ndim == 1 || p->is_flat);
    p->is_early = p->operands <= 3 && size < MYLIB_STRIDED_SHIFTED_BELOW && p->is_vector;
    for (int k = 1; k < p->operands; k++) {
        if (p->is_vector)
            set_extent(p, k, size);
        p->is_early = p->is_early && p->access[k - 1] <= MYLIB_ACCESS_SHIFTED;
    }
    for (int k = 0; k < p->operands; k++) {
        const int64_t column = p->column_stride[k], row = p->row_stride[w->row_ndim - 1][k];
        p->element_step[k] = mylib_walk_step(w, 0, column, row);
        p->group_step[k] = mylib_walk_step(w, 1, column, row);
        if (k > 0 && p->is_reversed[k - 1])
            p->data[k] -= (vector - 1) * llabs(column);
    }
}
