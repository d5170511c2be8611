/* Wrong calls, one per row, with the status and a part of the message that each must return.
 * Prints every message; docs/errors.md is made of them. */
#define _GNU_SOURCE
#include <math.h>

#include "check.h"
#include "gpusched_legacy.h"

static const char *where = "";

static void section(const char *name) {
  where = name;
  printf("# %s\n", name);
}

/* A part that begins with '~' marks a message whose numbers are this machine's or this run's. */
static void row(const char *name, int32_t wanted, const char *part, int32_t got) {
  static int before;
  const char *message = wanted < 0 ? sched_last_error() : "";
  const int numbers = part[0] == '~';
  printf("%s\t%s\t%s%s\n", name, sched_status_name(got), numbers ? "~" : "", message);
  EXPECT(wanted, got);
  CHECK(strstr(message, part + numbers) != NULL);
  if (failures != before)
    fprintf(stderr, "%s: %s: %s; expected %s and \"%s\"\n", where, name, sched_status_name(got),
            sched_status_name(wanted), part + numbers);
  before = failures;
}

/* The last argument is the call, after what it needs. */
#define ROW(name, status, part, ...) row(name, SCHED_##status, part, (__VA_ARGS__))
#define BAD(name, part, ...) ROW(name, E_ARGUMENT, part, __VA_ARGS__)
/* The last arguments change a good call. */
#define CONFIG(name, status, part, ...) ROW(name, status, part, __VA_ARGS__, create())
#define MODEL(name, status, part, ...) ROW(name, status, part, __VA_ARGS__, create_model())
#define SHOT(name, status, part, ...) ROW(name, status, part, __VA_ARGS__, shot_size())
#define SUBMIT_SHOT(name, status, part, ...) ROW(name, status, part, __VA_ARGS__, submit_shot())
#define TASK(name, status, part, ...) ROW(name, status, part, __VA_ARGS__, submit_task())
#define RANGE(name, status, part, ...) ROW(name, status, part, __VA_ARGS__, submit_range(1))

#define N 12
static float vp[N * N * N];
static float rho[N * N * N];
static float epsilon[N * N * N];
static float delta[N * N * N];
static float record[N * N * 40];
static float snapshots[4 * N * N * N];

static sched_t *s;
static sched_fd_model_t *model;

/* Structs of this header, with a tail as a newer header has it. */
#define WITH_TAIL(type, name) \
  static struct {             \
    type desc;                \
    char tail[32];            \
  } name
WITH_TAIL(sched_config_t, c);
WITH_TAIL(sched_task_desc_t, t);
WITH_TAIL(sched_range_desc_t, r);
WITH_TAIL(sched_fd_model_desc_t, m);
WITH_TAIL(sched_fd_shot_desc_t, f);

static int32_t well(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  return 0;
}

static int32_t code = 7;

static int32_t badly(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  return code;
}

static int32_t piece(const sched_exec_t *exec, uint64_t begin, uint64_t end, void *user) {
  (void)exec, (void)user;
  return begin < end ? 0 : 1;
}

static int32_t bad_piece(const sched_exec_t *exec, uint64_t begin, uint64_t end, void *user) {
  (void)exec, (void)user, (void)begin, (void)end;
  return code;
}

static int dropped;
static void drop(void *user) {
  (void)user;
  dropped++;
}

#define SET(name, ...) \
  (memset(&name, 0, sizeof name), name.desc = (__typeof__(name.desc)){.size = sizeof name.desc, __VA_ARGS__})

static void fill(float *field, float value) {
  for (int i = 0; i < N * N * N; i++) field[i] = value;
}

static void reset(void) {
  SET(c, .devices = NULL);
  SET(t, .run = well, .drop = drop);
  SET(r, .end = 10, .run = piece, .drop = drop);
  SET(m, .nx = N, .ny = N, .nz = N, .dx_m = 10, .dy_m = 10, .dz_m = 10, .vp_m_s = vp, .rho_kg_m3 = rho);
  SET(f, .dt_s = 0.001f, .frequency_hz = 20, .nt = 40, .source = {N / 2, N / 2, N / 2},
      .record = record, .record_len = sizeof record / sizeof *record);
  fill(vp, 2000.0f);
  fill(rho, 1000.0f);
}

/* A failing call must leave its outputs as they are: this address, or this id. */
static char mark;
#define FOREIGN ((sched_t *)&mark)
enum { NO_ID = 4711 };

static int32_t create(void) {
  sched_t *out = FOREIGN;
  int32_t status = sched_create(&c.desc, &out);
  CHECK(status == SCHED_OK ? sched_destroy(out) == SCHED_OK : out == FOREIGN);
  reset();
  return status;
}

static int32_t create_model(void) {
  sched_fd_model_t *out = (sched_fd_model_t *)&mark;
  int32_t status = sched_fd_model_create(&m.desc, &out);
  CHECK(status == SCHED_OK ? sched_fd_model_destroy(out) == SCHED_OK : out == (sched_fd_model_t *)&mark);
  reset();
  return status;
}

/* Waits for what was submitted. The user pointer has to be given back `drops` times. */
static int32_t finish(sched_t *to, int32_t status, sched_task_t id, int drops) {
  CHECK(status == SCHED_OK || id == NO_ID);
  if (status == SCHED_OK) {
    status = wait_for(to, id);
    EXPECT(status, sched_wait(to, id, 0));
    sched_release(to, id);
  }
  CHECK(dropped == drops);
  reset();
  return status;
}

static int32_t submit_to(sched_t *to, int drops) {
  sched_task_t id = NO_ID;
  dropped = 0;
  const int32_t status = sched_submit(to, &t.desc, &id);
  return finish(to, status, id, drops);
}

static int32_t submit_task(void) { return submit_to(s, 1); }

static int32_t submit_range(int drops) {
  sched_task_t id = NO_ID;
  dropped = 0;
  int32_t status = sched_submit_range(s, &r.desc, &id);
  return finish(s, status, id, drops);
}

/* A task, or a range, whose code returns `returned`, on a scheduler whose devices it may retire. */
static int32_t ends_with(int32_t returned, int as_range) {
  sched_t *own = scheduler(1);
  sched_task_t id = NO_ID;
  dropped = 0;
  code = returned;
  t.desc.run = badly;
  r.desc.run = bad_piece;
  OK(as_range ? sched_submit_range(own, &r.desc, &id) : sched_submit(own, &t.desc, &id));
  const int32_t status = finish(own, SCHED_OK, id, 1);
  code = 7;
  OK(sched_destroy(own));
  return status;
}

static int32_t shot_size(void) {
  sched_fd_shot_size_t size = {0};
  size.size = sizeof size;
  int32_t status = sched_fd_shot_size(model, &f.desc, &size);
  CHECK(status == SCHED_OK || size.traces == 0);
  reset();
  return status;
}

static int32_t submit_shot_of(const sched_fd_model_t *which) {
  sched_task_t id = NO_ID;
  record[0] = 4711.0f;
  dropped = 0;
  t.desc.run = t.desc.run == badly ? badly : NULL;
  int32_t status = sched_fd_submit(s, which, &f.desc, &t.desc, &id);
  status = finish(s, status, id, 1);
  CHECK(status == SCHED_OK || record[0] == 4711.0f);
  return status;
}

static int32_t submit_shot(void) { return submit_shot_of(model); }

/* A shot of `vti` with its source in the middle: no cell is 15 cells from it. */
static int32_t submit_anisotropic(uint32_t flags) {
  sched_fd_model_t *anisotropic = NULL;
  m.desc.equation = SCHED_FD_EQUATION_VTI, m.desc.epsilon = epsilon, m.desc.delta = delta;
  fill(epsilon, 0.2f), fill(delta, 0.1f);
  OK(sched_fd_model_create(&m.desc, &anisotropic));
  f.desc.flags = flags, f.desc.nt = 1;
  const int32_t status = submit_shot_of(anisotropic);
  OK(sched_fd_model_destroy(anisotropic));
  return status;
}

static void models(void) {
  sched_fd_model_t *out = NULL;
  double dt = 0.0;
  section("models");
  BAD("desc NULL", "sched_fd_model_desc_t is NULL", sched_fd_model_create(NULL, &out));
  BAD("out NULL", "out is NULL", sched_fd_model_create(&m.desc, NULL));
  MODEL("size never set", E_ARGUMENT, "size of sched_fd_model_desc_t is 0", m.desc.size = 0);
  MODEL("size too large", E_ARGUMENT, "sizeof", m.desc.size = (size_t)1 << 40);
  MODEL("longer struct, tail set", E_TOO_NEW, "newer", m.desc.size = sizeof m, m.tail[9] = 1);
  MODEL("longer struct, tail zero", OK, "", m.desc.size = sizeof m);
  MODEL("shorter struct", OK, "", m.desc.size = offsetof(sched_fd_model_desc_t, rho_kg_m3));
  MODEL("unknown flags", E_ARGUMENT, "flags of a model is 0x10", m.desc.flags = 16);
  MODEL("values too far apart for 16 bits", E_ARGUMENT, "in 16 bits",
        m.desc.flags = SCHED_FD_MODEL_STORAGE_16_BIT, vp[0] = 10.0f, vp[1] = 15.0f);
  MODEL("km/s", E_ARGUMENT, "4.5 looks like km/s", fill(vp, 4.5f));
  MODEL("g/cm3", E_ARGUMENT, "2.5 looks like g/cm", fill(rho, 2.5f));
  MODEL("km/s, permitted", OK, "", fill(vp, 4.5f), m.desc.flags = SCHED_FD_MODEL_ANY_VALUES);
  MODEL("density at cells", OK, "", m.desc.flags = SCHED_FD_MODEL_DENSITY_AT_CELLS);
  MODEL("nx zero", E_ARGUMENT, "nx is 0", m.desc.nx = 0);
  MODEL("ny beyond the limit", E_ARGUMENT, "ny is 100001", m.desc.ny = 100001);
  MODEL("nx*ny*nz beyond 2^64", E_ARGUMENT, "nx is 4194304", m.desc.nx = m.desc.ny = m.desc.nz = (uint64_t)1 << 22);
  MODEL("10^15 cells", E_MEMORY, "3.55 PiB", m.desc.nx = m.desc.ny = m.desc.nz = 100000);
  MODEL("dy negative", E_ARGUMENT, "dy is -10", m.desc.dy_m = -10.0f);
  MODEL("no velocity", E_ARGUMENT, "vp_m_s is NULL", m.desc.vp_m_s = NULL);
  MODEL("velocity zero in a cell", E_ARGUMENT, "(2, 1, 3)", vp[N * N + 2 * N + 3] = 0.0f);
  MODEL("density negative", E_ARGUMENT, "rho of cell (0, 0, 5)", rho[5] = -1.0f);
  MODEL("property that the equation does not have", E_ARGUMENT, "no property of acoustic1", m.desc.epsilon = rho);
  MODEL("property that the equation lacks", E_ARGUMENT, "epsilon is missing", m.desc.equation = SCHED_FD_EQUATION_VTI);
  MODEL("density of acoustic2", E_ARGUMENT, "rho is no property of acoustic2; accepted: vp",
        m.desc.equation = SCHED_FD_EQUATION_ACOUSTIC2);
  MODEL("epsilon below delta", E_ARGUMENT, "epsilon of cell (0, 0, 7) is 0.1; accepted: delta, which is 0.2",
        m.desc.equation = SCHED_FD_EQUATION_VTI, m.desc.epsilon = epsilon, m.desc.delta = delta, fill(epsilon, 0.1f),
        fill(delta, 0.1f), delta[7] = 0.2f);
  MODEL("unknown equation", E_ARGUMENT, "equation is 9; accepted: 0 (acoustic1)", m.desc.equation = 9);
  MODEL("unknown constants", E_ARGUMENT, "constants is 0x40", m.desc.constants = 0x40);
  MODEL("constant without a value", E_ARGUMENT, "delta is NULL", m.desc.constants = SCHED_FD_PROPERTY_DELTA);
  MODEL("angle in degrees", E_ARGUMENT, "looks like degrees", m.desc.theta_rad = rho);
  MODEL("constant density", OK, "", m.desc.constants = SCHED_FD_PROPERTY_RHO);
  ROW("destroy NULL", OK, "", sched_fd_model_destroy(NULL));
  ROW("destroy a foreign pointer", E_STALE, "~unknown", sched_fd_model_destroy((sched_fd_model_t *)&mark));
  sched_fd_model_create(&m.desc, &out);
  sched_fd_model_destroy(out);
  ROW("destroy twice", E_STALE, "~unknown", sched_fd_model_destroy(out));
  ROW("use after destroy", E_STALE, "~model", sched_fd_dt_max(out, &dt));
  BAD("dt_max of NULL", "model is NULL", sched_fd_dt_max(NULL, &dt));
  BAD("dt_max into NULL", "dt_s is NULL", sched_fd_dt_max(model, NULL));
  CHECK(dt == 0.0);
}

static void wavelets(void) {
  section("wavelets");
  BAD("unknown number", "is 10", sched_fd_wavelet(10, 20, 1e-3f, record, 40));
  BAD("frequency zero", "frequency", sched_fd_wavelet(1, 0, 1e-3f, record, 40));
  BAD("dt negative", "dt", sched_fd_wavelet(1, 20, -1e-3f, record, 40));
  BAD("samples NULL", "samples is NULL", sched_fd_wavelet(1, 20, 1e-3f, NULL, 40));
}

static void shot_warnings(void) {
  char text[500], start[8];
  f.desc.nt = 1; /* it ends before the wavelet */
  size_t length = 0, same = 0;
  OK(sched_fd_shot_warnings(model, &f.desc, text, sizeof text, &length));
  CHECK(length == strlen(text));
  CHECK(strstr(text, "the centre of the wavelet, at 0.0625 s") != NULL);
  OK(sched_fd_shot_warnings(model, &f.desc, start, sizeof start, NULL));
  CHECK(strlen(start) == 7);
  OK(sched_fd_shot_warnings(model, &f.desc, NULL, 0, &same));
  BAD("warnings of the model NULL", "model is NULL", sched_fd_shot_warnings(NULL, &f.desc, text, sizeof text, &same));
  CHECK(same == length && !*text);
  reset();
}

static void shots(void) {
  static const sched_fd_cell_t outside = {0, N, 0};
  static const float samples[3] = {1.0f, NAN, 0.0f};
  sched_fd_shot_size_t size = {0};
  section("shots");
  shot_warnings();
  BAD("shot NULL", "sched_fd_shot_desc_t is NULL", sched_fd_shot_size(model, NULL, &size));
  BAD("size NULL", "sched_fd_shot_size_t is NULL", sched_fd_shot_size(model, &f.desc, NULL));
  BAD("size->size never set", "size of", sched_fd_shot_size(model, &f.desc, &size));
  SHOT("dt zero", E_ARGUMENT, "dt is 0", f.desc.dt_s = 0.0f);
  SHOT("dt too large", E_UNSTABLE, "at most", f.desc.dt_s = 0.01f);
  SHOT("nt zero", E_ARGUMENT, "nt is 0", f.desc.nt = 0);
  SHOT("nt huge", E_ARGUMENT, "nt is 9223372036854775808", f.desc.nt = (uint64_t)1 << 63);
  SHOT("frequency zero", E_ARGUMENT, "frequency", f.desc.frequency_hz = 0.0f);
  SHOT("unknown wavelet", E_ARGUMENT, "is 99", f.desc.wavelet = 99);
  SHOT("wavelet_len 0", E_ARGUMENT, "wavelet_len is 0", f.desc.wavelet_samples = samples);
  SHOT("wavelet_len above nt", E_ARGUMENT, "wavelet_len is 41", f.desc.wavelet_samples = samples,
       f.desc.wavelet_len = 41);
  SHOT("wavelet_samples NULL", E_ARGUMENT, "wavelet_samples is NULL", f.desc.wavelet_len = 3);
  SHOT("wavelet_samples with NaN", E_ARGUMENT, "wavelet_samples[1] is NaN",
       f.desc.wavelet_samples = samples, f.desc.wavelet_len = 3);
  SHOT("amplitude not a number", E_ARGUMENT, "amplitude is NaN", f.desc.amplitude = NAN);
  SHOT("unknown flags", E_ARGUMENT, "flags of a shot is 0x10", f.desc.flags = 16);
  SHOT("source outside in x", E_ARGUMENT, "0 to 11", f.desc.source.ix = N);
  SHOT("source beyond 32 bits", E_ARGUMENT, "4294967297", f.desc.source.iy = ((uint64_t)1 << 32) + 1);
  SHOT("exact time with too few samples", E_ARGUMENT, "record_every is 6; accepted: 1 to 5 steps",
       f.desc.flags = SCHED_FD_SHOT_EXACT_TIME, f.desc.record_every = 6);
  SHOT("exact time with snapshots", E_ARGUMENT, "snapshot_every is 10; accepted: no snapshots",
       f.desc.flags = SCHED_FD_SHOT_EXACT_TIME, f.desc.snapshot_every = 10);
  SHOT("unknown source_kind", E_ARGUMENT, "source_kind is 5; accepted: 0 (pressure), 1 (monopole)",
       f.desc.source_kind = 5);
  SHOT("reserved of a shot", E_ARGUMENT, "reserved of sched_fd_shot_desc_t is 1", f.desc.reserved = 1);
  SHOT("dt too large for the optimised stencil", E_UNSTABLE, "without the optimised stencil",
       f.desc.flags = SCHED_FD_SHOT_OPTIMISED_STENCIL, f.desc.dt_s = 0.01f);
  SHOT("receiver outside", E_ARGUMENT, "receiver 0", f.desc.receivers = &outside, f.desc.receiver_count = 1);
  SHOT("receiver_count 0", E_ARGUMENT, "receiver_count is 0", f.desc.receivers = &outside);
  SHOT("receivers NULL", E_ARGUMENT, "receivers is NULL", f.desc.receiver_count = 3);
  SHOT("receiver_count too large", E_ARGUMENT, "length of receivers",
       f.desc.receivers = &outside, f.desc.receiver_count = SIZE_MAX);
  SHOT("receiver plane outside", E_ARGUMENT, "plane of receivers", f.desc.plane_iz = N);
  BAD("model NULL", "model is NULL", submit_shot_of(NULL));
  ROW("scheduler as model", E_STALE, "~model", submit_shot_of((sched_fd_model_t *)s));
  BAD("anisotropy reduced in every cell",
      "the grid is 12 x 12 x 12 cells, all nearer than 15 cells to the source (6, 6, 6)",
      submit_anisotropic(0));
  ROW("anisotropic source in such a grid", OK, "", submit_anisotropic(SCHED_FD_SHOT_ANISOTROPIC_SOURCE));
  SUBMIT_SHOT("run set", E_ARGUMENT, "run is set", t.desc.run = badly);
  SUBMIT_SHOT("record NULL", E_ARGUMENT, "record is NULL", f.desc.record = NULL);
  SUBMIT_SHOT("record one float short", E_ARGUMENT, "record_len is 5759; accepted: at least 5760",
              f.desc.record_len = N * N * 40 - 1);
  SUBMIT_SHOT("snapshots NULL", E_ARGUMENT, "snapshots is NULL", f.desc.snapshot_every = 10);
  SUBMIT_SHOT("snapshots one float short", E_ARGUMENT, "snapshots_len is 6911", f.desc.snapshot_every = 10,
              f.desc.snapshots = snapshots, f.desc.snapshots_len = 4 * N * N * N - 1);
  SUBMIT_SHOT("last float of the record in the snapshots", E_ARGUMENT, "record is overlapped by snapshots",
              f.desc.snapshot_every = 40, f.desc.snapshots = record + N * N * 40 - 1,
              f.desc.snapshots_len = N * N * N);
  SUBMIT_SHOT("snapshots that begin after the record", OK, "", f.desc.snapshot_every = 40, f.desc.nt = 1,
              f.desc.snapshots = record + N * N, f.desc.snapshots_len = N * N * N);
  SUBMIT_SHOT("custom wavelet in the record", E_ARGUMENT, "record is overlapped by wavelet_samples",
              f.desc.wavelet_samples = record + 1, f.desc.wavelet_len = 1);
  ROW("nothing wrong", OK, "", submit_shot());
}

static void schedulers(void) {
  sched_t *gone = NULL;
  sched_stats_t stats = {0};
  sched_device_info_t info = {0};
  sched_device_stats_t device = {0};
  uint32_t count = 0;
  section("schedulers and devices");
  BAD("out NULL", "out is NULL", sched_create(NULL, NULL));
  CONFIG("size never set", E_ARGUMENT, "size of sched_config_t is 0", c.desc.size = 0);
  CONFIG("size in the middle of a field", E_ARGUMENT, "size of sched_config_t is 17", c.desc.size = 17);
  CONFIG("longer struct, tail set", E_TOO_NEW, "newer", c.desc.size = sizeof c, c.tail[31] = 1);
  CONFIG("longer struct, tail zero", OK, "", c.desc.size = sizeof c);
  CONFIG("shorter struct", OK, "", c.desc.size = offsetof(sched_config_t, slots));
  CONFIG("unknown device name", E_ARGUMENT, "gpu", c.desc.devices = "gpu");
  CONFIG("device that does not exist", E_NO_DEVICE, "~cpu:7", c.desc.devices = "cpu:7");
  CONFIG("stack below 1 MiB", E_ARGUMENT, "stack_bytes is 1048575; accepted: 1048576 to 68719476736 bytes",
         c.desc.stack_bytes = 1048575);
  CONFIG("stack above 64 GiB", E_ARGUMENT, "stack_bytes is 18446744073709551615; accepted",
         c.desc.stack_bytes = UINT64_MAX);
  CONFIG("struct without stack_bytes", OK, "",
         c.desc.size = offsetof(sched_config_t, stack_bytes), c.desc.stack_bytes = 1);
  CONFIG("too many slots", E_ARGUMENT, "slots", c.desc.slots = 100000);
  ROW("destroy NULL", OK, "", sched_destroy(NULL));
  ROW("destroy a foreign pointer", E_STALE, "~scheduler", sched_destroy(FOREIGN));
  ROW("destroy a model", E_STALE, "~scheduler", sched_destroy((sched_t *)model));
  sched_create(NULL, &gone);
  sched_destroy(gone);
  ROW("destroy twice", E_STALE, "~scheduler", sched_destroy(gone));
  ROW("shutdown after destroy", E_STALE, "~scheduler", sched_shutdown(gone, 0));
  ROW("shutdown NULL", OK, "", sched_shutdown(NULL, 0));
  ROW("submit after destroy", E_STALE, "~scheduler", submit_to(gone, 1));
  BAD("stats NULL", "sched_stats_t is NULL", sched_stats(s, NULL));
  BAD("stats of size 0", "size of sched_stats_t is 0", sched_stats(s, &stats));
  BAD("count NULL", "count is NULL", sched_device_count(s, NULL));
  ROW("count of a foreign pointer", E_STALE, "~scheduler", sched_device_count(FOREIGN, &count));
  BAD("info of size 0", "size of sched_device_info_t is 0", sched_device_info(s, 0, &info));
  info.size = sizeof info;
  BAD("device out of range", "~index of a device is 64", sched_device_info(s, 64, &info));
  device.size = sizeof device;
  BAD("stats of a device out of range", "~index", sched_device_stats(s, UINT32_MAX, &device));
}

static void defaults(void) {
  sched_t *mine = NULL, *theirs = NULL;
  sched_task_t id = 0, next = NO_ID;
  sched_stats_t stats = {0};
  section("the shared scheduler");
  BAD("out NULL", "out is NULL", sched_default(NULL));
  ROW("a handle", OK, "", sched_default(&mine));
  ROW("a second handle", OK, "", sched_default(&theirs));
  CHECK(mine != theirs);
  t.desc.flags = SCHED_TASK_ORDERED;
  ROW("submit to the first", OK, "", sched_submit(mine, &t.desc, &id));
  BAD("wait_next on the second", "ordered", sched_wait_next(theirs, SCHED_FOREVER, &next));
  ROW("release the first", OK, "", sched_destroy(mine));
  ROW("release it twice", E_STALE, "~scheduler", sched_destroy(mine));
  ROW("use it after its release", E_STALE, "~scheduler", sched_wait(mine, id, SCHED_FOREVER));
  ROW("use the second", OK, "", sched_wait(theirs, id, SCHED_FOREVER));
  ROW("drain the second", OK, "", sched_drain(theirs, SCHED_FOREVER));
  ROW("submit after the drain", OK, "", submit_to(theirs, 1));
  ROW("release the second, the last", OK, "", sched_shutdown(theirs, SCHED_FOREVER));
  ROW("a new handle", OK, "", sched_default(&mine));
  ROW("query a task of the old scheduler", E_STALE, "~task", sched_wait(mine, id, 0));
  stats.size = sizeof stats;
  OK(sched_stats(mine, &stats));
  CHECK(stats.submitted == 0);
  sched_destroy(mine);
}

static int hung, go_on;
static int32_t hangs(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  add(&hung);
  until(&go_on, 1);
  return 0;
}

static void ends(void) {
  sched_t *it = NULL;
  sched_task_t id = 0;
  sched_task_info_t info = {0};
  info.size = sizeof info;
  section("sched_shutdown");
  sched_create(NULL, &it);
  t.desc.run = hangs;
  ROW("a task that hangs", OK, "", sched_submit(it, &t.desc, &id));
  until(&hung, 1);
  reset();
  ROW("shutdown with a time limit", PENDING, "", sched_shutdown(it, 1000000));
  ROW("query it", OK, "", sched_task_info(it, id, &info));
  CHECK(info.state == SCHED_STATE_RUNNING);
  ROW("submit meanwhile", E_SHUTDOWN, "shut down", submit_to(it, 1));
  ROW("shutdown again", PENDING, "", sched_shutdown(it, 0));
  add(&go_on);
  ROW("shutdown when the task has returned", OK, "", sched_shutdown(it, SCHED_FOREVER));
  ROW("after the end", E_STALE, "~scheduler", sched_wait(it, id, 0));
}

/* Lists of tasks, as programs with an older, this and a newer header would have them. */
WITH_TAIL(sched_task_desc_t, many[3]);

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
  sched_task_t ids[3] = {NO_ID, NO_ID, NO_ID};
  dropped = 0;
  int32_t status = sched_submit_many(s, &many[0].desc, count, ids);
  CHECK(status == SCHED_OK || (ids[0] == NO_ID && ids[2] == NO_ID));
  for (size_t i = 0; status == SCHED_OK && i < count; i++) {
    OK(wait_for(s, ids[i]));
    OK(sched_release(s, ids[i]));
  }
  CHECK(dropped == drops);
  each(sizeof(sched_task_desc_t));
  return status;
}

static sched_task_desc_t *at(int i) { return (sched_task_desc_t *)many + i; }

static void lists(void) {
  sched_task_t ids[3], next = 0, never = UINT64_MAX;
  section("sched_submit_many");
  each(sizeof(sched_task_desc_t));
  ROW("three", OK, "", submit_many(3, 3));
  ROW("three shorter structs", OK, "", each(offsetof(sched_task_desc_t, task_class)), submit_many(3, 3));
  ROW("three longer structs, tails zero", OK, "", each(sizeof many[0]), submit_many(3, 3));
  ROW("longer structs, one tail set", E_TOO_NEW, "newer", each(sizeof many[0]),
      many[2].tail[9] = 1, submit_many(3, 0));
  ROW("count 0", OK, "", sched_submit_many(s, NULL, 0, NULL));
  BAD("descs NULL", "sched_task_desc_t is NULL", sched_submit_many(s, NULL, 3, ids));
  BAD("count too large", "~count of", sched_submit_many(s, at(0), SIZE_MAX, ids));
  BAD("different sizes", "~size of sched_task_desc_t 1", at(1)->size += 8, submit_many(3, 0));
  BAD("the last is not accepted", "descs[2]: work is NaN", at(2)->work = NAN, submit_many(3, 3));
  BAD("the last has too little work", "descs[2]: the task's work", at(2)->work = 1e-200, submit_many(3, 3));
  ROW("the second comes after a task that does not exist", E_STALE, "~descs[1]: ",
      at(1)->after = &never, at(1)->after_count = 1, submit_many(3, 3));
  ROW("the first needs more memory than any device has", E_MEMORY, "~descs[0]: the task needs", at(0)->device_bytes = UINT64_MAX, submit_many(3, 3));
  dropped = 0;
  BAD("ids NULL", "ids is NULL", sched_submit_many(s, at(0), 3, NULL));
  CHECK(dropped == 3);
  for (int i = 0; i < 3; i++) at(i)->flags = SCHED_TASK_DETACHED;
  ROW("ids NULL, all detached", OK, "", sched_submit_many(s, at(0), 3, NULL));

  section("sched_wait_next");
  BAD("id NULL", "id is NULL", sched_wait_next(s, 0, NULL));
  BAD("wait_next without ordered tasks", "ordered tasks", sched_wait_next(s, SCHED_FOREVER, &next));
  t.desc.flags = SCHED_TASK_ORDERED | SCHED_TASK_DETACHED;
  BAD("ordered and detached", "flags of a task is 0x5", submit_task());
  each(sizeof(sched_task_desc_t));
  for (int i = 0; i < 3; i++) at(i)->flags = SCHED_TASK_ORDERED;
  at(0)->run = badly;
  sched_submit_many(s, at(0), 3, ids);
  sched_release(s, ids[1]);
  ROW("wait_next: the first of three, which fails", OK, "", sched_wait_next(s, SCHED_FOREVER, &next));
  CHECK(next == ids[0]);
  ROW("wait for the first", E_CALLBACK, "returned 7", sched_wait(s, next, 0));
  ROW("wait_next: the third, because the second is released", OK, "", sched_wait_next(s, SCHED_FOREVER, &next));
  CHECK(next == ids[2]);
  next = NO_ID;
  BAD("wait_next after the last", "ordered tasks", sched_wait_next(s, SCHED_FOREVER, &next));
  CHECK(next == NO_ID);
  /* The drop of the released task must not count in the next section. */
  OK(sched_wait_all(s, SCHED_FOREVER));
}

static void ranges(void) {
  sched_task_t id = 0;
  section("ranges");
  ROW("ten elements", OK, "", submit_range(1));
  BAD("desc NULL", "sched_range_desc_t is NULL", sched_submit_range(s, NULL, &id));
  BAD("size never set", "size of sched_range_desc_t is 0", r.desc.size = 0, submit_range(0));
  ROW("longer struct, tail set", E_TOO_NEW, "newer", r.desc.size = sizeof r, r.tail[0] = 1, submit_range(0));
  RANGE("run NULL", E_ARGUMENT, "run is NULL", r.desc.run = NULL);
  BAD("id NULL", "id is NULL", sched_submit_range(s, &r.desc, NULL));
  RANGE("reversed", E_ARGUMENT, "begin is 11", r.desc.begin = 11);
  RANGE("empty", OK, "", r.desc.begin = 10);
  RANGE("empty, at 2^64 - 1", OK, "", r.desc.begin = r.desc.end = UINT64_MAX);
  RANGE("a grain longer than the range", OK, "", r.desc.grain = UINT64_MAX);
  RANGE("flag SCHED_TASK_IDEMPOTENT", E_ARGUMENT, "flags of a range", r.desc.flags = SCHED_TASK_IDEMPOTENT);
  RANGE("reserved set", E_ARGUMENT, "reserved is 0x1", r.desc.reserved = 1);
  RANGE("deadline negative", E_ARGUMENT, "deadline_ns is -1", r.desc.deadline_ns = -1);
  RANGE("device that does not exist", E_NO_DEVICE, "~no device", r.desc.device_mask = (uint64_t)1 << 63);
  RANGE("an element that needs more memory than any device has", E_MEMORY, "~needs", r.desc.device_bytes = UINT64_MAX);
  RANGE("callback returns 7", E_CALLBACK, "elements", r.desc.run = bad_piece);
  ROW("callback returns SCHED_CANCELLED", CANCELLED, "", ends_with(SCHED_CANCELLED, 1));
  ROW("callback returns SCHED_E_DEVICE", E_DEVICE, "~", ends_with(SCHED_E_DEVICE, 1));
  ROW("callback returns SCHED_E_RESULT", E_RESULT, "~elements", ends_with(SCHED_E_RESULT, 1));
}

static sched_exec_t kept;

static int32_t wrong_inside(const sched_exec_t *exec, void *user) {
  size_t index = 0;
  (void)user;
  kept = *exec;
  EXPECT(SCHED_E_DEADLOCK, wait_for(s, exec->task));
  EXPECT(SCHED_E_DEADLOCK, sched_wait_any(s, &exec->task, 1, SCHED_FOREVER, &index));
  EXPECT(SCHED_E_DEADLOCK, sched_wait_all(s, SCHED_FOREVER));
  EXPECT(SCHED_E_DEADLOCK, sched_drain(s, SCHED_FOREVER));
  EXPECT(SCHED_E_DEADLOCK, sched_destroy(s));
  EXPECT(SCHED_E_DEADLOCK, sched_shutdown(s, 0));
  EXPECT(SCHED_E_ARGUMENT, sched_exec_report(exec, 2.0));
  EXPECT(SCHED_E_ARGUMENT, sched_exec_report(exec, NAN));
  EXPECT(SCHED_E_STALE, sched_exec_cancelled(&kept));
  EXPECT(SCHED_E_STALE, sched_exec_commit(&kept));
  return 0;
}

static void tasks(void) {
  sched_t *other = NULL;
  sched_task_t id = 0, theirs = 0, list[2];
  sched_task_info_t info = {0};
  size_t index = NO_ID;
  char text[64];
  section("tasks");
  BAD("desc NULL", "sched_task_desc_t is NULL", sched_submit(s, NULL, &id));
  BAD("size never set", "size of sched_task_desc_t is 0", t.desc.size = 0, submit_to(s, 0));
  ROW("longer struct, tail set", E_TOO_NEW, "newer", t.desc.size = sizeof t, t.tail[0] = 1, submit_to(s, 0));
  TASK("run NULL", E_ARGUMENT, "run is NULL", t.desc.run = NULL);
  BAD("id NULL", "id is NULL", sched_submit(s, &t.desc, NULL));
  TASK("work not a number", E_ARGUMENT, "work is NaN", t.desc.work = NAN);
  TASK("unknown flags", E_ARGUMENT, "flags of a task is 0x80000000", t.desc.flags = 1u << 31);
  TASK("reserved set", E_ARGUMENT, "reserved is 0x1", t.desc.reserved = 1);
  TASK("deadline negative", E_ARGUMENT, "deadline_ns is -1", t.desc.deadline_ns = -1);
  TASK("after NULL", E_ARGUMENT, "after is NULL", t.desc.after_count = 2);
  TASK("after_count 0", E_ARGUMENT, "after_count is 0", t.desc.after = list);
  TASK("after_count too large", E_ARGUMENT, "~after_count", t.desc.after = list, t.desc.after_count = SIZE_MAX / 8);
  list[0] = 0;
  TASK("after task 0", E_STALE, "~task", t.desc.after = list, t.desc.after_count = 1);
  sched_submit(s, &t.desc, list);
  sched_wait(s, list[0], SCHED_FOREVER);
  TASK("after a task that has ended", OK, "", t.desc.after = list, t.desc.after_count = 1);
  sched_release(s, list[0]);
  TASK("after a released task", E_STALE, "~task", t.desc.after = list, t.desc.after_count = 1);
  t.desc.run = badly;
  sched_submit(s, &t.desc, list);
  sched_wait(s, list[0], SCHED_FOREVER);
  TASK("after a task that fails", E_DEPENDENCY, "~did not succeed", t.desc.run = well,
       t.desc.after = list, t.desc.after_count = 1);
  TASK("unknown backend", E_ARGUMENT, "backend_mask is 0x8", t.desc.backend_mask = 8);
  TASK("device that does not exist", E_NO_DEVICE, "~no device", t.desc.device_mask = (uint64_t)1 << 63);
  TASK("more memory than any device has", E_MEMORY, "~needs", t.desc.device_bytes = UINT64_MAX);
  TASK("the same of a label with control characters", E_MEMORY, "~task 'a\\n\\u{1b}[31m' needs", t.desc.device_bytes = UINT64_MAX, t.desc.label = "a\n\x1b[31m");
  TASK("callback returns 7", E_CALLBACK, "returned 7", t.desc.run = badly);
  ROW("callback returns SCHED_CANCELLED", CANCELLED, "", ends_with(SCHED_CANCELLED, 0));
  ROW("callback returns SCHED_E_DEVICE", E_DEVICE, "~", ends_with(SCHED_E_DEVICE, 0));
  ROW("callback returns SCHED_E_RESULT", E_RESULT, "~computed a wrong result", ends_with(SCHED_E_RESULT, 0));
  ROW("callback returns SCHED_E_STALE", E_CALLBACK, "returned SCHED_E_STALE", ends_with(SCHED_E_STALE, 0));
  ROW("wait for task 0", E_STALE, "~task", sched_wait(s, 0, 0));
  ROW("wait for an id that was never issued", E_STALE, "~task", sched_wait(s, UINT64_MAX, SCHED_FOREVER));

  sched_create(NULL, &other);
  sched_submit(other, &t.desc, &theirs);
  list[0] = theirs;
  TASK("after a task of another scheduler", E_STALE, "~another scheduler", t.desc.after = list,
       t.desc.after_count = 1);
  ROW("task of another scheduler", E_STALE, "~another scheduler", sched_wait(s, theirs, SCHED_FOREVER));
  sched_destroy(other);

  sched_submit(s, &t.desc, &id);
  sched_wait(s, id, SCHED_FOREVER);
  BAD("info NULL", "sched_task_info_t is NULL", sched_task_info(s, id, NULL));
  BAD("info of size 0", "size of sched_task_info_t is 0", sched_task_info(s, id, &info));
  BAD("wait_any with count 0", "count is 0", sched_wait_any(s, &id, 0, 0, &index));
  BAD("wait_any with ids NULL", "ids is NULL", sched_wait_any(s, NULL, 2, 0, &index));
  BAD("wait_any with index NULL", "index is NULL", sched_wait_any(s, &id, 1, 0, NULL));
  BAD("wait_any with count too large", "length of ids", sched_wait_any(s, &id, SIZE_MAX / 4, 0, &index));
  list[0] = id;
  list[1] = 0;
  ROW("wait_any with an unknown id", E_STALE, "~task", sched_wait_any(s, list, 2, 0, &index));
  CHECK(index == NO_ID);
  ROW("release", OK, "", sched_release(s, id));
  ROW("release twice", E_STALE, "~task", sched_release(s, id));
  ROW("wait after release", E_STALE, "~task", sched_wait(s, id, 0));
  ROW("cancel after release", E_STALE, "~task", sched_cancel(s, id));
  ROW("task_error after release", E_STALE, "~task", sched_task_error(s, id, text, sizeof text, &index));
  CHECK(text[0] == 0 && index == NO_ID);
  t.desc.run = wrong_inside;
  ROW("wrong calls in a callback", OK, "", submit_task());
  ROW("cancelled after the callback", E_STALE, "~exec", sched_exec_cancelled(&kept));
  BAD("cancelled with exec NULL", "exec is NULL", sched_exec_cancelled(NULL));
  ROW("commit after the callback", E_STALE, "~exec", sched_exec_commit(&kept));
  BAD("commit with exec NULL", "exec is NULL", sched_exec_commit(NULL));
}

static void log_line(int32_t level, const char *message, void *user) {
  *(int *)user += level == 1 && strstr(message, "cuda_3dfd_tti: vel is NULL") != NULL;
}

static void logs(void) {
  section("log");
  BAD("level 6", "max_level is 6", sched_log_callback(log_line, NULL, 6));
  int logged = 0;
  OK(sched_log_callback(log_line, &logged, 1));
  EXPECT(1, cuda_3dfd_tti(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, N, N, N, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1,
                          1, 1, 1, 1, 0, 0, 1, 0));
  CHECK(logged == 1);
  /* Each file has the name of its own argument. */
  static const char *const arguments[] = {"vel", "epsilon", "delta", "theta", "psi"};
  for (int missing = 0; missing < 5; missing++) {
    const char *media[] = {"absent", "absent", "absent", "absent", "absent"};
    char words[32];
    media[missing] = NULL;
    EXPECT(1, cuda_3dfd_tti(media[0], NULL, media[1], media[2], media[3], media[4], "snap", "record", 0, 1, N, N, N, 1, 1,
                            1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0));
    snprintf(words, sizeof words, "%s is NULL", arguments[missing]);
    CHECK(strstr(sched_last_error(), words) != NULL);
  }
  /* Without snapshots their prefix is not read. */
  cuda_3dfd_1order("absent", "absent", NULL, "record", 0, 1, N, N, N, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0,
                   1, 0);
  CHECK(strstr(sched_last_error(), "read absent") != NULL);
  cuda_3dfd_1order("absent", "absent", NULL, "record", 0, 1, N, N, N, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0,
                   1, 0);
  CHECK(strstr(sched_last_error(), "snap is NULL") != NULL);
  ROW("log off twice", OK, "", sched_log_callback(NULL, NULL, 0), sched_log_callback(NULL, NULL, 0));
}

static void on_progress(const sched_progress_t *progress, void *user) { (void)progress, (void)user; }

static void seeing(void) {
  sched_progress_t progress = {0};
  section("progress and traces");
  BAD("progress NULL", "sched_progress_t is NULL", sched_progress(s, NULL));
  BAD("progress of size 0", "size of sched_progress_t is 0", sched_progress(s, &progress));
  BAD("callback every 5 ns", "interval_ns is 5", sched_progress_callback(s, on_progress, NULL, 5));
  ROW("callback every 2^64 - 1 ns", OK, "", sched_progress_callback(s, on_progress, NULL, UINT64_MAX));
  ROW("no callback twice", OK, "", sched_progress_callback(s, NULL, NULL, 0),
      sched_progress_callback(s, NULL, NULL, 0));
  BAD("trace without trace_events", "trace_events is 0", sched_trace_write(s, "trace.json"));
  BAD("trace to the path NULL", "path is NULL", sched_trace_write(s, NULL));
  sched_t *traced = NULL;
  c.desc.trace_events = 10;
  sched_create(&c.desc, &traced);
  reset();
  ROW("trace into a folder that does not exist", E_IO, "no/such/folder/trace.json",
      sched_trace_write(traced, "no/such/folder/trace.json"));
  ROW("trace over a folder", E_IO, "a folder has this name", sched_trace_write(traced, "/tmp"));
  sched_destroy(traced);
  CONFIG("reserved field set", E_ARGUMENT, "reserved", c.desc.reserved = 1);
  CONFIG("rates file in a folder that can't be created", OK, "", c.desc.rates_path = "/dev/null/rates");
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
  OK(sched_fd_model_destroy(model));
  OK(sched_destroy(s));
  return failures == 0 ? 0 : 1;
}
