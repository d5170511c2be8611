// Equations in C++: each property and option has its effect, and a record is that of the same calls in C, bit for bit.
#include <gpusched.hpp>

#include <string>
#include <vector>

#include "check.h"

namespace {

// Returns the record of a shot, computed by calls in C.
std::vector<float> record_in_c(sched_fd_model_desc_t medium, sched_fd_shot_desc_t shot, std::size_t floats) {
  std::vector<float> record(floats);
  shot.record = record.data(), shot.record_len = floats;
  auto config = gpusched::init<sched_config_t>();
  config.devices = "cpu";
  sched_t *s = nullptr;
  sched_fd_model_t *model = nullptr;
  sched_task_t id = 0;
  OK(sched_create(&config, &s));
  OK(sched_fd_model_create(&medium, &model));
  OK(sched_fd_submit(s, model, &shot, nullptr, &id));
  OK(sched_wait(s, id, SCHED_FOREVER));
  OK(sched_destroy(s));
  OK(sched_fd_model_destroy(model));
  return record;
}

void effects() {
  const gpusched::fd::grid grid = {9, 8, 7, 10, 10, 10};
  gpusched::fd::medium medium;
  medium.vp_m_s.assign(9 * 8 * 7, 2000.0f);
  gpusched::fd::shot shot;
  shot.nt = 12, shot.dt_s = 1e-3f, shot.frequency_hz = 30, shot.source = {4, 4, 2}, shot.plane_iz = 1;
  auto medium_in_c = gpusched::init<sched_fd_model_desc_t>();
  medium_in_c.nx = 9, medium_in_c.ny = 8, medium_in_c.nz = 7;
  medium_in_c.dx_m = medium_in_c.dy_m = medium_in_c.dz_m = 10;
  medium_in_c.vp_m_s = medium.vp_m_s.data();
  auto shot_in_c = gpusched::init<sched_fd_shot_desc_t>();
  shot_in_c.nt = 12, shot_in_c.dt_s = 1e-3f, shot_in_c.frequency_hz = 30, shot_in_c.source = {4, 4, 2};
  shot_in_c.plane_iz = 1;
  gpusched::scheduler s(gpusched::config().devices("cpu"));
  std::vector<float> before;
  auto check = [&](std::int32_t equation) {
    medium.equation = medium_in_c.equation = equation;
    const std::vector<float> record = s.submit_shot(gpusched::fd::model(grid, medium), shot).get().record;
    CHECK(record == record_in_c(medium_in_c, shot_in_c, record.size()));
    CHECK(record != before);
    before = record;
  };
  auto refused = [&]() -> std::string {
    try {
      gpusched::fd::model(grid, medium);
    } catch (const gpusched::error &error) {
      return error.what();
    }
    return "";
  };

  check(SCHED_FD_EQUATION_ACOUSTIC2);
  medium.equation = SCHED_FD_EQUATION_VTI;
  CHECK(refused().find("epsilon is missing; accepted: ") == 0);
  medium.epsilon = {0.2f}, medium.delta.assign(9 * 8 * 7, 0.1f), medium.delta[200] = 0.3f;
  CHECK(refused().find("accepted: delta, which is 0.3 there") != std::string::npos);
  medium.delta[200] = 0.05f;
  medium_in_c.epsilon = medium.epsilon.data(), medium_in_c.delta = medium.delta.data();
  medium_in_c.constants = SCHED_FD_PROPERTY_EPSILON;
  check(SCHED_FD_EQUATION_VTI);
  shot.anisotropic_source = true, shot_in_c.flags = SCHED_FD_SHOT_ANISOTROPIC_SOURCE;
  check(SCHED_FD_EQUATION_VTI);
  medium.theta_rad.assign(9 * 8 * 7, 0.4f), medium_in_c.theta_rad = medium.theta_rad.data();
  check(SCHED_FD_EQUATION_TTI);
  medium.phi_rad = {0.7f}, medium_in_c.phi_rad = medium.phi_rad.data();
  medium_in_c.constants |= SCHED_FD_PROPERTY_PHI;
  check(SCHED_FD_EQUATION_TTI);
}

}  // namespace

int main() {
  effects();
  return failures != 0;
}
