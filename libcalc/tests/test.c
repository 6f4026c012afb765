#include "test.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_FAILURES 20

test_state test_global;

static _Thread_local char current_case[320];

void test_set_case(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(current_case, sizeof current_case, format, arguments);
    va_end(arguments);
}

int test_quick, test_is_long, test_gpu_count;

static void print_how_to_repeat(void)
{
    fprintf(stderr, "%s: the same again: MYLIB_TEST_SEED=%llu%s test_%s%s\n", test_global.name,
            (unsigned long long)test_global.seed, test_is_long ? " MYLIB_TEST_LONG=1" : "",
            test_global.name, test_quick ? " --quick" : "");
}

void test_fail(const char *file, int line, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fflush(stdout);
    fprintf(stderr, "%s:%d: [%s] %s\n", file, line, current_case, text);
    if (atomic_fetch_add(&test_global.failures, 1) + 1 >= MAX_FAILURES) {
        fprintf(stderr, "%s: stopped after %d failures\n", test_global.name, MAX_FAILURES);
        print_how_to_repeat();
        _exit(1);
    }
}

int test_check_status(mylib_status got, mylib_status expected, const char *call, const char *file,
                      int line)
{
    const char *message = mylib_last_message();
    size_t length = strlen(message);
    atomic_fetch_add_explicit(&test_global.checks, 1, memory_order_relaxed);
    if (got != expected) {
        test_fail(file, line, "%s\n    gave %s, not %s%s%s", call, mylib_status_name(got),
                  mylib_status_name(expected), got == MYLIB_OK ? "" : ": ",
                  got == MYLIB_OK ? "" : message);
        return 0;
    }
    if (expected != MYLIB_OK && (length == 0 || message[length - 1] == '\n'))
        test_fail(file, line, "%s\n    gave %s with the message \"%s\"", call,
                  mylib_status_name(got), message);
    return 1;
}

void test_give_up(const char *what)
{
    fprintf(stderr, "%s: [%s] cannot go on: %s\n", test_global.name, current_case, what);
    _exit(1);
}

void *test_malloc(size_t nbytes)
{
    void *memory = malloc(nbytes > 0 ? nbytes : 1);
    if (memory == NULL)
        test_give_up("out of memory");
    return memory;
}

void test_forget_message(char old[TEST_MESSAGE_SIZE])
{
    uint64_t unused;
    CHECK_STATUS(mylib_fib(1000, &unused), MYLIB_ERR_OVERFLOW);
    snprintf(old, TEST_MESSAGE_SIZE, "%s", mylib_last_message());
}

mylib_program *test_program(int steps, const mylib_step *step)
{
    static const mylib_type types[2] = {MYLIB_F64, MYLIB_F64};
    mylib_program *program = NULL;
    if (!CHECK_OK(mylib_program_create(2, types, 0, NULL, steps, step, &program)))
        test_give_up("no program");
    return program;
}

mylib_program *test_long_program(int steps)
{
    mylib_step step[200];
    for (int i = 0; i < steps; i++)
        step[i] = (mylib_step){
            i % 2 ? MYLIB_OP_add : MYLIB_OP_maximum, MYLIB_F64, {i == 0 ? 0 : 1 + i, i % 2, 0}};
    return test_program(steps, step);
}

void test_in_threads(int count, void *(*run)(void *number))
{
    pthread_t threads[8];
    if (count > COUNT_OF(threads))
        test_give_up("too many threads");
    for (intptr_t i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, run, (void *)i) != 0)
            test_give_up("pthread_create failed");
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

void test_in_child(int (*run)(void))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(run());
    CHECK(child > 0, "fork failed");
    test_wait_for(child);
}

int test_wait_for(pid_t child)
{
    int status = 0;
    pid_t ended = 0;
    for (int i = 0; i < 6000 && ended == 0; i++) {
        struct timespec pause = {0, 10000000};
        ended = waitpid(child, &status, WNOHANG);
        if (ended == 0)
            nanosleep(&pause, NULL);
    }
    if (ended == 0) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    CHECK(ended == child, "the child hung");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with the status %#x",
          status);
    return ended == child && status == 0;
}

/* Only what a signal handler may call; the signal then takes its usual course. */
static void on_crash(int number)
{
    static const char start[] = "crash in the case: ";
    ssize_t written = write(STDERR_FILENO, start, sizeof start - 1);
    written += write(STDERR_FILENO, current_case, strlen(current_case));
    written += write(STDERR_FILENO, "\n", 1);
    (void)written;
    signal(number, SIG_DFL);
    raise(number);
}

void test_begin(const char *name)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    const char *text = getenv("MYLIB_TEST_SEED");
    test_global.name = name;
    if (text != NULL && *text != '\0')
        test_global.seed = strtoull(text, NULL, 0);
    else
        test_global.seed = (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
    const char *length = getenv("MYLIB_TEST_LONG");
    test_is_long = !test_quick && length != NULL && strcmp(length, "1") == 0;
    test_set_case("start");
    printf("%s: MYLIB_TEST_SEED=%llu\n", name, (unsigned long long)test_global.seed);
    fflush(stdout);
    for (size_t i = 0; i < COUNT_OF(signals); i++)
        signal(signals[i], on_crash);
}

#define SKIPPED 77

void test_begin_gpu(const char *name, int argc, char **argv, void (*first)(void))
{
    const char *required = getenv("MYLIB_REQUIRE_GPU");
    if (argc > 2 || (argc == 2 && strcmp(argv[1], "--quick") != 0)) {
        fprintf(stderr, "Usage: test_%s [--quick]\n", name);
        exit(2);
    }
    test_quick = argc == 2;
    test_begin(name);
    if (first != NULL)
        first();
    if (mylib_cuda_device_count(&test_gpu_count) == MYLIB_OK)
        return;
    int fails = required != NULL && strcmp(required, "1") == 0;
    printf("%s: %s: %s\n", name, fails ? "MYLIB_REQUIRE_GPU=1, but there is none" : "skipped",
           mylib_last_message());
    exit(fails || atomic_load(&test_global.failures) > 0 ? 1 : SKIPPED);
}

void test_gpu_works(void)
{
    const mylib_device gpu = {MYLIB_CUDA, 0};
    int32_t host[4] = {1, 2, 3, 4}, got[4] = {0, 0, 0, 0};
    int64_t n = 4;
    void *data = NULL;
    CHECK_OK(mylib_alloc(gpu, sizeof host, NULL, &data));
    mylib_array array = {data, gpu, MYLIB_I32, 1, &n, NULL}, in[2] = {array, array};
    CHECK_OK(mylib_copy(gpu, data, test_cpu, host, sizeof host, NULL));
    CHECK_OK(mylib_map(MYLIB_OP_multiply, gpu, NULL, &array, in));
    CHECK_OK(mylib_copy(test_cpu, got, gpu, data, sizeof got, NULL));
    CHECK(got[3] == 16, "4 * 4 gives %d", got[3]);
    CHECK_OK(mylib_free(gpu, data, NULL));
    CHECK_OK(mylib_synchronize(gpu, NULL));
}

/* The value of MYLIB_TEST_SHORT: 0 if unset. */
static int shortness(void)
{
    const char *text = getenv("MYLIB_TEST_SHORT");
    return text == NULL ? 0 : atoi(text);
}

int test_rounds(int n)
{
    static const int parts[] = {1, 5, 15};
    int of = shortness() >= 0 && shortness() <= 2 ? parts[shortness()] : 1;
    return (n + of - 1) / of;
}

int test_is_shortest(void) { return shortness() == 2; }

int test_takes_case(size_t k, size_t of)
{
    return !test_is_shortest() || (k + test_global.seed) % of == 0;
}

int test_is_emulated(void) { return dlsym(dlopen(NULL, RTLD_NOW), "cuda_standin_count") != NULL; }

void *test_driver(void) { return dlopen(test_is_emulated() ? NULL : "libcuda.so.1", RTLD_NOW); }

int test_end(void)
{
    long checks = atomic_load(&test_global.checks);
    int failures = atomic_load(&test_global.failures);
    if (checks == 0)
        fprintf(stderr, "%s: nothing was checked\n", test_global.name);
    printf("%s: %ld checks, %d failures\n", test_global.name, checks, failures);
    if (failures > 0)
        print_how_to_repeat();
    return failures > 0 || checks == 0;
}

rng rng_make(uint64_t stream)
{
    rng r = {test_global.seed + stream * 0xd1342543de82ef95u};
    r.state = rng_next(&r);
    return r;
}
