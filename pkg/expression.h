/*
 * expression.h - programs, and the base of pkg.Expression.
 */
#ifndef PKG_EXPRESSION_H
#define PKG_EXPRESSION_H

#include "run.h"

extern PyType_Spec program_spec, expression_spec;

#endif /* PKG_EXPRESSION_H */
