! Custom code as tasks: a sum in parts, and a task that fails. Callbacks are bind(c) procedures of a
! module, because an internal procedure ends with its host.
module pieces_of_work
  use, intrinsic :: iso_c_binding
  use gpusched
  implicit none

  type :: piece
    integer :: first, last
    real(c_double) :: total
  end type

contains

  ! Runs on a thread of the scheduler. Returns SCHED_OK, or a status that sched_run_fn lists in
  ! gpusched.h.
  function add(exec, user) bind(c) result(status)
    type(sched_exec_t), intent(in), target :: exec
    type(c_ptr), value :: user
    integer(c_int32_t) :: status
    type(piece), pointer :: mine
    integer :: i
    call c_f_pointer(user, mine)
    status = SCHED_CANCELLED
    if (sched_exec_cancelled(exec)) return
    mine%total = 0 ! An earlier attempt may have added to it.
    do i = mine%first, mine%last
      mine%total = mine%total + i
    end do
    status = SCHED_OK
  end function

  function fail(exec, user) bind(c) result(status)
    type(sched_exec_t), intent(in), target :: exec
    type(c_ptr), value :: user
    integer(c_int32_t) :: status
    status = sched_exec_fail(exec, "no luck in attempt 1")
    if (exec%attempt > 1 .or. c_associated(user)) status = sched_exec_fail(exec, "no luck in a retry")
  end function
end module

program callbacks
  use, intrinsic :: iso_c_binding
  use pieces_of_work
  implicit none
  integer, parameter :: count = 16
  type(piece), target :: pieces(count)
  type(sched_scheduler) :: sched
  integer(sched_task_t) :: id
  integer :: i, stat

  call sched%create(slots=2)
  do i = 1, count
    pieces(i)%first = (i - 1) * 1000
    pieces(i)%last = i * 1000 - 1
    call sched%submit(add, user=c_loc(pieces(i)), options=sched_task_options(label="piece"))
  end do
  call sched%wait_all()
  print "(a, i0, a, i0)", "sum of 0 to ", count * 1000 - 1, ": ", nint(sum(pieces%total), c_int64_t)

  call sched%submit(fail, id)
  call sched%wait(id, stat=stat)
  print "(3a)", sched_status_name(stat), ": ", sched%task_error(id)
  call sched%release(id)
  call sched%destroy()
  if (stat /= SCHED_E_CALLBACK) error stop "the failure was not reported"
end program
