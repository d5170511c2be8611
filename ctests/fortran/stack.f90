! Tasks with automatic arrays of 16 MB, which wait for each other, on a configured stack. The
! start-up code of -ffast-math sets the host to flush denormal numbers; callbacks inherit that.
module stack_tasks
  use, intrinsic :: iso_c_binding
  use gpusched
  implicit none
  type(sched_scheduler) :: sched
  real(c_double) :: total = 0
  real(c_float), volatile :: denormal
contains
  recursive function outer(exec, user) bind(c) result(status)
    type(sched_exec_t), intent(in), target :: exec
    type(c_ptr), value :: user
    integer(c_int32_t) :: status
    integer, pointer :: levels
    call c_f_pointer(user, levels)
    status = SCHED_CANCELLED
    if (.not. sched_exec_cancelled(exec)) call compute(4000000, levels, status)
  end function

  recursive subroutine compute(n, levels, status)
    integer, intent(in) :: n
    integer, intent(inout) :: levels
    integer(c_int32_t), intent(out) :: status
    integer, target :: left
    real(c_float) :: work(n)
    integer(c_int64_t) :: id
    integer :: ended
    work = 1.0
    ended = 0
    left = levels - 1
    if (left > 0) then
      call sched%submit(outer, id, c_loc(left))
      call sched%wait(id, stat=ended)
    end if
    if (transfer(denormal * 2, 0) == 0) total = total + sum(real(work, c_double))
    status = int(ended, c_int32_t)
  end subroutine
end module

program stack
  use stack_tasks
  use expectations
  implicit none
  integer(c_int64_t) :: id
  integer :: stat
  integer, target :: levels = 3
  character(len=300) :: message
  denormal = transfer(71362, denormal)
  call sched%create(devices="cpu", slots=1, stack_bytes=1_c_int64_t, stat=stat, errmsg=message)
  call expect(stat == SCHED_E_ARGUMENT, "a stack of one byte is refused")
  call expect(index(message, "stack_bytes is 1; accepted: 1048576 to") > 0, trim(message))
  call sched%create(devices="cpu", slots=1, stack_bytes=20971520_c_int64_t)
  call sched%submit(outer, id, c_loc(levels))
  call sched%wait(id)
  call expect(abs(total - 12d6) <= 0, "every array was there, and every task flushed")
  call sched%destroy()
end program
