/*
 * array.h - the base of pkg.Array.
 */
#pragma once

#include "run.h"

extern PyType_Spec array_spec;
extern PyMethodDef array_functions[];
