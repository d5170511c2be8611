! Callbacks flush denormal numbers and round as the program that submits them, labelled or not.
! Compiled with -ffast-math, so that the program's start-up code sets its thread to flush.
module float_mode_tasks
  use, intrinsic :: iso_c_binding
  use, intrinsic :: ieee_arithmetic
  use gpusched
  implicit none

  ! Two results of the calling thread's mode: 1/3, and a denormal number times 1.
  type, bind(c) :: results
    real(c_double) :: third, tiny
  end type

  real(c_double), volatile :: one = 1, three = 3, denormal = 1
contains

  subroutine compute(found)
    type(results), intent(out) :: found
    found%third = one / three
    found%tiny = denormal * one
  end subroutine

  ! Notes its results, and leaves another mode behind.
  function notes(exec, user) bind(c) result(status)
    type(sched_exec_t), intent(in), target :: exec
    type(c_ptr), value :: user
    integer(c_int32_t) :: status
    type(results), pointer :: found
    call c_f_pointer(user, found)
    call compute(found)
    call ieee_set_rounding_mode(ieee_to_zero)
    call ieee_set_underflow_mode(exec%attempt /= 1)
    status = 0
  end function

  logical function same(a, b)
    type(results), intent(in) :: a, b
    same = transfer(a%third, 1_c_int64_t) == transfer(b%third, 1_c_int64_t) .and. &
      transfer(a%tiny, 1_c_int64_t) == transfer(b%tiny, 1_c_int64_t)
  end function
end module

program float_mode
  use float_mode_tasks
  use expectations
  implicit none
  type(results) :: start

  denormal = transfer(12345_c_int64_t, 1.0_c_double)
  call compute(start)
  call expect(transfer(start%tiny, 1_c_int64_t) == 0, "-ffast-math flushes")
  call tasks()
  call ieee_set_rounding_mode(ieee_up)
  call tasks()
  call ieee_set_underflow_mode(.true.)
  call tasks()
  call ieee_set_rounding_mode(ieee_nearest)
  call tasks()

contains

  subroutine tasks()
    type(scheduler) :: sched
    type(task_options) :: labelled
    type(results), target :: found(12)
    type(results) :: wanted, after
    integer(c_int64_t) :: ids(12)
    integer :: i
    call compute(wanted)
    call sched%open(devices="cpu", slots=2)
    labelled%label = "labelled"
    do i = 1, 12
      if (mod(i, 3) == 1) then
        call sched%submit(notes, ids(i), c_loc(found(i)))
      else
        call sched%submit(notes, ids(i), c_loc(found(i)), labelled)
      end if
    end do
    call sched%wait_all()
    call sched%close()
    call compute(after)
    call expect(same(after, wanted), "the mode of the program stays")
    do i = 1, 12
      call expect(same(found(i), wanted), "a callback runs in the mode of the program")
    end do
  end subroutine
end program
