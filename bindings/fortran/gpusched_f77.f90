!> Shots for programs in FORTRAN 77: external subroutines without modules, types or optional
!> arguments. Compile this file after gpusched.f90 and link with -lgpusched.
!>
!>     INTEGER*8 S, MODEL, TASK
!>     CALL SCHED77_CREATE(' ', 0, S, STATUS, MESSAGE)
!>     CALL SCHED77_MODEL(NX, NY, NZ, DX_M, DY_M, DZ_M, VP_M_S, RHO_KG_M3, MODEL, STATUS, MESSAGE)
!> or  CALL SCHED77_MODEL_OF_EQUATION(EQUATION, FLAGS, CONSTANTS, NX, NY, NZ, DX_M, DY_M, DZ_M,
!>    &    VP_M_S, RHO_KG_M3, EPSILON, DELTA, THETA_RAD, PHI_RAD, MODEL, STATUS, MESSAGE)
!>     CALL SCHED77_SHOT(S, MODEL, NT, DT_S, FREQUENCY_HZ, SOURCE, RECEIVER_COUNT, RECEIVERS,
!>    &                  RECORD_EVERY, RECORD, RECORD_LEN, TASK, STATUS, MESSAGE)
!>     CALL SCHED77_WAIT(S, TASK, RECORD, STATUS, MESSAGE)
!>     CALL SCHED77_MODEL_DESTROY(MODEL, STATUS, MESSAGE)
!>     CALL SCHED77_DESTROY(S, STATUS, MESSAGE)
!>
!> Types      S, MODEL and TASK are INTEGER*8; other integers are INTEGER, other numbers REAL;
!>            MESSAGE is CHARACTER*(*), 200 characters or more.
!> Errors     STATUS is 0 on success, else a number SCHED_E_* of gpusched.h. MESSAGE then says why,
!>            with the name of the status; after a success it is blank.
!> Counts     Cells count from 1. SOURCE(3) and RECEIVERS(3, RECEIVER_COUNT) hold IX, IY, IZ.
!>            Messages of the C library count from 0, and begin with that.
!> Arrays     VP_M_S(NZ, NX, NY), other properties likewise, RECORD(samples, receivers).
!> EQUATION   0: acoustic1, as SCHED77_MODEL; 1: acoustic2; 2: vti; 3: tti.
!> FLAGS      Sum of 1: coefficients in 16 bits; 2: velocities below 100 and densities below 30 are
!>            accepted; 4: density at cells; 8: PML with acoustic2 and tti. Those of SCHED_FD_MODEL_*
!>            in gpusched.h, which says more.
!> CONSTANTS  Sum of the properties that are one number for all cells instead of an array:
!>            2: RHO_KG_M3; 4: EPSILON; 8: DELTA; 16: THETA_RAD; 32: PHI_RAD.
!> Properties VP_M_S; RHO_KG_M3 of acoustic1 and vti; EPSILON and DELTA of vti and tti; THETA_RAD
!>            and PHI_RAD of tti. Those that the equation lacks are not read: pass 0.0.
!> RECORD     is lent to the library until SCHED77_WAIT returns 0 for its task. Pass it there again:
!>            the compiler then knows that it has changed. In newer Fortran pass no array section
!>            with gaps, which would be a temporary copy.

!> Creates a scheduler. `devices`: as in GPUSCHED_DEVICES; blank: all. `slots`: tasks at a time on
!> each device; 0: 1; -1: tuned automatically.
subroutine sched77_create(devices, slots, s, status, message)
  use gpusched_c
  implicit none
  character(len=*), intent(in) :: devices
  integer, intent(in) :: slots
  integer(c_int64_t), intent(out) :: s
  integer, intent(out) :: status
  character(len=*), intent(out) :: message
  type(sched_config_t), target :: config
  character(kind=c_char), target :: list(len_trim(devices) + 1)
  type(c_ptr), target :: handle
  integer :: i
  s = 0
  status = 0
  call sched77_require("SLOTS", slots, -1, status, message)
  if (status /= 0) return
  list = c_null_char
  do i = 1, len_trim(devices)
    list(i) = devices(i:i)
  end do
  config%size = c_sizeof(config)
  if (size(list) > 1) config%devices = c_loc(list)
  config%slots = int(slots, c_int32_t)
  handle = c_null_ptr
  status = sched_create(c_loc(config), c_loc(handle))
  s = transfer(handle, s)
  call sched77_explain(status, message)
end subroutine

!> Creates a model of the equation acoustic1. The library copies the velocities and densities.
subroutine sched77_model(nx, ny, nz, dx_m, dy_m, dz_m, vp_m_s, rho_kg_m3, model, status, message)
  use gpusched_c
  implicit none
  integer, intent(in) :: nx, ny, nz
  real(c_float), intent(in) :: dx_m, dy_m, dz_m
  real(c_float), intent(in), target :: vp_m_s(*), rho_kg_m3(*)
  integer(c_int64_t), intent(out) :: model
  integer, intent(out) :: status
  character(len=*), intent(out) :: message
  type(sched_fd_model_desc_t) :: desc
  desc%vp_m_s = c_loc(vp_m_s(1))
  desc%rho_kg_m3 = c_loc(rho_kg_m3(1))
  call sched77_described(desc, [nx, ny, nz], [dx_m, dy_m, dz_m], model, status, message)
end subroutine

!> Creates a model of an equation. The library copies the properties.
subroutine sched77_model_of_equation(equation, flags, constants, nx, ny, nz, dx_m, dy_m, dz_m, &
    vp_m_s, rho_kg_m3, epsilon, delta, theta_rad, phi_rad, model, status, message)
  use gpusched_c
  implicit none
  integer, intent(in) :: equation, flags, constants, nx, ny, nz
  real(c_float), intent(in) :: dx_m, dy_m, dz_m
  real(c_float), intent(in), target :: vp_m_s(*), rho_kg_m3(*), epsilon(*), delta(*), theta_rad(*), phi_rad(*)
  integer(c_int64_t), intent(out) :: model
  integer, intent(out) :: status
  character(len=*), intent(out) :: message
  type(sched_fd_model_desc_t) :: desc
  integer(c_int32_t) :: used
  desc%equation = equation
  desc%flags = flags
  desc%constants = constants
  used = constants
  select case (equation)
  case (SCHED_FD_EQUATION_ACOUSTIC1)
    used = ior(used, SCHED_FD_PROPERTY_RHO)
  case (SCHED_FD_EQUATION_VTI)
    used = ior(used, SCHED_FD_PROPERTY_RHO + SCHED_FD_PROPERTY_EPSILON + SCHED_FD_PROPERTY_DELTA)
  case (SCHED_FD_EQUATION_TTI)
    used = ior(used, SCHED_FD_PROPERTY_EPSILON + SCHED_FD_PROPERTY_DELTA + SCHED_FD_PROPERTY_THETA + &
      SCHED_FD_PROPERTY_PHI)
  end select
  desc%vp_m_s = c_loc(vp_m_s(1))
  if (iand(used, SCHED_FD_PROPERTY_RHO) /= 0) desc%rho_kg_m3 = c_loc(rho_kg_m3(1))
  if (iand(used, SCHED_FD_PROPERTY_EPSILON) /= 0) desc%epsilon = c_loc(epsilon(1))
  if (iand(used, SCHED_FD_PROPERTY_DELTA) /= 0) desc%delta = c_loc(delta(1))
  if (iand(used, SCHED_FD_PROPERTY_THETA) /= 0) desc%theta_rad = c_loc(theta_rad(1))
  if (iand(used, SCHED_FD_PROPERTY_PHI) /= 0) desc%phi_rad = c_loc(phi_rad(1))
  call sched77_described(desc, [nx, ny, nz], [dx_m, dy_m, dz_m], model, status, message)
end subroutine

!> Creates the model of a description that has the equation and its properties.
subroutine sched77_described(desc, cells, spacing_m, model, status, message)
  use gpusched_c
  implicit none
  type(sched_fd_model_desc_t), intent(in) :: desc
  integer, intent(in) :: cells(3)
  real(c_float), intent(in) :: spacing_m(3)
  integer(c_int64_t), intent(out) :: model
  integer, intent(out) :: status
  character(len=*), intent(out) :: message
  type(sched_fd_model_desc_t), target :: full
  type(c_ptr), target :: handle
  model = 0
  status = 0
  call sched77_require("NX", cells(1), 0, status, message)
  call sched77_require("NY", cells(2), 0, status, message)
  call sched77_require("NZ", cells(3), 0, status, message)
  if (status /= 0) return
  full = desc
  full%size = c_sizeof(full)
  full%nx = cells(1)
  full%ny = cells(2)
  full%nz = cells(3)
  full%dx_m = spacing_m(1)
  full%dy_m = spacing_m(2)
  full%dz_m = spacing_m(3)
  handle = c_null_ptr
  status = sched_fd_model_create(c_loc(full), c_loc(handle))
  model = transfer(handle, model)
  call sched77_explain(status, message)
end subroutine

!> Submits a shot with a Ricker wavelet and returns at once. `record_len`: length of `record`, at
!> least receiver_count * (1 + (nt - 1) / record_every).
subroutine sched77_shot(s, model, nt, dt_s, frequency_hz, source, receiver_count, receivers, &
    record_every, record, record_len, task, status, message)
  use gpusched_c
  implicit none
  integer(c_int64_t), intent(in) :: s, model
  integer, intent(in) :: nt, source(3), receiver_count, receivers(3, *), record_every, record_len
  real(c_float), intent(in) :: dt_s, frequency_hz
  real(c_float), intent(inout), target, asynchronous :: record(*)
  integer(c_int64_t), intent(out), target :: task
  integer, intent(out) :: status
  character(len=*), intent(out) :: message
  type(sched_fd_shot_desc_t), target :: desc
  type(sched_fd_cell_t), allocatable, target :: cells(:)
  type(c_ptr) :: handle, medium
  integer :: i
  task = 0
  status = 0
  call sched77_require("a cell of SOURCE", minval(source), 1, status, message)
  call sched77_require("a cell of RECEIVERS", minval(receivers(:, :receiver_count)), 1, status, message)
  call sched77_require("NT", nt, 0, status, message)
  call sched77_require("RECEIVER_COUNT", receiver_count, 0, status, message)
  call sched77_require("RECORD_EVERY", record_every, 0, status, message)
  call sched77_require("RECORD_LEN", record_len, 0, status, message)
  if (status /= 0) return
  allocate (cells(max(1, receiver_count)))
  do i = 1, receiver_count
    cells(i) = sched_fd_cell_t(receivers(1, i) - 1, receivers(2, i) - 1, receivers(3, i) - 1)
  end do
  desc%size = c_sizeof(desc)
  desc%nt = nt
  desc%dt_s = dt_s
  desc%frequency_hz = frequency_hz
  desc%source = sched_fd_cell_t(source(1) - 1, source(2) - 1, source(3) - 1)
  desc%receivers = c_loc(cells)
  desc%receiver_count = receiver_count
  desc%record_every = record_every
  desc%record = c_loc(record(1))
  desc%record_len = record_len
  handle = transfer(s, handle)
  medium = transfer(model, medium)
  status = sched_fd_submit(handle, medium, c_loc(desc), c_null_ptr, c_loc(task))
  call sched77_explain(status, message)
end subroutine

!> Waits until a shot has ended, and releases its task.
subroutine sched77_wait(s, task, record, status, message)
  use gpusched_c
  implicit none
  integer(c_int64_t), intent(in) :: s, task
  real(c_float), intent(inout), asynchronous :: record(*)
  integer, intent(out) :: status
  character(len=*), intent(out) :: message
  integer(c_int32_t) :: ignored
  status = sched_wait(transfer(s, c_null_ptr), task, SCHED_FOREVER)
  call sched77_explain(status, message)
  ignored = sched_release(transfer(s, c_null_ptr), task)
  ! A use of `record`, without which a compiler warns.
  if (status == 0) record(1) = record(1)
end subroutine

!> Destroys a model. Submitted shots keep what they need.
subroutine sched77_model_destroy(model, status, message)
  use gpusched_c
  implicit none
  integer(c_int64_t), intent(inout) :: model
  integer, intent(out) :: status
  character(len=*), intent(out) :: message
  status = sched_fd_model_destroy(transfer(model, c_null_ptr))
  if (status == 0) model = 0
  call sched77_explain(status, message)
end subroutine

!> Cancels the queued shots, waits for the running ones, and destroys the scheduler.
subroutine sched77_destroy(s, status, message)
  use gpusched_c
  implicit none
  integer(c_int64_t), intent(inout) :: s
  integer, intent(out) :: status
  character(len=*), intent(out) :: message
  status = sched_destroy(transfer(s, c_null_ptr))
  if (status == 0) s = 0
  call sched77_explain(status, message)
end subroutine

!> Returns the message of a status: of this thread's last error, with the name of the status.
subroutine sched77_explain(status, message)
  use gpusched
  use gpusched_c, only: sched_last_error
  implicit none
  integer, intent(in) :: status
  character(len=*), intent(out) :: message
  message = ""
  if (status == 0) return
  message = sched_status_name(status)
  if (status < 0) message = sched_status_name(status)//": "//sched_counted(sched_text(sched_last_error()))
end subroutine

!> Refuses a number less than `least`, unless `status` is set. The C ABI has no negative numbers.
subroutine sched77_require(name, number, least, status, message)
  use gpusched_c
  implicit none
  character(len=*), intent(in) :: name
  integer, intent(in) :: number, least
  integer, intent(inout) :: status
  character(len=*), intent(inout) :: message
  character(len=100) :: text
  if (status /= 0 .or. number >= least) return
  status = SCHED_E_ARGUMENT
  write (text, "(2a, 2(i0, a))") name, " is ", number, "; accepted: ", least, " or more"
  message = "SCHED_E_ARGUMENT: "//text
end subroutine
