/*
 * operands.h - the operands of a call, and NumPy's rules for them: types, values of numbers,
 * shapes, strides and overlap of outputs.
 */
#pragma once

#include "memory.h"

/* Kinds in the order of NEP 50: a number is weak beside an array of its kind or a higher one. */
typedef enum number_kind { KIND_BOOL, KIND_INT, KIND_FLOAT, KIND_COMPLEX } number_kind;

typedef struct operand {
    PyObject *object;            /* borrowed */
    PyObject *memory;            /* borrowed, of an Array; NULL for anything else */
    int num;                     /* NumPy's number of the type of a host array or NumPy scalar */
    int is_weak;                 /* a Python number, which adopts the others' type (NEP 50) */
    number_kind number;          /* its kind */
    _Alignas(16) char value[16]; /* of a number or NumPy scalar */
} operand;

typedef struct call {
    core_state *state;
    int inputs;
    int on_gpu;          /* an operand is an Array */
    int has_host_array;  /* a NumPy array with dimensions */
    int has_number;      /* a Python number */
    mylib_device device; /* computes the call */
    PyObject *stream;    /* a reference; NULL is the default stream */
    mylib_array *arrays; /* the output, the inputs */
    operand *operands;
    int64_t *free_dims; /* free memory for shapes and strides of NumPy arrays */
} call;

/* Declares a call of `count` inputs with room for `most`, so that small calls take little stack. */
#define DECLARE_CALL(c, core, most, count) \
    mylib_array c##_arrays[1 + (most)]; \
    operand c##_operands[most]; \
    int64_t c##_dims[DIMS_OF(1 + (most))]; \
    call c = {.state = (core), \
              .inputs = (count), \
              .device = {MYLIB_CPU, 0}, \
              .arrays = c##_arrays, \
              .operands = c##_operands, \
              .free_dims = c##_dims}

static inline int kind_of_number(PyObject *x)
{
    return PyBool_Check(x)           ? (int)KIND_BOOL
           : PyLong_CheckExact(x)    ? (int)KIND_INT
           : PyFloat_CheckExact(x)   ? (int)KIND_FLOAT
           : PyComplex_CheckExact(x) ? (int)KIND_COMPLEX
                                     : -1;
}

static inline number_kind kind_of_type(mylib_type type)
{
    return type == MYLIB_BOOL  ? KIND_BOOL
           : type <= MYLIB_U64 ? KIND_INT
           : type <= MYLIB_F64 ? KIND_FLOAT
                               : KIND_COMPLEX;
}

/* Returns whether an operation refuses some elements of a type: integers' negative exponents. */
static inline int may_refuse(mylib_op op, mylib_type type)
{
    return op == MYLIB_OP_power &&
           (type == MYLIB_I8 || type == MYLIB_I16 || type == MYLIB_I32 || type == MYLIB_I64);
}

/* Returns whether only the truth of an operation's operands counts. */
static inline int is_logical(mylib_op op)
{
    return op >= MYLIB_OP_logical_and && op <= MYLIB_OP_logical_not;
}

/* Finds the type to which NumPy promotes two types. */
int promote(mylib_type a, mylib_type b, mylib_type *type_ret);

/* Returns the common type of an array and a weak number. */
mylib_type promote_weak(mylib_type type, number_kind number);

/*
 * Takes input `k`: an Array, a NumPy array in native byte order, a NumPy scalar or a Python
 * number, whose value take_value() adds.  OTHER_OPERAND or OTHER_TYPE for anything else.
 */
outcome take_operand(call *c, int k, PyObject *x);

/* Raises TypeError for an object that is no array of a supported type; returns -1. */
int refuse_array(PyObject *x);

/*
 * Takes the arrays of a call that writes the first of `args`: Arrays, whose GPU then computes it,
 * and NumPy arrays in native byte order.  Notes that each GPU's stream uses its memory; call
 * release() afterwards.
 */
int take_arrays(call *c, PyObject *const *args, Py_ssize_t count);

/* Returns whether `out` is a writable array in the call's place, and describes it as its output. */
int find_output(call *c, PyObject *out);

/* Finds the GPU and stream of a call with Arrays; OTHER_PLACE with host arrays, or two GPUs. */
outcome place(call *c);

/* Notes that the call's stream uses the memory of its operands, and of `out`. */
int note_uses(call *c, PyObject *out);

/* Releases the stream that place() or take_arrays() took. */
static inline void release(call *c) { Py_CLEAR(c->stream); }

/* Converts a Python number to a type if that is exact; else NumPy's rules are needed. */
int find_exact(PyObject *x, mylib_type type, void *value);

/* Sets the value of input `k`, a number, in a type as NumPy does, or raises NumPy's error. */
int take_value(call *c, int k, mylib_type type);

/* Returns whether take_value() failed because the integer type cannot hold the int. */
int is_out_of_range(const call *c, int k);

/* Finds the shape to which the inputs broadcast; OTHER_SHAPE if they do not. */
outcome broadcast(const call *c, int *ndim_ret, int64_t *shape);

/*
 * Finds the strides that NumPy gives a new output ("K" order), or the inputs joined if `is_joined`:
 * axes sorted by the strides of the inputs, in C order where the inputs disagree.
 */
void output_strides(const mylib_array *in, int inputs, int is_joined, int ndim,
                    const int64_t *shape, mylib_type type, int64_t *strides);

/* Returns whether the memory ranges of two arrays overlap; neither may be empty. */
int may_share_memory(const mylib_array *a, const mylib_array *b);

/* Returns whether the output overlaps an input so that NumPy would copy first. */
int needs_copy(const call *c);

/* Returns whether elements of an array share memory; see mylib_overlaps_itself(). */
int overlaps_itself(const mylib_array *a);
