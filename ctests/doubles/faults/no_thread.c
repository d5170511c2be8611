/* Preloaded: `pthread_create` fails FAULT_COUNT times, from call FAULT_AT on, but not for the
 * virtual driver. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*code)(void *), void *user) {
  static int count;
  Dl_info caller = {0};
  const char *name = dladdr(__builtin_return_address(0), &caller) ? caller.dli_fname : "";
  if (!strstr(name, "/libcuda.") && !strstr(name, "/libnvidia-ml.")) {
    int past = __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST) - atoi(getenv("FAULT_AT"));
    if (past >= 0 && past < atoi(getenv("FAULT_COUNT"))) {
      fprintf(stderr, "refused\n");
      return EAGAIN;
    }
  }
  create_fn *real;
  *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
  return real(thread, attributes, code, user);
}
