! A scheduler and a model that nobody closes end with the scope they live in.
program finalizer
  use gpusched
  implicit none
  integer :: i
  do i = 1, 20
    call forgetful()
  end do
  print "(a)", "ended"
contains
  subroutine forgetful()
    type(scheduler) :: sched
    type(fd_model) :: model
    real, target, asynchronous :: vp(8, 8, 8), record(1, 64)
    integer(8) :: id
    vp = 2000.0
    call sched%open(devices="cpu")
    call model%create(vp, spacing=[10.0, 10.0, 10.0])
    call sched%submit_shot(model, fd_shot(nt=1, dt_s=1e-3, frequency_hz=30.0, source=[4, 4, 2]), record, id)
    call sched%wait(id)
    if (threads() < 2) error stop "a scheduler has no thread"
    call check_few()
  end subroutine

  ! Twenty schedulers that were never ended would still have their threads.
  subroutine check_few()
    if (threads() > 16) error stop "schedulers are not ended when they go out of scope"
  end subroutine

  integer function threads()
    character(len=80) :: line
    integer :: unit, stat
    threads = 0
    open (newunit=unit, file="/proc/self/status", action="read")
    do
      read (unit, "(a)", iostat=stat) line
      if (stat /= 0) exit
      if (line(:8) == "Threads:") read (line(9:), *) threads
    end do
    close (unit)
  end function
end program
