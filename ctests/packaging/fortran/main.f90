program consumer
  use gpusched
  implicit none
  print "(2a)", "gpusched ", sched_version()
end program
