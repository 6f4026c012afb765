/*
 * reduce.h - the functions of reduce.c.
 */
#ifndef PKG_REDUCE_H
#define PKG_REDUCE_H

#include "run.h"

/* A reduction, in `type`, of one input, of the products of two, or of a program's values. */
typedef struct reduction {
    mylib_reduction number;
    mylib_type type;
    const mylib_program *program; /* or NULL */
    const char *name;             /* of the program */
    int gives_bool;               /* a new result is the bool that the u8 of `type` tells */
} reduction;

/* The numbers of reductions of truths, after those of the library. */
enum { REDUCE_ANY = MYLIB_MAX + 1, REDUCE_ALL, REDUCE_COUNT };

/* Reduces a call's inputs, which broadcast to `count` elements, into `out`. */
int run_reduction(const call *c, const reduction *r, int64_t count, const mylib_array *out,
                  int *flags_ret);

/*
 * Reduces a call's inputs, which broadcast to `count` elements, to a new array of `ndim`
 * dimensions, or to a NumPy scalar for host arrays and no dimensions.  The library wants the sizes
 * `kept`, which are 1 where it reduces.
 */
outcome reduce_to_new(call *c, const reduction *r, int64_t count, int kept_ndim,
                      const int64_t *kept, int ndim, int64_t *shape, PyObject **result_ret);

extern PyMethodDef reduce_functions[];

/* Puts the table of the reductions into the module; the operations are there. */
int add_reductions(PyObject *module, core_state *state);

#endif /* PKG_REDUCE_H */
