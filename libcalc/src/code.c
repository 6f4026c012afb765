/*
 * code.c - makes codes, the instructions of the kernels for single operations.  The GPU trusts
 * them.
 */
#include "internal.h"

mylib_status mylib_code_of_op(mylib_code *program, mylib_op op, mylib_type type)
{
    mylib_type result_type;
    mylib_status st = mylib_op_result_type(op, type, &result_type);
    if (st != MYLIB_OK)
        return st;
    program->type = (uint8_t)type;
    program->result_type = (uint8_t)result_type;
    program->inputs = (uint8_t)mylib_op_arity(op);
    for (int k = 0; k < program->inputs; k++)
        program->input_type[k] = (uint8_t)type;
    program->instructions = 2;
    const mylib_op base = mylib_op_base(op, type);
    const int first = mylib_op_is_reversed(op);
    program->code[0] = (mylib_instruction){MYLIB_OPCODE_LOAD, (uint8_t)first};
    program->code[1] = (mylib_instruction){
        (uint8_t)base, program->inputs == 2 ? (uint8_t)(1 - first) : MYLIB_NO_OPERAND};
    return MYLIB_OK;
}

void mylib_code_of_conversion(mylib_code *program, mylib_type to, mylib_type from)
{
    program->type = program->result_type = (uint8_t)to;
    program->inputs = program->instructions = 1;
    program->input_type[0] = (uint8_t)from;
    program->code[0] = (mylib_instruction){MYLIB_OPCODE_LOAD, 0};
}

int mylib_input_of_operand(const mylib_program *p, int k)
{
    const mylib_value v = p->statement[p->statements - 1].operand[k];
    if (v.kind == MYLIB_VALUE_INPUT)
        return v.index;
    for (int i = p->statements - 2; i >= 0 && v.kind == MYLIB_VALUE_REGISTER; i--) {
        const mylib_statement *s = &p->statement[i];
        if (s->target != v.index)
            continue;
        int is_conversion =
            s->opcode == MYLIB_OPCODE_CONVERT && s->operand[0].kind == MYLIB_VALUE_INPUT;
        return is_conversion ? s->operand[0].index : -1;
    }
    return -1;
}

int mylib_code_of_program(mylib_code *code, const mylib_program *p)
{
    const mylib_statement *last = &p->statement[p->statements - 1];
    int input[3], conversions = 0;
    if (p->inputs != last->operands || p->statements > 1 + p->inputs)
        return 0;
    for (int k = 0; k < last->operands; k++) {
        input[k] = mylib_input_of_operand(p, k);
        conversions += last->operand[k].kind == MYLIB_VALUE_REGISTER;
        if (input[k] < 0)
            return 0;
        for (int j = 0; j < k; j++)
            if (input[j] == input[k])
                return 0;
    }
    /* A conversion of what is a register itself would be one more step. */
    if (conversions != p->statements - 1 ||
        (last->opcode == MYLIB_OPCODE_CONVERT && conversions > 0))
        return 0;
    code->type = last->type;
    code->result_type = p->result_type;
    code->inputs = (uint8_t)p->inputs;
    code->instructions = 0;
    for (int k = 0; k < p->inputs; k++)
        code->input_type[k] = p->input_type[k];
    for (int k = 0; k < last->operands; k++) {
        int is_load = k == (last->opcode == MYLIB_OPCODE_SELECT);
        uint8_t opcode = is_load ? MYLIB_OPCODE_LOAD : k == 0 ? MYLIB_OPCODE_MASK : last->opcode;
        code->code[code->instructions++] = (mylib_instruction){opcode, (uint8_t)input[k]};
    }
    if (last->operands == 1 && last->opcode != MYLIB_OPCODE_CONVERT)
        code->code[code->instructions++] = (mylib_instruction){last->opcode, MYLIB_NO_OPERAND};
    return 1;
}

size_t mylib_operand_size(const mylib_code *program, int k)
{
    return mylib_type_size(
        (mylib_type)(k == 0 ? program->result_type : program->input_type[k - 1]));
}
