! One shot over a homogeneous medium.
program first
  use gpusched
  implicit none
  integer, parameter :: n = 40, nt = 200
  real, target, asynchronous :: vp(n, n, n), record(nt, n * n)
  type(scheduler) :: sched
  type(fd_model) :: model
  type(fd_shot) :: shot
  integer(8) :: id

  vp = 2000.0
  call model%create(vp, spacing=[10.0, 10.0, 10.0])
  shot = fd_shot(nt=nt, dt_s=1e-3, frequency_hz=20.0, source=[20, 20, 2], plane_iz=4)
  call sched%submit_shot(model, shot, record, id)
  call sched%wait(id)
  print "(a, es10.3)", "at the middle, after 0.1 s: ", record(101, 20 * n + 21)
  call model%close()
end program
