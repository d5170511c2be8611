/* A scheduler is used while a program or a thread ends: in handlers of exit, in a destructor of the
 * program, and in destructors of thread-specific data.
 *
 *   use_at_exit CASE [first]    with `first` the key of the data is older than the library's */
#define _GNU_SOURCE
#include <pthread.h>

#include "check.h"

static sched_t *s;
static sched_task_t before;
static pthread_key_t key;
static int ran, late, has_key, in_destructor;
static void (*at_the_end)(void);

static void use(sched_t *to) {
  sched_task_t ids[2], id = 0;
  size_t index = 9;
  ran = 0;
  for (int i = 0; i < 5; i++) {
    id = ids[i % 2] = submit_work(to, counts, &ran, i);
    if (i < 3) OK(wait_for(to, id));
  }
  OK(sched_wait_any(to, ids, 2, SCHED_FOREVER, &index));
  CHECK(index < 2);
  sched_range_desc_t range = {.size = sizeof range, .end = 100, .run = count_piece, .user = &ran};
  OK(sched_submit_range(to, &range, &id));
  OK(wait_for(to, id));
  OK(sched_wait_all(to, SCHED_FOREVER));
  CHECK(ran == 105);
  EXPECT(SCHED_E_CALLBACK, wait_for(to, submitted(to, fails, NULL)));
  SAYS("77");
  EXPECT(SCHED_E_ARGUMENT, sched_submit(to, NULL, &id));
  SAYS("sched_task_desc_t is NULL");
}

static void destroy(sched_t *to) {
  OK(sched_destroy(to));
  EXPECT(SCHED_E_STALE, sched_destroy(to));
}

static void use_late(void) {
  OK(wait_for(s, before));
  use(s);
  destroy(s);
  add(&late);
}

static void create_early(void) {
  s = scheduler(2);
  before = submitted(s, counts, &ran);
  OK(wait_for(s, before));
  /* The library stores a message for this thread. */
  EXPECT(SCHED_E_ARGUMENT, sched_submit(s, NULL, NULL));
}

static void leave(void) { _exit(failures || !late); }

/* The C library calls the first registered handler last. */
static void first_handler(void) {
  if (!in_destructor) leave();
}

__attribute__((destructor)) static void destructor(void) {
  if (!in_destructor) return;
  use_late();
  leave();
}

static void used_in_atexit(void) {
  create_early();
  atexit(use_late);
}

static void used_in_a_destructor(void) {
  create_early();
  in_destructor = 1;
}

static void end_of_thread(void *data) {
  (void)data;
  at_the_end();
}

static void make_key(void) {
  if (!has_key) pthread_key_create(&key, end_of_thread);
  has_key = 1;
}

static void *thread(void *data) {
  create_early();
  pthread_setspecific(key, data);
  return NULL;
}

/* Runs two threads, so that the second finds the state that the first has left. */
static void run_threads(void (*end)(void)) {
  at_the_end = end;
  make_key();
  for (int i = 0; i < 2; i++) {
    pthread_t one;
    pthread_create(&one, NULL, thread, &late);
    pthread_join(one, NULL);
  }
  CHECK(late == 2);
}

static void used_in_a_key(void) { run_threads(use_late); }

/* Sets thread-specific data of the worker's thread. */
static int32_t own(const sched_exec_t *exec, void *user) {
  (void)exec;
  pthread_setspecific(key, user);
  return 0;
}

static int32_t own_and_leave(const sched_exec_t *exec, void *user) {
  own(exec, user);
  pthread_exit(NULL);
}

static int known; /* The program knows the outcome of the task. */

static void run_on_worker(sched_run_fn code, sched_status_t status, void (*end)(void)) {
  create_early();
  at_the_end = end;
  make_key();
  EXPECT(status, wait_for(s, submitted(s, code, &late)));
  add(&known);
}

static void destroy_once(void) {
  if (get(&late) > 0) return;
  until(&known, 1);
  destroy(s);
  add(&late);
}

static void destroyed_in_a_key_of_a_worker(void) {
  run_on_worker(own_and_leave, SCHED_E_UNWOUND, destroy_once);
  until(&late, 1);
}

static void own_progress(const sched_progress_t *progress, void *user) {
  (void)progress;
  pthread_setspecific(key, user);
  /* Ends the thread of progress callbacks. */
  OK(sched_progress_callback(s, NULL, NULL, 0));
}

static void destroyed_in_a_key_of_progress(void) {
  create_early();
  at_the_end = destroy_once;
  make_key();
  OK(sched_progress_callback(s, own_progress, &late, 1000000));
  add(&known);
  until(&late, 1);
}

/* The scheduler is being destroyed, and its thread can't wait for itself. */
static void use_while_destroyed(void) {
  sched_task_desc_t desc = task(counts, &ran);
  sched_task_t id = 0;
  sched_status_t status = sched_submit(s, &desc, &id);
  CHECK(status == SCHED_E_SHUTDOWN || status == SCHED_E_STALE);
  status = wait_for(s, before);
  CHECK(status == SCHED_OK || status == SCHED_E_STALE);
  status = sched_wait_all(s, SCHED_FOREVER);
  CHECK(status == SCHED_OK || status == SCHED_E_STALE);
  add(&late);
}

static void destroyed_while_a_worker_has_a_key(void) {
  run_on_worker(own, SCHED_OK, use_while_destroyed);
  OK(sched_destroy(s));
  CHECK(late == 1);
}

int main(int argc, char **argv) {
  static const struct test_case cases[] = {
      CASE(used_in_atexit), CASE(used_in_a_destructor), CASE(used_in_a_key),
      CASE(destroyed_in_a_key_of_a_worker), CASE(destroyed_in_a_key_of_progress),
      CASE(destroyed_while_a_worker_has_a_key), {NULL, NULL}};
  atexit(first_handler);
  if (argc == 3) make_key();
  return run_case(argv, cases);
}
