/*
 * reduce.h - the functions of reduce.c.
 */
#ifndef PKG_REDUCE_H
#define PKG_REDUCE_H

#include "run.h"

extern PyMethodDef reduce_functions[];

/* Puts the table of the reductions into the module; the operations are there. */
int add_reductions(PyObject *module, core_state *state);

#endif /* PKG_REDUCE_H */
