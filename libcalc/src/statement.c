/*
 * statement.c - recognizes programs that amount to one statement, and inputs of the last statement.
 */
#include "internal.h"

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

int mylib_single_statement(mylib_statement *s, const mylib_program *p)
{
    const mylib_statement *last = &p->statement[p->statements - 1];
    int conversions = 0;
    if (p->inputs != last->operands || p->statements > 1 + p->inputs)
        return 0;
    *s = *last;
    for (int k = 0; k < last->operands; k++) {
        const int input = mylib_input_of_operand(p, k);
        conversions += last->operand[k].kind == MYLIB_VALUE_REGISTER;
        if (input < 0)
            return 0;
        for (int j = 0; j < k; j++)
            if (s->operand[j].index == input)
                return 0;
        if (s->opcode == MYLIB_OPCODE_SELECT && k == 0 && p->input_type[input] != MYLIB_BOOL)
            return 0;
        s->operand[k] = (mylib_value){MYLIB_VALUE_INPUT, p->input_type[input], (uint16_t)input};
    }
    /* A final conversion that reads a register is a second conversion. */
    return conversions == p->statements - 1 &&
           (last->opcode != MYLIB_OPCODE_CONVERT || conversions == 0);
}
