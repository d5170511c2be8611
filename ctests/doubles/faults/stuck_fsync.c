/* Preloaded: once the process has a handler of SIGINT, `fsync` creates the file FAULT_STUCK and does
 * not return. The command then forces only states of shots to disk, and at the end the survey's
 * description. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

typedef int fsync_fn(int);

int fsync(int file) {
  struct sigaction handler;
  if (sigaction(SIGINT, NULL, &handler) == 0 && handler.sa_handler != SIG_DFL) {
    close(open(getenv("FAULT_STUCK"), O_WRONLY | O_CREAT, 0600));
    for (;;) pause();
  }
  fsync_fn *real;
  *(void **)&real = dlsym(RTLD_NEXT, "fsync");
  return real(file);
}
