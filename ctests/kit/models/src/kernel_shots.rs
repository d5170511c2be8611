//! Whole shots by the CUDA kernels, as a card would be driven: upload, launch step by step, drain a small buffer
//! of samples now and then. What executes a launch is an [`Engine`]; the memory of the card is the host's.

use std::sync::Arc;

use gpusched::fd::equation::acoustic1::Coefficients;
use gpusched::fd::equation::acoustic1::kernel::{self, Addresses, Launch, Tables};
use gpusched::fd::model::Model;
use gpusched::fd::survey::Shot;

use crate::shots::Shots;

/// Executes kernels.
pub trait Engine {
    /// All of a launch; panics if it faults. The arguments are the bytes of their values.
    fn launch(&self, memory: &Memory, launch: Launch, arguments: &[&[u8]]);
}

/// The arrays that a kernel may touch.
#[derive(Default)]
pub struct Memory {
    pub arrays: Vec<Array>,
}

#[derive(Debug, Clone, Copy)]
pub struct Array {
    pub begin: u64,
    pub end: u64,
    pub writable: bool,
}

impl Memory {
    pub fn lend<T>(&mut self, values: &mut [T]) -> u64 {
        self.add(values.as_mut_ptr().expose_provenance(), size_of_val(values), true)
    }

    pub fn show<T>(&mut self, values: &[T]) -> u64 {
        self.add(values.as_ptr().expose_provenance(), size_of_val(values), false)
    }

    fn add(&mut self, begin: usize, bytes: usize, writable: bool) -> u64 {
        self.arrays.push(Array { begin: begin as u64, end: (begin + bytes) as u64, writable });
        begin as u64
    }
}

/// The bytes of a parameter struct.
pub fn bytes<T: Copy>(value: &T) -> &[u8] {
    // SAFETY: the structs of `kernel` are plain numbers without padding.
    unsafe { std::slice::from_raw_parts((&raw const *value).cast(), size_of::<T>()) }
}

/// What a card holds of the record: a few samples of each trace.
pub const SLOTS: usize = 7;

/// A whole shot. `planes` is of [`Tables::params`].
pub fn fire(
    engine: &dyn Engine,
    model: &Arc<Model>,
    dt: f32,
    shot: &Shot,
    pml: usize,
    planes: usize,
) -> Shots {
    let c = Coefficients::new(model, dt, pml).unwrap();
    let tables = Tables::new(&c);
    let (b, kappa) = (tables.b(&c).unwrap(), tables.kappa(&c).unwrap());
    let zeros = |len: usize| vec![0.0f32; len];
    let mut p = zeros(tables.field_len());
    let mut velocity = [0; 3].map(|_| zeros(tables.field_len()));
    let mut part = tables.part_lens().map(zeros);
    let terms = tables.source(&c, shot.source);
    let receivers = tables.receivers(&shot.receivers);
    let (traces, samples) = (receivers.len(), shot.samples());
    let wavelet = kernel::source_pressures(shot);
    let mut buffer = vec![f32::NAN; SLOTS * traces];
    let mut field = vec![f32::NAN; model.grid.cells()];
    let mut peak = [0u32];

    let mut memory = Memory::default();
    let at = Addresses {
        p: memory.lend(&mut p),
        velocity: velocity.each_mut().map(|field| memory.lend(field)),
        part: part.each_mut().map(|part| memory.lend(part)),
        b: memory.show(&b),
        kappa: memory.show(&kappa),
        profiles: memory.show(&tables.profiles),
    };
    let params = tables.params(&at, planes);
    let all = bytes(&params);
    let (terms_at, receivers_at) = (memory.show(&terms), memory.show(&receivers));
    let wavelet_at = memory.show(&wavelet);
    let (buffer_at, field_at) = (memory.lend(&mut buffer), memory.lend(&mut field));
    let peak_at = memory.lend(&mut peak);
    let launch = |launch: Launch, more: &[&[u8]]| {
        assert!(launch.grid[1].max(launch.grid[2]) <= 65_535 && launch.block.iter().product::<u32>() <= 1024);
        engine.launch(&memory, launch, &[&[all], more].concat());
    };

    let mut record = vec![f32::NAN; traces * samples];
    let mut snapshots = Vec::new();
    for step in 0..shot.nt {
        launch(kernel::velocity(&params), &[]);
        if step < wavelet.len() {
            let value = wavelet_at + 4 * step as u64;
            let count = terms.len() as i32;
            launch(kernel::source(terms.len()), &[bytes(&terms_at), bytes(&count), bytes(&value)]);
        }
        launch(kernel::pressure(&params), &[]);
        let (sample, slot) = (step / shot.record_every, step / shot.record_every % SLOTS);
        if step.is_multiple_of(shot.record_every) && traces > 0 {
            let row = buffer_at + (4 * slot * traces) as u64;
            let count = traces as i32;
            launch(kernel::record(traces), &[bytes(&receivers_at), bytes(&count), bytes(&row)]);
            if slot + 1 == SLOTS || sample + 1 == samples {
                for (trace, to) in record.chunks_mut(samples).enumerate() {
                    for slot in 0..=slot {
                        to[sample / SLOTS * SLOTS + slot] = buffer[slot * traces + trace];
                    }
                }
            }
        }
        if shot.snapshot_every.is_some_and(|every| step.is_multiple_of(every)) {
            launch(kernel::snapshot(&params), &[bytes(&field_at)]);
            snapshots.push((step, field.clone()));
        }
    }
    launch(kernel::peak(&params), &[bytes(&peak_at)]);
    let largest = p.iter().map(|p| p.abs().to_bits()).max();
    assert_eq!(Some(peak[0]), largest, "the peak");
    for field in velocity.iter().chain([&p]) {
        check_border(&tables, field);
    }
    Shots { record, samples, snapshots }
}

/// The peak of a field that holds one of these values somewhere, zeros elsewhere.
pub fn peak_of(engine: &dyn Engine, model: &Arc<Model>, value: f32, number: usize) -> f32 {
    let c = Coefficients::new(model, 1e-3, 8).unwrap();
    let tables = Tables::new(&c);
    let mut p = vec![0.0f32; tables.field_len()];
    let layout = &tables.layout;
    let [nx, ny, nz] = layout.padded;
    p[layout.at([number / nz % nx, number / nz / nx % ny, number % nz])] = value;
    let (mut memory, mut peak) = (Memory::default(), [0u32]);
    let at = memory.show(&p);
    let at = Addresses { p: at, velocity: [at; 3], part: [at; 3], b: at, kappa: at, profiles: at };
    let (params, peak_at) = (tables.params(&at, 1), memory.lend(&mut peak));
    engine.launch(&memory, kernel::peak(&params), &[bytes(&params), bytes(&peak_at)]);
    f32::from_bits(peak[0])
}

/// What is never updated is zero still: the outermost layers, and all that only fills up rows.
pub fn check_border(tables: &Tables, field: &[f32]) {
    let layout = &tables.layout;
    let [nx, ny, _] = layout.padded;
    for row in 0..nx * ny {
        let (x, y) = (row % nx, row / nx);
        let inside = layout.active(0).contains(&x) && layout.active(1).contains(&y);
        let values = &field[layout.row(row)..][..layout.pitch.min(field.len() - layout.row(row))];
        let active = if inside { layout.active(2) } else { 0..0 };
        let clean = values.iter().enumerate().all(|(z, v)| active.contains(&z) || v.to_bits() == 0);
        assert!(clean, "row {row} of {nx} x {ny} is written where it must not be");
    }
}
