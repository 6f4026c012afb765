/*
 * A plugin that links the library, maybe statically: it is closed while threads of the library wait
 * in its code; and a new thread, for which there is no memory, calls it.  This program does not
 * link the library itself.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_int has_no_memory;

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern void *__libc_malloc(size_t nbytes);
extern void *__libc_calloc(size_t count, size_t nbytes);
void *malloc(size_t nbytes) { return has_no_memory ? NULL : __libc_malloc(nbytes); }
void *calloc(size_t n, size_t nbytes) { return has_no_memory ? NULL : __libc_calloc(n, nbytes); }
#endif

static int (*compute)(void), (*fail)(void);

static void *fail_without_memory(void *is_right)
{
    has_no_memory = 1;
    *(int *)is_right = fail();
    has_no_memory = 0;
    return NULL;
}

int main(void)
{
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        int is_right = 0;
        void *plugin = dlopen(TEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
        if (plugin == NULL || (compute = (int (*)(void))dlsym(plugin, "compute")) == NULL ||
            (fail = (int (*)(void))dlsym(plugin, "fail")) == NULL) {
            puts(dlerror());
            return 1;
        }
        if (pthread_create(&thread, NULL, fail_without_memory, &is_right) != 0)
            return 1;
        pthread_join(thread, NULL);
        if (!is_right || !compute() || dlclose(plugin) != 0) {
            printf("plugin: failed in round %d\n", i);
            return 1;
        }
        (void)usleep(10000); /* the threads go on, and fall asleep */
    }
    return 0;
}
