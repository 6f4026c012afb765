/*
 * fused.h - programs of several statements in one launch (docs/design/calls.md): its arguments, and
 * how to make them.  Compiles as C and as CUDA C++; needs no CUDA.
 *
 * A thread's elements lie at equal distances ("spaced"), or are groups of 16 bytes of vectors of
 * one dimension ("flat").
 */
#pragma once

#include "../counting.h"
#include "walk.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MYLIB_FUSED_TYPES(DT) \
    DT(i32, I32) \
    DT(i64, I64) \
    DT(u32, U32) \
    DT(u64, U64) \
    DT(f16, F16) \
    DT(f32, F32) \
    DT(f64, F64) \
    DT(c64, C64) \
    DT(c128, C128)

#define MYLIB_FUSED_MAX_STATEMENTS 192
#define MYLIB_FUSED_MAX_CONSTANTS 32
#define MYLIB_FUSED_MAX_REGISTERS 21
#define MYLIB_FUSED_SPARE_REGISTERS 2 /* for operations that are calls */
#define MYLIB_FUSED_MAX_NDIM 4
#define MYLIB_FUSED_MAX_ROWS ((int64_t)1 << 30) /* any layout may have this many elements */

/*
 * Groups of 16 bytes of each operand in a thread: with more it decodes less often, with fewer, more
 * threads run.  Functions take many registers, those of f64 most; so do calls.
 */
#define MYLIB_FUSED_SPACED_GROUPS 4
#define MYLIB_FUSED_FUNCTION_GROUPS(size, has_calls) ((has_calls) ? 2 : 16 / (int)(size))
#define MYLIB_FUSED_FLAT_GROUPS 2
#define MYLIB_FUSED_LONG_GROUPS 6 /* flat, of programs of at least: */
#define MYLIB_FUSED_CHAIN_GROUPS 4
#define MYLIB_FUSED_LONG_STATEMENTS 6
/* Or, if each may be quick and an input is read again: */
#define MYLIB_FUSED_CHAIN_STATEMENTS 3
#define MYLIB_FUSED_GROUP(size) (16 / (int)(size)) /* elements */
#define MYLIB_FUSED_MOST_THREADS MYLIB_CUDA_THREADS
#define MYLIB_FUSED_SHARED_NBYTES (48 * 1024) /* available on every GPU */
#define MYLIB_FUSED_MAX_BLOCKS 64             /* blocks of terms that a thread block reduces */
#define MYLIB_FUSED_KEPT_BLOCKS 8             /* blocks whose lanes are kept */
#define MYLIB_FUSED_TILE 96 /* bytes for each thread, of short rows and the gaps between them */
#define MYLIB_FUSED_STREAMED_THREADS 128
#define MYLIB_FUSED_STREAMED_TILES 4 /* the most tiles of a thread block */

/*
 * How threads share a reduction: along the terms of an output, across the outputs, or a thread
 * block has all terms of some outputs, which are contiguous in memory.
 */
enum { MYLIB_FUSED_ALONG, MYLIB_FUSED_ACROSS, MYLIB_FUSED_SHORT };

/* The source of an operand: an input as stored, a register, a constant, or: */
enum {
    MYLIB_FUSED_DIRECT = 0,
    MYLIB_FUSED_REGISTER = MYLIB_FUSED_DIRECT + MYLIB_PROGRAM_MAX_INPUTS,
    MYLIB_FUSED_CONSTANT = MYLIB_FUSED_REGISTER + MYLIB_FUSED_MAX_REGISTERS,
    MYLIB_FUSED_CONVERTED = MYLIB_FUSED_CONSTANT + MYLIB_FUSED_MAX_CONSTANTS, /* an input */
    MYLIB_FUSED_FORWARDED = 255, /* the result of the last statement */
    MYLIB_FUSED_ABSENT = 254,
    MYLIB_FUSED_KEPT = 252, /* a kept input */
};
#define MYLIB_FUSED_MAX_KEPT 2

/*
 * In a long program, a statement is quick if it adds a kept input or a constant to the last result,
 * subtracts it or multiplies by it, and stores nothing.  These are its opcode and its target.
 */
#define MYLIB_FUSED_QUICK(op, source) (4 * (op) + (source))
#define MYLIB_FUSED_QUICK_CONSTANT 2 /* the source; 0 or 1: the number of the kept input */
/*
 * A quick product and the quick sum after it are one statement: these are bits of its opcode, the
 * sum's source from bit SECOND on.  operand[0] is the sum's constant.
 */
#define MYLIB_FUSED_QUICK_PAIR 16
#define MYLIB_FUSED_QUICK_SECOND 5
#define MYLIB_FUSED_IS_QUICK 255
#define MYLIB_FUSED_END 0xfefefefeu /* the bits of a statement after the last one */
MYLIB_ASSERT(MYLIB_OP_add == 0 && MYLIB_OP_subtract == 1 && MYLIB_OP_multiply == 2,
             "a bit of the opcode of a quick statement tells its operation");

/* Inputs are converted as they are read; everything else is of the computed type. */
typedef struct mylib_fused_statement {
    uint8_t opcode;
    uint8_t operand[2];
    uint8_t target; /* a register that also gets the result, or ABSENT */
} mylib_fused_statement;

/* One launch: the last dimension is the columns, and rows are all the others. */
typedef struct mylib_fused_args {
    int32_t statements, registers;
    int32_t spare; /* further registers, which calls read and write; 0 without calls */
    int32_t threads;
    int32_t inputs;
    int32_t is_flat;       /* one dimension, and all operands are vectors */
    int32_t is_long;       /* flat, without functions, and long */
    int32_t is_chain;      /* long, not complex, and all statements are quick */
    int32_t has_functions; /* of f32 or f64 */
    int32_t is_narrow;     /* of f32, with inputs or a result of one or two bytes, without calls */
    int32_t is_reduced;
    int32_t streamed; /* the operand that is copied ahead to the first spare register, or 0 */
    int64_t columns;
    uint8_t computed_type, result_type;
    uint8_t input_type[MYLIB_PROGRAM_MAX_INPUTS];
    /* Long: the input that is the first "last result", and the kept inputs; or ABSENT. */
    uint8_t begun, kept[MYLIB_FUSED_MAX_KEPT];
    char *data[MYLIB_MAX_OPERANDS];
    int64_t column_stride[MYLIB_MAX_OPERANDS];
    /* For spaced elements: step[k] bytes lead from one to the next in operand k. */
    mylib_walk walk;
    int64_t step[MYLIB_MAX_OPERANDS];
    int64_t row_stride[MYLIB_FUSED_MAX_NDIM - 1][MYLIB_MAX_OPERANDS];
    /*
     * In a reduction the columns are the terms of an output, and the rows are the outputs.  A
     * thread block takes a part: some sets of blocks of terms.  A set is the blocks for which a
     * thread holds all terms of a lane at once.  Results of parts are stored part_stride apart,
     * from the row of the output on.
     */
    int32_t reduction, reduced_way, sets;
    int32_t rounds;      /* across: lanes of a thread; else the tiles of a thread block */
    int32_t lane_bits;   /* across: 2^lane_bits lanes; short: 2^lane_bits threads reduce a row */
    int32_t warp_bits;   /* across: 2^warp_bits warps share outputs */
    int32_t gap;         /* short: bytes between rows in shared memory */
    uint32_t row_factor; /* short: row of a term, streamed of a group = number * row_factor >> 20 */
    int64_t part_stride;
    MYLIB_ALIGNAS(16)
    unsigned char constant[MYLIB_FUSED_MAX_CONSTANTS][16]; /* repeated to fill the bytes */
    mylib_fused_statement statement[MYLIB_FUSED_MAX_STATEMENTS + 1]; /* and an end */
} mylib_fused_args;

typedef enum mylib_fused_fit {
    MYLIB_FUSED_FITS,
    MYLIB_FUSED_NOT_THE_PROGRAM, /* too long, several types, or a type without a kernel */
    MYLIB_FUSED_TOO_MANY_DIMENSIONS,
    MYLIB_FUSED_TOO_MANY_ELEMENTS,
} mylib_fused_fit;

/*
 * Prepares the launch of a program over a simplified layout, which is not empty.  Unused results
 * are not computed, and an input's conversion that is used once happens as the input is read.
 */
mylib_fused_fit mylib_fused_init(mylib_fused_args *args, const mylib_program *program,
                                 const mylib_layout *layout);

/*
 * Prepares a launch that reduces the program's results to operand 0: the kept dimensions come
 * first.  Returns the number of parts of each output, or 0 if one launch cannot do it.  Several
 * parts need temporary memory: see mylib_fused_set_partial().
 */
int64_t mylib_fused_init_reduction(mylib_fused_args *args, const mylib_program *program,
                                   const mylib_layout *layout, int kept_ndim,
                                   mylib_reduction reduction);
/* Stores the parts in `partial`: the first part of all outputs, then the second, ... */
void mylib_fused_set_partial(mylib_fused_args *args, void *partial);

static inline int mylib_fused_size(const mylib_fused_args *args)
{
    return (int)mylib_type_size((mylib_type)args->computed_type);
}

static inline int mylib_fused_groups(const mylib_fused_args *args)
{
    return args->is_chain  ? MYLIB_FUSED_CHAIN_GROUPS
           : args->is_long ? MYLIB_FUSED_LONG_GROUPS
           : args->has_functions
               ? MYLIB_FUSED_FUNCTION_GROUPS(mylib_fused_size(args), args->spare > 0)
           : args->is_flat ? MYLIB_FUSED_FLAT_GROUPS
                           : MYLIB_FUSED_SPACED_GROUPS;
}

static inline int mylib_fused_group(const mylib_fused_args *args)
{
    return MYLIB_FUSED_GROUP(mylib_fused_size(args));
}

static inline int mylib_fused_elements(const mylib_fused_args *args)
{
    return mylib_fused_groups(args) * mylib_fused_group(args);
}

/* Returns the blocks of a set. */
static inline int mylib_fused_set(const mylib_fused_args *args)
{
    return mylib_fused_elements(args) / (MYLIB_BLOCK_TERMS / MYLIB_BLOCK_LANES);
}

/*
 * Returns the bytes of shared memory of a thread block: the registers, and a mask for each thread.
 * Reductions need more: along, the lanes of some blocks and a result for each block; across, a
 * thread's lanes of a set, and as many for each step of the tree over its lanes; short, a tile.
 */
static inline int mylib_fused_shared(const mylib_fused_args *args)
{
    const int slots = (args->registers + args->spare) * mylib_fused_groups(args);
    const int nbytes = args->threads * (slots * 16 + 4);
    const int size = mylib_fused_size(args);
    if (!args->is_reduced)
        return nbytes;
    if (args->reduced_way == MYLIB_FUSED_SHORT)
        return nbytes + args->threads * MYLIB_FUSED_TILE;
    if (args->streamed)
        return nbytes;
    if (args->reduced_way == MYLIB_FUSED_ACROSS)
        return nbytes + args->threads * (1 + args->lane_bits - args->warp_bits) *
                            mylib_fused_set(args) * size;
    return nbytes + (MYLIB_FUSED_KEPT_BLOCKS * MYLIB_BLOCK_LANES + MYLIB_FUSED_MAX_BLOCKS) * size;
}

/* Return the most terms of a part of an output, and the number of parts. */
static inline int64_t mylib_fused_part(const mylib_fused_args *args)
{
    return (int64_t)args->sets * mylib_fused_set(args) * MYLIB_BLOCK_TERMS;
}
static inline int64_t mylib_fused_parts(const mylib_fused_args *args)
{
    return mylib_divide_up(args->columns, mylib_fused_part(args));
}

/* Of a reduction: the outputs of a thread block. */
static inline int mylib_fused_outputs(const mylib_fused_args *args)
{
    return args->reduced_way == MYLIB_FUSED_ACROSS ? args->threads >> args->warp_bits
                                                   : args->rounds * args->walk.tile_rows;
}

static inline int64_t mylib_fused_blocks(const mylib_fused_args *args)
{
    if (args->is_reduced)
        return mylib_divide_up(args->walk.rows, mylib_fused_outputs(args)) *
               mylib_fused_parts(args);
    if (!args->is_flat)
        return args->walk.tiles;
    return mylib_divide_up(args->columns, (int64_t)args->threads * mylib_fused_elements(args));
}

mylib_status mylib_cuda_launch_fused(const mylib_fused_args *args, void *stream);

/*
 * Makes the driver load the kernels for the current device, which it would otherwise do at the
 * first launch: 1.8 ms on an H200.
 */
void mylib_cuda_load_fused(void);

/* ---- Arithmetic that host and GPU share ---- */

/* Returns 1 or 2 for types of so many bytes, and 0 for others. */
MYLIB_CONSTANT_FN int mylib_narrow_size(int type)
{
    return type == MYLIB_I8 || type == MYLIB_U8 || type == MYLIB_BOOL    ? 1
           : type == MYLIB_I16 || type == MYLIB_U16 || type == MYLIB_F16 ? 2
                                                                         : 0;
}

/* Returns the bytes from the first element of operand k to the first of a row. */
MYLIB_DEVICE_FN int64_t mylib_fused_row(const mylib_fused_args *args, int k, int32_t row)
{
    return mylib_walk_row(&args->walk, row, &args->row_stride[0][k], MYLIB_MAX_OPERANDS);
}

/* Returns the rows of a tile of a reduction. */
MYLIB_DEVICE_FN int32_t mylib_fused_tile(const mylib_fused_args *args, int32_t block)
{
    const int32_t rows = args->walk.rows - block * args->walk.tile_rows;
    return rows < args->walk.tile_rows ? rows : args->walk.tile_rows;
}

/* Finds a thread's first spaced element; returns how many of its `most` elements exist. */
MYLIB_DEVICE_FN int mylib_fused_spaced(const mylib_fused_args *args, int32_t block, int32_t thread,
                                       int most, int32_t *row, int64_t *column)
{
    const mylib_walk *w = &args->walk;
    int32_t across, down, tile_column, end_row;
    const int is_in_tile = mylib_walk_thread(w, thread, args->threads, &across, &down);
    mylib_walk_tile(w, block, &tile_column, row, &end_row);
    *row += down;
    *column = (int64_t)tile_column * w->tile_columns + across;
    const int32_t rows = end_row - *row, row_step = w->row_step[0];
    const int64_t columns = args->columns - *column;
    const int32_t column_step = w->column_step[0];
    if (!is_in_tile)
        return 0;
    if (rows > (most - 1) * row_step && columns > (most - 1) * column_step)
        return most;
    int n = 0;
    MYLIB_ROLLED for (int i = 0; i < most; i++)
    {
        n += i * row_step < rows && i * column_step < columns;
    }
    return n;
}

#ifdef __cplusplus
}
#endif
