/*
 * scalar.c - operations on plain numbers.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"
#include "plain_functions.h"
#include "warnings.h"

static mylib_status explain(mylib_status st, mylib_op op)
{
    switch (st) {
    case MYLIB_ERR_OVERFLOW:
        return mylib_fail(st, "the result of %s is too large for a float", mylib_op_name(op));
    case MYLIB_ERR_ZERO_DIVIDE:
        return mylib_fail(st, "%s by zero", mylib_op_name(op));
    case MYLIB_ERR_DOMAIN: /* integers only; messages of functions and roots name their arguments */
        return mylib_fail(st, "%s by a negative count", mylib_op_name(op));
    default:
        return st; /* the GPU backend has set its own message */
    }
}

static void write_number(char text[32], double x)
{
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, 32, "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            return;
    }
}

/*
 * Does the same for floats, or for complex numbers given by their real and imaginary parts: the
 * message names the arguments for which the result is undefined.
 */
static mylib_status explain_floats(mylib_status st, mylib_op op, const double real[2],
                                   const double *imaginary)
{
    const int arity = mylib_op_arity(op);
    char text[2][80] = {"", ""};
    if (st != MYLIB_ERR_DOMAIN)
        return explain(st, op);
    for (int k = 0; k < 2 && k < arity; k++) {
        char re[32], im[32];
        write_number(re, real[k]);
        write_number(im, imaginary != NULL ? imaginary[k] : 0.0);
        if (imaginary == NULL)
            (void)snprintf(text[k], sizeof text[k], "%s", re);
        else
            (void)snprintf(text[k], sizeof text[k], "%s%s%sj", re, im[0] == '-' ? "" : "+", im);
    }
    return op == MYLIB_OP_sqrt
               ? mylib_fail(st, "sqrt of the negative number %s is not real", text[0])
               : mylib_fail(st, "%s has no value for %s%s%s", mylib_op_name(op), text[0],
                            arity == 2 ? " and " : "", text[1]);
}

static mylib_status explain_i64(mylib_status st, mylib_op op, int64_t b)
{
    if (st == MYLIB_ERR_OVERFLOW)
        return mylib_fail(st, "the result of %s does not fit in 64 bits", mylib_op_name(op));
    return op == MYLIB_OP_power && st == MYLIB_ERR_DOMAIN ? mylib_refuse_exponent(b)
                                                          : explain(st, op);
}

static mylib_status exact(mylib_op op, t_i64 a, t_i64 b, t_i64 *result)
{
    switch ((int)op) {
#define CASE_SIGNED(op) \
    case MYLIB_OP_##op: \
        return exact_##op(a, b, result);
#define CASES_INT(op) CASE_SIGNED(op)
#define CASES_REAL(op) CASE_SIGNED(op)
#define CASES_ALL(op) CASE_SIGNED(op)
#define CASES_INEXACT(op)
#define CASES_FLOAT(op)
#define ROW(kind, op, set) CASES_##set(op)
        MYLIB_OPS(ROW)
#undef ROW
    }
    return MYLIB_ERR_UNSUPPORTED;
}

static mylib_status check(mylib_op op, mylib_device device, mylib_type type, const void *a,
                          const void *b, const void *result_ret)
{
    RETURN_IF_ERROR(mylib_op_result_type(op, type, NULL));
    RETURN_IF_ERROR(mylib_check_device_of_call(device));
    RETURN_IF_NULL(a);
    RETURN_IF_NULL(result_ret);
    if (mylib_op_arity(op) == 2)
        RETURN_IF_NULL(b);
    return device.kind == MYLIB_CUDA ? mylib_cuda_check_device(mylib_first_gpu(device.index))
                                     : MYLIB_OK;
}

/* The CPU computes functions for a GPU too: the results are the same. */
static int is_for_cpu(mylib_op op, mylib_device device)
{
    return device.kind == MYLIB_CPU || mylib_is_function(op);
}

mylib_status mylib_scalar_i64(mylib_op op, mylib_device device, int64_t a, int64_t b,
                              int64_t *result_ret)
{
    int64_t result;
    mylib_status st;
    /* The fast path of numbers in Python: arguments are checked only if this fails. */
    if (device.kind == MYLIB_CPU && device.index == 0 && result_ret != NULL &&
        exact(op, a, b, &result) == MYLIB_OK) {
        *result_ret = result;
        return MYLIB_OK;
    }
    MYLIB_TRY(check(op, device, MYLIB_I64, &a, &b, result_ret));
    if (is_for_cpu(op, device))
        MYLIB_TRY(exact(op, a, b, &result));
    else
        MYLIB_TRY(mylib_cuda_scalar(device.index, op, MYLIB_I64, &a, &b, &result));
    *result_ret = result;
    return MYLIB_OK;
out:
    return explain_i64(st, op, b);
}

/* Converts a result of another type back. */
static void run_kernel(mylib_op op, mylib_type type, const void *a, const void *b, void *result)
{
    const mylib_cpu_level *cpu = mylib_cpu();
    mylib_type result_type = type;
    t_c128 value; /* fits every type */
    const mylib_op base = mylib_op_base(op, type);
    const int is_reversed = mylib_op_is_reversed(op);
    (void)mylib_op_result_type(op, type, &result_type);
    char *to = result_type == type ? result : (char *)&value;
    cpu->kernel(base, type)(1, to, 0, is_reversed ? b : a, 0, is_reversed ? a : b, 0);
    if (result_type != type)
        cpu->convert(type, result_type, 1, result, 0, to, 0);
}

static mylib_status status_of_warning(int warning)
{
    return warning == MYLIB_WARNS_NOTHING    ? MYLIB_OK
           : warning == MYLIB_WARNS_OVERFLOW ? MYLIB_ERR_OVERFLOW
                                             : MYLIB_ERR_DOMAIN;
}

/* Not inlined: the compiler must not move its comparisons out of the default mode. */
__attribute__((noinline)) static mylib_status scalar_f64(mylib_op op, mylib_device device, double a,
                                                         double b, double *result_ret)
{
    const double last = mylib_op_arity(op) == 2 ? b : a;
    double result;
    mylib_status st;
    MYLIB_TRY(check(op, device, MYLIB_F64, &a, &b, result_ret));
    MYLIB_TRY(scalar_domain(op, last == 0, a < 0));
    if (is_for_cpu(op, device))
        run_kernel(op, MYLIB_F64, &a, &b, &result);
    else
        MYLIB_TRY(mylib_cuda_scalar(device.index, op, MYLIB_F64, &a, &b, &result));
    if (can_warn(op))
        MYLIB_TRY(status_of_warning(warning_of_real(op, a, last, result)));
    *result_ret = result;
    return MYLIB_OK;
out:
    return explain_floats(st, op, (const double[]){a, b}, NULL);
}

mylib_status mylib_scalar_f64(mylib_op op, mylib_device device, double a, double b,
                              double *result_ret)
{
    ENTER_DEFAULT_MODE();
    return scalar_f64(op, device, a, b, result_ret);
}

__attribute__((noinline)) static mylib_status scalar_c128(mylib_op op, mylib_device device,
                                                          const double a[2], const double b[2],
                                                          double result_ret[2])
{
    const double *last = mylib_op_arity(op) == 2 ? b : a; /* otherwise 'b' may be NULL */
    double result[2];
    mylib_status st;
    MYLIB_TRY(check(op, device, MYLIB_C128, a, b, result_ret));
    MYLIB_TRY(scalar_domain(op, last[0] == 0 && last[1] == 0, 0));
    if (is_for_cpu(op, device))
        run_kernel(op, MYLIB_C128, a, b, result);
    else
        MYLIB_TRY(mylib_cuda_scalar(device.index, op, MYLIB_C128, a, last, result));
    if (can_warn(op)) {
        const t_c128 x = make_c128(a[0], a[1]);
        const t_c128 y = make_c128(last[0], last[1]);
        MYLIB_TRY(status_of_warning(warning_of_complex(op, x, y, result[0])));
        MYLIB_TRY(status_of_warning(warning_of_complex(op, x, y, result[1])));
    }
    result_ret[0] = result[0];
    result_ret[1] = result[1];
    return MYLIB_OK;
out:
    if (st != MYLIB_ERR_DOMAIN) /* after other failures the arguments may be NULL */
        return explain(st, op);
    return explain_floats(st, op, (const double[]){a[0], last[0]}, (const double[]){a[1], last[1]});
}

mylib_status mylib_scalar_c128(mylib_op op, mylib_device device, const double a[2],
                               const double b[2], double result_ret[2])
{
    ENTER_DEFAULT_MODE();
    return scalar_c128(op, device, a, b, result_ret);
}

mylib_status mylib_fib(uint64_t n, uint64_t *result_ret)
{
    RETURN_IF_NULL(result_ret);
    if (n > 93)
        return mylib_fail(MYLIB_ERR_OVERFLOW,
                          "F(%" PRIu64 ") does not fit in 64 bits: the largest that does is F(93)",
                          n);
    uint64_t current = 0, next = 1;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t sum = current + next; /* may wrap after F(93), which is not used */
        current = next;
        next = sum;
    }
    *result_ret = current;
    return MYLIB_OK;
}
