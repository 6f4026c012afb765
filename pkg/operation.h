/*
 * operation.h - the type of pkg.add and the other operations.
 */
#pragma once

#include "run.h"

extern PyType_Spec operation_spec;
extern PyMethodDef operation_functions[];

/* From this many elements on, preparing operands for threads in Python code pays. */
#define LARGE_COUNT 65536

/* Adds the operations to the module. */
int add_operations(PyObject *module, core_state *state);
