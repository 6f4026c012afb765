/*
 * operands.h - the operands of a call, and the rules of NumPy for them: which types they are computed
 * in, which values numbers take, which shape, strides and overlap an output may have.
 */
#ifndef PKG_OPERANDS_H
#define PKG_OPERANDS_H

#include "memory.h"

/* Kinds in the order of NEP 50: a number is weak beside an array of its kind or a higher one. */
typedef enum kind { KIND_BOOL, KIND_INT, KIND_FLOAT, KIND_COMPLEX } kind;

/*
 * An operand, described for the library.  A number or NumPy scalar is kept in `value` until the
 * call has returned.
 */
typedef struct operand {
    mylib_array a;
    PyObject *memory; /* borrowed; NULL for a number */
    kind number;      /* of a weak Python number */
    int is_weak;
    PyObject *object;
    _Alignas(16) char value[16];
} operand;

kind kind_of_type(mylib_type type);

/* The type that NumPy promotes two types to; 0 and an exception on failure. */
int promote(mylib_type a, mylib_type b, mylib_type *type_ret);

/* What a weak number of a kind does to a type. */
mylib_type promote_weak(mylib_type type, kind number);

/*
 * Describes an Array, a number, a NumPy scalar or a NumPy array without dimensions; a weak number
 * still lacks its value.  0: none of these, without an exception.
 */
int take_operand(core_state *state, PyObject *x, operand *o);

/*
 * Describes an Array, or a NumPy array in native byte order, whose dimensions go to *dims; 0 and a
 * TypeError for anything else.
 */
int take_any_array(core_state *state, PyObject *x, mylib_array *array_ret, int64_t **dims,
                   PyObject **memory_ret);

/*
 * A Python number among arrays of type 'type' takes that type (NEP 50).  Converts it where that is
 * exact; returns 0 where NumPy's own rules (warnings, errors, promotion) are needed.
 */
int convert_number(PyObject *x, mylib_type type, void *value);

/*
 * Gives a weak number its value, of type `type`.  -1 and an exception on failure: OutOfRange, an
 * OverflowError with NumPy's text, for an int that an integer type cannot hold.
 */
int take_value(core_state *state, operand *o, mylib_type type);

/*
 * The Arrays' common device; 0 and a ValueError that names both where they have none, 0 alone where
 * there is no Array.
 */
int common_device(const operand *operands, int count, mylib_device *device_ret);

/* The shape that the inputs broadcast to; 0, without an exception, when they do not. */
int broadcast(const mylib_array *in, int inputs, int *ndim_ret, int64_t *shape);

/*
 * The strides that NumPy gives a new output ("K" order): the axes sorted by the strides of the
 * inputs as its iterator does, C order where those disagree.
 */
void output_strides(const mylib_array *in, int inputs, int ndim, const int64_t *shape,
                    mylib_type type, int64_t *strides);

/* Whether `out` shares memory with an input in a way for which NumPy would make a copy. */
int needs_copy(const mylib_array *out, const mylib_array *in);

/*
 * Returns whether elements of an array share memory; also true for a few layouts without overlap
 * that no slicing makes.
 */
int overlaps_itself(const mylib_array *a);

#endif /* PKG_OPERANDS_H */
