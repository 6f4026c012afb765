/*
 * ufunc.h - NumPy ufuncs that compute operations or report floating-point flags.
 */
#pragma once

#include "common.h"

/* Returns a new ufunc that computes `op` on `device`; it keeps `module` alive. */
PyObject *new_ufunc(PyObject *module, mylib_op op, int is_true_division, mylib_device device,
                    const char *name);

/* Returns -1 with a TypeError for operations that NumPy does not define for bools; else 0. */
int refuse_bool(mylib_op op);

/* Reports flags as np.errstate says; warnings name the line outside the package. */
int report_flags(core_state *state, const char *name, int flags);

/* Returns whether Python code of the package, not its user's, calls this module. */
int is_called_by_package(void);

extern PyMethodDef ufunc_functions[];
