/*
 * library.h - the functions of library.c.
 */
#pragma once

#include "common.h"

extern PyMethodDef library_functions[];
