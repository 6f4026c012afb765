/*
 * ufunc.h - NumPy ufuncs that compute operations or report floating-point flags.
 */
#ifndef PKG_UFUNC_H
#define PKG_UFUNC_H

#include "common.h"

/*
 * A ufunc that computes 'op' on 'device', through the one inner loop; it keeps `module` alive.  New
 * reference.
 */
PyObject *new_ufunc(PyObject *module, mylib_op op, mylib_device device, const char *name);

/* A ufunc through which report_flags() reports under a name, which must be static. */
PyObject *new_flags_ufunc(const char *name);

/*
 * Reports floating-point flags that were raised.  0, or -1 with an exception, as np.errstate says.
 */
int report_flags(PyObject *ufunc, int flags);

extern PyMethodDef ufunc_functions[];

#endif /* PKG_UFUNC_H */
