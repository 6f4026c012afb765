/*
 * join.h - concatenate() and stack().
 */
#ifndef PKG_JOIN_H
#define PKG_JOIN_H

#include "common.h"

extern PyMethodDef join_functions[];

#endif /* PKG_JOIN_H */
