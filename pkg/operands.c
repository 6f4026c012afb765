/*
 * operands.c - see operands.h.
 */
#include "operands.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Promotion ---- */

int promote(mylib_type a, mylib_type b, mylib_type *type_ret)
{
    *type_ret = a;
    if (a == b)
        return 0;
    PyArray_Descr *da = PyArray_DescrFromType(num_of_type(a));
    PyArray_Descr *db = PyArray_DescrFromType(num_of_type(b));
    PyArray_Descr *d = PyArray_PromoteTypes(da, db);
    int is_ok = d != NULL && find_type(d->type_num, type_ret);
    Py_XDECREF(d);
    Py_DECREF(da);
    Py_DECREF(db);
    return is_ok ? 0 : -1;
}

mylib_type promote_weak(mylib_type type, number_kind number)
{
    number_kind own = kind_of_type(type);
    if (number <= own)
        return type;
    if (number == KIND_INT)
        return MYLIB_I64;
    if (number == KIND_FLOAT)
        return MYLIB_F64;
    return type == MYLIB_F16 || type == MYLIB_F32 ? MYLIB_C64 : MYLIB_C128;
}

/* ---- Values of numbers ---- */

/* Does what find_exact() does, for a float. */
static int find_exact_float(double d, mylib_type type, void *value)
{
    if (type == MYLIB_F64) {
        *(double *)value = d;
        return 1;
    }
    /* For normal numbers the conversion raises no flag that NumPy reports. */
    if (type == MYLIB_F32 && (d == 0 || (fabs(d) >= 0x1p-126 && fabs(d) < 0x1p127))) {
        const mylib_mode mode = mylib_enter_mode();
        volatile double exact = d; /* keeps the compiler from moving the conversion */
        *(float *)value = (float)exact;
        mylib_leave_mode(mode);
        return 1;
    }
    return 0;
}

int find_exact(PyObject *x, mylib_type type, void *value)
{
    if (type == MYLIB_C64 || type == MYLIB_C128) {
        mylib_type part = type == MYLIB_C64 ? MYLIB_F32 : MYLIB_F64;
        memset(value, 0, type_sizes[type]);
        if (!PyComplex_CheckExact(x))
            return find_exact(x, part, value);
        return find_exact_float(PyComplex_RealAsDouble(x), part, value) &&
               find_exact_float(PyComplex_ImagAsDouble(x), part, (char *)value + type_sizes[part]);
    }
    if (PyLong_CheckExact(x)) {
        int overflow;
        long long n = PyLong_AsLongLongAndOverflow(x, &overflow);
        if (overflow != 0)
            return 0;
        switch (type) {
#define FITS(S, T, low, high) \
    case S: \
        if (n < (low) || n > (high)) \
            return 0; \
        *(T *)value = (T)n; \
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
            FITS(MYLIB_F16, uint16_t, 0, 0) /* without bits */
            FITS(MYLIB_BOOL, uint8_t, 0, 1)
#undef FITS
        default:
            return 0;
        }
    }
    return PyFloat_CheckExact(x) && find_exact_float(PyFloat_AS_DOUBLE(x), type, value);
}

int take_value(call *c, int k, mylib_type type)
{
    operand *o = &c->operands[k];
    c->arrays[1 + k].type = type;
    if (find_exact(o->object, type, o->value))
        return 0;
    PyArray_Descr *descr = PyArray_DescrFromType(num_of_type(type));
    const mylib_mode mode = mylib_enter_mode();
    int result = PyArray_Pack(descr, o->value, o->object);
    mylib_leave_mode(mode);
    Py_DECREF(descr);
    return result;
}

int is_out_of_range(const call *c, int k)
{
    return c->operands[k].number == KIND_INT && kind_of_type(c->arrays[1 + k].type) <= KIND_INT &&
           PyErr_ExceptionMatches(PyExc_OverflowError);
}

/* ---- Operands ---- */

outcome take_operand(call *c, int k, PyObject *x)
{
    operand *o = &c->operands[k];
    mylib_array *a = &c->arrays[1 + k];
    o->object = x;
    o->memory = NULL;
    o->is_weak = 0;
    o->num = -1;
    if (Py_TYPE(x) != c->state->array_type) {
        if (PyArray_CheckExact(x)) {
            mylib_type type;
            if (!find_array_type((PyArrayObject *)x, &type))
                return OTHER_TYPE;
            o->num = PyArray_TYPE((PyArrayObject *)x);
            c->free_dims = describe_array((PyArrayObject *)x, type, a, c->free_dims);
            c->has_host_array |= a->ndim > 0;
            return DONE;
        }
        *a = (mylib_array){o->value, {MYLIB_CPU, 0}, MYLIB_I64, 0, NULL, NULL};
        int number = kind_of_number(x);
        if (number >= 0) {
            o->is_weak = c->has_number = 1;
            o->number = (number_kind)number;
            return DONE;
        }
        if (PyArray_IsScalar(x, Generic)) {
            PyArray_Descr *descr = PyArray_DescrFromScalar(x);
            if (descr == NULL)
                return FAILED;
            o->num = descr->type_num;
            Py_DECREF(descr);
            if (!find_type(o->num, &a->type))
                return OTHER_TYPE;
            PyArray_ScalarAsCtype(x, o->value);
            return DONE;
        }
        if (!is_array(c->state, x))
            return OTHER_OPERAND;
    }
    *a = ((array_object *)x)->a;
    o->memory = ((array_object *)x)->memory;
    c->on_gpu = 1;
    return DONE;
}

int refuse_array(PyObject *x)
{
    static const char expected[] = "expected an Array or a NumPy array of " SUPPORTED_TYPES;
    if (PyArray_Check(x))
        PyErr_Format(PyExc_TypeError, "%s, not of %S", expected, PyArray_DESCR((PyArrayObject *)x));
    else
        PyErr_Format(PyExc_TypeError, "%s, not %.100s", expected, Py_TYPE(x)->tp_name);
    return -1;
}

int take_arrays(call *c, PyObject *const *args, Py_ssize_t count)
{
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *x = args[k];
        mylib_type type;
        int is_readonly;
        if (is_array(c->state, x)) {
            c->arrays[k] = ((array_object *)x)->a;
            is_readonly = ((array_object *)x)->is_readonly;
            if (!c->on_gpu)
                c->device = c->arrays[k].device;
            c->on_gpu = 1;
        } else if (PyArray_Check(x) && find_array_type((PyArrayObject *)x, &type)) {
            c->free_dims = describe_array((PyArrayObject *)x, type, &c->arrays[k], c->free_dims);
            is_readonly = !PyArray_ISWRITEABLE((PyArrayObject *)x);
        } else {
            return refuse_array(x);
        }
        if (k == 0 && is_readonly) {
            PyErr_SetString(PyExc_ValueError, "the output array is read-only");
            return -1;
        }
    }
    if (!c->on_gpu)
        return 0;
    if (current_stream(c->state, c->device, &c->stream) < 0)
        return -1;
    int failed = 0;
    for (Py_ssize_t k = 0; k < count && !failed; k++) {
        PyObject *stream = NULL; /* of the array's own GPU */
        if (!is_array(c->state, args[k]))
            continue;
        failed = current_stream(c->state, c->arrays[k].device, &stream) < 0 ||
                 note_use(((array_object *)args[k])->memory, stream) < 0;
        Py_XDECREF(stream);
    }
    if (failed)
        release(c);
    return -failed;
}

int find_output(call *c, PyObject *out)
{
    mylib_type type;
    if (c->on_gpu) {
        if (!is_array(c->state, out) || ((array_object *)out)->is_readonly ||
            ((array_object *)out)->a.device.index != c->device.index)
            return 0;
        c->arrays[0] = ((array_object *)out)->a;
        return 1;
    }
    if (!PyArray_CheckExact(out) || !PyArray_ISWRITEABLE((PyArrayObject *)out) ||
        !find_array_type((PyArrayObject *)out, &type))
        return 0;
    describe_array((PyArrayObject *)out, type, &c->arrays[0], c->free_dims);
    return 1;
}

outcome place(call *c)
{
    int is_found = 0;
    if (!c->on_gpu)
        return DONE;
    if (c->has_host_array)
        return OTHER_PLACE;
    for (int k = 0; k < c->inputs; k++) {
        const mylib_device device = c->arrays[1 + k].device;
        if (c->operands[k].memory == NULL)
            continue;
        if (is_found && device.index != c->device.index)
            return OTHER_PLACE;
        c->device = device;
        is_found = 1;
    }
    return current_stream(c->state, c->device, &c->stream);
}

int note_uses(call *c, PyObject *out)
{
    if (!c->on_gpu)
        return 0;
    for (int k = 0; k < c->inputs; k++)
        if (c->operands[k].memory != NULL && note_use(c->operands[k].memory, c->stream) < 0)
            return -1;
    return note_use(((array_object *)out)->memory, c->stream);
}

outcome broadcast(const call *c, int *ndim_ret, int64_t *shape)
{
    const mylib_array *in = &c->arrays[1];
    int ndim = 0; /* for a program without inputs */
    for (int k = 0; k < c->inputs; k++)
        ndim = in[k].ndim > ndim ? in[k].ndim : ndim;
    for (int d = 0; d < ndim; d++)
        shape[d] = 1;
    for (int k = 0; k < c->inputs; k++) {
        int64_t *aligned = shape + (ndim - in[k].ndim);
        for (int d = 0; d < in[k].ndim; d++) {
            int64_t size = in[k].shape[d];
            if (size == aligned[d] || size == 1)
                continue;
            if (aligned[d] != 1)
                return OTHER_SHAPE;
            aligned[d] = size;
        }
    }
    *ndim_ret = ndim;
    return DONE;
}

/* ---- Outputs ---- */

/* Returns whether the inputs put an axis before another one; -1 if none of them tells. */
static int goes_before(const mylib_array *in, int inputs, int is_joined, int ndim, int axis,
                       int other)
{
    int goes = -1;
    for (int k = 0; k < inputs; k++) {
        const int missing = ndim - in[k].ndim, a = axis - missing, b = other - missing;
        if (a < 0 || b < 0 || in[k].shape[a] == 1 || in[k].shape[b] == 1)
            continue;
        const int64_t own = llabs(in[k].strides[a]), others = llabs(in[k].strides[b]);
        if (!is_joined && (own == 0 || others == 0))
            continue;
        if (is_joined ? own <= others : own >= others)
            goes = 0;
        else if (goes < 0)
            goes = 1;
    }
    return goes;
}

void output_strides(const mylib_array *in, int inputs, int is_joined, int ndim,
                    const int64_t *shape, mylib_type type, int64_t *strides)
{
    /* NumPy sorts by insertion: its iterator from the fastest axis on, a join from the slowest. */
    int axes[MYLIB_MAX_NDIM], slowest_first[MYLIB_MAX_NDIM];
    for (int i = 0; i < ndim; i++) {
        int position = i, axis = is_joined ? i : ndim - 1 - i, goes = -1;
        for (int j = i - 1; j >= 0 && goes != 0; j--)
            if ((goes = goes_before(in, inputs, is_joined, ndim, axis, axes[j])) > 0)
                position = j;
        memmove(axes + position + 1, axes + position, (size_t)(i - position) * sizeof *axes);
        axes[position] = axis;
    }
    for (int i = 0; i < ndim; i++)
        slowest_first[i] = axes[is_joined ? i : ndim - 1 - i];
    find_strides(ndim, shape, slowest_first, type_sizes[type], strides);
}

/* Finds the memory [begin, end) that an array may touch. */
static void find_extent(const mylib_array *a, const char **begin, const char **end)
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
    *end = high + type_sizes[a->type];
}

int may_share_memory(const mylib_array *a, const mylib_array *b)
{
    const char *a_begin, *a_end, *b_begin, *b_end;
    if (a->device.kind != b->device.kind || a->device.index != b->device.index)
        return 0;
    find_extent(a, &a_begin, &a_end);
    find_extent(b, &b_begin, &b_end);
    return a_begin < b_end && b_begin < a_end;
}

static int is_same_layout(const mylib_array *a, const mylib_array *b)
{
    const size_t nbytes = (size_t)a->ndim * sizeof *a->shape;
    return a->data == b->data && a->type == b->type && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, nbytes) == 0 && memcmp(a->strides, b->strides, nbytes) == 0;
}

int needs_copy(const call *c)
{
    const mylib_array *out = &c->arrays[0];
    for (const mylib_array *in = out + 1; in <= out + c->inputs; in++)
        if (may_share_memory(out, in) && !is_same_layout(out, in))
            return 1;
    return 0;
}

int overlaps_itself(const mylib_array *a)
{
    int overlaps, d = a->ndim - 1;
    uint64_t stride = type_sizes[a->type];
    /* Skip the library for the usual C order: small calls would notice the time. */
    for (; d >= 0 && (uint64_t)a->strides[d] == stride; d--)
        stride *= (uint64_t)a->shape[d];
    if (d < 0)
        return 0;
    /* The call itself reports strides that the library refuses. */
    return mylib_overlaps_itself(a, &overlaps) != MYLIB_OK || overlaps;
}
