!> Fortran 2008 on top of the C ABI of gpusched.
!>
!> Compile this file with your own sources and link with -lgpusched; module files
!> belong to one compiler, so none are installed. It includes gpusched_c.inc, which
!> lies beside it.
!>
!> Errors: every procedure takes `stat` and `errmsg`, as `allocate` does. Without
!> `stat` a failure stops the program with its message. With it, `stat` is 0, or
!> SCHED_PENDING or SCHED_CANCELLED (positive), or a failure SCHED_E_* (negative), and
!> `errmsg` is set unless `stat` is 0.
!>
!> Cells are counted from 0, as everywhere in gpusched. Fields are (nz, nx, ny), z
!> fastest; a record is (sample, trace).
!>
!> Callbacks run in the floating-point mode (rounding, underflow, halting) that the thread had
!> when it submitted the task, labelled or not. Changes that a callback makes end with it.
!>
!> A `scheduler` or `fd_model` is not to be copied by assignment. Both are closed when
!> they go out of scope, but Fortran does not do this for variables of the main
!> program: say `call it%close()` there.
include "gpusched_c.inc"

module gpusched
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  use gpusched_c
  implicit none
  private

  public :: scheduler, fd_model, fd_shot, task_options
  public :: gpusched_version, status_name, exec_cancelled, exec_report, exec_commit, &
    exec_fail, exec_memory, wavelet_samples
  ! What callbacks and the procedures below speak of, from the C ABI.
  public :: sched_exec_t, sched_stats_t, sched_progress_t, sched_task_info_t, sched_fd_shot_size_t
  public :: sched_run_fn, sched_drop_fn, sched_range_fn, sched_progress_fn, map_fn
  public :: SCHED_OK, SCHED_PENDING, SCHED_CANCELLED
  public :: SCHED_E_ARGUMENT, SCHED_E_TOO_NEW, SCHED_E_STALE, SCHED_E_MEMORY, SCHED_E_NO_DEVICE
  public :: SCHED_E_IO, SCHED_E_CALLBACK, SCHED_E_PANIC, SCHED_E_DEADLOCK, SCHED_E_SHUTDOWN
  public :: SCHED_E_FORKED, SCHED_E_UNSTABLE, SCHED_E_DEVICE, SCHED_E_INTERNAL
  public :: SCHED_E_DEPENDENCY, SCHED_E_DEADLINE, SCHED_E_RESOURCES, SCHED_E_UNWOUND, &
    SCHED_E_DRIVER, SCHED_E_BUSY, SCHED_E_RESULT
  public :: SCHED_FOREVER, SCHED_BACKEND_CPU, SCHED_BACKEND_CUDA
  public :: SCHED_STATE_QUEUED, SCHED_STATE_RUNNING, SCHED_STATE_DONE
  public :: SCHED_STATE_FAILED, SCHED_STATE_CANCELLED
  public :: SCHED_FD_WAVELET_RICKER, SCHED_FD_WAVELET_GAUSSIAN_DERIVATIVE
  public :: SCHED_FD_WAVELET_GAUSSIAN, SCHED_FD_WAVELET_RICKER_INTEGRAL
  public :: SCHED_FD_WAVELET_RICKER_DOUBLE_INTEGRAL, SCHED_FD_WAVELET_RICKER_TRIPLE_INTEGRAL

  integer, parameter :: i8 = c_int64_t, sp = c_float, dp = c_double

  !> What the scheduler is told of a task. Zero is every default.
  type :: task_options
    character(len=:), allocatable :: label
    integer(i8) :: device_bytes = 0   !< device memory at its peak
    real(dp) :: work = 0              !< how much there is to do, in any unit; 0: unknown
    integer(i8) :: device_mask = 0    !< bit i: device i of the scheduler; 0: all
    integer(c_int32_t) :: backend_mask = 0  !< SCHED_BACKEND_*; 0: all
    integer(c_int32_t) :: priority = 0      !< higher runs earlier
    integer(c_int32_t) :: retries = 0       !< attempts after a failed one
    integer(c_int32_t) :: task_class = 0    !< tasks of a class are alike
    integer(i8) :: deadline_ns = 0          !< how long an attempt may take; 0: not told
    integer(i8), allocatable :: after(:)    !< ids of tasks that have to end well before
    logical :: idempotent = .false.         !< a copy may run elsewhere; see exec_commit
    logical :: ordered = .false.            !< wait_next hands it out
  end type

  !> Runs tasks. One that was never opened is the scheduler that the whole process shares.
  type :: scheduler
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: open => scheduler_open
    procedure :: close => scheduler_close
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
    procedure :: info => scheduler_info
    procedure :: stats => scheduler_stats
    procedure :: progress => scheduler_progress
    procedure :: on_progress => scheduler_on_progress
    procedure :: write_trace => scheduler_write_trace
    procedure :: task_error => scheduler_task_error
    final :: scheduler_final
  end type

  !> A medium: velocity in m/s and density in kg/m3 over a grid.
  type :: fd_model
    private
    type(c_ptr) :: handle = c_null_ptr
    integer(i8) :: cells(3) = 0  !< nz, nx, ny
  contains
    procedure :: create => model_create
    procedure :: close => model_close
    procedure :: dt_max => model_dt_max
    procedure :: shot_size => model_shot_size
    final :: model_final
  end type

  !> One shot: source, time axis, receivers. Without `receivers`: the plane at depth `plane_iz`.
  type :: fd_shot
    integer(i8) :: nt = 0
    real(sp) :: dt_s = 0
    real(sp) :: frequency_hz = 0
    integer(c_int32_t) :: wavelet = 0       !< SCHED_FD_WAVELET_*; 0: Ricker
    real(sp) :: amplitude = 0               !< 0: that of the old kernels
    integer(i8) :: source(3) = 0            !< ix, iy, iz
    integer(i8), allocatable :: receivers(:, :)  !< (3, count): ix, iy, iz of each
    integer(i8) :: plane_iz = 0
    integer(c_int32_t) :: plane_every_x = 0, plane_every_y = 0  !< 0: every cell
    integer(c_int32_t) :: record_every = 0  !< steps between samples; 0: 1
    integer(i8) :: snapshot_every = 0       !< steps between snapshots; 0: none
    logical :: mute_direct = .false.        !< leave out the direct wave, as the old kernels can
    logical :: exact_time = .false.         !< take the error of the steps in time out of the record
    logical :: optimised_stencil = .false.  !< derivatives for waves of 3.5 cells and more; dt at most 0.9634 of the largest
    real(sp), allocatable :: samples(:)     !< an own source function instead of a wavelet
  end type

  abstract interface
    !> What `map` computes of one number; called on several threads at the same time.
    function map_fn(x) result(y)
      import :: dp
      real(dp), intent(in) :: x
      real(dp) :: y
    end function
  end interface

  !> A map while it runs.
  type :: map_job
    procedure(map_fn), pointer, nopass :: f => null()
    real(dp), pointer, contiguous :: x(:) => null(), y(:) => null()
  end type

contains

  ! --- scheduler ---

  !> `progress(told, user)`, a bind(c) module procedure, is called as `on_progress` tells.
  subroutine scheduler_open(self, devices, slots, cpu_threads, trace_events, rates_path, progress, &
      progress_user, progress_ns, stat, errmsg, stack_bytes)
    class(scheduler), intent(inout) :: self
    character(len=*), intent(in), optional :: devices    !< as in GPUSCHED_DEVICES
    integer, intent(in), optional :: slots, cpu_threads
    integer, intent(in), optional :: trace_events        !< how many are kept for write_trace
    character(len=*), intent(in), optional :: rates_path !< keeps the devices' speeds between runs
    procedure(sched_progress_fn), optional :: progress
    type(c_ptr), intent(in), optional :: progress_user
    integer(i8), intent(in), optional :: progress_ns
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(i8), intent(in), optional :: stack_bytes     !< of each task, 1 MiB to 64 GiB; 0: 8 MiB
    type(sched_config_t), target :: config
    character(kind=c_char), allocatable, target :: list(:), rates(:)
    type(c_ptr), target :: made
    integer(c_int32_t) :: status, ignored
    call self%close()
    config%size = c_sizeof(config)
    if (present(devices)) then
      list = c_string(devices)
      config%devices = c_loc(list)
    end if
    if (present(slots)) config%slots = int(slots, c_int32_t)
    if (present(cpu_threads)) config%cpu_threads = int(cpu_threads, c_int32_t)
    if (present(trace_events)) config%trace_events = int(trace_events, c_int32_t)
    if (present(stack_bytes)) config%stack_bytes = stack_bytes
    if (present(rates_path)) then
      rates = c_string(rates_path)
      config%rates_path = c_loc(rates)
    end if
    made = c_null_ptr
    status = sched_create(c_loc(config), c_loc(made))
    if (status == SCHED_OK .and. present(progress)) then
      status = told_to(made, progress, progress_user, progress_ns)
      if (status /= SCHED_OK) then
        ignored = sched_destroy(made)
        made = c_null_ptr
      end if
    end if
    self%handle = made
    call conclude(status, stat, errmsg)
  end subroutine

  !> Cancels what has not run, asks what runs to stop, and waits for it.
  subroutine scheduler_close(self, stat, errmsg)
    class(scheduler), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: status
    status = sched_destroy(self%handle)
    if (status >= 0) self%handle = c_null_ptr
    call conclude(status, stat, errmsg)
  end subroutine

  impure elemental subroutine scheduler_final(self)
    type(scheduler), intent(inout) :: self
    integer :: ignored
    call self%close(stat=ignored)
  end subroutine

  !> Has `run(exec, user)` called on a thread of the scheduler. `run` and `drop` are bind(c)
  !> module procedures. `user` is what they are given; `drop(user)` is called once when it
  !> is needed no more. Without `id` nobody asks for the outcome.
  subroutine scheduler_submit(self, run, id, user, options, drop, stat, errmsg)
    class(scheduler), intent(in) :: self
    procedure(sched_run_fn) :: run
    integer(i8), intent(out), optional, target :: id
    type(c_ptr), intent(in), optional :: user
    type(task_options), intent(in), optional :: options
    procedure(sched_drop_fn), optional :: drop
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(sched_task_desc_t), target :: task
    character(kind=c_char), allocatable, target :: label(:)
    integer(i8), allocatable, target :: after(:)
    call describe(options, task, label, after)
    task%run = c_funloc(run)
    if (present(user)) task%user = user
    if (present(drop)) task%drop = c_funloc(drop)
    if (present(id)) then
      id = 0
      call conclude(sched_submit(self%handle, c_loc(task), c_loc(id)), stat, errmsg)
    else
      task%flags = ior(task%flags, SCHED_TASK_DETACHED)
      call conclude(sched_submit(self%handle, c_loc(task), c_null_ptr), stat, errmsg)
    end if
  end subroutine

  !> As `submit`, once for each of `users`: all of them or, on any error, none.
  subroutine scheduler_submit_many(self, run, ids, users, options, drop, stat, errmsg)
    class(scheduler), intent(in) :: self
    procedure(sched_run_fn) :: run
    type(c_ptr), intent(in) :: users(:)
    integer(i8), intent(out) :: ids(size(users))
    type(task_options), intent(in), optional :: options
    procedure(sched_drop_fn), optional :: drop
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(sched_task_desc_t), allocatable, target :: tasks(:)
    integer(i8), allocatable, target :: list(:)
    character(kind=c_char), allocatable, target :: label(:)
    integer(i8), allocatable, target :: after(:)
    integer(c_int32_t) :: status
    integer :: i
    allocate (tasks(max(1, size(users))))
    allocate (list(max(1, size(users))), source=0_i8)
    call describe(options, tasks(1), label, after)
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

  !> Has `run(exec, begin, end, user)` called for pieces of begin to end (not included), each number in one
  !> piece, on all devices at the same time. `run` and `drop` are bind(c) module procedures. `grain`: the
  !> most numbers of a piece; without it, or 0, that is found by measuring. One task: `id` is waited for,
  !> cancelled, released like any other. Of the options `work`, `retries`, `task_class` and `idempotent`
  !> mean nothing here; `device_bytes` is of one number, `deadline_ns` of the whole range.
  subroutine scheduler_submit_range(self, run, begin, end, id, grain, user, options, drop, stat, errmsg)
    class(scheduler), intent(in) :: self
    procedure(sched_range_fn) :: run
    integer(i8), intent(in) :: begin, end
    integer(i8), intent(out), target :: id
    integer(i8), intent(in), optional :: grain
    type(c_ptr), intent(in), optional :: user
    type(task_options), intent(in), optional :: options
    procedure(sched_drop_fn), optional :: drop
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(sched_task_desc_t), target :: told
    type(sched_range_desc_t), target :: range
    character(kind=c_char), allocatable, target :: label(:)
    integer(i8), allocatable, target :: after(:)
    id = 0
    call describe(options, told, label, after)
    if (begin < 0 .or. end < 0) then
      call refuse("begin or end of a range is negative", stat, errmsg)
      return
    end if
    if (abs(told%work) > 0 .or. told%retries /= 0 .or. told%task_class /= 0) then
      call refuse("work, retries and task_class are no options of a range", stat, errmsg)
      return
    end if
    range%size = c_sizeof(range)
    range%begin = begin
    range%end = end
    if (present(grain)) range%grain = grain
    range%run = c_funloc(run)
    if (present(user)) range%user = user
    if (present(drop)) range%drop = c_funloc(drop)
    range%label = told%label
    range%device_bytes = told%device_bytes
    range%device_mask = told%device_mask
    range%backend_mask = told%backend_mask
    range%priority = told%priority
    range%flags = told%flags
    range%deadline_ns = told%deadline_ns
    range%after = told%after
    range%after_count = told%after_count
    call conclude(sched_submit_range(self%handle, c_loc(range), c_loc(id)), stat, errmsg)
  end subroutine

  !> `submit_range`, and waits until it has ended.
  subroutine scheduler_run_range(self, run, begin, end, grain, user, options, stat, errmsg)
    class(scheduler), intent(in) :: self
    procedure(sched_range_fn) :: run
    integer(i8), intent(in) :: begin, end
    integer(i8), intent(in), optional :: grain
    type(c_ptr), intent(in), optional :: user
    type(task_options), intent(in), optional :: options
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(i8) :: id
    integer :: status, ignored
    character(len=1000) :: words
    words = ""
    call self%submit_range(run, begin, end, id, grain, user, options, stat=status, errmsg=words)
    if (status == SCHED_OK) then
      call self%wait(id, stat=status, errmsg=words)
      call self%release(id, stat=ignored)
    end if
    if (present(stat)) stat = status
    if (status == SCHED_OK) return
    if (present(errmsg)) errmsg = words
    if (present(stat)) return
    write (error_unit, "(4a)") "gpusched: ", trim(words), " ", "("//status_name(status)//")"
    error stop 1
  end subroutine

  !> y(i) = f(x(i)) for all i, in parallel. `f` is a module procedure.
  subroutine scheduler_map(self, f, x, y, grain, options, stat, errmsg)
    class(scheduler), intent(in) :: self
    procedure(map_fn) :: f
    real(dp), intent(in), contiguous, target :: x(:)
    real(dp), intent(out), contiguous, target :: y(:)
    integer(i8), intent(in), optional :: grain
    type(task_options), intent(in), optional :: options
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(map_job), target :: job
    if (size(x) /= size(y)) then
      call refuse("the size of y differs from that of x", stat, errmsg)
      return
    end if
    job%f => f
    job%x => x
    job%y => y
    call self%run_range(map_piece, 0_i8, size(x, kind=i8), grain, c_loc(job), options, stat, errmsg)
  end subroutine

  function map_piece(exec, begin, end, user) bind(c) result(answer)
    type(sched_exec_t), intent(in), target :: exec
    integer(c_int64_t), value :: begin
    integer(c_int64_t), value :: end
    type(c_ptr), value :: user
    integer(c_int32_t) :: answer
    type(map_job), pointer :: job
    integer(i8) :: i
    call c_f_pointer(user, job)
    do i = begin + 1, end
      job%y(i) = job%f(job%x(i))
    end do
    answer = SCHED_OK
    if (exec_cancelled(exec) .and. end < size(job%x, kind=i8)) answer = SCHED_CANCELLED
  end function

  !> Submits a shot. `record` (samples, traces) and `snapshots` (nz, nx, ny, snapshots) are filled
  !> when `wait` returns 0 for `id`. Until then the library writes to them: give them the attributes
  !> `target` and `asynchronous`, and do not touch them. Both have to be contiguous and of the shape
  !> that `shot_size` reports; otherwise SCHED_E_ARGUMENT.
  subroutine scheduler_submit_shot(self, model, shot, record, id, snapshots, options, stat, errmsg)
    class(scheduler), intent(in) :: self
    type(fd_model), intent(in) :: model
    type(fd_shot), intent(in) :: shot
    ! Without the attribute `contiguous`, for which the compiler would pass a copy of a section. The
    ! copy would be gone when the shot is computed.
    real(sp), intent(inout), target, asynchronous :: record(:, :)
    integer(i8), intent(out), target :: id
    real(sp), intent(inout), optional, target, asynchronous :: snapshots(:, :, :, :)
    type(task_options), intent(in), optional :: options
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(sched_fd_shot_desc_t), target :: desc
    type(sched_task_desc_t), target :: task
    type(sched_fd_shot_size_t), target :: sizes
    type(sched_fd_cell_t), allocatable, target :: receivers(:)
    real(sp), allocatable, target :: samples(:)
    character(kind=c_char), allocatable, target :: label(:)
    integer(i8), allocatable, target :: after(:)
    character(len=:), allocatable :: wrong
    integer(c_int32_t) :: status
    id = 0
    call describe_shot(shot, desc, receivers, samples)
    call describe(options, task, label, after)
    sizes%size = c_sizeof(sizes)
    status = sched_fd_shot_size(model%handle, c_loc(desc), c_loc(sizes))
    if (status /= SCHED_OK) then
      call conclude(status, stat, errmsg)
      return
    end if
    wrong = misfit("record", shape(record, kind=i8), is_contiguous(record), &
      [sizes%samples, sizes%traces], "(samples, traces)")
    if (present(snapshots) .and. len(wrong) == 0) then
      wrong = misfit("snapshots", shape(snapshots, kind=i8), is_contiguous(snapshots), &
        [model%cells, sizes%snapshots], "(nz, nx, ny, snapshots)")
    end if
    if (len(wrong) > 0) then
      call refuse(wrong, stat, errmsg)
      return
    end if
    if (size(record) > 0) desc%record = c_loc(record(1, 1))
    desc%record_len = size(record, kind=c_size_t)
    if (present(snapshots)) then
      if (size(snapshots) > 0) desc%snapshots = c_loc(snapshots(1, 1, 1, 1))
      desc%snapshots_len = size(snapshots, kind=c_size_t)
    end if
    call conclude(sched_fd_submit(self%handle, model%handle, c_loc(desc), c_loc(task), c_loc(id)), stat, errmsg)
  end subroutine

  !> Waits for a task, at most `timeout_ns`.
  subroutine scheduler_wait(self, id, timeout_ns, stat, errmsg)
    class(scheduler), intent(in) :: self
    integer(i8), intent(in) :: id
    integer(i8), intent(in), optional :: timeout_ns
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(sched_wait(self%handle, id, timeout(timeout_ns)), stat, errmsg)
  end subroutine

  !> Waits until all tasks so far have ended, well or not.
  subroutine scheduler_wait_all(self, timeout_ns, stat, errmsg)
    class(scheduler), intent(in) :: self
    integer(i8), intent(in), optional :: timeout_ns
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(sched_wait_all(self%handle, timeout(timeout_ns)), stat, errmsg)
  end subroutine

  !> `position`: where in `ids` (from 1) there is a task that has ended, well or not.
  subroutine scheduler_wait_any(self, ids, position, timeout_ns, stat, errmsg)
    class(scheduler), intent(in) :: self
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

  !> The next task with `ordered` in its options, in the order of submission, once it has ended, well
  !> or not; its outcome is then told by `wait`. 0 when the time was up first.
  subroutine scheduler_wait_next(self, id, timeout_ns, stat, errmsg)
    class(scheduler), intent(in) :: self
    integer(i8), intent(out), target :: id
    integer(i8), intent(in), optional :: timeout_ns
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    id = 0
    call conclude(sched_wait_next(self%handle, timeout(timeout_ns), c_loc(id)), stat, errmsg)
  end subroutine

  !> A queued task never starts; a running one finds exec_cancelled(exec) true.
  subroutine scheduler_cancel(self, id, stat, errmsg)
    class(scheduler), intent(in) :: self
    integer(i8), intent(in) :: id
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(sched_cancel(self%handle, id), stat, errmsg)
  end subroutine

  !> Forgets a task: its id is unknown from here on.
  subroutine scheduler_release(self, id, stat, errmsg)
    class(scheduler), intent(in) :: self
    integer(i8), intent(in) :: id
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(sched_release(self%handle, id), stat, errmsg)
  end subroutine

  !> Takes no more tasks and waits until all have ended.
  subroutine scheduler_drain(self, timeout_ns, stat, errmsg)
    class(scheduler), intent(in) :: self
    integer(i8), intent(in), optional :: timeout_ns
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(sched_drain(self%handle, timeout(timeout_ns)), stat, errmsg)
  end subroutine

  subroutine scheduler_info(self, id, info, stat, errmsg)
    class(scheduler), intent(in) :: self
    integer(i8), intent(in) :: id
    type(sched_task_info_t), intent(out), target :: info
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    info%size = c_sizeof(info)
    call conclude(sched_task_info(self%handle, id, c_loc(info)), stat, errmsg)
  end subroutine

  subroutine scheduler_stats(self, stats, stat, errmsg)
    class(scheduler), intent(in) :: self
    type(sched_stats_t), intent(out), target :: stats
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    stats%size = c_sizeof(stats)
    call conclude(sched_stats(self%handle, c_loc(stats)), stat, errmsg)
  end subroutine

  !> How far the scheduler is.
  subroutine scheduler_progress(self, progress, stat, errmsg)
    class(scheduler), intent(in) :: self
    type(sched_progress_t), intent(out), target :: progress
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    progress%size = c_sizeof(progress)
    call conclude(sched_progress(self%handle, c_loc(progress)), stat, errmsg)
  end subroutine

  !> Has `call(progress, user)`, a bind(c) module procedure, called every `interval_ns` (at least 1000000;
  !> without it, a second) on a thread of the library, never twice at once, in place of what was set before;
  !> without `call`, nothing any more. It may use the scheduler, but not close it. When this, or `close`, has
  !> returned, what was set before is not running and does not come again, unless this was called from inside it.
  subroutine scheduler_on_progress(self, call, user, interval_ns, stat, errmsg)
    class(scheduler), intent(in) :: self
    procedure(sched_progress_fn), optional :: call
    type(c_ptr), intent(in), optional :: user
    integer(i8), intent(in), optional :: interval_ns
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(told_to(self%handle, call, user, interval_ns), stat, errmsg)
  end subroutine

  integer(c_int32_t) function told_to(handle, call, user, interval_ns) result(status)
    type(c_ptr), intent(in) :: handle
    procedure(sched_progress_fn), optional :: call
    type(c_ptr), intent(in), optional :: user
    integer(i8), intent(in), optional :: interval_ns
    type(c_funptr) :: code
    type(c_ptr) :: given
    integer(i8) :: every
    code = c_null_funptr
    given = c_null_ptr
    every = 0
    if (present(call)) code = c_funloc(call)
    if (present(user)) given = user
    if (present(interval_ns)) every = interval_ns
    status = sched_progress_callback(handle, code, given, every)
  end function

  !> Writes what ran where and when as a Chrome trace; needs `trace_events` in `open`.
  subroutine scheduler_write_trace(self, path, stat, errmsg)
    class(scheduler), intent(in) :: self
    character(len=*), intent(in) :: path
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: name(:)
    allocate (name, source=c_string(path))
    call conclude(sched_trace_write(self%handle, c_loc(name)), stat, errmsg)
  end subroutine

  !> Why a task failed; empty if it did not.
  function scheduler_task_error(self, id) result(text)
    class(scheduler), intent(in) :: self
    integer(i8), intent(in) :: id
    character(len=:), allocatable :: text
    character(kind=c_char), allocatable, target :: buffer(:)
    integer(c_size_t) :: length
    length = sched_task_error(self%handle, id, c_null_ptr, 0_c_size_t)
    allocate (buffer(length + 1))
    buffer = c_null_char
    length = sched_task_error(self%handle, id, c_loc(buffer), size(buffer, kind=c_size_t))
    text = f_string(buffer)
  end function

  ! --- finite differences ---

  !> `vp` (nz, nx, ny) in m/s, `spacing` (x, y, z) in m, `rho` in kg/m3 (without: 1000). Copied. With `sixteen_bit`, 1/rho and
  !> rho vp**2 are kept in 16 bits: shots take less memory, and speeds are off by at most 5e-4 of themselves.
  subroutine model_create(self, vp, spacing, rho, stat, errmsg, sixteen_bit)
    class(fd_model), intent(inout) :: self
    real(sp), intent(in), contiguous, target :: vp(:, :, :)
    real(sp), intent(in) :: spacing(3)
    real(sp), intent(in), contiguous, optional, target :: rho(:, :, :)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    logical, intent(in), optional :: sixteen_bit
    type(sched_fd_model_desc_t), target :: desc
    type(c_ptr), target :: made
    call self%close()
    desc%size = c_sizeof(desc)
    desc%nz = size(vp, 1, kind=i8)
    desc%nx = size(vp, 2, kind=i8)
    desc%ny = size(vp, 3, kind=i8)
    desc%dx_m = spacing(1)
    desc%dy_m = spacing(2)
    desc%dz_m = spacing(3)
    if (size(vp) > 0) desc%vp_m_s = c_loc(vp(1, 1, 1))
    if (present(rho)) then
      if (any(shape(rho) /= shape(vp))) then
        call refuse("the shape of rho differs from that of vp", stat, errmsg)
        return
      end if
      if (size(rho) > 0) desc%rho_kg_m3 = c_loc(rho(1, 1, 1))
    end if
    if (present(sixteen_bit)) then
      if (sixteen_bit) desc%flags = ior(desc%flags, SCHED_FD_MODEL_16_BIT)
    end if
    self%cells = shape(vp, kind=i8)
    made = c_null_ptr
    call conclude(sched_fd_model_create(c_loc(desc), c_loc(made)), stat, errmsg)
    self%handle = made
  end subroutine

  !> Shots in flight keep what they need of it.
  subroutine model_close(self)
    class(fd_model), intent(inout) :: self
    integer(c_int32_t) :: ignored
    if (c_associated(self%handle)) ignored = sched_fd_model_destroy(self%handle)
    self%handle = c_null_ptr
  end subroutine

  impure elemental subroutine model_final(self)
    type(fd_model), intent(inout) :: self
    call self%close()
  end subroutine

  !> The largest stable time step, in seconds; where density jumps from cell to cell, a shot may need less.
  subroutine model_dt_max(self, dt_s, stat, errmsg)
    class(fd_model), intent(in) :: self
    real(dp), intent(out), target :: dt_s
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    dt_s = 0
    call conclude(sched_fd_dt_max(self%handle, c_loc(dt_s)), stat, errmsg)
  end subroutine

  !> How large the record and the snapshots of a shot are.
  subroutine model_shot_size(self, shot, answer, stat, errmsg)
    class(fd_model), intent(in) :: self
    type(fd_shot), intent(in) :: shot
    type(sched_fd_shot_size_t), intent(out), target :: answer
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(sched_fd_shot_desc_t), target :: desc
    type(sched_fd_cell_t), allocatable, target :: receivers(:)
    real(sp), allocatable, target :: samples(:)
    call describe_shot(shot, desc, receivers, samples)
    answer%size = c_sizeof(answer)
    call conclude(sched_fd_shot_size(self%handle, c_loc(desc), c_loc(answer)), stat, errmsg)
  end subroutine

  !> A source function as the old kernels compute it, one sample a time step.
  subroutine wavelet_samples(shape, frequency_hz, dt_s, samples, stat, errmsg)
    integer(c_int32_t), intent(in) :: shape
    real(sp), intent(in) :: frequency_hz, dt_s
    real(sp), intent(out), contiguous, target :: samples(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr) :: first
    first = c_null_ptr
    if (size(samples) > 0) first = c_loc(samples(1))
    call conclude( &
      sched_fd_wavelet(shape, frequency_hz, dt_s, first, size(samples, kind=c_size_t)), stat, errmsg)
  end subroutine

  ! --- for callbacks ---

  !> Whether the running task was asked to stop; long callbacks look now and then.
  logical function exec_cancelled(exec)
    type(sched_exec_t), intent(in), target :: exec
    exec_cancelled = sched_exec_cancelled(c_loc(exec)) /= 0
  end function

  !> Tells how much of the running task is done, from 0 to 1.
  subroutine exec_report(exec, done)
    type(sched_exec_t), intent(in), target :: exec
    real(dp), intent(in) :: done
    integer(c_int32_t) :: ignored
    ignored = sched_exec_report(c_loc(exec), done)
  end subroutine

  !> Before a task puts its results where others see them: whether this attempt counts. If not, another
  !> copy or a cancel was first: discard them and return.
  logical function exec_commit(exec)
    type(sched_exec_t), intent(in), target :: exec
    exec_commit = sched_exec_commit(c_loc(exec)) == SCHED_OK
  end function

  !> Says why the callback fails; `answer = exec_fail(exec, "no such trace")` is what the callback then returns. The
  !> message becomes that of the task's error.
  integer(c_int32_t) function exec_fail(exec, message)
    type(sched_exec_t), intent(in), target :: exec
    character(*), intent(in) :: message
    character(kind=c_char), target :: text(len_trim(message) + 1)
    integer :: i
    do i = 1, len_trim(message)
      text(i) = message(i:i)
    end do
    text(size(text)) = c_null_char
    exec_fail = sched_exec_fail(c_loc(exec), c_loc(text))
  end function

  !> Returns the address of `bytes` bytes of the device's memory, valid until the callback returns. On a GPU it is
  !> memory of the GPU, which only work on exec%stream may touch; on the CPU device, memory of the host. Returns
  !> c_null_ptr if the device does not have that much (`stat` has the reason): the callback then returns `stat`,
  !> and the task is retried.
  type(c_ptr) function exec_memory(exec, bytes, stat)
    type(sched_exec_t), intent(in), target :: exec
    integer(i8), intent(in) :: bytes
    integer(c_int32_t), intent(out), optional :: stat
    integer(c_int32_t) :: status
    type(c_ptr), target :: memory
    memory = c_null_ptr
    status = sched_exec_memory(c_loc(exec), bytes, c_loc(memory))
    exec_memory = memory
    if (present(stat)) stat = status
  end function

  ! --- words ---

  function gpusched_version() result(text)
    character(len=:), allocatable :: text
    text = pointed_string(sched_version())
  end function

  !> The name of a status: "SCHED_E_ARGUMENT".
  function status_name(status) result(text)
    integer, intent(in) :: status
    character(len=:), allocatable :: text
    text = pointed_string(sched_status_name(int(status, c_int32_t)))
  end function

  ! --- inside ---

  !> Hands a status to the caller, or stops where the caller left no way to tell.
  subroutine conclude(status, stat, errmsg)
    integer(c_int32_t), intent(in) :: status
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(len=:), allocatable :: text
    if (present(stat)) stat = status
    if (status == SCHED_OK) return
    if (status < 0) then
      text = pointed_string(sched_last_error())
    else if (status == SCHED_CANCELLED) then
      text = "the task was cancelled"
    else
      text = "the time was up before the task ended"
    end if
    if (present(errmsg)) errmsg = text
    if (present(stat)) return
    write (error_unit, "(4a)") "gpusched: ", text, " ", "("//status_name(int(status))//")"
    error stop 1
  end subroutine

  !> Returns why a shot can't write to the array `name`; an empty text if it can.
  function misfit(name, found, is_whole, wanted, dimensions) result(text)
    character(len=*), intent(in) :: name, dimensions
    integer(i8), intent(in) :: found(:), wanted(:)
    logical, intent(in) :: is_whole
    character(len=:), allocatable :: text
    if (any(found /= wanted)) then
      text = name//" has the shape "//shape_text(found)//"; accepted: "//shape_text(wanted)// &
        ", which is "//dimensions
    else if (.not. is_whole) then
      text = name//" is not contiguous; accepted: an array without gaps, for the shot writes to it "// &
        "after the call"
    else
      text = ""
    end if
  end function

  !> Such as "(5, 64)".
  function shape_text(extents) result(text)
    integer(i8), intent(in) :: extents(:)
    character(len=:), allocatable :: text
    character(len=100) :: buffer
    write (buffer, "(a, *(i0, :, ', '))") "(", extents
    text = trim(buffer)//")"
  end function

  !> As `conclude`, for what is found wrong on this side of the C ABI.
  subroutine refuse(text, stat, errmsg)
    character(len=*), intent(in) :: text
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    if (present(errmsg)) errmsg = text
    if (present(stat)) then
      stat = SCHED_E_ARGUMENT
      return
    end if
    write (error_unit, "(2a)") "gpusched: ", text
    error stop 1
  end subroutine

  subroutine describe(options, task, label, after)
    type(task_options), intent(in), optional :: options
    type(sched_task_desc_t), intent(inout) :: task
    character(kind=c_char), allocatable, target, intent(inout) :: label(:)
    integer(i8), allocatable, target, intent(inout) :: after(:)
    task%size = c_sizeof(task)
    if (.not. present(options)) return
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

  subroutine describe_shot(shot, desc, receivers, samples)
    type(fd_shot), intent(in) :: shot
    type(sched_fd_shot_desc_t), intent(inout) :: desc
    type(sched_fd_cell_t), allocatable, target, intent(inout) :: receivers(:)
    real(sp), allocatable, target, intent(inout) :: samples(:)
    integer :: i
    desc%size = c_sizeof(desc)
    desc%nt = shot%nt
    desc%dt_s = shot%dt_s
    desc%frequency_hz = shot%frequency_hz
    desc%wavelet = shot%wavelet
    desc%amplitude = shot%amplitude
    desc%source = sched_fd_cell_t(shot%source(1), shot%source(2), shot%source(3))
    desc%plane_iz = shot%plane_iz
    desc%plane_every_x = shot%plane_every_x
    desc%plane_every_y = shot%plane_every_y
    desc%record_every = shot%record_every
    desc%snapshot_every = shot%snapshot_every
    if (shot%mute_direct) desc%flags = SCHED_FD_SHOT_MUTE_DIRECT
    if (shot%exact_time) desc%flags = ior(desc%flags, SCHED_FD_SHOT_EXACT_TIME)
    if (shot%optimised_stencil) desc%flags = ior(desc%flags, SCHED_FD_SHOT_OPTIMISED_STENCIL)
    if (allocated(shot%receivers)) then
      allocate (receivers(size(shot%receivers, 2)))
      do i = 1, size(receivers)
        receivers(i) = sched_fd_cell_t(shot%receivers(1, i), shot%receivers(2, i), shot%receivers(3, i))
      end do
      if (size(receivers) > 0) desc%receivers = c_loc(receivers)
      desc%receiver_count = size(receivers, kind=c_size_t)
    end if
    if (allocated(shot%samples)) then
      samples = shot%samples
      if (size(samples) > 0) desc%wavelet_samples = c_loc(samples)
      desc%wavelet_len = size(samples, kind=c_size_t)
    end if
  end subroutine

  integer(i8) function timeout(given)
    integer(i8), intent(in), optional :: given
    timeout = SCHED_FOREVER
    if (present(given)) timeout = given
  end function

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

  !> Up to the first null character.
  function f_string(chars) result(text)
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

  function pointed_string(address) result(text)
    type(c_ptr), intent(in) :: address
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: chars(:)
    integer, parameter :: longest = 65536
    text = ""
    if (.not. c_associated(address)) return
    call c_f_pointer(address, chars, [longest])
    text = f_string(chars)
  end function
end module gpusched
