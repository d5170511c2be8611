! The survey of examples/c/survey.c: eight shots over two layers.
!
!     survey RECORD.bin
program survey
  use gpusched
  implicit none
  integer, parameter :: nx = 32, ny = 24, nz = 28, nt = 120, shots = 8, every = 2
  real, target, asynchronous, allocatable :: records(:, :, :)
  real, allocatable :: vp(:, :, :), rho(:, :, :)
  type(scheduler) :: sched
  type(fd_model) :: model
  type(fd_shot) :: shot
  type(sched_fd_shot_size_t) :: sizes
  integer(8) :: ids(shots)
  integer :: i, unit
  character(len=4096) :: path

  if (command_argument_count() /= 1) error stop "usage: survey RECORD.bin"
  call get_command_argument(1, path)

  allocate (vp(nz, nx, ny), rho(nz, nx, ny))
  vp(:14, :, :) = 1800.0
  vp(15:, :, :) = 2600.0
  rho(:14, :, :) = 2000.0
  rho(15:, :, :) = 2200.0
  call model%create(vp, spacing=[10.0, 10.0, 10.0], rho=rho)

  shot = fd_shot(nt=nt, dt_s=1e-3, frequency_hz=25.0, plane_iz=3, plane_every_x=every, plane_every_y=every)
  call model%shot_size(shot, sizes)
  allocate (records(sizes%samples, sizes%traces, shots))

  call sched%open()
  do i = 1, shots
    shot%source = [2 + 4 * (i - 1), ny / 2, 2]
    call sched%submit_shot(model, shot, records(:, :, i), ids(i))
  end do
  do i = 1, shots
    call sched%wait(ids(i))
  end do

  open (newunit=unit, file=trim(path), access="stream", form="unformatted", status="replace")
  write (unit) records
  close (unit)
  print "(i0, a, i0, a, i0, a)", shots, " shots of ", sizes%traces, " traces and ", sizes%samples, " samples"

  call sched%close()
  call model%close()
end program
