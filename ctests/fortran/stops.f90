! Without `stat` a failure ends the program with its message and without a backtrace.
program stops
  use gpusched
  implicit none
  type(sched_scheduler) :: sched
  type(sched_fd_model) :: model
  real, target, asynchronous :: vp(8, 8, 8), record(1, 64)
  integer(sched_task_t) :: id
  vp = 2000.0
  call model%create(vp, spacing_m=[10.0, 10.0, 10.0])
  call sched%submit_shot(model, sched_fd_shot(dt_s=1e-3, frequency_hz=30.0), record, id)
  print "(a)", "not reached"
end program
