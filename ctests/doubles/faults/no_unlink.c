/* Preloaded: `unlink` of an existing file whose path ends with FAULT_PATH fails FAULT_COUNT
 * times. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int unlink_fn(const char *);

int unlink(const char *path) {
  static int count;
  const char *end = getenv("FAULT_PATH");
  size_t length = strlen(path), tail = strlen(end);
  if (length >= tail && !strcmp(path + length - tail, end) && !access(path, F_OK)) {
    if (__atomic_fetch_add(&count, 1, __ATOMIC_SEQ_CST) < atoi(getenv("FAULT_COUNT"))) {
      errno = EIO;
      return -1;
    }
  }
  unlink_fn *real;
  *(void **)&real = dlsym(RTLD_NEXT, "unlink");
  return real(path);
}
