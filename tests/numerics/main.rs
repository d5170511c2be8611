//! That the numbers are right: against the old kernel's results, against its formulas in
//! double precision, and against physics. `docs/numerics.md` gives the reason of every tolerance.

#[path = "../support/mod.rs"]
#[allow(dead_code)]
mod support;

mod accuracy;
mod analytic;
mod check;
mod forms;
mod golden;
mod physics;
mod random;
mod reference;
mod stability;
mod storage;
mod wavelets;
