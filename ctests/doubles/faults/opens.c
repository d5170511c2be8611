/* Preloaded: appends a line to the file FAULT_MARK for each opening of a file whose path ends with
 * FAULT_PATH ("open PATH"), and for each lock of a folder ("lock", "share" or "unlock").
 *
 * The first FAULT_COUNT of these openings fail with the errno FAULT_HOW. With FAULT_FROM set, that
 * file gets the name FAULT_TO before the first exclusive lock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

typedef int open_fn(const char *, int, ...);
typedef int flock_fn(int, int);

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

static void mark(const char *what, const char *path) {
  open_fn *opens;
  *(void **)&opens = real("open");
  char line[PATH_MAX + 16];
  int length = snprintf(line, sizeof line, "%s%s\n", what, path);
  int fd = opens(getenv("FAULT_MARK"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0 || write(fd, line, length) != length) abort();
  close(fd);
}

static int opened(const char *name, const char *path, int flags, mode_t mode) {
  static int count;
  const char *end = getenv("FAULT_PATH");
  size_t length = strlen(path), tail = strlen(end);
  if (length >= tail && !strcmp(path + length - tail, end)) {
    mark("open ", path);
    if (__atomic_fetch_add(&count, 1, __ATOMIC_SEQ_CST) < atoi(getenv("FAULT_COUNT"))) {
      errno = atoi(getenv("FAULT_HOW"));
      return -1;
    }
  }
  open_fn *opens;
  *(void **)&opens = real(name);
  return opens(path, flags, mode);
}

/* The C library's two names of one function. */
#define OPEN(name)                                                                                 \
  int name(const char *path, int flags, ...) {                                                     \
    va_list more;                                                                                  \
    va_start(more, flags);                                                                         \
    mode_t mode = flags & O_CREAT ? va_arg(more, int) : 0;                                         \
    va_end(more);                                                                                  \
    return opened(#name, path, flags, mode);                                                       \
  }
OPEN(open)
OPEN(open64)

int flock(int fd, int operation) {
  static int begun;
  struct stat found;
  int what = operation & ~LOCK_NB;
  const char *from = getenv("FAULT_FROM");
  if (from && what == LOCK_EX && !__atomic_exchange_n(&begun, 1, __ATOMIC_SEQ_CST)) {
    if (rename(from, getenv("FAULT_TO"))) abort();
  }
  flock_fn *locks;
  *(void **)&locks = real("flock");
  int refused = locks(fd, operation);
  if (!refused && !fstat(fd, &found) && S_ISDIR(found.st_mode))
    mark(what == LOCK_EX ? "lock" : what == LOCK_SH ? "share" : "unlock", "");
  return refused;
}
