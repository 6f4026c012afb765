/*
 * exponents.c - refuses negative powers of integers, before anything is written.
 *
 * A reduction finds the least exponent of each power in a program; on a GPU the call waits for it.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "internal.h"

mylib_status mylib_refuse_exponent(int64_t exponent)
{
    return mylib_fail(MYLIB_ERR_DOMAIN,
                      "the exponent %" PRId64
                      " is negative: integers have no such powers; make the base or the exponent "
                      "a float",
                      exponent);
}

static mylib_status check_number(mylib_type type, const void *number)
{
    int64_t wide;
    mylib_cpu()->convert(MYLIB_I64, type, 1, (char *)&wide, 0, number, 0);
    return wide < 0 ? mylib_refuse_exponent(wide) : MYLIB_OK;
}

/* The layout's inputs are set. */
static mylib_status check_values(const mylib_program *program, mylib_device device, void *stream,
                                 mylib_layout *l)
{
    const mylib_type type = (mylib_type)program->result_type;
    const size_t size = mylib_type_size(type);
    const mylib_device cpu = {MYLIB_CPU, 0};
    int64_t least;
    void *result = &least;
    mylib_status st;
    for (int d = 0; d < l->ndim; d++) {
        int repeats = 1;
        for (int k = 1; k < l->operands; k++)
            repeats &= l->strides[k][d] == 0;
        l->strides[0][d] = 0;
        if (repeats) {
            l->count /= l->shape[d];
            l->shape[d] = 1;
        }
    }
    mylib_layout_simplify(l);
    if (device.kind == MYLIB_CPU) {
        l->data[0] = result;
        st = mylib_cpu_reduce(MYLIB_MIN, program, type, l, 0, type);
        l->data[0] = NULL;
        return st == MYLIB_OK ? check_number(type, result) : st;
    }
    RETURN_IF_ERROR(mylib_cuda_alloc(device.index, size, stream, &result));
    l->data[0] = result;
    MYLIB_TRY(mylib_cuda_program_reduce(device.index, stream, MYLIB_MIN, program, type, l, 0, type,
                                        mylib_operand_names));
    MYLIB_TRY(mylib_cuda_copy(cpu, &least, device, result, size, stream));
    st = check_number(type, &least);
out:
    mylib_cuda_discard(device.index, result, stream);
    return st;
}

static mylib_status check_input(mylib_type type, int k, mylib_device device, void *stream,
                                const mylib_layout *layout)
{
    DECLARE_LAYOUT(l, 2);
    mylib_operation copy;
    if (layout->is_host_scalar[k])
        return check_number(type, layout->data[k]);
    mylib_layout_begin(&l, layout, 2);
    mylib_layout_set_operand(&l, 1, layout, k);
    mylib_operation_of_conversion(&copy, type, type);
    return check_values(&copy.program, device, stream, &l);
}

/* Checks the values that the statements before number `end` leave in register `target`. */
static mylib_status check_register(const mylib_program *program, int end, int target,
                                   mylib_device device, void *stream, const mylib_layout *layout)
{
    mylib_program before = *program;
    DECLARE_LARGE_LAYOUT(l, layout->operands);
    mylib_statement some[5], *statement = some; /* enough for a mylib_operation */
    while (program->statement[end - 1].target != target)
        end--;
    if ((size_t)end > sizeof some / sizeof *some &&
        (statement = malloc((size_t)end * sizeof *statement)) == NULL)
        return mylib_fail(MYLIB_ERR_NO_MEMORY, "no memory for %d steps of a program", end);
    memcpy(statement, program->statement, (size_t)end * sizeof *statement);
    statement[end - 1].target = MYLIB_TARGET_OUT;
    before.statement = statement;
    before.statements = end;
    before.result_type = program->statement[end - 1].result_type;
    mylib_layout_copy(&l, layout);
    mylib_status st = check_values(&before, device, stream, &l);
    if (statement != some)
        free(statement);
    return st;
}

mylib_status mylib_check_exponents(const mylib_program *program, mylib_device device, void *stream,
                                   const mylib_layout *layout)
{
    for (int i = 0; i < program->statements && layout->count != 0; i++) {
        const mylib_statement *s = &program->statement[i];
        const mylib_value exponent = s->operand[1];
        const mylib_type type = (mylib_type)s->type;
        if (s->opcode != MYLIB_OP_power || !mylib_is_signed(type))
            continue;
        if (exponent.kind == MYLIB_VALUE_CONSTANT)
            RETURN_IF_ERROR(check_number(type, program->constant[exponent.index].value));
        else if (exponent.kind == MYLIB_VALUE_INPUT)
            RETURN_IF_ERROR(check_input(type, 1 + exponent.index, device, stream, layout));
        else
            RETURN_IF_ERROR(check_register(program, i, exponent.index, device, stream, layout));
    }
    return MYLIB_OK;
}
