/* Preloaded: a `poll` with a limit of a tenth of a second or more creates the file POLL_MARK and
 * waits for ever. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

typedef int poll_fn(struct pollfd *, nfds_t, int);

int poll(struct pollfd *asked, nfds_t count, int milliseconds) {
  poll_fn *real;
  *(void **)&real = dlsym(RTLD_NEXT, "poll");
  if (milliseconds < 100) return real(asked, count, milliseconds);
  close(open(getenv("POLL_MARK"), O_WRONLY | O_CREAT, 0600));
  return real(asked, count, -1);
}
