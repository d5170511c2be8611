/* Any thread may use what a callback was given until the callback returns; then it is stale. */
#define _GNU_SOURCE
#include <pthread.h>

#include "check.h"

typedef const sched_exec_t *shown_t;

static void show(shown_t *place, shown_t exec) { __atomic_store_n(place, exec, __ATOMIC_SEQ_CST); }

static shown_t see(shown_t *place) { return __atomic_load_n(place, __ATOMIC_SEQ_CST); }

struct stay {
  shown_t exec;
  int begun, go;
};

static int32_t stays(const sched_exec_t *exec, void *user) {
  struct stay *stay = user;
  show(&stay->exec, exec);
  add(&stay->begun);
  until(&stay->go, 1);
  return sched_exec_cancelled(exec);
}

static void used_by_another_thread(void) {
  sched_t *s = scheduler(2);
  struct stay both[2] = {{0}, {0}};
  sched_task_t ids[2];
  sched_task_info_t info = {.size = sizeof info};
  for (int i = 0; i < 2; i++) ids[i] = submitted(s, stays, &both[i]);
  for (int i = 0; i < 2; i++) until(&both[i].begun, 1);
  shown_t exec = see(&both[0].exec), other = see(&both[1].exec);
  CHECK(sched_exec_cancelled(exec) == 0);
  OK(sched_exec_report(exec, 0.25));
  OK(sched_task_info(s, ids[0], &info));
  CHECK(info.progress == 0.25);
  OK(sched_cancel(s, ids[0]));
  CHECK(sched_exec_cancelled(exec) == 1 && sched_exec_cancelled(other) == 0);
  add(&both[0].go);
  EXPECT(SCHED_CANCELLED, wait_for(s, ids[0]));
  EXPECT(SCHED_E_STALE, sched_exec_cancelled(exec));
  CHECK(sched_exec_cancelled(other) == 0);
  add(&both[1].go);
  OK(wait_for(s, ids[1]));
  OK(sched_destroy(s));
}

static int32_t shows(const sched_exec_t *exec, void *user) {
  show(user, exec);
  return 0;
}

static shown_t last;
static int asked, over;

static void *asks(void *user) {
  while (!get(&over)) {
    shown_t exec = see(&last);
    int32_t answer = sched_exec_cancelled(exec);
    CHECK(answer == 0 || answer == (exec ? SCHED_E_STALE : SCHED_E_ARGUMENT));
    add(&asked);
  }
  return user;
}

static void used_while_it_returns(void) {
  sched_t *s = scheduler(2);
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, asks, NULL);
  for (int round = 0; round < 2000 || get(&asked) < 2000; round++) {
    sched_task_t id = submitted(s, shows, &last);
    OK(wait_for(s, id));
    OK(sched_release(s, id));
  }
  add(&over);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  OK(sched_destroy(s));
}

static int32_t returns(const sched_exec_t *exec, void *user) {
  (void)exec;
  return *(int32_t *)user;
}

/* Numbers of errno, of CUDA and of a program's own are errors, and never a code that cancels or
 * retries. */
static void returns_a_number_of_its_own(void) {
  sched_t *s = scheduler(1);
  for (int32_t number = -5000; number <= 5000; number++) {
    if (number == 0) continue;
    sched_task_t id = submitted(s, returns, &number);
    EXPECT(SCHED_E_CALLBACK, wait_for(s, id));
    OK(sched_release(s, id));
  }
  OK(sched_destroy(s));
}

static int32_t says_why(const sched_exec_t *exec, void *user) {
  EXPECT(SCHED_E_ARGUMENT, sched_exec_fail(exec, NULL));
  EXPECT(SCHED_E_CALLBACK, sched_exec_fail(exec, "an early guess"));
  int32_t status = sched_exec_fail(exec, "no trace 17 in shots.su");
  return *(int *)user ? status : 0;
}

static void says_why_it_fails(void) {
  sched_t *s = scheduler(1);
  for (int fails = 0; fails < 2; fails++) {
    for (int planned = 0; planned < 2; planned++) {
      sched_task_t id = submit_work(s, says_why, &fails, planned);
      EXPECT(fails ? SCHED_E_CALLBACK : SCHED_OK, wait_for(s, id));
      char text[99] = "";
      sched_task_error(s, id, text, sizeof text, NULL);
      CHECK(!strcmp(text, fails ? "the task's callback failed: no trace 17 in shots.su" : ""));
    }
  }
  EXPECT(SCHED_E_STALE, sched_exec_fail((const sched_exec_t *)&s, "late"));
  OK(sched_destroy(s));
}

static int32_t says_why_first(const sched_exec_t *exec, void *user) {
  EXPECT(SCHED_E_CALLBACK, sched_exec_fail(exec, "NaN in trace 17"));
  return *(int32_t *)user;
}

/* The statuses that select a retry keep the message, too. Short of memory or resources, a task
 * pauses for 21 seconds. */
static void says_why_and_returns_a_status(void) {
  int32_t all[] = {SCHED_E_RESULT, SCHED_E_DEVICE, SCHED_E_RESOURCES, SCHED_E_MEMORY};
  sched_t *s[4];
  sched_task_t ids[4];
  for (int i = 0; i < 4; i++) {
    s[i] = scheduler(1);
    ids[i] = submitted(s[i], says_why_first, &all[i]);
  }
  for (int i = 0; i < 4; i++) {
    char text[999] = "";
    EXPECT(all[i], wait_for(s[i], ids[i]));
    sched_task_error(s[i], ids[i], text, sizeof text, NULL);
    if (!CHECK(strstr(text, "NaN in trace 17") != NULL)) fprintf(stderr, "%s\n", text);
    OK(sched_destroy(s[i]));
  }
}

int main(int argc, char **argv) {
  static const struct test_case cases[] = {
      CASE(used_by_another_thread), CASE(used_while_it_returns),
      CASE(returns_a_number_of_its_own), CASE(says_why_it_fails),
      CASE(says_why_and_returns_a_status), {NULL, NULL}};
  (void)argc;
  return run_case(argv, cases);
}
