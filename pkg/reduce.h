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
    int gives_bool;               /* reduces u8, and returns a bool */
    int is_mean;                  /* divides the sum by the number of its terms */
} reduction;

/* The numbers of further reductions, after those of the library's. */
enum { REDUCE_ANY = MYLIB_MAX + 1, REDUCE_ALL, REDUCE_COUNT, REDUCE_MEAN };

/*
 * Reduces a call's inputs, which broadcast to `count` elements, into `out`.  np.errstate hears of
 * the floating-point flags of host arrays.
 */
int run_reduction(const call *c, const reduction *r, int64_t count, const mylib_array *out);

/*
 * Reduces a call's inputs, which broadcast to `count` elements, to a new array of `ndim`
 * dimensions, or to a NumPy scalar for host arrays and no dimensions.  `kept` has the sizes for the
 * library: 1 in each reduced dimension.
 */
outcome reduce_to_new(call *c, const reduction *r, int64_t count, int kept_ndim,
                      const int64_t *kept, int ndim, int64_t *shape, PyObject **result_ret);

extern PyMethodDef reduce_functions[];

/* Adds the table of the reductions to the module, after the operations. */
int add_reductions(PyObject *module, core_state *state);

#endif /* PKG_REDUCE_H */
