/*
 * operation.c - the type of pcd.add and the other operations.  A call takes the first way that can
 * do it: scalars, the fast path, pkg._call, NumPy's ufunc (docs/design/calls.md).
 */
#include "operation.h"

#include <structmember.h> /* Python before 3.12 */

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INPUTS 2

typedef struct operation {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    mylib_op op;
    int nin;
    char is_true_division; /* true_divide: `op` is MYLIB_OP_divide */
    char compares;         /* a comparison */
    char gives_bool;
    char takes_ints; /* computes them as ints */
    PyObject *name;
    PyObject *dict; /* __module__, __doc__, __signature__: the type has its own of these names */
    PyObject *ufunc;
    PyObject *named_ufunc; /* for warnings; other libraries never see it */
    PyObject *weakrefs;
    core_state *state; /* of the module, which the type keeps alive */
} operation;

static const char *name_of(const operation *self)
{
    return self->is_true_division ? TRUE_DIVIDE : mylib_op_name(self->op);
}

/* ---- Python numbers ---- */

/* Returns whether an object is a Python number; NumPy's float64 counts as an array. */
static int is_number(PyObject *x)
{
    return PyLong_Check(x) || PyFloat_CheckExact(x) || PyComplex_CheckExact(x);
}

static int check_exists(const operation *self, mylib_device device)
{
    double unused;
    return device.kind == MYLIB_CPU
               ? 0
               : check_status(self->state, mylib_scalar_f64(self->op, device, 1, 1, &unused));
}

/* Compares two ints or floats as int and float do, not their subclasses. */
static PyObject *compare_reals(PyObject *a, PyObject *b, int comparison)
{
    static const int swapped[] = {[Py_LT] = Py_GT, [Py_LE] = Py_GE, [Py_EQ] = Py_EQ,
                                  [Py_NE] = Py_NE, [Py_GT] = Py_LT, [Py_GE] = Py_LE};
    if (PyLong_Check(a) && PyLong_Check(b))
        return PyLong_Type.tp_richcompare(a, b, comparison);
    return PyFloat_Check(a) ? PyFloat_Type.tp_richcompare(a, b, comparison)
                            : PyFloat_Type.tp_richcompare(b, a, swapped[comparison]);
}

/*
 * Compares two Python numbers exactly, as Python does; one of them is an int.  Complex numbers are
 * ordered by their real parts, then by their imaginary parts.
 */
static PyObject *compare_exactly(operation *self, mylib_device device, PyObject *const *args)
{
    static const int comparisons[] = {
        [MYLIB_OP_less] = Py_LT,    [MYLIB_OP_less_equal] = Py_LE,
        [MYLIB_OP_equal] = Py_EQ,   [MYLIB_OP_not_equal] = Py_NE,
        [MYLIB_OP_greater] = Py_GT, [MYLIB_OP_greater_equal] = Py_GE,
    };
    const int comparison = comparisons[self->op], first = comparison == Py_NE ? Py_NE : Py_EQ;
    PyObject *real[2], *result = NULL;
    double imaginary[2] = {0, 0};
    if (check_exists(self, device) < 0)
        return NULL;
    for (int k = 0; k < 2; k++) {
        if (PyComplex_CheckExact(args[k])) {
            const Py_complex z = PyComplex_AsCComplex(args[k]);
            imaginary[k] = z.imag;
            real[k] = PyFloat_FromDouble(isnan(z.imag) ? z.imag : z.real); /* NaN if either is */
        } else {
            real[k] = Py_NewRef(args[k]);
        }
    }
    if (real[0] != NULL && real[1] != NULL)
        result = compare_reals(real[0], real[1], first);
    const int is_equal = result == (first == Py_EQ ? Py_True : Py_False);
    if (result != NULL && !is_equal && comparison != first)
        Py_SETREF(result, compare_reals(real[0], real[1], comparison));
    Py_XDECREF(real[0]);
    Py_XDECREF(real[1]);
    if (!is_equal)
        return result;
    Py_DECREF(result);
    Py_RETURN_RICHCOMPARE(imaginary[0], imaginary[1], comparison);
}

/* Returns whether this is a bitwise operation of bools, which returns a bool as in Python. */
static int are_bools(const operation *self, PyObject *const *args)
{
    if (self->op < MYLIB_OP_bitwise_and || self->op > MYLIB_OP_invert)
        return 0;
    for (int k = 0; k < self->nin; k++)
        if (!PyBool_Check(args[k]))
            return 0;
    return 1;
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
    WITHOUT_GIL_IF(device.kind != MYLIB_CPU,
                   status = mylib_scalar_i64(self->op, device, values[0], values[1], &result));
    if (status != MYLIB_OK)
        return raise_status(self->state, status);
    return self->gives_bool || are_bools(self, args) ? PyBool_FromLong(result & 1)
                                                     : PyLong_FromLongLong(result);
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
    WITHOUT_GIL_IF(device.kind != MYLIB_CPU,
                   status = mylib_scalar_f64(self->op, device, values[0], values[1], &result));
    if (status != MYLIB_OK)
        return raise_status(self->state, status);
    return self->gives_bool ? PyBool_FromLong(result != 0) : PyFloat_FromDouble(result);
}

static PyObject *call_complex(operation *self, mylib_device device, PyObject *const *args)
{
    double values[MAX_INPUTS][2] = {{0, 0}, {0, 0}}, result[2];
    for (int k = 0; k < self->nin; k++) {
        Py_complex z = PyComplex_AsCComplex(args[k]);
        if (z.real == -1 && PyErr_Occurred())
            return NULL;
        values[k][0] = z.real;
        values[k][1] = z.imag;
    }
    mylib_status status;
    WITHOUT_GIL_IF(device.kind != MYLIB_CPU,
                   status = mylib_scalar_c128(self->op, device, values[0], values[1], result));
    if (status != MYLIB_OK)
        return raise_status(self->state, status);
    if (self->gives_bool)
        return PyBool_FromLong(result[0] != 0);
    return result_types[self->op][MYLIB_C128] == 1 + MYLIB_F64
               ? PyFloat_FromDouble(result[0])
               : PyComplex_FromDoubles(result[0], result[1]);
}

/* As Python does, on a device that must exist. */
static PyObject *divide_ints(operation *self, mylib_device device, PyObject *const *args)
{
    if (check_exists(self, device) < 0)
        return NULL;
    return PyLong_Type.tp_as_number->nb_true_divide(args[0], args[1]);
}

static PyObject *call_numbers(operation *self, mylib_device device, PyObject *const *args)
{
    int floats = 0, complexes = 0;
    for (int k = 0; k < self->nin; k++) {
        floats += PyFloat_CheckExact(args[k]);
        complexes += PyComplex_CheckExact(args[k]);
    }
    if (self->compares && floats + complexes == 1) /* a double may not hold the other, an int */
        return compare_exactly(self, device, args);
    if (complexes > 0)
        return call_complex(self, device, args);
    if (floats > 0 || !self->takes_ints)
        return call_float(self, device, args);
    return self->is_true_division ? divide_ints(self, device, args) : call_int(self, device, args);
}

/* ---- Calls ---- */

static PyObject *tuple_of(PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *tuple = PyTuple_New(nargs);
    for (Py_ssize_t i = 0; i < nargs && tuple != NULL; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    return tuple;
}

static PyObject *call_general(operation *self, PyObject *const *args, Py_ssize_t nargs,
                              PyObject *kwnames)
{
    const Py_ssize_t nkw = kwnames != NULL ? PyTuple_GET_SIZE(kwnames) : 0;
    PyObject *dict = PyDict_New();
    for (Py_ssize_t i = 0; i < nkw && dict != NULL; i++)
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(kwnames, i), args[nargs + i]) < 0)
            Py_CLEAR(dict);
    if (dict == NULL)
        return NULL;
    return call_slow(self->state, "call", "(ONN)", self, tuple_of(args, nargs), dict);
}

/*
 * Returns whether an int may not fit the type that it is compared with: then pkg._call decides.  It
 * must be known before the ufunc call, because an OverflowError there may come from a handler.
 */
static int may_be_beyond(operation *self, PyObject *const *args)
{
    for (int k = 0; k < self->nin; k++) {
        PyObject *number = args[k], *other = args[1 - k];
        mylib_type type = MYLIB_I8;
        int64_t value;
        if (!PyLong_CheckExact(number) || PyFloat_Check(other) || PyBool_Check(other))
            continue;
        if (PyArray_Check(other) && !find_type(PyArray_TYPE((PyArrayObject *)other), &type))
            continue;
        if (type == MYLIB_BOOL) /* beside an int it becomes int64 */
            type = MYLIB_I64;
        else if (!PyTypeNum_ISINTEGER(num_of_type(type)))
            continue;
        if (!find_exact(number, type, &value))
            return 1;
        /* Scalars, lists and other objects may have any type. */
        if (!PyArray_Check(other) && !find_exact(number, MYLIB_U8, &value))
            return 1;
    }
    return 0;
}

/* Calls the ufunc.  Its TypeErrors say little, so pkg._call.explain names the supported types. */
static PyObject *call_ufunc(operation *self, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames)
{
    /* NumPy's warnings would name the package's line. */
    if (is_called_by_package() ||
        (self->compares && nargs >= self->nin && may_be_beyond(self, args)))
        return call_general(self, args, nargs, kwnames);
    PyObject *result = call_in_mode(self->named_ufunc, args, nargs, kwnames);
    if (result != NULL || !PyErr_ExceptionMatches(PyExc_TypeError))
        return result;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(value, traceback);
    PyObject *better =
        call_slow(self->state, "explain", "(OON)", self, value, tuple_of(args, nargs));
    if (better != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(better), better);
        Py_DECREF(better);
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return NULL;
}

/* Returns whether an argument, or an item, may have rules of its own, or be on a GPU. */
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

static int is_large(PyObject *const *args, Py_ssize_t nargs)
{
    for (Py_ssize_t k = 0; k < nargs; k++)
        if (PyArray_CheckExact(args[k]) && PyArray_SIZE((PyArrayObject *)args[k]) >= LARGE_COUNT)
            return 1;
    return 0;
}

static int is_default(PyObject *name, PyObject *value)
{
    if (value == Py_None)
        return is_text(name, "out") || is_text(name, "dtype") || is_text(name, "order") ||
               is_text(name, "device");
    if (value == Py_True)
        return is_text(name, "where") || is_text(name, "subok");
    return (is_text(value, "same_kind") && is_text(name, "casting")) ||
           (is_text(value, "K") && is_text(name, "order"));
}

static int may_overwrite(PyObject *out, mylib_type type, PyObject *mask)
{
    int64_t dims[DIMS_OF(2)];
    mylib_array written, read;
    int64_t *more = describe_array((PyArrayObject *)out, type, &written, dims);
    describe_array((PyArrayObject *)mask, MYLIB_BOOL, &read, more);
    return may_share_memory(&written, &read);
}

/*
 * Computes a call with a mask over host arrays: the selected elements, if they are few or in long
 * runs, or else all elements in a temporary array, from which the mask selects.  Declines if an
 * element, which may not be selected, raised a floating-point flag.
 */
static outcome run_selected(const operation *self, PyObject *const *args, PyObject *out,
                            PyObject *mask)
{
    enum { ARRAYS = 4 };
    PyObject *arrays[ARRAYS] = {out, mask, NULL, out}, *result;
    DECLARE_CALL(c, self->state, ARRAYS - 1, 0);
    mylib_type type;
    mylib_status status;
    if (!PyArray_CheckExact(out) || !PyArray_CheckExact(mask) ||
        !PyArray_ISWRITEABLE((PyArrayObject *)out) || !PyArray_ISBOOL((PyArrayObject *)mask) ||
        !find_type(PyArray_TYPE((PyArrayObject *)out), &type) || may_refuse(self->op, type) ||
        may_overwrite(out, type, mask))
        return OTHER_OPERAND;
    outcome done = run_operation(self->state, self->op, self->is_true_division, 1, name_of(self),
                                 args, out, mask, &result);
    if (done <= DONE) {
        Py_XDECREF(result);
        return done;
    }
    arrays[2] = PyArray_NewLikeArray((PyArrayObject *)out, NPY_KEEPORDER, NULL, 0);
    if (arrays[2] == NULL)
        return FAILED;
    done = run_operation(self->state, self->op, self->is_true_division, 1, NULL, args, arrays[2],
                         NULL, &result);
    if (done == DONE) {
        Py_DECREF(result);
        done = take_arrays(&c, arrays, ARRAYS) < 0 ? FAILED
               : overlaps_itself(&c.arrays[0])     ? OTHER_OUT
                                                   : DONE;
    }
    if (done == DONE) {
        WITHOUT_GIL_IF(PyArray_SIZE((PyArrayObject *)out) >= RELEASE_GIL_COUNT,
                       status = mylib_select(c.device, NULL, &c.arrays[0], &c.arrays[1],
                                             &c.arrays[2], &c.arrays[3]));
        /* The mask need not broadcast to `out`. */
        done = status == MYLIB_ERR_ARGUMENT ? OTHER_SHAPE : check_status(self->state, status);
    }
    Py_DECREF(arrays[2]);
    return done;
}

/* The arguments of a call besides its operands, unless they mean the same as leaving them out. */
typedef struct options {
    PyObject *out, *mask, *device;
    int others;       /* the number of keywords besides `out` and `device` */
    int names_device; /* has device=, which the ufunc does not know, perhaps as None */
    int has_casting, has_dtype;
} options;

static options find_options(const operation *self, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames)
{
    const Py_ssize_t nkw = kwnames != NULL ? PyTuple_GET_SIZE(kwnames) : 0;
    options o = {0};
    for (Py_ssize_t i = 0; i < nkw; i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i), *value = args[nargs + i];
        if (name == self->state->out_name && nargs == self->nin &&
            (PyArray_Check(value) || is_array(self->state, value))) {
            o.out = value; /* before the names are compared, which takes longer */
            continue;
        }
        o.names_device |= is_text(name, "device");
        if (PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) == 1 && is_text(name, "out"))
            value = PyTuple_GET_ITEM(value, 0); /* ufuncs allow a tuple */
        if (is_default(name, value))
            continue;
        if (is_text(name, "device"))
            o.device = value;
        else if (is_text(name, "out") && nargs == self->nin)
            o.out = value;
        else
            o.others++;
        if (is_text(name, "where"))
            o.mask = value;
        o.has_casting |= is_text(name, "casting");
        o.has_dtype |= is_text(name, "dtype");
    }
    if (nargs == self->nin + 1 && args[self->nin] != Py_None)
        o.out = args[self->nin];
    return o;
}

static int is_for_python(const operation *self, PyObject *const *args, Py_ssize_t nargs,
                         Py_ssize_t nkw, const options *o)
{
    const Py_ssize_t given = nargs < self->nin ? nargs : self->nin;
    if (o->names_device || o->has_casting) /* NumPy must not convert floats to integers */
        return 1;
    /* NumPy may convert elements that a mask does not select, or read them or the mask too late. */
    if (o->mask != NULL && (o->out != NULL || o->has_dtype))
        return 1;
    if (self->op == MYLIB_OP_power && o->out != NULL) /* an error must not change `out` */
        return 1;
    if (o->others == 0 && is_large(args, nargs))
        return 1;
    /* Only the truth of a number matters; the ufunc would convert it. */
    for (Py_ssize_t k = 0; k < given; k++)
        if (is_logical(self->op) && is_number(args[k]))
            return 1;
    for (Py_ssize_t k = 0; k < nargs + nkw; k++)
        if (may_have_rules(args[k], 0))
            return 1;
    return 0;
}

static PyObject *operation_call(PyObject *object, PyObject *const *args, size_t nargsf,
                                PyObject *kwnames)
{
    operation *self = (operation *)object;
    const Py_ssize_t nargs = PyVectorcall_NARGS(nargsf),
                     nkw = kwnames != NULL ? PyTuple_GET_SIZE(kwnames) : 0;
    const int is_complete = nargs >= self->nin && nargs <= self->nin + 1;
    const int is_cpu = default_is_cpu(self->state);
    if (is_cpu < 0)
        return NULL;
    const options o = find_options(self, args, nargs, kwnames);
    int only_numbers = nargs >= self->nin;
    for (Py_ssize_t k = 0; k < self->nin && only_numbers; k++)
        only_numbers = is_number(args[k]);
    if (only_numbers && is_complete && o.others == 0 && o.out == NULL) {
        mylib_device place = {MYLIB_CPU, 0};
        if ((o.device != NULL || !is_cpu) && parse_device(self->state, o.device, &place) < 0)
            return NULL;
        return call_numbers(self, place, args);
    }
    if (is_complete && o.others == 0 && o.device == NULL) {
        PyObject *result = NULL;
        if (run_operation(self->state, self->op, self->is_true_division, is_cpu, name_of(self),
                          args, o.out, NULL, &result) <= DONE)
            return result;
    }
    if (is_complete && o.others == 1 && o.mask != NULL && o.out != NULL && o.device == NULL &&
        is_cpu) {
        const outcome done = run_selected(self, args, o.out, o.mask);
        if (done <= DONE)
            return done == DONE ? Py_NewRef(o.out) : NULL;
    }
    /* The general path also handles default keywords of numbers, and the casting of comparisons. */
    if (only_numbers || !is_cpu || (self->compares && o.others > 0) ||
        is_for_python(self, args, nargs, nkw, &o))
        return call_general(self, args, nargs, kwnames);
    return call_ufunc(self, args, nargs, kwnames);
}

/* ---- The type ---- */

/* Avoids the names "divide" and "power": pandas replaces ufuncs of these names by operators. */
static const char *ufunc_name(mylib_op op)
{
    return op == MYLIB_OP_divide  ? "trunc_divide"
           : op == MYLIB_OP_power ? "elementwise_power"
                                  : mylib_op_name(op);
}

static PyObject *new_operation(PyObject *module, core_state *state, mylib_op op,
                               int is_true_division)
{
    const mylib_device cpu = {MYLIB_CPU, 0};
    const char *name = is_true_division ? TRUE_DIVIDE : mylib_op_name(op);
    const char *other_name = is_true_division ? name : ufunc_name(op);
    operation *self = PyObject_GC_New(operation, state->operation);
    if (self == NULL)
        return NULL;
    self->vectorcall = operation_call;
    self->op = op;
    self->nin = mylib_op_arity(op);
    self->is_true_division = (char)is_true_division;
    self->compares = (char)mylib_op_compares(op);
    self->gives_bool = result_types[op][MYLIB_F64] == 1 + MYLIB_BOOL;
    self->takes_ints = result_types[op][MYLIB_I64] != 0;
    self->name = PyUnicode_FromString(name);
    self->dict = Py_BuildValue("{ss}", "__module__", "pkg");
    self->named_ufunc = new_ufunc(module, op, is_true_division, cpu, name);
    self->ufunc = strcmp(name, other_name) == 0 ? Py_XNewRef(self->named_ufunc)
                                                : new_ufunc(module, op, 0, cpu, other_name);
    self->weakrefs = NULL;
    self->state = state;
    PyObject_GC_Track(self);
    if (self->name == NULL || self->dict == NULL || self->named_ufunc == NULL ||
        self->ufunc == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static int operation_traverse(PyObject *object, visitproc visit, void *arg)
{
    operation *self = (operation *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->dict);
    Py_VISIT(self->ufunc);
    Py_VISIT(self->named_ufunc);
    return 0;
}

static int operation_clear(PyObject *object)
{
    operation *self = (operation *)object;
    Py_CLEAR(self->dict);
    Py_CLEAR(self->ufunc);
    Py_CLEAR(self->named_ufunc);
    return 0;
}

static void operation_dealloc(PyObject *object)
{
    operation *self = (operation *)object;
    PyObject_GC_UnTrack(object);
    if (self->weakrefs != NULL)
        PyObject_ClearWeakRefs(object);
    (void)operation_clear(object);
    Py_CLEAR(self->name);
    free_object(object);
}

static PyObject *operation_repr(PyObject *object)
{
    return PyUnicode_FromFormat("<operation pkg.%U>", ((operation *)object)->name);
}

static PyObject *operation_reduce(PyObject *object, PyObject *Py_UNUSED(unused))
{
    return Py_NewRef(((operation *)object)->name);
}

/* Gets an attribute of the ufunc, which describes the operation: types, identity, ... */
static PyObject *get_of_ufunc(PyObject *object, void *name)
{
    return PyObject_GetAttrString(((operation *)object)->ufunc, name);
}

/* Gets a method of the ufunc, for the CPU alone: raises if the default device is a GPU. */
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
    PyObject *methods = PyMapping_GetItemString(self->dict, "_methods");
    PyObject *method = methods != NULL ? PyMapping_GetItemString(methods, name) : NULL;
    Py_XDECREF(methods);
    return method;
}

/* Returns a read-only view, so that nobody changes an operation. */
static PyObject *get_dict(PyObject *object, void *Py_UNUSED(unused))
{
    return PyDictProxy_New(((operation *)object)->dict);
}

static int operation_setattro(PyObject *object, PyObject *name, PyObject *Py_UNUSED(value))
{
    PyErr_Format(PyExc_AttributeError, "operations are immutable: cannot change %R of pkg.%U", name,
                 ((operation *)object)->name);
    return -1;
}

/* Sets what help() and inspect.signature() show, and reduce and the other methods. */
static PyObject *operation_describe(PyObject *object, PyObject *args)
{
    operation *self = (operation *)object;
    PyObject *doc, *signature, *methods;
    if (!PyArg_ParseTuple(args, "OOO!:describe", &doc, &signature, &PyDict_Type, &methods) ||
        PyDict_SetItemString(self->dict, "__doc__", doc) < 0 ||
        PyDict_SetItemString(self->dict, "__signature__", signature) < 0 ||
        PyDict_SetItemString(self->dict, "_methods", methods) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMemberDef operation_members[] = {
    {"__name__", T_OBJECT_EX, offsetof(operation, name), READONLY, NULL},
    {"__qualname__", T_OBJECT_EX, offsetof(operation, name), READONLY, NULL},
    {"ufunc", T_OBJECT_EX, offsetof(operation, ufunc), READONLY,
     "The NumPy ufunc of the operation, which computes on the CPU."},
    {"named_ufunc", T_OBJECT_EX, offsetof(operation, named_ufunc), READONLY,
     "The same under the operation's name, for warnings; pandas would replace some."},
    {"index", T_INT, offsetof(operation, op), READONLY,
     "The operation's number in libmylib (mylib_op)."},
    {"nin", T_INT, offsetof(operation, nin), READONLY, "The number of inputs."},
    {"is_true_division", T_BOOL, offsetof(operation, is_true_division), READONLY,
     "Whether it is true_divide."},
    {"compares", T_BOOL, offsetof(operation, compares), READONLY, "Whether it is a comparison."},
    {"takes_ints", T_BOOL, offsetof(operation, takes_ints), READONLY,
     "Whether integers stay integers."},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(operation, vectorcall), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(operation, weakrefs), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(operation, dict), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef operation_getset[] = {
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
    {"describe", operation_describe, METH_VARARGS, NULL},
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

/* ---- Functions ---- */

/* Returns op(*inputs), with / of ints if `is_true_division`; NotImplemented: NumPy's rules. */
static PyObject *compute_function(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    core_state *state = PyModule_GetState(module);
    PyObject *result = NULL;
    const long op = count >= 2 ? PyLong_AsLong(args[0]) : -1;
    if (op < 0 || op >= MYLIB_OP_COUNT || count - 2 != mylib_op_arity((mylib_op)op))
        return PyErr_Format(PyExc_ValueError, "compute(): no such operation, or not its inputs");
    const int is_cpu = default_is_cpu(state);
    if (is_cpu < 0)
        return NULL;
    outcome done = run_operation(state, (mylib_op)op, args[1] == Py_True, is_cpu,
                                 mylib_op_name((mylib_op)op), args + 2, NULL, NULL, &result);
    return answer(done, result);
}

PyMethodDef operation_functions[] = {
    {"compute", FASTCALL(compute_function), METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

int add_operations(PyObject *module, core_state *state)
{
    state->operations = PyTuple_New(MYLIB_OP_COUNT);
    if (state->operations == NULL)
        return -1;
    for (int op = 0; op < MYLIB_OP_COUNT; op++) {
        PyObject *made = new_operation(module, state, (mylib_op)op, 0);
        if (made == NULL)
            return -1;
        PyTuple_SET_ITEM(state->operations, op, made);
    }
    PyObject *true_divide = new_operation(module, state, MYLIB_OP_divide, 1);
    const int failed = PyModule_AddObjectRef(module, TRUE_DIVIDE, true_divide);
    Py_XDECREF(true_divide);
    return failed < 0 ? -1 : PyModule_AddObjectRef(module, "operations", state->operations);
}
