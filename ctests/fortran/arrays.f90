! A shot refuses arrays that are not contiguous or not of its shape, and cells outside the model.
! Cells count from 1.
program arrays
  use, intrinsic :: iso_c_binding
  use gpusched
  use expectations
  implicit none
  type(sched_scheduler) :: sched
  type(sched_fd_model) :: model, stale
  type(sched_fd_shot) :: shot
  integer(sched_task_t) :: id
  type(sched_fd_shot_size_t) :: sizes(2)
  integer :: i, stat
  character(len=300) :: message
  character(len=:), allocatable :: warnings
  real, target, asynchronous :: vp(7, 8, 9), record(5, 72), snapshots(7, 8, 9, 2)
  real, target, asynchronous :: records(5, 144), flat(5 * 72)
  real, target, asynchronous :: lent(5, 144)
  real, target :: wide(10, 72), many(7, 8, 9, 4)
  real, pointer :: view(:, :)

  call sched%create(devices="cpu", slots=1)
  vp = 2000.0
  call model%create(vp, spacing_m=[10.0, 10.0, 10.0])
  shot = sched_fd_shot(nt=10, dt_s=1e-3, frequency_hz=30.0, record_every=2, source=[5, 5, 3], &
    plane_iz=2)

  lent = 7.0
  call refuses(lent(:, 1::2), "record is not contiguous; accepted: ")
  call expect(all(abs(lent - 7.0) <= 0.0), "a refused record is left alone")
  call refuses(wide(1::2, :), "record is not contiguous; accepted: ")
  call refuses(wide(:5, :), "record is not contiguous; accepted: ")

  call shoot(records(:, 73:))
  call shoot(record)
  call expect(all(abs(record - records(:, 73:)) <= 0.0), "a contiguous section is a record")
  view(1:5, 1:72) => flat
  call shoot(view)
  call expect(all(abs(record - view) <= 0.0), "a pointer to a contiguous array is a record")

  call refuses(records, "record has the shape (5, 144); accepted: (5, 72)")
  view(1:72, 1:5) => flat
  call refuses(view, "record has the shape (72, 5); accepted: (5, 72), which is (samples, traces)")
  call refuses(record(:, :0), "record has the shape (5, 0); accepted: (5, 72)")

  shot%snapshot_every = 5
  call shoot(record, snapshots)
  call refuses(record, "snapshots is not contiguous; accepted: ", many(:, :, :, 1::2))
  call refuses(record, &
    "snapshots has the shape (7, 8, 9, 4); accepted: (7, 8, 9, 2), which is (nz, nx, ny, snapshots)", many)

  shot%nt = 0
  call refuses(record, "nt is 0", snapshots)
  shot%nt = -3
  call refuses(record, "nt is -3; accepted: 0 or more")
  call model%shot_warnings(shot, warnings, stat=stat)
  call expect(stat == SCHED_E_ARGUMENT .and. len(warnings) == 0, "no warnings of a bad shot")
  shot%nt = 10
  shot%record_every = -2
  call refuses(record, "record_every is -2; accepted: 0 or more")
  shot%record_every = 2

  shot = sched_fd_shot(nt=10, dt_s=1e-3, frequency_hz=30.0, record_every=2, source=[8, 9, 7])
  allocate (shot%receivers(3, 2), source=1_c_int64_t)
  shot%receivers(:, 2) = [8, 9, 7]
  call shoot(lent(:, :2))
  call expect(all(abs(lent(4:, 1)) < abs(lent(4:, 2))), "the second receiver is at the source")
  shot%receivers = shot%receivers(:, 2:)
  call shoot(wide(:5, 7:7))
  call expect(all(abs(wide(:5, 7) - lent(:, 2)) <= 0.0), "a part of a column is a record of one trace")
  call refuses(wide(1::2, 7:7), "record is not contiguous; accepted: ")
  shot%snapshot_every = 10
  call shoot(wide(:5, 7:7), many(:, :, :, 3:3:2))
  shot%snapshot_every = 0
  shot%receivers = reshape([5, 5, 3, 8, 10, 7], [3, 2])
  call refuses(lent(:, :2), "receivers(2, 2) is 10; accepted: 1 to 9")
  shot%source(3) = 0
  call refuses(lent(:, :2), "source(3) is 0; accepted: 1 to 7")
  shot%source(3) = 1
  shot%receivers = shot%receivers(:2, :)
  call refuses(lent(:, :2), "receivers has the shape (2, 2); accepted: (3, count)")
  deallocate (shot%receivers)
  allocate (shot%receivers(3, 0))
  call refuses(record, "receivers has the shape (3, 0); accepted: (3, count)")
  deallocate (shot%receivers)
  allocate (shot%wavelet_samples(0))
  call refuses(record, "wavelet_samples has 0 samples; accepted: 1 to nt")
  deallocate (shot%wavelet_samples)
  shot%plane_iz = 8
  call refuses(record, "plane_iz is 8; accepted: 1 to 7")

  shot%plane_iz = 1
  shot%snapshot_every = 0
  call shoot(record)
  shot%wavelet_samples = [(0.0, i=1, 10)]
  call sched_fd_wavelet(SCHED_FD_WAVELET_RICKER, 30.0, 1e-3, shot%wavelet_samples)
  call shoot(records(:, :72))
  call expect(all(abs(record - records(:, :72)) <= 0.0), "a custom wavelet")
  vp(1, 1, 1) = 2100.0
  call model%create(vp, spacing_m=[10.0, 10.0, 10.0], rho_kg_m3=vp)
  call model%shot_size(shot, sizes(1))
  call model%create(vp, spacing_m=[10.0, 10.0, 10.0], rho_kg_m3=vp, storage_16_bit=.true.)
  call model%shot_size(shot, sizes(2))
  call expect(sizes(2)%device_bytes < sizes(1)%device_bytes, "16 bits take less memory")
  vp(:3, :, :) = 1600.0
  call model%create(vp, spacing_m=[10.0, 10.0, 10.0], rho_kg_m3=vp)
  call shoot(record)
  call model%create(vp, spacing_m=[10.0, 10.0, 10.0], rho_kg_m3=vp, density_at_cells=.true.)
  call shoot(records(:, :72))
  call expect(any(abs(record - records(:, :72)) > 0.0), "density at cells")
  call unstable()
  call model%create(0.001 * vp, spacing_m=[10.0, 10.0, 10.0], stat=stat)
  call expect(stat == SCHED_E_ARGUMENT, "km/s are refused")
  call model%create(vp, spacing_m=[10.0, 10.0, 10.0], rho_kg_m3=one(1800.0))
  call model%create(vp, spacing_m=[10.0, 10.0, 10.0], delta=vp(2:, :, :), stat=stat, errmsg=message)
  call expect(index(message, "delta has the shape") > 0, trim(message))
  call model%create(vp, spacing_m=[10.0, 10.0, 10.0], theta_rad=one(45.0), stat=stat, errmsg=message)
  call expect(index(message, "theta_rad is 45; accepted: -2 pi to 2 pi") > 0, trim(message))
  call model%create(vp, spacing_m=[10.0, 10.0, 10.0], phi_rad=one(90.0), stat=stat, errmsg=message)
  call expect(index(message, "phi_rad is 90; accepted: -2 pi to 2 pi") > 0, trim(message))
  call model%create(-vp, spacing_m=[10.0, 10.0, 10.0], stat=stat, errmsg=message)
  call expect(index(message, "count from 0") > 0, "the message states how cells are counted")
  call model%create(vp, spacing_m=[10.0, 10.0, 10.0], epsilon=one(0.1), equation=SCHED_FD_EQUATION_VTI, &
    stat=stat, errmsg=message)
  call expect(index(message, "delta is missing") == 1, "a message without cells: "//trim(message))
  call model%create(vp, spacing_m=[10.0, 10.0, 10.0], epsilon=one(0.1), stat=stat, errmsg=message)
  call expect(index(message, "epsilon is no property of acoustic1; accepted: vp, rho") == 1, trim(message))
  call model%create(vp, spacing_m=[10.0, 10.0, 10.0], epsilon=one(0.1), delta=one(0.2), equation=SCHED_FD_EQUATION_VTI, &
    stat=stat, errmsg=message)
  call expect(index(message, "epsilon is 0.1; accepted: delta, which is 0.2") == 1, trim(message))
  call model%shot_warnings(shot, warnings, stat=stat)
  call expect(stat == SCHED_E_ARGUMENT, "no warnings without a model")
  call model%create(0.001 * vp, spacing_m=[10.0, 10.0, 10.0], any_values=.true.)
  shot%snapshot_every = shot%nt
  shot%source(3) = 7
  call model%shot_warnings(shot, warnings)
  call expect(index(warnings, "count from 0") > 0 .and. index(warnings, "below cell 6 of 7") > 0, "a warning of a cell: "//warnings)
  shot%source(3) = 1
  call model%shot_warnings(shot, warnings)
  call expect(index(warnings, "snapshots are") == 1, "a warning of snapshots")
  deallocate (warnings)
  shot%source_kind = SCHED_FD_SOURCE_FORCE_Z
  call model%shot_warnings(shot, warnings)
  shot%source_kind = 9
  call model%shot_warnings(shot, warnings, stat=stat, errmsg=message)
  call expect(index(message, "source_kind is 9; accepted: 0 (pressure)") > 0, trim(message))
  if (allocated(warnings)) deallocate (warnings)

  call sched%destroy()
  stale = model
  call model%destroy()
  call stale%destroy(stat, message)
  call expect(stat == SCHED_E_STALE, "a model is destroyed once: "//trim(message))
contains
  pure function one(value) result(values)
    real, intent(in) :: value
    real :: values(1, 1, 1)
    values = value
  end function

  ! A density that jumps from cell to cell makes a shot unstable.
  subroutine unstable()
    real, target :: rho(7, 8, 9)
    real(c_double) :: dt_s
    integer :: ix, iy, iz
    character(len=:), allocatable :: text
    type(sched_fd_shot) :: long
    do concurrent (iz=1:7, ix=1:8, iy=1:9)
      rho(iz, ix, iy) = merge(1000.0, 3000.0, mod(iz + ix + iy, 2) == 0)
    end do
    call model%create(0 * vp + 2000, spacing_m=[10.0, 10.0, 10.0], rho_kg_m3=rho, density_at_cells=.true.)
    long = sched_fd_shot(nt=100, dt_s=0, frequency_hz=30.0, record_every=20, source=[5, 5, 3], plane_iz=2)
    call model%dt_max(dt_s)
    long%dt_s = real(dt_s)
    call sched%submit_shot(model, long, record, id)
    call sched%wait(id, stat=stat, errmsg=message)
    call expect(stat == SCHED_E_UNSTABLE .and. index(message, "count from 0") > 0, "where it is unstable: "//trim(message))
    text = sched%task_error(id)
    call expect(index(text, "count from 0") > 0 .and. index(text, "cell [") > 0, "the error has it, too: "//text)
    long%wavelet_samples = [1.0, sqrt(-abs(vp(1, 1, 1)))]
    call sched%submit_shot(model, long, record, id, stat=stat, errmsg=message)
    call expect(index(message, "count from 0") > 0 .and. index(message, "samples[1] is NaN") > 0, trim(message))
  end subroutine

  subroutine shoot(record, snapshots)
    real, target, asynchronous, intent(inout) :: record(:, :)
    real, target, asynchronous, intent(inout), optional :: snapshots(:, :, :, :)
    call sched%submit_shot(model, shot, record, id, snapshots)
    call sched%wait(id)
  end subroutine

  subroutine refuses(record, text, snapshots)
    real, target, asynchronous, intent(inout) :: record(:, :)
    character(len=*), intent(in) :: text
    real, target, asynchronous, intent(inout), optional :: snapshots(:, :, :, :)
    call sched%submit_shot(model, shot, record, id, snapshots, stat=stat, errmsg=message)
    call expect(stat == SCHED_E_ARGUMENT .and. id == 0, "refused, and no task: "//text)
    call expect(index(message, text) > 0, text//" is not in: "//trim(message))
  end subroutine
end program
