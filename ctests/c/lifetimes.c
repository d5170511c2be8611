/* Creates and destroys schedulers, or loads and unloads the library, and compares what the process
 * holds before and after.
 *
 *   lifetimes schedulers COUNT     creates, uses and destroys COUNT schedulers
 *   lifetimes loads COUNT          opens, uses and closes the library COUNT times, also while workers sleep
 *
 * Each mode warms up first. The library is found by name, so nothing of it is linked here. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "gpusched.h"

#define NAME "libgpusched.so"

static int failures;
static void *library;

static void check(int right, const char *what, long number) {
  if (!right) fprintf(stderr, "not as promised: %s (%ld)\n", what, number);
  failures += !right;
}

#define FUNCTIONS(F)                                                                    \
  F(sched_create) F(sched_submit) F(sched_wait) F(sched_release) F(sched_destroy)       \
  F(sched_progress_callback) F(sched_fd_model_create) F(sched_fd_model_destroy)         \
  F(sched_fd_submit)
#define DECLARE(function) __typeof__(function) *function;
#define FIND(function)                                   \
  *(void **)&lib.function = dlsym(library, #function);   \
  check(lib.function != NULL, #function, 0);

static struct {
  FUNCTIONS(DECLARE)
} lib;

static void open_library(void) {
  library = dlopen(NAME, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  FUNCTIONS(FIND)
}

static long entries(const char *folder) {
  long count = 0;
  DIR *open = opendir(folder);
  if (open == NULL) return -1;
  while (readdir(open) != NULL) count++;
  closedir(open);
  return count;
}

static long lines(const char *path) {
  long count = 0;
  FILE *file = fopen(path, "r");
  if (file == NULL) return -1;
  for (int c; (c = fgetc(file)) != EOF;) count += c == '\n';
  fclose(file);
  return count;
}

static long size_of(const char *key) {
  char line[256];
  long kilobytes = -1;
  FILE *file = fopen("/proc/self/status", "r");
  if (file == NULL) return -1;
  while (kilobytes < 0 && fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, key, strlen(key)) == 0) kilobytes = strtol(line + strlen(key), NULL, 10);
  fclose(file);
  check(kilobytes >= 0, key, kilobytes);
  return kilobytes * 1024;
}

/* Bounds the caches that the sizes would include. glibc caches up to 40 MiB of stacks of ended
 * threads, and arenas and small blocks for each thread; with transparent huge pages, two cached
 * stacks are 4 MiB. */
static void without_caches(char **argv) {
  const char *tunables = "glibc.pthread.stack_cache_size=0:glibc.malloc.arena_max=1:glibc.malloc.tcache_count=0";
  const char *found = getenv("GLIBC_TUNABLES");
  if (found != NULL && strcmp(found, tunables) == 0) return;
  /* Both survive `exec`; glibc reads its variable only when a program starts. */
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  setenv("GLIBC_TUNABLES", tunables, 1);
  execv("/proc/self/exe", argv);
  perror("execv");
  exit(2);
}

struct has { long threads, files, maps, space, used, resident; };

static struct has now(long threads) {
  struct has has;
  /* A thread that was joined may remain in the list for a moment. */
  for (int i = 0; i < 60000 && threads >= 0 && entries("/proc/self/task") > threads; i++) usleep(1000);
  malloc_trim(0);
  has.threads = entries("/proc/self/task");
  has.files = entries("/proc/self/fd");
  has.maps = lines("/proc/self/maps");
  has.space = size_of("VmSize:");
  has.used = (long)mallinfo2().uordblks + (long)mallinfo2().hblkhd;
  /* Pages of the library's own file are the page cache's, and are mapped when code first runs. */
  has.resident = size_of("RssAnon:");
  return has;
}

/* Compares the sizes before and after `rounds` rounds. The limits are far below one page, or one
 * mapping, per round, and far above the variation of the heap (0.1 MB), which does not depend on
 * the number of rounds. */
static void same(struct has before, struct has after, int rounds) {
  const long heap = 256 << 10, pages = 1 << 20;
  printf("threads %ld, files %ld, mappings %ld (%+ld), space %+ld bytes, in use %+ld bytes, resident %+ld bytes\n",
         after.threads, after.files, after.maps, after.maps - before.maps, after.space - before.space,
         after.used - before.used, after.resident - before.resident);
  check(rounds * sysconf(_SC_PAGESIZE) >= 3 * pages, "enough rounds that a page each would show", rounds);
  check(after.threads == before.threads, "threads are left", after.threads - before.threads);
  check(after.files == before.files, "files are left open", after.files - before.files);
  check(after.maps <= before.maps + 16, "mappings are left", after.maps - before.maps);
  check(after.space <= before.space + pages, "address space is left, bytes", after.space - before.space);
  check(after.used <= before.used + heap, "memory is left, bytes", after.used - before.used);
  check(after.resident <= before.resident + pages, "the process has grown, bytes", after.resident - before.resident);
}

static long ran;

static int32_t quickly(const sched_exec_t *exec, void *user) {
  (void)exec;
  __atomic_fetch_add((long *)user, 1, __ATOMIC_SEQ_CST);
  return 0;
}

static int32_t slowly(const sched_exec_t *exec, void *user) {
  usleep(500);
  return quickly(exec, user);
}

static void progress(const sched_progress_t *told, void *user) { (void)told, (void)user; }

static sched_task_t submit(sched_t *s, const sched_task_desc_t *desc, int round) {
  sched_task_t id = 0;
  check(lib.sched_submit(s, desc, &id) == SCHED_OK, "submit", round);
  return id;
}

/* Runs one lifetime; `round` selects the calls in it. */
static void live(int round) {
  sched_config_t config = {.size = sizeof config, .devices = "cpu"};
  config.slots = 1 + (uint32_t)round % 3;
  config.cpu_threads = 1 + (uint32_t)round % 2;
  sched_task_desc_t desc = {.size = sizeof desc, .user = &ran, .label = "a life"};
  desc.run = round % 7 == 0 ? slowly : quickly;
  sched_t *s = NULL;
  if (round % 11 == 0) config.trace_events = 100;
  check(lib.sched_create(&config, &s) == SCHED_OK, "create", round);
  if (round % 5 == 0) lib.sched_progress_callback(s, progress, NULL, 1000000);
  if (round % 2 == 0) {
    desc.work = round % 4 == 0 ? 1.0 : 0.0;
    sched_task_t id = submit(s, &desc, round);
    check(lib.sched_wait(s, id, SCHED_FOREVER) == SCHED_OK, "wait", round);
    if (round % 3 == 0) check(lib.sched_release(s, id) == SCHED_OK, "release", round);
  }
  for (int i = 0; round % 7 == 0 && i < 5; i++) submit(s, &desc, round);
  check(lib.sched_destroy(s) == SCHED_OK, "destroy", round);
}

/* A shot on a model that is destroyed before the shot ends. */
static void shoot(void) {
  enum { N = 8, NT = 10 };
  static float vp[N * N * N], record[N * N * NT];
  for (int i = 0; i < N * N * N; i++) vp[i] = 2000.0f;
  sched_config_t config = {.size = sizeof config, .devices = "cpu", .cpu_threads = 2};
  sched_fd_model_desc_t desc = {.size = sizeof desc, .nx = N, .ny = N, .nz = N,
                                .dx_m = 10, .dy_m = 10, .dz_m = 10, .vp_m_s = vp};
  sched_fd_shot_desc_t shot = {.size = sizeof shot, .dt_s = 0.001f, .frequency_hz = 30, .nt = NT,
                               .record = record, .record_len = N * N * NT};
  sched_t *s = NULL;
  sched_fd_model_t *model = NULL;
  sched_task_t id = 0;
  check(lib.sched_create(&config, &s) == SCHED_OK, "create", 0);
  check(lib.sched_fd_model_create(&desc, &model) == SCHED_OK, "a model", 0);
  check(lib.sched_fd_submit(s, model, &shot, NULL, &id) == SCHED_OK, "a shot", 0);
  check(lib.sched_fd_model_destroy(model) == SCHED_OK, "the model's end", 0);
  check(lib.sched_wait(s, id, SCHED_FOREVER) == SCHED_OK, "the shot's end", 0);
  check(lib.sched_destroy(s) == SCHED_OK, "destroy", 0);
}

static void live_and_shoot(int rounds) {
  for (int round = 0; round < rounds; round++) {
    live(round);
    if (round % 100 == 0) shoot();
  }
}

static struct has start(void) {
  struct has has = now(-1);
  has.threads = 2 + 1; /* the entries ".", ".." and this thread */
  return has;
}

static void schedulers(int count) {
  open_library();
  live_and_shoot(500);
  struct has before = start();
  live_and_shoot(count);
  printf("%d schedulers, %ld tasks: ", count, ran);
  /* With 10,000 schedulers, the limit of the heap is 26 bytes each: less than the smallest
   * block. */
  same(before, now(before.threads), count);
}

static void until_ran(long wanted) {
  while (__atomic_load_n(&ran, __ATOMIC_SEQ_CST) < wanted) usleep(100);
}

static void loads(int count) {
  struct has before = {0, 0, 0, 0, 0, 0};
  /* Before anything else could hold a reference. */
  open_library();
  check(dlclose(library) == 0, "dlclose", 0);
  check(dlopen(NAME, RTLD_NOW | RTLD_NOLOAD) != NULL, "the library can't be unloaded", 0);
  if (failures) return;
  dlclose(library);
  for (int round = -100; round < count; round++) {
    if (round == 0) before = start();
    open_library();
    live(4 * round + 400);
    if (round % 10 == 0) shoot();
    /* Closed while workers run tasks, or sleep; the handle is good at the next opening. */
    sched_config_t config = {.size = sizeof config, .devices = "cpu", .slots = 2};
    sched_task_desc_t desc = {.size = sizeof desc, .run = slowly, .user = &ran};
    sched_t *kept = NULL;
    check(lib.sched_create(&config, &kept) == SCHED_OK, "create", round);
    const int queued = round % 10 == 0 ? 20 : 1;
    const long wanted = __atomic_load_n(&ran, __ATOMIC_SEQ_CST) + queued;
    for (int i = 0; i < queued; i++) submit(kept, &desc, round);
    if (queued == 1) until_ran(wanted);
    check(dlclose(library) == 0, "dlclose", round);
    check(dlopen(NAME, RTLD_NOW | RTLD_NOLOAD) != NULL, "the library is gone", round);
    if (failures) return;
    dlclose(library);
    until_ran(wanted);
    usleep(100);
    open_library();
    submit(kept, &desc, round);
    check(lib.sched_destroy(kept) == SCHED_OK, "destroy", round);
    check(dlclose(library) == 0, "dlclose", round);
  }
  printf("%d loads: ", count);
  same(before, now(before.threads), count);
}

int main(int argc, char **argv) {
  const int count = argc == 3 ? atoi(argv[2]) : 0;
  without_caches(argv);
  if (count > 0) strcmp(argv[1], "loads") == 0 ? loads(count) : schedulers(count);
  check(count > 0, "a number of rounds", count);
  return failures != 0;
}
