/* Code of the program that the library calls ends the process (exit), or its thread (pthread_exit): from a task, a task on top of
 * another, a piece of a range, a drop, a progress function and a log function.
 *
 *   exit_in_callbacks CASE          each in a process of its own, which has to end with 0
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
static int failures, called, ran;
/* 0: exit, 1: pthread_exit. */
static int thread_only;

static void check(int right, const char *what) {
  if (!right) fprintf(stderr, "not as promised: %s (%s)\n", what, sched_last_error());
  __atomic_fetch_add(&failures, !right, __ATOMIC_SEQ_CST);
}

/* One of several threads that come here at a time leaves first. */
static void leave(void) {
  __atomic_fetch_add(&called, 1, __ATOMIC_SEQ_CST);
  if (thread_only) pthread_exit(NULL);
  exit(0);
}

static int32_t in_a_task(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  leave();
  return 0;
}

static int32_t in_a_piece(const sched_exec_t *exec, uint64_t begin, uint64_t end, void *user) {
  (void)exec, (void)user;
  if (begin <= 50 && 50 < end) leave();
  return 0;
}

static int32_t counts(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  __atomic_fetch_add(&ran, 1, __ATOMIC_SEQ_CST);
  return 0;
}

static int32_t fails(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  return 9;
}

static void in_a_drop(void *user) {
  (void)user;
  leave();
}

static void in_progress(const sched_progress_t *progress, void *user) {
  (void)progress, (void)user;
  if (__atomic_load_n(&called, __ATOMIC_SEQ_CST) == 0) leave();
}

static void in_a_log(int32_t level, const char *message, void *user) {
  (void)level, (void)message, (void)user;
  if (__atomic_load_n(&called, __ATOMIC_SEQ_CST) == 0) leave();
}

static sched_task_t submitted(sched_run_fn run, sched_drop_fn drop, double work) {
  sched_task_desc_t desc = {.size = sizeof desc, .run = run, .drop = drop, .work = work};
  sched_task_t id = 0;
  check(sched_submit(s, &desc, &id) == SCHED_OK, "submit");
  return id;
}

/* What it waits for is its own, so it may run on top of it. */
static int32_t on_top(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  sched_status_t status = sched_wait(s, submitted(in_a_task, NULL, 0), SCHED_FOREVER);
  check(status == SCHED_E_UNWOUND, "a task on top of this one");
  return 0;
}

/* Whatever has left: all goes on. */
static void goes_on(void) {
  ran = 0;
  for (int i = 0; i < 50; i++) submitted(counts, NULL, i % 2);
  check(sched_wait_all(s, SCHED_FOREVER) == SCHED_OK && ran == 50, "tasks after it");
  check(sched_destroy(s) == SCHED_OK, "destroy");
}

static void *another(void *user) {
  (void)user;
  usleep(20000);
  check(sched_wait(s, submitted(counts, NULL, 0), SCHED_FOREVER) == SCHED_OK, "a task when main has ended");
  submitted(in_a_task, NULL, 1);
  pause();
  return NULL;
}

int main(int argc, char **argv) {
  const char *name = argc == 2 ? argv[1] : "";
  sched_config_t config = {.size = sizeof config, .devices = "cpu", .slots = 2, .cpu_threads = 2};
  alarm(60);
  check(sched_create(&config, &s) == SCHED_OK, "create");
  if (strncmp(name, "thread_", 7) == 0) thread_only = 1, name += 7;
  sched_status_t left = SCHED_E_UNWOUND;
  if (strcmp(name, "in_tasks") == 0) {
    /* In several at the same moment. */
    sched_task_t ids[6];
    for (int i = 0; i < 6; i++) ids[i] = submitted(in_a_task, NULL, i % 2);
    for (int i = 0; i < 6; i++) check(sched_wait(s, ids[i], SCHED_FOREVER) == left, "the task has failed");
  } else if (strcmp(name, "on_top") == 0) {
    check(sched_wait(s, submitted(on_top, NULL, 0), SCHED_FOREVER) == SCHED_OK, "the task below");
  } else if (strcmp(name, "in_a_piece") == 0) {
    sched_range_desc_t range = {.size = sizeof range, .end = 100, .run = in_a_piece, .grain = 1};
    sched_task_t id = 0;
    check(sched_submit_range(s, &range, &id) == SCHED_OK && sched_wait(s, id, SCHED_FOREVER) == left, "the range has failed");
    check(strstr(sched_last_error(), "elements 50 to 51") != NULL, "where");
  } else if (strcmp(name, "in_a_drop") == 0) {
    for (int i = 0; i < 2; i++) check(sched_wait(s, submitted(counts, in_a_drop, i), SCHED_FOREVER) == SCHED_OK, "the outcome stays");
  } else if (strcmp(name, "in_progress") == 0) {
    check(sched_progress_callback(s, in_progress, NULL, 1000000) == SCHED_OK, "progress");
    while (__atomic_load_n(&called, __ATOMIC_SEQ_CST) == 0) usleep(1000);
  } else if (strcmp(name, "in_a_log") == 0) {
    check(sched_log_callback(in_a_log, NULL, 5) == SCHED_OK, "log");
    check(sched_wait(s, submitted(fails, NULL, 1), SCHED_FOREVER) == SCHED_E_CALLBACK, "the outcome stays");
  } else if (strcmp(name, "of_main") == 0) {
    /* The first thread ends, the process goes on, and a task ends it. */
    pthread_t one;
    pthread_create(&one, NULL, another, NULL);
    thread_only = 0;
    pthread_exit(NULL);
  } else {
    fprintf(stderr, "usage: %s CASE\n", argv[0]);
    return 2;
  }
  /* Somebody is about to end the process. */
  while (!thread_only) pause();
  check(called > 0, "it was called");
  goes_on();
  return failures != 0;
}
