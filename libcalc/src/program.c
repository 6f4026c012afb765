/*
 * program.c - programs: validated, compiled to statements, and the entry points that run them.
 */
#include <stdlib.h>

#include "internal.h"

mylib_status mylib_program_create(int inputs, const mylib_type *input_types, int constants,
                                  const mylib_constant *constant, int steps, const mylib_step *step,
                                  mylib_program **program_ret)
{
    (void)inputs, (void)input_types, (void)constants, (void)constant, (void)steps, (void)step;
    (void)program_ret;
    return mylib_fail(MYLIB_ERR_UNSUPPORTED, "not written yet");
}

void mylib_program_free(mylib_program *program) { free(program); }

mylib_status mylib_program_result_type(const mylib_program *program, mylib_type *type_ret)
{
    *type_ret = (mylib_type)program->result_type;
    return MYLIB_OK;
}

mylib_status mylib_program_run(const mylib_program *program, mylib_device device, void *stream,
                               const mylib_array *out, const mylib_array *in)
{
    (void)program, (void)device, (void)stream, (void)out, (void)in;
    return mylib_fail(MYLIB_ERR_UNSUPPORTED, "not written yet");
}

mylib_status mylib_program_reduce(const mylib_program *program, mylib_reduction reduction,
                                  mylib_type type, mylib_device device, void *stream,
                                  const mylib_array *out, const mylib_array *in)
{
    (void)program, (void)reduction, (void)type, (void)device, (void)stream, (void)out, (void)in;
    return mylib_fail(MYLIB_ERR_UNSUPPORTED, "not written yet");
}
