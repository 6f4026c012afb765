/*
 * array.h - the base of pkg.Array.
 */
#ifndef PKG_ARRAY_H
#define PKG_ARRAY_H

#include "run.h"

extern PyType_Spec array_spec;
extern PyMethodDef array_functions[];

#endif /* PKG_ARRAY_H */
