/*
 * Malformed programs: whatever the bytes say, mylib_program_create() refuses them with a message or
 * makes a program that runs and reduces without touching other memory.  For libFuzzer (see
 * CMakeLists.txt), and without it over random and mutated inputs.
 *
 * Built with AddressSanitizer this finds reads and writes out of place; without it, only crashes.
 */
#define FUZZER "fuzz_program"
#include "fuzz.h"

/* Small arrays, read in place: their ends are those of their memory. */
enum { LENGTH = 37 };

/*
 * A number that is mostly in range: one byte, and after 0xff, which is rare in valid inputs, four
 * bytes of anything.
 */
static int32_t take_number(reader *r)
{
    int32_t number = take_byte(r);
    if (number < 0xff)
        return number;
    take(r, &number, sizeof number);
    return number;
}

/* Operations are bytes; the two other steps follow them. */
static int32_t take_op(reader *r)
{
    int32_t op = take_number(r);
    return op >= MYLIB_OP_COUNT && op < MYLIB_OP_COUNT + 2
               ? MYLIB_STEP_CONVERT + op - MYLIB_OP_COUNT
               : op;
}

/* An array of LENGTH elements of its own memory, the last one at its end. */
static mylib_array make_array(reader *r, mylib_type type, const int64_t *n)
{
    const mylib_device cpu = {MYLIB_CPU, 0};
    size_t nbytes = (size_t)*n * mylib_type_size(type);
    unsigned char *bytes = malloc(nbytes);
    require(bytes != NULL, "no memory");
    take(r, bytes, nbytes);
    for (size_t i = 0; i < nbytes && type == MYLIB_BOOL; i++)
        bytes[i] &= 1;
    return (mylib_array){bytes, cpu, type, 1, n, NULL};
}

static void run(reader *r, const mylib_program *program, int inputs, const mylib_type *types)
{
    const mylib_device cpu = {MYLIB_CPU, 0};
    const int64_t n = LENGTH;
    mylib_array in[MYLIB_PROGRAM_MAX_INPUTS];
    mylib_type type, sum_type;
    require(mylib_program_result_type(program, &type) == MYLIB_OK, "no result type");
    mylib_array out = make_array(r, type, &n);
    for (int k = 0; k < inputs; k++)
        in[k] = make_array(r, types[k], &n);
    const mylib_status st = mylib_program_run(program, cpu, NULL, &out, in);
    /* An integer exponent may be negative. */
    require(st == MYLIB_OK || st == MYLIB_ERR_DOMAIN, "it does not run");
    if (type != MYLIB_BOOL) {
        unsigned char sum[MOST_ELEMENT];
        require(mylib_sum_type(type, &sum_type) == MYLIB_OK, "no type of the sum");
        const mylib_array total = {sum, cpu, sum_type, 0, NULL, NULL};
        require(mylib_program_reduce(program, MYLIB_SUM, type, cpu, NULL, &total, in) == st,
                "it does not reduce");
    }
    for (int k = 0; k < inputs; k++)
        free(in[k].data);
    free(out.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static mylib_step step[MYLIB_PROGRAM_MAX_STEPS + 2];
    static mylib_constant constant[MYLIB_PROGRAM_MAX_CONSTANTS + 2];
    mylib_type types[MYLIB_PROGRAM_MAX_INPUTS + 2];
    mylib_program *program = NULL;
    reader r = {data, nbytes};
    int inputs = take_number(&r), constants = take_number(&r), steps = take_number(&r);
    for (int k = 0; k < inputs && k < MYLIB_PROGRAM_MAX_INPUTS + 2; k++)
        types[k] = (mylib_type)take_number(&r);
    for (int k = 0; k < constants && k < MYLIB_PROGRAM_MAX_CONSTANTS + 2; k++) {
        constant[k].type = take_number(&r);
        constant[k].reserved = take_number(&r);
        take(&r, constant[k].value, sizeof constant[k].value);
    }
    for (int i = 0; i < steps && i < MYLIB_PROGRAM_MAX_STEPS + 2; i++) {
        step[i].op = take_op(&r);
        step[i].type = take_number(&r);
        for (int k = 0; k < 3; k++)
            step[i].operand[k] = take_number(&r);
    }
    mylib_status st =
        mylib_program_create(inputs, types, constants, constant, steps, step, &program);
    if (st == MYLIB_OK) {
        run(&r, program, inputs, types);
        mylib_program_free(program);
    } else {
        require(st == MYLIB_ERR_ARGUMENT || st == MYLIB_ERR_UNSUPPORTED, "an unexpected status");
        require(program == NULL, "a refused program was written");
        require(mylib_last_message()[0] != '\0', "no message");
    }
    return 0;
}

#ifndef MYLIB_LIBFUZZER

/*
 * Programs that are valid except, once in `spoilt`, one number.  The format is the one that
 * LLVMFuzzerTestOneInput() reads.
 */
static size_t make_input(rng *r, uint8_t *bytes, size_t room, int64_t spoilt)
{
    size_t used = 0;
    int inputs = (int)rng_below(r, 6), constants = (int)rng_below(r, 4);
    int steps = 1 + (int)rng_below(r, 12), values = inputs + constants;
#define PUT(right) \
    (bytes[used++] = (uint8_t)(rng_once_in(r, spoilt) ? rng_below(r, 256) : (int64_t)(right)))
    PUT(inputs);
    PUT(constants);
    PUT(steps);
    for (int k = 0; k < inputs; k++)
        PUT(rng_below(r, MYLIB_TYPE_COUNT));
    for (int k = 0; k < constants; k++) {
        int type = (int)rng_below(r, MYLIB_TYPE_COUNT);
        PUT(type);
        PUT(0);
        for (int b = 0; b < MOST_ELEMENT; b++)
            PUT(b < test_size((mylib_type)type) && type != MYLIB_BOOL ? rng_below(r, 256) : 0);
    }
    for (int i = 0; i < steps; i++, values++) {
        int op = (int)rng_below(r, MYLIB_OP_COUNT + 2), arity = op == MYLIB_OP_COUNT ? 1 : 3;
        int type = (int)rng_below(r, MYLIB_TYPE_COUNT);
        while (op < MYLIB_OP_COUNT && !test_is_total(&test_ops[op], (mylib_type)type))
            type = (int)rng_below(r, TEST_COMPUTED_COUNT);
        if (op < MYLIB_OP_COUNT)
            arity = test_ops[op].arity;
        PUT(op);
        PUT(type);
        for (int k = 0; k < 3; k++)
            PUT(k < arity && values > 0 ? rng_below(r, values) : 0);
    }
    while (used < room && !rng_once_in(r, 400))
        bytes[used++] = (uint8_t)rng_next(r);
#undef PUT
    return used;
}

int main(int argc, char **argv)
{
    int64_t count = argc > 1 ? atoll(argv[1]) : test_rounds(100000);
    uint8_t bytes[4096];
    test_begin(FUZZER);
    rng r = rng_make(0);
    for (int64_t i = 0; i < count; i++) {
        static const int64_t spoilt[] = {3, 30, 300, 3000};
        test_set_case("input %lld", (long long)i);
        size_t nbytes = make_input(&r, bytes, sizeof bytes, PICK(&r, spoilt));
        if (rng_once_in(&r, 4)) /* and cut */
            nbytes = (size_t)rng_below(&r, (int64_t)nbytes + 1);
        run_exactly(bytes, nbytes);
    }
    return test_end();
}
#endif
