! Progress that is told while tasks run, a trace, and rates that are kept.
module seeing_tasks
  use, intrinsic :: iso_c_binding
  use gpusched
  implicit none
  integer, volatile :: calls = 0, go = 0
contains

  ! Runs until it may end.
  function waits(exec, user) bind(c) result(status)
    type(sched_exec_t), intent(in), target :: exec
    type(c_ptr), value :: user
    integer(c_int32_t) :: status
    do while (.not. exec_cancelled(exec))
      if (go /= 0) exit
    end do
    status = merge(0, 1, .not. c_associated(user))
  end function

  ! Counts in a number of the caller's that it is called, if what it is told is right.
  subroutine listens(progress, user) bind(c)
    type(sched_progress_t), intent(in), target :: progress
    type(c_ptr), value :: user
    integer, pointer :: number
    call c_f_pointer(user, number)
    if (progress%failed == 0) number = number + 1
    calls = calls + 1
  end subroutine
end module

program seeing
  use seeing_tasks
  use expectations
  implicit none
  type(scheduler) :: sched
  type(task_options) :: options
  type(sched_progress_t) :: progress
  type(sched_stats_t) :: stats
  integer, target :: number = 0
  integer(c_int64_t) :: id
  integer :: stat, before
  logical :: there
  character(len=300) :: message, folder

  call get_command_argument(1, folder)
  call sched%open(devices="cpu", slots=1, trace_events=100, rates_path=trim(folder)//"/rates", &
    progress=listens, progress_user=c_loc(number), progress_ns=1000000_c_int64_t)
  options%work = 2.5_c_double
  options%label = "seen"
  call sched%submit(waits, id, options=options)
  call come(3)
  call sched%progress(progress)
  call expect(progress%done == 0 .and. progress%running + progress%queued == 1, "one is there")

  call sched%on_progress()
  before = calls
  call expect(number == before, "its own number was handed to it")
  go = 1
  call sched%wait(id)
  call sched%progress(progress)
  call expect(progress%done == 1 .and. abs(progress%work_done - 2.5_c_double) < 1e-9_c_double, "its work is done")
  call sched%stats(stats)
  call expect(stats%lower_bound_ns > 0 .and. stats%lower_bound_ns <= stats%makespan_ns, "a bound")
  call expect(calls == before, "nothing is called any more")
  call sched%on_progress(listens, c_loc(number), 1000000_c_int64_t)
  call come(before + 1)

  call sched%on_progress(listens, c_loc(number), 5_c_int64_t, stat=stat, errmsg=message)
  call expect(stat == SCHED_E_ARGUMENT .and. index(message, "interval_ns is 5") == 1, "too often")
  call sched%write_trace(trim(folder)//"/trace.json")
  call holds("trace.json", '"name":"seen"')
  call sched%write_trace(trim(folder)//"/no/such/folder", stat=stat)
  call expect(stat == SCHED_E_IO, "a folder that is not there")
  call sched%close()
  call holds("rates", "gpusched rates")

  call sched%open(devices="cpu", progress=listens, progress_user=c_loc(number), progress_ns=5_c_int64_t, &
    stat=stat, errmsg=message)
  call expect(stat == SCHED_E_ARGUMENT .and. index(message, "interval_ns is 5") == 1, "too often from the start")
  call sched%open(devices="cpu", trace_events=0)
  call sched%write_trace(trim(folder)//"/none.json", stat=stat, errmsg=message)
  call expect(stat == SCHED_E_ARGUMENT .and. index(message, "trace_events") > 0, "no trace was asked for")
  inquire (file=trim(folder)//"/none.json", exist=there)
  call expect(.not. there, "no file then")
  call sched%close()

contains

  subroutine come(count)
    integer, intent(in) :: count
    integer(c_int64_t) :: begin, now, rate
    call system_clock(begin, rate)
    do while (calls < count)
      call system_clock(now)
      if (now - begin > 20 * rate) exit
    end do
    call expect(calls >= count, "progress is told")
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
