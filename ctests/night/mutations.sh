#!/bin/bash
# Applies one hand-written edit at a time to a copy of the sources and runs the tests that should
# fail. Covers protocols and kernels; ctests/night/mutants covers the rest of src. Ends with 1 if an
# edit goes unnoticed.
#
#   ctests/night/mutations.sh          all edits
#   ctests/night/mutations.sh WORD     those whose name matches the regular expression WORD
#   ctests/night/mutations.sh --check  only whether each edit changes its file, each filter is in
#                                      the name of a test
#
# The copy and its build are in target/mutations.
set -eu
cd "$(dirname "$0")/../.."
work=$PWD/target/mutations
export CARGO_TARGET_DIR=$work/build

# name; file; sed expression; arguments of cargo test
mutations='
stencil: a coefficient is off by 1e-5;      src/fd/stencil.rs;   s/-0.0797526/-0.0797626/;                  --test it golden_cases::iso1_h
layer: velocity profile not staggered;      src/fd/pml.rs;       s/profile(0.5)/profile(0.0)/;              --test it golden_cases::iso1_h
layer: a tenth less damping;                src/fd/pml.rs;       s/(10.0 \* f64/(9.0 * f64/;                --test it golden_cases::iso1_h
layer: thrice the spacing of a fine axis;      src/fd/pml.rs;       s/WIDEST: f64 = 2.0/WIDEST: f64 = 3.0/; --test numerics normal_incidence
tti: the sponge counts cells that are never updated; src/fd/equation/tti/sponge.rs; s/1..=layout.width()/1..=layout.pml/; --lib stated_amplitude
layer: damping from the centre cell;        src/fd/pml.rs;       s|ny \* nx \* nz / 2|(ny / 2 * nx + nx / 2) * nz + nz / 2|; --test it golden_cases::iso1_h
source: poles one cell apart;               src/fd/inject.rs; s/(2, 1.0)/(1, 1.0)/; --test it golden_cases::iso1_w
source: one cell aside;                     src/fd/tiled/source.rs; s/\[x, y, z + depth\]/[x + 1, y, z + depth]/; --test it golden_cases::iso1_w
source: amplitude turned over;              src/fd/inject.rs; s/(0, -1.0), (2, 1.0)/(0, 1.0), (2, -1.0)/; --test numerics analytic::a_record
wavelet: time begins at 0;                  src/fd/wavelet.rs;   s/successors(Some(dt)/successors(Some(0.0)/; --test it golden_cases::iso1_w
wavelet: exact time, not summed;            src/fd/wavelet.rs;   s/t <= end/t < end + 0.5 * dt/;            --test numerics wavelets::
medium: velocity of another cell;           src/fd/one_pass/coefficients.rs; s/rho.at(i) \* vp.at(i) \* vp.at(i)/rho.at(i) * vp.at(i) * vp.at(0)/; --test numerics edges::grids
density: that of the cell along z;          src/fd/one_pass/pass.rs; s/b.wrapping_add(beside))/b.wrapping_add(0 * beside))/; --test numerics density_interface
density: that of the cell along x and y;    src/fd/one_pass/flux_xy.rs; s/Some(_) => b\[u + 1\]/Some(_) => b[u]/; --test numerics density_interface
density: old entry points take the mean;    src/legacy/run.rs; s/with_density_at(DensityAt::Cells)/with_density_at(DensityAt::HalfPoints)/; --test it golden_cases::iso1_hetero
density: the margin is not continued;       src/fd/edge_field.rs; s/values\[at + active.end..end\].fill(last)//; --lib nothing_moves
vti: the vertical flux is that of the first pressure; src/fd/one_pass/pass.rs; s/stencil, len, p: p\[1\]/stencil, len, p: p[0]/; --test numerics edges::odd
vti: the couplings are exchanged;      src/fd/equation/vti/mod.rs      ; s/L::fma(e, xy, L::mul(s, z))/L::fma(s, xy, L::mul(e, z))/; --test numerics edges::odd
tti: the azimuth turns towards y; src/fd/equation/tti/coefficients.rs; s/-theta.sin() \* phi.sin()/theta.sin() * phi.sin()/; --test numerics elliptical
anisotropy: S has 0.9 of delta; src/fd/anisotropy.rs; s/= .value: f32. stretch(value).sqrt()/= |value: f32| stretch(0.9 * value).sqrt()/; --test numerics elliptical
acoustic2: the sponge damps a twelfth; src/fd/equation/acoustic2/sponge.rs; s/STRENGTH: f64 = 0.25/STRENGTH: f64 = 0.02/; --test numerics dies_away
vti: the ball around the source is a cell smaller; src/fd/anisotropy.rs; s/ISOTROPIC: f32 = 4.0/ISOTROPIC: f32 = 3.0/; --test it golden_cases::vti_homog
one pass: a velocity beside the middle lost; src/fd/tiled/tiles.rs; s/middle.start + HALF_WIDTH - 1).min/middle.start).min/; --test it golden_cases::iso1_h
tiles: the source stays in the pressure; src/fd/tiled/copies.rs; s/source.is_in(row)/source.is_in([x + 1, y])/; --test it golden_cases::iso1_h
one pass: tiles share a velocity of a narrow middle; src/fd/one_pass/fields.rs; s/(1..FLUX_PLANES).contains/(1..1).contains/; --lib no_bit_depends
one pass: the ends of y are cut;         src/fd/tiled/tiles.rs; s/, usize::MAX\]/, planes]/; --lib no_bit_depends
one pass: the ends of rows not damped;  src/fd/one_pass/flux_z.rs; s/self.damped.contains(&i)/false/; --test it golden_cases::iso1_h
one pass: too few fluxes are held;  src/fd/one_pass/scratch.rs; s/PLACES: usize = FLUX_PLANES/PLACES: usize = FLUX_PLANES - 1/; --test it golden_cases::iso1_h
one pass: fluxes that are at rest move; src/fd/one_pass/flux_xy.rs; s/j < self.c.layout.active(line.axis).end/j < self.c.layout.active(line.axis).end + 1/; --test kernels shots_of_odd_sizes
one pass: rows of two kinds are done together; src/fd/one_pass/flux_xy.rs; s/(1..ROWS_PER_BLOCK).all(/(1..1).all(/; --lib no_bit_depends
one pass: cells are taken to be at rest too long; src/fd/tiled/activity.rs; s/MARGIN: usize = 2/MARGIN: usize = 1/; --lib cells_at_rest
one pass: the source does not end the rest; src/fd/tiled/steps.rs; s/if value != 0.0/if false/; --lib cells_at_rest
one pass: other tiles forget the wave;  src/fd/tiled/activity.rs; s/boxes.iter().filter_map(within)/boxes.iter().skip(1).filter_map(within)/; --lib cells_at_rest
tuning: the stored winner is ignored;   src/fd/tiled/tuning.rs; s/position(|name| \*name == found)/position(|_| false)/; --lib tuning
tuning: threads are not in the subject; src/fd/tiled/tuning.rs; s/, {threads} threads"/"/; --lib tuning
tuning: short shots tune;               src/fd/tiled/tuning.rs; s/{ LAP } else { PAYS \* most }/{ LAP } else { LAP }/; --lib tuning
tuning: steps with few cells are timed; src/fd/tiled/tuning.rs; s/activity.share() < BUSY/activity.share() < 0.0/; --lib tuning
tuning: a slow candidate wins;          src/fd/tiled/autotuner.rs; s/min_by(|&a/max_by(|\&a/; --lib autotuner
denormals: kept in a step on the CPU; src/fd/tiled/steps.rs; s/FloatMode::flushing()/FloatMode::standard()/; --lib denormal_numbers_are_flushed
denormals: kept in the source of a shot on a GPU; src/fd/inject.rs; s/FloatMode::flushing()/FloatMode::standard()/; --lib source_pressures
one pass: a resumed shot is taken to be at rest; src/fd/time_loop/cpu.rs; s/steps.resumed()/()/; --test numerics flushing
exact time: a step aside;                   src/fd/exact_time.rs; s/first: 1, every/first: 0, every/;         --test numerics accuracy
exact time: the wavelet as it is;           src/fd/shot.rs;      s/exact_time::warped_wavelet(shot)?/shot.wavelet.clone()/; --test numerics accuracy
exact time: snapshots are taken;            src/fd/exact_time.rs; s/let Some(every) = shot.snapshot_every/let Some(every) = shot.snapshot_every.filter(|_| false)/; --features cli --test command bad_surveys
source: a monopole has another power of h;  src/fd/source.rs;    s/modulus(cell) \/ volume/modulus(cell) \/ h[0].powi(2)/; --test numerics sources
source: a force has another power of h;     src/fd/source.rs;    s/(h\[axis\] \* volume)/volume/;               --test numerics sources
source: a force acts as a rate;              src/fd/source.rs;    s/if axis.is_some() { Box/if axis.is_none() { Box/; --test numerics sources
source: rates are those of a step later;    src/fd/source.rs;    s/dt \* (after(n) - /dt * (after(n + 1) - /;   --test numerics sources
source: poles are two hundredths too strong;src/fd/source.rs;    s/(factor \* scale) as f32/(1.02 * factor * scale) as f32/; --test numerics sources
source: acoustic2 has the other sign;       src/fd/equation/acoustic2/mod.rs; s/^        -1.0$/        1.0/;      --test numerics sources
wavelet: a cut one goes on;                 src/fd/wavelet.rs;   s/samples.push(0.0)/()/;                        --test numerics a_cut_wavelet
wavelet: whole ones are cut;                src/fd/wavelet.rs;   s/else { 2.5 }/else { 2.0 }/;                   --test numerics wavelets
mute: a step short;                         src/fd/verify.rs;    s/saturating_add(60)/saturating_add(59)/;            --test it _mute
leases: ended members are taken for living;       src/node/linux/file_lock.rs;    s/extend(from\.\.to)/extend(begin..end)/; --test node killed
leases: the table lock never blocks;            src/node/linux/file_lock.rs;    s/Ok(false) => {}/Ok(false) => return Ok(()),/; --test node eight
leases: a child keeps what its parent had;  src/node/linux/sys.rs;     s/if descriptor >= 0 {/if descriptor >= 1_000_000 {/; --test node child
leases: the end of a process is not reported;               src/node/linux/sys.rs;     s/libc::IN_MODIFY | libc::IN_CLOSE_WRITE/libc::IN_MODIFY/; --test node inotify
leases: links are followed;                 src/node/linux/sys.rs;     s/| libc::O_NOFOLLOW//;                     --test node file
leases: tickets are ignored;          src/node/queue.rs;    s/self.member.ticket, self/0, self/;     --lib node::queue
leases: a ticket ends with any lease;  src/node/queue.rs;    s/others.iter().any(uses) ||/true ||/;     --test node ticket_ends
leases: gained priority counts;        src/sched/plan/record.rs; s/saturating_sub_unsigned(self.priority_gain)/saturating_sub_unsigned(0)/; --lib slot_request_has
leases: stopped waiters are waited for;       src/node/queue.rs;    s/now.saturating_sub(\*since) > limit/*since == u64::MAX/; --lib node::queue
leases: members with fewer slots starve;      src/node/queue.rs;    s/is_none_or(|(tightest, _)| slots < tightest)/is_some()/; --lib node::queue
place: a mask is not looked at;               src/sched/plan/record.rs;  s/devices.contains(index) && (b/true \&\& (b/; --test it random_worlds::
place: memory is not asked for;             src/sched/plan/schedule.rs; s/bytes <= device.unleased_bytes()/bytes <= device.ledger.limit()/; --test it random_worlds::
place: the first device, not the best;      src/sched/plan/schedule.rs;   s/!best.as_ref().is_some_and/best.as_ref().is_none() \&\& !best.as_ref().is_some_and/; --test it schedules::
place: a large task is passed for ever;     src/sched/base/policy.rs; s/patience: u32 = 8/patience: u32 = 8000/; --lib simulation::tests::a_large_task
place: a slow device never comes back;      src/sched/base/policy.rs; s/probe_tasks: f64 = 10.0/probe_tasks: f64 = 1e9/; --lib plan::tests
place: an unknown device gets the largest;  src/sched/plan/placement.rs; s/work < least/work > least/;          --lib simulation::tests::an_unknown_device
copies: none is ever started;               src/sched/plan/timers.rs; s/record.idempotent$/false/;             --test it schedules::
copies: tasks that may not run twice;       src/sched/plan/timers.rs; s/record.idempotent$/true/;              --test it random_worlds::
copies: late tasks take idle GPUs of others;   src/sched/plan/placement.rs; s/runs(index) || self.is_left_to_peers(index)/runs(index)/; --lib late_attempt_gets_no
abandoned: it can still commit;              src/sched/plan/timers.rs; s/record.signal.bar(attempt)/false/;      --lib abandoned_attempt_can
copies: more than three;                    src/sched/base/policy.rs; s/copies: u32 = 3/copies: u32 = 9/;     --lib plan::tests
retire: queued tasks are left behind;       src/sched/plan/device_health.rs; s/self.ready.confined_to(self.retired)/Vec::new()/; --test it random_worlds::
after: what comes before is not waited for; src/sched/plan/planner.rs;  s/None if behind.insert(before) =>/None if false =>/; --test it random_worlds::
poison: the guilty is not found;            src/sched/base/policy.rs;   s/poisoned_contexts: u32 = 2/poisoned_contexts: u32 = 9/; --lib plan::tests
poison: both are retried in one context;    src/sched/plan/schedule.rs; s/if !may_poison(record)/if true/;          --lib plan::tests
poison: a GPU that poisons is kept;        src/sched/base/policy.rs;   s/suspects: usize = 2/suspects: usize = 999/;    --lib simulation::tests::
poison: all are found guilty;               src/sched/base/policy.rs;   s/faulty_tasks: u32 = 3/faulty_tasks: u32 = 999/; --lib plan::tests
lost: a task may lose every GPU;           src/sched/base/policy.rs;   s/lost_devices: u32 = 3/lost_devices: u32 = 9/; --lib plan::tests
short: again in company;                    src/sched/plan/completion.rs; s/self.devices\[index\].reserved_for = Some(id)/_ = 0/; --lib plan::tests
retry: on the same device;                  src/sched/plan/completion.rs; s/record.avoided_devices = DeviceMask::only(index)/_ = 0/; --lib plan::tests
cancel: a task that ends well is done;      src/sched/plan/completion.rs; s/(|record| record.signal.commit(run.number).is_ok())/(|record| record.signal.commit(run.number).is_ok() || true)/; --lib plan::tests
late: nothing ever is;                      src/sched/base/policy.rs; s/late_factor: f64 = 5.0/late_factor: f64 = 1e9/;     --lib simulation::tests::
late: nothing begins again;                 src/sched/plan/timers.rs;  s/soonest.is_some_and(|soonest| soonest > ran)/false/; --lib simulation::tests::
late: what hangs is waited for;             src/sched/plan/timers.rs;  s/DeadlineState::Stopping(_) => DeadlineState::Lost/DeadlineState::Stopping(_) => return/; --lib plan::tests
back-off: its end passes unnoticed;         src/sched/plan/timers.rs; s/device.backoff.iter().for_each(|backoff| due(backoff.until))\x3b//; --lib end_of_a_back_off
back-off: short memory is not waited for;    src/sched/base/policy.rs; s/S, 4 \* S, 16 \* S/MS, MS, MS/; --lib plan::tests
ageing: none;                               src/sched/base/policy.rs; s/ageing: f64 = 10.0/ageing: f64 = 1e9/;  --lib simulation::tests::
rates: nothing is learned;                  src/sched/estimate/estimator.rs;  s/policy.fade + counted/policy.fade + 0.0 * counted/;   --lib estimator
rates: an odd sample is believed;           src/sched/base/policy.rs;  s/surprise: f64 = 4.0/surprise: f64 = 1e9/; --lib estimator
rates: a warm-up is believed;               src/sched/base/policy.rs;  s/warm_up: f64 = 1.5/warm_up: f64 = 1e9/; --lib estimator
rates: nothing fades;                       src/sched/base/policy.rs;  s/fade: f64 = 0.95/fade: f64 = 1.0/;    --lib estimator
ids: a released one means another task;     src/sched/base/registry.rs; s/id == self.id(slot.generation, position)/id == self.id(unpack(id).1, position)/; --lib base::registry
ranges: two participants have a chunk;          src/sched/range/division.rs; s/self.give_back(end..part.end)/self.give_back(part.clone())/; --lib division
ranges: what failed is not done again;      src/sched/range/work.rs; s/state.partitioner.give_back(chunk.clone())/_ = \&chunk/; --test scheduler ranges
wait: no other worker has the slot;         src/sched/plan/slots.rs; s/let waiting = self.waiting_slots as usize + /let waiting = 0 * /; --test scheduler nested
wait: peers come before the awaited task;   src/sched/plan/slots.rs; s/running < self.owned_slots || //; --test scheduler shared_devices
wait: a circle is not found;                src/sched/sleep/wait_graph.rs;  s/is_some_and(|\&missing| missing > 0)/is_none()/; --lib wait_graph
wait: for all is over at once;              src/sched/api/scheduler.rs; s/seen.done.then_some(())/Some(())/; --test scheduler wait_times_out
order: any that has ended;                  src/sched/api/scheduler.rs; s/ordered.pop_front()/ordered.pop_back()/; --test scheduler stress
sleep: the second look comes too early;     src/sched/sleep/event_count.rs;   /pub fn prepare_sleep/,/^    }/s/fence(Ordering::SeqCst)/()/; models
sleep: a call looks too early;              src/sched/sleep/event_count.rs;   /pub fn wake_any/,/^    }/s/fence(Ordering::SeqCst)/()/; models
sleep: a notified waiter stays counted;         src/sched/sleep/wait_queues.rs; s/parker.notify(|state| self.uncount(state))/parker.notify(|_| ())/; models
sleep: a waiter counts before it has looked;    src/sched/sleep/wait_queues.rs; s/if !state.notified \&\& !std/if !std/; models
sleep: blocked waiters are not notified;        src/sched/sleep/wait_queues.rs; /pub fn notify_blocked/,/^    }/s/if self.blocked/if false \&\& self.blocked/; models
epochs: a closed one is not put back;      src/sched/light/epochs.rs; s/if self.current.load(Ordering::SeqCst) != epoch {/if false {/; models
epochs: a drained one is not published;        src/sched/light/epochs.rs; s/before >= EPOCHS || list.open.len() < before/before >= EPOCHS/; models
gate: the worker does not look again;       src/sched/light/gate.rs; s/^        !self.is_closed(device)$/        true/; models
gate: the planner looks before it closes;   src/sched/light/gate.rs; s/self.closed.fetch_or(1 << device, Ordering::SeqCst)/let runs_light = (|found: bool| move || found)((runs_light(), &).0)/; models
gate: a worker that leaves wakes nobody;    src/sched/light/gate.rs; /pub fn leave/,/^    }/s/self.is_closed(device) || /false \&\& /; models
followers: a light task that has ended is waited for; src/sched/light/task.rs; s/state.followed |= outcome.is_none()/return Ok(None)/; models
followers: an end is not reported;          src/sched/light/task.rs; s/state.followed |= outcome.is_none()/_ = \&mut state/; models
promotion: a cancel meanwhile is overlooked; src/sched/light/task.rs; /pub fn promote(/,/^    }/s/self.signal.is_cancelled()/false/; models
epochs: a thread that joins is overlooked;            src/sched/light/epochs.rs; /pub fn add_counts/,/^    }/s/self.nearly_drained.store(true, Ordering::SeqCst)/_ = \&self.nearly_drained/; models
handles: a removed object is found;          src/ffi/handle.rs; s/last.token == token \&\& last.removed == removed/last.token == token/; --lib handle
ends: a thread that waits is not notified;  src/sched/plan/access.rs; s/record.awaited = true/_ = \&record/; --lib end_is_reported
ends: code of the caller keeps the lock;    src/sched/base/exec.rs; s/needs_drop::<Self>()/needs_drop::<u8>()/; --lib only_callers_code
shortage: one attempt at a time after it; src/sched/plan/completion.rs; s/attempts\.len() as u32).max(1)/attempts.len() as u32).clamp(1, 1)/; --lib shortage_limits
back-off: a busy device is asked at once; src/sched/plan/schedule.rs; s/if device.backs_off(self.now, .*) {/if false {/; --lib busy_device
late: the log says nothing; src/sched/plan/timers.rs; s/^        self.note(Level::Warn, index, text, effects)/        _ = text/; --lib late_attempt
late: the log does not name the copy; src/sched/plan/timers.rs; s/(_, true) => ".*"/(_, true) => ""/; --lib late_attempt
late: an attempt is late again and again; src/sched/plan/timers.rs; s/deadline_state = DeadlineState::Late\x3b/deadline_state = DeadlineState::InTime(Some(now + ran))\x3b/; --lib late_attempt
devices: the CPU replaces GPUs against the variable; src/sched/api/builder.rs; s/"0" => false/"0" => true/; --test cuda cpu_fallback
devices: a 65th device has no bit in a mask; src/sched/api/builder.rs; s/found.len() > MAX_DEVICES/found.len() > 1000/; --test scheduler scheduler_of_more_than
slots: auto means one; src/sched/api/builder.rs; s/"auto" => Ok(AUTO_SLOTS)/"auto" => Ok(1)/; --lib slots_variable
slots: the variable is not read; src/sched/api/builder.rs; s/parse_slots(\&environment("GPUSCHED_SLOTS"))/parse_slots("")/; --test cuda slots_variable
host: limits of control groups are ignored; src/backend/cpu/host.rs; s/"memory.max"/"memory.high"/; --lib memory_is
host: limits of outer control groups are ignored; src/backend/cpu/host.rs; s/\.take_while(|folder| folder.starts_with(&mount))/.take(1)/; --lib memory_is
host: cached files are not free memory; src/backend/cpu/host.rs; s/saturating_sub(cached_bytes(folder))/saturating_sub(0 * cached_bytes(folder))/; --lib memory_is
host: shared controllers of version 1 are ignored; src/backend/cpu/host.rs; s/any(|c| c == "memory")/all(|c| c == "memory")/; --lib memory_is
leases: network file systems are accepted; src/node/linux/folder.rs; s/\*number == system)/*number == system \&\& false)/; --lib network_file_system
leases: a stopped waiter loses its place; src/node/linux/leases.rs; s/> self.member.policy.stall_ns()/> 2 * self.member.policy.stall_ns()/; --test node stopped_waiter
leases: without inotify nothing is checked; src/node/linux/listener.rs; s/longest.min(UNWATCHED)/longest/; --test node member_without_inotify
sampling: the narrowest cells count; src/fd/verify.rs; s/fold(0.0, f32::max)/fold(f32::INFINITY, f32::min)/; --lib widest_cells
C shots: a shot with a drop function has copies; src/ffi/fd_submit.rs; s/idempotent && (about.drop.is_none() || task.idempotent)/idempotent/; --lib shot_with_a_drop
C shots: shots share the class 0 of the caller; src/ffi/submit.rs; s/if desc.task_class != 0/if true/; --lib shot_keeps_its_class
C progress: the default interval is a minute; src/ffi/observability.rs; s/INTERVAL: Duration = Duration::from_secs(1)/INTERVAL: Duration = Duration::from_secs(60)/; --lib interval_of_progress
layers: two files import from each other; src/io/floats.rs; 0,/^use /s//use super::raw as _\x3b\nuse /; --test it layers::
files: a folder that may not be read is an error; src/io/atomic.rs; s/PermissionDenied => return Ok(())/PermissionDenied => return Err(error)/; --lib unreadable_folder
legacy: the record is named without a snapshot; src/legacy/files.rs; s/try_for_each(Sealed::commit)?/try_for_each(Sealed::commit).or(Ok::<(), Error>(()))?/; --lib record_is_not_named
legacy: the tilt is read from the file of the azimuth; src/ffi/legacy.rs; s/("theta", theta)/("theta", psi)/; --test it bad_calls
legacy: a strict number names the CPU beside GPUs; src/legacy/device.rs; s/gpus == (device.backend != BackendKind::Cpu)/true/; --lib strict_number
survey: all sources stand in one row; src/bin/gpusched/positions.rs; s/first\[1\] + iy \* step\[1\]/first[1] + 0 * iy * step[1]/; --features cli --test command sources_form
survey: a duration is rounded down; src/bin/gpusched/job.rs; s/(duration \/ f64::from(dt)).round()/(duration \/ f64::from(dt)).floor()/; --features cli --test command duration_is
survey: a Gaussian has another name; src/bin/gpusched/survey.rs; s/^    Gaussian,/    #[serde(rename = "gauss")] Gaussian,/; --features cli --test command wavelet_shape
survey: km/s and g/cm3 are accepted; src/fd/warnings.rs; s/|&largest| largest < least/|_| false/; --features cli --test command bad_surveys
eta: a stored rate counts for ever; src/sched/plan/report.rs; s/min(1.0) \* (measured - rate)/min(0.0) * (measured - rate)/; --lib eta_follows
command: init overwrites a file; src/descriptor.rs; s/create_new(true)/create(true)/; --features cli --test command survey_of_init
command: a dry run leaves the folder; src/bin/gpusched/folder.rs; s/drop(fs::remove_dir(folder))/drop(folder)/; --features cli --test command files_are_made_only
command: quiet runs print the summary; src/bin/gpusched/say.rs; s/if is_quiet() {/if false {/; --features cli --test command quiet_run
survey: no warning of a late wavelet; src/fd/warnings.rs; s/if centre > end {/if false {/; --features cli --test command doubtful_surveys
survey: no warning of a single snapshot; src/fd/warnings.rs; s/filter(|&every| every >= shot.nt)/filter(|\&every| every > shot.nt)/; --lib each_mistake
command: shots are computed for a full disk; src/bin/gpusched/output.rs; s/if self.short.load(Ordering::Relaxed) {/if false {/; --features cli --test command not_computed
command: held devices are named to runs that do not wait; src/bin/gpusched/progress.rs; s/now.counts.queued > 0 \&\& //; --features cli --bin gpusched progress_line
command: cancelled shots are done; src/bin/gpusched/progress.rs; s/now.work_done - now.work_lost/now.work_done/; --features cli --bin gpusched progress_line
command: events do not name held devices; src/bin/gpusched/progress.rs; s/"held_by_others": held.*,/"held_by_others": [],/; --features cli --bin gpusched progress_event
kernels: snapshots are indexed with 32 bits; kernels/ptx/field.ptx; /entry field_snapshot/,/^}/s/shl.b64 \t%rd26, %rd25, 2/cvt.u32.u64 \t%r19, %rd25\x3b mul.wide.s32 \t%rd26, %r19, 4/; --test kernels snapshot_of_a_grid
kernels: a product is rounded before it is added; kernels/grid.cuh; s/fmaf(stencil\[3\], f\[7\] - f\[0\], s)/stencil[3] * (f[7] - f[0]) + s/; --test kernels shots_of_odd_sizes
kernels: the last cell of the model is not used; kernels/grid.cuh; s/min(max(index - k.pml, 0), k.axis\[axis\].inner - 1)/min(max(index - k.pml, 0), max(k.axis[axis].inner - 2, 0))/; --test kernels shots_of_odd_sizes
kernels: a layer begins two cells too far; kernels/grid.cuh; s/index < far ? -1/index <= far + 1 ? -1/; --test kernels shots_of_odd_sizes
kernels: a snapshot is one cell aside; kernels/field.cu; s/y + k.pml, z + k.pml/y + k.pml, z + k.pml + 1/; --test kernels shots_of_odd_sizes
kernels: one pass rounds a product before it is added; kernels/one_pass_march.cuh; s/a = fmaf(square_x, derivative_x, a)/a = square_x * derivative_x + a/; --test kernels shots_of_odd_sizes
kernels: one pass rounds an increment twice; kernels/one_pass_march.cuh; s/fmaf(kappa, a, undamped\[0\]\[c\])/kappa * a + undamped[0][c]/; --test kernels shots_of_odd_sizes
kernels: one pass subtracts a split pressure; kernels/one_pass_cells.cuh; s/\*split = old + c\x3b/*split = old - c\x3b/; --test kernels shots_of_odd_sizes
kernels: one pass has the density of the cell along x; kernels/one_pass_march.cuh; s/halfway(b_here\[i\], !step /halfway(b_here[i], true /; --test kernels shots_of_odd_sizes
kernels: one pass has the density of the cell along y; kernels/one_pass_march.cuh; s/load_b_rows(before, y)/load_b_rows(before, y + step)/; --test kernels shots_of_odd_sizes
kernels: one pass has the density of the cell along z; kernels/one_pass_march.cuh; s/step ? make_float2(b_z\[r\].y, after) : b_z\[r\]/b_z[r]/; --test kernels shots_of_odd_sizes
kernels: vti adds the increment of z to p without S; kernels/vti_one_pass.cu; s/mixing\[1\] \* increments\[1\]/increments[1]/; --test kernels shots_of_odd_sizes
kernels: vti has the medium of the model around its source; kernels/one_pass_march.cuh; s/if (pml_x \&\& pml_z)$/if (false)/; --test kernels shots_of_odd_sizes
kernels: one pass loses a pole of the source; kernels/one_pass_march.cuh; s/if (has_source \&\& source.there)/if (has_source \&\& source.there \&\& point)/; --test kernels shots_of_odd_sizes
kernels: one pass loses a pole in another tile; kernels/one_pass_march.cuh; s/z + c == source.z + Equation::APART ? 1/z + c == source.z + Equation::APART \&\& source.z >= tile.z ? 1/; --test kernels dipole_across
kernels: a dipole has one sign; kernels/tile.cuh; s/(point ? value : -value)/(point ? value : value)/; --test kernels shots_of_odd_sizes
kernels: one pass keeps too few planes; kernels/one_pass_march.cuh; s/if (y >= tile.keep \&\& y < tile.keep_end)/if (y >= tile.keep \&\& y + 1 < tile.keep_end)/; --test kernels shots_of_odd_sizes
kernels: one pass has the far zone one cell aside; kernels/layer.cuh; s/zone.near_end - HALF_WIDTH + index - zone.far_begin/zone.near_end - HALF_WIDTH - 1 + index - zone.far_begin/; --test kernels shots_of_odd_sizes
kernels: acoustic2 multiplies by the sponge once; kernels/acoustic2_one_pass.cu; s/fmaf(-g, before, p + p)/p + p - before/; --test kernels shots_of_odd_sizes
kernels: acoustic2 loses a source beside the first row; kernels/acoustic2_one_pass.cu; s/row < 0 || row >= ROWS/row != 0/; --test kernels shots_of_odd_sizes
kernels: acoustic2 has one plane in shared memory; kernels/acoustic2_one_pass.cu; s/s.p\[y \& 1\]/s.p[0]/; --test kernels shots_of_odd_sizes
kernels: acoustic2 writes beyond the updated cells; kernels/acoustic2_one_pass.cu; s/if (z + 1 < nz - HALF_WIDTH)/if (true)/; --test kernels shots_of_odd_sizes
kernels: acoustic2 takes phi of the far layer one cell aside; kernels/acoustic2_one_pass.cu; s/: own.begin - own.end/: own.begin - own.end + 1/; --test kernels shots_of_odd_sizes
kernels: tti adds the divergence along the axis; kernels/tti.cu; s/fmaf(-rate, divergence\[0\]/fmaf(rate, divergence[0]/; --test kernels shots_of_odd_sizes
kernels: tti divides by the sponge once; kernels/tti.cu; s/return {a, (1.0f - r) \* a}/return {a, 1.0f - r}/; --test kernels shots_of_odd_sizes
kernels: tti has no damping along y in plain tiles; kernels/tti.cu; s/factors(PLAIN ? r_y :/factors(PLAIN ? 0.0f :/; --test kernels shots_of_odd_sizes
kernels: tti takes four rows of a layer to be undamped; kernels/tti.cu; s/begin + cells <= k.pml/begin + cells - HALF_WIDTH <= k.pml/; --test kernels shots_of_odd_sizes
kernels: tti has one plane of pressures; kernels/tti.cu; s/s.f\[y \& 1\]/s.f[0]/; --test kernels shots_of_odd_sizes
kernels: tti takes the fluxes of the next plane; kernels/tti.cu; s/= s.own\[y % HALF_WIDTH\]/= s.own[(y + 1) % HALF_WIDTH]/; --test kernels shots_of_odd_sizes
kernels: tti has the vector of its own row beside a tile; kernels/tti.cu; s/coefficient<false>(k, NX, place.side_x/coefficient<false>(k, NX, x/; --test kernels shots_of_odd_sizes
kernels: tti has n_x at the ends of rows; kernels/tti.cu; s/coefficient<PLAIN>(k, NZ, place.end_x/coefficient<PLAIN>(k, NX, place.end_x/; --test kernels shots_of_odd_sizes
kernels: tti has the medium of the model around its source; kernels/tilted_stages.cuh; s/ \&\& !has_cube(k.cube, tile)//; --test kernels shots_of_odd_sizes
kernels: tti updates a pressure with its source; kernels/tti.cu; s/if (has_source \&\& source.there)/if (false)/; --test kernels shots_of_odd_sizes
kernels: tti skips fluxes that move; kernels/tilted_stages.cuh; s/^    if (is_at_rest(k.activity, tile))$/    if (!is_reached(k.activity, parts_of(k.activity, tile, 0)))/; --test kernels tiles_at_rest
kernels: tti_old turns a rotated term over; kernels/tti_old.cu; s/fmaf(-(r\[ST\] \* r\[SP\])/fmaf((r[ST] * r[SP])/; --test kernels shots_of_odd_sizes
kernels: tti_old loses an undamped flux beside the middle; kernels/tti_old.cu; s/index >= zone.middle - HALF_WIDTH \&\&/index >= zone.middle - HALF_WIDTH + 1 \&\&/; --test kernels shots_of_odd_sizes
kernels: tti_old takes damped fluxes in the middle; kernels/tti_old.cu; s/put(damped ? U : DAMPED_U, row, other/put(damped ? DAMPED_U : U, row, other/; --test kernels shots_of_odd_sizes
tti: fluxes of too few planes are stored; src/fd/equation/tti/sweep.rs; s/(y % PLANES/(y % (PLANES - 1)/; --test numerics edges::thin
tti: fluxes that are at rest move; src/fd/equation/tti/sweep.rs; s/ - WIDEST).fill(0.0)/ - WIDEST)[0] = 0.0/; --lib no_bit_depends
tti: a layer begins within a vector of undamped cells; src/fd/equation/tti/sweep.rs; s/user.start.next_multiple_of(WIDEST)/user.start \/ WIDEST * WIDEST/; --test numerics edges::thin
tti: a flux of a longer row stays; src/fd/equation/tti/rows.rs; s/for nth in \[2, 3\]/for nth in [3]/; --lib cells_at_rest
tti: the divergence is added to h; src/fd/equation/tti/rows.rs; s/h = L::fnma(rate, L::add/h = L::fma(rate, L::add/; --test numerics edges::thin
tti: increments are not damped; src/fd/equation/tti/rows.rs; s/(h, v, p, q) = (L::mul(b, h), L::mul(b, v)/(h, v, p, q) = (h, v/; --test numerics edges::thin
tti: the sponge damps by half; src/fd/equation/tti/sponge.rs; s/(0.5 \* f64::from(dt)/(0.25 * f64::from(dt)/; --test numerics edges::thin
tti: phi turns the other way; src/fd/equation/tti/coefficients.rs; s/-theta.sin() \* phi.sin()/theta.sin() * phi.sin()/; --test numerics edges::thin
tti: the axis is rounded to nearest; src/fd/equation/tti/coefficients.rs; s/u32::from(is_beyond)/0 * u32::from(is_beyond)/; --lib derivatives_along
tti: a first derivative exceeds the second; src/fd/equation/tti/coefficients.rs; s/square.sqrt().min(1.0)/square.max(1.0)/; --lib derivatives_along
tti: a certain step is that of the fastest cell; src/fd/equation/tti/stability.rs; s/if fits(least \* (1.0 + 1e-6)) {/if true {/; --test numerics steps_are_equal
vti: shots in C that reduce all anisotropy are accepted; src/ffi/fd_shot.rs; s/check_anisotropy(.*)?/()/; --test it bad_calls
tti: sources lie in the medium of the model; src/fd/equation/tti/propagator.rs; s/c.isotropic_source.then(/false.then(/; --test numerics edges::thin
tti: poles are forgotten where all fluxes are damped; src/fd/equation/tti/old/cpu/divergence.rs; s/horizontal = L::load(d)/horizontal = if X_PML \&\& Y_PML { L::splat(0.0) } else { L::load(d) }/; --test cuda shots_have
kernels: one pass loads a plane twice; kernels/one_pass_march.cuh; /if (!late)$/,+1s/load_around(y + 1)/load_around(y)/; --test kernels shots_of_odd_sizes
kernels: a source is recorded a step early; kernels/tile.cuh; s/= hidden ?/= hidden \&\& !point ?/; --test kernels shots_of_odd_sizes
kernels: the pairs after the rows are one aside; kernels/one_pass_march.cuh; s/: Z + 2 \* (lane \& 7) - 8/: Z + 2 * (lane \& 7) - 6/; --test kernels shots_of_odd_sizes
interpreter: a difference is a sum; ctests/doubles/fakecuda/src/ptx/warp/mod.rs; s/Op::Sub32 => op!(n u32, |a, b| a.wrapping_sub(b))/Op::Sub32 => op!(n u32, |a, b| a.wrapping_add(b))/; --test kernels committed_ptx
interpreter: numbers are compared without their sign; ctests/doubles/fakecuda/src/ptx/warp/mod.rs; s/compare!(n i32, cmp)/compare!(n u32, cmp)/; --test kernels committed_ptx
interpreter: products below the boundary are kept; ctests/doubles/fakecuda/src/ptx/flush.rs; s/if exact.abs() < TINY { 0f32/if false { 0f32/; --test kernels flushes_at_the_boundary
interpreter: sums are not flushed; ctests/doubles/fakecuda/src/ptx/flush.rs; s/operand(operand(a) + operand(b))/a + b/; --test kernels flushes_at_the_boundary
interpreter: fused results below the boundary are kept; ctests/doubles/fakecuda/src/ptx/flush.rs; s/if tiny { 0f32/if false { 0f32/; --test kernels flushes_at_the_boundary
interpreter: denormal operands are kept; ctests/doubles/fakecuda/src/ptx/flush.rs; s/if bits \& 0x7f80_0000 == 0 {/if false {/; --test kernels flushes_at_the_boundary
GPU at rest: a tile is computed a step too late; kernels/activity.cuh; s/ACTIVE_MARGIN = 2 \* HALF_WIDTH/ACTIVE_MARGIN = 0/; --test kernels tiles_at_rest
GPU at rest: pressures set no flags; kernels/activity.cuh; s/if (seen == 0 /if (seen != 7 /; --test kernels tiles_at_rest
GPU at rest: the source sets no flags; src/fd/march/activity.rs; s/+ z\] = 1.0/+ z] = 0.0/; --test kernels tiles_at_rest
GPU at rest: a resumed shot has no flags; src/fd/march/steps.rs; s/        blocks.extend(both)/        std::mem::forget(both)/; --test cuda goes_on_after
GPU at rest: skipped tiles count no cells; kernels/activity.cuh; s/(unsigned long long)tile.cells/(unsigned long long)(tile.cells * 0)/; --test kernels tiles_at_rest
GPU at rest: each thread of x counts; kernels/activity.cuh; s/if (threadIdx.x == 0 \&\& threadIdx.y == 0)/if (threadIdx.y == 0)/; --test kernels tiles_at_rest
GPU at rest: tiles have cells beyond the grid; src/fd/grid/tile_table.rs; s/cells.end.min(active\[axis\].end) - cells.start/cells.end - cells.start + 0 * axis/; --lib tiles_cover
GPU at rest: the share is that of the whole shot; src/fd/time_loop/cuda.rs; s/(done - begun)/done/; --test cuda share_of_computed
virtual GPU: memory that is not zeroed is no zeros; src/backend/cuda/stream.rs; s/^        self.zero(&block)?\x3b//; --test cuda shots_have_the_bits
virtual GPU: events are left; src/backend/cuda/event.rs; s/unsafe { driver.event_destroy(self.handle) }/{ _ = driver\x3b Ok(()) }/; --test cuda nothing_of_ours_stays
virtual GPU: workers keep the capture mode; src/backend/cuda/driver.rs; s/^        self.exchange_capture_mode(RELAXED)\x3b//; --test cuda captures
virtual GPU: the capture mode of callers is not restored; src/backend/cuda/driver.rs; s/^            self.driver.exchange_capture_mode(before)\x3b//; --test cuda captures
virtual GPU: samples are copied before they are there; src/fd/time_loop/cuda.rs; s/self.copies.follow(self.stream)?\x3b//; --test cuda shots_have_the_bits
virtual GPU: a copy is read while it is under way; src/backend/cuda/event.rs; s/^        self.done.wait()?\x3b//; --test cuda memory_is_used_again
kernels: threads of a block do not meet; kernels/one_pass_march.cuh; s/^        __syncthreads()\x3b/        if (threadIdx.x > 0) __syncthreads()\x3b/; --test kernels shots_of_odd_sizes
kernels: the PTX has no barriers; kernels/ptx/acoustic1_one_pass.ptx; s/bar.sync.*//; --test kernels committed_ptx
kernels: the PTX leaves shared memory unwritten; kernels/ptx/acoustic1_one_pass.ptx; 0,/st.shared/s/st.shared.*//; --test kernels committed_ptx
kernels: the PTX writes a word by several threads; kernels/ptx/acoustic1_one_pass.ptx; 0,/st.shared/s/\(st.shared[^[]*\)\[[^]]*\]/\1[_ZZ22acoustic1_one_pass_4x2E5plane]/; --test kernels committed_ptx
kernels: the PTX reads pairs that are not aligned; kernels/ptx/acoustic1_one_pass.ptx; 0,/ld.shared.v2/s/\(ld.shared.v2[^]+]*\)[^]]*\]/\1+4]/; --test kernels committed_ptx
kernels: the PTX writes beyond an array; kernels/ptx/field.ptx; 0,/st.global/s/\(st.global[^]+]*\)[^]]*\]/\1+1073741824]/; --test kernels committed_ptx
kernels: the PTX adds where it should subtract; kernels/ptx/acoustic1_one_pass.ptx; 0,/sub.rn.ftz.f32/s//add.rn.ftz.f32/; --test kernels committed_ptx
kernels: the PTX takes another coefficient; kernels/ptx/acoustic1_one_pass.ptx; 0,/+408\]/s//+416]/; --test kernels committed_ptx
kernels: the PTX of one pass loses a sign; kernels/ptx/acoustic1_one_pass.ptx; s/neg.ftz.f32/mov.f32/; --test kernels committed_ptx
'

mutations=$(sed 's/; */;/' <<<"$mutations" | grep .)
if [ "${1-}" = --check ]; then
    stale=0
    while IFS=';' read -r name file edit _; do
        differs=0
        sed "$edit" "${file// /}" | cmp -s - "${file// /}" || differs=$?
        sed "$edit" /dev/null || differs=2
        [ $differs = 1 ] || { echo "NOT APPLIED: $name" && stale=1; }
    done <<<"$mutations"
    cut -d';' -f4 <<<"$mutations" | sort -u | python3 scripts/test_names.py || stale=1
    exit $stale
fi
mkdir -p "$work/tree"
git ls-files -z --cached --others --exclude-standard | sort -z >"$work/files"
# cargo compares times: a file that differs gets the current time, an equal one is not touched.
while read -r -d '' file; do
    cmp -s "$file" "$work/tree/$file" || cp --parents "$file" "$work/tree"
done <"$work/files"
(cd "$work/tree" && find . -type f -printf '%P\0' | sort -z | comm -z -23 - "$work/files" | xargs -0r rm)
cd "$work/tree"
# Runs the tests of a row; `models`: the protocols, under the model checker.
run() {
    if [ "$1" = models ]; then
        CARGO_TARGET_DIR=$work/loom cargo rustc --profile test --no-default-features --lib \
            --message-format=json-render-diagnostics -- --cfg loom >"$work/loom.json" &&
            "$(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' "$work/loom.json" | tail -1)" models
    else
        # Tests that compute little are built without optimisation.
        local level=3
        [[ $1 == *--lib* || $1 == *--bin* || $1 == *scheduler* || $1 == *node* ]] && level=0
        # shellcheck disable=SC2086
        timeout 900 cargo --config "profile.dev.package.gpusched.opt-level=$level" test --quiet --no-default-features $1
    fi </dev/null >"$work/log" 2>&1
}

chosen=$(awk -F';' -v word="${1-}" '$1 ~ word' <<<"$mutations")
echo "unchanged: building and testing"
while read -r tests; do
    run "$tests" || { echo "without any mutation this fails: $tests; see $work/log"; exit 1; }
    grep -qE '^test result: ok\. [1-9]' "$work/log" || { echo "no such test: $tests"; exit 1; }
done < <(cut -d';' -f4 <<<"$chosen" | sort -u)

unnoticed=0
while IFS=';' read -r name file edit tests; do
    file=${file// /} tests=${tests# } # the columns' blanks
    cp -p "$file" "$work/kept"
    sed -i "$edit" "$file"
    status=0
    cmp -s "$file" "$work/kept" || run "$tests" || status=$?
    if cmp -s "$file" "$work/kept"; then
        result='NOT APPLIED: the line has changed'
    elif ((status == 0)); then
        result='NOT NOTICED'
    elif ((status == 124)); then
        result='noticed, the tests hang'
    elif grep -q '^error: could not compile' "$work/log"; then
        result="DID NOT BUILD"
    elif ! grep -q '^test result: FAILED' "$work/log"; then
        result='noticed, the tests break off'
    else
        result="noticed, failed tests: $(grep -cE '^    [a-z_0-9:]*$|^test .* [.]{3} FAILED$' "$work/log" || :)"
    fi
    [[ $result == noticed* ]] || unnoticed=1
    printf '%-45s %s\n' "$name" "$result"
    cp "$work/kept" "$file"
done <<<"$chosen"
exit $unnoticed
