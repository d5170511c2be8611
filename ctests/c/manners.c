/* The library as a guest: forks, the host's signals and cancellations, several users. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "check.h"

static int ran;

static int child_ends(void (*code)(sched_t *), sched_t *s) {
  int status = -1;
  pid_t child = fork();
  if (child == 0) {
    within(10);
    code(s);
    _exit(failures != 0);
  }
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Returns a scheduler that has run a task and runs another; the default scheduler has run one,
 * too. */
static sched_t *used(void) {
  sched_t *s = scheduler(2);
  OK(wait_for(s, submitted(s, counts, &ran)));
  OK(wait_for(NULL, submitted(NULL, counts, &ran)));
  submitted(s, lasts, &ran);
  until(&ran, 3);
  return s;
}

static void call_all(sched_t *s) {
  sched_task_desc_t desc = task(counts, &ran);
  sched_range_desc_t range = {.size = sizeof range, .end = 3, .run = count_piece};
  sched_task_info_t info = {.size = sizeof info};
  sched_stats_t stats = {.size = sizeof stats};
  sched_device_stats_t device_stats = {.size = sizeof device_stats};
  sched_device_info_t device = {.size = sizeof device};
  sched_progress_t progress = {.size = sizeof progress};
  size_t index = 0;
  uint32_t count = 0;
  sched_t *shared = NULL;
  sched_task_t id = 0;
  EXPECT(SCHED_E_FORKED, sched_submit(s, &desc, &id));
  EXPECT(SCHED_E_FORKED, sched_submit_range(s, &range, &id));
  EXPECT(SCHED_E_FORKED, wait_for(s, 1));
  EXPECT(SCHED_E_FORKED, sched_wait_any(s, &id, 1, SCHED_FOREVER, &index));
  EXPECT(SCHED_E_FORKED, sched_wait_all(s, SCHED_FOREVER));
  EXPECT(SCHED_E_FORKED, sched_wait_next(s, SCHED_FOREVER, &id));
  EXPECT(SCHED_E_FORKED, sched_cancel(s, 1));
  EXPECT(SCHED_E_FORKED, sched_release(s, 1));
  EXPECT(SCHED_E_FORKED, sched_task_info(s, 1, &info));
  EXPECT(SCHED_E_FORKED, sched_stats(s, &stats));
  EXPECT(SCHED_E_FORKED, sched_device_stats(s, 0, &device_stats));
  EXPECT(SCHED_E_FORKED, sched_device_count(s, &count));
  EXPECT(SCHED_E_FORKED, sched_device_info(s, 0, &device));
  EXPECT(SCHED_E_FORKED, sched_progress(s, &progress));
  EXPECT(SCHED_E_FORKED, sched_progress_callback(s, NULL, NULL, 0));
  EXPECT(SCHED_E_FORKED, sched_trace_write(s, "/dev/null"));
  EXPECT(SCHED_E_FORKED, sched_task_error(s, 1, NULL, 0, NULL));
  EXPECT(SCHED_E_FORKED, sched_drain(s, SCHED_FOREVER));
  EXPECT(SCHED_E_FORKED, sched_shutdown(s, SCHED_FOREVER));
  EXPECT(SCHED_E_FORKED, sched_submit(NULL, &desc, &id));
  EXPECT(SCHED_E_FORKED, sched_default(&shared));
  sched_t *own = scheduler(1);
  OK(wait_for(own, submitted(own, counts, &ran)));
  OK(sched_destroy(own));
}

static void fork_and_submit(void) {
  sched_t *s = used();
  CHECK(child_ends(call_all, s));
  OK(wait_for(s, submitted(s, counts, &ran)));
  OK(sched_destroy(s));
}

static void exit_child(sched_t *s) {
  (void)s;
  exit(failures != 0);
}

static void fork_and_exit(void) {
  sched_t *s = used();
  CHECK(child_ends(exit_child, s));
  OK(sched_destroy(s));
}

/* Child processes that a task forks, and that continue like their parent. */
struct forker { int children, bad, waits; };

static int32_t forks(const sched_exec_t *exec, void *user) {
  struct forker *forker = user;
  (void)exec;
  if (forker->waits) {
    struct forker inner = {0, 0, 0};
    wait_for(NULL, submitted(NULL, forks, &inner));
    forker->children += inner.children;
    forker->bad += inner.bad;
  }
  pid_t child = fork();
  if (child == 0) within(10);
  if (child > 0) {
    int status = -1;
    waitpid(child, &status, 0);
    forker->children += 1;
    forker->bad += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  return 0;
}

static void drop_forks(void *user) { forks(NULL, user); }

static void fork_in_task(void) {
  struct forker simple = {0, 0, 0}, nested = {0, 0, 1}, dropped = {0, 0, 0};
  sched_t *s = scheduler(2);
  for (int i = 0; i < 1000; i++) sched_release(s, submitted(s, counts, &ran));
  OK(wait_for(s, submitted(s, forks, &simple)));
  CHECK(simple.children == 1 && simple.bad == 0);
  OK(wait_for(NULL, submitted(NULL, forks, &nested)));
  CHECK(nested.children == 2 && nested.bad == 0);
  sched_task_desc_t desc = task(counts, &dropped);
  desc.drop = drop_forks;
  OK(wait_for(s, submit(s, desc)));
  OK(sched_destroy(s));
  /* The task itself has counted one. */
  CHECK(dropped.children == 2 && dropped.bad == 0);
}

static int here, elsewhere;
static pthread_t host;

static void handler(int signal) {
  (void)signal;
  add(pthread_equal(pthread_self(), host) ? &here : &elsewhere);
}

/* Blocked signals on the host's only thread would go to any thread that does not block them. */
static void signals_on_host_threads(void) {
  struct sigaction action = {.sa_handler = handler};
  host = pthread_self();
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGTERM, &action, NULL) == 0);
  sched_t *s = scheduler(2);
  for (int i = 0; i < 2; i++) submitted(s, lasts, &ran);
  until(&ran, 2);
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, SIGUSR1);
  sigaddset(&both, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &both, NULL);
  for (int i = 0; i < 20; i++) {
    kill(getpid(), i % 2 ? SIGUSR1 : SIGTERM);
    usleep(2000);
  }
  CHECK(here == 0 && elsewhere == 0);
  pthread_sigmask(SIG_UNBLOCK, &both, NULL);
  CHECK(here == 2 && elsewhere == 0);
  OK(sched_destroy(s));
}

/* Calls functions that open, read, write and sleep, all of them cancellation points. */
static void *cancelled(void *folder) {
  char rates[300], trace[300];
  snprintf(rates, sizeof rates, "%s/rates", (char *)folder);
  snprintf(trace, sizeof trace, "%s/trace", (char *)folder);
  pthread_cancel(pthread_self());
  sched_config_t config = {.size = sizeof config, .devices = "cpu", .trace_events = 100};
  config.rates_path = rates;
  sched_t *s = NULL;
  OK(sched_create(&config, &s));
  sched_task_desc_t desc = task(counts, &ran);
  desc.work = 1;
  desc.device_bytes = 1;
  OK(wait_for(s, submit(s, desc)));
  OK(wait_for(NULL, submitted(NULL, counts, &ran)));
  OK(sched_trace_write(s, trace));
  OK(sched_destroy(s));
  add(&here);
  CHECK(unlink(rates) == 0 && unlink(trace) == 0);
  pthread_testcancel();
  return NULL;
}

static void pthread_cancel_in_a_call(void) {
  char folder[] = "cancelled-XXXXXX";
  pthread_t thread;
  void *returned = NULL;
  CHECK(mkdtemp(folder) != NULL);
  setenv("GPUSCHED_LOG", "info:/dev/null", 1);
  CHECK(pthread_create(&thread, NULL, cancelled, folder) == 0);
  CHECK(pthread_join(thread, &returned) == 0);
  CHECK(here == 1 && returned == PTHREAD_CANCELED);
  /* Nothing is left in it. */
  CHECK(rmdir(folder) == 0);
}

/* Two libraries in one process, each with its handle to the default scheduler. */
static void two_libraries(void) {
  sched_t *first = NULL, *second = NULL;
  sched_task_desc_t desc = task(lasts, &ran);
  OK(sched_default(&first));
  OK(sched_default(&second));
  desc.flags = SCHED_TASK_ORDERED;
  sched_task_t id = submit(second, desc), next = 0;
  until(&ran, 1);
  submitted(first, counts, &ran);
  EXPECT(SCHED_PENDING, sched_drain(first, 0));
  OK(sched_destroy(first));
  EXPECT(SCHED_PENDING, sched_wait(second, id, 10000000));
  submitted(second, counts, &ran);
  OK(sched_cancel(second, id));
  OK(sched_wait_next(second, SCHED_FOREVER, &next));
  CHECK(next == id);
  OK(sched_destroy(second));
}

static sched_t *both[2];
static int levels[4] = {0, 1, 2, 3}, begun;

/* Each level waits for two tasks of another scheduler than its own. */
static int32_t waits_across(const sched_exec_t *exec, void *user) {
  int level = *(int *)user;
  sched_t *other = both[level % 2];
  (void)exec;
  add(&ran);
  for (int i = 0; level > 0 && i < 2; i++)
    OK(wait_for(other, submit_work(other, waits_across, &levels[level - 1], i)));
  return 0;
}

/* Waits for a task that is queued behind the one that destroys. */
static int32_t waits_behind(const sched_exec_t *exec, void *user) {
  (void)exec;
  add(&begun);
  until(&begun, 2);
  return wait_for(both[0], submitted(both[0], counts, user));
}

static int32_t destroys_other(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  add(&begun);
  until(&begun, 2);
  return sched_destroy(both[1]);
}

static void waits_across_schedulers(void) {
  sched_task_t ids[8];
  for (int i = 0; i < 2; i++) both[i] = scheduler(1);
  for (int i = 0; i < 8; i++) ids[i] = submitted(both[1 - i % 2], waits_across, &levels[2 + i % 2]);
  for (int i = 0; i < 8; i++) OK(wait_for(both[1 - i % 2], ids[i]));
  CHECK(ran == 4 * (15 + 7));
  ran = 0;
  sched_task_t first = submitted(both[1], waits_behind, &ran);
  OK(wait_for(both[0], submitted(both[0], destroys_other, NULL)));
  CHECK(ran == 1);
  EXPECT(SCHED_E_STALE, wait_for(both[1], first));
  OK(sched_destroy(both[0]));
}

static void *works(void *nothing) {
  sched_t *s = scheduler(2);
  OK(wait_for(s, submit_work(s, counts, &ran, 1)));
  OK(sched_destroy(s));
  return nothing;
}

static void thread_with_little_stack(void) {
  pthread_attr_t little;
  pthread_t thread;
  CHECK(pthread_attr_init(&little) == 0 && pthread_attr_setstacksize(&little, 128 << 10) == 0);
  CHECK(pthread_create(&thread, &little, works, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0 && ran == 1);
}

/* Files that a configuration names are in the folder in which the scheduler was created. */
static void chdir_after_create(void) {
  sched_config_t config = {.size = sizeof config, .devices = "cpu", .rates_path = "cache/rates"};
  sched_t *s = NULL;
  CHECK(mkdir("elsewhere", 0700) == 0);
  OK(sched_create(&config, &s));
  CHECK(chdir("elsewhere") == 0);
  for (int i = 0; i < 3; i++) OK(wait_for(s, submit_work(s, counts, &ran, 1)));
  OK(sched_destroy(s));
  CHECK(access("cache", F_OK) != 0);
  CHECK(access("../cache/rates", F_OK) == 0);
}

int main(int argc, char **argv) {
  static const struct test_case cases[] = {
      CASE(fork_and_submit), CASE(fork_and_exit), CASE(fork_in_task), CASE(signals_on_host_threads),
      CASE(pthread_cancel_in_a_call), CASE(two_libraries), CASE(waits_across_schedulers),
      CASE(thread_with_little_stack), CASE(chdir_after_create), {NULL, NULL}};
  (void)argc;
  return run_case(argv, cases);
}
