! Without `stat` a failure stops the program with its words, as allocate does.
program stops
  use gpusched
  implicit none
  type(scheduler) :: sched
  type(fd_model) :: model
  real, target, asynchronous :: vp(8, 8, 8), record(1, 64)
  integer(8) :: id
  vp = 2000.0
  call model%create(vp, spacing=[10.0, 10.0, 10.0])
  call sched%submit_shot(model, fd_shot(dt_s=1e-3, frequency_hz=30.0, source=[4, 4, 2]), record, id)
  print "(a)", "not reached"
end program
