/*
 * Corrupted descriptions of arrays: whatever the bytes say, an entry point refuses the arrays with
 * a message, or computes without touching other memory.  Every usable array has exactly the memory
 * that its shape and strides reach, so AddressSanitizer sees each step beyond it.  Strides that no
 * element uses (of axes of length 1) do not matter: the call is repeated with 0 instead, and gives
 * the same status and bytes.
 *
 * For libFuzzer (see CMakeLists.txt), and without it over random inputs.
 */
#define FUZZER "fuzz_arrays"
#include "fuzz.h"

enum {
    MOST_INPUTS = 3,
    MOST_NDIM = MYLIB_MAX_NDIM + 2,
    MOST_COUNT = 1 << 14,
    MOST_REACH = 1 << 16,
    ARENA_NBYTES = 1024,
};

/* The library promises to refuse arrays of more elements or with a wider reach. */
#define REFUSED_COUNT ((__int128)1 << 52)
#define REFUSED_REACH ((__int128)1 << 61)

static uint64_t take_bits(reader *r, size_t nbytes)
{
    uint64_t value = 0;
    take(r, &value, nbytes);
    return value;
}

/* True once in n times. */
static int take_rare(reader *r, int n) { return take_byte(r) % n == n - 1; }

/* ---- Memory that calls may share ---- */

/* Host or GPU memory with a copy of what it holds at the beginning. */
typedef struct block {
    mylib_device place;
    char *memory;
    size_t nbytes;
    char *initial, *result;
} block;

static char *host_memory(size_t nbytes)
{
    char *memory = malloc(nbytes > 0 ? nbytes : 1);
    require(memory != NULL, "no memory");
    return memory;
}

static void copy_bytes(const block *b, int to_block, char *host)
{
    const mylib_device cpu = {MYLIB_CPU, 0};
    mylib_device to = to_block ? b->place : cpu, from = to_block ? cpu : b->place;
    require(mylib_copy(to, to_block ? b->memory : host, from, to_block ? host : b->memory,
                       b->nbytes, NULL) == MYLIB_OK,
            "cannot copy");
}

/* Small numbers of either sign and every type: bytes of 0 and 1 are bools too. */
static void make_block(block *b, mylib_device place, size_t nbytes, int seed, int is_bool)
{
    void *memory = NULL;
    b->place = place;
    b->nbytes = nbytes;
    b->initial = host_memory(nbytes);
    b->result = host_memory(nbytes);
    for (size_t i = 0; i < nbytes; i++)
        b->initial[i] = (char)(is_bool ? (i + (size_t)seed) % 3 == 0 : i * 37 + (size_t)seed);
    if (place.kind == MYLIB_CUDA)
        require(mylib_alloc(place, nbytes, NULL, &memory) == MYLIB_OK, "no GPU memory");
    b->memory = place.kind == MYLIB_CUDA ? memory : host_memory(nbytes);
    copy_bytes(b, 1, b->initial);
}

static void free_block(block *b)
{
    if (b->place.kind == MYLIB_CUDA)
        require(mylib_free(b->place, b->memory, NULL) == MYLIB_OK, "cannot free");
    else
        free(b->memory);
    free(b->initial);
    free(b->result);
    memset(b, 0, sizeof *b);
}

/* ---- Descriptions ---- */

typedef struct operand {
    mylib_array array;
    int64_t shape[MOST_NDIM], strides[MOST_NDIM];
    int must_be_refused;
} operand;

typedef struct fuzz_case {
    reader r;
    mylib_device place; /* of most arrays */
    int gpus;
    operand operand[1 + MOST_INPUTS];
    block arena, own[1 + MOST_INPUTS];
} fuzz_case;

static mylib_type take_type(reader *r)
{
    static const int wild[] = {-1, MYLIB_TYPE_COUNT, INT32_MIN, INT32_MAX};
    int byte = take_byte(r);
    return (mylib_type)(byte < 250 ? byte % MYLIB_TYPE_COUNT : wild[byte % 4]);
}

static int64_t take_size(reader *r)
{
    static const int64_t sizes[] = {1, 1, 1, 2, 3, 4, 5, 0};
    int byte = take_byte(r);
    return byte < 240   ? sizes[byte % 8]
           : byte < 250 ? 31 + byte % 40
                        : (int64_t)(take_bits(r, 8) >> take_byte(r) % 64);
}

static int64_t take_wild(reader *r) { return (int64_t)(take_bits(r, 8) << take_byte(r) % 64); }

/* Limits the dimensions to the room for them; 0 for a negative number. */
static int dimensions(const mylib_array *a)
{
    return a->ndim < 0 ? 0 : a->ndim < MOST_NDIM ? a->ndim : MOST_NDIM;
}

static void take_shape(reader *r, operand *o)
{
    static const int32_t wild[] = {-1, 65, 66, INT32_MIN, INT32_MAX, 64, 40};
    int byte = take_byte(r);
    o->array.ndim = byte < 245 ? byte % 5 : wild[byte % 7];
    for (int d = 0; d < dimensions(&o->array); d++)
        o->shape[d] = d > 5 ? 1 : take_size(r);
    o->array.shape = take_rare(r, 60) ? NULL : o->shape;
}

/* C order, in steps of `step` elements or backwards; some strides are wild. */
static void take_strides(reader *r, operand *o)
{
    static const int64_t steps[] = {1, 1, 2, -1, 0, 3};
    int way = take_byte(r);
    int64_t size = (int64_t)mylib_type_size(o->array.type);
    uint64_t stride = (uint64_t)(size > 0 ? size : 1);
    o->array.strides = way % 4 == 0 ? NULL : o->strides;
    for (int d = dimensions(&o->array); d-- > 0;) {
        int64_t step = way % 4 == 1 ? 1 : steps[take_byte(r) % 6];
        o->strides[d] = (int64_t)(stride * (uint64_t)step);
        if (way > 200 || (o->shape[d] == 1 && way > 60))
            o->strides[d] = take_wild(r);
        else if (way % 4 == 3 && take_rare(r, 8))
            o->strides[d] += 1;
        stride *= (uint64_t)(o->shape[d] > 0 ? o->shape[d] : 1);
    }
}

/* Larger values are refused anyway, and could overflow here. */
static __int128 capped(__int128 n)
{
    return n > 8 * REFUSED_REACH    ? 8 * REFUSED_REACH
           : n < -8 * REFUSED_REACH ? -8 * REFUSED_REACH
                                    : n;
}

/* Bytes below and above the first element, in which all elements lie; false without elements. */
static int find_reach(const operand *o, __int128 *low, __int128 *high, __int128 *count)
{
    int64_t size = (int64_t)mylib_type_size(o->array.type);
    __int128 next = size;
    *low = 0;
    *high = size;
    *count = 1;
    for (int d = 0; d < o->array.ndim; d++)
        if (o->shape[d] <= 0)
            return 0;
    for (int d = o->array.ndim - 1; d >= 0; d--) {
        __int128 reach = (o->array.strides != NULL ? o->strides[d] : next) * (o->shape[d] - 1);
        *(reach < 0 ? low : high) += capped(reach);
        next = capped(next * o->shape[d]);
        *count = capped(*count * o->shape[d]);
    }
    return 1;
}

/* Memory for the description, which is made harmless unless the library has to refuse it. */
static void give_memory(fuzz_case *c, int k)
{
    static char nowhere;
    operand *o = &c->operand[k];
    __int128 low, high, count;
    int has_shape = o->array.ndim == 0 || o->array.shape != NULL;
    mylib_device place = o->array.device;
    int is_real = (place.kind == MYLIB_CPU && place.index == 0) ||
                  (place.kind == MYLIB_CUDA && place.index >= 0 && place.index < c->gpus);
    o->array.data = take_rare(&c->r, 2) ? NULL : &nowhere;
    if (mylib_type_size(o->array.type) == 0 || o->array.ndim < 0 ||
        o->array.ndim > MYLIB_MAX_NDIM || !has_shape) {
        o->must_be_refused = 1;
        return;
    }
    for (int d = 0; d < o->array.ndim; d++)
        o->must_be_refused |= o->shape[d] < 0;
    if (!find_reach(o, &low, &high, &count))
        return;
    if (count >= REFUSED_COUNT * 2 || high - low >= REFUSED_REACH * 2) {
        o->must_be_refused = 1;
        o->array.data = &nowhere;
        return;
    }
    if (count > MOST_COUNT) {
        count = 1;
        for (int d = 0; d < o->array.ndim; d++) {
            o->shape[d] = count < MOST_COUNT / 4 ? 1 + (o->shape[d] - 1) % 3 : 1;
            count *= o->shape[d];
        }
        (void)find_reach(o, &low, &high, &count);
    }
    if (high - low > MOST_REACH) {
        o->array.strides = NULL;
        (void)find_reach(o, &low, &high, &count);
    }
    if (!is_real) /* a call without elements does not need it */
        return;
    if (take_rare(&c->r, 60)) {
        o->array.data = NULL;
        o->must_be_refused = 1;
        return;
    }
    size_t nbytes = (size_t)(high - low);
    int is_arena = take_rare(&c->r, 3) && nbytes <= ARENA_NBYTES && place.kind == c->place.kind &&
                   place.index == c->place.index;
    block *b = is_arena ? &c->arena : &c->own[k];
    if (b->memory == NULL)
        make_block(b, place, is_arena ? ARENA_NBYTES : nbytes, take_byte(&c->r),
                   is_arena || o->array.type == MYLIB_BOOL);
    size_t at = is_arena ? (size_t)take_bits(&c->r, 2) % (ARENA_NBYTES - nbytes + 1) : 0;
    if (place.kind == MYLIB_CUDA)
        at = at / MOST_ELEMENT * MOST_ELEMENT;
    o->array.data = b->memory + at - (ptrdiff_t)low;
}

/* ---- Calls ---- */

enum {
    MAP,
    MAP_AS,
    MAP1,
    SELECT,
    COPY,
    ARANGE,
    REDUCE,
    DOT,
    TRACE,
    PROGRAM_RUN,
    PROGRAM_REDUCE,
    CALLS
};

typedef struct fuzz_call {
    int which, op, reduction, inputs;
    mylib_type type;
    mylib_device device;
    mylib_program *program;
    unsigned char start[MOST_ELEMENT], step[MOST_ELEMENT];
    int has_in; /* else NULL takes the place of the inputs, or of one of them */
    int has_out;
} fuzz_call;

/* in[0], in[0] + in[1] or in[0] * in[1] - in[2] in the call's type; 1 without inputs. */
static mylib_program *make_program(const fuzz_case *c, fuzz_call *call)
{
    static const mylib_constant one = {MYLIB_U8, 0, {1}};
    mylib_type types[MOST_INPUTS];
    mylib_program *program = NULL;
    int type = (int)call->type, n = call->inputs;
    const mylib_step step[4][2] = {
        {{MYLIB_STEP_CONVERT, type, {0, 0, 0}}, {0}},
        {{MYLIB_STEP_CONVERT, type, {0, 0, 0}}, {0}},
        {{MYLIB_OP_add, type, {0, 1, 0}}, {0}},
        {{MYLIB_OP_multiply, type, {0, 1, 0}}, {MYLIB_OP_subtract, type, {3, 2, 0}}},
    };
    for (int k = 0; k < n; k++)
        types[k] = c->operand[1 + k].array.type;
    (void)mylib_program_create(n, types, n == 0, n == 0 ? &one : NULL, n == 3 ? 2 : 1, step[n],
                               &program);
    return program;
}

static void take_call(fuzz_case *c, fuzz_call *call)
{
    static const int wild[] = {-1, MYLIB_OP_COUNT, INT32_MAX, 1000};
    int byte = take_byte(&c->r);
    memset(call, 0, sizeof *call);
    call->which = byte % CALLS;
    byte = take_byte(&c->r);
    call->op = byte < 250 ? byte % MYLIB_OP_COUNT : wild[byte % 4];
    byte = take_byte(&c->r);
    call->reduction = byte < 250 ? byte % 5 : wild[byte % 4];
    call->type = take_type(&c->r);
    call->device = c->place;
    if (take_rare(&c->r, 30))
        call->device = (mylib_device){take_byte(&c->r) % 4, (int8_t)take_byte(&c->r) % 4};
    for (int i = 0; i < MOST_ELEMENT; i++) {
        call->start[i] = (unsigned char)take_byte(&c->r);
        call->step[i] = (unsigned char)take_byte(&c->r);
    }
    call->has_in = !take_rare(&c->r, 40);
    call->has_out = !take_rare(&c->r, 60);
    switch (call->which) {
    case MAP:
    case MAP_AS:
    case MAP1:
        call->inputs = mylib_op_arity((mylib_op)call->op);
        break;
    case SELECT:
        call->inputs = 3;
        break;
    case ARANGE:
        call->inputs = 0;
        break;
    case COPY:
    case REDUCE:
    case TRACE:
        call->inputs = 1;
        break;
    case DOT:
        call->inputs = 2;
        break;
    default:
        call->inputs = take_byte(&c->r) % (MOST_INPUTS + 1);
    }
}

/* Mostly what the call expects, so that many cases are computed. */
static void take_operand(fuzz_case *c, const fuzz_call *call, int k)
{
    operand *o = &c->operand[k];
    const operand *first = &c->operand[k == 2 && call->which == DOT ? 1 : 0];
    int reduces = call->which == REDUCE || call->which == PROGRAM_REDUCE;
    mylib_type type = call->type;
    o->array.type = take_type(&c->r);
    if (k == 0 && (call->which <= MAP1 ? mylib_op_result_type((mylib_op)call->op, type, &type)
                                       : MYLIB_OK) != MYLIB_OK)
        type = o->array.type;
    if ((k == 0 || call->which == MAP || call->which == MAP1) && !take_rare(&c->r, 16))
        o->array.type = type;
    o->array.device = c->place;
    if (take_rare(&c->r, 40))
        o->array.device = (mylib_device){take_byte(&c->r) % 4, (int8_t)take_byte(&c->r) % 4};
    take_shape(&c->r, o);
    int ndim = call->which == TRACE                           ? 2
               : call->which == DOT                           ? k > 0
               : call->which == ARANGE || call->which == MAP1 ? 1
                                                              : -1;
    if (ndim >= 0 && !take_rare(&c->r, 16)) {
        for (int d = dimensions(&o->array); d < ndim; d++)
            o->shape[d] = take_size(&c->r);
        o->array.ndim = ndim;
    }
    if (k > 0 && (ndim < 0 || k == 2) && !take_rare(&c->r, 4)) {
        memcpy(o->shape, first->shape, sizeof o->shape);
        o->array.ndim = first->array.ndim;
        o->array.shape = o->shape;
        for (int d = 0; d < dimensions(&o->array); d++)
            if (take_rare(&c->r, reduces && first->shape[d] == 1 ? 2 : 10))
                o->shape[d] = reduces ? take_size(&c->r) : 1;
        if (!reduces && o->array.ndim > 0 && o->array.ndim < MOST_NDIM && take_rare(&c->r, 8))
            memmove(o->shape, o->shape + 1, (size_t)--o->array.ndim * sizeof *o->shape);
    }
    take_strides(&c->r, o);
    give_memory(c, k);
}

/* mylib_map1() trusts its arguments: all operands get the length of the shortest. */
static mylib_status call_map1(const fuzz_call *call, const mylib_array *out, const mylib_array *in)
{
    const mylib_array *all[3] = {out, &in[0], call->inputs == 2 ? &in[1] : &in[0]};
    int64_t n = INT64_MAX, stride[3];
    mylib_type types[3] = {call->type, call->type, call->type};
    mylib_status st = mylib_op_result_type((mylib_op)call->op, call->type, &types[0]);
    if (st != MYLIB_OK)
        return st;
    for (int k = 0; k < 3; k++) {
        if (all[k]->ndim != 1 || all[k]->shape == NULL || all[k]->type != types[k] ||
            all[k]->device.kind != MYLIB_CPU || all[k]->device.index != 0)
            return mylib_fib(94, &(uint64_t){0});
        stride[k] =
            all[k]->strides != NULL ? all[k]->strides[0] : (int64_t)mylib_type_size(all[k]->type);
        n = all[k]->shape[0] < n ? all[k]->shape[0] : n;
    }
    return mylib_map1((mylib_op)call->op, call->type, n, out->data, stride[0], in[0].data,
                      stride[1], call->inputs == 2 ? in[1].data : NULL, stride[2]);
}

/* Without a program there is nothing to run: returns the status of its creation. */
static mylib_status make_call(const fuzz_call *call, const mylib_array *operands, void *sum)
{
    const mylib_array *out = call->has_out ? operands : NULL;
    const mylib_array *in = call->has_in ? operands + 1 : NULL;
    mylib_reduction reduction = (mylib_reduction)call->reduction;
    switch (call->which) {
    case MAP:
        return mylib_map((mylib_op)call->op, call->device, NULL, out, in);
    case MAP_AS:
        return mylib_map_as((mylib_op)call->op, call->type, call->device, NULL, out, in);
    case MAP1:
        return call_map1(call, operands, operands + 1);
    case SELECT:
        return mylib_select(call->device, NULL, out, operands + 1, in != NULL ? in + 1 : NULL,
                            operands + 3);
    case COPY:
        return mylib_copy_array(NULL, out, in);
    case ARANGE:
        return mylib_arange(NULL, out, in != NULL ? call->start : NULL, call->step);
    case REDUCE:
        return mylib_reduce(reduction, call->type, call->device, NULL, out, in);
    case DOT:
        return mylib_dot(call->type, call->device, NULL, out, in,
                         in != NULL ? in + 1 : operands + 2);
    case TRACE:
        return mylib_trace(call->device, NULL, in, out != NULL ? sum : NULL);
    case PROGRAM_RUN:
        return mylib_program_run(call->program, call->device, NULL, out, in);
    default:
        return mylib_program_reduce(call->program, reduction, call->type, call->device, NULL, out,
                                    in);
    }
}

static int is_used(const fuzz_call *call, int k)
{
    if (k == 0)
        return call->which != TRACE;
    return k <= call->inputs;
}

static void forget_message(void)
{
    uint64_t unused;
    (void)mylib_fib(1000, &unused);
}

static void check_call(fuzz_case *c, fuzz_call *call)
{
    mylib_array operands[1 + MOST_INPUTS];
    unsigned char sum[2][MOST_ELEMENT] = {{0}};
    char old[128];
    int must_be_refused = 0;
    mylib_status st[2];
    if (call->which == PROGRAM_RUN || call->which == PROGRAM_REDUCE)
        call->program = make_program(c, call);
    for (int k = 0; k <= MOST_INPUTS; k++) {
        operands[k] = c->operand[k].array;
        must_be_refused |= is_used(call, k) && c->operand[k].must_be_refused;
    }
    /* map1 takes one shape, made here; ranges take any place. */
    if (call->which == MAP1 && must_be_refused)
        return;
    forget_message();
    snprintf(old, sizeof old, "%s", mylib_last_message());
    st[0] = make_call(call, operands, sum[0]);
    if (st[0] != MYLIB_OK) {
        require(strcmp(old, mylib_last_message()) != 0, "no message");
        require(st[0] <= MYLIB_ERR_NO_DEVICE || st[0] == MYLIB_ERR_DOMAIN ||
                    (call->which == MAP1 && st[0] == MYLIB_ERR_OVERFLOW),
                "an unexpected status");
    }
    if (st[0] == MYLIB_OK)
        require(!must_be_refused, "a description that cannot be true was taken");
    for (int k = 0; k <= MOST_INPUTS; k++) {
        if (c->own[k].memory == NULL)
            continue;
        copy_bytes(&c->own[k], 0, c->own[k].result);
        copy_bytes(&c->own[k], 1, c->own[k].initial);
    }
    if (c->arena.memory != NULL) {
        copy_bytes(&c->arena, 0, c->arena.result);
        copy_bytes(&c->arena, 1, c->arena.initial);
    }
    /* Again, with strides of 0 where there is one element only. */
    for (int k = 0; k <= MOST_INPUTS; k++)
        for (int d = 0; d < dimensions(&operands[k]); d++)
            if (c->operand[k].shape[d] == 1)
                c->operand[k].strides[d] = 0;
    st[1] = make_call(call, operands, sum[1]);
    require(st[0] == st[1], "the stride of an axis of length 1 changes the status");
    if (st[0] != MYLIB_OK)
        return;
    require(memcmp(sum[0], sum[1], MOST_ELEMENT) == 0, "the stride of an axis changes the sum");
    for (int k = 0; k <= MOST_INPUTS + 1; k++) {
        const block *b = k <= MOST_INPUTS ? &c->own[k] : &c->arena;
        if (b->memory == NULL)
            continue;
        copy_bytes(b, 0, b->initial);
        require(memcmp(b->initial, b->result, b->nbytes) == 0,
                "the stride of an axis of length 1 changes the result");
    }
}

/* Tells whether the valid inputs, broadcast against each other, have too many terms. */
static int takes_too_long(const fuzz_case *c)
{
    double terms = 1;
    for (int k = 1; k <= MOST_INPUTS; k++)
        if (c->operand[k].must_be_refused)
            return 0;
    for (int i = 1; i <= MYLIB_MAX_NDIM; i++) {
        int64_t size = 1;
        for (int k = 1; k <= MOST_INPUTS; k++) {
            const operand *o = &c->operand[k];
            if (i <= o->array.ndim && o->shape[o->array.ndim - i] > size)
                size = o->shape[o->array.ndim - i];
        }
        terms *= (double)size;
    }
    return terms > 1 << 20;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static fuzz_case c;
    fuzz_call call;
    memset(&c, 0, sizeof c);
    c.r = (reader){data, nbytes};
    if (mylib_cuda_device_count(&c.gpus) != MYLIB_OK)
        c.gpus = 0;
    c.place = (mylib_device){take_rare(&c.r, c.gpus > 0 ? 2 : 20) ? MYLIB_CUDA : MYLIB_CPU, 0};
    take_call(&c, &call);
    for (int k = 0; k <= MOST_INPUTS; k++)
        take_operand(&c, &call, k);
    if (call.which != PROGRAM_REDUCE || !takes_too_long(&c))
        check_call(&c, &call);
    mylib_program_free(call.program);
    for (int k = 0; k <= MOST_INPUTS; k++)
        if (c.own[k].memory != NULL)
            free_block(&c.own[k]);
    if (c.arena.memory != NULL)
        free_block(&c.arena);
    return 0;
}

#ifndef MYLIB_LIBFUZZER

int main(int argc, char **argv)
{
    int64_t count = argc > 1 ? atoll(argv[1]) : test_rounds(100000);
    test_begin(FUZZER);
    rng r = rng_make(0);
    for (int64_t i = 0; i < count; i++) {
        uint8_t bytes[400];
        size_t nbytes = (size_t)rng_below(&r, sizeof bytes + 1);
        test_set_case("input %lld", (long long)i);
        for (size_t b = 0; b < nbytes; b++)
            bytes[b] = (uint8_t)rng_next(&r);
        run_exactly(bytes, nbytes);
    }
    return test_end();
}
#endif
