! Every equation with its properties: each has its effect on the record.
program equations
  use, intrinsic :: iso_c_binding
  use gpusched
  use expectations
  implicit none
  type(sched_scheduler) :: sched
  type(sched_fd_model) :: model
  real, target :: vp(7, 9, 8), delta(7, 9, 8), theta(7, 9, 8), one(1, 1, 1)
  real, target, asynchronous :: record(12, 72), kept(12, 72)
  real :: before(12, 72)

  call sched%create(devices="cpu", slots=1)
  vp = 2000.0
  delta = 0.1
  delta(:3, :, :) = 0.05
  theta = 0.4
  theta(:, 4:, :) = 0.2
  before = 0.0
  one = 0.2
  call check(.false., SCHED_FD_EQUATION_ACOUSTIC2)
  call check(.false., SCHED_FD_EQUATION_ACOUSTIC2, pml=.true.)
  call check(.true., SCHED_FD_EQUATION_VTI, one, delta)
  call check(.true., SCHED_FD_EQUATION_TTI, one, delta, theta)
  call check(.true., SCHED_FD_EQUATION_TTI, one, delta, theta, one)
  call model%destroy()
  call sched%destroy()
contains

  ! The record differs from the one before, and, if `anisotropic`, from that with `anisotropic_source`.
  subroutine check(anisotropic, equation, epsilon, delta, theta_rad, phi_rad, pml)
    logical, intent(in) :: anisotropic
    logical, intent(in), optional :: pml
    integer(c_int32_t), intent(in) :: equation
    real, intent(in), contiguous, optional, target :: epsilon(:, :, :), delta(:, :, :), theta_rad(:, :, :), phi_rad(:, :, :)
    type(sched_fd_shot) :: shot
    integer(sched_task_t) :: id
    call model%create(vp, spacing_m=[10.0, 10.0, 10.0], equation=equation, epsilon=epsilon, delta=delta, &
      theta_rad=theta_rad, phi_rad=phi_rad, pml=pml)
    shot = sched_fd_shot(nt=12, dt_s=1e-3, frequency_hz=30.0, source=[5, 5, 3], plane_iz=2)
    call sched%submit_shot(model, shot, record, id)
    call sched%wait(id)
    shot%anisotropic_source = .true.
    call sched%submit_shot(model, shot, kept, id)
    call sched%wait(id)
    call expect(any(abs(record - kept) > 0.0) .eqv. anisotropic, "an anisotropic source")
    call expect(any(abs(record - before) > 0.0), "an effect")
    before = record
  end subroutine
end program
