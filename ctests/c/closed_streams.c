/* A program without standard streams, as daemons are: descriptors 0 to 2 are closed before the
 * first call of the library. Or its standard error is a pipe whose reader has ended.
 *
 *   closed_streams files CASE_FOLDER OUT_FOLDER   no file of the library takes one of them
 *   closed_streams log CASE_FOLDER OUT_FOLDER     a log on standard error does not go to a file of the program
 *   closed_streams pipe CASE_FOLDER OUT_FOLDER    a log on the pipe raises no SIGPIPE
 *   closed_streams limit CASE_FOLDER OUT_FOLDER   a file that may not grow raises no SIGXFSZ
 *   closed_streams leases CASE_FOLDER OUT_FOLDER  nor does the table of leases
 *
 * Exit status: 0 as promised; 1 not, with a sentence on what was standard error. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gpusched.h"
#include "gpusched_legacy.h"

/* Copy of the standard error with which the program started. */
enum { REPORT = 100 };
static int failures, files_forced, counting;

static void check(int right, const char *what, long number) {
  if (!right) dprintf(REPORT, "not as promised: %s (%ld)\n", what, number);
  failures += !right;
}

/* Replaces the system function, also in the library, which calls it with files that are not
 * closed yet. */
int fsync(int file) {
  if (counting) {
    __atomic_fetch_add(&files_forced, 1, __ATOMIC_SEQ_CST);
    for (int low = 0; low < 3; low++) {
      check(fcntl(low, F_GETFD) < 0, "a descriptor below 3 is open", low);
      check(write(low, "a line of the program\n", 22) < 0, "a line of the program went to a file", low);
    }
  }
  return (int)syscall(SYS_fsync, file);
}

static void close_streams(void) {
  check(dup2(2, REPORT) == REPORT, "dup2", 0);
  for (int low = 0; low < 3; low++) close(low);
}

/* Runs six steps of a shot on the model in `folder`, with a device number that does not exist,
 * which the library logs. */
static void call(const char *folder, const char *out) {
  char vel[4096], rho[4096], snap[4096], shot[4096];
  snprintf(vel, sizeof vel, "%s/vel.bin", folder);
  snprintf(rho, sizeof rho, "%s/rho.bin", folder);
  snprintf(snap, sizeof snap, "%s/", out);
  snprintf(shot, sizeof shot, "%s/shot.bin", out);
  cuda_3dfd_1order(vel, rho, snap, shot, 0, 1, 24, 20, 18, 12, 10, 10, 4, 7, 6, 7, 3, 2, 24, 20, 0.002f, 6, 0.001f, 1,
                   30, true, false, 3, 7);
}

static void succeed(const char *folder, const char *out) {
  call(folder, out);
  if (*sched_last_error()) dprintf(REPORT, "%s\n", sched_last_error());
  check(!*sched_last_error(), "the call succeeds", 0);
}

static int is_pending(int signal) {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, signal);
}

/* A SIGPIPE that the program has blocked and raised stays pending; another one does not. */
static void log_without_reader(const char *folder, const char *out) {
  int ends[2], received = 0;
  sigset_t broken;
  check(dup2(2, REPORT) == REPORT && pipe(ends) == 0 && dup2(ends[1], 2) == 2, "a pipe", 0);
  close(ends[0]), close(ends[1]);
  signal(SIGPIPE, SIG_DFL);
  succeed(folder, out);
  check(write(2, "", 0) == 0, "descriptor 2 is open", 2);
  sigemptyset(&broken), sigaddset(&broken, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken, NULL);
  check(!is_pending(SIGPIPE), "no SIGPIPE is pending after a call", SIGPIPE);
  succeed(folder, out);
  check(!is_pending(SIGPIPE), "no SIGPIPE is pending after a call that blocks it", SIGPIPE);
  raise(SIGPIPE);
  succeed(folder, out);
  check(is_pending(SIGPIPE), "the program's own SIGPIPE is pending", SIGPIPE);
  check(sigwait(&broken, &received) == 0 && received == SIGPIPE, "sigwait", received);
}

static void write_beyond_limit(const char *folder, const char *out) {
  struct rlimit limit = {16, 16};
  check(dup2(2, REPORT) == REPORT && setrlimit(RLIMIT_FSIZE, &limit) == 0, "a limit", 0);
  signal(SIGXFSZ, SIG_DFL);
  call(folder, out);
  check(*sched_last_error() != 0, "a record beyond the limit is refused", 0);
  char trace[4096];
  sched_config_t config = {.size = sizeof config, .trace_events = 1};
  sched_t *s = NULL;
  snprintf(trace, sizeof trace, "%s/trace.json", out);
  check(sched_create(&config, &s) == SCHED_OK, "a scheduler", 0);
  check(sched_trace_write(s, trace) == SCHED_E_IO, "a trace beyond the limit is refused", 0);
  check(sched_destroy(s) == SCHED_OK, "destroyed", 0);
}

static void lease_beyond_limit(void) {
  struct rlimit limit = {8192, 8192};
  sched_t *s = NULL;
  check(dup2(2, REPORT) == REPORT && setrlimit(RLIMIT_FSIZE, &limit) == 0, "a limit", 0);
  signal(SIGXFSZ, SIG_DFL);
  sched_status_t status = sched_create(NULL, &s);
  check(status == SCHED_E_IO, "a table beyond the limit is refused", status);
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  if (strcmp(argv[1], "pipe") == 0) {
    log_without_reader(argv[2], argv[3]);
    return failures != 0;
  }
  if (strcmp(argv[1], "limit") == 0) {
    write_beyond_limit(argv[2], argv[3]);
    return failures != 0;
  }
  if (strcmp(argv[1], "leases") == 0) {
    lease_beyond_limit();
    return failures != 0;
  }
  close_streams();
  if (strcmp(argv[1], "files") == 0) {
    counting = 1;
    succeed(argv[2], argv[3]);
    /* The record, two snapshots, and the folder after each. */
    check(files_forced >= 6, "files are forced to disk", files_forced);
  } else {
    sched_version();
    succeed(argv[2], argv[3]);
    char path[4096];
    for (int low = 0; low < 3; low++) {
      snprintf(path, sizeof path, "%s/host%d", argv[3], low);
      check(open(path, O_RDWR | O_CREAT | O_TRUNC, 0600) == low, "the program has the lowest descriptors", low);
    }
    succeed(argv[2], argv[3]);
    for (int low = 0; low < 3; low++) {
      struct stat found;
      check(fstat(low, &found) == 0 && found.st_size == 0, "the library wrote to a file of the program", low);
    }
  }
  return failures != 0;
}
