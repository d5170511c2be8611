//! `gpusched bench fd`: one line with what was measured.

use gpusched::backend::Backend;
use gpusched::backend::cpu::CpuBackend;
use gpusched::fd::bench::{self, Case};
use gpusched::fd::plan::Options;
use gpusched::{Error, Result};
use serde_json::json;

use crate::args::Equation;
use crate::say::say;

/// Shot and copy take turns this often; the best of each counts.
const REPEATS: usize = 3;

pub fn fd(equation: Equation, n: [usize; 3], nt: usize, device: &str, as_json: bool) -> Result<bool> {
    if !matches!(device, "cpu" | "cpu:0") {
        return Err(Error::NoDevice {
            what: "the benchmark".into(),
            why: format!("there is no {device} here; `gpusched devices` lists what there is"),
        });
    }
    let backend = CpuBackend::new(None);
    let queue = backend.open(0, 0, 1)?;
    queue.enter()?;
    let pml = Options::default().pml;
    let measured = bench::run(queue.lane(), &Case { n, pml, nt, repeats: REPEATS })?;
    let name = backend.devices()?.into_iter().next().map(|device| device.name);
    if as_json {
        let line = json!({
            "device": "cpu:0",
            "name": name,
            "equation": equation.name(),
            "n": n,
            "pml": pml,
            "nt": nt,
            "seconds": measured.seconds,
            "mcells_per_s": measured.mcells_per_s,
            "interior_mcells_per_s": measured.interior_mcells_per_s,
            "bytes_per_cell_resident": measured.bytes_per_cell_resident,
            "copy_gb_per_s": measured.copy_gb_per_s,
        });
        say!("{line}");
        return Ok(true);
    }
    let [nx, ny, nz] = n;
    say!(
        "{} on cpu:0, {nx} x {ny} x {nz} cells and {pml} of absorbing layer on each side, {nt} steps: \
         {:.3} s, {:.1} Mcells/s ({:.1} without the layer), {:.1} bytes a cell; copy {:.2} GB/s",
        equation.name(),
        measured.seconds,
        measured.mcells_per_s,
        measured.interior_mcells_per_s,
        measured.bytes_per_cell_resident,
        measured.copy_gb_per_s,
    );
    Ok(true)
}
