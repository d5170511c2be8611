#include <gpusched.h>
#include <stdio.h>

int main(void) {
    printf("gpusched %s\n", sched_version());
    return sched_destroy(NULL) == SCHED_OK ? 0 : 1;
}
