/*
 * operation.h - the type of pkg.add and its sisters.
 */
#ifndef PKG_OPERATION_H
#define PKG_OPERATION_H

#include "run.h"

extern PyType_Spec operation_spec;
extern PyMethodDef operation_functions[];

/* Puts the operations, and the names of the comparisons, into the module. */
int add_operations(PyObject *module, core_state *state);

#endif /* PKG_OPERATION_H */
