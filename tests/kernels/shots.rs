//! Whole shots by the CUDA kernels without a GPU: the source, compiled for the host, and the PTX,
//! interpreted, compute what the Rust propagator computes, bit for bit.

use std::sync::{Arc, LazyLock};

use gpusched::fd::equation::acoustic1::Acoustic1;
use gpusched::fd::equation::tti::{TtiPropagator, old::OldTtiPropagator};
use gpusched::fd::equation::{EQUATIONS, Equation, WITH_OTHER_LAYER, acoustic2, by_name, vti::Vti};
use gpusched::fd::march::{equation::CudaEquation, kernel_set::KernelSet};
use gpusched::fd::march::{tables::Tables, tile_plan::TilePlan};
use gpusched::fd::model::{Model, Property, Values};
use gpusched::fd::one_pass::coefficients::BulkMaterial;
use gpusched::fd::one_pass::equation::{OnePassEquation, OnePassPropagator};
use gpusched::fd::plan::{Options, Stencil, Storage};
use gpusched::fd::survey::Receivers;
use gpusched::fd::time_loop::field_kernels::PTX;

use testkit::Random;
use testmodels::bits::{fused_or_skip, same};
use testmodels::kernels::{Engine, Host, Interpreted, Order, Ordered, fire};
use testmodels::shots::{FAINT, Shots, World, time_step};

/// Compiles kernels for the host.
fn compiled(kernels: &str, options: &[&str]) -> Host {
    let source = testkit::root().join(kernels);
    let name = source.file_stem().and_then(|name| name.to_str()).expect("a file name").to_owned();
    Host::compile(&source, &name, options)
}

static FIELD: LazyLock<Host> = LazyLock::new(|| compiled("kernels/field.cu", &["-DASKED=\"field.h\""]));
static ACOUSTIC1: LazyLock<Host> =
    LazyLock::new(|| compiled("kernels/acoustic1_one_pass.cu", &["-DASKED=\"acoustic1_one_pass.h\""]));
static ACOUSTIC2: LazyLock<Host> =
    LazyLock::new(|| compiled("kernels/acoustic2_one_pass.cu", &["-DASKED=\"acoustic2_one_pass.h\""]));
static VTI: LazyLock<Host> =
    LazyLock::new(|| compiled("kernels/vti_one_pass.cu", &["-DASKED=\"vti_one_pass.h\""]));
static TTI: LazyLock<Host> = LazyLock::new(|| compiled("kernels/tti.cu", &["-DASKED=\"tti.h\""]));
static OLD_TTI: LazyLock<Host> = LazyLock::new(|| compiled("kernels/tti_old.cu", &["-DASKED=\"tti_old.h\""]));
static HOSTS: [&LazyLock<Host>; 6] = [&FIELD, &ACOUSTIC1, &ACOUSTIC2, &VTI, &TTI, &OLD_TTI];
static INTERPRETED: LazyLock<Interpreted> = LazyLock::new(|| interpreted(str::to_owned));

/// Returns the kernels of all equations.
pub fn kernel_sets() -> [&'static KernelSet; 5] {
    let acoustic2 = acoustic2::Acoustic2Propagator::<true>::kernels();
    let (tti, old_tti) = (TtiPropagator::kernels(), OldTtiPropagator::kernels());
    [Acoustic1::kernel_set(), acoustic2, Vti::kernel_set(), tti, old_tti]
}

/// Returns all kernels from texts to which `change` is applied.
fn interpreted(change: impl Fn(&str) -> String) -> Interpreted {
    let texts = kernel_sets().map(KernelSet::all);
    let changed: Vec<String> =
        std::iter::once(PTX).chain(texts.iter().map(String::as_str)).map(change).collect();
    Interpreted::of(&changed.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The kernels for a storage of coefficients, on a GPU that runs so many blocks at the same time.
#[derive(Debug, Clone, Copy)]
struct Kernels(Storage, usize);

impl Kernels {
    fn stored(self, world: &World) -> World {
        World { options: Options { storage: self.0, ..world.options }, ..world.clone() }
    }

    fn fire(self, engine: &dyn Engine, world: &World) -> Shots {
        fire(engine, &self.stored(world), self.1)
    }

    fn by_host(self, order: Order, world: &World) -> Shots {
        self.fire(&Ordered(&HOSTS, order), world)
    }

    fn by_rust(self, world: &World) -> Shots {
        self.stored(world).fire()
    }

    fn compare(self, order: Order, world: &World) {
        let (n, pml, source) = (world.model.grid.n, world.options.pml, world.shot.source);
        let name = world.options.equation.name();
        let what = format!("{name}, {n:?}, layer {pml}, {self:?}, source {source:?}, {order:?}");
        same(&self.by_host(order, world), &self.by_rust(world), &what);
    }
}

/// The equations that have kernels.
fn equations() -> impl Iterator<Item = &'static dyn Equation> {
    EQUATIONS.into_iter().chain(WITH_OTHER_LAYER)
}

/// Returns the storages of coefficients for which kernels exist.
fn storages(equation: &dyn Equation) -> impl Iterator<Item = Storage> {
    let most = if equation.name() == "tti" { 1 } else { 2 };
    [Storage::Float32, Storage::Bits16].into_iter().take(most)
}

/// All kinds of tiles, with sources in the middle, in the PML zone and at the layer's edge; thin
/// axes without a middle.
#[test]
fn shots_of_odd_sizes_come_out_bit_for_bit() {
    if !fused_or_skip() {
        return;
    }
    let mut random = Random::new(4);
    let sizes = [
        ([1, 1, 1], 8),
        ([5, 7, 17], 8),
        ([1, 6, 40], 9),
        ([33, 1, 3], 8),
        ([2, 19, 1], 11),
        ([41, 13, 150], 9),
        ([8, 9, 16], 20),
        ([30, 12, 91], 20),
    ];
    let orders = [Order::Ascending, Order::Descending, Order::Shuffled(7)];
    let cases = equations().flat_map(|equation| sizes.map(|size| (equation, size)));
    for (number, (equation, (n, pml))) in cases.enumerate() {
        // Other equations share the tiles of the first: one source each, at the centre of the
        // largest.
        let others = number >= sizes.len();
        let nt = if others { 8 } else { 20 };
        let mut world = World::rough_for(equation, n, nt, Receivers::List(Vec::new()), &mut random);
        (world.options.pml, world.shot.record_every, world.shot.snapshot_every) =
            (pml, 1 + number % 3, Some(7));
        let last = n.map(|n| n - 1);
        // Receivers in corners record the source in another corner; a cell may have several
        // receivers.
        let corners: Vec<_> = (0..8).map(|k| [0, 1, 2].map(|axis| last[axis] * (k >> axis & 1))).collect();
        let centre = n.map(|n| n / 2);
        let lists = [corners, vec![centre; 2], vec![random.cell(n); 3]].concat();
        let sources = [
            ([0; 3], Receivers::List(lists.clone())),
            (last, Receivers::Plane { iz: last[2], every: [2, 3] }),
            (centre, Receivers::List(lists)),
        ];
        for (turn, (source, receivers)) in sources.into_iter().enumerate() {
            // A layer of 20 cells has the corners of thinner ones.
            if (others || pml == 20) && turn != (number + 1) % 3 {
                continue;
            }
            (world.shot.source, world.shot.receivers) = (source, receivers);
            for storage in storages(equation) {
                Kernels(storage, [1, 264, 10_000][number % 3]).compare(orders[number % 3], &world);
            }
        }
    }
}

#[test]
fn sources_in_the_absorbing_layer_come_out_bit_for_bit() {
    if !fused_or_skip() {
        return;
    }
    let (n, mut random) = ([5, 7, 17], Random::new(41));
    for equation in equations() {
        for outside in [[0, 0, -2], [3, -1, 3]] {
            let receivers = Receivers::Plane { iz: 0, every: [1, 1] };
            let mut world = World::rough_for(equation, n, 12, receivers, &mut random);
            world.options.pml = 9;
            world.shot.source = [4, 0, if outside[2] < 0 { 0 } else { 16 }];
            world.shot.outside = outside;
            for storage in storages(equation) {
                Kernels(storage, 264).compare(Order::Ascending, &world);
            }
        }
    }
}

/// Two blocks compute the two poles of the source.
#[test]
fn dipole_across_two_tiles_comes_out_bit_for_bit() {
    if !fused_or_skip() {
        return;
    }
    let mut world = World::rough([9, 6, 80], 15, Receivers::List(Vec::new()), &mut Random::new(12));
    world.shot.snapshot_every = Some(5);
    let material = BulkMaterial::new(&world.model, 8, Storage::Float32, false).unwrap();
    let acoustic1 =
        OnePassPropagator::<Acoustic1>::new(material.coefficients(1e-4, Stencil::Taylor, false), true);
    let table = TilePlan::new(Tables::new(&acoustic1), 264).table;
    for z in [58, 59] {
        let poles = [[4, 3, z], [4, 3, z + 2]];
        world.shot.source = poles[0];
        world.shot.receivers = Receivers::List([poles, [[4, 3, z + 1], [5, 2, z + 3]]].concat());
        let [upper, lower] = poles.map(|cell| table.of(cell.map(|i| i + 8)));
        assert_ne!(upper, lower);
        for storage in storages(world.options.equation) {
            Kernels(storage, 264).compare(Order::Descending, &world);
        }
    }
}

#[test]
fn models_without_density_and_of_one_velocity_come_out_bit_for_bit() {
    if !fused_or_skip() {
        return;
    }
    let mut world = World::rough([29, 9, 100], 12, Receivers::List(Vec::new()), &mut Random::new(5));
    let vp = (Property::Vp, world.model.vp().clone());
    let constant = |property, value: f32| (property, Values::from(value));
    let anisotropy = [constant(Property::Epsilon, 0.2), constant(Property::Delta, 0.1)];
    world.shot.receivers = Receivers::Plane { iz: world.shot.source[2], every: [1, 1] };
    world.options.pml = 10;
    let cases = [
        ("acoustic1", vec![vp.clone()]),
        ("acoustic1", vec![constant(Property::Vp, 2000.0)]),
        ("vti", [vec![vp.clone()], anisotropy.clone().into()].concat()),
        ("tti", [vec![vp, constant(Property::Theta, 0.5)], anisotropy.into()].concat()),
    ];
    for (equation, properties) in cases {
        world.options.equation = by_name(equation).unwrap();
        world.options.isotropic_source = false;
        world.model = Arc::new(Model::of(world.model.grid, properties).unwrap());
        world.dt = time_step(&world.model);
        for storage in storages(world.options.equation) {
            Kernels(storage, 8).compare(Order::Ascending, &world);
        }
    }
}

/// Blocks skip the tiles that the wave has not reached. The model is long, with the source at one
/// end.
#[test]
fn tiles_at_rest_are_skipped_with_the_same_bits() {
    if !fused_or_skip() {
        return;
    }
    let mut random = Random::new(31);
    let cases = equations().flat_map(|equation| [0, 1, 2].map(|axis| (equation, axis)));
    for (number, (equation, axis)) in cases.enumerate() {
        let mut n = [10, 9, 12];
        n[axis] = 150;
        let mut world = World::rough_for(equation, n, 12, Receivers::List(Vec::new()), &mut random);
        world.shot.source = if number % 2 == 0 { [0; 3] } else { n.map(|n| n - 1) };
        world.shot.receivers = Receivers::Plane { iz: world.shot.source[2], every: [1, 1] };
        world.shot.snapshot_every = Some(5);
        // A wavelet with a late beginning.
        world.shot.wavelet.samples[..number % 3].fill(0.0);
        let order = [Order::Ascending, Order::Descending][number % 2];
        for storage in storages(equation) {
            Kernels(storage, 10_000).compare(order, &world);
        }
    }
}

/// The interpreter is slow, so shots are few and short. It reports unwritten shared memory, races,
/// divergent barriers.
#[test]
fn the_committed_ptx_computes_the_same_bits() {
    if !fused_or_skip() {
        return;
    }
    let mut random = Random::new(9);
    let sizes = [([1, 1, 1], 8, 16), ([41, 13, 150], 9, 5), ([9, 6, 7], 10, 16)];
    let cases = equations().flat_map(|equation| sizes.map(|size| (equation, size)));
    for (number, (equation, (n, pml, nt))) in cases.enumerate() {
        let mut world = World::rough_for(equation, n, nt, Receivers::List(Vec::new()), &mut random);
        world.shot.receivers = Receivers::Plane { iz: world.shot.source[2], every: [1, 1] };
        (world.options.pml, world.shot.record_every, world.shot.snapshot_every) =
            (pml, 1 + number % 2, Some(4));
        for kernels in storages(equation).map(|storage| Kernels(storage, 264)) {
            let found = kernels.fire(&*INTERPRETED, &world);
            same(&found, &kernels.by_rust(&world), &format!("{equation:?}, {n:?}, {kernels:?}"));
        }
    }
}

/// Record and snapshots are zero; with kernels that do not flush denormal numbers they are not.
#[test]
fn denormal_fields_are_flushed_by_both_engines() {
    let receivers = Receivers::Plane { iz: 3, every: [1, 1] };
    let mut world = World::rough([9, 6, 7], 6, receivers, &mut Random::new(11));
    (world.shot.amplitude, world.shot.snapshot_every) = (FAINT, Some(3));
    let silent = |found: Shots| {
        let fields = found.snapshots.iter().flat_map(|(_, field)| field);
        found.record.iter().chain(fields).all(|v| *v == 0.0)
    };
    let kept = interpreted(|text| text.replace(".ftz", ""));
    for kernels in storages(world.options.equation).map(|storage| Kernels(storage, 264)) {
        assert!(silent(kernels.by_host(Order::Ascending, &world)), "host, {kernels:?}");
        assert!(silent(kernels.fire(&*INTERPRETED, &world)), "{kernels:?}");
        assert!(!silent(kernels.fire(&kept, &world)), "{kernels:?}");
    }
}
