/*
 * expression.c - programs of libmylib, and the part of pkg.Expression that each call passes through.
 *
 * A Program is what an expression becomes for given element types; pkg/_lowering.py makes it.  An
 * Expression keeps the programs that it has used lately, and a call on arrays whose types one of
 * them was made for goes straight to the library; pkg/_expressions.py sees to all other calls.
 */
#include "expression.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <structmember.h> /* Python before 3.12 */

#define MAX_INPUTS MYLIB_PROGRAM_MAX_INPUTS

/* ---- Programs ------------------------------------------------------------------------------ */

typedef struct program_object {
    PyObject_HEAD
    mylib_program *program;
    int inputs, steps;
    mylib_type input_types[MAX_INPUTS];
    mylib_type result_type;
} program_object;

/*
 * A sequence's items as a tuple of at most `most`; NULL and an exception on failure.  Python code
 * of an item cannot change it.
 */
static PyObject *take_sequence(PyObject *object, const char *name, Py_ssize_t most)
{
    PyObject *tuple = PySequence_Tuple(object);
    if (tuple != NULL && PyTuple_GET_SIZE(tuple) > most) {
        PyErr_Format(PyExc_ValueError, "Program(): %zd %s; at most %zd are supported",
                     PyTuple_GET_SIZE(tuple), name, most);
        Py_CLEAR(tuple);
    }
    return tuple;
}

/* (dtype, value): value a NumPy scalar or array of one element, converted to the dtype. */
static int take_constant(PyObject *item, mylib_constant *constant)
{
    PyObject *dtype, *value;
    mylib_type type;
    if (!PyTuple_Check(item)) {
        PyErr_SetString(PyExc_TypeError, "Program(): a constant is a tuple (dtype, value)");
        return -1;
    }
    if (!PyArg_ParseTuple(item, "OO:constant", &dtype, &value))
        return -1;
    if (!take_dtype(dtype, &type))
        return -1;
    PyArray_Descr *descr = PyArray_DescrFromType(num_of_type(type));
    PyObject *array = PyArray_FromAny(value, descr, 0, 0, NPY_ARRAY_CARRAY, NULL);
    if (array == NULL)
        return -1;
    if (PyArray_SIZE((PyArrayObject *)array) != 1) {
        Py_DECREF(array);
        PyErr_SetString(PyExc_ValueError, "Program(): a constant has one element");
        return -1;
    }
    memset(constant, 0, sizeof *constant);
    constant->type = (int32_t)type;
    memcpy(constant->value, PyArray_DATA((PyArrayObject *)array), mylib_type_size(type));
    Py_DECREF(array);
    return 0;
}

/* (op, dtype, operands) */
static int take_step(PyObject *item, mylib_step *step)
{
    PyObject *dtype, *operands;
    mylib_type type;
    int op;
    if (!PyTuple_Check(item)) {
        PyErr_SetString(PyExc_TypeError, "Program(): a step is a tuple (op, dtype, operands)");
        return -1;
    }
    if (!PyArg_ParseTuple(item, "iOO!:step", &op, &dtype, &PyTuple_Type, &operands) ||
        !take_dtype(dtype, &type))
        return -1;
    *step = (mylib_step){op, (int32_t)type, {0, 0, 0}};
    if (PyTuple_GET_SIZE(operands) > 3) {
        PyErr_SetString(PyExc_ValueError, "Program(): a step has at most three operands");
        return -1;
    }
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(operands); k++) {
        long value = PyLong_AsLong(PyTuple_GET_ITEM(operands, k));
        if (value == -1 && PyErr_Occurred())
            return -1;
        step->operand[k] = value < 0 || value > INT32_MAX ? -1 : (int32_t)value;
    }
    return 0;
}

static PyObject *program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"input_dtypes", "constants", "steps", NULL};
    PyObject *input_object, *constant_object, *step_object;
    PyObject *inputs = NULL, *constants = NULL, *steps = NULL;
    mylib_constant *constant = NULL;
    mylib_step *step = NULL;
    program_object *self = NULL, *result = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO:Program", names, &input_object,
                                     &constant_object, &step_object))
        return NULL;
    inputs = take_sequence(input_object, "inputs", MAX_INPUTS);
    constants = inputs != NULL
                    ? take_sequence(constant_object, "constants", MYLIB_PROGRAM_MAX_CONSTANTS)
                    : NULL;
    steps = constants != NULL ? take_sequence(step_object, "steps", MYLIB_PROGRAM_MAX_STEPS) : NULL;
    if (steps == NULL)
        goto out;
    Py_ssize_t constant_count = PyTuple_GET_SIZE(constants), step_count = PyTuple_GET_SIZE(steps);
    constant = PyMem_Calloc((size_t)constant_count + 1, sizeof *constant);
    step = PyMem_Calloc((size_t)step_count + 1, sizeof *step);
    self = (program_object *)type->tp_alloc(type, 0);
    if (constant == NULL || step == NULL || self == NULL) {
        PyErr_NoMemory();
        goto out;
    }
    self->inputs = (int)PyTuple_GET_SIZE(inputs);
    self->steps = (int)step_count;
    for (int k = 0; k < self->inputs; k++)
        if (!take_dtype(PyTuple_GET_ITEM(inputs, k), &self->input_types[k]))
            goto out;
    for (Py_ssize_t k = 0; k < constant_count; k++)
        if (take_constant(PyTuple_GET_ITEM(constants, k), &constant[k]) < 0)
            goto out;
    for (Py_ssize_t k = 0; k < step_count; k++)
        if (take_step(PyTuple_GET_ITEM(steps, k), &step[k]) < 0)
            goto out;
    mylib_status status = mylib_program_create(self->inputs, self->input_types, (int)constant_count,
                                               constant, (int)step_count, step, &self->program);
    if (status == MYLIB_OK)
        status = mylib_program_result_type(self->program, &self->result_type);
    if (status != MYLIB_OK)
        raise_status(core_state_of(type), status);
    else
        result = (program_object *)Py_NewRef(self);
out:
    Py_XDECREF(self);
    PyMem_Free(constant);
    PyMem_Free(step);
    Py_XDECREF(inputs);
    Py_XDECREF(constants);
    Py_XDECREF(steps);
    return (PyObject *)result;
}

static int program_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    return 0;
}

static void program_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    mylib_program_free(((program_object *)object)->program);
    type->tp_free(object);
    Py_DECREF(type);
}

/* ---- Running ------------------------------------------------------------------------------- */

/*
 * Host arrays are computed in pieces, between which Python looks for signals: so many elements
 * times steps, or for a GPU bytes, take about a tenth of a second.
 */
#define PIECE_WORK ((int64_t)1 << 26)
#define PIECE_NBYTES ((int64_t)1 << 32)

typedef struct run {
    core_state *state;
    const program_object *program;
    mylib_device device;
    void *stream;
    int64_t most;        /* elements of a piece */
    mylib_array *arrays; /* out, inputs; while a piece of host arrays runs, of that piece */
    int flags;
} run;

static mylib_status run_once(run *r)
{
    mylib_clear_flags();
    mylib_status status =
        mylib_program_run(r->program->program, r->device, r->stream, &r->arrays[0], &r->arrays[1]);
    r->flags |= test_flags();
    return status;
}

/*
 * Runs over the arrays as they are described now, `count` elements: in one go, or by pieces of the
 * outermost dimension.  -1 and an exception on failure.
 */
static int run_in_pieces(run *r, int64_t count)
{
    mylib_array *out = &r->arrays[0];
    if (count <= r->most) {
        mylib_status status;
        Py_BEGIN_ALLOW_THREADS
            status = run_once(r);
        Py_END_ALLOW_THREADS
        if (status != MYLIB_OK) {
            raise_status(r->state, status);
            return -1;
        }
        return PyErr_CheckSignals();
    }

    int arrays = 1 + r->program->inputs, outermost = -1;
    for (int d = 0; d < out->ndim; d++)
        if (out->shape[d] > 1 &&
            (outermost < 0 || llabs(out->strides[d]) > llabs(out->strides[outermost])))
            outermost = d;
    int64_t size = out->shape[outermost], each = count / size;
    int64_t step = each >= r->most ? 1 : r->most / each;
    char *data[1 + MAX_INPUTS];
    int64_t stride[1 + MAX_INPUTS];
    int64_t *piece[1 + MAX_INPUTS]; /* each array's size along the dimension; NULL where repeated */
    for (int k = 0; k < arrays; k++) {
        const mylib_array *a = &r->arrays[k];
        int d = outermost - (out->ndim - a->ndim);
        data[k] = a->data;
        piece[k] = NULL;
        if (d >= 0 && a->shape[d] != 1) {
            /* Host arrays are described in dimensions of our own. */
            piece[k] = (int64_t *)&a->shape[d];
            stride[k] = a->strides[d];
        }
    }
    int result = 0;
    for (int64_t i = 0; i < size && result == 0; i += step) {
        int64_t sizes = size - i < step ? size - i : step;
        for (int k = 0; k < arrays; k++) {
            if (piece[k] == NULL)
                continue;
            r->arrays[k].data = data[k] + i * stride[k];
            *piece[k] = sizes;
        }
        result = run_in_pieces(r, each * sizes);
    }
    for (int k = 0; k < arrays; k++) {
        r->arrays[k].data = data[k];
        if (piece[k] != NULL)
            *piece[k] = size;
    }
    return result;
}

/*
 * arrays[0] = program(arrays[1], ...), `count` elements, with the GIL released where it pays.  The
 * flags through flags_ret.  -1 and an exception on failure.
 */
static int run_program(core_state *state, const program_object *program, mylib_device device,
                       void *stream, mylib_array *arrays, int64_t count, int *flags_ret)
{
    int on_host = arrays[0].device.kind == MYLIB_CPU;
    run r = {state, program, device, stream, INT64_MAX, arrays, 0};
    *flags_ret = 0;
    if (count == 0)
        return 0;
    if (count < RELEASE_GIL_COUNT && device.kind == MYLIB_CPU) {
        mylib_status status = run_once(&r);
        *flags_ret = r.flags;
        if (status != MYLIB_OK) {
            raise_status(state, status);
            return -1;
        }
        return 0;
    }
    if (on_host && device.kind == MYLIB_CPU) {
        r.most = PIECE_WORK / program->steps;
    } else if (on_host) {
        int64_t nbytes = 0;
        for (int k = 0; k <= program->inputs; k++)
            nbytes += (int64_t)mylib_type_size(arrays[k].type);
        r.most = PIECE_NBYTES / nbytes;
    }
    int result = run_in_pieces(&r, count);
    *flags_ret = r.flags;
    return result;
}

/* ---- Operands ------------------------------------------------------------------------------ */

/*
 * As take_operand(), and NumPy arrays of any dimensions in native byte order, whose dimensions go
 * to *dims; True and False have the type bool.
 */
static int take_input(core_state *state, PyObject *x, operand *o, int64_t **dims)
{
    mylib_type type;
    if (PyArray_CheckExact(x)) {
        if (!PyArray_ISNOTSWAPPED((PyArrayObject *)x) ||
            !type_of_num(PyArray_TYPE((PyArrayObject *)x), &type))
            return 0;
        o->object = x;
        o->memory = NULL;
        o->is_weak = 0;
        *dims = describe_array((PyArrayObject *)x, type, &o->a, *dims);
        return 1;
    }
    if (!take_operand(state, x, o))
        return 0;
    if (o->is_weak && o->number == KIND_BOOL) {
        o->is_weak = 0;
        o->a.type = MYLIB_BOOL;
        o->value[0] = x == Py_True;
    }
    return 1;
}

static PyObject *refuse_input(PyObject *x)
{
    return PyErr_Format(PyExc_TypeError,
                        "an input of a program is an Array, a NumPy array in native byte order or "
                        "a number, not %.100s",
                        Py_TYPE(x)->tp_name);
}

/* What one call of a program works with. */
typedef struct program_call {
    operand operands[MAX_INPUTS];
    mylib_array arrays[1 + MAX_INPUTS];    /* out, inputs */
    int64_t dims[DIMS_OF(1 + MAX_INPUTS)]; /* of the NumPy arrays */
    int64_t *free_dims;
    mylib_device device;
    int on_gpu; /* the arrays are */
    PyObject *stream;
} program_call;

/*
 * Completes a call whose operands are taken: the values of weak numbers, the place, the stream.
 * `device` is where host arrays are computed.  0: not a case for programs, or with an exception a
 * number that does not fit, or two devices.
 */
static int place_operands(core_state *state, const program_object *p, mylib_device device,
                          program_call *c)
{
    c->on_gpu = 0;
    c->stream = NULL;
    c->device = device;
    int has_host_array = 0;
    for (int k = 0; k < p->inputs; k++) {
        operand *o = &c->operands[k];
        if (o->is_weak && take_value(state, o, p->input_types[k]) < 0)
            return 0;
        c->arrays[1 + k] = o->a;
        c->on_gpu |= o->memory != NULL;
        has_host_array |= o->memory == NULL && o->a.ndim > 0;
    }
    if (!c->on_gpu)
        return 1;
    return !has_host_array && common_device(c->operands, p->inputs, &c->device) &&
           current_stream(state, c->device, &c->stream) == 0;
}

/* Notes what the call's stream uses.  -1 and an exception on failure. */
static int note_uses(const program_object *p, program_call *c, PyObject *out)
{
    if (!c->on_gpu)
        return 0;
    for (int k = 0; k < p->inputs; k++)
        if (c->operands[k].memory != NULL && note_use(c->operands[k].memory, c->stream) < 0)
            return -1;
    return note_use(((array_object *)out)->memory, c->stream);
}

/* A NumPy array of a shape; order 'C', 'F' or 'K', the inputs'. */
static PyObject *new_host_output(const mylib_array *in, int inputs, int ndim, int64_t *shape,
                                 mylib_type type, char order)
{
    int64_t strides[NPY_MAXDIMS];
    if (ndim < 2 || order != 'K')
        return PyArray_EMPTY(ndim, (npy_intp *)shape, num_of_type(type), order == 'F');
    output_strides(in, inputs, ndim, shape, type, strides);
    return PyArray_NewFromDescr(&PyArray_Type, PyArray_DescrFromType(num_of_type(type)), ndim,
                                (npy_intp *)shape, (npy_intp *)strides, NULL, 0, NULL);
}

static PyObject *new_gpu_output(core_state *state, const program_call *c, int inputs, int ndim,
                                const int64_t *shape, mylib_type type, char order)
{
    int64_t strides[MYLIB_MAX_NDIM], stride = (int64_t)mylib_type_size(type);
    if (order == 'K')
        output_strides(&c->arrays[1], inputs, ndim, shape, type, strides);
    for (int d = 0; d < ndim && order == 'F'; d++) {
        strides[d] = stride;
        stride *= shape[d] != 0 ? shape[d] : 1;
    }
    return new_array(state, c->device, c->stream, type, ndim, shape, order == 'C' ? NULL : strides);
}

/* Whether `out` can be written as it is: type, shape, place, and no overlap but an exact one. */
static int is_plain_output(core_state *state, const program_object *p, program_call *c,
                           PyObject *out, int ndim, const int64_t *shape)
{
    mylib_type type;
    if (c->on_gpu) {
        if (!is_array(state, out) || ((array_object *)out)->is_readonly ||
            ((array_object *)out)->a.device.index != c->device.index)
            return 0;
        c->arrays[0] = ((array_object *)out)->a;
    } else {
        if (!PyArray_CheckExact(out) || !type_of_num(PyArray_TYPE((PyArrayObject *)out), &type) ||
            !PyArray_ISNOTSWAPPED((PyArrayObject *)out) ||
            !PyArray_ISWRITEABLE((PyArrayObject *)out))
            return 0;
        describe_array((PyArrayObject *)out, type, &c->arrays[0], c->free_dims);
    }
    const mylib_array *a = &c->arrays[0];
    if (a->type != p->result_type || a->ndim != ndim)
        return 0;
    if (ndim > 0 && memcmp(a->shape, shape, (size_t)ndim * sizeof *shape) != 0)
        return 0;
    for (int d = 0; d < ndim; d++)
        if (shape[d] == 0)
            return 1;
    if (overlaps_itself(a))
        return 0;
    for (int k = 0; k < p->inputs; k++)
        if (a->device.kind == c->arrays[1 + k].device.kind && needs_copy(a, &c->arrays[1 + k]))
            return 0;
    return 1;
}

/*
 * Computes a call whose operands are taken, into `out` or, when that is NULL, a new array (a NumPy
 * scalar for a host result without dimensions).  `order`: 'C', 'F' or 'K'.  NULL without an
 * exception: host arrays among Arrays, shapes that do not broadcast, or an `out` that needs care.
 */
static PyObject *compute(core_state *state, const program_object *p, mylib_device device,
                         char order, program_call *c, PyObject *out)
{
    int64_t shape[MYLIB_MAX_NDIM];
    int ndim, flags;
    PyObject *result = NULL;

    if (!place_operands(state, p, device, c))
        return NULL;
    if (!broadcast(&c->arrays[1], p->inputs, &ndim, shape))
        goto out;
    if (out != NULL) {
        if (!is_plain_output(state, p, c, out, ndim, shape))
            goto out;
        result = Py_NewRef(out);
    } else if (c->on_gpu) {
        result = new_gpu_output(state, c, p->inputs, ndim, shape, p->result_type, order);
        if (result != NULL)
            c->arrays[0] = ((array_object *)result)->a;
    } else {
        result = new_host_output(&c->arrays[1], p->inputs, ndim, shape, p->result_type, order);
        if (result != NULL)
            describe_array((PyArrayObject *)result, p->result_type, &c->arrays[0], c->free_dims);
    }
    if (result == NULL)
        goto out;
    int64_t count = 1;
    for (int d = 0; d < ndim; d++)
        count *= shape[d];
    if (note_uses(p, c, result) < 0 ||
        run_program(state, p, c->device, stream_handle(c->stream), c->arrays, count, &flags) < 0) {
        Py_CLEAR(result);
        goto out;
    }
    if (flags != 0 && !c->on_gpu && report_flags(state->program_flags, flags) < 0)
        Py_CLEAR(result);
    else if (out == NULL && !c->on_gpu)
        result = PyArray_Return((PyArrayObject *)result);
out:
    Py_CLEAR(c->stream);
    return result;
}

/* Takes a tuple of a program's inputs; -1 and an exception on failure. */
static int take_inputs(core_state *state, const program_object *p, PyObject *inputs,
                       program_call *c)
{
    if (PyTuple_GET_SIZE(inputs) != p->inputs) {
        PyErr_Format(PyExc_TypeError, "the program has %d inputs, %zd were given", p->inputs,
                     PyTuple_GET_SIZE(inputs));
        return -1;
    }
    c->free_dims = c->dims;
    for (int k = 0; k < p->inputs; k++) {
        PyObject *x = PyTuple_GET_ITEM(inputs, k);
        if (!take_input(state, x, &c->operands[k], &c->free_dims)) {
            if (!PyErr_Occurred())
                refuse_input(x);
            return -1;
        }
    }
    return 0;
}

PyDoc_STRVAR(program_call_doc,
             "call($self, ordinal, order, out, inputs, /)\n--\n\n"
             "The program of a tuple of inputs: Arrays of one GPU, or NumPy arrays, which are "
             "computed on cuda:`ordinal`, or on the CPU when it is -1; numbers among them.  Into "
             "`out`, or when that is None a new array of order \"C\", \"F\" or \"K\" (a NumPy "
             "scalar without dimensions).  np.errstate hears of the flags.  NotImplemented for "
             "shapes that do not broadcast, and for an `out` of another type, shape or place, or "
             "that overlaps an input otherwise than exactly.");
static PyObject *program_call_method(PyObject *object, PyObject *args)
{
    core_state *state = core_state_of(Py_TYPE(object));
    const program_object *p = (program_object *)object;
    program_call c;
    int ordinal, order;
    PyObject *out, *inputs;
    if (!PyArg_ParseTuple(args, "iCOO!:call", &ordinal, &order, &out, &PyTuple_Type, &inputs) ||
        take_inputs(state, p, inputs, &c) < 0)
        return NULL;
    PyObject *result =
        compute(state, p, device_of_ordinal(ordinal), (char)order, &c, out != Py_None ? out : NULL);
    return result != NULL || PyErr_Occurred() ? result : Py_NewRef(Py_NotImplemented);
}

/*
 * Reduces a placed call to arrays[0]; np.errstate hears of the flags.  -1 and an exception on
 * failure.
 */
static int reduce_placed(core_state *state, const program_object *p, long reduction,
                         mylib_type type, int64_t count, program_call *c)
{
    mylib_status status;
    int flags;
    NPY_BEGIN_THREADS_DEF;
    if (count >= RELEASE_GIL_COUNT || c->device.kind != MYLIB_CPU)
        NPY_BEGIN_THREADS;
    mylib_clear_flags();
    status = mylib_program_reduce(p->program, (mylib_reduction)reduction, type, c->device,
                                  stream_handle(c->stream), &c->arrays[0], &c->arrays[1]);
    flags = test_flags();
    NPY_END_THREADS;
    if (status != MYLIB_OK) {
        raise_status(state, status);
        return -1;
    }
    return flags != 0 && !c->on_gpu ? report_flags(state->program_flags, flags) : 0;
}

PyDoc_STRVAR(program_reduce_doc,
             "reduce($self, reduction, dtype, ordinal, out, inputs, /)\n--\n\n"
             "Reduces (0 sum, 1 prod, 2 min, 3 max) the program's values, converted to `dtype`, "
             "into `out`, which has the dimensions of the broadcast inputs, 1 where it is reduced, "
             "or none.  Places, inputs and flags as for call().");
static PyObject *program_reduce(PyObject *object, PyObject *args)
{
    core_state *state = core_state_of(Py_TYPE(object));
    const program_object *p = (program_object *)object;
    program_call c;
    int reduction, ordinal, ndim;
    PyObject *dtype, *out, *inputs, *result = NULL;
    mylib_type type, out_type;
    int64_t shape[MYLIB_MAX_NDIM], count = 1;
    if (!PyArg_ParseTuple(args, "iOiOO!:reduce", &reduction, &dtype, &ordinal, &out, &PyTuple_Type,
                          &inputs) ||
        !take_dtype(dtype, &type) || take_inputs(state, p, inputs, &c) < 0)
        return NULL;
    if (!place_operands(state, p, device_of_ordinal(ordinal), &c)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "reduce(): arrays in host memory and on a GPU");
        return NULL;
    }
    if (c.on_gpu && is_array(state, out)) {
        c.arrays[0] = ((array_object *)out)->a;
    } else if (!c.on_gpu && PyArray_Check(out) && PyArray_ISWRITEABLE((PyArrayObject *)out) &&
               PyArray_ISNOTSWAPPED((PyArrayObject *)out) &&
               type_of_num(PyArray_TYPE((PyArrayObject *)out), &out_type)) {
        describe_array((PyArrayObject *)out, out_type, &c.arrays[0], c.free_dims);
    } else {
        PyErr_SetString(PyExc_TypeError,
                        "reduce(): out must be a writable array where the inputs are");
        goto out;
    }
    if (broadcast(&c.arrays[1], p->inputs, &ndim, shape))
        for (int d = 0; d < ndim; d++)
            count *= shape[d];
    if (note_uses(p, &c, out) == 0 && reduce_placed(state, p, reduction, type, count, &c) == 0)
        result = Py_NewRef(Py_None);
out:
    Py_CLEAR(c.stream);
    return result;
}

/*
 * Reduces all values of a call whose operands are taken to one, a NumPy scalar or an Array without
 * dimensions.  NULL without an exception as compute(), and where there are no elements.
 */
static PyObject *compute_reduced(core_state *state, const program_object *p, int reduction,
                                 mylib_type type, mylib_device device, program_call *c)
{
    int64_t shape[MYLIB_MAX_NDIM], count = 1;
    int ndim;
    PyObject *result = NULL;
    if (!place_operands(state, p, device, c))
        return NULL;
    if (!broadcast(&c->arrays[1], p->inputs, &ndim, shape))
        goto out;
    for (int d = 0; d < ndim; d++)
        count *= shape[d];
    if (count == 0)
        goto out;
    if (c->on_gpu) {
        result = new_array(state, c->device, c->stream, type, 0, NULL, NULL);
        if (result != NULL)
            c->arrays[0] = ((array_object *)result)->a;
    } else {
        result = PyArray_EMPTY(0, NULL, num_of_type(type), 0);
        if (result != NULL)
            describe_array((PyArrayObject *)result, type, &c->arrays[0], c->free_dims);
    }
    if (result != NULL &&
        (note_uses(p, c, result) < 0 || reduce_placed(state, p, reduction, type, count, c) < 0))
        Py_CLEAR(result);
    if (result != NULL && !c->on_gpu)
        result = PyArray_Return((PyArrayObject *)result);
out:
    Py_CLEAR(c->stream);
    return result;
}

static PyObject *program_get_dtype(PyObject *object, void *unused)
{
    (void)unused;
    return (PyObject *)PyArray_DescrFromType(num_of_type(((program_object *)object)->result_type));
}

static PyGetSetDef program_getset[] = {
    {"dtype", program_get_dtype, NULL, "The type of the result.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef program_methods[] = {
    {"call", program_call_method, METH_VARARGS, program_call_doc},
    {"reduce", program_reduce, METH_VARARGS, program_reduce_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot program_slots[] = {
    {Py_tp_doc, "Program(input_dtypes, constants, steps)\n--\n\n"
                "A program of libmylib (mylib_program_create): dtypes; tuples (dtype, value); "
                "tuples (op, dtype, operands)."},
    {Py_tp_new, program_new},
    {Py_tp_traverse, program_traverse},
    {Py_tp_dealloc, program_dealloc},
    {Py_tp_getset, program_getset},
    {Py_tp_methods, program_methods},
    {0, NULL},
};

PyType_Spec program_spec = {
    .name = "pkg.core.Program",
    .basicsize = sizeof(program_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = program_slots,
};

/* ---- Expressions --------------------------------------------------------------------------- */

/* What an input is: a NumPy type number, or a Python number. */
enum { KEY_INT = 64, KEY_FLOAT, KEY_COMPLEX, KEY_BOOL, KEY_NONE = 255 };

#define MAX_PLANS 8

/* A program, and what its inputs are, for one combination of types of the expression's inputs. */
typedef struct plan {
    program_object *program;
    uint8_t key[MAX_INPUTS];
    uint8_t source[MAX_INPUTS]; /* for each input of the program the expression's */
    int reduction;              /* of all values to one, of `type`; -1 for none */
    mylib_type type;
} plan;

typedef struct expression_object {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    core_state *state; /* of the module, which the type keeps alive */
    int inputs;
    int plans;   /* in use */
    int replace; /* the next one to be replaced */
    plan plan[MAX_PLANS];
} expression_object;

static uint8_t key_of(core_state *state, PyObject *x)
{
    if (PyArray_CheckExact(x))
        return PyArray_ISNOTSWAPPED((PyArrayObject *)x) &&
                       PyArray_TYPE((PyArrayObject *)x) < NPY_NTYPES_LEGACY
                   ? (uint8_t)PyArray_TYPE((PyArrayObject *)x)
                   : KEY_NONE;
    if (PyFloat_CheckExact(x))
        return KEY_FLOAT;
    if (PyLong_CheckExact(x))
        return KEY_INT;
    if (PyComplex_CheckExact(x))
        return KEY_COMPLEX;
    if (PyBool_Check(x))
        return KEY_BOOL;
    if (is_array(state, x))
        return (uint8_t)num_of_type(((array_object *)x)->a.type);
    if (PyArray_IsScalar(x, Number) || PyArray_IsScalar(x, Bool)) {
        PyArray_Descr *descr = PyArray_DescrFromScalar(x);
        uint8_t key = descr != NULL ? (uint8_t)descr->type_num : KEY_NONE;
        Py_XDECREF(descr);
        return key;
    }
    return KEY_NONE;
}

/*
 * Copies the plan for a key, which other threads may replace, with a new reference to its program.
 */
static int find_plan(expression_object *self, const uint8_t *key, plan *plan_ret)
{
    int is_found = 0;
    Py_BEGIN_CRITICAL_SECTION((PyObject *)self);
    for (int i = 0; i < self->plans && !is_found; i++) {
        if (memcmp(self->plan[i].key, key, (size_t)self->inputs) == 0) {
            *plan_ret = self->plan[i];
            Py_INCREF(plan_ret->program);
            is_found = 1;
        }
    }
    Py_END_CRITICAL_SECTION();
    return is_found;
}

/* As call_plan(), for a plan that was found. */
static PyObject *follow_plan(core_state *state, const plan *found, PyObject *const *args,
                             PyObject *out)
{
    const program_object *p = found->program;
    program_call c;
    PyObject *default_device;
    int has_array = 0;
    c.free_dims = c.dims;
    for (int k = 0; k < p->inputs; k++) {
        if (!take_input(state, args[found->source[k]], &c.operands[k], &c.free_dims))
            return NULL;
        has_array |= c.operands[k].memory != NULL;
    }
    if (!has_array) {
        if (PyContextVar_Get(state->default_device, Py_None, &default_device) < 0)
            return NULL;
        int is_none = default_device == Py_None;
        Py_DECREF(default_device);
        if (!is_none)
            return NULL;
    }
    mylib_device cpu = {MYLIB_CPU, 0};
    if (found->reduction < 0)
        return compute(state, p, cpu, 'K', &c, out);
    return out == NULL ? compute_reduced(state, p, found->reduction, found->type, cpu, &c) : NULL;
}

/* NULL without an exception: pkg._expressions has to see to it. */
static PyObject *call_plan(core_state *state, expression_object *self, PyObject *const *args,
                           PyObject *out)
{
    uint8_t key[MAX_INPUTS];
    plan found;

    for (int k = 0; k < self->inputs; k++)
        if ((key[k] = key_of(state, args[k])) == KEY_NONE)
            return NULL;
    if (!find_plan(self, key, &found))
        return NULL;
    PyObject *result = follow_plan(state, &found, args, out);
    Py_DECREF(found.program);
    if (result == NULL && PyErr_Occurred() && PyErr_ExceptionMatches(state->out_of_range))
        PyErr_Clear(); /* a comparison with a number beyond the type, perhaps */
    return result;
}

static PyObject *call_python(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames)
{
    PyObject *method = PyObject_GetAttrString(self, "_call");
    if (method == NULL)
        return NULL;
    const mylib_mode mode = mylib_enter_mode(); /* in which NumPy converts, too */
    PyObject *result = PyObject_Vectorcall(method, args, (size_t)nargs, kwnames);
    mylib_leave_mode(mode);
    Py_DECREF(method);
    return result;
}

static PyObject *expression_call(PyObject *object, PyObject *const *args, size_t nargsf,
                                 PyObject *kwnames)
{
    expression_object *self = (expression_object *)object;
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf),
               nkw = kwnames != NULL ? PyTuple_GET_SIZE(kwnames) : 0;
    PyObject *out = NULL;
    int is_usual = nargs == self->inputs && nkw == 0;
    if (nargs == self->inputs && nkw == 1 &&
        PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "out") == 0) {
        out = args[nargs] != Py_None ? args[nargs] : NULL;
        is_usual = 1;
    }
    if (is_usual && self->plans > 0) {
        PyObject *result = call_plan(self->state, self, args, out);
        if (result != NULL || PyErr_Occurred())
            return result;
    }
    return call_python(object, args, nargs, kwnames);
}

static PyObject *expression_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args, (void)kwargs; /* the Python half's */
    core_state *state = core_state_of(type);
    expression_object *self = state != NULL ? (expression_object *)type->tp_alloc(type, 0) : NULL;
    if (self != NULL) {
        self->state = state;
        self->vectorcall = expression_call;
        self->inputs = -1; /* no call is usual before remember() */
    }
    return (PyObject *)self;
}

/* Keeps a plan, unless there is one for its key, in place of the oldest when there are too many. */
static void add_plan(expression_object *self, const plan *new, int inputs)
{
    program_object *old = NULL;
    Py_BEGIN_CRITICAL_SECTION((PyObject *)self);
    int is_known = 0;
    self->inputs = inputs;
    for (int i = 0; i < self->plans; i++)
        is_known |= memcmp(self->plan[i].key, new->key, (size_t)inputs) == 0;
    if (!is_known) {
        int place = self->plans < MAX_PLANS ? self->plans++ : self->replace++ % MAX_PLANS;
        old = self->plan[place].program;
        self->plan[place] = *new;
        Py_INCREF(new->program);
    }
    Py_END_CRITICAL_SECTION();
    Py_XDECREF(old);
}

PyDoc_STRVAR(remember_doc,
             "_remember($self, inputs, sources, program, reduction, dtype, /)\n--\n\n"
             "Calls on inputs of the same types as these are `program` of the inputs with the "
             "numbers `sources`; all its values reduced to one of `dtype`, if `reduction` is a "
             "number as for Program.reduce(), and not -1.");
static PyObject *expression_remember(PyObject *object, PyObject *args)
{
    expression_object *self = (expression_object *)object;
    PyObject *inputs, *sources, *program, *dtype;
    plan new = {NULL, {0}, {0}, -1, MYLIB_I8};
    if (!PyArg_ParseTuple(args, "O!O!OiO:_remember", &PyTuple_Type, &inputs, &PyTuple_Type,
                          &sources, &program, &new.reduction, &dtype) ||
        !take_dtype(dtype, &new.type))
        return NULL;
    if (Py_TYPE(program) != self->state->program_type ||
        PyTuple_GET_SIZE(sources) != ((program_object *)program)->inputs ||
        PyTuple_GET_SIZE(inputs) > MAX_INPUTS ||
        (self->inputs >= 0 && self->inputs != PyTuple_GET_SIZE(inputs))) {
        PyErr_SetString(PyExc_ValueError, "_remember(): these do not belong together");
        return NULL;
    }
    new.program = (program_object *)program;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(inputs); k++)
        if ((new.key[k] = key_of(self->state, PyTuple_GET_ITEM(inputs, k))) == KEY_NONE)
            return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(sources); k++) {
        long source = PyLong_AsLong(PyTuple_GET_ITEM(sources, k));
        if (source == -1 && PyErr_Occurred())
            return NULL;
        if (source < 0 || source >= PyTuple_GET_SIZE(inputs)) {
            PyErr_SetString(PyExc_ValueError, "_remember(): no such input");
            return NULL;
        }
        new.source[k] = (uint8_t)source;
    }
    add_plan(self, &new, (int)PyTuple_GET_SIZE(inputs));
    Py_RETURN_NONE;
}

static int expression_traverse(PyObject *object, visitproc visit, void *arg)
{
    const expression_object *self = (expression_object *)object;
    Py_VISIT(Py_TYPE(object));
    for (int i = 0; i < self->plans; i++)
        Py_VISIT(self->plan[i].program);
    return 0;
}

static void expression_dealloc(PyObject *object)
{
    expression_object *self = (expression_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    for (int i = 0; i < self->plans; i++)
        Py_CLEAR(self->plan[i].program);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMemberDef expression_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(expression_object, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef expression_methods[] = {
    {"_remember", expression_remember, METH_VARARGS, remember_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot expression_slots[] = {
    {Py_tp_doc, "What pkg.Expression is built on."},
    {Py_tp_new, expression_new},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, expression_members},
    {Py_tp_methods, expression_methods},
    {Py_tp_traverse, expression_traverse},
    {Py_tp_dealloc, expression_dealloc},
    {0, NULL},
};

PyType_Spec expression_spec = {
    .name = "pkg.core.ExpressionBase",
    .basicsize = sizeof(expression_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
             Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = expression_slots,
};
