/* The log warns once of a time step that may be unstable where density jumps from cell to cell. */
#define _GNU_SOURCE
#include <math.h>

#include "check.h"

enum { NX = 9, NY = 8, NZ = 16, CELLS = NX * NY * NZ };
static float vp[CELLS], rho[CELLS], record[1];

/* The largest step that the last warning calls stable, and the step that it is about. */
static double sure, warned;

static void on_log(int32_t level, const char *line, void *user) {
  (void)user;
  const char *numbers = strstr(line, "density jumps from cell to cell: only up to ");
  CHECK(level == 2 && numbers && strstr(line, " s; a shot that blows up fails"));
  if (numbers)
    CHECK(sscanf(numbers, "%*[a-z :] %lf s is a step sure to be stable, and dt_s is %lf", &sure,
                 &warned) == 2);
}

/* Runs a shot of one step, `part` of the largest stable one. `courant` is the number of its stencil
 * if there is a warning: half of the derivative along z meets a density a third as large. */
static void shoot(sched_t *s, const sched_fd_model_t *model, double part, uint32_t flags,
                  double courant) {
  sched_fd_cell_t receiver = {1, 2, 3};
  sched_fd_shot_desc_t shot = {.size = sizeof shot, .nt = 1, .frequency_hz = 20,
                               .source = {4, 4, 2}, .flags = flags, .receivers = &receiver,
                               .receiver_count = 1, .record = record, .record_len = 1};
  sched_task_t id = 0;
  double most = 0;
  sure = warned = 0;
  OK(sched_fd_dt_max(model, &most));
  shot.dt_s = (float)(part * most);
  OK(sched_fd_submit(s, model, &shot, NULL, &id));
  OK(wait_for(s, id));
  CHECK((sure != 0) == (courant != 0));
  if (courant == 0) return;
  CHECK(fabs(sure / (courant * most * sqrt(0.75)) - 1) < 1e-4);
  CHECK(fabs(warned / shot.dt_s - 1) < 1e-6);
}

int main(void) {
  for (int i = 0; i < CELLS; i++) {
    vp[i] = i % NZ < 8 ? 1500.0f : 2000.0f;
    rho[i] = i % NZ < 8 ? 800.0f : 2400.0f;
  }
  sched_fd_model_desc_t medium = {.size = sizeof medium, .nx = NX, .ny = NY, .nz = NZ,
                                  .dx_m = 10, .dy_m = 10, .dz_m = 10, .vp_m_s = vp};
  sched_t *s = scheduler(1);
  sched_fd_model_t *even = NULL, *jumps = NULL;
  OK(sched_fd_model_create(&medium, &even));
  medium.rho_kg_m3 = rho;
  OK(sched_fd_model_create(&medium, &jumps));
  OK(sched_log_callback(on_log, NULL, 2));
  shoot(s, even, 1.0, 0, 0);
  shoot(s, jumps, 0.86, 0, 0);
  shoot(s, jumps, 0.87, 0, 1.0);
  shoot(s, jumps, 0.87, 0, 0); /* again */
  shoot(s, jumps, 0.86, SCHED_FD_SHOT_OPTIMISED_STENCIL, 0.9634);
  OK(sched_log_callback(NULL, NULL, 0));
  OK(sched_fd_model_destroy(even));
  OK(sched_fd_model_destroy(jumps));
  OK(sched_destroy(s));
  return failures != 0;
}
