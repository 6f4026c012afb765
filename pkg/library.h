/*
 * library.h - the functions of library.c.
 */
#ifndef PKG_LIBRARY_H
#define PKG_LIBRARY_H

#include "common.h"

extern PyMethodDef library_functions[];

#endif /* PKG_LIBRARY_H */
