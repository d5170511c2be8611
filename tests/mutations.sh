#!/bin/bash
# Proves that the numerical tests can fail: breaks one thing at a time in a copy of the sources, runs the tests that
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
stencil: a coefficient is off by 1e-5;      src/fd/stencil.rs;   s/-0.0797526/-0.0797626/;                  golden::iso1_h
layer: velocity profile not staggered;      src/fd/pml.rs;       s/profile(0.5)/profile(0.0)/;              golden::iso1_h
layer: a tenth less damping;                src/fd/pml.rs;       s/(10.0 \* f64/(9.0 * f64/;                golden::iso1_h
layer: damping from the centre cell;        src/fd/pml.rs;       s|ny \* nx \* nz / 2|(ny / 2 * nx + nx / 2) * nz + nz / 2|; golden::iso1_h
source: poles one cell apart;               src/fd/equation/acoustic1/source.rs; s/APART: usize = 2/APART: usize = 1/; golden::iso1_w
source: one cell aside;                     src/fd/equation/acoustic1/source.rs; s/\[at\[0\], at\[1\]/[at[0] + 1, at[1]/; golden::iso1_w
source: amplitude turned over;              src/fd/equation/acoustic1/source.rs; s/(0, -1.0), (APART, 1.0)/(0, 1.0), (APART, -1.0)/; analytic::a_record
wavelet: time begins at 0;                  src/fd/wavelet.rs;   s/successors(Some(dt)/successors(Some(0.0)/; golden::iso1_w
wavelet: exact time, not summed;            src/fd/wavelet.rs;   s/t <= end/t < end + 0.5 * dt/;            wavelets::
medium: velocity of another cell;           src/fd/equation/acoustic1/coefficients.rs; s/rho\[i\] \* vp\[i\] \* vp\[i\]/rho[i] * vp[i] * vp[0]/; random::
mute: a step short;                         src/fd/verify.rs;    s/saturating_add(60)/saturating_add(59)/;            mute
'

rm -rf "$work/tree"
mkdir -p "$work/tree"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -p -t "$work/tree"
cd "$work/tree"
run() { cargo test --quiet --no-default-features --test numerics "$1" </dev/null >"$work/log" 2>&1; }

echo "unchanged: building and testing"
run "" || { echo "the tests fail without any mutation; see $work/log"; exit 1; }

unnoticed=0
while IFS=';' read -r name file edit tests; do
    file=${file// /} tests=${tests// /} # the columns' blanks
    [[ -n $name && $name == *${1-}* ]] || continue
    cp -p "$file" "$work/kept"
    sed -i "$edit" "$file"
    if cmp -s "$file" "$work/kept"; then
        result='NOT APPLIED: the line has changed'
    elif run "$tests"; then
        result='NOT NOTICED'
    elif ! grep -q '^test result: FAILED' "$work/log"; then
        result="DID NOT BUILD"
    else
        result="noticed, failed tests: $(grep -c '^    [a-z_0-9]*::[a-z_0-9:]*$' "$work/log")"
    fi
    [[ $result == noticed* ]] || unnoticed=1
    printf '%-45s %s\n' "$name" "$result"
    cp "$work/kept" "$file"
done < <(sed 's/; */;/' <<<"$mutations")
exit $unnoticed
