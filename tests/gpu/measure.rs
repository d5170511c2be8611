//! Times that the command's benchmark does not measure: tiles of each kind, CUDA graphs, compilation, first shots, shots
//! side by side, records on their way to the host.
//!
//! | `--measure` | for each grid |
//! |---|---|
//! | `compile` | seconds to load each kernel; cold with `CUDA_CACHE_DISABLE=1` |
//! | `kinds` | cells a second of each kind of tile and each shape |
//! | `graphs` | microseconds a step, launched one by one and as graphs |
//! | `shots` | seconds of the first shot and of later ones; with many receivers and with one; several at a time |

use std::time::Instant;

use gpusched::Result;
use gpusched::backend::Lane;
use gpusched::backend::cuda::{DeviceBuffer, Graphs, Kernel, Launches, Params as Arguments, Stream};
use gpusched::fd::equation::acoustic1::{Acoustic1Material, Acoustic1Propagator};
use gpusched::fd::grid::tile_table::GpuTile;
use gpusched::fd::march::equation::{CudaEquation, PlanAddresses, ShotAddresses};
use gpusched::fd::march::source::{CLEAN, CudaSource, SampleParams};
use gpusched::fd::march::tables::{COEFFICIENTS, Tables};
use gpusched::fd::march::{activity, tile_plan::TilePlan};
use gpusched::fd::one_pass::cuda::params::StepParams;
use gpusched::fd::plan::{Plan, Storage};
use gpusched::fd::survey::{Receivers, Shot};
use gpusched::fd::time_loop::block_shape::{BlockShape, OF_16_BITS};
use gpusched::sched::Exec;
use serde_json::{Value, json};

use testmodels::shots::{fire_all, homogeneous, on_device, plain_shot, time_step};

use crate::{grid, layer, scheduler, steps, told};

/// Launches that are timed together, and rounds, of which the fastest counts.
const LAUNCHES: usize = 16;
const ROUNDS: usize = 5;
/// TileTable of one kind in a launch, for each that the GPU runs at a time.
const WAVES: usize = 4;

pub fn run(gpus: &[String], what: &str, grids: &[&str]) -> Vec<bool> {
    let mut results = Vec::new();
    for gpu in gpus {
        let mut put = |grid: &str, test: &dyn Fn() -> Value| {
            results.push(told(json!({ "case": what, "device": gpu, "grid": grid }), test));
        };
        match what {
            "compile" => put("", &|| compile(gpu)),
            "kinds" => grids.iter().for_each(|text| put(text, &|| kinds(gpu, grid(text)))),
            "graphs" => grids.iter().for_each(|text| put(text, &|| graphs(gpu, grid(text)))),
            "shots" => grids.iter().for_each(|text| put(text, &|| shots(gpu, grid(text)))),
            other => panic!("{other} is nothing to measure"),
        }
    }
    results
}

/// Runs code on a GPU and returns the JSON that it makes.
fn on_gpu(gpu: &str, code: impl Fn(&Stream) -> Result<Value> + Send + Sync + 'static) -> Value {
    let run = move |exec: &Exec<'_>| match exec.lane {
        Lane::Cuda(stream) => code(stream),
        Lane::Cpu(_) => panic!("a GPU was asked for"),
    };
    on_device(&scheduler(gpu, 1).unwrap(), run).unwrap()
}

fn offered(stream: &Stream) -> &'static [BlockShape] {
    BlockShape::on(stream.device().info().compute_capability)
}

fn function(stream: &Stream, shape: BlockShape) -> Result<Kernel> {
    let kernels = Acoustic1Propagator::kernels();
    kernels.load(stream, kernels.kernel(shape))
}

fn compile(gpu: &str) -> Value {
    on_gpu(gpu, |stream| {
        let mut found = json!({});
        for shape in offered(stream).iter().chain([&OF_16_BITS]) {
            let begin = Instant::now();
            function(stream, *shape)?;
            found[format!("{}_s", shape.name)] = begin.elapsed().as_secs_f64().into();
        }
        Ok(found)
    })
}

/// A shape with the arrays of a shot.
struct Rig<'a> {
    stream: &'a Stream,
    tile_plan: TilePlan,
    function: Kernel,
    at_once: u32,
    params: [StepParams; 2],
    injector: CudaSource,
    _arrays: Vec<DeviceBuffer<f32>>,
}

impl<'a> Rig<'a> {
    fn new(stream: &'a Stream, n: [usize; 3], shape: BlockShape) -> Result<Rig<'a>> {
        let model = homogeneous(n, [10.0; 3], 2000.0, 1500.0);
        let c = Acoustic1Material::new(&model, layer(), Storage::Float32)?.coefficients(time_step(&model));
        let policy = Acoustic1Propagator(c.into());
        let tables = Tables::new(&policy);
        let function = function(stream, shape)?;
        let at_once = function.blocks_at_once(shape.threads() as u32)?;
        let tile_plan = TilePlan::new(&tables, shape, at_once as usize)?;
        let lens = Acoustic1Propagator::lens(&tables.layout);
        let count = lens.len();
        let zeros = lens.into_iter().chain([CLEAN]).map(|len| stream.zeroed::<f32>(len, "a field"));
        let mut arrays = zeros.collect::<Result<Vec<_>>>()?;
        for field in policy.fields() {
            let values = field.copied(&policy.0.layout, &tables.layout)?;
            arrays.push(stream.uploaded(&values, "the model")?);
        }
        arrays.push(stream.uploaded(&tables.profiles, "the model")?);
        // All parts are active: the rig measures steps that skip nothing.
        for _ in 0..2 {
            arrays.push(stream.uploaded(&vec![1.0; activity::flags(&tables.layout)], "the flags")?);
        }
        let at: Vec<u64> = arrays.iter().map(DeviceBuffer::address).collect();
        let (of_shot, of_plan) = at.split_at(count);
        let mut coefficients = [0; COEFFICIENTS];
        coefficients[..2].copy_from_slice(&of_plan[1..3]);
        let plan = PlanAddresses { coefficients, profiles: of_plan[3], tiles: 0 };
        let flags = [of_plan[4], of_plan[5]];
        let of_shot = ShotAddresses { arrays: of_shot.into(), own: 0, flags };
        let params = policy.params(&tables, &plan, &of_shot);
        let shot = shot(n, 1, Vec::new());
        Ok(Rig {
            stream,
            function,
            at_once,
            params,
            injector: CudaSource::new(&tables.layout, &shot, at[count]),
            tile_plan,
            _arrays: arrays,
        })
    }

    /// A launch of step number `step` over a table of boxes.
    fn arguments(&self, step: usize, tiles: &DeviceBuffer<GpuTile>) -> Arguments {
        let params = StepParams { tiles: tiles.address(), ..self.params[step % 2] };
        let (points, none) =
            (self.injector.points(step, false, None), SampleParams { first: 0, at: 0, trace: 0, to: 0 });
        Arguments::new().with(params).with(points).with(none)
    }

    fn block(&self) -> [u32; 3] {
        [32, self.tile_plan.shape.warps as u32, 1]
    }

    /// Seconds of a launch; the fastest of several rounds.
    fn seconds(&self, mut round: impl FnMut() -> Result<()>) -> Result<f64> {
        let mut best = f64::INFINITY;
        for _ in 0..=ROUNDS {
            let begin = self.stream.stamp()?;
            round()?;
            let end = self.stream.stamp()?;
            end.wait()?;
            best = end.seconds_since(&begin)?.min(best);
        }
        Ok(best / LAUNCHES as f64)
    }
}

/// TileTable of one kind only, as many as keep the GPU busy: some more than once, so their memory may be in its cache.
fn kinds(gpu: &str, n: [usize; 3]) -> Value {
    on_gpu(gpu, move |stream| {
        let mut found = json!({});
        for &shape in offered(stream) {
            let rig = Rig::new(stream, n, shape)?;
            for kind in 0..8 {
                let mut tiles = rig.tile_plan.table.tiles.clone();
                tiles.retain(|tile| tile.kind == kind);
                if tiles.is_empty() {
                    continue;
                }
                let least = if steps().is_some() { 1 } else { WAVES * rig.at_once as usize };
                let tiles: Vec<GpuTile> =
                    tiles.iter().copied().cycle().take(least.max(tiles.len())).collect();
                let planes: i64 = tiles.iter().map(|tile| i64::from(tile.end - tile.y)).sum();
                let tiles = stream.uploaded(&tiles, "boxes of one kind")?;
                let seconds = rig.seconds(|| {
                    (0..LAUNCHES).try_for_each(|step| {
                        let arguments = rig.arguments(step, &tiles);
                        stream.launch(&rig.function, [tiles.len() as u32, 1, 1], rig.block(), arguments)
                    })
                })?;
                let cells = planes as f64 * (64 * shape.warps * shape.rows) as f64;
                found[shape.name][kind.to_string()] = json!(cells / seconds / 1e9);
            }
        }
        Ok(json!({ "gcells_per_s": found }))
    })
}

/// Steps of the whole grid, one by one and in graphs of [`LAUNCHES`].
fn graphs(gpu: &str, n: [usize; 3]) -> Value {
    on_gpu(gpu, move |stream| {
        let rig = Rig::new(stream, n, offered(stream)[0])?;
        let tiles = stream.uploaded(&rig.tile_plan.table.tiles, "boxes")?;
        let blocks = [rig.tile_plan.table.tiles.len() as u32, 1, 1];
        let plain = rig.seconds(|| {
            (0..LAUNCHES).try_for_each(|step| {
                stream.launch(&rig.function, blocks, rig.block(), rig.arguments(step, &tiles))
            })
        })?;
        let mut graphs = Graphs::default();
        let as_graphs = rig.seconds(|| {
            graphs.put(stream, (), |list: &mut Launches| {
                for step in 0..LAUNCHES {
                    list.push(&rig.function, blocks, rig.block(), rig.arguments(step, &tiles));
                }
            })
        })?;
        Ok(json!({ "launched_us": 1e6 * plain, "as_graphs_us": 1e6 * as_graphs }))
    })
}

fn shot(n: [usize; 3], nt: usize, receivers: Vec<[usize; 3]>) -> Shot {
    plain_shot(n.map(|n| n / 2 - 1), vec![1e-3; nt.min(100)], nt, receivers)
}

/// Whole shots, with a receiver in each cell of the surface.
fn shots(gpu: &str, n: [usize; 3]) -> Value {
    let nt = steps().unwrap_or(1000);
    let model = homogeneous(n, [10.0; 3], 2000.0, 1500.0);
    let options = gpusched::fd::plan::Options { pml: layer(), ..Default::default() };
    let plan = std::sync::Arc::new(Plan::new(model.clone(), time_step(&model), options).unwrap());
    let few = shot(n, nt, vec![[0; 3]]);
    let many = Shot { receivers: Receivers::Plane { iz: 0, every: [1, 1] }, ..few.clone() };
    let seconds = |slots: u32, shots: usize, shot: &Shot| {
        let scheduler = scheduler(gpu, slots).unwrap();
        let survey = vec![(plan.clone(), shot.clone()); shots];
        move || {
            let begin = Instant::now();
            fire_all(&scheduler, &survey);
            begin.elapsed().as_secs_f64()
        }
    };
    let one = seconds(1, 1, &many);
    let first: Vec<f64> = (0..4).map(|_| one()).collect();
    let next = first[1..].iter().copied().fold(f64::INFINITY, f64::min);
    let best = |run: &dyn Fn() -> f64| (0..3).map(|_| run()).fold(f64::INFINITY, f64::min);
    let quiet = best(&seconds(1, 1, &few));
    let beside: Vec<f64> = [2, 3].map(|count| best(&seconds(count as u32, count, &many))).into();
    json!({
        "steps": nt, "first_s": first[0], "second_s": first[1], "next_s": next, "one_receiver_s": quiet,
        "two_at_once_s": beside[0], "three_at_once_s": beside[1],
    })
}
