/*
 * program.c - validates programs and compiles them to the statements that both backends run.
 *
 * All steps are checked first, and trusted from then on.  Steps that the result does not need are
 * dropped.  Each conversion becomes one statement, which all users share.  A value keeps its
 * register until its last use.  Time and memory are linear in the number of steps.
 */
#include <stdlib.h>
#include <string.h>

#include "counting.h"
#include "flags.h"
#include "internal.h"

/* Tells whether an operation in `type` amounts to a conversion to bool. */
static int is_conversion(int op, int type)
{
    return type == MYLIB_BOOL && mylib_op_base((mylib_op)op, MYLIB_BOOL) == MYLIB_OP_absolute;
}

/* Tells whether an operation returns the integers of `type` as they are. */
static int is_identity(int op, int type)
{
    return type <= MYLIB_U64 &&
           (op == MYLIB_OP_positive || op == MYLIB_OP_floor || op == MYLIB_OP_ceil ||
            op == MYLIB_OP_trunc || op == MYLIB_OP_conjugate || op == MYLIB_OP_real);
}

/* ---- Checks ---- */

static mylib_status check_count(const char *what, int count, int least, int most, const void *list)
{
    if (count < least || count > most)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "%d %s: expected %d to %d", count, what, least, most);
    if (count > 0 && list == NULL)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "%d %s, but the pointer to them is NULL", count,
                          what);
    return MYLIB_OK;
}

/* Begins the message with "step 3: ". */
static mylib_status locate(const char *what, int index, mylib_status st)
{
    char reason[MYLIB_MESSAGE_SIZE];
    if (st == MYLIB_OK)
        return st;
    strcpy(reason, mylib_last_message());
    return mylib_fail(st, "%s %d: %.900s", what, index, reason);
}

static mylib_status check_constant(const mylib_constant *c)
{
    RETURN_IF_ERROR(mylib_check_type((mylib_type)c->type));
    if (c->reserved != 0)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "reserved is %d: it must be 0", (int)c->reserved);
    if (c->type == MYLIB_BOOL && c->value[0] > 1)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "a bool is 0 or 1, not %d", (int)c->value[0]);
    for (size_t i = mylib_type_size((mylib_type)c->type); i < sizeof c->value; i++)
        if (c->value[i] != 0)
            return mylib_fail(MYLIB_ERR_ARGUMENT, "byte %d is %d: the bytes after one %s must be 0",
                              (int)i, (int)c->value[i], mylib_type_name((mylib_type)c->type));
    return MYLIB_OK;
}

static int step_arity(const mylib_step *s)
{
    return s->op == MYLIB_STEP_CONVERT  ? 1
           : s->op == MYLIB_STEP_SELECT ? 3
                                        : mylib_op_arity((mylib_op)s->op);
}

static mylib_status check_step(const mylib_step *s, int values, uint8_t *type_ret)
{
    int arity = step_arity(s);
    mylib_type result = (mylib_type)s->type;
    if (arity == 0)
        return mylib_fail(MYLIB_ERR_ARGUMENT,
                          "unknown operation %d: expected 0 to %d (mylib_op), "
                          "MYLIB_STEP_CONVERT or MYLIB_STEP_SELECT",
                          (int)s->op, MYLIB_OP_COUNT - 1);
    RETURN_IF_ERROR(mylib_check_type(result));
    if (s->op < MYLIB_OP_COUNT)
        RETURN_IF_ERROR(mylib_op_result_type((mylib_op)s->op, (mylib_type)s->type, &result));
    for (int k = 0; k < 3; k++) {
        int v = s->operand[k];
        if (k >= arity && v != 0)
            return mylib_fail(MYLIB_ERR_ARGUMENT,
                              "operand %d is %d, but the step has %d operand%s: those that it does "
                              "not have must be 0",
                              k, v, arity, arity == 1 ? "" : "s");
        if (k < arity && values == 0)
            return mylib_fail(MYLIB_ERR_ARGUMENT,
                              "operand %d is value %d, but there is no value before it", k, v);
        if (k < arity && (v < 0 || v >= values))
            return mylib_fail(MYLIB_ERR_ARGUMENT,
                              "operand %d is value %d, but only 0 to %d exist before it", k, v,
                              values - 1);
    }
    *type_ret = (uint8_t)result;
    return MYLIB_OK;
}

/* ---- Compiling ---- */

typedef struct node {
    mylib_value value; /* a register's index is set last */
    int32_t last_use;  /* number of the statement, or -1 */
    int32_t converted; /* the first conversion of this node, or -1 */
    int32_t next;      /* the next conversion of the same node, or -1 */
} node;

typedef struct draft {
    uint8_t opcode, type, operands;
    int32_t operand[3], result;
} draft;

typedef struct compiler {
    int constants; /* the program's, then converted ones */
    int nodes, drafts, registers, free_registers;
    int flags; /* raised by conversions of constants */
    uint8_t max_register_size;
    mylib_program_constant constant[MYLIB_PROGRAM_MAX_CONSTANTS];
    uint16_t new_index[MYLIB_PROGRAM_MAX_CONSTANTS]; /* of used constants, from 1; else 0 */
    node *node;
    draft *draft;
    uint16_t *free_register; /* a stack: the last freed is still cached */
} compiler;

static int32_t add_node(compiler *c, int kind, int type, int index)
{
    c->node[c->nodes] = (node){{(uint8_t)kind, (uint8_t)type, (uint16_t)index}, -1, -1, -1};
    return c->nodes++;
}

static int32_t add_statement(compiler *c, int opcode, int type, int result_type, int operands,
                             const int32_t *operand)
{
    int32_t result = add_node(c, MYLIB_VALUE_REGISTER, result_type, 0);
    draft *d = &c->draft[c->drafts];
    *d = (draft){(uint8_t)opcode, (uint8_t)type, (uint8_t)operands, {0}, result};
    for (int k = 0; k < operands; k++) {
        d->operand[k] = operand[k];
        c->node[operand[k]].last_use = c->drafts;
    }
    c->drafts++;
    return result;
}

/* Converts a constant now; keeps the flags for the runs of the program to raise. */
static int32_t convert_constant(compiler *c, mylib_value from, int type)
{
    ENTER_DEFAULT_MODE();
    int before = mylib_test_flags();
    char *to = (char *)c->constant[c->constants].value;
    mylib_clear_flags();
    mylib_cpu()->convert((mylib_type)type, (mylib_type)from.type, 1, to, 0,
                         (const char *)c->constant[from.index].value, 0);
    c->flags |= mylib_test_flags();
    mylib_clear_flags();
    mylib_raise_flags(before);
    return add_node(c, MYLIB_VALUE_CONSTANT, type, c->constants++);
}

static int32_t convert_node(compiler *c, int32_t origin, int type)
{
    const mylib_value from = c->node[origin].value;
    if (from.type == type)
        return origin;
    for (int32_t i = c->node[origin].converted; i >= 0; i = c->node[i].next)
        if (c->node[i].value.type == type)
            return i;
    int32_t made;
    if (from.kind == MYLIB_VALUE_CONSTANT && c->constants < MYLIB_PROGRAM_MAX_CONSTANTS)
        made = convert_constant(c, from, type);
    else
        made = add_statement(c, MYLIB_OPCODE_CONVERT, type, type, 1, &origin);
    c->node[made].next = c->node[origin].converted;
    c->node[origin].converted = made;
    return made;
}

/* Makes a constant divisor, a power of two, its inverse: the product is faster, the bits same. */
static int invert_power_of_2(compiler *c, int32_t *divisor)
{
    const mylib_value v = c->node[*divisor].value;
    if (v.kind != MYLIB_VALUE_CONSTANT || v.type < MYLIB_F16 || v.type > MYLIB_F64 ||
        c->constants == MYLIB_PROGRAM_MAX_CONSTANTS)
        return 0;
    const int mantissa = v.type == MYLIB_F64 ? 52 : v.type == MYLIB_F32 ? 23 : 10;
    const uint64_t sign = (uint64_t)1 << (8 * mylib_type_size((mylib_type)v.type) - 1);
    const uint64_t one = ((sign >> mantissa) - 2) << mantissa; /* the sum of both exponents */
    uint64_t bits;
    memcpy(&bits, c->constant[v.index].value, sizeof bits);
    const uint64_t exponent = bits & ~sign;
    if (exponent << (64 - mantissa) != 0 || exponent == 0 || exponent >= one)
        return 0;
    bits = (one - exponent) | (bits & sign);
    memcpy(c->constant[c->constants].value, &bits, sizeof bits);
    *divisor = add_node(c, MYLIB_VALUE_CONSTANT, v.type, c->constants++);
    return 1;
}

/* `node_of` has the nodes of all values before the step. */
static int32_t compile_step(compiler *c, const mylib_step *s, const int32_t *node_of,
                            int result_type)
{
    int32_t operand[3] = {0, 0, 0};
    const int arity = step_arity(s);
    int opcode;
    for (int k = 0; k < arity; k++) {
        int is_condition = s->op == MYLIB_STEP_SELECT && k == 0;
        operand[k] = convert_node(c, node_of[s->operand[k]], is_condition ? MYLIB_BOOL : s->type);
    }
    if (s->op == MYLIB_STEP_CONVERT || is_identity(s->op, s->type))
        return operand[0];
    if (is_conversion(s->op, s->type)) {
        /* An input's bytes may be other than 0 and 1. */
        const int32_t twice[2] = {operand[0], operand[0]};
        if (c->node[operand[0]].value.kind != MYLIB_VALUE_INPUT)
            return operand[0];
        return add_statement(c, MYLIB_OP_logical_or, MYLIB_BOOL, MYLIB_BOOL, 2, twice);
    }
    if (s->op == MYLIB_STEP_SELECT) {
        opcode = MYLIB_OPCODE_SELECT;
    } else {
        opcode = mylib_op_base((mylib_op)s->op, (mylib_type)s->type);
        if (mylib_op_is_reversed((mylib_op)s->op)) {
            int32_t first = operand[0];
            operand[0] = operand[1], operand[1] = first;
        }
        if (opcode == MYLIB_OP_divide && invert_power_of_2(c, &operand[1]))
            opcode = MYLIB_OP_multiply;
    }
    return add_statement(c, opcode, s->type, result_type, arity, operand);
}

/* ---- Registers ---- */

/* Chooses the register of a result: of an operand of its size that ends here, or a free one. */
static int take_register(compiler *c, const draft *d, int32_t index)
{
    size_t size = mylib_type_size((mylib_type)c->node[d->result].value.type);
    if (size > c->max_register_size)
        c->max_register_size = (uint8_t)size;
    for (int k = 0; k < d->operands; k++) {
        node *n = &c->node[d->operand[k]];
        if (n->value.kind == MYLIB_VALUE_REGISTER && n->last_use == index &&
            mylib_type_size((mylib_type)n->value.type) == size) {
            n->last_use = -1; /* the result takes over the register */
            return n->value.index;
        }
    }
    return c->free_registers > 0 ? c->free_register[--c->free_registers] : c->registers++;
}

static void free_registers(compiler *c, const draft *d, int32_t index)
{
    for (int k = 0; k < d->operands; k++) {
        node *n = &c->node[d->operand[k]];
        if (n->value.kind == MYLIB_VALUE_REGISTER && n->last_use == index) {
            n->last_use = -1; /* free it once, even if it is an operand twice */
            c->free_register[c->free_registers++] = n->value.index;
        }
    }
}

/* Used constants are renumbered without gaps. */
static mylib_value final_value(compiler *c, mylib_value value, mylib_program *p,
                               mylib_program_constant *constant)
{
    if (value.kind != MYLIB_VALUE_CONSTANT)
        return value;
    if (c->new_index[value.index] == 0) {
        constant[p->constants++] = c->constant[value.index];
        c->new_index[value.index] = (uint16_t)p->constants;
    }
    value.index = (uint16_t)(c->new_index[value.index] - 1);
    return value;
}

static mylib_program *finish(compiler *c, int inputs, const mylib_type *input_types)
{
    const size_t align = _Alignof(mylib_program_constant);
    size_t header = (size_t)mylib_round_up(sizeof(mylib_program), (int64_t)align);
    size_t room = (size_t)c->constants * sizeof(mylib_program_constant);
    char *memory = malloc(header + room + (size_t)c->drafts * sizeof(mylib_statement));
    if (memory == NULL)
        return NULL;
    mylib_program *p = (mylib_program *)memory;
    mylib_program_constant *constant = (mylib_program_constant *)(memory + header);
    mylib_statement *statement = (mylib_statement *)(memory + header + room);

    *p = (mylib_program){.inputs = inputs,
                         .statements = c->drafts,
                         .flags = c->flags,
                         .constant = constant,
                         .statement = statement};
    for (int k = 0; k < inputs; k++)
        p->input_type[k] = (uint8_t)input_types[k];
    for (int i = 0; i < c->drafts; i++) {
        const draft *d = &c->draft[i];
        node *result = &c->node[d->result];
        mylib_statement s = {d->opcode,   d->type,          result->value.type,
                             d->operands, MYLIB_TARGET_OUT, {{0, 0, 0}}};
        for (int k = 0; k < d->operands; k++)
            s.operand[k] = final_value(c, c->node[d->operand[k]].value, p, constant);
        if (i + 1 < c->drafts) {
            s.target = result->value.index = (uint16_t)take_register(c, d, i);
            free_registers(c, d, i);
        }
        statement[i] = s;
    }
    p->registers = c->registers;
    p->max_register_size = c->max_register_size;
    p->result_type = statement[c->drafts - 1].result_type;
    return p;
}

/* ---- Creating ---- */

/* `type` has the type of each value.  Returns NULL if memory runs out. */
static mylib_program *compile(int inputs, const mylib_type *input_types, int constants,
                              const mylib_constant *constant, int steps, const mylib_step *step,
                              const uint8_t *type)
{
    int given = inputs + constants, values = given + steps;
    size_t statements = 1, nodes = (size_t)given + MYLIB_PROGRAM_MAX_CONSTANTS;
    mylib_program *p = NULL;
    uint8_t *is_used = calloc((size_t)values, 1);
    int32_t *node_of = calloc((size_t)values, sizeof *node_of);
    compiler *c = calloc(1, sizeof *c);
    if (is_used == NULL || node_of == NULL || c == NULL)
        goto out;

    is_used[values - 1] = 1;
    for (int i = steps - 1; i >= 0; i--) {
        int arity = step_arity(&step[i]);
        for (int k = 0; k < arity && is_used[given + i]; k++)
            is_used[step[i].operand[k]] = 1;
        statements += is_used[given + i] ? 1 + (size_t)arity : 0;
    }
    nodes += statements;
    c->node = calloc(nodes, sizeof *c->node);
    c->draft = malloc(statements * sizeof *c->draft);
    c->free_register = malloc(statements * sizeof *c->free_register);
    if (c->node == NULL || c->draft == NULL || c->free_register == NULL)
        goto out;

    for (int k = 0; k < inputs; k++)
        node_of[k] = add_node(c, MYLIB_VALUE_INPUT, type[k], k);
    c->constants = constants;
    for (int k = 0; k < constants; k++) {
        memcpy(c->constant[k].value, constant[k].value, sizeof constant[k].value);
        node_of[inputs + k] = add_node(c, MYLIB_VALUE_CONSTANT, type[inputs + k], k);
    }
    for (int i = 0; i < steps; i++)
        if (is_used[given + i])
            node_of[given + i] = compile_step(c, &step[i], node_of, type[given + i]);
    int32_t result = node_of[values - 1];
    if (c->node[result].value.kind != MYLIB_VALUE_REGISTER)
        add_statement(c, MYLIB_OPCODE_CONVERT, type[values - 1], type[values - 1], 1, &result);
    p = finish(c, inputs, input_types);
out:
    if (c != NULL) {
        free(c->node);
        free(c->draft);
        free(c->free_register);
    }
    free(c);
    free(node_of);
    free(is_used);
    return p;
}

mylib_status mylib_program_create(int inputs, const mylib_type *input_types, int constants,
                                  const mylib_constant *constant, int steps, const mylib_step *step,
                                  mylib_program **program_ret)
{
    uint8_t type[MYLIB_PROGRAM_MAX_INPUTS + MYLIB_PROGRAM_MAX_CONSTANTS + MYLIB_PROGRAM_MAX_STEPS] =
        {0};
    int values = 0;

    RETURN_IF_ERROR(check_count("inputs", inputs, 0, MYLIB_PROGRAM_MAX_INPUTS, input_types));
    RETURN_IF_ERROR(check_count("constants", constants, 0, MYLIB_PROGRAM_MAX_CONSTANTS, constant));
    RETURN_IF_ERROR(check_count("steps", steps, 1, MYLIB_PROGRAM_MAX_STEPS, step));
    RETURN_IF_NULL(program_ret);
    for (int k = 0; k < inputs; k++, values++) {
        RETURN_IF_ERROR(locate("input", k, mylib_check_type(input_types[k])));
        type[values] = (uint8_t)input_types[k];
    }
    for (int k = 0; k < constants; k++, values++) {
        RETURN_IF_ERROR(locate("constant", k, check_constant(&constant[k])));
        type[values] = (uint8_t)constant[k].type;
    }
    for (int i = 0; i < steps; i++, values++)
        RETURN_IF_ERROR(locate("step", i, check_step(&step[i], values, &type[values])));

    mylib_program *p = compile(inputs, input_types, constants, constant, steps, step, type);
    if (p == NULL)
        return mylib_fail(MYLIB_ERR_NO_MEMORY, "no memory to compile a program of %d steps", steps);
    *program_ret = p;
    return MYLIB_OK;
}

void mylib_program_free(mylib_program *program) { free(program); }

mylib_status mylib_program_result_type(const mylib_program *program, mylib_type *type_ret)
{
    RETURN_IF_NULL(program);
    RETURN_IF_NULL(type_ret);
    *type_ret = (mylib_type)program->result_type;
    return MYLIB_OK;
}

mylib_status mylib_check_input_types(const mylib_program *program, const mylib_array *in)
{
    for (int k = 0; k < program->inputs; k++)
        if (in[k].type != program->input_type[k])
            return mylib_fail(MYLIB_ERR_ARGUMENT, "in[%d] is %s, but the program was made for %s",
                              k, mylib_type_name(in[k].type),
                              mylib_type_name((mylib_type)program->input_type[k]));
    return MYLIB_OK;
}

/* ---- Single operations ---- */

static void begin_operation(mylib_operation *o, mylib_type result_type, int inputs,
                            const mylib_type *input_types)
{
    mylib_program *p = &o->program;
    p->inputs = inputs;
    p->constants = p->registers = p->statements = p->flags = 0;
    p->result_type = (uint8_t)result_type;
    p->max_register_size = 0;
    for (int k = 0; k < inputs; k++)
        p->input_type[k] = (uint8_t)input_types[k];
    p->constant = NULL;
    p->statement = o->statement;
}

static mylib_value convert_value(mylib_operation *o, mylib_value v, mylib_type type)
{
    mylib_program *p = &o->program;
    if (v.type == type)
        return v;
    uint8_t size = (uint8_t)mylib_type_size(type);
    p->max_register_size = size > p->max_register_size ? size : p->max_register_size;
    const mylib_value converted = {MYLIB_VALUE_REGISTER, (uint8_t)type, (uint16_t)p->registers++};
    o->statement[p->statements++] = (mylib_statement){
        MYLIB_OPCODE_CONVERT, (uint8_t)type, (uint8_t)type, 1, converted.index, {v}};
    return converted;
}

static mylib_value read_input(mylib_operation *o, int k, mylib_type type)
{
    const mylib_value input = {MYLIB_VALUE_INPUT, o->program.input_type[k], (uint16_t)k};
    return convert_value(o, input, type);
}

mylib_status mylib_operation_of_op(mylib_operation *o, mylib_op op, mylib_type type,
                                   const mylib_type *input_types)
{
    mylib_type result_type;
    RETURN_IF_ERROR(mylib_op_result_type(op, type, &result_type));
    if (is_identity(op, type)) {
        mylib_operation_of_conversion(o, type, input_types[0]);
        return MYLIB_OK;
    }
    if (is_conversion(op, type)) {
        /* A bool's bytes may be other than 0 and 1. */
        const int is_bool = input_types[0] == MYLIB_BOOL;
        mylib_operation_of_conversion(o, type, is_bool ? MYLIB_U8 : input_types[0]);
        return MYLIB_OK;
    }
    const mylib_op base = mylib_op_base(op, type);
    int arity = mylib_op_arity(op), reversed = mylib_op_is_reversed(op);
    mylib_statement s = {(uint8_t)base,  (uint8_t)type,    (uint8_t)result_type,
                         (uint8_t)arity, MYLIB_TARGET_OUT, {{0, 0, 0}}};
    begin_operation(o, result_type, arity, input_types);
    for (int k = 0; k < arity; k++)
        s.operand[reversed ? 1 - k : k] = read_input(o, k, type);
    o->statement[o->program.statements++] = s;
    return MYLIB_OK;
}

int mylib_is_mixed_comparison(mylib_op op, const mylib_type *input_types)
{
    return mylib_op_compares(op) &&
           ((mylib_is_signed(input_types[0]) && input_types[1] == MYLIB_U64) ||
            (input_types[0] == MYLIB_U64 && mylib_is_signed(input_types[1])));
}

/*
 * Makes select(x < 0, answer, op).  x is the signed input; op is computed in u64.  The answer is
 * that for -1 and 0, since every negative number compares with every u64 as they do.
 */
void mylib_operation_of_mixed_comparison(mylib_operation *o, mylib_op op,
                                         const mylib_type input_types[2])
{
    static const mylib_program_constant zero_and_true[2] = {{{0}}, {{1}}};
    enum { COMPARED, IS_NEGATIVE };
    const mylib_op base = mylib_op_base(op, MYLIB_U64);
    int k = mylib_is_signed(input_types[0]) ? 0 : 1, reversed = mylib_op_is_reversed(op);
    const uint8_t type = (uint8_t)input_types[k];
    const int64_t pair[2] = {k == 0 ? -1 : 0, k == 0 ? 0 : -1};
    char answer = 0;
    mylib_cpu()->kernel(base, MYLIB_I64)(1, &answer, 0, (const char *)&pair[reversed], 0,
                                         (const char *)&pair[1 - reversed], 0);
    const mylib_value x = {MYLIB_VALUE_INPUT, type, (uint16_t)k};
    const mylib_value zero = {MYLIB_VALUE_CONSTANT, type, 0};
    const mylib_value is_negative = {MYLIB_VALUE_REGISTER, MYLIB_BOOL, IS_NEGATIVE};
    const mylib_value known = {MYLIB_VALUE_CONSTANT, MYLIB_BOOL, (uint16_t)answer};
    const mylib_value compared = {MYLIB_VALUE_REGISTER, MYLIB_BOOL, COMPARED};
    mylib_program *p = &o->program;

    begin_operation(o, MYLIB_BOOL, 2, input_types);
    p->constant = zero_and_true;
    p->constants = p->registers = 2;
    mylib_statement s = {(uint8_t)base, MYLIB_U64, MYLIB_BOOL, 2, COMPARED, {{0, 0, 0}}};
    for (int i = 0; i < 2; i++)
        s.operand[reversed ? 1 - i : i] = read_input(o, i, MYLIB_U64);
    o->statement[p->statements++] = s;
    o->statement[p->statements++] =
        (mylib_statement){MYLIB_OP_less, type, MYLIB_BOOL, 2, IS_NEGATIVE, {x, zero}};
    o->statement[p->statements++] = (mylib_statement){
        MYLIB_OPCODE_SELECT,           MYLIB_BOOL, MYLIB_BOOL, 3, MYLIB_TARGET_OUT,
        {is_negative, known, compared}};
}

void mylib_operation_of_conversion(mylib_operation *o, mylib_type to, mylib_type from)
{
    begin_operation(o, to, 1, &from);
    o->program.statements = 1;
    o->statement[0] = mylib_conversion(to, from);
}

void mylib_operation_of_select(mylib_operation *o, mylib_type type, const mylib_type input_types[3])
{
    mylib_statement s = {MYLIB_OPCODE_SELECT, (uint8_t)type, (uint8_t)type, 3,
                         MYLIB_TARGET_OUT,    {{0, 0, 0}}};
    begin_operation(o, type, 3, input_types);
    for (int k = 0; k < 3; k++)
        s.operand[k] = read_input(o, k, k == 0 ? MYLIB_BOOL : type);
    o->statement[o->program.statements++] = s;
}

mylib_status mylib_operation_of_product(mylib_operation *o, mylib_type type, mylib_type carrier,
                                        const mylib_type input_types[2])
{
    mylib_statement s = {MYLIB_OP_multiply, (uint8_t)carrier, (uint8_t)carrier, 2,
                         MYLIB_TARGET_OUT,  {{0, 0, 0}}};
    RETURN_IF_ERROR(mylib_op_result_type(MYLIB_OP_multiply, carrier, NULL));
    begin_operation(o, carrier, 2, input_types);
    for (int k = 0; k < 2; k++)
        s.operand[k] = convert_value(o, read_input(o, k, type), carrier);
    o->statement[o->program.statements++] = s;
    return MYLIB_OK;
}
