/* A limit of time that a call that hangs runs into, and a process that the machine stops for a while does not: a second of
 * the clock counts as one however long the process was kept from running, as ticks that come meanwhile are one signal. */
#ifndef WITHIN_H
#define WITHIN_H

#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t seconds_left;

static void ticks(int signal) {
  (void)signal;
  if (--seconds_left > 0) return;
  static const char words[] = "out of time\n";
  _exit(write(2, words, sizeof words - 1) < 0 ? 2 : 142);
}

/* The process ends with 142 after so many seconds; a child of fork has to ask anew. */
static void within(int seconds) {
  struct sigaction action;
  struct itimerval every = {{1, 0}, {1, 0}};
  memset(&action, 0, sizeof action);
  action.sa_handler = ticks;
  action.sa_flags = SA_RESTART;
  seconds_left = seconds;
  if (sigaction(SIGALRM, &action, NULL) != 0 || setitimer(ITIMER_REAL, &every, NULL) != 0) _exit(2);
}

#endif
