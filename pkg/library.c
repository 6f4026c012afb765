/*
 * library.c - the devices, memory, configuration and limits of libmylib.
 */
#include "library.h"

/* ---- Devices ---- */

/* Returns the ordinal that `device` (a string, or None: the default) names; -1: the CPU. */
static PyObject *parse_device_function(PyObject *module, PyObject *object)
{
    mylib_device device;
    if (parse_device(PyModule_GetState(module), object, &device) < 0)
        return NULL;
    return PyLong_FromLong(ordinal_of_device(device));
}

/* Takes an int, which the library checks. */
static int take_ordinal(PyObject *object, int *ordinal_ret)
{
    long ordinal = PyLong_AsLong(object);
    *ordinal_ret = ordinal < 0 || ordinal > INT32_MAX ? -1 : (int)ordinal;
    return ordinal == -1 && PyErr_Occurred() ? -1 : 0;
}

/* Sets the device of calls that name none: -1 is the CPU, None what the environment says. */
static PyObject *set_process_device_function(PyObject *module, PyObject *object)
{
    core_state *state = PyModule_GetState(module);
    int ordinal = state->environment_device == Py_None ? -1 : UNCHECKED;
    if (object != Py_None && take_ordinal(object, &ordinal) < 0)
        return NULL;
    atomic_store(&state->process_device, ordinal);
    Py_RETURN_NONE;
}

static PyObject *device_count_function(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    int count;
    mylib_status status;
    WITHOUT_GIL(status = mylib_cuda_device_count(&count));
    return status == MYLIB_OK ? Py_BuildValue("(iO)", count, Py_None)
                              : Py_BuildValue("(is)", 0, mylib_last_message());
}

static PyObject *device_info_function(PyObject *module, PyObject *object)
{
    mylib_device_info info;
    mylib_status status;
    int ordinal;
    if (take_ordinal(object, &ordinal) < 0)
        return NULL;
    WITHOUT_GIL(status = mylib_cuda_device_info(ordinal, &info));
    if (status != MYLIB_OK)
        return raise_status(PyModule_GetState(module), status);
    return Py_BuildValue("{sssNsisisisKsK}", "name", info.name, "compute_capability",
                         PyUnicode_FromFormat("%d.%d", info.compute_major, info.compute_minor),
                         "multiprocessors", info.multiprocessors, "driver_version",
                         info.driver_version, "runtime_version", info.runtime_version,
                         "total_nbytes", (unsigned long long)info.total_nbytes, "free_nbytes",
                         (unsigned long long)info.free_nbytes);
}

/* Raises CudaError if cuda:`ordinal` cannot be used; for ALL_GPUS if none can. */
static PyObject *check_device_function(PyObject *module, PyObject *object)
{
    mylib_status status;
    int ordinal;
    if (take_ordinal(object, &ordinal) < 0)
        return NULL;
    WITHOUT_GIL(status = check_ordinal(ordinal));
    return none_or_raise(PyModule_GetState(module), status);
}

static PyObject *pointer_device_function(PyObject *module, PyObject *object)
{
    mylib_device device;
    void *pointer = PyLong_AsVoidPtr(object);
    if (pointer == NULL && PyErr_Occurred())
        return NULL;
    mylib_status status;
    WITHOUT_GIL(status = mylib_pointer_device(pointer, &device));
    if (status != MYLIB_OK)
        return raise_status(PyModule_GetState(module), status);
    return PyLong_FromLong(ordinal_of_device(device));
}

/* Returns (used, held, limit or None, free, total) of cuda:`ordinal`, in bytes. */
static PyObject *memory_info_function(PyObject *module, PyObject *object)
{
    mylib_memory_info info;
    mylib_status status;
    int ordinal;
    if (take_ordinal(object, &ordinal) < 0)
        return NULL;
    WITHOUT_GIL(status = mylib_cuda_memory_info(ordinal, &info));
    if (status != MYLIB_OK)
        return raise_status(PyModule_GetState(module), status);
    PyObject *limit = info.limit_nbytes == UINT64_MAX
                          ? Py_NewRef(Py_None)
                          : PyLong_FromUnsignedLongLong(info.limit_nbytes);
    return Py_BuildValue(
        "(KKNKK)", (unsigned long long)info.used_nbytes, (unsigned long long)info.held_nbytes,
        limit, (unsigned long long)info.free_nbytes, (unsigned long long)info.total_nbytes);
}

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
    WITHOUT_GIL(status = mylib_cuda_set_memory_limit(ordinal, limit));
    return none_or_raise(PyModule_GetState(module), status);
}

/* ---- Configuration and limits ---- */

static PyObject *config_function(PyObject *module, PyObject *Py_UNUSED(unused))
{
    mylib_config c;
    mylib_status status = mylib_get_config(&c);
    if (status != MYLIB_OK)
        return raise_status(PyModule_GetState(module), status);
    return Py_BuildValue("{sssssNsssssssssi}", "version", c.version, "compiler", c.compiler,
                         "has_cuda", PyBool_FromLong(c.has_cuda), "cuda_version", c.cuda_version,
                         "cuda_architectures", c.cuda_architectures, "cuda_searched",
                         c.cuda_searched, "cpu_level", c.cpu_level, "threads", c.threads);
}

/* Restricts the CPU kernels to an x86-64 level, by name; None for the best.  For tests. */
static PyObject *set_cpu_level_function(PyObject *module, PyObject *level)
{
    const char *name = NULL;
    if (level != Py_None && (name = PyUnicode_AsUTF8(level)) == NULL)
        return NULL;
    mylib_status status = mylib_set_cpu_level(name);
    return none_or_raise(PyModule_GetState(module), status);
}

static PyObject *get_num_threads_function(PyObject *module, PyObject *Py_UNUSED(unused))
{
    int threads = 0;
    mylib_status status = mylib_get_num_threads(&threads);
    return status == MYLIB_OK ? PyLong_FromLong(threads)
                              : raise_status(PyModule_GetState(module), status);
}

/* 0 is the default.  Returns the number before. */
static PyObject *set_num_threads_function(PyObject *module, PyObject *args)
{
    int count;
    if (!PyArg_ParseTuple(args, "i:set_num_threads", &count))
        return NULL;
    PyObject *before = get_num_threads_function(module, NULL);
    if (before == NULL)
        return NULL;
    mylib_status status = mylib_set_num_threads(count);
    if (status == MYLIB_OK)
        return before;
    Py_DECREF(before);
    return raise_status(PyModule_GetState(module), status);
}

static PyObject *free_cached_function(PyObject *module, PyObject *Py_UNUSED(unused))
{
    mylib_status status;
    WITHOUT_GIL(status = mylib_free_cached());
    return none_or_raise(PyModule_GetState(module), status);
}

static PyObject *call_in_mode_function(PyObject *Py_UNUSED(module), PyObject *const *args,
                                       Py_ssize_t count, PyObject *kwnames)
{
    if (count < 1)
        return PyErr_Format(PyExc_TypeError, "call_in_mode() takes a function");
    return call_in_mode(args[0], args + 1, count - 1, kwnames);
}

static PyObject *fib_function(PyObject *module, PyObject *n)
{
    uint64_t result;
    unsigned long long value = PyLong_AsUnsignedLongLong(n);
    if (value == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    mylib_status status = mylib_fib(value, &result);
    return status == MYLIB_OK ? PyLong_FromUnsignedLongLong(result)
                              : raise_status(PyModule_GetState(module), status);
}

PyMethodDef library_functions[] = {
    {"parse_device", parse_device_function, METH_O, NULL},
    {"set_process_device", set_process_device_function, METH_O, NULL},
    {"device_count", device_count_function, METH_NOARGS, NULL},
    {"device_info", device_info_function, METH_O, NULL},
    {"check_device", check_device_function, METH_O, NULL},
    {"pointer_device", pointer_device_function, METH_O, NULL},
    {"memory_info", memory_info_function, METH_O, NULL},
    {"set_memory_limit", set_memory_limit_function, METH_VARARGS, NULL},
    {"config", config_function, METH_NOARGS, NULL},
    {"set_cpu_level", set_cpu_level_function, METH_O, NULL},
    {"get_num_threads", get_num_threads_function, METH_NOARGS, NULL},
    {"set_num_threads", set_num_threads_function, METH_VARARGS, NULL},
    {"free_cached", free_cached_function, METH_NOARGS, NULL},
    {"call_in_mode", FASTCALL(call_in_mode_function), METH_FASTCALL | METH_KEYWORDS, NULL},
    {"fib", fib_function, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
