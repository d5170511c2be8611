//! `gpusched bench fd`.

use std::sync::{Arc, OnceLock};

use gpusched::fd::equation::{Absorber, LAYER_CELLS, with_absorber};
use gpusched::sched::{Exec, Scheduler, Task};
use gpusched::{Error, Result};
use serde_json::json;

use crate::args::BenchOptions;
use crate::devices::check_selection;
use crate::say::say;
use crate::speed::{Case, Prepared};

pub fn fd(options: &BenchOptions) -> Result<bool> {
    let &BenchOptions { equation, nt, storage, repeats, .. } = options;
    let accepted = "NX NY NZ";
    let n = options.n[..].try_into().map_err(|_| Error::argument("--n", "not three numbers", accepted))?;
    let equation = options.absorbing_layer.map_or(Ok(equation), |kind| with_absorber(equation, kind))?;
    let pml = options.pml.unwrap_or(equation.default_layer());
    if !LAYER_CELLS.contains(&pml) {
        let (least, most) = (LAYER_CELLS.start(), LAYER_CELLS.end());
        let accepted = format!("{least} to {most} cells for {}", equation.name());
        return Err(Error::argument("--pml", pml, accepted));
    }
    check_selection("--device", &options.device)?;
    let mut builder = Scheduler::builder();
    builder.devices = Some(options.device.clone());
    builder.slots = Some(1);
    builder.cpu_threads = options.threads;
    // A benchmark should not wait an hour for other processes.
    builder.policy.rounds_beside_others = builder.policy.backoff.len();
    // The command prints each failure itself.
    builder.policy.failure_level = log::Level::Info;
    let scheduler = builder.build()?;
    let [info] = scheduler.devices() else {
        let there = scheduler.devices().len();
        return Err(Error::argument(
            "--device",
            format!("'{}', {there} devices", options.device),
            "one device",
        ));
    };
    let case = Case { equation, n, pml, storage, nt, repeats };
    let prepared = Prepared::new(&case, info, scheduler.cpu_threads())?;
    let place = Arc::new(OnceLock::new());
    let to = place.clone();
    let id = scheduler.submit(Task::new(move |exec: &Exec<'_>| {
        let measured = match prepared.measure(exec.lane) {
            Err(error) if !error.is_suspect() => return Err(error),
            // Not returned: the scheduler would try again, and a wrong result may not come twice.
            measured => measured,
        };
        let _ = to.set(measured);
        Ok(())
    }))?;
    scheduler.wait(id, None)?;
    let Some(measured) = place.get() else { return Ok(false) };
    let measured = measured.as_ref().map_err(Error::clone)?;
    if options.json {
        let mut line = json!(measured);
        line["device"] = info.label().into();
        line["name"] = info.name.as_str().into();
        line["equation"] = equation.name().into();
        line["storage"] = storage.name().into();
        line["n"] = json!(n);
        line["absorbing_layer"] = equation.absorber().name().into();
        line["pml"] = pml.into();
        line["nt"] = nt.into();
        say!("{line}");
        return Ok(true);
    }
    let [nx, ny, nz] = n;
    let layer = match equation.absorber() {
        Absorber::Pml => "PML",
        Absorber::Sponge => "sponge",
    };
    let tiles = measured.tiles.as_ref().map_or_else(String::new, |tiles| format!(" in tiles of {tiles}"));
    let to_silent = measured.rate_to_silent.map(|rate| format!(", {rate:.2} of the rate in zeros"));
    say!(
        "{} on {} ({}), {nx} x {ny} x {nz} cells and {pml} of {layer} on each side, {nt} steps, {}{tiles}: \
             {:.3} s, {:.1} Mcells/s ({:.1} without the layer{}); from rest {:.1} Mcells/s, {:.0} % of them computed, {:.1} bytes per cell; copy {:.2} GB/s",
        equation.name(),
        info.label(),
        info.name,
        storage.name(),
        measured.seconds,
        measured.mcells_per_s,
        measured.interior_mcells_per_s,
        to_silent.unwrap_or_default(),
        measured.covered_mcells_per_s,
        100.0 * measured.computed,
        measured.bytes_per_cell_resident,
        measured.copy_gb_per_s,
    );
    Ok(true)
}
