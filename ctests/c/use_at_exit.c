/* A scheduler is used where a program or a thread is about to end: by handlers of exit, by a destructor of the program, and by what a
 * thread has of its own (pthread_key_create), on threads of the program and on those of the library.
 *
 *   use_at_exit CASE [first]    each in a process of its own, which ends with 0, or with 1 and words; with `first` the key is made before
 *                               the library has any, and so its destructor may be called before or after those of the library
 *
 * A call that hangs ends the program by its alarm. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpusched.h"

static sched_t *s;
static sched_task_t before;
static pthread_key_t key;
static int failures, ran, late, told, in_destructor;
static void (*at_the_end)(void);

static void check(int right, const char *what) {
  if (!right) fprintf(stderr, "not as promised: %s (%s)\n", what, sched_last_error());
  __atomic_fetch_add(&failures, !right, __ATOMIC_SEQ_CST);
}

static int32_t counts(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  __atomic_fetch_add(&ran, 1, __ATOMIC_SEQ_CST);
  return 0;
}

static int32_t fails(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  return 77;
}

static int32_t twice(const sched_exec_t *exec, uint64_t begin, uint64_t end, void *user) {
  (void)exec, (void)user;
  __atomic_fetch_add(&ran, (int)(end - begin), __ATOMIC_SEQ_CST);
  return 0;
}

static sched_t *scheduler(void) {
  sched_config_t config = {.size = sizeof config, .devices = "cpu", .slots = 2, .cpu_threads = 2};
  sched_t *made = NULL;
  check(sched_create(&config, &made) == SCHED_OK, "create");
  return made;
}

static sched_task_t submitted(sched_t *to, sched_run_fn run, double work) {
  sched_task_desc_t desc = {.size = sizeof desc, .run = run, .work = work, .label = "late"};
  sched_task_t id = 0;
  check(sched_submit(to, &desc, &id) == SCHED_OK, "submit");
  return id;
}

/* Everything that a scheduler is for. */
static void use(sched_t *to, int all) {
  ran = 0;
  for (int i = 0; i < 3; i++) check(sched_wait(to, submitted(to, counts, i), SCHED_FOREVER) == SCHED_OK, "wait");
  sched_task_t ids[2] = {submitted(to, counts, 0), submitted(to, counts, 1)};
  size_t index = 9;
  check(sched_wait_any(to, ids, 2, SCHED_FOREVER, &index) == SCHED_OK && index < 2, "wait_any");
  sched_range_desc_t range = {.size = sizeof range, .end = 100, .run = twice};
  sched_task_t id = 0;
  check(sched_submit_range(to, &range, &id) == SCHED_OK && sched_wait(to, id, SCHED_FOREVER) == SCHED_OK, "a range");
  /* Not where it would wait for itself. */
  if (all) check(sched_wait_all(to, SCHED_FOREVER) == SCHED_OK && ran == 105, "wait_all");
  /* What goes wrong has its words, here, too. */
  check(sched_wait(to, submitted(to, fails, 0), SCHED_FOREVER) == SCHED_E_CALLBACK, "a task that fails");
  check(strstr(sched_last_error(), "77") != NULL, "the words of a task that failed");
  check(sched_submit(to, NULL, &id) == SCHED_E_ARGUMENT, "submit nothing");
  check(strstr(sched_last_error(), "sched_task_desc_t is NULL") != NULL, "the words of a call that failed");
}

static void made_late(void) {
  sched_t *other = scheduler();
  use(other, 1);
  check(sched_destroy(other) == SCHED_OK, "destroy");
  check(sched_destroy(other) == SCHED_E_STALE, "destroy twice");
  late++;
}

static void used_late(void) {
  check(sched_wait(s, before, SCHED_FOREVER) == SCHED_OK, "a task of before");
  use(s, 1);
  late++;
}

static void ended_late(void) {
  used_late();
  check(sched_destroy(s) == SCHED_OK, "destroy");
  check(sched_destroy(s) == SCHED_E_STALE, "destroy twice");
}

static void early(void) {
  s = scheduler();
  before = submitted(s, counts, 0);
  check(sched_wait(s, before, SCHED_FOREVER) == SCHED_OK, "a task");
  check(sched_submit(s, NULL, NULL) == SCHED_E_ARGUMENT, "words are kept for this thread");
}

/* Called after everything else, if it was registered first. */
static void leave(void) {
  if (!in_destructor) _exit(failures == 0 && late > 0 ? 0 : 1);
}

/* The last of all. */
__attribute__((destructor)) static void destructor(void) {
  if (!in_destructor) return;
  ended_late();
  _exit(failures == 0 && late > 0 ? 0 : 1);
}

static void of_a_thread(void *what) {
  (void)what;
  at_the_end();
}

static void make_key(void) {
  static int made;
  if (!made) pthread_key_create(&key, of_a_thread);
  made = 1;
}

static void *thread(void *what) {
  early();
  pthread_setspecific(key, what);
  return NULL;
}

/* Twice, so that the second finds what the first has left. */
static void threads(void (*end)(void)) {
  at_the_end = end;
  make_key();
  for (int i = 0; i < 2; i++) {
    pthread_t one;
    pthread_create(&one, NULL, thread, &late);
    pthread_join(one, NULL);
  }
  check(late == 2, "two threads");
}

/* From now on the worker's thread has something of its own. */
static int32_t owns(const sched_exec_t *exec, void *user) {
  (void)exec;
  pthread_setspecific(key, user);
  return 0;
}

/* And ends. */
static int32_t owns_and_leaves(const sched_exec_t *exec, void *user) {
  owns(exec, user);
  pthread_exit(NULL);
}

static void until_late(void) {
  while (__atomic_load_n(&late, __ATOMIC_SEQ_CST) == 0) usleep(1000);
}

static void mine(sched_run_fn run, sched_status_t status) {
  sched_task_desc_t desc = {.size = sizeof desc, .run = run, .user = &late};
  sched_task_t id = 0;
  make_key();
  check(sched_submit(s, &desc, &id) == SCHED_OK, "submit");
  check(sched_wait(s, id, SCHED_FOREVER) == status, "a task that leaves something to its thread");
  __atomic_store_n(&told, 1, __ATOMIC_SEQ_CST);
}

static void uses_once(void) {
  if (__atomic_load_n(&late, __ATOMIC_SEQ_CST) > 0) return;
  use(s, 1);
  __atomic_fetch_add(&late, 1, __ATOMIC_SEQ_CST);
}

static void destroys_once(void) {
  if (__atomic_load_n(&late, __ATOMIC_SEQ_CST) > 0) return;
  while (__atomic_load_n(&told, __ATOMIC_SEQ_CST) == 0) usleep(100);
  check(sched_destroy(s) == SCHED_OK, "destroy where a thread of its own ends");
  check(sched_destroy(s) == SCHED_E_STALE, "destroy twice");
  __atomic_fetch_add(&late, 1, __ATOMIC_SEQ_CST);
}

static void owns_progress(const sched_progress_t *progress, void *user) {
  (void)progress;
  pthread_setspecific(key, user);
  /* Its thread has nothing more to do. */
  check(sched_progress_callback(s, NULL, NULL, 0) == SCHED_OK, "no progress any more");
}

/* The scheduler ends meanwhile, and the thread may not be waited for by itself. */
static void uses_what_ends(void) {
  sched_task_desc_t desc = {.size = sizeof desc, .run = counts};
  sched_task_t id = 0;
  sched_status_t status = sched_submit(s, &desc, &id);
  check(status == SCHED_E_SHUTDOWN || status == SCHED_E_STALE, "submit to what ends");
  status = sched_wait(s, before, SCHED_FOREVER);
  check(status == SCHED_OK || status == SCHED_E_STALE, "wait for a task of what ends");
  status = sched_wait_all(s, SCHED_FOREVER);
  check(status == SCHED_OK || status == SCHED_E_STALE, "wait for all of what ends");
  __atomic_fetch_add(&late, 1, __ATOMIC_SEQ_CST);
}

int main(int argc, char **argv) {
  const char *name = argc >= 2 ? argv[1] : "";
  alarm(60);
  atexit(leave);
  if (argc == 3) make_key();
  if (strcmp(name, "made_in_atexit") == 0) {
    atexit(made_late);
  } else if (strcmp(name, "used_in_atexit") == 0) {
    early();
    atexit(ended_late);
  } else if (strcmp(name, "used_in_a_destructor") == 0) {
    early();
    in_destructor = 1;
  } else if (strcmp(name, "made_in_a_key") == 0) {
    threads(made_late);
  } else if (strcmp(name, "used_in_a_key") == 0) {
    threads(ended_late);
  } else if (strcmp(name, "used_in_a_key_of_a_worker") == 0) {
    early();
    at_the_end = uses_once;
    mine(owns_and_leaves, SCHED_E_UNWOUND);
    until_late();
    check(sched_destroy(s) == SCHED_OK, "destroy");
  } else if (strcmp(name, "destroyed_in_a_key_of_a_worker") == 0) {
    early();
    at_the_end = destroys_once;
    mine(owns_and_leaves, SCHED_E_UNWOUND);
    until_late();
  } else if (strcmp(name, "destroyed_in_a_key_of_progress") == 0) {
    early();
    at_the_end = destroys_once;
    make_key();
      check(sched_progress_callback(s, owns_progress, &late, 1000000) == SCHED_OK, "progress");
    __atomic_store_n(&told, 1, __ATOMIC_SEQ_CST);
    until_late();
  } else if (strcmp(name, "destroyed_while_a_worker_has_a_key") == 0) {
    early();
    at_the_end = uses_what_ends;
    mine(owns, SCHED_OK);
    check(sched_destroy(s) == SCHED_OK, "destroy");
    check(late == 1, "destroy waits for the ends of its threads");
  } else {
    fprintf(stderr, "usage: %s CASE\n", argv[0]);
    _exit(2);
  }
  return failures != 0;
}
