#!/bin/bash
# Proves that the tests of the numbers and of the scheduler can fail: breaks one thing at a time in a copy of the sources, runs the tests that
# should notice, and says whether they did. Ends with 1 if a mutation goes unnoticed.
#
#   tests/mutations.sh          all of them, some minutes
#   tests/mutations.sh WORD     those with WORD in their name
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
mute: a step short;                         src/fd/verify.rs;    s/saturating_add(60)/saturating_add(59)/;            --test numerics mute
place: a mask is not looked at;             src/sched/parts.rs;  s/\&\& self.devices.contains(index)//;      --test random_worlds
place: memory is not asked for;             src/sched/placement.rs; s/self.promised.saturating_add(bytes) <= room/bytes <= device.ledger.limit()/; --test random_worlds
place: the first device, not the best;      src/sched/plan.rs;   s/(end, load) < (best.end, best.load)/false/; --test schedules
place: an unknown device gets the largest;  src/sched/placement.rs; s/work < least/work > least/;          --test failure_classes unknown
copies: none is ever started;               src/sched/copies.rs; s/entry.idempotent$/false/;             --test schedules
copies: tasks that may not run twice;       src/sched/copies.rs; s/entry.idempotent$/true/;              --test random_worlds
retire: queued tasks are left behind;       src/sched/state.rs;  s/if homeless {/if homeless \&\& false {/; --test random_worlds
after: what comes before is not waited for; src/sched/state.rs;  s/behind.push(before)/let _ = before/;    --test random_worlds
poison: the guilty is not found;            src/sched/verdict.rs; s/DeviceFault::Poisoned => (\&mut entry.poisoned, 2)/DeviceFault::Poisoned => (\&mut entry.poisoned, 9)/; --test failure_classes
pause: short memory is not waited for;      src/sched/policy.rs; s/from_secs(1), Duration::from_secs(4), Duration::from_secs(16)/from_millis(1), Duration::from_millis(1), Duration::from_millis(1)/; --test failure_classes
ageing: none;                               src/sched/policy.rs; s/AGEING: f64 = 10.0/AGEING: f64 = 1e9/;  --test failure_classes
rates: nothing is learned;                  src/sched/rates.rs;  s/seen.samples += 1/seen.samples += 0/;   --lib rates
sleep: no second look;                      src/sched/park.rs;   s/if self.is_anything(device) || self.stop/if self.stop/; models
tally: a closed phase is not put back;      src/sched/light/tally.rs; s/if self.current.load(Ordering::SeqCst) != phase {/if false {/; models
tally: a drained phase is not told;         src/sched/light/tally.rs; s/let drained = open.len() < before;/let drained = false;/; models
tally: who joins is overlooked;             src/sched/light/mod.rs;   s/self.tally.joined();//;     --test scheduler workers_that_come
'

rm -rf "$work/tree"
mkdir -p "$work/tree"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -p -t "$work/tree"
cd "$work/tree"
# What cargo test is asked for; `models`: the protocols, under the model checker.
run() {
    if [ "$1" = models ]; then
        RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$work/loom cargo test --quiet --release --no-default-features --lib models
    else
        # shellcheck disable=SC2086
        cargo test --quiet --no-default-features $1
    fi </dev/null >"$work/log" 2>&1
}

echo "unchanged: building and testing"
run "--test numerics --test random_worlds --test schedules --test failure_classes --lib" || { echo "the tests fail without any mutation; see $work/log"; exit 1; }

unnoticed=0
while IFS=';' read -r name file edit tests; do
    file=${file// /} # the columns' blanks
    [[ -n $name && $name == *${1-}* ]] || continue
    cp -p "$file" "$work/kept"
    sed -i "$edit" "$file"
    if cmp -s "$file" "$work/kept"; then
        result='NOT APPLIED: the line has changed'
    elif run "$tests"; then
        result='NOT NOTICED'
    elif ! grep -qE '^test result: FAILED|panicked at' "$work/log"; then
        result="DID NOT BUILD"
    else
        result="noticed, failed tests: $(grep -c '^    [a-z_0-9:]*$' "$work/log")"
    fi
    [[ $result == noticed* ]] || unnoticed=1
    printf '%-45s %s\n' "$name" "$result"
    cp "$work/kept" "$file"
done < <(sed 's/; */;/' <<<"$mutations")
exit $unnoticed
