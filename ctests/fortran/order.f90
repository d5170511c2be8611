! Many tasks at once, outcomes in the order of submission, tasks after tasks, cancelled tasks.
module order_tasks
  use, intrinsic :: iso_c_binding
  use gpusched
  implicit none
  type(sched_scheduler) :: sched
  logical, volatile :: over = .false., late = .false., is_inside = .false.
contains

  ! Increments its number; fails if that is negative.
  function adds(exec, user) bind(c) result(status)
    type(sched_exec_t), intent(in), target :: exec
    type(c_ptr), value :: user
    integer(c_int32_t) :: status
    integer, pointer :: number
    call c_f_pointer(user, number)
    if (.not. sched_exec_commit(exec)) error stop 3
    number = number + 1
    status = merge(1, 0, number < 0)
  end function

  ! Increments its number.
  subroutine counts(user) bind(c)
    type(c_ptr), value :: user
    integer, pointer :: number
    call c_f_pointer(user, number)
    number = number + 1
  end subroutine

  function until_cancelled(exec, user) bind(c) result(status)
    type(sched_exec_t), intent(in), target :: exec
    type(c_ptr), value :: user
    integer(c_int32_t) :: status
    do while (.not. sched_exec_cancelled(exec))
    end do
    status = merge(2, 1, c_associated(user))
  end function

  ! Waits for the task `user`. If the wait is refused, runs a range, whose wait is refused, too.
  function waits(exec, user) bind(c) result(status)
    type(sched_exec_t), intent(in), target :: exec
    type(c_ptr), value :: user
    integer(c_int32_t) :: status
    integer(sched_task_t), pointer :: gate
    integer :: stats(2)
    call c_f_pointer(user, gate)
    call sched%wait(gate, stat=status)
    if (status /= SCHED_E_DEADLOCK) return
    call sched%run_range(chunk, 0_c_int64_t, exec%task, stat=status)
    over = .true.
    call sched%cancel(gate)
    call sched%create(stat=stats(1))
    call sched%shared(stats(2))
    if (any(stats /= SCHED_E_DEADLOCK)) status = SCHED_OK
  end function

  ! Runs on after a deadline.
  function holds(exec, begin, end, user) bind(c) result(status)
    type(sched_exec_t), intent(in), target :: exec
    integer(c_int64_t), value :: begin, end
    type(c_ptr), value :: user
    integer(c_int32_t) :: status
    is_inside = .true.
    do while (.not. over .and. begin < end)
    end do
    is_inside = .false.
    status = merge(0, 1, exec%attempt == 1 .and. .not. c_associated(user))
  end function

  function half(x) result(y)
    real(c_double), intent(in) :: x
    real(c_double) :: y
    y = x / 2
  end function

  function chunk(exec, begin, end, user) bind(c) result(status)
    type(sched_exec_t), intent(in), target :: exec
    integer(c_int64_t), value :: begin, end
    type(c_ptr), value :: user
    integer(c_int32_t) :: status
    late = late .or. over
    status = merge(0, 1, exec%attempt == 1 .and. begin < end .and. .not. c_associated(user))
  end function
end module

program order
  use order_tasks
  use expectations
  implicit none
  type(sched_scheduler) :: copy
  type(sched_task_options) :: options
  integer, target :: numbers(4) = [10, 20, -30, 40]
  integer(c_int64_t) :: ids(4), next
  integer(c_int64_t), target :: gate
  type(sched_stats_t) :: stats
  real(c_double), target :: x(3) = [2, 4, 6], y(3) = 7
  integer :: i, stat
  character(len=300) :: message

  call sched%create(devices="cpu", slots=2)
  options%ordered = .true.
  options%task_class = 2
  options%deadline_ns = 60000000000_c_int64_t
  call sched%submit_many(adds, ids, [(c_loc(numbers(i)), i=1, 4)], options)
  do i = 1, 4
    call sched%wait_next(next)
    call expect(next == ids(i), "the order of submission")
  end do
  call expect(all(numbers == [11, 21, -29, 41]), "each ran once")
  call sched%wait_next(next, stat=stat, errmsg=message)
  call expect(stat == SCHED_E_ARGUMENT .and. index(message, "ordered tasks") > 0, "nothing is left")

  options = sched_task_options(after=[ids(1), ids(2)])
  call sched%submit(adds, next, c_loc(numbers(4)), options)
  call sched%wait(next)
  call expect(numbers(4) == 42, "after two that succeeded")
  options%after = ids
  call sched%submit(adds, next, c_loc(numbers(4)), options)
  call sched%wait(next, stat=stat)
  call expect(stat == SCHED_E_DEPENDENCY .and. numbers(4) == 42, "after one that failed")
  call sched%destroy()

  call sched%create(devices="cpu", slots=1)
  call sched%submit(until_cancelled, ids(1))
  call sched%submit(adds, ids(2), c_loc(numbers(4)))
  call sched%wait(ids(1), timeout_ns=0_c_int64_t, stat=stat)
  call expect(stat == SCHED_PENDING, "a wait ends with its time limit")
  call sched%cancel(ids(2))
  call sched%cancel(ids(1))
  do i = 1, 2
    call sched%wait(ids(i), stat=stat)
    call expect(stat == SCHED_CANCELLED, "a task is cancelled, whether it runs or not")
  end do
  call expect(numbers(4) == 42, "a queued task that is cancelled does not run")
  call sched%stats(stats)
  call expect(stats%submitted == 2 .and. stats%cancelled == 2, "cancelled tasks are counted")
  options = sched_task_options(retries=-1)
  call sched%submit(adds, next, c_loc(numbers(4)), options, counts, stat, message)
  call expect(message == "retries is -1; accepted: 0 or more", "negative retries")
  call expect(numbers(4) == 43 .and. next == 0, "a refused task is dropped once")
  call sched%release(ids(1))
  call sched%wait(ids(1), stat=stat)
  call expect(stat == SCHED_E_STALE, "a released task is unknown")
  call expect(sched%task_error(ids(1), stat) == "" .and. stat == SCHED_E_STALE, "so is its error")
  call sched%destroy()

  ! A chunk that does not return in time would run on after the call.
  call sched%create(devices="cpu", slots=1)
  options = sched_task_options(deadline_ns=50000000_c_int64_t)
  call sched%run_range(holds, 0_c_int64_t, 1_c_int64_t, options=options, stat=stat, errmsg=message)
  call expect(.not. is_inside, "no chunk runs after run_range with a deadline")
  call expect(stat == SCHED_E_ARGUMENT .and. index(message, "deadline_ns is 50000000; accepted: 0") == 1, &
    "a deadline of run_range: "//trim(message))
  call sched%map(half, x, y, options=options, stat=stat)
  call expect(stat == SCHED_E_ARGUMENT .and. all(abs(y - 7) <= 0), "a deadline of map")
  options%deadline_ns = 0
  call sched%map(half, x, y, options=options)
  call expect(all(abs(y - [1, 2, 3]) <= 0), "a map without a deadline")
  call sched%destroy()

  ! Only 64 tasks wait at a time: the last one is refused.
  call sched%create(devices="cpu", slots=2)
  options = sched_task_options(label="in turn")
  call sched%submit(until_cancelled, gate, options=options)
  do i = 1, 65
    call sched%submit(waits, next, c_loc(gate), options)
  end do
  call sched%wait(next, stat=stat)
  call sched%wait_all()
  call expect(stat == SCHED_E_CALLBACK .and. .not. late, "no chunk runs after run_range")
  copy = sched
  call sched%destroy()
  call copy%create("cpu", stat=stat)
  call expect(stat == SCHED_OK, "a variable whose scheduler is gone has another one")
end program
