/*
 * test_mylib: shows that the library works, with nothing but its header:
 *
 *     cc test_mylib.c -lmylib -o test_mylib && ./test_mylib
 *
 * Prints what it checks for each device present, and ends with "Test passed." or names what failed.
 */
#include <mylib.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static const mylib_device cpu = {MYLIB_CPU, 0};

/* Prints one line about a result; 'right' says whether it is correct. */
static void show(int right, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("  ");
    vprintf(format, args);
    puts(right ? "" : "   <-- wrong");
    va_end(args);
    failures += !right;
}

/* Returns false, and prints why, if a call did not return the expected status. */
static int expect(const char *what, mylib_status got, mylib_status expected)
{
    if (got == expected)
        return 1;
    printf("  %s: %s instead of %s%s%s   <-- wrong\n", what, mylib_status_name(got),
           mylib_status_name(expected), got == MYLIB_OK ? "" : ": ",
           got == MYLIB_OK ? "" : mylib_last_message());
    failures++;
    return 0;
}

static int ok(const char *what, mylib_status got) { return expect(what, got, MYLIB_OK); }

/* ---- Scalars ---- */

static void check_integer(mylib_device device, mylib_op op, int64_t a, int64_t b, int64_t right)
{
    int64_t result;
    if (ok(mylib_op_name(op), mylib_scalar_i64(op, device, a, b, &result)))
        show(result == right, "%s(%lld, %lld) = %lld", mylib_op_name(op), (long long)a,
             (long long)b, (long long)result);
}

static void check_number(mylib_device device, mylib_op op, double a, double b, double right)
{
    double result;
    if (!ok(mylib_op_name(op), mylib_scalar_f64(op, device, a, b, &result)))
        return;
    if (mylib_op_arity(op) == 1)
        show(result == right, "%s(%g) = %g", mylib_op_name(op), a, result);
    else
        show(result == right, "%s(%g, %g) = %g", mylib_op_name(op), a, b, result);
}

static void check_scalars(mylib_device device)
{
    check_integer(device, MYLIB_OP_add, 3, 3, 6);
    check_integer(device, MYLIB_OP_subtract, 3, 10, -7);
    check_integer(device, MYLIB_OP_multiply, 111, 9, 999);
    check_integer(device, MYLIB_OP_divide, -7, 2, -3);
    check_integer(device, MYLIB_OP_floor_divide, -7, 2, -4);
    check_integer(device, MYLIB_OP_remainder, -7, 2, 1);
    check_number(device, MYLIB_OP_add, 0.5, 0.25, 0.75);
    check_number(device, MYLIB_OP_divide, 1, 8, 0.125);
    check_number(device, MYLIB_OP_floor_divide, -5.5, 2, -3);
    check_number(device, MYLIB_OP_remainder, -5.5, 2, 0.5);
    check_number(device, MYLIB_OP_sqrt, 2.25, 0, 1.5);

    const double a[2] = {1, 2}, b[2] = {3, -1};
    double z[2];
    if (ok("(1+2i) * (3-1i)", mylib_scalar_c128(MYLIB_OP_multiply, device, a, b, z)))
        show(z[0] == 5 && z[1] == 5, "(1+2i) * (3-1i) = %g%+gi", z[0], z[1]);
}

/* ---- Arrays ---- */

#define LENGTH 1000

/* The operands are converted from f64 to each type, and the results back. */
static void check_vectors(mylib_device device)
{
    static double numbers[LENGTH], a[LENGTH], b[LENGTH], out[LENGTH];
    static const int64_t shape[1] = {LENGTH};
    double number = 2;
    const mylib_array given = {numbers, cpu, MYLIB_F64, 1, shape, NULL};
    const mylib_array two = {&number, cpu, MYLIB_F64, 0, NULL, NULL};
    for (mylib_type type = MYLIB_I8; type <= MYLIB_F64; type++) {
        mylib_array result = {out, cpu, type, 1, shape, NULL};
        mylib_array in[2] = {{a, cpu, type, 1, shape, NULL}, {b, cpu, type, 1, shape, NULL}};
        int right = 0;
        for (int i = 0; i < LENGTH; i++)
            numbers[i] = i % 100 + 1;
        if (!ok("to the type", mylib_copy_array(NULL, &in[0], &given)) ||
            !ok("fill", mylib_copy_array(NULL, &in[1], &two)) ||
            !ok("vector + vector", mylib_map(MYLIB_OP_add, device, NULL, &result, in)) ||
            !ok("to f64", mylib_copy_array(NULL, &given, &result)))
            continue;
        for (int i = 0; i < LENGTH; i++)
            right += numbers[i] == i % 100 + 3;
        show(right == LENGTH, "%-3s vectors of %d: %d sums right", mylib_type_name(type), LENGTH,
             right);
    }

    /* c64: the modulus of 3 + 4i is a real number. */
    float z[2] = {3, 4}, modulus = 0;
    mylib_array real = {&modulus, cpu, MYLIB_F32, 0, NULL, NULL};
    mylib_array complex = {z, cpu, MYLIB_C64, 0, NULL, NULL};
    if (ok("c64", mylib_map(MYLIB_OP_absolute, device, NULL, &real, &complex)))
        show(modulus == 5, "c64 |3+4i| = 5");
}

static void check_trace(mylib_device device)
{
    const double matrix[2][3] = {{0.5, 9, 9}, {9, 1.5, 9}};
    const int64_t shape[2] = {2, 3};
    mylib_array array = {(void *)matrix, cpu, MYLIB_F64, 2, shape, NULL};
    double sum = 0;
    if (ok("trace", mylib_trace(device, NULL, &array, &sum)))
        show(sum == 2, "trace of a 2 x 3 matrix = %g", sum);
}

/* Memory of the device itself: there and back, and computed with in place. */
static void check_memory(mylib_device device)
{
    static float host[LENGTH];
    const int64_t shape[1] = {LENGTH};
    void *data = NULL;
    int right = 0;
    for (int i = 0; i < LENGTH; i++)
        host[i] = (float)i;
    if (!ok("mylib_alloc", mylib_alloc(device, sizeof host, NULL, &data)))
        return;
    mylib_array array = {data, device, MYLIB_F32, 1, shape, NULL};
    mylib_array in[2] = {array, array};
    if (ok("copy to the device", mylib_copy(device, data, cpu, host, sizeof host, NULL)) &&
        ok("in place", mylib_map(MYLIB_OP_add, device, NULL, &array, in)) &&
        ok("copy back", mylib_copy(cpu, host, device, data, sizeof host, NULL))) {
        for (int i = 0; i < LENGTH; i++)
            right += host[i] == 2 * (float)i;
        show(right == LENGTH, "x + x in the device's own memory");
    }
    ok("mylib_synchronize", mylib_synchronize(device, NULL));
    ok("mylib_free", mylib_free(device, data, NULL));
}

/* ---- Errors ---- */

static void check_errors(mylib_device device)
{
    int64_t i64 = 0;
    double f64 = 0, data[6] = {0};
    const int64_t shape[2] = {2, 3}, other[1] = {2};
    mylib_array out = {data, cpu, MYLIB_F64, 2, shape, NULL};
    mylib_array in[2] = {out, {data, cpu, MYLIB_F64, 1, other, NULL}};
    int before = failures;
    expect("1 / 0", mylib_scalar_i64(MYLIB_OP_divide, device, 1, 0, &i64), MYLIB_ERR_ZERO_DIVIDE);
    expect("MIN / -1", mylib_scalar_i64(MYLIB_OP_divide, device, INT64_MIN, -1, &i64),
           MYLIB_ERR_OVERFLOW);
    expect("MAX + 1", mylib_scalar_i64(MYLIB_OP_add, device, INT64_MAX, 1, &i64),
           MYLIB_ERR_OVERFLOW);
    expect("sqrt(-1)", mylib_scalar_f64(MYLIB_OP_sqrt, device, -1, 0, &f64), MYLIB_ERR_DOMAIN);
    expect("sqrt of an i64", mylib_scalar_i64(MYLIB_OP_sqrt, device, 4, 0, &i64),
           MYLIB_ERR_UNSUPPORTED);
    if (expect("(2, 3) + (2,)", mylib_map(MYLIB_OP_add, device, NULL, &out, in),
               MYLIB_ERR_ARGUMENT) &&
        strstr(mylib_last_message(), "(2, 3)") == NULL)
        show(0, "the message does not name the shape");
    show(failures == before, "errors are told: division by zero, overflow, domain, type, shapes");
}

static void check_fib(void)
{
    uint64_t result = 0;
    if (ok("fib(10)", mylib_fib(10, &result)))
        show(result == 55, "fib(10) = 55");
    if (ok("fib(93)", mylib_fib(93, &result)))
        show(result == UINT64_C(12200160415121876738), "fib(93) = %llu",
             (unsigned long long)result);
    if (expect("fib(94)", mylib_fib(94, &result), MYLIB_ERR_OVERFLOW))
        show(1, "fib(94) does not fit, and says so");
}

/* ---- main ---- */

static void check_device(mylib_device device)
{
    check_scalars(device);
    check_vectors(device);
    check_trace(device);
    check_memory(device);
    check_errors(device);
}

static void check_cpu(void)
{
    mylib_config config;
    if (!ok("mylib_get_config", mylib_get_config(&config)))
        return;
    printf("cpu (%s, %d thread%s)\n", config.cpu_level, config.threads,
           config.threads == 1 ? "" : "s");
    check_device(cpu);
    check_fib();
}

/* Tests every GPU; without one, fails only if GPUs were asked for. */
static void check_cuda(int asked_for)
{
    int count = 0;
    mylib_status status = mylib_cuda_device_count(&count);
    if (status != MYLIB_OK) {
        printf("cuda: none (%s)\n", mylib_last_message());
        failures += asked_for || status != MYLIB_ERR_NO_DEVICE;
    }
    for (int i = 0; i < count; i++) {
        mylib_device device = {MYLIB_CUDA, i};
        mylib_device_info info;
        if (!ok("mylib_cuda_device_info", mylib_cuda_device_info(i, &info)))
            continue;
        printf("cuda:%d (%s)\n", i, info.name);
        check_device(device);
    }
}

int main(int argc, char **argv)
{
    const char *word = argv[argc - 1], *device = "";
    if (argc == 3 && strcmp(argv[1], "--device") == 0)
        device = word;
    else if (argc == 2 && strncmp(word, "--device=", 9) == 0)
        device = word + 9;
    const int on_cpu = argc == 1 || strcmp(device, "cpu") == 0;
    const int on_cuda = argc == 1 || strcmp(device, "cuda") == 0;
    if (!on_cpu && !on_cuda) {
        const int is_help = argc == 2 && strcmp(word, "--help") == 0;
        if (!is_help)
            fprintf(stderr, "test_mylib: wrong option \"%s\"\n", word);
        fputs("Usage: test_mylib [--device cpu|cuda]\n"
              "Checks every device, or those of one kind; \"--device cuda\" fails without a GPU.\n"
              "Exit status: 0 passed, 1 failed, 2 wrong usage.\n",
              is_help ? stdout : stderr);
        return is_help ? 0 : 2;
    }

    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", MYLIB_VERSION_MAJOR, MYLIB_VERSION_MINOR,
             MYLIB_VERSION_PATCH);
    printf("mylib %s\n", mylib_version());
    if (strcmp(version, mylib_version()) != 0) {
        printf("  the header is of version %s   <-- wrong\n", version);
        failures++;
    }
    if (on_cpu)
        check_cpu();
    if (on_cuda)
        check_cuda(!on_cpu);
    if (failures > 0) {
        printf("Test failed: %d failure%s, marked above.\n", failures, failures == 1 ? "" : "s");
        return 1;
    }
    printf("Test passed.\n");
    return 0;
}
