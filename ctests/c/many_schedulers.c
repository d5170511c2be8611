/* Runs many schedulers where the system may refuse threads or files: each task ends, with success
 * or with a message.
 *
 *   many_schedulers COUNT EACH [all]    EACH tasks in each of COUNT; with `all` none may fail */
#define _GNU_SOURCE
#include <dirent.h>
#include <malloc.h>
#include <pthread.h>

#include "check.h"

enum { MOST = 8 };

struct one {
  sched_t *s;
  sched_task_t ids[MOST];
  int dropped;
};

static int ran, each;

static int32_t count_run(const sched_exec_t *exec, void *user) {
  (void)user;
  return counts(exec, &ran);
}

static int entries(const char *folder) {
  int count = 0;
  DIR *open = opendir(folder);
  while (open && readdir(open) != NULL) count++;
  if (open) closedir(open);
  return count;
}

static void drop(void *user) { add(&((struct one *)user)->dropped); }

/* Checks a refusal: a negative status of the header, and its message, which is printed once. */
static void check_refusal(sched_status_t status, const char *message, const char *what, int i) {
  static char last[200];
  CHECK(status < 0 && strcmp(sched_status_name(status), "unknown status") != 0);
  CHECK(strlen(message) > 20);
  if (strncmp(last, message, sizeof last - 1) == 0) return;
  snprintf(last, sizeof last, "%s", message);
  printf("%s %d: %s: %s\n", what, i, sched_status_name(status), message);
}

static int looked, left;

/* A thread that makes one call and is idle then. */
static void *looks_once(void *s) {
  sched_stats_t stats = {.size = sizeof stats};
  OK(sched_stats(s, &stats));
  add(&looked);
  until(&left, 1);
  return NULL;
}

static void crowd(int count, int *made, int *well) {
  struct one *all = calloc((size_t)count, sizeof *all);
  const int files = entries("/proc/self/fd"), warm = count > 2;
  pthread_t idle;
  char message[300];
  *made = *well = looked = left = 0;
  for (int i = 0; i < count; i++) {
    sched_config_t config = {.size = sizeof config, .slots = 1 + (uint32_t)i % 2,
                             .cpu_threads = 1 + (uint32_t)i % 3};
    sched_status_t status = sched_create(&config, &all[i].s);
    *made += status == SCHED_OK;
    CHECK((all[i].s != NULL) == (status == SCHED_OK));
    if (status != SCHED_OK) check_refusal(status, sched_last_error(), "create", i);
  }
  for (int i = 0; i < count; i++) {
    for (int k = 0; all[i].s != NULL && k < each; k++) {
      sched_task_desc_t desc = task(count_run, &all[i]);
      desc.drop = drop;
      desc.work = k % 2;
      sched_status_t status = sched_submit(all[i].s, &desc, &all[i].ids[k]);
      if (status != SCHED_OK) check_refusal(status, sched_last_error(), "submit", i);
    }
  }
  for (int i = 0; i < count; i++) {
    for (int k = 0; k < each; k++) {
      if (all[i].ids[k] == 0) continue;
      sched_status_t status = wait_for(all[i].s, all[i].ids[k]);
      *well += status == SCHED_OK;
      if (status == SCHED_OK) continue;
      sched_task_error(all[i].s, all[i].ids[k], message, sizeof message, NULL);
      check_refusal(status, message, "task", i);
    }
  }
  /* The system may refuse the thread. */
  const int has_idle = all[0].s != NULL && pthread_create(&idle, NULL, looks_once, all[0].s) == 0;
  until(&looked, has_idle);
  for (int i = 0; i < count; i++) {
    sched_stats_t stats = {.size = sizeof stats};
    if (all[i].s == NULL) continue;
    OK(sched_stats(all[i].s, &stats));
    CHECK(stats.submitted == stats.done + stats.failed && !stats.queued && !stats.running);
    OK(sched_destroy(all[i].s));
    CHECK(all[i].dropped == each);
    EXPECT(SCHED_E_STALE, sched_destroy(all[i].s));
  }
  /* The idle thread keeps no file of the scheduler that it used. */
  CHECK(!warm || entries("/proc/self/fd") == files);
  add(&left);
  CHECK(!has_idle || pthread_join(idle, NULL) == 0);
  free(all);
}

int main(int argc, char **argv) {
  within(120);
  CHECK(argc >= 3);
  int count = atoi(argv[1]), made[2], well[2];
  each = atoi(argv[2]);
  /* Warms up: allocations that are made once per process. */
  crowd(2, &made[0], &well[0]);
  int files = entries("/proc/self/fd");
  crowd(count, &made[0], &well[0]);
  malloc_trim(0);
  size_t used = mallinfo2().uordblks;
  ran = 0;
  crowd(count, &made[1], &well[1]);
  malloc_trim(0);
  for (int i = 0; i < 5000 && entries("/proc/self/task") > 3; i++) usleep(1000);
  CHECK(entries("/proc/self/task") == 3);
  CHECK(entries("/proc/self/fd") == files);
  CHECK(mallinfo2().uordblks <= used + (512 << 10));
  CHECK(ran == well[1]);
  if (argc == 4)
    for (int i = 0; i < 2; i++) CHECK(made[i] == count && well[i] == each * count);
  printf("of %d schedulers %d and %d were made, %d and %d of their tasks ended well\n", count,
         made[0], made[1], well[0], well[1]);
  return failures != 0;
}
