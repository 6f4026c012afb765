/*
 * strided.h - how the GPU walks a layout of any strides: which thread computes which elements.
 *
 * A walk (walk.h) assigns the elements to threads: a thread has VECTORS groups of VECTOR elements,
 * with steps inside a group and from group to group.  strided.c chooses tile and steps:
 *
 * - along rows: the output and most inputs are contiguous there.  A group is a vector of 16 bytes,
 *   which need not be aligned for small elements.
 * - transposing: some input is contiguous along another dimension.  Tiles are nearly square if that
 *   fills them; such an input is transposed in shared memory.  A group is a vector if the rows of
 *   the output are aligned, else scattered.
 * - channels: a copy between images of 2 to 4 adjacent channels and planes, of small elements.  A
 *   thread copies a vector of pixels of all channels.
 * - scattered: everything else.  The elements of all groups lie at equal distances.
 * - flat: tiles would be too empty.  The elements are numbered in C order, as columns of a single
 *   row; operands that are not contiguous need a division for each dimension.
 *
 * Compiles as C and as CUDA C++.
 */
#pragma once

#include "walk.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits of one launch, for 32-bit indices: dimensions (at least 2) and elements. */
#define MYLIB_STRIDED_MAX_NDIM (MYLIB_WALK_MAX_NDIM + 1)
#define MYLIB_STRIDED_MAX_COUNT ((int64_t)1 << 30)

/* Elements of a group, and groups of a thread, for accumulators of 'size' bytes. */
#define MYLIB_STRIDED_VECTOR(size) (16 / (int)(size))
#define MYLIB_STRIDED_VECTORS(size) ((size) < 4 ? 2 : 4)
#define MYLIB_STRIDED_ELEMENTS(size) (MYLIB_STRIDED_VECTOR(size) * MYLIB_STRIDED_VECTORS(size))

/* The least columns and rows for a transposing walk: it pays if tiles are mostly full. */
#define MYLIB_TRANSPOSE_MIN 16

/*
 * The tile of a transposing walk: columns x rows are the elements of all threads.  Both are powers
 * of 2, at least TILE_LEAST; usually there are TILE_COLUMNS.
 */
#define MYLIB_STRIDED_TILE_COLUMNS(size) ((size) >= 8 ? 32 : 64)
#define MYLIB_STRIDED_TILE_LEAST(size) ((size) == 1 ? 32 : 16)
/* Bytes of a tile's row in shared memory; the padding spreads columns over all banks. */
#define MYLIB_STRIDED_TILE_PITCH(columns, size) \
    ((columns) * (int)(size) + ((size) < 4 ? 4 : (int)(size)))

/*
 * Unaligned vectors of elements smaller than this are assembled from two aligned ones: to load each
 * element would take longer than the memory.
 */
#define MYLIB_STRIDED_SHIFTED_BELOW 4

/* Every second to every fourth such element is picked out of the vectors that hold them. */
#define MYLIB_STRIDED_MOST_SPREAD 4

/* How to read an input. */
enum {
    MYLIB_ACCESS_VECTOR,   /* a vector at once: contiguous along rows, aligned like the output */
    MYLIB_ACCESS_SHIFTED,  /* an unaligned vector, from the aligned vectors that hold it */
    MYLIB_ACCESS_SPREAD,   /* small elements some places apart, picked out of aligned vectors */
    MYLIB_ACCESS_ROW,      /* one element for a whole row */
    MYLIB_ACCESS_ELEMENT,  /* element by element */
    MYLIB_ACCESS_MASK,     /* the bools of a selection, element by element */
    MYLIB_ACCESS_UNIFORM,  /* one element of GPU memory for all */
    MYLIB_ACCESS_CONSTANT, /* one value, carried in the arguments */
    MYLIB_ACCESS_GATHERED, /* element by element, converted or with irregular addresses */
    MYLIB_ACCESS_STAGED,   /* along its own dimension, through shared memory; any type */
};

/* The output and the operands of a statement. */
#define MYLIB_STRIDED_OPERANDS (1 + MYLIB_MOST_OPERANDS)

typedef struct mylib_strided_args {
    mylib_walk walk;
    int32_t operands, columns;
    int32_t column_unit;  /* columns from one thread to the next */
    int32_t flat_columns; /* flat: of the layout */
    mylib_divider flat_divider;
    int32_t tile_pitch; /* transposing */
    int64_t row_stride[MYLIB_WALK_MAX_NDIM][MYLIB_STRIDED_OPERANDS];
    int64_t column_stride[MYLIB_STRIDED_OPERANDS];
    /* Bytes from one element of a group to the next, if regular; from group to group, if plain. */
    int64_t element_step[MYLIB_STRIDED_OPERANDS], group_step[MYLIB_STRIDED_OPERANDS];
    /* For a reversed input, the lowest element of the first vector. */
    char *data[MYLIB_STRIDED_OPERANDS];
    uint8_t access[MYLIB_MOST_OPERANDS];
    uint8_t is_reversed[MYLIB_MOST_OPERANDS]; /* vectors run backwards in memory */
    uint8_t is_vector;                        /* groups are vectors, aligned like the output's */
    uint8_t out_shift;                        /* log2 of the size of the output's elements */
    uint8_t has_leads;                        /* see mylib_strided_lead() */
    uint8_t is_plain; /* rows and groups lie at equal distances, and there are no leads */
    uint8_t is_flat;
    uint8_t tile_bits;  /* transposing: log2 of the rows */
    uint8_t is_regular; /* a group has equal steps, in every operand; flat: in the output */
    uint8_t is_early;   /* one or two inputs of small elements, all contiguous along rows */
    /* The aligned vectors between these lie within input k - 1. */
    const char *vectors_begin[MYLIB_MOST_OPERANDS], *vectors_end[MYLIB_MOST_OPERANDS];
    /* Between images and planes: the channels, else 0; the operand that is planes; vectors. */
    uint8_t channels, planes;
    int32_t units, all_units; /* of a plane, and of all images */
    int64_t plane_step;       /* bytes from a plane to the next one */

    mylib_statement statement; /* operand k is its operand[k - 1] */
    /*
     * A step reads an operand (a selection's mask, the `first` one, which is loaded, or one
     * combined with it), or computes a unary operation.
     */
    uint8_t first, steps;
    MYLIB_ALIGNAS(16) unsigned char constant[MYLIB_MOST_OPERANDS][16];
} mylib_strided_args;

/*
 * Plans the launch of a statement as mylib_cuda_launch() takes it, over a simplified layout of at
 * most MYLIB_STRIDED_MAX_NDIM dimensions, not counting outer ones of size 1, and
 * MYLIB_STRIDED_MAX_COUNT elements.  Sets the constants to 0: the caller fills them in, each of
 * mylib_read_type().
 */
void mylib_strided_init(mylib_strided_args *args, const mylib_statement *s,
                        const mylib_layout *layout);

/* ---- Arithmetic that host and GPU share ---- */

/* Returns the bytes from the first element of operand k to the first of a row. */
MYLIB_DEVICE_FN int64_t mylib_strided_row(const mylib_strided_args *p, int k, int32_t row)
{
    return mylib_walk_row(&p->walk, row, &p->row_stride[0][k], MYLIB_STRIDED_OPERANDS);
}

/*
 * Returns how many columns before the row's first column its vectors begin, so that those of the
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
