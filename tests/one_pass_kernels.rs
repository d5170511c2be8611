//! The CUDA kernel that computes a step in one pass, without a card: its PTX is of the source that lies beside it, and
//! the source, compiled for the host, computes what the Rust propagator computes in this form, bit for bit.

#[path = "support/c.rs"]
mod c;
#[path = "support/card.rs"]
#[allow(dead_code)]
mod card;
#[path = "support/card_one_pass.rs"]
mod card_one_pass;
#[path = "support/hostcuda.rs"]
#[allow(dead_code)]
mod hostcuda;
#[path = "support/interpreted.rs"]
#[allow(dead_code)]
mod interpreted;
#[path = "support/mod.rs"]
#[allow(dead_code)]
mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use gpusched::fd::equation::acoustic1::Coefficients;
use gpusched::fd::equation::acoustic1::kernel::Tables;
use gpusched::fd::equation::acoustic1::one_pass::kernel::{Grounds, OF_16_BITS, SHAPES, Shape, alone, texts};
use gpusched::fd::model::Model;
use gpusched::fd::plan::{Form, Options};
use gpusched::fd::survey::{Receivers, Shot};

use card_one_pass::{Engines, fire, storage};
use hostcuda::{Host, Order, Ordered};
use interpreted::Interpreted;
use support::bits::{fused, same};
use support::golden::Case;
use support::random::{Random, rough, shot, time_step};
use support::shooting::{Shots, fire_with};

const ASKED: &str = "-DASKED=\"acoustic1_one_pass.h\"";

static COMMON: LazyLock<Host> = LazyLock::new(|| Host::compile(&hostcuda::source(), "common", &[]));
static HOST: LazyLock<Host> = LazyLock::new(|| compiled(&source(), "one_pass", &[]));

fn source() -> PathBuf {
    c::root().join("kernels/acoustic1_one_pass.cu")
}

fn compiled(source: &Path, name: &str, options: &[&str]) -> Host {
    Host::compile(source, name, &[&[ASKED], options].concat())
}

fn by_rust(model: &Arc<Model>, shot: &Shot, pml: usize, shape: Shape) -> Shots {
    let options = Options { pml, form: Form::OnePass, storage: storage(shape), ..Options::default() };
    fire_with(model, time_step(model), shot, options, 2)
}

fn by_host(
    host: &Host,
    order: Order,
    model: &Arc<Model>,
    shot: &Shot,
    pml: usize,
    cut: (Shape, usize),
) -> Shots {
    let engines = Engines { step: &Ordered(host, order), common: &Ordered(&COMMON, order) };
    fire(&engines, model, time_step(model), shot, pml, cut.0, cut.1)
}

fn compare(model: &Arc<Model>, shot: &Shot, pml: usize, cut: (Shape, usize), order: Order) {
    let what = format!("{:?}, layer {pml}, {cut:?}, source {:?}, {order:?}", model.grid.n, shot.source);
    same(&by_host(&HOST, order, model, shot, pml, cut), &by_rust(model, shot, pml, cut.0), &what);
}

#[test]
fn the_ptx_is_of_the_source_beside_it() {
    let sum = hostcuda::sum(&source(), &["acoustic1.cuh", "copies.cuh", "one_pass_march.cuh"]);
    let texts = texts();
    for (ptx, first) in
        texts.iter().zip([[".version 6.0", ".target sm_35"], [".version 7.0", ".target sm_80"]])
    {
        let recorded = ptx.lines().find_map(|line| line.strip_prefix("// sha256 of the source: "));
        assert_eq!(recorded, Some(sum.as_str()), "a kernel has changed: python3 kernels/generate.py");
        for line in [first[0], first[1], ".address_size 64"] {
            assert!(ptx.lines().any(|found| found == line), "{line}");
        }
    }
    let ptx = texts.concat();
    // Arithmetic is that of IEEE, each operation rounded once: `add.f32` without `.rn` might be fused.
    let moves = ["ld.param", "ld.global", "st.global", "ld.shared", "st.shared", "mov", "selp"];
    let exact = ["add.rn.f32", "sub.rn.f32", "mul.rn.f32", "fma.rn.f32", "neg.f32", "cvt.rn.f32.u16"];
    for word in ptx.lines().filter_map(|line| line.split_whitespace().next()) {
        let floats = word.contains(".f32") && !word.starts_with('.');
        let known = exact.contains(&word) || moves.iter().any(|start| word.starts_with(start));
        assert!(!floats || known, "{word}");
    }
    for shape in [SHAPES.as_slice(), &[OF_16_BITS]].concat() {
        let named = format!(".visible .entry {}(", shape.kernel);
        let alone = alone(shape.kernel);
        assert!(ptx.contains(&named) && alone.contains(&named), "{shape:?}");
        assert_eq!((alone.matches(".entry").count(), alone.matches(".version").count()), (1, 1), "{shape:?}");
        // For no newer card than it is said to need.
        let (major, minor) = shape.since;
        assert!(alone.contains(&format!("\n.target sm_{}\n", 10 * major + minor)), "{shape:?}");
    }
}

/// All kinds of boxes, with sources in the middle, in the strip and at the layer's edge, thin axes without a middle.
#[test]
fn odd_sizes_and_thin_models_come_out_bit_for_bit() {
    if !fused() {
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
        // Corners hear what the source in another corner says; a cell may have several receivers.
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
            for shape in SHAPES.into_iter().chain([OF_16_BITS]) {
                compare(&model, &shot, pml, (shape, [1, 264, 10_000][number % 3]), orders[number % 3]);
            }
        }
    }
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
        // And some plain ones have more planes than are ever on their way.
        assert!(cuts.iter().any(|cut| cut.kind == 0 && cut.end - cut.y > 4), "{shape:?}");
    }
}

#[test]
fn a_model_without_density_comes_out_bit_for_bit() {
    if !fused() {
        return;
    }
    let mut random = Random::new(5);
    let n = [29, 9, 100];
    let rough = rough(n, [9.0; 3], &mut random);
    let light = Arc::new(Model::new(rough.grid, rough.vp.clone(), None).unwrap());
    let plain = shot(&mut random, n, 25, Receivers::List(Vec::new()));
    let shot = Shot { receivers: Receivers::Plane { iz: plain.source[2], every: [1, 1] }, ..plain };
    for shape in [SHAPES[0], OF_16_BITS] {
        compare(&light, &shot, 10, (shape, 8), Order::Ascending);
    }
}

#[test]
fn neither_the_order_of_threads_nor_the_cut_changes_a_bit() {
    if !fused() {
        return;
    }
    let mut random = Random::new(6);
    let n = [27, 21, 90];
    let model = rough(n, [10.0; 3], &mut random);
    let plain = shot(&mut random, n, 15, Receivers::Plane { iz: 3, every: [1, 2] });
    let shot = Shot { snapshot_every: Some(14), ..plain };
    let expected = by_rust(&model, &shot, 8, SHAPES[0]);
    for order in [Order::Ascending, Order::Descending, Order::Shuffled(1), Order::Shuffled(2)] {
        for (shape, at_once) in SHAPES.into_iter().flat_map(|shape| [(shape, 1), (shape, 200)]) {
            let found = by_host(&HOST, order, &model, &shot, 8, (shape, at_once));
            same(&found, &expected, &format!("{order:?}, {shape:?}, {at_once} blocks at once"));
        }
    }
}

#[test]
fn the_old_kernels_cases_come_out_bit_for_bit() {
    if !fused() {
        return;
    }
    for name in ["iso1_corner", "iso1_decim5", "iso1_multishot", "iso1_hetero"] {
        let case = Case::load(name);
        let shot = case.shots().remove(0);
        let options = Options { form: Form::OnePass, ..Options::default() };
        let expected = fire_with(&case.model, case.dt, &shot, options, 2);
        let order = Ordered(&HOST, Order::Ascending);
        let engines = Engines { step: &order, common: &Ordered(&COMMON, Order::Ascending) };
        same(&fire(&engines, &case.model, case.dt, &shot, 20, SHAPES[0], 264), &expected, name);
    }
}

fn interpreted([all, newer]: &[String; 2]) -> Interpreted {
    Interpreted::of_all(&[all, newer])
}

/// Rust, the source on the host and the PTX agree. The interpreter is slow, so shots are few and short. It tells of
/// shared memory that nobody wrote, of races, and of barriers that not all threads come to.
#[test]
fn the_committed_ptx_computes_the_same_bits() {
    if !fused() {
        return;
    }
    let ptx = interpreted(&texts());
    let engines = Engines { step: &ptx, common: &Interpreted::new() };
    let mut random = Random::new(9);
    for (number, (n, pml)) in [([1, 1, 1], 8), ([41, 13, 150], 9), ([9, 6, 7], 10)].into_iter().enumerate() {
        let model = rough(n, [10.0, 12.5, 8.0], &mut random);
        let nt = [16, 5, 16][number];
        let plain = shot(&mut random, n, nt, Receivers::List(Vec::new()));
        let receivers = Receivers::Plane { iz: plain.source[2], every: [1, 1] };
        let shot = Shot { receivers, record_every: 1 + number % 2, snapshot_every: Some(4), ..plain };
        for shape in [SHAPES.as_slice(), &[OF_16_BITS]].concat() {
            let expected = by_rust(&model, &shot, pml, shape);
            let found = fire(&engines, &model, time_step(&model), &shot, pml, shape, 264);
            same(&found, &expected, &format!("{n:?}, {shape:?}"));
        }
    }
}

/// Breaks the kernel one thing at a time: a comparison that notices nothing compares nothing.
#[test]
fn a_broken_kernel_is_noticed() {
    if !fused() {
        return;
    }
    let (model, shot) = heard_everywhere(26);
    let truth = by_rust(&model, &shot, 9, SHAPES[0]);
    let text = only(SHAPES[0]);
    for (number, (from, to)) in [
        ("fmaf(k.stencil[3], f[7] - f[0], s)", "k.stencil[3] * (f[7] - f[0]) + s"),
        ("a = fmaf(square_x, slope_x, a);", "a = square_x * slope_x + a;"),
        ("fmaf(kappa_here, a, changed[c])", "kappa_here * a + changed[c]"),
        ("*part = old + c;", "*part = old - c;"),
        ("if (sounds && poles.there)", "if (sounds && poles.there && pole)"),
        ("return p + (pole ? value : -value);", "return p + (pole ? value : value);"),
        ("if (y >= box.keep && y < box.keep_end)", "if (y >= box.keep && y + 1 < box.keep_end)"),
        (
            "zone.near_end - REACH + index - zone.far_begin",
            "zone.near_end - REACH - 1 + index - zone.far_begin",
        ),
        ("if (!late)\n            ask_around(y + 1);", "if (!late)\n            ask_around(y);"),
        ("= hidden ?", "= hidden && !pole ?"),
    ]
    .into_iter()
    .enumerate()
    {
        let broken = broken(&text, from, to, &format!("one_pass{number}"));
        let found = by_host(&broken, Order::Ascending, &model, &shot, 9, (SHAPES[0], 264));
        assert!(found != truth, "{to} goes unnoticed");
    }
}

/// The source with one shape's kernel alone, which is quicker to compile.
fn only(wanted: Shape) -> String {
    let arguments = "(const OnePass, const Poles, const Receivers)";
    let empty = |shape: &Shape| format!("extern \"C\" __global__ void {}{arguments} {{}}", shape.kernel);
    let others = SHAPES.into_iter().chain([OF_16_BITS]).filter(|shape| *shape != wanted);
    others.fold(hostcuda::whole(&source()), |text, shape| {
        let (before, rest) = text.split_once(&format!("\nONE_PASS({}, ", shape.name())).unwrap();
        format!("{before}\n{}{}", empty(&shape), &rest[rest.find('\n').unwrap()..])
    })
}

fn broken(text: &str, from: &str, to: &str, name: &str) -> Host {
    assert_eq!(text.matches(from).count(), 1, "{from}");
    let path = c::scratch("hostcuda").join(format!("{name}.cu"));
    std::fs::write(&path, text.replace(from, to)).unwrap();
    compiled(&path, name, &["-O1"])
}

/// A shot near the layer, which all kinds of boxes hear soon.
fn heard_everywhere(nt: usize) -> (Arc<Model>, Shot) {
    let mut random = Random::new(8);
    let n = [41, 13, 150];
    let model = rough(n, [10.0; 3], &mut random);
    let centre = [20, 6, 75];
    let plain = shot(&mut random, n, nt, Receivers::List(vec![centre; 1]));
    (model, Shot { source: centre, snapshot_every: Some(5), ..plain })
}

/// On the host there are no numbers until a copy is waited for; the interpreter names the access that comes too early.
#[test]
fn copies_that_are_not_waited_for_are_noticed() {
    if !fused() {
        return;
    }
    let (model, shot) = heard_everywhere(3);
    let ahead = SHAPES[2];
    let truth = by_rust(&model, &shot, 9, ahead);
    let text = only(ahead);
    let from = "wait_for_copies<S::PLACES - 1>();";
    for (number, to) in ["", "wait_for_copies<S::PLACES>();"].into_iter().enumerate() {
        let broken = broken(&text, from, to, &format!("ahead{number}"));
        let found = by_host(&broken, Order::Ascending, &model, &shot, 9, (ahead, 264));
        assert!(found != truth, "{to} goes unnoticed");
    }
    let [all, newer] = texts();
    for (from, to) in
        [("cp.async.wait_group 1;", ""), ("wait_group 1;", "wait_group 2;"), ("cp.async.commit_group;", "")]
    {
        assert!(newer.contains(from), "{from}");
        let broken = interpreted(&[all.clone(), newer.replace(from, to)]);
        let engines = Engines { step: &broken, common: &Interpreted::new() };
        let run = || fire(&engines, &model, time_step(&model), &shot, 9, ahead, 264);
        let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).err();
        let why = payload.and_then(|payload| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        assert!(why.contains("Copying") && why.contains("has not waited for"), "{from} to {to}: {why}");
    }
}
