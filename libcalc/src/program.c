/*
 * program.c - builds programs.  Both backends trust what comes from here.
 */
#include "internal.h"

mylib_status mylib_program_of_op(mylib_program *program, mylib_op op, mylib_type type)
{
    mylib_type result_type;
    mylib_status st = mylib_op_result_type(op, type, &result_type);
    if (st != MYLIB_OK)
        return st;
    program->type = (uint8_t)type;
    program->result_type = (uint8_t)result_type;
    program->inputs = (uint8_t)mylib_op_arity(op);
    program->instructions = 2;
    program->code[0] = (mylib_instruction){MYLIB_OPCODE_LOAD, 0};
    program->code[1] =
        (mylib_instruction){(uint8_t)op, program->inputs == 2 ? 1 : MYLIB_NO_OPERAND};
    return MYLIB_OK;
}

size_t mylib_operand_size(const mylib_program *program, int k)
{
    return mylib_type_size(k == 0 ? (mylib_type)program->result_type : (mylib_type)program->type);
}
