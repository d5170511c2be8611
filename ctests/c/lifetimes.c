/* Creates and destroys schedulers, or loads and unloads the library, and compares what the process holds before and
 * after: threads, open files, mappings, address space, heap in use and resident memory.
 *
 *   lifetimes schedulers COUNT     creates, uses and destroys COUNT schedulers
 *   lifetimes loads COUNT          opens, uses and closes the library COUNT times, also while workers sleep
 *
 * Each mode warms up first, so that only growth that continues is counted.
 *
 * The library is found by name, so nothing of it is linked here. */
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

static void open_library(void) {
  library = dlopen(NAME, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
}

/* A function of the library, under its own name. */
#define FIND(function) \
  __typeof__(function) *function = NULL; \
  *(void **)&function = dlsym(library, #function); \
  check(function != NULL, #function, 0)

/* --- what a process has --- */

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

/* A size from /proc/self/status, in bytes. */
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

/* Keeps the allocator's and the kernel's own caches out of the sizes. glibc keeps up to 40 MiB of stacks of threads
 * that have ended, an arena for each of several threads, and small blocks for each thread. The kernel may back the
 * touched end of a stack by 2 MiB at once (transparent huge pages): with them, two cached stacks are 4 MiB. */
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

struct has {
  long threads, files, maps, space, used, resident;
};

static struct has now(long threads) {
  struct has has;
  /* A thread that was joined may stay in the list for a moment. */
  for (int i = 0; i < 1000 && threads >= 0 && entries("/proc/self/task") > threads; i++) usleep(1000);
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

/* `rounds` rounds lie between the two. The limits are far below one page, or one mapping, a round, and far above what
 * the heap varies by from one moment to the next (0.1 MB), whatever the number of rounds. */
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

/* --- schedulers --- */

static int32_t quickly(const sched_exec_t *exec, void *user) {
  (void)exec;
  __atomic_fetch_add((long *)user, 1, __ATOMIC_SEQ_CST);
  return 0;
}

static int32_t slowly(const sched_exec_t *exec, void *user) {
  (void)exec;
  usleep(500);
  __atomic_fetch_add((long *)user, 1, __ATOMIC_SEQ_CST);
  return 0;
}

static long ran;

static void progress(const sched_progress_t *told, void *user) { (void)told, (void)user; }

/* One life; `round` decides what happens in it. */
static void live(int round) {
  FIND(sched_create);
  FIND(sched_submit);
  FIND(sched_wait);
  FIND(sched_release);
  FIND(sched_progress_callback);
  FIND(sched_destroy);
  sched_config_t config = {.size = sizeof config, .devices = "cpu", .slots = 1 + (uint32_t)round % 3, .cpu_threads = 1 + (uint32_t)round % 2};
  sched_task_desc_t desc = {.size = sizeof desc, .run = round % 7 == 0 ? slowly : quickly, .user = &ran, .label = "a life"};
  sched_t *s = NULL;
  sched_task_t id = 0;
  if (round % 11 == 0) config.trace_events = 100;
  check(sched_create(&config, &s) == SCHED_OK, "create", round);
  if (round % 5 == 0) sched_progress_callback(s, progress, NULL, 1000000);
  if (round % 2 == 0) {
    desc.work = round % 4 == 0 ? 1.0 : 0.0;
    check(sched_submit(s, &desc, &id) == SCHED_OK, "submit", round);
    check(sched_wait(s, id, SCHED_FOREVER) == SCHED_OK, "wait", round);
    if (round % 3 == 0) check(sched_release(s, id) == SCHED_OK, "release", round);
  }
  if (round % 7 == 0)
    for (int i = 0; i < 5; i++) sched_submit(s, &desc, &id);
  check(sched_destroy(s) == SCHED_OK, "destroy", round);
}

/* A shot on a model that goes before it has ended. */
static void shoot(void) {
  static float vp[8 * 8 * 8], record[8 * 8 * 10];
  FIND(sched_create);
  FIND(sched_fd_model_create);
  FIND(sched_fd_model_destroy);
  FIND(sched_fd_submit);
  FIND(sched_wait);
  FIND(sched_destroy);
  for (int i = 0; i < 8 * 8 * 8; i++) vp[i] = 2000.0f;
  sched_config_t config = {.size = sizeof config, .devices = "cpu", .cpu_threads = 2};
  sched_fd_model_desc_t desc = {.size = sizeof desc, .nx = 8, .ny = 8, .nz = 8, .dx_m = 10, .dy_m = 10, .dz_m = 10, .vp_m_s = vp};
  sched_fd_shot_desc_t shot = {.size = sizeof shot, .dt_s = 0.001f, .frequency_hz = 30, .nt = 10, .record = record, .record_len = 640};
  sched_t *s = NULL;
  sched_fd_model_t *model = NULL;
  sched_task_t id = 0;
  check(sched_create(&config, &s) == SCHED_OK, "create", 0);
  check(sched_fd_model_create(&desc, &model) == SCHED_OK, "a model", 0);
  check(sched_fd_submit(s, model, &shot, NULL, &id) == SCHED_OK, "a shot", 0);
  check(sched_fd_model_destroy(model) == SCHED_OK, "the model's end", 0);
  check(sched_wait(s, id, SCHED_FOREVER) == SCHED_OK, "the shot's end", 0);
  check(sched_destroy(s) == SCHED_OK, "destroy", 0);
}

static void schedulers(int count) {
  int warm = 500;
  open_library();
  for (int round = 0; round < warm; round++) {
    live(round);
    if (round % 100 == 0) shoot();
  }
  struct has before = now(-1);
  before.threads = 2 + 1; /* "." and "..", and this one */
  for (int round = 0; round < count; round++) {
    live(round);
    if (round % 100 == 0) shoot();
  }
  struct has after = now(before.threads);
  printf("%d schedulers, %ld tasks: ", count, ran);
  /* Of 10,000 schedulers, the limit of the heap is 26 bytes each: less than the smallest block. */
  same(before, after, count);
}

/* --- loading and unloading --- */

static void loads(int count) {
  sched_t *kept = NULL;
  struct has before = {0, 0, 0, 0, 0, 0};
  /* Before anything else could hold it. */
  open_library();
  check(dlclose(library) == 0, "dlclose", 0);
  check(dlopen(NAME, RTLD_NOW | RTLD_NOLOAD) != NULL, "the library is linked so that it can be unloaded", 0);
  if (failures) return;
  dlclose(library);
  for (int round = -100; round < count; round++) {
    if (round == 0) {
      before = now(-1);
      before.threads = 2 + 1;
    }
    open_library();
    live(4 * round + 400);
    if (round % 10 == 0) shoot();
    /* Closed while workers of a scheduler sleep; found again, with the same handle, at the next opening. */
    FIND(sched_create);
    FIND(sched_submit);
    FIND(sched_wait);
    sched_config_t config = {.size = sizeof config, .devices = "cpu", .slots = 2};
    sched_task_desc_t desc = {.size = sizeof desc, .run = quickly, .user = &ran};
    sched_task_t id = 0;
    check(sched_create(&config, &kept) == SCHED_OK, "create", round);
    check(sched_submit(kept, &desc, &id) == SCHED_OK, "submit", round);
    check(sched_wait(kept, id, SCHED_FOREVER) == SCHED_OK, "wait", round);
    check(dlclose(library) == 0, "dlclose", round);
    check(dlopen(NAME, RTLD_NOW | RTLD_NOLOAD) != NULL, "the library is gone, and its threads run on", round);
    if (failures) return;
    dlclose(library);
    usleep(100);
    open_library();
    FIND(sched_destroy);
    check(sched_submit(kept, &desc, &id) == SCHED_OK, "the handle after the next opening", round);
    check(sched_destroy(kept) == SCHED_OK, "destroy", round);
    check(dlclose(library) == 0, "dlclose", round);
  }
  struct has after = now(before.threads);
  printf("%d loads: ", count);
  same(before, after, count);
}

int main(int argc, char **argv) {
  int count = argc == 3 ? atoi(argv[2]) : 0;
  without_caches(argv);
  if (count > 0 && strcmp(argv[1], "schedulers") == 0) {
    schedulers(count);
  } else if (count > 0 && strcmp(argv[1], "loads") == 0) {
    loads(count);
  } else {
    fprintf(stderr, "usage: %s schedulers|loads COUNT\n", argv[0]);
    return 2;
  }
  return failures != 0;
}
