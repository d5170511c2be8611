! Tasks with automatic arrays of 16 MB, one of which waits for the other, on a configured stack.
module stack_tasks
  use, intrinsic :: iso_c_binding
  use gpusched
  implicit none
  type(scheduler) :: sched
  integer, target :: cells(2) = [4000000, 4000000]
  real(c_double) :: sums(2) = 0
contains
  function outer(exec, user) bind(c) result(status)
    type(sched_exec_t), intent(in), target :: exec
    type(c_ptr), value :: user
    integer(c_int32_t) :: status
    integer(c_int64_t) :: id
    integer :: ended
    ! The first inner task may run on top of this one. The second waits below 16 MB of `work`.
    call sched%submit(inner, id, user=user)
    call sched%wait(id, stat=ended)
    if (ended == 0) call compute(cells(1), sums(1), nested=.true.)
    status = int(ended, c_int32_t)
    if (exec_cancelled(exec)) status = SCHED_CANCELLED
  end function

  function inner(exec, user) bind(c) result(status)
    type(sched_exec_t), intent(in), target :: exec
    type(c_ptr), value :: user
    integer(c_int32_t) :: status
    call compute(cells(2), sums(2), nested=.false.)
    status = SCHED_OK
    if (exec_cancelled(exec) .or. c_associated(user)) status = SCHED_CANCELLED
  end function

  subroutine compute(n, total, nested)
    integer, intent(in) :: n
    real(c_double), intent(inout) :: total
    logical, intent(in) :: nested
    real(c_float) :: work(n)
    integer(c_int64_t) :: id
    work = 1.0
    if (nested) then
      call sched%submit(inner, id)
      call sched%wait(id)
    end if
    total = total + sum(real(work, c_double))
  end subroutine
end module

program stack
  use stack_tasks
  implicit none
  integer(c_int64_t) :: id
  integer :: stat
  character(len=300) :: message
  call sched%open(devices="cpu", slots=1, stack_bytes=1_c_int64_t, stat=stat, errmsg=message)
  if (stat /= SCHED_E_ARGUMENT .or. index(message, "stack_bytes is 1; accepted: 1048576 to") == 0) &
    error stop "a stack of one byte is accepted"
  call sched%open(devices="cpu", slots=1, stack_bytes=20971520_c_int64_t)
  call sched%submit(outer, id)
  call sched%wait(id)
  if (abs(sums(1) - 4d6) > 0 .or. abs(sums(2) - 8d6) > 0) error stop "the sums are wrong"
  call sched%close()
  print "(a)", "ended"
end program
