/*
 * reduce.c - reductions of arrays: sums, products, minima, maxima, dot products, traces.
 */
#include "reduce.h"

/* ---- Running ------------------------------------------------------------------------------- */

/* For each reduction, by number: its name, and the operation that it repeats. */
static const struct {
    const char *name;
    mylib_op op;
} reductions[] = {[MYLIB_SUM] = {"sum", MYLIB_OP_add},
                  [MYLIB_PROD] = {"prod", MYLIB_OP_multiply},
                  [MYLIB_MIN] = {"min", MYLIB_OP_minimum},
                  [MYLIB_MAX] = {"max", MYLIB_OP_maximum}};

#define REDUCTIONS ((int)(sizeof reductions / sizeof *reductions))

/*
 * Makes the programs that tell whether an element differs from 0, as a bool; NaN counts as true.
 * And the one that tells it of both elements of two arrays of bools.
 */
static int add_tests(core_state *state)
{
    for (int type = 0; type < MYLIB_TYPE_COUNT; type++) {
        const mylib_type input = (mylib_type)type;
        const mylib_step step = {MYLIB_STEP_CONVERT, MYLIB_BOOL, {0}};
        if (check_status(
                state, mylib_program_create(1, &input, 0, NULL, 1, &step, &state->tests[type])) < 0)
            return -1;
    }
    const mylib_type bools[] = {MYLIB_BOOL, MYLIB_BOOL};
    const mylib_step both = {MYLIB_OP_logical_and, MYLIB_BOOL, {0, 1}};
    return check_status(state, mylib_program_create(2, bools, 0, NULL, 1, &both, &state->both));
}

int add_reductions(PyObject *module, core_state *state)
{
    if (add_tests(state) < 0 || PyModule_AddIntConstant(module, "ANY", REDUCE_ANY) < 0 ||
        PyModule_AddIntConstant(module, "ALL", REDUCE_ALL) < 0 ||
        PyModule_AddIntConstant(module, "COUNT_NONZERO", REDUCE_COUNT) < 0)
        return -1;
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

static mylib_status run_once(const call *c, const reduction *r, const mylib_array *out,
                             int *flags_ret)
{
    const mylib_array *in = &c->arrays[1];
    void *stream = stream_handle(c->stream);
    mylib_clear_flags();
    mylib_status status =
        r->program != NULL
            ? mylib_program_reduce(r->program, r->number, r->type, c->device, stream, out, in)
        : c->inputs == 2 ? mylib_dot(r->type, c->device, stream, out, &in[0], &in[1])
                         : mylib_reduce(r->number, r->type, c->device, stream, out, in);
    *flags_ret = test_flags();
    return status;
}

int run_reduction(const call *c, const reduction *r, int64_t count, const mylib_array *out,
                  int *flags_ret)
{
    mylib_status status;
    WITHOUT_GIL_IF(count >= RELEASE_GIL_COUNT || c->device.kind != MYLIB_CPU,
                   status = run_once(c, r, out, flags_ret));
    return check_status(c->state, status);
}

/* Returns a NumPy scalar. */
static PyObject *new_scalar(mylib_type type, void *value)
{
    PyArray_Descr *descr = PyArray_DescrFromType(num_of_type(type));
    PyObject *scalar = PyArray_Scalar(value, descr, NULL);
    Py_DECREF(descr);
    return scalar;
}

outcome reduce_to_new(call *c, const reduction *r, int64_t count, int kept_ndim,
                      const int64_t *kept, int ndim, int64_t *shape, PyObject **result_ret)
{
    _Alignas(16) char value[16]; /* fits one element of any type */
    mylib_array out = {value, {MYLIB_CPU, 0}, r->type, kept_ndim, kept, NULL};
    const int is_scalar = ndim == 0 && !c->on_gpu;
    const mylib_type type = r->gives_bool ? MYLIB_BOOL : r->type;
    int flags = 0;
    PyObject *result = NULL;
    outcome done = c->on_gpu ? place(c) : DONE;
    if (done == DONE && !is_scalar) {
        result = new_output(c, type, num_of_type(type), 'C', ndim, shape);
        if (result == NULL || note_uses(c, result) < 0)
            done = FAILED;
        else
            out = (mylib_array){c->arrays[0].data, c->device, r->type, kept_ndim, kept, NULL};
    }
    if (done == DONE && run_reduction(c, r, count, &out, &flags) < 0)
        done = FAILED;
    if (done == DONE && flags != 0 && !c->on_gpu) {
        const char *name = r->program != NULL ? r->name : mylib_op_name(reductions[r->number].op);
        done = report_flags(name, flags) < 0 ? FAILED : DONE;
    }
    if (done == DONE && is_scalar && (result = new_scalar(type, value)) == NULL)
        done = FAILED;
    release(c);
    if (done != DONE)
        Py_CLEAR(result);
    *result_ret = result;
    return done;
}

/* ---- Into a given array ---------------------------------------------------------------------- */

/* Computes reduce() and dot(): `args` from `first` on are dtype, ordinal, out and the inputs. */
static PyObject *reduce_given(PyObject *module, PyObject *args, Py_ssize_t first, const char *name)
{
    DECLARE_CALL(c, PyModule_GetState(module), 2, 2 - (int)first);
    reduction r = {0};
    if (PyTuple_GET_SIZE(args) != 5)
        return PyErr_Format(PyExc_TypeError, "%s() takes five arguments", name);
    long number = first == 0 ? 0 : PyLong_AsLong(PyTuple_GET_ITEM(args, 0));
    long ordinal = PyLong_AsLong(PyTuple_GET_ITEM(args, first + 1));
    if ((number == -1 || ordinal == -1) && PyErr_Occurred())
        return NULL;
    c.device = device_of_ordinal((int)ordinal);
    r.number = (mylib_reduction)number;
    if (take_dtype(PyTuple_GET_ITEM(args, first), &r.type) < 0 ||
        take_arrays(&c, &PyTuple_GET_ITEM(args, first + 2), 3 - first) < 0)
        return NULL;
    int flags, result = run_reduction(&c, &r, INT64_MAX, &c.arrays[0], &flags);
    release(&c);
    return result == 0 ? PyLong_FromLong(flags) : NULL;
}

PyDoc_STRVAR(
    reduce_doc,
    "reduce(reduction, dtype, ordinal, out, array, /)\n--\n\n"
    "Reduces (0 sum, 1 prod, 2 min, 3 max) `array`, converted to `dtype`, into `out`, which "
    "has the size 1 where it is reduced, or no dimensions; both Arrays, or both NumPy arrays and "
    "computed on cuda:`ordinal`, or on the CPU when it is -1.  The floating-point flags.");
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

/* Returns the type of a sum or product of elements of a type. */
static mylib_type sum_type(mylib_type type)
{
    if (type == MYLIB_BOOL)
        return MYLIB_I64;
    mylib_sum_type(type, &type);
    return type;
}

/* Returns the reduction `number` for elements of a type: the library's, or any() and all(). */
static reduction choose_reduction(const core_state *state, int number, mylib_type type)
{
    reduction r = {.number = (mylib_reduction)number, .type = type};
    if (number >= REDUCE_ANY) {
        r.number = number == REDUCE_ANY ? MYLIB_MAX : number == REDUCE_ALL ? MYLIB_MIN : MYLIB_SUM;
        r.program = type != MYLIB_BOOL ? state->tests[type] : NULL;
        type = r.type = MYLIB_BOOL;
    }
    if (r.number == MYLIB_SUM || r.number == MYLIB_PROD) {
        r.type = sum_type(type);
    } else if (type == MYLIB_BOOL) {
        r.type = MYLIB_U8;
        r.gives_bool = 1;
    }
    return r;
}

PyDoc_STRVAR(
    reduce_new_doc,
    "reduce_new(reduction, array, axis, keepdims, /)\n--\n\n"
    "A new array: all elements of an Array, or of a plain NumPy array on the CPU, reduced "
    "(as for reduce()), or with an int `axis` those along it, in the type of pkg.sum and "
    "its sisters; or ANY, ALL or COUNT_NONZERO of its truths.  NotImplemented for anything "
    "else, and without elements.");
static PyObject *reduce_new_function(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    DECLARE_CALL(c, PyModule_GetState(module), 1, 1);
    int64_t kept[MYLIB_MAX_NDIM], shape[MYLIB_MAX_NDIM];
    PyObject *result = NULL;
    if (count != 4)
        return PyErr_Format(PyExc_TypeError, "reduce_new() takes four arguments");
    long number = PyLong_AsLong(args[0]), axis = 0;
    PyObject *axis_object = args[2], *keepdims = args[3];
    if (number == -1 && PyErr_Occurred())
        return NULL;
    if (!PyBool_Check(keepdims) || (axis_object != Py_None && !PyLong_CheckExact(axis_object)))
        Py_RETURN_NOTIMPLEMENTED;
    outcome done = take_reduced(&c, 0, args[1]);
    if (done != DONE)
        return answer(done, NULL);
    const mylib_array *in = &c.arrays[1];
    const reduction r = choose_reduction(c.state, (int)number, in->type);
    int ndim = 0, kept_ndim = 0;
    if (axis_object != Py_None) {
        int overflow;
        axis = PyLong_AsLongAndOverflow(axis_object, &overflow);
        axis += axis < 0 ? in->ndim : 0;
        if (overflow != 0 || axis < 0 || axis >= in->ndim)
            Py_RETURN_NOTIMPLEMENTED;
    }
    for (int d = 0; d < in->ndim; d++) {
        const int is_reduced = axis_object == Py_None || d == axis;
        const int64_t size = is_reduced ? 1 : in->shape[d];
        if (in->shape[d] == 0)
            Py_RETURN_NOTIMPLEMENTED;
        if (axis_object != Py_None || keepdims == Py_True)
            kept[kept_ndim++] = size;
        if (!is_reduced || keepdims == Py_True)
            shape[ndim++] = size;
    }
    done =
        reduce_to_new(&c, &r, count_of(in->ndim, in->shape), kept_ndim, kept, ndim, shape, &result);
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
    static const char *const truths[] = {"any", "all", "count_nonzero"};
    const long number = count == 7 ? PyLong_AsLong(args[0]) : -1;
    if (number < 0 || number > REDUCE_COUNT || state->reduce == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "reduce_any() takes seven arguments; import pkg");
        return NULL;
    }
    const char *name = number < REDUCTIONS ? reductions[number].name : truths[number - REDUCTIONS];
    return PyObject_CallFunction(state->reduce, "sOOOOOO", name, args[1], args[2], args[4], args[5],
                                 args[3], args[6]);
}

PyDoc_STRVAR(trace_new_doc, "trace_new(matrix, offset, /)\n--\n\n"
                            "The sum of a diagonal of an Array of two dimensions, as a new Array.");
static PyObject *trace_new_function(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    DECLARE_CALL(c, PyModule_GetState(module), 1, 1);
    PyObject *result = NULL;
    if (count != 2 || !is_array(c.state, args[0]) || ((array_object *)args[0])->a.ndim != 2)
        return PyErr_Format(PyExc_TypeError,
                            "trace_new() takes an Array of two dimensions, an int");
    Py_ssize_t offset = PyNumber_AsSsize_t(args[1], NULL); /* clipped to its range */
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
    const reduction r = {.number = MYLIB_SUM, .type = sum_type(in->type)};
    (void)reduce_to_new(&c, &r, n, 0, NULL, 0, NULL, &result);
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
    reduction r = {.number = MYLIB_SUM};
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "dot_new() takes two arguments");
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
    if (r.type == MYLIB_BOOL) {
        if (in[0].shape[0] == 0)
            Py_RETURN_NOTIMPLEMENTED;
        r = (reduction){.number = MYLIB_MAX,
                        .type = MYLIB_U8,
                        .program = c.state->both,
                        .name = "dot",
                        .gives_bool = 1};
    }
    (void)reduce_to_new(&c, &r, in[0].shape[0], 0, NULL, 0, NULL, &result);
    return result;
}

PyDoc_STRVAR(trace_doc,
             "trace(matrix, ordinal, /)\n--\n\n"
             "The sum of the diagonal of a two-dimensional NumPy array, as a NumPy scalar.");
static PyObject *trace_function(PyObject *module, PyObject *args)
{
    DECLARE_CALL(c, PyModule_GetState(module), 1, 1);
    _Alignas(16) char sum[16];
    PyObject *matrix;
    int ordinal;
    mylib_status status;
    if (!PyArg_ParseTuple(args, "O!i:trace", &PyArray_Type, &matrix, &ordinal))
        return NULL;
    if (take_operand(&c, 0, matrix) != DONE)
        return PyErr_Format(PyExc_TypeError, "trace() takes an array of a supported type");
    WITHOUT_GIL(status = mylib_trace(device_of_ordinal(ordinal), NULL, &c.arrays[1], sum));
    if (status != MYLIB_OK)
        return raise_status(c.state, status);
    return new_scalar(sum_type(c.arrays[1].type), sum);
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
