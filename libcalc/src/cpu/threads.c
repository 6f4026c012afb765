/*
 * threads.c - how many OpenMP threads a call may use, and tasks on them.
 *
 * A child made by fork() inherits OpenMP's pool without its threads: entering a parallel region
 * there can wait for ever.  So a child computes on one thread.
 */
#include <pthread.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "flags.h"
#include "internal.h"

static int is_forked_child;

static void note_fork(void) { is_forked_child = 1; }

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, note_fork);
}

int mylib_cpu_threads(void)
{
#ifdef _OPENMP
    return is_forked_child || omp_in_parallel() ? 1 : omp_get_max_threads();
#else
    return 1;
#endif
}

void mylib_cpu_parallel(int threads, int64_t n, void (*task)(void *context, int64_t i),
                        void *context)
{
    if (threads > n)
        threads = (int)n;
    if (threads <= 1) {
        for (int64_t i = 0; i < n; i++)
            task(context, i);
        return;
    }
#ifdef _OPENMP
    int flags = 0;
#pragma omp parallel num_threads(threads) reduction(| : flags)
    {
        /* Flags are the thread's own: a worker hands them over, the caller raises them. */
        const mylib_mode mode = mylib_enter_mode();
        int before = mylib_test_flags();
        mylib_clear_flags();
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < n; i++)
            task(context, i);
        flags |= mylib_test_flags();
        mylib_clear_flags();
        mylib_raise_flags(before);
        mylib_leave_mode(mode);
    }
    mylib_raise_flags(flags);
#endif
}
