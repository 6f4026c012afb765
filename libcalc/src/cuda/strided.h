/*
 * strided.h - how the GPU walks a layout of any strides: which element meets which thread.
 *
 * The innermost dimension of a layout is its columns; all others, numbered as one, are its rows.  A
 * block of threads computes a tile, a rectangle of columns and rows.  A thread's elements are
 * VECTORS groups of VECTOR elements; inside a group and from group to group it advances by steps
 * that are the same for all threads.  Tiles may be kept within a slice, the rows of the innermost
 * of their dimensions: then rows lie at equal distances.  strided.c chooses tile and steps:
 *
 * - along rows: the output and most inputs are contiguous there.  A group is a vector of 16 bytes,
 *   of small elements one that need not be aligned.
 * - transposing: some input is contiguous along another dimension.  Tiles are nearly square; such
 *   an input is read along its own dimension, and turned round in shared memory.  A group is a
 *   vector if the rows of the output are aligned, else scattered.
 * - scattered: everything else, also rows of large elements whose vectors are not aligned.
 *   Neighbours in a warp take neighbouring elements, which is all that fast loads need.
 *
 * The arithmetic is here, so that the tests can do it without a GPU.  Compiles as C and as CUDA
 * C++.
 */
#ifndef MYLIB_CUDA_STRIDED_H
#define MYLIB_CUDA_STRIDED_H

#include "shared.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One launch takes at most this many dimensions, at least 2, and elements: 32-bit indices do. */
#define MYLIB_STRIDED_MAX_NDIM 8
#define MYLIB_STRIDED_MAX_COUNT ((int64_t)1 << 30)

/* Elements of a group, and groups of a thread, for accumulators of 'size' bytes. */
#define MYLIB_STRIDED_VECTOR(size) (16 / (int)(size))
#define MYLIB_STRIDED_VECTORS(size) ((size) < 4 ? (int)(size) : 4)
#define MYLIB_STRIDED_ELEMENTS(size) (MYLIB_STRIDED_VECTOR(size) * MYLIB_STRIDED_VECTORS(size))

/* The tile of a transposing walk: columns x rows elements make the threads' elements. */
#define MYLIB_STRIDED_TILE_COLUMNS(size) ((size) >= 8 ? 32 : 64)
#define MYLIB_STRIDED_TILE_ROWS(size)                                                              \
    (MYLIB_CUDA_THREADS * MYLIB_STRIDED_ELEMENTS(size) / MYLIB_STRIDED_TILE_COLUMNS(size))
/* Bytes of a row of it in shared memory; the odd end lets columns spread over all banks. */
#define MYLIB_STRIDED_TILE_PITCH(size)                                                             \
    (MYLIB_STRIDED_TILE_COLUMNS(size) * (int)(size) + ((size) < 4 ? 4 : (int)(size)))

/*
 * Of smaller elements, vectors that are not aligned are put together from two: loading the elements
 * one by one would take longer than their memory does.
 */
#define MYLIB_STRIDED_SHIFTED_BELOW 4

/* The ways to read an input. */
enum {
    MYLIB_ACCESS_VECTOR,  /* a vector at once: contiguous along rows, aligned where the output is */
    MYLIB_ACCESS_SHIFTED, /* from the two vectors that a vector of unaligned elements lies in */
    MYLIB_ACCESS_ROW,     /* one element for a whole row */
    MYLIB_ACCESS_ELEMENT, /* element by element */
    MYLIB_ACCESS_UNIFORM, /* one element of GPU memory for all */
    MYLIB_ACCESS_CONSTANT, /* one value, carried in the arguments */
    MYLIB_ACCESS_GATHERED, /* element by element, of another type, or with places of their own */
    MYLIB_ACCESS_STAGED,   /* along its own dimension, through shared memory; of any type */
};

/* The output and the operands of a statement. */
#define MYLIB_STRIDED_OPERANDS (1 + MYLIB_MOST_OPERANDS)

typedef struct mylib_strided_args {
    /* The dimensions, the columns last; strides in bytes, of operand k in [d][k]. */
    int32_t ndim;
    int32_t operands;
    int32_t shape[MYLIB_STRIDED_MAX_NDIM];
    mylib_divider divider[MYLIB_STRIDED_MAX_NDIM];
    int64_t strides[MYLIB_STRIDED_MAX_NDIM][MYLIB_STRIDED_OPERANDS];
    /* Bytes from an element of a group to the next, if regular; from group to group, if plain. */
    int64_t element_step[MYLIB_STRIDED_OPERANDS], group_step[MYLIB_STRIDED_OPERANDS];
    /* Of a reversed input the lowest element of the first vector. */
    char *data[MYLIB_STRIDED_OPERANDS];
    uint8_t access[MYLIB_MOST_OPERANDS];
    uint8_t is_reversed[MYLIB_MOST_OPERANDS]; /* a vector that lies backwards in memory */
    uint8_t is_vector; /* groups are vectors, which begin where those of the output are aligned */
    uint8_t out_shift; /* the output's elements have 1 << out_shift bytes */

    int32_t columns, rows;
    int32_t slice_rows;  /* tiles do not cross slices: of all rows if that does not matter */
    int32_t slice_tiles; /* rows of tiles in a slice */
    mylib_divider slice_tiles_divider;
    uint8_t has_leads;  /* see mylib_strided_lead() */
    uint8_t is_plain;   /* rows and groups lie at equal distances, and there are no leads */
    uint8_t is_banded;  /* tiles are not simply numbered row by row */
    uint8_t is_regular; /* the elements of a group lie at equal distances, in every operand */
    /* The threads of a block: 'across' columns' worth, in as many rows as fit. */
    int32_t across;
    mylib_divider across_divider;
    int32_t column_unit;                 /* columns from one thread to the next */
    int32_t column_step[2], row_step[2]; /* [0] within a group, [1] from group to group */
    int32_t tile_columns, tile_rows;
    /*
     * Tiles are numbered down first within a band of rows of tiles, so that those that run together
     * are near each other in every operand.
     */
    int32_t tiles, band_rows, last_band, last_band_rows; /* rows of tiles */
    mylib_divider band_divider, band_rows_divider, last_band_rows_divider;
    int32_t band_tiles;

    mylib_statement statement; /* operand k is its operand[k - 1] */
    /* A step reads an operand: the mask of a selection, the `first` one, which is loaded, and one
       that is combined with it; or computes what has one operand. */
    uint8_t first, steps;
    MYLIB_ALIGNAS(16) unsigned char constant[MYLIB_MOST_OPERANDS][16];
} mylib_strided_args;

/*
 * Plans for a statement as mylib_cuda_launch() takes it, over a simplified layout of at most
 * MYLIB_STRIDED_MAX_NDIM dimensions, not counting outer ones of size 1, and MYLIB_STRIDED_MAX_COUNT
 * elements.  The constants are zeros, the caller's to fill in, each of mylib_read_type().
 */
void mylib_strided_init(mylib_strided_args *args, const mylib_statement *s,
                        const mylib_layout *layout);

/* ---- Arithmetic that host and GPU share ---------------------------------------------------- */

/* Finds where the tile of a block begins, and the end of its rows. */
MYLIB_DEVICE_FN void mylib_strided_tile(const mylib_strided_args *p, int32_t block, int32_t *column,
                                        int32_t *row, int32_t *end_row)
{
    int32_t band = mylib_divide(block, p->band_divider), rest = block - band * p->band_tiles;
    if (!p->is_banded) {
        *column = rest * p->tile_columns;
        *row = band * p->tile_rows;
        *end_row = p->rows;
        return;
    }
    int32_t is_last = band == p->last_band;
    int32_t tile_column =
        mylib_divide(rest, is_last ? p->last_band_rows_divider : p->band_rows_divider);
    rest -= tile_column * (is_last ? p->last_band_rows : p->band_rows);
    rest += band * p->band_rows;
    int32_t slice = mylib_divide(rest, p->slice_tiles_divider);
    *column = tile_column * p->tile_columns;
    *row = slice * p->slice_rows + (rest - slice * p->slice_tiles) * p->tile_rows;
    *end_row = (slice + 1) * p->slice_rows;
}

/* Bytes from the first element of operand k to the first of a row. */
MYLIB_DEVICE_FN int64_t mylib_strided_row(const mylib_strided_args *p, int k, int32_t row)
{
    int64_t offset = 0;
    MYLIB_ROLLED for (int d = p->ndim - 2; d > 0; d--)
    {
        int32_t quotient = mylib_divide(row, p->divider[d]);
        offset += (int64_t)(row - quotient * p->shape[d]) * p->strides[d][k];
        row = quotient;
    }
    return offset + (int64_t)row * p->strides[0][k];
}

/*
 * Returns how many columns before the row's first one the vectors begin, so that those of the
 * output are aligned.
 */
MYLIB_DEVICE_FN int32_t mylib_strided_lead(const mylib_strided_args *p, int vector, int32_t row)
{
    if (!p->has_leads)
        return 0;
    uintptr_t address = (uintptr_t)p->data[0] + (uintptr_t)mylib_strided_row(p, 0, row);
    return (int32_t)(address >> p->out_shift) & (vector - 1);
}

#ifdef __cplusplus
}
#endif

#endif /* MYLIB_CUDA_STRIDED_H */
