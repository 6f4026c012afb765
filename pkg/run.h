/*
 * run.h - the fast path: runs an operation or a program over Arrays or NumPy arrays.  Operations,
 * operators of Array and Expressions share it.
 */
#pragma once

#include "mask.h"
#include "operands.h"
#include "ufunc.h"

/* The operation that divides integers as floats, in messages. */
#define TRUE_DIVIDE "true_divide"

/* A computation for each element: a program or an operation. */
typedef struct computation {
    const mylib_program *program; /* NULL: `op`, in `type` */
    mylib_op op;
    mylib_type type;
    int is_mixed; /* compares a signed integer with a u64, which have no common integer type */
    mylib_type result_type;
    int result_num; /* NumPy's number of the type of a new host array */
    int steps;
    int may_refuse;          /* some elements, before writing any */
    const mylib_array *mask; /* of host arrays with `out`: compute only these elements; or NULL */
    const char *name; /* for reports of the floating-point flags of host arrays; NULL: decline */
    int *flags_ret;   /* gets the flags instead, unless NULL */
} computation;

/*
 * Computes a call whose operands and values are set.  The result goes to `out` or, if that is NULL,
 * to a new array of order 'C', 'F' or 'K' (a NumPy scalar for a host result without dimensions).
 */
outcome run_call(call *c, const computation *what, char order, PyObject *out,
                 PyObject **result_ret);

/*
 * Computes op(*args) over Arrays or, if `is_cpu`, over NumPy arrays of one type.  Integers are
 * divided as f64 if `is_true_division`.  If `name` is NULL, floating-point flags of host arrays are
 * not reported: OTHER_FLAGS.  `mask` is NULL, or a NumPy array of bool, for host arrays with `out`;
 * see mask.h.
 */
outcome run_operation(core_state *state, mylib_op op, int is_true_division, int is_cpu,
                      const char *name, PyObject *const *args, PyObject *out, PyObject *mask,
                      PyObject **result_ret);

/* Makes a new array for a call's output, and describes it in the call. */
PyObject *new_output(call *c, mylib_type type, int num, char order, int ndim, int64_t *shape);

extern PyMethodDef run_functions[];
