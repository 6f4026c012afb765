/*
 * reduce_few.c - reductions of few terms, as element-wise programs of as many inputs.  Plain C.
 *
 * The kernels of programs take any layout at the speed of memory; those of reductions would leave
 * most threads without terms.
 */
#include <string.h>

#include "cuda_internal.h"

#include "../counting.h"

/* Two convert a term, to its type and to the carrying type; one combines it, divides, or stores. */
#define MOST_STATEMENTS (3 * MYLIB_FEW_TERMS + 1)

typedef struct few {
    mylib_program program;
    mylib_statement statement[MOST_STATEMENTS];
    mylib_op op;
    mylib_type type, carrier;
    int terms, is_in_order, next; /* next: the term to combine, if they keep their order */
    int has_result;               /* of earlier terms: the first operand of the rest */
} few;

/* Adds a statement of `type`; its result goes to the register `target`. */
static mylib_value add_statement(few *f, int opcode, mylib_type type, int target, int operands,
                                 const mylib_value *operand)
{
    mylib_program *p = &f->program;
    mylib_statement *s = &f->statement[p->statements++];
    *s = (mylib_statement){(uint8_t)opcode,   (uint8_t)type,    (uint8_t)type,
                           (uint8_t)operands, (uint16_t)target, {{0, 0, 0}}};
    for (int o = 0; o < operands; o++)
        s->operand[o] = operand[o];
    const uint8_t size = (uint8_t)mylib_type_size(type);
    p->registers = target >= p->registers ? target + 1 : p->registers;
    p->max_register_size = size > p->max_register_size ? size : p->max_register_size;
    return (mylib_value){MYLIB_VALUE_REGISTER, (uint8_t)type, (uint16_t)target};
}

static mylib_value convert(few *f, mylib_value v, mylib_type type, int target)
{
    return v.type == type ? v : add_statement(f, MYLIB_OPCODE_CONVERT, type, target, 1, &v);
}

/*
 * Combines the terms first, first + apart, ...: a half of the order's tree over lanes, and then the
 * other half.  The result is a term, or in the register `target`; later ones may be overwritten.
 */
static mylib_value combine(few *f, int first, int apart, int target)
{
    if (first + apart >= f->terms) {
        const int k = f->is_in_order ? f->next++ : first;
        mylib_value term = {MYLIB_VALUE_INPUT, f->program.input_type[k], (uint16_t)k};
        /* No register holds elements of two sizes at once. */
        const int between = f->type == f->carrier ? target : target + 1;
        if (k != 0 || !f->has_result)
            term = convert(f, term, f->type, between);
        return convert(f, term, f->carrier, target);
    }
    mylib_value pair[2];
    pair[0] = combine(f, first, 2 * apart, target);
    pair[1] = combine(f, first + apart, 2 * apart, target + 1);
    return add_statement(f, (int)f->op, f->carrier, target, 2, pair);
}

/* Divides by a number of the carrying type, which becomes the last input. */
static mylib_value divide(few *f, mylib_layout *l, mylib_value value, const void *number)
{
    const int k = f->program.inputs++;
    const uint8_t type = (uint8_t)f->carrier;
    const mylib_value pair[2] = {value, {MYLIB_VALUE_INPUT, type, (uint16_t)k}};
    f->program.input_type[k] = type;
    l->operands++;
    l->data[1 + k] = (char *)(uintptr_t)number;
    l->is_host_scalar[1 + k] = 1;
    memset(l->strides[1 + k], 0, sizeof l->strides[1 + k]);
    return add_statement(f, MYLIB_OP_divide, f->carrier, 0, 2, pair);
}

/* Sets operand k of l to the term of that number, in C order, of each output. */
static void set_term(mylib_layout *l, int k, const mylib_layout *layout, int kept_ndim,
                     int64_t term)
{
    mylib_layout_set_operand(l, k, layout, 1);
    for (int d = layout->ndim - 1; d >= kept_ndim; term /= layout->shape[d--])
        l->data[k] += term % layout->shape[d] * layout->strides[1][d];
}

mylib_status mylib_cuda_reduce_few(int device, void *stream, mylib_reduction reduction,
                                   const mylib_terms *terms, const mylib_layout *layout,
                                   int kept_ndim, mylib_type out_type, const char *const *names)
{
    static const mylib_op ops[] = {MYLIB_OP_add, MYLIB_OP_multiply, MYLIB_OP_minimum,
                                   MYLIB_OP_maximum};
    const char *operand_names[2 + MYLIB_FEW_TERMS] = {names[0]};
    int64_t count = 1, done = 0;
    few f = {.op = ops[reduction], .type = terms->type};
    DECLARE_LARGE_LAYOUT(l, 2 + MYLIB_FEW_TERMS);

    /* Integers wrap around in any type. */
    f.carrier = terms->carrier <= MYLIB_U64 ? out_type : terms->carrier;
    f.is_in_order = mylib_is_in_order(reduction, f.carrier);
    f.program.statement = f.statement;
    f.program.result_type = (uint8_t)out_type;
    for (int d = kept_ndim; d < layout->ndim; d++)
        count *= layout->shape[d];
    const double wide[2] = {(double)count, 0};
    const float narrow[2] = {(float)count, 0};
    const int is_narrow = mylib_part_type(f.carrier) == MYLIB_F32;
    const void *const divisor = is_narrow ? (const void *)narrow : wide;
    while (done < count) {
        f.has_result = done > 0;
        f.terms = (int)mylib_lesser(f.has_result + count - done, MYLIB_FEW_TERMS);
        f.program.inputs = f.terms;
        f.program.statements = f.program.registers = f.next = 0;
        mylib_layout_begin(&l, layout, 1 + f.terms);
        l.ndim = kept_ndim;
        l.count = layout->count / count;
        mylib_layout_set_operand(&l, 0, layout, 0);
        for (int k = 1; k <= f.terms; k++) {
            const int is_result = f.has_result && k == 1;
            operand_names[k] = operand_names[k + 1] = names[is_result ? 0 : 1];
            f.program.input_type[k - 1] = is_result ? (uint8_t)out_type : terms->input_type[0];
            if (is_result)
                mylib_layout_set_operand(&l, 1, layout, 0);
            else
                set_term(&l, k, layout, kept_ndim, done++);
        }
        mylib_value value = combine(&f, 0, 1, 0);
        if (done == count && terms->is_mean != NULL)
            value = divide(&f, &l, value, divisor);
        (void)convert(&f, value, out_type, 0);
        f.statement[f.program.statements - 1].target = MYLIB_TARGET_OUT;
        mylib_layout_simplify(&l);
        RETURN_IF_ERROR(mylib_cuda_map(device, stream, &f.program, &l, operand_names));
    }
    if (terms->is_mean != NULL)
        *terms->is_mean = 0;
    return MYLIB_OK;
}
