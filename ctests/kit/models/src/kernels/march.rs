//! Whole shots by the kernels, as the CUDA backend drives a GPU.

use std::sync::Arc;

use gpusched::fd::equation::acoustic1::Acoustic1;
use gpusched::fd::equation::{Absorber, acoustic2, tti, vti::Vti};
use gpusched::fd::inject::source_pressures;
use gpusched::fd::march::equation::{CudaEquation, PlanAddresses, ShotAddresses};
use gpusched::fd::march::source::{CLEAN, CubeParams, CudaSource, SampleParams};
use gpusched::fd::march::tables::{COEFFICIENTS, Tables};
use gpusched::fd::march::{activity, tile_plan::TilePlan};
use gpusched::fd::one_pass::coefficients::BulkMaterial;
use gpusched::fd::one_pass::equation::{OnePassEquation, OnePassPropagator};
use gpusched::fd::plan::Options;
use gpusched::fd::time_loop::field_kernels::Field;

use super::{Engine, Memory, Record, bytes, cells_at_rest, check_border, check_peak};
use crate::shots::{Shots, World};

/// Returns an equation with a split PML in a world.
fn one_pass<E: OnePassEquation>(World { model, dt, options, .. }: &World) -> OnePassPropagator<E> {
    let Options { pml, storage, stencil, old_rules, isotropic_source, .. } = *options;
    let material = BulkMaterial::new(model, pml, storage, E::MIXING > 0).unwrap();
    OnePassPropagator::new(material.coefficients(*dt, stencil, old_rules), isotropic_source)
}

/// Runs a shot on a GPU that runs `at_once` blocks at a time.
pub fn fire(engine: &dyn Engine, world: &World, at_once: usize) -> Shots {
    let World { model, dt, options, .. } = world;
    match options.equation.name() {
        "acoustic1" => fire_with(engine, &one_pass::<Acoustic1>(world), world, at_once),
        "acoustic2" => {
            let absorber = options.equation.absorber();
            let medium =
                acoustic2::Acoustic2Medium::new(model, options.pml, options.storage, absorber).unwrap();
            let c = Arc::new(medium.coefficients(*dt, options.stencil));
            match absorber {
                Absorber::Pml => {
                    fire_with(engine, &acoustic2::Acoustic2Propagator::<true>(c), world, at_once)
                }
                Absorber::Sponge => {
                    fire_with(engine, &acoustic2::Acoustic2Propagator::<false>(c), world, at_once)
                }
            }
        }
        "vti" => fire_with(engine, &one_pass::<Vti>(world), world, at_once),
        "tti" => {
            let (pml, storage) = (options.pml, options.storage);
            match options.equation.absorber() {
                Absorber::Pml => {
                    let material = tti::TtiMaterial::old(model, pml, storage).unwrap();
                    let c = material.old_coefficients(*dt, options.scheme());
                    fire_with(engine, &c, world, at_once)
                }
                Absorber::Sponge => {
                    let material = tti::TtiMaterial::new(model, pml, storage).unwrap();
                    let c = material.coefficients(*dt, options.scheme());
                    fire_with(engine, &c, world, at_once)
                }
            }
        }
        other => panic!("{other} has no kernels"),
    }
}

fn fire_with<E: CudaEquation>(engine: &dyn Engine, equation: &E, world: &World, at_once: usize) -> Shots {
    let World { model, shot, .. } = world;
    let equation = &equation.around(shot.padded_source(equation.layout().pml));
    let tile_plan = TilePlan::new(Tables::new(equation), at_once);
    let tables = &tile_plan.tables;
    let mut memory = Memory::default();
    let lens = E::lens(&tables.layout);
    let arrays: Vec<u64> = lens.iter().map(|len| memory.put(&vec![0.0f32; *len])).collect();
    let is_field = |array: usize| lens[array] == tables.layout.field_len();
    let fields: Vec<u64> =
        (0..lens.len()).filter(|array| is_field(*array)).map(|array| arrays[array]).collect();
    let clean = memory.put(&[f32::NAN; CLEAN]);
    let mut coefficients = [0; COEFFICIENTS];
    for (field, to) in equation.fields().into_iter().zip(&mut coefficients) {
        *to = memory.show(&field.on_gpu(equation.layout(), &tables.layout).unwrap());
    }
    let profiles = memory.show(&tables.profiles);
    let plan = PlanAddresses { coefficients, profiles, tiles: memory.show(&tile_plan.table.tiles) };
    let ball = equation.ball();
    let cube = CubeParams::new(ball, ball.map_or(0, |ball| memory.show(&ball.values())));
    let at_start = activity::at_start(&tables.layout, shot);
    let flags = [memory.put(&at_start), memory.put(&at_start)];
    let skipped = memory.put(&[0u64]);
    let addresses = ShotAddresses { arrays, cube, flags, skipped };
    let params = equation.params(tables, &plan, &addresses);
    let (first, places, traces) = tile_plan.receivers(&shot.receivers).unwrap();
    let mut record = Record::new(&mut memory, places.len(), shot);
    let [first, trace] = [first, traces].map(|values| memory.show(&values));
    let places = memory.show(&places);
    let picture = memory.put(&vec![f32::NAN; model.grid.cells()]);
    let peak = memory.put(&[0u32]);
    let wavelet = source_pressures(shot).unwrap();
    let wavelet_at = memory.show(&wavelet);
    // The backend reads the fields after these steps.
    let is_read = |step: usize| {
        step + 1 == shot.nt || shot.snapshot_every.is_some_and(|every| step.is_multiple_of(every))
    };
    let injector = CudaSource::new(&tables.layout, shot, clean);
    let amplitude = |step: usize| (step < wavelet.len()).then_some(wavelet_at + 4 * step as u64);

    let mut snapshots = Vec::new();
    let mut at_rest = 0;
    for step in 0..shot.nt {
        if let Some(late) = amplitude(step).filter(|_| step == 0 || is_read(step - 1)) {
            let points = injector.points(step + 1, false, Some(late));
            engine.launch(&memory, tile_plan.source(), &[bytes(&params[(step + 1) % 2]), bytes(&points)]);
        }
        let next = amplitude(step + 1).filter(|_| !is_read(step));
        let points = injector.points(step, amplitude(step).is_some(), next);
        let row = record.row(step);
        let receivers = SampleParams { first, at: places, trace, to: row.unwrap_or(0) };
        if let Some(before) = tables.kernels.before {
            engine.launch(&memory, tile_plan.launch(before), &[bytes(&params[step % 2])]);
        }
        at_rest += cells_at_rest(tables, &tile_plan.table.tiles, &memory.get(flags[step % 2]));
        let arguments = [bytes(&params[step % 2]), bytes(&points), bytes(&receivers)];
        engine.launch(&memory, tile_plan.launch(tables.kernels.step(tables.storage)), &arguments);
        assert_eq!(memory.get::<u64>(skipped), [at_rest], "cells skipped until step {step}");
        if row.is_some() {
            record.read(&memory, step);
        }
        if shot.snapshot_every.is_some_and(|every| step.is_multiple_of(every)) {
            let field = Field::new(&tables.layout, fields[(step + 1) % E::PRESSURE_FIELDS]);
            engine.launch(&memory, field.snapshot(), &[bytes(&field), bytes(&picture)]);
            snapshots.push((step, memory.get(picture)));
        }
    }
    let last = fields[shot.nt % E::PRESSURE_FIELDS];
    let field = Field::new(&tables.layout, last);
    engine.launch(&memory, field.peak(), &[bytes(&field), bytes(&peak)]);
    check_peak(&memory, peak, &memory.get(last));
    for field in fields {
        check_border(tables, &memory.get::<f32>(field));
    }
    Shots { record: record.values, samples: record.samples, snapshots }
}
