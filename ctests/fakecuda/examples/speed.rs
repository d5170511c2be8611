//! How many instructions a second the interpreter runs: `cargo run --release -p fakecuda --example speed`.

#[path = "../tests/common/mod.rs"]
mod common;

use common::Arg::{I, P};

fn main() {
    let module = fakecuda::ptx::parse(include_str!("../fixtures/stencil.ptx")).expect("the fixture");
    let n = 108;
    let cells = vec![1f32; n * n * n];
    for (name, grid, shared) in [("step", [4, 25, 100], 0), ("step_tiled", [4, 25, 1], 12 * 40 * 4)] {
        for threads in [1, 2] {
            let mut host = common::Host::default();
            let (a, b, c) = (host.put(&cells), host.put(&cells), host.put(&cells));
            let args = [P(a), P(b), P(c), I(n as i32), I(n as i32), I(n as i32)];
            let start = std::time::Instant::now();
            let done = common::run_on(threads, &module, &mut host, name, grid, [32, 4, 1], shared, &args)
                .expect("a kernel without faults");
            let seconds = start.elapsed().as_secs_f64();
            let rate = done.instructions as f64 / seconds / 1e6;
            println!(
                "{name}, {threads} host threads: {rate:.0} Minstr/s, {:.0} ns/cell",
                seconds / 1e-9 / 1e6
            );
        }
    }
}
