/*
 * cuda_standin.h - what tests ask of the stand-in for the CUDA runtime (cuda_standin.c): calls that
 * fail, and what is allocated.
 */
#ifndef MYLIB_TEST_CUDA_STANDIN_H
#define MYLIB_TEST_CUDA_STANDIN_H

#define CUDA_STANDIN_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Lets the n-th call of the runtime from now on (1 is the next) fail with a CUDA error, and all
 * later ones if for_ever; n == 0 takes that back.  An error of a lost context stays: every call
 * then gives it, until cuda_standin_restart().
 */
CUDA_STANDIN_API void cuda_standin_fail(long n, int error, int for_ever);

/* The name of the call that failed as asked, the first of several; NULL if none did. */
CUDA_STANDIN_API const char *cuda_standin_failed(void);

/* The context is there again, as in a new process, but memory, streams and events are kept. */
CUDA_STANDIN_API void cuda_standin_restart(void);

/* The error that cudaGetLastError() would tell this thread. */
CUDA_STANDIN_API int cuda_standin_last_error(void);

typedef struct cuda_standin_counts {
    long calls; /* of functions that can fail, since the process began */
    long allocations, pinned, streams, events, pools;
} cuda_standin_counts;

CUDA_STANDIN_API void cuda_standin_count(cuda_standin_counts *counts);

/* Counts a launch as a call, which may have to fail; for the emulated kernels. */
int cuda_standin_launch(void);

#ifdef __cplusplus
}
#endif

#endif /* MYLIB_TEST_CUDA_STANDIN_H */
