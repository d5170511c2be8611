/* Random calls of the C API from several threads, also inside tasks: handles that are stale,
 * foreign or NULL, structs of wrong sizes, absurd numbers. Every call returns, with a status that
 * the header knows; what was lent is given back exactly once; nothing is written beyond the room
 * that was offered.
 *
 *   fuzz_calls SEED CALLS THREADS FOLDER
 *
 * CALLS are those of each thread. Ends with 1 if something was not as promised, with 142 and each
 * thread's last call if it hangs. */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpusched.h"
#include "gpusched_legacy.h"

#define THREADS 16
#define SCHEDULERS 6
#define TASKS 64
#define MODELS 4
#define ROOM 8192

static int failures;
static char trace_path[4096];
static const char *volatile last_call[THREADS];

static void fail(const char *call, const char *why, int64_t number) {
  fprintf(stderr, "%s: %s (%lld): %s\n", call, why, (long long)number, sched_last_error());
  __atomic_fetch_add(&failures, 1, __ATOMIC_SEQ_CST);
}

typedef struct {
  uint64_t state;
  int inside; /* in a task: no endless waits, and only its own scheduler may be destroyed */
  int thread; /* -1: a thread of the library */
} chance_t;

static uint64_t any(chance_t *c) {
  c->state ^= c->state >> 12;
  c->state ^= c->state << 25;
  c->state ^= c->state >> 27;
  return c->state * 0x2545f4914f6cdd1dULL >> 8;
}

static uint64_t below(chance_t *c, uint64_t end) { return any(c) % end; }
static int one_in(chance_t *c, uint64_t n) { return below(c, n) == 0; }

static uint64_t number(chance_t *c) {
  static const uint64_t edges[] = {0, 1, 2, 63, 64, 65, 4096, 1u << 31, UINT32_MAX, 1ull << 32, INT64_MAX, 1ull << 63, UINT64_MAX - 1, UINT64_MAX};
  return one_in(c, 3) ? any(c) : edges[below(c, sizeof edges / sizeof *edges)];
}

static double real(chance_t *c) {
  static const double edges[] = {0.0, -0.0, 1.0, -1.0, 1e-101, 1e101, 1e-300, 1e300, NAN, INFINITY, -INFINITY, 0.5, 1e-3, 20.0};
  return edges[below(c, sizeof edges / sizeof *edges)];
}

static const char *text(chance_t *c) {
  static char longest[20000];
  static const char *texts[] = {"", "cpu", "all", "none", "cpu,cpu", "cuda:7", "abacus", "\xff\xfe", "%s%n", "\x1b[2J\n", ",,,", longest, NULL};
  if (longest[0] == 0) memset(longest, 'x', sizeof longest - 1);
  return texts[below(c, sizeof texts / sizeof *texts)];
}

static int64_t wait_time(chance_t *c) {
  static const int64_t times[] = {0, 0, 1, 1000, 1000000, 3000000};
  return times[below(c, sizeof times / sizeof *times)];
}

static void *schedulers[SCHEDULERS], *models[MODELS];
static struct {
  sched_t *of;
  uint64_t id;
} tasks[TASKS];
static long calls, errors, made, dropped, ran, accepted;

static void *load(void **place) { return __atomic_load_n(place, __ATOMIC_SEQ_CST); }

static void count(long *number) { __atomic_fetch_add(number, 1, __ATOMIC_SEQ_CST); }

static sched_t *scheduler(chance_t *c) {
  switch (below(c, 24)) {
    case 0: return NULL;
    case 1: return load(&models[below(c, MODELS)]);
    case 2: return (sched_t *)(uintptr_t)number(c);
    case 3: return (sched_t *)trace_path;
    default: return load(&schedulers[below(c, SCHEDULERS)]);
  }
}

static sched_fd_model_t *model(chance_t *c) {
  switch (below(c, 16)) {
    case 0: return load(&schedulers[below(c, SCHEDULERS)]);
    case 1: return (sched_fd_model_t *)(uintptr_t)number(c);
    case 2: return NULL;
    default: return load(&models[below(c, MODELS)]);
  }
}

/* Returns an id, and mostly the scheduler of that task. */
static uint64_t task(chance_t *c, sched_t **of) {
  uint64_t at = below(c, TASKS);
  *of = __atomic_load_n(&tasks[at].of, __ATOMIC_SEQ_CST);
  if (one_in(c, 12)) *of = scheduler(c);
  return one_in(c, 12) ? number(c) : __atomic_load_n(&tasks[at].id, __ATOMIC_SEQ_CST);
}

static void keep(chance_t *c, sched_t *of, uint64_t id) {
  uint64_t at = below(c, TASKS);
  count(&accepted);
  __atomic_store_n(&tasks[at].of, of, __ATOMIC_SEQ_CST);
  __atomic_store_n(&tasks[at].id, id, __ATOMIC_SEQ_CST);
}

static int32_t told(chance_t *c, const char *call, int32_t status) {
  count(&calls);
  if (status < 0) count(&errors);
  if (!strcmp(sched_status_name(status), "unknown status")) fail(call, "an unknown status", status);
  if (status == SCHED_E_PANIC || status == SCHED_E_INTERNAL) fail(call, "the library's own fault", status);
  if (status < 0 && sched_last_error()[0] == 0) fail(call, "an error without words", status);
  if (c->thread >= 0) last_call[c->thread] = "none";
  return status;
}

#define CALL(function, ...) \
  ((void)(c->thread >= 0 ? (last_call[c->thread] = #function) : ""), told(c, #function, function(__VA_ARGS__)))

typedef union {
  size_t size;
  sched_config_t config;
  sched_task_desc_t task;
  sched_range_desc_t range;
  sched_fd_model_desc_t model;
  sched_fd_shot_desc_t shot;
  char bytes[ROOM];
} struct_t;

static int odd_size(chance_t *c, struct_t *s, size_t right) {
  s->size = right;
  if (!one_in(c, 8)) return 0;
  switch (below(c, 4)) {
    case 0: s->size = number(c); break;
    case 1: s->size = below(c, right); break;
    case 2: s->size = 8 * below(c, right / 8); break;
    default: s->size = right + 8 * below(c, 40); break;
  }
  if (s->size < ROOM && s->size > right && one_in(c, 2)) s->bytes[s->size - 1] = 1;
  return s->size != right;
}

#define FILLED(function, right, ...) \
  do { \
    struct_t filled; \
    memset(&filled, 0, sizeof filled); \
    odd_size(c, &filled, right); \
    size_t size = filled.size; \
    memset(filled.bytes + sizeof size, 0x5a, sizeof filled - sizeof size); \
    if (CALL(function, __VA_ARGS__ (void *)&filled) != SCHED_OK) size = sizeof size; \
    for (size_t i = size; i < sizeof filled; i++) \
      if (filled.bytes[i] != 0x5a) { \
        fail(#function, "wrote beyond its room", (int64_t)i); \
        break; \
      } \
  } while (0)

/* User data of a task. It is freed when the task drops it, so that a memory checker reports a
 * late use. */
typedef struct {
  sched_t *of;
  uint64_t seed;
  int drops, depth;
  float *record, *snapshots;
} lent_t;

static void one_call(chance_t *c, int depth);

static void drop(void *user) {
  lent_t *lent = user;
  if (lent == NULL) return;
  if (__atomic_fetch_add(&lent->drops, 1, __ATOMIC_SEQ_CST) != 0) fail("drop", "called again", lent->drops);
  sched_stats_t stats = {sizeof stats, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  if (lent->seed % 5 == 0) sched_stats(lent->of, &stats);
  free(lent->record);
  free(lent->snapshots);
  memset(lent, 0xdd, sizeof *lent);
  free(lent);
  count(&dropped);
}

static int32_t run(const sched_exec_t *exec, void *user) {
  static const int32_t ends[] = {0, 0, 0, 0, 0, 0, 0, 1, 7, -1, SCHED_CANCELLED, INT32_MIN, INT32_MAX};
  lent_t *lent = user;
  chance_t chance = {lent == NULL ? 1 : lent->seed | 1, 1, -1}, *c = &chance;
  sched_exec_t copy = *exec;
  void *memory = NULL;
  count(&ran);
  CALL(sched_exec_report, exec, real(c));
  sched_exec_cancelled(exec);
  if (one_in(c, 8)) CALL(sched_exec_cancelled, &copy);
  if (one_in(c, 8)) CALL(sched_exec_report, NULL, 0.5);
  uint64_t bytes = one_in(c, 2) ? 100 : number(c);
  if (one_in(c, 8)) CALL(sched_exec_memory, exec, bytes, &memory);
  if (memory != NULL) memset(memory, 1, bytes < 4096 ? bytes : 4096);
  if (one_in(c, 4) && lent != NULL && lent->depth < 2)
    for (int i = 0; i < 3; i++) one_call(c, lent->depth + 1);
  if (one_in(c, 8) && lent != NULL && lent->of != NULL) CALL(sched_destroy, lent->of);
  if (one_in(c, 6)) usleep((unsigned)below(c, 3000));
  if (one_in(c, 6)) CALL(sched_exec_commit, exec);
  if (lent != NULL && lent->of != NULL && one_in(c, 200)) return SCHED_E_DEVICE;
  if (lent != NULL && lent->of != NULL && one_in(c, 200)) return SCHED_E_MEMORY;
  return ends[below(c, sizeof ends / sizeof *ends)];
}

static int32_t piece(const sched_exec_t *exec, uint64_t begin, uint64_t end, void *user) {
  if (begin >= end) fail("sched_range_fn", "a piece of nothing", (int64_t)begin);
  count(&ran);
  sched_exec_report(exec, 0.5);
  (void)user;
  return end % 1000 == 999 ? 5 : 0;
}

static lent_t *lend(chance_t *c, sched_t *of, int depth) {
  lent_t *lent = calloc(1, sizeof *lent);
  lent->of = of;
  lent->seed = any(c);
  lent->depth = depth;
  count(&made);
  return lent;
}

/* Fills in the struct. Returns whether the library owes a drop for it. */
static int describe(chance_t *c, struct_t *s, sched_t *of, int depth, uint64_t *after, int shot) {
  memset(s, 0, sizeof *s);
  int odd = odd_size(c, s, sizeof s->task);
  if (!shot || one_in(c, 12)) s->task.run = one_in(c, 20) ? NULL : run;
  if (!odd) {
    s->task.user = lend(c, of, depth);
    s->task.drop = drop;
  } else if (s->size > offsetof(sched_task_desc_t, user)) {
    s->task.user = NULL;
  }
  if (one_in(c, 3)) s->task.label = text(c);
  if (one_in(c, 3)) s->task.work = real(c);
  if (one_in(c, 4)) s->task.priority = (int32_t)number(c);
  if (one_in(c, 4)) s->task.retries = (uint32_t)below(c, 3);
  if (one_in(c, 3)) s->task.flags = (uint32_t)below(c, 9);
  if (one_in(c, 6)) s->task.device_bytes = number(c);
  if (one_in(c, 12)) s->task.device_mask = number(c);
  if (one_in(c, 12)) s->task.backend_mask = (uint32_t)below(c, 5);
  if (one_in(c, 8)) s->task.deadline_ns = (int64_t)number(c);
  if (one_in(c, 6)) s->task.task_class = (uint32_t)number(c);
  if (one_in(c, 30)) s->task.reserved = 1;
  if (one_in(c, 4)) {
    sched_t *whose;
    s->task.after_count = below(c, 4);
    for (size_t i = 0; i < s->task.after_count; i++) after[i] = task(c, &whose);
    s->task.after = one_in(c, 10) ? NULL : after;
  }
  return !odd;
}

static void submit(chance_t *c, int depth) {
  struct_t s;
  uint64_t after[4], id = 0;
  sched_t *of = scheduler(c);
  describe(c, &s, of, depth, after, 0);
  if (CALL(sched_submit, of, one_in(c, 40) && s.task.user == NULL ? NULL : &s.task, one_in(c, 10) ? NULL : &id) == SCHED_OK && id != 0)
    keep(c, of, id);
}

static void submit_many(chance_t *c, int depth) {
  struct_t s;
  sched_task_desc_t descs[4];
  uint64_t after[4][4], ids[4] = {0};
  sched_t *of = scheduler(c);
  size_t how_many = below(c, 5), there = 0;
  for (size_t i = 0; i < how_many; i++)
    if (describe(c, &s, of, depth, after[i], 0)) descs[there++] = s.task;
  if (CALL(sched_submit_many, of, descs, there, one_in(c, 10) ? NULL : ids) == SCHED_OK)
    for (size_t i = 0; i < there; i++)
      if (ids[i] != 0) keep(c, of, ids[i]);
}

static void submit_range(chance_t *c, int depth) {
  struct_t s;
  uint64_t id = 0;
  sched_t *of = scheduler(c);
  memset(&s, 0, sizeof s);
  int odd = odd_size(c, &s, sizeof s.range);
  s.range.begin = one_in(c, 8) ? number(c) : below(c, 10);
  s.range.end = s.range.begin + below(c, 5000);
  s.range.run = one_in(c, 20) ? NULL : piece;
  if (!odd) s.range.user = lend(c, of, depth), s.range.drop = drop;
  if (one_in(c, 4)) s.range.grain = one_in(c, 2) ? number(c) : 100;
  if (one_in(c, 4)) s.range.flags = (uint32_t)below(c, 9);
  if (one_in(c, 6)) s.range.device_bytes = number(c);
  if (one_in(c, 8)) s.range.deadline_ns = (int64_t)number(c);
  if (one_in(c, 8)) s.range.device_mask = number(c);
  if (CALL(sched_submit_range, of, &s.range, &id) == SCHED_OK) keep(c, of, id);
}

static float field[1000];

static void make_model(chance_t *c) {
  struct_t s;
  sched_fd_model_t *out = NULL;
  memset(&s, 0, sizeof s);
  odd_size(c, &s, sizeof s.model);
  s.model.nx = 4 + below(c, 6);
  s.model.ny = 4 + below(c, 6);
  s.model.nz = 4 + below(c, 6);
  s.model.dx_m = s.model.dy_m = s.model.dz_m = 10.0f;
  s.model.vp_m_s = field;
  if (one_in(c, 2)) s.model.rho_kg_m3 = field;
  /* Either at most as many cells as the arrays have, or absurdly many. */
  if (one_in(c, 10)) s.model.nx = one_in(c, 2) ? 0 : 100001 + number(c) / 2;
  if (one_in(c, 10)) s.model.dx_m = (float)real(c);
  if (one_in(c, 10)) s.model.flags = (uint32_t)below(c, 8);
  if (one_in(c, 20)) s.model.vp_m_s = NULL;
  if (CALL(sched_fd_model_create, &s.model, one_in(c, 30) ? NULL : &out) == SCHED_OK) {
    void *old = __atomic_exchange_n(&models[below(c, MODELS)], out, __ATOMIC_SEQ_CST);
    CALL(sched_fd_model_destroy, old);
  }
}

static void submit_shot(chance_t *c, int depth) {
  static const sched_fd_cell_t cells[3] = {{1, 1, 1}, {2, 0, 3}, {0, 3, 0}};
  struct_t s, t;
  uint64_t after[4], id = 0;
  sched_t *of = scheduler(c);
  memset(&s, 0, sizeof s);
  odd_size(c, &s, sizeof s.shot);
  s.shot.dt_s = 0.0005f;
  s.shot.frequency_hz = 40.0f;
  s.shot.nt = 1 + below(c, 12);
  s.shot.source.ix = below(c, 5);
  if (one_in(c, 3)) s.shot.receivers = cells, s.shot.receiver_count = below(c, 4);
  if (one_in(c, 4)) s.shot.flags = (uint32_t)below(c, 9);
  if (one_in(c, 6)) s.shot.record_every = (uint32_t)number(c);
  if (one_in(c, 6)) s.shot.wavelet = (int32_t)below(c, 9) - 1;
  if (one_in(c, 6)) s.shot.wavelet_samples = field, s.shot.wavelet_len = below(c, 14);
  if (one_in(c, 12)) s.shot.plane_iz = number(c);
  if (one_in(c, 8)) s.shot.plane_every_x = (uint32_t)number(c);
  if (one_in(c, 12)) s.shot.dt_s = (float)real(c);
  if (one_in(c, 12)) s.shot.source.iz = number(c);
  if (one_in(c, 12)) s.shot.nt = number(c);
  if (one_in(c, 12)) s.shot.amplitude = (float)real(c);
  if (one_in(c, 6)) s.shot.snapshot_every = 1 + (uint32_t)below(c, 12);
  sched_fd_model_t *of_model = model(c);
  if (one_in(c, 2)) FILLED(sched_fd_shot_size, sizeof(sched_fd_shot_size_t), of_model, &s.shot, );
  sched_fd_shot_size_t size = {0};
  size.size = sizeof size;
  if (CALL(sched_fd_shot_size, of_model, &s.shot, &size) != SCHED_OK) return;
  if (size.traces * size.samples > 1 << 20 || s.shot.nt > 1000) return;
  if (!describe(c, &t, of, depth, after, 1)) return;
  lent_t *lent = t.task.user;
  /* The required length, or one value less. */
  s.shot.record_len = size.traces * size.samples - (size_t)one_in(c, 12);
  s.shot.snapshots_len = size.snapshots * 1000;
  lent->record = malloc(4 * (s.shot.record_len + 1));
  lent->snapshots = malloc(4 * (s.shot.snapshots_len + 1));
  s.shot.record = lent->record;
  s.shot.snapshots = lent->snapshots;
  if (CALL(sched_fd_submit, of, of_model, &s.shot, &t.task, &id) == SCHED_OK && id != 0) keep(c, of, id);
}

static void create(chance_t *c) {
  struct_t s;
  sched_t *out = NULL;
  memset(&s, 0, sizeof s);
  odd_size(c, &s, sizeof s.config);
  s.config.devices = one_in(c, 5) ? text(c) : "cpu";
  s.config.slots = (uint32_t)(one_in(c, 8) ? number(c) : 1 + below(c, 4));
  if (s.config.slots > 8 && s.config.slots <= 64) s.config.slots = 8;
  s.config.cpu_threads = 1 + (uint32_t)below(c, 3);
  if (one_in(c, 3)) s.config.trace_events = (uint32_t)below(c, 1000);
  if (one_in(c, 10)) s.config.rates_path = one_in(c, 2) ? "/dev/null" : "/dev/zero";
  if (CALL(sched_create, one_in(c, 30) ? NULL : &s.config, one_in(c, 30) ? NULL : &out) == SCHED_OK) {
    void *old = __atomic_exchange_n(&schedulers[below(c, SCHEDULERS)], out, __ATOMIC_SEQ_CST);
    if (old != NULL) CALL(sched_destroy, old);
  }
}

static void progress(const sched_progress_t *told_of, void *user) {
  if (told_of->size < sizeof *told_of || user != trace_path) fail("sched_progress_fn", "not what was asked for", 0);
}

static void logs(int32_t level, const char *message, void *user) {
  if (level < 1 || level > 5 || message == NULL || user != trace_path) fail("sched_log_fn", "not what was asked for", level);
}

static void ask(chance_t *c) {
  sched_t *of;
  uint64_t id = task(c, &of);
  char buffer[64];
  size_t len = below(c, 33);
  memset(buffer, 0x5a, sizeof buffer);
  size_t whole = 0;
  char *to = one_in(c, 8) ? NULL : buffer;
  CALL(sched_task_error, of, id, to, one_in(c, 8) ? 0 : len, one_in(c, 8) ? NULL : &whole);
  for (size_t i = len; i < sizeof buffer; i++)
    if (buffer[i] != 0x5a) fail("sched_task_error", "wrote beyond its room", (int64_t)i);
  if (whole > 100000) fail("sched_task_error", "an endless sentence", (int64_t)whole);
  FILLED(sched_task_info, sizeof(sched_task_info_t), of, id, );
}

static void one_call(chance_t *c, int depth) {
  sched_t *of;
  uint64_t id;
  switch (below(c, 32)) {
    case 0: case 1: case 2: case 3: case 4: case 5: submit(c, depth); break;
    case 6: submit_many(c, depth); break;
    case 7: submit_range(c, depth); break;
    case 8: case 9: case 10: submit_shot(c, depth); break;
    case 11: make_model(c); break;
    case 12: case 13: case 14: id = task(c, &of), CALL(sched_wait, of, id, wait_time(c)); break;
    case 15: id = task(c, &of), CALL(sched_cancel, of, id); break;
    case 16: case 17: case 18: id = task(c, &of), CALL(sched_release, of, id); break;
    case 19: case 20: ask(c); break;
    case 21: {
      uint64_t ids[5];
      size_t index, there = below(c, 6);
      for (size_t i = 0; i < there; i++) ids[i] = task(c, &of);
      CALL(sched_wait_any, scheduler(c), ids, there, wait_time(c), one_in(c, 20) ? NULL : &index);
      break;
    }
    case 22: CALL(sched_wait_next, scheduler(c), wait_time(c), &id); break;
    case 23: CALL(sched_wait_all, scheduler(c), wait_time(c)); break;
    case 24: {
      uint32_t devices = 0;
      of = scheduler(c);
      CALL(sched_device_count, of, &devices);
      FILLED(sched_device_info, sizeof(sched_device_info_t), of, (uint32_t)(one_in(c, 2) ? 0 : number(c)), );
      FILLED(sched_device_stats, sizeof(sched_device_stats_t), of, (uint32_t)(one_in(c, 2) ? 0 : number(c)), );
      break;
    }
    case 25: of = scheduler(c); FILLED(sched_stats, sizeof(sched_stats_t), of, ); break;
    case 26: of = scheduler(c); FILLED(sched_progress, sizeof(sched_progress_t), of, ); break;
    case 27: {
      double dt;
      float samples[16];
      CALL(sched_fd_dt_max, model(c), one_in(c, 10) ? NULL : &dt);
      CALL(sched_fd_wavelet, (int32_t)below(c, 9) - 1, (float)real(c), (float)real(c), samples, below(c, 17));
      break;
    }
    case 28:
      if (one_in(c, 4)) CALL(sched_progress_callback, scheduler(c), one_in(c, 2) ? progress : NULL, trace_path, number(c));
      if (one_in(c, 4)) CALL(sched_log_callback, one_in(c, 2) ? logs : NULL, trace_path, (int32_t)below(c, 8) - 1);
      break;
    case 29: if (one_in(c, 4)) CALL(sched_trace_write, scheduler(c), one_in(c, 4) ? text(c) : trace_path); break;
    case 30:
      if (c->inside) break;
      if (one_in(c, 4)) CALL(sched_fd_model_destroy, model(c));
      of = scheduler(c);
      if (of != NULL && one_in(c, 20)) CALL(sched_drain, of, wait_time(c));
      if (of != NULL && one_in(c, 20)) CALL(sched_shutdown, of, wait_time(c));
      break;
    default:
      if (c->inside) break;
      if (one_in(c, 4)) create(c);
      if (one_in(c, 20)) {
        sched_t *shared = NULL;
        if (CALL(sched_default, &shared) == SCHED_OK) CALL(sched_destroy, shared);
        cuda_3dfd_1order("no such file", text(c), "", "", 0, 1, (int)below(c, 9), 4, 4, 10, (float)real(c), 10, 0, 0, 0, 1, 1, 1, 10,
                         10, 10, (int)below(c, 9), 0.0005f, (int)below(c, 9), 40, 0, 0, (int)number(c), (int)number(c));
      }
  }
}

static void play(chance_t *c, int how_many) {
  for (int i = 0; i < how_many; i++) one_call(c, 0);
}

static uint64_t seed;
static int calls_each;

static void *thread(void *number_of) {
  int at = (int)(intptr_t)number_of;
  chance_t c = {(seed + 1) * 0x9e3779b97f4a7c15ULL + (uint64_t)at * 7919, 0, at};
  c.state |= 1;
  for (int i = 0; i < 3; i++) create(&c), make_model(&c);
  play(&c, calls_each);
  last_call[at] = "over";
  return NULL;
}

static void hangs(int signal) {
  (void)signal;
  for (int i = 0; i < THREADS; i++)
    if (last_call[i] != NULL) fprintf(stderr, "thread %d: %s\n", i, last_call[i]);
  _exit(142);
}

int main(int argc, char **argv) {
  pthread_t threads[THREADS];
  if (argc != 5) {
    fprintf(stderr, "usage: %s SEED CALLS THREADS FOLDER\n", argv[0]);
    return 2;
  }
  seed = strtoull(argv[1], NULL, 10);
  calls_each = atoi(argv[2]);
  int how_many = atoi(argv[3]) < THREADS ? atoi(argv[3]) : THREADS;
  /* Traces may get any name in this folder. */
  if (chdir(argv[4]) != 0) return perror(argv[4]), 2;
  snprintf(trace_path, sizeof trace_path, "trace.json");
  for (int i = 0; i < 1000; i++) field[i] = 2000.0f + (float)i;
  signal(SIGALRM, hangs);
  /* Long enough for a machine that stops the process for a while. */
  alarm(120 + (unsigned)calls_each / 20);
  for (intptr_t i = 0; i < how_many; i++) pthread_create(&threads[i], NULL, thread, (void *)i);
  for (int i = 0; i < how_many; i++) pthread_join(threads[i], NULL);
  chance_t end = {1, 0, 0}, *c = &end;
  /* Schedulers that tasks created while the threads ended. */
  for (int i = 0; i < SCHEDULERS; i++) CALL(sched_destroy, load(&schedulers[i]));
  CALL(sched_wait_all, NULL, SCHED_FOREVER);
  for (int i = 0; i < MODELS; i++) CALL(sched_fd_model_destroy, load(&models[i]));
  CALL(sched_log_callback, NULL, NULL, 0);
  if (made != dropped) fail("drop", "not everything that was lent was given back", made - dropped);
  printf("seed %llu: %ld calls, %ld errors, %ld tasks accepted, %ld callbacks ran, %ld lent and %ld given back\n",
         (unsigned long long)seed, calls, errors, accepted, ran, made, dropped);
  /* With fewer successes or errors the calls test nothing. */
  if (calls > 2000 && (ran < calls / 50 || errors < calls / 50)) fail("fuzz_calls", "too one-sided", ran);
  return failures != 0;
}
