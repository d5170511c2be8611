! A task with a custom CUDA kernel, which squares numbers on any free GPU. It needs no CUDA toolkit:
! the kernel is a PTX text, and the program looks up the functions of the driver in its library.
module driver
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none

  character, parameter :: nl = new_line("a")
  ! Written by hand; nvcc -ptx prints such a text.
  character(len=*), parameter :: square = &
    ".version 6.0" // nl // ".target sm_35" // nl // ".address_size 64" // nl // &
    ".visible .entry square(.param .u64 values, .param .u32 count)" // nl // "{" // nl // &
    ".reg .pred %p; .reg .f32 %f; .reg .b32 %r<5>; .reg .b64 %at, %offset;" // nl // &
    "ld.param.u64 %at, [values];" // nl // &
    "ld.param.u32 %r1, [count];" // nl // &
    "mov.u32 %r2, %ctaid.x;" // nl // &
    "mov.u32 %r3, %ntid.x;" // nl // &
    "mov.u32 %r4, %tid.x;" // nl // &
    "mad.lo.s32 %r2, %r2, %r3, %r4;" // nl // &
    "setp.ge.s32 %p, %r2, %r1;" // nl // &
    "@%p bra done;" // nl // &
    "cvta.to.global.u64 %at, %at;" // nl // &
    "mul.wide.s32 %offset, %r2, 4;" // nl // &
    "add.s64 %at, %at, %offset;" // nl // &
    "ld.global.f32 %f, [%at];" // nl // &
    "mul.rn.f32 %f, %f, %f;" // nl // &
    "st.global.f32 [%at], %f;" // nl // &
    "done:" // nl // "ret;" // nl // "}" // nl // c_null_char

  abstract interface
    function load_t(module, text) bind(c) result(status)
      import
      type(c_ptr) :: module
      character(kind=c_char), intent(in) :: text(*)
      integer(c_int) :: status
    end function
    function handle_t(handle) bind(c) result(status)
      import
      type(c_ptr), value :: handle
      integer(c_int) :: status
    end function
    function find_t(function, module, name) bind(c) result(status)
      import
      type(c_ptr) :: function
      type(c_ptr), value :: module
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int) :: status
    end function
    function copy_t(to, from, bytes, stream) bind(c) result(status)
      import
      type(c_ptr), value :: to, from, stream
      integer(c_size_t), value :: bytes
      integer(c_int) :: status
    end function
    function launch_t(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, more) &
        bind(c) result(status)
      import
      type(c_ptr), value :: function, stream, more
      integer(c_int), value :: gx, gy, gz, bx, by, bz, shared
      type(c_ptr), intent(in) :: arguments(*)
      integer(c_int) :: status
    end function
  end interface

  interface
    function dlopen(name, flags) bind(c) result(library)
      import
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: flags
      type(c_ptr) :: library
    end function
    function dlsym(library, name) bind(c) result(address)
      import
      type(c_ptr), value :: library
      character(kind=c_char), intent(in) :: name(*)
      type(c_funptr) :: address
    end function
  end interface

  procedure(load_t), pointer :: load
  procedure(handle_t), pointer :: unload, wait
  procedure(find_t), pointer :: find
  procedure(copy_t), pointer :: upload, download
  procedure(launch_t), pointer :: launch

contains

  subroutine look_up()
    integer(c_int), parameter :: now = 2
    type(c_ptr) :: library
    library = dlopen("libcuda.so.1" // c_null_char, now)
    call c_f_procpointer(there("cuModuleLoadData"), load)
    call c_f_procpointer(there("cuModuleUnload"), unload)
    call c_f_procpointer(there("cuModuleGetFunction"), find)
    call c_f_procpointer(there("cuMemcpyHtoDAsync_v2"), upload)
    call c_f_procpointer(there("cuMemcpyDtoHAsync_v2"), download)
    call c_f_procpointer(there("cuLaunchKernel"), launch)
    call c_f_procpointer(there("cuStreamSynchronize"), wait)
  contains
    function there(name) result(address)
      character(len=*), intent(in) :: name
      type(c_funptr) :: address
      address = dlsym(library, name // c_null_char)
      if (c_associated(address)) return
      write (error_unit, "(2a)") "the driver's library lacks ", name
      error stop
    end function
  end subroutine
end module

module own_kernel
  use, intrinsic :: iso_c_binding
  use driver
  use gpusched
  implicit none
  integer, parameter :: count = 500, threads = 128, blocks = ceiling(real(count) / threads)

  type :: piece
    real(c_float) :: values(count)
  end type

contains

  ! The context is current on this thread. Stream and memory belong to the callback until it
  ! returns.
  function squares(exec, user) bind(c) result(status)
    type(sched_exec_t), intent(in), target :: exec
    type(c_ptr), value :: user
    integer(c_int32_t) :: status
    type(piece), pointer :: mine
    type(c_ptr), target :: memory
    integer(c_int), target :: n
    real(c_float), target :: squared(count)
    type(c_ptr) :: module, kernel
    integer(c_int) :: finished
    character(len=40) :: why

    call c_f_pointer(user, mine)
    memory = sched_exec_memory(exec, 4_c_int64_t * count, status)
    if (status /= SCHED_OK) return
    ! The module belongs to the context. With many short tasks, load it once for each device.
    status = load(module, square)
    if (status == 0) then
      n = count
      status = find(kernel, module, "square" // c_null_char)
      if (status == 0) status = upload(memory, user, 4_c_size_t * count, exec%stream)
      if (status == 0) status = launch(kernel, blocks, 1, 1, threads, 1, 1, 0, exec%stream, &
        [c_loc(memory), c_loc(n)], c_null_ptr)
      if (status == 0) status = download(c_loc(squared), memory, 4_c_size_t * count, exec%stream)
      finished = wait(exec%stream)
      if (status == 0) status = finished
      finished = unload(module)
      ! Last, so that a retry finds the input unchanged.
      if (status == 0) mine%values = squared
    end if
    ! sched_run_fn in gpusched.h describes what follows each status.
    select case (status)
    case (0)
      status = SCHED_OK
    case (2)
      status = SCHED_E_MEMORY
    case (701)
      status = SCHED_E_RESOURCES
    case (700, 702, 716, 719)
      status = SCHED_E_DEVICE
    case default
      write (why, "(a, i0)") "CUDA driver: status ", status
      status = sched_exec_fail(exec, why)
    end select
  end function
end module

program kernel
  use, intrinsic :: iso_c_binding
  use own_kernel
  implicit none
  integer, parameter :: tasks = 8
  type(piece), target :: pieces(tasks)
  type(sched_scheduler) :: sched
  character(len=500) :: why
  integer(sched_task_t) :: ids(tasks)
  real(c_double) :: total
  integer :: i, k, stat

  why = ""
  call sched%create(devices="cuda", stat=stat, errmsg=why)
  if (stat == SCHED_E_NO_DEVICE) then
    print "(2a)", "left out: ", trim(why)
    stop 77
  end if
  if (stat /= SCHED_OK) error stop "no scheduler"
  call look_up()

  do i = 1, tasks
    pieces(i)%values = [(real((i - 1) * count + k, c_float), k = 0, count - 1)]
    call sched%submit(squares, ids(i), user=c_loc(pieces(i)), &
      options=sched_task_options(label="squares", device_bytes=4_c_int64_t * count))
  end do
  total = 0
  do i = 1, tasks
    call sched%wait(ids(i))
    total = total + sum(real(pieces(i)%values, c_double))
  end do
  print "(a, i0)", "sum of squares: ", nint(total, c_int64_t)
  call sched%destroy()
  if (nint(total, c_int64_t) /= 21325334000_c_int64_t) error stop "not the sum of squares"
end program
