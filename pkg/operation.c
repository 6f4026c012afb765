/*
 * operation.c - the type of pcd.add and its sisters.
 *
 * A call tries, in this order:
 *   1. Python numbers: mylib_scalar_*, and a Python number or bool comes back;
 *   2. NumPy arrays of one type on the CPU: mylib_map, without NumPy's ufunc machinery around it;
 *   3. everything else on the CPU: the NumPy ufunc, which knows all of NumPy's rules and protocols;
 *   4. Arrays that live on a GPU: array.c;
 *   5. a device, large arrays that need conversion or reordering, operands that are neither arrays
 *      nor numbers: pkg._general.call, in Python.
 */
#include "operation.h"

#include <structmember.h> /* Python before 3.12 */

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INPUTS 2

/*
 * From this many elements on, threads are worth the Python code that prepares any operands for
 * them.
 */
#define LARGE_COUNT 65536

typedef struct operation {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    mylib_op op;
    int nin;
    int compares;   /* the result is bool */
    int takes_ints; /* it is defined for them; else they are computed as floats */
    PyObject *name;
    PyObject *dict; /* __module__, __doc__, __signature__: the type has its own of these names */
    PyObject *ufunc;
    PyObject *flags_ufunc; /* raises flags under this operation's name; see report_flags() */
    PyObject *weakrefs;
    core_state *state; /* of the module, which the type keeps alive */
} operation;

/* ---- 1. Python numbers --------------------------------------------------------------------- */

/*
 * NumPy's float64 is a subclass of float and belongs to the arrays; its integers are no subclass of
 * int.
 */
static int is_number(PyObject *x)
{
    return PyLong_Check(x) || PyFloat_CheckExact(x) || PyComplex_CheckExact(x);
}

/* Compares an int or float with another, exactly.  0 or 1; -1 and an exception on failure. */
static int compare_reals(PyObject *a, PyObject *b, int comparison)
{
    static const int swapped[] = {[Py_LT] = Py_GT, [Py_LE] = Py_GE, [Py_EQ] = Py_EQ,
                                  [Py_NE] = Py_NE, [Py_GT] = Py_LT, [Py_GE] = Py_LE};
    /* The methods of the types themselves: a subclass of int has no say. */
    PyObject *result = PyLong_Check(a) && PyLong_Check(b)
                           ? PyLong_Type.tp_richcompare(a, b, comparison)
                       : PyFloat_Check(a) ? PyFloat_Type.tp_richcompare(a, b, comparison)
                                          : PyFloat_Type.tp_richcompare(b, a, swapped[comparison]);
    int answer = result != NULL ? result == Py_True : -1;
    Py_XDECREF(result);
    return answer;
}

/*
 * Compares two Python numbers, one of them an int, as Python does: exactly.  Complex numbers are
 * ordered by their real parts, then by their imaginary parts.
 */
static PyObject *compare_exactly(operation *self, mylib_device device, PyObject *const *args)
{
    int comparison = self->op == MYLIB_OP_equal        ? Py_EQ
                     : self->op == MYLIB_OP_not_equal  ? Py_NE
                     : self->op == MYLIB_OP_less       ? Py_LT
                     : self->op == MYLIB_OP_less_equal ? Py_LE
                     : self->op == MYLIB_OP_greater    ? Py_GT
                                                       : Py_GE;
    PyObject *real[2] = {NULL, NULL};
    double imaginary[2] = {0, 0};
    int answer = -1;
    int64_t unused;
    if (device.kind != MYLIB_CPU) { /* which has to be there */
        mylib_status status = mylib_scalar_i64(self->op, device, 0, 0, &unused);
        if (status != MYLIB_OK)
            return raise_status(self->state, status);
    }
    for (int k = 0; k < 2; k++) {
        if (PyComplex_CheckExact(args[k])) {
            real[k] = PyFloat_FromDouble(PyComplex_RealAsDouble(args[k]));
            imaginary[k] = PyComplex_ImagAsDouble(args[k]);
        } else {
            real[k] = Py_NewRef(args[k]);
        }
        if (real[k] == NULL)
            goto out;
    }
    int is_equal = compare_reals(real[0], real[1], Py_EQ);
    if (is_equal < 0)
        goto out;
    double a = imaginary[0], b = imaginary[1];
    if (comparison == Py_EQ || comparison == Py_NE)
        answer = (is_equal && a == b) == (comparison == Py_EQ);
    else if (!is_equal)
        answer = isnan(a) || isnan(b) ? 0 : compare_reals(real[0], real[1], comparison);
    else
        answer = comparison == Py_LT   ? a < b
                 : comparison == Py_LE ? a <= b
                 : comparison == Py_GT ? a > b
                                       : a >= b;
out:
    Py_XDECREF(real[0]);
    Py_XDECREF(real[1]);
    return answer >= 0 ? PyBool_FromLong(answer) : NULL;
}

static PyObject *call_int(operation *self, mylib_device device, PyObject *const *args)
{
    long long values[MAX_INPUTS] = {0, 0};
    int64_t result;
    for (int k = 0; k < self->nin; k++) {
        int overflow;
        values[k] = PyLong_AsLongLongAndOverflow(args[k], &overflow);
        if (overflow != 0) {
            if (self->compares)
                return compare_exactly(self, device, args);
            PyErr_Format(
                PyExc_OverflowError,
                "%U(): the int argument %d does not fit in 64 bits; use floats or NumPy arrays",
                self->name, k + 1);
            return NULL;
        }
    }
    mylib_status status;
    if (device.kind == MYLIB_CPU) {
        status = mylib_scalar_i64(self->op, device, values[0], values[1], &result);
    } else {
        Py_BEGIN_ALLOW_THREADS
            status = mylib_scalar_i64(self->op, device, values[0], values[1], &result);
        Py_END_ALLOW_THREADS
    }
    if (status != MYLIB_OK)
        return raise_status(self->state, status);
    return self->compares ? PyBool_FromLong(result != 0) : PyLong_FromLongLong(result);
}

static PyObject *call_float(operation *self, mylib_device device, PyObject *const *args)
{
    double values[MAX_INPUTS] = {0, 0}, result;
    for (int k = 0; k < self->nin; k++) {
        values[k] = PyFloat_AsDouble(args[k]);
        if (values[k] == -1 && PyErr_Occurred())
            return NULL;
    }
    mylib_status status;
    if (device.kind == MYLIB_CPU) {
        status = mylib_scalar_f64(self->op, device, values[0], values[1], &result);
    } else {
        Py_BEGIN_ALLOW_THREADS
            status = mylib_scalar_f64(self->op, device, values[0], values[1], &result);
        Py_END_ALLOW_THREADS
    }
    if (status != MYLIB_OK)
        return raise_status(self->state, status);
    return self->compares ? PyBool_FromLong(result != 0) : PyFloat_FromDouble(result);
}

static PyObject *call_complex(operation *self, mylib_device device, PyObject *const *args)
{
    double values[MAX_INPUTS][2] = {{0, 0}, {0, 0}}, result[2];
    mylib_type result_type = MYLIB_C128;
    for (int k = 0; k < self->nin; k++) {
        Py_complex z = PyComplex_AsCComplex(args[k]);
        if (z.real == -1 && PyErr_Occurred())
            return NULL;
        values[k][0] = z.real;
        values[k][1] = z.imag;
    }
    mylib_status status;
    Py_BEGIN_ALLOW_THREADS
        status = mylib_scalar_c128(self->op, device, values[0], values[1], result);
    Py_END_ALLOW_THREADS
    if (status != MYLIB_OK)
        return raise_status(self->state, status);
    if (self->compares)
        return PyBool_FromLong(result[0] != 0);
    mylib_op_result_type(self->op, MYLIB_C128, &result_type);
    return result_type == MYLIB_F64 ? PyFloat_FromDouble(result[0])
                                    : PyComplex_FromDoubles(result[0], result[1]);
}

/* nin arguments for which is_number() holds. */
static PyObject *call_numbers(operation *self, mylib_device device, PyObject *const *args)
{
    int floats = 0, complexes = 0;
    for (int k = 0; k < self->nin; k++) {
        floats += PyFloat_CheckExact(args[k]);
        complexes += PyComplex_CheckExact(args[k]);
    }
    if (self->compares && floats + complexes == 1) /* with an int, which a double may not hold */
        return compare_exactly(self, device, args);
    if (complexes > 0)
        return call_complex(self, device, args);
    if (floats > 0 || !self->takes_ints)
        return call_float(self, device, args);
    return call_int(self, device, args);
}

/* ---- 2. NumPy arrays of one type ----------------------------------------------------------- */

/*
 * The order in which NumPy would lay out a new output: 'C', 'F', or 0 for another.  As its iterator
 * does, axes are sorted by the strides of the inputs; where those disagree, C order wins.
 */
static char output_order(const mylib_array *in, int inputs, int ndim)
{
    int c = 1, f = 1;
    for (int d = 0; d < ndim; d++) {
        for (int e = d + 1; e < ndim; e++) {
            int says_c = 0, says_f = 0;
            for (int k = 0; k < inputs; k++) {
                int missing = ndim - in[k].ndim;
                if (d < missing || in[k].shape[d - missing] == 1 || in[k].shape[e - missing] == 1)
                    continue;
                int64_t outer = llabs(in[k].strides[d - missing]);
                int64_t inner = llabs(in[k].strides[e - missing]);
                if (outer != 0 && inner != 0) {
                    says_c = says_c || inner <= outer;
                    says_f = says_f || inner > outer;
                }
            }
            if (says_f && !says_c)
                c = 0;
            else
                f = 0;
        }
    }
    return c ? 'C' : f ? 'F' : 0;
}

/*
 * Arrays (and numbers with them) of one type, with an output of the right type or none.  NULL
 * without an exception: not such a case.
 */
static PyObject *call_arrays(operation *self, PyObject *const *args, PyObject *out_object)
{
    mylib_array arrays[1 + MAX_INPUTS], *out = &arrays[0], *in = &arrays[1];
    double constants[MAX_INPUTS][2]; /* room for one element of any type each */
    int64_t shape[NPY_MAXDIMS], dims[DIMS_OF(1 + MAX_INPUTS)], *free_dims = dims;
    mylib_type type = MYLIB_I8, result_type;
    int type_num = -1, ndim = 0;

    for (int k = 0; k < self->nin; k++) {
        if (PyArray_CheckExact(args[k])) {
            PyArrayObject *a = (PyArrayObject *)args[k];
            if (type_num == -1)
                type_num = PyArray_TYPE(a);
            if (PyArray_TYPE(a) != type_num || !PyArray_ISNOTSWAPPED(a))
                return NULL;
        } else if (!PyLong_CheckExact(args[k]) && !PyFloat_CheckExact(args[k]) &&
                   !PyComplex_CheckExact(args[k]) && !PyArray_IsScalar(args[k], Number)) {
            return NULL;
        }
    }
    if (type_num == -1 || !type_of_num(type_num, &type) ||
        mylib_op_result_type(self->op, type, &result_type) != MYLIB_OK)
        return NULL;
    for (int k = 0; k < self->nin; k++) {
        if (PyArray_CheckExact(args[k])) {
            free_dims = describe_array((PyArrayObject *)args[k], type, &in[k], free_dims);
            ndim = in[k].ndim > ndim ? in[k].ndim : ndim;
        } else {
            if (PyArray_IsScalar(args[k], Number)) {
                /* A NumPy scalar has a type as an array has. */
                PyArray_Descr *descr = PyArray_DescrFromScalar(args[k]);
                int is_same = descr != NULL && descr->type_num == type_num;
                Py_XDECREF(descr);
                if (!is_same)
                    return NULL;
                PyArray_ScalarAsCtype(args[k], constants[k]);
            } else if (!convert_number(args[k], type, constants[k])) {
                return NULL;
            }
            in[k] = (mylib_array){constants[k], {MYLIB_CPU, 0}, type, 0, NULL, NULL};
        }
    }
    if (ndim == 0 && out_object == NULL)
        return NULL; /* the result is a NumPy scalar */

    /* Broadcasting; where it fails, the ufunc tells. */
    int64_t count = 1;
    for (int d = 0; d < ndim; d++)
        shape[d] = 1;
    for (int k = 0; k < self->nin; k++) {
        int missing = ndim - in[k].ndim;
        for (int d = 0; d < in[k].ndim; d++) {
            int64_t size = in[k].shape[d], *broadcast = &shape[missing + d];
            if (size != 1 && *broadcast != 1 && size != *broadcast)
                return NULL;
            if (size != 1)
                *broadcast = size;
        }
    }
    for (int d = 0; d < ndim; d++)
        count *= shape[d];

    PyArrayObject *result;
    if (out_object == NULL) {
        char order = ndim < 2 ? 'C' : output_order(in, self->nin, ndim);
        if (order == 0)
            return NULL;
        /* The output keeps the type number: on Linux there are two of 64 bits. */
        int out_num = result_type == type ? type_num : num_of_type(result_type);
        result = (PyArrayObject *)PyArray_EMPTY(ndim, (npy_intp *)shape, out_num, order == 'F');
        if (result == NULL)
            return NULL;
        describe_array(result, result_type, out, free_dims);
    } else {
        mylib_type out_type;
        result = (PyArrayObject *)out_object;
        if (!PyArray_CheckExact(out_object) || !type_of_num(PyArray_TYPE(result), &out_type) ||
            out_type != result_type || !PyArray_ISNOTSWAPPED(result) ||
            !PyArray_ISWRITEABLE(result))
            return NULL;
        describe_array(result, result_type, out, free_dims);
        if (out->ndim != ndim || memcmp(out->shape, shape, (size_t)ndim * sizeof *shape) != 0 ||
            overlaps_itself(out))
            return NULL;
        for (int k = 0; k < self->nin && count > 0; k++)
            if (needs_copy(out, &in[k]))
                return NULL;
        Py_INCREF(result);
    }

    mylib_status status;
    int flags;
    mylib_device cpu = {MYLIB_CPU, 0};
    NPY_BEGIN_THREADS_DEF;
    if (count >= RELEASE_GIL_COUNT)
        NPY_BEGIN_THREADS;
    mylib_clear_flags();
    status = mylib_map(self->op, cpu, NULL, out, in);
    flags = test_flags();
    NPY_END_THREADS;
    if (status != MYLIB_OK) {
        Py_DECREF(result);
        return raise_status(self->state, status);
    }
    if (flags != 0 && report_flags(self->flags_ufunc, flags) < 0) {
        Py_DECREF(result);
        return NULL;
    }
    return (PyObject *)result;
}

/* ---- Calls --------------------------------------------------------------------------------- */

/* pkg._general.call(self, args, kwargs). */
static PyObject *call_general(operation *self, PyObject *const *args, Py_ssize_t nargs,
                              PyObject *kwnames)
{
    Py_ssize_t nkw = kwnames != NULL ? PyTuple_GET_SIZE(kwnames) : 0;
    PyObject *tuple = PyTuple_New(nargs), *dict = PyDict_New(), *result = NULL;
    if (tuple == NULL || dict == NULL)
        goto out;
    for (Py_ssize_t i = 0; i < nargs; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; i < nkw; i++)
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(kwnames, i), args[nargs + i]) < 0)
            goto out;
    if (self->state->call_general == NULL)
        PyErr_SetString(PyExc_RuntimeError, "import pkg, not pkg.core alone");
    else {
        /* NumPy converts in the thread's mode. */
        const mylib_mode mode = mylib_enter_mode();
        result = PyObject_CallFunctionObjArgs(self->state->call_general, (PyObject *)self, tuple,
                                              dict, NULL);
        mylib_leave_mode(mode);
    }
out:
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    return result;
}

/*
 * Tells whether an int may be beyond the integers that it is compared with: then pkg._general looks
 * closer.  Asked before the ufunc is called: its OverflowError may be one of a handler's.
 */
static int may_be_beyond(operation *self, PyObject *const *args)
{
    for (int k = 0; k < self->nin; k++) {
        PyObject *number = args[k], *other = args[1 - k];
        mylib_type type = MYLIB_I8;
        int64_t value;
        if (!PyLong_CheckExact(number) || PyFloat_Check(other) || PyBool_Check(other))
            continue;
        if (PyArray_Check(other) && (!type_of_num(PyArray_TYPE((PyArrayObject *)other), &type) ||
                                     !PyTypeNum_ISINTEGER(num_of_type(type))))
            continue;
        if (!convert_number(number, type, &value))
            return 1;
        /* Scalars, lists and the like may have any type. */
        if (!PyArray_Check(other) && !convert_number(number, MYLIB_U8, &value))
            return 1;
    }
    return 0;
}

/* The ufunc's own TypeError says little; pkg._general.explain names the supported types. */
static PyObject *call_ufunc(operation *self, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames)
{
    if (self->compares && nargs >= self->nin && may_be_beyond(self, args))
        return call_general(self, args, nargs, kwnames);
    const mylib_mode mode = mylib_enter_mode(); /* in which NumPy converts, too */
    PyObject *result = PyObject_Vectorcall(self->ufunc, args, (size_t)nargs, kwnames);
    mylib_leave_mode(mode);
    if (result != NULL || !PyErr_ExceptionMatches(PyExc_TypeError) || self->state->explain == NULL)
        return result;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(value, traceback);
    PyObject *better = NULL, *operands = PyTuple_New(nargs);
    for (Py_ssize_t k = 0; k < nargs && operands != NULL; k++)
        PyTuple_SET_ITEM(operands, k, Py_NewRef(args[k]));
    if (operands != NULL)
        better = PyObject_CallFunctionObjArgs(self->state->explain, (PyObject *)self, value,
                                              operands, NULL);
    Py_XDECREF(operands);
    if (better != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(better), better);
        Py_DECREF(better);
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return NULL;
}

/*
 * Whether an object may be foreign GPU memory (a tensor of PyTorch, an array of CuPy or Numba);
 * pkg._general finds out.  Asked with names that are made once: for want of memory for one the
 * answer would be no.
 */
static int has_device_protocol(const core_state *state, PyObject *x)
{
    PyObject *type = (PyObject *)Py_TYPE(x);
    if (PyArray_Check(x) || is_number(x) || PyArray_IsScalar(x, Generic) || PyList_CheckExact(x) ||
        PyTuple_CheckExact(x))
        return 0;
    return PyObject_HasAttr(type, state->dlpack_device_name) ||
           PyObject_HasAttr(type, state->cuda_interface_name);
}

/*
 * Returns whether an argument may have rules of its own, or hold what has: pkg._general looks
 * closer.
 */
static int may_have_rules(PyObject *x, int depth)
{
    int may = 0;
    if (PyArray_CheckExact(x) || is_number(x) || PyArray_IsScalar(x, Generic) || x == Py_None ||
        PyUnicode_Check(x) || PyType_Check(x) || PyArray_DescrCheck(x))
        return 0;
    if (!(PyList_CheckExact(x) || PyTuple_CheckExact(x)) || depth == NPY_MAXDIMS)
        return 1;
    Py_ssize_t size = PySequence_Size(x);
    for (Py_ssize_t i = 0; i < size && !may; i++) {
        PyObject *item = PySequence_GetItem(x, i);
        if (item == NULL) /* another thread has shortened the list */
            PyErr_Clear();
        may = item == NULL || may_have_rules(item, depth + 1);
        Py_XDECREF(item);
    }
    return may;
}

/* Whether an argument is an array so large that threads pay. */
static int is_large(PyObject *const *args, Py_ssize_t nargs)
{
    for (Py_ssize_t k = 0; k < nargs; k++)
        if (PyArray_CheckExact(args[k]) && PyArray_SIZE((PyArrayObject *)args[k]) >= LARGE_COUNT)
            return 1;
    return 0;
}

static int is_name(PyObject *name, const char *text)
{
    return PyUnicode_CompareWithASCIIString(name, text) == 0;
}

/* Returns whether a keyword argument means the same as leaving it out. */
static int is_default(PyObject *name, PyObject *value)
{
    if (value == Py_None)
        return is_name(name, "out") || is_name(name, "dtype") || is_name(name, "order") ||
               is_name(name, "device");
    if (value == Py_True)
        return is_name(name, "where") || is_name(name, "subok");
    return PyUnicode_Check(value) && ((is_name(name, "casting") && is_name(value, "same_kind")) ||
                                      (is_name(name, "order") && is_name(value, "K")));
}

static PyObject *operation_call(PyObject *object, PyObject *const *args, size_t nargsf,
                                PyObject *kwnames)
{
    operation *self = (operation *)object;
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf),
               nkw = kwnames != NULL ? PyTuple_GET_SIZE(kwnames) : 0;
    PyObject *out = NULL, *device = NULL;
    int only_numbers = nargs >= self->nin, is_general = 0, others = 0;

    int is_cpu = default_is_cpu(self->state);
    if (is_cpu < 0)
        return NULL;
    for (Py_ssize_t i = 0; i < nkw; i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i), *value = args[nargs + i];
        if (name == self->state->out_name && PyArray_Check(value) && nargs == self->nin) {
            out = value;
            continue;
        }
        is_general |= is_name(name, "device"); /* which the ufunc does not know */
        if (PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) == 1 && is_name(name, "out"))
            value = PyTuple_GET_ITEM(value, 0); /* as ufuncs allow */
        if (is_default(name, value))
            continue;
        if (is_name(name, "device"))
            device = value;
        else if (is_name(name, "out") && nargs == self->nin)
            out = value;
        else
            others++;
        is_general |= is_name(name, "casting"); /* NumPy may convert floats to integers */
    }
    if (nargs == self->nin + 1 && args[self->nin] != Py_None)
        out = args[self->nin];
    int is_usual = others == 0 && nargs >= self->nin && nargs <= self->nin + 1;

    for (Py_ssize_t k = 0; k < self->nin && only_numbers; k++)
        only_numbers = is_number(args[k]);
    if (only_numbers && is_usual && out == NULL) {
        mylib_device place = {MYLIB_CPU, 0};
        if ((device != NULL || !is_cpu) && parse_device(self->state, device, &place) < 0)
            return NULL;
        return call_numbers(self, place, args);
    }
    int is_foreign = 0, on_gpu = 0;
    if (out != NULL && !PyArray_CheckExact(out)) { /* which may have been in a tuple */
        on_gpu = is_array(self->state, out);
        is_foreign = !on_gpu && has_device_protocol(self->state, out);
    }
    for (Py_ssize_t k = 0; k < nargs + nkw; k++) {
        if (PyArray_CheckExact(args[k]))
            continue;
        on_gpu |= is_array(self->state, args[k]);
        is_foreign |= !on_gpu && has_device_protocol(self->state, args[k]);
    }
    if (on_gpu && is_usual && !is_foreign && device == NULL) {
        PyObject *result = map_arrays(self->state, self->op, 0, args, out);
        if (result != NULL || PyErr_Occurred())
            return result;
    }
    if (on_gpu || is_foreign || device != NULL || !is_cpu)
        return call_general(self, args, nargs, kwnames);

    if (is_usual) {
        PyObject *result = call_arrays(self, args, out);
        if (result != NULL || PyErr_Occurred())
            return result;
        if (is_large(args, nargs))
            return call_general(self, args, nargs, kwnames);
    }
    for (Py_ssize_t k = 0; k < nargs + nkw && !is_general; k++)
        is_general = may_have_rules(args[k], 0);
    /* The general path knows the default keywords of numbers, and the casting of comparisons. */
    if (is_general || only_numbers || (self->compares && others > 0))
        return call_general(self, args, nargs, kwnames);
    return call_ufunc(self, args, nargs, kwnames);
}

/* ---- The type ------------------------------------------------------------------------------ */

static PyObject *new_operation(core_state *state, mylib_op op, PyObject *ufunc)
{
    mylib_type result_type;
    operation *self = PyObject_GC_New(operation, state->operation);
    if (self == NULL)
        return NULL;
    self->vectorcall = operation_call;
    self->op = op;
    self->nin = mylib_op_arity(op);
    self->compares =
        mylib_op_result_type(op, MYLIB_F64, &result_type) == MYLIB_OK && result_type == MYLIB_BOOL;
    self->takes_ints = mylib_op_result_type(op, MYLIB_I64, NULL) == MYLIB_OK;
    self->name = PyUnicode_FromString(mylib_op_name(op));
    self->dict = PyDict_New();
    self->ufunc = Py_NewRef(ufunc);
    self->flags_ufunc = new_flags_ufunc(mylib_op_name(op));
    self->weakrefs = NULL;
    self->state = state;
    PyObject_GC_Track(self);
    PyObject *module = PyUnicode_FromString("pkg");
    if (self->name == NULL || self->dict == NULL || self->flags_ufunc == NULL || module == NULL ||
        PyDict_SetItemString(self->dict, "__module__", module) < 0)
        Py_CLEAR(self);
    Py_XDECREF(module);
    return (PyObject *)self;
}

static int operation_traverse(PyObject *object, visitproc visit, void *arg)
{
    operation *self = (operation *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->dict);
    Py_VISIT(self->ufunc);
    Py_VISIT(self->flags_ufunc);
    return 0;
}

static int operation_clear(PyObject *object)
{
    operation *self = (operation *)object;
    Py_CLEAR(self->dict);
    Py_CLEAR(self->ufunc);
    Py_CLEAR(self->flags_ufunc);
    return 0;
}

static void operation_dealloc(PyObject *object)
{
    operation *self = (operation *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (self->weakrefs != NULL)
        PyObject_ClearWeakRefs(object);
    (void)operation_clear(object);
    Py_CLEAR(self->name);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *operation_repr(PyObject *object)
{
    return PyUnicode_FromFormat("<operation pkg.%U>", ((operation *)object)->name);
}

/* Pickled by name, as functions are. */
static PyObject *operation_reduce(PyObject *object, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(((operation *)object)->name);
}

/* The ufunc describes the operation: types, identity, ... */
static PyObject *get_of_ufunc(PyObject *object, void *name)
{
    return PyObject_GetAttrString(((operation *)object)->ufunc, name);
}

/*
 * reduce, accumulate, ... compute on the CPU, so they are refused where the user has asked for a
 * GPU.
 */
static PyObject *get_method_of_ufunc(PyObject *object, void *name)
{
    operation *self = (operation *)object;
    mylib_device device;
    if (parse_device(self->state, NULL, &device) < 0)
        return NULL;
    if (device.kind != MYLIB_CPU)
        return PyErr_Format(
            PyExc_NotImplementedError,
            "%U.%s computes on the CPU, and the default device is a GPU: call it under "
            "pkg.default_device(\"cpu\")",
            self->name, (const char *)name);
    return PyObject_GetAttrString(self->ufunc, name);
}

static PyObject *operation_report_flags(PyObject *object, PyObject *argument)
{
    long flags = PyLong_AsLong(argument);
    if ((flags == -1 && PyErr_Occurred()) ||
        report_flags(((operation *)object)->flags_ufunc, (int)flags) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *get_name(PyObject *object, void *unused)
{
    (void)unused;
    return Py_NewRef(((operation *)object)->name);
}

/* Returns a read-only view, so that operations stay as they are. */
static PyObject *get_dict(PyObject *object, void *unused)
{
    (void)unused;
    return PyDictProxy_New(((operation *)object)->dict);
}

static int operation_setattro(PyObject *object, PyObject *name, PyObject *value)
{
    (void)value;
    PyErr_Format(PyExc_AttributeError, "operations are immutable: cannot change %R of pkg.%U", name,
                 ((operation *)object)->name);
    return -1;
}

static PyObject *operation_describe(PyObject *object, PyObject *args)
{
    operation *self = (operation *)object;
    PyObject *doc, *signature;
    if (!PyArg_ParseTuple(args, "OO:describe", &doc, &signature) ||
        PyDict_SetItemString(self->dict, "__doc__", doc) < 0 ||
        PyDict_SetItemString(self->dict, "__signature__", signature) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMemberDef operation_members[] = {
    {"ufunc", T_OBJECT_EX, offsetof(operation, ufunc), READONLY,
     "The NumPy ufunc of the operation, which computes on the CPU."},
    {"index", T_INT, offsetof(operation, op), READONLY,
     "The operation's number in libmylib (mylib_op)."},
    {"nin", T_INT, offsetof(operation, nin), READONLY, "The number of inputs."},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(operation, vectorcall), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(operation, weakrefs), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(operation, dict), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef operation_getset[] = {
    {"__name__", get_name, NULL, NULL, NULL},
    {"__qualname__", get_name, NULL, NULL, NULL},
    {"__dict__", get_dict, NULL, NULL, NULL},
#define OF_UFUNC(name, get) {#name, get, NULL, "The ufunc's; see numpy.ufunc." #name ".", #name},
    OF_UFUNC(types, get_of_ufunc) OF_UFUNC(ntypes, get_of_ufunc) OF_UFUNC(nout, get_of_ufunc)
        OF_UFUNC(nargs, get_of_ufunc) OF_UFUNC(identity, get_of_ufunc)
            OF_UFUNC(signature, get_of_ufunc) OF_UFUNC(resolve_dtypes, get_of_ufunc)
                OF_UFUNC(reduce, get_method_of_ufunc) OF_UFUNC(accumulate, get_method_of_ufunc)
                    OF_UFUNC(reduceat, get_method_of_ufunc) OF_UFUNC(outer, get_method_of_ufunc)
                        OF_UFUNC(at, get_method_of_ufunc)
#undef OF_UFUNC
                            {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef operation_methods[] = {
    {"__reduce__", operation_reduce, METH_NOARGS, NULL},
    {"describe", operation_describe, METH_VARARGS,
     "describe($self, doc, signature, /)\n--\n\nSets what help() and inspect.signature() show; "
     "called when the package is imported."},
    {"report_flags", operation_report_flags, METH_O,
     "report_flags($self, flags, /)\n--\n\nLets np.errstate act on floating-point flags that the "
     "operation raised."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot operation_slots[] = {
    {Py_tp_doc, "An element-wise operation, as pkg.add."},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_repr, operation_repr},
    {Py_tp_setattro, operation_setattro},
    {Py_tp_members, operation_members},
    {Py_tp_getset, operation_getset},
    {Py_tp_methods, operation_methods},
    {Py_tp_traverse, operation_traverse},
    {Py_tp_clear, operation_clear},
    {Py_tp_dealloc, operation_dealloc},
    {0, NULL},
};

PyType_Spec operation_spec = {
    .name = "pkg.core.Operation",
    .basicsize = sizeof(operation),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
             Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = operation_slots,
};

/* ---- Functions ------------------------------------------------------------------------------- */

PyDoc_STRVAR(
    set_hooks_doc,
    "set_hooks(call_general, explain, /)\n--\n\nThe Python half of the operations (pkg._general).");
static PyObject *set_hooks(PyObject *module, PyObject *args)
{
    core_state *state = PyModule_GetState(module);
    PyObject *call_general, *explain;
    if (!PyArg_ParseTuple(args, "OO:set_hooks", &call_general, &explain))
        return NULL;
    /* Not released when set again: other threads may be using them. */
    state->call_general = Py_NewRef(call_general);
    state->explain = Py_NewRef(explain);
    Py_RETURN_NONE;
}

PyMethodDef operation_functions[] = {
    {"set_hooks", set_hooks, METH_VARARGS, set_hooks_doc},
    {NULL, NULL, 0, NULL},
};

/* pandas replaces a ufunc named "divide" by its own true division; ours truncates integers. */
static const char *ufunc_name(mylib_op op)
{
    return op == MYLIB_OP_divide ? "trunc_divide" : mylib_op_name(op);
}

int add_operations(PyObject *module, core_state *state)
{
    PyObject *operations = PyTuple_New(MYLIB_OP_COUNT);
    if (operations == NULL)
        return -1;
    for (int op = 0; op < MYLIB_OP_COUNT; op++) {
        PyObject *ufunc =
            new_ufunc(module, (mylib_op)op, (mylib_device){MYLIB_CPU, 0}, ufunc_name((mylib_op)op));
        PyObject *made = ufunc != NULL ? new_operation(state, (mylib_op)op, ufunc) : NULL;
        Py_XDECREF(ufunc);
        if (made == NULL) {
            Py_DECREF(operations);
            return -1;
        }
        PyTuple_SET_ITEM(operations, op, made);
    }
    int result = PyModule_AddObjectRef(module, "operations", operations);
    Py_DECREF(operations);
    return result;
}
