! Progress, a trace, stored rates, devices, the log, the shared scheduler, and shutdown.
module observed_tasks
  use, intrinsic :: iso_c_binding
  use gpusched
  implicit none
  integer, volatile :: calls = 0, lines = 0, go = 0
contains

  ! Runs until `go` is set or the task is cancelled.
  function waits(exec, user) bind(c) result(status)
    type(sched_exec_t), intent(in), target :: exec
    type(c_ptr), value :: user
    integer(c_int32_t) :: status
    do while (.not. sched_exec_cancelled(exec))
      if (go /= 0) exit
    end do
    status = SCHED_OK
    if (c_associated(user)) status = sched_exec_fail(exec, "failed as asked")
  end function

  ! Runs until `go` is set, also if the task is cancelled.
  function hangs(exec, user) bind(c) result(status)
    type(sched_exec_t), intent(in), target :: exec
    type(c_ptr), value :: user
    integer(c_int32_t) :: status
    calls = calls + 1
    do while (go == 0)
    end do
    status = merge(SCHED_OK, SCHED_CANCELLED, exec%task /= 0 .and. .not. c_associated(user))
  end function

  ! Counts its calls in `calls` and in a number of the caller.
  subroutine listens(progress, user) bind(c)
    type(sched_progress_t), intent(in), target :: progress
    type(c_ptr), value :: user
    integer, pointer :: number
    call c_f_pointer(user, number)
    if (progress%failed == 0) number = number + 1
    calls = calls + 1
  end subroutine

  ! Counts warnings of failed tasks in `lines` and in a number of the caller.
  subroutine logs(level, message, user) bind(c)
    integer(c_int32_t), value :: level
    type(c_ptr), value :: message, user
    integer, pointer :: number
    call c_f_pointer(user, number)
    if (level /= 2 .or. index(sched_text(message), "failed as asked") == 0) return
    number = number + 1
    lines = lines + 1
  end subroutine
end module

program observability
  use observed_tasks
  use expectations
  implicit none
  type(sched_scheduler) :: sched, other
  type(sched_task_options) :: options
  type(sched_progress_t) :: progress
  type(sched_stats_t) :: stats
  type(sched_device_info_t) :: info
  type(sched_device_stats_t) :: device
  integer, target :: number = 0, logged = 0
  integer(sched_task_t) :: id
  integer(c_int64_t), parameter :: often = 1000000
  integer :: stat, before, count
  logical :: exists
  character(len=300) :: message, folder

  call get_command_argument(1, folder)
  call sched%create(devices="cpu", slots=1, trace_events=100, rates_path=trim(folder)//"/rates")
  call sched%on_progress(listens, c_loc(number), often)
  options%work = 2.5_c_double
  options%label = "observed"
  call sched%submit(waits, id, options=options)
  call until(3)
  call sched%progress(progress)
  call expect(progress%done == 0 .and. progress%running + progress%queued == 1, "one task")

  call sched%on_progress()
  before = calls
  call expect(number == before, "`user` is passed on")
  go = 1
  call sched%wait(id)
  call sched%progress(progress)
  call expect(progress%done == 1 .and. abs(progress%work_done - 2.5d0) < 1d-9, "work is done")
  call sched%stats(stats)
  call expect(stats%lower_bound_ns > 0 .and. stats%lower_bound_ns <= stats%makespan_ns, "a bound")
  call expect(calls == before, "no call after on_progress()")
  call sched%on_progress(listens, c_loc(number), often)
  call until(before + 1)

  call sched%device_count(count)
  call sched%device_info(0, info)
  call sched%device_stats(0, device)
  call expect(count == 1 .and. info%backend == SCHED_BACKEND_CPU, "the CPU is device 0")
  call expect(len(sched_text(info%name)) > 0, "a device has a name")
  call expect(device%done == 1 .and. device%slots == 1, "counts of a device")
  call sched%device_stats(1, device, stat=stat, errmsg=message)
  call expect(stat == SCHED_E_ARGUMENT .and. index(message, "1") > 0, "there is no device 1")
  call sched%device_info(-1, info, stat=stat, errmsg=message)
  call expect(message == "device is -1; accepted: 0 or more", "a negative device")
  call sched%on_progress(interval_ns=-often, stat=stat, errmsg=message)
  call expect(message == "interval_ns is -1000000; accepted: 0 or more", "a negative interval")
  call other%create(slots=-2, stat=stat, errmsg=message)
  call expect(message == "slots is -2; accepted: -1 or more", "negative slots")

  call sched_log_callback(logs, c_loc(logged), 2)
  call sched%submit(waits, id, user=c_loc(number))
  call sched%wait(id, stat=stat)
  call expect(stat == SCHED_E_CALLBACK .and. lines == 1 .and. logged == 1, "a warning is logged")
  call sched_log_callback()
  call sched%submit(waits, id, user=c_loc(number))
  call sched%wait(id, stat=stat)
  call expect(lines == 1, "no line after sched_log_callback()")

  call sched%write_trace(trim(folder)//"/trace.json")
  call holds("trace.json", '"name":"observed"')
  call sched%destroy()
  call holds("rates", "gpusched rates")

  call sched%create(devices="cpu", slots=SCHED_SLOTS_AUTO, trace_events=0)
  call sched%write_trace(trim(folder)//"/none.json", stat=stat, errmsg=message)
  call expect(stat == SCHED_E_ARGUMENT .and. index(message, "trace_events") > 0, "no trace")
  inquire (file=trim(folder)//"/none.json", exist=exists)
  call expect(.not. exists, "no file")
  go = 0
  calls = 0
  call sched%submit(hangs, id)
  call until(1)
  call sched%shutdown(often, stat=stat, errmsg=message)
  call expect(stat == SCHED_PENDING .and. message == "timed out", "a task hangs")
  call sched%stats(stats)
  go = 1
  call sched%shutdown(SCHED_FOREVER)
  call sched%shared()
  call other%shared()
  call sched%submit(waits, id)
  call sched%wait(id)
  call sched%destroy()
  call other%stats(stats)
  call expect(stats%done == 1, "a handle of the shared scheduler keeps it")
  call other%destroy()
  call other%shared()
  call other%stats(stats)
  call expect(stats%done == 0, "the shared scheduler ends with its last handle")
  call other%destroy()

contains

  subroutine until(least)
    integer, intent(in) :: least
    integer(c_int64_t) :: begin, now, rate
    call system_clock(begin, rate)
    do while (calls < least)
      call system_clock(now)
      if (now - begin > 20 * rate) exit
    end do
    call expect(calls >= least, "calls arrive")
  end subroutine

  subroutine holds(name, text)
    character(len=*), intent(in) :: name, text
    character(len=4096) :: line
    integer :: unit, status
    logical :: found
    found = .false.
    open (newunit=unit, file=trim(folder)//"/"//name, status="old", action="read")
    do
      read (unit, "(a)", iostat=status) line
      if (status /= 0) exit
      found = found .or. index(line, text) > 0
    end do
    close (unit)
    call expect(found, name//" holds "//text)
  end subroutine
end program
