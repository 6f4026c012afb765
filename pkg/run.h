/*
 * run.h - runs operations, selections and copies over arrays.
 */
#ifndef PKG_RUN_H
#define PKG_RUN_H

#include "operands.h"
#include "ufunc.h"

/*
 * op(*args), into `out` when it is not NULL.  `is_true_division`: integers are divided as f64.
 * NULL without an exception: pkg._array.call has to see to it (other kinds of operands, an output
 * that needs conversion or overlaps, shapes that do not broadcast).
 */
PyObject *map_arrays(core_state *state, mylib_op op, int is_true_division, PyObject *const *args,
                     PyObject *out);

/* The most inputs of a function over given arrays. */
#define MAX_GIVEN 3

/* A call of a function over given arrays: the first is written, the rest are read. */
typedef struct call {
    mylib_array arrays[1 + MAX_GIVEN];
    int64_t dims[DIMS_OF(1 + MAX_GIVEN)]; /* of the NumPy arrays */
    mylib_device device;                  /* of the first array that is on a GPU, else the CPU */
    PyObject *stream;
} call;

/* Takes the arrays, the arguments from `first` on.  -1 and an exception on failure. */
int begin_call(core_state *state, PyObject *args, Py_ssize_t first, call *c);

/* Returns None, or NULL and an exception when the status says so. */
PyObject *end_call(core_state *state, mylib_status status, call *c);

extern PyMethodDef run_functions[];

#endif /* PKG_RUN_H */
