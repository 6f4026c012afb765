/*
 * dispatch.c - picks the level of the CPU kernels that this processor runs.
 *
 * A new level is listed in find_levels(), best first, and in CMakeLists.txt.
 */
#include <stdatomic.h>
#include <string.h>

#include "internal.h"

extern const mylib_cpu_level mylib_cpu_level_generic;
#if defined(MYLIB_X86_LEVELS)
extern const mylib_cpu_level mylib_cpu_level_v2;
extern const mylib_cpu_level mylib_cpu_level_v3;
extern const mylib_cpu_level mylib_cpu_level_v4;
#endif

/* Returns how many levels this processor runs; lists them, best first. */
static int find_levels(mylib_cpu_level levels[4])
{
    int n = 0;
#if defined(MYLIB_X86_LEVELS)
    __builtin_cpu_init();
    int v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
    /* Compilers cannot test for f16c and movbe; processors with AVX2, BMI2 and FMA have both. */
    int v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
             __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
    int v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl");
    if (v4)
        levels[n++] = mylib_cpu_level_v4;
    if (v3)
        levels[n++] = mylib_cpu_level_v3;
    if (v2)
        levels[n++] = mylib_cpu_level_v2;
#endif
    levels[n++] = mylib_cpu_level_generic;
    return n;
}

static mylib_cpu_level levels[4];
static int level_count;
static _Atomic(const mylib_cpu_level *) current;

/*
 * Runs before any other function of the library, so that no call needs a lock; the number puts it
 * before the constructors of a program that links the static library.
 */
__attribute__((constructor(101))) static void choose_level(void)
{
    level_count = find_levels(levels);
    atomic_store(&current, &levels[0]);
}

const mylib_cpu_level *mylib_cpu(void)
{
    return atomic_load_explicit(&current, memory_order_relaxed);
}

mylib_status mylib_set_cpu_level(const char *name)
{
    char known[80] = "";
    for (int i = 0; i < level_count; i++) {
        if (name == NULL || strcmp(name, levels[i].name) == 0) {
            atomic_store(&current, &levels[i]);
            return MYLIB_OK;
        }
        strcat(known, i == 0 ? "" : ", ");
        strcat(known, levels[i].name);
    }
    return mylib_fail(MYLIB_ERR_UNSUPPORTED, "CPU level \"%s\" is not available here: there are %s",
                      name, known);
}
