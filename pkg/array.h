/*
 * array.h - what array.c shares with dlpack.c and program.c.
 *
 * An Array is a shape and strides over a Memory; views share it.  A Memory is a piece of GPU memory
 * with the one who gives it back: this library, or the foreign object that it belongs to.
 */
#ifndef PKG_ARRAY_H
#define PKG_ARRAY_H

#include "core.h"

typedef struct stream_object {
    PyObject_HEAD
    mylib_device device;
    void *handle;    /* a cudaStream_t; NULL is the legacy default stream */
    int is_ours;     /* to be destroyed */
    PyObject *owner; /* the foreign object that the handle belongs to, or NULL */
    PyObject *weakrefs;
} stream_object;

typedef struct memory_object {
    PyObject_HEAD
    char *data;
    mylib_device device;
    PyObject *owner;        /* the foreign object, or NULL: ours, from mylib_alloc() */
    PyObject *stream;       /* that it was allocated on, or the foreign object's; NULL is the legacy
                         default stream */
    int owner_is_on_stream; /* a foreign object uses the memory on `stream`; else we do */
    PyObject
        *users; /* NULL, or a list of the other streams (None: the default) that have used it */
} memory_object;

#define INLINE_NDIM 4

typedef struct array_object {
    PyObject_HEAD
    mylib_array a; /* `shape` and `strides` point into dims */
    int64_t count;
    PyObject *memory;
    int is_readonly;
    int64_t inline_dims[2 * INLINE_NDIM];
    int64_t *dims; /* inline_dims, or allocated */
    PyObject *weakrefs;
} array_object;

/* The stream of `device` that the context asks for: a new reference, or NULL, the default one. */
int current_stream(core_state *state, mylib_device device, PyObject **stream_ret);

static inline void *stream_handle(PyObject *stream)
{
    return stream != NULL ? ((stream_object *)stream)->handle : NULL;
}

/*
 * An array of `shape` over `memory` with the element (0, ...) at `data`; NULL strides: C order.
 * Steals the reference to `memory`.
 */
PyObject *new_array_over(core_state *state, PyObject *memory, char *data, mylib_type type, int ndim,
                         const int64_t *shape, const int64_t *strides, int is_readonly);

/*
 * A dimension whose size is negative, or where the bytes of all elements, or between the first and
 * the last of them, overflow 63 bits; -1 where there is none.  NULL strides: C order.
 */
int find_overflow(int ndim, const int64_t *shape, const int64_t *strides, int64_t itemsize);

/* A new array with its own memory, uninitialised.  NULL strides: C order. */
PyObject *new_array(core_state *state, mylib_device device, PyObject *stream, mylib_type type,
                    int ndim, const int64_t *shape, const int64_t *strides);

/*
 * Foreign GPU memory as a Memory.  `owner` is kept until nobody uses the memory; `stream` is the
 * one that its contents are ready on.  When the memory goes back, `stream` waits for the others
 * that have used it if the owner is on that stream; otherwise the host waits for them all.
 */
PyObject *new_foreign_memory(core_state *state, mylib_device device, void *data, PyObject *owner,
                             PyObject *stream, int owner_is_on_stream);

/* Notes that `stream` has been given work on the memory.  -1 and an exception on failure. */
int note_use(PyObject *memory, PyObject *stream);

int is_array(core_state *state, PyObject *object);

/* ---- Operands of a call -------------------------------------------------------------------- */

/* Kinds in the order of NEP 50: a number is weak beside an array of its kind or a higher one. */
typedef enum kind { KIND_BOOL, KIND_INT, KIND_FLOAT, KIND_COMPLEX } kind;

/*
 * An operand, described for the library.  A number or NumPy scalar is kept in `value` until the
 * call has returned.
 */
typedef struct operand {
    mylib_array a;
    PyObject *memory; /* borrowed; NULL for a number */
    kind number;      /* of a weak Python number */
    int is_weak;
    PyObject *object;
    _Alignas(16) char value[16];
} operand;

/*
 * Describes an Array, a number, a NumPy scalar or a NumPy array without dimensions; a weak number
 * still lacks its value.  0: none of these, without an exception.
 */
int take_operand(core_state *state, PyObject *x, operand *o);

/*
 * Gives a weak number its value, of type `type`.  -1 and an exception on failure: OutOfRange, an
 * OverflowError with NumPy's text, for an int that an integer type cannot hold.
 */
int take_value(core_state *state, operand *o, mylib_type type);

/*
 * The Arrays' common device; 0 and a ValueError that names both where they have none, 0 alone where
 * there is no Array.
 */
int common_device(const operand *operands, int count, mylib_device *device_ret);

/* The shape that the inputs broadcast to; 0, without an exception, when they do not. */
int broadcast(const mylib_array *in, int inputs, int *ndim_ret, int64_t *shape);

/*
 * The strides that NumPy gives a new output ("K" order): the axes sorted by the strides of the
 * inputs as its iterator does, C order where those disagree.
 */
void output_strides(const mylib_array *in, int inputs, int ndim, const int64_t *shape,
                    mylib_type type, int64_t *strides);

/* The element type of a dtype; 0 and a TypeError when the library has none. */
int take_dtype(PyObject *object, mylib_type *type_ret);

extern PyType_Spec array_spec, memory_spec, stream_spec;
extern PyMethodDef array_functions[], dlpack_functions[];

/* program.c */
extern PyType_Spec program_spec, expression_spec;

#endif /* PKG_ARRAY_H */
