#!/bin/bash
# Runs the tests of the scheduler under ThreadSanitizer. Ends with 1 if it has found a race or a
# test fails.
#
#   ctests/night/tsan.sh              all of tests/scheduler, some minutes with the build
#   ctests/night/tsan.sh WORDS        arguments of the test program: a name, for instance
#
# Builds the standard library, too, and installs its sources if they are missing. The build is in
# target/tsan.
set -eu
cd "$(dirname "$0")/../.."
[ -e "$(rustc --print sysroot)/lib/rustlib/src/rust/library/Cargo.lock" ] || rustup component add rust-src
target=$(rustc -vV | sed -n 's/^host: //p')
# A stable compiler keeps what sanitizers need behind this.
export RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=thread CARGO_TARGET_DIR=target/tsan
export TSAN_OPTIONS="halt_on_error=0 exitcode=66 second_deadlock_stack=1 ${TSAN_OPTIONS-}"
exec cargo test --locked --no-default-features --test scheduler -Zbuild-std --target "$target" -- "$@"
