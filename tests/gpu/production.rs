//! The kernels of production surveys against the CPU, bit for bit: each equation and layer with each
//! storage and stencil, in grids whose tiles are of every kind. A tile without absorbing layers
//! needs 79 cells along z, more than any recorded case has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use gpusched::fd::equation::tti::{TtiPropagator, old::OldTtiPropagator};
use gpusched::fd::equation::{Absorber, EQUATIONS, Equation, WITH_OTHER_LAYER};
use gpusched::fd::equation::{acoustic1::Acoustic1, acoustic2::Acoustic2Propagator, vti::Vti};
use gpusched::fd::grid::{layout::Layout, tile_table::TileTable};
use gpusched::fd::march::tile_plan::TILE_ROWS;
use gpusched::fd::one_pass::equation::OnePassPropagator;
use gpusched::fd::plan::{Options, Plan, Stencil, Storage};
use gpusched::fd::survey::{Receivers, Shot};
use gpusched::fd::tiled::equation::TiledEquation;
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

/// A shot, and the grid's name.
struct Case {
    grid: String,
    world: World,
}

/// Runs the cases on each GPU, while the CPU computes the next case.
pub fn run(gpus: &[String], grids: &[&str]) -> Vec<bool> {
    std::thread::scope(|scope| {
        let (to, cases) = sync_channel(1);
        scope.spawn(move || {
            let cases = grids.iter().flat_map(|text| cases_of(text));
            // Ends early if the receiver has panicked.
            cases.map(|case| (on_cpu(&case.world), case)).all(|pair| to.send(pair).is_ok())
        });
        let on_gpus = |(expected, case): (Shots, Case)| {
            gpus.iter().map(|gpu| case.on_gpu(gpu, &expected)).collect::<Vec<_>>()
        };
        cases.iter().flat_map(on_gpus).collect()
    })
}

/// Returns each equation and layer with each of its storages and stencils, and with exact time.
fn cases_of(text: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |world| cases.push(Case { grid: text.into(), world });
    for equation in EQUATIONS.into_iter().chain(WITH_OTHER_LAYER) {
        let world = world(equation, grid(text));
        // The kernels of `tti` read float32 only.
        let storages = Storage::ALL.into_iter().take(if equation.name() == "tti" { 1 } else { 2 });
        for (storage, stencil) in storages.flat_map(|one| Stencil::ALL.map(|stencil| (one, stencil))) {
            let options = Options { storage, stencil, ..world.options };
            let dt = (STABLE * options.dt_max(&world.model)) as f32;
            add(World { dt, options, ..world.clone() });
        }
        let options = Options { exact_time: true, ..world.options };
        let shot = Shot { snapshot_every: None, ..world.shot.clone() };
        add(World { options, shot, ..world });
    }
    cases
}

/// A model in which no two cells are alike, a source in the middle, receivers in each cell of a
/// plane. The shot is long enough for a nonzero pressure in every cell: it spreads ahead of the
/// wave through as many cells as numbers stay normal.
fn world(equation: &'static dyn Equation, n: [usize; 3]) -> World {
    let mut random = Random::new(n.iter().sum::<usize>() as u64);
    let nt = steps().unwrap_or(n.iter().max().unwrap() / 2 + layer() + 60);
    let receivers = Receivers::Plane { iz: n[2] / 2 + 3, every: [1, 1] };
    let mut world = World::rough_for(equation, n, nt, receivers, &mut random);
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

/// Returns the number of tiles of each kind. A tile of kind 0 has no absorbing layer, or belongs to
/// an equation whose kernels have one kind.
fn kinds(world: &World) -> BTreeMap<String, usize> {
    let Options { equation, pml, .. } = world.options;
    let layout = Layout::new(world.model.grid.n, pml).on_gpu();
    let zones = match (equation.name(), equation.absorber()) {
        ("acoustic1", _) => OnePassPropagator::<Acoustic1>::zones(&layout),
        ("acoustic2", _) => Acoustic2Propagator::<true>::zones(&layout),
        ("vti", _) => OnePassPropagator::<Vti>::zones(&layout),
        ("tti", Absorber::Pml) => OldTtiPropagator::zones(&layout),
        ("tti", Absorber::Sponge) => TtiPropagator::zones(&layout),
        (other, _) => panic!("{other} has no table of tiles here"),
    };
    let mut kinds = BTreeMap::new();
    let table = TileTable::new(&layout, &zones, TILE_ROWS, AT_ONCE);
    table.tiles.iter().for_each(|tile| *kinds.entry(tile.kind.to_string()).or_default() += 1);
    kinds
}

impl Case {
    fn on_gpu(&self, gpu: &str, expected: &Shots) -> bool {
        let Options { equation, storage, stencil, exact_time, .. } = self.world.options;
        let (layer, grid) = (equation.absorber().name(), &self.grid);
        let how = match exact_time {
            true => "exact time".into(),
            false => format!("{}, {}", storage.name(), stencil.name()),
        };
        told(json!({ "case": format!("{equation:?}, {layer}, {grid}, {how}"), "device": gpu }), || {
            if exact_time { self.once(gpu, expected) } else { self.in_each_way(gpu, expected) }
        })
    }

    fn once(&self, gpu: &str, expected: &Shots) -> Value {
        let found = fire_on(&scheduler(gpu, 1).unwrap(), self.world.plan(), self.world.shot.clone()).unwrap();
        agree(&found, expected, "a shot");
        json!({ "shots": 1, "bits": fused() })
    }

    /// Runs a whole shot, one in three parts, and three at a time.
    fn in_each_way(&self, gpu: &str, expected: &Shots) -> Value {
        let world = &self.world;
        let (one, several) = (scheduler(gpu, 1).unwrap(), scheduler(gpu, BESIDE as u32).unwrap());
        let tiles = kinds(world);
        assert!(tiles.contains_key("0"), "no tile without layers: {tiles:?}");
        let plan = world.plan();
        let whole = fire_on(&one, plan.clone(), world.shot.clone()).unwrap();
        agree(&whole, expected, "a whole shot");
        agree(&paused(&one, plan.clone(), &world.shot), expected, "a shot with two pauses");
        beside(&several, &plan, world, expected);
        json!({ "shots": 2 + BESIDE, "bits": fused(), "tiles": tiles })
    }
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
