/*
 * fused.h - programs of several statements in one launch: its arguments, and how a program becomes
 * them.  Compiles as C and as CUDA C++; needs no CUDA.
 *
 * A thread computes two groups of elements, 16 bytes each of the widest type; where vectors are not
 * aligned, or rows are short, as many elements at equal distances instead ("spaced"), whose
 * neighbours in memory are the next thread's: all that fast loads need.  The result of each
 * statement stays in its hardware registers, where the next one finds it; what is needed later goes
 * to the thread's own places in shared memory.  Only in reductions a thread waits for others.
 *
 * A program that computes in one type, one of MYLIB_FUSED_TYPES, has a kernel without a switch over
 * types: inputs and constants become that type as they are read, and a bool is a 0 or 1 of it.
 * Other programs run in the mixed kernel, if all their types have 8 bytes at most.  f32 and
 * f64 have one more kernel, for programs with functions, which are calls and need more registers.
 *
 * The same launch may reduce the results of a program of f32 or f64, in the order of mylib.h: see
 * reduced_kernel() in fused.cu.
 */
#ifndef MYLIB_CUDA_FUSED_H
#define MYLIB_CUDA_FUSED_H

#include "../counting.h"
#include "shared.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MYLIB_FUSED_TYPES(DT)                                                                      \
    DT(i32, I32)                                                                                   \
    DT(i64, I64)                                                                                   \
    DT(f32, F32)                                                                                   \
    DT(f64, F64)                                                                                   \
    DT(c64, C64)                                                                                   \
    DT(c128, C128)
#define MYLIB_FUSED_MIXED 255 /* as computed_type */

#define MYLIB_FUSED_MAX_STATEMENTS 96
#define MYLIB_FUSED_MAX_CONSTANTS 32
#define MYLIB_FUSED_MAX_REGISTERS 21
#define MYLIB_FUSED_SPARE_REGISTERS 2 /* for what is done by calls */
#define MYLIB_FUSED_MAX_NDIM 4
#define MYLIB_FUSED_MAX_GROUPS ((int64_t)1 << 30) /* of more than one dimension */

#define MYLIB_FUSED_GROUPS 2           /* of a thread */
#define MYLIB_FUSED_REGISTER_NBYTES 32 /* of a thread */
#define MYLIB_FUSED_MOST_THREADS MYLIB_CUDA_THREADS
#define MYLIB_FUSED_SHARED_NBYTES (48 * 1024) /* what every GPU has */
#define MYLIB_FUSED_MAX_BLOCKS 64             /* of terms, that a thread block reduces */

/* Elements of a group of the kernel for `type`. */
#define MYLIB_FUSED_GROUP(size) (16 / (int)(size))
#define MYLIB_FUSED_MIXED_GROUP 2

/* The places of an operand: an input, a constant, a register, an input read as vectors, or: */
enum {
    MYLIB_FUSED_INPUT = 0,
    MYLIB_FUSED_CONSTANT = MYLIB_PROGRAM_MAX_INPUTS,
    MYLIB_FUSED_REGISTER = MYLIB_FUSED_CONSTANT + MYLIB_FUSED_MAX_CONSTANTS,
    MYLIB_FUSED_VECTOR_INPUT = MYLIB_FUSED_REGISTER + MYLIB_FUSED_MAX_REGISTERS,
    MYLIB_FUSED_FORWARDED = 255, /* the result of the last statement */
    MYLIB_FUSED_ABSENT = 254,
};

/*
 * Operands are converted to `type` as they are read, SET_MASK's to bool.  In a program of one type
 * operand_type says nothing: what is not an input has that type.
 */
typedef struct mylib_fused_statement {
    uint8_t opcode, type, result_type;
    uint8_t target; /* a register that gets the result too, or ABSENT */
    uint8_t operand[2];
    uint8_t operand_type[2];
} mylib_fused_statement;

/*
 * The ways in which an operand lies along the columns.  Inputs that are vectors in one or two
 * dimensions, of the type that a program of one type computes in, are DIRECT.
 */
enum {
    MYLIB_FUSED_VECTOR,  /* each group contiguous, and aligned as a whole */
    MYLIB_FUSED_SINGLE,  /* one element for the row */
    MYLIB_FUSED_ELEMENT, /* at any distance */
};

/* One launch.  Dimensions outermost first, the last is the columns; rows are all the others. */
typedef struct mylib_fused_args {
    int32_t statements, registers; /* and the spare ones behind them */
    int32_t threads;
    int32_t ndim, inputs, rows;
    int32_t is_flat; /* one dimension, and all operands are vectors */
    int32_t has_functions, is_spaced;
    int64_t columns, row_groups, groups;
    mylib_divider row_divider; /* by row_groups, when there are rows */
    mylib_divider divider[MYLIB_FUSED_MAX_NDIM];
    int32_t shape[MYLIB_FUSED_MAX_NDIM];
    uint8_t computed_type, result_type;
    uint8_t input_type[MYLIB_PROGRAM_MAX_INPUTS];
    uint8_t access[MYLIB_MAX_OPERANDS];
    char *data[MYLIB_MAX_OPERANDS];
    int64_t strides[MYLIB_FUSED_MAX_NDIM][MYLIB_MAX_OPERANDS];
    /*
     * If is_spaced: a thread block takes a tile, `across` threads side by side, one such row of
     * threads below the other.  A thread's elements are column_step or row_step apart, in operand k
     * step[k] bytes.  Tiles do not cross slices, within which rows lie at equal distances.
     */
    int64_t step[MYLIB_MAX_OPERANDS];
    int32_t across, column_step, row_step;
    int32_t tile_columns, tile_rows, tiles_across, slice_rows, slice_tiles;
    int64_t tiles;
    mylib_divider across_divider, tiles_across_divider, slice_tiles_divider;
    /*
     * In a reduction the columns are the terms of an output, and strides[0][0] is from one output
     * to the next.  A thread block takes a part: some sets of blocks of terms, where a set has as
     * many blocks as its threads have the lanes of.  The result of a part goes to data[0],
     * part_stride after the result of the part before.
     */
    int32_t is_reduced, reduction, sets;
    int64_t part_stride;
    MYLIB_ALIGNAS(16)
    unsigned char constant[MYLIB_FUSED_MAX_CONSTANTS][16]; /* repeated to fill the bytes */
    mylib_fused_statement statement[MYLIB_FUSED_MAX_STATEMENTS];
} mylib_fused_args;

/* MYLIB_FUSED_FITS, or the reason why the program does not fit a launch. */
typedef enum mylib_fused_fit {
    MYLIB_FUSED_FITS,
    MYLIB_FUSED_TOO_LONG, /* statements, constants, registers: or types without a kernel */
    MYLIB_FUSED_TOO_MANY_DIMENSIONS,
    MYLIB_FUSED_TOO_MANY_ELEMENTS,
} mylib_fused_fit;

/*
 * The launch of a program over a simplified layout with elements.  Results that nobody uses are not
 * computed, and a conversion of an input that is used once is left to the reading.
 */
mylib_fused_fit mylib_fused_init(mylib_fused_args *args, const mylib_program *program,
                                 const mylib_layout *layout);

/*
 * Prepares a launch that reduces the program's results: the kept dimensions come first, and operand
 * 0 is ignored.  Returns the parts of each output, and leaves data[0], strides[0][0] and
 * part_stride to the caller; returns 0 if one launch cannot do it.
 */
int64_t mylib_fused_init_reduction(mylib_fused_args *args, const mylib_program *program,
                                   const mylib_layout *layout, int kept_ndim,
                                   mylib_reduction reduction);

/*
 * Bytes of shared memory of a thread block: the registers, and a mask for each thread; reductions
 * have two vectors of lanes for each thread, and a result for each block.
 */
static inline int mylib_fused_shared(const mylib_fused_args *args)
{
    int registers = args->registers + MYLIB_FUSED_SPARE_REGISTERS + args->is_reduced;
    return args->threads * (registers * MYLIB_FUSED_REGISTER_NBYTES + 4) +
           args->is_reduced * MYLIB_FUSED_MAX_BLOCKS * 8;
}

/* Blocks of terms that a thread block of a reduction takes at once. */
static inline int mylib_fused_set(const mylib_fused_args *args)
{
    int group = MYLIB_FUSED_GROUP(mylib_type_size((mylib_type)args->computed_type));
    return args->threads * group / MYLIB_BLOCK_LANES;
}

/* The parts of each output of a reduction. */
static inline int64_t mylib_fused_parts(const mylib_fused_args *args)
{
    int64_t part = (int64_t)args->sets * mylib_fused_set(args) * MYLIB_BLOCK_TERMS;
    return mylib_divide_up(args->columns, part);
}

/* Thread blocks of a launch. */
static inline int64_t mylib_fused_blocks(const mylib_fused_args *args)
{
    int64_t block = (int64_t)args->threads * MYLIB_FUSED_GROUPS;
    if (args->is_reduced)
        return args->rows * mylib_fused_parts(args);
    if (args->is_spaced)
        return args->tiles;
    return mylib_divide_up(args->groups, block);
}

/* Enqueues it on the current device. */
mylib_status mylib_cuda_launch_fused(const mylib_fused_args *args, void *stream);

/*
 * Has the driver load the kernels for the current device, which it would do at the first launch:
 * 1.8 ms on an H200.
 */
void mylib_cuda_load_fused(void);

/* ---- Arithmetic that host and GPU share ---------------------------------------------------- */

/* The number of the input that an operand is, or -1. */
MYLIB_DEVICE_FN int mylib_fused_input(int operand)
{
    if (operand < MYLIB_FUSED_CONSTANT)
        return operand - MYLIB_FUSED_INPUT;
    operand -= MYLIB_FUSED_VECTOR_INPUT;
    return operand >= 0 && operand < MYLIB_PROGRAM_MAX_INPUTS ? operand : -1;
}

/* Bytes from the first element of operand k to the first of a row. */
MYLIB_DEVICE_FN int64_t mylib_fused_row(const mylib_fused_args *args, int k, int32_t row)
{
    int64_t offset = 0;
    if (args->ndim == 1)
        return 0;
    MYLIB_ROLLED for (int d = args->ndim - 2; d > 0; d--)
    {
        int32_t quotient = mylib_divide(row, args->divider[d]);
        offset += (int64_t)(row - quotient * args->shape[d]) * args->strides[d][k];
        row = quotient;
    }
    return offset + (int64_t)row * args->strides[0][k];
}

/* The row and the first column of a group of `size` elements; how many of them there are. */
MYLIB_DEVICE_FN int mylib_fused_group(const mylib_fused_args *args, int64_t group, int size,
                                      int32_t *row, int64_t *column)
{
    *row = 0;
    if (args->ndim > 1) {
        *row = mylib_divide((int32_t)group, args->row_divider);
        group -= *row * args->row_groups;
    }
    *column = group * size;
    int64_t left = *row < args->rows ? args->columns - *column : 0;
    return left >= size ? size : left > 0 ? (int)left : 0;
}

/*
 * Finds a thread's first element of a spaced launch; returns how many of its `most` elements exist.
 */
MYLIB_DEVICE_FN int mylib_fused_spaced(const mylib_fused_args *args, int32_t block, int32_t thread,
                                       int most, int32_t *row, int64_t *column)
{
    const int32_t down = mylib_divide(thread, args->across_divider);
    const int32_t tile_row = mylib_divide(block, args->tiles_across_divider);
    const int32_t slice = mylib_divide(tile_row, args->slice_tiles_divider);
    const int32_t end = (slice + 1) * args->slice_rows;
    int n = 0;
    *row =
        slice * args->slice_rows + (tile_row - slice * args->slice_tiles) * args->tile_rows + down;
    *column = (int64_t)(block - tile_row * args->tiles_across) * args->tile_columns +
              (thread - down * args->across);
    if ((down + 1) * args->across > args->threads) /* too few threads for another row */
        return 0;
    for (int i = 0; i < most; i++)
        n += *row + i * args->row_step < end && *column + i * args->column_step < args->columns;
    return n;
}

#ifdef __cplusplus
}
#endif

#endif /* MYLIB_CUDA_FUSED_H */
