/* A plugin that uses the library, for test_plugin.c. */
#include <mylib.h>

int compute(void);
__attribute__((visibility("default"))) int compute(void)
{
    static double a[1 << 20], b[1 << 20];
    (void)mylib_set_num_threads(4);
    return mylib_map1(MYLIB_OP_add, MYLIB_F64, 1 << 20, a, 8, a, 8, b, 8);
}
