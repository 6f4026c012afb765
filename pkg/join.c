/*
 * join.c - concatenate() and stack(): joins Arrays of one GPU, or plain NumPy arrays.
 */
#include "join.h"

#include <string.h>

#include "operands.h"

/* Gives an array a new axis of size 1.  Returns the end of the used `dims`. */
static int64_t *add_axis(mylib_array *a, int axis, int64_t *dims)
{
    const int ndim = 1 + a->ndim;
    for (int d = 0; d < ndim; d++) {
        dims[d] = d == axis ? 1 : a->shape[d - (d > axis)];
        dims[ndim + d] = d == axis ? 0 : a->strides[d - (d > axis)];
    }
    a->ndim = ndim;
    a->shape = dims;
    a->strides = dims + ndim;
    return dims + 2 * ndim;
}

/* ---- Arrays of a GPU ---- */

/* Copies Arrays of one GPU to a new one of this shape, beside each other along an axis. */
static PyObject *new_joined(core_state *state, PyObject *arrays, int axis, int is_stack,
                            mylib_type type, int ndim, const int64_t *shape)
{
    const Py_ssize_t count = PyTuple_GET_SIZE(arrays);
    int64_t strides[MYLIB_MAX_NDIM], *dims;
    mylib_array *parts = PyMem_Malloc((size_t)count * (sizeof *parts + 2 * (size_t)ndim * 8));
    PyObject *stream = NULL, *result = NULL;
    mylib_status status;
    if (parts == NULL)
        return PyErr_NoMemory();
    dims = (int64_t *)(parts + count);
    for (Py_ssize_t i = 0; i < count; i++) {
        parts[i] = ((array_object *)PyTuple_GET_ITEM(arrays, i))->a;
        if (is_stack)
            dims = add_axis(&parts[i], axis, dims);
    }
    output_strides(parts, (int)count, 1, ndim, shape, type, strides);
    int failed = current_stream(state, parts[0].device, &stream) < 0;
    for (Py_ssize_t i = 0; i < count && !failed; i++)
        failed = note_use(((array_object *)PyTuple_GET_ITEM(arrays, i))->memory, stream) < 0;
    if (!failed)
        result = new_array(state, parts[0].device, stream, type, ndim, shape, strides);
    if (result != NULL) {
        WITHOUT_GIL(status = mylib_copy_arrays(stream_handle(stream), &((array_object *)result)->a,
                                               axis, (int)count, parts));
        if (check_status(state, status) < 0)
            Py_CLEAR(result);
    }
    Py_XDECREF(stream);
    PyMem_Free(parts);
    return result;
}

/* Joins Arrays of one GPU along an axis; declines others, and mixed types without `dtype`. */
static outcome join_arrays(core_state *state, PyObject *arrays, long axis, int is_stack,
                           PyObject *dtype, PyObject **result_ret)
{
    const Py_ssize_t count = PyTuple_GET_SIZE(arrays);
    int64_t shape[MYLIB_MAX_NDIM], size = is_stack ? count : 0;
    if (count == 0 || !is_array(state, PyTuple_GET_ITEM(arrays, 0)))
        return OTHER_OPERAND;
    const mylib_array *first = &((array_object *)PyTuple_GET_ITEM(arrays, 0))->a;
    mylib_type type = first->type;
    const int ndim = first->ndim + is_stack;
    axis += axis < 0 ? ndim : 0;
    if (ndim > MYLIB_MAX_NDIM || axis < 0 || axis >= ndim)
        return OTHER_SHAPE;
    if (dtype != Py_None && take_dtype(dtype, &type) < 0)
        return FAILED;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *x = PyTuple_GET_ITEM(arrays, i);
        const mylib_array *a = is_array(state, x) ? &((array_object *)x)->a : NULL;
        if (a == NULL || a->device.index != first->device.index)
            return OTHER_PLACE;
        if (dtype == Py_None && a->type != type)
            return OTHER_TYPE;
        int agrees = a->ndim == first->ndim;
        for (int d = 0; d < first->ndim && agrees; d++)
            agrees = (d == axis && !is_stack) || a->shape[d] == first->shape[d];
        if (!agrees)
            return OTHER_SHAPE;
        if (!is_stack && __builtin_add_overflow(size, a->shape[axis], &size)) {
            PyErr_Format(PyExc_ValueError,
                         "the joined array would have 2^63 elements or more along axis %ld", axis);
            return FAILED;
        }
    }
    for (int d = 0; d < ndim; d++)
        shape[d] = d == axis ? size : first->shape[d - (is_stack && d > axis)];
    *result_ret = new_joined(state, arrays, (int)axis, is_stack, type, ndim, shape);
    return *result_ret != NULL ? DONE : FAILED;
}

/* ---- Host arrays ---- */

/* Returns whether all are plain NumPy arrays of one type: NumPy joins them without a conversion. */
static int are_plain(PyObject *arrays)
{
    const Py_ssize_t count = PyTuple_GET_SIZE(arrays);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyArrayObject *x = (PyArrayObject *)PyTuple_GET_ITEM(arrays, i);
        if (!PyArray_CheckExact(x) ||
            PyArray_DESCR(x) != PyArray_DESCR((PyArrayObject *)PyTuple_GET_ITEM(arrays, 0)))
            return 0;
    }
    return count > 0;
}

static PyObject *view_with_axis(PyArrayObject *x, int axis)
{
    int64_t dims[DIMS_OF(2)];
    mylib_array a;
    add_axis(&a, axis, describe_array(x, MYLIB_BOOL, &a, dims));
    PyArray_Descr *descr = PyArray_DESCR(x);
    Py_INCREF(descr);
    return PyArray_NewFromDescr(&PyArray_Type, descr, a.ndim, (const npy_intp *)a.shape,
                                (const npy_intp *)a.strides, a.data, 0, NULL);
}

/* Joins plain NumPy arrays of one type; stack() declines different shapes. */
static outcome join_plain(PyObject *arrays, long axis, int is_stack, PyObject **result_ret)
{
    PyObject *views = Py_NewRef(arrays);
    if (is_stack) {
        PyArrayObject *first = (PyArrayObject *)PyTuple_GET_ITEM(arrays, 0);
        const Py_ssize_t count = PyTuple_GET_SIZE(arrays);
        const int ndim = 1 + PyArray_NDIM(first);
        axis += axis < 0 ? ndim : 0;
        int agrees = axis >= 0 && axis < ndim && ndim <= NPY_MAXDIMS;
        for (Py_ssize_t i = 1; i < count && agrees; i++)
            agrees = PyArray_SAMESHAPE((PyArrayObject *)PyTuple_GET_ITEM(arrays, i), first);
        Py_DECREF(views);
        if (!agrees)
            return OTHER_SHAPE;
        views = PyTuple_New(count);
        for (Py_ssize_t i = 0; i < count && views != NULL; i++) {
            PyObject *view =
                view_with_axis((PyArrayObject *)PyTuple_GET_ITEM(arrays, i), (int)axis);
            if (view != NULL)
                PyTuple_SET_ITEM(views, i, view);
            else
                Py_CLEAR(views);
        }
    }
    *result_ret = views != NULL ? PyArray_Concatenate(views, (int)axis) : NULL;
    Py_XDECREF(views);
    return *result_ret != NULL ? DONE : FAILED;
}

/* ---- Functions ---- */

/* Returns a tuple of Arrays of one GPU joined along an axis, perhaps a new one, in a type. */
static PyObject *join_arrays_function(PyObject *module, PyObject *args)
{
    PyObject *arrays, *dtype, *result = NULL;
    long axis;
    int is_stack;
    if (!PyArg_ParseTuple(args, "O!lpO:join_arrays", &PyTuple_Type, &arrays, &axis, &is_stack,
                          &dtype))
        return NULL;
    core_state *state = PyModule_GetState(module);
    if (join_arrays(state, arrays, axis, is_stack, dtype, &result) > DONE)
        PyErr_SetString(PyExc_ValueError, "the result would have more than 64 dimensions");
    return result;
}

/* Joins a tuple or a list of arrays along an int axis, without options. */
static outcome join_new(core_state *state, PyObject *const *args, PyObject **result_ret)
{
    int is_large, is_stack = args[2] == Py_True;
    if (!(PyTuple_CheckExact(args[0]) || PyList_CheckExact(args[0])) ||
        !PyLong_CheckExact(args[1]) || args[3] != Py_None || !is_text(args[4], "same_kind"))
        return OTHER_OPERAND;
    const long axis = PyLong_AsLongAndOverflow(args[1], &is_large);
    if (is_large || axis < -MYLIB_MAX_NDIM || axis >= MYLIB_MAX_NDIM)
        return OTHER_SHAPE;
    PyObject *arrays = PySequence_Tuple(args[0]); /* no other thread changes it */
    if (arrays == NULL)
        return FAILED;
    outcome done = are_plain(arrays)
                       ? join_plain(arrays, axis, is_stack, result_ret)
                       : join_arrays(state, arrays, axis, is_stack, Py_None, result_ret);
    Py_DECREF(arrays);
    return done;
}

/* Computes concatenate() and stack(); pkg._manipulation.join_slowly() is their slow path. */
static PyObject *join_function(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    return call_fast(module, "join", args, count, 5, join_new);
}

PyMethodDef join_functions[] = {
    {"join_arrays", join_arrays_function, METH_VARARGS, NULL},
    {"join", FASTCALL(join_function), METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};
