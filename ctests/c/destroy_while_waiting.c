/* A scheduler is destroyed while threads of the program are in every kind of wait on it, by several threads at a time, and by code
 * of its own tasks: each wait returns, with what the header says, and each task ends once.
 *
 *   destroy_while_waiting ROUNDS
 *
 * A call that hangs ends the program by its alarm. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpusched.h"

enum { TASKS = 12, WAITERS = 14, DESTROYERS = 3 };

static int failures;

static void check(int right, const char *what, int status) {
  if (!right) fprintf(stderr, "not as promised: %s: %s (%s)\n", what, sched_status_name(status), sched_last_error());
  __atomic_fetch_add(&failures, !right, __ATOMIC_SEQ_CST);
}

/* One scheduler's life. */
struct life {
  sched_t *s;
  sched_task_t ids[TASKS];
  sched_task_t ordered;
  int round, entered, handed, ended, dropped, begun;
};

/* Runs until it is asked to stop. */
static int32_t lasts(const sched_exec_t *exec, void *user) {
  struct life *life = user;
  __atomic_fetch_add(&life->begun, 1, __ATOMIC_SEQ_CST);
  while (sched_exec_cancelled(exec) == 0) usleep(200);
  return SCHED_CANCELLED;
}

/* Tries what would have to wait for itself. */
static int32_t destroys(const sched_exec_t *exec, void *user) {
  struct life *life = user;
  sched_status_t status = sched_destroy(life->s);
  check(status == SCHED_E_DEADLOCK && strstr(sched_last_error(), "inside a task") != NULL, "destroy inside a task", status);
  status = sched_shutdown(life->s, 1000);
  check(status == SCHED_E_DEADLOCK, "shutdown inside a task", status);
  status = sched_wait_all(life->s, SCHED_FOREVER);
  check(status == SCHED_E_DEADLOCK, "wait for all inside a task", status);
  return lasts(exec, user);
}

/* Waits inside a task, while others destroy what it is a task of. */
static int32_t waits(const sched_exec_t *exec, void *user) {
  struct life *life = user;
  __atomic_fetch_add(&life->begun, 1, __ATOMIC_SEQ_CST);
  sched_status_t status = sched_wait(life->s, life->ids[TASKS - 1], SCHED_FOREVER);
  check(status == SCHED_CANCELLED, "a wait inside a task", status);
  return sched_exec_cancelled(exec) == 1 ? SCHED_CANCELLED : 0;
}

static void drop(void *user) { __atomic_fetch_add(&((struct life *)user)->dropped, 1, __ATOMIC_SEQ_CST); }

/* Before it ends a wait tells the outcome; where it begins after the end, that there is no such scheduler. */
static void is_end(sched_status_t status, const char *what) {
  check(status == SCHED_CANCELLED || status == SCHED_E_STALE, what, status);
}

static void entered(struct life *life) { __atomic_fetch_add(&life->entered, 1, __ATOMIC_SEQ_CST); }

static void *waits_for_one(void *user) {
  struct life *life = user;
  entered(life);
  for (int i = 0; i < TASKS; i++) is_end(sched_wait(life->s, life->ids[i], SCHED_FOREVER), "wait");
  return NULL;
}

static void *waits_for_all(void *user) {
  struct life *life = user;
  entered(life);
  sched_status_t status = sched_wait_all(life->s, SCHED_FOREVER);
  check(status == SCHED_OK || status == SCHED_E_STALE, "wait_all", status);
  return NULL;
}

static void *drains(void *user) {
  struct life *life = user;
  entered(life);
  sched_status_t status = sched_drain(life->s, SCHED_FOREVER);
  check(status == SCHED_OK || status == SCHED_E_STALE, "drain", status);
  return NULL;
}

static void *waits_for_any(void *user) {
  struct life *life = user;
  size_t index = TASKS;
  entered(life);
  sched_status_t status = sched_wait_any(life->s, life->ids, TASKS, SCHED_FOREVER, &index);
  check((status == SCHED_OK && index < TASKS) || (status == SCHED_E_STALE && index == TASKS), "wait_any", status);
  return NULL;
}

static void *waits_for_next(void *user) {
  struct life *life = user;
  sched_task_t id = 0;
  sched_status_t status;
  entered(life);
  while ((status = sched_wait_next(life->s, SCHED_FOREVER, &id)) == SCHED_OK) __atomic_fetch_add(&life->handed, 1, __ATOMIC_SEQ_CST);
  check(status == SCHED_E_ARGUMENT || status == SCHED_E_STALE, "wait_next", status);
  return NULL;
}

static void *waits_in_slices(void *user) {
  struct life *life = user;
  sched_status_t status;
  entered(life);
  while ((status = sched_wait(life->s, life->ids[0], 100000)) == SCHED_PENDING) continue;
  is_end(status, "wait in slices");
  return NULL;
}

static void *destroyer(void *user) {
  struct life *life = user;
  sched_status_t status = sched_destroy(life->s);
  check(status == SCHED_OK || status == SCHED_E_STALE, "destroy", status);
  __atomic_fetch_add(&life->ended, status == SCHED_OK, __ATOMIC_SEQ_CST);
  status = sched_destroy(life->s);
  check(status == SCHED_E_STALE, "destroy twice", status);
  return NULL;
}

static void live(int round) {
  void *(*const kinds[])(void *) = {waits_for_one, waits_for_all, waits_for_any, waits_for_next, waits_in_slices, drains, waits_for_next};
  struct life life = {.round = round};
  pthread_t waiters[WAITERS], destroyers[DESTROYERS];
  sched_config_t config = {.size = sizeof config, .devices = "cpu", .slots = 3, .cpu_threads = 1};
  sched_status_t status = sched_create(&config, &life.s);
  check(status == SCHED_OK, "create", status);
  for (int i = TASKS - 1; i >= 0; i--) {
    sched_task_desc_t desc = {.size = sizeof desc, .user = &life, .drop = drop, .flags = SCHED_TASK_ORDERED};
    desc.run = i == 0 ? destroys : i == 1 ? waits : lasts;
    /* Those that begin first. */
    desc.priority = i < 3 ? 10 - i : 0;
    desc.work = (round + i) % 2;
    if (i < 3) desc.work = round % 2;
    status = sched_submit(life.s, &desc, &life.ids[i]);
    check(status == SCHED_OK, "submit", status);
  }
  for (int i = 0; i < WAITERS; i++) pthread_create(&waiters[i], NULL, kinds[i % 7], &life);
  /* Some rounds begin when all wait, some while they come. */
  while (round % 3 > 0 && __atomic_load_n(&life.entered, __ATOMIC_SEQ_CST) < WAITERS) usleep(100);
  if (round % 3 == 2) usleep(5000);
  for (int i = 0; i < DESTROYERS; i++) pthread_create(&destroyers[i], NULL, destroyer, &life);
  for (int i = 0; i < DESTROYERS; i++) pthread_join(destroyers[i], NULL);
  check(life.ended == 1, "one of several has destroyed it", life.ended);
  check(life.dropped == TASKS, "`user` was given back for each task when destroy returned", life.dropped);
  for (int i = 0; i < WAITERS; i++) pthread_join(waiters[i], NULL);
  check(life.handed <= TASKS, "each is handed out once", life.handed);
  if (round % 3 == 2) check(life.handed > 0, "who waits for the next is told of it", life.handed);
}

int main(int argc, char **argv) {
  int rounds = argc == 2 ? atoi(argv[1]) : 0;
  if (rounds < 1) return fprintf(stderr, "usage: %s ROUNDS\n", argv[0]), 2;
  alarm(120);
  for (int round = 0; round < rounds; round++) live(round);
  return failures != 0;
}
