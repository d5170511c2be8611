! What the Fortran test programs share.
module expectations
  implicit none
contains

  ! Ends the program with 1, unless what it expects is right.
  subroutine expect(right, what)
    logical, intent(in) :: right
    character(len=*), intent(in) :: what
    if (right) return
    print "(2a)", "not as promised: ", what
    error stop 1
  end subroutine
end module
