/*
 * reduce.c - reductions of arrays: sums, products, minima, maxima, dot products, traces.
 */
#include "reduce.h"

#define MAX_INPUTS 2

/* ---- Into a given array ---------------------------------------------------------------------- */

/* Computes reduce() and dot(): `args` from `first` on are dtype, ordinal, out and the inputs. */
static PyObject *reduce_given(PyObject *module, PyObject *args, Py_ssize_t first, const char *name)
{
    DECLARE_CALL(c, PyModule_GetState(module), MAX_INPUTS, 0);
    mylib_type type;
    mylib_status status;
    int flags, is_dot = first == 0;
    if (PyTuple_GET_SIZE(args) != 5)
        return PyErr_Format(PyExc_TypeError, "%s() takes five arguments", name);
    long reduction = is_dot ? 0 : PyLong_AsLong(PyTuple_GET_ITEM(args, 0));
    long ordinal = PyLong_AsLong(PyTuple_GET_ITEM(args, first + 1));
    if ((reduction == -1 || ordinal == -1) && PyErr_Occurred())
        return NULL;
    c.device = device_of_ordinal((int)ordinal);
    if (take_dtype(PyTuple_GET_ITEM(args, first), &type) < 0 ||
        take_arrays(&c, &PyTuple_GET_ITEM(args, first + 2), 3 - first) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
        mylib_clear_flags();
        status = is_dot ? mylib_dot(type, c.device, stream_handle(c.stream), &c.arrays[0],
                                    &c.arrays[1], &c.arrays[2])
                        : mylib_reduce((mylib_reduction)reduction, type, c.device,
                                       stream_handle(c.stream), &c.arrays[0], &c.arrays[1]);
        flags = test_flags();
    Py_END_ALLOW_THREADS
    PyObject *result = status == MYLIB_OK ? PyLong_FromLong(flags) : raise_status(c.state, status);
    release(&c);
    return result;
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
    return reduce_given(module, args, 1, "reduce");
}

PyDoc_STRVAR(dot_doc, "dot(dtype, ordinal, out, a, b, /)\n--\n\n"
                      "The sum of a * b into `out`, an array without dimensions; as reduce().");
static PyObject *dot_function(PyObject *module, PyObject *args)
{
    return reduce_given(module, args, 0, "dot");
}

/* ---- To a new array -------------------------------------------------------------------------- */

/* A reduction of a call's input, or of the products of two inputs, in `type`. */
typedef struct reduced {
    mylib_reduction reduction;
    mylib_type type;
} reduced;

/* Takes input `k`: an Array, or a plain NumPy array if the default device is the CPU. */
static outcome take_reduced(call *c, int k, PyObject *x)
{
    if (!is_array(c->state, x) && !PyArray_CheckExact(x))
        return OTHER_OPERAND;
    outcome done = take_operand(c, k, x);
    if (done != DONE || c->operands[k].memory != NULL)
        return done;
    if (num_of_type(c->arrays[1 + k].type) != PyArray_TYPE((PyArrayObject *)x))
        return OTHER_TYPE;
    int is_cpu = default_is_cpu(c->state);
    return is_cpu < 0 ? FAILED : is_cpu ? DONE : OTHER_PLACE;
}

static mylib_status run_reduced(const call *c, const reduced *r, const mylib_array *out)
{
    const mylib_array *in = &c->arrays[1];
    void *stream = stream_handle(c->stream);
    return c->inputs == 2 ? mylib_dot(r->type, c->device, stream, out, &in[0], &in[1])
                          : mylib_reduce(r->reduction, r->type, c->device, stream, out, in);
}

/* The reductions by their numbers: their names, and the operations that they repeat. */
static const struct {
    const char *name;
    mylib_op op;
} reductions[] = {[MYLIB_SUM] = {"sum", MYLIB_OP_add},
                  [MYLIB_PROD] = {"prod", MYLIB_OP_multiply},
                  [MYLIB_MIN] = {"min", MYLIB_OP_minimum},
                  [MYLIB_MAX] = {"max", MYLIB_OP_maximum}};

#define REDUCTIONS ((int)(sizeof reductions / sizeof *reductions))

int add_reductions(PyObject *module, core_state *state)
{
    PyObject *tuple = PyTuple_New(REDUCTIONS);
    for (int i = 0; i < REDUCTIONS && tuple != NULL; i++) {
        PyObject *row = Py_BuildValue("(sO)", reductions[i].name,
                                      PyTuple_GET_ITEM(state->operations, reductions[i].op));
        if (row == NULL)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, row);
    }
    int result = tuple != NULL ? PyModule_AddObjectRef(module, "reductions", tuple) : -1;
    Py_XDECREF(tuple);
    return result;
}

/*
 * Reduces a call's inputs to a new array of `ndim` dimensions, or to a NumPy scalar for host arrays
 * and no dimensions.  The library wants the sizes `kept`, which are 1 where it reduces.
 */
static outcome reduce_to_new(call *c, const reduced *r, int kept_ndim, const int64_t *kept,
                             int ndim, int64_t *shape, PyObject **result_ret)
{
    _Alignas(16) char value[16]; /* room for one element of any type */
    mylib_array out = {value, {MYLIB_CPU, 0}, r->type, kept_ndim, kept, NULL};
    int num = num_of_type(r->type), flags, is_scalar;
    int64_t count = count_of(c->arrays[1].ndim, c->arrays[1].shape);
    PyObject *result = NULL;
    mylib_status status;
    outcome done = place(c);
    if (done != DONE)
        return done;
    is_scalar = ndim == 0 && !c->on_gpu;
    if (!is_scalar) {
        result = new_output(c, r->type, num, 'C', ndim, shape);
        if (result == NULL || note_uses(c, result) < 0)
            goto failed;
        out.data = c->arrays[0].data;
        out.device = c->device;
    }
    NPY_BEGIN_THREADS_DEF;
    if (c->on_gpu || count >= RELEASE_GIL_COUNT)
        NPY_BEGIN_THREADS;
    mylib_clear_flags();
    status = run_reduced(c, r, &out);
    flags = test_flags();
    NPY_END_THREADS;
    if (status != MYLIB_OK) {
        raise_status(c->state, status);
        goto failed;
    }
    if (!c->on_gpu && flags != 0 &&
        report_flags(mylib_op_name(reductions[r->reduction].op), flags) < 0)
        goto failed;
    if (is_scalar) {
        PyArray_Descr *descr = PyArray_DescrFromType(num);
        result = PyArray_Scalar(value, descr, NULL);
        Py_DECREF(descr);
    }
    release(c);
    *result_ret = result;
    return result != NULL ? DONE : FAILED;
failed:
    release(c);
    Py_XDECREF(result);
    return FAILED;
}

/* Returns what Python gets: the result, NULL with an exception set, or NotImplemented. */
static PyObject *answer(outcome done, PyObject *result)
{
    return done > DONE ? Py_NewRef(Py_NotImplemented) : result;
}

/* Returns the type of a sum or product of elements of a type. */
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
    DECLARE_CALL(c, PyModule_GetState(module), 1, 1);
    int64_t kept[MYLIB_MAX_NDIM], shape[MYLIB_MAX_NDIM];
    PyObject *result = NULL;
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
    outcome done = take_reduced(&c, 0, args[1]);
    if (done != DONE)
        return answer(done, NULL);
    const mylib_array *in = &c.arrays[1];
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
    done = reduce_to_new(&c, &r, kept_ndim, kept, ndim, shape, &result);
    return answer(done, result);
}

PyDoc_STRVAR(reduce_any_doc,
             "reduce_any(reduction, array, axis, keepdims, dtype, out, device, /)\n--\n\n"
             "reduce_new(), or pkg._reductions.reduce() where that is NotImplemented or one of the "
             "last three is not None.");
static PyObject *reduce_any_function(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    const core_state *state = PyModule_GetState(module);
    if (count == 7 && args[4] == Py_None && args[5] == Py_None && args[6] == Py_None) {
        PyObject *result = reduce_new_function(module, args, 4);
        if (result != Py_NotImplemented)
            return result;
        Py_DECREF(result);
    }
    const long reduction = count == 7 ? PyLong_AsLong(args[0]) : -1;
    if (reduction < 0 || reduction >= REDUCTIONS || state->reduce == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "reduce_any() takes seven arguments; import pkg");
        return NULL;
    }
    return PyObject_CallFunction(state->reduce, "sOOOOOO", reductions[reduction].name, args[1],
                                 args[2], args[4], args[5], args[3], args[6]);
}

PyDoc_STRVAR(trace_new_doc, "trace_new(matrix, offset, /)\n--\n\n"
                            "The sum of a diagonal of an Array of two dimensions, as a new Array.");
static PyObject *trace_new_function(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    DECLARE_CALL(c, PyModule_GetState(module), 1, 1);
    PyObject *result = NULL;
    if (count != 2 || !is_array(c.state, args[0]) || ((array_object *)args[0])->a.ndim != 2) {
        PyErr_SetString(PyExc_TypeError, "trace_new() takes an Array of two dimensions, an int");
        return NULL;
    }
    Py_ssize_t offset = PyNumber_AsSsize_t(args[1], NULL); /* beyond its range: the nearest */
    if (offset == -1 && PyErr_Occurred())
        return NULL;
    (void)take_operand(&c, 0, args[0]);
    mylib_array *in = &c.arrays[1];
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
    const reduced r = {MYLIB_SUM, sum_type(in->type)};
    (void)reduce_to_new(&c, &r, 0, NULL, 0, NULL, &result);
    return result;
}

PyDoc_STRVAR(dot_new_doc,
             "dot_new(a, b, /)\n--\n\n"
             "The sum of a * b, as a new array: of two Arrays of one GPU, or two plain NumPy "
             "arrays on the CPU, of one dimension and of one length; NotImplemented for anything "
             "else.");
static PyObject *dot_new_function(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    DECLARE_CALL(c, PyModule_GetState(module), 2, 2);
    const mylib_array *in = &c.arrays[1];
    PyObject *result = NULL;
    reduced r = {MYLIB_SUM, MYLIB_I8};
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "dot_new() takes two arguments");
        return NULL;
    }
    for (int k = 0; k < 2; k++) {
        outcome done = take_reduced(&c, k, args[k]);
        if (done != DONE)
            return answer(done, NULL);
        if (in[k].ndim != 1)
            Py_RETURN_NOTIMPLEMENTED;
    }
    if (in[0].shape[0] != in[1].shape[0] || in[0].device.kind != in[1].device.kind ||
        in[0].device.index != in[1].device.index)
        Py_RETURN_NOTIMPLEMENTED;
    if (promote(in[0].type, in[1].type, &r.type) < 0)
        return NULL;
    if (r.type == MYLIB_BOOL) /* whose result is a bool */
        Py_RETURN_NOTIMPLEMENTED;
    (void)reduce_to_new(&c, &r, 0, NULL, 0, NULL, &result);
    return result;
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
    if (!PyArray_ISNOTSWAPPED(matrix) || !find_type(PyArray_TYPE(matrix), &type)) {
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
    {"reduce_any", FASTCALL(reduce_any_function), METH_FASTCALL, reduce_any_doc},
    {"dot_new", FASTCALL(dot_new_function), METH_FASTCALL, dot_new_doc},
    {"trace_new", FASTCALL(trace_new_function), METH_FASTCALL, trace_new_doc},
    {"trace", trace_function, METH_VARARGS, trace_doc},
    {NULL, NULL, 0, NULL},
};
