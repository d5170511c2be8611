/* What the library leaves alone: the host's signals, and the other users of its scheduler. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>

#include "manners.h"

static int ran, here, elsewhere;
static pthread_t host;

static void handler(int signal) {
  (void)signal;
  __atomic_fetch_add(pthread_equal(pthread_self(), host) ? &here : &elsewhere, 1, __ATOMIC_SEQ_CST);
}

/* A signal to the process is handled on a thread of the host, also while it sleeps in a wait. */
static void signals_on_host_threads(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  host = pthread_self();
  check(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGTERM, &action, NULL) == 0, "handlers");
  sched_t *s = scheduler(2);
  sched_task_t one = submitted(s, lasts, &ran), two = submitted(s, lasts, &ran);
  until(&ran, 2);
  /* Blocked here, they would go to any other thread that hears them. */
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, SIGUSR1);
  sigaddset(&both, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &both, NULL);
  for (int i = 0; i < 20; i++) {
    kill(getpid(), i % 2 ? SIGUSR1 : SIGTERM);
    usleep(2000);
  }
  check(here == 0 && elsewhere == 0, "nobody else hears them");
  pthread_sigmask(SIG_UNBLOCK, &both, NULL);
  check(here == 2 && elsewhere == 0, "the host hears them");
  sched_cancel(s, one);
  sched_cancel(s, two);
  check(sched_destroy(s) == SCHED_OK, "destroy");
}

/* Two libraries that know nothing of each other. */
static void two_libraries(void) {
  sched_t *first = NULL, *second = NULL;
  sched_task_t id = 0;
  sched_task_desc_t desc = task(lasts, &ran);
  check(sched_default(&first) == SCHED_OK && sched_default(&second) == SCHED_OK, "a handle for each");
  desc.flags = SCHED_TASK_ORDERED;
  check(sched_submit(second, &desc, &id) == SCHED_OK, "a task of the second");
  until(&ran, 1);
  check(sched_wait(first, submitted(first, counts, &ran), 0) >= 0, "a task of the first");
  check(sched_drain(first, 0) == SCHED_PENDING, "the first drains");
  check(sched_destroy(first) == SCHED_OK, "the first ends");
  check(sched_wait(second, id, 10000000) == SCHED_PENDING, "the second's task runs on");
  check(sched_wait(second, submitted(second, counts, &ran), 0) >= 0, "and another can be submitted");
  check(sched_cancel(second, id) == SCHED_OK, "cancel");
  sched_task_t next = 0;
  check(sched_wait_next(second, SCHED_FOREVER, &next) == SCHED_OK && next == id, "its order is its own");
  check(sched_destroy(second) == SCHED_OK, "the second ends");
}

/* Calls much of the library that opens, reads, writes and sleeps, with a cancel that waits for such a point. */
static void *cancelled(void *folder) {
  char rates[300], trace[300];
  snprintf(rates, sizeof rates, "%s/rates", (char *)folder);
  snprintf(trace, sizeof trace, "%s/trace", (char *)folder);
  pthread_cancel(pthread_self());
  sched_config_t config;
  memset(&config, 0, sizeof config);
  config.size = sizeof config;
  config.devices = "cpu";
  config.trace_events = 100;
  config.rates_path = rates;
  sched_t *s = NULL;
  check(sched_create(&config, &s) == SCHED_OK, "create");
  sched_task_desc_t desc = task(counts, &ran);
  sched_task_t id = 0;
  desc.work = 1;
  desc.device_bytes = 1;
  check(sched_submit(s, &desc, &id) == SCHED_OK && sched_wait(s, id, SCHED_FOREVER) == SCHED_OK, "a task");
  check(sched_wait(NULL, submitted(NULL, counts, &ran), SCHED_FOREVER) == SCHED_OK, "the default scheduler");
  check(sched_trace_write(s, trace) == SCHED_OK, "a trace");
  check(sched_destroy(s) == SCHED_OK, "destroy");
  __atomic_fetch_add(&here, 1, __ATOMIC_SEQ_CST);
  check(access(rates, R_OK) == 0 && access(trace, R_OK) == 0, "the files are there");
  unlink(rates);
  unlink(trace);
  pthread_testcancel();
  return NULL;
}

static void pthread_cancel_in_a_call(void) {
  char folder[] = "cancelled-XXXXXX";
  pthread_t thread;
  void *returned = NULL;
  check(mkdtemp(folder) != NULL, "a folder");
  setenv("GPUSCHED_LOG", "info:/dev/null", 1);
  check(pthread_create(&thread, NULL, cancelled, folder) == 0, "a thread");
  check(pthread_join(thread, &returned) == 0, "join");
  check(here == 1 && returned == PTHREAD_CANCELED, "it was cancelled after its calls");
  check(rmdir(folder) == 0, "nothing is left in the folder");
}

int main(int argc, char **argv) {
  const struct named cases[] = {
      {"signals_on_host_threads", signals_on_host_threads},
      {"two_libraries", two_libraries},
      {"pthread_cancel_in_a_call", pthread_cancel_in_a_call},
  };
  return run_case(argc, argv, cases, sizeof cases / sizeof *cases);
}
