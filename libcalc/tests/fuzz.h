/*
 * fuzz.h - what the fuzzers share: the bytes that they read, checks, and inputs in exactly their
 * memory.  FUZZER is the program's name.
 */
#ifndef MYLIB_FUZZ_H
#define MYLIB_FUZZ_H

#include "mylib.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

#define MOST_ELEMENT 16

/* The next bytes of the input; zeros after its end. */
typedef struct reader {
    const uint8_t *data;
    size_t nbytes;
} reader;

static void take(reader *r, void *to, size_t nbytes)
{
    size_t n = nbytes < r->nbytes ? nbytes : r->nbytes;
    memset(to, 0, nbytes);
    if (n > 0)
        memcpy(to, r->data, n);
    r->data += n;
    r->nbytes -= n;
}

static int take_byte(reader *r)
{
    uint8_t byte;
    take(r, &byte, 1);
    return byte;
}

static void require(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, FUZZER ": %s; the message is \"%s\"\n", what, mylib_last_message());
        abort();
    }
}

#ifndef MYLIB_LIBFUZZER
#include "test.h"

/* Runs over memory of exactly this size, so that reading beyond it shows. */
static void run_exactly(const uint8_t *bytes, size_t nbytes)
{
    uint8_t *exact = test_malloc(nbytes + 1);
    memcpy(exact, bytes, nbytes);
    LLVMFuzzerTestOneInput(exact, nbytes);
    free(exact);
    CHECK(1, " ");
}
#endif

#endif /* MYLIB_FUZZ_H */
