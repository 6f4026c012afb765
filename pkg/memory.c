/*
 * memory.c - see memory.h.
 */
#include "memory.h"

#include <stddef.h>
#include <stdlib.h>

#include <structmember.h> /* Python before 3.12 */

/* ---- Streams ---- */

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
    WITHOUT_GIL(status = mylib_stream_create(stream->device, &stream->handle));
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
    PyObject_GC_UnTrack(object);
    if (stream->weakrefs != NULL)
        PyObject_ClearWeakRefs(object);
    if (stream->is_ours)
        (void)mylib_stream_destroy(stream->device, stream->handle);
    Py_CLEAR(stream->owner);
    free_object(object);
}

static PyObject *stream_synchronize(PyObject *object, PyObject *unused)
{
    stream_object *stream = (stream_object *)object;
    mylib_status status;
    (void)unused;
    WITHOUT_GIL(status = mylib_synchronize(stream->device, stream->handle));
    return none_or_raise(core_state_of(Py_TYPE(object)), status);
}

static PyObject *stream_wait(PyObject *object, PyObject *argument)
{
    stream_object *stream = (stream_object *)object, *other = (stream_object *)argument;
    if (Py_TYPE(argument) != Py_TYPE(object))
        return PyErr_Format(PyExc_TypeError, "wait() takes a Stream, not %.100s",
                            Py_TYPE(argument)->tp_name);
    mylib_status status =
        mylib_stream_wait(stream->device, stream->handle, other->device, other->handle);
    return none_or_raise(core_state_of(Py_TYPE(object)), status);
}

static PyMemberDef stream_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(stream_object, weakrefs), READONLY, NULL},
    {"handle", T_ULONGLONG, offsetof(stream_object, handle), READONLY,
     "The cudaStream_t, as an int; 0 is the default stream."},
    {"ordinal", T_INT, offsetof(stream_object, device.index), READONLY,
     "The number of the stream's GPU."},
    {NULL, 0, 0, 0, NULL},
};
static PyMethodDef stream_methods[] = {
    {"synchronize", stream_synchronize, METH_NOARGS, NULL},
    {"wait", stream_wait, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot stream_slots[] = {
    {Py_tp_new, stream_new},         {Py_tp_traverse, stream_traverse},
    {Py_tp_dealloc, stream_dealloc}, {Py_tp_members, stream_members},
    {Py_tp_methods, stream_methods}, {0, NULL},
};
PyType_Spec stream_spec = {
    .name = "pkg.core.Stream",
    .basicsize = sizeof(stream_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = stream_slots,
};

/* ---- Memory ---- */

static void *user_handle(PyObject *user) { return user != Py_None ? stream_handle(user) : NULL; }

/* Does note_use(), within a critical section. */
static int add_user(memory_object *m, PyObject *stream)
{
    if (m->users == NULL && (m->users = PyList_New(0)) == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(m->users); i++)
        if (user_handle(PyList_GET_ITEM(m->users, i)) == stream_handle(stream))
            return 0;
    return PyList_Append(m->users, stream != NULL ? stream : Py_None);
}

/*
 * The default stream stands for handle 2, which is another stream in each thread: it runs after all
 * of these, whichever thread frees the memory.
 */
static PyObject *lasting(PyObject *stream)
{
    return stream_handle(stream) == (void *)2 ? NULL : stream;
}

int note_use(PyObject *memory, PyObject *stream)
{
    memory_object *m = (memory_object *)memory;
    int result;
    stream = lasting(stream);
    if (stream_handle(m->stream) == stream_handle(stream))
        return 0;
    Py_BEGIN_CRITICAL_SECTION(memory);
    result = add_user(m, stream);
    Py_END_CRITICAL_SECTION();
    return result;
}

static void synchronize(mylib_device device, void *stream)
{
    WITHOUT_GIL(mylib_synchronize(device, stream));
}

/*
 * Makes the stream on which the memory is freed, or used next, wait for all other streams that use
 * it.  The host waits only if a foreign owner does not tell its stream.
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
 * Ends the uses before the garbage collector breaks a cycle, which may clear what they need.  The
 * default stream replaces a foreign one.
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
    PyObject *exception_type, *exception, *traceback;
    PyObject_GC_UnTrack(object);
    end_uses(m);
    PyErr_Fetch(&exception_type, &exception, &traceback);
    /* Ignore failures: at the process's end, or with a lost context, nothing is left to free. */
    if (m->owner == NULL && m->data != NULL)
        (void)mylib_free(m->device, m->data, stream_handle(m->stream));
    Py_CLEAR(m->owner);
    Py_CLEAR(m->stream);
    PyErr_Restore(exception_type, exception, traceback);
    free_object(object);
}

PyObject *new_memory(core_state *state, mylib_device device, void *data, PyObject *owner,
                     PyObject *stream, int owner_is_on_stream)
{
    memory_object *m = PyObject_GC_New(memory_object, state->memory_type);
    if (m == NULL)
        return NULL;
    m->data = data;
    m->device = device;
    m->owner = Py_XNewRef(owner);
    m->stream = Py_XNewRef(lasting(stream));
    m->owner_is_on_stream = owner_is_on_stream;
    m->users = NULL;
    PyObject_GC_Track(m);
    return (PyObject *)m;
}

/* Collects garbage even if the program has disabled it: PyGC_Collect() does not. */
static void collect_garbage(void)
{
    PyObject *gc = PyImport_ImportModule("gc");
    PyObject *count = gc != NULL ? PyObject_CallMethod(gc, "collect", NULL) : NULL;
    if (count == NULL)
        PyErr_Clear(); /* the caller reports the missing memory */
    Py_XDECREF(count);
    Py_XDECREF(gc);
}

static PyObject *allocate(core_state *state, mylib_device device, size_t nbytes, PyObject *stream)
{
    PyObject *memory = new_memory(state, device, NULL, NULL, stream, 1);
    if (memory == NULL)
        return NULL;
    void *data;
    mylib_status status;
    WITHOUT_GIL(status = mylib_alloc(device, nbytes, stream_handle(stream), &data));
    if (status == MYLIB_ERR_NO_MEMORY) {
        collect_garbage(); /* arrays in reference cycles may hold memory */
        WITHOUT_GIL(status = mylib_alloc(device, nbytes, stream_handle(stream), &data));
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

/* Returns the streams (None: the default one) with work on the Array's memory, its own first. */
static PyObject *streams_of(PyObject *module, PyObject *object)
{
    if (!is_array(PyModule_GetState(module), object))
        return PyErr_Format(PyExc_TypeError, "streams_of() takes an Array, not %.100s",
                            Py_TYPE(object)->tp_name);
    const memory_object *m = (memory_object *)((array_object *)object)->memory;
    PyObject *tuple;
    Py_BEGIN_CRITICAL_SECTION((PyObject *)m);
    Py_ssize_t users = m->users != NULL ? PyList_GET_SIZE(m->users) : 0;
    tuple = PyTuple_New(1 + users);
    if (tuple != NULL) {
        PyTuple_SET_ITEM(tuple, 0, Py_NewRef(m->stream != NULL ? m->stream : Py_None));
        for (Py_ssize_t i = 0; i < users; i++)
            PyTuple_SET_ITEM(tuple, 1 + i, Py_NewRef(PyList_GET_ITEM(m->users, i)));
    }
    Py_END_CRITICAL_SECTION();
    return tuple;
}

static PyObject *note_use_function(PyObject *module, PyObject *args)
{
    core_state *state = PyModule_GetState(module);
    PyObject *object, *stream;
    if (!PyArg_ParseTuple(args, "O!O:note_use", state->array_base, &object, &stream))
        return NULL;
    if (note_use(((array_object *)object)->memory,
                 Py_TYPE(stream) == state->stream_type ? stream : NULL) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- Making arrays ---- */

PyObject *new_array_over(core_state *state, PyObject *memory, char *data, mylib_type type, int ndim,
                         const int64_t *shape, const int64_t *strides, int is_readonly)
{
    PyTypeObject *array_kind = state->array_type != NULL ? state->array_type : state->array_base;
    array_object *array = (array_object *)array_kind->tp_alloc(array_kind, 0);
    uint64_t stride = type_sizes[type]; /* for empty arrays it may wrap */

    if (array == NULL) {
        Py_DECREF(memory);
        return NULL;
    }
    array->memory = memory;
    array->is_readonly = (char)is_readonly;
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
    array->count = count_of(ndim, shape);
    for (int d = ndim - 1; d >= 0; d--) {
        array->dims[d] = shape[d];
        array->dims[ndim + d] = strides != NULL ? strides[d] : (int64_t)stride;
        stride *= shape[d] != 0 ? (uint64_t)shape[d] : 1;
    }
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
    for (int d = ndim - 1; d >= 0; d--) {
        if (shape[d] != 0 && __builtin_mul_overflow(nbytes, shape[d], &nbytes))
            return d;
        if (strides != NULL && !is_empty &&
            (strides[d] == INT64_MIN ||
             __builtin_mul_overflow((int64_t)llabs(strides[d]), shape[d] - 1, &reach) ||
             __builtin_add_overflow(extent, reach, &extent)))
            return d;
    }
    return -1;
}

int check_nbytes(int ndim, const int64_t *shape, mylib_type type)
{
    int wrong = find_overflow(ndim, shape, NULL, type_sizes[type]);
    if (wrong >= 0)
        PyErr_Format(PyExc_ValueError,
                     "with the %lld elements of dimension %d the array would have 2^63 bytes or "
                     "more; sizes of 0 do not count",
                     (long long)shape[wrong], wrong);
    return wrong >= 0 ? -1 : 0;
}

void find_strides(int ndim, const int64_t *shape, const int *axes, int64_t itemsize,
                  int64_t *strides)
{
    uint64_t stride = (uint64_t)itemsize;
    for (int i = ndim - 1; i >= 0; i--) {
        strides[axes[i]] = (int64_t)stride;
        stride *= shape[axes[i]] != 0 ? (uint64_t)shape[axes[i]] : 1;
    }
}

PyObject *new_array(core_state *state, mylib_device device, PyObject *stream, mylib_type type,
                    int ndim, const int64_t *shape, const int64_t *strides)
{
    if (check_nbytes(ndim, shape, type) < 0)
        return NULL;
    const size_t nbytes = (size_t)count_of(ndim, shape) * type_sizes[type];
    PyObject *memory = allocate(state, device, nbytes, stream);
    if (memory == NULL)
        return NULL;
    return new_array_over(state, memory, ((memory_object *)memory)->data, type, ndim, shape,
                          strides, 0);
}

PyMethodDef memory_functions[] = {
    {"streams_of", streams_of, METH_O, NULL},
    {"note_use", note_use_function, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
