/*
 * reduce.h - the functions of reduce.c.
 */
#pragma once

#include "run.h"

/* A reduction, in `type`, of one input, of the products of two, or of a program's values. */
typedef struct reduction {
    mylib_reduction number;
    mylib_type type;
    const mylib_program *program; /* or NULL */
    const char *name;             /* of the program */
    int gives_bool;               /* reduces u8, and returns a bool */
    int is_mean;                  /* divides the sum by the number of its terms */
    int num;                      /* NumPy's number of the result's type; 0: the usual one */
    PyObject *out;                /* or NULL: a new one */
} reduction;

/* The numbers of further reductions, after those of the library's. */
enum { REDUCE_ANY = MYLIB_MAX + 1, REDUCE_ALL, REDUCE_COUNT, REDUCE_MEAN };

/*
 * Reduces a call's inputs, which are broadcast, along the axes that are bits of a mask: to `out`, a
 * new array, or a NumPy scalar for host arrays and no dimensions.  OTHER_SHAPE if they do not
 * broadcast, OTHER_PLACE for Arrays beside host arrays or on two GPUs, OTHER_OUT for another `out`.
 */
outcome reduce_to_new(call *c, const reduction *r, uint64_t axes, int keeps_axes,
                      PyObject **result_ret);

/* Does the same in a dtype, along a tuple of axes; raises where reduce_to_new() declines. */
PyObject *reduce_prepared(call *c, reduction *r, PyObject *dtype, PyObject *axes, int keeps_axes);

/* Takes the axes of an array of `ndim`: None, an int or a tuple of ints; declines any others. */
outcome take_axes(PyObject *axis, int ndim, uint64_t *axes_ret);

int64_t count_terms(int ndim, const int64_t *shape, uint64_t axes);

/* Chooses the reduction `number` of `terms` elements each; OTHER_TYPE for means of f16 and c64. */
outcome choose_reduction(const core_state *state, mylib_type type, long number, int64_t terms,
                         reduction *r);

extern PyMethodDef reduce_functions[];

/* Adds the table of the reductions to the module, after the operations. */
int add_reductions(PyObject *module, core_state *state);
