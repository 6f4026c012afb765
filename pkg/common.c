/*
 * common.c - see common.h.
 */
#include "common.h"

#include <stdlib.h>
#include <string.h>

#if PY_VERSION_HEX < 0x030B0000
#define PyType_GetModuleByDef _PyType_GetModuleByDef
#endif

struct PyModuleDef *core_def;

core_state *core_state_of(PyTypeObject *type)
{
    PyObject *module = PyType_GetModuleByDef(type, core_def);
    return module != NULL ? PyModule_GetState(module) : NULL;
}

PyObject *raise_status(core_state *state, mylib_status status)
{
    PyObject *type;
    switch (status) {
    case MYLIB_ERR_ARGUMENT:
    case MYLIB_ERR_DOMAIN:
        type = PyExc_ValueError;
        break;
    case MYLIB_ERR_UNSUPPORTED:
        type = PyExc_TypeError;
        break;
    case MYLIB_ERR_NO_MEMORY:
        type = PyExc_MemoryError;
        break;
    case MYLIB_ERR_OVERFLOW:
        type = PyExc_OverflowError;
        break;
    case MYLIB_ERR_ZERO_DIVIDE:
        type = PyExc_ZeroDivisionError;
        break;
    case MYLIB_ERR_NO_DEVICE:
    case MYLIB_ERR_CUDA:
    case MYLIB_ERR_FORKED:
        type = state != NULL ? state->cuda_error : PyExc_RuntimeError;
        break;
    default:
        type = PyExc_SystemError;
        break;
    }
    PyErr_SetString(type, mylib_last_message());
    return NULL;
}

int num_of_type(mylib_type type)
{
    static const int nums[MYLIB_TYPE_COUNT] = {
        NPY_INT8,    NPY_INT16,     NPY_INT32,      NPY_INT64,   NPY_UINT8,
        NPY_UINT16,  NPY_UINT32,    NPY_UINT64,     NPY_FLOAT16, NPY_FLOAT32,
        NPY_FLOAT64, NPY_COMPLEX64, NPY_COMPLEX128, NPY_BOOL};
    return nums[type];
}

int type_of_num(int type_num, mylib_type *type_ret)
{
    /* C has more integer types than sizes: on Linux both long and long long are 64 bits wide. */
    switch (type_num) {
    case NPY_BYTE:
    case NPY_SHORT:
    case NPY_INT:
    case NPY_LONG:
    case NPY_LONGLONG:
    case NPY_UBYTE:
    case NPY_USHORT:
    case NPY_UINT:
    case NPY_ULONG:
    case NPY_ULONGLONG: {
        size_t size = type_num == NPY_BYTE || type_num == NPY_UBYTE     ? 1
                      : type_num == NPY_SHORT || type_num == NPY_USHORT ? sizeof(short)
                      : type_num == NPY_INT || type_num == NPY_UINT     ? sizeof(int)
                      : type_num == NPY_LONG || type_num == NPY_ULONG   ? sizeof(long)
                                                                        : sizeof(long long);
        int base = PyTypeNum_ISUNSIGNED(type_num) ? MYLIB_U8 : MYLIB_I8;
        *type_ret = (mylib_type)(base + (size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3));
        return 1;
    }
    case NPY_HALF:
        *type_ret = MYLIB_F16;
        return 1;
    case NPY_FLOAT:
        *type_ret = MYLIB_F32;
        return 1;
    case NPY_DOUBLE:
        *type_ret = MYLIB_F64;
        return 1;
    case NPY_CFLOAT:
        *type_ret = MYLIB_C64;
        return 1;
    case NPY_CDOUBLE:
        *type_ret = MYLIB_C128;
        return 1;
    case NPY_BOOL:
        *type_ret = MYLIB_BOOL;
        return 1;
    default:
        return 0;
    }
}

int parse_device(core_state *state, PyObject *object, mylib_device *device_ret)
{
    PyObject *value = NULL;
    int result = -1;

    *device_ret = (mylib_device){MYLIB_CPU, 0};
    if (object == NULL || object == Py_None) {
        if (PyContextVar_Get(state->default_device, Py_None, &value) < 0)
            return -1;
        object = value;
        if (object == Py_None) {
            Py_DECREF(value);
            return 0;
        }
    }
    const char *text = PyUnicode_Check(object) ? PyUnicode_AsUTF8(object) : NULL;
    if (text == NULL) {
        if (!PyErr_Occurred())
            PyErr_Format(
                PyExc_TypeError,
                "device must be a string (\"cpu\", \"cuda\", \"cuda:N\") or None, not %.100s",
                Py_TYPE(object)->tp_name);
    } else if (strcmp(text, "cpu") == 0) {
        result = 0;
    } else if (strcmp(text, "cuda") == 0) {
        device_ret->kind = MYLIB_CUDA;
        result = 0;
    } else if (strncmp(text, "cuda:", 5) == 0 && text[5] != '\0' && strlen(text) <= 5 + 4 &&
               strspn(text + 5, "0123456789") == strlen(text + 5)) {
        device_ret->kind = MYLIB_CUDA;
        device_ret->index = (int32_t)strtol(text + 5, NULL, 10);
        result = 0;
    } else {
        PyErr_Format(PyExc_ValueError,
                     "unknown device %R: expected \"cpu\", \"cuda\" or \"cuda:N\"", object);
    }
    Py_XDECREF(value);
    return result;
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
