/*
 * test_stack.c - a call needs at most 48 KB of stack: threads of other languages and of small C
 * libraries have little.
 *
 * Each call runs on a thread of its own, whose stack the test has filled with a pattern:
 * overwritten parts were used.  The pages below the stack cannot be touched.
 */
#include "test.h"

#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#define LIMIT_NBYTES (48 * 1024)
/* Kernels of an emulated GPU run on the stack of the thread that launches them. */
#define EMULATION_NBYTES (40 * 1024)
#define STACK_NBYTES (256 * 1024)
#define PATTERN 0x5a

/* ---- Threads ---- */

typedef struct job {
    mylib_status (*call)(void);
    mylib_status st;
} job;

static void *run_job(void *argument)
{
    job *j = argument;
    j->st = j->call();
    return NULL;
}

static unsigned char *stack;

/* Returns the bytes of stack that a thread used that did nothing else. */
static size_t used_by(job *j)
{
    pthread_attr_t attributes;
    pthread_t thread;
    size_t unused = 0;
    memset(stack, PATTERN, STACK_NBYTES);
    if (pthread_attr_init(&attributes) != 0 ||
        pthread_attr_setstack(&attributes, stack, STACK_NBYTES) != 0 ||
        pthread_create(&thread, &attributes, run_job, j) != 0 || pthread_join(thread, NULL) != 0)
        test_give_up("no thread");
    (void)pthread_attr_destroy(&attributes);
    while (unused < STACK_NBYTES && stack[unused] == PATTERN)
        unused++;
    return STACK_NBYTES - unused;
}

static mylib_status do_nothing(void) { return MYLIB_OK; }

static int limit_nbytes = LIMIT_NBYTES;
static size_t most_nbytes;
static char most_case[200];

/* The limit is what the library adds to a thread that does nothing. */
__attribute__((format(printf, 2, 3))) static void check(mylib_status (*call)(void),
                                                        const char *format, ...)
{
    job nothing = {do_nothing, MYLIB_OK}, j = {call, MYLIB_OK};
    static size_t idle_nbytes;
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    test_set_case("%s", text);
    if (idle_nbytes == 0)
        idle_nbytes = used_by(&nothing);
    size_t used_nbytes = used_by(&j),
           nbytes = used_nbytes < idle_nbytes ? 0 : used_nbytes - idle_nbytes;
    CHECK(j.st == MYLIB_OK, "status %d", (int)j.st);
    CHECK(nbytes <= (size_t)limit_nbytes, "%zu bytes of stack: expected at most %d", nbytes,
          limit_nbytes);
    if (nbytes > most_nbytes) {
        most_nbytes = nbytes;
        (void)snprintf(most_case, sizeof most_case, "%s", text);
    }
}

/* ---- Arrays ---- */

#define MAX_OPERANDS (1 + MYLIB_PROGRAM_MAX_INPUTS)
#define MEMORY_NBYTES ((size_t)16 << 20) /* of an operand */

typedef enum order { C_ORDER, F_ORDER, GAPS, REPEATED } order;
static const char *const order_names[] = {"C order", "Fortran order", "gaps", "repeated"};

typedef struct arrays {
    int64_t shape[MAX_OPERANDS][MYLIB_MAX_NDIM], strides[MAX_OPERANDS][MYLIB_MAX_NDIM];
    mylib_array array[MAX_OPERANDS];
} arrays;

static char *memory; /* zeros, MAX_OPERANDS times MEMORY_NBYTES */

/* Puts an array over the memory of operand k. */
static void put(arrays *a, int k, mylib_type type, int ndim, const int64_t *shape, order o)
{
    int64_t stride = test_size(type) * (o == GAPS ? 2 : 1);
    for (int i = 0; i < ndim; i++) {
        int d = o == F_ORDER ? i : ndim - 1 - i;
        a->shape[k][d] = shape[d];
        a->strides[k][d] = o == REPEATED && d == 0 ? 0 : stride;
        stride *= shape[d];
    }
    if ((size_t)stride > MEMORY_NBYTES)
        test_give_up("the test needs more memory");
    a->array[k] = (mylib_array){
        memory + (size_t)k * MEMORY_NBYTES, test_cpu, type, ndim, a->shape[k], a->strides[k]};
}

/* Shapes of all ways through memory: short, long enough for threads, tiles, and all dimensions. */
typedef struct shape {
    int ndim;
    int64_t size[MYLIB_MAX_NDIM];
} shape;

static shape shapes[] = {
    {1, {100}},      {1, {200003}},      {2, {300, 200}},       {2, {700, 3}},
    {2, {3, 20000}}, {3, {130, 2, 150}}, {MYLIB_MAX_NDIM, {0}},
};
#define SHAPE_COUNT COUNT_OF(shapes)

/* ---- Calls ---- */

typedef struct making {
    mylib_type type;
    int inputs, steps;
} making;

typedef struct call {
    mylib_op op;
    mylib_reduction reduction;
    mylib_type type;
    mylib_device device;
    const making *making; /* of the program */
    mylib_program *program;
    arrays a;
} call;

static call c; /* the stack of the main thread is not what is tested, but this is large */

static mylib_status call_map(void)
{
    return mylib_map_as(c.op, c.type, c.device, NULL, &c.a.array[0], &c.a.array[1]);
}

static mylib_status call_map1(void)
{
    const mylib_array *a = c.a.array;
    return mylib_map1(c.op, c.type, a[0].shape[0], a[0].data, a[0].strides[0], a[1].data,
                      a[1].strides[0], a[2].data, a[2].strides[0]);
}

static mylib_status call_select(void)
{
    const mylib_array *a = c.a.array;
    return mylib_select(c.device, NULL, &a[0], &a[1], &a[2], &a[3]);
}

static mylib_status call_copy(void) { return mylib_copy_array(NULL, &c.a.array[0], &c.a.array[1]); }

static mylib_status call_run(void)
{
    return mylib_program_run(c.program, c.device, NULL, &c.a.array[0], &c.a.array[1]);
}

static mylib_status call_reduce(void)
{
    return mylib_reduce(c.reduction, c.type, c.device, NULL, &c.a.array[0], &c.a.array[1]);
}

static mylib_status call_program_reduce(void)
{
    return mylib_program_reduce(c.program, c.reduction, c.type, c.device, NULL, &c.a.array[0],
                                &c.a.array[1]);
}

static mylib_status call_dot(void)
{
    return mylib_dot(c.type, c.device, NULL, &c.a.array[0], &c.a.array[1], &c.a.array[2]);
}

static mylib_status call_trace(void)
{
    double sum[2];
    return mylib_trace(c.device, NULL, &c.a.array[1], sum);
}

static mylib_status call_arange(void)
{
    static const double start[2] = {0}, step[2] = {0};
    return mylib_arange(NULL, &c.a.array[0], start, step);
}

/* Fails with a long message. */
static mylib_status call_wrong(void)
{
    return mylib_map(MYLIB_OP_add, test_cpu, NULL, &c.a.array[0], &c.a.array[1]) ==
                   MYLIB_ERR_ARGUMENT
               ? MYLIB_OK
               : MYLIB_ERR_CUDA;
}

/* ---- Programs ---- */

/*
 * Adds up its inputs, of types that take turns, `type` among them; then goes on with steps that
 * need many registers: all values so far are kept until the end.
 */
static mylib_status call_create(void)
{
    static mylib_step step[MYLIB_PROGRAM_MAX_STEPS];
    const making *m = c.making;
    mylib_type types[MYLIB_PROGRAM_MAX_INPUTS];
    int steps = 0, values = m->inputs;
    for (int k = 0; k < m->inputs; k++)
        types[k] = k % 2 == 0 ? m->type : MYLIB_F16;
    for (int k = 1; k < m->steps; k++, values++)
        step[steps++] = (mylib_step){
            MYLIB_OP_multiply, m->type, {(uint16_t)(k % m->inputs), (uint16_t)(values - 1), 0}};
    for (int i = 0, last = values - 1, made = steps; i < made; i++, last = values - 1) {
        step[steps++] =
            (mylib_step){MYLIB_OP_add, m->type, {(uint16_t)(m->inputs + i), (uint16_t)last, 0}};
        values++;
    }
    return mylib_program_create(m->inputs, types, 0, NULL, steps, step, &c.program);
}

static const making programs[] = {{MYLIB_F64, 2, 3},
                                  {MYLIB_F32, 5, 6},
                                  {MYLIB_C128, 8, 8},
                                  {MYLIB_C64, MYLIB_PROGRAM_MAX_INPUTS, 100},
                                  {MYLIB_F64, MYLIB_PROGRAM_MAX_INPUTS, 600}};

/* ---- Tests ---- */

static void test_maps(void)
{
    static const mylib_op ops[] = {MYLIB_OP_add, MYLIB_OP_divide, MYLIB_OP_equal, MYLIB_OP_absolute,
                                   MYLIB_OP_greater};
    static const mylib_type types[] = {MYLIB_I8, MYLIB_U64, MYLIB_F16, MYLIB_F64, MYLIB_C128};
    for (size_t i = 0; i < COUNT_OF(ops); i++) {
        for (size_t t = 0; t < COUNT_OF(types); t++) {
            for (int s = 0; s < SHAPE_COUNT; s++) {
                for (int o = C_ORDER; o <= REPEATED; o++) {
                    const shape *h = &shapes[s];
                    if (!test_takes_case((size_t)(s + o), 3))
                        continue;
                    /* Conversions go through registers. */
                    mylib_type from = t % 2 == 0 ? types[t] : MYLIB_F16, to;
                    if (mylib_op_result_type(ops[i], types[t], &to) != MYLIB_OK)
                        continue;
                    c.op = ops[i];
                    c.type = types[t];
                    put(&c.a, 0, to, h->ndim, h->size, C_ORDER);
                    put(&c.a, 1, from, h->ndim, h->size, (order)o);
                    put(&c.a, 2, types[t], h->ndim, h->size, (order)((o + 1) % 4));
                    check(call_map, "%s of %s, shape %d, %s", mylib_op_name(c.op),
                          mylib_type_name(c.type), s, order_names[o]);
                    if (h->ndim > 1 || from != types[t] || o == REPEATED ||
                        c.device.kind != MYLIB_CPU)
                        continue;
                    check(call_map1, "%s of %s, map1", mylib_op_name(c.op),
                          mylib_type_name(c.type));
                    if (to != types[t])
                        continue;
                    c.a.strides[0][0] = c.a.strides[1][0] = 0;
                    c.a.array[1].data = c.a.array[0].data;
                    check(call_map1, "%s of %s, folded", mylib_op_name(c.op),
                          mylib_type_name(c.type));
                }
            }
        }
    }
}

static void test_overlap(void)
{
    for (int t = 0; t < TEST_COMPUTED_COUNT; t++) {
        const int64_t size[2] = {50, 60};
        c.op = MYLIB_OP_add;
        c.type = test_types[t].type;
        for (int k = 0; k < 3; k++)
            put(&c.a, k, c.type, 2, size, C_ORDER);
        c.a.array[1].data = (char *)c.a.array[0].data + test_types[t].size;
        check(call_map, "overlap of %s", test_types[t].name);
    }
}

static void test_selections_and_copies(void)
{
    for (int t = 0; t < MYLIB_TYPE_COUNT; t++) {
        for (int from = 0; from < MYLIB_TYPE_COUNT; from++) {
            const shape *h = &shapes[(t + from) % SHAPE_COUNT];
            order o = (order)((t + 3 * from) % 3);
            put(&c.a, 0, (mylib_type)t, h->ndim, h->size, C_ORDER);
            put(&c.a, 1, (mylib_type)from, h->ndim, h->size, o);
            put(&c.a, 2, (mylib_type)t, h->ndim, h->size, REPEATED);
            put(&c.a, 3, (mylib_type)from, h->ndim, h->size, C_ORDER);
            check(call_select, "a selection of %s and %s", test_types[t].name,
                  test_types[from].name);
            check(call_copy, "%s to %s, %s", test_types[from].name, test_types[t].name,
                  order_names[o]);
        }
        if (t != MYLIB_BOOL) {
            put(&c.a, 0, (mylib_type)t, 1, shapes[1].size, GAPS);
            check(call_arange, "a range of %s", test_types[t].name);
        }
    }
}

/* The output of a reduction along some dimensions: none of them, all, the first, the last. */
static void put_reduced(mylib_type type, const shape *h, int way)
{
    int64_t size[MYLIB_MAX_NDIM];
    for (int d = 0; d < h->ndim; d++)
        size[d] = way == 0 || (way == 1 && d == 0) || (way == 2 && d == h->ndim - 1) ||
                          (way == 3 && d % 2 == 0)
                      ? 1
                      : h->size[d];
    put(&c.a, 0, type, way == 4 ? 0 : h->ndim, size, C_ORDER);
}

static void test_reductions(void)
{
    static const mylib_type types[] = {MYLIB_I8, MYLIB_F16, MYLIB_F32, MYLIB_F64, MYLIB_C128};
    for (size_t t = 0; t < COUNT_OF(types); t++) {
        for (int s = 0; s < SHAPE_COUNT; s++) {
            const shape *h = &shapes[s];
            for (int way = 0; way < 5; way++) {
                c.type = types[t];
                c.reduction = (mylib_reduction)((way + (int)t) % 4);
                put_reduced(c.type, h, way);
                order o = (order)((way + s) % 3);
                put(&c.a, 1, way % 2 == 0 ? c.type : MYLIB_F16, h->ndim, h->size, o);
                check(call_reduce, "reduction %d of %s, shape %d, way %d, %s", (int)c.reduction,
                      mylib_type_name(c.type), s, way, order_names[o]);
            }
        }
        put(&c.a, 0, types[t], 0, NULL, C_ORDER);
        put(&c.a, 1, MYLIB_F16, 1, shapes[1].size, GAPS);
        put(&c.a, 2, types[t], 1, shapes[1].size, GAPS);
        check(call_dot, "a dot product of %s", mylib_type_name(c.type));
        put(&c.a, 1, types[t], 2, shapes[2].size, F_ORDER);
        check(call_trace, "a trace of %s", mylib_type_name(c.type));
    }
}

static void test_programs(void)
{
    for (size_t p = 0; p < COUNT_OF(programs); p++) {
        const making *m = &programs[p];
        c.making = m;
        check(call_create, "program %d is created", (int)p);
        c.type = m->type;
        for (int s = 0; s < SHAPE_COUNT && c.program != NULL; s++) {
            const shape *h = &shapes[s];
            if (m->steps >= 100 && s > 0 && s < SHAPE_COUNT - 1)
                continue; /* it would take long, and no other stack */
            put(&c.a, 0, m->type, h->ndim, h->size, C_ORDER);
            for (int k = 0; k < m->inputs; k++)
                put(&c.a, 1 + k, k % 2 == 0 ? m->type : MYLIB_F16, h->ndim, h->size,
                    (order)((k + s) % 4));
            check(call_run, "program %d, shape %d", (int)p, s);
            for (int way = 0; way < 5; way++) {
                c.reduction = (mylib_reduction)((way + s) % 4);
                put_reduced(c.type, h, way);
                check(call_program_reduce, "reduction %d of program %d, shape %d, way %d",
                      (int)c.reduction, (int)p, s, way);
            }
        }
        mylib_program_free(c.program);
        c.program = NULL;
    }
}

/* Every operation of f16, whose kernels call others, in rows and columns. */
static void test_halves(void)
{
    static const mylib_type types[2] = {MYLIB_F16, MYLIB_F16};
    const shape *h = &shapes[2];
    for (const test_op *op = test_ops; op < test_ops + MYLIB_OP_COUNT; op++) {
        const mylib_step step = {op->op, MYLIB_F16, {0, op->arity - 1, 0}};
        if (!test_defined(op, MYLIB_F16) || !test_takes_case((size_t)op->op, 3) ||
            !CHECK_OK(mylib_program_create(op->arity, types, 0, NULL, 1, &step, &c.program)))
            continue;
        c.op = op->op;
        c.type = MYLIB_F16;
        c.reduction = MYLIB_SUM;
        put(&c.a, 2, MYLIB_F16, h->ndim, h->size, F_ORDER);
        for (int k = 0; k < 4; k++) {
            put(&c.a, 0, test_result_type(op, MYLIB_F16), h->ndim, h->size, (order)(k / 2));
            put(&c.a, 1, MYLIB_F16, h->ndim, h->size, (order)(k % 2));
            check(call_map, "%s of f16, orders %d", op->name, k);
            check(call_run, "a program of %s of f16, orders %d", op->name, k);
            for (int way = 0; way < 5; way++) {
                put_reduced(MYLIB_F32, h, way);
                c.type = MYLIB_F32;
                if (k < 2)
                    check(call_program_reduce, "the sum of %s of f16, way %d, order %d", op->name,
                          way, k);
                c.type = MYLIB_F16;
            }
        }
        mylib_program_free(c.program);
        c.program = NULL;
    }
}

static void test_errors(void)
{
    put(&c.a, 0, MYLIB_F64, shapes[SHAPE_COUNT - 1].ndim, shapes[SHAPE_COUNT - 1].size, C_ORDER);
    put(&c.a, 1, MYLIB_F64, 1, shapes[1].size, C_ORDER);
    put(&c.a, 2, MYLIB_F64, 1, shapes[1].size, C_ORDER);
    check(call_wrong, "shapes that do not fit");
}

static void test_all(void)
{
    test_maps();
    test_selections_and_copies();
    test_reductions();
    test_programs();
    test_halves();
}

int main(void)
{
    test_begin("stack");
    if (TEST_IS_SANITIZED) {
        printf("stack: sanitizers take stack of their own\n");
        return 77;
    }
    shape *all = &shapes[SHAPE_COUNT - 1];
    for (int d = 0; d < all->ndim; d++)
        all->size[d] = d % 5 == 0 ? 2 : 1;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = STACK_NBYTES + page;
    char *mapped = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory = mmap(NULL, MAX_OPERANDS * MEMORY_NBYTES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED || memory == MAP_FAILED || mprotect(mapped, page, PROT_NONE) != 0)
        test_give_up("no memory");
    stack = (unsigned char *)mapped + page;
    FOR_EACH_LEVEL(level)
    {
        c.device = test_cpu;
        test_all();
        test_overlap();
    }
    test_errors();
    printf("stack: at most %zu bytes: %s\n", most_nbytes, most_case);
    int gpus = 0;
    /* The driver of a real GPU takes stack of its own. */
    if (test_is_emulated() && mylib_cuda_device_count(&gpus) == MYLIB_OK && gpus > 0) {
        c.device = (mylib_device){MYLIB_CUDA, 0};
        limit_nbytes = LIMIT_NBYTES + EMULATION_NBYTES;
        most_nbytes = 0;
        test_all();
        printf("stack: on an emulated GPU at most %zu bytes: %s\n", most_nbytes, most_case);
    }
    return test_end();
}
