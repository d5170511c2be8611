/* What a caller can get wrong, one row each: the status that it gets and a part of the sentence.
 * Prints every sentence; docs/errors.md is made of them. A row that fails ends the program with 1. */
#define _DEFAULT_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpusched.h"

static int failures;
static const char *where = "";

static void section(const char *name) {
  where = name;
  printf("# %s\n", name);
}

static void fail(const char *name, const char *why) {
  fprintf(stderr, "%s: %s: %s\n", where, name, why);
  failures++;
}

/* One row. A part that begins with '~' marks a sentence whose numbers are this machine's or this run's. */
static void row(const char *name, int32_t got, int32_t wanted, const char *part) {
  const char *sentence = wanted < 0 ? sched_last_error() : "";
  int numbers = part[0] == '~';
  printf("%s\t%s\t%s%s\n", name, sched_status_name(got), numbers ? "~" : "", sentence);
  if (got != wanted) {
    fprintf(stderr, "%s: %s: %s (%s) instead of %s\n", where, name, sched_status_name(got), sched_last_error(),
            sched_status_name(wanted));
    failures++;
  } else if (strstr(sentence, part + numbers) == NULL) {
    fprintf(stderr, "%s: %s: \"%s\" does not say \"%s\"\n", where, name, sentence, part);
    failures++;
  }
}

/* Every call below starts from good arguments; a row changes what it wants to be wrong. */
#define N 12
static float vp[N * N * N];
static float rho[N * N * N];
static float record[N * N * 40];
static float snapshots[4 * N * N * N];

static sched_t *s;
static sched_fd_model_t *model;
static struct {
  sched_config_t config;
  char tail[32];
} c;
static struct {
  sched_task_desc_t desc;
  char tail[32];
} t;
static struct {
  sched_fd_model_desc_t desc;
  char tail[32];
} m;
static struct {
  sched_fd_shot_desc_t desc;
  char tail[32];
} f;

static int32_t well(const sched_exec_t *exec, void *user) {
  (void)exec;
  (void)user;
  return 0;
}

static int32_t badly(const sched_exec_t *exec, void *user) {
  (void)exec;
  (void)user;
  return 7;
}

static int dropped;
static void drop(void *user) {
  (void)user;
  dropped++;
}

static void reset(void) {
  memset(&c, 0, sizeof c);
  memset(&t, 0, sizeof t);
  memset(&m, 0, sizeof m);
  memset(&f, 0, sizeof f);
  c.config.size = sizeof c.config;
  t.desc.size = sizeof t.desc;
  t.desc.run = well;
  t.desc.drop = drop;
  m.desc.size = sizeof m.desc;
  m.desc.nx = m.desc.ny = m.desc.nz = N;
  m.desc.dx_m = m.desc.dy_m = m.desc.dz_m = 10.0f;
  m.desc.vp_m_s = vp;
  m.desc.rho_kg_m3 = rho;
  f.desc.size = sizeof f.desc;
  f.desc.dt_s = 0.001f;
  f.desc.frequency_hz = 20.0f;
  f.desc.nt = 40;
  f.desc.source.ix = f.desc.source.iy = f.desc.source.iz = N / 2;
  f.desc.record = record;
  f.desc.record_len = sizeof record / sizeof *record;
  for (int i = 0; i < N * N * N; i++) {
    vp[i] = 2000.0f;
    rho[i] = 1000.0f;
  }
}

/* Outputs are written only on success: a failing call must leave these as they are. */
static char mark;

static int32_t create(void) {
  sched_t *out = (sched_t *)&mark;
  int32_t status = sched_create(&c.config, &out);
  if (status != SCHED_OK && out != (sched_t *)&mark) fail("sched_create", "wrote its output and failed");
  if (status == SCHED_OK) sched_destroy(out);
  reset();
  return status;
}

static int32_t create_model(void) {
  sched_fd_model_t *out = (sched_fd_model_t *)&mark;
  int32_t status = sched_fd_model_create(&m.desc, &out);
  if (status != SCHED_OK && out != (sched_fd_model_t *)&mark) fail("model", "wrote its output and failed");
  if (status == SCHED_OK) sched_fd_model_destroy(out);
  reset();
  return status;
}

/* Submits and waits; the user pointer has to be given back exactly once, whatever happened. */
static int32_t submit_to(sched_t *to, int32_t drops) {
  sched_task_t id = 4711;
  dropped = 0;
  int32_t status = sched_submit(to, &t.desc, &id);
  if (status < 0 && id != 4711) fail("sched_submit", "wrote its output and failed");
  if (status == SCHED_OK) {
    status = sched_wait(to, id, SCHED_FOREVER);
    if (sched_wait(to, id, 0) != status) fail("sched_wait", "a second wait told something else");
    sched_release(to, id);
  }
  if (dropped != drops) fail("sched_submit", "drop was not called as often as promised");
  reset();
  return status;
}

static int32_t submit(void) { return submit_to(s, 1); }

/* The same for a range. */
static struct {
  sched_range_desc_t desc;
  char tail[32];
} r;

static int32_t piece(const sched_exec_t *exec, uint64_t begin, uint64_t end, void *user) {
  (void)exec, (void)user;
  return begin < end ? 0 : 1;
}

static int32_t bad_piece(const sched_exec_t *exec, uint64_t begin, uint64_t end, void *user) {
  (void)exec, (void)user, (void)begin, (void)end;
  return 7;
}

static void reset_range(void) {
  memset(&r, 0, sizeof r);
  r.desc.size = sizeof r.desc;
  r.desc.end = 10;
  r.desc.run = piece;
  r.desc.drop = drop;
}

static int32_t submit_range(int32_t drops) {
  sched_task_t id = 4711;
  dropped = 0;
  int32_t status = sched_submit_range(s, &r.desc, &id);
  if (status < 0 && id != 4711) fail("sched_submit_range", "wrote its output and failed");
  if (status == SCHED_OK) {
    status = sched_wait(s, id, SCHED_FOREVER);
    sched_release(s, id);
  }
  if (dropped != drops) fail("sched_submit_range", "drop was not called as often as promised");
  reset_range();
  return status;
}

static int32_t shot_size(void) {
  sched_fd_shot_size_t size = {0};
  size.size = sizeof size;
  int32_t status = sched_fd_shot_size(model, &f.desc, &size);
  if (status != SCHED_OK && size.traces != 0) fail("sched_fd_shot_size", "wrote its output and failed");
  reset();
  return status;
}

static int32_t submit_shot_of(const sched_fd_model_t *which) {
  sched_task_t id = 0;
  record[0] = 4711.0f;
  dropped = 0;
  t.desc.run = t.desc.run == badly ? badly : NULL;
  int32_t status = sched_fd_submit(s, which, &f.desc, &t.desc, &id);
  if (status == SCHED_OK) {
    status = sched_wait(s, id, SCHED_FOREVER);
    sched_release(s, id);
  }
  if (status != SCHED_OK && record[0] != 4711.0f) fail("sched_fd_submit", "wrote its record and failed");
  if (dropped != 1) fail("sched_fd_submit", "drop was not called exactly once");
  reset();
  return status;
}

static int32_t submit_shot(void) { return submit_shot_of(model); }

static int32_t wavelet(int32_t number, float frequency, float dt, float *samples) {
  return sched_fd_wavelet(number, frequency, dt, samples, 40);
}

static void models(void) {
  sched_fd_model_t *out = NULL;
  double dt = 0.0;
  section("models");
  row("desc NULL", sched_fd_model_create(NULL, &out), SCHED_E_ARGUMENT, "sched_fd_model_desc_t is NULL");
  row("out NULL", sched_fd_model_create(&m.desc, NULL), SCHED_E_ARGUMENT, "out is NULL");
  row("size never set", (m.desc.size = 0, create_model()), SCHED_E_ARGUMENT, "size of sched_fd_model_desc_t is 0");
  row("size of a pointer's garbage", (m.desc.size = (size_t)1 << 40, create_model()), SCHED_E_ARGUMENT, "sizeof");
  row("longer struct, tail set", (m.desc.size = sizeof m, m.tail[9] = 1, create_model()), SCHED_E_TOO_NEW, "newer");
  row("longer struct, tail zero", (m.desc.size = sizeof m, create_model()), SCHED_OK, "");
  row("shorter struct", (m.desc.size = offsetof(sched_fd_model_desc_t, rho_kg_m3), create_model()), SCHED_OK, "");
  row("unknown flags", (m.desc.flags = 2, create_model()), SCHED_E_ARGUMENT, "flags of a model is 0x2");
  row("values too far apart for 16 bits",
      (m.desc.flags = SCHED_FD_MODEL_16_BIT, vp[0] = 10.0f, vp[1] = 15.0f, create_model()), SCHED_E_ARGUMENT, "in 16 bits");
  row("nx zero", (m.desc.nx = 0, create_model()), SCHED_E_ARGUMENT, "nx is 0");
  row("ny beyond the limit", (m.desc.ny = 100001, create_model()), SCHED_E_ARGUMENT, "ny is 100001");
  row("nz negative in 64 bits", (m.desc.nz = (uint64_t)-1, create_model()), SCHED_E_ARGUMENT, "nz is");
  row("nx*ny*nz beyond 2^64", (m.desc.nx = m.desc.ny = m.desc.nz = (uint64_t)1 << 22, create_model()),
      SCHED_E_ARGUMENT, "nx is 4194304");
  row("10^15 cells", (m.desc.nx = m.desc.ny = m.desc.nz = 100000, create_model()), SCHED_E_MEMORY,
      "4000000000000000 bytes");
  row("dx zero", (m.desc.dx_m = 0.0f, create_model()), SCHED_E_ARGUMENT, "dx is 0");
  row("dx next to nothing", (m.desc.dx_m = 1e-45f, create_model()), SCHED_E_ARGUMENT, "dx is 0.0");
  row("dy negative", (m.desc.dy_m = -10.0f, create_model()), SCHED_E_ARGUMENT, "dy is -10");
  row("dz not a number", (m.desc.dz_m = NAN, create_model()), SCHED_E_ARGUMENT, "dz is NaN");
  row("dx infinite", (m.desc.dx_m = INFINITY, create_model()), SCHED_E_ARGUMENT, "dx is inf");
  row("no velocity", (m.desc.vp_m_s = NULL, create_model()), SCHED_E_ARGUMENT, "vp_m_s is NULL");
  row("velocity zero in a cell", (vp[N * N + 2 * N + 3] = 0.0f, create_model()), SCHED_E_ARGUMENT, "(2, 1, 3)");
  row("velocity not a number", (vp[0] = NAN, create_model()), SCHED_E_ARGUMENT, "velocity");
  row("velocity infinite", (vp[5] = INFINITY, create_model()), SCHED_E_ARGUMENT, "velocity");
  row("density negative", (rho[5] = -1.0f, create_model()), SCHED_E_ARGUMENT, "density");
  row("destroy NULL", sched_fd_model_destroy(NULL), SCHED_OK, "");
  row("destroy a foreign pointer", sched_fd_model_destroy((sched_fd_model_t *)&mark), SCHED_E_STALE, "~unknown");
  sched_fd_model_create(&m.desc, &out);
  sched_fd_model_destroy(out);
  row("destroy twice", sched_fd_model_destroy(out), SCHED_E_STALE, "~unknown");
  row("use after destroy", sched_fd_dt_max(out, &dt), SCHED_E_STALE, "~model");
  row("dt_max of NULL", sched_fd_dt_max(NULL, &dt), SCHED_E_ARGUMENT, "model is NULL");
  row("dt_max into NULL", sched_fd_dt_max(model, NULL), SCHED_E_ARGUMENT, "dt_s is NULL");
  if (dt != 0.0) fail("sched_fd_dt_max", "wrote its output and failed");
}

static void wavelets(void) {
  section("wavelets");
  row("unknown number", wavelet(7, 20.0f, 0.001f, record), SCHED_E_ARGUMENT, "is 7");
  row("negative number", wavelet(-1, 20.0f, 0.001f, record), SCHED_E_ARGUMENT, "is -1");
  row("frequency zero", wavelet(1, 0.0f, 0.001f, record), SCHED_E_ARGUMENT, "frequency");
  row("frequency not a number", wavelet(1, NAN, 0.001f, record), SCHED_E_ARGUMENT, "NaN");
  row("dt negative", wavelet(1, 20.0f, -0.001f, record), SCHED_E_ARGUMENT, "dt");
  row("samples NULL", wavelet(1, 20.0f, 0.001f, NULL), SCHED_E_ARGUMENT, "samples is NULL");
}

static void shots(void) {
  static const sched_fd_cell_t outside = {0, N, 0};
  static const float samples[3] = {1.0f, NAN, 0.0f};
  sched_fd_shot_size_t size = {0};
  section("shots");
  row("shot NULL", sched_fd_shot_size(model, NULL, &size), SCHED_E_ARGUMENT, "sched_fd_shot_desc_t is NULL");
  row("size NULL", sched_fd_shot_size(model, &f.desc, NULL), SCHED_E_ARGUMENT, "sched_fd_shot_size_t is NULL");
  row("size->size never set", sched_fd_shot_size(model, &f.desc, &size), SCHED_E_ARGUMENT, "size of");
  row("dt zero", (f.desc.dt_s = 0.0f, shot_size()), SCHED_E_ARGUMENT, "dt is 0");
  row("dt not a number", (f.desc.dt_s = NAN, shot_size()), SCHED_E_ARGUMENT, "dt is NaN");
  row("dt infinite", (f.desc.dt_s = INFINITY, shot_size()), SCHED_E_ARGUMENT, "dt is inf");
  row("dt too large", (f.desc.dt_s = 0.01f, shot_size()), SCHED_E_UNSTABLE, "at most");
  row("nt zero", (f.desc.nt = 0, shot_size()), SCHED_E_ARGUMENT, "nt is 0");
  row("nt huge", (f.desc.nt = (uint64_t)1 << 63, shot_size()), SCHED_E_ARGUMENT, "nt is 9223372036854775808");
  row("frequency zero", (f.desc.frequency_hz = 0.0f, shot_size()), SCHED_E_ARGUMENT, "frequency");
  row("frequency infinite", (f.desc.frequency_hz = INFINITY, shot_size()), SCHED_E_ARGUMENT, "inf");
  row("unknown wavelet", (f.desc.wavelet = 99, shot_size()), SCHED_E_ARGUMENT, "is 99");
  row("own wavelet of no samples", (f.desc.wavelet_samples = samples, shot_size()), SCHED_E_ARGUMENT,
      "wavelet_len is 0");
  row("own wavelet beyond nt", (f.desc.wavelet_samples = samples, f.desc.wavelet_len = 41, shot_size()),
      SCHED_E_ARGUMENT, "wavelet_len is 41");
  row("own wavelet NULL", (f.desc.wavelet_len = 3, shot_size()), SCHED_E_ARGUMENT, "wavelet_samples is NULL");
  row("own wavelet with NaN", (f.desc.wavelet_samples = samples, f.desc.wavelet_len = 3, shot_size()),
      SCHED_E_ARGUMENT, "wavelet_samples[1] is NaN");
  row("amplitude not a number", (f.desc.amplitude = NAN, shot_size()), SCHED_E_ARGUMENT, "amplitude is NaN");
  row("unknown flags", (f.desc.flags = 8, shot_size()), SCHED_E_ARGUMENT, "flags of a shot is 0x8");
  row("source outside in x", (f.desc.source.ix = N, shot_size()), SCHED_E_ARGUMENT, "0 to 11");
  row("source negative", (f.desc.source.iz = (uint64_t)-1, shot_size()), SCHED_E_ARGUMENT, "source");
  row("source beyond 32 bits", (f.desc.source.iy = ((uint64_t)1 << 32) + 1, shot_size()), SCHED_E_ARGUMENT,
      "4294967297");
  row("exact time of too few samples",
      (f.desc.flags = SCHED_FD_EXACT_TIME, f.desc.record_every = 6, shot_size()), SCHED_E_ARGUMENT,
      "record_every is 6; accepted: 1 to 5 steps");
  row("dt too large for the optimised stencil",
      (f.desc.flags = SCHED_FD_OPTIMISED_STENCIL, f.desc.dt_s = 0.01f, shot_size()), SCHED_E_UNSTABLE,
      "without the optimised stencil");
  row("receiver outside", (f.desc.receivers = &outside, f.desc.receiver_count = 1, shot_size()), SCHED_E_ARGUMENT,
      "receiver 0");
  row("receivers of no number", (f.desc.receivers = &outside, shot_size()), SCHED_E_ARGUMENT, "receiver_count is 0");
  row("receivers NULL", (f.desc.receiver_count = 3, shot_size()), SCHED_E_ARGUMENT, "receivers is NULL");
  row("more receivers than an address space", (f.desc.receivers = &outside, f.desc.receiver_count = SIZE_MAX,
       shot_size()), SCHED_E_ARGUMENT, "length of receivers");
  row("receiver plane outside", (f.desc.plane_iz = N, shot_size()), SCHED_E_ARGUMENT, "plane of receivers");
  row("model NULL", submit_shot_of(NULL), SCHED_E_ARGUMENT, "model is NULL");
  row("scheduler as model", submit_shot_of((sched_fd_model_t *)s), SCHED_E_STALE, "~model");
  row("run set", (t.desc.run = badly, submit_shot()), SCHED_E_ARGUMENT, "run is set");
  row("record NULL", (f.desc.record = NULL, submit_shot()), SCHED_E_ARGUMENT, "record is NULL");
  row("record one float short", (f.desc.record_len = N * N * 40 - 1, submit_shot()), SCHED_E_ARGUMENT,
      "record_len is 5759; accepted: at least 5760");
  row("snapshots NULL", (f.desc.snapshot_every = 10, submit_shot()), SCHED_E_ARGUMENT, "snapshots is NULL");
  row("snapshots one float short", (f.desc.snapshot_every = 10, f.desc.snapshots = snapshots,
       f.desc.snapshots_len = 4 * N * N * N - 1, submit_shot()), SCHED_E_ARGUMENT, "snapshots_len is 6911");
  row("nothing wrong", submit_shot(), SCHED_OK, "");
}

static void schedulers(void) {
  sched_t *gone = NULL;
  sched_stats_t stats = {0};
  sched_device_info_t info = {0};
  sched_device_stats_t device = {0};
  uint32_t count = 0;
  section("schedulers and devices");
  row("out NULL", sched_create(NULL, NULL), SCHED_E_ARGUMENT, "out is NULL");
  row("size never set", (c.config.size = 0, create()), SCHED_E_ARGUMENT, "size of sched_config_t is 0");
  row("size in the middle of a field", (c.config.size = 17, create()), SCHED_E_ARGUMENT, "size of sched_config_t is 17");
  row("size shorter than itself", (c.config.size = 4, create()), SCHED_E_ARGUMENT, "size of sched_config_t is 4");
  row("longer struct, tail set", (c.config.size = sizeof c, c.tail[31] = 1, create()), SCHED_E_TOO_NEW, "newer");
  row("longer struct, tail zero", (c.config.size = sizeof c, create()), SCHED_OK, "");
  row("shorter struct", (c.config.size = offsetof(sched_config_t, slots), create()), SCHED_OK, "");
  row("devices in wrong words", (c.config.devices = "gpu", create()), SCHED_E_ARGUMENT, "gpu");
  row("devices with an empty item", (c.config.devices = "cpu,,cuda:0", create()), SCHED_E_ARGUMENT, "''");
  row("processor that is not there", (c.config.devices = "cpu:7", create()), SCHED_E_NO_DEVICE, "~cpu:7");
  row("stack below 1 MiB", (c.config.stack_bytes = 1048575, create()), SCHED_E_ARGUMENT,
      "stack_bytes is 1048575; accepted: 1048576 to 68719476736 bytes");
  row("stack above 64 GiB", (c.config.stack_bytes = UINT64_MAX, create()), SCHED_E_ARGUMENT,
      "stack_bytes is 18446744073709551615; accepted");
  row("struct without stack_bytes",
      (c.config.size = offsetof(sched_config_t, stack_bytes), c.config.stack_bytes = 1, create()), SCHED_OK, "");
  row("too many slots", (c.config.slots = 100000, create()), SCHED_E_ARGUMENT, "slots");
  row("destroy NULL", sched_destroy(NULL), SCHED_OK, "");
  row("destroy a foreign pointer", sched_destroy((sched_t *)&mark), SCHED_E_STALE, "~scheduler");
  row("destroy a model", sched_destroy((sched_t *)model), SCHED_E_STALE, "~scheduler");
  sched_create(NULL, &gone);
  sched_destroy(gone);
  row("destroy twice", sched_destroy(gone), SCHED_E_STALE, "~scheduler");
  row("shutdown after destroy", sched_shutdown(gone, 0), SCHED_E_STALE, "~scheduler");
  row("shutdown NULL", sched_shutdown(NULL, 0), SCHED_OK, "");
  row("submit after destroy", submit_to(gone, 1), SCHED_E_STALE, "~scheduler");
  row("drain after destroy", sched_drain(gone, 0), SCHED_E_STALE, "~scheduler");
  row("stats NULL", sched_stats(s, NULL), SCHED_E_ARGUMENT, "sched_stats_t is NULL");
  row("stats of size 0", sched_stats(s, &stats), SCHED_E_ARGUMENT, "size of sched_stats_t is 0");
  row("count NULL", sched_device_count(s, NULL), SCHED_E_ARGUMENT, "count is NULL");
  row("count of a foreign pointer", sched_device_count((sched_t *)&mark, &count), SCHED_E_STALE, "~scheduler");
  row("info of size 0", sched_device_info(s, 0, &info), SCHED_E_ARGUMENT, "size of sched_device_info_t is 0");
  info.size = sizeof info;
  row("device out of range", sched_device_info(s, 64, &info), SCHED_E_ARGUMENT, "~index of a device is 64");
  device.size = sizeof device;
  row("stats of a device out of range", sched_device_stats(s, UINT32_MAX, &device), SCHED_E_ARGUMENT, "~index");
}

static void defaults(void) {
  sched_t *mine = NULL, *theirs = NULL;
  sched_task_t id = 0, next = 4711;
  sched_stats_t stats = {0};
  section("the process's scheduler");
  row("out NULL", sched_default(NULL), SCHED_E_ARGUMENT, "out is NULL");
  row("one handle", sched_default(&mine), SCHED_OK, "");
  row("another", sched_default(&theirs), SCHED_OK, "");
  if (mine == theirs) fail("sched_default", "two handles are the same");
  t.desc.flags = SCHED_TASK_ORDERED;
  row("submit to one", sched_submit(mine, &t.desc, &id), SCHED_OK, "");
  row("wait for its next at the other", sched_wait_next(theirs, SCHED_FOREVER, &next), SCHED_E_ARGUMENT, "ordered");
  row("give one back", sched_destroy(mine), SCHED_OK, "");
  row("give it back twice", sched_destroy(mine), SCHED_E_STALE, "~scheduler");
  row("use it after that", sched_wait(mine, id, SCHED_FOREVER), SCHED_E_STALE, "~scheduler");
  row("use the other", sched_wait(theirs, id, SCHED_FOREVER), SCHED_OK, "");
  row("drain it", sched_drain(theirs, SCHED_FOREVER), SCHED_OK, "");
  row("submit after a drain of what is shared", submit_to(theirs, 1), SCHED_OK, "");
  row("give back the last", sched_shutdown(theirs, SCHED_FOREVER), SCHED_OK, "");
  row("take a new one", sched_default(&mine), SCHED_OK, "");
  row("ask it for a task of the old one", sched_wait(mine, id, 0), SCHED_E_STALE, "~task");
  stats.size = sizeof stats;
  if (sched_stats(mine, &stats) != SCHED_OK || stats.submitted != 0) fail("sched_default", "the new one is the old one");
  sched_destroy(mine);
}

/* What a task that never looks at its cancel makes of a shutdown. */
static int go_on;
static int32_t hangs(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  while (!__atomic_load_n(&go_on, __ATOMIC_ACQUIRE)) usleep(1000);
  return 0;
}

static void ends(void) {
  sched_t *it = NULL;
  sched_task_t id = 0;
  sched_task_info_t info = {0};
  info.size = sizeof info;
  section("the end of a scheduler");
  sched_create(NULL, &it);
  t.desc.run = hangs;
  row("a task that hangs", sched_submit(it, &t.desc, &id), SCHED_OK, "");
  while (sched_task_info(it, id, &info) == SCHED_OK && info.state != SCHED_STATE_RUNNING) usleep(1000);
  reset();
  row("shutdown with a time limit", sched_shutdown(it, 1000000), SCHED_PENDING, "");
  row("ask what hangs", sched_task_info(it, id, &info), SCHED_OK, "");
  if (info.state != SCHED_STATE_RUNNING) fail("sched_shutdown", "the task that hangs does not run");
  row("submit meanwhile", submit_to(it, 1), SCHED_E_SHUTDOWN, "shut down");
  row("once more", sched_shutdown(it, 0), SCHED_PENDING, "");
  __atomic_store_n(&go_on, 1, __ATOMIC_RELEASE);
  row("when it goes on", sched_shutdown(it, SCHED_FOREVER), SCHED_OK, "");
  row("after the end", sched_wait(it, id, 0), SCHED_E_STALE, "~scheduler");
}

/* Lists of tasks, as programs with an older, this and a newer header would have them. */
static struct {
  sched_task_desc_t desc;
  char tail[32];
} many[3];

static void each(size_t size) {
  for (int i = 0; i < 3; i++) {
    sched_task_desc_t *desc = (sched_task_desc_t *)((char *)many + (size_t)i * size);
    memset((void *)desc, 0, size);
    desc->size = size;
    desc->run = well;
    desc->drop = drop;
  }
}

static int32_t submit_many(size_t count, int32_t drops) {
  sched_task_t ids[3] = {4711, 4711, 4711};
  dropped = 0;
  int32_t status = sched_submit_many(s, &many[0].desc, count, ids);
  if (status < 0 && (ids[0] != 4711 || ids[2] != 4711)) fail("sched_submit_many", "wrote its output and failed");
  for (size_t i = 0; status == SCHED_OK && i < count; i++) {
    if (sched_wait(s, ids[i], SCHED_FOREVER) != SCHED_OK || sched_release(s, ids[i]) != SCHED_OK)
      fail("sched_submit_many", "an id");
  }
  if (dropped != drops) fail("sched_submit_many", "drop was not called as often as promised");
  each(sizeof(sched_task_desc_t));
  return status;
}

static sched_task_desc_t *at(int i) { return (sched_task_desc_t *)many + i; }

static void lists(void) {
  sched_task_t ids[3], next = 0;
  section("many tasks at once");
  each(sizeof(sched_task_desc_t));
  row("three", submit_many(3, 3), SCHED_OK, "");
  row("three of an older header", (each(offsetof(sched_task_desc_t, task_class)), submit_many(3, 3)), SCHED_OK, "");
  row("three of a newer header", (each(sizeof many[0]), submit_many(3, 3)), SCHED_OK, "");
  row("one of them with something new", (each(sizeof many[0]), many[2].tail[9] = 1, submit_many(3, 0)),
      SCHED_E_TOO_NEW, "newer");
  row("none", sched_submit_many(s, NULL, 0, NULL), SCHED_OK, "");
  row("descs NULL", sched_submit_many(s, NULL, 3, ids), SCHED_E_ARGUMENT, "sched_task_desc_t is NULL");
  row("more than an address space", sched_submit_many(s, at(0), SIZE_MAX, ids), SCHED_E_ARGUMENT, "~count of");
  row("sizes that differ", (at(1)->size += 8, submit_many(3, 0)), SCHED_E_ARGUMENT, "~size of sched_task_desc_t 1");
  row("the last is bad", (at(2)->work = NAN, submit_many(3, 3)), SCHED_E_ARGUMENT, "descs[2]: work is NaN");
  row("the first fits nowhere", (at(0)->device_bytes = UINT64_MAX, submit_many(3, 3)), SCHED_E_MEMORY, "~needs");
  dropped = 0;
  row("ids NULL", sched_submit_many(s, at(0), 3, NULL), SCHED_E_ARGUMENT, "ids is NULL");
  if (dropped != 3) fail("ids NULL", "drop was not called three times");
  for (int i = 0; i < 3; i++) at(i)->flags = SCHED_TASK_DETACHED;
  row("ids NULL, all detached", sched_submit_many(s, at(0), 3, NULL), SCHED_OK, "");

  section("in the order of submission");
  row("id NULL", sched_wait_next(s, 0, NULL), SCHED_E_ARGUMENT, "id is NULL");
  row("no ordered task", sched_wait_next(s, SCHED_FOREVER, &next), SCHED_E_ARGUMENT, "left to hand out");
  t.desc.flags = SCHED_TASK_ORDERED | SCHED_TASK_DETACHED;
  row("ordered and detached", submit(), SCHED_E_ARGUMENT, "flags of a task is 0x5");
  each(sizeof(sched_task_desc_t));
  for (int i = 0; i < 3; i++) at(i)->flags = SCHED_TASK_ORDERED;
  at(0)->run = badly;
  sched_submit_many(s, at(0), 3, ids);
  sched_release(s, ids[1]);
  row("the first of three, which fails", sched_wait_next(s, SCHED_FOREVER, &next), SCHED_OK, "");
  if (next != ids[0]) fail("sched_wait_next", "not the first");
  row("its own outcome", sched_wait(s, next, 0), SCHED_E_CALLBACK, "returned 7");
  row("the third, as the second is released", sched_wait_next(s, SCHED_FOREVER, &next), SCHED_OK, "");
  if (next != ids[2]) fail("sched_wait_next", "not the third");
  next = 4711;
  row("nothing left", sched_wait_next(s, SCHED_FOREVER, &next), SCHED_E_ARGUMENT, "left to hand out");
  if (next != 4711) fail("sched_wait_next", "wrote its output and failed");
}

static void ranges(void) {
  sched_task_t id = 0;
  section("ranges");
  reset_range();
  row("ten elements", submit_range(1), SCHED_OK, "");
  row("desc NULL", sched_submit_range(s, NULL, &id), SCHED_E_ARGUMENT, "sched_range_desc_t is NULL");
  row("size never set", (r.desc.size = 0, submit_range(0)), SCHED_E_ARGUMENT, "size of sched_range_desc_t is 0");
  row("longer struct, tail set", (r.desc.size = sizeof r, r.tail[0] = 1, submit_range(0)), SCHED_E_TOO_NEW, "newer");
  row("no code", (r.desc.run = NULL, submit_range(1)), SCHED_E_ARGUMENT, "run is NULL");
  row("nowhere to put the id", sched_submit_range(s, &r.desc, NULL), SCHED_E_ARGUMENT, "id is NULL");
  row("reversed", (r.desc.begin = 11, submit_range(1)), SCHED_E_ARGUMENT, "begin is 11");
  row("empty", (r.desc.begin = 10, submit_range(1)), SCHED_OK, "");
  row("empty at the end of the numbers", (r.desc.begin = r.desc.end = UINT64_MAX, submit_range(1)), SCHED_OK, "");
  row("a grain longer than the range", (r.desc.grain = UINT64_MAX, submit_range(1)), SCHED_OK, "");
  row("may run twice", (r.desc.flags = SCHED_TASK_IDEMPOTENT, submit_range(1)), SCHED_E_ARGUMENT, "flags of a range");
  row("reserved set", (r.desc.reserved = 1, submit_range(1)), SCHED_E_ARGUMENT, "reserved is 0x1");
  row("deadline negative", (r.desc.deadline_ns = -1, submit_range(1)), SCHED_E_ARGUMENT, "deadline_ns is -1");
  row("device that is not there", (r.desc.device_mask = (uint64_t)1 << 63, submit_range(1)), SCHED_E_NO_DEVICE,
      "~no device");
  row("an element that fits nowhere", (r.desc.device_bytes = UINT64_MAX, submit_range(1)), SCHED_E_MEMORY, "~needs");
  row("code that returns 7", (r.desc.run = bad_piece, submit_range(1)), SCHED_E_CALLBACK, "elements");
}

static int32_t in_task[8];
static sched_exec_t kept;

static int32_t wrong_inside(const sched_exec_t *exec, void *user) {
  (void)user;
  in_task[0] = sched_wait(s, exec->task, SCHED_FOREVER);
  in_task[1] = sched_wait_all(s, SCHED_FOREVER);
  in_task[2] = sched_destroy(s);
  in_task[3] = sched_exec_report(exec, 2.0);
  in_task[4] = sched_exec_report(exec, NAN);
  kept = *exec;
  in_task[5] = sched_exec_cancelled(&kept);
  in_task[6] = sched_shutdown(s, 0);
  in_task[7] = sched_exec_commit(&kept);
  return 0;
}

static void tasks(void) {
  sched_t *other = NULL;
  sched_task_t id = 0, theirs = 0, list[2];
  sched_task_info_t info = {0};
  size_t index = 4711;
  char text[64];
  section("tasks");
  row("desc NULL", sched_submit(s, NULL, &id), SCHED_E_ARGUMENT, "sched_task_desc_t is NULL");
  row("size never set", (t.desc.size = 0, submit_to(s, 0)), SCHED_E_ARGUMENT, "size of sched_task_desc_t is 0");
  row("longer struct, tail set", (t.desc.size = sizeof t, t.tail[0] = 1, submit_to(s, 0)), SCHED_E_TOO_NEW, "newer");
  row("no code", (t.desc.run = NULL, submit()), SCHED_E_ARGUMENT, "run is NULL");
  row("nowhere to put the id", sched_submit(s, &t.desc, NULL), SCHED_E_ARGUMENT, "id is NULL");
  row("work not a number", (t.desc.work = NAN, submit()), SCHED_E_ARGUMENT, "work is NaN");
  row("work negative", (t.desc.work = -1.0, submit()), SCHED_E_ARGUMENT, "work is -1");
  row("work infinite", (t.desc.work = INFINITY, submit()), SCHED_E_ARGUMENT, "work is inf");
  row("unknown flags", (t.desc.flags = 1u << 31, submit()), SCHED_E_ARGUMENT, "flags of a task is 0x80000000");
  row("reserved set", (t.desc.reserved = 1, submit()), SCHED_E_ARGUMENT, "reserved is 0x1");
  row("deadline negative", (t.desc.deadline_ns = -1, submit()), SCHED_E_ARGUMENT, "deadline_ns is -1");
  row("after NULL", (t.desc.after_count = 2, submit()), SCHED_E_ARGUMENT, "after is NULL");
  row("after without a count", (t.desc.after = list, submit()), SCHED_E_ARGUMENT, "after_count is 0");
  row("after too many to be true", (t.desc.after = list, t.desc.after_count = SIZE_MAX / 8, submit()),
      SCHED_E_ARGUMENT, "~after_count");
  list[0] = 0;
  row("after task 0", (t.desc.after = list, t.desc.after_count = 1, submit()), SCHED_E_STALE, "~task");
  sched_submit(s, &t.desc, list);
  sched_wait(s, list[0], SCHED_FOREVER);
  row("after a task that has ended", (t.desc.after = list, t.desc.after_count = 1, submit()), SCHED_OK, "");
  sched_release(s, list[0]);
  row("after a released task", (t.desc.after = list, t.desc.after_count = 1, submit()), SCHED_E_STALE, "~task");
  t.desc.run = badly;
  sched_submit(s, &t.desc, list);
  sched_wait(s, list[0], SCHED_FOREVER);
  row("after a task that fails", (t.desc.run = well, t.desc.after = list, t.desc.after_count = 1, submit()),
      SCHED_E_DEPENDENCY, "~did not end well");
  row("unknown kind of device", (t.desc.backend_mask = 8, submit()), SCHED_E_ARGUMENT, "backend_mask is 0x8");
  row("device that is not there", (t.desc.device_mask = (uint64_t)1 << 63, submit()), SCHED_E_NO_DEVICE, "~no device");
  row("memory that fits nowhere", (t.desc.device_bytes = UINT64_MAX, submit()), SCHED_E_MEMORY, "~needs");
  row("code that returns 7", (t.desc.run = badly, submit()), SCHED_E_CALLBACK, "returned 7");
  row("wait for task 0", sched_wait(s, 0, 0), SCHED_E_STALE, "~task");
  row("wait for a task that never was", sched_wait(s, UINT64_MAX, SCHED_FOREVER), SCHED_E_STALE, "~task");

  sched_create(NULL, &other);
  sched_submit(other, &t.desc, &theirs);
  list[0] = theirs;
  row("after a task of another scheduler", (t.desc.after = list, t.desc.after_count = 1, submit()), SCHED_E_STALE,
      "~another scheduler");
  row("task of another scheduler", sched_wait(s, theirs, SCHED_FOREVER), SCHED_E_STALE, "~another scheduler");
  sched_destroy(other);

  sched_submit(s, &t.desc, &id);
  sched_wait(s, id, SCHED_FOREVER);
  row("info NULL", sched_task_info(s, id, NULL), SCHED_E_ARGUMENT, "sched_task_info_t is NULL");
  row("info of size 0", sched_task_info(s, id, &info), SCHED_E_ARGUMENT, "size of sched_task_info_t is 0");
  row("any of none", sched_wait_any(s, &id, 0, 0, &index), SCHED_E_ARGUMENT, "count is 0");
  row("any of NULL", sched_wait_any(s, NULL, 2, 0, &index), SCHED_E_ARGUMENT, "ids is NULL");
  row("any into NULL", sched_wait_any(s, &id, 1, 0, NULL), SCHED_E_ARGUMENT, "index is NULL");
  row("any of a list that wraps", sched_wait_any(s, &id, SIZE_MAX / 4, 0, &index), SCHED_E_ARGUMENT, "length of ids");
  list[0] = id;
  list[1] = 0;
  row("any with an unknown one", sched_wait_any(s, list, 2, 0, &index), SCHED_E_STALE, "~task");
  if (index != 4711) fail("sched_wait_any", "wrote its output and failed");
  row("release", sched_release(s, id), SCHED_OK, "");
  row("release twice", sched_release(s, id), SCHED_E_STALE, "~task");
  row("wait after release", sched_wait(s, id, 0), SCHED_E_STALE, "~task");
  row("cancel after release", sched_cancel(s, id), SCHED_E_STALE, "~task");
  if (sched_task_error(s, id, text, sizeof text) != 0 || text[0] != 0) fail("sched_task_error", "of a stale task");

  t.desc.run = wrong_inside;
  row("wrong calls inside", submit(), SCHED_OK, "");
  row("after the task: exec", sched_exec_cancelled(&kept), SCHED_E_STALE, "~exec");
  row("exec NULL", sched_exec_cancelled(NULL), SCHED_E_ARGUMENT, "exec is NULL");
  row("commit after the task", sched_exec_commit(&kept), SCHED_E_STALE, "~exec");
  row("commit of NULL", sched_exec_commit(NULL), SCHED_E_ARGUMENT, "exec is NULL");
  static const struct {
    const char *name;
    int32_t status;
  } inside[8] = {
      {"wait for oneself", SCHED_E_DEADLOCK},  {"wait for all from inside", SCHED_E_DEADLOCK},
      {"destroy from inside", SCHED_E_DEADLOCK}, {"report 200 %", SCHED_E_ARGUMENT},
      {"report NaN", SCHED_E_ARGUMENT},          {"copied exec", SCHED_E_STALE},
      {"shutdown from inside", SCHED_E_DEADLOCK}, {"commit of a copied exec", SCHED_E_STALE},
  };
  for (int i = 0; i < 8; i++) {
    if (in_task[i] != inside[i].status) fail(inside[i].name, sched_status_name(in_task[i]));
  }
}

static void log_line(int32_t level, const char *message, void *user) {
  (void)level;
  (void)message;
  (void)user;
}

static void logs(void) {
  section("log");
  row("level 0", sched_log_callback(log_line, NULL, 0), SCHED_E_ARGUMENT, "max_level is 0");
  row("level 6", sched_log_callback(log_line, NULL, 6), SCHED_E_ARGUMENT, "max_level is 6");
  row("off twice", (sched_log_callback(NULL, NULL, 0), sched_log_callback(NULL, NULL, 0)), SCHED_OK, "");
}

static void on_progress(const sched_progress_t *progress, void *user) {
  (void)progress;
  (void)user;
}

static void seeing(void) {
  sched_progress_t progress = {0};
  section("progress and traces");
  row("progress NULL", sched_progress(s, NULL), SCHED_E_ARGUMENT, "sched_progress_t is NULL");
  row("progress of size 0", sched_progress(s, &progress), SCHED_E_ARGUMENT, "size of sched_progress_t is 0");
  row("progress of a foreign pointer", (progress.size = sizeof progress, sched_progress((sched_t *)&mark, &progress)),
      SCHED_E_STALE, "~scheduler");
  row("callback every 5 ns", sched_progress_callback(s, on_progress, NULL, 5), SCHED_E_ARGUMENT, "interval_ns is 5");
  row("callback every 2^64 - 1 ns", sched_progress_callback(s, on_progress, NULL, UINT64_MAX), SCHED_OK, "");
  row("no callback twice",
      (sched_progress_callback(s, NULL, NULL, 0), sched_progress_callback(s, NULL, NULL, 0)), SCHED_OK, "");
  row("callback of a foreign pointer", sched_progress_callback((sched_t *)&mark, on_progress, NULL, 0), SCHED_E_STALE,
      "~scheduler");
  row("trace that was not asked for", sched_trace_write(s, "trace.json"), SCHED_E_ARGUMENT, "trace_events is 0");
  row("trace without a path", sched_trace_write(s, NULL), SCHED_E_ARGUMENT, "path is NULL");
  sched_t *traced = NULL;
  c.config.trace_events = 10;
  sched_create(&c.config, &traced);
  reset();
  row("trace into a folder that is not there", sched_trace_write(traced, "no/such/folder/trace.json"), SCHED_E_IO,
      "no/such/folder/trace.json");
  row("trace over a folder", sched_trace_write(traced, "/tmp"), SCHED_E_IO, "a folder of that name");
  row("trace of a foreign pointer", sched_trace_write((sched_t *)&mark, "trace.json"), SCHED_E_STALE, "~scheduler");
  sched_destroy(traced);
  row("something in the reserved field", (c.config.reserved = 1, create()), SCHED_E_ARGUMENT, "reserved");
  row("rates in a folder that can not be", (c.config.rates_path = "/dev/null/rates", create()), SCHED_OK, "");
}

int main(void) {
  reset();
  sched_fd_model_create(&m.desc, &model);
  sched_create(NULL, &s);
  logs();
  schedulers();
  seeing();
  tasks();
  lists();
  ranges();
  defaults();
  ends();
  models();
  wavelets();
  shots();
  if (sched_fd_model_destroy(model) != SCHED_OK) fail("end", "the model");
  if (sched_destroy(s) != SCHED_OK) fail("end", "the scheduler");
  return failures == 0 ? 0 : 1;
}
