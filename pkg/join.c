/*
 * join.c - concatenate() and stack(): joins Arrays of one GPU, or plain NumPy arrays.
 */
#include "join.h"

#include <stdlib.h>
#include <string.h>

#include "operands.h"

/* ---- Arrays of a GPU ----------------------------------------------------------------------- */

/* Arrays to be joined along an axis, which stack() adds. */
typedef struct join {
    core_state *state;
    PyObject *arrays; /* a tuple of Arrays */
    int axis, is_stack;
    int ndim; /* of the result */
} join;

/* Copies the Arrays to a result. */
static int copy_parts(const join *j, PyObject *result, PyObject *stream)
{
    const Py_ssize_t count = PyTuple_GET_SIZE(j->arrays);
    mylib_array *parts = PyMem_Malloc((size_t)count * (sizeof *parts + 2 * (size_t)j->ndim * 8));
    int64_t *dims = (int64_t *)(parts + count);
    mylib_status status;
    int failed = parts == NULL;
    for (Py_ssize_t i = 0; i < count && !failed; i++) {
        const array_object *x = (const array_object *)PyTuple_GET_ITEM(j->arrays, i);
        parts[i] = x->a;
        failed = note_use(x->memory, stream) < 0;
        if (!j->is_stack)
            continue;
        parts[i].ndim = j->ndim;
        parts[i].shape = dims;
        parts[i].strides = dims + j->ndim;
        for (int d = 0; d < j->ndim; d++, dims++) {
            const int own = d - (d > j->axis);
            dims[0] = d == j->axis ? 1 : x->a.shape[own];
            dims[j->ndim] = d == j->axis ? 0 : x->a.strides[own];
        }
        dims += j->ndim;
    }
    if (!failed) {
        WITHOUT_GIL(status = mylib_copy_arrays(stream_handle(stream), &((array_object *)result)->a,
                                               j->axis, (int)count, parts));
        failed = check_status(j->state, status) < 0;
    } else if (parts == NULL) {
        PyErr_NoMemory();
    }
    PyMem_Free(parts);
    return failed ? -1 : 0;
}

/*
 * Finds the strides that NumPy gives joined Arrays: axes sorted by the strides of all, in C order
 * where these disagree.  Unlike output_strides(), it begins with the slowest axis.
 */
static void joined_strides(const join *j, const int64_t *shape, mylib_type type, int64_t *strides)
{
    int axes[MYLIB_MAX_NDIM]; /* from the slowest to the fastest */
    for (int axis = 0; axis < j->ndim; axis++) {
        int position = axis;
        for (int k = axis - 1; k >= 0; k--) {
            int other = axes[k], is_decided = 0, moves = 0;
            if (j->is_stack && (axis == j->axis || other == j->axis))
                continue;
            const int own = axis - (j->is_stack && axis > j->axis);
            const int others = other - (j->is_stack && other > j->axis);
            for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(j->arrays); i++) {
                const mylib_array *a = &((array_object *)PyTuple_GET_ITEM(j->arrays, i))->a;
                if (a->shape[own] == 1 || a->shape[others] == 1)
                    continue;
                if (llabs(a->strides[own]) <= llabs(a->strides[others]))
                    moves = 0;
                else if (!is_decided)
                    moves = 1;
                is_decided = 1;
            }
            if (is_decided && !moves)
                break;
            if (is_decided)
                position = k;
        }
        memmove(axes + position + 1, axes + position, (size_t)(axis - position) * sizeof *axes);
        axes[position] = axis;
    }
    find_strides(j->ndim, shape, axes, type_sizes[type], strides);
}

/* Joins Arrays of one GPU along an axis; declines others, and mixed types without `dtype`. */
static outcome join_arrays(core_state *state, PyObject *arrays, long axis, int is_stack,
                           PyObject *dtype, PyObject **result_ret)
{
    const Py_ssize_t count = PyTuple_GET_SIZE(arrays);
    int64_t shape[MYLIB_MAX_NDIM], strides[MYLIB_MAX_NDIM], size = is_stack ? count : 0;
    PyObject *stream;
    if (count == 0 || !is_array(state, PyTuple_GET_ITEM(arrays, 0)))
        return OTHER_OPERAND;
    const mylib_array *first = &((array_object *)PyTuple_GET_ITEM(arrays, 0))->a;
    mylib_type type = first->type;
    join j = {state, arrays, 0, is_stack, first->ndim + is_stack};
    axis += axis < 0 ? j.ndim : 0;
    if (j.ndim > MYLIB_MAX_NDIM || axis < 0 || axis >= j.ndim)
        return OTHER_SHAPE;
    j.axis = (int)axis;
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
    for (int d = 0; d < j.ndim; d++)
        shape[d] = d == axis ? size : first->shape[d - (is_stack && d > axis)];
    joined_strides(&j, shape, type, strides);
    if (current_stream(state, first->device, &stream) < 0)
        return FAILED;
    PyObject *result = new_array(state, first->device, stream, type, j.ndim, shape, strides);
    if (result != NULL && copy_parts(&j, result, stream) < 0)
        Py_CLEAR(result);
    Py_XDECREF(stream);
    *result_ret = result;
    return result != NULL ? DONE : FAILED;
}

/* ---- Host arrays --------------------------------------------------------------------------- */

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

/* Returns a view of a NumPy array, which must outlive it, with a new axis of size 1. */
static PyObject *add_axis(PyArrayObject *x, int axis)
{
    npy_intp shape[NPY_MAXDIMS], strides[NPY_MAXDIMS];
    const int ndim = 1 + PyArray_NDIM(x);
    for (int d = 0; d < ndim; d++) {
        shape[d] = d == axis ? 1 : PyArray_DIM(x, d - (d > axis));
        strides[d] = d == axis ? 0 : PyArray_STRIDE(x, d - (d > axis));
    }
    PyArray_Descr *descr = PyArray_DESCR(x);
    Py_INCREF(descr);
    return PyArray_NewFromDescr(&PyArray_Type, descr, ndim, shape, strides, PyArray_DATA(x), 0,
                                NULL);
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
            PyObject *view = add_axis((PyArrayObject *)PyTuple_GET_ITEM(arrays, i), (int)axis);
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

/* ---- Functions ----------------------------------------------------------------------------- */

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
        PyErr_SetString(PyExc_ValueError, "join_arrays() takes Arrays that fit together");
    return result;
}

/* Computes concatenate() and stack(); pkg._manipulation.join_slowly() is their slow path. */
static PyObject *join_function(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    core_state *state = PyModule_GetState(module);
    PyObject *result = NULL;
    if (check_count("join", count, 5) < 0)
        return NULL;
    PyObject *arrays = args[0];
    const int is_stack = args[2] == Py_True;
    if ((PyTuple_CheckExact(arrays) || PyList_CheckExact(arrays)) && PyLong_CheckExact(args[1]) &&
        args[3] == Py_None && PyUnicode_Check(args[4]) &&
        PyUnicode_CompareWithASCIIString(args[4], "same_kind") == 0) {
        outcome done;
        int is_large;
        const long axis = PyLong_AsLongAndOverflow(args[1], &is_large);
        PyObject *tuple = PySequence_Tuple(arrays); /* no other thread changes it */
        if (tuple == NULL)
            return NULL;
        if (is_large || axis < -MYLIB_MAX_NDIM || axis >= MYLIB_MAX_NDIM) {
            done = OTHER_SHAPE;
        } else if (are_plain(tuple)) {
            done = join_plain(tuple, axis, is_stack, &result);
        } else {
            done = join_arrays(state, tuple, axis, is_stack, Py_None, &result);
        }
        Py_DECREF(tuple);
        if (done <= DONE)
            return result;
    }
    return call_slow(state, "join", "(OOOOO)", args[0], args[1], args[2], args[3], args[4]);
}

PyMethodDef join_functions[] = {
    {"join_arrays", join_arrays_function, METH_VARARGS, NULL},
    {"join", FASTCALL(join_function), METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};
