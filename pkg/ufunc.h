/*
 * ufunc.h - NumPy ufuncs that compute operations or report floating-point flags.
 */
#ifndef PKG_UFUNC_H
#define PKG_UFUNC_H

#include "common.h"

/* Returns a new ufunc that computes `op` on `device`; it keeps `module` alive. */
PyObject *new_ufunc(PyObject *module, mylib_op op, mylib_device device, const char *name);

/* Returns -1 with a TypeError for operations that NumPy does not define for bools; else 0. */
int refuse_bool(mylib_op op);

/*
 * Reports raised floating-point flags as np.errstate says: warns, raises, or calls a handler.
 * Warnings name the line outside the package.
 */
int report_flags(core_state *state, const char *name, int flags);

/* Adds the table of the flags to the module: NumPy's key and text for each, and its bit. */
int add_flags(PyObject *module);

/*
 * From now on, the loops of this thread add the floating-point flags to `*flags`; for NULL they
 * leave them to NumPy, which reports under the ufunc's name.  Returns the previous setting.
 */
int *collect_flags(int *flags);

extern PyMethodDef ufunc_functions[];

#endif /* PKG_UFUNC_H */
