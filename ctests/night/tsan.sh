#!/bin/bash
# Runs the tests of the scheduler, all of which are on real threads, under ThreadSanitizer: it sees every access to memory, and
# whether another thread's access comes before or after it. Ends with 1 if it has found a race or a test fails.
#
#   ctests/night/tsan.sh              all of tests/scheduler, some minutes with the build
#   ctests/night/tsan.sh WORDS        what the words say to the tests: a name, for instance
#
# Needs Rust's sources (rustup component add rust-src), for the standard library is built with it, too. The build is in
# target/tsan.
set -eu
cd "$(dirname "$0")/../.."
target=$(rustc -vV | sed -n 's/^host: //p')
suppressions=$PWD/ctests/night/tsan-suppressions
# A stable compiler keeps what sanitizers need behind this.
export RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=thread CARGO_TARGET_DIR=target/tsan
export TSAN_OPTIONS="suppressions=$suppressions halt_on_error=0 exitcode=66 second_deadlock_stack=1 ${TSAN_OPTIONS-}"
exec cargo test --locked --no-default-features --test scheduler -Zbuild-std --target "$target" -- "$@"
