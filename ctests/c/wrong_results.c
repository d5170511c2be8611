/* Code of tasks says that what a device computed is wrong (SCHED_E_RESULT): who is tried again where, who is blamed, what is told.
 *
 *   wrong_results        with one device, or with two cards
 *
 * A call that hangs ends the program by its alarm. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpusched.h"

static int failures;
static sched_t *s;
static uint32_t devices;

static void check(int right, const char *what) {
  if (!right) fprintf(stderr, "not as promised: %s (%s)\n", what, sched_last_error());
  failures += !right;
}

/* --- what is logged --- */

static char logged[8192];

static void on_log(int32_t level, const char *message, void *user) {
  (void)level, (void)user;
  if (strlen(logged) + strlen(message) + 2 < sizeof logged) strcat(strcat(logged, message), "\n");
}

/* --- tasks --- */

struct task {
  /* Wrong on device 0, in the first attempt, or always. */
  enum { ON_THE_FIRST, AT_FIRST, ALWAYS, NEVER } when;
  int tried, dropped;
  uint32_t devices[8];
};

static int32_t runs(const sched_exec_t *exec, void *user) {
  struct task *task = user;
  int tried = __atomic_load_n(&task->tried, __ATOMIC_SEQ_CST);
  if (tried < 8) task->devices[tried] = exec->device;
  int wrong = task->when == ALWAYS || (task->when == AT_FIRST && exec->attempt == 1) || (task->when == ON_THE_FIRST && exec->device == 0);
  __atomic_fetch_add(&task->tried, 1, __ATOMIC_SEQ_CST);
  return wrong ? SCHED_E_RESULT : 0;
}

static void drop(void *user) { ((struct task *)user)->dropped++; }

static sched_task_desc_t desc_of(struct task *task, double work) {
  sched_task_desc_t desc = {.size = sizeof desc, .run = runs, .user = task, .drop = drop, .work = work, .label = "a measurement"};
  return desc;
}

/* What becomes of a task; its words, and how often and where it ran, besides. */
static sched_status_t outcome(sched_task_desc_t desc, char *words, size_t room) {
  struct task *task = desc.user;
  sched_task_info_t info = {.size = sizeof info};
  sched_task_t id = 0;
  if (sched_submit(s, &desc, &id) != SCHED_OK) return SCHED_E_INTERNAL;
  sched_status_t status = sched_wait(s, id, SCHED_FOREVER);
  check(task->dropped == 1, "`user` is given back once");
  check(sched_task_info(s, id, &info) == SCHED_OK && info.status == status, "its info has the same status");
  check(info.attempts == (uint32_t)task->tried, "each attempt is counted");
  check(info.device == (int32_t)task->devices[task->tried - 1], "where it ran last");
  sched_task_error(s, id, words, room);
  return status;
}

/* Holds the last device until it is told. */
static int32_t holds(const sched_exec_t *exec, void *user) {
  (void)exec;
  while (__atomic_load_n((int *)user, __ATOMIC_SEQ_CST) == 0) usleep(100);
  return 0;
}

static int32_t health(uint32_t device) {
  sched_device_stats_t stats = {.size = sizeof stats};
  check(sched_device_stats(s, device, &stats) == SCHED_OK, "stats");
  return stats.health;
}

static uint64_t failed(uint32_t device) {
  sched_device_stats_t stats = {.size = sizeof stats};
  check(sched_device_stats(s, device, &stats) == SCHED_OK, "stats");
  return stats.failed;
}

static void begin(void) {
  sched_config_t config = {.size = sizeof config, .slots = 1, .cpu_threads = 1};
  check(sched_create(&config, &s) == SCHED_OK && sched_device_count(s, &devices) == SCHED_OK, "create");
  logged[0] = 0;
}

static void end(void) { check(sched_destroy(s) == SCHED_OK, "destroy"); }

/* --- what is promised --- */

/* Wrong again is wrong: no device is blamed, however often, and `retries` have nothing to do with it. */
static void wrong_twice(double work) {
  char words[300];
  begin();
  for (int i = 0; i < 3; i++) {
    struct task task = {.when = ALWAYS};
    sched_task_desc_t desc = desc_of(&task, work);
    desc.retries = 5;
    check(outcome(desc, words, sizeof words) == SCHED_E_RESULT && task.tried == 2, "a task that is always wrong");
    check(strstr(words, "computed something wrong: the callback returned SCHED_E_RESULT") != NULL, words);
    check(devices == 1 || task.devices[0] != task.devices[1], "it is tried elsewhere");
  }
  for (uint32_t i = 0; i < devices; i++) check(health(i) == SCHED_HEALTH_GOOD, "nobody is blamed");
  check(strstr(logged, "right again") == NULL, logged);
  end();
}

/* Right the second time: the second task that this befalls retires the device, whatever goes well in between. */
static void wrong_once(double work) {
  char words[300];
  begin();
  for (int i = 0; i < 2; i++) {
    struct task task = {.when = AT_FIRST}, well = {.when = NEVER};
    sched_task_desc_t desc = desc_of(&task, work), other = desc_of(&well, work);
    desc.device_mask = other.device_mask = 1;
    check(health(0) == SCHED_HEALTH_GOOD, "one is none");
    check(outcome(other, words, sizeof words) == SCHED_OK, "a task in between");
    check(outcome(desc, words, sizeof words) == SCHED_OK && task.tried == 2, "a task that is wrong at first");
    check(words[0] == 0, "one that ended well has no words");
  }
  check(health(0) == SCHED_HEALTH_RETIRED && failed(0) == 2, "two are one too many");
  check(strstr(logged, "computed for task 'a measurement' was wrong, and right again on ") != NULL, logged);
  check(strstr(logged, "retired") != NULL, logged);
  struct task task = {.when = NEVER};
  sched_task_desc_t desc = desc_of(&task, work);
  sched_task_t id = 0;
  desc.device_mask = 1;
  check(sched_submit(s, &desc, &id) == SCHED_E_NO_DEVICE && task.dropped == 1, "a task for a device that is retired");
  check(strstr(sched_last_error(), "what it computed was wrong for task 'a measurement' and task 'a measurement'") != NULL, "why");
  end();
}

/* A card that is always wrong: tasks end well on the other. */
static void a_bad_card(double work) {
  char words[300];
  begin();
  for (int i = 0; i < 2; i++) {
    struct task task = {.when = ON_THE_FIRST};
    sched_task_desc_t desc = desc_of(&task, work), other = {.size = sizeof other, .run = holds, .device_mask = 2};
    sched_task_t id = 0, held = 0;
    int go = 0;
    other.user = &go;
    /* So that it begins on the bad one. */
    check(sched_submit(s, &other, &held) == SCHED_OK, "submit");
    check(sched_submit(s, &desc, &id) == SCHED_OK, "submit");
    while (__atomic_load_n(&task.tried, __ATOMIC_SEQ_CST) == 0) usleep(100);
    __atomic_store_n(&go, 1, __ATOMIC_SEQ_CST);
    check(sched_wait(s, id, SCHED_FOREVER) == SCHED_OK, "it ends well elsewhere");
    check(task.tried == 2 && task.devices[0] == 0 && task.devices[1] == 1, "on the other card, the second time");
    check(sched_wait(s, held, SCHED_FOREVER) == SCHED_OK, "what held the other");
  }
  check(health(0) == SCHED_HEALTH_RETIRED && health(1) == SCHED_HEALTH_GOOD, "the bad card is retired");
  struct task task = {.when = ON_THE_FIRST};
  check(outcome(desc_of(&task, work), words, sizeof words) == SCHED_OK && task.tried == 1, "and asked no more");
  end();
}

static int32_t piece(const sched_exec_t *exec, uint64_t from, uint64_t to, void *user) {
  (void)exec;
  __atomic_fetch_add((int *)user, 1, __ATOMIC_SEQ_CST);
  return from <= 7 && 7 < to ? SCHED_E_RESULT : 0;
}

static void a_range(void) {
  int calls = 0;
  sched_range_desc_t range = {.size = sizeof range, .end = 8, .grain = 1, .run = piece, .user = &calls, .device_mask = 1};
  sched_task_t id = 0;
  begin();
  for (int i = 0; i < 3; i++) {
    check(sched_submit_range(s, &range, &id) == SCHED_OK, "submit a range");
    check(sched_wait(s, id, SCHED_FOREVER) == SCHED_E_RESULT, "a range with a wrong piece");
    check(strstr(sched_last_error(), "elements 7 to 8") != NULL, "which elements");
  }
  check(calls == 24, "no piece is tried again");
  for (uint32_t i = 0; i < devices; i++) check(health(i) == SCHED_HEALTH_GOOD, "nobody is blamed for a range");
  end();
}

int main(void) {
  alarm(60);
  check(sched_log_callback(on_log, NULL, 2) == SCHED_OK, "log");
  for (int work = 0; work < 2; work++) {
    wrong_twice(work);
    wrong_once(work);
    if (devices == 2) a_bad_card(work);
  }
  a_range();
  printf("%u devices\n", devices);
  return failures != 0;
}
