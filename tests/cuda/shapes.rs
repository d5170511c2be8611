//! The shapes of blocks of steps in one pass: all have the same bits, also where a shot changes them, and shots find the best.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use gpusched::fd::equation::acoustic1::Acoustic1Propagator;
use gpusched::fd::march::equation::CudaEquation;
use gpusched::fd::plan::{BlockShape, Options, Plan, SHAPES};
use gpusched::fd::{shot, survey::Receivers};
use gpusched::io::kept::Kept;
use gpusched::sched::Scheduler;

use crate::fixtures::*;
use testkit::{Folder, Random};
use testmodels::bits::{fused_or_skip, same};
use testmodels::shots::{NOWHERE, World, fire_on, on_device};

fn offered() -> &'static [BlockShape] {
    BlockShape::on(found().0[0].compute_capability)
}

fn runs() -> Vec<u64> {
    let (report, kernels) = (report(), Acoustic1Propagator::kernels());
    offered()
        .iter()
        .map(|shape| report["gpus"][0]["runs"][kernels.kernel(*shape)].as_u64().unwrap_or(0))
        .collect()
}

fn world(nt: usize, shape: Option<BlockShape>) -> World {
    let receivers = Receivers::Plane { iz: 2, every: [1, 2] };
    let mut world = World::rough([3, 2, 5], nt, receivers, &mut Random::new(41));
    world.options.shape = shape;
    world
}

fn fire(scheduler: &Scheduler, plan: &Arc<Plan>, world: &World) {
    let found = fire_on(scheduler, plan.clone(), world.shot.clone()).unwrap();
    if fused_or_skip() {
        let options = Options { shape: None, ..world.options };
        same(&found, &World { options, ..world.clone() }.fire(), "shapes");
    }
}

pub fn the_one_that_is_wanted_is_taken() {
    let scheduler = scheduler("cuda", 1).unwrap();
    for (way, &shape) in offered().iter().enumerate() {
        let (before, world) = (runs(), world(20, Some(shape)));
        fire(&scheduler, &world.plan(), &world);
        let now = runs();
        for other in 0..offered().len() {
            assert_eq!(now[other] - before[other], if other == way { 20 } else { 0 }, "{shape:?}");
        }
    }
}

fn best(scheduler: &Scheduler, plan: &Arc<Plan>) -> Option<BlockShape> {
    let plan = plan.clone();
    on_device(scheduler, move |exec| Ok(plan.shape(exec.lane))).unwrap()
}

/// Shots try all shapes in their batches, and then take one: the same plan's, and those of another plan of the same size.
pub fn shots_find_the_best() {
    let scheduler = scheduler("cuda", 1).unwrap();
    // Some 20 batches are timed at most, after two of each shape that are not.
    let batches = 7 * offered().len() + 2;
    let mut world = world(16 * batches, None);
    let tried = world.plan();
    assert_eq!(best(&scheduler, &tried), None);
    fire(&scheduler, &tried, &world);
    assert!(runs().iter().all(|&runs| runs >= 4 * 16), "{:?}", runs());
    let found = best(&scheduler, &tried).unwrap();
    world.shot.nt = 33;
    for plan in [tried, world.plan()] {
        let before = runs();
        fire(&scheduler, &plan, &world);
        assert_eq!(best(&scheduler, &plan), Some(found));
        for (way, shape) in offered().iter().enumerate() {
            assert_eq!(runs()[way] - before[way], if *shape == found { 33 } else { 0 }, "{shape:?}");
        }
    }
}

const KEPT: &str = "CASE_KEPT";

fn that_caches_in(file: &Path) -> Scheduler {
    let mut builder = Scheduler::builder();
    (builder.devices, builder.slots) = (Some("cuda".into()), Some(1));
    builder.rates = Some(Arc::new(Kept::new(file)));
    builder.build().unwrap()
}

/// Returns the shape that a process finds for a shot with the cache in a file, and the runs of each shape's kernel.
fn found_with(file: &Path) -> (BlockShape, Vec<u64>) {
    let scheduler = that_caches_in(file);
    let world = world(16 * (7 * SHAPES.len() + 2), None);
    let plan = world.plan();
    run(&scheduler, shot::task(plan.clone(), world.shot, 0, NOWHERE).unwrap()).unwrap();
    let shape = best(&scheduler, &plan).unwrap();
    drop(scheduler);
    (shape, runs())
}

/// A process that does as `the_next_process_does_not_try_again` has prepared it.
fn in_another_process(file: &Path) -> (BlockShape, Vec<u64>) {
    let mut program = Command::new(std::env::current_exe().unwrap());
    let ended = program.env(KEPT, file).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let mut words = said.split_whitespace();
    let name = words.next().unwrap();
    let shape = SHAPES.into_iter().find(|shape| shape.name == name).unwrap();
    (shape, words.map(|word| word.parse().unwrap()).collect())
}

fn are_tried(runs: &[u64]) -> bool {
    runs.iter().all(|&runs| runs >= 4 * 16)
}

/// What one process has found, the next one takes, whichever it is; and tries itself where that is none or of other kernels.
pub fn the_next_process_does_not_try_again() {
    if let Some(file) = std::env::var_os(KEPT) {
        let (shape, runs) = found_with(Path::new(&file));
        print!("{}", shape.name);
        runs.iter().for_each(|runs| print!(" {runs}"));
        return;
    }
    let folder = Folder::new();
    let file = folder.at("cache");
    let (found, runs) = in_another_process(&file);
    assert!(are_tried(&runs), "{runs:?}");
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("found\tcuda\t")).collect();
    let [line] = lines[..] else { panic!("{text}") };
    assert!(line.contains(&format!("\t{}\t", found.name)), "{line}");

    let other = SHAPES.into_iter().find(|shape| *shape != found).unwrap();
    let said = format!("\t{}\t", other.name);
    fs::write(&file, text.replace(&format!("\t{}\t", found.name), &said)).unwrap();
    let (taken, runs) = in_another_process(&file);
    assert_eq!(taken, other);
    for (shape, &ran) in SHAPES.iter().zip(&runs) {
        assert_eq!(ran > 0, *shape == other, "{shape:?}: {runs:?}");
    }
    // It has measured nothing that would make the line any younger.
    let kept = line.replace(&format!("\t{}\t", found.name), &said);
    assert!(fs::read_to_string(&file).unwrap().contains(&kept));

    // A cache of another driver.
    let changed = line.replace("driver 12.9,", "driver 12.8,");
    assert_ne!(changed, line);
    fs::write(&file, text.replace(line, &changed)).unwrap();
    let (_, runs) = in_another_process(&file);
    assert!(are_tried(&runs), "{runs:?}");
}

/// A shape that is named is no finding.
pub fn what_is_named_is_not_kept() {
    let folder = Folder::new();
    let scheduler = that_caches_in(&folder.at("cache"));
    let world = world(33, Some(SHAPES[1]));
    run(&scheduler, shot::task(world.plan(), world.shot, 0, NOWHERE).unwrap()).unwrap();
    drop(scheduler);
    let text = fs::read_to_string(folder.at("cache")).unwrap();
    assert!(text.lines().any(|line| line.starts_with("cuda\t")) && !text.contains("found\t"), "{text}");
}

/// A GPU that is too old for a shape does without, and says so when it is named.
pub fn what_a_gpu_does_not_run() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let names: Vec<_> = offered().iter().map(|shape| shape.name).collect();
    assert_eq!(names, ["4x2", "4x4"]);
    let refused = world(20, Some(SHAPES[2])).fire_on(&scheduler).err().unwrap().to_string();
    let words = "the shape of blocks is 4x2_async; accepted: auto, 4x2, 4x4 on cuda:0, whose compute capability is 7.5; \
                 4x2_async takes one of 8.0 or higher";
    assert!(refused.contains(words), "{refused}");
}

/// Batches that end for a snapshot are not timed, and what is not known is the first.
pub fn short_shots_find_nothing() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let mut world = world(48, None);
    world.shot.snapshot_every = Some(5);
    let plan = world.plan();
    fire(&scheduler, &plan, &world);
    assert_eq!(best(&scheduler, &plan), Some(SHAPES[0]));
}
