/* A plugin that uses the library, for test_plugin.c. */
#include <mylib.h>

#define EXPORT __attribute__((visibility("default")))

int compute(void);
int fail(void);

EXPORT int compute(void)
{
    static double a[1 << 20], b[1 << 20];
    (void)mylib_set_num_threads(2); /* with more than processors, workers do not spin */
    return mylib_map1(MYLIB_OP_add, MYLIB_F64, 1 << 20, a, 8, a, 8, b, 8) == MYLIB_OK;
}

EXPORT int fail(void)
{
    uint64_t unused;
    return mylib_fib(1000, &unused) == MYLIB_ERR_OVERFLOW && mylib_last_message() != NULL;
}
