//! Whole shots by the kernels that compute a step in one pass, as the CUDA backend drives a GPU.

use gpusched::fd::equation::acoustic1::{Acoustic1Material, Acoustic1Propagator};
use gpusched::fd::equation::vti::VtiMaterial;
use gpusched::fd::inject::source_pressures;
use gpusched::fd::one_pass::cuda::params::{CubeParams, CudaSource, SampleParams};
use gpusched::fd::one_pass::cuda::policy::CudaPolicy;
use gpusched::fd::one_pass::cuda::tables::Tables;
use gpusched::fd::one_pass::cuda::tile_plan::{FieldAddresses, PlanAddresses, TilePlan};
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
    match options.equation.name() {
        "acoustic1" => {
            let c = Acoustic1Material::new(model, options.pml, storage(shape)).unwrap().coefficients(*dt);
            let c = c.with(options.stencil);
            fire_with(engine, &Acoustic1Propagator(c.into()), world, shape, at_once)
        }
        "vti" => {
            let material = VtiMaterial::new(model, options.pml, storage(shape)).unwrap();
            let propagator = material.coefficients(*dt, options.scheme());
            fire_with(engine, &propagator.shot(shot.source), world, shape, at_once)
        }
        other => panic!("{other} has no kernels"),
    }
}

fn fire_with(
    engine: &dyn Engine,
    policy: &impl CudaPolicy,
    world: &World,
    shape: BlockShape,
    at_once: usize,
) -> Shots {
    let World { model, shot, .. } = world;
    let c = policy.coefficients();
    let tables = Tables::new(policy);
    let tile_plan = TilePlan::new(&tables, shape, at_once).unwrap();
    let mut memory = Memory::default();
    let lens = tile_plan.lens();
    let mut at: Vec<u64> = lens.all().map(|len| memory.put(&vec![0.0f32; len])).collect();
    *at.last_mut().unwrap() = memory.put(&[f32::NAN; 4]);
    let fields = FieldAddresses::new(tables.pressures, &at);
    let mut coefficients = [0; 4];
    for (field, to) in policy.fields().into_iter().zip(&mut coefficients) {
        *to = match storage(shape) {
            Storage::Float32 => memory.show(&field.copied(&c.layout, &tables.layout).unwrap()),
            Storage::Bits16 => memory.show(&field.numbers(&c.layout, &tables.layout).unwrap()),
        };
    }
    let profiles = memory.show(&tables.profiles);
    let plan = PlanAddresses { coefficients, profiles, tiles: memory.show(&tile_plan.table.tiles) };
    let cube = policy.cube().map(|cube| CubeParams::new(&cube, memory.show(&cube.values.concat())));
    let params = tile_plan.params(&tables, &plan, &fields, cube.unwrap_or_default());
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
    let injector = CudaSource::new(&tables.layout, shot, fields.clean);
    let amplitude = |step: usize| (step < wavelet.len()).then_some(wavelet_at + 4 * step as u64);

    let mut snapshots = Vec::new();
    for step in 0..shot.nt {
        if let Some(late) = amplitude(step).filter(|_| step == 0 || is_read(step - 1)) {
            let points = injector.points(step + 1, false, Some(late));
            engine.launch(&memory, tile_plan.source(), &[bytes(&params[(step + 1) % 2]), bytes(&points)]);
        }
        let next = amplitude(step + 1).filter(|_| !is_read(step));
        let points = injector.points(step, amplitude(step).is_some(), next);
        let row = record.row(step);
        let receivers = SampleParams { first, at: places, trace, to: row.unwrap_or(0) };
        let arguments = [bytes(&params[step % 2]), bytes(&points), bytes(&receivers)];
        engine.launch(&memory, tile_plan.step(), &arguments);
        if row.is_some() {
            record.read(&memory, step);
        }
        if shot.snapshot_every.is_some_and(|every| step.is_multiple_of(every)) {
            let field = Field::new(&tables.layout, fields.p[0][1 - step % 2]);
            engine.launch(&memory, field.snapshot(), &[bytes(&field), bytes(&picture)]);
            snapshots.push((step, memory.get(picture)));
        }
    }
    let last = fields.p[0][shot.nt % 2];
    let field = Field::new(&tables.layout, last);
    engine.launch(&memory, field.peak(), &[bytes(&field), bytes(&peak)]);
    check_peak(&memory, peak, &memory.get(last));
    for field in &at[..lens.fields()] {
        check_border(&tables, &memory.get::<f32>(*field)[..lens.field]);
    }
    Shots { record: record.values, samples: record.samples, snapshots }
}
