/*
 * threads.c - the threads that compute beside the callers: one pool for the whole process.
 *
 * A caller opens a job, takes tasks of it like everyone else, closes it when none is left, and
 * waits for those who are still at theirs.  Workers join the job that has waited longest; a caller
 * who finds them busy computes alone, so nobody ever waits for a thread to become free, and callers
 * at the same time share the workers instead of having some each.  Workers are made when first
 * needed, as many as there can be, and stay; they are idle without a job, after they have looked
 * out for the next one for a moment.
 *
 * A child made by fork() has none of them, and makes its own.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "flags.h"
#include "internal.h"

/* The most threads of one call; beyond, memory is the limit anyway. */
#define MAX_THREADS 256

/* Whoever waits goes on looking for so long before it sleeps: waking takes as long. */
#define SPIN_NS 100000

/* Waits for so long before it tries again, after no thread could be made. */
#define RETRY_NS 1000000000

typedef struct job {
    mylib_task *task;
    void *context;
    int64_t n;
    _Atomic int64_t next; /* the first task that nobody has taken */
    atomic_int active;    /* workers; counted down as the last thing that a worker does with it */
    int wanted;           /* more workers */
    int joined;           /* workers so far */
    int flags;            /* that the workers' tasks raised */
    struct job *later;    /* the next one that is open */
} job;

/* The lock is for all of this, and for wanted, joined and flags; the atomics may be read without.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_opened = PTHREAD_COND_INITIALIZER, has_ended = PTHREAD_COND_INITIALIZER;
static job *open_jobs; /* which workers may join, the oldest first */
static atomic_int is_open;
static int workers, sleeping_workers, sleeping_callers;
static int64_t retry_ns; /* when a thread may be made again */

static _Thread_local int is_worker;

/* ---- How many ------------------------------------------------------------------------------ */

/* The processors that this process may use: its affinity, and a container's share of their time. */
static int processors(void)
{
    long count = 0;
#ifdef __linux__
    static const char *const files[] = {"/sys/fs/cgroup/cpu.max",
                                        "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
                                        "/sys/fs/cgroup/cpu/cpu.cfs_period_us"};
    long numbers[4] = {0, 0, 0, 0}; /* quota and period of version 2 of cgroups, and of 1 */
    unsigned long set[8192 / (8 * sizeof(unsigned long))] = {0};
    if (sched_getaffinity(0, sizeof set, (cpu_set_t *)set) == 0)
        count = CPU_COUNT_S(sizeof set, (cpu_set_t *)set);
    for (int k = 0; k < 3; k++) {
        FILE *file = fopen(files[k], "re");
        char line[64] = "", *rest = line;
        if (file == NULL)
            continue;
        if (fgets(line, sizeof line, file) != NULL)
            numbers[k == 0 ? 0 : 1 + k] = strtol(line, &rest, 10);
        if (k == 0)
            numbers[1] = strtol(rest, NULL, 10);
        fclose(file);
    }
    for (int k = 0; k < 4; k += 2)
        if (numbers[k] > 0 && numbers[k + 1] > 0 && numbers[k] / numbers[k + 1] < count)
            count = (numbers[k] + numbers[k + 1] - 1) / numbers[k + 1];
#endif
    if (count < 1)
        count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count < MAX_THREADS ? (int)count : MAX_THREADS;
}

static atomic_int chosen, available; /* 0: not known yet */

/* OMP_NUM_THREADS, of which a list's first number counts, or all processors. */
static int default_threads(void)
{
    const char *text = getenv("OMP_NUM_THREADS");
    long asked = text != NULL ? strtol(text, NULL, 10) : 0;
    if (asked < 1)
        return atomic_load(&available);
    return asked < MAX_THREADS ? (int)asked : MAX_THREADS;
}

int mylib_cpu_threads(void)
{
    int threads = atomic_load_explicit(&chosen, memory_order_acquire);
    if (is_worker)
        return 1;
    if (threads == 0) {
        atomic_store(&available, processors());
        int expected = 0;
        threads = default_threads();
        if (!atomic_compare_exchange_strong(&chosen, &expected, threads))
            threads = expected;
    }
    return threads;
}

mylib_status mylib_set_threads(int threads)
{
    if (threads < 0)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "%d threads: expected 1 or more, or 0", threads);
    (void)mylib_cpu_threads();
    atomic_store(&chosen, threads == 0            ? default_threads()
                          : threads < MAX_THREADS ? threads
                                                  : MAX_THREADS);
    return MYLIB_OK;
}

/* ---- Waiting ------------------------------------------------------------------------------- */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Looks for a moment whether *value becomes 0, or not 0; never with more threads than processors.
 */
static void look_out(atomic_int *value, int for_zero)
{
    if (atomic_load(&chosen) > atomic_load(&available))
        return;
    for (int64_t k = 1, end = now_ns() + SPIN_NS; k % 64 != 0 || now_ns() < end; k++) {
        if ((atomic_load_explicit(value, memory_order_acquire) == 0) == for_zero)
            return;
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("isb");
#endif
    }
}

/* ---- Jobs ---------------------------------------------------------------------------------- */

static void run_tasks(job *j, int thread)
{
    int64_t i;
    while ((i = atomic_fetch_add(&j->next, 1)) < j->n)
        j->task(j->context, thread, i);
}

/* No worker joins it any more; the lock is held. */
static void close_job(const job *j)
{
    job **at = &open_jobs;
    while (*at != NULL && *at != j)
        at = &(*at)->later;
    if (*at != NULL)
        *at = j->later;
    atomic_store(&is_open, open_jobs != NULL);
}

/* The oldest job with tasks that nobody has taken; the lock is held. */
static job *find_job(void)
{
    while (open_jobs != NULL && atomic_load(&open_jobs->next) >= open_jobs->n)
        close_job(open_jobs);
    return open_jobs;
}

static void *work(void *unused)
{
    (void)unused;
    (void)mylib_enter_mode(); /* a thread begins in the mode of its maker */
    is_worker = 1;
    pthread_mutex_lock(&lock);
    for (;;) {
        job *j = find_job();
        if (j == NULL) {
            pthread_mutex_unlock(&lock);
            look_out(&is_open, 0);
            pthread_mutex_lock(&lock);
            if ((j = find_job()) == NULL) {
                sleeping_workers++;
                pthread_cond_wait(&has_opened, &lock);
                sleeping_workers--;
                continue;
            }
        }
        int thread = ++j->joined;
        atomic_fetch_add(&j->active, 1);
        if (--j->wanted == 0)
            close_job(j);
        pthread_mutex_unlock(&lock);
        /* Flags are the thread's own: a worker hands them over, the caller raises them. */
        mylib_clear_flags();
        run_tasks(j, thread);
        int flags = mylib_test_flags();
        pthread_mutex_lock(&lock);
        j->flags |= flags;
        if (atomic_fetch_sub(&j->active, 1) == 1 && sleeping_callers > 0)
            pthread_cond_broadcast(&has_ended);
    }
    return NULL;
}

/* Makes workers until there are so many, or no more can be had; the lock is held. */
static void make_workers(int wanted)
{
    static const int own[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    if (workers >= wanted || now_ns() < retry_ns || pthread_attr_init(&attributes) != 0)
        return;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    /* Signals are for the program's own threads, except those that a thread brings on itself. */
    sigfillset(&all);
    for (size_t k = 0; k < sizeof own / sizeof *own; k++)
        sigdelset(&all, own[k]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; workers < wanted; workers++) {
        if (pthread_create(&thread, &attributes, work, NULL) != 0) {
            retry_ns = now_ns() + RETRY_NS;
            break;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

static void open_job(job *j)
{
    job **at = &open_jobs;
    pthread_mutex_lock(&lock);
    make_workers(j->wanted);
    while (*at != NULL)
        at = &(*at)->later;
    *at = j;
    atomic_store(&is_open, 1);
    if (j->wanted >= sleeping_workers)
        pthread_cond_broadcast(&has_opened);
    else
        for (int k = 0; k < j->wanted; k++)
            pthread_cond_signal(&has_opened);
    pthread_mutex_unlock(&lock);
}

static void end_job(job *j)
{
    pthread_mutex_lock(&lock);
    close_job(j);
    pthread_mutex_unlock(&lock);
    if (atomic_load(&j->active) != 0)
        look_out(&j->active, 1);
    if (atomic_load(&j->active) != 0) {
        pthread_mutex_lock(&lock);
        sleeping_callers++;
        while (atomic_load(&j->active) != 0)
            pthread_cond_wait(&has_ended, &lock);
        sleeping_callers--;
        pthread_mutex_unlock(&lock);
    }
}

void mylib_cpu_parallel(int threads, int64_t n, mylib_task *task, void *context)
{
    if (threads > n)
        threads = (int)n;
    if (threads <= 1) {
        for (int64_t i = 0; i < n; i++)
            task(context, 0, i);
        return;
    }
    job j = {.task = task, .context = context, .n = n, .wanted = threads - 1};
    open_job(&j);
    run_tasks(&j, 0);
    end_job(&j);
    mylib_raise_flags(j.flags);
}

/* ---- fork ---------------------------------------------------------------------------------- */

static void before_fork(void) { pthread_mutex_lock(&lock); }

static void after_fork(void) { pthread_mutex_unlock(&lock); }

/* The other threads, and what they waited for, are not in the child. */
static void in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&has_opened, NULL);
    pthread_cond_init(&has_ended, NULL);
    open_jobs = NULL;
    atomic_store(&is_open, 0);
    workers = sleeping_workers = sleeping_callers = 0;
    retry_ns = 0;
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}
