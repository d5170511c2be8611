//! Whole shots by the kernels of two sweeps, as the CUDA backend drives a GPU.

use std::sync::Arc;

use gpusched::fd::equation::acoustic1::kernel::{self, Addresses, Launch, Tables};
use gpusched::fd::{equation::acoustic1::Coefficients, model::Model};

use super::{Engine, Memory, Record, bytes, check_border, check_peak};
use crate::shots::{Shots, World};

/// Runs a shot. See [`Tables::params`] for `planes`.
pub fn fire(engine: &dyn Engine, world: &World, planes: usize) -> Shots {
    let World { model, dt, options, shot } = world;
    let c = Coefficients::new(model, *dt, options.pml).unwrap();
    let tables = Tables::new(&c);
    let mut memory = Memory::default();
    let mut zeros = |len: usize| memory.put(&vec![0.0f32; len]);
    let [p, vx, vy, vz] = [tables.field_len(); 4].map(&mut zeros);
    let part = tables.part_lens().map(&mut zeros);
    let at = Addresses {
        p,
        velocity: [vx, vy, vz],
        part,
        b: memory.show(&tables.b(&c).unwrap()),
        kappa: memory.show(&tables.kappa(&c).unwrap()),
        profiles: memory.show(&tables.profiles),
    };
    let params = tables.params(&at, planes);
    let (terms, receivers) = (tables.source(&c, shot.source), tables.receivers(&shot.receivers));
    let (terms_at, receivers_at) = (memory.show(&terms), memory.show(&receivers));
    let wavelet = kernel::source_pressures(shot);
    let wavelet_at = memory.show(&wavelet);
    let field = memory.put(&vec![f32::NAN; model.grid.cells()]);
    let peak = memory.put(&[0u32]);
    let mut record = Record::new(&mut memory, receivers.len(), shot);
    let launch = |launch: Launch, more: &[&[u8]]| {
        assert!(launch.grid[1].max(launch.grid[2]) <= 65_535 && launch.block.iter().product::<u32>() <= 1024);
        engine.launch(&memory, launch, &[&[bytes(&params)], more].concat());
    };

    let mut snapshots = Vec::new();
    for step in 0..shot.nt {
        launch(kernel::velocity(&params), &[]);
        if step < wavelet.len() {
            let value = wavelet_at + 4 * step as u64;
            let count = terms.len() as i32;
            launch(kernel::source(terms.len()), &[bytes(&terms_at), bytes(&count), bytes(&value)]);
        }
        launch(kernel::pressure(&params), &[]);
        if let Some(row) = record.row(step) {
            let count = receivers.len() as i32;
            launch(kernel::record(receivers.len()), &[bytes(&receivers_at), bytes(&count), bytes(&row)]);
            record.read(&memory, step);
        }
        if shot.snapshot_every.is_some_and(|every| step.is_multiple_of(every)) {
            launch(kernel::snapshot(&params), &[bytes(&field)]);
            snapshots.push((step, memory.get(field)));
        }
    }
    launch(kernel::peak(&params), &[bytes(&peak)]);
    check_peak(&memory, peak, &memory.get(p));
    for field in [p, vx, vy, vz] {
        check_border(&tables, &memory.get(field));
    }
    Shots { record: record.values, samples: record.samples, snapshots }
}

/// Returns the peak of a field that holds `value` in one place and zeros elsewhere.
pub fn peak_of(engine: &dyn Engine, model: &Arc<Model>, value: f32, number: usize) -> f32 {
    let c = Coefficients::new(model, 1e-3, 8).unwrap();
    let tables = Tables::new(&c);
    let mut p = vec![0.0f32; tables.field_len()];
    let layout = &tables.layout;
    let [nx, ny, nz] = layout.padded;
    p[layout.at([number / nz % nx, number / nz / nx % ny, number % nz])] = value;
    let mut memory = Memory::default();
    let (at, peak) = (memory.show(&p), memory.put(&[0u32]));
    let at = Addresses { p: at, velocity: [at; 3], part: [at; 3], b: at, kappa: at, profiles: at };
    let params = tables.params(&at, 1);
    engine.launch(&memory, kernel::peak(&params), &[bytes(&params), bytes(&peak)]);
    f32::from_bits(memory.get(peak)[0])
}
