/* Preloaded: once the file FAULT_ARMED exists, `fsync` creates the file FAULT_STUCK and does not
 * return. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

typedef int fsync_fn(int);

int fsync(int file) {
  if (access(getenv("FAULT_ARMED"), F_OK) == 0) {
    close(open(getenv("FAULT_STUCK"), O_WRONLY | O_CREAT, 0600));
    for (;;) pause();
  }
  fsync_fn *real;
  *(void **)&real = dlsym(RTLD_NEXT, "fsync");
  return real(file);
}
