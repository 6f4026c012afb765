/*
 * run_row.h - runs a program's statements over rows of elements, block by block.
 *
 * A row is the innermost loop of a layout: each operand has one pointer and one stride.
 */
#pragma once

#include "counting.h"
#include "internal.h"

/* The kernel that a statement calls, with all arguments but the element count and pointers. */
typedef struct mylib_call {
    union {
        mylib_kernel *kernel;
        mylib_selection *selection;
    } function; /* not set for conversions */
    uint8_t opcode, to, from;
    uint8_t is_uniform; /* the result is the same for all elements, so one is computed */
    uint16_t target, operand[3];
    int64_t target_stride, stride[3];
} mylib_call;

#define MYLIB_FEW_CALLS 16

/*
 * A program bound to the kernels of the CPU level in use and to its operands' strides.  Registers
 * hold a block of elements; a register with a uniform value holds one element.
 */
typedef struct mylib_row_program {
    const mylib_program *program;
    const mylib_cpu_level *cpu;
    mylib_call *calls; /* one for each statement */
    int operands, pointers;
    int64_t stride[MYLIB_MAX_OPERANDS];
    int64_t block; /* elements; INT64_MAX without registers */
    int64_t register_nbytes;
    size_t memory_nbytes; /* that a mylib_row_data needs besides */
    mylib_call few[MYLIB_FEW_CALLS];
} mylib_row_program;

int64_t mylib_widest_size(const mylib_program *program, int64_t least);

/*
 * Binds a program; strides[k] is the byte stride of operand k, as in a layout: 0 is the output.
 * Free it with mylib_row_program_free().  May return MYLIB_ERR_NO_MEMORY, except for programs of
 * single operations.
 */
mylib_status mylib_row_program_init(mylib_row_program *rp, const mylib_program *program,
                                    const int64_t *strides);
void mylib_row_program_free(const mylib_row_program *rp);

/*
 * A thread's pointers to the operands, registers and constants, and memory for a few registers.
 * The caller sets the first pointers, to the operands of the row.
 */
#define MYLIB_FEW_POINTERS 96
#define MYLIB_REGISTERS_NBYTES (16 * 1024)
typedef struct mylib_row_data {
    char **data;
    char *few[MYLIB_FEW_POINTERS];
    _Alignas(MYLIB_LINE_NBYTES) char registers[MYLIB_REGISTERS_NBYTES + 4096];
} mylib_row_data;

/* Returns how much of a mylib_row_data, or of memory_nbytes, the program's registers take. */
static inline size_t mylib_registers_nbytes(const mylib_row_program *rp)
{
    return (size_t)rp->program->registers * ((size_t)rp->register_nbytes + sizeof(t_c128));
}

/* `memory` has memory_nbytes, aligned to cache lines, or is NULL if that is 0. */
void mylib_row_data_init(mylib_row_data *d, const mylib_row_program *rp, char *memory);

/* Computes n elements, at least one, from data[] on; leaves data[] unchanged. */
void mylib_run_row(const mylib_row_program *rp, int64_t n, char **data);

/* Does the same for a contiguous output, with stores that bypass the cache. */
void mylib_run_row_past_cache(const mylib_row_program *rp, int64_t n, char **data);

/* With less traffic per thread, waking the thread costs more than it saves. */
#define MYLIB_THREAD_MIN_NBYTES (1024 * 1024)

static inline int mylib_choose_threads(int64_t nbytes)
{
    if (nbytes < 2 * MYLIB_THREAD_MIN_NBYTES)
        return 1;
    return (int)mylib_lesser(mylib_cpu_threads(), nbytes / MYLIB_THREAD_MIN_NBYTES);
}

/* Computes a row of a program of one statement, without binding it first: for short arrays. */
void mylib_run_single_statement(const mylib_program *program, int64_t n, char *const *data,
                                const int64_t *strides);
