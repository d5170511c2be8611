//! How many instructions a second the interpreter runs: `cargo run --release -p fakecuda --example speed`.

use fakecuda::host;
use fakecuda::host::Arg::{I, P};

fn main() {
    let module = fakecuda::ptx::parse(include_str!("../fixtures/flush.ptx")).expect("the fixture");
    let rows = 1 << 20;
    let mut host = host::Host::default();
    let (operands, results) = (host.put(&vec![1f32; 3 * rows]), host.put(&vec![0f32; 5 * rows]));
    let args = [P(operands), P(results), I(rows as i32)];
    let start = std::time::Instant::now();
    let done = host::run(&module, &host, "flush", [rows as u32 / 128, 1, 1], [128, 1, 1], &args)
        .expect("a kernel without faults");
    let seconds = start.elapsed().as_secs_f64();
    println!("{:.0} million instructions of a thread a second", done.instructions as f64 / seconds / 1e6);
}
