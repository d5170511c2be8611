!> Fortran 2008 on top of the C ABI of gpusched.
!>
!> Compile this file with your own sources and link with -lgpusched. Module files belong to one
!> compiler, so none are installed. The file includes gpusched_c.inc, which lies beside it.
!>
!> Names    Everything public begins with `sched_`. A procedure sched_x(s, ...) of gpusched.h is a
!>          bound procedure x of sched_scheduler or sched_fd_model; arguments and components have
!>          the names of the header.
!> Errors   Every procedure accepts `stat` and `errmsg`, as `allocate` does. `stat` is 0, or
!>          SCHED_PENDING or SCHED_CANCELLED (positive), or an error SCHED_E_* (negative); `errmsg`
!>          is set unless `stat` is 0. Without `stat` a failure prints its message to standard error
!>          and ends the program with status 1.
!> Counts   Cells count from 1: `source`, `receivers`, `plane_iz`, and positions in lists. Messages
!>          of the C library count from 0, and begin with that. Devices count from 0, as in
!>          exec%device, GPUSCHED_DEVICES and `device_mask`. The numbers of a range are the caller's
!>          own.
!> Arrays   Fields are (nz, nx, ny), z fastest; a record is (samples, traces).
!> Objects  Do not copy a sched_scheduler or sched_fd_model by assignment. Both are destroyed when
!>          they go out of scope. Fortran does not do this for variables of the main program: call
!>          `destroy` there.
!> Modes    Callbacks run in the floating-point mode (rounding, underflow, halting) of the thread
!>          that submitted the task. A change of the mode ends when the callback returns.
include "gpusched_c.inc"

module gpusched
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  use gpusched_c, c_version => sched_version, c_status_name => sched_status_name, &
    c_log_callback => sched_log_callback, c_exec_cancelled => sched_exec_cancelled, &
    c_exec_report => sched_exec_report, c_exec_commit => sched_exec_commit, &
    c_exec_fail => sched_exec_fail, c_exec_memory => sched_exec_memory, &
    c_fd_wavelet => sched_fd_wavelet
  implicit none
  private

  public :: sched_scheduler, sched_task_options, sched_fd_model, sched_fd_shot
  public :: sched_version, sched_status_name, sched_text, sched_counted, sched_log_callback, &
    sched_fd_wavelet
  public :: sched_exec_cancelled, sched_exec_report, sched_exec_commit, sched_exec_fail, &
    sched_exec_memory
  ! Types, interfaces and constants of the C ABI.
  public :: sched_exec_t, sched_stats_t, sched_progress_t, sched_task_info_t
  public :: sched_device_info_t, sched_device_stats_t, sched_fd_shot_size_t
  public :: sched_run_fn, sched_drop_fn, sched_range_fn, sched_progress_fn, sched_log_fn
  public :: sched_map_fn
  public :: SCHED_OK, SCHED_PENDING, SCHED_CANCELLED
  public :: SCHED_E_ARGUMENT, SCHED_E_TOO_NEW, SCHED_E_STALE, SCHED_E_MEMORY, SCHED_E_NO_DEVICE
  public :: SCHED_E_IO, SCHED_E_CALLBACK, SCHED_E_PANIC, SCHED_E_DEADLOCK, SCHED_E_SHUTDOWN
  public :: SCHED_E_FORKED, SCHED_E_UNSTABLE, SCHED_E_DEVICE, SCHED_E_INTERNAL
  public :: SCHED_E_DEPENDENCY, SCHED_E_DEADLINE, SCHED_E_RESOURCES, SCHED_E_UNWOUND, &
    SCHED_E_DRIVER, SCHED_E_BUSY, SCHED_E_RESULT
  public :: SCHED_FOREVER, SCHED_SLOTS_AUTO, SCHED_BACKEND_CPU, SCHED_BACKEND_CUDA
  public :: SCHED_HEALTH_GOOD, SCHED_HEALTH_RETIRED, SCHED_HEALTH_BARRED
  public :: SCHED_STATE_QUEUED, SCHED_STATE_RUNNING, SCHED_STATE_DONE
  public :: SCHED_STATE_FAILED, SCHED_STATE_CANCELLED
  public :: SCHED_FD_EQUATION_ACOUSTIC1, SCHED_FD_EQUATION_ACOUSTIC2
  public :: SCHED_FD_EQUATION_VTI, SCHED_FD_EQUATION_TTI
  public :: SCHED_FD_SOURCE_PRESSURE, SCHED_FD_SOURCE_MONOPOLE, SCHED_FD_SOURCE_FORCE_X
  public :: SCHED_FD_SOURCE_FORCE_Y, SCHED_FD_SOURCE_FORCE_Z
  public :: SCHED_FD_WAVELET_RICKER, SCHED_FD_WAVELET_GAUSSIAN_DERIVATIVE
  public :: SCHED_FD_WAVELET_GAUSSIAN
  public :: SCHED_FD_WAVELET_CUT_RICKER, SCHED_FD_WAVELET_CUT_GAUSSIAN_DERIVATIVE
  public :: SCHED_FD_WAVELET_CUT_GAUSSIAN, SCHED_FD_WAVELET_CUT_RICKER_INTEGRAL
  public :: SCHED_FD_WAVELET_CUT_RICKER_DOUBLE_INTEGRAL, SCHED_FD_WAVELET_CUT_RICKER_TRIPLE_INTEGRAL

  !> Kind of the ids of tasks: `integer(sched_task_t) :: id`.
  integer, parameter, public :: sched_task_t = c_int64_t
  integer, parameter :: i8 = c_int64_t, sp = c_float, dp = c_double

  !> Description of a task (sched_task_desc_t). Zero is the default of every component.
  type :: sched_task_options
    character(len=:), allocatable :: label
    integer(i8) :: device_bytes = 0         !< peak use of device memory in bytes
    real(dp) :: work = 0                    !< amount of work, in any unit; 0: unknown
    integer(i8) :: device_mask = 0          !< bit i: device i of the scheduler, from 0; 0: all
    integer(c_int32_t) :: backend_mask = 0  !< SCHED_BACKEND_*; 0: all
    integer(c_int32_t) :: priority = 0      !< a higher priority runs earlier
    integer(c_int32_t) :: retries = 0       !< retries of a failed attempt
    integer(c_int32_t) :: task_class = 0    !< tasks of a class are alike
    integer(i8) :: deadline_ns = 0          !< time limit of an attempt; 0: none
    integer(sched_task_t), allocatable :: after(:) !< tasks that must succeed before
    logical :: idempotent = .false.         !< several attempts may run; see sched_exec_commit
    logical :: ordered = .false.            !< wait_next returns the task in its turn
  end type

  !> A scheduler. A variable that was not created stands for the scheduler that the process shares.
  type :: sched_scheduler
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: create => scheduler_create
    procedure :: shared => scheduler_shared
    procedure :: destroy => scheduler_destroy
    procedure :: shutdown => scheduler_shutdown
    procedure :: submit => scheduler_submit
    procedure :: submit_many => scheduler_submit_many
    procedure :: submit_range => scheduler_submit_range
    procedure :: run_range => scheduler_run_range
    procedure :: map => scheduler_map
    procedure :: submit_shot => scheduler_submit_shot
    procedure :: wait => scheduler_wait
    procedure :: wait_all => scheduler_wait_all
    procedure :: wait_any => scheduler_wait_any
    procedure :: wait_next => scheduler_wait_next
    procedure :: cancel => scheduler_cancel
    procedure :: release => scheduler_release
    procedure :: drain => scheduler_drain
    procedure :: task_info => scheduler_task_info
    procedure :: task_error => scheduler_task_error
    procedure :: stats => scheduler_stats
    procedure :: device_count => scheduler_device_count
    procedure :: device_info => scheduler_device_info
    procedure :: device_stats => scheduler_device_stats
    procedure :: progress => scheduler_progress
    procedure :: on_progress => scheduler_on_progress
    procedure :: write_trace => scheduler_write_trace
    final :: scheduler_final
  end type

  !> A medium: properties on a grid.
  type :: sched_fd_model
    private
    type(c_ptr) :: handle = c_null_ptr
    integer(i8) :: cells(3) = 0  !< nz, nx, ny
  contains
    procedure :: create => model_create
    procedure :: destroy => model_destroy
    procedure :: dt_max => model_dt_max
    procedure :: shot_size => model_shot_size
    procedure :: shot_warnings => model_shot_warnings
    final :: model_final
  end type

  !> A shot: source, time axis, receivers (sched_fd_shot_desc_t). Cells count from 1. Without
  !> `receivers`: the plane at depth `plane_iz`.
  type :: sched_fd_shot
    integer(i8) :: nt = 0                   !< time steps to compute
    real(sp) :: dt_s = 0                    !< time step, at most the result of dt_max
    real(sp) :: frequency_hz = 0            !< peak frequency of `wavelet`
    integer(c_int32_t) :: wavelet = 0       !< SCHED_FD_WAVELET_*; 0: Ricker
    real(sp), allocatable :: wavelet_samples(:) !< custom source function, one sample for each step
    real(sp) :: amplitude = 0               !< factor on the wavelet; 0: 10000, or 1 with a unit
    integer(i8) :: source(3) = 1            !< cell ix, iy, iz, each from 1
    integer(c_int32_t) :: source_kind = 0   !< SCHED_FD_SOURCE_*; 0: SCHED_FD_SOURCE_PRESSURE
    integer(i8), allocatable :: receivers(:, :) !< (3, count): cells ix, iy, iz, each from 1
    integer(i8) :: plane_iz = 1             !< depth of the receiver plane, from 1
    integer(c_int32_t) :: plane_every_x = 0, plane_every_y = 0 !< cells between receivers; 0: 1
    integer(c_int32_t) :: record_every = 0  !< time steps between samples; 0: 1
    integer(i8) :: snapshot_every = 0       !< time steps between snapshots; 0: none
    logical :: mute_direct = .false.        !< SCHED_FD_SHOT_MUTE_DIRECT
    logical :: exact_time = .false.         !< SCHED_FD_SHOT_EXACT_TIME
    logical :: optimised_stencil = .false.  !< SCHED_FD_SHOT_OPTIMISED_STENCIL
    logical :: anisotropic_source = .false. !< SCHED_FD_SHOT_ANISOTROPIC_SOURCE
  end type

  abstract interface
    !> Function that `map` applies; several threads call it at the same time.
    function sched_map_fn(x) result(y)
      import :: dp
      real(dp), intent(in) :: x
      real(dp) :: y
    end function
  end interface

  ! Generic, because gfortran takes a procedure with the name of a C function for that function.
  interface sched_version
    module procedure library_version
  end interface
  interface sched_status_name
    module procedure status_name
  end interface
  interface sched_text
    module procedure text_at, text_of
  end interface
  interface sched_log_callback
    module procedure log_callback
  end interface
  interface sched_fd_wavelet
    module procedure fd_wavelet
  end interface
  interface sched_exec_cancelled
    module procedure exec_cancelled
  end interface
  interface sched_exec_report
    module procedure exec_report
  end interface
  interface sched_exec_commit
    module procedure exec_commit
  end interface
  interface sched_exec_fail
    module procedure exec_fail
  end interface
  interface sched_exec_memory
    module procedure exec_memory
  end interface

  interface
    subroutine c_exit(status) bind(c, name="exit")
      import :: c_int
      integer(c_int), value :: status
    end subroutine
    integer(c_int) function c_usleep(microseconds) bind(c, name="usleep")
      import :: c_int
      integer(c_int), value :: microseconds
    end function
  end interface

  !> A map while it runs.
  type :: map_job
    procedure(sched_map_fn), pointer, nopass :: f => null()
    real(dp), pointer, contiguous :: x(:) => null(), y(:) => null()
  end type

contains

  ! --- scheduler ---

  !> Creates a scheduler. An earlier one of this variable is destroyed first.
  subroutine scheduler_create(self, devices, slots, cpu_threads, trace_events, rates_path, &
      stack_bytes, stat, errmsg)
    class(sched_scheduler), intent(inout) :: self
    character(len=*), intent(in), optional :: devices !< as in GPUSCHED_DEVICES
    integer, intent(in), optional :: slots            !< of each device, or SCHED_SLOTS_AUTO
    integer, intent(in), optional :: cpu_threads      !< threads of the CPU device
    integer, intent(in), optional :: trace_events     !< largest number of events in a trace
    character(len=*), intent(in), optional :: rates_path !< file that keeps the measured rates
    integer(i8), intent(in), optional :: stack_bytes  !< of each callback, from 1 MiB; 0: 8 MiB
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(sched_config_t), target :: config
    character(kind=c_char), allocatable, target :: list(:), rates(:)
    type(c_ptr), target :: handle
    integer(c_int32_t) :: status
    if (is_kept(self, stat, errmsg)) return
    config%size = c_sizeof(config)
    if (present(devices)) then
      list = c_string(devices)
      config%devices = c_loc(list)
    end if
    if (present(slots)) config%slots = int(slots, c_int32_t)
    if (present(cpu_threads)) config%cpu_threads = int(cpu_threads, c_int32_t)
    if (present(trace_events)) config%trace_events = int(trace_events, c_int32_t)
    if (present(stack_bytes)) config%stack_bytes = stack_bytes
    if (refused(below("slots", int(config%slots, i8), -1_i8), stat, errmsg)) return
    if (refused(below("cpu_threads", int(config%cpu_threads, i8), 0_i8), stat, errmsg)) return
    if (refused(below("trace_events", int(config%trace_events, i8), 0_i8), stat, errmsg)) return
    if (refused(below("stack_bytes", config%stack_bytes, 0_i8), stat, errmsg)) return
    if (present(rates_path)) then
      rates = c_string(rates_path)
      config%rates_path = c_loc(rates)
    end if
    handle = c_null_ptr
    status = sched_create(c_loc(config), c_loc(handle))
    self%handle = handle
    call conclude(status, stat, errmsg)
  end subroutine

  !> Makes this variable a handle of the scheduler that the process shares (sched_default). That
  !> scheduler ends with its last handle.
  subroutine scheduler_shared(self, stat, errmsg)
    class(sched_scheduler), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr), target :: handle
    integer(c_int32_t) :: status
    if (is_kept(self, stat, errmsg)) return
    handle = c_null_ptr
    status = sched_default(c_loc(handle))
    self%handle = handle
    call conclude(status, stat, errmsg)
  end subroutine

  !> Destroys the earlier scheduler of a variable. Returns true if that fails. A stale one is gone.
  logical function is_kept(self, stat, errmsg)
    class(sched_scheduler), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer :: status
    character(len=1000) :: message
    message = ""
    call self%destroy(status, message)
    is_kept = status /= SCHED_OK .and. status /= SCHED_E_STALE
    if (is_kept) call report(status, trim(message), stat, errmsg)
  end function

  !> Cancels the queued tasks, asks the running ones to stop, and waits for them.
  subroutine scheduler_destroy(self, stat, errmsg)
    class(sched_scheduler), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: status
    status = sched_destroy(self%handle)
    if (status >= 0) self%handle = c_null_ptr
    call conclude(status, stat, errmsg)
  end subroutine

  !> Does the same as `destroy`, but waits no longer than `timeout_ns`. After a timeout
  !> (SCHED_PENDING) the scheduler still exists, but accepts and starts no task.
  subroutine scheduler_shutdown(self, timeout_ns, stat, errmsg)
    class(sched_scheduler), intent(inout) :: self
    integer(i8), intent(in) :: timeout_ns
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: status
    status = sched_shutdown(self%handle, timeout_ns)
    if (status == SCHED_OK) self%handle = c_null_ptr
    call conclude(status, stat, errmsg)
  end subroutine

  impure elemental subroutine scheduler_final(self)
    type(sched_scheduler), intent(inout) :: self
    integer :: ignored
    call self%destroy(stat=ignored)
  end subroutine

  !> Submits a task: a thread of the scheduler calls `run(exec, user)`. `drop(user)` is called once,
  !> when the library no longer needs `user`. Both are bind(c) module procedures. Without `id` the
  !> task is detached.
  subroutine scheduler_submit(self, run, id, user, options, drop, stat, errmsg)
    class(sched_scheduler), intent(in) :: self
    procedure(sched_run_fn) :: run
    integer(i8), intent(out), optional, target :: id
    type(c_ptr), intent(in), optional :: user
    type(sched_task_options), intent(in), optional :: options
    procedure(sched_drop_fn), optional :: drop
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(sched_task_desc_t), target :: task
    character(kind=c_char), allocatable, target :: label(:)
    integer(i8), allocatable, target :: after(:)
    character(len=:), allocatable :: fault
    if (present(id)) id = 0
    call describe(options, task, label, after, fault)
    task%run = c_funloc(run)
    if (present(user)) task%user = user
    if (present(drop)) task%drop = c_funloc(drop)
    if (len(fault) > 0 .and. present(drop)) call drop(task%user)
    if (refused(fault, stat, errmsg)) return
    if (present(id)) then
      call conclude(sched_submit(self%handle, c_loc(task), c_loc(id)), stat, errmsg)
    else
      task%flags = ior(task%flags, SCHED_TASK_DETACHED)
      call conclude(sched_submit(self%handle, c_loc(task), c_null_ptr), stat, errmsg)
    end if
  end subroutine

  !> Submits a task for each of `users`: all of them or, on any error, none.
  subroutine scheduler_submit_many(self, run, ids, users, options, drop, stat, errmsg)
    class(sched_scheduler), intent(in) :: self
    procedure(sched_run_fn) :: run
    type(c_ptr), intent(in) :: users(:)
    integer(i8), intent(out) :: ids(size(users))
    type(sched_task_options), intent(in), optional :: options
    procedure(sched_drop_fn), optional :: drop
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(sched_task_desc_t), allocatable, target :: tasks(:)
    integer(i8), allocatable, target :: list(:)
    character(kind=c_char), allocatable, target :: label(:)
    integer(i8), allocatable, target :: after(:)
    character(len=:), allocatable :: fault
    integer(c_int32_t) :: status
    integer :: i
    ids = 0
    allocate (tasks(max(1, size(users))))
    allocate (list(max(1, size(users))), source=0_i8)
    call describe(options, tasks(1), label, after, fault)
    do i = 1, size(users)
      if (len(fault) > 0 .and. present(drop)) call drop(users(i))
    end do
    if (refused(fault, stat, errmsg)) return
    tasks(1)%run = c_funloc(run)
    if (present(drop)) tasks(1)%drop = c_funloc(drop)
    tasks(2:) = tasks(1)
    do i = 1, size(users)
      tasks(i)%user = users(i)
    end do
    status = sched_submit_many(self%handle, c_loc(tasks), size(users, kind=c_size_t), c_loc(list))
    ids = list(:size(users))
    call conclude(status, stat, errmsg)
  end subroutine

  !> Submits a parallel loop over the numbers from `begin` up to but not including `end`. Several
  !> threads call `run(exec, begin, end, user)` for chunks, whose `end` is not included either, until
  !> each number is in one successful call. `run` and `drop` are bind(c) module procedures. `grain`:
  !> largest number of elements of a call; 0: tuned automatically. The range is one task. The
  !> options `work`, `retries`, `task_class` and `idempotent` do not apply; `device_bytes` is that
  !> of one element, `deadline_ns` that of the whole range.
  subroutine scheduler_submit_range(self, run, begin, end, id, grain, user, options, drop, stat, &
      errmsg)
    class(sched_scheduler), intent(in) :: self
    procedure(sched_range_fn) :: run
    integer(i8), intent(in) :: begin, end
    integer(i8), intent(out), target :: id
    integer(i8), intent(in), optional :: grain
    type(c_ptr), intent(in), optional :: user
    type(sched_task_options), intent(in), optional :: options
    procedure(sched_drop_fn), optional :: drop
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(sched_task_desc_t), target :: task
    type(sched_range_desc_t), target :: range
    character(kind=c_char), allocatable, target :: label(:)
    integer(i8), allocatable, target :: after(:)
    character(len=:), allocatable :: fault
    id = 0
    call describe(options, task, label, after, fault)
    if (present(grain)) range%grain = grain
    call require("begin", begin, fault)
    call require("end", end, fault)
    call require("grain", range%grain, fault)
    if (abs(task%work) > 0 .or. task%retries /= 0 .or. task%task_class /= 0) then
      fault = "work, retries or task_class is set; accepted: 0 for a range"
    end if
    if (present(user)) range%user = user
    if (len(fault) > 0 .and. present(drop)) call drop(range%user)
    if (refused(fault, stat, errmsg)) return
    range%size = c_sizeof(range)
    range%begin = begin
    range%end = end
    range%run = c_funloc(run)
    if (present(drop)) range%drop = c_funloc(drop)
    range%label = task%label
    range%device_bytes = task%device_bytes
    range%device_mask = task%device_mask
    range%backend_mask = task%backend_mask
    range%priority = task%priority
    range%flags = task%flags
    range%deadline_ns = task%deadline_ns
    range%after = task%after
    range%after_count = task%after_count
    call conclude(sched_submit_range(self%handle, c_loc(range), c_loc(id)), stat, errmsg)
  end subroutine

  !> Submits a range and waits for it. No chunk runs after this call, also if it fails: if the wait is
  !> refused (SCHED_E_DEADLOCK), it cancels the range and polls until that has ended. So
  !> options%deadline_ns must be 0: after a deadline a range may end before its chunks.
  subroutine scheduler_run_range(self, run, begin, end, grain, user, options, stat, errmsg)
    class(sched_scheduler), intent(in) :: self
    procedure(sched_range_fn) :: run
    integer(i8), intent(in) :: begin, end
    integer(i8), intent(in), optional :: grain
    type(c_ptr), intent(in), optional :: user
    type(sched_task_options), intent(in), optional :: options
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(i8) :: id
    type(sched_task_info_t) :: info
    integer :: status, ignored
    character(len=1000) :: message
    if (present(options)) then
      if (options%deadline_ns /= 0) then
        if (refused("deadline_ns is "//number_text(options%deadline_ns)//"; accepted: 0, because a "// &
          "chunk may run on after a deadline; use submit_range with drop", stat, errmsg)) return
      end if
    end if
    message = ""
    call self%submit_range(run, begin, end, id, grain, user, options, stat=status, errmsg=message)
    if (status == SCHED_OK) then
      call self%wait(id, stat=status, errmsg=message)
      if (status /= SCHED_OK) call self%cancel(id, stat=ignored)
      do while (status /= SCHED_OK)
        call self%task_info(id, info, stat=ignored)
        if (ignored /= SCHED_OK .or. info%state >= SCHED_STATE_DONE) exit
        ignored = c_usleep(1000_c_int)
      end do
      call self%release(id, stat=ignored)
    end if
    call report(status, trim(message), stat, errmsg)
  end subroutine

  !> Computes y(i) = f(x(i)) for all i, in parallel. `f` is a module procedure. As in `run_range`,
  !> options%deadline_ns must be 0.
  subroutine scheduler_map(self, f, x, y, grain, options, stat, errmsg)
    class(sched_scheduler), intent(in) :: self
    procedure(sched_map_fn) :: f
    real(dp), intent(in), contiguous, target :: x(:)
    real(dp), intent(out), contiguous, target :: y(:)
    integer(i8), intent(in), optional :: grain
    type(sched_task_options), intent(in), optional :: options
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(map_job), target :: job
    if (size(x) /= size(y)) then
      if (refused("y has the shape "//shape_text(shape(y, kind=i8))//"; accepted: "// &
        shape_text(shape(x, kind=i8))//", that of x", stat, errmsg)) return
    end if
    job%f => f
    job%x => x
    job%y => y
    call self%run_range(map_chunk, 0_i8, size(x, kind=i8), grain, c_loc(job), options, stat, &
      errmsg)
  end subroutine

  function map_chunk(exec, begin, end, user) bind(c) result(status)
    type(sched_exec_t), intent(in), target :: exec
    integer(c_int64_t), value :: begin
    integer(c_int64_t), value :: end
    type(c_ptr), value :: user
    integer(c_int32_t) :: status
    type(map_job), pointer :: job
    integer(i8) :: i
    call c_f_pointer(user, job)
    do i = begin + 1, end
      job%y(i) = job%f(job%x(i))
    end do
    status = SCHED_OK
    if (sched_exec_cancelled(exec) .and. end < size(job%x, kind=i8)) status = SCHED_CANCELLED
  end function

  !> Submits a shot. `record` (samples, traces) and `snapshots` (nz, nx, ny, snapshots) are lent to
  !> the library until the task has ended, and valid if `wait` returns 0. Declare both `target` and
  !> `asynchronous`, and do not use them until then, nor for another shot. If `wait` returns
  !> SCHED_E_DEADLINE (options%deadline_ns), the shot may hang and write to them later: keep them to
  !> the end of the program. Both must be contiguous and have the shape that `shot_size` reports;
  !> otherwise SCHED_E_ARGUMENT. Cells of the shot count from 1.
  subroutine scheduler_submit_shot(self, model, shot, record, id, snapshots, options, stat, errmsg)
    class(sched_scheduler), intent(in) :: self
    type(sched_fd_model), intent(in) :: model
    type(sched_fd_shot), intent(in) :: shot
    ! Not `contiguous`: the compiler would pass a temporary copy of a section, and free it before
    ! the shot writes to it.
    real(sp), intent(inout), target, asynchronous :: record(:, :)
    integer(i8), intent(out), target :: id
    real(sp), intent(inout), optional, target, asynchronous :: snapshots(:, :, :, :)
    type(sched_task_options), intent(in), optional :: options
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(sched_fd_shot_desc_t), target :: desc
    type(sched_task_desc_t), target :: task
    type(sched_fd_shot_size_t), target :: sizes
    type(sched_fd_cell_t), allocatable, target :: receivers(:)
    real(sp), allocatable, target :: samples(:)
    character(kind=c_char), allocatable, target :: label(:)
    integer(i8), allocatable, target :: after(:)
    character(len=:), allocatable :: fault
    integer(c_int32_t) :: status
    logical :: is_whole
    id = 0
    call describe_shot(model, shot, desc, receivers, samples, fault)
    if (refused(fault, stat, errmsg)) return
    call describe(options, task, label, after, fault)
    if (refused(fault, stat, errmsg)) return
    sizes%size = c_sizeof(sizes)
    status = sched_fd_shot_size(model%handle, c_loc(desc), c_loc(sizes))
    if (status /= SCHED_OK) then
      call conclude(status, stat, errmsg)
      return
    end if
    ! gfortran also checks the stride of a dimension of one element.
    is_whole = is_contiguous(record) .or. (size(record, 2) == 1 .and. is_contiguous(record(:, 1)))
    fault = misfit("record", shape(record, kind=i8), is_whole, [sizes%samples, sizes%traces], &
      "(samples, traces)")
    if (present(snapshots) .and. len(fault) == 0) then
      is_whole = is_contiguous(snapshots) .or. &
        (size(snapshots, 4) == 1 .and. is_contiguous(snapshots(:, :, :, 1)))
      fault = misfit("snapshots", shape(snapshots, kind=i8), is_whole, &
        [model%cells, sizes%snapshots], "(nz, nx, ny, snapshots)")
    end if
    if (refused(fault, stat, errmsg)) return
    if (size(record) > 0) desc%record = c_loc(record(1, 1))
    desc%record_len = size(record, kind=c_size_t)
    if (present(snapshots)) then
      if (size(snapshots) > 0) desc%snapshots = c_loc(snapshots(1, 1, 1, 1))
      desc%snapshots_len = size(snapshots, kind=c_size_t)
    end if
    status = sched_fd_submit(self%handle, model%handle, c_loc(desc), c_loc(task), c_loc(id))
    call conclude(status, stat, errmsg)
  end subroutine

  !> Waits until a task has ended, at most `timeout_ns`.
  subroutine scheduler_wait(self, id, timeout_ns, stat, errmsg)
    class(sched_scheduler), intent(in) :: self
    integer(i8), intent(in) :: id
    integer(i8), intent(in), optional :: timeout_ns
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(sched_wait(self%handle, id, timeout(timeout_ns)), stat, errmsg)
  end subroutine

  !> Waits until every task that was submitted before has ended, successfully or not.
  subroutine scheduler_wait_all(self, timeout_ns, stat, errmsg)
    class(sched_scheduler), intent(in) :: self
    integer(i8), intent(in), optional :: timeout_ns
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(sched_wait_all(self%handle, timeout(timeout_ns)), stat, errmsg)
  end subroutine

  !> Waits until one of `ids` has ended, successfully or not, and returns its position in `ids`,
  !> from 1; 0 after a timeout.
  subroutine scheduler_wait_any(self, ids, position, timeout_ns, stat, errmsg)
    class(sched_scheduler), intent(in) :: self
    integer(i8), intent(in) :: ids(:)
    integer, intent(out) :: position
    integer(i8), intent(in), optional :: timeout_ns
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(i8), allocatable, target :: list(:)
    integer(c_size_t), target :: index
    integer(c_int32_t) :: status
    allocate (list(max(1, size(ids))), source=0_i8)
    list(:size(ids)) = ids
    index = 0
    status = sched_wait_any( &
      self%handle, c_loc(list), size(ids, kind=c_size_t), timeout(timeout_ns), c_loc(index))
    position = merge(int(index) + 1, 0, status == SCHED_OK)
    call conclude(status, stat, errmsg)
  end subroutine

  !> Waits until the next task with `ordered` has ended, successfully or not, in the order of
  !> submission. `id` is 0 after a timeout. `wait` then returns the outcome.
  subroutine scheduler_wait_next(self, id, timeout_ns, stat, errmsg)
    class(sched_scheduler), intent(in) :: self
    integer(i8), intent(out), target :: id
    integer(i8), intent(in), optional :: timeout_ns
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    id = 0
    call conclude(sched_wait_next(self%handle, timeout(timeout_ns), c_loc(id)), stat, errmsg)
  end subroutine

  !> Cancels a task. A queued task never starts; in a running one sched_exec_cancelled(exec) becomes
  !> true.
  subroutine scheduler_cancel(self, id, stat, errmsg)
    class(sched_scheduler), intent(in) :: self
    integer(i8), intent(in) :: id
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(sched_cancel(self%handle, id), stat, errmsg)
  end subroutine

  !> Releases a task: drops its outcome and makes its id stale.
  subroutine scheduler_release(self, id, stat, errmsg)
    class(sched_scheduler), intent(in) :: self
    integer(i8), intent(in) :: id
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(sched_release(self%handle, id), stat, errmsg)
  end subroutine

  !> Closes the scheduler to new tasks and waits until all tasks have ended.
  subroutine scheduler_drain(self, timeout_ns, stat, errmsg)
    class(sched_scheduler), intent(in) :: self
    integer(i8), intent(in), optional :: timeout_ns
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(sched_drain(self%handle, timeout(timeout_ns)), stat, errmsg)
  end subroutine

  !> Returns the state of a task. info%device counts from 0; -1: the task never started.
  subroutine scheduler_task_info(self, id, info, stat, errmsg)
    class(sched_scheduler), intent(in) :: self
    integer(i8), intent(in) :: id
    type(sched_task_info_t), intent(out), target :: info
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    info%size = c_sizeof(info)
    call conclude(sched_task_info(self%handle, id, c_loc(info)), stat, errmsg)
  end subroutine

  !> Returns the message of a failed task; an empty text if it has not failed.
  function scheduler_task_error(self, id, stat, errmsg) result(text)
    class(sched_scheduler), intent(in) :: self
    integer(i8), intent(in) :: id
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(len=:), allocatable :: text
    character(kind=c_char), allocatable, target :: buffer(:)
    type(sched_task_info_t), target :: info
    integer(c_size_t), target :: length
    integer(c_int32_t) :: status
    length = 0
    info%size = c_sizeof(info)
    status = sched_task_error(self%handle, id, c_null_ptr, 0_c_size_t, c_loc(length))
    allocate (buffer(length + 1))
    buffer = c_null_char
    if (status == SCHED_OK) status = &
      sched_task_error(self%handle, id, c_loc(buffer), size(buffer, kind=c_size_t), c_null_ptr)
    text = sched_text(buffer)
    if (status == SCHED_OK) status = sched_task_info(self%handle, id, c_loc(info))
    ! The message of a callback is its own.
    if (info%status /= SCHED_E_CALLBACK) text = sched_counted(text)
    call conclude(status, stat, errmsg)
  end function

  !> Returns the counts of tasks.
  subroutine scheduler_stats(self, stats, stat, errmsg)
    class(sched_scheduler), intent(in) :: self
    type(sched_stats_t), intent(out), target :: stats
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    stats%size = c_sizeof(stats)
    call conclude(sched_stats(self%handle, c_loc(stats)), stat, errmsg)
  end subroutine

  !> Returns the number of devices.
  subroutine scheduler_device_count(self, count, stat, errmsg)
    class(sched_scheduler), intent(in) :: self
    integer, intent(out) :: count
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int32_t), target :: found
    found = 0
    call conclude(sched_device_count(self%handle, c_loc(found)), stat, errmsg)
    count = int(found)
  end subroutine

  !> Returns the properties of a device, which is numbered from 0. Texts: sched_text(info%name).
  subroutine scheduler_device_info(self, device, info, stat, errmsg)
    class(sched_scheduler), intent(in) :: self
    integer, intent(in) :: device
    type(sched_device_info_t), intent(out), target :: info
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    if (refused(below("device", int(device, i8), 0_i8), stat, errmsg)) return
    info%size = c_sizeof(info)
    call conclude(sched_device_info(self%handle, int(device, c_int32_t), c_loc(info)), stat, errmsg)
  end subroutine

  !> Returns the counts and the busy time of a device, which is numbered from 0.
  subroutine scheduler_device_stats(self, device, stats, stat, errmsg)
    class(sched_scheduler), intent(in) :: self
    integer, intent(in) :: device
    type(sched_device_stats_t), intent(out), target :: stats
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: status
    if (refused(below("device", int(device, i8), 0_i8), stat, errmsg)) return
    stats%size = c_sizeof(stats)
    status = sched_device_stats(self%handle, int(device, c_int32_t), c_loc(stats))
    call conclude(status, stat, errmsg)
  end subroutine

  !> Returns the progress.
  subroutine scheduler_progress(self, progress, stat, errmsg)
    class(sched_scheduler), intent(in) :: self
    type(sched_progress_t), intent(out), target :: progress
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    progress%size = c_sizeof(progress)
    call conclude(sched_progress(self%handle, c_loc(progress)), stat, errmsg)
  end subroutine

  !> Calls `call(progress, user)`, a bind(c) module procedure, every `interval_ns` (at least
  !> 1000000; 0: one second) on a thread of the library, never twice at once. It replaces the
  !> previous procedure; without `call` the calls end. `call` may use the scheduler but not destroy
  !> it. When this procedure or `destroy` has returned, the previous procedure is not running
  !> (unless it made this call itself) and is not called again.
  subroutine scheduler_on_progress(self, call, user, interval_ns, stat, errmsg)
    class(sched_scheduler), intent(in) :: self
    procedure(sched_progress_fn), optional :: call
    type(c_ptr), intent(in), optional :: user
    integer(i8), intent(in), optional :: interval_ns
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_funptr) :: code
    type(c_ptr) :: passed
    integer(i8) :: interval
    code = c_null_funptr
    passed = c_null_ptr
    interval = 0
    if (present(call)) code = c_funloc(call)
    if (present(user)) passed = user
    if (present(interval_ns)) interval = interval_ns
    if (refused(below("interval_ns", interval, 0_i8), stat, errmsg)) return
    call conclude(sched_progress_callback(self%handle, code, passed, interval), stat, errmsg)
  end subroutine

  !> Writes a trace of all attempts to a file (sched_trace_write). Needs `trace_events` in `create`.
  subroutine scheduler_write_trace(self, path, stat, errmsg)
    class(sched_scheduler), intent(in) :: self
    character(len=*), intent(in) :: path
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: name(:)
    allocate (name, source=c_string(path))
    call conclude(sched_trace_write(self%handle, c_loc(name)), stat, errmsg)
  end subroutine

  ! --- finite differences ---

  !> Creates a model. `vp_m_s` (nz, nx, ny) in m/s; `spacing_m`: metres between cells along x, y and
  !> z; `rho_kg_m3` in kg/m3, of the same shape (absent: 1000). All are copied. `storage_16_bit`
  !> stores coefficients in 16 bits (SCHED_FD_MODEL_STORAGE_16_BIT); `any_values` accepts values that
  !> look like km/s or g/cm3 (SCHED_FD_MODEL_ANY_VALUES); `density_at_cells` does not average the
  !> density (SCHED_FD_MODEL_DENSITY_AT_CELLS); `pml` makes the absorbing layer a PML with acoustic2
  !> and tti, too (SCHED_FD_MODEL_PML); tti then has the derivatives of the old kernels. `equation` is SCHED_FD_EQUATION_* (absent:
  !> acoustic1); `epsilon`, `delta`, `theta_rad` and `phi_rad` are its properties. Beside the
  !> velocity, an array of shape (1,1,1) is one value for all cells.
  subroutine model_create(self, vp_m_s, spacing_m, rho_kg_m3, storage_16_bit, any_values, stat, &
      errmsg, equation, epsilon, delta, theta_rad, phi_rad, density_at_cells, pml)
    class(sched_fd_model), intent(inout) :: self
    real(sp), intent(in), contiguous, target :: vp_m_s(:, :, :)
    real(sp), intent(in) :: spacing_m(3)
    real(sp), intent(in), contiguous, optional, target :: rho_kg_m3(:, :, :)
    logical, intent(in), optional :: storage_16_bit, any_values
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int32_t), intent(in), optional :: equation
    real(sp), intent(in), contiguous, optional, target :: epsilon(:, :, :), delta(:, :, :), &
      theta_rad(:, :, :), phi_rad(:, :, :)
    logical, intent(in), optional :: density_at_cells, pml
    type(sched_fd_model_desc_t), target :: desc
    type(c_ptr), target :: handle
    character(len=:), allocatable :: fault
    integer(c_int32_t) :: status
    integer :: ignored
    call self%destroy(stat=ignored)
    desc%size = c_sizeof(desc)
    desc%nz = size(vp_m_s, 1, kind=i8)
    desc%nx = size(vp_m_s, 2, kind=i8)
    desc%ny = size(vp_m_s, 3, kind=i8)
    desc%dx_m = spacing_m(1)
    desc%dy_m = spacing_m(2)
    desc%dz_m = spacing_m(3)
    if (size(vp_m_s) > 0) desc%vp_m_s = c_loc(vp_m_s(1, 1, 1))
    if (present(equation)) desc%equation = equation
    fault = ""
    call add(rho_kg_m3, "rho_kg_m3", SCHED_FD_PROPERTY_RHO, desc%rho_kg_m3)
    call add(epsilon, "epsilon", SCHED_FD_PROPERTY_EPSILON, desc%epsilon)
    call add(delta, "delta", SCHED_FD_PROPERTY_DELTA, desc%delta)
    call add(theta_rad, "theta_rad", SCHED_FD_PROPERTY_THETA, desc%theta_rad)
    call add(phi_rad, "phi_rad", SCHED_FD_PROPERTY_PHI, desc%phi_rad)
    if (fault /= "") then
      if (refused(fault, stat, errmsg)) return
    end if
    if (present(storage_16_bit)) then
      if (storage_16_bit) desc%flags = SCHED_FD_MODEL_STORAGE_16_BIT
    end if
    if (present(any_values)) then
      if (any_values) desc%flags = ior(desc%flags, SCHED_FD_MODEL_ANY_VALUES)
    end if
    if (present(density_at_cells)) then
      if (density_at_cells) desc%flags = ior(desc%flags, SCHED_FD_MODEL_DENSITY_AT_CELLS)
    end if
    if (present(pml)) then
      if (pml) desc%flags = ior(desc%flags, SCHED_FD_MODEL_PML)
    end if
    handle = c_null_ptr
    status = sched_fd_model_create(c_loc(desc), c_loc(handle))
    self%handle = handle
    if (status == SCHED_OK) self%cells = shape(vp_m_s, kind=i8)
    call conclude(status, stat, errmsg)
  contains
    subroutine add(values, name, bit, pointer)
      real(sp), intent(in), contiguous, optional, target :: values(:, :, :)
      character(len=*), intent(in) :: name
      integer(c_int32_t), intent(in) :: bit
      type(c_ptr), intent(inout) :: pointer
      if (.not. present(values)) return
      if (any(shape(values) /= shape(vp_m_s)) .and. any(shape(values) /= 1)) then
        if (fault == "") fault = name//" has the shape "//shape_text(shape(values, kind=i8))// &
          "; accepted: "//shape_text(shape(vp_m_s, kind=i8))//", that of vp_m_s, or (1,1,1)"
        return
      end if
      if (size(values) == 1) desc%constants = ior(desc%constants, bit)
      if (size(values) > 0) pointer = c_loc(values(1, 1, 1))
    end subroutine
  end subroutine

  !> Destroys the model. Submitted shots keep what they need.
  subroutine model_destroy(self, stat, errmsg)
    class(sched_fd_model), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: status
    status = sched_fd_model_destroy(self%handle)
    self%handle = c_null_ptr
    self%cells = 0
    call conclude(status, stat, errmsg)
  end subroutine

  impure elemental subroutine model_final(self)
    type(sched_fd_model), intent(inout) :: self
    integer :: ignored
    call self%destroy(stat=ignored)
  end subroutine

  !> Returns the largest stable time step in seconds (sched_fd_dt_max).
  subroutine model_dt_max(self, dt_s, stat, errmsg)
    class(sched_fd_model), intent(in) :: self
    real(dp), intent(out), target :: dt_s
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    dt_s = 0
    call conclude(sched_fd_dt_max(self%handle, c_loc(dt_s)), stat, errmsg)
  end subroutine

  !> Returns the sizes of a shot's results, and the memory that it takes. Cells of the shot count
  !> from 1.
  subroutine model_shot_size(self, shot, size, stat, errmsg)
    class(sched_fd_model), intent(in) :: self
    type(sched_fd_shot), intent(in) :: shot
    type(sched_fd_shot_size_t), intent(out), target :: size
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(sched_fd_shot_desc_t), target :: desc
    type(sched_fd_cell_t), allocatable, target :: receivers(:)
    real(sp), allocatable, target :: samples(:)
    character(len=:), allocatable :: fault
    call describe_shot(self, shot, desc, receivers, samples, fault)
    if (refused(fault, stat, errmsg)) return
    size%size = c_sizeof(size)
    call conclude(sched_fd_shot_size(self%handle, c_loc(desc), c_loc(size)), stat, errmsg)
  end subroutine

  !> Returns the warnings of a shot in `text`, one per line; an empty text if there is none. Cells of
  !> the shot count from 1.
  subroutine model_shot_warnings(self, shot, text, stat, errmsg)
    class(sched_fd_model), intent(in) :: self
    type(sched_fd_shot), intent(in) :: shot
    character(len=:), allocatable, intent(out) :: text
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(sched_fd_shot_desc_t), target :: desc
    type(sched_fd_cell_t), allocatable, target :: receivers(:)
    real(sp), allocatable, target :: samples(:)
    character(kind=c_char), allocatable, target :: buffer(:)
    character(len=:), allocatable :: fault
    integer(c_size_t), target :: length
    integer(c_int32_t) :: status
    text = ""
    call describe_shot(self, shot, desc, receivers, samples, fault)
    if (refused(fault, stat, errmsg)) return
    length = 0
    status = sched_fd_shot_warnings(self%handle, c_loc(desc), c_null_ptr, 0_c_size_t, c_loc(length))
    allocate (buffer(length + 1))
    buffer = c_null_char
    if (status == SCHED_OK) status = &
      sched_fd_shot_warnings(self%handle, c_loc(desc), c_loc(buffer), length + 1, c_null_ptr)
    text = sched_counted(sched_text(buffer))
    call conclude(status, stat, errmsg)
  end subroutine

  !> Fills `samples` with a source wavelet of unit amplitude: one sample for each time step, the
  !> first for the time 0, of SCHED_FD_WAVELET_CUT_* for the time `dt_s`. `wavelet`:
  !> SCHED_FD_WAVELET_*.
  subroutine fd_wavelet(wavelet, frequency_hz, dt_s, samples, stat, errmsg)
    integer(c_int32_t), intent(in) :: wavelet
    real(sp), intent(in) :: frequency_hz, dt_s
    real(sp), intent(out), contiguous, target :: samples(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr) :: first
    integer(c_size_t) :: nt
    first = c_null_ptr
    nt = size(samples, kind=c_size_t)
    if (nt > 0) first = c_loc(samples(1))
    call conclude(c_fd_wavelet(wavelet, frequency_hz, dt_s, first, nt), stat, errmsg)
  end subroutine

  ! --- for callbacks ---

  !> Returns true if the task was asked to stop. A long callback should call this regularly, and
  !> return SCHED_CANCELLED soon after.
  logical function exec_cancelled(exec)
    type(sched_exec_t), intent(in), target :: exec
    exec_cancelled = c_exec_cancelled(c_loc(exec)) /= 0
  end function

  !> Reports the fraction of the task that is done, from 0 to 1.
  subroutine exec_report(exec, fraction)
    type(sched_exec_t), intent(in), target :: exec
    real(dp), intent(in) :: fraction
    integer(c_int32_t) :: ignored
    ignored = c_exec_report(c_loc(exec), fraction)
  end subroutine

  !> Commits this attempt. A callback calls this before it publishes its results. Returns false if
  !> another attempt or a cancel came first, or this attempt was given up after its deadline:
  !> discard the results and return SCHED_CANCELLED.
  logical function exec_commit(exec)
    type(sched_exec_t), intent(in), target :: exec
    exec_commit = c_exec_commit(c_loc(exec)) == SCHED_OK
  end function

  !> Says why the callback fails: `status = sched_exec_fail(exec, "no such trace")`, and return
  !> that. The message becomes that of the task's error.
  integer(c_int32_t) function exec_fail(exec, message)
    type(sched_exec_t), intent(in), target :: exec
    character(*), intent(in) :: message
    character(kind=c_char), allocatable, target :: text(:)
    allocate (text, source=c_string(message))
    exec_fail = c_exec_fail(c_loc(exec), c_loc(text))
  end function

  !> Allocates memory of the task's device, valid until the callback returns. On a GPU it is memory
  !> of the GPU, for work on exec%stream; on the CPU device, memory of the host. Returns c_null_ptr
  !> if the device does not have that much: the callback then returns `stat`, and the task is
  !> retried.
  type(c_ptr) function exec_memory(exec, bytes, stat)
    type(sched_exec_t), intent(in), target :: exec
    integer(i8), intent(in) :: bytes
    integer(c_int32_t), intent(out), optional :: stat
    integer(c_int32_t) :: status
    type(c_ptr), target :: memory
    memory = c_null_ptr
    if (bytes < 0) then
      status = exec_fail(exec, below("bytes", bytes, 0_i8))
    else
      status = c_exec_memory(c_loc(exec), bytes, c_loc(memory))
    end if
    exec_memory = memory
    if (present(stat)) stat = status
  end function

  ! --- library ---

  !> Returns the version of the library, such as "0.1.0".
  function library_version() result(text)
    character(len=:), allocatable :: text
    text = sched_text(c_version())
  end function

  !> Returns the name of a status, such as "SCHED_E_ARGUMENT".
  function status_name(status) result(text)
    integer, intent(in) :: status
    character(len=:), allocatable :: text
    text = sched_text(c_status_name(int(status, c_int32_t)))
  end function

  !> Sends the log of the whole process to `call(level, message, user)`, a bind(c) module procedure;
  !> sched_text(message) is the line. `max_level`: 1 error to 5 trace. Several threads may call it
  !> at the same time. Without `call` the log is off.
  subroutine log_callback(call, user, max_level, stat, errmsg)
    procedure(sched_log_fn), optional :: call
    type(c_ptr), intent(in), optional :: user
    integer, intent(in), optional :: max_level !< without it: 2, warnings
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_funptr) :: code
    type(c_ptr) :: passed
    integer(c_int32_t) :: level
    code = c_null_funptr
    passed = c_null_ptr
    level = 2
    if (present(call)) code = c_funloc(call)
    if (present(user)) passed = user
    if (present(max_level)) level = int(max_level, c_int32_t)
    call conclude(c_log_callback(code, passed, level), stat, errmsg)
  end subroutine

  !> Returns a message of the library. If it names cells or positions in lists, which count from 0
  !> in C, it says so first, because it may be cut at its end.
  function sched_counted(message) result(text)
    character(len=*), intent(in) :: message
    character(len=:), allocatable :: text
    text = message
    if (any([index(message, "["), index(message, "cell ("), index(message, "source ("), index(message, "(cell "), &
      index(message, "below cell "), index(message, " index of ")] > 0)) &
      text = "positions count from 0 here: "//message
  end function

  ! --- inside ---

  !> Reports the status of a C function.
  subroutine conclude(status, stat, errmsg)
    integer(c_int32_t), intent(in) :: status
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(len=:), allocatable :: message
    if (status < 0) then
      message = sched_text(sched_last_error())
      if (status /= SCHED_E_CALLBACK) message = sched_counted(message)
      call report(int(status), message, stat, errmsg)
    else if (status == SCHED_CANCELLED) then
      call report(int(status), "the task was cancelled", stat, errmsg)
    else
      call report(int(status), "timed out", stat, errmsg)
    end if
  end subroutine

  !> Reports an argument that this module refuses. Returns false if `fault` is empty.
  logical function refused(fault, stat, errmsg)
    character(len=*), intent(in) :: fault
    integer, intent(inout), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    refused = len(fault) > 0
    if (refused) call report(int(SCHED_E_ARGUMENT), fault, stat, errmsg)
  end function

  !> Sets the caller's `stat` and `errmsg`; without `stat` a failure ends the program.
  subroutine report(status, message, stat, errmsg)
    integer, intent(in) :: status
    character(len=*), intent(in) :: message
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    if (present(stat)) stat = status
    if (status == SCHED_OK) return
    if (present(errmsg)) errmsg = message
    if (present(stat)) return
    write (error_unit, "(5a)") "gpusched: ", message, " (", sched_status_name(status), ")"
    flush (error_unit)
    ! `error stop` prints a backtrace.
    call c_exit(1_c_int)
  end subroutine

  !> Returns why a shot can't write to the array `name`; empty if it can.
  function misfit(name, found, is_whole, wanted, dimensions) result(text)
    character(len=*), intent(in) :: name, dimensions
    integer(i8), intent(in) :: found(:), wanted(:)
    logical, intent(in) :: is_whole
    character(len=:), allocatable :: text
    if (any(found /= wanted)) then
      text = name//" has the shape "//shape_text(found)//"; accepted: "//shape_text(wanted)// &
        ", which is "//dimensions
    else if (.not. is_whole) then
      text = name//" is not contiguous; accepted: an array without gaps, because the shot "// &
        "writes to it after the call"
    else
      text = ""
    end if
  end function

  !> Returns a number as a text.
  function number_text(number) result(text)
    integer(i8), intent(in) :: number
    character(len=:), allocatable :: text
    character(len=20) :: buffer
    write (buffer, "(i0)") number
    text = trim(buffer)
  end function

  !> Returns extents as a text, such as "(5, 64)".
  function shape_text(extents) result(text)
    integer(i8), intent(in) :: extents(:)
    character(len=:), allocatable :: text
    character(len=100) :: buffer
    write (buffer, "(a, *(i0, :, ', '))") "(", extents
    text = trim(buffer)//")"
  end function

  !> Translates the options of a task for the C ABI; `label` and `after` own the memory. `fault`:
  !> why an option is refused, or empty.
  subroutine describe(options, task, label, after, fault)
    type(sched_task_options), intent(in), optional :: options
    type(sched_task_desc_t), intent(inout) :: task
    character(kind=c_char), allocatable, target, intent(inout) :: label(:)
    integer(i8), allocatable, target, intent(inout) :: after(:)
    character(len=:), allocatable, intent(out) :: fault
    fault = ""
    task%size = c_sizeof(task)
    if (.not. present(options)) return
    call require("device_bytes", options%device_bytes, fault)
    call require("retries", int(options%retries, i8), fault)
    call require("task_class", int(options%task_class, i8), fault)
    if (allocated(options%label)) then
      label = c_string(options%label)
      task%label = c_loc(label)
    end if
    task%device_bytes = options%device_bytes
    task%work = options%work
    task%device_mask = options%device_mask
    task%backend_mask = options%backend_mask
    task%priority = options%priority
    task%retries = options%retries
    task%task_class = options%task_class
    task%deadline_ns = options%deadline_ns
    if (allocated(options%after)) then
      after = options%after
      if (size(after) > 0) task%after = c_loc(after)
      task%after_count = size(after, kind=c_size_t)
    end if
    if (options%idempotent) task%flags = ior(task%flags, SCHED_TASK_IDEMPOTENT)
    if (options%ordered) task%flags = ior(task%flags, SCHED_TASK_ORDERED)
  end subroutine

  !> Translates a shot for the C ABI, which counts cells from 0; `receivers` and `samples` own the
  !> memory. `fault`: why the model has no such cells; empty if it has them.
  subroutine describe_shot(model, shot, desc, receivers, samples, fault)
    type(sched_fd_model), intent(in) :: model
    type(sched_fd_shot), intent(in) :: shot
    type(sched_fd_shot_desc_t), intent(inout) :: desc
    type(sched_fd_cell_t), allocatable, target, intent(inout) :: receivers(:)
    real(sp), allocatable, target, intent(inout) :: samples(:)
    character(len=:), allocatable, intent(out) :: fault
    integer(i8) :: last(3), i, j
    fault = ""
    last = model%cells([2, 3, 1])
    ! The C function refuses a model that was not created.
    if (all(last == 0)) last = huge(last)
    do i = 1, 3
      call require_cell("source("//number_text(i)//")", shot%source(i), last(i), fault)
    end do
    if (.not. allocated(shot%receivers)) call require_cell("plane_iz", shot%plane_iz, last(3), fault)
    call require("nt", shot%nt, fault)
    call require("snapshot_every", shot%snapshot_every, fault)
    call require("plane_every_x", int(shot%plane_every_x, i8), fault)
    call require("plane_every_y", int(shot%plane_every_y, i8), fault)
    call require("record_every", int(shot%record_every, i8), fault)
    desc%size = c_sizeof(desc)
    desc%nt = shot%nt
    desc%dt_s = shot%dt_s
    desc%frequency_hz = shot%frequency_hz
    desc%wavelet = shot%wavelet
    desc%amplitude = shot%amplitude
    desc%source = sched_fd_cell_t(shot%source(1) - 1, shot%source(2) - 1, shot%source(3) - 1)
    desc%source_kind = shot%source_kind
    desc%plane_iz = shot%plane_iz - 1
    desc%plane_every_x = shot%plane_every_x
    desc%plane_every_y = shot%plane_every_y
    desc%record_every = shot%record_every
    desc%snapshot_every = shot%snapshot_every
    if (shot%mute_direct) desc%flags = SCHED_FD_SHOT_MUTE_DIRECT
    if (shot%exact_time) desc%flags = ior(desc%flags, SCHED_FD_SHOT_EXACT_TIME)
    if (shot%optimised_stencil) desc%flags = ior(desc%flags, SCHED_FD_SHOT_OPTIMISED_STENCIL)
    if (shot%anisotropic_source) desc%flags = ior(desc%flags, SCHED_FD_SHOT_ANISOTROPIC_SOURCE)
    if (allocated(shot%receivers)) then
      allocate (receivers(size(shot%receivers, 2)))
      if (size(shot%receivers, 1) /= 3 .or. size(receivers) == 0) then
        fault = "receivers has the shape "//shape_text(shape(shot%receivers, kind=i8))// &
          "; accepted: (3, count), which is ix, iy, iz of each; not allocated for a plane"
        return
      end if
      do i = 1, size(receivers)
        associate (at => shot%receivers(:, i))
          do j = 1, 3
            if (at(j) >= 1 .and. at(j) <= last(j)) cycle
            call require_cell("receivers("//number_text(j)//", "//number_text(i)//")", at(j), last(j), &
              fault)
            return
          end do
          receivers(i) = sched_fd_cell_t(at(1) - 1, at(2) - 1, at(3) - 1)
        end associate
      end do
      desc%receivers = c_loc(receivers)
      desc%receiver_count = size(receivers, kind=c_size_t)
    end if
    if (allocated(shot%wavelet_samples)) then
      samples = shot%wavelet_samples
      if (size(samples) == 0) then
        fault = "wavelet_samples has 0 samples; accepted: 1 to nt, or not allocated"
        return
      end if
      desc%wavelet_samples = c_loc(samples)
      desc%wavelet_len = size(samples, kind=c_size_t)
    end if
  end subroutine

  !> Sets `fault`, unless it is set, if a cell is not in 1 to `last`.
  subroutine require_cell(name, cell, last, fault)
    character(len=*), intent(in) :: name
    integer(i8), intent(in) :: cell, last
    character(len=:), allocatable, intent(inout) :: fault
    if (len(fault) > 0 .or. (cell >= 1 .and. cell <= last)) return
    fault = name//" is "//number_text(cell)//"; accepted: 1 to "//number_text(last)
  end subroutine

  !> Sets `fault`, unless it is set, if a number is negative.
  subroutine require(name, number, fault)
    character(len=*), intent(in) :: name
    integer(i8), intent(in) :: number
    character(len=:), allocatable, intent(inout) :: fault
    if (len(fault) == 0) fault = below(name, number, 0_i8)
  end subroutine

  !> Returns why a number less than `least` is refused; empty if it is not less. The C ABI has no
  !> negative numbers there.
  function below(name, number, least) result(text)
    character(len=*), intent(in) :: name
    integer(i8), intent(in) :: number, least
    character(len=:), allocatable :: text
    text = ""
    if (number < least) text = name//" is "//number_text(number)//"; accepted: "// &
      number_text(least)//" or more"
  end function

  !> Returns the timeout that an optional argument states.
  integer(i8) function timeout(given)
    integer(i8), intent(in), optional :: given
    timeout = SCHED_FOREVER
    if (present(given)) timeout = given
  end function

  !> Returns a text with a NUL at the end, without trailing blanks.
  function c_string(text) result(chars)
    character(len=*), intent(in) :: text
    character(kind=c_char), allocatable :: chars(:)
    integer :: i
    allocate (chars(len_trim(text) + 1))
    do i = 1, len_trim(text)
      chars(i) = text(i:i)
    end do
    chars(size(chars)) = c_null_char
  end function

  !> Returns the characters of an array, such as info%name, before the first NUL.
  function text_of(chars) result(text)
    character(kind=c_char), intent(in) :: chars(:)
    character(len=:), allocatable :: text
    integer :: i, length
    length = size(chars)
    do i = 1, size(chars)
      if (chars(i) == c_null_char) then
        length = i - 1
        exit
      end if
    end do
    allocate (character(len=length) :: text)
    do i = 1, length
      text(i:i) = chars(i)
    end do
  end function

  !> Returns the text at an address, such as a log message; empty for c_null_ptr.
  function text_at(address) result(text)
    type(c_ptr), intent(in) :: address
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: chars(:)
    text = ""
    if (.not. c_associated(address)) return
    call c_f_pointer(address, chars, [65536])
    text = text_of(chars)
  end function
end module gpusched
