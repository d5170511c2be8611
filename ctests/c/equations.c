/* A shot of every equation that has more than a velocity and a density: on all threads and on one,
 * and the tilted equation with an upright axis beside `vti`. */
#define _GNU_SOURCE
#include <math.h>

#include "check.h"

enum { N = 24, NT = 76, RECEIVERS = 4, LEN = RECEIVERS * NT };

/* Thomsen's parameters and angles, the same in all cells. */
static const float epsilon = 0.2f, delta = 0.08f, upright = 0.0f, tilt = 0.6f, azimuth = 0.4f;
static float vp[N * N * N];

static sched_fd_model_desc_t medium(int32_t equation, uint32_t flags) {
  sched_fd_model_desc_t desc = {.size = sizeof desc, .nx = N, .ny = N, .nz = N, .dx_m = 10, .dy_m = 10, .dz_m = 10,
                                .vp_m_s = vp, .equation = equation, .flags = flags};
  if (equation == SCHED_FD_EQUATION_ACOUSTIC2) return desc;
  desc.constants = SCHED_FD_PROPERTY_EPSILON | SCHED_FD_PROPERTY_DELTA;
  desc.epsilon = &epsilon, desc.delta = &delta;
  return desc;
}

static sched_fd_model_desc_t tilted(uint32_t flags, const float *theta, const float *phi) {
  sched_fd_model_desc_t desc = medium(SCHED_FD_EQUATION_TTI, flags);
  desc.constants |= SCHED_FD_PROPERTY_THETA | SCHED_FD_PROPERTY_PHI;
  desc.theta_rad = theta, desc.phi_rad = phi;
  return desc;
}

static void shoot(sched_t *s, const sched_fd_model_t *model, float *record) {
  static const sched_fd_cell_t receivers[RECEIVERS] = {
      {12, 12, 20}, {20, 12, 12}, {12, 5, 12}, {18, 7, 18}};
  sched_fd_shot_desc_t shot = {.size = sizeof shot, .nt = NT, .dt_s = 1.7e-3f, .frequency_hz = 14,
                               .source = {12, 12, 12}, .source_kind = SCHED_FD_SOURCE_MONOPOLE,
                               .receivers = receivers, .receiver_count = RECEIVERS,
                               .record = record, .record_len = LEN};
  sched_task_t id = 0;
  OK(sched_fd_submit(s, model, &shot, NULL, &id));
  OK(wait_for(s, id));
  OK(sched_release(s, id));
}

static float largest(const float *record) {
  float most = 0.0f;
  for (int i = 0; i < LEN; i++) most = fmaxf(most, fabsf(record[i]));
  return most;
}

/* The largest difference of two records, as a share of the largest value of the second. */
static float difference(const float *record, const float *other) {
  float between[LEN];
  for (int i = 0; i < LEN; i++) between[i] = record[i] - other[i];
  return largest(between) / largest(other);
}

int main(void) {
  enum { SPONGE2, PML2, VTI, UPRIGHT, UPRIGHT_PML, TILTED, COUNT };
  const uint32_t pml = SCHED_FD_MODEL_PML;
  const sched_fd_model_desc_t media[COUNT] = {
      medium(SCHED_FD_EQUATION_ACOUSTIC2, 0), medium(SCHED_FD_EQUATION_ACOUSTIC2, pml),
      medium(SCHED_FD_EQUATION_VTI, 0),       tilted(0, &upright, &upright),
      tilted(pml, &upright, &upright),        tilted(0, &tilt, &azimuth)};
  static float records[COUNT][LEN], again[LEN];
  within(120);
  for (int i = 0; i < N * N * N; i++) vp[i] = 2000.0f + 5.0f * (float)(i % N);
  sched_config_t config = {.size = sizeof config, .devices = "cpu", .slots = 1, .cpu_threads = 3};
  sched_t *three = NULL, *one = scheduler(1);
  OK(sched_create(&config, &three));
  for (int i = 0; i < COUNT; i++) {
    sched_fd_model_t *model = NULL;
    if (!OK(sched_fd_model_create(&media[i], &model))) continue;
    shoot(three, model, records[i]);
    shoot(one, model, again);
    if (!CHECK(memcmp(records[i], again, sizeof again) == 0)) fprintf(stderr, "model %d\n", i);
    if (!CHECK(largest(again) > 0.0f)) fprintf(stderr, "model %d\n", i);
    OK(sched_fd_model_destroy(model));
  }
  const float centred = difference(records[UPRIGHT], records[VTI]);
  const float old = difference(records[UPRIGHT_PML], records[VTI]);
  printf("tti, upright, beside vti: %.1e with a sponge, %.1e with a PML\n", centred, old);
  CHECK(centred < 1e-3f);
  CHECK(old < 1e-3f);
  /* Equations, layers and angles have an effect. */
  CHECK(difference(records[VTI], records[PML2]) > 1e-2f);
  CHECK(difference(records[SPONGE2], records[PML2]) > 0.0f);
  CHECK(difference(records[TILTED], records[UPRIGHT]) > 1e-2f);
  OK(sched_destroy(three));
  OK(sched_destroy(one));
  return failures != 0;
}
