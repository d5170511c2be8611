/**
 * \file
 * gpusched for C++11 and later: the C API of gpusched.h as types that release what they hold.
 * Header only; link with -lgpusched.
 *
 *   gpusched::scheduler s;
 *   gpusched::task<double> t = s.submit([](const gpusched::exec &e) { return work(e.device()); });
 *   double d = t.get();
 *   s.run_range(0, n, [&](std::uint64_t begin, std::uint64_t end) { work_on(begin, end); });
 *
 * Errors      A failed call throws gpusched::error. An exception that leaves a callable is stored
 *             and fails the task; wait() and get() throw it. Two exceptions mean something else:
 *             std::bad_alloc retries the task as SCHED_E_MEMORY does, and gpusched::cancelled ends
 *             the task as cancelled. No exception passes through the C library.
 * Lifetimes   A callable is moved or copied into its task, and destroyed when the library no
 *             longer needs it. A task may outlive its scheduler. The destructor of a task releases
 *             the task, which continues to run. A shot owns its buffers until get() returns them.
 * Threads     Any thread may use a scheduler and the const functions of any object. One task object
 *             belongs to one thread at a time, as a std::future does. Callables run in the
 *             floating-point mode of the thread that submits them (sched_run_fn).
 * Timeouts    A negative timeout, except forever(), is 0.
 * Left out    sched_exec_fail: throw instead. sched_task_error: wait() throws the message. Detached
 *             tasks: drop the task object. Shots that write into memory of the caller: pass
 *             native() to sched_fd_submit. sched_abi_version: for libraries loaded at run time.
 */
#ifndef GPUSCHED_HPP
#define GPUSCHED_HPP

#include "gpusched.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__GLIBCXX__)
#include <cxxabi.h>
#endif

namespace gpusched {

/// Returns a struct of gpusched.h with its size and all defaults:
/// `auto config = gpusched::init<sched_config_t>();`
template <class Struct>
Struct init() noexcept {
  Struct value = Struct();
  value.size = sizeof value;
  return value;
}

/// A negative status with the message of the library, or a cancelled task.
class error : public std::runtime_error {
 public:
  error(sched_status_t status, const std::string &message)
      : std::runtime_error(message), status_(status) {}

  sched_status_t status() const noexcept { return status_; }
  /// Returns the name of the status, such as "SCHED_E_ARGUMENT".
  const char *name() const noexcept { return sched_status_name(status_); }

 private:
  sched_status_t status_;
};

/// The task was cancelled.
class cancelled : public error {
 public:
  cancelled() : error(SCHED_CANCELLED, "the task was cancelled") {}
};

/// Throws the error that a status stands for. Returns SCHED_OK and SCHED_PENDING.
inline sched_status_t checked(sched_status_t status) {
  if (status < 0) throw error(status, sched_last_error());
  if (status == SCHED_CANCELLED) throw cancelled();
  return status;
}

/// Returns the version of the library, such as "0.1.0".
inline const char *version() noexcept { return sched_version(); }

/// Returns the timeout of a wait that has none.
inline std::chrono::nanoseconds forever() noexcept {
  return std::chrono::nanoseconds(SCHED_FOREVER);
}

/// Configuration of a scheduler. Everything has a default; see sched_config_t.
class config {
 public:
  /// Devices to use: "all", "none", or a list such as "cpu,cuda:0".
  config &devices(std::string names) { return devices_ = std::move(names), *this; }
  /// Tasks at a time on each device, or SCHED_SLOTS_AUTO.
  config &slots(std::uint32_t count) { return slots_ = count, *this; }
  /// Threads of the CPU device.
  config &cpu_threads(std::uint32_t count) { return cpu_threads_ = count, *this; }
  /// Largest number of events in a trace, for scheduler::write_trace.
  config &trace_events(std::uint32_t count) { return trace_events_ = count, *this; }
  /// File that keeps the measured rates of devices between runs.
  config &rates_path(std::string path) { return rates_path_ = std::move(path), *this; }
  /// Bytes of stack for each callable, 1 MiB to 64 GiB; 0: 8 MiB.
  config &stack_bytes(std::uint64_t bytes) { return stack_bytes_ = bytes, *this; }

  /// Returns the struct of the C API. Its texts belong to this object.
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

/// Result of scheduler::wait_any after a timeout.
constexpr std::size_t none = static_cast<std::size_t>(-1);

/// Description of a task; the fields are those of sched_task_desc_t.
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
  /// Ids of tasks that must succeed before this one starts.
  std::vector<sched_task_t> after;
  /// Several attempts may run at the same time, so several threads may call the callable. The first
  /// result counts. Shots without snapshots are idempotent in any case.
  bool idempotent = false;
  /// scheduler::wait_next returns the task in its turn.
  bool ordered = false;
};

/// Description of a range; the fields are those of sched_range_desc_t.
struct range_options {
  std::string label;
  /// Largest number of elements of a call; 0: tuned automatically.
  std::uint64_t grain = 0;
  /// Device memory of one element in bytes.
  std::uint64_t device_bytes = 0;
  std::uint64_t device_mask = 0;
  std::uint32_t backend_mask = 0;
  std::int32_t priority = 0;
  /// Time limit of an attempt at the whole range; 0 in scheduler::run_range.
  std::chrono::nanoseconds deadline{0};
  /// Ids of tasks that must succeed before the first call.
  std::vector<sched_task_t> after;
  /// scheduler::wait_next returns the range in its turn.
  bool ordered = false;
};

/// The place where an attempt runs: argument of a callable, valid until that returns.
class exec {
 public:
  explicit exec(const sched_exec_t *native) noexcept : native_(native) {}

  const sched_exec_t *native() const noexcept { return native_; }
  sched_task_t task() const noexcept { return native_->task; }
  /// Returns the number of the device in its scheduler, from 0.
  std::uint32_t device() const noexcept { return native_->device; }
  /// Returns SCHED_BACKEND_CPU or SCHED_BACKEND_CUDA.
  std::uint32_t backend() const noexcept { return native_->backend; }
  /// Returns the number of the device in its backend, as cudaSetDevice takes it.
  std::uint32_t ordinal() const noexcept { return native_->ordinal; }
  /// Returns the slot of the device.
  std::uint32_t slot() const noexcept { return native_->slot; }
  /// Returns the number of the attempt, from 1.
  std::uint32_t attempt() const noexcept { return native_->attempt; }
  /// Returns the number of threads that the task may use on the CPU device; 0 on a GPU.
  std::uint32_t cpu_threads() const noexcept { return native_->cpu_threads; }
  /// Returns the CUstream for the callable's work; nullptr on the CPU device.
  void *stream() const noexcept { return native_->stream; }
  /// Returns true if the task was asked to stop, or has ended.
  bool is_cancelled() const noexcept { return sched_exec_cancelled(native_) != 0; }
  /// Reports the fraction of the task that is done, from 0 to 1.
  void report(double fraction) const { checked(sched_exec_report(native_, fraction)); }
  /// Commits this attempt before it publishes results. Throws `cancelled` if it does not count.
  void commit() const { checked(sched_exec_commit(native_)); }
  /// Allocates memory of the device, valid until the callable returns: of the GPU on a GPU, where
  /// work on it belongs on stream(); of the host on the CPU device. Its contents are undefined.
  /// Throws std::bad_alloc if the device does not have that much.
  void *memory(std::uint64_t bytes) const {
    void *address = nullptr;
    const sched_status_t status = sched_exec_memory(native_, bytes, &address);
    if (status == SCHED_E_MEMORY) throw std::bad_alloc();
    checked(status);
    return address;
  }

 private:
  const sched_exec_t *native_;
};

namespace detail {

/* Returns a timeout for the C library, which takes any negative one for none. */
inline std::int64_t nanoseconds(std::chrono::nanoseconds timeout) noexcept {
  const bool is_over = timeout.count() < 0 && timeout != forever();
  return is_over ? 0 : static_cast<std::int64_t>(timeout.count());
}

/* Calls F with an exec if it takes one, else with nothing. */
template <class F>
auto invoke(F &f, const exec &e, int) -> decltype(f(e)) {
  return f(e);
}
template <class F>
auto invoke(F &f, const exec &, long) -> decltype(f()) {
  return f();
}
/* Calls F for the elements `begin` to `end` of a range, likewise. */
template <class F>
auto invoke_chunk(F &f, const exec &e, std::uint64_t begin, std::uint64_t end, int)
    -> decltype(f(e, begin, end), void()) {
  f(e, begin, end);
}
template <class F>
auto invoke_chunk(F &f, const exec &, std::uint64_t begin, std::uint64_t end, long)
    -> decltype(f(begin, end), void()) {
  f(begin, end);
}

template <class F>
using result_of = typename std::decay<decltype(invoke(
    std::declval<F &>(), std::declval<const exec &>(), 0))>::type;

/* Stores the exceptions of a task. */
class outcome_base {
 public:
  /* `first`: the first element of a range's chunk; 0 for other tasks. An exception that finds no
   * memory is not stored; then wait() throws the message. */
  void fail(std::uint64_t first, std::exception_ptr thrown) noexcept {
    std::lock_guard<std::mutex> held(lock_);
    try {
      failures_[first] = std::move(thrown);
    } catch (const std::bad_alloc &) {
    }
  }
  void lack_memory(std::exception_ptr thrown) noexcept {
    std::lock_guard<std::mutex> held(lock_);
    shortage_ = std::move(thrown);
  }
  /* Returns the exception that ended the task with `status` and `message`, or null. The message of
   * a range names the chunk: others may have thrown, too. */
  std::exception_ptr exception(sched_status_t status, const std::string &message) {
    std::lock_guard<std::mutex> held(lock_);
    if (status == SCHED_E_MEMORY) return shortage_;
    if (status != SCHED_E_CALLBACK || failures_.empty()) return nullptr;
    for (const auto &failure : failures_) {
      if (message.find("elements " + std::to_string(failure.first) + " to ") == 0)
        return failure.second;
    }
    return failures_.begin()->second;
  }

 private:
  std::mutex lock_;
  std::map<std::uint64_t, std::exception_ptr> failures_;
  std::exception_ptr shortage_;
};

/* Stores the result of a task. */
template <class R>
class outcome : public outcome_base {
 public:
  outcome() = default;
  explicit outcome(std::unique_ptr<R> value) noexcept : value_(std::move(value)) {}
  template <class F>
  void run(F &f, const exec &e) {
    std::unique_ptr<R> value(new R(invoke(f, e, 0)));
    e.commit();
    value_ = std::move(value);
  }
  R take() {
    if (!value_) throw error(SCHED_E_STALE, "get() was called before: a task has one result");
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

/* Calls `code`, stores its exception (see outcome_base::fail), and returns the status for the
 * library. glibc ends a thread (pthread_exit) by an exception that must not be stored; it passes
 * on, and the library ends it. */
template <class Code>
std::int32_t status_of(const sched_exec_t *native, outcome_base &result, std::uint64_t first,
                       Code code) {
  try {
    code();
    return SCHED_OK;
  }
#if defined(__GLIBCXX__)
  catch (abi::__forced_unwind &) {
    throw;
  }
#endif
  catch (const cancelled &) {
    return SCHED_CANCELLED;
  } catch (const std::bad_alloc &) {
    result.lack_memory(std::current_exception());
    return SCHED_E_MEMORY;
  } catch (const std::exception &e) {
    result.fail(first, std::current_exception());
    return sched_exec_fail(native, e.what());
  } catch (...) {
    result.fail(first, std::current_exception());
    return sched_exec_fail(native, "an exception that is no std::exception");
  }
}

/* Calls `code` and drops its exception, except that of pthread_exit. */
template <class Code>
void without_exceptions(Code code) {
  try {
    code();
  }
#if defined(__GLIBCXX__)
  catch (abi::__forced_unwind &) {
    throw;
  }
#endif
  catch (...) {
  }
}

/* The `user` of a task: its callable and its outcome. */
template <class F, class R>
struct box {
  F f;
  std::shared_ptr<outcome<R>> result;

  static std::int32_t run(const sched_exec_t *native, void *user) {
    box *self = static_cast<box *>(user);
    return status_of(native, *self->result, 0,
                     [=] { self->result->run(self->f, exec(native)); });
  }
  static std::int32_t run_chunk(const sched_exec_t *native, std::uint64_t begin, std::uint64_t end,
                                void *user) {
    box *self = static_cast<box *>(user);
    return status_of(native, *self->result, begin,
                     [=] { invoke_chunk(self->f, exec(native), begin, end, 0); });
  }
  static void drop(void *user) noexcept { delete static_cast<box *>(user); }
};

/* The progress callback of a scheduler. */
struct listener_base {
  virtual ~listener_base() = default;
};

template <class F>
struct listener : listener_base, std::enable_shared_from_this<listener<F>> {
  F f;

  explicit listener(F &&code) : f(std::move(code)) {}
  explicit listener(const F &code) : f(code) {}

  static void call(const sched_progress_t *progress, void *user) {
    /* The callable may replace itself. */
    std::shared_ptr<listener> self = static_cast<listener *>(user)->shared_from_this();
    without_exceptions([=] { self->f(*progress); });
  }
};

}  // namespace detail

/// Sends the log of the whole process to a callable while the object exists, instead of to
/// GPUSCHED_LOG. Create one at a time: a second object replaces the first, and the first destructor
/// turns the log off.
class log_callback {
 public:
  /// Receives the level (1 error to 5 trace) and the message, which is valid during the call.
  using function = std::function<void(std::int32_t level, const char *message)>;

  /// Starts the calls for the levels 1 to `max_level`. Several threads may call `f` at the same
  /// time. It must not use the log or destroy a scheduler. Its exceptions are dropped.
  log_callback(std::int32_t max_level, function f) : function_(new function(std::move(f))) {
    checked(sched_log_callback(&call, function_.get(), max_level));
  }
  log_callback(const log_callback &) = delete;
  log_callback &operator=(const log_callback &) = delete;
  /// Turns the log off. When it returns, `f` is not running.
  ~log_callback() {
    /* Refused inside `f`, which then stays. */
    if (sched_log_callback(nullptr, nullptr, 1) < 0) function_.release();
  }

 private:
  static void call(std::int32_t level, const char *message, void *user) {
    detail::without_exceptions([=] { (*static_cast<function *>(user))(level, message); });
  }

  std::unique_ptr<function> function_;
};

/// The propagator: shots over a medium. Cells are counted from 0.
namespace fd {

using cell = sched_fd_cell_t;

/// Cells and their distances in m.
struct grid {
  std::uint64_t nx, ny, nz;
  float dx_m, dy_m, dz_m;
};

/// Shot: source, time axis and receivers; the fields are those of sched_fd_shot_desc_t.
struct shot {
  std::uint64_t nt = 0;
  float dt_s = 0;
  /// Peak frequency of `wavelet`.
  float frequency_hz = 0;
  /// SCHED_FD_WAVELET_*; 0: Ricker.
  std::int32_t wavelet = 0;
  /// Custom source function, one sample for each time step. Empty: `wavelet`.
  std::vector<float> wavelet_samples;
  /// Factor on the wavelet; 0: 10000, or 1 if `source_kind` has a unit.
  float amplitude = 0;
  cell source = {0, 0, 0};
  /// SCHED_FD_SOURCE_*; 0: SCHED_FD_SOURCE_PRESSURE.
  std::int32_t source_kind = 0;
  /// Receiver cells, in the order of the traces. Empty: a plane at depth `plane_iz`.
  std::vector<cell> receivers;
  std::uint64_t plane_iz = 0;
  /// Cells between receivers of the plane; 0: 1.
  std::uint32_t plane_every_x = 0, plane_every_y = 0;
  /// Time steps between samples; 0: 1.
  std::uint32_t record_every = 0;
  /// Time steps between snapshots; 0: no snapshots.
  std::uint64_t snapshot_every = 0;
  /// SCHED_FD_SHOT_MUTE_DIRECT, SCHED_FD_SHOT_EXACT_TIME, SCHED_FD_SHOT_OPTIMISED_STENCIL,
  /// SCHED_FD_SHOT_ANISOTROPIC_SOURCE.
  bool mute_direct = false, exact_time = false, optimised_stencil = false,
       anisotropic_source = false;

  /// Returns the struct of the C API, without buffers. Its pointers belong to this object.
  sched_fd_shot_desc_t native() const noexcept {
    auto d = init<sched_fd_shot_desc_t>();
    d.nt = nt;
    d.dt_s = dt_s;
    d.frequency_hz = frequency_hz;
    d.wavelet = wavelet;
    d.flags = (mute_direct ? SCHED_FD_SHOT_MUTE_DIRECT : 0u) |
              (exact_time ? SCHED_FD_SHOT_EXACT_TIME : 0u) |
              (optimised_stencil ? SCHED_FD_SHOT_OPTIMISED_STENCIL : 0u) |
              (anisotropic_source ? SCHED_FD_SHOT_ANISOTROPIC_SOURCE : 0u);
    d.wavelet_samples = wavelet_samples.empty() ? nullptr : wavelet_samples.data();
    d.wavelet_len = wavelet_samples.size();
    d.amplitude = amplitude;
    d.record_every = record_every;
    d.source = source;
    d.source_kind = source_kind;
    d.receivers = receivers.empty() ? nullptr : receivers.data();
    d.receiver_count = receivers.size();
    d.plane_iz = plane_iz;
    d.plane_every_x = plane_every_x;
    d.plane_every_y = plane_every_y;
    d.snapshot_every = snapshot_every;
    return d;
  }
};

/// Results of a shot.
struct gather {
  /// Numbers of traces, of samples of each, and of snapshots.
  std::size_t traces, samples, snapshot_count;
  /// Pressure, [trace][sample].
  std::vector<float> record;
  /// Pressure, [snapshot][iy][ix][iz].
  std::vector<float> snapshots;
};

/// Properties of a medium. Each has a value for each cell, [iy][ix][iz], or one value that all cells
/// share; an empty one is absent.
struct medium {
  /// SCHED_FD_EQUATION_*.
  std::int32_t equation = SCHED_FD_EQUATION_ACOUSTIC1;
  std::vector<float> vp_m_s, rho_kg_m3, epsilon, delta, theta_rad, phi_rad;
};

/// A medium on a grid. Shots, threads and schedulers may share it; submitted shots keep what they
/// need.
class model {
 public:
  /// Copies the properties. `storage_16_bit`, `any_values`, `density_at_cells`, `pml`: see
  /// SCHED_FD_MODEL_STORAGE_16_BIT, SCHED_FD_MODEL_ANY_VALUES, SCHED_FD_MODEL_DENSITY_AT_CELLS,
  /// SCHED_FD_MODEL_PML.
  model(const grid &g, const medium &of, bool storage_16_bit = false, bool any_values = false,
        bool density_at_cells = false, bool pml = false) {
    create(g, of.equation, flags(storage_16_bit, any_values, density_at_cells, pml),
           {&of.vp_m_s, &of.rho_kg_m3, &of.epsilon, &of.delta, &of.theta_rad, &of.phi_rad});
  }
  /// Copies nx*ny*nz velocities in m/s, [iy][ix][iz], and as many densities in kg/m3 (empty: 1000).
  /// `storage_16_bit`, `any_values`, `density_at_cells`: see SCHED_FD_MODEL_STORAGE_16_BIT,
  /// SCHED_FD_MODEL_ANY_VALUES, SCHED_FD_MODEL_DENSITY_AT_CELLS.
  model(const grid &g, const std::vector<float> &vp_m_s,
        const std::vector<float> &rho_kg_m3 = std::vector<float>(), bool storage_16_bit = false,
        bool any_values = false, bool density_at_cells = false) {
    create(g, SCHED_FD_EQUATION_ACOUSTIC1, flags(storage_16_bit, any_values, density_at_cells, false),
           {&vp_m_s, &rho_kg_m3});
  }
  model(model &&other) noexcept : handle_(other.handle_) { other.handle_ = nullptr; }
  model &operator=(model &&other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  model(const model &) = delete;
  model &operator=(const model &) = delete;
  ~model() { sched_fd_model_destroy(handle_); }

  sched_fd_model_t *native() const noexcept { return handle_; }

  /// Returns the largest stable time step in seconds; see sched_fd_dt_max.
  double dt_max() const {
    double dt_s = 0;
    checked(sched_fd_dt_max(handle_, &dt_s));
    return dt_s;
  }
  /// Returns the warnings of a shot, one per line, or ""; see sched_fd_shot_warnings.
  std::string shot_warnings(const shot &s) const {
    const sched_fd_shot_desc_t desc = s.native();
    std::size_t length = 0;
    checked(sched_fd_shot_warnings(handle_, &desc, nullptr, 0, &length));
    std::string text(length + 1, '\0');
    checked(sched_fd_shot_warnings(handle_, &desc, &text[0], text.size(), nullptr));
    text.pop_back();
    return text;
  }
  /// Returns the sizes of a shot's results, and the memory that it takes.
  sched_fd_shot_size_t shot_size(const shot &s) const {
    const sched_fd_shot_desc_t desc = s.native();
    auto size = init<sched_fd_shot_size_t>();
    checked(sched_fd_shot_size(handle_, &desc, &size));
    return size;
  }

 private:
  static std::uint32_t flags(bool storage_16_bit, bool any_values, bool density_at_cells,
                             bool pml) noexcept {
    return (storage_16_bit ? SCHED_FD_MODEL_STORAGE_16_BIT : 0u) |
           (any_values ? SCHED_FD_MODEL_ANY_VALUES : 0u) |
           (density_at_cells ? SCHED_FD_MODEL_DENSITY_AT_CELLS : 0u) | (pml ? SCHED_FD_MODEL_PML : 0u);
  }

  /// `fields`: the properties in the order of SCHED_FD_PROPERTY_*.
  void create(const grid &g, std::int32_t equation, std::uint32_t flags,
              std::initializer_list<const std::vector<float> *> fields) {
    auto d = init<sched_fd_model_desc_t>();
    d.nx = g.nx, d.ny = g.ny, d.nz = g.nz;
    d.dx_m = g.dx_m, d.dy_m = g.dy_m, d.dz_m = g.dz_m;
    d.flags = flags;
    d.equation = equation;
    const char *names[] = {"vp_m_s", "rho_kg_m3", "epsilon", "delta", "theta_rad", "phi_rad"};
    const float **places[] = {&d.vp_m_s, &d.rho_kg_m3, &d.epsilon,
                              &d.delta,  &d.theta_rad, &d.phi_rad};
    const std::uint64_t cells = g.nx * g.ny * g.nz;
    std::size_t number = 0;
    for (const std::vector<float> *field : fields) {
      const std::size_t count = field->size(), at = number++;
      if (count == 0) continue;
      if (count == 1)
        d.constants |= 1u << at;
      else if (count != cells)
        throw error(SCHED_E_ARGUMENT, std::string(names[at]) + " has " + std::to_string(count) +
                                          " values; accepted: nx*ny*nz, which is " +
                                          std::to_string(cells) + ", or 1");
      *places[at] = field->data();
    }
    checked(sched_fd_model_create(&d, &handle_));
  }

  sched_fd_model_t *handle_ = nullptr;
};

/// Returns `nt` samples of a source wavelet of unit amplitude; see sched_fd_wavelet.
inline std::vector<float> wavelet(std::int32_t shape, float frequency_hz, float dt_s,
                                  std::size_t nt) {
  std::vector<float> samples(nt);
  checked(sched_fd_wavelet(shape, frequency_hz, dt_s, samples.data(), nt));
  return samples;
}

}  // namespace fd

/// A submitted task and its result, like a std::future.
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
  /// Releases the task. A task that has not ended continues to run.
  ~task() {
    if (id_ != 0) sched_release(scheduler_, id_);
  }

  bool valid() const noexcept { return id_ != 0; }
  sched_task_t id() const noexcept { return id_; }

  /// Waits until the task has ended. Returns false after a timeout. Throws the exception of the
  /// callable, `cancelled`, or the error of the task.
  bool wait(std::chrono::nanoseconds timeout = forever()) const {
    sched_status_t status = sched_wait(scheduler_, live_id(), detail::nanoseconds(timeout));
    if (status == SCHED_PENDING) return false;
    if (result_) {
      if (std::exception_ptr thrown = result_->exception(status, sched_last_error()))
        std::rethrow_exception(thrown);
    }
    checked(status);
    return true;
  }

  /// Waits, and moves the result out. A second call throws.
  R get() {
    wait();
    return result_->take();
  }

  /// Returns true if the task has ended, successfully or not, or is not valid().
  bool has_ended() const {
    auto i = init<sched_task_info_t>();
    return id_ == 0 || sched_task_info(scheduler_, id_, &i) != SCHED_OK ||
           i.state >= SCHED_STATE_DONE;
  }
  /// Cancels the task; see sched_cancel.
  void cancel() const { checked(sched_cancel(scheduler_, live_id())); }

  /// Returns the state of the task.
  sched_task_info_t info() const {
    auto i = init<sched_task_info_t>();
    checked(sched_task_info(scheduler_, live_id(), &i));
    return i;
  }

 private:
  /* Returns the id of a valid task, whose scheduler is not NULL. */
  sched_task_t live_id() const {
    if (id_ == 0) throw error(SCHED_E_STALE, "the task was moved from or never submitted");
    return id_;
  }

  sched_t *scheduler_ = nullptr;
  sched_task_t id_ = 0;
  std::shared_ptr<detail::outcome<R>> result_;
};

/// A scheduler, or a handle of the scheduler that the process shares.
class scheduler {
 public:
  /// Creates a scheduler. No device is touched before its first task.
  explicit scheduler(const config &c = config()) {
    sched_config_t native = c.native();
    checked(sched_create(&native, &handle_));
  }
  /// Returns a handle of the scheduler that the process shares. It ends with its last handle.
  static scheduler shared() {
    sched_t *handle = nullptr;
    checked(sched_default(&handle));
    return scheduler(handle);
  }
  scheduler(scheduler &&other) noexcept
      : handle_(other.handle_), listener_(std::move(other.listener_)) {
    other.handle_ = nullptr;
  }
  scheduler &operator=(scheduler &&other) noexcept {
    std::swap(handle_, other.handle_);
    listener_.swap(other.listener_);
    return *this;
  }
  scheduler(const scheduler &) = delete;
  scheduler &operator=(const scheduler &) = delete;
  /// Cancels the queued tasks, asks the running ones to stop, and waits for them.
  ~scheduler() {
    /* Refused inside a task: the scheduler goes on, without the callable. */
    if (sched_destroy(handle_) != SCHED_OK) silence();
  }

  /// Returns the handle; nullptr after a move from this object, or shutdown().
  sched_t *native() const noexcept { return handle_; }

  /// Submits a callable, which takes nothing or a `const exec &`. A retry calls it again.
  template <class F>
  task<detail::result_of<typename std::decay<F>::type>> submit(F &&f) const {
    return submit(options(), std::forward<F>(f));
  }

  template <class F>
  task<detail::result_of<typename std::decay<F>::type>> submit(const options &o, F &&f) const {
    using Code = typename std::decay<F>::type;
    using R = detail::result_of<Code>;
    using Box = detail::box<Code, R>;
    sched_t *const live = handle();
    std::shared_ptr<detail::outcome<R>> result = std::make_shared<detail::outcome<R>>();
    sched_task_desc_t desc = describe(o);
    desc.run = &Box::run;
    desc.drop = &Box::drop;
    /* From here on the library calls `drop`, also if it refuses the task. */
    desc.user = new Box{std::forward<F>(f), result};
    sched_task_t id = 0;
    checked(sched_submit(live, &desc, &id));
    return task<R>(live, id, std::move(result));
  }

  /// Submits each of `calls` with the same options: all of them or, on any error, none. One call is
  /// cheaper than one call of submit() for each.
  template <class F>
  std::vector<task<detail::result_of<F>>> submit_many(const options &o,
                                                      std::vector<F> calls) const {
    using R = detail::result_of<F>;
    using Box = detail::box<F, R>;
    sched_t *const live = handle();
    std::vector<std::unique_ptr<Box>> boxes;
    std::vector<std::shared_ptr<detail::outcome<R>>> results;
    for (F &call : calls) {
      results.push_back(std::make_shared<detail::outcome<R>>());
      boxes.emplace_back(new Box{std::move(call), results.back()});
    }
    sched_task_desc_t desc = describe(o);
    desc.run = &Box::run;
    desc.drop = &Box::drop;
    std::vector<sched_task_desc_t> descs(calls.size(), desc);
    std::vector<sched_task_t> ids(calls.size());
    std::vector<task<R>> tasks;
    tasks.reserve(calls.size());
    /* From here on the library calls `drop`. */
    for (std::size_t i = 0; i < descs.size(); i++) descs[i].user = boxes[i].release();
    checked(sched_submit_many(live, descs.data(), descs.size(), ids.data()));
    for (std::size_t i = 0; i < ids.size(); i++) {
      tasks.emplace_back(live, ids[i], std::move(results[i]));
    }
    return tasks;
  }
  template <class F>
  std::vector<task<detail::result_of<F>>> submit_many(std::vector<F> calls) const {
    return submit_many(options(), std::move(calls));
  }

  /// Submits a parallel loop over `begin` to `end`, `end` not included. Several threads call
  /// `f(first, last)` or `f(exec, first, last)` for chunks until each element is done. A range is
  /// one task.
  template <class F>
  task<void> submit_range(const range_options &o, std::uint64_t begin, std::uint64_t end,
                          F &&f) const {
    using Box = detail::box<typename std::decay<F>::type, void>;
    sched_t *const live = handle();
    std::shared_ptr<detail::outcome<void>> result = std::make_shared<detail::outcome<void>>();
    auto desc = init<sched_range_desc_t>();
    desc.begin = begin;
    desc.end = end;
    desc.grain = o.grain;
    desc.run = &Box::run_chunk;
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
    checked(sched_submit_range(live, &desc, &id));
    return task<void>(live, id, std::move(result));
  }
  template <class F>
  task<void> submit_range(std::uint64_t begin, std::uint64_t end, F &&f) const {
    return submit_range(range_options(), begin, end, std::forward<F>(f));
  }
  /// Submits a range and waits for it. No chunk runs after this call, also if it throws: if the
  /// wait is refused (SCHED_E_DEADLOCK), it cancels the range and polls until that has ended. So
  /// o.deadline must be 0: after a deadline a range may end before its chunks.
  template <class F>
  void run_range(const range_options &o, std::uint64_t begin, std::uint64_t end,
                 F &&f) const {
    if (o.deadline.count() != 0) {
      throw error(SCHED_E_ARGUMENT,
                  "deadline is " + std::to_string(o.deadline.count()) +
                      " ns; accepted: 0, because a chunk may run on after a deadline; use "
                      "submit_range with a callable that owns its data");
    }
    const task<void> range = submit_range(o, begin, end, std::forward<F>(f));
    try {
      range.wait();
    } catch (...) {
      auto info = init<sched_task_info_t>();
      sched_cancel(handle_, range.id());
      while (sched_task_info(handle_, range.id(), &info) == SCHED_OK &&
             info.state < SCHED_STATE_DONE) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      throw;
    }
  }
  template <class F>
  void run_range(std::uint64_t begin, std::uint64_t end, F &&f) const {
    run_range(range_options(), begin, end, std::forward<F>(f));
  }

  /// Submits a shot. The task owns the record and the snapshots, and get() moves them out; until
  /// then `m`, `s` and the task may be destroyed at any time. The library sets `device_bytes`,
  /// `work`, `task_class` and `retries` that are 0.
  task<fd::gather> submit_shot(const fd::model &m, const fd::shot &s,
                               const options &o = options()) const {
    using Box = detail::box<int, fd::gather>;
    sched_t *const live = handle();
    const sched_fd_shot_size_t size = m.shot_size(s);
    std::unique_ptr<fd::gather> buffers(new fd::gather());
    buffers->traces = static_cast<std::size_t>(size.traces);
    buffers->samples = static_cast<std::size_t>(size.samples);
    buffers->snapshot_count = static_cast<std::size_t>(size.snapshots);
    buffers->record.resize(static_cast<std::size_t>(size.record_len));
    buffers->snapshots.resize(static_cast<std::size_t>(size.snapshots_len));
    sched_fd_shot_desc_t shot = s.native();
    shot.record = buffers->record.data();
    shot.record_len = buffers->record.size();
    shot.snapshots = buffers->snapshots.empty() ? nullptr : buffers->snapshots.data();
    shot.snapshots_len = buffers->snapshots.size();
    auto result = std::make_shared<detail::outcome<fd::gather>>(std::move(buffers));
    sched_task_desc_t desc = describe(o);
    desc.drop = &Box::drop;
    /* The buffers outlive a second copy: `drop` is called after its end. */
    if (size.snapshots == 0) desc.flags |= SCHED_TASK_IDEMPOTENT;
    /* As in submit. */
    desc.user = new Box{0, result};
    sched_task_t id = 0;
    checked(sched_fd_submit(live, m.native(), &shot, &desc, &id));
    return task<fd::gather>(live, id, std::move(result));
  }

  /// Waits until one of the tasks has ended, successfully or not, and returns its position, from 0,
  /// or `none` after a timeout. Remove the task from the list before the next call.
  std::size_t wait_any(const std::vector<sched_task_t> &ids,
                       std::chrono::nanoseconds timeout = forever()) const {
    std::size_t position = 0;
    const sched_status_t status =
        sched_wait_any(handle(), ids.data(), ids.size(), detail::nanoseconds(timeout), &position);
    return checked(status) == SCHED_OK ? position : none;
  }
  template <class R>
  std::size_t wait_any(const std::vector<task<R>> &tasks,
                       std::chrono::nanoseconds timeout = forever()) const {
    std::vector<sched_task_t> ids;
    for (const task<R> &one : tasks) ids.push_back(one.id());
    return wait_any(ids, timeout);
  }

  /// Waits until every task that was submitted before has ended. Returns false after a timeout.
  bool wait_all(std::chrono::nanoseconds timeout = forever()) const {
    return checked(sched_wait_all(handle(), detail::nanoseconds(timeout))) == SCHED_OK;
  }
  /// Waits until the next ordered task has ended, and returns its id; 0 after a timeout.
  sched_task_t wait_next(std::chrono::nanoseconds timeout = forever()) const {
    sched_task_t id = 0;
    checked(sched_wait_next(handle(), detail::nanoseconds(timeout), &id));
    return id;
  }
  /// Closes the scheduler to new tasks and waits for the others. Returns false after a timeout.
  bool drain(std::chrono::nanoseconds timeout = forever()) const {
    return checked(sched_drain(handle(), detail::nanoseconds(timeout))) == SCHED_OK;
  }
  /// Destroys the scheduler. Returns false if a callable does not return in time; the scheduler
  /// then still exists, but accepts and starts no task.
  bool shutdown(std::chrono::nanoseconds timeout) {
    const bool ended = checked(sched_shutdown(handle_, detail::nanoseconds(timeout))) == SCHED_OK;
    if (ended) {
      handle_ = nullptr;
      listener_.reset();
    } else {
      silence();
    }
    return ended;
  }

  /// Returns the counts of tasks.
  sched_stats_t stats() const {
    auto s = init<sched_stats_t>();
    checked(sched_stats(handle(), &s));
    return s;
  }
  /// Returns the progress.
  sched_progress_t progress() const {
    auto p = init<sched_progress_t>();
    checked(sched_progress(handle(), &p));
    return p;
  }
  /// Returns the devices. Their numbers in the scheduler are their positions, from 0.
  std::vector<sched_device_info_t> devices() const {
    std::uint32_t count = 0;
    checked(sched_device_count(handle(), &count));
    std::vector<sched_device_info_t> found(count, init<sched_device_info_t>());
    for (std::uint32_t i = 0; i < count; i++) checked(sched_device_info(handle(), i, &found[i]));
    return found;
  }
  /// Returns the counts of a device, which is numbered from 0.
  sched_device_stats_t device_stats(std::uint32_t device) const {
    auto s = init<sched_device_stats_t>();
    checked(sched_device_stats(handle(), device, &s));
    return s;
  }
  /// Calls `f(progress)`, with a `const sched_progress_t &`, every `interval` (at least 1 ms) on a
  /// thread of the library, never twice at once. It replaces the previous callable. `f` may use the
  /// scheduler but not destroy it; its exceptions are dropped. When this call, silence() or the
  /// destructor has returned, the previous callable is not running (unless it made this call
  /// itself) and is not called again.
  template <class F>
  void on_progress(F &&f, std::chrono::nanoseconds interval = std::chrono::seconds(1)) {
    using Listener = detail::listener<typename std::decay<F>::type>;
    std::shared_ptr<Listener> next = std::make_shared<Listener>(std::forward<F>(f));
    const std::uint64_t interval_ns =
        interval.count() > 0 ? static_cast<std::uint64_t>(interval.count()) : 1;
    checked(sched_progress_callback(handle(), &Listener::call, next.get(), interval_ns));
    listener_ = std::move(next);
  }
  /// Ends the calls of on_progress. shutdown() does the same.
  void silence() noexcept {
    if (!listener_) return;
    sched_progress_callback(handle_, nullptr, nullptr, 0);
    listener_.reset();
  }
  /// Writes a trace of all attempts to a file; see sched_trace_write. Needs config::trace_events.
  void write_trace(const std::string &path) const {
    checked(sched_trace_write(handle(), path.c_str()));
  }

 private:
  explicit scheduler(sched_t *handle) noexcept : handle_(handle) {}

  /* Returns the handle; never NULL, which the C library takes for the shared scheduler. */
  sched_t *handle() const {
    if (handle_ == nullptr) throw error(SCHED_E_STALE, "the scheduler was moved from or shut down");
    return handle_;
  }

  static sched_task_desc_t describe(const options &o) noexcept {
    auto desc = init<sched_task_desc_t>();
    desc.label = o.label.empty() ? nullptr : o.label.c_str();
    desc.device_bytes = o.device_bytes;
    desc.work = o.work;
    desc.device_mask = o.device_mask;
    desc.backend_mask = o.backend_mask;
    desc.priority = o.priority;
    desc.retries = o.retries;
    desc.flags = (o.idempotent ? SCHED_TASK_IDEMPOTENT : 0u) |
                 (o.ordered ? SCHED_TASK_ORDERED : 0u);
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
