// include/gpusched.hpp, compiled as C++11 and as C++17: what goes in, what comes out, and what is destroyed when.
#include <gpusched.hpp>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

namespace {

int failures = 0;

void check(bool right, const char *what) {
  if (!right) std::fprintf(stderr, "%s\n", what);
  failures += !right;
}

gpusched::scheduler small() { return gpusched::scheduler(gpusched::config().devices("cpu").slots(2).cpu_threads(1)); }

void results() {
  gpusched::scheduler s = small();
  std::unique_ptr<int> moved(new int(7));
#if __cplusplus >= 201402L
  check(s.submit([p = std::move(moved)] { return *p; }).get() == 7, "a callable that can only be moved");
#endif
  check(s.submit([](const gpusched::exec &e) { return e.cpu_threads(); }).get() >= 1, "one that takes an exec");
  check(s.submit([] { return std::string("text"); }).get() == "text", "a result that owns memory");
  check(s.submit([] { return std::unique_ptr<int>(new int(3)); }).get() != nullptr, "one that can only be moved");
  s.submit([] {}).get();
  auto once = s.submit([] { return 1; });
  once.get();
  try {
    once.get();
    check(false, "a result taken twice");
  } catch (const gpusched::error &e) {
    check(e.status() == SCHED_E_STALE, "its error");
  }
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
    check(kept.get() > 0 && alive == 1, "what a callable captures is gone when a wait has told its end");
    s.submit([tracked] {});  // dropped at once: runs on, unobserved
    gpusched::options nowhere;
    nowhere.device_bytes = UINT64_MAX;
    try {
      s.submit(nowhere, [tracked] {});
      check(false, "a task that fits nowhere");
    } catch (const gpusched::error &e) {
      check(e.status() == SCHED_E_MEMORY && std::strlen(e.what()) > 20, "its error");
    }
  }
  check(alive == 0, "every callable is destroyed");
}

void failing() {
  gpusched::scheduler s = small();
  auto bad = s.submit([]() -> int { throw std::out_of_range("over there"); });
  for (int i = 0; i < 2; i++) {
    try {
      bad.get();
      check(false, "an exception");
    } catch (const std::out_of_range &e) {
      check(std::string(e.what()) == "over there", "its own words");
    }
  }
  gpusched::options later;
  later.after.push_back(bad.id());
  try {
    s.submit(later, [] {}).wait();
    check(false, "a task after one that fails");
  } catch (const gpusched::error &e) {
    check(e.status() == SCHED_E_DEPENDENCY && std::string(e.name()) == "SCHED_E_DEPENDENCY", "its error");
  }
  gpusched::options again;
  again.retries = 2;
  auto lucky = s.submit(again, [](const gpusched::exec &e) {
    if (e.attempt() < 3) throw 1;
    return e.attempt();
  });
  check(lucky.get() == 3, "the third attempt");
  auto endless = s.submit([](const gpusched::exec &e) {
    while (!e.is_cancelled()) std::this_thread::yield();
  });
  check(!endless.wait(std::chrono::milliseconds(1)), "a wait with a time limit");
  endless.cancel();
  try {
    endless.wait();
    check(false, "a task that was cancelled");
  } catch (const gpusched::cancelled &e) {
    check(e.status() == SCHED_CANCELLED, "its status");
  }
}

void in_order() {
  gpusched::scheduler s = gpusched::scheduler::shared();
  gpusched::options o;
  o.ordered = true;
  std::vector<gpusched::task<int>> tasks;
  for (int i = 0; i < 10; i++) {
    tasks.push_back(s.submit(o, [i] { return i; }));
  }
  for (auto &task : tasks) check(s.wait_next() == task.id() && task.has_ended(), "in the order of submission");
  check(s.wait_all() && s.stats().done == 10 && s.shutdown(gpusched::forever()), "the end");
}

}  // namespace

int main() {
  results();
  lifetimes();
  failing();
  in_order();
  return failures != 0;
}
