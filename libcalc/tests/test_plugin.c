/*
 * A plugin that links the library, maybe statically, is closed while threads of the library wait in
 * its code.
 */
#include "test.h"

#include <dlfcn.h>
#include <unistd.h>

int main(void)
{
    test_begin("plugin");
    for (int i = 0; i < 3; i++) {
        void *plugin = dlopen(TEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
        if (plugin == NULL)
            test_give_up(dlerror());
        int (*compute)(void) = (int (*)(void))dlsym(plugin, "compute");
        if (compute == NULL)
            test_give_up(dlerror());
        CHECK_OK((mylib_status)compute());
        CHECK(dlclose(plugin) == 0, "it cannot be closed");
        (void)usleep(10000); /* the threads go on, and fall asleep */
    }
    return test_end();
}
