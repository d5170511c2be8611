/*
 * gpusched for C++11 and later: the C API of gpusched.h as types that clean up after themselves. Header only;
 * link -lgpusched.
 *
 *   gpusched::scheduler s;
 *   gpusched::task<double> t = s.submit([](const gpusched::exec &e) { return work_on(e.device()); });
 *   double d = t.get();
 *   s.run_range(0, n, [&](std::uint64_t begin, std::uint64_t end) { work_on(begin, end); });
 *
 * Exceptions  what leaves a task's code is kept, ends the task as failed, and comes out of wait() and get().
 *             What the library refuses, and what a task of another kind fails with, is a gpusched::error.
 *             In a range std::bad_alloc has the piece tried again in halves, and `cancelled` ends it as cancelled.
 * Lifetimes   a callable is moved or copied in, and destroyed when the library needs it no more. A task
 *             outlives its scheduler harmlessly; dropping a task lets it run on, unobserved.
 * Threads     as in gpusched.h: any thread may use any object's const functions and the scheduler; one task
 *             object is for one thread at a time, as a std::future is. Callables run in the floating-point mode
 *             of the thread that submits them (sched_run_fn).
 */
#ifndef GPUSCHED_HPP
#define GPUSCHED_HPP

#include "gpusched.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__GLIBCXX__)
#include <cxxabi.h>
#endif

namespace gpusched {

/* Returns a struct of gpusched.h with its size and all defaults: `auto config = gpusched::init<sched_config_t>();` */
template <class Struct>
Struct init() noexcept {
  Struct value = Struct();
  value.size = sizeof value;
  return value;
}

/* A negative status, with the library's sentence; or a cancel. */
class error : public std::runtime_error {
 public:
  error(sched_status_t status, const std::string &words) : std::runtime_error(words), status_(status) {}

  sched_status_t status() const noexcept { return status_; }
  /* Such as "SCHED_E_ARGUMENT". */
  const char *name() const noexcept { return sched_status_name(status_); }

 private:
  sched_status_t status_;
};

/* The task was cancelled before its result counted. */
class cancelled : public error {
 public:
  cancelled() : error(SCHED_CANCELLED, "the task was cancelled") {}
};

/* Throws what a status stands for; 0 and SCHED_PENDING pass. */
inline sched_status_t checked(sched_status_t status) {
  if (status < 0) throw error(status, sched_last_error());
  if (status == SCHED_CANCELLED) throw cancelled();
  return status;
}

/* As long as it takes. */
inline std::chrono::nanoseconds forever() noexcept { return std::chrono::nanoseconds(SCHED_FOREVER); }

/* What a scheduler is made of; everything has a default. */
class config {
 public:
  /* "all", "none", or a list such as "cpu,cuda:0". */
  config &devices(std::string names) { return devices_ = std::move(names), *this; }
  /* Tasks at a time on each device. */
  config &slots(std::uint32_t count) { return slots_ = count, *this; }
  /* Threads of the CPU device. */
  config &cpu_threads(std::uint32_t count) { return cpu_threads_ = count, *this; }
  /* Events that a trace keeps at most, for scheduler::write_trace. */
  config &trace_events(std::uint32_t count) { return trace_events_ = count, *this; }
  /* File that keeps what is learned of the devices' speeds between runs. */
  config &rates_path(std::string path) { return rates_path_ = std::move(path), *this; }

  /* Bytes of stack for the code of each task, 1 MiB to 64 GiB; 0: 8 MiB. */
  config &stack_bytes(std::uint64_t bytes) { return stack_bytes_ = bytes, *this; }

  sched_config_t native() const noexcept {
    auto c = init<sched_config_t>();
    c.devices = devices_.empty() ? nullptr : devices_.c_str();
    c.slots = slots_;
    c.cpu_threads = cpu_threads_;
    c.trace_events = trace_events_;
    c.rates_path = rates_path_.empty() ? nullptr : rates_path_.c_str();
    c.stack_bytes = stack_bytes_;
    return c;
  }

 private:
  std::string devices_;
  std::uint32_t slots_ = 0;
  std::uint32_t cpu_threads_ = 0;
  std::uint32_t trace_events_ = 0;
  std::string rates_path_;
  std::uint64_t stack_bytes_ = 0;
};

/* What wait_any tells when its time is up. */
constexpr std::size_t none = static_cast<std::size_t>(-1);

/* What the scheduler is told of a task; the fields are those of sched_task_desc_t. */
struct options {
  std::string label;
  std::uint64_t device_bytes = 0;
  double work = 0.0;
  std::uint64_t device_mask = 0;
  std::uint32_t backend_mask = 0;
  std::int32_t priority = 0;
  std::uint32_t retries = 0;
  std::uint32_t task_class = 0;
  std::chrono::nanoseconds deadline{0};
  /* Tasks, by id(), that have to end well before. */
  std::vector<sched_task_t> after;
  /* A second copy may run elsewhere at the same time: the callable is then called from two threads.
   * The result of the first counts. */
  bool idempotent = false;
  /* scheduler::wait_next hands it out. */
  bool ordered = false;
};

/* What the scheduler is told of a range; the fields are those of sched_range_desc_t. */
struct range_options {
  std::string label;
  /* The most elements of a call; 0: found by measuring. */
  std::uint64_t grain = 0;
  /* Of one element. */
  std::uint64_t device_bytes = 0;
  std::uint64_t device_mask = 0;
  std::uint32_t backend_mask = 0;
  std::int32_t priority = 0;
  /* Of the whole range. */
  std::chrono::nanoseconds deadline{0};
  /* Tasks, by id(), that have to end well before. */
  std::vector<sched_task_t> after;
  /* scheduler::wait_next hands it out. */
  bool ordered = false;
};

/* Where a task runs; given to its code, valid until that returns. */
class exec {
 public:
  explicit exec(const sched_exec_t *native) noexcept : native_(native) {}

  const sched_exec_t *native() const noexcept { return native_; }
  sched_task_t task() const noexcept { return native_->task; }
  std::uint32_t device() const noexcept { return native_->device; }
  std::uint32_t attempt() const noexcept { return native_->attempt; }
  std::uint32_t cpu_threads() const noexcept { return native_->cpu_threads; }
  /* A CUstream; nullptr on a processor. */
  void *stream() const noexcept { return native_->stream; }
  /* Whether the task was asked to stop. */
  bool is_cancelled() const noexcept { return sched_exec_cancelled(native_) != 0; }
  /* How much is done, from 0 to 1. */
  void report(double fraction) const { checked(sched_exec_report(native_, fraction)); }
  /* Called before results are put where others see them; throws `cancelled` if this attempt does not count. */
  void commit() const { checked(sched_exec_commit(native_)); }
  /* Returns memory of the device, undefined, valid until the callback returns: of the GPU on a GPU, where work on it
   * belongs on stream(); of the host on the CPU device. Throws std::bad_alloc if the device does not have that much;
   * if that leaves the callback, the task is retried, alone on the device and then elsewhere. */
  void *memory(std::uint64_t bytes) const {
    void *there = nullptr;
    const sched_status_t status = sched_exec_memory(native_, bytes, &there);
    if (status == SCHED_E_MEMORY) throw std::bad_alloc();
    checked(status);
    return there;
  }

 private:
  const sched_exec_t *native_;
};

namespace detail {

/* The result of calling F with an exec if it takes one, else with nothing. */
template <class F>
auto invoke(F &f, const exec &e, int) -> decltype(f(e)) {
  return f(e);
}
template <class F>
auto invoke(F &f, const exec &, long) -> decltype(f()) {
  return f();
}
/* The same for the elements `begin` to `end` of a range. */
template <class F>
auto invoke_piece(F &f, const exec &e, std::uint64_t begin, std::uint64_t end, int)
    -> decltype(f(e, begin, end), void()) {
  f(e, begin, end);
}
template <class F>
auto invoke_piece(F &f, const exec &, std::uint64_t begin, std::uint64_t end, long)
    -> decltype(f(begin, end), void()) {
  f(begin, end);
}

template <class F>
using result_of =
    typename std::decay<decltype(invoke(std::declval<F &>(), std::declval<const exec &>(), 0))>::type;

/* Where a task's result or exception is kept for whoever asks. */
class outcome_base {
 public:
  void fail(std::exception_ptr what) noexcept {
    std::lock_guard<std::mutex> held(lock_);
    exception_ = std::move(what);
  }
  /* The code found no memory, which may be mended. */
  void lack(std::exception_ptr what) noexcept {
    std::lock_guard<std::mutex> held(lock_);
    lack_ = std::move(what);
  }
  /* What was thrown that ended the task so, if anything was. */
  std::exception_ptr exception(sched_status_t status) {
    std::lock_guard<std::mutex> held(lock_);
    return status == SCHED_E_CALLBACK ? exception_ : status == SCHED_E_MEMORY ? lack_ : nullptr;
  }

 private:
  std::mutex lock_;
  std::exception_ptr exception_;
  std::exception_ptr lack_;
};

template <class R>
class outcome : public outcome_base {
 public:
  template <class F>
  void run(F &f, const exec &e) {
    std::unique_ptr<R> value(new R(invoke(f, e, 0)));
    e.commit();
    value_ = std::move(value);
  }
  R take() {
    if (!value_) throw error(SCHED_E_STALE, "the result of this task was taken before; accepted: one get()");
    std::unique_ptr<R> value(std::move(value_));
    return std::move(*value);
  }

 private:
  std::unique_ptr<R> value_;
};

template <>
class outcome<void> : public outcome_base {
 public:
  template <class F>
  void run(F &f, const exec &e) {
    invoke(f, e, 0);
    e.commit();
  }
  void take() {}
};

/* What the library holds of a task: the callable, and where its result goes. */
template <class F, class R>
struct box {
  F f;
  std::shared_ptr<outcome<R>> result;

  /* No exception leaves it but the one by which glibc ends a thread (pthread_exit), which must not be kept;
   * the library ends that in its turn. */
  static std::int32_t run(const sched_exec_t *native, void *user) {
    box *self = static_cast<box *>(user);
    try {
      self->result->run(self->f, exec(native));
      return 0;
    }
#if defined(__GLIBCXX__)
    catch (abi::__forced_unwind &) {
      throw;
    }
#endif
    catch (const std::bad_alloc &) {
      self->result->lack(std::current_exception());
      return SCHED_E_MEMORY;
    } catch (const std::exception &e) {
      self->result->fail(std::current_exception());
      return sched_exec_fail(native, e.what());
    } catch (...) {
      self->result->fail(std::current_exception());
      return sched_exec_fail(native, "an exception that is no std::exception");
    }
  }

  static void drop(void *user) noexcept { delete static_cast<box *>(user); }
};

/* The same of a range. */
template <class F>
struct range_box {
  F f;
  std::shared_ptr<outcome<void>> result;

  static std::int32_t run(const sched_exec_t *native, std::uint64_t begin, std::uint64_t end, void *user) {
    range_box *self = static_cast<range_box *>(user);
    try {
      invoke_piece(self->f, exec(native), begin, end, 0);
      return 0;
    }
#if defined(__GLIBCXX__)
    catch (abi::__forced_unwind &) {
      throw;
    }
#endif
    catch (const cancelled &) {
      return SCHED_CANCELLED;
    } catch (const std::bad_alloc &) {
      self->result->lack(std::current_exception());
      return SCHED_E_MEMORY;
    } catch (const std::exception &e) {
      self->result->fail(std::current_exception());
      return sched_exec_fail(native, e.what());
    } catch (...) {
      self->result->fail(std::current_exception());
      return sched_exec_fail(native, "an exception that is no std::exception");
    }
  }

  static void drop(void *user) noexcept { delete static_cast<range_box *>(user); }
};

/* Whom a scheduler tells its progress. */
struct listener_base {
  virtual ~listener_base() = default;
};

template <class F>
struct listener : listener_base, std::enable_shared_from_this<listener<F>> {
  F f;

  explicit listener(F &&code) : f(std::move(code)) {}
  explicit listener(const F &code) : f(code) {}

  static void tell(const sched_progress_t *progress, void *user) {
    /* It may put another in its own place. */
    std::shared_ptr<listener> self = static_cast<listener *>(user)->shared_from_this();
    try {
      self->f(*progress);
    }
#if defined(__GLIBCXX__)
    catch (abi::__forced_unwind &) {
      throw;
    }
#endif
    catch (...) {
    }
  }
};

}  // namespace detail

/* A submitted task and its result, as a std::future is. */
template <class R>
class task {
 public:
  task() noexcept = default;
  task(sched_t *scheduler, sched_task_t id, std::shared_ptr<detail::outcome<R>> result) noexcept
      : scheduler_(scheduler), id_(id), result_(std::move(result)) {}
  task(task &&other) noexcept
      : scheduler_(other.scheduler_), id_(other.id_), result_(std::move(other.result_)) {
    other.id_ = 0;
  }
  task &operator=(task &&other) noexcept {
    std::swap(scheduler_, other.scheduler_);
    std::swap(id_, other.id_);
    result_.swap(other.result_);
    return *this;
  }
  task(const task &) = delete;
  task &operator=(const task &) = delete;
  /* Forgets it; one that has not ended runs on. */
  ~task() {
    if (id_ != 0) sched_release(scheduler_, id_);
  }

  bool valid() const noexcept { return id_ != 0; }
  sched_task_t id() const noexcept { return id_; }

  /* Waits for its end; false: the time was up first. Throws what its code has thrown, `cancelled`, or why
   * the library ended it. */
  bool wait(std::chrono::nanoseconds timeout = forever()) const {
    sched_status_t status = sched_wait(scheduler_, id_, timeout.count());
    if (status == SCHED_PENDING) return false;
    if (result_) {
      if (std::exception_ptr what = result_->exception(status)) std::rethrow_exception(what);
    }
    checked(status);
    return true;
  }

  /* The same, and then moves the result out: once. */
  R get() {
    wait();
    return result_->take();
  }

  /* Whether it has ended, whichever way. */
  bool has_ended() const { return sched_wait(scheduler_, id_, 0) != SCHED_PENDING; }
  /* Asks it to stop. */
  void cancel() const { checked(sched_cancel(scheduler_, id_)); }

  sched_task_info_t info() const {
    auto i = init<sched_task_info_t>();
    checked(sched_task_info(scheduler_, id_, &i));
    return i;
  }

 private:
  sched_t *scheduler_ = nullptr;
  sched_task_t id_ = 0;
  std::shared_ptr<detail::outcome<R>> result_;
};

/* A scheduler of one's own, or a share of the one of the process. */
class scheduler {
 public:
  explicit scheduler(const config &c = config()) {
    sched_config_t native = c.native();
    checked(sched_create(&native, &handle_));
  }
  /* The one that all of the process share; it ends with its last holder. */
  static scheduler shared() {
    sched_t *handle = nullptr;
    checked(sched_default(&handle));
    return scheduler(handle);
  }
  scheduler(scheduler &&other) noexcept : handle_(other.handle_), listener_(std::move(other.listener_)) {
    other.handle_ = nullptr;
  }
  scheduler &operator=(scheduler &&other) noexcept {
    std::swap(handle_, other.handle_);
    listener_.swap(other.listener_);
    return *this;
  }
  scheduler(const scheduler &) = delete;
  scheduler &operator=(const scheduler &) = delete;
  /* As sched_destroy: cancels, and waits for what runs. */
  ~scheduler() {
    silence();
    sched_destroy(handle_);
  }

  sched_t *native() const noexcept { return handle_; }

  /* Submits a callable, which takes nothing or a `const exec &`. With retries it is called again. */
  template <class F>
  task<detail::result_of<typename std::decay<F>::type>> submit(F &&f) const {
    return submit(options(), std::forward<F>(f));
  }

  template <class F>
  task<detail::result_of<typename std::decay<F>::type>> submit(const options &o, F &&f) const {
    using Code = typename std::decay<F>::type;
    using R = detail::result_of<Code>;
    using Box = detail::box<Code, R>;
    std::shared_ptr<detail::outcome<R>> result = std::make_shared<detail::outcome<R>>();
    sched_task_desc_t desc = describe<Box>(o);
    /* From here on the library calls `drop`, also when it refuses. */
    desc.user = new Box{std::forward<F>(f), result};
    sched_task_t id = 0;
    checked(sched_submit(handle_, &desc, &id));
    return task<R>(handle_, id, std::move(result));
  }

  /* Submits each of `calls`, all with the same options, which is cheaper than one by one: all of them or, on
   * any error, none. */
  template <class F>
  std::vector<task<detail::result_of<F>>> submit_many(const options &o, std::vector<F> calls) const {
    using R = detail::result_of<F>;
    using Box = detail::box<F, R>;
    std::vector<std::unique_ptr<Box>> boxes;
    std::vector<std::shared_ptr<detail::outcome<R>>> results;
    for (F &call : calls) {
      results.push_back(std::make_shared<detail::outcome<R>>());
      boxes.emplace_back(new Box{std::move(call), results.back()});
    }
    std::vector<sched_task_desc_t> descs(calls.size(), describe<Box>(o));
    std::vector<sched_task_t> ids(calls.size());
    std::vector<task<R>> tasks;
    tasks.reserve(calls.size());
    /* From here on the library calls `drop`. */
    for (std::size_t i = 0; i < descs.size(); i++) descs[i].user = boxes[i].release();
    checked(sched_submit_many(handle_, descs.data(), descs.size(), ids.data()));
    for (std::size_t i = 0; i < ids.size(); i++) tasks.emplace_back(handle_, ids[i], std::move(results[i]));
    return tasks;
  }
  template <class F>
  std::vector<task<detail::result_of<F>>> submit_many(std::vector<F> calls) const {
    return submit_many(options(), std::move(calls));
  }

  /* A parallel loop over `begin` to `end`, `end` not included: has `f(first, last)` or `f(exec, first, last)` called
   * for pieces, from several threads at the same time, until each element is done. One task: wait for it. */
  template <class F>
  task<void> submit_range(const range_options &o, std::uint64_t begin, std::uint64_t end, F &&f) const {
    using Box = detail::range_box<typename std::decay<F>::type>;
    std::shared_ptr<detail::outcome<void>> result = std::make_shared<detail::outcome<void>>();
    auto desc = init<sched_range_desc_t>();
    desc.begin = begin;
    desc.end = end;
    desc.grain = o.grain;
    desc.run = &Box::run;
    desc.drop = &Box::drop;
    desc.label = o.label.empty() ? nullptr : o.label.c_str();
    desc.device_bytes = o.device_bytes;
    desc.device_mask = o.device_mask;
    desc.backend_mask = o.backend_mask;
    desc.priority = o.priority;
    desc.flags = o.ordered ? SCHED_TASK_ORDERED : 0u;
    desc.deadline_ns = o.deadline.count();
    desc.after = o.after.empty() ? nullptr : o.after.data();
    desc.after_count = o.after.size();
    /* As in submit. */
    desc.user = new Box{std::forward<F>(f), result};
    sched_task_t id = 0;
    checked(sched_submit_range(handle_, &desc, &id));
    return task<void>(handle_, id, std::move(result));
  }
  template <class F>
  task<void> submit_range(std::uint64_t begin, std::uint64_t end, F &&f) const {
    return submit_range(range_options(), begin, end, std::forward<F>(f));
  }
  /* The same, and waits for its end. */
  template <class F>
  void run_range(const range_options &o, std::uint64_t begin, std::uint64_t end, F &&f) const {
    submit_range(o, begin, end, std::forward<F>(f)).wait();
  }
  template <class F>
  void run_range(std::uint64_t begin, std::uint64_t end, F &&f) const {
    run_range(range_options(), begin, end, std::forward<F>(f));
  }

  /* The position of a task that has ended, well or not, of those in the list; `none`: the time was up first. It
   * names one that has ended each time: take that out before the next call. */
  std::size_t wait_any(const std::vector<sched_task_t> &ids, std::chrono::nanoseconds timeout = forever()) const {
    std::size_t position = 0;
    const sched_status_t status = sched_wait_any(handle_, ids.data(), ids.size(), timeout.count(), &position);
    return checked(status) == SCHED_OK ? position : none;
  }
  template <class R>
  std::size_t wait_any(const std::vector<task<R>> &tasks, std::chrono::nanoseconds timeout = forever()) const {
    std::vector<sched_task_t> ids;
    for (const task<R> &one : tasks) ids.push_back(one.id());
    return wait_any(ids, timeout);
  }

  /* Waits for every task submitted so far; false: the time was up first. */
  bool wait_all(std::chrono::nanoseconds timeout = forever()) const {
    return checked(sched_wait_all(handle_, timeout.count())) == SCHED_OK;
  }
  /* The next ordered task, once it has ended; 0: the time was up first. */
  sched_task_t wait_next(std::chrono::nanoseconds timeout = forever()) const {
    sched_task_t id = 0;
    checked(sched_wait_next(handle_, timeout.count(), &id));
    return id;
  }
  /* Accepts no more, and waits; false: the time was up first. */
  bool drain(std::chrono::nanoseconds timeout = forever()) const {
    return checked(sched_drain(handle_, timeout.count())) == SCHED_OK;
  }
  /* Ends it, unless some task's code does not return in time: then false, and it is still there. */
  bool shutdown(std::chrono::nanoseconds timeout) {
    silence();
    if (checked(sched_shutdown(handle_, timeout.count())) == SCHED_PENDING) return false;
    handle_ = nullptr;
    return true;
  }

  sched_stats_t stats() const {
    auto s = init<sched_stats_t>();
    checked(sched_stats(handle_, &s));
    return s;
  }
  sched_progress_t progress() const {
    auto p = init<sched_progress_t>();
    checked(sched_progress(handle_, &p));
    return p;
  }
  /* Has `f(progress)`, with a `const sched_progress_t &`, called every so often (at least a millisecond) on a
   * thread of the library, never twice at once, in place of what was set before. It may use the scheduler,
   * but not end it; what it throws is dropped. When this, silence() or the destructor has returned, what was
   * set before is not running and does not come again, unless this was called from inside it. */
  template <class F>
  void on_progress(F &&f, std::chrono::nanoseconds interval = std::chrono::seconds(1)) {
    using Listener = detail::listener<typename std::decay<F>::type>;
    std::shared_ptr<Listener> next = std::make_shared<Listener>(std::forward<F>(f));
    const std::uint64_t every = interval.count() > 0 ? static_cast<std::uint64_t>(interval.count()) : 1;
    checked(sched_progress_callback(handle_, &Listener::tell, next.get(), every));
    listener_ = std::move(next);
  }
  /* Tells nobody any more; so does shutdown, as it begins. */
  void silence() noexcept {
    if (!listener_) return;
    sched_progress_callback(handle_, nullptr, nullptr, 0);
    listener_.reset();
  }
  /* Writes what ran where and when, as sched_trace_write does; needs config::trace_events. */
  void write_trace(const std::string &path) const { checked(sched_trace_write(handle_, path.c_str())); }

 private:
  explicit scheduler(sched_t *handle) noexcept : handle_(handle) {}

  template <class Box>
  static sched_task_desc_t describe(const options &o) noexcept {
    auto desc = init<sched_task_desc_t>();
    desc.run = &Box::run;
    desc.drop = &Box::drop;
    desc.label = o.label.empty() ? nullptr : o.label.c_str();
    desc.device_bytes = o.device_bytes;
    desc.work = o.work;
    desc.device_mask = o.device_mask;
    desc.backend_mask = o.backend_mask;
    desc.priority = o.priority;
    desc.retries = o.retries;
    desc.flags = (o.idempotent ? SCHED_TASK_IDEMPOTENT : 0u) | (o.ordered ? SCHED_TASK_ORDERED : 0u);
    desc.task_class = o.task_class;
    desc.deadline_ns = o.deadline.count();
    desc.after = o.after.empty() ? nullptr : o.after.data();
    desc.after_count = o.after.size();
    return desc;
  }

  sched_t *handle_ = nullptr;
  std::shared_ptr<detail::listener_base> listener_;
};

}  // namespace gpusched

#endif
