/*
 * table.c - looks up the table of ops.h: names, sizes, arities, result types.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"

/* Checks that every enumerator has a row, in the enumerators' order. */
enum {
#define ROW(kind, op, set) row_##op,
    MYLIB_OPS(ROW)
#undef ROW
        row_count
};
#define ROW(kind, op, set) \
    _Static_assert((int)row_##op == (int)MYLIB_OP_##op, "ops.h and mylib.h disagree on " #op);
MYLIB_OPS(ROW)
#undef ROW
_Static_assert(row_count == MYLIB_OP_COUNT, "an operation of mylib.h has no row in ops.h");
#define DT(s, S) +1
_Static_assert(MYLIB_STORED_TYPES(DT) == MYLIB_TYPE_COUNT, "a type of mylib.h has no row in ops.h");
#undef DT

const char *mylib_type_name(mylib_type type)
{
    switch (type) {
#define DT(s, S) \
    case MYLIB_##S: \
        return #s;
        MYLIB_STORED_TYPES(DT)
#undef DT
    }
    return NULL;
}

mylib_status mylib_check_type(mylib_type type)
{
    if (mylib_type_name(type) != NULL)
        return MYLIB_OK;
    return mylib_fail(MYLIB_ERR_ARGUMENT, "unknown element type %d: types are 0 to %d (mylib_type)",
                      (int)type, MYLIB_TYPE_COUNT - 1);
}

size_t mylib_type_size(mylib_type type)
{
    switch (type) {
#define DT(s, S) \
    case MYLIB_##S: \
        return sizeof(t_##s);
        MYLIB_STORED_TYPES(DT)
#undef DT
    }
    return 0;
}

const char *mylib_op_name(mylib_op op)
{
    switch (op) {
#define ROW(kind, op, set) \
    case MYLIB_OP_##op: \
        return #op;
        MYLIB_OPS(ROW)
#undef ROW
    }
    return NULL;
}

/* The enclosing function defines the kinds. */
#define RETURN_KIND(kind, op, set) \
    case MYLIB_OP_##op: \
        return kind;

int mylib_op_arity(mylib_op op)
{
    enum { BINARY = 2, UNARY = 1, UNARY_REAL = 1, COMPARE = 2, REVERSED = 2, LOGIC = 2, TEST = 1 };
    switch (op) {
        MYLIB_OPS(RETURN_KIND)
    }
    return 0;
}

int mylib_op_compares(mylib_op op) { return op >= MYLIB_OP_equal && op <= MYLIB_OP_greater_equal; }

_Static_assert((int)MYLIB_OP_greater == MYLIB_OP_less + 2, "greater is less reversed");
_Static_assert((int)MYLIB_OP_greater_equal == MYLIB_OP_less_equal + 2,
               "greater_equal is less_equal reversed");
_Static_assert(MYLIB_OP_COUNT <= MYLIB_OPCODE_TEST, "an operation has the number of an opcode");
_Static_assert((int)MYLIB_STEP_CONVERT >= MYLIB_OP_COUNT &&
                   (int)MYLIB_STEP_SELECT >= MYLIB_OP_COUNT,
               "a step has the number of an operation");

/* Returns a set of types: bit t is set if the operation is defined for type t. */
static unsigned types_of(mylib_op op)
{
    unsigned bool_bit = 0;
#define DT(s, S) bit_##s = 1 << MYLIB_##S,
    enum { MYLIB_STORED_TYPES(DT) };
#undef DT
    switch ((int)op) {
#define AS(op, logical) case MYLIB_OP_##op:
        MYLIB_BOOL_OPS(AS)
#undef AS
        bool_bit = bit_bool;
    }
    switch (op) {
#define BIT(op, s) | bit_##s
#define ROW(kind, op, set) \
    case MYLIB_OP_##op: \
        return bool_bit MYLIB_SET_##set(BIT, op);
        MYLIB_OPS(ROW)
#undef ROW
    }
    return 0;
}

static mylib_type result_type(mylib_op op, mylib_type type)
{
    mylib_type BINARY = type, UNARY = type, UNARY_REAL = mylib_part_type(type);
    mylib_type COMPARE = MYLIB_BOOL, REVERSED = MYLIB_BOOL, LOGIC = MYLIB_BOOL, TEST = MYLIB_BOOL;
    switch (op) {
        MYLIB_OPS(RETURN_KIND)
    }
    return type;
}

mylib_status mylib_op_result_type(mylib_op op, mylib_type type, mylib_type *result_ret)
{
    if (mylib_op_name(op) == NULL)
        return mylib_fail(MYLIB_ERR_ARGUMENT,
                          "unknown operation %d: operations are 0 to %d (mylib_op)", (int)op,
                          MYLIB_OP_COUNT - 1);
    RETURN_IF_ERROR(mylib_check_type(type));
    unsigned types = types_of(op);
    if (!(types >> type & 1)) {
        char list[MYLIB_TYPE_COUNT * 6] = "";
        for (int t = 0; t < MYLIB_TYPE_COUNT; t++) {
            if (types >> t & 1) {
                size_t used = strlen(list);
                snprintf(list + used, sizeof list - used, "%s%s", used ? " " : "",
                         mylib_type_name((mylib_type)t));
            }
        }
        return mylib_fail(MYLIB_ERR_UNSUPPORTED, "%s is not defined for %s; it is defined for %s",
                          mylib_op_name(op), mylib_type_name(type), list);
    }
    if (result_ret != NULL)
        *result_ret = result_type(op, type);
    return MYLIB_OK;
}

mylib_status mylib_sum_type(mylib_type type, mylib_type *sum_type_ret)
{
    RETURN_IF_ERROR(mylib_check_type(type));
    if (type == MYLIB_BOOL)
        return mylib_fail(MYLIB_ERR_UNSUPPORTED,
                          "the sum of bool is not defined: convert it to i64 first");
    RETURN_IF_NULL(sum_type_ret);
    *sum_type_ret = type <= MYLIB_I64 ? MYLIB_I64 : type <= MYLIB_U64 ? MYLIB_U64 : type;
    return MYLIB_OK;
}

mylib_type mylib_carrying_type(mylib_reduction reduction, mylib_type type)
{
    mylib_type sum_type = type;
    if (type == MYLIB_F16) /* nothing is computed in f16, not even minima */
        return MYLIB_F32;
    if (reduction == MYLIB_SUM || reduction == MYLIB_PROD)
        (void)mylib_sum_type(type, &sum_type);
    return sum_type;
}
