//! Whole shots by the kernel that computes a step in one pass, as the CUDA backend drives a GPU.

use gpusched::fd::equation::acoustic1::Acoustic1Material;
use gpusched::fd::equation::acoustic1::cuda::kernel::{
    self, CudaSource, FieldAddresses, PlanAddresses, SampleParams, TilePlan,
};
use gpusched::fd::equation::acoustic1::cuda::tables::Tables;
use gpusched::fd::inject::source_pressures;
use gpusched::fd::plan::Storage;
use gpusched::fd::time_loop::block_shape::{BlockShape, OF_16_BITS};
use gpusched::fd::time_loop::field_kernels::Field;

use super::{Engine, Memory, Record, bytes, check_border, check_peak};
use crate::shots::{Shots, World};

/// Returns how the coefficients of a shape are stored.
pub fn storage(shape: BlockShape) -> Storage {
    if shape == OF_16_BITS { Storage::Bits16 } else { Storage::Float32 }
}

/// Runs a shot on a GPU that runs `at_once` blocks at a time.
pub fn fire(engine: &dyn Engine, world: &World, shape: BlockShape, at_once: usize) -> Shots {
    let World { model, dt, options, shot } = world;
    let c = Acoustic1Material::new(model, options.pml, storage(shape)).unwrap().coefficients(*dt);
    let tables = Tables::new(&c);
    let tile_plan = TilePlan::new(&tables, shape, at_once).unwrap();
    let mut memory = Memory::default();
    let lens = tile_plan.lens();
    let at: Vec<u64> = lens.all().map(|len| memory.put(&vec![0.0f32; len])).collect();
    let fields = FieldAddresses {
        p: [at[0], at[1]],
        d: at[2],
        velocity: [[at[3], at[4]], [at[5], at[6]], [at[7], at[8]]],
        split: [at[9], at[10], at[11]],
        clean: memory.put(&[f32::NAN; 4]),
    };
    let [b, kappa] = match storage(shape) {
        Storage::Float32 => [tables.b(&c), tables.kappa(&c)].map(|values| memory.show(&values.unwrap())),
        Storage::Bits16 => {
            [tables.b_numbers(&c), tables.kappa_numbers(&c)].map(|values| memory.show(&values.unwrap()))
        }
    };
    let profiles = memory.show(&tables.profiles);
    let plan = PlanAddresses { b, kappa, profiles, tiles: memory.show(&tile_plan.table.tiles) };
    let params = tile_plan.params(&tables, &plan, &fields);
    let (first, places, traces) = tile_plan.receivers(&shot.receivers);
    let mut record = Record::new(&mut memory, places.len(), shot);
    let [first, trace] = [first, traces].map(|values| memory.show(&values));
    let places = memory.show(&places);
    let picture = memory.put(&vec![f32::NAN; model.grid.cells()]);
    let peak = memory.put(&[0u32]);
    let wavelet = source_pressures(shot);
    let wavelet_at = memory.show(&wavelet);
    // The backend reads the fields after these steps.
    let is_read = |step: usize| {
        step + 1 == shot.nt || shot.snapshot_every.is_some_and(|every| step.is_multiple_of(every))
    };
    let injector = CudaSource::new(&c, shot, fields.clean);
    let amplitude = |step: usize| (step < wavelet.len()).then_some(wavelet_at + 4 * step as u64);

    let mut snapshots = Vec::new();
    for step in 0..shot.nt {
        if let Some(late) = amplitude(step).filter(|_| step == 0 || is_read(step - 1)) {
            let poles = injector.poles(step + 1, false, Some(late));
            engine.launch(&memory, kernel::source(), &[bytes(&params[(step + 1) % 2]), bytes(&poles)]);
        }
        let next = amplitude(step + 1).filter(|_| !is_read(step));
        let poles = injector.poles(step, amplitude(step).is_some(), next);
        let row = record.row(step);
        let receivers = SampleParams { first, at: places, trace, to: row.unwrap_or(0) };
        let arguments = [bytes(&params[step % 2]), bytes(&poles), bytes(&receivers)];
        engine.launch(&memory, tile_plan.step(), &arguments);
        if row.is_some() {
            record.read(&memory, step);
        }
        if shot.snapshot_every.is_some_and(|every| step.is_multiple_of(every)) {
            let field = Field::new(&tables.layout, fields.p[1 - step % 2]);
            engine.launch(&memory, field.snapshot(), &[bytes(&field), bytes(&picture)]);
            snapshots.push((step, memory.get(picture)));
        }
    }
    let last = fields.p[shot.nt % 2];
    let field = Field::new(&tables.layout, last);
    engine.launch(&memory, field.peak(), &[bytes(&field), bytes(&peak)]);
    check_peak(&memory, peak, &memory.get(last));
    for field in &at[..3] {
        check_border(&tables, &memory.get::<f32>(*field)[..lens.field]);
    }
    Shots { record: record.values, samples: record.samples, snapshots }
}
