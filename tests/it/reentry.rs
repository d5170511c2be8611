//! Log functions and drop callbacks that call the library: no call hangs.

use testkit::c;

#[test]
fn the_callers_code_may_call_the_library_from_wherever_it_is_called() {
    c::run(&c::program("reentry"));
}
