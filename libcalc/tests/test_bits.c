/*
 * The bits of results are frozen: the hash of each operation's results, over arguments that never
 * change, is the one in frozen_bits.h, on every CPU level and processor, by every compiler, and on
 * a GPU.  Bits change with major versions only, and NEWS.md says so.
 *
 *     test_bits            on the CPU, at each level
 *     test_bits --print    prints a new frozen_bits.h
 *     test_gpu_bits        on the GPU, and so needs one
 */
#include "reference.h"

#define COUNT 20000

typedef struct frozen {
    mylib_op op;
    mylib_type type;
    uint64_t hash;
} frozen;

#define FROZEN(op, s, hash) {MYLIB_OP_##op, (mylib_type)TEST_##s, hash},
static const frozen frozen_hashes[] = {
#include "frozen_bits.h"
};
#undef FROZEN

/* splitmix64: the arguments must not depend on the random numbers of the other tests. */
static uint64_t next_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

/*
 * A number of `digits` bits of significand and `width` bits in all: of any bits, or, in two of
 * three cases, within 2^-13 to 2^12.
 */
static uint64_t next_float(uint64_t *state, int width, int digits)
{
    uint64_t bits = next_bits(state) >> (64 - width), choice = next_bits(state);
    if (choice % 3 == 0)
        return bits;
    uint64_t one = ((uint64_t)1 << (width - digits - 1)) - 1; /* the exponent's bits of 1.0 */
    uint64_t exponent = one - 13 + (choice >> 8) % 26;
    uint64_t sign_and_fraction = ((uint64_t)1 << (width - 1)) | (((uint64_t)1 << (digits - 1)) - 1);
    return (bits & sign_and_fraction) | exponent << (digits - 1);
}

static void put(uint64_t *state, mylib_type type, void *element)
{
    uint64_t wide[2];
    uint32_t narrow[2];
    uint16_t half;
    switch ((int)type) {
    case MYLIB_F16:
        half = (uint16_t)next_float(state, 16, 11);
        memcpy(element, &half, sizeof half);
        break;
    case MYLIB_F32:
    case MYLIB_C64:
        for (int i = 0; i < 2; i++)
            narrow[i] = (uint32_t)next_float(state, 32, 24);
        memcpy(element, narrow, type == MYLIB_C64 ? 8 : 4);
        break;
    default:
        for (int i = 0; i < 2; i++)
            wide[i] = next_float(state, 64, 53);
        memcpy(element, wide, type == MYLIB_C128 ? 16 : 8);
    }
}

/* FNV-1a over the bytes of n results, low byte first; sign and payload of a NaN do not count. */
static uint64_t hash_of(mylib_type type, int64_t n, const void *results)
{
    mylib_type part = test_real_type(type);
    int64_t size = test_size(part), count = n * (test_size(type) / size);
    uint64_t hash = 0xcbf29ce484222325;
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        for (int64_t byte = size - 1; byte >= 0; byte--)
            bits = bits << 8 | ((const unsigned char *)results)[i * size + byte];
        uint64_t infinity = size == 2 ? 0x7c00 : size == 4 ? 0x7f800000 : 0x7ff0000000000000;
        uint64_t sign = (uint64_t)1 << (8 * size - 1);
        if (size > 1 && (bits & (sign - 1)) > infinity)
            bits = infinity + 1;
        for (int64_t byte = 0; byte < size; byte++)
            hash = (hash ^ (bits >> (8 * byte) & 0xff)) * 0x100000001b3;
    }
    return hash;
}

static unsigned char in[2][COUNT * TEST_MAX_SIZE], out[COUNT * TEST_MAX_SIZE];

static uint64_t compute(const test_op *op, const test_type *t, mylib_device device)
{
    const int64_t n = COUNT;
    uint64_t state = 2026;
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < 2; k++)
            put(&state, t->type, in[k] + i * t->size);
    mylib_type type = test_result_type(op, t->type);
    memset(out, 0xa5, sizeof out);
    mylib_array arrays[3] = {test_row(out, type, &n), test_row(in[0], t->type, &n),
                             test_row(in[1], t->type, &n)};
    CHECK_OK(mylib_map(op->op, device, NULL, &arrays[0], &arrays[1]));
    return hash_of(type, n, out);
}

static void check_frozen(const test_op *op, const test_type *t, mylib_device device)
{
    for (size_t i = 0; i < COUNT_OF(frozen_hashes); i++) {
        const frozen *f = &frozen_hashes[i];
        if (f->op == op->op && f->type == t->type) {
            uint64_t hash = compute(op, t, device);
            CHECK(hash == f->hash, "the bits have changed: their hash is 0x%016llx, not 0x%016llx",
                  (unsigned long long)hash, (unsigned long long)f->hash);
            return;
        }
    }
    CHECK(0, "no hash in frozen_bits.h: test_bits --print writes it");
}

/* Integers need no such test: their operations are exact. */
#define FOR_EACH_FROZEN(op, t) \
    FOR_EVERY_PAIR(op, t) \
    if (!test_is_integer(t->type))

#if defined(TEST_ON_GPU)
int main(int argc, char **argv)
{
    test_begin_gpu("gpu_bits", argc, argv, NULL);
    FOR_EACH_FROZEN(op, t)
    {
        test_set_case("%s of %s on the GPU", op->name, t->name);
        check_frozen(op, t, (mylib_device){MYLIB_CUDA, 0});
    }
    return test_end();
}
#else
static void print_hashes(void)
{
    printf("/*\n * frozen_bits.h - hashes of the results of each operation and type, for "
           "test_bits.c, which\n * prints this file.\n */\n/* clang-format off */\n");
    FOR_EACH_FROZEN(op, t)
    printf("FROZEN(%s, %s, 0x%016llx)\n", op->name, t->name,
           (unsigned long long)compute(op, t, test_cpu));
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--print") == 0) {
        print_hashes();
        return 0;
    }
    test_begin("bits");
    FOR_EACH_LEVEL(level)
    {
        FOR_EACH_FROZEN(op, t)
        {
            test_set_case("%s of %s, %s", op->name, t->name, test_levels[level]);
            check_frozen(op, t, test_cpu);
        }
    }
    return test_end();
}
#endif
