! How the library behaves, line by line; the output has to be that of expected.txt.
module scenario_tasks
  use, intrinsic :: iso_c_binding
  use gpusched
  implicit none
contains

  function hello(exec, user) bind(c) result(status)
    type(sched_exec_t), intent(in), target :: exec
    type(c_ptr), value :: user
    integer(c_int32_t) :: status
    integer, pointer :: ran
    call c_f_pointer(user, ran)
    ran = ran + exec%attempt
    status = 0
  end function

  function fail(exec, user) bind(c) result(status)
    type(sched_exec_t), intent(in), target :: exec
    type(c_ptr), value :: user
    integer(c_int32_t) :: status
    status = -7
    if (exec%attempt > 1 .and. c_associated(user)) status = -8
  end function

  ! Works until it is asked to stop.
  function until_cancelled(exec, user) bind(c) result(status)
    type(sched_exec_t), intent(in), target :: exec
    type(c_ptr), value :: user
    integer(c_int32_t) :: status
    do while (.not. exec_cancelled(exec))
    end do
    status = 1
    if (c_associated(user)) status = 2
  end function
end module

program scenario
  use scenario_tasks
  implicit none
  type(scheduler) :: sched
  type(fd_model) :: model
  type(fd_shot) :: shot
  type(sched_stats_t) :: stats
  type(sched_fd_shot_size_t) :: sizes
  integer, target :: ran
  integer(c_int64_t) :: id, running, queued
  integer :: stat
  character(len=300) :: message
  real, target, asynchronous :: vp(8, 8, 8), record(5, 64)

  call sched%open(devices="cpu", slots=1, stat=stat)
  print "(2a)", "create: ", status_name(stat)

  ran = 0
  call sched%submit(hello, id, user=c_loc(ran))
  call sched%wait(id, stat=stat)
  print "(3a, i0)", "hello: ", status_name(stat), ", ran ", ran

  call sched%submit(fail, id)
  call sched%wait(id, stat=stat)
  print "(4a)", "fail: ", status_name(stat), ", ", sched%task_error(id)

  call sched%submit(until_cancelled, running)
  call sched%submit(hello, queued, user=c_loc(ran))
  call sched%wait(running, timeout_ns=0_c_int64_t, stat=stat)
  print "(2a)", "not yet: ", status_name(stat)
  call sched%cancel(queued)
  call sched%cancel(running)
  call sched%wait(running, stat=stat)
  write (*, "(2a)", advance="no") "cancel: ", status_name(stat)
  call sched%wait(queued, stat=stat)
  print "(3a, i0)", " ", status_name(stat), ", ran ", ran

  call sched%release(id)
  call sched%wait(id, stat=stat)
  print "(2a)", "stale: ", status_name(stat)

  call sched%stats(stats)
  print "(4(a, i0), a)", "stats: ", stats%submitted, " submitted, ", stats%done, " done, ", &
    stats%failed, " failed, ", stats%cancelled, " cancelled"

  vp = 2000.0
  call model%create(vp, spacing=[10.0, 10.0, 10.0], stat=stat)
  print "(2a)", "model: ", status_name(stat)
  shot = fd_shot(nt=10, dt_s=1e-3, frequency_hz=30.0, record_every=2, source=[4, 4, 2], plane_iz=1)
  call model%shot_size(shot, sizes)
  call sched%submit_shot(model, shot, record, id)
  call sched%wait(id, stat=stat)
  print "(3a, 2(i0, a))", "shot: ", status_name(stat), ", ", sizes%traces, " traces, ", sizes%samples, " samples"
  shot%source(3) = 8
  call sched%submit_shot(model, shot, record, id, stat=stat, errmsg=message)
  print "(2a)", "outside: ", status_name(stat)
  print "(a)", trim(message)

  call model%close()
  call sched%close(stat=stat)
  print "(2a)", "destroy: ", status_name(stat)
end program
