/* Threads and a task destroy a scheduler while other threads are in every kind of wait on it: each
 * wait returns what the header says, and each task ends once.
 *
 *   destroy_while_waiting ROUNDS */
#define _GNU_SOURCE
#include <pthread.h>

#include "check.h"

enum { TASKS = 12, WAITERS = 14, DESTROYERS = 3 };

struct life {
  sched_t *s;
  sched_task_t ids[TASKS];
  int entered, handed, ended, dropped, begun;
};

/* Tries what would have to wait for itself. */
static int32_t destroys(const sched_exec_t *exec, void *user) {
  struct life *life = user;
  EXPECT(SCHED_E_DEADLOCK, sched_destroy(life->s));
  SAYS("inside a task");
  EXPECT(SCHED_E_DEADLOCK, sched_shutdown(life->s, 1000));
  EXPECT(SCHED_E_DEADLOCK, sched_wait_all(life->s, SCHED_FOREVER));
  return lasts(exec, &life->begun);
}

/* Waits inside a task while others destroy the scheduler. */
static int32_t waits(const sched_exec_t *exec, void *user) {
  struct life *life = user;
  EXPECT(SCHED_CANCELLED, wait_for(life->s, life->ids[TASKS - 1]));
  return sched_exec_cancelled(exec) == 1 ? SCHED_CANCELLED : 0;
}

static int32_t lasts_in(const sched_exec_t *exec, void *user) {
  return lasts(exec, &((struct life *)user)->begun);
}

static void drop(void *user) { add(&((struct life *)user)->dropped); }

/* A wait that begins after the end finds no scheduler. */
#define EXPECT_END(status, call)                                     \
  do {                                                               \
    sched_status_t found = (call);                                   \
    CHECK(found == (status) || found == SCHED_E_STALE);              \
  } while (0)

struct waiter {
  struct life *life;
  int kind;
};

static void *wait_somehow(void *user) {
  struct waiter *waiter = user;
  struct life *life = waiter->life;
  sched_status_t status = SCHED_OK;
  sched_task_t id = 0;
  size_t index = TASKS;
  add(&life->entered);
  switch (waiter->kind) {
    case 0:
      for (int i = 0; i < TASKS; i++) EXPECT_END(SCHED_CANCELLED, wait_for(life->s, life->ids[i]));
      break;
    case 1: EXPECT_END(SCHED_OK, sched_wait_all(life->s, SCHED_FOREVER)); break;
    case 2:
      status = sched_wait_any(life->s, life->ids, TASKS, SCHED_FOREVER, &index);
      CHECK(status == (index < TASKS ? SCHED_OK : SCHED_E_STALE));
      break;
    case 3: EXPECT_END(SCHED_OK, sched_drain(life->s, SCHED_FOREVER)); break;
    case 4:
      while ((status = sched_wait(life->s, life->ids[0], 100000)) == SCHED_PENDING) continue;
      EXPECT_END(SCHED_CANCELLED, status);
      break;
    default:
      while (!(status = sched_wait_next(life->s, SCHED_FOREVER, &id))) add(&life->handed);
      EXPECT_END(SCHED_E_ARGUMENT, status);
  }
  return NULL;
}

static void *destroyer(void *user) {
  struct life *life = user;
  sched_status_t status = sched_destroy(life->s);
  EXPECT_END(SCHED_OK, status);
  if (status == SCHED_OK) add(&life->ended);
  EXPECT(SCHED_E_STALE, sched_destroy(life->s));
  return NULL;
}

static void live(int round) {
  struct life life = {.s = scheduler(3)};
  struct waiter kinds[WAITERS];
  pthread_t waiters[WAITERS], destroyers[DESTROYERS];
  for (int i = TASKS - 1; i >= 0; i--) {
    sched_task_desc_t desc = task(i == 0 ? destroys : i == 1 ? waits : lasts_in, &life);
    desc.drop = drop;
    desc.flags = SCHED_TASK_ORDERED;
    /* The first three begin first. */
    desc.priority = i < 3 ? 10 - i : 0;
    desc.work = (i < 3 ? round : round + i) % 2;
    life.ids[i] = submit(life.s, desc);
  }
  for (int i = 0; i < WAITERS; i++) {
    kinds[i] = (struct waiter){&life, i % 7};
    pthread_create(&waiters[i], NULL, wait_somehow, &kinds[i]);
  }
  /* Some rounds begin when all wait, some while they come. */
  if (round % 3 > 0) until(&life.entered, WAITERS);
  if (round % 3 == 2) usleep(5000);
  for (int i = 0; i < DESTROYERS; i++) pthread_create(&destroyers[i], NULL, destroyer, &life);
  for (int i = 0; i < DESTROYERS; i++) pthread_join(destroyers[i], NULL);
  CHECK(life.ended == 1);
  CHECK(life.dropped == TASKS);
  for (int i = 0; i < WAITERS; i++) pthread_join(waiters[i], NULL);
  CHECK(life.handed <= TASKS);
  if (round % 3 == 2) CHECK(life.handed > 0);
}

int main(int argc, char **argv) {
  within(120);
  CHECK(argc == 2);
  for (int round = 0; !failures && round < atoi(argv[1]); round++) live(round);
  return failures != 0;
}
