/*
 * internal.h - what the library's own files share: errors, layouts, programs, and the two backends.
 *
 * Names that cross files begin with mylib_ and are hidden; nothing here is installed.
 */
#ifndef MYLIB_INTERNAL_H
#define MYLIB_INTERNAL_H

#include "mylib.h"
#include "ops.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors (status.c) --------------------------------------------------------------------- */

/*
 * Stores this thread's message and returns 'status', so that `return mylib_fail(...)` reads well.
 */
mylib_status mylib_fail(mylib_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define MYLIB_MESSAGE_SIZE 1024

/* Goes to `out:` on failure; the function has a `mylib_status st`. */
#define MYLIB_TRY(expr)                                                                            \
    do {                                                                                           \
        if ((st = (expr)) != MYLIB_OK)                                                             \
            goto out;                                                                              \
    } while (0)

/* ---- Programs (program.c) ------------------------------------------------------------------ */

/*
 * An element-wise computation for a machine with one accumulator: each instruction combines the
 * accumulator with one operand.  Both backends run every computation as a program; a single
 * operation is the program `load in[0]; op in[1]` or `load in[0]; op`.
 */
#define MYLIB_PROGRAM_MAX_INPUTS 8
#define MYLIB_PROGRAM_MAX_INSTRUCTIONS 32

/* Opcodes are the mylib_op values, and: */
#define MYLIB_OPCODE_LOAD 255 /* accumulator = operand */

#define MYLIB_NO_OPERAND 255
typedef struct mylib_instruction {
    uint8_t opcode;
    uint8_t operand; /* the input's number; MYLIB_NO_OPERAND for unary operations */
} mylib_instruction;

typedef struct mylib_program {
    uint8_t type;        /* of the inputs and the accumulator */
    uint8_t result_type; /* of the output: `type`, or its real type after a complex absolute */
    uint8_t inputs;
    uint8_t instructions;
    mylib_instruction code[MYLIB_PROGRAM_MAX_INSTRUCTIONS];
} mylib_program;

/*
 * The program of a single operation; MYLIB_ERR_UNSUPPORTED, MYLIB_ERR_ARGUMENT as
 * mylib_op_result_type().
 */
mylib_status mylib_program_of_op(mylib_program *program, mylib_op op, mylib_type type);

/* ---- Layouts (arrays.c) -------------------------------------------------------------------- */

/*
 * The operands of a program as one nest of loops: operand 0 is the output, the rest are the inputs,
 * broadcast.  Byte strides; dimension 0 is the outermost.
 */
#define MYLIB_MAX_OPERANDS (1 + MYLIB_PROGRAM_MAX_INPUTS)

typedef struct mylib_layout {
    int ndim; /* at least 1 */
    int operands;
    int64_t count; /* elements; the other fields are set only when it is not 0 */
    int64_t shape[MYLIB_MAX_NDIM];
    char *data[MYLIB_MAX_OPERANDS];
    int64_t strides[MYLIB_MAX_OPERANDS][MYLIB_MAX_NDIM];
} mylib_layout;

/*
 * Checks the arrays, broadcasts in[0..inputs) to out's shape, and fills the layout in the arrays'
 * order.
 */
mylib_status mylib_layout_init(mylib_layout *layout, const mylib_array *out, const mylib_array *in,
                               int inputs);

/*
 * Reorders and merges the dimensions, and flips negative strides, without changing which elements
 * meet: the output's smallest stride becomes the innermost.  Only for operands that do not overlap.
 */
void mylib_layout_simplify(mylib_layout *layout);

/*
 * Where operand k stands against the output.  Exact for interleaved arrays too, except that a
 * layout too intricate to decide counts as OVERLAP.
 */
typedef enum mylib_overlap { MYLIB_DISJOINT, MYLIB_IDENTICAL, MYLIB_OVERLAP } mylib_overlap;
mylib_overlap mylib_layout_overlap(const mylib_layout *layout, int k, size_t out_size,
                                   size_t in_size);

/* The lowest and the past-the-end address of operand k, of elements of 'size' bytes. */
void mylib_layout_extent(const mylib_layout *layout, int k, size_t size, const char **begin,
                         const char **end);

/* Bytes per element of operand k. */
size_t mylib_operand_size(const mylib_program *program, int k);

/* "(3, 4)" into a buffer, cut with "..." when it is too long. */
#define MYLIB_SHAPE_TEXT 128
const char *mylib_shape_text(char text[MYLIB_SHAPE_TEXT], int ndim, const int64_t *shape);

/* "cpu" or "cuda:N" or what else the structure says. */
#define MYLIB_DEVICE_TEXT 32
const char *mylib_device_text(char text[MYLIB_DEVICE_TEXT], mylib_device device);

/* MYLIB_ERR_ARGUMENT when the array's fields are out of range. */
mylib_status mylib_check_array(const char *name, const mylib_array *array);

/* MYLIB_ERR_ARGUMENT when the device is neither the CPU nor a CUDA ordinal >= 0. */
mylib_status mylib_check_device(mylib_device device);

/* ---- CPU (cpu/) ---------------------------------------------------------------------------- */

/* out[i] = op(a[i], b[i]) for n elements with byte strides; see cpu/kernels.c. */
typedef void mylib_kernel(ptrdiff_t n, char *out, ptrdiff_t out_stride, const char *a,
                          ptrdiff_t a_stride, const char *b, ptrdiff_t b_stride);

/*
 * Adds up at most MYLIB_SUM_BLOCK terms in the order that mylib.h gives; the result has type sum_s.
 */
#define MYLIB_SUM_BLOCK 2048
#define MYLIB_SUM_LANES 256
typedef void mylib_block_sum(ptrdiff_t n, char *sum, const char *a, ptrdiff_t a_stride);

/* What one CPU level provides.  Both lookups give NULL for what the table does not have. */
typedef struct mylib_cpu_level {
    const char *name;
    mylib_kernel *(*kernel)(mylib_op op, mylib_type type);
    mylib_block_sum *(*block_sum)(mylib_type type);
    void (*stream_copy)(char *dst, const char *src, size_t nbytes); /* past the cache */
    void (*stream_fence)(void); /* after the last stream_copy() of a thread */
    t_f16 (*f16_from_f32)(float x);
} mylib_cpu_level;

/* The level in use: chosen once, or by mylib_set_cpu_level(). */
const mylib_cpu_level *mylib_cpu(void);

/* Runs a program over a layout in host memory, in any order, on as many threads as pay. */
void mylib_cpu_execute(const mylib_program *program, const mylib_layout *layout);

/*
 * Runs a program over a layout in host memory, one element after the other in the layout's order.
 */
void mylib_cpu_execute_in_order(const mylib_program *program, const mylib_layout *layout);

/* The sum of n terms, in the documented order, into *sum, which has type sum_s. */
void mylib_cpu_sum(mylib_type type, int64_t n, const char *a, int64_t a_stride, void *sum);

/* Bytes of a partial sum: of sum_s. */
size_t mylib_sum_nbytes(mylib_type type);

/* Adds a sum to an element of the array type: *dst = round(*dst + *sum). */
void mylib_cpu_fold_sum(mylib_type type, void *dst, const void *sum);

/* Adds two partial sums: *a += *b. */
void mylib_cpu_add_sums(mylib_type type, void *a, const void *b);

/*
 * How many OpenMP threads this thread may use now; 1 in a forked child, where OpenMP's pool is
 * gone.
 */
int mylib_cpu_threads(void);

/* Copies elements of 'size' bytes between two strides: packs and unpacks pieces of arrays. */
void mylib_copy_strided(size_t size, int64_t n, char *dst, int64_t dst_stride, const char *src,
                        int64_t src_stride);

/* ---- Loops --------------------------------------------------------------------------------- */

/* Scalar loops over strides: the counter and the branch would take as long as the operation. */
#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll_count(4)")
#elif defined(__GNUC__)
#define UNROLLED _Pragma("GCC unroll 4")
#else
#define UNROLLED
#endif

/* ---- CUDA (cuda/, or cuda/none.c) ---------------------------------------------------------- */

mylib_status mylib_cuda_alloc(int device, size_t nbytes, void *stream, void **ptr_ret);
mylib_status mylib_cuda_free(int device, void *ptr, void *stream);
mylib_status mylib_cuda_copy(mylib_device dst_device, void *dst, mylib_device src_device,
                             const void *src, size_t nbytes, void *stream);
mylib_status mylib_cuda_synchronize(int device, void *stream);

/* Enqueues a program over a layout of GPU memory. */
mylib_status mylib_cuda_map(int device, void *stream, const mylib_program *program,
                            mylib_layout *layout);
/* Streams a program over a layout of host memory through a GPU. */
mylib_status mylib_cuda_map_host(int device, const mylib_program *program, mylib_layout *layout);
/* The sum of n strided terms of GPU or host memory into *sum, host memory of type sum_s. */
mylib_status mylib_cuda_sum(int device, void *stream, mylib_type type, int64_t n, const char *a,
                            int64_t a_stride, int in_host_memory, void *sum);
/*
 * type is MYLIB_I64, MYLIB_F64 or MYLIB_C128; a, b and result point to one element in host memory.
 */
mylib_status mylib_cuda_scalar(int device, mylib_op op, mylib_type type, const void *a,
                               const void *b, void *result);

#ifdef __cplusplus
}
#endif

#endif /* MYLIB_INTERNAL_H */
