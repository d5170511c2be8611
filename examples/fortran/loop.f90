! Parallel loops: a sum of squares in chunks, and a map with its results in order.
module loops
  use, intrinsic :: iso_c_binding
  use gpusched
  implicit none
  integer, parameter :: count = 100000
  real(c_double), target :: squares(0:count - 1)

contains

  ! Several threads call this for different chunks at the same time.
  function square(exec, begin, end, user) bind(c) result(status)
    type(sched_exec_t), intent(in), target :: exec
    integer(c_int64_t), value :: begin, end
    type(c_ptr), value :: user
    integer(c_int32_t) :: status
    integer(c_int64_t) :: i
    status = SCHED_E_ARGUMENT
    if (exec%task == 0 .or. c_associated(user)) return
    do i = begin, end - 1
      squares(i) = real(i, c_double)**2
    end do
    status = SCHED_OK
  end function

  function root(x) result(y)
    real(c_double), intent(in) :: x
    real(c_double) :: y
    y = sqrt(x)
  end function
end module

program loop
  use, intrinsic :: iso_c_binding
  use loops
  implicit none
  type(sched_scheduler) :: sched
  real(c_double) :: roots(0:count - 1)
  integer :: i, stat

  call sched%create(slots=2)
  call sched%run_range(square, 0_c_int64_t, int(count, c_int64_t))
  print "(a, i0)", "sum of squares: ", nint(sum(squares), c_int64_t)
  call sched%map(root, squares, roots)
  if (any(nint(roots) /= [(i, i=0, count - 1)])) error stop "a result is not in its place"
  call sched%run_range(square, 5_c_int64_t, 3_c_int64_t, stat=stat)
  print "(2a)", "reversed: ", sched_status_name(stat)
  call sched%destroy()
end program
