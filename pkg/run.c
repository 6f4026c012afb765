/*
 * run.c - runs operations, selections and copies over arrays.
 */
#include "run.h"

#include <string.h>

#define MAX_INPUTS 2

/* ---- Element-wise operations --------------------------------------------------------------- */

PyObject *map_arrays(core_state *state, mylib_op op, int is_true_division, PyObject *const *args,
                     PyObject *out)
{
    operand operands[MAX_INPUTS];
    mylib_array in[MAX_INPUTS];
    int64_t shape[MYLIB_MAX_NDIM], strides[MYLIB_MAX_NDIM];
    int nin = mylib_op_arity(op) == 2 ? 2 : 1, ndim, has_type = 0, weak = -1;
    mylib_type type = MYLIB_BOOL, result_type;
    mylib_device device;
    PyObject *stream = NULL, *result = NULL;

    for (int k = 0; k < nin; k++) {
        operand *o = &operands[k];
        if (!take_operand(state, args[k], o))
            return NULL;
        if (o->is_weak)
            weak = (int)o->number > weak ? (int)o->number : weak;
        else if (!has_type)
            type = o->a.type;
        else if (!promote(type, o->a.type, &type))
            return NULL;
        has_type |= !o->is_weak;
    }
    if (weak >= 0)
        type = promote_weak(type, (kind)weak);
    if (type == MYLIB_BOOL)
        type = MYLIB_I8;
    if (is_true_division && kind_of_type(type) == KIND_INT)
        type = MYLIB_F64;
    mylib_status status = mylib_op_result_type(op, type, &result_type);
    if (status != MYLIB_OK && kind_of_type(type) == KIND_INT) {
        /* As NumPy does for integers, with the smallest type that holds them. */
        type = type == MYLIB_I8 || type == MYLIB_U8     ? MYLIB_F16
               : type == MYLIB_I16 || type == MYLIB_U16 ? MYLIB_F32
                                                        : MYLIB_F64;
        status = mylib_op_result_type(op, type, &result_type);
    }
    if (status != MYLIB_OK)
        return raise_status(state, status);
    /* Two integers have no common integer type: a signed one and a u64, compared as they are. */
    int is_mixed = result_type == MYLIB_BOOL && type == MYLIB_F64 && weak < 0 &&
                   kind_of_type(operands[0].a.type) == KIND_INT &&
                   kind_of_type(operands[1].a.type) == KIND_INT;
    for (int k = 0; k < nin; k++) {
        if (operands[k].is_weak && take_value(state, &operands[k], type) < 0) {
            /* The general path knows what such a comparison gives. */
            if (result_type == MYLIB_BOOL && PyErr_ExceptionMatches(state->out_of_range))
                PyErr_Clear();
            return NULL;
        }
        in[k] = operands[k].a;
    }
    if (!common_device(operands, nin, &device) || !broadcast(in, nin, &ndim, shape))
        return NULL;

    if (current_stream(state, device, &stream) < 0)
        return NULL;
    if (out == NULL) {
        output_strides(in, nin, ndim, shape, result_type, strides);
        result = new_array(state, device, stream, result_type, ndim, shape, strides);
        if (result == NULL)
            goto out;
    } else {
        array_object *given = (array_object *)out;
        if (!is_array(state, out) || given->a.type != result_type || given->is_readonly ||
            given->a.device.index != device.index || given->a.ndim != ndim ||
            memcmp(given->a.shape, shape, (size_t)ndim * sizeof *shape) != 0 ||
            overlaps_itself(&given->a))
            goto out;
        for (int k = 0; k < nin && given->count > 0; k++)
            if (operands[k].memory != NULL && needs_copy(&given->a, &in[k]))
                goto out;
        result = Py_NewRef(out);
        if (note_use(given->memory, stream) < 0) {
            Py_CLEAR(result);
            goto out;
        }
    }
    for (int k = 0; k < nin; k++) {
        if (operands[k].memory != NULL && note_use(operands[k].memory, stream) < 0) {
            Py_CLEAR(result);
            goto out;
        }
    }
    Py_BEGIN_ALLOW_THREADS
        const mylib_array *target = &((array_object *)result)->a;
        void *handle = stream_handle(stream);
        status = is_mixed ? mylib_map(op, device, handle, target, in)
                          : mylib_map_as(op, type, device, handle, target, in);
    Py_END_ALLOW_THREADS
    if (status != MYLIB_OK) {
        Py_CLEAR(result);
        raise_status(state, status);
    }
out:
    Py_XDECREF(stream);
    return result;
}

PyDoc_STRVAR(map_arrays_doc,
             "map_arrays(op, is_true_division, inputs, out, /)\n--\n\n"
             "op(*inputs) for Arrays of one GPU and numbers; TypeError for anything else.");
static PyObject *map_arrays_function(PyObject *module, PyObject *args)
{
    core_state *state = PyModule_GetState(module);
    int op, is_true_division;
    PyObject *inputs, *out;
    if (!PyArg_ParseTuple(args, "ipO!O:map_arrays", &op, &is_true_division, &PyTuple_Type, &inputs,
                          &out))
        return NULL;
    if (mylib_op_name((mylib_op)op) == NULL ||
        PyTuple_GET_SIZE(inputs) != mylib_op_arity((mylib_op)op)) {
        PyErr_SetString(PyExc_ValueError, "map_arrays(): no such operation, or not its inputs");
        return NULL;
    }
    PyObject *result = map_arrays(state, (mylib_op)op, is_true_division,
                                  &PyTuple_GET_ITEM(inputs, 0), out != Py_None ? out : NULL);
    if (result == NULL && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError,
                        "operands of these types and places cannot be computed together");
    return result;
}

/* ---- Functions over given arrays ------------------------------------------------------------- */

static int check_writable(core_state *state, PyObject *x)
{
    int is_readonly = is_array(state, x) ? ((array_object *)x)->is_readonly
                                         : !PyArray_ISWRITEABLE((PyArrayObject *)x);
    if (is_readonly)
        PyErr_SetString(PyExc_ValueError, "the output array is read-only");
    return is_readonly ? -1 : 0;
}

int begin_call(core_state *state, PyObject *args, Py_ssize_t first, call *c)
{
    Py_ssize_t count = PyTuple_GET_SIZE(args) - first;
    PyObject *memories[1 + MAX_GIVEN];
    int64_t *free_dims = c->dims;
    c->device = (mylib_device){MYLIB_CPU, 0};
    c->stream = NULL;
    if (count < 1 || count > 1 + MAX_GIVEN) {
        PyErr_SetString(PyExc_TypeError, "the number of arrays is wrong");
        return -1;
    }
    for (Py_ssize_t k = 0; k < count; k++) {
        if (!take_any_array(state, PyTuple_GET_ITEM(args, first + k), &c->arrays[k], &free_dims,
                            &memories[k]))
            return -1;
        if (memories[k] != NULL && c->device.kind == MYLIB_CPU)
            c->device = c->arrays[k].device;
    }
    if (check_writable(state, PyTuple_GET_ITEM(args, first)) < 0)
        return -1;
    if (c->device.kind == MYLIB_CUDA && current_stream(state, c->device, &c->stream) < 0)
        return -1;
    for (Py_ssize_t k = 0; k < count; k++) {
        if (memories[k] != NULL && note_use(memories[k], c->stream) < 0) {
            Py_CLEAR(c->stream);
            return -1;
        }
    }
    return 0;
}

PyObject *end_call(core_state *state, mylib_status status, call *c)
{
    Py_CLEAR(c->stream);
    return status == MYLIB_OK ? Py_NewRef(Py_None) : raise_status(state, status);
}

PyDoc_STRVAR(copy_doc, "copy(dst, src, /)\n--\n\n"
                       "dst[...] = src, converted; each an Array or a NumPy array.");
static PyObject *copy_function(PyObject *module, PyObject *args)
{
    core_state *state = PyModule_GetState(module);
    call c;
    mylib_status status;
    if (PyTuple_GET_SIZE(args) != 2) {
        PyErr_SetString(PyExc_TypeError, "copy() takes two arrays");
        return NULL;
    }
    if (begin_call(state, args, 0, &c) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
        status = mylib_copy_array(stream_handle(c.stream), &c.arrays[0], &c.arrays[1]);
    Py_END_ALLOW_THREADS
    return end_call(state, status, &c);
}

PyDoc_STRVAR(select_doc, "select(out, condition, a, b, /)\n--\n\n"
                         "out[...] = where(condition, a, b); Arrays, and NumPy arrays without "
                         "dimensions among the inputs.");
static PyObject *select_function(PyObject *module, PyObject *args)
{
    core_state *state = PyModule_GetState(module);
    call c;
    mylib_status status;
    if (PyTuple_GET_SIZE(args) != 4) {
        PyErr_SetString(PyExc_TypeError, "select() takes four arrays");
        return NULL;
    }
    if (begin_call(state, args, 0, &c) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
        status = mylib_select(c.device, stream_handle(c.stream), &c.arrays[0], &c.arrays[1],
                              &c.arrays[2], &c.arrays[3]);
    Py_END_ALLOW_THREADS
    return end_call(state, status, &c);
}

PyDoc_STRVAR(arange_doc, "arange(out, start, step, /)\n--\n\n"
                         "out[i] = start + i * step; start and step are NumPy arrays without "
                         "dimensions, of out's type.");
static PyObject *arange_function(PyObject *module, PyObject *args)
{
    core_state *state = PyModule_GetState(module);
    call c;
    mylib_status status;
    if (PyTuple_GET_SIZE(args) != 3) {
        PyErr_SetString(PyExc_TypeError, "arange() takes three arrays");
        return NULL;
    }
    if (begin_call(state, args, 0, &c) < 0)
        return NULL;
    for (int k = 1; k < 3; k++) {
        if (c.arrays[k].type != c.arrays[0].type || c.arrays[k].device.kind != MYLIB_CPU) {
            Py_CLEAR(c.stream);
            PyErr_SetString(PyExc_TypeError, "arange(): start and step must be of out's type");
            return NULL;
        }
    }
    Py_BEGIN_ALLOW_THREADS
        status =
            mylib_arange(stream_handle(c.stream), &c.arrays[0], c.arrays[1].data, c.arrays[2].data);
    Py_END_ALLOW_THREADS
    return end_call(state, status, &c);
}

PyDoc_STRVAR(map_doc, "map(op, ordinal, out, /, *inputs)\n--\n\n"
                      "out[...] = op(*inputs) on cuda:`ordinal`, or on the CPU when it is -1.  All "
                      "are NumPy arrays in "
                      "native byte order, of the operation's types, and broadcast to `out`.");
static PyObject *map_function(PyObject *module, PyObject *args)
{
    core_state *state = PyModule_GetState(module);
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    mylib_array arrays[3];
    int64_t dims[DIMS_OF(3)], *free_dims = dims;

    if (count < 4 || count > 5) {
        PyErr_SetString(PyExc_TypeError,
                        "map() takes an operation, an ordinal, out, and one or two inputs");
        return NULL;
    }
    long op = PyLong_AsLong(PyTuple_GET_ITEM(args, 0)),
         ordinal = PyLong_AsLong(PyTuple_GET_ITEM(args, 1));
    if ((op == -1 || ordinal == -1) && PyErr_Occurred())
        return NULL;
    if (op < 0 || op >= MYLIB_OP_COUNT || ordinal < -1 || ordinal > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "there is no operation %ld, or no device %ld", op, ordinal);
        return NULL;
    }
    if (count - 3 != mylib_op_arity((mylib_op)op)) {
        PyErr_SetString(PyExc_TypeError, "map(): the number of inputs is not the operation's");
        return NULL;
    }
    for (Py_ssize_t k = 2; k < count; k++) {
        PyObject *object = PyTuple_GET_ITEM(args, k);
        mylib_type type;
        if (!PyArray_Check(object) || !PyArray_ISNOTSWAPPED((PyArrayObject *)object) ||
            !type_of_num(PyArray_TYPE((PyArrayObject *)object), &type)) {
            PyErr_SetString(PyExc_TypeError, "map() takes NumPy arrays of supported types");
            return NULL;
        }
        free_dims = describe_array((PyArrayObject *)object, type, &arrays[k - 2], free_dims);
    }
    if (!PyArray_ISWRITEABLE((PyArrayObject *)PyTuple_GET_ITEM(args, 2))) {
        PyErr_SetString(PyExc_ValueError, "map(): out is read-only");
        return NULL;
    }
    mylib_device device = device_of_ordinal((int)ordinal);
    mylib_status status;
    int flags;
    Py_BEGIN_ALLOW_THREADS
        mylib_clear_flags();
        status = mylib_map((mylib_op)op, device, NULL, &arrays[0], &arrays[1]);
        flags = test_flags();
    Py_END_ALLOW_THREADS
    if (status != MYLIB_OK)
        return raise_status(state, status);
    return PyLong_FromLong(flags);
}

PyDoc_STRVAR(
    astype_new_doc,
    "astype_new(array, dtype, /)\n--\n\n"
    "A plain NumPy array converted by NumPy, in the default floating-point mode; NotImplemented "
    "for "
    "other arrays and types, and where NumPy's conversion is not the library's, or warns.");
static PyObject *astype_new_function(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    PyArray_Descr *descr;
    PyObject *result = NULL;
    mylib_type from, to;
    (void)module;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "astype_new() takes two arguments");
        return NULL;
    }
    if (!PyArray_CheckExact(args[0]))
        Py_RETURN_NOTIMPLEMENTED;
    if (PyArray_DescrConverter(args[1], &descr) != NPY_SUCCEED)
        return NULL;
    PyArrayObject *array = (PyArrayObject *)args[0];
    if (!type_of_num(PyArray_TYPE(array), &from) || !type_of_num(descr->type_num, &to) ||
        (from != MYLIB_BOOL &&
         ((from >= MYLIB_F16 && to < MYLIB_F16) || (from >= MYLIB_C64 && to < MYLIB_C64)))) {
        Py_DECREF(descr);
        Py_RETURN_NOTIMPLEMENTED;
    }
    const mylib_mode mode = mylib_enter_mode();
    result = PyArray_NewLikeArray(array, NPY_KEEPORDER, descr, 0);
    if (result != NULL && PyArray_CopyInto((PyArrayObject *)result, array) < 0)
        Py_CLEAR(result);
    mylib_leave_mode(mode);
    return result;
}

PyMethodDef run_functions[] = {
    {"map_arrays", map_arrays_function, METH_VARARGS, map_arrays_doc},
    {"map", map_function, METH_VARARGS, map_doc},
    {"copy", copy_function, METH_VARARGS, copy_doc},
    {"select", select_function, METH_VARARGS, select_doc},
    {"arange", arange_function, METH_VARARGS, arange_doc},
    {"astype_new", FASTCALL(astype_new_function), METH_FASTCALL, astype_new_doc},
    {NULL, NULL, 0, NULL},
};
