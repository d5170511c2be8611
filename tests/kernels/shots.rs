//! Whole shots by the CUDA kernels of both forms without a GPU: the source, compiled for the host, and the PTX,
//! interpreted, compute what the Rust propagator computes, bit for bit.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::{Arc, LazyLock};

use gpusched::fd::equation::acoustic1::Coefficients;
use gpusched::fd::equation::acoustic1::kernel::{self, Addresses, PTX, Tables, Term};
use gpusched::fd::equation::acoustic1::one_pass::kernel::{Grounds, OF_16_BITS, SHAPES, Shape, texts};
use gpusched::fd::model::Model;
use gpusched::fd::plan::{Form, Options};
use gpusched::fd::survey::{Receivers, Shot};

use testkit::{Random, c};
use testmodels::bits::{fused_or_skip, same};
use testmodels::golden::Case;
use testmodels::hostcuda::{self, Host, Order, Ordered};
use testmodels::interpreted::Interpreted;
use testmodels::kernel_shots::{self, Engine, Memory, bytes, peak_of};
use testmodels::media::{FAINT, rough, shot, time_step};
use testmodels::one_pass_shots::{self, Engines, storage};
use testmodels::shots::{Shots, fire_with};

/// Set in the process that runs under the sanitizers.
const SANITIZED: &str = "GPUSCHED_TEST_SANITIZED";

static TWO_SWEEPS: LazyLock<Host> = LazyLock::new(|| match std::env::var_os(SANITIZED) {
    Some(_) => {
        let options = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
        Host::compile(&hostcuda::source(), "sanitized", &options)
    }
    None => Host::compile(&hostcuda::source(), "two_sweeps", &[]),
});
static ONE_PASS: LazyLock<Host> = LazyLock::new(|| {
    let source = testkit::root().join("kernels/acoustic1_one_pass.cu");
    Host::compile(&source, "one_pass", &["-DASKED=\"acoustic1_one_pass.h\""])
});
static INTERPRETED: LazyLock<Interpreted> = LazyLock::new(|| interpreted(str::to_owned));

/// All kernels, of texts that are changed in some way.
fn interpreted(change: impl Fn(&str) -> String) -> Interpreted {
    let [all, newer] = texts();
    let changed = [PTX, &all, &newer].map(change);
    Interpreted::of_all(&changed.each_ref().map(String::as_str))
}

/// A form of the kernels and how it divides a grid.
#[derive(Debug, Clone, Copy)]
enum Kernels {
    /// Planes of a block.
    TwoSweeps(usize),
    /// The shape, and blocks that run at the same time.
    OnePass(Shape, usize),
}

use Kernels::{OnePass, TwoSweeps};

impl Kernels {
    fn fire(self, engines: &Engines<'_>, model: &Arc<Model>, dt: f32, shot: &Shot, pml: usize) -> Shots {
        match self {
            TwoSweeps(planes) => kernel_shots::fire(engines.common, model, dt, shot, pml, planes),
            OnePass(shape, at_once) => one_pass_shots::fire(engines, model, dt, shot, pml, shape, at_once),
        }
    }

    fn by_host(self, order: Order, model: &Arc<Model>, dt: f32, shot: &Shot, pml: usize) -> Shots {
        let common = Ordered(&TWO_SWEEPS, order);
        match self {
            TwoSweeps(_) => self.fire(&Engines { step: &common, common: &common }, model, dt, shot, pml),
            OnePass(..) => {
                let step = Ordered(&ONE_PASS, order);
                self.fire(&Engines { step: &step, common: &common }, model, dt, shot, pml)
            }
        }
    }

    fn by_interpreter(
        self,
        ptx: &Interpreted,
        model: &Arc<Model>,
        dt: f32,
        shot: &Shot,
        pml: usize,
    ) -> Shots {
        self.fire(&Engines { step: ptx, common: ptx }, model, dt, shot, pml)
    }

    fn by_rust(self, model: &Arc<Model>, dt: f32, shot: &Shot, pml: usize) -> Shots {
        let options = match self {
            TwoSweeps(_) => Options { form: Form::TwoSweeps, ..Options::default() },
            OnePass(shape, _) => {
                Options { form: Form::OnePass, storage: storage(shape), ..Options::default() }
            }
        };
        fire_with(model, dt, shot, Options { pml, ..options }, 2)
    }

    fn compare(self, order: Order, model: &Arc<Model>, shot: &Shot, pml: usize) {
        let dt = time_step(model);
        let what = format!("{:?}, layer {pml}, {self:?}, source {:?}, {order:?}", model.grid.n, shot.source);
        same(&self.by_host(order, model, dt, shot, pml), &self.by_rust(model, dt, shot, pml), &what);
    }
}

fn shapes() -> impl Iterator<Item = Shape> {
    SHAPES.into_iter().chain([OF_16_BITS])
}

/// Both forms, the one pass in each shape.
fn forms(planes: usize, at_once: usize) -> Vec<Kernels> {
    [TwoSweeps(planes)].into_iter().chain(shapes().map(|shape| OnePass(shape, at_once))).collect()
}

/// All kinds of boxes, with sources in the middle, in the strip and at the layer's edge, thin axes without a middle.
/// `kernels` are those of the case with a number.
fn compare_odd_sizes(kernels: impl Fn(usize) -> Vec<Kernels>) {
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
    for (number, (n, pml)) in sizes.into_iter().enumerate() {
        let model = rough(n, [10.0, 12.5, 8.0], &mut random);
        let last = n.map(|n| n - 1);
        // Corners hear the source in another corner; a cell may have several receivers.
        let corners: Vec<_> = (0..8).map(|k| [0, 1, 2].map(|axis| last[axis] * (k >> axis & 1))).collect();
        let centre = n.map(|n| n / 2);
        let lists = [corners, vec![centre; 2], vec![random.cell(n); 3]].concat();
        for (source, receivers) in [
            ([0; 3], Receivers::List(lists.clone())),
            (last, Receivers::Plane { iz: last[2], every: [2, 3] }),
            (centre, Receivers::List(lists)),
        ] {
            let plain = shot(&mut random, n, 20, receivers);
            let shot = Shot { source, record_every: 1 + number % 3, snapshot_every: Some(7), ..plain };
            for kernels in kernels(number) {
                kernels.compare(orders[number % 3], &model, &shot, pml);
            }
        }
    }
}

#[test]
fn two_sweeps_of_odd_sizes_come_out_bit_for_bit() {
    compare_odd_sizes(|number| vec![TwoSweeps([1, 3, 5, 32][number % 4])]);
}

#[test]
fn one_pass_of_odd_sizes_comes_out_bit_for_bit() {
    compare_odd_sizes(|number| shapes().map(|shape| OnePass(shape, [1, 264, 10_000][number % 3])).collect());
}

/// The largest of the cases above has all kinds of boxes, each of which has a march of its own.
#[test]
fn every_kind_of_box_is_among_them() {
    let model = rough([41, 13, 150], [10.0; 3], &mut Random::new(3));
    let tables = Tables::new(&Coefficients::new(&model, 1e-4, 9).unwrap());
    for shape in SHAPES {
        let cuts = Grounds::new(&tables, shape, 264).unwrap().boxes.cuts;
        let kinds: BTreeSet<_> = cuts.iter().map(|cut| cut.kind).collect();
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), (0..8).collect::<Vec<_>>(), "{shape:?}");
        // Some plain boxes have more planes than are ever on their way.
        assert!(cuts.iter().any(|cut| cut.kind == 0 && cut.end - cut.y > 4), "{shape:?}");
    }
}

#[test]
fn model_without_density_comes_out_bit_for_bit() {
    if !fused_or_skip() {
        return;
    }
    let mut random = Random::new(5);
    let n = [29, 9, 100];
    let rough = rough(n, [9.0; 3], &mut random);
    let light = Arc::new(Model::new(rough.grid, rough.vp.clone(), None).unwrap());
    let plain = shot(&mut random, n, 25, Receivers::List(Vec::new()));
    let shot = Shot { receivers: Receivers::Plane { iz: plain.source[2], every: [1, 1] }, ..plain };
    for kernels in forms(8, 8) {
        kernels.compare(Order::Ascending, &light, &shot, 10);
    }
}

#[test]
fn neither_the_order_of_threads_nor_the_cut_changes_a_bit() {
    if !fused_or_skip() {
        return;
    }
    let mut random = Random::new(6);
    let n = [27, 21, 90];
    let model = rough(n, [10.0; 3], &mut random);
    let plain = shot(&mut random, n, 15, Receivers::Plane { iz: 3, every: [1, 2] });
    let shot = Shot { snapshot_every: Some(14), ..plain };
    let dt = time_step(&model);
    let sweeps = [1, 7, 1000].map(TwoSweeps).to_vec();
    let passes = SHAPES.into_iter().flat_map(|shape| [1, 200].map(|at_once| OnePass(shape, at_once)));
    for form in [sweeps, passes.collect()] {
        let expected = form[0].by_rust(&model, dt, &shot, 8);
        for order in [Order::Ascending, Order::Descending, Order::Shuffled(1), Order::Shuffled(2)] {
            for kernels in &form {
                let found = kernels.by_host(order, &model, dt, &shot, 8);
                same(&found, &expected, &format!("{order:?}, {kernels:?}"));
            }
        }
    }
}

#[test]
fn the_old_kernels_cases_come_out_bit_for_bit() {
    if !fused_or_skip() {
        return;
    }
    // Those with mute are the same shots. The last two, and second shots, in two sweeps only.
    let names = ["iso1_corner", "iso1_decim5", "iso1_multishot", "iso1_hetero", "iso1_homog", "iso1_wtype3"];
    for (at, name) in names.into_iter().enumerate() {
        let case = Case::load(name);
        for (number, shot) in case.shots().iter().enumerate().take(2) {
            let once = (at < 4 && number == 0).then_some(OnePass(SHAPES[0], 264));
            for kernels in [TwoSweeps(16)].into_iter().chain(once) {
                let expected = kernels.by_rust(&case.model, case.dt, shot, 20);
                let found = kernels.by_host(Order::Ascending, &case.model, case.dt, shot, 20);
                same(&found, &expected, &format!("{name}, shot {number}, {kernels:?}"));
            }
        }
    }
}

/// The interpreter is slow, so shots are few and short. It reports shared memory that nobody wrote, races, and barriers
/// that not all threads come to.
#[test]
fn the_committed_ptx_computes_the_same_bits() {
    if !fused_or_skip() {
        return;
    }
    let mut random = Random::new(9);
    for (number, (n, pml)) in [([1, 1, 1], 8), ([41, 13, 150], 9), ([9, 6, 7], 10)].into_iter().enumerate() {
        let model = rough(n, [10.0, 12.5, 8.0], &mut random);
        let plain = shot(&mut random, n, [16, 5, 16][number], Receivers::List(Vec::new()));
        let receivers = Receivers::Plane { iz: plain.source[2], every: [1, 1] };
        let shot = Shot { receivers, record_every: 1 + number % 2, snapshot_every: Some(4), ..plain };
        let dt = time_step(&model);
        for kernels in forms([3, 8, 64][number], 264) {
            let expected = kernels.by_rust(&model, dt, &shot, pml);
            let found = kernels.by_interpreter(&INTERPRETED, &model, dt, &shot, pml);
            same(&found, &expected, &format!("{n:?}, {kernels:?}"));
        }
    }
}

/// The record and the snapshots are zero; those of kernels that keep denormal numbers are not.
#[test]
fn denormal_fields_are_flushed_by_both_engines() {
    let mut random = Random::new(11);
    let n = [9, 6, 7];
    let model = rough(n, [10.0, 12.5, 8.0], &mut random);
    let plain = shot(&mut random, n, 6, Receivers::Plane { iz: 3, every: [1, 1] });
    let shot = Shot { amplitude: FAINT, snapshot_every: Some(3), ..plain };
    let dt = time_step(&model);
    let silent = |found: Shots| {
        let fields = found.snapshots.iter().flat_map(|(_, field)| field);
        found.record.iter().chain(fields).all(|v| *v == 0.0)
    };
    let kept = interpreted(|text| text.replace(".ftz", ""));
    for kernels in forms(8, 264) {
        assert!(silent(kernels.by_host(Order::Ascending, &model, dt, &shot, 8)), "host, {kernels:?}");
        assert!(silent(kernels.by_interpreter(&INTERPRETED, &model, dt, &shot, 8)), "{kernels:?}");
        assert!(!silent(kernels.by_interpreter(&kept, &model, dt, &shot, 8)), "{kernels:?}");
    }
}

/// Returns the velocity, zero before, after one term of a source of this factor and amplitude.
fn fired(engine: &dyn Engine, factor: f32, amplitude: f32) -> f32 {
    let model = rough([2, 3, 20], [10.0; 3], &mut Random::new(7));
    let tables = Tables::new(&Coefficients::new(&model, 1e-3, 8).unwrap());
    let mut velocity = vec![0.0f32; 32];
    let mut memory = Memory::default();
    let at = memory.lend(&mut velocity);
    let at = Addresses { p: at, velocity: [at; 3], part: [at; 3], b: at, kappa: at, profiles: at };
    let params = tables.params(&at, 1);
    let terms = [Term { at: -(tables.layout.lead as i64), factor: [factor, 0.0], axis: 0, count: 1 }];
    let amplitudes = [amplitude];
    let (terms_at, amplitude_at) = (memory.show(&terms), memory.show(&amplitudes));
    let arguments = [bytes(&params), bytes(&terms_at), bytes(&1i32), bytes(&amplitude_at)];
    engine.launch(&memory, kernel::source(1), &arguments);
    velocity[0]
}

/// The same values as of the CPU, in `backend::cpu::float_mode`.
#[test]
fn both_engines_flush_at_the_boundary_as_the_cpu() {
    let (least, ulp) = (f32::MIN_POSITIVE, f32::EPSILON);
    let rounded = if cfg!(target_arch = "aarch64") { 0.0 } else { least };
    let above = [2f32.powi(-100) * (1.0 - ulp), 2f32.powi(-26) * (1.0 + ulp)];
    let (host, ptx) = (Ordered(&TWO_SWEEPS, Order::Ascending), &*INTERPRETED);
    for engine in [&host as &dyn Engine, ptx] {
        for (factor, amplitude, left) in
            [(least, 1.0, least), (least, 1.0 - ulp / 2.0, 0.0), (1e-20, 1e-20, 0.0), (1e-40, 1e30, 0.0)]
        {
            assert_eq!(fired(engine, factor, amplitude), left, "{factor:e} times {amplitude:e}");
        }
    }
    assert_eq!(fired(&host, above[0], above[1]), rounded);
    assert_eq!(fired(ptx, above[0], above[1]), least);
}

#[test]
fn the_peak_knows_numbers() {
    let model = rough([2, 3, 20], [10.0; 3], &mut Random::new(7));
    let cells = 18 * 19 * 36;
    let host = Ordered(&TWO_SWEEPS, Order::Shuffled(1));
    let values = [0.0, -0.0, 1e-45, -3.5, f32::MIN, f32::INFINITY, f32::NEG_INFINITY];
    for engine in [&host as &dyn Engine, &*INTERPRETED] {
        for (number, value) in values.into_iter().enumerate() {
            assert_eq!(peak_of(engine, &model, value, number * 1999 % cells), value.abs());
        }
        assert!(peak_of(engine, &model, f32::NAN, cells - 1).is_nan());
        assert!(peak_of(engine, &model, -f32::NAN, 0).is_nan());
    }
}

/// Runs the odd sizes once more in a process of their own, where no access beside an array goes unseen.
#[test]
fn the_sanitizers_find_nothing() {
    if std::env::var_os(SANITIZED).is_some() {
        return;
    }
    let library = Command::new(c::cpp_compiler()).arg("-print-file-name=libasan.so").output().unwrap();
    let library = String::from_utf8(library.stdout).unwrap();
    let run = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "shots::two_sweeps_of_odd_sizes_come_out_bit_for_bit",
            "shots::the_peak_knows_numbers",
        ])
        .env(SANITIZED, "1")
        .env("LD_PRELOAD", library.trim())
        // The test harness keeps what it allocates.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && said.contains("2 passed"), "{said}");
}
