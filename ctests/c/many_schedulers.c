/* Many schedulers in one process at a time, where the system may give few threads or files: each takes tasks, and each task ends,
 * well or with a status and a sentence; afterwards nothing is left.
 *
 *   many_schedulers COUNT EACH         as many schedulers and tasks of each as are taken; the line that is printed counts
 *   many_schedulers COUNT EACH all     every one has to be made, and every task to end well
 *
 * Limits are set by who starts it. A call that hangs ends the program by its alarm. */
#define _GNU_SOURCE
#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpusched.h"

enum { MOST = 8 };

struct one {
  sched_t *s;
  sched_task_t ids[MOST];
  int dropped;
};

static int failures, ran, each;

static void check(int right, const char *what, int number) {
  if (!right) fprintf(stderr, "not as promised: %s (%d; %s)\n", what, number, sched_last_error());
  failures += !right;
}

static int entries(const char *folder) {
  int count = 0;
  DIR *open = opendir(folder);
  if (open == NULL) return -1;
  while (readdir(open) != NULL) count++;
  closedir(open);
  return count;
}

static int32_t runs(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  __atomic_fetch_add(&ran, 1, __ATOMIC_SEQ_CST);
  return 0;
}

static void drop(void *user) { __atomic_fetch_add(&((struct one *)user)->dropped, 1, __ATOMIC_SEQ_CST); }

/* A negative status that the header has, and its sentence. */
static void refusal(sched_status_t status, const char *sentence, const char *what, int number) {
  check(status < 0 && strcmp(sched_status_name(status), "unknown status") != 0, what, number);
  check(strlen(sentence) > 20, "a refusal has a sentence", number);
  /* Each refusal once. */
  static char told[200];
  if (strncmp(told, sentence, sizeof told - 1) == 0) return;
  snprintf(told, sizeof told, "%s", sentence);
  printf("%s %d: %s: %s\n", what, number, sched_status_name(status), sentence);
}

/* How many of the schedulers were made, and how many tasks ended well. */
static void crowd(int count, int *made, int *well) {
  struct one *all = calloc((size_t)count, sizeof *all);
  char words[300];
  *made = *well = 0;
  for (int i = 0; i < count; i++) {
    sched_config_t config = {.size = sizeof config, .slots = 1 + (uint32_t)i % 2, .cpu_threads = 1 + (uint32_t)i % 3};
    sched_status_t status = sched_create(&config, &all[i].s);
    *made += status == SCHED_OK;
    if (status != SCHED_OK) {
      check(all[i].s == NULL, "a place that is not written", i);
      refusal(status, sched_last_error(), "create", i);
    }
  }
  for (int i = 0; i < count; i++) {
    for (int k = 0; all[i].s != NULL && k < each; k++) {
      sched_task_desc_t desc = {.size = sizeof desc, .run = runs, .user = &all[i], .drop = drop, .label = "one of a crowd"};
      /* Of both kinds. */
      desc.work = k % 2;
      sched_status_t status = sched_submit(all[i].s, &desc, &all[i].ids[k]);
      if (status != SCHED_OK) refusal(status, sched_last_error(), "submit", i);
    }
  }
  for (int i = 0; i < count; i++) {
    for (int k = 0; k < each; k++) {
      if (all[i].ids[k] == 0) continue;
      sched_status_t status = sched_wait(all[i].s, all[i].ids[k], SCHED_FOREVER);
      *well += status == SCHED_OK;
      if (status == SCHED_OK) continue;
      sched_task_error(all[i].s, all[i].ids[k], words, sizeof words);
      refusal(status, words, "task", i);
    }
  }
  for (int i = 0; i < count; i++) {
    sched_stats_t stats = {.size = sizeof stats};
    if (all[i].s == NULL) continue;
    check(sched_stats(all[i].s, &stats) == SCHED_OK, "stats", i);
    check(stats.submitted == stats.done + stats.failed && stats.queued == 0 && stats.running == 0, "every task is counted once", i);
    check(sched_destroy(all[i].s) == SCHED_OK, "destroy", i);
    check(all[i].dropped == each, "`user` was given back once for each task", i);
    check(sched_destroy(all[i].s) == SCHED_E_STALE, "destroy twice", i);
  }
  free(all);
}

int main(int argc, char **argv) {
  int count = argc >= 2 ? atoi(argv[1]) : 0, made = 0, well = 0;
  each = argc >= 3 ? atoi(argv[2]) : -1;
  if (count < 1 || each < 0 || each > MOST) return fprintf(stderr, "usage: %s COUNT EACH [all]\n", argv[0]), 2;
  alarm(120);
  /* What is made once for a process. */
  crowd(2, &made, &well);
  int files = entries("/proc/self/fd");
  crowd(count, &made, &well);
  malloc_trim(0);
  size_t used = mallinfo2().uordblks;
  int again_made = 0, again_well = 0;
  ran = 0;
  crowd(count, &again_made, &again_well);
  malloc_trim(0);
  for (int i = 0; i < 5000 && entries("/proc/self/task") > 3; i++) usleep(1000);
  check(entries("/proc/self/task") == 3, "threads are left", entries("/proc/self/task"));
  check(entries("/proc/self/fd") == files, "files are left open", entries("/proc/self/fd") - files);
  check(mallinfo2().uordblks <= used + (512 << 10), "memory is left, bytes", (int)(mallinfo2().uordblks - used));
  check(ran == again_well, "a task ran that is not told to be done", ran - again_well);
  if (argc == 4) check(made == count && again_made == count && well == each * count && again_well == well, "all are made, and end well", well);
  printf("of %d schedulers %d and %d were made, %d and %d of their tasks ended well\n", count, made, again_made, well, again_well);
  return failures != 0;
}
