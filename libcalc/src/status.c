/*
 * status.c - status names, and each thread's message.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "internal.h"

/*
 * The data of a thread.  Not _Thread_local: glibc would allocate that when a thread first uses it,
 * and end the process without memory.
 */
typedef struct own {
    int cleanups;
    char message[MYLIB_MESSAGE_SIZE];
} own;

static pthread_key_t key;
static int has_key;

/* As early as choose_level() (cpu/dispatch.c), for the same reason. */
__attribute__((constructor(101))) static void make_key(void)
{
    has_key = pthread_key_create(&key, free) == 0;
}

static own *find_own(void) { return has_key ? pthread_getspecific(key) : NULL; }

static own *make_own(void)
{
    own *o = find_own();
    if (o == NULL && has_key && (o = calloc(1, sizeof *o)) != NULL &&
        pthread_setspecific(key, o) != 0) {
        free(o);
        o = NULL;
    }
    return o;
}

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

const char *mylib_last_message(void)
{
    const own *o = find_own();
    return o != NULL ? o->message : "";
}

void mylib_begin_cleanup(void)
{
    own *o = make_own();
    if (o != NULL)
        o->cleanups++;
}

void mylib_end_cleanup(void)
{
    own *o = find_own();
    if (o != NULL && o->cleanups > 0)
        o->cleanups--;
}

mylib_status mylib_fail(mylib_status status, const char *format, ...)
{
    va_list args;
    own *o = make_own();
    if (o == NULL || o->cleanups > 0)
        return status;
    va_start(args, format);
    vsnprintf(o->message, sizeof o->message, format, args);
    va_end(args);
    return status;
}
