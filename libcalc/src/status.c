/*
 * status.c - status names, and each thread's message.
 */
#include <stdarg.h>
#include <stdio.h>

#include "internal.h"

static _Thread_local char message[MYLIB_MESSAGE_SIZE];

const char *mylib_status_name(mylib_status status)
{
    switch (status) {
#define CASE(name) \
    case name: \
        return #name;
        CASE(MYLIB_OK)
        CASE(MYLIB_ERR_ARGUMENT)
        CASE(MYLIB_ERR_UNSUPPORTED)
        CASE(MYLIB_ERR_NO_MEMORY)
        CASE(MYLIB_ERR_NO_DEVICE)
        CASE(MYLIB_ERR_CUDA)
        CASE(MYLIB_ERR_OVERFLOW)
        CASE(MYLIB_ERR_ZERO_DIVIDE)
        CASE(MYLIB_ERR_DOMAIN)
        CASE(MYLIB_ERR_FORKED)
#undef CASE
    }
    return "unknown mylib_status";
}

const char *mylib_last_message(void) { return message; }

static _Thread_local int cleanups;

void mylib_begin_cleanup(void) { cleanups++; }

void mylib_end_cleanup(void) { cleanups--; }

mylib_status mylib_fail(mylib_status status, const char *format, ...)
{
    va_list args;
    if (cleanups > 0)
        return status;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return status;
}
