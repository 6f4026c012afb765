/*
 * ceilings.c - what the machine can do at best, for the benchmarks to compare with.
 *
 * Compiled when the benchmarks start, with all that the processor has.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

/* ---- Memory bandwidth of the CPU ---- */

#define MOST_INPUTS 16

#if defined(__AVX512F__)
typedef __m512i vector;
#define LOAD(p) _mm512_loadu_si512(p)
#define STREAM(p, v) _mm512_stream_si512((vector *)(p), v)
#define ADD(a, b) _mm512_add_epi64(a, b)
#elif defined(__AVX2__)
typedef __m256i vector;
#define LOAD(p) _mm256_loadu_si256((const vector *)(p))
#define STREAM(p, v) _mm256_stream_si256((vector *)(p), v)
#define ADD(a, b) _mm256_add_epi64(a, b)
#else
/* No streaming stores: the compiler's vector code is the best there is. */
typedef uint64_t vector;
#define LOAD(p) (*(const vector *)(p))
#define STREAM(p, v) (*(vector *)(p) = (v))
#define ADD(a, b) ((a) + (b))
#endif

static inline uint64_t sum_words(const uint64_t *const *in, int k, int64_t i)
{
    uint64_t sum = in[0][i];
    for (int j = 1; j < k; j++)
        sum += in[j][i];
    return sum;
}

/* out = the sum of k inputs, in words of 64 bits: floats could meet slow denormals. */
static inline void add_range(int64_t n, uint64_t *out, const uint64_t *const *in, int k)
{
    const int64_t lanes = sizeof(vector) / 8;
    int64_t i = 0;
    for (; i < n && (uintptr_t)(out + i) % sizeof(vector) != 0; i++)
        out[i] = sum_words(in, k, i);
    for (; i + lanes <= n; i += lanes) {
        vector sum = LOAD(in[0] + i);
        for (int j = 1; j < k; j++)
            sum = ADD(sum, LOAD(in[j] + i));
        STREAM(out + i, sum);
    }
    for (; i < n; i++)
        out[i] = sum_words(in, k, i);
#if defined(__AVX512F__) || defined(__AVX2__)
    _mm_sfence();
#endif
}

void ceiling_add(int64_t n, uint64_t *out, const uint64_t *const *inputs, int k, int threads)
{
    int64_t share = (n / threads + 511) / 512 * 512;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int t = 0; t < threads; t++) {
        const uint64_t *in[MOST_INPUTS];
        int64_t begin = t * share, rest = n - begin < share ? n - begin : share;
        for (int j = 0; j < k; j++)
            in[j] = inputs[j] + begin;
        /* Numbers that the compiler knows: it expands the loops over the inputs. */
        if (k == 2)
            add_range(rest, out + begin, in, 2);
        else if (k == 5)
            add_range(rest, out + begin, in, 5);
        else
            add_range(rest, out + begin, in, k);
    }
}

/* ---- A kernel launch with a synchronize ---- */

static const char empty_kernel[] = ".version 6.3\n"
                                   ".target sm_75\n"
                                   ".address_size 64\n"
                                   ".visible .entry empty() { ret; }\n";

typedef int launch_function(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            unsigned, void *, void **, void **);

/*
 * Seconds for one launch of an empty kernel and the wait for it on the legacy default stream, mean
 * of `count`.  Negative: minus the number of the call to the driver that failed.
 */
double ceiling_launch(int64_t count)
{
    static void *function;
    static int (*synchronize)(void *);
    static launch_function *launch;

    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context, *module;
    if (driver == NULL)
        return -1;
    if (function == NULL) {
        int device;
        int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
        int (*get)(int *, int) = (int (*)(int *, int))dlsym(driver, "cuDeviceGet");
        int (*retain)(void **, int) =
            (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
        int (*set)(void *) = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
        int (*load)(void **, const void *) =
            (int (*)(void **, const void *))dlsym(driver, "cuModuleLoadData");
        int (*find)(void **, void *, const char *) =
            (int (*)(void **, void *, const char *))dlsym(driver, "cuModuleGetFunction");
        synchronize = (int (*)(void *))dlsym(driver, "cuStreamSynchronize");
        launch = (launch_function *)dlsym(driver, "cuLaunchKernel");
        if (init == NULL || get == NULL || retain == NULL || set == NULL || load == NULL ||
            find == NULL || synchronize == NULL || launch == NULL)
            return -2;
        if (init(0) != 0)
            return -3;
        if (get(&device, 0) != 0 || retain(&context, device) != 0 || set(context) != 0)
            return -4;
        if (load(&module, empty_kernel) != 0)
            return -5;
        if (find(&function, module, "empty") != 0)
            return -6;
    }
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int64_t i = 0; i < count; i++)
        if (launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) != 0 || synchronize(NULL) != 0)
            return -7;
    clock_gettime(CLOCK_MONOTONIC, &end);
    return ((double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec)) /
           (double)count;
}
