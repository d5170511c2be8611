//! Behaviour on which callers of the old library rely, apart from the numbers.

use std::fs;
use std::sync::Mutex;

use gpusched::fd::grid::Grid;
use gpusched::fd::model::{Model, Property};
use gpusched::fd::survey::{Receivers, Shot};
use gpusched::fd::wavelet::{Shape, Wavelet};
use gpusched::io::raw;
use gpusched::legacy::{ACOUSTIC1, ACOUSTIC2, Args, Function, TTI, VTI};

use testkit::Folder;
use testmodels::norms::relative_l2;
use testmodels::reference::{Equation, Medium, Reference};

use super::call::small_call;

fn record(args: &Args) -> Vec<u8> {
    ACOUSTIC1.call(args).unwrap();
    fs::read(&args.shot).unwrap()
}

#[test]
fn a_call_of_many_shots_is_many_calls_of_one() {
    let out = Folder::new();
    // In the old library, too, the number `is` and the steps in y and z have no effect.
    let many = Args { ns: 3, is: 2, sxbeg: 9, jsx: -4, jsy: 3, jsz: 2, dgx: 20.0, ..small_call(&out) };
    let together = record(&many);
    let stride = 40 * 12 * 11 * 4;
    let size = 40 * 6 * 11 * 4;
    assert_eq!(together.len(), 2 * stride + size);
    for shot in 0..3 {
        let one = Args { ns: 1, is: 0, sxbeg: 9 - 4 * shot, jsx: 0, ..many.clone() };
        let at = shot as usize * stride;
        assert!(together[at..at + size] == record(&one), "shot {shot}");
    }
    assert!(together[size..stride].iter().all(|&byte| byte == 0), "the gap");
}

/// Scripts of the old package have sources at depth 0, one cell above the first.
#[test]
fn sources_in_the_absorbing_layer_have_the_records_of_the_old_kernel() {
    let out = Folder::new();
    let calm = small_call(&out);
    let [vp, rho] = [0, 1].map(|file| raw::read(&calm.models[file], 12 * 11 * 10).unwrap());
    let grid = Grid::new([12, 11, 10], [10.0; 3]).unwrap();
    let model = Model::new(grid, vp, Some(rho)).unwrap();
    let medium = Medium::from(&model);
    let old = Reference::new(Equation::Acoustic1, &medium, calm.dt);
    let wavelet = Wavelet::new(Shape::CutRicker, calm.fm, calm.dt, 40).unwrap();
    let receivers = Receivers::Plane { iz: 0, every: [1, 1] };
    let shot = Shot { wavelet, amplitude: 10_000.0, nt: 40, receivers, ..Shot::default() };
    let cases = [
        ([5, 6, 0], [4, 5, 0], [0, 0, -1]),
        ([0, 25, 10], [0, 10, 9], [-1, 14, 0]),
        ([14, -1, 12], [11, 0, 9], [2, -2, 2]),
    ];
    for ([sxbeg, sybeg, szbeg], source, outside) in cases {
        ACOUSTIC1.call(&Args { sxbeg, sybeg, szbeg, ..calm.clone() }).unwrap();
        let found = raw::read(&calm.shot, 12 * 11 * 40).unwrap();
        let truth = old.run(&Shot { source, outside, ..shot.clone() }).record;
        let off = relative_l2(&found, &truth);
        assert!(off < 2e-6, "{sxbeg}, {sybeg}, {szbeg}: {off:e}");
    }
}

#[test]
fn threads_may_call_at_once_and_again() {
    let out = Folder::new();
    let args = small_call(&out);
    let expected = record(&args);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (args, expected) = (&args, &expected);
            // Two threads have files of their own, two share one: concurrent writes to it are
            // refused to one of them.
            let shot = out.at(format!("shot{}.bin", thread.min(2)));
            scope.spawn(move || {
                for _ in 0..3 {
                    let args = Args { shot: shot.clone(), ..args.clone() };
                    match ACOUSTIC1.call(&args) {
                        Err(error) if thread >= 2 => {
                            assert!(error.to_string().contains("another call of this process"), "{error}");
                        }
                        other => other.unwrap(),
                    }
                    if thread < 2 {
                        assert!(fs::read(&args.shot).unwrap() == *expected);
                    }
                }
            });
        }
    });
    assert!(fs::read(out.at("shot2.bin")).unwrap() == expected);
    assert_eq!(out.names(), ["rho.bin", "shot.bin", "shot0.bin", "shot1.bin", "shot2.bin", "vel.bin"]);
}

#[test]
fn an_unstable_step_is_taken_until_the_result_is_lost() {
    let out = Folder::new();
    // The limit is 1.87 ms for 2400 m/s in steps of 10 m. A few steps beyond it still give numbers.
    let args =
        Args { dt: 0.003, dgt: 0.003, nt: 10, show_snapshot: true, snap_interval: 5, ..small_call(&out) };
    ACOUSTIC1.call(&args).unwrap();
    let files = ["shot.bin", "snap_ishot_0it_0.bin", "snap_ishot_0it_5.bin"];
    assert_eq!(out.names(), [&["rho.bin"], &files[..], &["vel.bin"]].concat());
    for name in files {
        fs::remove_file(out.at(name)).unwrap();
    }
    // Three shots, each of which has written snapshots before it becomes unstable.
    let error = ACOUSTIC1.call(&Args { nt: 600, ns: 3, jsx: 1, ..args }).unwrap_err().to_string();
    assert!(error.contains("stable"), "{error}");
    assert_eq!(out.names(), ["rho.bin", "vel.bin"]);
}

/// Also in the source's cell, whose samples contain the source of their own step.
#[test]
fn shorter_second_order_call_records_the_beginning_of_a_longer_one() {
    let out = Folder::new();
    let mut args = Args { szbeg: 1, ..small_call(&out) };
    args.models.truncate(1);
    let [long, short] = [21, 20].map(|nt| {
        ACOUSTIC2.call(&Args { nt, ..args.clone() }).unwrap();
        raw::read(&args.shot, nt as usize * 12 * 11).unwrap()
    });
    for (trace, (long, short)) in long.chunks(21).zip(short.chunks(20)).enumerate() {
        assert_eq!(short, &long[..20], "trace {trace}");
    }
}

#[test]
fn functions_of_anisotropic_media_keep_their_oddities() {
    let out = Folder::new();
    let mut args = small_call(&out);
    for (name, value) in [("none.bin", 0.0), ("some.bin", 0.1)] {
        raw::write(&out.at(name), &[value; 12 * 11 * 10]).unwrap();
    }
    let [none, some] = ["none.bin", "some.bin"].map(|name| out.at(name));
    let inputs = ["none.bin", "rho.bin", "some.bin", "vel.bin"];

    // The tilted function computes a single shot, and writes every 100th field although no
    // snapshots are selected.
    args.models = vec![args.models[0].clone(), some.clone(), none, some.clone(), some];
    TTI.call(&Args { nt: 100, ns: -3, is: 7, jsx: 1000, ..args.clone() }).unwrap();
    fs::remove_file(&args.shot).unwrap();
    assert_eq!(out.names(), inputs);
    TTI.call(&Args { nt: 101, ..args.clone() }).unwrap();
    fs::remove_file(out.at("snap_ishot_0_it_100.bin")).unwrap();
    fs::remove_file(&args.shot).unwrap();
    assert_eq!(out.names(), inputs);
}

/// The warnings of all tests of this process.
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Warnings;

impl log::Log for Warnings {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        WARNINGS.lock().unwrap().push(format!("{}: {}", record.level(), record.args()));
    }

    fn flush(&self) {}
}

/// Cells keep their epsilon and delta 15 cells from the source, which may lie outside the grid.
#[test]
fn a_call_whose_shot_keeps_no_anisotropy_warns_once() {
    log::set_logger(&Warnings).expect("no other logger");
    log::set_max_level(log::LevelFilter::Warn);
    let found = |function: &'static Function, n: [i32; 3], epsilon: f32, change: fn(&mut Args)| {
        let out = Folder::new();
        let [nx, ny, nz] = n;
        let values = |(name, property): &(&str, Property)| {
            let value = [epsilon, 1500.0][usize::from(matches!(property, Property::Vp | Property::Rho))];
            raw::write(&out.at(name), &vec![value; (nx * ny * nz) as usize]).unwrap();
            out.at(name)
        };
        let models = function.models.iter().map(values).collect();
        let call = Args { models, nx, ny, nz, nt: 2, sxbeg: 2, sybeg: 2, szbeg: 2, ..small_call(&out) };
        let mut args = Args { snap: out.at("snap"), ..call };
        change(&mut args);
        function.call(&args).unwrap();
        let of_these = |line: &String| line.contains(&format!("all {nx} x {ny} x {nz} cells"));
        let mut warnings = WARNINGS.lock().unwrap();
        let (these, others) = warnings.drain(..).partition(of_these);
        *warnings = others;
        these
    };
    let warning = |name: &str, [nx, ny, nz]: [i32; 3], shot: usize| {
        vec![format!(
            "WARN: {name}: all {nx} x {ny} x {nz} cells are nearer than 15 cells to the source of shot {shot}, so none keeps \
             its epsilon and delta; use a larger model, or a survey with anisotropic_source"
        )]
    };
    let near = [3, 3, 16];
    for function in [&VTI, &TTI] {
        assert_eq!(
            found(function, near, 0.1, |args| (args.ns, args.jsx) = (2, 1)),
            warning(function.name, near, 0)
        );
        assert_eq!(found(function, near, 0.0, |_| ()), [""; 0]);
        assert_eq!(found(function, [3, 3, 17], 0.1, |_| ()), [""; 0]);
        assert_eq!(found(function, [3, 3, 15], 0.1, |args| args.szbeg = 0), [""; 0]);
    }
    let long = [20, 3, 3];
    assert_eq!(
        found(&VTI, long, 0.1, |args| (args.ns, args.jsx) = (3, 4)),
        warning("cuda_3dfd_vti", long, 1)
    );
}
