//! Whole shots by the CUDA kernel that computes a step in one pass, as a card would be driven.

use std::sync::Arc;

use gpusched::fd::equation::acoustic1::Moduli;
use gpusched::fd::equation::acoustic1::kernel::{self as common, Addresses, Launch, Tables};
use gpusched::fd::equation::acoustic1::one_pass::kernel::{
    self, Fields, Grounds, OF_16_BITS, Plan, Samples, Shape, Sounding,
};
use gpusched::fd::model::Model;
use gpusched::fd::plan::Storage;
use gpusched::fd::survey::Shot;

use crate::kernel_shots::{Engine, Memory, SLOTS, bytes, check_border};
use crate::shots::Shots;

/// What executes the step, and what executes the kernels that both forms have.
pub struct Engines<'a> {
    pub step: &'a dyn Engine,
    pub common: &'a dyn Engine,
}

/// Of the coefficients that a kernel takes.
pub fn storage(shape: Shape) -> Storage {
    if shape == OF_16_BITS { Storage::Bits16 } else { Storage::Float32 }
}

/// Two numbers in the place of a value.
fn pairs(mut numbers: Vec<u16>) -> Vec<f32> {
    numbers.resize(numbers.len().next_multiple_of(2), 0);
    numbers.chunks(2).map(|pair| f32::from_bits(u32::from(pair[0]) | u32::from(pair[1]) << 16)).collect()
}

/// A whole shot, on a card that runs `at_once` blocks at a time.
pub fn fire(
    engines: &Engines<'_>,
    model: &Arc<Model>,
    dt: f32,
    shot: &Shot,
    pml: usize,
    shape: Shape,
    at_once: usize,
) -> Shots {
    let c = Moduli::new(model, pml, storage(shape)).unwrap().coefficients(dt);
    let tables = Tables::new(&c);
    let grounds = Grounds::new(&tables, shape, at_once).unwrap();
    let (b, kappa) = match storage(shape) {
        Storage::Float32 => (tables.b(&c).unwrap(), tables.kappa(&c).unwrap()),
        Storage::Bits16 => (pairs(tables.b_numbers(&c).unwrap()), pairs(tables.kappa_numbers(&c).unwrap())),
    };
    let lens = grounds.lens();
    let zeros = |len: usize| vec![Aligned([0.0f32; 32]); len.div_ceil(32)];
    let mut arrays: Vec<Vec<Aligned>> = lens.all().map(zeros).collect();
    let mut clean = [f32::NAN; 4];
    let (first, places, traces_of) = grounds.receivers(&shot.receivers);
    let (traces, samples) = (places.len(), shot.samples());
    let mut buffer = vec![f32::NAN; SLOTS * traces];
    let mut picture = vec![f32::NAN; model.grid.cells()];
    let mut peak = [0u32];
    let wavelet = common::source_pressures(shot);

    let mut memory = Memory::default();
    let mut lend = |len: usize, array: usize| {
        let values: &mut [f32] = arrays[array].as_mut_slice().as_flattened_mut();
        memory.lend(&mut values[..len])
    };
    let at: Vec<u64> = lens.all().enumerate().map(|(array, len)| lend(len, array)).collect();
    let fields = Fields {
        p: [at[0], at[1]],
        d: at[2],
        kept: [[at[3], at[4]], [at[5], at[6]], [at[7], at[8]]],
        part: [at[9], at[10], at[11]],
        clean: memory.lend(&mut clean),
    };
    let (b, kappa) = (Aligned::of(&b), Aligned::of(&kappa));
    let plan = Plan {
        b: memory.show(&b),
        kappa: memory.show(&kappa),
        profiles: memory.show(&tables.profiles),
        boxes: memory.show(&grounds.boxes.cuts),
    };
    let params = grounds.params(&tables, &plan, &fields);
    let (first_at, places_at, traces_at) =
        (memory.show(&first), memory.show(&places), memory.show(&traces_of));
    let (buffer_at, picture_at) = (memory.lend(&mut buffer), memory.lend(&mut picture));
    let (peak_at, wavelet_at) = (memory.lend(&mut peak), memory.show(&wavelet));
    // The others look at a pressure and at nothing else.
    let looked = |from: usize| {
        let [b, kappa, profiles] = [plan.b, plan.kappa, plan.profiles];
        let p = fields.p[from];
        tables.params(&Addresses { p, velocity: [p; 3], part: [p; 3], b, kappa, profiles }, 1)
    };
    let launch = |engine: &dyn Engine, launch: Launch, arguments: &[&[u8]]| {
        engine.launch(&memory, launch, arguments);
    };
    // Somebody looks at what these steps leave.
    let seen = |step: usize| {
        step + 1 == shot.nt || shot.snapshot_every.is_some_and(|every| step.is_multiple_of(every))
    };
    let sounding = Sounding::new(&c, shot, fields.clean);
    let amplitude = |step: usize| (step < wavelet.len()).then_some(wavelet_at + 4 * step as u64);

    let mut record = vec![f32::NAN; traces * samples];
    let mut snapshots = Vec::new();
    for step in 0..shot.nt {
        if let Some(late) = amplitude(step).filter(|_| step == 0 || seen(step - 1)) {
            let poles = sounding.poles(step + 1, false, Some(late));
            launch(engines.step, kernel::source(), &[bytes(&params[(step + 1) % 2]), bytes(&poles)]);
        }
        let next = amplitude(step + 1).filter(|_| !seen(step));
        let poles = sounding.poles(step, amplitude(step).is_some(), next);
        let (sample, slot) = (step / shot.record_every, step / shot.record_every % SLOTS);
        let kept = step.is_multiple_of(shot.record_every) && traces > 0;
        let to = if kept { buffer_at + (4 * slot * traces) as u64 } else { 0 };
        let receivers = Samples { first: first_at, at: places_at, trace: traces_at, to };
        launch(engines.step, grounds.step(), &[bytes(&params[step % 2]), bytes(&poles), bytes(&receivers)]);
        if kept && (slot + 1 == SLOTS || sample + 1 == samples) {
            for (trace, to) in record.chunks_mut(samples).enumerate() {
                for slot in 0..=slot {
                    to[sample / SLOTS * SLOTS + slot] = buffer[slot * traces + trace];
                }
            }
        }
        if shot.snapshot_every.is_some_and(|every| step.is_multiple_of(every)) {
            let params = looked(1 - step % 2);
            launch(engines.common, common::snapshot(&params), &[bytes(&params), bytes(&picture_at)]);
            snapshots.push((step, picture.clone()));
        }
    }
    let last = shot.nt % 2;
    let params = looked(last);
    launch(engines.common, common::peak(&params), &[bytes(&params), bytes(&peak_at)]);
    let pressure = arrays[last].as_flattened();
    let largest = pressure.iter().map(|p| p.abs().to_bits()).max();
    assert_eq!(Some(peak[0]), largest, "the peak");
    for field in &arrays[..3] {
        check_border(&tables, &field.as_flattened()[..lens.field]);
    }
    Shots { record, samples, snapshots }
}

/// Values that lie as on a card, where arrays begin at multiples of 128 bytes and more.
#[derive(Clone, Copy)]
#[repr(align(128))]
struct Aligned([f32; 32]);

impl Aligned {
    fn of(values: &[f32]) -> Vec<Aligned> {
        let mut all = vec![Aligned([0.0; 32]); values.len().div_ceil(32)];
        all.as_mut_slice().as_flattened_mut()[..values.len()].copy_from_slice(values);
        all
    }
}

trait Flattened {
    fn as_flattened(&self) -> &[f32];
    fn as_flattened_mut(&mut self) -> &mut [f32];
}

impl Flattened for [Aligned] {
    fn as_flattened(&self) -> &[f32] {
        let len = self.iter().map(|line| line.0.len()).sum();
        // SAFETY: so many numbers, and nothing between them.
        unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), len) }
    }

    fn as_flattened_mut(&mut self) -> &mut [f32] {
        let len = self.iter().map(|line| line.0.len()).sum();
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), len) }
    }
}
