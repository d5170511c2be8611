! Checks of the Fortran test programs.
module expectations
  implicit none
contains

  ! Ends the program with 1 unless `right`.
  subroutine expect(right, what)
    logical, intent(in) :: right
    character(len=*), intent(in) :: what
    if (right) return
    print "(2a)", "expected: ", what
    error stop 1
  end subroutine
end module
