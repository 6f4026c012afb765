/*
 * expression.c - programs of libmylib, and the fast path of pkg.Expression.
 *
 * A Program computes an expression for given element types; pkg/expressions/lowering.py makes it.
 * A call on operands of the same types as a recent one takes the fast path;
 * pkg/expressions/expression.py computes all other calls.
 */
#include "expression.h"

#include "reduce.h"

#include <stddef.h>
#include <string.h>

#include <structmember.h> /* Python before 3.12 */

#define MAX_INPUTS MYLIB_PROGRAM_MAX_INPUTS

/* ---- Programs ---- */

typedef struct program_object {
    PyObject_HEAD
    mylib_program *program;
    int inputs;
    mylib_type input_types[MAX_INPUTS];
    PyObject *name;          /* owns the text that `computation` points to */
    PyObject *prepare;       /* NULL, or makes the tuple of the inputs of those of an expression */
    computation computation; /* runs the program */
} program_object;

static int is_tuple(PyObject *item)
{
    if (!PyTuple_Check(item))
        PyErr_SetString(PyExc_TypeError, "Program(): constants and steps are tuples");
    return PyTuple_Check(item);
}

/* Sets a zeroed constant from a tuple (dtype, value): converts the value, of one element. */
static int take_constant(PyObject *item, mylib_constant *constant)
{
    PyObject *dtype, *value;
    mylib_type type;
    if (!is_tuple(item) || !PyArg_ParseTuple(item, "OO:constant", &dtype, &value) ||
        take_dtype(dtype, &type) < 0)
        return -1;
    PyArray_Descr *descr = PyArray_DescrFromType(num_of_type(type));
    constant->type = (int32_t)type;
    int result = PyArray_Pack(descr, constant->value, value);
    Py_DECREF(descr);
    return result;
}

/* Takes a tuple (op, dtype, operands). */
static int take_step(PyObject *item, mylib_step *step)
{
    PyObject *dtype, *operands;
    mylib_type type;
    int op;
    if (!is_tuple(item) ||
        !PyArg_ParseTuple(item, "iOO!:step", &op, &dtype, &PyTuple_Type, &operands) ||
        take_dtype(dtype, &type) < 0)
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
    static char *names[] = {"input_dtypes", "constants", "steps", "name", NULL};
    PyObject *input_object, *constant_object, *step_object, *name;
    PyObject *inputs = NULL, *constants = NULL, *steps = NULL;
    mylib_constant *constant = NULL;
    mylib_step *step = NULL;
    program_object *self = NULL, *result = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOU:Program", names, &input_object,
                                     &constant_object, &step_object, &name))
        return NULL;
    /* Tuples, which their items cannot change. */
    inputs = PySequence_Tuple(input_object);
    constants = inputs != NULL ? PySequence_Tuple(constant_object) : NULL;
    steps = constants != NULL ? PySequence_Tuple(step_object) : NULL;
    if (steps == NULL)
        goto out;
    if (PyTuple_GET_SIZE(inputs) > MAX_INPUTS) {
        PyErr_Format(PyExc_ValueError, "Program(): at most %d inputs are supported", MAX_INPUTS);
        goto out;
    }
    Py_ssize_t constant_count = PyTuple_GET_SIZE(constants), step_count = PyTuple_GET_SIZE(steps);
    constant = PyMem_Calloc((size_t)constant_count + 1, sizeof *constant);
    step = PyMem_Calloc((size_t)step_count + 1, sizeof *step);
    self = (program_object *)type->tp_alloc(type, 0);
    if (constant == NULL || step == NULL || self == NULL) {
        PyErr_NoMemory();
        goto out;
    }
    self->inputs = (int)PyTuple_GET_SIZE(inputs);
    self->name = Py_NewRef(name);
    const char *text = PyUnicode_AsUTF8(name);
    if (text == NULL)
        goto out;
    for (int k = 0; k < self->inputs; k++)
        if (take_dtype(PyTuple_GET_ITEM(inputs, k), &self->input_types[k]) < 0)
            goto out;
    for (Py_ssize_t k = 0; k < constant_count; k++)
        if (take_constant(PyTuple_GET_ITEM(constants, k), &constant[k]) < 0)
            goto out;
    int refuses = 0;
    for (Py_ssize_t k = 0; k < step_count; k++) {
        if (take_step(PyTuple_GET_ITEM(steps, k), &step[k]) < 0)
            goto out;
        refuses |= may_refuse((mylib_op)step[k].op, step[k].type);
    }
    mylib_status status = mylib_program_create(self->inputs, self->input_types, (int)constant_count,
                                               constant, (int)step_count, step, &self->program);
    mylib_type result_type = MYLIB_BOOL;
    if (status == MYLIB_OK)
        status = mylib_program_result_type(self->program, &result_type);
    if (status != MYLIB_OK) {
        raise_status(core_state_of(type), status);
        goto out;
    }
    self->computation = (computation){.program = self->program,
                                      .result_type = result_type,
                                      .result_num = num_of_type(result_type),
                                      .steps = (int)step_count,
                                      .may_refuse = refuses,
                                      .name = text};
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
    Py_VISIT(((program_object *)object)->prepare);
    return 0;
}

static void program_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    mylib_program_free(((program_object *)object)->program);
    Py_CLEAR(((program_object *)object)->name);
    Py_CLEAR(((program_object *)object)->prepare);
    free_object(object);
}

/* ---- Calls of a program ---- */

/* The shapes of more arrays are on the heap: 33 KB, for all of them, are too much for a stack. */
#define FEW_INPUTS 4

static void free_dims(int64_t **dims) { PyMem_Free(*dims); }

/* Declares a call of a program with `count` inputs; without memory its free_dims are NULL. */
#define DECLARE_PROGRAM_CALL(c, core, count) \
    mylib_array c##_arrays[1 + MAX_INPUTS]; \
    operand c##_operands[MAX_INPUTS]; \
    int64_t c##_few[DIMS_OF(1 + FEW_INPUTS)]; \
    __attribute__((cleanup(free_dims))) int64_t *c##_many = \
        (count) > FEW_INPUTS ? PyMem_Malloc(DIMS_OF(1 + (size_t)(count)) * sizeof *c##_many) \
                             : NULL; \
    call c = {.state = (core), \
              .inputs = (count), \
              .device = {MYLIB_CPU, 0}, \
              .arrays = c##_arrays, \
              .operands = c##_operands, \
              .free_dims = (count) > FEW_INPUTS ? c##_many : c##_few}

static int take_values(call *c, const program_object *p)
{
    PyObject *type, *value, *traceback;
    for (int k = 0; k < p->inputs; k++) {
        operand *o = &c->operands[k];
        if (o->is_weak && o->number == KIND_BOOL) {
            c->arrays[1 + k].type = MYLIB_BOOL;
            o->value[0] = o->object == Py_True;
        } else if (o->is_weak && take_value(c, k, p->input_types[k]) < 0) {
            if (is_out_of_range(c, k)) {
                PyErr_Fetch(&type, &value, &traceback);
                PyErr_Format(c->state->out_of_range, "%S", value != NULL ? value : Py_None);
                Py_XDECREF(type);
                Py_XDECREF(value);
                Py_XDECREF(traceback);
            }
            return -1;
        }
    }
    return 0;
}

/* Takes a tuple of a program's inputs; computes host arrays on cuda:`ordinal` (-1: the CPU). */
static int take_inputs(call *c, const program_object *p, int ordinal, PyObject *inputs)
{
    c->device = device_of_ordinal(ordinal);
    if (PyTuple_GET_SIZE(inputs) != p->inputs) {
        PyErr_Format(PyExc_TypeError, "the program has %d inputs, %zd were given", p->inputs,
                     PyTuple_GET_SIZE(inputs));
        return -1;
    }
    for (int k = 0; k < p->inputs; k++) {
        PyObject *x = PyTuple_GET_ITEM(inputs, k);
        outcome done = take_operand(c, k, x);
        if (done > DONE)
            PyErr_Format(PyExc_TypeError,
                         "an input of a program is an Array, a NumPy array in native byte order or "
                         "a number, not %.100s",
                         Py_TYPE(x)->tp_name);
        if (done != DONE)
            return -1;
    }
    return take_values(c, p);
}

/*
 * Computes a tuple of inputs: Arrays of one GPU, or NumPy arrays, which are computed on
 * cuda:`ordinal`, or on the CPU when it is -1; numbers among them.  The result goes into `out`, or
 * when that is None into a new array of order "C", "F" or "K".  np.errstate hears of the flags,
 * unless `returns_flags`: then they are the result.  NotImplemented: shapes that do not broadcast;
 * an `out` of another type, shape or place, or on a GPU one that overlaps itself.
 */
static PyObject *program_call(PyObject *object, PyObject *args)
{
    const program_object *p = (program_object *)object;
    DECLARE_PROGRAM_CALL(c, core_state_of(Py_TYPE(object)), p->inputs);
    int ordinal, order, returns_flags = 0, flags = 0;
    PyObject *out, *inputs, *result = NULL;
    if (c.free_dims == NULL)
        return PyErr_NoMemory();
    if (!PyArg_ParseTuple(args, "iCOO!|p:call", &ordinal, &order, &out, &PyTuple_Type, &inputs,
                          &returns_flags) ||
        take_inputs(&c, p, ordinal, inputs) < 0)
        return NULL;
    computation what = p->computation;
    what.flags_ret = returns_flags ? &flags : NULL;
    outcome done = run_call(&c, &what, (char)order, out != Py_None ? out : NULL, &result);
    if (done == DONE && returns_flags)
        Py_SETREF(result, PyLong_FromLong(flags));
    return answer(done, result);
}

/* Reduces the program's values as core.reduce() reduces an array; inputs as for call(). */
static PyObject *program_reduce(PyObject *object, PyObject *args)
{
    const program_object *p = (program_object *)object;
    DECLARE_PROGRAM_CALL(c, core_state_of(Py_TYPE(object)), p->inputs);
    int number, ordinal, keeps_axes;
    PyObject *dtype, *axes, *inputs;
    if (c.free_dims == NULL)
        return PyErr_NoMemory();
    if (!PyArg_ParseTuple(args, "iOiO!pO!:reduce", &number, &dtype, &ordinal, &PyTuple_Type, &axes,
                          &keeps_axes, &PyTuple_Type, &inputs) ||
        take_inputs(&c, p, ordinal, inputs) < 0)
        return NULL;
    reduction r = {(mylib_reduction)number, .program = p->program, .name = p->computation.name};
    return reduce_prepared(&c, &r, dtype, axes, keeps_axes);
}

static PyObject *program_get_dtype(PyObject *object, void *Py_UNUSED(unused))
{
    return (PyObject *)PyArray_DescrFromType(((program_object *)object)->computation.result_num);
}

static PyGetSetDef program_getset[] = {
    {"dtype", program_get_dtype, NULL, "The type of the result.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef program_methods[] = {
    {"call", program_call, METH_VARARGS, NULL},
    {"reduce", program_reduce, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot program_slots[] = {
    {Py_tp_doc, "Program(input_dtypes, constants, steps, name)\n--\n\n"
                "A program of libmylib (mylib_program_create): dtypes; tuples (dtype, value); "
                "tuples (op, dtype, operands); and its name in warnings."},
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

/* ---- Expressions ---- */

/* Describes an input in a key: NumPy's type number, or KEY_NUMBER + the kind of a Python number. */
enum { KEY_NUMBER = 64, KEY_NONE = 255 };

#define MAX_PLANS 8

/* A program for one combination of input types, and where its inputs come from. */
typedef struct plan {
    program_object *program;
    uint8_t key[MAX_INPUTS];
    uint8_t source[MAX_INPUTS]; /* for each input of the program, the expression's input */
} plan;

typedef struct expression_object {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    core_state *state; /* of the module, which the type keeps alive */
    PyObject *names;   /* of the inputs; NULL before the first plan */
    PyObject *axis;    /* of the reduction of the values */
    int keeps_axes;
    int number; /* of the reduction, or -1 */
    int inputs;
    int plans;   /* in use */
    int replace; /* the next plan to replace */
    plan plan[MAX_PLANS];
} expression_object;

static uint8_t key_of(core_state *state, PyObject *x)
{
    if (PyArray_CheckExact(x))
        return PyArray_ISNOTSWAPPED((PyArrayObject *)x) &&
                       PyArray_TYPE((PyArrayObject *)x) < NPY_NTYPES_LEGACY
                   ? (uint8_t)PyArray_TYPE((PyArrayObject *)x)
                   : KEY_NONE;
    const int number = kind_of_number(x);
    if (number >= 0)
        return (uint8_t)(KEY_NUMBER + number);
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

/* Copies the plan for a key with a new reference to its program: other threads may replace it. */
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

/* Reduces the values of a call. */
static outcome reduce_call(call *c, const expression_object *self, const program_object *p,
                           PyObject *out, PyObject **result_ret)
{
    int64_t shape[MYLIB_MAX_NDIM];
    reduction r;
    uint64_t axes;
    int ndim;
    outcome done = broadcast(c, &ndim, shape);
    if (done == DONE && (done = take_axes(self->axis, ndim, &axes)) == DONE)
        done = count_of(ndim, shape) == 0
                   ? OTHER_SHAPE
                   : choose_reduction(c->state, p->computation.result_type, self->number,
                                      count_terms(ndim, shape, axes), &r);
    if (done != DONE)
        return done;
    r.program = p->program;
    r.out = out;
    r.name = p->computation.name;
    return reduce_to_new(c, &r, axes, self->keeps_axes, result_ret);
}

static outcome follow_plan(const expression_object *self, const plan *found, PyObject *const *args,
                           PyObject *prepared, PyObject *out, PyObject **result_ret)
{
    core_state *state = self->state;
    const program_object *p = found->program;
    DECLARE_PROGRAM_CALL(c, state, p->inputs);
    outcome done;
    if (c.free_dims == NULL) {
        PyErr_NoMemory();
        return FAILED;
    }
    for (int k = 0; k < p->inputs; k++) {
        PyObject *x = prepared != NULL ? PyTuple_GET_ITEM(prepared, k) : args[found->source[k]];
        if ((done = take_operand(&c, k, x)) != DONE)
            return done;
    }
    if (!c.on_gpu) {
        int is_cpu = default_is_cpu(state);
        if (is_cpu <= 0)
            return is_cpu < 0 ? FAILED : OTHER_PLACE;
    }
    if (take_values(&c, p) < 0) {
        if (!PyErr_ExceptionMatches(state->out_of_range))
            return FAILED;
        PyErr_Clear(); /* perhaps a comparison with a number beyond the type */
        return OTHER_NUMBER;
    }
    if (self->number < 0)
        return run_call(&c, &p->computation, 'K', out, result_ret);
    return reduce_call(&c, self, p, out, result_ret);
}

static outcome call_plan(expression_object *self, PyObject *const *args, PyObject *out,
                         PyObject **result_ret)
{
    uint8_t key[MAX_INPUTS];
    plan found;
    for (int k = 0; k < self->inputs; k++)
        if ((key[k] = key_of(self->state, args[k])) == KEY_NONE)
            return PyErr_Occurred() ? FAILED : OTHER_OPERAND;
    if (!find_plan(self, key, &found))
        return OTHER_TYPE;
    PyObject *prepare = found.program->prepare, *prepared = NULL;
    outcome done = OTHER_NUMBER;
    if (prepare != NULL)
        prepared = call_in_mode(prepare, args, self->inputs, NULL);
    if (prepare == NULL || (prepared != NULL && PyTuple_Check(prepared) &&
                            PyTuple_GET_SIZE(prepared) == found.program->inputs))
        done = follow_plan(self, &found, args, prepared, out, result_ret);
    else if (prepared == NULL && !PyErr_ExceptionMatches(PyExc_Exception))
        done = FAILED;
    else
        PyErr_Clear(); /* the long way raises it again */
    Py_XDECREF(prepared);
    Py_DECREF(found.program);
    return done;
}

static PyObject *call_python(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames)
{
    PyObject *method = PyObject_GetAttrString(self, "_call");
    if (method == NULL)
        return NULL;
    PyObject *result = call_in_mode(method, args, nargs, kwnames);
    Py_DECREF(method);
    return result;
}

static int find_input(const expression_object *self, Py_ssize_t given, PyObject *name)
{
    for (int k = (int)given; k < self->inputs; k++)
        if (PyUnicode_Compare(PyTuple_GET_ITEM(self->names, k), name) == 0)
            return k;
    return -1;
}

/*
 * Puts the arguments in the order of the inputs, if they are these, perhaps `out`, which must have
 * the type of the result, and options that change nothing.
 */
static int order_arguments(const expression_object *self, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames, PyObject **ordered, PyObject **out_ret)
{
    const Py_ssize_t nkw = kwnames != NULL ? PyTuple_GET_SIZE(kwnames) : 0;
    Py_ssize_t found = nargs;
    if (self->plans == 0 || nargs > self->inputs)
        return 0;
    for (Py_ssize_t i = 0; i < nargs; i++)
        ordered[i] = args[i];
    for (Py_ssize_t i = 0; i < nkw; i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i), *value = args[nargs + i];
        if (!PyUnicode_CheckExact(name))
            return 0; /* a subclass of str may read like another name, and differ from it */
        const int k = find_input(self, nargs, name);
        if (k >= 0) { /* a call has no name twice */
            ordered[k] = value;
            found++;
        } else if (is_text(name, "out")) {
            *out_ret = value != Py_None ? value : NULL;
        } else if (!(is_text(name, "device") && value == Py_None) &&
                   !(is_text(name, "casting") && is_text(value, "same_kind"))) {
            return 0;
        }
    }
    return found == self->inputs;
}

static PyObject *expression_call(PyObject *object, PyObject *const *args, size_t nargsf,
                                 PyObject *kwnames)
{
    expression_object *self = (expression_object *)object;
    const Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    PyObject *ordered[MAX_INPUTS], *out = NULL, *result = NULL;
    if (order_arguments(self, args, nargs, kwnames, ordered, &out) &&
        call_plan(self, ordered, out, &result) <= DONE)
        return result;
    return call_python(object, args, nargs, kwnames);
}

static PyObject *expression_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args, (void)kwargs; /* for pkg.Expression's __init__ */
    core_state *state = core_state_of(type);
    expression_object *self = state != NULL ? (expression_object *)type->tp_alloc(type, 0) : NULL;
    if (self != NULL) {
        self->state = state;
        self->vectorcall = expression_call;
        self->inputs = -1; /* no call takes the fast path before _remember() */
    }
    return (PyObject *)self;
}

/* Keeps a plan, unless its key already has one.  Replaces the oldest if there are too many. */
static void add_plan(expression_object *self, const plan *new, PyObject *prepare, PyObject *names,
                     int number, PyObject *axis, int keeps_axes)
{
    const int inputs = (int)PyTuple_GET_SIZE(names);
    program_object *old = NULL;
    Py_BEGIN_CRITICAL_SECTION((PyObject *)self);
    int is_known = 0;
    self->inputs = inputs;
    if (self->names == NULL) {
        self->names = Py_NewRef(names);
        self->axis = Py_NewRef(axis);
        self->number = number;
        self->keeps_axes = keeps_axes;
    }
    for (int i = 0; i < self->plans; i++)
        is_known |= memcmp(self->plan[i].key, new->key, (size_t)inputs) == 0;
    if (!is_known) {
        int place = self->plans < MAX_PLANS ? self->plans++ : self->replace++ % MAX_PLANS;
        old = self->plan[place].program;
        self->plan[place] = *new;
        Py_INCREF(new->program);
        if (new->program->prepare == NULL) /* another thread may be calling the old one */
            new->program->prepare = Py_XNewRef(prepare);
    }
    Py_END_CRITICAL_SECTION();
    Py_XDECREF(old);
}

/*
 * Lets `program` compute calls on inputs of these names and of the types of these.  Its inputs are
 * those with the numbers `sources`, or the tuple that the function `sources` makes of all; if it
 * makes none, the call takes the long way.  If `number` is that of a reduction, and not -1, the
 * values are reduced along `axis`, in all calls of the expression.
 */
static PyObject *expression_remember(PyObject *object, PyObject *args)
{
    expression_object *self = (expression_object *)object;
    PyObject *names, *inputs, *sources, *program, *axis;
    int number, keeps_axes;
    plan new = {0};
    if (!PyArg_ParseTuple(args, "O!O!OO!iOp:_remember", &PyTuple_Type, &names, &PyTuple_Type,
                          &inputs, &sources, self->state->program_type, &program, &number, &axis,
                          &keeps_axes))
        return NULL;
    if ((PyTuple_Check(sources) &&
         PyTuple_GET_SIZE(sources) != ((program_object *)program)->inputs) ||
        PyTuple_GET_SIZE(inputs) > MAX_INPUTS ||
        PyTuple_GET_SIZE(inputs) != PyTuple_GET_SIZE(names) ||
        (self->inputs >= 0 && self->inputs != PyTuple_GET_SIZE(inputs)))
        goto odd;
    new.program = (program_object *)program;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(inputs); k++) {
        if (!PyUnicode_Check(PyTuple_GET_ITEM(names, k)))
            goto odd;
        if ((new.key[k] = key_of(self->state, PyTuple_GET_ITEM(inputs, k))) == KEY_NONE)
            return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    const Py_ssize_t count = PyTuple_Check(sources) ? PyTuple_GET_SIZE(sources) : 0;
    for (Py_ssize_t k = 0; k < count; k++) {
        long source = PyLong_AsLong(PyTuple_GET_ITEM(sources, k));
        if (source == -1 && PyErr_Occurred())
            return NULL;
        if (source < 0 || source >= PyTuple_GET_SIZE(inputs))
            goto odd;
        new.source[k] = (uint8_t)source;
    }
    add_plan(self, &new, PyTuple_Check(sources) ? NULL : sources, names, number, axis, keeps_axes);
    Py_RETURN_NONE;
odd:
    return PyErr_Format(PyExc_ValueError, "_remember(): these do not belong together");
}

static int expression_traverse(PyObject *object, visitproc visit, void *arg)
{
    const expression_object *self = (expression_object *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->names);
    Py_VISIT(self->axis);
    for (int i = 0; i < self->plans; i++)
        Py_VISIT(self->plan[i].program);
    return 0;
}

static void expression_dealloc(PyObject *object)
{
    expression_object *self = (expression_object *)object;
    PyObject_GC_UnTrack(object);
    Py_CLEAR(self->names);
    Py_CLEAR(self->axis);
    for (int i = 0; i < self->plans; i++)
        Py_CLEAR(self->plan[i].program);
    free_object(object);
}

static PyMemberDef expression_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(expression_object, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef expression_methods[] = {
    {"_remember", expression_remember, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot expression_slots[] = {
    {Py_tp_doc, "The base of pkg.Expression."},
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
