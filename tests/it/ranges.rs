//! Parallel loops through the C API.

use testkit::c;

#[test]
fn every_element_once_whatever_happens_to_the_pieces() {
    c::run(&c::program("ranges"));
}
