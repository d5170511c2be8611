/* Tasks that submit tasks, and wait for them. One slot, so that who waits is in the way of what it waits for. */
#define _GNU_SOURCE
#include "manners.h"

static sched_t *s;
static int ran;
static double work; /* what a task states */

static int32_t depth[4] = {0, 1, 2, 3};

static int32_t waits(const sched_exec_t *exec, void *user) {
  int32_t level = *(int32_t *)user;
  (void)exec;
  __atomic_fetch_add(&ran, 1, __ATOMIC_SEQ_CST);
  for (int i = 0; level > 0 && i < 2; i++) {
    sched_task_desc_t desc = task(waits, &depth[level - 1]);
    sched_task_t id = 0;
    desc.work = work;
    if (sched_submit(s, &desc, &id) != SCHED_OK || sched_wait(s, id, SCHED_FOREVER) != SCHED_OK) {
      check(0, "a wait in a task");
      return 1;
    }
  }
  return 0;
}

static void nested_wait(void) {
  sched_task_t ids[20];
  s = scheduler(1);
  for (int i = 0; i < 20; i++) {
    sched_task_desc_t desc = task(waits, &depth[3]);
    desc.work = work;
    check(sched_submit(s, &desc, &ids[i]) == SCHED_OK, "submit");
  }
  for (int i = 0; i < 20; i++) check(sched_wait(s, ids[i], SCHED_FOREVER) == SCHED_OK, "a task that waits");
  check(ran == 20 * 15, "every task ran once");
  check(sched_destroy(s) == SCHED_OK, "destroy");
}

/* Tasks that state their work are placed by a plan, and waits among them another matter. */
static void nested_wait_planned(void) {
  work = 1.0;
  nested_wait();
}

static sched_t *other;

/* Each level in the scheduler that the level above is not in. */
static int32_t waits_across(const sched_exec_t *exec, void *user) {
  int32_t level = *(int32_t *)user;
  sched_t *to = level % 2 == 1 ? other : s;
  (void)exec;
  __atomic_fetch_add(&ran, 1, __ATOMIC_SEQ_CST);
  for (int i = 0; level > 0 && i < 2; i++) {
    sched_task_desc_t desc = task(waits_across, &depth[level - 1]);
    sched_task_t id = 0;
    desc.work = i;
    if (sched_submit(to, &desc, &id) != SCHED_OK || sched_wait(to, id, SCHED_FOREVER) != SCHED_OK) {
      check(0, "a wait in a task of another scheduler");
      return 1;
    }
  }
  return 0;
}

static int begun;

/* Waits for a task that is queued behind the one that destroys. */
static int32_t waits_behind(const sched_exec_t *exec, void *user) {
  (void)exec;
  __atomic_fetch_add(&begun, 1, __ATOMIC_SEQ_CST);
  until(&begun, 2);
  return sched_wait(s, submitted(s, counts, user), SCHED_FOREVER);
}

static int32_t destroys_other(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  __atomic_fetch_add(&begun, 1, __ATOMIC_SEQ_CST);
  until(&begun, 2);
  return sched_destroy(other);
}

static void nested_wait_across(void) {
  sched_task_t ids[8];
  s = scheduler(1);
  other = scheduler(1);
  for (int i = 0; i < 8; i++) ids[i] = submitted(i % 2 ? s : other, waits_across, &depth[2 + i % 2]);
  for (int i = 0; i < 8; i++) {
    check(sched_wait(i % 2 ? s : other, ids[i], SCHED_FOREVER) == SCHED_OK, "a task that waits");
  }
  check(ran == 4 * (15 + 7), "every task ran once");
  ran = 0;
  sched_task_t first = submitted(other, waits_behind, &ran);
  sched_task_t last = submitted(s, destroys_other, NULL);
  check(sched_wait(s, last, SCHED_FOREVER) == SCHED_OK, "destroyed inside a task of another");
  check(ran == 1, "what its task waited for");
  check(sched_wait(other, first, SCHED_FOREVER) == SCHED_E_STALE, "it is gone");
  check(sched_destroy(s) == SCHED_OK, "destroy");
}

static int32_t submits(const sched_exec_t *exec, void *user) {
  int32_t level = *(int32_t *)user;
  (void)exec;
  __atomic_fetch_add(&ran, 1, __ATOMIC_SEQ_CST);
  for (int i = 0; level > 0 && i < 10; i++) {
    sched_task_desc_t desc = task(submits, &depth[level - 1]);
    desc.flags = SCHED_TASK_DETACHED;
    if (sched_submit(s, &desc, NULL) != SCHED_OK) return 1;
  }
  return 0;
}

static void nested_submit(void) {
  s = scheduler(1);
  submitted(s, submits, &depth[3]);
  check(sched_drain(s, 0) == SCHED_PENDING || ran > 0, "drain while tasks submit");
  check(sched_destroy(s) == SCHED_OK, "destroy");
  ran = 0;
  s = scheduler(1);
  submitted(s, submits, &depth[3]);
  until(&ran, 1111);
  check(sched_wait_all(s, SCHED_FOREVER) == SCHED_OK, "wait for all");
  check(ran == 1111, "every task ran once");
  check(sched_destroy(s) == SCHED_OK, "destroy");
}

int main(int argc, char **argv) {
  const struct named cases[] = {
      {"nested_wait", nested_wait},
      {"nested_wait_planned", nested_wait_planned},
      {"nested_wait_across", nested_wait_across},
      {"nested_submit", nested_submit},
  };
  return run_case(argc, argv, cases, sizeof cases / sizeof *cases);
}
