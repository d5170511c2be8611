! A shot loop as tasks, as in examples/c/shot_loop.c: shots run in any order, and their traces are
! appended to one SU file in the order of the shots. A shot that fails is reported, and the file has
! no trace of it.
!
!     shot_loop LOOP.su TASKS.su
!
! writes the file twice, by a loop and by tasks, with the same bytes. docs/porting.md explains it.
module shots
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int16, int32
  use gpusched
  implicit none
  integer, parameter :: nx = 320, nz = 80, nt = 250, shot_count = 9, aperture = 60, every = 4

  type :: shot
    integer :: number, source, first, width !< cells along x, from 1; the width of the window
    real, allocatable :: traces(:, :)
  end type

contains

  function shot_of(number) result(it)
    integer, intent(in) :: number
    type(shot) :: it
    it%number = number
    it%source = merge(nx + 10, 35 * number - 14, number == 4) ! Shot 4 fails.
    it%first = max(1, it%source - aperture)
    it%width = min(nx, it%source + aperture - 1) - it%first + 1
    allocate (it%traces(nt, it%width / every), source=0.0)
  end function

  ! Computes a shot. `why` is blank, or says why the shot failed.
  subroutine compute(it, fields, why, exec)
    type(shot), intent(inout) :: it
    real, intent(inout), target :: fields(:, :, :)
    character(len=*), intent(out) :: why
    type(sched_exec_t), intent(in), target, optional :: exec
    real, pointer :: now(:, :), last(:, :), swap(:, :)
    real :: courant(nz), t
    integer :: ix, step
    why = "the source is outside the model"
    if (it%source > nx) return
    courant = merge(0.4, 0.6, [(ix, ix=1, nz)] <= nz / 2) ! v dt / dx
    fields = 0
    now => fields(:, :, 1)
    last => fields(:, :, 2)
    do step = 1, nt
      why = "stopped"
      if (present(exec)) then
        if (sched_exec_cancelled(exec)) return
      end if
      !$omp parallel do
      do ix = 2, it%width - 1
        last(2:nz - 1, ix) = 2 * now(2:nz - 1, ix) - last(2:nz - 1, ix) &
          + courant(2:nz - 1)**2 * (now(2:nz - 1, ix - 1) + now(2:nz - 1, ix + 1) &
          + now(:nz - 2, ix) + now(3:, ix) - 4 * now(2:nz - 1, ix))
      end do
      swap => last
      last => now
      now => swap
      t = 0.1 * (step - 1) - 3
      ix = it%source - it%first + 1
      now(3, ix) = now(3, ix) + (1 - 2 * t**2) * exp(-t**2)
      it%traces(step, :) = now(5, 1:every * size(it%traces, 2):every)
    end do
    why = ""
  end subroutine

  ! Appends the traces of a shot to the file.
  subroutine append(unit, it)
    integer, intent(in) :: unit
    type(shot), intent(in) :: it
    integer(int16) :: headers(120, size(it%traces, 2))
    integer :: i
    headers = 0
    do i = 1, size(headers, 2)
      headers(5:8, i) = transfer(int([it%number, i], int32), headers(:, i)) ! fldr, tracf
      headers(37:38, i) = transfer(int(10 * (it%source - 1), int32), headers(:, i))
      headers(41:42, i) = transfer(int(10 * (it%first - 1 + every * (i - 1)), int32), headers(:, i))
      headers(58:59, i) = [int(nt, int16), 2000_int16] ! ns, dt in us
    end do
    write (unit) (headers(:, i), it%traces(:, i), i=1, size(headers, 2))
  end subroutine

  ! begin before
  subroutine loop(unit)
    integer, intent(in) :: unit
    real, save :: fields(nz, 2 * aperture, 2)
    type(shot) :: it
    character(len=80) :: why
    integer :: i
    do i = 1, shot_count
      it = shot_of(i)
      call compute(it, fields(:, :it%width, :), why)
      if (why == "") then
        call append(unit, it)
      else
        write (error_unit, "(a, i0, 2a)") "shot ", i, ": ", trim(why)
      end if
    end do
  end subroutine
  ! end before

  ! begin after
  function run(exec, user) bind(c) result(status)
    !$ use omp_lib, only: omp_set_num_threads
    type(sched_exec_t), intent(in), target :: exec
    type(c_ptr), value :: user
    integer(c_int32_t) :: status
    type(shot), pointer :: it
    real, allocatable :: fields(:, :, :)
    character(len=80) :: why
    integer :: stat
    call c_f_pointer(user, it)
    allocate (fields(nz, it%width, 2), stat=stat)
    status = SCHED_E_MEMORY
    if (stat /= 0) return
    !$ call omp_set_num_threads(exec%cpu_threads)
    call compute(it, fields, why, exec)
    status = SCHED_OK
    if (why /= "") status = sched_exec_fail(exec, why)
    if (sched_exec_cancelled(exec)) status = SCHED_CANCELLED
  end function

  subroutine tasks(unit)
    integer, intent(in) :: unit
    type(shot), target :: list(shot_count)
    type(sched_task_options) :: options
    type(sched_scheduler) :: sched
    character(len=200) :: why
    integer(sched_task_t) :: id
    integer :: i, stat
    call sched%create(devices="cpu", slots=2)
    do i = 1, shot_count
      list(i) = shot_of(i)
      options%ordered = .true.
      options%work = list(i)%width
      options%device_bytes = 8 * nz * list(i)%width
      call sched%submit(run, id, user=c_loc(list(i)), options=options)
    end do
    do i = 1, shot_count
      call sched%wait_next(id) ! of list(i)
      call sched%wait(id, stat=stat, errmsg=why)
      if (stat == SCHED_OK) then
        call append(unit, list(i))
      else
        write (error_unit, "(a, i0, 2a)") "shot ", i, " failed: ", trim(why)
      end if
      call sched%release(id)
    end do
    call sched%destroy()
  end subroutine
  ! end after
end module

program shot_loop
  use shots
  implicit none
  character(len=4096) :: path
  integer :: i, unit
  if (command_argument_count() /= 2) then
    write (error_unit, "(a)") "usage: shot_loop LOOP.su TASKS.su"
    stop 2
  end if
  do i = 1, 2
    call get_command_argument(i, path)
    open (newunit=unit, file=trim(path), access="stream", form="unformatted", status="replace")
    if (i == 1) call loop(unit)
    if (i == 2) call tasks(unit)
    close (unit)
  end do
end program
