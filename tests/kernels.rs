//! The CUDA kernels without a card: the PTX is of the source that lies beside it, and the source, compiled for
//! the host, computes what the Rust propagator computes, bit for bit.

#[path = "support/c.rs"]
mod c;
#[path = "support/card.rs"]
mod card;
#[path = "support/hostcuda.rs"]
mod hostcuda;
#[path = "support/interpreted.rs"]
mod interpreted;
#[path = "support/mod.rs"]
#[allow(dead_code)]
mod support;

use std::process::Command;
use std::sync::{Arc, LazyLock};

use gpusched::fd::equation::acoustic1::kernel::PTX;
use gpusched::fd::model::Model;
use gpusched::fd::plan::{Form, Options};
use gpusched::fd::survey::{Receivers, Shot};

use card::{fire, peak_of};
use hostcuda::{Host, Order, Ordered};
use interpreted::Interpreted;
use support::bits::{fused, same};
use support::golden::Case;
use support::random::{Random, rough, shot, time_step};
use support::shooting::fire_with;

/// Set in the process that runs under the sanitizers.
const SANITIZED: &str = "GPUSCHED_TEST_SANITIZED";
const SANITIZE: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

static HOST: LazyLock<Host> = LazyLock::new(|| {
    if std::env::var_os(SANITIZED).is_some() {
        Host::compile(&hostcuda::source(), "sanitized", &SANITIZE)
    } else {
        Host::compile(&hostcuda::source(), "plain", &[])
    }
});

/// These kernels are of two sweeps.
fn plain_form() -> Options {
    Options { form: Form::TwoSweeps, ..Options::default() }
}

#[test]
fn the_ptx_is_of_the_source_beside_it() {
    let sum = hostcuda::sum(&hostcuda::source(), &["acoustic1.cuh"]);
    let recorded = PTX.lines().find_map(|line| line.strip_prefix("// sha256 of the source: "));
    let repair = "kernels/acoustic1.cu has changed: python3 kernels/generate.py";
    assert_eq!(recorded, Some(sum.as_str()), "{repair}");
    // What drivers from 470 on take, for cards from Kepler on.
    for line in [".version 6.0", ".target sm_35", ".address_size 64"] {
        assert!(PTX.lines().any(|found| found == line), "{line}");
    }
    // Arithmetic is that of IEEE, each operation rounded once: `add.f32` without `.rn` might be fused.
    let moves = ["ld.param", "ld.global", "st.global", "mov", "selp"];
    let exact = ["add.rn.f32", "sub.rn.f32", "mul.rn.f32", "fma.rn.f32", "neg.f32"];
    for word in PTX.lines().filter_map(|line| line.split_whitespace().next()) {
        let floats = word.contains(".f32") && !word.starts_with('.');
        let known = exact.contains(&word) || moves.iter().any(|start| word.starts_with(start));
        assert!(!floats || known, "{word}");
    }
    for launch in ["velocity", "pressure", "source", "record", "snapshot", "peak"] {
        assert!(PTX.contains(&format!(".visible .entry acoustic1_{launch}(")), "{launch}");
    }
}

fn compare(model: &Arc<Model>, shot: &Shot, pml: usize, planes: usize, order: Order) {
    let dt = time_step(model);
    let n = model.grid.n;
    let what = format!("{n:?}, layer {pml}, {planes} planes, source {:?}, {order:?}", shot.source);
    let expected = fire_with(model, dt, shot, Options { pml, ..plain_form() }, 2);
    same(&fire(&Ordered(&HOST, order), model, dt, shot, pml, planes), &expected, &what);
}

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
        ([13, 11, 65], 8),
        ([8, 9, 16], 20),
    ];
    let orders = [Order::Ascending, Order::Descending, Order::Shuffled(7)];
    for (number, (n, pml)) in sizes.into_iter().enumerate() {
        let model = rough(n, [10.0, 12.5, 8.0], &mut random);
        let last = n.map(|n| n - 1);
        // Corners hear what the source in another corner says; a cell may have several receivers.
        let corners: Vec<_> = (0..8).map(|k| [0, 1, 2].map(|axis| last[axis] * (k >> axis & 1))).collect();
        let lists = [corners, vec![random.cell(n); 3]].concat();
        for (source, receivers) in
            [([0; 3], Receivers::List(lists)), (last, Receivers::Plane { iz: last[2], every: [2, 3] })]
        {
            let plain = shot(&mut random, n, 30, receivers);
            let shot = Shot { source, record_every: 1 + number % 3, snapshot_every: Some(9), ..plain };
            compare(&model, &shot, pml, [1, 3, 5, 32][number % 4], orders[number % 3]);
        }
    }
}

#[test]
fn a_model_without_density_comes_out_bit_for_bit() {
    if !fused() {
        return;
    }
    let mut random = Random::new(5);
    let n = [9, 8, 30];
    let rough = rough(n, [9.0; 3], &mut random);
    let light = Arc::new(Model::new(rough.grid, rough.vp.clone(), None).unwrap());
    let shot = shot(&mut random, n, 25, Receivers::Plane { iz: 0, every: [1, 1] });
    compare(&light, &shot, 10, 8, Order::Ascending);
}

#[test]
fn neither_the_order_of_threads_nor_the_cut_changes_a_bit() {
    if !fused() {
        return;
    }
    let mut random = Random::new(6);
    let n = [12, 10, 21];
    let model = rough(n, [10.0; 3], &mut random);
    let plain = shot(&mut random, n, 24, Receivers::Plane { iz: 3, every: [1, 2] });
    let shot = Shot { snapshot_every: Some(23), ..plain };
    for order in [Order::Ascending, Order::Descending, Order::Shuffled(1), Order::Shuffled(2)] {
        for planes in [1, 7, 1000] {
            compare(&model, &shot, 8, planes, order);
        }
    }
}

#[test]
fn the_old_kernels_cases_come_out_bit_for_bit() {
    if !fused() {
        return;
    }
    // Those with mute are the same shots.
    for name in ["iso1_corner", "iso1_decim5", "iso1_homog", "iso1_multishot", "iso1_wtype3", "iso1_hetero"] {
        let case = Case::load(name);
        let shots = case.shots();
        for (number, shot) in shots.iter().enumerate().take(2) {
            let expected = fire_with(&case.model, case.dt, shot, plain_form(), 2);
            let found = fire(&Ordered(&HOST, Order::Ascending), &case.model, case.dt, shot, 20, 16);
            same(&found, &expected, &format!("{name}, shot {number}"));
        }
    }
}

/// Rust, the source on the host and the PTX agree. The interpreter is slow, so shots are few and short.
#[test]
fn the_committed_ptx_computes_the_same_bits() {
    if !fused() {
        return;
    }
    let ptx = Interpreted::new();
    let mut random = Random::new(9);
    for (number, (n, pml)) in [([1, 1, 1], 8), ([5, 4, 34], 8), ([9, 6, 7], 10)].into_iter().enumerate() {
        let model = rough(n, [10.0, 12.5, 8.0], &mut random);
        let plain = shot(&mut random, n, 16, Receivers::Plane { iz: n[2] / 2, every: [1, 2] });
        let shot = Shot { record_every: 1 + number, snapshot_every: Some(5), ..plain };
        let dt = time_step(&model);
        let expected = fire_with(&model, dt, &shot, Options { pml, ..plain_form() }, 2);
        same(&fire(&ptx, &model, dt, &shot, pml, [3, 8, 64][number]), &expected, &format!("{n:?}"));
    }
    let case = Case::load("iso1_corner");
    let shot = Shot { nt: 8, ..case.shots().remove(0) };
    let expected = fire_with(&case.model, case.dt, &shot, plain_form(), 2);
    same(&fire(&ptx, &case.model, case.dt, &shot, 20, 16), &expected, "iso1_corner");
    // And a text that is broken in one place does not.
    for (from, to) in [("sub.rn.f32", "add.rn.f32"), ("+272];", "+280];"), ("neg.f32", "mov.f32")] {
        assert!(PTX.contains(from));
        let broken = Interpreted::of(&PTX.replacen(from, to, 1));
        assert!(
            fire(&broken, &case.model, case.dt, &shot, 20, 16) != expected,
            "{from} to {to} goes unnoticed"
        );
    }
}

#[test]
fn the_peak_knows_numbers() {
    let model = rough([2, 3, 20], [10.0; 3], &mut Random::new(7));
    let cells = 18 * 19 * 36;
    let engines: [&dyn card::Engine; 2] = [&Ordered(&HOST, Order::Shuffled(1)), &Interpreted::new()];
    let values = [0.0, -0.0, 1e-45, -3.5, f32::MIN, f32::INFINITY, f32::NEG_INFINITY];
    for engine in engines {
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
    let library = Command::new(hostcuda::cplusplus()).arg("-print-file-name=libasan.so").output().unwrap();
    let library = String::from_utf8(library.stdout).unwrap();
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "odd_sizes_and_thin_models_come_out_bit_for_bit", "the_peak_knows_numbers"])
        .env(SANITIZED, "1")
        .env("LD_PRELOAD", library.trim())
        // The test harness keeps what it allocates.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && said.contains("2 passed"), "{said}");
}

/// Breaks the kernels one thing at a time: a comparison that notices nothing compares nothing.
#[test]
fn a_broken_kernel_is_noticed() {
    if !fused() {
        return;
    }
    let text = hostcuda::whole(&hostcuda::source());
    let mut random = Random::new(8);
    let n = [6, 7, 9];
    let model = rough(n, [10.0; 3], &mut random);
    let plain = shot(&mut random, n, 24, Receivers::Plane { iz: 3, every: [1, 2] });
    let shot = Shot { snapshot_every: Some(5), ..plain };
    let dt = time_step(&model);
    let truth = fire_with(&model, dt, &shot, Options { pml: 8, ..plain_form() }, 2);
    for (number, (from, to)) in [
        ("fmaf(k.stencil[3], f[7] - f[0], s)", "k.stencil[3] * (f[7] - f[0]) + s"),
        ("fmaf(-(rate * b), slope, keep * u)", "-(rate * b) * slope + keep * u"),
        ("slope(k, k.p + at - 3 * k.pitch, k.pitch)", "slope(k, k.p + at - 4 * k.pitch, k.pitch)"),
        (
            "min(max(index - k.pml, 0), k.axis[axis].inner - 1)",
            "min(max(index - k.pml, 0), max(k.axis[axis].inner - 2, 0))",
        ),
        ("index < far ? -1", "index <= far ? -1"),
        ("*part = old + change;", "*part = old - change;"),
        ("if (term.count > 1)", "if (term.count > 2)"),
        ("x + k.pml, y + k.pml, z + k.pml", "x + k.pml, y + k.pml, z + k.pml + 1"),
        ("k.p[receivers[trace]]", "k.p[receivers[trace] + 1]"),
        ("__ldg(k.p + next + 4 * k.plane)", "__ldg(k.p + next + 3 * k.plane)"),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        let path = c::scratch("hostcuda").join(format!("broken{number}.cu"));
        std::fs::write(&path, text.replace(from, to)).unwrap();
        let broken = Host::compile(&path, &format!("broken{number}"), &["-O1"]);
        let found = fire(&Ordered(&broken, Order::Ascending), &model, dt, &shot, 8, 5);
        assert!(found != truth, "{to} goes unnoticed");
    }
    // A cell that looks at its neighbour's new value depends on who comes first.
    let (from, to) = ("k.p[at] = p;", "k.p[at] = p + 1e-3f * k.p[at - 1];");
    assert_eq!(text.matches(from).count(), 1, "{from}");
    let path = c::scratch("hostcuda").join("racy.cu");
    std::fs::write(&path, text.replace(from, to)).unwrap();
    let racy = Host::compile(&path, "racy", &["-O1"]);
    let found = |order| fire(&Ordered(&racy, order), &model, dt, &shot, 8, 5);
    let ascending = found(Order::Ascending);
    assert!(ascending != found(Order::Descending) && ascending != found(Order::Shuffled(1)));
}
