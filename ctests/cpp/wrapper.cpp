// include/gpusched.hpp, compiled as C++11 and as C++17: arguments, results and lifetimes.
#include <gpusched.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "check.h"

namespace {

gpusched::scheduler small() { return gpusched::scheduler(gpusched::config().devices("cpu").slots(2).cpu_threads(1)); }

// Returns the message of the exception of type `E` that `call` throws.
template <class E, class F>
std::string thrown(F call) {
  try {
    call();
  } catch (const E &e) {
    return e.what();
  }
  CHECK(!"thrown");
  return "";
}

// Returns the status that `call` throws.
template <class F>
int32_t status_of(F call) {
  try {
    call();
  } catch (const gpusched::error &e) {
    CHECK(std::strlen(e.what()) > 10 && std::string(e.name()) == sched_status_name(e.status()));
    return e.status();
  }
  return SCHED_OK;
}

// An empty task is refused without a search for devices, which this selection would fail.
void empty() {
  setenv("GPUSCHED_DEVICES", "bogus", 1);
  gpusched::task<int> none;
  EXPECT(SCHED_E_STALE, status_of([&] { none.wait(); }));
  EXPECT(SCHED_E_STALE, status_of([&] { none.get(); }));
  EXPECT(SCHED_E_STALE, status_of([&] { none.cancel(); }));
  EXPECT(SCHED_E_STALE, status_of([&] { none.info(); }));
  CHECK(none.has_ended() && !none.valid());
  unsetenv("GPUSCHED_DEVICES");
}

void results() {
  gpusched::scheduler s = small();
  std::unique_ptr<int> moved(new int(7));
#if __cplusplus >= 201402L
  CHECK(s.submit([p = std::move(moved)] { return *p; }).get() == 7);
#endif
  CHECK(s.submit([](const gpusched::exec &e) { return e.cpu_threads(); }).get() >= 1);
  auto fills = [](const gpusched::exec &e) { return *static_cast<char *>(std::memset(e.memory(1000), 7, 1000)); };
  CHECK(s.submit(fills).get() == 7);
  auto greedy = [](const gpusched::exec &e) {
    try {
      return e.memory(std::uint64_t(1) << 60) == nullptr;
    } catch (const std::bad_alloc &) {
      return true;
    }
  };
  CHECK(s.submit(greedy).get());
  CHECK(s.submit([] { return std::string("text"); }).get() == "text");
  CHECK(s.submit([] { return std::unique_ptr<int>(new int(3)); }).get() != nullptr);
  s.submit([] {}).get();
  auto once = s.submit([] { return 1; });
  once.get();
  EXPECT(SCHED_E_STALE, status_of([&] { once.get(); }));
}

struct Tracked {
  std::atomic<int> *alive;
  explicit Tracked(std::atomic<int> *a) : alive(a) { ++*alive; }
  Tracked(const Tracked &other) : alive(other.alive) { ++*alive; }
  ~Tracked() { --*alive; }
  Tracked &operator=(const Tracked &) = delete;
};

void lifetimes() {
  std::atomic<int> alive(0);
  {
    gpusched::scheduler s = small();
    Tracked tracked(&alive);
    auto kept = s.submit([tracked] { return tracked.alive->load(); });
    CHECK(kept.get() > 0 && alive == 1);
    s.submit([tracked] {});  // dropped at once: continues to run, unobserved
    gpusched::options nowhere;
    nowhere.device_bytes = UINT64_MAX;
    EXPECT(SCHED_E_MEMORY, status_of([&] { s.submit(nowhere, [tracked] {}); }));
    gpusched::scheduler other = std::move(s);
    EXPECT(SCHED_E_STALE, status_of([&] { s.submit([tracked] {}); }));
    CHECK(other.shutdown(gpusched::forever()));
    EXPECT(SCHED_E_STALE, status_of([&] { other.stats(); }));
  }
  CHECK(alive == 0);
}

void failing() {
  gpusched::scheduler s = small();
  auto bad = s.submit([]() -> int { throw std::out_of_range("over there"); });
  for (int i = 0; i < 2; i++) {
    CHECK(thrown<std::out_of_range>([&] { bad.get(); }) == "over there");
  }
  gpusched::options later;
  later.after.push_back(bad.id());
  EXPECT(SCHED_E_DEPENDENCY, status_of([&] { s.submit(later, [] {}).wait(); }));
  gpusched::options again;
  again.retries = 2;
  auto lucky = s.submit(again, [](const gpusched::exec &e) {
    if (e.attempt() < 3) throw 1;
    return e.attempt();
  });
  CHECK(lucky.get() == 3);
  auto endless = s.submit([](const gpusched::exec &e) {
    while (!e.is_cancelled()) std::this_thread::yield();
  });
  CHECK(!endless.wait(std::chrono::milliseconds(1)));
  endless.cancel();
  EXPECT(SCHED_CANCELLED, status_of([&] { endless.wait(); }));
  thrown<gpusched::cancelled>([&] { endless.wait(); });
}

void in_order() {
  gpusched::scheduler s = gpusched::scheduler::shared();
  gpusched::options o;
  o.ordered = true;
  std::vector<gpusched::task<int>> tasks;
  for (int i = 0; i < 10; i++) {
    tasks.push_back(s.submit(o, [i] { return i; }));
  }
  for (auto &task : tasks) CHECK(s.wait_next() == task.id() && task.has_ended());
  CHECK(s.wait_all() && s.stats().done == 10 && s.shutdown(gpusched::forever()));
}

void many() {
  std::atomic<int> alive(0);
  gpusched::scheduler s = small();
  struct Square {
    Tracked tracked;
    int of;
    int operator()() const {
      if (of == 3) throw std::out_of_range("three");
      return of * of;
    }
  };
  {
    std::vector<Square> calls;
    for (int i = 0; i < 8; i++) calls.push_back(Square{Tracked(&alive), i});
    std::vector<gpusched::task<int>> tasks = s.submit_many(std::move(calls));
    for (int i = 0; i < 8; i++) {
      if (i != 3) CHECK(tasks[i].get() == i * i);
      if (i == 3) CHECK(thrown<std::out_of_range>([&] { tasks[i].get(); }) == "three");
    }
  }
  CHECK(s.wait_all() && alive == 0);
  CHECK(s.submit_many(std::vector<Square>()).empty());
  gpusched::options bad;
  bad.work = -1;
  auto refused = [&] { s.submit_many(bad, std::vector<Square>(3, Square{Tracked(&alive), 0})); };
  EXPECT(SCHED_E_ARGUMENT, status_of(refused));
  CHECK(alive == 0);
}

void any() {
  gpusched::scheduler s = small();
  std::atomic<bool> go(false);
  std::vector<gpusched::task<void>> tasks;
  tasks.push_back(s.submit([&go] {
    while (!go) std::this_thread::yield();
  }));
  CHECK(s.wait_any(tasks, std::chrono::milliseconds(1)) == gpusched::none);
  // A point in time that has passed.
  const std::chrono::seconds over(-1);
  CHECK(!tasks[0].wait(over) && !s.wait_all(over) && s.wait_any(tasks, over) == gpusched::none);
  tasks.push_back(s.submit([] { throw 1; }));
  CHECK(s.wait_any(tasks) == 1);
  go = true;
  tasks.pop_back();
  CHECK(s.wait_any(tasks) == 0);
  tasks.clear();
  EXPECT(SCHED_E_ARGUMENT, status_of([&] { s.wait_any(tasks); }));

  gpusched::task<bool> own;
  std::atomic<bool> known(false);
  own = s.submit([&own, &known] {
    while (!known) std::this_thread::yield();
    return own.has_ended();
  });
  known = true;
  CHECK(!own.get() && own.has_ended());
}

void ranges() {
  std::atomic<int> alive(0);
  gpusched::scheduler s = small();
  const std::uint64_t count = 1000;
  std::vector<std::atomic<int>> times(count);
  {
    Tracked tracked(&alive);
    gpusched::range_options o;
    o.grain = 7;
    o.label = "sevens";
    std::atomic<bool> small_enough(true);
    auto visit = [&times, &small_enough, tracked](std::uint64_t begin, std::uint64_t end) {
      if (end - begin > 7) small_enough = false;
      for (std::uint64_t i = begin; i < end; i++) times[i]++;
    };
    s.run_range(o, 10, count, std::move(visit));
    CHECK(small_enough);
  }
  bool once = true;
  for (std::uint64_t i = 0; i < count; i++) once = once && times[i] == (i >= 10);
  CHECK(once && alive == 0);

  std::atomic<std::uint64_t> sum(0);
  auto add = [&sum](const gpusched::exec &e, std::uint64_t begin, std::uint64_t end) {
    if (e.task() != 0) sum += end - begin;
  };
  gpusched::task<void> range = s.submit_range(0, count, add);
  range.get();
  CHECK(sum == count && range.info().progress == 1.0);

  auto throws = [](std::uint64_t begin, std::uint64_t end) {
    if (begin <= 500 && 500 < end) throw std::out_of_range("500");
  };
  CHECK(thrown<std::out_of_range>([&] { s.run_range(0, count, throws); }) == "500");
  gpusched::range_options pieces;
  pieces.grain = 64;
  std::atomic<int> largest(0);
  s.run_range(pieces, 0, count, [&largest](std::uint64_t begin, std::uint64_t end) {
    const int size = static_cast<int>(end - begin);
    if (size > 5) throw std::bad_alloc();
    for (int seen = largest; seen < size && !largest.compare_exchange_weak(seen, size);) {
    }
  });
  CHECK(largest > 0 && largest <= 5);
#if __cplusplus < 201402L  // four attempts with 21 seconds of pauses
  auto too_large = [](std::uint64_t, std::uint64_t) { throw std::bad_alloc(); };
  thrown<std::bad_alloc>([&] { s.run_range(0, 4, too_large); });
#endif
  auto cancels = [](std::uint64_t, std::uint64_t) { throw gpusched::cancelled(); };
  thrown<gpusched::cancelled>([&] { s.run_range(0, count, cancels); });
}

// Two chunks throw, of which the first one ends the range.
void failing_range() {
  gpusched::scheduler s = small();
  gpusched::range_options single;
  single.grain = 1;
  for (std::uint64_t early = 0; early < 2; early++) {
    std::atomic<int> begun(0);
    auto both = [&begun, early](std::uint64_t begin, std::uint64_t) {
      begun++;
      while (begun < 2) std::this_thread::yield();
      if (begin != early) std::this_thread::sleep_for(std::chrono::milliseconds(200));
      throw std::out_of_range("thrown by " + std::to_string(begin));
    };
    auto range = s.submit_range(single, 0, 2, both);
    const std::string message = thrown<std::out_of_range>([&] { range.wait(); });
    char text[200] = "";
    sched_task_error(s.native(), range.id(), text, sizeof text, nullptr);
    CHECK(message.size() > 9 && std::string(text).find(message) != std::string::npos);
    CHECK(message == "thrown by " + std::to_string(early));
  }
}

// Only 64 tasks wait at a time: the last one is refused, and so is its range. No call of that comes
// later.
void refused_wait() {
  gpusched::scheduler s = small();
  std::atomic<bool> over(false);
  std::atomic<int> late(0);
  gpusched::options in_turn;
  in_turn.label = "in turn";
  const gpusched::task<void> gate = s.submit(in_turn, [&over] {
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  const sched_task_t id = gate.id();
  auto run = [&] { s.run_range(0, 4, [&](std::uint64_t, std::uint64_t) { late += over; }); };
  for (int i = 0; i < 65; i++) {
    s.submit(in_turn, [&s, &over, run, id] {
      if (sched_wait(s.native(), id, SCHED_FOREVER) != SCHED_E_DEADLOCK) return;
      EXPECT(SCHED_E_DEADLOCK, status_of(run));
      over = true;
    });
  }
  CHECK(s.wait_all() && over && late == 0);
}

// A chunk that does not return in time would run on after the call.
void refused_deadline() {
  gpusched::scheduler s = small();
  std::atomic<bool> over(false), inside(false);
  gpusched::range_options limited;
  limited.deadline = std::chrono::milliseconds(50);
  auto holds = [&over, &inside](std::uint64_t, std::uint64_t) {
    inside = true;
    while (!over) std::this_thread::yield();
    inside = false;
  };
  const std::string message = thrown<gpusched::error>([&] { s.run_range(limited, 0, 1, holds); });
  CHECK(!inside && message.find("deadline is 50000000 ns; accepted: 0") == 0);
  EXPECT(SCHED_E_ARGUMENT, status_of([&] { s.run_range(limited, 0, 0, holds); }));
  over = true;
}

bool comes(const std::atomic<int> &calls, int count) {
  for (int tries = 0; tries < 20000 && calls < count; tries++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return calls >= count;
}

void progress() {
  const std::chrono::milliseconds often(1);
  std::atomic<int> alive(0), calls(0), others(0);
  std::atomic<bool> go(false), right(true);
  {
    gpusched::scheduler made = small();
    Tracked tracked(&alive);
    made.on_progress(
        [&calls, &right, tracked](const sched_progress_t &p) {
          if (p.done + p.running + p.queued > 1) right = false;
          calls++;
          throw std::out_of_range("dropped");
        },
        often);
    gpusched::scheduler s = std::move(made);
    auto task = s.submit([&go] {
      while (!go) std::this_thread::yield();
    });
    CHECK(comes(calls, 3) && right);
    CHECK(s.progress().done == 0);
    s.on_progress([&others](const sched_progress_t &) { others++; }, often);
    CHECK(alive == 1 && comes(others, 2));
    s.silence();
    const int before = others, earlier = calls;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(others == before && calls == earlier);
    go = true;
    task.wait();
  }
  CHECK(alive == 0);
  gpusched::scheduler other = gpusched::scheduler::shared();
  std::atomic<int> shares(0);
  {
    gpusched::scheduler share = gpusched::scheduler::shared();
    share.on_progress([&shares](const sched_progress_t &) { shares++; }, often);
    CHECK(comes(shares, 1));
  }
  const int then = shares;
  std::atomic<int> replacing(0);
  {
    gpusched::scheduler share = gpusched::scheduler::shared();
    share.on_progress([](const sched_progress_t &) {}, often);
    other.on_progress([&replacing](const sched_progress_t &) { replacing++; }, often);
  }
  CHECK(comes(replacing, replacing + 3));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(shares == then);
}

void devices_and_log() {
  gpusched::scheduler s = small();
  CHECK(s.devices().size() == 1 && s.stats().devices == 1);
  CHECK(s.devices()[0].backend == SCHED_BACKEND_CPU && s.devices()[0].cpu_threads == 1);
  s.submit([](const gpusched::exec &e) {
     CHECK(e.backend() == SCHED_BACKEND_CPU && e.ordinal() == 0 && e.slot() < 2);
   }).wait();
  CHECK(s.device_stats(0).done == 1 && s.device_stats(0).slots == 2);
  EXPECT(SCHED_E_ARGUMENT, status_of([&] { s.device_stats(1); }));
  auto cancels = s.submit([] { throw gpusched::cancelled(); });
  thrown<gpusched::cancelled>([&] { cancels.wait(); });
  CHECK(std::strncmp(gpusched::version(), "0.", 2) == 0);
  EXPECT(SCHED_E_ARGUMENT, status_of([&] { s.write_trace("no trace"); }));

  gpusched::scheduler one(gpusched::config().devices("cpu").slots(1));
  auto runs_here = [] {
    thread_local int runs = 0;
    return ++runs;
  };
  CHECK(one.submit(runs_here).get() == 1);
  std::atomic<int> lines(0);
  auto fails = [] { throw std::out_of_range("logged"); };
  {
    gpusched::log_callback log(2, [&lines](std::int32_t level, const char *message) {
      lines += level == 2 && std::strstr(message, "logged");
      throw 1;
    });
    thrown<std::out_of_range>([&] { one.submit(fails).wait(); });
    CHECK(one.wait_all() && lines == 1);
  }
  CHECK(one.submit(runs_here).get() == 2);  // an exception that left the library's call would end the thread
  thrown<std::out_of_range>([&] { one.submit(fails).wait(); });
  CHECK(one.wait_all() && lines == 1);
}

void shots() {
  const gpusched::fd::grid grid = {8, 7, 6, 10, 10, 10};
  std::vector<float> vp(8 * 7 * 6, 2000.0f);
  vp[100] = 2100;
  gpusched::scheduler s = small();
  gpusched::fd::shot shot;
  shot.nt = 9, shot.dt_s = 1e-3f, shot.record_every = 2, shot.snapshot_every = 4;
  shot.source = {4, 3, 2};
  shot.receivers.assign(3, gpusched::fd::cell{4, 3, 5});
  shot.wavelet_samples = gpusched::fd::wavelet(0, 30, shot.dt_s, 9);
  gpusched::task<gpusched::fd::gather> task;
  {
    const gpusched::fd::model model(grid, vp, vp);
    CHECK(model.dt_max() > 1e-3 && model.shot_size(shot).record_len == 15);
    task = s.submit_shot(model, shot);
    s.submit_shot(model, shot);  // Released at once.
    gpusched::options copies;
    copies.idempotent = true;
    auto refused = [&] { s.submit_shot(model, shot, copies); };
    CHECK(thrown<gpusched::error>(refused).find("SCHED_TASK_IDEMPOTENT") != std::string::npos);
    shot.snapshot_every = 0;
    CHECK(s.submit_shot(model, shot).get().snapshots.empty());
    const gpusched::fd::model small_model(grid, vp, vp, true);
    CHECK(small_model.shot_size(shot).device_bytes < model.shot_size(shot).device_bytes);
    std::vector<float> rho(vp.size(), 1000.0f);
    for (std::size_t i = 0; i < rho.size(); i += 7) rho[i] = 2000.0f;
    const gpusched::fd::model half_points(grid, vp, rho), cells(grid, vp, rho, false, false, true);
    CHECK(s.submit_shot(half_points, shot).get().record != s.submit_shot(cells, shot).get().record);
    shot.snapshot_every = 9;
    CHECK(model.shot_warnings(shot).find("snapshots are 9 steps apart") == 0);
    shot.source_kind = SCHED_FD_SOURCE_FORCE_X;
    CHECK(model.shot_size(shot).record_len == 15);
    shot.source_kind = -1;
    auto unknown = [&] { model.shot_size(shot); };
    CHECK(thrown<gpusched::error>(unknown).find("source_kind is -1; accepted: 0 (pressure)") == 0);
  }
  const gpusched::fd::gather gather = task.get();
  CHECK(gather.traces == 3 && gather.samples == 5 && gather.snapshot_count == 3);
  CHECK(gather.record.size() == 15 && gather.record[4] != 0);
  CHECK(gather.record[4] == gather.record[14]);
  CHECK(gather.snapshots.size() == 3 * vp.size() && gather.snapshots.back() != 0);
  EXPECT(SCHED_E_STALE, status_of([&] { task.get(); }));
  auto flat = [&] { gpusched::fd::model(grid, std::vector<float>(8 * 7)); };
  CHECK(thrown<gpusched::error>(flat) == "vp_m_s has 56 values; accepted: nx*ny*nz, which is 336, or 1");
  gpusched::fd::medium medium;
  medium.vp_m_s = {2000.0f};
  const double dt_max = gpusched::fd::model(grid, medium).dt_max();
  CHECK(dt_max == gpusched::fd::model(grid, std::vector<float>(vp.size(), 2000.0f)).dt_max());
  gpusched::fd::medium bad = medium;
  bad.delta.resize(5);
  auto refused = [&] { gpusched::fd::model(grid, bad); };
  auto said = [&](const char *words) { CHECK(thrown<gpusched::error>(refused).find(words) == 0); };
  said("delta has 5 values");
  bad = medium;
  bad.epsilon = {0.1f};
  said("epsilon is no property of acoustic1; accepted: vp, rho");
  bad.equation = SCHED_FD_EQUATION_VTI;
  said("delta is missing; accepted: a constant or a value for each cell, which vti needs");
  bad.delta = {0.2f};
  said("epsilon is 0.1; accepted: delta, which is 0.2");
  bad.theta_rad = {45.0f};
  said("theta_rad is 45; accepted: -2 pi to 2 pi radians");
  std::fill(vp.begin(), vp.end(), 2.0f);
  auto kilometres = [&] { gpusched::fd::model(grid, vp); };
  CHECK(thrown<gpusched::error>(kilometres).find("looks like km/s") != std::string::npos);
  CHECK(gpusched::fd::model(grid, vp, {}, false, true).dt_max() > 1);
}

// Each property and the option has its effect on the record.
void equations() {
  gpusched::scheduler s = small();
  // The last cells of `grid` are 15 cells from the source, none of `narrow`.
  const gpusched::fd::grid grid = {20, 8, 7, 10, 10, 10};
  const gpusched::fd::grid narrow = {18, 8, 7, 10, 10, 10};
  gpusched::fd::medium medium;
  medium.vp_m_s = {2000.0f};
  gpusched::fd::shot shot;
  shot.nt = 12, shot.dt_s = 1e-3f, shot.frequency_hz = 30, shot.source = {4, 4, 2}, shot.plane_iz = 1;
  std::vector<float> before;
  bool pml = false;
  auto check = [&](std::int32_t equation) {
    medium.equation = equation;
    const gpusched::fd::model model(grid, medium, false, false, false, pml);
    shot.anisotropic_source = false;
    const std::vector<float> record = s.submit_shot(model, shot).get().record;
    shot.anisotropic_source = true;
    const bool same = s.submit_shot(model, shot).get().record == record;
    CHECK(same == (equation == SCHED_FD_EQUATION_ACOUSTIC2));
    CHECK(record != before);
    before = record;
  };

  check(SCHED_FD_EQUATION_ACOUSTIC2);
  pml = true;
  check(SCHED_FD_EQUATION_ACOUSTIC2);
  medium.epsilon = {0.2f}, medium.delta.assign(20 * 8 * 7, 0.1f), medium.delta[200] = 0.05f;
  check(SCHED_FD_EQUATION_VTI);
  medium.theta_rad.assign(20 * 8 * 7, 0.4f);
  check(SCHED_FD_EQUATION_TTI);
  medium.phi_rad = {0.7f};
  check(SCHED_FD_EQUATION_TTI);
  medium.delta = {0.1f}, medium.theta_rad = {0.4f};
  const gpusched::fd::model model(narrow, medium, false, false, false, pml);
  CHECK(model.shot_size(shot).samples == 12);
  shot.anisotropic_source = false;
  auto reduced = [&] { s.submit_shot(model, shot); };
  const char *const words = "the grid is 18 x 8 x 7 cells, all nearer than 15 cells to the source (4, 4, 2)";
  CHECK(thrown<gpusched::error>(reduced).find(words) == 0);
}

}  // namespace

int main() {
  empty();
  results();
  lifetimes();
  failing();
  in_order();
  many();
  any();
  ranges();
  failing_range();
  refused_wait();
  refused_deadline();
  progress();
  devices_and_log();
  shots();
  if (__cplusplus < 201402L) equations();  // minutes under valgrind, which runs C++17
  return failures != 0;
}
