/*
 * operands.c - see operands.h.
 */
#include "operands.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Promotion ----------------------------------------------------------------------------- */

kind kind_of_type(mylib_type type)
{
    return type == MYLIB_BOOL  ? KIND_BOOL
           : type <= MYLIB_U64 ? KIND_INT
           : type <= MYLIB_F64 ? KIND_FLOAT
                               : KIND_COMPLEX;
}

/* The kind of a Python number; -1 for anything else. */
static int kind_of_number(PyObject *x)
{
    return PyBool_Check(x)           ? (int)KIND_BOOL
           : PyLong_CheckExact(x)    ? (int)KIND_INT
           : PyFloat_CheckExact(x)   ? (int)KIND_FLOAT
           : PyComplex_CheckExact(x) ? (int)KIND_COMPLEX
                                     : -1;
}

int promote(mylib_type a, mylib_type b, mylib_type *type_ret)
{
    *type_ret = a;
    if (a == b)
        return 1;
    PyArray_Descr *da = PyArray_DescrFromType(num_of_type(a));
    PyArray_Descr *db = PyArray_DescrFromType(num_of_type(b));
    PyArray_Descr *d = PyArray_PromoteTypes(da, db);
    int is_ok = d != NULL && type_of_num(d->type_num, type_ret);
    Py_XDECREF(d);
    Py_DECREF(da);
    Py_DECREF(db);
    return is_ok;
}

mylib_type promote_weak(mylib_type type, kind number)
{
    kind own = kind_of_type(type);
    if (number <= own)
        return type;
    if (number == KIND_INT)
        return MYLIB_I64;
    if (number == KIND_FLOAT)
        return MYLIB_F64;
    return type == MYLIB_F16 || type == MYLIB_F32 ? MYLIB_C64 : MYLIB_C128;
}

/* ---- Values of numbers ----------------------------------------------------------------------- */

int convert_number(PyObject *x, mylib_type type, void *value)
{
    if (type == MYLIB_C64 || type == MYLIB_C128) {
        mylib_type part = type == MYLIB_C64 ? MYLIB_F32 : MYLIB_F64;
        char *parts = value;
        memset(value, 0, mylib_type_size(type));
        if (!PyComplex_CheckExact(x))
            return convert_number(x, part, parts);
        PyObject *re = PyFloat_FromDouble(PyComplex_RealAsDouble(x));
        PyObject *im = PyFloat_FromDouble(PyComplex_ImagAsDouble(x));
        int converts = re != NULL && im != NULL && convert_number(re, part, parts) &&
                       convert_number(im, part, parts + mylib_type_size(part));
        Py_XDECREF(re);
        Py_XDECREF(im);
        PyErr_Clear();
        return converts;
    }
    if (PyLong_CheckExact(x)) {
        int overflow;
        long long n = PyLong_AsLongLongAndOverflow(x, &overflow);
        if (overflow != 0)
            return 0;
        switch (type) {
#define FITS(S, T, low, high)                                                                      \
    case S:                                                                                        \
        if (n < (low) || n > (high))                                                               \
            return 0;                                                                              \
        *(T *)value = (T)n;                                                                        \
        return 1;
            FITS(MYLIB_I8, int8_t, INT8_MIN, INT8_MAX)
            FITS(MYLIB_I16, int16_t, INT16_MIN, INT16_MAX)
            FITS(MYLIB_I32, int32_t, INT32_MIN, INT32_MAX)
            FITS(MYLIB_I64, int64_t, INT64_MIN, INT64_MAX)
            FITS(MYLIB_U8, uint8_t, 0, UINT8_MAX)
            FITS(MYLIB_U16, uint16_t, 0, UINT16_MAX)
            FITS(MYLIB_U32, uint32_t, 0, (long long)UINT32_MAX)
            FITS(MYLIB_U64, uint64_t, 0, LLONG_MAX)
            FITS(MYLIB_F32, float, -(1 << 24), 1 << 24)
            FITS(MYLIB_F64, double, -(1LL << 53), 1LL << 53)
#undef FITS
        default:
            return 0;
        }
    }
    if (PyFloat_CheckExact(x)) {
        double d = PyFloat_AS_DOUBLE(x);
        if (type == MYLIB_F64) {
            *(double *)value = d;
            return 1;
        }
        /* Inside the normal numbers the conversion raises no flag that NumPy looks at. */
        if (type == MYLIB_F32 && (d == 0 || (fabs(d) >= 0x1p-126 && fabs(d) < 0x1p127))) {
            const mylib_mode mode = mylib_enter_mode();
            volatile double exact = d; /* the conversion stays here */
            *(float *)value = (float)exact;
            mylib_leave_mode(mode);
            return 1;
        }
    }
    return 0;
}

int take_value(core_state *state, operand *o, mylib_type type)
{
    o->a.type = type;
    if (convert_number(o->object, type, o->value))
        return 0;
    PyArray_Descr *descr = PyArray_DescrFromType(num_of_type(type));
    const mylib_mode mode = mylib_enter_mode();
    PyObject *converted = PyArray_FromAny(o->object, descr, 0, 0, 0, NULL); /* steals descr */
    mylib_leave_mode(mode);
    if (converted == NULL) {
        /* Between integers no handler of np.seterrcall is called: the exception is NumPy's own. */
        if (o->number == KIND_INT && kind_of_type(type) <= KIND_INT &&
            PyErr_ExceptionMatches(PyExc_OverflowError)) {
            PyObject *exception, *value, *traceback;
            PyErr_Fetch(&exception, &value, &traceback);
            PyObject *text = value != NULL ? PyObject_Str(value) : NULL;
            if (text != NULL)
                PyErr_SetObject(state->out_of_range, text);
            Py_XDECREF(text);
            Py_XDECREF(exception);
            Py_XDECREF(value);
            Py_XDECREF(traceback);
        }
        return -1;
    }
    memcpy(o->value, PyArray_DATA((PyArrayObject *)converted), mylib_type_size(type));
    Py_DECREF(converted);
    return 0;
}

/* ---- Operands -------------------------------------------------------------------------------- */

int take_operand(core_state *state, PyObject *x, operand *o)
{
    o->object = x;
    o->memory = NULL;
    o->is_weak = 0;
    if (is_array(state, x)) {
        o->a = ((array_object *)x)->a;
        o->memory = ((array_object *)x)->memory;
        return 1;
    }
    o->a = (mylib_array){o->value, {MYLIB_CPU, 0}, MYLIB_I64, 0, NULL, NULL};
    int number = kind_of_number(x);
    if (number >= 0) {
        o->is_weak = 1;
        o->number = (kind)number;
        return 1;
    }
    if (PyArray_IsScalar(x, Generic)) {
        PyArray_Descr *descr = PyArray_DescrFromScalar(x);
        int is_known = descr != NULL && type_of_num(descr->type_num, &o->a.type);
        Py_XDECREF(descr);
        if (is_known)
            PyArray_ScalarAsCtype(x, o->value);
        return is_known;
    }
    if (PyArray_CheckExact(x) && PyArray_NDIM((PyArrayObject *)x) == 0 &&
        PyArray_ISNOTSWAPPED((PyArrayObject *)x) &&
        type_of_num(PyArray_TYPE((PyArrayObject *)x), &o->a.type)) {
        memcpy(o->value, PyArray_DATA((PyArrayObject *)x), mylib_type_size(o->a.type));
        return 1;
    }
    return 0;
}

int take_any_array(core_state *state, PyObject *x, mylib_array *array_ret, int64_t **dims,
                   PyObject **memory_ret)
{
    mylib_type type;
    *memory_ret = NULL;
    if (is_array(state, x)) {
        *array_ret = ((array_object *)x)->a;
        *memory_ret = ((array_object *)x)->memory;
        return 1;
    }
    if (!PyArray_Check(x) || !PyArray_ISNOTSWAPPED((PyArrayObject *)x) ||
        !type_of_num(PyArray_TYPE((PyArrayObject *)x), &type)) {
        PyErr_Format(PyExc_TypeError,
                     "expected an Array or a NumPy array of a supported type, "
                     "not %.100s",
                     Py_TYPE(x)->tp_name);
        return 0;
    }
    *dims = describe_array((PyArrayObject *)x, type, array_ret, *dims);
    return 1;
}

int common_device(const operand *operands, int count, mylib_device *device_ret)
{
    const operand *first = NULL;
    for (int k = 0; k < count; k++) {
        if (operands[k].memory == NULL)
            continue;
        if (first == NULL)
            first = &operands[k];
        else if (operands[k].a.device.index != first->a.device.index) {
            PyErr_Format(PyExc_ValueError,
                         "the operands are on cuda:%d and on cuda:%d: move one of them with "
                         "to_device() first",
                         (int)first->a.device.index, (int)operands[k].a.device.index);
            return 0;
        }
    }
    if (first == NULL)
        return 0; /* numbers only: no case for arrays */
    *device_ret = first->a.device;
    return 1;
}

int broadcast(const mylib_array *in, int inputs, int *ndim_ret, int64_t *shape)
{
    int ndim = 0;
    for (int k = 0; k < inputs; k++)
        ndim = in[k].ndim > ndim ? in[k].ndim : ndim;
    for (int d = 0; d < ndim; d++)
        shape[d] = 1;
    for (int k = 0; k < inputs; k++) {
        int missing = ndim - in[k].ndim;
        for (int d = missing; d < ndim; d++) {
            int64_t size = in[k].shape[d - missing];
            if (size != 1 && shape[d] != 1 && size != shape[d])
                return 0;
            if (size != 1)
                shape[d] = size;
        }
    }
    *ndim_ret = ndim;
    return 1;
}

/* ---- Outputs --------------------------------------------------------------------------------- */

void output_strides(const mylib_array *in, int inputs, int ndim, const int64_t *shape,
                    mylib_type type, int64_t *strides)
{
    int axes[MYLIB_MAX_NDIM]; /* from the slowest to the fastest */
    int64_t stride = (int64_t)mylib_type_size(type);
    for (int i = 0; i < ndim; i++) {
        int position = i;
        /* NumPy inserts from the fastest axis on; so does this, on reversed positions. */
        int axis = ndim - 1 - i;
        for (int j = i - 1; j >= 0; j--) {
            int other = axes[j], is_decided = 0, moves = 0;
            for (int k = 0; k < inputs; k++) {
                int missing = ndim - in[k].ndim;
                if (axis < missing || other < missing || in[k].shape[axis - missing] == 1 ||
                    in[k].shape[other - missing] == 1)
                    continue;
                int64_t outer = llabs(in[k].strides[axis - missing]);
                int64_t inner = llabs(in[k].strides[other - missing]);
                if (outer == 0 || inner == 0)
                    continue;
                if (inner <= outer)
                    moves = 0;
                else if (!is_decided)
                    moves = 1;
                is_decided = 1;
            }
            if (!is_decided)
                continue;
            if (!moves)
                break;
            position = j;
        }
        memmove(axes + position + 1, axes + position, (size_t)(i - position) * sizeof *axes);
        axes[position] = axis;
    }
    /* axes[0] is the fastest. */
    for (int i = 0; i < ndim; i++) {
        strides[axes[i]] = stride;
        stride *= shape[axes[i]] != 0 ? shape[axes[i]] : 1;
    }
}

/* The memory [begin, end) that an array may touch. */
static void extent(const mylib_array *a, const char **begin, const char **end)
{
    const char *low = a->data, *high = a->data;
    for (int d = 0; d < a->ndim; d++) {
        int64_t reach = a->strides[d] * (a->shape[d] - 1);
        if (reach < 0)
            low += reach;
        else
            high += reach;
    }
    *begin = low;
    *end = high + mylib_type_size(a->type);
}

int needs_copy(const mylib_array *out, const mylib_array *in)
{
    const char *out_begin, *out_end, *begin, *end;
    extent(out, &out_begin, &out_end);
    extent(in, &begin, &end);
    if (out_end <= begin || end <= out_begin)
        return 0;
    return !(out->data == in->data && out->type == in->type && out->ndim == in->ndim &&
             memcmp(out->shape, in->shape, (size_t)in->ndim * sizeof *in->shape) == 0 &&
             memcmp(out->strides, in->strides, (size_t)in->ndim * sizeof *in->strides) == 0);
}

int overlaps_itself(const mylib_array *a)
{
    if (a->ndim == 1)
        return a->shape[0] > 1 && llabs(a->strides[0]) < (int64_t)mylib_type_size(a->type);
    int axes[MYLIB_MAX_NDIM], count = 0; /* by their strides, the smallest first */
    for (int d = a->ndim - 1; d >= 0; d--) {
        int i = count;
        if (a->shape[d] == 0)
            return 0;
        if (a->shape[d] == 1)
            continue;
        for (; i > 0 && llabs(a->strides[axes[i - 1]]) > llabs(a->strides[d]); i--)
            axes[i] = axes[i - 1];
        axes[i] = d;
        count++;
    }
    int64_t reach = (int64_t)mylib_type_size(a->type);
    for (int i = 0; i < count; i++) {
        int64_t stride = llabs(a->strides[axes[i]]);
        if (stride < reach)
            return 1;
        reach += stride * (a->shape[axes[i]] - 1);
    }
    return 0;
}
