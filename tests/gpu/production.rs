//! The kernels of production surveys against the CPU, bit for bit: all equations and storages in
//! grids whose tiles are of every kind. A tile without absorbing layers needs 79 cells along z,
//! more than any recorded case has.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpusched::fd::equation::acoustic1::Acoustic1Propagator;
use gpusched::fd::equation::{Absorber, acoustic2, by_name, with_absorber};
use gpusched::fd::march::{tables::Tables, tile_plan::TilePlan};
use gpusched::fd::one_pass::coefficients::BulkMaterial;
use gpusched::fd::plan::{Options, Plan, Stencil, Storage};
use gpusched::fd::survey::{Receivers, Shot};
use gpusched::sched::Scheduler;
use serde_json::{Value, json};

use testkit::Random;
use testmodels::bits::fused;
use testmodels::shots::{Shots, World, fire_all, fire_on, fire_with, in_parts, on_device};

use crate::golden::agree;
use crate::{grid, layer, scheduler, steps, told};

/// Blocks that a GPU is assumed to run at a time, for the count of tiles.
const AT_ONCE: usize = 396;
/// Share of the largest time step, because densities jump from cell to cell.
const STABLE: f64 = 0.6;
/// Number of concurrent shots.
const BESIDE: usize = 3;

pub fn run(gpus: &[String], grids: &[&str]) -> Vec<bool> {
    let mut results = Vec::new();
    for text in grids {
        let worlds = ["acoustic1", "acoustic2", "vti", "tti"].map(|equation| world(equation, grid(text)));
        let [acoustic1, acoustic2, vti, tti] = &worlds;
        let equation = with_absorber(acoustic2.options.equation, Absorber::Pml).unwrap();
        let with_pml = &World { options: Options { equation, ..acoustic2.options }, ..acoustic2.clone() };
        let equation = with_absorber(tti.options.equation, Absorber::Pml).unwrap();
        let old_tti = &World { options: Options { equation, ..tti.options }, ..tti.clone() };
        for (world, storage, stencil) in [
            (acoustic1, Storage::Float32, Stencil::Taylor),
            (acoustic1, Storage::Float32, Stencil::Optimised),
            (acoustic1, Storage::Bits16, Stencil::Taylor),
            (acoustic2, Storage::Float32, Stencil::Optimised),
            (acoustic2, Storage::Bits16, Stencil::Taylor),
            (with_pml, Storage::Float32, Stencil::Taylor),
            (with_pml, Storage::Bits16, Stencil::Optimised),
            (vti, Storage::Float32, Stencil::Taylor),
            (vti, Storage::Bits16, Stencil::Taylor),
            (tti, Storage::Float32, Stencil::Taylor),
            (tti, Storage::Float32, Stencil::Optimised),
            (old_tti, Storage::Float32, Stencil::Taylor),
        ] {
            let options = Options { storage, stencil, ..world.options };
            let dt = (STABLE * options.dt_max(&world.model)) as f32;
            let world = World { dt, options, ..world.clone() };
            let expected = on_cpu(&world);
            for gpu in gpus {
                results.push(on_gpu(gpu, text, &world, &expected));
            }
        }
        let cases = worlds
            .iter()
            .chain([with_pml, old_tti])
            .flat_map(|world| gpus.iter().map(move |gpu| (gpu, world)));
        results.extend(cases.map(|(gpu, world)| exact_time(gpu, text, world)));
    }
    results
}

/// A model in which no two cells are alike, a source in the middle, receivers in each cell of a
/// plane. The shot is long enough for a nonzero pressure in every cell: it spreads ahead of the
/// wave through as many cells as numbers stay normal.
fn world(equation: &str, n: [usize; 3]) -> World {
    let mut random = Random::new(n.iter().sum::<usize>() as u64);
    let nt = steps().unwrap_or(n.iter().max().unwrap() / 2 + layer() + 60);
    let receivers = Receivers::Plane { iz: n[2] / 2 + 3, every: [1, 1] };
    let mut world = World::rough_for(by_name(equation).unwrap(), n, nt, receivers, &mut random);
    world.options.pml = layer();
    world.dt *= STABLE as f32;
    world.shot.source = n.map(|n| n / 2);
    world.shot.source[2] -= 1;
    world.shot.snapshot_every = Some(nt - 1);
    world
}

fn on_cpu(world: &World) -> Shots {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    fire_with(&world.model, world.dt, &world.shot, world.options, threads)
}

/// Returns the number of tiles of each kind; 0 is a tile without absorbing layers, and any of
/// `acoustic2`.
fn kinds(world: &World) -> BTreeMap<String, usize> {
    let Options { equation, pml, storage, stencil, .. } = world.options;
    let tables = if equation.name() == "acoustic2" {
        let medium = acoustic2::Medium::new(&world.model, pml, storage, equation.absorber()).unwrap();
        Tables::new(&acoustic2::Acoustic2Propagator::<false>(Arc::new(
            medium.coefficients(world.dt, stencil),
        )))
    } else {
        let material = BulkMaterial::new(&world.model, pml, storage).unwrap();
        Tables::new(&Acoustic1Propagator(
            material.coefficients(world.dt, world.options.stencil, false).into(),
        ))
    };
    let tile_plan = TilePlan::new(&tables, AT_ONCE);
    let mut kinds = BTreeMap::new();
    tile_plan.table.tiles.iter().for_each(|tile| *kinds.entry(tile.kind.to_string()).or_default() += 1);
    kinds
}

/// Runs a whole shot, one in three parts, and three at a time.
fn on_gpu(gpu: &str, grid: &str, world: &World, expected: &Shots) -> bool {
    let (one, several) = (scheduler(gpu, 1).unwrap(), scheduler(gpu, BESIDE as u32).unwrap());
    let Options { equation, storage, stencil, .. } = world.options;
    let what = json!({
        "case": format!("{equation:?}, {}, {grid}, {}, {}", equation.absorber().name(), storage.name(), stencil.name()),
        "device": gpu,
    });
    told(what, || {
        let tiles = kinds(world);
        assert!(tiles.contains_key("0"), "no tile without layers: {tiles:?}");
        let plan = world.plan();
        let whole = fire_on(&one, plan.clone(), world.shot.clone()).unwrap();
        agree(&whole, expected, "a whole shot");
        agree(&paused(&one, plan.clone(), &world.shot), expected, "a shot with two pauses");
        beside(&several, &plan, world, expected);
        json!({ "shots": 2 + BESIDE, "bits": fused(), "tiles": tiles })
    })
}

fn paused(scheduler: &Scheduler, plan: Arc<Plan>, shot: &Shot) -> Shots {
    let (shot, pauses) = (shot.clone(), [shot.nt / 3, shot.nt / 2]);
    let run = move |exec: &gpusched::sched::Exec<'_>| {
        in_parts(&plan, &shot, &pauses, |_| exec.lane).map(|(shots, ..)| shots)
    };
    on_device(scheduler, run).unwrap()
}

fn beside(scheduler: &Scheduler, plan: &Arc<Plan>, world: &World, expected: &Shots) {
    let shot = Shot { snapshot_every: None, ..world.shot.clone() };
    let survey = vec![(plan.clone(), shot); BESIDE];
    let expected =
        Shots { record: expected.record.clone(), samples: expected.samples, snapshots: Vec::new() };
    for found in fire_all(scheduler, &survey) {
        agree(&found, &expected, "a shot beside others");
    }
}

/// Computes records without the error of time steps.
fn exact_time(gpu: &str, grid: &str, world: &World) -> bool {
    let options = Options { exact_time: true, ..world.options };
    let shot = Shot { snapshot_every: None, ..world.shot.clone() };
    let world = World { options, shot, ..world.clone() };
    let (equation, layer) = (options.equation, options.equation.absorber().name());
    told(
        json!({ "case": format!("{equation:?}, {layer}, {grid}, exact time"), "device": gpu }),
        || -> Value {
            let found = fire_on(&scheduler(gpu, 1).unwrap(), world.plan(), world.shot.clone()).unwrap();
            agree(&found, &on_cpu(&world), "exact time");
            json!({ "shots": 1, "bits": fused() })
        },
    )
}
