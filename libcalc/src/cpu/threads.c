/*
 * threads.c - how many OpenMP threads a call may use.
 *
 * A child made by fork() inherits OpenMP's pool without its threads: entering a parallel region
 * there can wait for ever.  So a child computes on one thread.
 */
#include <pthread.h>

#ifdef _OPENMP
#include <omp.h>
#endif

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
