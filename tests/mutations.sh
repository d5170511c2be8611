#!/bin/bash
# Proves that the tests of the numbers and of the scheduler can fail: breaks one thing at a time in a copy of the sources, runs the tests that
# should notice, and says whether they did. Ends with 1 if a mutation goes unnoticed.
#
#   tests/mutations.sh          all of them, some minutes
#   tests/mutations.sh WORD     those with WORD in their name; WORD is a regular expression
#
# The copy and its build are in target/mutations.
set -eu
cd "$(dirname "$0")/.."
work=$PWD/target/mutations
export CARGO_TARGET_DIR=$work/build

# name; file; sed expression; tests to run
mutations='
stencil: a coefficient is off by 1e-5;      src/fd/stencil.rs;   s/-0.0797526/-0.0797626/;                  --test numerics golden::iso1_h
layer: velocity profile not staggered;      src/fd/pml.rs;       s/profile(0.5)/profile(0.0)/;              --test numerics golden::iso1_h
layer: a tenth less damping;                src/fd/pml.rs;       s/(10.0 \* f64/(9.0 * f64/;                --test numerics golden::iso1_h
layer: damping from the centre cell;        src/fd/pml.rs;       s|ny \* nx \* nz / 2|(ny / 2 * nx + nx / 2) * nz + nz / 2|; --test numerics golden::iso1_h
source: poles one cell apart;               src/fd/equation/acoustic1/source.rs; s/APART: usize = 2/APART: usize = 1/; --test numerics golden::iso1_w
source: one cell aside;                     src/fd/equation/acoustic1/source.rs; s/\[at\[0\], at\[1\]/[at[0] + 1, at[1]/; --test numerics golden::iso1_w
source: amplitude turned over;              src/fd/equation/acoustic1/source.rs; s/(0, -1.0), (APART, 1.0)/(0, 1.0), (APART, -1.0)/; --test numerics analytic::a_record
wavelet: time begins at 0;                  src/fd/wavelet.rs;   s/successors(Some(dt)/successors(Some(0.0)/; --test numerics golden::iso1_w
wavelet: exact time, not summed;            src/fd/wavelet.rs;   s/t <= end/t < end + 0.5 * dt/;            --test numerics wavelets::
medium: velocity of another cell;           src/fd/equation/acoustic1/coefficients.rs; s/rho\[i\] \* vp\[i\] \* vp\[i\]/rho[i] * vp[i] * vp[0]/; --test numerics random::
one pass: a velocity beside the middle lost; src/fd/equation/acoustic1/one_pass/tiles.rs; s/middle.start + REACH - 1).min/middle.start).min/; --test numerics golden::iso1_h
one pass: the source stays in the pressure; src/fd/equation/acoustic1/one_pass/pass.rs; s/source == Some(x)/source == Some(x + 1)/; --test numerics golden::iso1_h
one pass: the ends of rows not damped;  src/fd/equation/acoustic1/one_pass/along_z.rs; s/end.damped.contains(&i)/false/; --test numerics golden::iso1_h
one pass: too few slopes are held;  src/fd/equation/acoustic1/one_pass/scratch.rs; s/PLACES: usize = HELD/PLACES: usize = HELD - 1/; --test numerics golden::iso1_h
one pass: slopes that are at rest move; src/fd/equation/acoustic1/one_pass/along.rs; s/j < self.c.layout.active(AXIS).end/j < self.c.layout.active(AXIS).end + 1/; --test one_pass_kernels odd_sizes
one pass: rows of two kinds are done together; src/fd/equation/acoustic1/one_pass/along.rs; s/(1..TOGETHER).all(/(1..1).all(/; --lib any_shape
exact time: a step aside;                   src/fd/exact_time.rs; s/first: 1, every/first: 0, every/;         --test numerics accuracy
exact time: the wavelet as it is;           src/fd/shot.rs;      s/wavelet: exact_time::foreseen.*, nt, /nt, /; --test numerics accuracy
mute: a step short;                         src/fd/verify.rs;    s/saturating_add(60)/saturating_add(59)/;            --test numerics mute
leases: the dead are taken for alive;       src/node/linux/door.rs;    s/for id in from\.\.to/for id in begin..end/; --test node killed
leases: the door is always open;            src/node/linux/door.rs;    s/Ok(false) => {}/Ok(false) => return Ok(()),/; --test node eight
leases: a child keeps what its parent had;  src/node/linux/sys.rs;     s/if descriptor >= 0 {/if descriptor >= 1_000_000 {/; --test node child
leases: a death is not heard;               src/node/linux/sys.rs;     s/libc::IN_MODIFY | libc::IN_CLOSE_WRITE/libc::IN_MODIFY/; --test node inotify
leases: links are followed;                 src/node/linux/sys.rs;     s/| libc::O_NOFOLLOW//;                     --test node file
leases: tickets are not looked at;          src/node/line.rs;    s/\.then(a.ticket.cmp(&b.ticket))//;     --lib node::line
leases: who is stopped is waited for;       src/node/line.rs;    s/now.saturating_sub(\*since) > PATIENCE/*since == u64::MAX/; --lib node::line
leases: who allows fewer never begins;      src/node/line.rs;    s/is_none_or(|(narrowest, _)| slots < narrowest)/is_some()/; --lib node::line
place: a mask is not looked at;               src/sched/state.rs;  s/  if task.devices.contains(index)$/  if true/; --test random_worlds
place: memory is not asked for;             src/sched/placement.rs; s/bytes <= self.room(device)/bytes <= device.ledger.limit()/; --test random_worlds
place: the first device, not the best;      src/sched/plan.rs;   s/(end, load) < (best.end, best.load)/false/; --test schedules
place: a large task is passed for ever;     src/sched/policy.rs; s/PATIENCE: u32 = 8/PATIENCE: u32 = 8000/; --test failure_classes large
place: a slow device never comes back;      src/sched/policy.rs; s/PROBE_TIMES: f64 = 10.0/PROBE_TIMES: f64 = 1e9/; --lib by_hand
place: an unknown device gets the largest;  src/sched/placement.rs; s/work < least/work > least/;          --test failure_classes unknown
copies: none is ever started;               src/sched/copies.rs; s/entry.idempotent$/false/;             --test schedules
copies: tasks that may not run twice;       src/sched/copies.rs; s/entry.idempotent$/true/;              --test random_worlds
copies: more than three;                    src/sched/policy.rs; s/COPIES: u32 = 3/COPIES: u32 = 9/;     --lib by_hand
retire: queued tasks are left behind;       src/sched/state.rs;  s/if homeless {/if homeless \&\& false {/; --test random_worlds
after: what comes before is not waited for; src/sched/state.rs;  s/_ if behind.insert(before) =>/_ if false =>/; --test random_worlds
poison: the guilty is not found;            src/sched/blame.rs;   s/DeviceFault::Poisoned => (\&mut entry.poisoned, 2)/DeviceFault::Poisoned => (\&mut entry.poisoned, 9)/; --test failure_classes
poison: a card that poisons is kept;        src/sched/blame.rs;   s/device.strikes.len() >= 2/false/;    --test failure_classes
poison: all are found guilty;               src/sched/blame.rs;   s/device.convictions >= CONVICTIONS/false/; --lib by_hand
lost: a task may lose every card;           src/sched/blame.rs;   s/(\&mut entry.lost, 3)/(\&mut entry.lost, 9)/; --lib by_hand
short: again in company;                    src/sched/verdict.rs; s/self.devices\[index\].hold = Some(id)/_ = 0/; --lib by_hand
retry: on the same device;                  src/sched/verdict.rs; s/entry.avoided = DeviceMask::only(index)/_ = 0/; --test failure_classes
cancel: a task that ends well is done;      src/sched/verdict.rs; s/  Ok(()) if entry.signal.commit(attempt).is_ok() =>/  Ok(()) =>/; --lib by_hand
late: nothing ever is;                      src/sched/policy.rs; s/LATE: f64 = 5.0/LATE: f64 = 1e9/;     --test failure_classes
late: nothing begins anew;                  src/sched/watch.rs;  s/soonest.is_some_and(|soonest| soonest > ran)/false/; --test failure_classes
late: what hangs is waited for;             src/sched/watch.rs;  s/_) => run.watched = Watched::Lost/_) => return run.watched = Watched::Late/; --test failure_classes
pause: short memory is not waited for;      src/sched/policy.rs; s/from_secs(1), Duration::from_secs(4), Duration::from_secs(16)/from_millis(1), Duration::from_millis(1), Duration::from_millis(1)/; --test failure_classes
ageing: none;                               src/sched/policy.rs; s/AGEING: f64 = 10.0/AGEING: f64 = 1e9/;  --test failure_classes
rates: nothing is learned;                  src/sched/rates.rs;  s/seen.samples += 1/seen.samples += 0/;   --lib rates
rates: an odd sample is believed;           src/sched/rates.rs;  s/SURPRISE: f64 = 4.0/SURPRISE: f64 = 1e9/; --lib rates
rates: a warm-up is believed;               src/sched/rates.rs;  s/WARM_UP: f64 = 1.5/WARM_UP: f64 = 1e9/; --lib rates
rates: nothing fades;                       src/sched/rates.rs;  s/FADE: f64 = 0.95/FADE: f64 = 1.0/;    --lib rates
ids: a released one means another task;     src/sched/registry.rs; s/| slot.generation => Ok/| high \& (GENERATIONS - 1) => Ok/; --lib registry
ranges: a piece is in two hands;            src/sched/range/field.rs; s/rest.end = stolen.start/_ = \&rest/; --lib field
ranges: what failed is not done again;      src/sched/range/work.rs; s/table.field.give_back(piece.clone())/_ = \&piece/; --test scheduler ranges
wait: no other worker has the slot;         src/sched/parts.rs;  s/(slots + self.waiting) as usize/slots as usize/; --test scheduler nested
wait: a circle is not found;                src/sched/graph.rs;  s/is_some_and(|\&missing| missing > 0)/is_none()/; --lib graph
wait: for all, without the planned;         src/sched/scheduler.rs; s/shared.lock().core.all_ended_before(planned)/true/; --test scheduler a_wait_ends
order: any that has ended;                  src/sched/ordered.rs; s/ids.pop_front()/ids.pop_back()/; --test scheduler ordered_tasks
sleep: the second look comes too early;     src/sched/park.rs;   /pub fn prepare/,/^    }/s/fence(Ordering::SeqCst)/()/; models
sleep: a call looks too early;              src/sched/park.rs;   /pub fn call_any/,/^    }/s/fence(Ordering::SeqCst)/()/; models
tally: a closed phase is not put back;      src/sched/light/tally.rs; s/if self.current.load(Ordering::SeqCst) != phase {/if false {/; models
tally: a drained phase is not told;         src/sched/light/tally.rs; s/let drained = open.len() < before/let drained = false/; models
tally: who joins is overlooked;             src/sched/light/mod.rs;   s/self.tally.joined()/_ = \&self.tally/; --test scheduler workers_that_come
'

mkdir -p "$work/tree"
git ls-files -z --cached --others --exclude-standard | sort -z >"$work/files"
# What differs gets the time of now, for cargo goes by that: a file may be older than the build of its mutation.
while read -r -d '' file; do
    cmp -s "$file" "$work/tree/$file" || cp --parents "$file" "$work/tree"
done <"$work/files"
(cd "$work/tree" && find . -type f -printf '%P\0' | sort -z | comm -z -23 - "$work/files" | xargs -0r rm)
cd "$work/tree"
# What cargo test is asked for; `models`: the protocols, under the model checker.
run() {
    if [ "$1" = models ]; then
        RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$work/loom cargo test --quiet --release --no-default-features --lib models
    else
        # What does not compute for long is built quickly.
        local level=3
        [[ $1 == *--lib* || $1 == *failure_classes* || $1 == *scheduler* ]] && level=0
        # shellcheck disable=SC2086
        timeout 900 cargo --config "profile.dev.package.gpusched.opt-level=$level" test --quiet --no-default-features $1
    fi </dev/null >"$work/log" 2>&1
}

chosen=$(sed 's/; */;/' <<<"$mutations" | awk -F';' -v word="${1-}" 'NF && $1 ~ word')
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
