! Every equation with its properties: each has its effect on the record, which FORTRAN 77 gets, too.
program equations
  use, intrinsic :: iso_c_binding
  use gpusched
  use expectations
  implicit none
  type(sched_scheduler) :: sched
  type(sched_fd_model) :: model
  real, target :: vp(7, 20, 8), delta(7, 20, 8), theta(7, 20, 8), one(1, 1, 1)
  real, target, asynchronous :: record(12, 160), kept(12, 160)
  real :: before(12, 160)
  integer(c_int64_t) :: s77, model77
  integer(sched_task_t) :: id77
  integer :: status
  character(len=200) :: message

  call sched%create(devices="cpu", slots=1)
  call sched77_create("cpu", 1, s77, status, message)
  vp = 2000.0
  delta = 0.1
  delta(:3, :, :) = 0.05
  theta = 0.4
  theta(:, 4:, :) = 0.2
  before = 0.0
  one = 0.2
  call check(.false., SCHED_FD_EQUATION_ACOUSTIC2)
  call shot77(1, 0, 0, 0.0)
  call check(.false., SCHED_FD_EQUATION_ACOUSTIC2, pml=.true.)
  call shot77(1, 8, 0, 0.0)
  call check(.true., SCHED_FD_EQUATION_VTI, one, delta)
  call shot77(2, 0, 6, 0.0)
  call check(.true., SCHED_FD_EQUATION_TTI, one, delta, theta)
  call shot77(3, 0, 36, 0.0)
  call check(.true., SCHED_FD_EQUATION_TTI, one, delta, theta, one)
  call shot77(3, 0, 36, 0.2)
  call model77_create(1, 0, 8, 0.0)
  call expect(message(:24) == "SCHED_E_ARGUMENT: delta ", "a refusal: "//message)
  ! The last cells of 20 are 15 cells from the source: no cell of 18 keeps its epsilon and delta.
  call model77_create(2, 0, 14, 0.0, 18)
  call expect(status == 0, message)
  call submit77(18, id77)
  call expect(index(message, "the grid is 18 x 8 x 7 cells, all nearer than 15 cells to the source (4, 4, 2)") > 0, message)
  call sched77_model_destroy(model77, status, message)
  call sched77_destroy(s77, status, message)
  call expect(status == 0, message)
  call model%destroy()
  call sched%destroy()
contains

  ! The record differs from the one before, and, if `anisotropic`, from that with
  ! `anisotropic_source`.
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

  subroutine model77_create(equation, flags, constants, phi_rad, nx)
    integer, intent(in) :: equation, flags, constants
    real, intent(in) :: phi_rad
    integer, intent(in), optional :: nx
    integer :: cells
    cells = 20
    if (present(nx)) cells = nx
    call sched77_model_of_equation(equation, flags, constants, cells, 8, 7, 10.0, 10.0, 10.0, vp, [1000.0], &
      one, delta, theta, [phi_rad], model77, status, message)
  end subroutine

  ! The record of the same shot of a model for FORTRAN 77 is that of the last `check`.
  subroutine shot77(equation, flags, constants, phi_rad)
    integer, intent(in) :: equation, flags, constants
    real, intent(in) :: phi_rad
    integer(sched_task_t) :: id
    call model77_create(equation, flags, constants, phi_rad)
    if (status == 0) call submit77(20, id)
    if (status == 0) call sched77_wait(s77, id, kept, status, message)
    if (status == 0) call sched77_model_destroy(model77, status, message)
    call expect(status == 0, message)
    call expect(all(abs(record - kept) <= 0.0), "the record of FORTRAN 77")
  end subroutine

  subroutine submit77(nx, id)
    integer, intent(in) :: nx
    integer(sched_task_t), intent(out) :: id
    integer :: ix, iy
    call sched77_shot(s77, model77, 12, 1e-3, 30.0, [5, 5, 3], 8*nx, &
      [(([ix, iy, 2], ix=1, nx), iy=1, 8)], 1, kept, size(kept), id, status, message)
  end subroutine
end program
