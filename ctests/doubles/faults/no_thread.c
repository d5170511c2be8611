/* Preloaded: the program gets no thread of its own from the one on that FAULT_AT counts from 1, FAULT_COUNT times. Those that
 * the virtual driver starts are not counted. */
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
  Dl_info caller;
  if (!dladdr(__builtin_return_address(0), &caller) || !strstr(caller.dli_fname, "libcuda")) {
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
