#!/bin/bash
# Builds the library with AddressSanitizer and runs C and Python programs with it: random calls, bad
# calls, calls from callbacks. Ends with 1 if a program fails, or accesses memory that it does not
# own.
#
#   ctests/night/asan.sh              some minutes, most of it the build
#   ctests/night/asan.sh SEEDS        random calls of so many seeds, not of 5
#
# Needs gcc with its libasan. The build is in target/asan.
set -eu
cd "$(dirname "$0")/../.."
seeds=${1-5}
target=$(rustc -vV | sed -n 's/^host: //p')
work=$PWD/target/asan
# The programs look for the name that a plain build gives the library.
unset GPUSCHED_SONAME
# A stable compiler keeps what sanitizers need behind this.
RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=$work \
    cargo build --locked --no-default-features --lib --target "$target"
library=$work/$target/debug
export LD_LIBRARY_PATH=$library GPUSCHED_DEVICES=cpu
# Only unreachable memory is a leak, not that which a scheduler holds until the process ends.
export ASAN_OPTIONS="detect_leaks=1 exitcode=99 detect_stack_use_after_return=0 ${ASAN_OPTIONS-}"
mkdir -p "$work/programs" "$work/written"

program() {
    gcc -std=c11 -g -O1 -fsanitize=address -pthread -Iinclude -o "$work/programs/$1" "ctests/c/$1.c" \
        -L"$library" -Wl,--as-needed -lgpusched -lm -ldl
}

run() {
    echo "$*"
    (cd "$work/written" && "$work/programs/$@") >"$work/log" 2>&1 || { tail -50 "$work/log"; exit 1; }
}

for name in fuzz_calls bad_calls reentry; do program "$name"; done
for ((seed = 1; seed <= seeds; seed++)); do run fuzz_calls "$seed" 3000 4 "$work/written"; done
for name in bad_calls reentry; do run "$name"; done
echo callbacks.py
env LD_PRELOAD="$(gcc -print-file-name=libasan.so)" ASAN_OPTIONS="detect_leaks=0 exitcode=99" PYTHONPATH=bindings/python \
    GPUSCHED_LIBRARY="$library/libgpusched.so" "$(python3 -c 'import sys; print(sys.executable)')" examples/python/callbacks.py
echo "nothing found"
