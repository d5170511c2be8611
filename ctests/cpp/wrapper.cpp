// include/gpusched.hpp, compiled as C++11 and as C++17: what goes in, what comes out, and what is destroyed when.
#include <gpusched.hpp>

#include <atomic>
#include <cfenv>
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
  auto fills = [](const gpusched::exec &e) { return *static_cast<char *>(std::memset(e.memory(1000), 7, 1000)); };
  check(s.submit(fills).get() == 7, "memory for a task");
  auto greedy = [](const gpusched::exec &e) {
    try {
      return e.memory(std::uint64_t(1) << 60) == nullptr;
    } catch (const std::bad_alloc &) {
      return true;
    }
  };
  check(s.submit(greedy).get(), "memory that is not there");
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
      try {
        check(tasks[i].get() == i * i && i != 3, "each gives its own result");
      } catch (const std::out_of_range &e) {
        check(i == 3 && std::string(e.what()) == "three", "its own exception");
      }
    }
  }
  check(s.wait_all() && alive == 0, "what they captured is gone");
  check(s.submit_many(std::vector<Square>()).empty(), "none at all");
  gpusched::options bad;
  bad.work = -1;
  try {
    s.submit_many(bad, std::vector<Square>(3, Square{Tracked(&alive), 0}));
    check(false, "options that are refused");
  } catch (const gpusched::error &e) {
    check(e.status() == SCHED_E_ARGUMENT && alive == 0, "refused as one, and nothing is kept");
  }
}

void any() {
  gpusched::scheduler s = small();
  std::atomic<bool> go(false);
  std::vector<gpusched::task<void>> tasks;
  tasks.push_back(s.submit([&go] {
    while (!go) std::this_thread::yield();
  }));
  check(s.wait_any(tasks, std::chrono::milliseconds(1)) == gpusched::none, "none in time");
  tasks.push_back(s.submit([] { throw 1; }));
  check(s.wait_any(tasks) == 1, "the one that has ended, though badly");
  go = true;
  tasks.pop_back();
  check(s.wait_any(tasks) == 0, "the other");
  tasks.clear();
  try {
    s.wait_any(tasks);
    check(false, "an empty list");
  } catch (const gpusched::error &e) {
    check(e.status() == SCHED_E_ARGUMENT, "its error");
  }
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
    s.run_range(o, 10, count, [&times, &small_enough, tracked](std::uint64_t begin, std::uint64_t end) {
      if (end - begin > 7) small_enough = false;
      for (std::uint64_t i = begin; i < end; i++) times[i]++;
    });
    check(small_enough, "no piece is larger than the grain");
  }
  bool once = true;
  for (std::uint64_t i = 0; i < count; i++) once = once && times[i] == (i >= 10);
  check(once && alive == 0, "each element once, and what was captured is gone");

  std::atomic<std::uint64_t> sum(0);
  auto add = [&sum](const gpusched::exec &e, std::uint64_t begin, std::uint64_t end) {
    if (e.task() != 0) sum += end - begin;
  };
  gpusched::task<void> range = s.submit_range(0, count, add);
  range.get();
  check(sum == count && range.info().progress == 1.0, "one that takes an exec");

  try {
    s.run_range(0, count, [](std::uint64_t begin, std::uint64_t end) {
      if (begin <= 500 && 500 < end) throw std::out_of_range("500");
    });
    check(false, "an exception in a range");
  } catch (const std::out_of_range &e) {
    check(std::string(e.what()) == "500", "its own words");
  }
  gpusched::range_options pieces;
  pieces.grain = 64;
  std::atomic<int> largest(0);
  s.run_range(pieces, 0, count, [&largest](std::uint64_t begin, std::uint64_t end) {
    const int size = static_cast<int>(end - begin);
    if (size > 5) throw std::bad_alloc();
    for (int seen = largest; seen < size && !largest.compare_exchange_weak(seen, size);) {
    }
  });
  check(largest > 0 && largest <= 5, "what does not fit is halved");
  try {
    s.run_range(0, 4, [](std::uint64_t, std::uint64_t) { throw std::bad_alloc(); });
    check(false, "an element that fits nowhere");
  } catch (const std::bad_alloc &) {
  }
  try {
    s.run_range(0, count, [](std::uint64_t, std::uint64_t) { throw gpusched::cancelled(); });
    check(false, "a range that cancels itself");
  } catch (const gpusched::cancelled &) {
  }
  try {
    s.run_range(5, 4, [](std::uint64_t, std::uint64_t) {});
    check(false, "a range that ends before it begins");
  } catch (const gpusched::error &e) {
    check(e.status() == SCHED_E_ARGUMENT && std::strstr(e.what(), "begin") != nullptr, "its error");
  }
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
    check(comes(calls, 3) && right, "it is called, though it throws");
    check(s.progress().done == 0, "asked once");
    s.on_progress([&others](const sched_progress_t &) { others++; }, often);
    check(alive == 1 && comes(others, 2), "another takes its place, and it is gone");
    s.silence();
    const int before = others, earlier = calls;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    check(others == before && calls == earlier, "silence");
    /* From inside, by itself. */
    std::atomic<int> last(0);
    s.on_progress(
        [&s, &last, tracked, often](const sched_progress_t &) {
          s.on_progress([&last](const sched_progress_t &) { last++; }, std::chrono::milliseconds(2));
          std::this_thread::sleep_for(often);
          last += tracked.alive->load() > 0;
        },
        often);
    check(comes(last, 3), "it puts another in its own place");
    go = true;
    task.wait();
    try {
      s.on_progress([](const sched_progress_t &) {}, std::chrono::nanoseconds(5));
      check(false, "too often");
    } catch (const gpusched::error &e) {
      check(e.status() == SCHED_E_ARGUMENT && std::strstr(e.what(), "interval_ns is 5") != nullptr, "its error");
    }
  }
  check(alive == 0, "it is gone with the scheduler");
  gpusched::scheduler other = gpusched::scheduler::shared();
  std::atomic<int> shares(0);
  {
    gpusched::scheduler share = gpusched::scheduler::shared();
    share.on_progress([&shares](const sched_progress_t &) { shares++; }, often);
    check(comes(shares, 1), "one that is shared");
  }
  const int then = shares;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  check(shares == then, "goes with its share");
}

// Callables run in the floating-point mode of the thread that submits them.
void rounding() {
  gpusched::scheduler s = small();
  s.submit([] {}).get();
  gpusched::options named;
  named.label = "labelled";
  std::fesetround(FE_UPWARD);
  auto plain = s.submit([] { return std::fegetround(); });
  auto labelled = s.submit(named, [] { return std::fegetround(); });
  std::fesetround(FE_TONEAREST);
  check(plain.get() == FE_UPWARD && labelled.get() == FE_UPWARD, "a callable rounds as its submitter");
  check(std::fegetround() == FE_TONEAREST, "the waiting thread keeps its rounding direction");
}

}  // namespace

int main() {
  results();
  lifetimes();
  failing();
  in_order();
  many();
  any();
  ranges();
  progress();
  rounding();
  return failures != 0;
}
