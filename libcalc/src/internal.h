/*
 * internal.h - declarations that the library's files share: errors, layouts, programs, backends.
 *
 * Names that cross files begin with mylib_ and are hidden; nothing here is installed.
 */
#pragma once

/* CMakeLists.txt refuses the flags that it sees; others may come from a compiler's wrapper. */
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "-ffast-math and its parts change results: remove them, the library is fast without"
#endif

#include <stdlib.h>
#include <string.h>

#include "mylib.h"
#include "ops.h"
#include "types.h"

#ifdef __cplusplus
#define MYLIB_ALIGNAS(nbytes) alignas(nbytes)
extern "C" {
#else
#define MYLIB_ALIGNAS(nbytes) _Alignas(nbytes)
#endif

/* ---- Errors (status.c) ---- */

/* Stores this thread's message and returns 'status', for `return mylib_fail(...)`. */
mylib_status mylib_fail(mylib_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));

#define MYLIB_MESSAGE_SIZE 1024

/* Between these calls, which nest, failures do not change this thread's message. */
void mylib_begin_cleanup(void);
void mylib_end_cleanup(void);

#define RETURN_IF_ERROR(expr) \
    do { \
        const mylib_status status_ = (expr); \
        if (status_ != MYLIB_OK) \
            return status_; \
    } while (0)

/* Goes to `out:` on failure; the function has a `mylib_status st`. */
#define MYLIB_TRY(expr) \
    do { \
        if ((st = (expr)) != MYLIB_OK) \
            goto out; \
    } while (0)

#define RETURN_IF_NULL(pointer) \
    do { \
        if ((pointer) == NULL) \
            return mylib_fail(MYLIB_ERR_ARGUMENT, #pointer " is NULL"); \
    } while (0)

/* ---- The table (table.c) ---- */

/* Tells whether `op` is of a REVERSED row. */
static inline int mylib_op_is_reversed(mylib_op op)
{
    return op == MYLIB_OP_greater || op == MYLIB_OP_greater_equal;
}

/*
 * Returns the operation whose kernels compute `op` in `type`: for a REVERSED row another one, with
 * the operands exchanged; for bools a logical one; for fmin and fmax of integers minimum and
 * maximum; else `op` itself.
 */
static inline mylib_op mylib_op_base(mylib_op op, mylib_type type)
{
    if (type == MYLIB_BOOL) {
        switch ((int)op) {
#define AS(op, logical) \
    case MYLIB_OP_##op: \
        return MYLIB_OP_##logical;
            MYLIB_BOOL_OPS(AS)
#undef AS
        }
    }
    if (type <= MYLIB_U64 && (op == MYLIB_OP_fmin || op == MYLIB_OP_fmax))
        return op == MYLIB_OP_fmin ? MYLIB_OP_minimum : MYLIB_OP_maximum;
    return mylib_op_is_reversed(op) ? (mylib_op)(op - 2) : op;
}

/* Tell whether an operation is a function, and an elementary one: they are the last rows. */
static inline int mylib_is_function(int op) { return op >= MYLIB_OP_rint && op < MYLIB_OP_COUNT; }
static inline int mylib_is_elementary(int op) { return op >= MYLIB_OP_sin && op < MYLIB_OP_COUNT; }

mylib_status mylib_check_type(mylib_type type);

static inline int mylib_is_signed(mylib_type type)
{
    return type == MYLIB_I8 || type == MYLIB_I16 || type == MYLIB_I32 || type == MYLIB_I64;
}

static inline mylib_type mylib_part_type(mylib_type type)
{
    return type == MYLIB_C64 ? MYLIB_F32 : type == MYLIB_C128 ? MYLIB_F64 : type;
}

/* Returns the type in which a reduction of `type` is carried; see mylib_reduce(). */
mylib_type mylib_carrying_type(mylib_reduction reduction, mylib_type type);

/*
 * The opcodes of statements and of fused statements: mylib_op values of rows that have kernels, and
 * these.
 */
enum {
    /* Of fused statements (fused.h): */
    MYLIB_OPCODE_TEST = 249,     /* operand[0] differs from 0 ? 1 : 0, in the computed type */
    MYLIB_OPCODE_SET_MASK = 250, /* mask = operand[1]; keeps the last result */
    /* Of statements: */
    MYLIB_OPCODE_CONVERT = 251, /* result = operand[0], converted to `type` */
    /* Of both.  A statement: operand[0] (bool) ? operand[1] : operand[2].  Fused, and step() of
       interpreter.cuh: mask ? operand[0] : operand[1]. */
    MYLIB_OPCODE_SELECT = 253,
    /* Of step() and of fused statements: */
    MYLIB_OPCODE_NONE = 254, /* keeps the first operand */
    MYLIB_OPCODE_LOAD = 255, /* the result is the operand; fused: operand[0] */
};

/* ---- Programs (program.c) ---- */

/* A compiled, validated program: a register for each value, a statement for each conversion. */
enum {
    MYLIB_VALUE_INPUT,
    MYLIB_VALUE_CONSTANT,
    MYLIB_VALUE_REGISTER, /* a block of elements of one type; reused when its value is dead */
};

typedef struct mylib_value {
    uint8_t kind;
    uint8_t type;
    uint16_t index; /* of the input, constant or register */
} mylib_value;

#define MYLIB_TARGET_OUT 65535
#define MYLIB_MOST_OPERANDS 3 /* of a statement */

/*
 * Reads operands of `type` and writes `result_type`, as mylib_op_result_type() returns it.  A
 * CONVERT reads another type than `type`, except in a copy, whose one statement it is.
 */
typedef struct mylib_statement {
    uint8_t opcode; /* a mylib_op, MYLIB_OPCODE_CONVERT or MYLIB_OPCODE_SELECT */
    uint8_t type;
    uint8_t result_type;
    uint8_t operands; /* 1 to 3 */
    uint16_t target;  /* a register, which may be that of an operand of the same size; or OUT */
    mylib_value operand[MYLIB_MOST_OPERANDS];
} mylib_statement;

typedef struct mylib_program_constant {
    MYLIB_ALIGNAS(16) unsigned char value[16];
} mylib_program_constant;

struct mylib_program {
    int inputs, constants, registers, statements;
    uint8_t result_type;       /* of the last statement, the only one with the target OUT */
    uint8_t max_register_size; /* bytes of the largest element that a register holds */
    uint8_t input_type[MYLIB_PROGRAM_MAX_INPUTS];
    int flags; /* FE_* of the conversions of constants: every run with elements raises them */
    const mylib_program_constant *constant; /* `constants`, at most MYLIB_PROGRAM_MAX_CONSTANTS */
    const mylib_statement *statement;       /* `statements` */
};

mylib_status mylib_check_input_types(const mylib_program *program, const mylib_array *in);

/* The program of a single operation, which needs no allocation. */
typedef struct mylib_operation {
    mylib_program program; /* points to the rest */
    mylib_statement statement[5];
} mylib_operation;

/* Makes the program op(in[0], ...) in `type`, of any types; fails as mylib_op_result_type(). */
mylib_status mylib_operation_of_op(mylib_operation *operation, mylib_op op, mylib_type type,
                                   const mylib_type *input_types);

/* Tells whether op compares a signed integer with a u64: no single type holds both exactly. */
int mylib_is_mixed_comparison(mylib_op op, const mylib_type *input_types);

void mylib_operation_of_mixed_comparison(mylib_operation *operation, mylib_op op,
                                         const mylib_type input_types[2]);

void mylib_operation_of_conversion(mylib_operation *operation, mylib_type to, mylib_type from);

/* Makes the program `in[0] differs from 0 ? in[1] : in[2]`. */
void mylib_operation_of_select(mylib_operation *operation, mylib_type type,
                               const mylib_type input_types[3]);

/* Makes the program in[0] * in[1], computed in `carrier` from inputs converted to `type` first. */
mylib_status mylib_operation_of_product(mylib_operation *operation, mylib_type type,
                                        mylib_type carrier, const mylib_type input_types[2]);

/* Of a layout's operand k: 0 is the output, 1 + k is input k. */
static inline int64_t mylib_program_operand_size(const mylib_program *program, int k)
{
    switch (k == 0 ? program->result_type : program->input_type[k - 1]) {
#define DT(s, S) \
    case MYLIB_##S: \
        return sizeof(t_##s);
        MYLIB_STORED_TYPES(DT)
#undef DT
    default:
        return 0;
    }
}

/* ---- Single statements (statement.c) ---- */

/* Returns the input that operand k of the last statement reads, perhaps converted; or -1. */
int mylib_input_of_operand(const mylib_program *program, int k);

/* Tells whether a program only converts or copies an input. */
static inline int mylib_is_conversion(const mylib_program *program)
{
    const mylib_statement *s = program->statement;
    return program->statements == 1 && s->opcode == MYLIB_OPCODE_CONVERT &&
           s->operand[0].kind == MYLIB_VALUE_INPUT;
}

/*
 * Reduces a program to one statement of the inputs as stored; whoever runs it reads operand k as
 * mylib_read_type().  Returns 0 unless that is possible, each input being used once, and the
 * condition of a selection being bool.
 */
int mylib_single_statement(mylib_statement *s, const mylib_program *program);

static inline mylib_statement mylib_conversion(mylib_type to, mylib_type from)
{
    const mylib_statement s = {MYLIB_OPCODE_CONVERT, (uint8_t)to,
                               (uint8_t)to,          1,
                               MYLIB_TARGET_OUT,     {{MYLIB_VALUE_INPUT, (uint8_t)from, 0}}};
    return s;
}

/* Returns the type in which a statement needs operand k: bool for a selection's condition. */
static inline mylib_type mylib_read_type(const mylib_statement *s, int k)
{
    return s->opcode == MYLIB_OPCODE_SELECT && k == 0 ? MYLIB_BOOL : (mylib_type)s->type;
}

/* ---- Layouts (layout.c) ---- */

/*
 * The operands of a program as one nest of loops: operand 0 is the output, the rest are the inputs,
 * broadcast.  Byte strides; dimension 0 is the outermost.  The owner supplies the rows of strides
 * first: rows for the most operands would take 17 KB of stack.
 */
#define MYLIB_MAX_OPERANDS (1 + MYLIB_PROGRAM_MAX_INPUTS)

typedef int64_t mylib_strides[MYLIB_MAX_NDIM];

typedef struct mylib_layout {
    int ndim; /* at least 1 */
    int operands;
    int64_t count; /* elements; the other fields are set only when it is not 0 */
    int64_t shape[MYLIB_MAX_NDIM];
    char *data[MYLIB_MAX_OPERANDS];
    mylib_strides *strides; /* a row for each operand */
    /* The operand is one element of host memory, while the others are on a GPU. */
    uint8_t is_host_scalar[MYLIB_MAX_OPERANDS];
} mylib_layout;

/* Declares a layout with `rows` rows of strides, a constant. */
#define DECLARE_LAYOUT(name, rows) \
    mylib_strides name##_rows[rows]; \
    mylib_layout name; \
    name.strides = name##_rows

#define MYLIB_FEW_ROWS 6
mylib_status mylib_take_rows(mylib_layout *layout, int rows, mylib_strides **memory_ret);
static inline void mylib_free_rows(mylib_strides *const *memory) { free(*memory); }

/*
 * Does the same for any number of rows: more than a few are on the heap, until the end of the
 * block.  Returns from the function if there is no memory.
 */
#define DECLARE_LARGE_LAYOUT(name, rows) \
    __attribute__((cleanup(mylib_free_rows))) mylib_strides *name##_memory = NULL; \
    DECLARE_LAYOUT(name, MYLIB_FEW_ROWS); \
    if ((rows) > MYLIB_FEW_ROWS) \
    RETURN_IF_ERROR(mylib_take_rows(&name, rows, &name##_memory))

/* *to already has rows of its own. */
void mylib_layout_copy(mylib_layout *to, const mylib_layout *from);

/* Checks the arrays, broadcasts the inputs, and fills the layout in the arrays' order. */
mylib_status mylib_layout_init(mylib_layout *layout, const mylib_array *out, const mylib_array *in,
                               int inputs);

/* Names of operands in messages: "out", "in[0]", ...; and layouts with other names. */
extern const char *const mylib_operand_names[MYLIB_MAX_OPERANDS];
mylib_status mylib_layout_init_named(mylib_layout *layout, const mylib_array *out,
                                     const mylib_array *in, int inputs, const char *const *names);

/*
 * Reorders and merges the dimensions, and flips negative strides; corresponding elements still
 * correspond.  The output's smallest stride becomes the innermost.  The operands may not overlap.
 */
void mylib_layout_simplify(mylib_layout *layout);

void mylib_layout_swap(mylib_layout *layout, int d, int e);

int mylib_layout_is_contiguous(const mylib_layout *layout, int k, size_t size);

/* Begins a layout with the dimensions of another one; its operands are not set yet. */
void mylib_layout_begin(mylib_layout *layout, const mylib_layout *like, int operands);

/* The same with one dimension of n elements. */
static inline void mylib_layout_begin_row(mylib_layout *layout, int64_t n, int operands)
{
    layout->ndim = 1;
    layout->operands = operands;
    layout->count = layout->shape[0] = n;
    memset(layout->is_host_scalar, 0, sizeof layout->is_host_scalar);
}

/*
 * Set operand k to operand j of a layout of the same dimensions; to contiguous elements of 'size'
 * bytes, in the layout's order; or to one element of host memory.
 */
void mylib_layout_set_operand(mylib_layout *layout, int k, const mylib_layout *from, int j);
void mylib_layout_set_contiguous(mylib_layout *layout, int k, char *data, size_t size);
void mylib_layout_set_constant(mylib_layout *layout, int k, const void *value);

/*
 * Calls the task for pieces of at most 'most' elements and most_ndim dimensions, not counting outer
 * ones of size 1: halves the outermost dimension.  Stops at a failure; restores the layout.
 */
typedef mylib_status mylib_layout_task(void *context, mylib_layout *piece);
mylib_status mylib_layout_in_pieces(mylib_layout *layout, int64_t most, int most_ndim,
                                    mylib_layout_task *task, void *context);

/* Tells how operand k overlaps the output, exactly; a layout too intricate counts as OVERLAP. */
typedef enum mylib_overlap { MYLIB_DISJOINT, MYLIB_IDENTICAL, MYLIB_OVERLAP } mylib_overlap;
mylib_overlap mylib_layout_overlap(const mylib_layout *layout, int k, size_t out_size,
                                   size_t in_size);

/* mylib_overlaps_itself(), for elements of 'size' bytes. */
int mylib_elements_overlap(int ndim, const int64_t *shape, const int64_t *strides, size_t size);

void mylib_layout_extent(const mylib_layout *layout, int k, size_t size, const char **begin,
                         const char **end);

/* Writes "(3, 4)"; a long shape is cut with "...". */
#define MYLIB_SHAPE_TEXT 128
const char *mylib_shape_text(char text[MYLIB_SHAPE_TEXT], int ndim, const int64_t *shape);

#define MYLIB_DEVICE_TEXT 32
const char *mylib_device_text(char text[MYLIB_DEVICE_TEXT], mylib_device device);

/*
 * Limits on the number of elements, and on the bytes from the first to the last one in memory.  No
 * array in memory reaches them; sums and products of counts, sizes and distances then fit 64 bits.
 */
#define MYLIB_MAX_COUNT ((int64_t)1 << 52)
#define MYLIB_MAX_REACH ((int64_t)1 << 61)

/* Returns -1 beyond MYLIB_MAX_COUNT.  Sizes are not negative. */
int64_t mylib_element_count(int ndim, const int64_t *shape);

/* Tells whether all elements, at least one, are within MYLIB_MAX_REACH and the address space. */
int mylib_can_reach(const void *data, int ndim, const int64_t *shape, const int64_t *strides,
                    size_t size);

mylib_status mylib_check_array(const char *name, const mylib_array *array);

/*
 * Writes the strides of a checked array; contiguous C order if it has none.  Writes 0 for strides
 * that no element uses (along an axis of length 1, or of an empty array): they may be anything.
 */
void mylib_array_strides(const mylib_array *array, int64_t strides[MYLIB_MAX_NDIM]);

static inline int mylib_is_same_place(mylib_device a, mylib_device b)
{
    return a.kind == b.kind && a.index == b.index;
}

/* All arrays have to be where 'device' computes, but host scalars.  names[k] is that of in[k]. */
mylib_status mylib_check_places(mylib_device device, const mylib_array *out, const mylib_array *in,
                                int inputs, const char *const *names);

/* A device is the CPU or has a CUDA ordinal >= 0; that of a call may be MYLIB_ALL_GPUS. */
mylib_status mylib_check_device(mylib_device device);
mylib_status mylib_check_device_of_call(mylib_device device);
mylib_status mylib_check_gpu(mylib_device device);
static inline int mylib_first_gpu(int index) { return index == MYLIB_ALL_GPUS ? 0 : index; }
mylib_status mylib_refuse_all_gpus(void);

/* ---- CPU (cpu/) ---- */

/* out[i] = op(a[i], b[i]) for n elements with byte strides; see cpu/kernels.c. */
typedef void mylib_kernel(ptrdiff_t n, char *out, ptrdiff_t out_stride, const char *a,
                          ptrdiff_t a_stride, const char *b, ptrdiff_t b_stride);

/*
 * Reduces n contiguous terms, 1 to MYLIB_BLOCK_TERMS, in the order of mylib.h; of integers, whose
 * order does not matter, at most MYLIB_BLOCKS_AT_ONCE blocks.  The result has the carrying type.  A
 * reduction of products reads the second factors at 'b'; others ignore it.
 */
#define MYLIB_BLOCK_TERMS 2048
#define MYLIB_BLOCK_LANES 256
#define MYLIB_BLOCKS_AT_ONCE 64
typedef void mylib_block_reduce(ptrdiff_t n, char *result, const char *a, const char *b);

/* out[i] = mask[i] ? a[i] : b[i]; the mask is of type bool. */
typedef void mylib_selection(ptrdiff_t n, char *out, ptrdiff_t out_stride, const char *mask,
                             ptrdiff_t mask_stride, const char *a, ptrdiff_t a_stride,
                             const char *b, ptrdiff_t b_stride);

/*
 * Stores n cache lines past the cache.  `out` is aligned to lines.  Operands have the type of the
 * output; their strides are MYLIB_LINE_NBYTES, or 0 for one repeated line.
 */
typedef void mylib_line_loop(ptrdiff_t n, char *out, const char *a, ptrdiff_t a_stride,
                             const char *b, ptrdiff_t b_stride);

/* Adds rows of contiguous integers to the sums of their columns, in 64-bit integers. */
typedef void mylib_column_sums(ptrdiff_t rows, ptrdiff_t row_stride, ptrdiff_t columns,
                               const char *p, char *sums);

typedef enum mylib_truths { MYLIB_SEEK_TRUE, MYLIB_SEEK_FALSE, MYLIB_COUNT_TRUE } mylib_truths;

/* The kernels of one CPU level.  Lookups return NULL for a combination without a kernel. */
typedef struct mylib_cpu_level {
    const char *name;
    mylib_kernel *(*kernel)(mylib_op op, mylib_type type);
    /* out[i] = a[i], converted; `out` may be `a` when sizes and strides are the same. */
    void (*convert)(mylib_type to, mylib_type from, ptrdiff_t n, char *out, ptrdiff_t out_stride,
                    const char *a, ptrdiff_t a_stride);
    mylib_selection *(*selection)(mylib_type type);
    /* Sums of all types, products of the carrying types, minima and maxima of all types but f16. */
    mylib_block_reduce *(*block_reduce)(mylib_reduction reduction, mylib_type type);
    mylib_block_reduce *(*block_dot)(mylib_type type); /* the sum of products: f32, f64 */
    mylib_column_sums *const *column_sums;             /* for each type of integers */
    /* Tells whether any element is true, or any is false, or counts the true ones. */
    int64_t (*truths)(mylib_truths what, mylib_type type, ptrdiff_t n, const char *p,
                      ptrdiff_t stride);
    /*
     * Updates the answer for each column with `rows` more rows: how many elements are true, in an
     * int64_t, or whether any is, or all are, in a byte.
     */
    void (*truths_of_columns)(mylib_truths what, mylib_type type, ptrdiff_t rows,
                              ptrdiff_t row_stride, ptrdiff_t columns, const char *p,
                              ptrdiff_t stride, char *answers);
    mylib_line_loop *(*lines)(mylib_op op, mylib_type type);        /* for a few operations */
    void (*stream_copy)(char *dst, const char *src, size_t nbytes); /* past the cache */
    void (*stream_fence)(void); /* after a thread's last store past the cache */
} mylib_cpu_level;

/* The level in use. */
const mylib_cpu_level *mylib_cpu(void);

/*
 * Runs a program over a layout in host memory, in any order, on as many threads as pay.  Without
 * memory, which a mylib_operation does not need, it writes nothing.
 */
mylib_status mylib_cpu_run(const mylib_program *program, const mylib_layout *layout);

/* One element after the other, in the layout's order. */
mylib_status mylib_cpu_run_in_order(const mylib_program *program, const mylib_layout *layout);

void mylib_cpu_arange(mylib_type type, int64_t n, char *out, int64_t stride, const void *start,
                      const void *step);

/*
 * Does in host memory what mylib_cuda_program_reduce() does on a GPU; out_type may be any type to
 * which store() narrows the carrying type, or f64 for i64.  After MYLIB_ERR_NO_MEMORY the output is
 * undefined.
 */
mylib_status mylib_cpu_reduce(mylib_reduction reduction, const mylib_program *program,
                              mylib_type type, const mylib_layout *layout, int kept_ndim,
                              mylib_type out_type);

/*
 * Computes *value += the sum of n terms, all of 'type', in the documented order and rounded once.
 * After MYLIB_ERR_NO_MEMORY *value is unchanged.
 */
mylib_status mylib_cpu_fold_sum(mylib_type type, int64_t n, char *value, const char *a,
                                int64_t a_stride);

static inline void mylib_cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

/* Returns how many threads the calling thread may use, including itself. */
int mylib_cpu_threads(void);

/*
 * Calls task(context, thread, i) for i = 0 to n - 1 on at most `threads` threads, in any order, in
 * the default floating-point mode; their flags are raised in the calling thread.
 */
typedef void mylib_task(void *context, int thread, int64_t i);
void mylib_cpu_parallel(int threads, int64_t n, mylib_task *task, void *context);

void mylib_copy_strided(size_t size, int64_t n, char *dst, int64_t dst_stride, const char *src,
                        int64_t src_stride);

/* ---- Loops ---- */

/* Unrolls scalar loops over strides: counter and branch would take as long as the operation. */
#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll_count(4)")
#elif defined(__GNUC__)
#define UNROLLED _Pragma("GCC unroll 4")
#else
#define UNROLLED
#endif

/*
 * Runs `statement` for n elements, two at a time: element i is i steps from the pointers, which
 * `advance` moves by two steps; n counts down.  Both steps are written out, so that compilers can
 * make them one vector.
 */
#define IN_PAIRS(n, statement, advance) \
    UNROLLED for (; (n) >= 2; (n) -= 2, advance) \
    { \
        { \
            const int i = 0; \
            statement; \
        } \
        { \
            const int i = 1; \
            statement; \
        } \
    } \
    for (int i = 0; i < (n); i++) \
    statement

/* ---- CUDA (cuda/, or cuda/none.c) ---- */

mylib_status mylib_cuda_alloc(int device, size_t nbytes, void *stream, void **ptr_ret);
mylib_status mylib_cuda_free(int device, void *ptr, void *stream);
/* Frees temporary memory of a call, or NULL; keeps this thread's message. */
void mylib_cuda_discard(int device, void *ptr, void *stream);
mylib_status mylib_cuda_copy(mylib_device dst_device, void *dst, mylib_device src_device,
                             const void *src, size_t nbytes, void *stream);
mylib_status mylib_cuda_synchronize(int device, void *stream);

/*
 * Enqueues a program over a layout of GPU memory and host scalars (inputs with one value for all
 * elements).  The layout is simplified; operand 0 is exactly an input, or disjoint.  Messages call
 * operand k names[k].
 */
mylib_status mylib_cuda_map(int device, void *stream, const mylib_program *program,
                            mylib_layout *layout, const char *const *names);
/*
 * Streams a program over a layout of host memory through a GPU, or MYLIB_ALL_GPUS.  Raises
 * floating-point flags only for a program that is a single operation.
 */
mylib_status mylib_cuda_map_host(int device, const mylib_program *program, mylib_layout *layout);
/*
 * The terms of a reduction: an input's elements, or products of two inputs' elements, converted to
 * `type` (mylib.h) and then to `carrier`, in which the reduction computes (f32 for minima of f16);
 * or, where CUDA has kernels for that, op(x) of an input's elements x.
 */
typedef struct mylib_terms {
    mylib_type type, carrier;
    int inputs;
    uint8_t input_type[2];
    uint8_t op;   /* MYLIB_OP_square or MYLIB_OP_absolute; MYLIB_OP_not_equal, to 0; or 0 */
    int *is_mean; /* NULL, or: divide sums by their number of terms; who does so clears it */
} mylib_terms;

/*
 * Enqueues the reduction of terms, operands 1 and 2 of the layout (GPU memory or host scalars), to
 * operand 0.  The reduced dimensions are the last ones, in C order; operand 0 has stride 0 there.
 * out_type is operand 0's type: one of the two of the terms.  The kept dimensions may be in any
 * order, and so simplified; either kind may be missing.
 */
#define MYLIB_REDUCED_NDIM 3 /* the most reduced dimensions */
mylib_status mylib_cuda_reduce(int device, void *stream, mylib_reduction reduction,
                               const mylib_terms *terms, mylib_layout *layout, int kept_ndim,
                               mylib_type out_type, const char *const *names);
/*
 * Reduces the values of a program over a layout of GPU memory and host scalars, converted to 'type'
 * and then to the carrying type (mylib.h).  Operand 0, out_type and the dimensions are those of
 * mylib_cuda_reduce().
 */
mylib_status mylib_cuda_program_reduce(int device, void *stream, mylib_reduction reduction,
                                       const mylib_program *program, mylib_type type,
                                       mylib_layout *layout, int kept_ndim, mylib_type out_type,
                                       const char *const *names);
/*
 * Does the same for host arrays, of any size: their elements go to the GPU in pieces that are whole
 * subtrees of the order.  Waits.
 */
mylib_status mylib_cuda_reduce_host(int device, mylib_reduction reduction,
                                    const mylib_program *program, mylib_type type,
                                    mylib_layout *layout, int kept_ndim, mylib_type out_type);
/*
 * Copies operand 1 of a simplified layout to operand 0, converted.  Exactly one of the two is in
 * host memory, the other on the GPU.  The copy is ordered on 'stream', and complete on return.
 */
mylib_status mylib_cuda_copy_host(int device, void *stream, const mylib_layout *layout,
                                  mylib_type dst_type, mylib_type src_type, int dst_is_host);
/* A small copy: rows of elements, whose strides lead from row to row and within a row. */
typedef struct mylib_copy_piece {
    char *to;
    const char *from;
    int64_t to_stride[2], from_stride[2];
    int32_t count, columns; /* elements in all, and of a row */
    int32_t size;           /* of an element, or 16 if all are contiguous */
} mylib_copy_piece;

/* Copies of one launch, whose arguments have 4 KB. */
#define MYLIB_MAX_PIECES 60
#define MYLIB_PIECE_NBYTES (64 << 10) /* the most of a piece */
typedef struct mylib_copies {
    int32_t pieces;
    mylib_copy_piece piece[MYLIB_MAX_PIECES];
} mylib_copies;

/* dst and the sources are disjoint. */
mylib_status mylib_cuda_copy_pieces(const mylib_array *dst, void *stream,
                                    const mylib_copies *copies);
mylib_status mylib_cuda_arange(int device, void *stream, mylib_type type, int64_t n, char *out,
                               int64_t stride, const void *start, const void *step);
/* `type` is MYLIB_I64, MYLIB_F64 or MYLIB_C128; the pointers lead to host memory. */
mylib_status mylib_cuda_scalar(int device, mylib_op op, mylib_type type, const void *a,
                               const void *b, void *result);

/* ---- Exponents (exponents.c) ---- */

/* Returns MYLIB_ERR_DOMAIN if a program over a layout on `device` has integers' negative powers. */
mylib_status mylib_check_exponents(const mylib_program *program, mylib_device device, void *stream,
                                   const mylib_layout *layout);

mylib_status mylib_refuse_exponent(int64_t exponent);

#ifdef __cplusplus
}
#endif
