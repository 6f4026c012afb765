/*
 * dlpack.c - arrays as DLPack capsules, and capsules as arrays, without copying elements.
 *
 * pkg/_interop.py decides about streams, devices and copies.
 */
#include "dlpack.h"

#define TENSOR "dltensor"
#define TENSOR_VERSIONED "dltensor_versioned"
#define HELD "pkg.dltensor"
#define HELD_VERSIONED "pkg.dltensor_versioned"

/* Deletes the tensor of a capsule that nobody has consumed, or that owns foreign memory. */
static void capsule_destructor(PyObject *capsule)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    void *managed = PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule));
    if (PyCapsule_IsValid(capsule, TENSOR) || PyCapsule_IsValid(capsule, HELD)) {
        DLManagedTensor *tensor = managed;
        if (tensor->deleter != NULL)
            tensor->deleter(tensor);
    } else if (PyCapsule_IsValid(capsule, TENSOR_VERSIONED) ||
               PyCapsule_IsValid(capsule, HELD_VERSIONED)) {
        DLManagedTensorVersioned *tensor = managed;
        if (tensor->deleter != NULL)
            tensor->deleter(tensor);
    }
    PyErr_Restore(type, value, traceback);
}

/* ---- Element types ---- */

static DLDataType dtype_of_type(mylib_type type)
{
    uint8_t code = type == MYLIB_BOOL  ? kDLBool
                   : type <= MYLIB_I64 ? kDLInt
                   : type <= MYLIB_U64 ? kDLUInt
                   : type <= MYLIB_F64 ? kDLFloat
                                       : kDLComplex;
    return (DLDataType){code, (uint8_t)(8 * mylib_type_size(type)), 1};
}

static int take_dlpack_type(DLDataType dtype, mylib_type *type_ret)
{
    for (int type = 0; type < MYLIB_TYPE_COUNT; type++) {
        DLDataType own = dtype_of_type((mylib_type)type);
        if (own.code == dtype.code && own.bits == dtype.bits && dtype.lanes == 1) {
            *type_ret = (mylib_type)type;
            return 0;
        }
    }
    PyErr_Format(PyExc_BufferError,
                 "elements of DLPack's type code %d, %d bits, %d lanes are not supported; "
                 "supported are " SUPPORTED_TYPES,
                 (int)dtype.code, (int)dtype.bits, (int)dtype.lanes);
    return -1;
}

/* ---- From an Array ---- */

/* An exported array, until its consumer deletes it. */
typedef struct exported {
    union {
        DLManagedTensor plain;
        DLManagedTensorVersioned versioned;
    } managed;
    PyObject *memory;
    int64_t dims[]; /* shape, strides */
} exported;

/* Frees an exported array.  Consumers call this from any thread, with or without the GIL. */
static void delete_exported(exported *e)
{
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF(e->memory);
    PyMem_Free(e);
    PyGILState_Release(gil);
}

static void delete_plain(DLManagedTensor *self) { delete_exported(self->manager_ctx); }
static void delete_versioned(DLManagedTensorVersioned *self) { delete_exported(self->manager_ctx); }

static PyObject *to_dlpack(PyObject *module, PyObject *args)
{
    core_state *state = PyModule_GetState(module);
    PyObject *object;
    int is_versioned, is_copied = 0;
    if (!PyArg_ParseTuple(args, "O!p|p:to_dlpack", state->array_base, &object, &is_versioned,
                          &is_copied))
        return NULL;
    const array_object *array = (array_object *)object;
    const mylib_array *a = &array->a;
    int64_t itemsize = (int64_t)mylib_type_size(a->type);
    if (array->is_readonly && !is_versioned)
        return PyErr_Format(
            PyExc_BufferError,
            "the array is read-only, which DLPack cannot say before its version 1.0 "
            "(max_version): export a copy");
    exported *e = PyMem_Malloc(sizeof *e + 2 * (size_t)a->ndim * sizeof *e->dims);
    if (e == NULL)
        return PyErr_NoMemory();
    for (int d = 0; d < a->ndim; d++) {
        e->dims[d] = a->shape[d];
        /* Strides of axes of size 1 do not matter, but some consumers refuse negative ones. */
        int is_used = array->count != 0 && a->shape[d] > 1;
        e->dims[a->ndim + d] = is_used ? a->strides[d] / itemsize : 1;
        if (is_used && a->strides[d] % itemsize != 0) {
            PyErr_Format(PyExc_BufferError,
                         "DLPack counts strides in elements, and the stride of %lld bytes in "
                         "dimension %d is no multiple of the %lld bytes of an element: export a "
                         "copy",
                         (long long)a->strides[d], d, (long long)itemsize);
            PyMem_Free(e);
            return NULL;
        }
    }
    DLTensor tensor = {.data = array->count != 0 ? a->data : NULL,
                       .device = {kDLCUDA, a->device.index},
                       .ndim = a->ndim,
                       .dtype = dtype_of_type(a->type),
                       .shape = e->dims,
                       .strides = e->dims + a->ndim};
    if (is_versioned)
        e->managed.versioned = (DLManagedTensorVersioned){
            {DLPACK_MAJOR, DLPACK_MINOR},
            e,
            delete_versioned,
            (array->is_readonly ? DLPACK_FLAG_BITMASK_READ_ONLY : 0) |
                (is_copied ? DLPACK_FLAG_BITMASK_IS_COPIED : 0),
            tensor,
        };
    else
        e->managed.plain = (DLManagedTensor){tensor, e, delete_plain};
    e->memory = Py_NewRef(array->memory);
    PyObject *capsule =
        PyCapsule_New(&e->managed, is_versioned ? TENSOR_VERSIONED : TENSOR, capsule_destructor);
    if (capsule == NULL)
        delete_exported(e);
    return capsule;
}

/* ---- To an Array ---- */

/* Raises BufferError for a tensor that this library cannot use. */
static int check_tensor(const DLTensor *t, mylib_type *type_ret, int64_t *strides,
                        int64_t *count_ret)
{
    if (t->device.device_type != kDLCUDA && t->device.device_type != kDLCUDAManaged) {
        PyErr_Format(PyExc_BufferError,
                     "the tensor is on a device of DLPack's type %d, not on a CUDA GPU",
                     (int)t->device.device_type);
        return -1;
    }
    if (t->ndim < 0 || t->ndim > MYLIB_MAX_NDIM || (t->ndim > 0 && t->shape == NULL)) {
        PyErr_Format(
            PyExc_BufferError,
            "the tensor has %d dimensions (at most %d are supported), or its shape is NULL",
            (int)t->ndim, MYLIB_MAX_NDIM);
        return -1;
    }
    if (take_dlpack_type(t->dtype, type_ret) < 0)
        return -1;
    int64_t itemsize = (int64_t)mylib_type_size(*type_ret);
    int wrong = -1;
    for (int d = t->ndim - 1; d >= 0 && t->strides != NULL; d--)
        if (__builtin_mul_overflow(t->strides[d], itemsize, &strides[d]))
            wrong = d;
    if (wrong < 0)
        wrong = find_overflow(t->ndim, t->shape, t->strides != NULL ? strides : NULL, itemsize);
    if (wrong >= 0) {
        PyErr_Format(PyExc_BufferError, "the size or stride of dimension %d is out of range",
                     wrong);
        return -1;
    }
    *count_ret = count_of(t->ndim, t->shape);
    if (*count_ret == 0)
        return 0;
    uintptr_t begin;
    if (t->data == NULL || __builtin_add_overflow((uintptr_t)t->data, t->byte_offset, &begin)) {
        PyErr_Format(PyExc_BufferError,
                     "the tensor has elements, but its data (%p + %llu) is no address", t->data,
                     (unsigned long long)t->byte_offset);
        return -1;
    }
    if (begin % (uintptr_t)itemsize != 0) {
        PyErr_Format(PyExc_BufferError,
                     "the tensor begins at %p + %llu, which is not aligned to its elements of %lld "
                     "bytes",
                     t->data, (unsigned long long)t->byte_offset, (long long)itemsize);
        return -1;
    }
    return 0;
}

/* Checks the tensor's GPU.  Keeps the GIL: no thread may take the capsule. */
static int check_gpu(const DLTensor *t)
{
    if (mylib_cuda_check_device(t->device.device_id) == MYLIB_OK)
        return 0;
    PyErr_Format(PyExc_BufferError, "the tensor is on cuda:%d: %s", (int)t->device.device_id,
                 mylib_last_message());
    return -1;
}

/*
 * Returns an Array over the GPU memory of a DLPack capsule, which is consumed, ready on `stream` (a
 * Stream, or None).  Before its owner gets it back, `stream` waits for our work if
 * `owner_is_on_stream`, else the host.
 */
static PyObject *from_dlpack(PyObject *module, PyObject *args)
{
    core_state *state = PyModule_GetState(module);
    PyObject *capsule, *stream;
    int owner_is_on_stream, is_readonly = 0;
    void *managed;
    const DLTensor *tensor;
    if (!PyArg_ParseTuple(args, "OOp:from_dlpack", &capsule, &stream, &owner_is_on_stream))
        return NULL;
    if (Py_TYPE(stream) != state->stream_type)
        stream = NULL;

    int is_versioned = PyCapsule_IsValid(capsule, TENSOR_VERSIONED);
    if (is_versioned) {
        DLManagedTensorVersioned *m = managed = PyCapsule_GetPointer(capsule, TENSOR_VERSIONED);
        if (m->version.major > DLPACK_MAJOR)
            return PyErr_Format(PyExc_BufferError,
                                "the capsule is of DLPack %u.%u; versions up to %d are understood",
                                (unsigned)m->version.major, (unsigned)m->version.minor,
                                DLPACK_MAJOR);
        tensor = &m->dl_tensor;
        is_readonly = (m->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
    } else if (PyCapsule_IsValid(capsule, TENSOR)) {
        DLManagedTensor *m = managed = PyCapsule_GetPointer(capsule, TENSOR);
        tensor = &m->dl_tensor;
    } else {
        const char *name = PyCapsule_CheckExact(capsule) ? PyCapsule_GetName(capsule) : NULL;
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError,
                     "expected a capsule named \"dltensor\" or \"dltensor_versioned\", not %.100s "
                     "\"%.100s\"; a capsule can be consumed only once",
                     Py_TYPE(capsule)->tp_name, name != NULL ? name : "");
        return NULL;
    }

    mylib_type type;
    int64_t strides[MYLIB_MAX_NDIM], count;
    if (check_tensor(tensor, &type, strides, &count) < 0 || check_gpu(tensor) < 0)
        return NULL;
    PyObject *held =
        PyCapsule_New(managed, is_versioned ? HELD_VERSIONED : HELD, capsule_destructor);
    if (held == NULL)
        return NULL;
    /* From here on, `held` calls the deleter, and the capsule does not. */
    if (PyCapsule_SetName(capsule, is_versioned ? "used_dltensor_versioned" : "used_dltensor") <
        0) {
        (void)PyCapsule_SetDestructor(held, NULL);
        Py_DECREF(held);
        return NULL;
    }
    char *data = count != 0 ? (char *)tensor->data + tensor->byte_offset : tensor->data;
    PyObject *memory = new_memory(state, (mylib_device){MYLIB_CUDA, tensor->device.device_id}, data,
                                  held, stream, owner_is_on_stream);
    Py_DECREF(held);
    if (memory == NULL)
        return NULL;
    return new_array_over(state, memory, data, type, tensor->ndim, tensor->shape,
                          tensor->strides != NULL ? strides : NULL, is_readonly);
}

PyMethodDef dlpack_functions[] = {
    {"to_dlpack", to_dlpack, METH_VARARGS, NULL},
    {"from_dlpack", from_dlpack, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
