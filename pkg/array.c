/*
 * array.c - arrays that live on a GPU: the base of pkg.Array, their memory, and the calls of
 * libmylib that take them.
 *
 * What composes (indexing, reshaping, printing, conversion) is Python, in pkg/_array.py.  Here is
 * what a calculation passes through each time: allocation, promotion, operators.
 */
#include "array.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <structmember.h> /* Python before 3.12 */

#define MAX_INPUTS 3

/* ---- Memory -------------------------------------------------------------------------------- */

/* The handle of an element of `users`. */
static void *user_handle(PyObject *user) { return user != Py_None ? stream_handle(user) : NULL; }

/* As note_use(), while nobody else looks at the list. */
static int add_user(memory_object *m, PyObject *stream)
{
    if (m->users == NULL && (m->users = PyList_New(0)) == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(m->users); i++)
        if (user_handle(PyList_GET_ITEM(m->users, i)) == stream_handle(stream))
            return 0;
    return PyList_Append(m->users, stream != NULL ? stream : Py_None);
}

int note_use(PyObject *memory, PyObject *stream)
{
    memory_object *m = (memory_object *)memory;
    int result;
    if (stream_handle(m->stream) == stream_handle(stream))
        return 0;
    Py_BEGIN_CRITICAL_SECTION(memory);
    result = add_user(m, stream);
    Py_END_CRITICAL_SECTION();
    return result;
}

static void synchronize(mylib_device device, void *stream)
{
    Py_BEGIN_ALLOW_THREADS
        mylib_synchronize(device, stream);
    Py_END_ALLOW_THREADS
}

/*
 * Orders what is done with the memory next after all that uses it now: the stream on which it is
 * freed, or used again, waits for the others.  The host waits only where a foreign object does not
 * say on which stream it uses the memory.
 */
static void end_uses(memory_object *m)
{
    PyObject *exception_type, *exception, *traceback;
    PyErr_Fetch(&exception_type, &exception, &traceback);
    int is_ordered = m->owner == NULL || m->owner_is_on_stream;
    for (Py_ssize_t i = 0; m->users != NULL && i < PyList_GET_SIZE(m->users); i++) {
        void *user = user_handle(PyList_GET_ITEM(m->users, i));
        if (is_ordered)
            (void)mylib_stream_wait(m->device, stream_handle(m->stream), m->device, user);
        else
            synchronize(m->device, user);
    }
    if (!is_ordered)
        synchronize(m->device, stream_handle(m->stream));
    Py_CLEAR(m->users);
    PyErr_Restore(exception_type, exception, traceback);
}

/*
 * Called before the collector takes a cycle apart: the list of users, or an owner, may go first,
 * and with its owner a foreign stream.  The default stream, after it, then has the memory.
 */
static void memory_finalize(PyObject *object)
{
    memory_object *m = (memory_object *)object;
    end_uses(m);
    if (m->stream != NULL && ((stream_object *)m->stream)->owner != NULL) {
        (void)mylib_stream_wait(m->device, NULL, m->device, stream_handle(m->stream));
        Py_CLEAR(m->stream);
    }
}

static int memory_traverse(PyObject *object, visitproc visit, void *arg)
{
    memory_object *m = (memory_object *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(m->owner);
    Py_VISIT(m->stream);
    Py_VISIT(m->users);
    return 0;
}

static void memory_dealloc(PyObject *object)
{
    memory_object *m = (memory_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject *exception_type, *exception, *traceback;
    PyObject_GC_UnTrack(object);
    end_uses(m);
    PyErr_Fetch(&exception_type, &exception, &traceback);
    /* At the end of the process, or after the context is lost, there is nothing to free. */
    if (m->owner == NULL && m->data != NULL)
        (void)mylib_free(m->device, m->data, stream_handle(m->stream));
    Py_CLEAR(m->owner);
    Py_CLEAR(m->stream);
    PyErr_Restore(exception_type, exception, traceback);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *new_memory(core_state *state, mylib_device device, char *data, PyObject *owner,
                            PyObject *stream)
{
    memory_object *m = PyObject_GC_New(memory_object, state->memory_type);
    if (m == NULL)
        return NULL;
    m->data = data;
    m->device = device;
    m->owner = Py_XNewRef(owner);
    m->stream = Py_XNewRef(stream);
    m->owner_is_on_stream = 1;
    m->users = NULL;
    PyObject_GC_Track(m);
    return (PyObject *)m;
}

PyObject *new_foreign_memory(core_state *state, mylib_device device, void *data, PyObject *owner,
                             PyObject *stream, int owner_is_on_stream)
{
    PyObject *memory = new_memory(state, device, data, owner, stream);
    if (memory != NULL)
        ((memory_object *)memory)->owner_is_on_stream = owner_is_on_stream;
    return memory;
}

/* Uninitialised memory that `stream` may use at once. */
static PyObject *allocate(core_state *state, mylib_device device, size_t nbytes, PyObject *stream)
{
    PyObject *memory = new_memory(state, device, NULL, NULL, stream);
    if (memory == NULL)
        return NULL;
    void *data;
    mylib_status status;
    for (int attempt = 0; attempt < 2; attempt++) {
        Py_BEGIN_ALLOW_THREADS
            status = mylib_alloc(device, nbytes, stream_handle(stream), &data);
        Py_END_ALLOW_THREADS
        if (status != MYLIB_ERR_NO_MEMORY)
            break;
        /* Arrays in reference cycles may hold what is missing. */
        if (attempt == 0)
            PyGC_Collect();
    }
    if (status != MYLIB_OK) {
        Py_DECREF(memory);
        return raise_status(state, status);
    }
    ((memory_object *)memory)->data = data;
    return memory;
}

PyType_Spec memory_spec = {
    .name = "pkg.core.Memory",
    .basicsize = sizeof(memory_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = (PyType_Slot[]){{Py_tp_traverse, memory_traverse},
                             {Py_tp_finalize, memory_finalize},
                             {Py_tp_dealloc, memory_dealloc},
                             {0, NULL}},
};

/* ---- Making arrays ------------------------------------------------------------------------- */

int is_array(core_state *state, PyObject *object)
{
    return PyObject_TypeCheck(object, state->array_base);
}

PyObject *new_array_over(core_state *state, PyObject *memory, char *data, mylib_type type, int ndim,
                         const int64_t *shape, const int64_t *strides, int is_readonly)
{
    PyTypeObject *array_kind = state->array_type != NULL ? state->array_type : state->array_base;
    array_object *array = (array_object *)array_kind->tp_alloc(array_kind, 0);
    uint64_t stride = mylib_type_size(type); /* of arrays without elements it may wrap */

    if (array == NULL) {
        Py_DECREF(memory);
        return NULL;
    }
    array->memory = memory;
    array->is_readonly = is_readonly;
    array->dims = array->inline_dims;
    if (ndim > INLINE_NDIM) {
        array->dims = PyMem_Malloc(2 * (size_t)ndim * sizeof *array->dims);
        if (array->dims == NULL) {
            Py_DECREF(array);
            return PyErr_NoMemory();
        }
    }
    array->a = (mylib_array){
        data, ((memory_object *)memory)->device, type, ndim, array->dims, array->dims + ndim};
    array->count = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        array->dims[d] = shape[d];
        array->dims[ndim + d] = strides != NULL ? strides[d] : (int64_t)stride;
        stride *= shape[d] != 0 ? (uint64_t)shape[d] : 1;
    }
    for (int d = 0; d < ndim && array->count != 0; d++)
        array->count = shape[d] != 0 ? array->count * shape[d] : 0;
    return (PyObject *)array;
}

int find_overflow(int ndim, const int64_t *shape, const int64_t *strides, int64_t itemsize)
{
    int64_t nbytes = itemsize, extent = itemsize, reach;
    int is_empty = 0;
    for (int d = 0; d < ndim; d++) {
        if (shape[d] < 0)
            return d;
        is_empty |= shape[d] == 0;
    }
    for (int d = ndim - 1; d >= 0 && !is_empty; d--) {
        if (__builtin_mul_overflow(nbytes, shape[d], &nbytes))
            return d;
        if (strides != NULL &&
            (strides[d] == INT64_MIN ||
             __builtin_mul_overflow((int64_t)llabs(strides[d]), shape[d] - 1, &reach) ||
             __builtin_add_overflow(extent, reach, &extent)))
            return d;
    }
    return -1;
}

PyObject *new_array(core_state *state, mylib_device device, PyObject *stream, mylib_type type,
                    int ndim, const int64_t *shape, const int64_t *strides)
{
    int64_t nbytes = (int64_t)mylib_type_size(type);
    int is_empty = 0, overflows = 0;
    for (int d = 0; d < ndim; d++)
        is_empty |= shape[d] == 0;
    for (int d = 0; d < ndim && !is_empty; d++)
        overflows |= __builtin_mul_overflow(nbytes, shape[d], &nbytes);
    if (overflows) {
        PyErr_SetString(PyExc_MemoryError, "the array would have more than 2^63 bytes");
        return NULL;
    }
    PyObject *memory = allocate(state, device, is_empty ? 0 : (size_t)nbytes, stream);
    if (memory == NULL)
        return NULL;
    return new_array_over(state, memory, ((memory_object *)memory)->data, type, ndim, shape,
                          strides, 0);
}

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

/* ---- Promotion ----------------------------------------------------------------------------- */

static kind kind_of_type(mylib_type type)
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

/* The type that NumPy promotes two types to; 0 and an exception on failure. */
static int promote(mylib_type a, mylib_type b, mylib_type *type_ret)
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

/* What a weak number of a kind does to a type. */
static mylib_type promote_weak(mylib_type type, kind number)
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

/* ---- Operands ------------------------------------------------------------------------------ */

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

/* ---- Element-wise operations --------------------------------------------------------------- */

/*
 * op(*args), into `out` when it is not NULL.  `is_true_division`: integers are divided as f64.
 * NULL without an exception: pkg._array.call has to see to it (other kinds of operands, an output
 * that needs conversion or overlaps, shapes that do not broadcast).
 */
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

/* pkg._array.call(index, is_true_division, args, out): what map_arrays() leaves. */
PyObject *call_array_general(core_state *state, mylib_op op, int is_true_division,
                             PyObject *const *args, PyObject *out)
{
    int nin = mylib_op_arity(op);
    if (state->array_call == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "import pkg, not pkg.core alone");
        return NULL;
    }
    PyObject *tuple = nin == 2 ? PyTuple_Pack(2, args[0], args[1]) : PyTuple_Pack(1, args[0]);
    if (tuple == NULL)
        return NULL;
    const mylib_mode mode = mylib_enter_mode(); /* in which NumPy converts, too */
    PyObject *result = PyObject_CallFunction(state->array_call, "iiOO", (int)op, is_true_division,
                                             tuple, out != NULL ? out : Py_None);
    mylib_leave_mode(mode);
    Py_DECREF(tuple);
    return result;
}

/* ---- Operators ----------------------------------------------------------------------------- */

/* The state of the module to which one of a slot's operands belongs; `b` may be NULL. */
static core_state *state_of_operands(PyObject *a, PyObject *b)
{
    /* Numbers and NumPy's arrays have static types, of no module: to look there is slow. */
    if (b != NULL && !PyType_HasFeature(Py_TYPE(a), Py_TPFLAGS_HEAPTYPE))
        return core_state_of(Py_TYPE(b));
    core_state *state = core_state_of(Py_TYPE(a));
    if (state == NULL && b != NULL) {
        PyErr_Clear();
        state = core_state_of(Py_TYPE(b));
    }
    return state;
}

static PyObject *apply(mylib_op op, int is_true_division, PyObject *a, PyObject *b, PyObject *out)
{
    PyObject *args[2] = {a, b};
    core_state *state = state_of_operands(a, b);
    if (state == NULL)
        return NULL;
    PyObject *result = map_arrays(state, op, is_true_division, args, out);
    if (result != NULL || PyErr_Occurred())
        return result;
    return call_array_general(state, op, is_true_division, args, out);
}

#define BINARY_SLOTS(name, op, is_true_division)                                                   \
    static PyObject *array_##name(PyObject *a, PyObject *b)                                        \
    {                                                                                              \
        return apply(MYLIB_OP_##op, is_true_division, a, b, NULL);                                 \
    }                                                                                              \
    static PyObject *array_inplace_##name(PyObject *a, PyObject *b)                                \
    {                                                                                              \
        return apply(MYLIB_OP_##op, is_true_division, a, b, a);                                    \
    }
BINARY_SLOTS(add, add, 0)
BINARY_SLOTS(subtract, subtract, 0)
BINARY_SLOTS(multiply, multiply, 0)
BINARY_SLOTS(true_divide, divide, 1)
BINARY_SLOTS(floor_divide, floor_divide, 0)
BINARY_SLOTS(remainder, remainder, 0)

static PyObject *array_negative(PyObject *a) { return apply(MYLIB_OP_negative, 0, a, NULL, NULL); }
static PyObject *array_absolute(PyObject *a) { return apply(MYLIB_OP_absolute, 0, a, NULL, NULL); }

static PyObject *array_richcompare(PyObject *a, PyObject *b, int comparison)
{
    static const mylib_op ops[] = {
        [Py_LT] = MYLIB_OP_less,    [Py_LE] = MYLIB_OP_less_equal,
        [Py_EQ] = MYLIB_OP_equal,   [Py_NE] = MYLIB_OP_not_equal,
        [Py_GT] = MYLIB_OP_greater, [Py_GE] = MYLIB_OP_greater_equal,
    };
    return apply(ops[comparison], 0, a, b, NULL);
}

/* ---- Attributes ---------------------------------------------------------------------------- */

static PyObject *tuple_of(int ndim, const int64_t *values)
{
    PyObject *tuple = PyTuple_New(ndim);
    for (int d = 0; tuple != NULL && d < ndim; d++) {
        PyObject *value = PyLong_FromLongLong(values[d]);
        if (value == NULL)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, d, value);
    }
    return tuple;
}

static PyObject *get_shape(PyObject *object, void *unused)
{
    const mylib_array *a = &((array_object *)object)->a;
    (void)unused;
    return tuple_of(a->ndim, a->shape);
}

static PyObject *get_strides(PyObject *object, void *unused)
{
    const mylib_array *a = &((array_object *)object)->a;
    (void)unused;
    return tuple_of(a->ndim, a->strides);
}

static PyObject *get_dtype(PyObject *object, void *unused)
{
    (void)unused;
    return (PyObject *)PyArray_DescrFromType(num_of_type(((array_object *)object)->a.type));
}

static PyObject *get_device(PyObject *object, void *unused)
{
    (void)unused;
    return PyUnicode_FromFormat("cuda:%d", (int)((array_object *)object)->a.device.index);
}

static PyObject *get_ordinal(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromLong(((array_object *)object)->a.device.index);
}

static PyObject *get_pointer(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(((array_object *)object)->a.data);
}

static PyObject *get_ndim(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromLong(((array_object *)object)->a.ndim);
}

static PyObject *get_size(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(((array_object *)object)->count);
}

static PyObject *get_itemsize(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(mylib_type_size(((array_object *)object)->a.type));
}

static PyObject *get_nbytes(PyObject *object, void *unused)
{
    array_object *array = (array_object *)object;
    (void)unused;
    return PyLong_FromLongLong(array->count * (int64_t)mylib_type_size(array->a.type));
}

static int has_order(const array_object *array, int is_fortran)
{
    int64_t stride = (int64_t)mylib_type_size(array->a.type);
    if (array->count == 0)
        return 1;
    for (int i = 0; i < array->a.ndim; i++) {
        int d = is_fortran ? i : array->a.ndim - 1 - i;
        if (array->a.shape[d] != 1 && array->a.strides[d] != stride)
            return 0;
        stride *= array->a.shape[d];
    }
    return 1;
}

static PyObject *get_c_contiguous(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(has_order((array_object *)object, 0));
}

static PyObject *get_f_contiguous(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(has_order((array_object *)object, 1));
}

static PyObject *get_readonly(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((array_object *)object)->is_readonly);
}

/* Arrays without memory there are none. */
static PyObject *array_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)type, (void)args, (void)kwargs;
    PyErr_SetString(PyExc_TypeError,
                    "an Array is made by pkg.asarray(), pkg.zeros(), pkg.empty() and the like");
    return NULL;
}

/*
 * Nothing to clear: a cycle through an Array passes through an object that was changed to make it.
 */
static int array_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((array_object *)object)->memory);
    return 0;
}

static void array_dealloc(PyObject *object)
{
    array_object *array = (array_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (array->weakrefs != NULL)
        PyObject_ClearWeakRefs(object);
    if (array->dims != array->inline_dims)
        PyMem_Free(array->dims);
    Py_CLEAR(array->memory);
    type->tp_free(object);
    Py_DECREF(type);
}

static Py_ssize_t array_length(PyObject *object)
{
    const mylib_array *a = &((array_object *)object)->a;
    if (a->ndim == 0) {
        PyErr_SetString(PyExc_TypeError, "len() of an array without dimensions");
        return -1;
    }
    return (Py_ssize_t)a->shape[0];
}

static PyMemberDef array_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(array_object, weakrefs), READONLY, NULL},
    {"_memory", T_OBJECT_EX, offsetof(array_object, memory), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef array_getset[] = {
    {"shape", get_shape, NULL, "The sizes of the dimensions.", NULL},
    {"strides", get_strides, NULL, "Bytes from one element to the next, for each dimension.", NULL},
    {"dtype", get_dtype, NULL, "The element type, a numpy.dtype.", NULL},
    {"device", get_device, NULL, "The GPU that holds the elements, as \"cuda:0\".", NULL},
    {"ndim", get_ndim, NULL, "The number of dimensions.", NULL},
    {"size", get_size, NULL, "The number of elements.", NULL},
    {"itemsize", get_itemsize, NULL, "Bytes per element.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements together.", NULL},
    {"_ordinal", get_ordinal, NULL, NULL, NULL},
    {"_pointer", get_pointer, NULL, NULL, NULL},
    {"_is_c_contiguous", get_c_contiguous, NULL, NULL, NULL},
    {"_is_f_contiguous", get_f_contiguous, NULL, NULL, NULL},
    {"_is_readonly", get_readonly, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot array_slots[] = {
    {Py_tp_doc, "What pkg.Array is built on."},
    {Py_tp_new, array_new},
    {Py_tp_traverse, array_traverse},
    {Py_tp_dealloc, array_dealloc},
    {Py_tp_members, array_members},
    {Py_tp_getset, array_getset},
    {Py_tp_richcompare, array_richcompare},
    {Py_tp_hash, PyObject_HashNotImplemented},
    {Py_nb_add, array_add},
    {Py_nb_subtract, array_subtract},
    {Py_nb_multiply, array_multiply},
    {Py_nb_true_divide, array_true_divide},
    {Py_nb_floor_divide, array_floor_divide},
    {Py_nb_remainder, array_remainder},
    {Py_nb_inplace_add, array_inplace_add},
    {Py_nb_inplace_subtract, array_inplace_subtract},
    {Py_nb_inplace_multiply, array_inplace_multiply},
    {Py_nb_inplace_true_divide, array_inplace_true_divide},
    {Py_nb_inplace_floor_divide, array_inplace_floor_divide},
    {Py_nb_inplace_remainder, array_inplace_remainder},
    {Py_nb_negative, array_negative},
    {Py_nb_absolute, array_absolute},
    {Py_sq_length, array_length},
    {0, NULL},
};

PyType_Spec array_spec = {
    .name = "pkg.core.ArrayBase",
    .basicsize = sizeof(array_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = array_slots,
};

/* ---- Streams ------------------------------------------------------------------------------- */

int current_stream(core_state *state, mylib_device device, PyObject **stream_ret)
{
    PyObject *stream;
    *stream_ret = NULL;
    if (PyContextVar_Get(state->current_stream, Py_None, &stream) < 0)
        return -1;
    if (stream != Py_None && Py_TYPE(stream) == state->stream_type &&
        ((stream_object *)stream)->device.index == device.index &&
        ((stream_object *)stream)->handle != NULL)
        *stream_ret = stream;
    else
        Py_DECREF(stream);
    return 0;
}

static PyObject *stream_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ordinal", "handle", "owner", NULL};
    int ordinal;
    PyObject *handle = Py_None, *owner = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "i|OO:Stream", names, &ordinal, &handle, &owner))
        return NULL;
    stream_object *stream = (stream_object *)type->tp_alloc(type, 0);
    if (stream == NULL)
        return NULL;
    stream->device = (mylib_device){MYLIB_CUDA, ordinal};
    if (handle != Py_None) {
        stream->handle = PyLong_AsVoidPtr(handle);
        stream->owner = owner != Py_None ? Py_NewRef(owner) : NULL;
        if (stream->handle == NULL && PyErr_Occurred()) {
            Py_DECREF(stream);
            return NULL;
        }
        return (PyObject *)stream;
    }
    mylib_status status;
    Py_BEGIN_ALLOW_THREADS
        status = mylib_stream_create(stream->device, &stream->handle);
    Py_END_ALLOW_THREADS
    if (status != MYLIB_OK) {
        Py_DECREF(stream);
        return raise_status(core_state_of(type), status);
    }
    stream->is_ours = 1;
    return (PyObject *)stream;
}

static int stream_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((stream_object *)object)->owner);
    return 0;
}

static void stream_dealloc(PyObject *object)
{
    stream_object *stream = (stream_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (stream->weakrefs != NULL)
        PyObject_ClearWeakRefs(object);
    if (stream->is_ours)
        (void)mylib_stream_destroy(stream->device, stream->handle);
    Py_CLEAR(stream->owner);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *stream_synchronize(PyObject *object, PyObject *unused)
{
    stream_object *stream = (stream_object *)object;
    mylib_status status;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
        status = mylib_synchronize(stream->device, stream->handle);
    Py_END_ALLOW_THREADS
    return status == MYLIB_OK ? Py_NewRef(Py_None)
                              : raise_status(core_state_of(Py_TYPE(object)), status);
}

static PyObject *stream_wait(PyObject *object, PyObject *argument)
{
    stream_object *stream = (stream_object *)object, *other = (stream_object *)argument;
    if (Py_TYPE(argument) != Py_TYPE(object))
        return PyErr_Format(PyExc_TypeError, "wait() takes a Stream, not %.100s",
                            Py_TYPE(argument)->tp_name);
    mylib_status status =
        mylib_stream_wait(stream->device, stream->handle, other->device, other->handle);
    return status == MYLIB_OK ? Py_NewRef(Py_None)
                              : raise_status(core_state_of(Py_TYPE(object)), status);
}

static PyObject *stream_get_handle(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(((stream_object *)object)->handle);
}

static PyObject *stream_get_ordinal(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromLong(((stream_object *)object)->device.index);
}

static PyMemberDef stream_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(stream_object, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyGetSetDef stream_getset[] = {
    {"handle", stream_get_handle, NULL, "The cudaStream_t, as an int; 0 is the default stream.",
     NULL},
    {"ordinal", stream_get_ordinal, NULL, "The number of the stream's GPU.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyMethodDef stream_methods[] = {
    {"synchronize", stream_synchronize, METH_NOARGS,
     "synchronize($self, /)\n--\n\n"
     "Waits until the stream has done all its work; CudaError if some of it failed."},
    {"wait", stream_wait, METH_O,
     "wait($self, other, /)\n--\n\n"
     "What this stream is given from now on waits for what `other` has been given so far."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot stream_slots[] = {
    {Py_tp_new, stream_new},
    {Py_tp_traverse, stream_traverse},
    {Py_tp_dealloc, stream_dealloc},
    {Py_tp_members, stream_members},
    {Py_tp_getset, stream_getset},
    {Py_tp_methods, stream_methods},
    {0, NULL},
};
PyType_Spec stream_spec = {
    .name = "pkg.core.Stream",
    .basicsize = sizeof(stream_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = stream_slots,
};

/* ---- Functions ----------------------------------------------------------------------------- */

/* A sequence of ints; -1 and an exception on failure, else their number. */
static int take_dims(PyObject *sequence, int64_t dims[MYLIB_MAX_NDIM])
{
    /* A tuple of our own: __index__ of an item may change a list. */
    PyObject *tuple = PySequence_Tuple(sequence);
    if (tuple == NULL)
        return -1;
    Py_ssize_t ndim = PyTuple_GET_SIZE(tuple);
    if (ndim > MYLIB_MAX_NDIM) {
        PyErr_Format(PyExc_ValueError, "%zd dimensions: at most %d are supported", ndim,
                     MYLIB_MAX_NDIM);
        ndim = -1;
    }
    for (Py_ssize_t d = 0; d < ndim; d++) {
        dims[d] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, d));
        if (dims[d] == -1 && PyErr_Occurred())
            ndim = -1;
    }
    Py_DECREF(tuple);
    return (int)ndim;
}

int take_dtype(PyObject *object, mylib_type *type_ret)
{
    PyArray_Descr *descr = NULL;
    if (!PyArray_DescrConverter(object, &descr))
        return 0;
    int is_known = type_of_num(descr->type_num, type_ret) && PyArray_ISNBO(descr->byteorder);
    if (!is_known)
        PyErr_Format(PyExc_TypeError,
                     "arrays on a GPU have elements of bool, int8 to int64, uint8 to uint64, "
                     "float16 to float64, complex64 or complex128, not %R",
                     descr);
    Py_DECREF(descr);
    return is_known;
}

static int check_sizes(int ndim, const int64_t *shape)
{
    for (int d = 0; d < ndim; d++) {
        if (shape[d] < 0) {
            PyErr_Format(PyExc_ValueError, "negative size %lld in dimension %d",
                         (long long)shape[d], d);
            return -1;
        }
    }
    return 0;
}

PyDoc_STRVAR(empty_doc, "empty(shape, dtype, ordinal, is_fortran, /)\n--\n\n"
                        "A new Array on cuda:`ordinal`, its elements uninitialised.");
static PyObject *empty_function(PyObject *module, PyObject *args)
{
    core_state *state = PyModule_GetState(module);
    PyObject *shape_object, *dtype, *stream, *result;
    int ordinal, is_fortran;
    mylib_type type;
    int64_t shape[MYLIB_MAX_NDIM], strides[MYLIB_MAX_NDIM];
    if (!PyArg_ParseTuple(args, "OOip:empty", &shape_object, &dtype, &ordinal, &is_fortran))
        return NULL;
    int ndim = take_dims(shape_object, shape);
    if (ndim < 0 || check_sizes(ndim, shape) < 0 || !take_dtype(dtype, &type))
        return NULL;
    mylib_device device = {MYLIB_CUDA, ordinal};
    int64_t stride = (int64_t)mylib_type_size(type);
    for (int d = 0; d < ndim && is_fortran; d++) {
        strides[d] = stride;
        stride *= shape[d] != 0 ? shape[d] : 1;
    }
    if (current_stream(state, device, &stream) < 0)
        return NULL;
    result = new_array(state, device, stream, type, ndim, shape, is_fortran ? strides : NULL);
    Py_XDECREF(stream);
    return result;
}

PyDoc_STRVAR(view_doc, "view(array, offset, shape, strides, is_readonly=False, /)\n--\n\n"
                       "An Array over the memory of another: `offset` bytes from its first element "
                       "on.  The caller answers for the view's staying inside.");
static PyObject *view_function(PyObject *module, PyObject *args)
{
    core_state *state = PyModule_GetState(module);
    PyObject *object, *shape_object, *strides_object;
    long long offset;
    int is_readonly = 0;
    int64_t shape[MYLIB_MAX_NDIM], strides[MYLIB_MAX_NDIM];
    if (!PyArg_ParseTuple(args, "O!LOO|p:view", state->array_base, &object, &offset, &shape_object,
                          &strides_object, &is_readonly))
        return NULL;
    array_object *array = (array_object *)object;
    int ndim = take_dims(shape_object, shape);
    if (ndim < 0 || check_sizes(ndim, shape) < 0)
        return NULL;
    int strides_ndim = take_dims(strides_object, strides);
    if (strides_ndim < 0)
        return NULL;
    if (strides_ndim != ndim) {
        PyErr_SetString(PyExc_ValueError, "view(): shape and strides differ in length");
        return NULL;
    }
    return new_array_over(state, Py_NewRef(array->memory), (char *)array->a.data + offset,
                          array->a.type, ndim, shape, strides, is_readonly || array->is_readonly);
}

PyDoc_STRVAR(wrap_doc,
             "wrap(pointer, ordinal, dtype, shape, strides, is_readonly, owner, stream, "
             "/)\n--\n\n"
             "An Array over foreign memory of cuda:`ordinal`, ready on `stream` (a Stream "
             "or None); `owner` is kept while it is used.  strides may be None.");
static PyObject *wrap_function(PyObject *module, PyObject *args)
{
    core_state *state = PyModule_GetState(module);
    PyObject *pointer_object, *dtype, *shape_object, *strides_object, *owner, *stream;
    int ordinal, is_readonly;
    mylib_type type;
    int64_t shape[MYLIB_MAX_NDIM], strides[MYLIB_MAX_NDIM];
    if (!PyArg_ParseTuple(args, "OiOOOpOO:wrap", &pointer_object, &ordinal, &dtype, &shape_object,
                          &strides_object, &is_readonly, &owner, &stream))
        return NULL;
    void *pointer = PyLong_AsVoidPtr(pointer_object);
    if (pointer == NULL && PyErr_Occurred())
        return NULL;
    int ndim = take_dims(shape_object, shape);
    if (ndim < 0 || check_sizes(ndim, shape) < 0 || !take_dtype(dtype, &type))
        return NULL;
    if (strides_object != Py_None) {
        int strides_ndim = take_dims(strides_object, strides);
        if (strides_ndim >= 0 && strides_ndim != ndim)
            PyErr_SetString(PyExc_ValueError, "wrap(): shape and strides differ in length");
        if (strides_ndim != ndim)
            return NULL;
    }
    int wrong = find_overflow(ndim, shape, strides_object != Py_None ? strides : NULL,
                              (int64_t)mylib_type_size(type));
    if (wrong >= 0)
        return PyErr_Format(PyExc_ValueError, "the size or stride of dimension %d is out of range",
                            wrong);
    PyObject *memory =
        new_foreign_memory(state, (mylib_device){MYLIB_CUDA, ordinal}, pointer, owner,
                           Py_TYPE(stream) == state->stream_type ? stream : NULL, 1);
    if (memory == NULL)
        return NULL;
    return new_array_over(state, memory, pointer, type, ndim, shape,
                          strides_object != Py_None ? strides : NULL, is_readonly);
}

/*
 * Describes an Array, or a NumPy array in native byte order, whose dimensions go to *dims; 0 and a
 * TypeError for anything else.
 */
static int take_any_array(core_state *state, PyObject *x, mylib_array *array_ret, int64_t **dims,
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

static int check_writable(core_state *state, PyObject *x)
{
    int is_readonly = is_array(state, x) ? ((array_object *)x)->is_readonly
                                         : !PyArray_ISWRITEABLE((PyArrayObject *)x);
    if (is_readonly)
        PyErr_SetString(PyExc_ValueError, "the output array is read-only");
    return is_readonly ? -1 : 0;
}

/* What all functions over arrays share: args[0] is written, the rest are read. */
typedef struct call {
    mylib_array arrays[1 + MAX_INPUTS];
    int64_t dims[DIMS_OF(1 + MAX_INPUTS)]; /* of the NumPy arrays */
    mylib_device device;                   /* of the first array that is on a GPU, else the CPU */
    PyObject *stream;
} call;

static int begin_call(core_state *state, PyObject *args, Py_ssize_t first, call *c)
{
    Py_ssize_t count = PyTuple_GET_SIZE(args) - first;
    PyObject *memories[1 + MAX_INPUTS];
    int64_t *free_dims = c->dims;
    c->device = (mylib_device){MYLIB_CPU, 0};
    c->stream = NULL;
    if (count < 1 || count > 1 + MAX_INPUTS) {
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

static PyObject *end_call(core_state *state, mylib_status status, call *c)
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

/* ---- Reductions to a new array ------------------------------------------------------------- */

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

PyDoc_STRVAR(pointer_device_doc,
             "pointer_device(pointer, /)\n--\n\n"
             "The ordinal of the GPU that the memory is on; -1 for host memory.");
static PyObject *pointer_device_function(PyObject *module, PyObject *object)
{
    mylib_device device;
    void *pointer = PyLong_AsVoidPtr(object);
    if (pointer == NULL && PyErr_Occurred())
        return NULL;
    mylib_status status;
    Py_BEGIN_ALLOW_THREADS
        status = mylib_pointer_device(pointer, &device);
    Py_END_ALLOW_THREADS
    if (status != MYLIB_OK)
        return raise_status(PyModule_GetState(module), status);
    return PyLong_FromLong(device.kind == MYLIB_CPU ? -1 : device.index);
}

PyDoc_STRVAR(memory_info_doc,
             "memory_info(ordinal, /)\n--\n\n"
             "(used, held, limit or None, free, total) of cuda:`ordinal`, in bytes.");
static PyObject *memory_info_function(PyObject *module, PyObject *object)
{
    mylib_memory_info info;
    long ordinal = PyLong_AsLong(object);
    if (ordinal == -1 && PyErr_Occurred())
        return NULL;
    mylib_status status;
    Py_BEGIN_ALLOW_THREADS
        status = mylib_cuda_memory_info((int)ordinal, &info);
    Py_END_ALLOW_THREADS
    if (status != MYLIB_OK)
        return raise_status(PyModule_GetState(module), status);
    PyObject *limit = info.limit_nbytes == UINT64_MAX
                          ? Py_NewRef(Py_None)
                          : PyLong_FromUnsignedLongLong(info.limit_nbytes);
    return Py_BuildValue(
        "(KKNKK)", (unsigned long long)info.used_nbytes, (unsigned long long)info.held_nbytes,
        limit, (unsigned long long)info.free_nbytes, (unsigned long long)info.total_nbytes);
}

PyDoc_STRVAR(set_memory_limit_doc,
             "set_memory_limit(ordinal, nbytes, /)\n--\n\n"
             "The most that may be allocated on cuda:`ordinal`; None for no limit.");
static PyObject *set_memory_limit_function(PyObject *module, PyObject *args)
{
    int ordinal;
    PyObject *nbytes;
    if (!PyArg_ParseTuple(args, "iO:set_memory_limit", &ordinal, &nbytes))
        return NULL;
    uint64_t limit = UINT64_MAX;
    if (nbytes != Py_None) {
        limit = PyLong_AsUnsignedLongLong(nbytes);
        if (limit == (uint64_t)-1 && PyErr_Occurred())
            return NULL;
    }
    mylib_status status;
    Py_BEGIN_ALLOW_THREADS
        status = mylib_cuda_set_memory_limit(ordinal, limit);
    Py_END_ALLOW_THREADS
    if (status != MYLIB_OK)
        return raise_status(PyModule_GetState(module), status);
    Py_RETURN_NONE;
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

PyDoc_STRVAR(set_array_hooks_doc, "set_array_hooks(array_type, call, /)\n--\n\n"
                                  "The Python half of the arrays (pkg._array).");
static PyObject *set_array_hooks(PyObject *module, PyObject *args)
{
    core_state *state = PyModule_GetState(module);
    PyObject *array_type, *array_call;
    if (!PyArg_ParseTuple(args, "O!O:set_array_hooks", &PyType_Type, &array_type, &array_call))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)array_type, state->array_base)) {
        PyErr_SetString(PyExc_TypeError, "array_type must be a subclass of ArrayBase");
        return NULL;
    }
    /* Not released when set again: other threads may be using them. */
    state->array_type = (PyTypeObject *)Py_NewRef(array_type);
    state->array_call = Py_NewRef(array_call);
    Py_RETURN_NONE;
}

#define FASTCALL(function) ((PyCFunction)(void (*)(void))(function))

PyMethodDef array_functions[] = {
    {"empty", empty_function, METH_VARARGS, empty_doc},
    {"view", view_function, METH_VARARGS, view_doc},
    {"wrap", wrap_function, METH_VARARGS, wrap_doc},
    {"copy", copy_function, METH_VARARGS, copy_doc},
    {"map_arrays", map_arrays_function, METH_VARARGS, map_arrays_doc},
    {"select", select_function, METH_VARARGS, select_doc},
    {"reduce", reduce_function, METH_VARARGS, reduce_doc},
    {"dot", dot_function, METH_VARARGS, dot_doc},
    {"reduce_new", FASTCALL(reduce_new_function), METH_FASTCALL, reduce_new_doc},
    {"trace_new", FASTCALL(trace_new_function), METH_FASTCALL, trace_new_doc},
    {"dot_new", FASTCALL(dot_new_function), METH_FASTCALL, dot_new_doc},
    {"arange", arange_function, METH_VARARGS, arange_doc},
    {"pointer_device", pointer_device_function, METH_O, pointer_device_doc},
    {"memory_info", memory_info_function, METH_O, memory_info_doc},
    {"set_memory_limit", set_memory_limit_function, METH_VARARGS, set_memory_limit_doc},
    {"set_array_hooks", set_array_hooks, METH_VARARGS, set_array_hooks_doc},
    {NULL, NULL, 0, NULL},
};
