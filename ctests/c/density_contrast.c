/* What the log says of time steps in a model whose density jumps from cell to cell. Prints each case and the lines that
 * are logged in it. */
#define _GNU_SOURCE
#include "check.h"

enum { NX = 9, NY = 8, NZ = 16, CELLS = NX * NY * NZ };
static float vp[CELLS], rho[CELLS], record[1];

static void on_log(int32_t level, const char *line, void *user) {
  (void)user;
  printf("%d %s\n", level, line);
}

/* A shot of one step, with so much of the largest stable step. */
static void shoot(sched_t *s, const sched_fd_model_t *model, const char *name, double part, uint32_t flags) {
  sched_fd_cell_t receiver = {1, 2, 3};
  sched_fd_shot_desc_t shot = {.size = sizeof shot, .nt = 1, .frequency_hz = 20, .source = {4, 4, 2}, .flags = flags,
                               .receivers = &receiver, .receiver_count = 1, .record = record, .record_len = 1};
  sched_task_t id = 0;
  double most = 0;
  OK(sched_fd_dt_max(model, &most));
  shot.dt_s = (float)(part * most);
  printf("%s %.9e %.9e\n", name, most, shot.dt_s);
  OK(sched_fd_submit(s, model, &shot, NULL, &id));
  OK(wait_for(s, id));
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
  shoot(s, even, "even", 1.0, 0);
  shoot(s, jumps, "sure", 0.86, 0);
  shoot(s, jumps, "unsure", 0.87, 0);
  shoot(s, jumps, "again", 0.87, 0);
  shoot(s, jumps, "optimised", 0.86, SCHED_FD_OPTIMISED_STENCIL);
  OK(sched_log_callback(NULL, NULL, 0));
  OK(sched_fd_model_destroy(even));
  OK(sched_fd_model_destroy(jumps));
  OK(sched_destroy(s));
  return failures != 0;
}
