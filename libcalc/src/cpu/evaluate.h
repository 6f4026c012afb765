/*
 * evaluate.h - the CPU's engine: a program's statements over rows of elements, block by block.
 *
 * A place is a pointer that operands are read from or results written to: of the output, an input,
 * a register or a constant.  Only the places of the output and the inputs move.
 */
#ifndef MYLIB_EVALUATE_H
#define MYLIB_EVALUATE_H

#include "internal.h"

/* What a statement calls, and with what: everything but the number of elements and the places. */
typedef struct mylib_call {
    union {
        mylib_kernel *kernel;
        mylib_selection *selection;
    } function; /* none of a conversion */
    uint8_t opcode, to, from;
    uint8_t is_uniform; /* the same for all elements, so computed for one */
    uint16_t target, operand[3];
    int64_t target_stride, stride[3];
} mylib_call;

#define MYLIB_FEW_CALLS 16

/*
 * A program and what it calls at the CPU level in use, for operands of given strides.  Registers
 * hold a block of elements; those of a value that is the same for all elements hold one.
 */
typedef struct mylib_evaluator {
    const mylib_program *program;
    const mylib_cpu_level *cpu;
    mylib_call *calls; /* one for each statement */
    int operands, places;
    int64_t stride[MYLIB_MAX_OPERANDS];
    int64_t block; /* elements; INT64_MAX without registers */
    int64_t register_nbytes;
    size_t memory_nbytes; /* that a mylib_places needs besides itself */
    mylib_call few[MYLIB_FEW_CALLS];
} mylib_evaluator;

/*
 * strides[k] is the byte stride of operand k, as in a layout: 0 is the output.  Freed with
 * mylib_evaluator_free().  MYLIB_ERR_NO_MEMORY, which the programs of operations never meet.
 */
mylib_status mylib_evaluator_init(mylib_evaluator *e, const mylib_program *program,
                                  const int64_t *strides);
void mylib_evaluator_free(mylib_evaluator *e);

/* A thread's places, and the registers of programs that have few. */
#define MYLIB_FEW_PLACES 96
#define MYLIB_REGISTERS_NBYTES (16 * 1024)
#define MYLIB_LINE_NBYTES 64
typedef struct mylib_places {
    char **place; /* the first ones, the operands', are the caller's to set */
    char *few[MYLIB_FEW_PLACES];
    _Alignas(MYLIB_LINE_NBYTES) char registers[MYLIB_REGISTERS_NBYTES + 4096];
} mylib_places;

/* Returns how much of a mylib_places, or of memory_nbytes, the program's registers take. */
static inline size_t mylib_registers_nbytes(const mylib_evaluator *e)
{
    return (size_t)e->program->registers * ((size_t)e->register_nbytes + sizeof(t_c128));
}

/* `memory` has memory_nbytes, aligned to cache lines; NULL when that is 0. */
void mylib_places_init(mylib_places *p, const mylib_evaluator *e, char *memory);

/* Computes n elements, at least one, from the operands' places on. */
void mylib_evaluate(const mylib_evaluator *e, int64_t n, char **place);

/* The same past the cache: for a contiguous output. */
void mylib_evaluate_past_cache(const mylib_evaluator *e, int64_t n, char **place);

/* The row of n elements of a program of one statement, without an evaluator: for short arrays. */
void mylib_evaluate_alone(const mylib_program *program, int64_t n, char *const *data,
                          const int64_t *strides);

#endif /* MYLIB_EVALUATE_H */
