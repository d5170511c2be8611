! A scheduler and a model that are not destroyed end with their scope.
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
    type(sched_scheduler) :: sched
    type(sched_fd_model) :: model
    real, target, asynchronous :: vp(8, 8, 8), record(1, 64)
    integer(sched_task_t) :: id
    vp = 2000.0
    call sched%create(devices="cpu", cpu_threads=1)
    call model%create(vp, spacing_m=[10.0, 10.0, 10.0])
    call sched%submit_shot(model, sched_fd_shot(nt=1, dt_s=1e-3, frequency_hz=30.0), record, id)
    call sched%wait(id)
    if (threads() < 2) error stop "a scheduler has no thread"
    call check_few()
  end subroutine

  ! Twenty schedulers that still exist would have more threads.
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
