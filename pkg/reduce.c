/*
 * reduce.c - reductions of arrays: sums, products, minima, maxima, dot products, traces.
 */
#include "reduce.h"

/* ---- Into a given array ---------------------------------------------------------------------- */

/* reduce() and dot(): dtype, ordinal, out and the inputs are the arguments from `first` on. */
static PyObject *reduce_call(PyObject *module, PyObject *args, Py_ssize_t first, const char *name)
{
    core_state *state = PyModule_GetState(module);
    call c;
    mylib_type type;
    mylib_status status;
    int flags, is_dot = first == 0;
    if (PyTuple_GET_SIZE(args) != 5) {
        PyErr_Format(PyExc_TypeError, "%s() takes five arguments", name);
        return NULL;
    }
    long reduction = is_dot ? 0 : PyLong_AsLong(PyTuple_GET_ITEM(args, 0));
    long ordinal = PyLong_AsLong(PyTuple_GET_ITEM(args, first + 1));
    if (((reduction == -1 || ordinal == -1) && PyErr_Occurred()) ||
        !take_dtype(PyTuple_GET_ITEM(args, first), &type))
        return NULL;
    if (begin_call(state, args, first + 2, &c) < 0)
        return NULL;
    mylib_device device = c.device;
    if (device.kind == MYLIB_CPU && ordinal >= 0)
        device = (mylib_device){MYLIB_CUDA, (int32_t)ordinal};
    Py_BEGIN_ALLOW_THREADS
        mylib_clear_flags();
        status = is_dot ? mylib_dot(type, device, stream_handle(c.stream), &c.arrays[0],
                                    &c.arrays[1], &c.arrays[2])
                        : mylib_reduce((mylib_reduction)reduction, type, device,
                                       stream_handle(c.stream), &c.arrays[0], &c.arrays[1]);
        flags = test_flags();
    Py_END_ALLOW_THREADS
    PyObject *done = end_call(state, status, &c);
    Py_XDECREF(done);
    return done != NULL ? PyLong_FromLong(flags) : NULL;
}

PyDoc_STRVAR(
    reduce_doc,
    "reduce(reduction, dtype, ordinal, out, array, /)\n--\n\n"
    "Reduces (0 sum, 1 prod, 2 min, 3 max) `array`, converted to `dtype`, into `out`, which "
    "has the size 1 where it is reduced, or no dimensions; both Arrays, or both NumPy arrays and "
    "computed on "
    "cuda:`ordinal`, or on the CPU when it is -1.  The floating-point flags.");
static PyObject *reduce_function(PyObject *module, PyObject *args)
{
    return reduce_call(module, args, 1, "reduce");
}

PyDoc_STRVAR(dot_doc, "dot(dtype, ordinal, out, a, b, /)\n--\n\n"
                      "The sum of a * b into `out`, an array without dimensions; as reduce().");
static PyObject *dot_function(PyObject *module, PyObject *args)
{
    return reduce_call(module, args, 0, "dot");
}

/* ---- To a new array -------------------------------------------------------------------------- */

/* What is reduced: one array as `type`, or the products of two. */
typedef struct reduced {
    mylib_array in[2];
    PyObject *memories[2]; /* of Arrays; NULL for NumPy arrays */
    int64_t dims[DIMS_OF(2)], *free_dims;
    int inputs;
    mylib_reduction reduction;
    mylib_type type;
} reduced;

/*
 * Takes an Array, or a plain NumPy array that is to be computed on the CPU, as the next input.  0:
 * anything else, or with an exception a failure.
 */
static int take_reduced(core_state *state, PyObject *x, reduced *r)
{
    int k = r->inputs++;
    mylib_type type;
    r->memories[k] = NULL;
    if (is_array(state, x)) {
        r->in[k] = ((array_object *)x)->a;
        r->memories[k] = ((array_object *)x)->memory;
        return 1;
    }
    if (!PyArray_CheckExact(x) || !PyArray_ISNOTSWAPPED((PyArrayObject *)x) ||
        !type_of_num(PyArray_TYPE((PyArrayObject *)x), &type) ||
        num_of_type(type) != PyArray_TYPE((PyArrayObject *)x) || default_is_cpu(state) != 1)
        return 0;
    r->free_dims = describe_array((PyArrayObject *)x, type, &r->in[k],
                                  r->free_dims != NULL ? r->free_dims : r->dims);
    return 1;
}

static mylib_status run_reduced(const reduced *r, void *stream, const mylib_array *out)
{
    mylib_device device = r->in[0].device;
    return r->inputs == 2 ? mylib_dot(r->type, device, stream, out, &r->in[0], &r->in[1])
                          : mylib_reduce(r->reduction, r->type, device, stream, out, r->in);
}

/* Reports flags under the name of the operation that the reduction repeats. */
static int report_reduced(PyObject *module, mylib_reduction reduction, int flags)
{
    static const mylib_op repeated[] = {[MYLIB_SUM] = MYLIB_OP_add,
                                        [MYLIB_PROD] = MYLIB_OP_multiply,
                                        [MYLIB_MIN] = MYLIB_OP_minimum,
                                        [MYLIB_MAX] = MYLIB_OP_maximum};
    PyObject *operations = PyObject_GetAttrString(module, "operations"), *done = NULL;
    if (operations != NULL)
        done = PyObject_CallMethod(PyTuple_GET_ITEM(operations, repeated[reduction]),
                                   "report_flags", "i", flags);
    Py_XDECREF(operations);
    Py_XDECREF(done);
    return done != NULL ? 0 : -1;
}

/* As reduce_to_new() for NumPy arrays: a NumPy array, or a scalar. */
static PyObject *reduce_host_to_new(PyObject *module, const reduced *r, int kept_ndim,
                                    const int64_t *kept, int ndim, const int64_t *shape)
{
    _Alignas(16) char value[16]; /* room for one element of any type */
    PyObject *result = NULL;
    mylib_array out = {value, {MYLIB_CPU, 0}, r->type, kept_ndim, kept, NULL};
    int64_t count = 1;
    for (int d = 0; d < r->in[0].ndim; d++)
        count *= r->in[0].shape[d];
    if (ndim > 0) {
        result = PyArray_EMPTY(ndim, (const npy_intp *)shape, num_of_type(r->type), 0);
        if (result == NULL)
            return NULL;
        out.data = PyArray_DATA((PyArrayObject *)result);
    }
    mylib_status status;
    int flags;
    NPY_BEGIN_THREADS_DEF;
    if (count >= RELEASE_GIL_COUNT)
        NPY_BEGIN_THREADS;
    mylib_clear_flags();
    status = run_reduced(r, NULL, &out);
    flags = test_flags();
    NPY_END_THREADS;
    if (status != MYLIB_OK) {
        raise_status(PyModule_GetState(module), status);
        Py_CLEAR(result);
    } else if (flags != 0 && report_reduced(module, r->reduction, flags) < 0) {
        Py_CLEAR(result);
    } else if (ndim == 0) {
        PyArray_Descr *descr = PyArray_DescrFromType(num_of_type(r->type));
        result = PyArray_Scalar(value, descr, NULL);
        Py_DECREF(descr);
    }
    return result;
}

/*
 * A new array of `ndim` dimensions for what arrays of one place reduce to.  `kept` are its sizes as
 * the library wants them, `kept_ndim` of them.
 */
static PyObject *reduce_to_new(PyObject *module, const reduced *r, int kept_ndim,
                               const int64_t *kept, int ndim, const int64_t *shape)
{
    core_state *state = PyModule_GetState(module);
    mylib_device device = r->in[0].device;
    PyObject *stream;
    mylib_status status;
    if (device.kind == MYLIB_CPU)
        return reduce_host_to_new(module, r, kept_ndim, kept, ndim, shape);
    if (current_stream(state, device, &stream) < 0)
        return NULL;
    PyObject *result = new_array(state, device, stream, r->type, ndim, shape, NULL);
    for (int k = 0; k < r->inputs && result != NULL; k++)
        if (note_use(r->memories[k], stream) < 0)
            Py_CLEAR(result);
    if (result != NULL) {
        const mylib_array out = {
            ((array_object *)result)->a.data, device, r->type, kept_ndim, kept, NULL};
        Py_BEGIN_ALLOW_THREADS
            status = run_reduced(r, stream_handle(stream), &out);
        Py_END_ALLOW_THREADS
        if (status != MYLIB_OK) {
            Py_CLEAR(result);
            raise_status(state, status);
        }
    }
    Py_XDECREF(stream);
    return result;
}

static PyObject *not_implemented_unless_error(void)
{
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_NotImplemented);
}

/* The type of a sum or product of elements of a type. */
static mylib_type sum_type(mylib_type type)
{
    if (type == MYLIB_BOOL)
        return MYLIB_I64;
    mylib_sum_type(type, &type);
    return type;
}

PyDoc_STRVAR(reduce_new_doc,
             "reduce_new(reduction, array, axis, keepdims, /)\n--\n\n"
             "A new array: all elements of an Array, or of a plain NumPy array on the CPU, reduced "
             "(as for reduce()), or with an int `axis` those along it, in the type of pkg.sum and "
             "its sisters.  NotImplemented for anything else, without elements, and for minima of "
             "bool.");
static PyObject *reduce_new_function(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    core_state *state = PyModule_GetState(module);
    int64_t kept[MYLIB_MAX_NDIM], shape[MYLIB_MAX_NDIM];
    reduced r;
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "reduce_new() takes four arguments");
        return NULL;
    }
    long reduction = PyLong_AsLong(args[0]), axis = 0;
    PyObject *axis_object = args[2], *keepdims = args[3];
    if (reduction == -1 && PyErr_Occurred())
        return NULL;
    if (!PyBool_Check(keepdims) || (axis_object != Py_None && !PyLong_CheckExact(axis_object)))
        Py_RETURN_NOTIMPLEMENTED;
    r.inputs = 0;
    r.free_dims = NULL;
    if (!take_reduced(state, args[1], &r))
        return not_implemented_unless_error();
    const mylib_array *in = &r.in[0];
    int is_sum = reduction == MYLIB_SUM || reduction == MYLIB_PROD, ndim = 0, kept_ndim = 0;
    if (!is_sum && in->type == MYLIB_BOOL)
        Py_RETURN_NOTIMPLEMENTED;
    if (axis_object != Py_None) {
        int overflow;
        axis = PyLong_AsLongAndOverflow(axis_object, &overflow);
        axis += axis < 0 ? in->ndim : 0;
        if (overflow != 0 || axis < 0 || axis >= in->ndim)
            Py_RETURN_NOTIMPLEMENTED;
    }
    for (int d = 0; d < in->ndim; d++) {
        int is_reduced = axis_object == Py_None || d == axis;
        if (in->shape[d] == 0)
            Py_RETURN_NOTIMPLEMENTED;
        if (axis_object == Py_None && keepdims == Py_False)
            continue;
        kept[kept_ndim++] = is_reduced ? 1 : in->shape[d];
        if (!is_reduced || keepdims == Py_True)
            shape[ndim++] = is_reduced ? 1 : in->shape[d];
    }
    r.reduction = (mylib_reduction)reduction;
    r.type = is_sum ? sum_type(in->type) : in->type;
    return reduce_to_new(module, &r, kept_ndim, kept, ndim, shape);
}

PyDoc_STRVAR(trace_new_doc, "trace_new(matrix, offset, /)\n--\n\n"
                            "The sum of a diagonal of an Array of two dimensions, as a new Array.");
static PyObject *trace_new_function(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    core_state *state = PyModule_GetState(module);
    reduced r = {.inputs = 0};
    if (count != 2 || !is_array(state, args[0]) || ((array_object *)args[0])->a.ndim != 2) {
        PyErr_SetString(PyExc_TypeError, "trace_new() takes an Array of two dimensions, an int");
        return NULL;
    }
    Py_ssize_t offset = PyNumber_AsSsize_t(args[1], NULL); /* beyond its range: the nearest */
    if (offset == -1 && PyErr_Occurred())
        return NULL;
    (void)take_reduced(state, args[0], &r);
    mylib_array *in = &r.in[0];
    int64_t rows = in->shape[0], columns = in->shape[1], stride = in->strides[0] + in->strides[1];
    int64_t skipped_rows = offset < -rows ? rows : offset < 0 ? -offset : 0;
    int64_t skipped_columns = offset > columns ? columns : offset > 0 ? offset : 0;
    rows -= skipped_rows;
    columns -= skipped_columns;
    int64_t n = rows < columns ? rows : columns;
    if (n > 0)
        in->data =
            (char *)in->data + skipped_rows * in->strides[0] + skipped_columns * in->strides[1];
    in->ndim = 1;
    in->shape = &n;
    in->strides = &stride;
    r.reduction = MYLIB_SUM;
    r.type = sum_type(in->type);
    return reduce_to_new(module, &r, 0, NULL, 0, NULL);
}

PyDoc_STRVAR(dot_new_doc,
             "dot_new(a, b, /)\n--\n\n"
             "The sum of a * b, as a new array: of two Arrays of one GPU, or two plain NumPy "
             "arrays on the CPU, of one dimension and of one length; NotImplemented for anything "
             "else.");
static PyObject *dot_new_function(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    core_state *state = PyModule_GetState(module);
    reduced r;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "dot_new() takes two arguments");
        return NULL;
    }
    r.inputs = 0;
    r.free_dims = NULL;
    for (int k = 0; k < 2; k++) {
        if (!take_reduced(state, args[k], &r))
            return not_implemented_unless_error();
        if (r.in[k].ndim != 1)
            Py_RETURN_NOTIMPLEMENTED;
    }
    if (r.in[0].shape[0] != r.in[1].shape[0] || r.in[0].device.kind != r.in[1].device.kind ||
        r.in[0].device.index != r.in[1].device.index)
        Py_RETURN_NOTIMPLEMENTED;
    if (!promote(r.in[0].type, r.in[1].type, &r.type))
        return NULL;
    if (r.type == MYLIB_BOOL)
        r.type = MYLIB_I8;
    r.reduction = MYLIB_SUM;
    return reduce_to_new(module, &r, 0, NULL, 0, NULL);
}

PyDoc_STRVAR(trace_doc,
             "trace(matrix, ordinal, /)\n--\n\n"
             "The sum of the diagonal of a two-dimensional NumPy array, as a NumPy scalar.");
static PyObject *trace_function(PyObject *module, PyObject *args)
{
    PyArrayObject *matrix;
    int ordinal;
    mylib_type type, sum_type;
    mylib_array array;
    int64_t dims[DIMS_OF(1)];
    mylib_status status;
    char sum[16];

    if (!PyArg_ParseTuple(args, "O!i:trace", &PyArray_Type, &matrix, &ordinal))
        return NULL;
    if (!PyArray_ISNOTSWAPPED(matrix) || !type_of_num(PyArray_TYPE(matrix), &type)) {
        PyErr_SetString(PyExc_TypeError, "trace() takes an array of a supported type");
        return NULL;
    }
    describe_array(matrix, type, &array, dims);
    mylib_device device = device_of_ordinal(ordinal);
    Py_BEGIN_ALLOW_THREADS
        status = mylib_trace(device, NULL, &array, sum);
    Py_END_ALLOW_THREADS
    if (status != MYLIB_OK)
        return raise_status(PyModule_GetState(module), status);
    mylib_sum_type(type, &sum_type);
    PyArray_Descr *descr = PyArray_DescrFromType(num_of_type(sum_type));
    PyObject *result = PyArray_Scalar(sum, descr, NULL);
    Py_DECREF(descr);
    return result;
}

PyMethodDef reduce_functions[] = {
    {"reduce", reduce_function, METH_VARARGS, reduce_doc},
    {"dot", dot_function, METH_VARARGS, dot_doc},
    {"reduce_new", FASTCALL(reduce_new_function), METH_FASTCALL, reduce_new_doc},
    {"dot_new", FASTCALL(dot_new_function), METH_FASTCALL, dot_new_doc},
    {"trace_new", FASTCALL(trace_new_function), METH_FASTCALL, trace_new_doc},
    {"trace", trace_function, METH_VARARGS, trace_doc},
    {NULL, NULL, 0, NULL},
};
