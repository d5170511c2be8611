! Every equation with its properties: a shot gives the record of the same calls in C, bit for bit. Bad models are refused.
module calls_in_c
  use, intrinsic :: iso_c_binding
  use gpusched_c
  implicit none
  private
  public :: record_in_c
contains

  ! Computes the shot of program `equations` with the structs of gpusched.h. `properties(i)`: the address of epsilon,
  ! delta, theta or phi, or NULL.
  subroutine record_in_c(equation, constants, flags, vp, properties, record)
    integer, intent(in) :: equation, constants, flags
    real(c_float), intent(in), target :: vp(:, :, :)
    type(c_ptr), intent(in) :: properties(4)
    real(c_float), intent(out), target, asynchronous :: record(:, :)
    type(sched_config_t), target :: config
    type(sched_fd_model_desc_t), target :: medium
    type(sched_fd_shot_desc_t), target :: shot
    character(kind=c_char, len=4), target :: devices
    type(c_ptr), target :: scheduler, model
    integer(c_int64_t), target :: id
    integer(c_int32_t) :: status(6)
    devices = "cpu"//c_null_char
    config = sched_config_t(size=c_sizeof(config), devices=c_loc(devices))
    medium = sched_fd_model_desc_t(size=c_sizeof(medium), nz=size(vp, 1), nx=size(vp, 2), ny=size(vp, 3), dx_m=10.0, &
      dy_m=10.0, dz_m=10.0, vp_m_s=c_loc(vp(1, 1, 1)), equation=equation, constants=constants, epsilon=properties(1), &
      delta=properties(2), theta_rad=properties(3), phi_rad=properties(4))
    shot = sched_fd_shot_desc_t(size=c_sizeof(shot), dt_s=1e-3, frequency_hz=30.0, nt=size(record, 1), flags=flags, &
      source=sched_fd_cell_t(4, 4, 2), plane_iz=1, record=c_loc(record(1, 1)), record_len=size(record))
    status(1) = sched_create(c_loc(config), c_loc(scheduler))
    status(2) = sched_fd_model_create(c_loc(medium), c_loc(model))
    status(3) = sched_fd_submit(scheduler, model, c_loc(shot), c_null_ptr, c_loc(id))
    status(4) = sched_wait(scheduler, id, -1_c_int64_t)
    status(5) = sched_fd_model_destroy(model)
    status(6) = sched_destroy(scheduler)
    if (any(status /= 0)) record = -1.0
  end subroutine
end module

program equations
  use, intrinsic :: iso_c_binding
  use gpusched
  use expectations
  use calls_in_c
  implicit none
  type(sched_scheduler) :: sched
  type(sched_fd_model) :: model
  real, target :: vp(7, 9, 8), delta(7, 9, 8), theta(7, 9, 8), one(1, 1, 1)
  real, target, asynchronous :: record(12, 72), same(12, 72)
  real :: before(12, 72)

  call sched%create(devices="cpu", slots=1)
  vp = 2000.0
  delta = 0.1
  delta(:3, :, :) = 0.05
  theta = 0.4
  theta(:, 4:, :) = 0.2
  before = 0.0
  call model%create(vp, spacing_m=[10.0, 10.0, 10.0], equation=SCHED_FD_EQUATION_ACOUSTIC2)
  call check(SCHED_FD_EQUATION_ACOUSTIC2, 0, .false.)
  one = 0.2
  call model%create(vp, spacing_m=[10.0, 10.0, 10.0], equation=SCHED_FD_EQUATION_VTI, epsilon=one, delta=delta)
  call check(SCHED_FD_EQUATION_VTI, 2, .false.)
  call check(SCHED_FD_EQUATION_VTI, 2, .true.)
  call model%create(vp, spacing_m=[10.0, 10.0, 10.0], equation=SCHED_FD_EQUATION_TTI, epsilon=one, delta=delta, &
    theta_rad=theta)
  call check(SCHED_FD_EQUATION_TTI, 3, .true.)
  call model%create(vp, spacing_m=[10.0, 10.0, 10.0], equation=SCHED_FD_EQUATION_TTI, epsilon=one, delta=delta, &
    theta_rad=theta, phi_rad=one)
  call check(SCHED_FD_EQUATION_TTI, 4, .true.)

  call refuses("epsilon is missing; accepted: a constant or a value for each cell, which vti needs", &
    SCHED_FD_EQUATION_VTI)
  call refuses("epsilon is no property of acoustic2; accepted: vp", SCHED_FD_EQUATION_ACOUSTIC2, delta, delta)
  one = 0.07
  call refuses("epsilon of cell (0, 0, 3) is 0.07; accepted: delta, which is 0.1", SCHED_FD_EQUATION_VTI, one, delta)
  call refuses("theta_rad of cell (0, 0, 0) is 45; accepted: -2 pi to 2 pi radians", SCHED_FD_EQUATION_TTI, &
    theta_rad=0.0 * theta + 45.0)
  call model%destroy()
  call sched%destroy()
contains

  ! The model's record is that of C with the first `count` properties, and differs from the record before.
  subroutine check(equation, count, anisotropic_source)
    integer(c_int32_t), intent(in) :: equation
    integer, intent(in) :: count
    logical, intent(in) :: anisotropic_source
    type(c_ptr) :: properties(4)
    integer(sched_task_t) :: id
    properties = [c_loc(one), c_loc(delta), c_loc(theta), c_loc(one)]
    properties(count + 1:) = c_null_ptr
    ! Bits of epsilon and phi, which are constants.
    call record_in_c(equation, merge(4, 0, count > 0) + merge(32, 0, count > 3), merge(8, 0, anisotropic_source), vp, &
      properties, same)
    call sched%submit_shot(model, sched_fd_shot(nt=12, dt_s=1e-3, frequency_hz=30.0, source=[5, 5, 3], plane_iz=2, &
      anisotropic_source=anisotropic_source), record, id)
    call sched%wait(id)
    call expect(all(abs(record - same) <= 0.0), "the record of the calls in C")
    call expect(any(abs(record - before) > 0.0), "an effect")
    before = record
  end subroutine

  subroutine refuses(text, equation, epsilon, delta, theta_rad)
    character(len=*), intent(in) :: text
    integer(c_int32_t), intent(in) :: equation
    real, intent(in), contiguous, optional, target :: epsilon(:, :, :), delta(:, :, :), theta_rad(:, :, :)
    integer :: stat
    character(len=300) :: message
    call model%create(vp, spacing_m=[10.0, 10.0, 10.0], equation=equation, epsilon=epsilon, delta=delta, &
      theta_rad=theta_rad, stat=stat, errmsg=message)
    call expect(stat == SCHED_E_ARGUMENT .and. index(message, text) > 0, text//", not "//trim(message))
  end subroutine
end program
