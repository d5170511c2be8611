! One shot over a homogeneous medium. Cells count from 1.
program first
  use gpusched
  implicit none
  integer, parameter :: n = 40, nt = 200
  real, target, asynchronous :: vp(n, n, n), record(nt, n * n)
  type(sched_scheduler) :: sched
  type(sched_fd_model) :: model
  type(sched_fd_shot) :: shot
  integer(sched_task_t) :: id

  vp = 2000.0
  call model%create(vp, spacing_m=[10.0, 10.0, 10.0])
  shot = sched_fd_shot(nt=nt, dt_s=1e-3, frequency_hz=20.0, source=[21, 21, 3], plane_iz=5)
  call sched%submit_shot(model, shot, record, id)
  call sched%wait(id)
  print "(a, es10.3)", "at the middle, after 0.1 s: ", record(101, 20 * n + 21)
  call model%destroy()
end program
