/*
 * mylib.h - the public interface of libmylib: arithmetic on arrays, on the CPU and on CUDA GPUs.
 *
 * Conventions, for every function below:
 *
 * - A function that can fail returns a mylib_status.  Results go through the last parameters and
 *   are written only on MYLIB_OK, unless its comment says otherwise.  After a failure,
 *   mylib_last_message() says what was given, what was expected and what would help.
 * - A call uses at most 48 KB of the calling thread's stack, plus what the CUDA driver uses.
 * - The library never prints, exits, aborts or installs handlers, whatever the arguments.
 * - Sizes count elements and are 64-bit; strides count bytes and may be zero or negative.
 * - Memory stays its owner's: the library keeps no pointer after a call returns, except that work
 *   on GPU memory is asynchronous and uses its operands until the stream has reached it.
 * - Every function may be called from any thread at any time.  Calls that write to the same memory
 *   must be ordered by the caller.  A thread that is cancelled (pthread_cancel) in a call on the
 *   CPU ends after the call.  Do not cancel a thread in a call that uses a GPU.
 * - The same operation on the same values gives the same bits on every processor, on every GPU,
 *   with any number of threads.  NaN results are NaN everywhere; their sign and payload may differ.
 * - Every call computes in the default floating-point mode, whatever the mode of the calling thread
 *   (rounding, denormal numbers as zeros, traps), and restores that mode.
 *
 * Nothing touches the GPU driver before the first call that needs a GPU.
 */
#ifndef MYLIB_H
#define MYLIB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The build and the Python package read the version here; it is written nowhere else. */
#define MYLIB_VERSION_MAJOR 2
#define MYLIB_VERSION_MINOR 0
#define MYLIB_VERSION_PATCH 0

#if defined(_WIN32)
#define MYLIB_API
#else
#define MYLIB_API __attribute__((visibility("default")))
#endif

/* ---- Status ---- */

/* The values of all enumerators are pinned: their meaning never changes; new ones come last. */
typedef enum mylib_status {
    MYLIB_OK = 0,
    MYLIB_ERR_ARGUMENT = 1,    /* an argument is wrong: NULL, out of range, shapes that disagree */
    MYLIB_ERR_UNSUPPORTED = 2, /* the operation is not defined for this element type */
    MYLIB_ERR_NO_MEMORY = 3,   /* host or GPU memory ran out; the message states the sizes */
    MYLIB_ERR_NO_DEVICE = 4,   /* no such device or driver, or built without CUDA */
    MYLIB_ERR_CUDA = 5,        /* a CUDA call failed; the message names the call and the error */
    MYLIB_ERR_OVERFLOW = 6,    /* the result of a scalar does not fit */
    MYLIB_ERR_ZERO_DIVIDE = 7, /* a scalar was divided by zero */
    MYLIB_ERR_DOMAIN = 8,      /* undefined for this value: the square root of a negative scalar */
    MYLIB_ERR_FORKED = 9       /* CUDA was used before fork() and cannot be used in the child */
} mylib_status;

/* Returns the name of a status ("MYLIB_ERR_ARGUMENT"): a static string, never NULL. */
MYLIB_API const char *mylib_status_name(mylib_status status);

/*
 * Tells what went wrong in this thread's last failed call: one sentence or more, without a newline
 * at the end.  Never NULL; "" before the first failure, and if the thread's first failure found no
 * memory for it.  Valid until the thread's next failed call.
 */
MYLIB_API const char *mylib_last_message(void);

/* Returns the version of the loaded library, "MAJOR.MINOR.PATCH"; compare the macros above. */
MYLIB_API const char *mylib_version(void);

/* ---- Element types ---- */

/*
 * i are signed (two's complement) and u unsigned integers; f are IEEE 754 binary16, 32 and 64; c
 * are complex numbers, stored as real part, imaginary part.
 *
 * A bool is one byte, 0 or 1: comparisons and logic return it, and selections take it.  Other bytes
 * are read as 1, but copies, selections and conversions from bool to bool may keep the byte.  On
 * bools, add, maximum and fmax are logical_or; multiply, minimum and fmin are logical_and;
 * absolute, floor, ceil, trunc and real return the bool itself.  The other operations are not
 * defined for bool; mylib_map_as() converts bools to 0 and 1 for them.
 */
typedef enum mylib_type {
    MYLIB_I8 = 0,
    MYLIB_I16 = 1,
    MYLIB_I32 = 2,
    MYLIB_I64 = 3,
    MYLIB_U8 = 4,
    MYLIB_U16 = 5,
    MYLIB_U32 = 6,
    MYLIB_U64 = 7,
    MYLIB_F16 = 8,
    MYLIB_F32 = 9,
    MYLIB_F64 = 10,
    MYLIB_C64 = 11,
    MYLIB_C128 = 12,
    MYLIB_BOOL = 13
} mylib_type;
#define MYLIB_TYPE_COUNT 14

/* Returns "i8" ... "c128", "bool"; NULL if the value is not a type. */
MYLIB_API const char *mylib_type_name(mylib_type type);

/* Returns the bytes per element; 0 if the value is not a type. */
MYLIB_API size_t mylib_type_size(mylib_type type);

/* ---- Operations ---- */

/*
 * Element-wise operations.  Integers wrap.
 *
 * In arrays an integer divided by zero gives 0 and raises the floating-point flag FE_DIVBYZERO; MIN
 * / -1 gives MIN and raises FE_OVERFLOW.  Operations on GPU memory raise no flags.  Nothing traps.
 */
typedef enum mylib_op {
    MYLIB_OP_add = 0,
    MYLIB_OP_subtract = 1,
    MYLIB_OP_multiply = 2,
    MYLIB_OP_divide = 3,       /* integers: as in C, truncated toward zero */
    MYLIB_OP_floor_divide = 4, /* rounded toward minus infinity, as Python's // */
    MYLIB_OP_remainder = 5,    /* has the sign of the divisor, as Python's % */
    MYLIB_OP_minimum = 6,      /* NaN if either is NaN; complex: by real, then imaginary part */
    MYLIB_OP_maximum = 7,
    MYLIB_OP_negative = 8,
    MYLIB_OP_absolute = 9, /* complex: the modulus, of the real type */
    MYLIB_OP_square = 10,
    MYLIB_OP_sqrt = 11, /* floating-point and complex only */
    /* Comparisons: the result is bool.  Complex numbers are ordered as for minimum. */
    MYLIB_OP_equal = 12,
    MYLIB_OP_not_equal = 13,
    MYLIB_OP_less = 14,
    MYLIB_OP_less_equal = 15,
    MYLIB_OP_greater = 16,
    MYLIB_OP_greater_equal = 17,
    /* Logic: the result is bool.  A number is true if it differs from 0; NaN is true. */
    MYLIB_OP_logical_and = 18,
    MYLIB_OP_logical_or = 19,
    MYLIB_OP_logical_xor = 20,
    MYLIB_OP_logical_not = 21,
    /* Bitwise operations of integers; on bools they are the logical operations. */
    MYLIB_OP_bitwise_and = 22,
    MYLIB_OP_bitwise_or = 23,
    MYLIB_OP_bitwise_xor = 24,
    MYLIB_OP_invert = 25,
    /*
     * Shifts of integers.  A count that is negative or not below the number of bits gives 0; a
     * right shift of a negative number then gives -1.
     */
    MYLIB_OP_left_shift = 26,
    MYLIB_OP_right_shift = 27,
    /* Functions, as NumPy defines them.  floor, ceil and trunc return integers unchanged. */
    MYLIB_OP_rint = 28, /* to the nearest integer, ties to even; not for integers: use floor */
    MYLIB_OP_floor = 29,
    MYLIB_OP_ceil = 30,
    MYLIB_OP_trunc = 31,    /* toward zero */
    MYLIB_OP_sign = 32,     /* -1, 0, 1 or NaN; complex: z / |z| */
    MYLIB_OP_signbit = 33,  /* bool */
    MYLIB_OP_copysign = 34, /* floats only: this and nextafter */
    MYLIB_OP_nextafter = 35,
    MYLIB_OP_reciprocal = 36, /* 0 for the integer 0 */
    MYLIB_OP_positive = 37,
    MYLIB_OP_fmod = 38, /* has the sign of the dividend, as in C */
    MYLIB_OP_fmin = 39, /* the other operand if one is NaN */
    MYLIB_OP_fmax = 40,
    MYLIB_OP_isnan = 41, /* bool: this and the next two */
    MYLIB_OP_isinf = 42,
    MYLIB_OP_isfinite = 43,
    MYLIB_OP_conjugate = 44,
    MYLIB_OP_real = 45, /* of the real type: this and imag */
    MYLIB_OP_imag = 46,
    /* Elementary functions of floats and, unless noted, of complex numbers. */
    MYLIB_OP_sin = 47,
    MYLIB_OP_cos = 48,
    MYLIB_OP_tan = 49,
    MYLIB_OP_deg2rad = 50, /* floats only: this and rad2deg */
    MYLIB_OP_rad2deg = 51,
    MYLIB_OP_exp = 52,
    MYLIB_OP_exp2 = 53, /* floats only */
    MYLIB_OP_expm1 = 54,
    MYLIB_OP_arcsin = 55,
    MYLIB_OP_arccos = 56,
    MYLIB_OP_arctan = 57,
    MYLIB_OP_arctan2 = 58, /* floats only */
    MYLIB_OP_log = 59,
    MYLIB_OP_log2 = 60,
    MYLIB_OP_log10 = 61,
    MYLIB_OP_log1p = 62,
    MYLIB_OP_cbrt = 63,  /* floats only */
    MYLIB_OP_hypot = 64, /* floats only */
    MYLIB_OP_sinh = 65,
    MYLIB_OP_cosh = 66,
    MYLIB_OP_tanh = 67,
    MYLIB_OP_arcsinh = 68,
    MYLIB_OP_arccosh = 69,
    MYLIB_OP_arctanh = 70,
    /*
     * Powers of integers wrap.  If any exponent of integers is negative before the call, it returns
     * MYLIB_ERR_DOMAIN and writes nothing; on a GPU it waits to find out.  Complex: 0 to a power
     * with a positive real part is 0; any number to the power 0 is 1.
     */
    MYLIB_OP_power = 71,
    MYLIB_OP_logaddexp = 72, /* log(e^a + e^b); floats only */
    MYLIB_OP_erf = 73        /* the error function; floats only */
} mylib_op;
#define MYLIB_OP_COUNT 74

/* Returns the name of an operation ("add"); NULL if the value is not an operation. */
MYLIB_API const char *mylib_op_name(mylib_op op);

/* Returns the number of inputs, 1 or 2; 0 if the value is not an operation. */
MYLIB_API int mylib_op_arity(mylib_op op);

/* Returns 1 for the comparisons, equal to greater_equal, else 0. */
MYLIB_API int mylib_op_compares(mylib_op op);

/*
 * Gives the element type of the result for inputs of 'type'.  Returns MYLIB_ERR_UNSUPPORTED if the
 * operation is not defined for 'type'; the message lists the types for which it is.  Pass NULL as
 * result_ret to check only that.
 */
MYLIB_API mylib_status mylib_op_result_type(mylib_op op, mylib_type type, mylib_type *result_ret);

/* ---- Devices ---- */

/* The kinds have DLPack's numbers. */
typedef enum mylib_device_kind { MYLIB_CPU = 1, MYLIB_CUDA = 2 } mylib_device_kind;

/* A device, which has memory and computes.  index: 0 for the CPU, the CUDA ordinal for a GPU. */
typedef struct mylib_device {
    int32_t kind;
    int32_t index;
} mylib_device;

/*
 * The index of all CUDA GPUs together.  A call that computes with 32 MiB of host arrays or more
 * streams the elements through every usable GPU, each over its own bus.  It uses at most as many
 * GPUs as threads (mylib_set_num_threads()).  Smaller arrays, reductions and scalars go through the
 * first GPU.  The call waits for all GPUs, even if one of them fails.
 *
 * Memory, streams and arrays belong to one GPU: functions that take one of them return
 * MYLIB_ERR_ARGUMENT for MYLIB_ALL_GPUS.
 */
#define MYLIB_ALL_GPUS INT32_MAX

/*
 * Counts the usable CUDA GPUs.  Without one, writes 0 and returns MYLIB_ERR_NO_DEVICE; the message
 * says why: built without CUDA, no driver, a driver too old, or no GPU.
 */
MYLIB_API mylib_status mylib_cuda_device_count(int *count_ret);

typedef struct mylib_device_info {
    char name[256];
    int compute_major, compute_minor;
    int multiprocessors;
    int driver_version;  /* as CUDA counts: 13000 is 13.0 */
    int runtime_version; /* of the runtime inside the library */
    uint64_t total_nbytes, free_nbytes;
} mylib_device_info;

/* Describes the CUDA GPU 'index'.  Returns MYLIB_ERR_NO_DEVICE if there is no such GPU. */
MYLIB_API mylib_status mylib_cuda_device_info(int index, mylib_device_info *info_ret);

/* Checks that a CUDA GPU is usable; fails like mylib_cuda_device_info().  Does not wait. */
MYLIB_API mylib_status mylib_cuda_check_device(int index);

/* Describes how the library was built and what it chose on this machine.  Strings are static. */
typedef struct mylib_config {
    const char *version;
    const char *compiler;           /* of the C parts */
    int has_cuda;                   /* 1 when built with CUDA */
    const char *cuda_version;       /* toolkit, "13.0"; "" without CUDA */
    const char *cuda_architectures; /* "90-real;120", as given to the build; "" without CUDA */
    const char *cuda_searched;      /* where the build searched for a CUDA toolkit */
    const char *cpu_level;          /* "x86-64-v3", "generic", ... */
    int threads;                    /* the maximum for a large CPU operation */
} mylib_config;

MYLIB_API mylib_status mylib_get_config(mylib_config *config_ret);

/*
 * Sets the maximum number of threads of a large CPU operation, including the calling thread.  It
 * applies to all callers, from their next call on.  At most 256 threads are used.
 *
 * 0 restores the default: the first number of OMP_NUM_THREADS, or else one thread for each
 * processor that the process may use (by its affinity and its container's share of CPU time).  Any
 * other number takes precedence over OMP_NUM_THREADS.  The threads are the library's own, not
 * OpenMP's: neither omp_set_num_threads() nor threadpoolctl controls them.
 * Returns MYLIB_ERR_ARGUMENT if the number is negative.
 *
 * All callers share the other threads, which belong to the process and start when first needed.  If
 * the system refuses to start a thread, fewer threads compute.  A child of fork() keeps the number
 * and starts threads of its own.
 */
MYLIB_API mylib_status mylib_set_num_threads(int threads);

/* Stores the maximum in force, from 1 to 256: the last one set, or the default. */
MYLIB_API mylib_status mylib_get_num_threads(int *threads_ret);

/*
 * Restricts the CPU kernels to an x86-64 level, for tests and comparisons: "generic", "x86-64-v2",
 * "x86-64-v3", "x86-64-v4", or NULL for the best.  Results do not depend on it.  Returns
 * MYLIB_ERR_UNSUPPORTED if this processor or build does not have the level.
 */
MYLIB_API mylib_status mylib_set_cpu_level(const char *level);

/* ---- Memory ---- */

/*
 * mylib_alloc() allocates nbytes of uninitialised memory on 'device', aligned to at least 64 bytes
 * (256 on a GPU).  GPU memory comes from the driver's stream-ordered pool; work on 'stream' may use
 * it at once.  nbytes may be 0; free that pointer too.
 *
 * mylib_free() frees it; NULL is allowed.  GPU memory is freed in the order of 'stream'.  For a GPU
 * it returns MYLIB_ERR_ARGUMENT if mylib_alloc() did not give the pointer there, or if it was freed
 * before.  For the CPU it is free(), which checks nothing: other pointers are undefined behaviour.
 *
 * 'stream', here and below, is any cudaStream_t of the process; NULL is the legacy default stream.
 * The CPU ignores it.
 */
MYLIB_API mylib_status mylib_alloc(mylib_device device, size_t nbytes, void *stream,
                                   void **ptr_ret);
MYLIB_API mylib_status mylib_free(mylib_device device, void *ptr, void *stream);

/*
 * Allocates page-locked ("pinned") host memory: GPUs read and write it in place, at the full speed
 * of the bus; other host memory goes through staging buffers.  Allocation is slow, and needs a GPU.
 * Free it with mylib_free_pinned().
 */
MYLIB_API mylib_status mylib_alloc_pinned(size_t nbytes, void **ptr_ret);
MYLIB_API mylib_status mylib_free_pinned(void *ptr);

/*
 * Copies nbytes between any two devices, or within one.  The copy runs in the order of 'stream', a
 * stream of the destination's GPU if it is on one, else of the source's.  It is complete on return
 * if either side is host memory.  The ranges must not overlap.
 */
MYLIB_API mylib_status mylib_copy(mylib_device dst_device, void *dst, mylib_device src_device,
                                  const void *src, size_t nbytes, void *stream);

/*
 * Finds the device of the memory at 'ptr': the GPU on which the driver allocated it, else the CPU.
 * Returns MYLIB_ERR_NO_DEVICE and MYLIB_ERR_FORKED as mylib_cuda_device_count() does.
 */
MYLIB_API mylib_status mylib_pointer_device(const void *ptr, mylib_device *device_ret);

/* Waits until 'stream' has done all its work, and reports the errors of that work. */
MYLIB_API mylib_status mylib_synchronize(mylib_device device, void *stream);

/*
 * Creates a stream of a GPU.  Work on one stream runs in order; work on several may overlap.  The
 * stream is not ordered against the legacy default stream: use mylib_stream_wait() for that.
 * Destroying a stream does not stop its work.
 */
MYLIB_API mylib_status mylib_stream_create(mylib_device device, void **stream_ret);
MYLIB_API mylib_status mylib_stream_destroy(mylib_device device, void *stream);

/*
 * Makes work enqueued on 'stream' from now on wait for the work that is on 'other' now, a stream of
 * the GPU 'other_device'.  The call itself does not wait.
 */
MYLIB_API mylib_status mylib_stream_wait(mylib_device device, void *stream,
                                         mylib_device other_device, void *other);

/* The memory of a GPU, in bytes.  'used' and 'held' count only this library's pool. */
typedef struct mylib_memory_info {
    uint64_t used_nbytes;  /* allocated by mylib_alloc() and not yet freed */
    uint64_t held_nbytes;  /* taken from the driver: 'used', and memory kept for later calls */
    uint64_t limit_nbytes; /* see mylib_cuda_set_memory_limit(); UINT64_MAX: no limit */
    uint64_t free_nbytes, total_nbytes; /* of the whole GPU, as the driver says */
} mylib_memory_info;

MYLIB_API mylib_status mylib_cuda_memory_info(int index, mylib_memory_info *info_ret);

/*
 * Makes mylib_alloc() on the GPU 'index', and calls that need temporary memory there, fail with
 * MYLIB_ERR_NO_MEMORY if 'used' would exceed limit_nbytes.  UINT64_MAX removes the limit.
 */
MYLIB_API mylib_status mylib_cuda_set_memory_limit(int index, uint64_t limit_nbytes);

/*
 * Frees the memory that the library keeps for speed: staging buffers and the unused part of the GPU
 * memory pools.  Later calls allocate it again if they need it.
 */
MYLIB_API mylib_status mylib_free_cached(void);

/* ---- Arrays ---- */

#define MYLIB_MAX_NDIM 64

/*
 * An array in memory.  Resembles DLPack's DLTensor, but strides count bytes.  The library only
 * reads the structure, its shape and its strides.
 *
 * Host arrays need no alignment; GPU arrays must be aligned to their element size.  The stride of
 * an axis of length 1 does not matter, nor do the strides of an array without elements.  Calls
 * return MYLIB_ERR_ARGUMENT for more than 2^52 elements, and for strides that lead outside the
 * address space.
 */
typedef struct mylib_array {
    void *data;          /* the element with all indices 0; may be NULL without elements */
    mylib_device device; /* where 'data' is */
    mylib_type type;
    int32_t ndim;           /* 0 to MYLIB_MAX_NDIM */
    const int64_t *shape;   /* ndim sizes, >= 0; may be NULL when ndim is 0 */
    const int64_t *strides; /* ndim strides in bytes; NULL means C order without gaps */
} mylib_array;

/*
 * Sets *overlaps_ret to 1 if elements of the array share bytes, as with stride 0, else to 0.
 * Exact, except that strides too intricate to decide count as overlap.  Reads no element, and needs
 * no GPU.  Returns MYLIB_ERR_ARGUMENT for NULL, and for arrays for which mylib_map() returns it.
 */
MYLIB_API mylib_status mylib_overlaps_itself(const mylib_array *array, int *overlaps_ret);

/* ---- map: element-wise operations ---- */

/*
 * mylib_map() computes out = op(in[0]) or out = op(in[0], in[1]), element by element, on 'device'.
 *
 * The inputs are broadcast to the shape of 'out' as NumPy does: shapes are aligned at their last
 * dimension, and a size of 1 (or a missing dimension) is repeated.  All inputs have the same
 * element type, and 'out' has the type that mylib_op_result_type() gives.  Comparisons also take a
 * signed integer and a u64, in either order, and compare them exactly.
 *
 * The call never moves arrays silently.  They must be in one of these places, or it returns
 * MYLIB_ERR_ARGUMENT:
 * - All in host memory, and device is the CPU.  Large arrays are computed by several threads.
 *   Floating-point flags are raised in the calling thread, as if it had computed alone.
 * - All in host memory, and device is a GPU, or all GPUs (MYLIB_ALL_GPUS).  The elements are
 *   streamed through it; the call returns when 'out' is complete, and ignores 'stream'.  After an
 *   error the content of 'out' is undefined.  Flags are raised too, except FE_UNDERFLOW and
 *   FE_INEXACT.
 * - All on the GPU 'device'.  The work is enqueued on 'stream'.  The call does not wait; if the
 *   kernel fails, the next call that waits reports it.  An input without dimensions may be in host
 *   memory: the call reads its value before it returns.
 *
 * 'out' may be exactly an input (the same data, shape, strides and element size).  With any other
 * overlap the CPU computes one element after the other in C order, slowly; a call on a GPU returns
 * MYLIB_ERR_ARGUMENT.  'out' may overlap itself (elements share bytes, as with stride 0) only on
 * the CPU, which then computes in that order too.
 *
 * Also returns MYLIB_ERR_ARGUMENT for NULL, a negative size, shapes that do not broadcast, and
 * types that disagree; MYLIB_ERR_UNSUPPORTED if the operation is not defined for the type.  Only
 * calls that use a GPU return MYLIB_ERR_NO_DEVICE, MYLIB_ERR_CUDA, MYLIB_ERR_NO_MEMORY and
 * MYLIB_ERR_FORKED; but integer powers may return MYLIB_ERR_NO_MEMORY on the CPU too, before
 * anything is written.
 */
MYLIB_API mylib_status mylib_map(mylib_op op, mylib_device device, void *stream,
                                 const mylib_array *out, const mylib_array *in);

/*
 * Computes out[i] = op(a[i], b[i]) on the CPU for n elements in host memory; each array is a
 * pointer and a byte stride.  Operations with one input ignore 'b'.
 *
 * Any overlap is allowed and gives the result of computing in order.  In particular, out == a with
 * both strides 0 folds b into *out.  An add then sums the terms in the order of mylib_reduce(),
 * which is more accurate than left to right.
 */
MYLIB_API mylib_status mylib_map1(mylib_op op, mylib_type type, int64_t n, void *out,
                                  int64_t out_stride, const void *a, int64_t a_stride,
                                  const void *b, int64_t b_stride);

/*
 * Does what mylib_map() does, but computes in 'type': inputs of other types are converted to it, as
 * C converts numbers.  To bool, a number is true if it differs from 0.  A float outside the range
 * of an integer type becomes the nearest integer of the type, NaN the lowest; neither raises a
 * flag.  A complex number loses its imaginary part.  'out' has the type that mylib_op_result_type()
 * gives for 'type'.
 */
MYLIB_API mylib_status mylib_map_as(mylib_op op, mylib_type type, mylib_device device, void *stream,
                                    const mylib_array *out, const mylib_array *in);

/*
 * Computes out = condition ? a : b, element by element.  The condition is true where it differs
 * from 0, and may have any type; 'a' and 'b' are converted to the type of 'out'.  Broadcasting,
 * places, statuses and overlap are those of mylib_map().
 */
MYLIB_API mylib_status mylib_select(mylib_device device, void *stream, const mylib_array *out,
                                    const mylib_array *condition, const mylib_array *a,
                                    const mylib_array *b);

/*
 * Copies src to dst, between any two devices or within one.  src is broadcast to dst's shape and
 * converted to its type, as mylib_map_as() converts.  A src without dimensions in host memory fills
 * dst.  src and dst must be disjoint, or exactly the same with one type; dst must not overlap
 * itself.
 *
 * 'stream' belongs to dst's GPU if dst is on one, else to src's, and orders the copy on both GPUs;
 * mylib_stream_wait() orders other streams of src's GPU before and after it.
 * A copy between GPU arrays, and one that fills a GPU array, is only enqueued; any other is
 * complete on return.  After an error the content of dst is undefined, and no work is left in
 * flight.
 */
MYLIB_API mylib_status mylib_copy_array(void *stream, const mylib_array *dst,
                                        const mylib_array *src);

/*
 * Joins arrays: copies src[0], src[1], ... to consecutive slices of dst along `axis`, each as
 * mylib_copy_array() does.  All have dst's number of dimensions, their sizes along the axis add up
 * to dst's, and none overlaps dst.  Only an overlap with an array's own slice is found; any other
 * leaves the content of dst undefined.  On one GPU small arrays of dst's type are copied together,
 * in one launch.
 */
MYLIB_API mylib_status mylib_copy_arrays(void *stream, const mylib_array *dst, int axis, int count,
                                         const mylib_array *src);

/*
 * Writes out[i] = start + i * step to a one-dimensional array of any type but bool, computed in
 * that type (f16 in f32, rounded once); out[0] is start itself.  start and step each point to one
 * element of the type in host memory; for f16, to f32 numbers.  For a GPU array the work is
 * enqueued on 'stream'.
 */
MYLIB_API mylib_status mylib_arange(void *stream, const mylib_array *out, const void *start,
                                    const void *step);

/* ---- Programs: expressions in one pass ---- */

/*
 * A program computes an expression for each element, in one pass over memory: a list of typed steps
 * over inputs, constants and the results of earlier steps.  Values are numbered: first the inputs,
 * then the constants, then the results of the steps in their order; a step uses values of lower
 * numbers only.  The result of the last step is the program's.
 */
#define MYLIB_PROGRAM_MAX_INPUTS 32
#define MYLIB_PROGRAM_MAX_CONSTANTS 256
#define MYLIB_PROGRAM_MAX_STEPS 4096

/* Operations of a step besides those of mylib_op. */
enum {
    MYLIB_STEP_CONVERT = 1000, /* its operand, converted to `type` */
    MYLIB_STEP_SELECT = 1001   /* operand[0] differs from 0 ? operand[1] : operand[2] */
};

/*
 * One step.  It computes in `type`: operands of other types are converted to it, as mylib_map_as()
 * converts; the condition of a SELECT is only tested.  The result has the type that
 * mylib_op_result_type() gives; of a CONVERT and a SELECT it is `type`, which may be bool.
 */
typedef struct mylib_step {
    int32_t op;         /* a mylib_op, MYLIB_STEP_CONVERT or MYLIB_STEP_SELECT */
    int32_t type;       /* a mylib_type */
    int32_t operand[3]; /* numbers of values; those that the operation does not have are 0 */
} mylib_step;

typedef struct mylib_constant {
    int32_t type;            /* a mylib_type */
    int32_t reserved;        /* 0 */
    unsigned char value[16]; /* one element, the rest 0; a bool is 0 or 1 */
} mylib_constant;

typedef struct mylib_program mylib_program;

/*
 * Makes a program of at least one step, and of 0 to MYLIB_PROGRAM_MAX_INPUTS inputs.  Copies its
 * arguments.  A program does not change; any number of threads may run it at once.
 *
 * Returns MYLIB_ERR_ARGUMENT for a count above its maximum, NULL, an unknown operation or type, a
 * bool constant other than 0 and 1, and an operand that does not exist yet; MYLIB_ERR_UNSUPPORTED
 * if an operation is not defined for its type.  The message names the step (from 0).  Returns
 * MYLIB_ERR_NO_MEMORY too.
 *
 * Free the program with mylib_program_free() when no call uses it any more; NULL is allowed.
 */
MYLIB_API mylib_status mylib_program_create(int inputs, const mylib_type *input_types,
                                            int constants, const mylib_constant *constant,
                                            int steps, const mylib_step *step,
                                            mylib_program **program_ret);
MYLIB_API void mylib_program_free(mylib_program *program);

/* Gives the element type of the program's result. */
MYLIB_API mylib_status mylib_program_result_type(const mylib_program *program,
                                                 mylib_type *type_ret);

/*
 * Computes out = program(in[0], ..., in[inputs - 1]), element by element, with the same bits as its
 * steps one after the other through mylib_map_as().  The inputs must have the types given to
 * mylib_program_create(), and 'out' the type of the result.  'in' may be NULL if there are no
 * inputs.
 *
 * Broadcasting, places, statuses, flags and overlap are those of mylib_map(), with two exceptions
 * for flags: steps that the result does not need raise none, and neither do programs of more than
 * one operation on a GPU, even of host arrays.  A program of many steps may return
 * MYLIB_ERR_NO_MEMORY on the CPU too, before anything is written.
 */
MYLIB_API mylib_status mylib_program_run(const mylib_program *program, mylib_device device,
                                         void *stream, const mylib_array *out,
                                         const mylib_array *in);

/* ---- Reductions ---- */

typedef enum mylib_reduction {
    MYLIB_SUM = 0,
    MYLIB_PROD = 1,
    MYLIB_MIN = 2, /* NaN if any term is NaN, as in the operation minimum */
    MYLIB_MAX = 3,
    MYLIB_MEAN = 4 /* the sum of floats or complex numbers, divided by the number of its terms */
} mylib_reduction;

/*
 * Reduces the elements of 'in' along each dimension in which 'out' has the size 1.  In the others
 * 'out' has the sizes of 'in'.  An 'out' without dimensions reduces all of them.
 *
 * The inputs are converted to 'type' first, which must not be bool.  Sums and products are carried
 * in i64 for i8 to i64 (and wrap), in u64 for u8 to u64, in f32 for f16, else in 'type' itself;
 * minima and maxima in 'type'.  'out' has the carrying type or 'type'; the result is converted to
 * it, and rounded once.  A sum of no elements is 0, a product 1, a mean NaN; a minimum or maximum
 * returns MYLIB_ERR_ARGUMENT.  For a mean 'out' has the carrying type, in which it is divided.
 *
 * The number of terms alone fixes the order of a reduction, so the bits are the same on every
 * device, for any layout and number of threads:
 * - The terms, in C order over the reduced dimensions, form blocks of 2048.
 * - In a block, lane l of 256 combines the terms l, l + 256, l + 512, ... from left to right.
 * - The lanes are combined pairwise: lane l with lane l + 128, then + 64, ... + 1.
 * - The blocks are combined pairwise, block 2k with block 2k + 1, until one is left; an odd last
 *   one is kept.
 * - Absent terms are left out, not added as 0.
 *
 * Complex minima and maxima combine the terms from left to right instead.  The result is the first
 * term with a NaN in either part; without NaNs, the first of the least or greatest terms (terms
 * that compare equal may differ in the signs of zeros).
 *
 * Places, statuses and host inputs without dimensions are those of mylib_map().  The CPU may return
 * MYLIB_ERR_NO_MEMORY too; the content of 'out' is then undefined.  Host arrays are reduced on a
 * GPU piece by piece, in about half a gibibyte of its memory at most; repeated elements (stride 0)
 * are sent once for each piece.  'out' must not overlap 'in'.
 */
MYLIB_API mylib_status mylib_reduce(mylib_reduction reduction, mylib_type type, mylib_device device,
                                    void *stream, const mylib_array *out, const mylib_array *in);

/*
 * Sums the products a[i] * b[i] of two one-dimensional arrays of one length into 'out', which has
 * no dimensions.  Each product is computed and rounded in the type that carries the sum.  'type',
 * the order and everything else are as in mylib_reduce().
 */
MYLIB_API mylib_status mylib_dot(mylib_type type, mylib_device device, void *stream,
                                 const mylib_array *out, const mylib_array *a,
                                 const mylib_array *b);

/*
 * Reduces the values of a program, converted to 'type', as mylib_reduce() reduces 'in', and with
 * the same bits.  The inputs are broadcast against each other; 'out' has as many dimensions as the
 * result, or none.  Places and statuses are those of mylib_reduce().
 */
MYLIB_API mylib_status mylib_program_reduce(const mylib_program *program, mylib_reduction reduction,
                                            mylib_type type, mylib_device device, void *stream,
                                            const mylib_array *out, const mylib_array *in);

/*
 * Sums the diagonal of a two-dimensional array, square or not, on 'device', with the order and the
 * bits of mylib_reduce().  The result goes to *sum_ret in host memory.  It has the type that
 * mylib_sum_type() gives: i64 for i8 to i64, u64 for u8 to u64, else the type itself.  Places and
 * statuses are those of mylib_reduce(); the call waits for the result.
 */
MYLIB_API mylib_status mylib_trace(mylib_device device, void *stream, const mylib_array *matrix,
                                   void *sum_ret);
MYLIB_API mylib_status mylib_sum_type(mylib_type type, mylib_type *sum_type_ret);

/* ---- Scalars ---- */

/*
 * Computes one operation on plain numbers, on the CPU or on a GPU; the call waits for the result.
 * Operations with one input ignore 'b'.  Comparisons give 1 or 0.
 *
 * mylib_scalar_i64() is exact: it returns MYLIB_ERR_OVERFLOW if the result does not fit, and
 * MYLIB_ERR_ZERO_DIVIDE for divide, floor_divide, remainder, fmod and reciprocal by zero, and
 * MYLIB_ERR_DOMAIN for a negative exponent and for a negative count of a shift.  It has no sqrt
 * (MYLIB_ERR_UNSUPPORTED).
 *
 * mylib_scalar_f64() and mylib_scalar_c128() are IEEE arithmetic, except that divide, floor_divide,
 * remainder and reciprocal by zero return MYLIB_ERR_ZERO_DIVIDE, and the sqrt of a negative f64
 * MYLIB_ERR_DOMAIN.  The functions among the operations (exp, log, fmod, ...) return
 * MYLIB_ERR_DOMAIN where they have a pole or are undefined, and MYLIB_ERR_OVERFLOW if a result of
 * finite operands is too large.  Complex numbers are {real, imaginary}; their absolute value has
 * the imaginary part 0.
 */
MYLIB_API mylib_status mylib_scalar_i64(mylib_op op, mylib_device device, int64_t a, int64_t b,
                                        int64_t *result_ret);
MYLIB_API mylib_status mylib_scalar_f64(mylib_op op, mylib_device device, double a, double b,
                                        double *result_ret);
MYLIB_API mylib_status mylib_scalar_c128(mylib_op op, mylib_device device, const double a[2],
                                         const double b[2], double result_ret[2]);

/* Computes the Fibonacci number F(n); F(0) = 0, F(1) = 1.  MYLIB_ERR_OVERFLOW if n > 93. */
MYLIB_API mylib_status mylib_fib(uint64_t n, uint64_t *result_ret);

#ifdef __cplusplus
}
#endif

#endif /* MYLIB_H */
