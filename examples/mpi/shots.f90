! The survey of shots.c in Fortran: one process a node, each with a scheduler over all GPUs of its
! node.
!
!     mpirun -n 4 --map-by ppr:1:node shots FOLDER
!
! The processes take shots from a common counter, so fast nodes compute more of them. Each record is
! written to FOLDER/shot_0001.bin, whole or not at all; shots whose file is there are not computed
! again. A shot that fails is computed again by the next process; a process whose devices have
! failed takes no more.
module files
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: write_whole

  interface
    function fopen(path, mode) bind(c) result(file)
      import :: c_ptr, c_char
      character(kind=c_char), intent(in) :: path(*), mode(*)
      type(c_ptr) :: file
    end function
    function fwrite(data, size, count, file) bind(c) result(written)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: data, file
      integer(c_size_t), value :: size, count
      integer(c_size_t) :: written
    end function
    function fflush(file) bind(c) result(status)
      import :: c_ptr, c_int
      type(c_ptr), value :: file
      integer(c_int) :: status
    end function
    function fileno(file) bind(c) result(descriptor)
      import :: c_ptr, c_int
      type(c_ptr), value :: file
      integer(c_int) :: descriptor
    end function
    function fsync(descriptor) bind(c) result(status)
      import :: c_int
      integer(c_int), value :: descriptor
      integer(c_int) :: status
    end function
    function fclose(file) bind(c) result(status)
      import :: c_ptr, c_int
      type(c_ptr), value :: file
      integer(c_int) :: status
    end function
    function rename(from, to) bind(c) result(status)
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: from(*), to(*)
      integer(c_int) :: status
    end function
  end interface

contains

  ! Writes a file that is whole or absent. Fortran can neither rename a file nor wait for the disk.
  function write_whole(path, record) result(written)
    character(len=*), intent(in) :: path
    real(c_float), intent(in), target, contiguous :: record(:, :)
    logical :: written
    type(c_ptr) :: file
    file = fopen(path//".part"//c_null_char, "wb"//c_null_char)
    written = c_associated(file)
    if (.not. written) return
    written = fwrite(c_loc(record), c_sizeof(record(1, 1)), size(record, kind=c_size_t), file) &
      == size(record, kind=c_size_t)
    if (fflush(file) /= 0) written = .false.
    if (fsync(fileno(file)) /= 0) written = .false.
    if (fclose(file) /= 0) written = .false.
    if (written) written = rename(path//".part"//c_null_char, path//c_null_char) == 0
  end function
end module

program shots
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  use mpi_f08
  use gpusched
  use files
  implicit none
  integer, parameter :: n = 32, nt = 120, shot_count = 16, rounds = 3, most = 64
  real, target, asynchronous, allocatable :: records(:, :, :)
  real, allocatable :: vp(:, :, :)
  type(sched_scheduler) :: sched
  type(sched_fd_model) :: model
  type(sched_fd_shot) :: shot
  type(sched_fd_shot_size_t) :: sizes
  type(sched_device_stats_t) :: stats
  type(MPI_Win) :: window
  type(c_ptr) :: memory
  integer, pointer, asynchronous :: counter
  ! Shots to compute; the process of each after the first round; 1 + the process that failed, or
  ! 1 + ranks if the shot is done.
  integer :: list(shot_count), owner(shot_count), outcomes(shot_count)
  ! The shots of this process that run: task, number and place of the record.
  integer(sched_task_t) :: ids(most)
  integer :: numbers(most), places(most)
  integer :: rank, ranks, count, left, place_count, devices, round, i
  character(len=4000) :: folder
  logical :: there

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  if (command_argument_count() /= 1) call die("usage: shots FOLDER")
  call get_command_argument(1, folder)

  allocate (vp(n, n, n))
  vp(:n / 2, :, :) = 1800.0 ! z is fastest
  vp(n / 2 + 1:, :, :) = 2600.0
  call model%create(vp, spacing_m=[10.0, 10.0, 10.0])
  deallocate (vp) ! It was copied.
  call sched%create()

  shot = sched_fd_shot(nt=nt, dt_s=1e-3, frequency_hz=20.0, plane_iz=4)
  call model%shot_size(shot, sizes)
  call sched%device_count(devices)
  place_count = 1
  do i = 0, devices - 1
    call sched%device_stats(i, stats)
    place_count = place_count + int(stats%slots)
  end do
  place_count = min(place_count, most)
  allocate (records(sizes%samples, sizes%traces, place_count))
  places = [(i, i=1, most)]

  ! Process 0 sees which files are there.
  count = 0
  do i = 1, shot_count
    inquire (file=path_of(i), exist=there)
    if (there) cycle
    count = count + 1
    list(count) = i
  end do
  call MPI_Bcast(count, 1, MPI_INTEGER, 0, MPI_COMM_WORLD)
  call MPI_Bcast(list, count, MPI_INTEGER, 0, MPI_COMM_WORLD)
  if (rank == 0) print "(2(i0, a))", count, " of ", shot_count, " shots are to be computed"

  call MPI_Win_allocate(int(c_sizeof(0), MPI_ADDRESS_KIND), int(c_sizeof(0)), MPI_INFO_NULL, &
    MPI_COMM_WORLD, memory, window)
  call c_f_pointer(memory, counter)
  counter = 0
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Win_lock_all(0, window)
  do round = 1, rounds
    if (count == 0) exit
    outcomes = 0
    call compute(first=round == 1)
    call MPI_Allreduce(MPI_IN_PLACE, outcomes, shot_count, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
    left = 0
    do i = 1, count
      if (outcomes(list(i)) > ranks) cycle
      left = left + 1
      list(left) = list(i)
      owner(list(i)) = mod(outcomes(list(i)), ranks) ! the one after it; 0 if nobody took it
    end do
    count = left
  end do
  call MPI_Win_unlock_all(window)
  call MPI_Win_free(window)
  if (rank == 0) print "(i0, a)", count, " shots failed"

  call sched%destroy()
  call model%destroy()
  call MPI_Finalize()
  if (count > 0) stop 1

contains

  subroutine die(why)
    character(len=*), intent(in) :: why
    write (error_unit, "(a, i0, 2a)") "process ", rank, ": ", trim(why)
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine

  subroutine report(number, why)
    integer, intent(in) :: number
    character(len=*), intent(in) :: why
    write (error_unit, "(2(a, i0), 2a)") "process ", rank, ": shot ", number, ": ", trim(why)
  end subroutine

  function path_of(number) result(path)
    integer, intent(in) :: number
    character(len=:), allocatable :: path
    character(len=13) :: name
    write (name, "(a, i4.4, a)") "shot_", number, ".bin"
    path = trim(folder)//"/"//name
  end function

  ! Returns the next number of the counter at process 0, from 1.
  function take() result(number)
    integer :: number
    integer, asynchronous :: one, taken
    one = 1
    call MPI_Fetch_and_op(one, taken, MPI_INTEGER, 0, 0_MPI_ADDRESS_KIND, MPI_SUM, window)
    call MPI_Win_flush(0, window)
    call MPI_F_sync_reg(taken)
    number = taken + 1
  end function

  ! Computes the shots of the list that are this process's: in the first round those that it takes
  ! from the counter, later those that the process before it has failed. Sets `outcomes`.
  subroutine compute(first)
    logical, intent(in) :: first
    character(len=200) :: why
    integer :: running, next, position, swap, stat
    logical :: more, arrived
    running = 0
    next = 0
    more = .true.
    do while (more .or. running > 0)
      do while (more .and. running < place_count)
        next = next + 1
        if (first) next = take()
        more = next <= count
        if (.not. more) exit
        if (.not. first) then
          if (owner(list(next)) /= rank) cycle
        end if
        shot%source = [2 + 30 * (list(next) - 1) / shot_count, n / 2 + 1, 3]
        call sched%submit_shot(model, shot, records(:, :, places(running + 1)), ids(running + 1), &
          stat=stat, errmsg=why)
        if (stat == SCHED_E_NO_DEVICE) then
          call report(list(next), why)
          outcomes(list(next)) = 1 + rank
          more = .not. first
          cycle
        end if
        if (stat /= SCHED_OK) call die(why)
        running = running + 1
        numbers(running) = list(next)
      end do
      if (running == 0) cycle
      call sched%wait_any(ids(:running), position, timeout_ns=20000000_sched_task_t, stat=stat)
      if (stat == SCHED_PENDING) then
        ! Others may wait for the counter, which this process serves inside MPI.
        call MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, arrived, MPI_STATUS_IGNORE)
        cycle
      end if
      outcomes(numbers(position)) = 1 + merge(ranks, rank, ended(position))
      ids(position) = ids(running)
      numbers(position) = numbers(running)
      swap = places(position)
      places(position) = places(running)
      places(running) = swap
      running = running - 1
    end do
  end subroutine

  ! Writes the record of a shot that has succeeded.
  function ended(position) result(succeeded)
    integer, intent(in) :: position
    logical :: succeeded
    character(len=200) :: why
    integer :: stat
    call sched%wait(ids(position), stat=stat, errmsg=why)
    call sched%release(ids(position))
    succeeded = stat == SCHED_OK
    if (.not. succeeded) then
      call report(numbers(position), why)
    else if (.not. write_whole(path_of(numbers(position)), records(:, :, places(position)))) then
      call die("cannot write "//path_of(numbers(position)))
    end if
  end function
end program
