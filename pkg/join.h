/*
 * join.h - concatenate() and stack().
 */
#pragma once

#include "common.h"

extern PyMethodDef join_functions[];
