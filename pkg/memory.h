/*
 * memory.h - GPU memory, the streams that use it, and arrays over it.
 *
 * An Array is a shape and strides over a Memory; views share it.  A Memory is a piece of GPU memory
 * with the one who gives it back: this library, or the foreign object that it belongs to.
 */
#ifndef PKG_MEMORY_H
#define PKG_MEMORY_H

#include "common.h"

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

static inline int is_array(const core_state *state, PyObject *object)
{
    return Py_TYPE(object) == state->array_type || PyObject_TypeCheck(object, state->array_base);
}

extern PyType_Spec memory_spec, stream_spec;
extern PyMethodDef memory_functions[];

#endif /* PKG_MEMORY_H */
