! The survey of examples/c/survey.c: eight shots over two layers.
!
!     survey RECORD.bin
program survey
  use gpusched
  implicit none
  integer, parameter :: nx = 32, ny = 24, nz = 28, nt = 120, shots = 8, every = 2
  real, target, asynchronous, allocatable :: records(:, :, :)
  real, allocatable :: vp(:, :, :), rho(:, :, :)
  type(sched_scheduler) :: sched
  type(sched_fd_model) :: model
  type(sched_fd_shot) :: shot
  type(sched_fd_shot_size_t) :: sizes
  integer(sched_task_t) :: ids(shots)
  integer :: i, unit
  character(len=4096) :: path

  if (command_argument_count() /= 1) then
    print "(a)", "usage: survey RECORD.bin"
    stop 2
  end if
  call get_command_argument(1, path)

  allocate (vp(nz, nx, ny), rho(nz, nx, ny))
  vp(:14, :, :) = 1800.0
  vp(15:, :, :) = 2600.0
  rho(:14, :, :) = 2000.0
  rho(15:, :, :) = 2200.0
  call model%create(vp, spacing_m=[10.0, 10.0, 10.0], rho_kg_m3=rho)

  shot = sched_fd_shot(nt=nt, dt_s=1e-3, frequency_hz=20.0, plane_iz=4, plane_every_x=every, &
    plane_every_y=every)
  call model%shot_size(shot, sizes)
  allocate (records(sizes%samples, sizes%traces, shots))

  call sched%create()
  do i = 1, shots
    shot%source = [4 * i - 1, ny / 2 + 1, 3]
    call sched%submit_shot(model, shot, records(:, :, i), ids(i))
  end do
  do i = 1, shots
    call sched%wait(ids(i))
  end do

  open (newunit=unit, file=trim(path), access="stream", form="unformatted", status="replace")
  write (unit) records
  close (unit)
  print "(3(i0, a))", shots, " shots of ", sizes%traces, " traces and ", sizes%samples, " samples"

  call sched%destroy()
  call model%destroy()
end program
