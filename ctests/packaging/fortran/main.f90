program consumer
  use gpusched
  implicit none
  print "(2a)", "gpusched ", gpusched_version()
end program
