/*
 * reduce.h - the functions of reduce.c.
 */
#ifndef PKG_REDUCE_H
#define PKG_REDUCE_H

#include "run.h"

extern PyMethodDef reduce_functions[];

#endif /* PKG_REDUCE_H */
