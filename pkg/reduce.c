/*
 * reduce.c - reductions of arrays: sums, products, minima, maxima, means, dot products, traces.
 */
#include "reduce.h"

/* ---- Running ---- */

/* For each reduction, by number: its name, and the operation that it repeats. */
static const struct {
    const char *name;
    mylib_op op;
} reductions[] = {[MYLIB_SUM] = {"sum", MYLIB_OP_add},
                  [MYLIB_PROD] = {"prod", MYLIB_OP_multiply},
                  [MYLIB_MIN] = {"min", MYLIB_OP_minimum},
                  [MYLIB_MAX] = {"max", MYLIB_OP_maximum}};

#define REDUCTIONS ((int)(sizeof reductions / sizeof *reductions))

/* Makes programs: does an element differ from 0, as NaN does; are both of two bools true? */
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
    if (add_tests(state) < 0)
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
    const mylib_reduction number = r->is_mean ? MYLIB_MEAN : r->number;
    void *stream = stream_handle(c->stream);
    mylib_clear_flags();
    mylib_status status =
        r->program != NULL
            ? mylib_program_reduce(r->program, number, r->type, c->device, stream, out, in)
        : c->inputs == 2 ? mylib_dot(r->type, c->device, stream, out, &in[0], &in[1])
                         : mylib_reduce(number, r->type, c->device, stream, out, in);
    *flags_ret = test_flags();
    return status;
}

/* Reduces a call's inputs, which broadcast to `count` elements, into `out`; reports flags. */
static int run_reduction(const call *c, const reduction *r, int64_t count, const mylib_array *out)
{
    mylib_status status;
    int flags;
    WITHOUT_GIL_IF(count >= RELEASE_GIL_COUNT || c->device.kind != MYLIB_CPU,
                   status = run_once(c, r, out, &flags));
    if (check_status(c->state, status) < 0 || flags == 0 || c->on_gpu)
        return status == MYLIB_OK ? 0 : -1;
    const char *name = r->program != NULL ? r->name : c->inputs == 2 ? "dot" : "reduce";
    return report_flags(c->state, name, flags);
}

static PyObject *new_scalar(int num, void *value)
{
    PyArray_Descr *descr = PyArray_DescrFromType(num);
    PyObject *scalar = PyArray_Scalar(value, descr, NULL);
    Py_DECREF(descr);
    return scalar;
}

/* Takes an output in C order, apart from the inputs. */
static int takes_output(call *c, PyObject *out, mylib_type type, int ndim, const int64_t *shape)
{
    const mylib_array *a = &c->arrays[0];
    int64_t stride = type_sizes[type];
    int fits = find_output(c, out) && a->type == type && a->ndim == ndim;
    for (int k = 1; k <= c->inputs && fits; k++)
        fits = !may_share_memory(a, &a[k]);
    for (int d = ndim - 1; d >= 0 && fits; stride *= shape[d--])
        fits = a->shape[d] == shape[d] && a->strides[d] == stride;
    return fits;
}

outcome reduce_to_new(call *c, const reduction *r, uint64_t axes, int keeps_axes,
                      PyObject **result_ret)
{
    _Alignas(16) char value[16]; /* fits one element of any type */
    int64_t in_shape[MYLIB_MAX_NDIM], kept[MYLIB_MAX_NDIM], shape[MYLIB_MAX_NDIM];
    int in_ndim, ndim = 0;
    if (broadcast(c, &in_ndim, in_shape) != DONE)
        return OTHER_SHAPE;
    for (int d = 0; d < in_ndim; d++) {
        const int is_reduced = axes >> d & 1;
        kept[d] = is_reduced ? 1 : in_shape[d];
        if (!is_reduced || keeps_axes)
            shape[ndim++] = kept[d];
    }
    const int is_scalar = ndim == 0 && !c->on_gpu && r->out == NULL;
    const int kept_ndim = ndim == 0 ? 0 : in_ndim;
    mylib_array out = {value, {MYLIB_CPU, 0}, r->type, kept_ndim, kept, NULL};
    const mylib_type type = r->gives_bool ? MYLIB_BOOL : r->type;
    const int num = r->num != 0 ? r->num : num_of_type(type);
    PyObject *result = NULL;
    outcome done = c->on_gpu ? place(c) : DONE;
    if (done == DONE && r->out != NULL && !takes_output(c, r->out, type, ndim, shape))
        done = OTHER_OUT;
    if (done == DONE && !is_scalar) {
        result = r->out != NULL ? Py_NewRef(r->out) : new_output(c, type, num, 'C', ndim, shape);
        if (result == NULL || note_uses(c, result) < 0)
            done = FAILED;
        else
            out.data = c->arrays[0].data, out.device = c->arrays[0].device;
    }
    if (done == DONE && run_reduction(c, r, count_of(in_ndim, in_shape), &out) < 0)
        done = FAILED;
    if (done == DONE && is_scalar && (result = new_scalar(num, value)) == NULL)
        done = FAILED;
    release(c);
    if (done != DONE)
        Py_CLEAR(result);
    *result_ret = result;
    return done;
}

PyObject *reduce_prepared(call *c, reduction *r, PyObject *dtype, PyObject *axes, int keeps_axes)
{
    uint64_t mask = 0;
    PyObject *result = NULL;
    if (take_dtype(dtype, &r->type) < 0)
        return NULL;
    r->num = PyArray_DescrCheck(dtype) ? ((PyArray_Descr *)dtype)->type_num : 0;
    outcome done = take_axes(axes, MYLIB_MAX_NDIM, &mask);
    if (done == DONE)
        done = reduce_to_new(c, r, mask, keeps_axes, &result);
    if (done > DONE)
        PyErr_SetString(PyExc_ValueError, done == OTHER_SHAPE
                                              ? "reduce(): the inputs do not broadcast"
                                              : "reduce(): the inputs are in two places");
    return result;
}

/*
 * Reduces an array, or the products of two, converted to `dtype`, along a tuple of axes, which are
 * not negative.  All are Arrays, or NumPy arrays in native byte order, which are computed on
 * cuda:`ordinal`, or on the CPU when it is -1.  np.errstate hears of the flags.  Returns a new
 * Array, NumPy array or NumPy scalar of `dtype`.
 */
static PyObject *reduce_function(PyObject *module, PyObject *args)
{
    DECLARE_CALL(c, PyModule_GetState(module), 2, (int)PyTuple_GET_SIZE(args) - 5);
    int number, ordinal, keeps_axes;
    PyObject *dtype, *axes, *in[2] = {NULL, NULL};
    if (!PyArg_ParseTuple(args, "iOiO!pO|O:reduce", &number, &dtype, &ordinal, &PyTuple_Type, &axes,
                          &keeps_axes, &in[0], &in[1]))
        return NULL;
    reduction r = {.number = (mylib_reduction)number};
    c.device = device_of_ordinal(ordinal);
    for (int k = 0; k < c.inputs; k++) {
        const outcome done = take_operand(&c, k, in[k]);
        if (done > DONE)
            PyErr_SetString(PyExc_TypeError,
                            "reduce() takes Arrays, or NumPy arrays in native byte "
                            "order");
        if (done != DONE)
            return NULL;
    }
    return reduce_prepared(&c, &r, dtype, axes, keeps_axes);
}

/* ---- Fast paths ---- */

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

static mylib_type sum_type(mylib_type type)
{
    if (type == MYLIB_BOOL)
        return MYLIB_I64;
    mylib_sum_type(type, &type);
    return type;
}

/* The largest count up to which float32 holds all. */
#define EXACT_IN_F32 (1 << 24)

int64_t count_terms(int ndim, const int64_t *shape, uint64_t axes)
{
    int64_t terms = 1;
    for (int d = 0; d < ndim; d++)
        terms *= axes >> d & 1 ? shape[d] : 1;
    return terms;
}

outcome choose_reduction(const core_state *state, mylib_type type, long number, int64_t terms,
                         reduction *r)
{
    *r = (reduction){.number = (mylib_reduction)number, .type = type};
    if (number == REDUCE_MEAN) {
        r->number = MYLIB_SUM;
        r->is_mean = 1;
        if (kind_of_type(type) <= KIND_INT)
            r->type = MYLIB_F64;
        return r->type == MYLIB_F64 || type == MYLIB_C128 ||
                       (type == MYLIB_F32 && terms <= EXACT_IN_F32)
                   ? DONE
                   : OTHER_TYPE;
    }
    if (number >= REDUCE_ANY) {
        r->number = number == REDUCE_ANY ? MYLIB_MAX : number == REDUCE_ALL ? MYLIB_MIN : MYLIB_SUM;
        r->program = type != MYLIB_BOOL ? state->tests[type] : NULL;
        r->type = MYLIB_BOOL;
    }
    if (r->number == MYLIB_SUM || r->number == MYLIB_PROD) {
        r->type = sum_type(r->type);
    } else if (r->type == MYLIB_BOOL) {
        r->type = MYLIB_U8;
        r->gives_bool = 1;
    }
    return DONE;
}

/* NumPy counts up to this many elements before the library has planned a reduction. */
#define FEW_COUNTED 256

static outcome count_few(PyArrayObject *array, PyObject **result_ret)
{
    const mylib_mode mode = mylib_enter_mode();
    int64_t count = PyArray_CountNonzero(array);
    mylib_leave_mode(mode);
    *result_ret = count >= 0 ? new_scalar(NPY_INT64, &count) : NULL;
    return *result_ret != NULL ? DONE : FAILED;
}

outcome take_axes(PyObject *axis, int ndim, uint64_t *axes_ret)
{
    const int is_tuple = PyTuple_CheckExact(axis);
    const Py_ssize_t count = is_tuple ? PyTuple_GET_SIZE(axis) : axis != Py_None;
    *axes_ret = axis == Py_None ? UINT64_MAX : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *one = is_tuple ? PyTuple_GET_ITEM(axis, i) : axis;
        int is_large;
        if (!PyLong_CheckExact(one))
            return OTHER_OPERAND;
        long d = PyLong_AsLongAndOverflow(one, &is_large);
        d += d < 0 ? ndim : 0;
        if (is_large || d < 0 || d >= ndim || (*axes_ret >> d & 1) != 0)
            return OTHER_SHAPE;
        *axes_ret |= (uint64_t)1 << d;
    }
    return DONE;
}

/* Computes reduce_any() of an array with elements, on the default device. */
static outcome reduce_new(core_state *state, PyObject *const *args, PyObject **result_ret)
{
    const long number = PyLong_AsLong(args[0]);
    PyObject *array = args[1], *axis = args[2], *keepdims = args[3], *dtype = args[4];
    DECLARE_CALL(c, state, 1, 1);
    reduction r;
    uint64_t axes;
    if (number < 0 || number > REDUCE_MEAN || !PyBool_Check(keepdims) || args[6] != Py_None)
        return PyErr_Occurred() ? FAILED : OTHER_OPERAND;
    outcome done = take_reduced(&c, 0, array);
    const mylib_array *in = &c.arrays[1];
    if (done != DONE || (done = take_axes(axis, in->ndim, &axes)) != DONE)
        return done;
    const int64_t count = count_of(in->ndim, in->shape);
    if (count == 0)
        return OTHER_SHAPE;
    if (number == REDUCE_COUNT && count <= FEW_COUNTED && axis == Py_None && keepdims == Py_False &&
        !c.on_gpu)
        return count_few((PyArrayObject *)array, result_ret);
    mylib_type type = in->type;
    if (dtype != Py_None && take_dtype(dtype, &type) < 0) {
        PyErr_Clear();
        return OTHER_TYPE;
    }
    const int64_t terms = count_terms(in->ndim, in->shape, axes);
    if ((done = choose_reduction(state, type, number, terms, &r)) != DONE)
        return done;
    if (dtype != Py_None) {
        if (type == MYLIB_BOOL || (r.is_mean && r.type != type) ||
            (in->type >= MYLIB_C64 && type < MYLIB_C64))
            return OTHER_TYPE;
        r.type = type;
    }
    r.out = args[5] != Py_None ? args[5] : NULL;
    return reduce_to_new(&c, &r, axes, keepdims == Py_True, result_ret);
}

/* Computes any reduction of any array; pkg._reductions.reduce_slowly() is its slow path. */
static PyObject *reduce_any_function(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    return call_fast(module, "reduce", args, count, 7, reduce_new);
}

static outcome dot_new(core_state *state, PyObject *const *args, PyObject **result_ret)
{
    DECLARE_CALL(c, state, 2, 2);
    const mylib_array *in = &c.arrays[1];
    reduction r = {.number = MYLIB_SUM};
    if (args[3] != Py_None)
        return OTHER_PLACE;
    for (int k = 0; k < 2; k++) {
        outcome done = take_reduced(&c, k, args[k]);
        if (done != DONE)
            return done;
    }
    if (in[0].ndim != 1 || in[1].ndim != 1 || in[0].shape[0] != in[1].shape[0])
        return OTHER_SHAPE;
    if (in[0].device.kind != in[1].device.kind || in[0].device.index != in[1].device.index)
        return OTHER_PLACE;
    if (promote(in[0].type, in[1].type, &r.type) < 0)
        return FAILED;
    if (r.type == MYLIB_BOOL) {
        if (in[0].shape[0] == 0)
            return OTHER_SHAPE;
        r = (reduction){.number = MYLIB_MAX,
                        .type = MYLIB_U8,
                        .program = c.state->both,
                        .name = "dot",
                        .gives_bool = 1};
    }
    r.out = args[2] != Py_None ? args[2] : NULL;
    return reduce_to_new(&c, &r, UINT64_MAX, 0, result_ret);
}

/* Computes pkg.dot(); pkg._reductions.dot_slowly() is its slow path. */
static PyObject *dot_function(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    return call_fast(module, "dot", args, count, 4, dot_new);
}

/* Sums a diagonal that is not empty, without options. */
static outcome trace_new(core_state *state, PyObject *const *args, PyObject **result_ret)
{
    DECLARE_CALL(c, state, 1, 1);
    reduction r;
    if (!PyLong_CheckExact(args[1]) || args[2] != Py_None)
        return OTHER_OPERAND;
    outcome done = take_reduced(&c, 0, args[0]);
    if (done != DONE)
        return done;
    mylib_array *in = &c.arrays[1];
    int is_large;
    const long offset = PyLong_AsLongAndOverflow(args[1], &is_large);
    if (in->ndim != 2 || is_large || offset <= -in->shape[0] || offset >= in->shape[1])
        return OTHER_SHAPE;
    const int64_t rows = in->shape[0] + (offset < 0 ? offset : 0);
    const int64_t columns = in->shape[1] - (offset > 0 ? offset : 0);
    const int64_t count = rows < columns ? rows : columns;
    const int64_t stride = in->strides[0] + in->strides[1];
    in->data = (char *)in->data + (offset < 0 ? -offset * in->strides[0] : offset * in->strides[1]);
    in->ndim = 1;
    in->shape = &count;
    in->strides = &stride;
    if ((done = choose_reduction(state, in->type, MYLIB_SUM, count, &r)) != DONE)
        return done;
    return reduce_to_new(&c, &r, UINT64_MAX, 0, result_ret);
}

/* Computes pkg.trace(); pkg._reductions.trace_slowly() is its slow path. */
static PyObject *trace_function(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    return call_fast(module, "trace", args, count, 3, trace_new);
}

PyMethodDef reduce_functions[] = {
    {"reduce", reduce_function, METH_VARARGS, NULL},
    {"reduce_any", FASTCALL(reduce_any_function), METH_FASTCALL, NULL},
    {"dot", FASTCALL(dot_function), METH_FASTCALL, NULL},
    {"trace", FASTCALL(trace_function), METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};
