/*
 * operation.h - the type of pkg.add and its sisters.
 */
#ifndef PKG_OPERATION_H
#define PKG_OPERATION_H

#include "run.h"

extern PyType_Spec operation_spec;
extern PyMethodDef operation_functions[];

/* Calls over this many elements are worth the Python code that prepares operands for threads. */
#define LARGE_COUNT 65536

/* Puts the operations, and the names of the comparisons, into the module. */
int add_operations(PyObject *module, core_state *state);

#endif /* PKG_OPERATION_H */
