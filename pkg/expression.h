/*
 * expression.h - programs, and the base of pkg.Expression.
 */
#pragma once

#include "run.h"

extern PyType_Spec program_spec, expression_spec;
