/*
 * reducer.h - shared by the CPU's reductions: the reducer, its terms, and the pairwise tree over
 * blocks.
 */
#pragma once

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/run_row.h"

/* A program followed by conversions of its result. */
typedef struct mylib_terms_program {
    mylib_program program;
    mylib_statement few[8], *many;
} mylib_terms_program;

typedef struct mylib_reducer {
    mylib_reduction reduction;
    const mylib_layout *layout;
    const mylib_cpu_level *cpu;
    int inputs, kept_ndim;          /* the first dimensions of the layout are kept */
    int64_t outputs, terms, blocks; /* terms and blocks of one output */
    mylib_type carrier, out_type;
    int64_t size; /* of the carrying type */
    mylib_kernel *combine;
    int takes_first; /* complex minima and maxima: the first of equally good terms is the result */

    /*
     * The program of the terms.  It does not run if the terms are the elements of an input
     * (term_inputs: 1) or, for a block kernel that multiplies, products of two inputs (2); then the
     * inputs are read as term_type.
     */
    mylib_terms_program terms_of;
    mylib_row_program row_program;
    int term_inputs, term_input[2];
    mylib_type term_type;
    atomic_int out_of_memory; /* set by a task */

    /*
     * Minima and maxima of truths, in u8: the value that decides an output, or -1.  If the truths
     * are those of an input's elements, no terms are computed: `has_truths`, also for counts.
     */
    int decisive, has_truths;
    mylib_truths truths;

    /* Along the terms. */
    mylib_block_reduce *block;
    int64_t term_size;    /* size of the terms of `block` */
    int64_t share;        /* outputs of a task */
    int64_t panel;        /* blocks whose inputs are gathered together, or 0 */
    int64_t panel_nbytes; /* for all inputs */
    int columns;          /* the dimension of columns that are gathered together */
    int64_t column_terms; /* of one column: of the dimensions below */

    /* Across the outputs. */
    int across;     /* the dimension, or -1 */
    int is_narrow;  /* rows follow each other without gaps */
    int64_t width;  /* outputs of a strip */
    int64_t strips; /* along that dimension */

    int64_t group;  /* blocks of a task */
    int64_t groups; /* of one output */
    char *partial;  /* groups times outputs, if there are several groups */
} mylib_reducer;

/* ---- reducer.c ---- */

/*
 * Prepares a task's memory: the program's registers, if it runs, and room_nbytes of its own.  Both
 * are in *row_data, or in *memory if they are large; the task frees *memory.  Returns the task's
 * own memory, or NULL with out_of_memory set.
 */
char *mylib_reducer_begin_task(mylib_reducer *r, mylib_row_data *row_data, size_t room_nbytes,
                               void **memory);

void mylib_reducer_store(const mylib_reducer *r, char *out, int64_t stride, const char *src,
                         int64_t n);

/* Ends a task: stores n results from output number `output` on, or keeps them for group g. */
void mylib_reducer_end_task(const mylib_reducer *r, int64_t g, int64_t output, char *out,
                            int64_t stride, const char *src, int64_t n);

/*
 * The lanes return any NaN, or any of the terms that compare equal (zeros may differ in sign).
 * Replaces *value, one of these n terms, by the first of them that is as good.
 */
void mylib_take_first(const mylib_reducer *r, int64_t n, char *value, const char *terms);

/* ---- reduce_along.c, reduce_across.c ---- */

void mylib_choose_panel(mylib_reducer *r);
void mylib_choose_across(mylib_reducer *r);

/* Task i of a reducer: one group of blocks, of a share of the outputs or of a strip. */
mylib_task mylib_reduce_along, mylib_reduce_across;

/* ---- Terms ---- */

static inline int64_t input_size(const mylib_reducer *r, int k)
{
    return mylib_program_operand_size(&r->terms_of.program, 1 + k);
}

static inline int64_t term_offset(const mylib_reducer *r, int k, int64_t t)
{
    const mylib_layout *l = r->layout;
    int64_t offset = 0;
    int d = l->ndim - 1;
    for (; d > r->kept_ndim; d--) {
        offset += t % l->shape[d] * l->strides[1 + k][d];
        t /= l->shape[d];
    }
    return d < r->kept_ndim ? offset : offset + t * l->strides[1 + k][d];
}

/* Returns the reduced dimension before `end` in which input k has the least stride but 0, or -1. */
static inline int nearest_reduced(const mylib_reducer *r, int k, int end)
{
    const int64_t *strides = r->layout->strides[1 + k];
    int nearest = -1;
    for (int d = r->kept_ndim; d < end; d++)
        if (strides[d] != 0 && (nearest < 0 || llabs(strides[d]) < llabs(strides[nearest])))
            nearest = d;
    return nearest;
}

static inline int64_t terms_in_row(const mylib_reducer *r, int64_t t, int64_t n)
{
    const mylib_layout *l = r->layout;
    int inner = l->ndim - 1;
    if (inner == r->kept_ndim) /* without a division, which takes long beside short rows */
        return n;
    return mylib_lesser(inner < r->kept_ndim ? 1 : l->shape[inner] - t % l->shape[inner], n);
}

/* Runs the terms' program for n elements from t on; first[k] is term 0, data[] the task's. */
static inline void run_terms(const mylib_reducer *r, const char *const *first, char **data,
                             int64_t t, int64_t n, char *out)
{
    data[0] = out;
    /* A program that runs has the first terms of all inputs.  NOLINTBEGIN(clang-analyzer-core.*) */
    for (int k = 0; k < r->inputs; k++)
        data[1 + k] = (char *)first[k] + term_offset(r, k, t);
    /* NOLINTEND(clang-analyzer-core.*) */
    mylib_run_row(&r->row_program, n, data);
}

/* Returns the distance to output `index` of operand k; leaves out dimension `without`, or -1. */
static inline int64_t output_offset(const mylib_reducer *r, int k, int64_t index, int without)
{
    const mylib_layout *l = r->layout;
    int64_t offset = 0;
    for (int d = r->kept_ndim - 1; d >= 0; d--) {
        if (d == without)
            continue;
        offset += index % l->shape[d] * l->strides[k][d];
        index /= l->shape[d];
    }
    return offset;
}

/* ---- Blocks ---- */

static inline int64_t block_terms(const mylib_reducer *r, int64_t block)
{
    return mylib_lesser(r->terms - block * MYLIB_BLOCK_TERMS, MYLIB_BLOCK_TERMS);
}

static inline void group_blocks(const mylib_reducer *r, int64_t g, int64_t *begin, int64_t *end)
{
    *begin = g * r->group;
    *end = mylib_lesser(*begin + r->group, r->blocks);
}

/* Combines values at *a with those at *b, in *a. */
static inline void combine(const mylib_reducer *r, int64_t width, char *a, const char *b)
{
    r->combine(width, a, r->size, a, r->size, b, r->size);
}

/*
 * The pairwise tree over blocks: level[k] holds a row for 2^k consecutive blocks, or nothing.
 * Merging as a binary counter carries builds the same tree as pairing all blocks level by level,
 * and keeps one row of partial results per level.
 */
typedef struct block_tree {
    uint64_t blocks;
    char *levels;
    int64_t nbytes; /* of a row */
    int64_t width;
} block_tree;

/*
 * Adds the next block's row; overwrites `row`.  If the first term wins, any tree that keeps the
 * order is right: then all blocks share one level.
 */
static inline void block_tree_add(const mylib_reducer *r, block_tree *tree, char *row)
{
    int k = 0;
    if (r->takes_first && tree->blocks > 0) {
        combine(r, tree->width, tree->levels, row);
        return;
    }
    for (; tree->blocks >> k & 1; k++) {
        combine(r, tree->width, tree->levels + k * tree->nbytes, row);
        memcpy(row, tree->levels + k * tree->nbytes, (size_t)tree->nbytes);
    }
    memcpy(tree->levels + k * tree->nbytes, row, (size_t)tree->nbytes);
    tree->blocks++;
}

static inline char *block_tree_result(const mylib_reducer *r, block_tree *tree)
{
    int k = 0;
    while (!(tree->blocks >> k & 1))
        k++;
    char *row = tree->levels + k * tree->nbytes;
    for (k++; tree->blocks >> k; k++) {
        char *level = tree->levels + k * tree->nbytes;
        if (tree->blocks >> k & 1) {
            combine(r, tree->width, level, row);
            row = level;
        }
    }
    return row;
}

static inline int block_tree_levels(int64_t blocks)
{
    int levels = 1;
    while (blocks >> levels)
        levels++;
    return levels;
}

/* Tells whether `value`, of the next block, wins over the blocks before it. */
static inline int is_better(const mylib_reducer *r, const block_tree *tree, const char *value)
{
    t_c128 both;
    if (tree->blocks == 0)
        return 1;
    memcpy(&both, tree->levels, (size_t)r->size);
    combine(r, 1, (char *)&both, value);
    return memcmp(&both, tree->levels, (size_t)r->size) != 0;
}
