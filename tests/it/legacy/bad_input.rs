//! Bad calls: each returns an error with a message, and creates no file.

use std::fs;

use gpusched::Error;
use gpusched::io::raw;
use gpusched::legacy::{ACOUSTIC1, ACOUSTIC2, Args, TTI, VTI};

use testkit::Folder;

use super::call::small_call;

type Change = fn(&Folder, &mut Args);

/// A change of a valid call, and the required error message.
#[rustfmt::skip]
const TABLE: &[(Change, &[&str])] = &[
    (|out, args| args.models[0] = out.at("none.bin"), &["none.bin", "No such file", "(argument vel)"]),
    (|_, args| args.models[0] = "".into(), &["vel is ''; accepted: the name of a file"]),
    (|_, args| args.models[1] = "".into(), &["rho is ''; accepted: the name of a file"]),
    (|_, args| args.shot = "".into(), &["shot is ''; accepted: the name of a file"]),
    (|out, args| args.models[0] = out.at(""), &["not a plain file (argument vel)"]),
    (|out, args| args.models[0] = out.at("short.bin"), &["short.bin", "expected 5280 bytes", "found 5276 bytes (argument vel)"]),
    (|out, args| args.models[1] = out.at("long.bin"), &["long.bin", "expected 5280 bytes", "found 5284 bytes (argument rho)"]),
    (|out, args| args.models[0] = out.at("nan.bin"), &["vel of cell (11, 10, 9) is NaN; accepted: positive, finite m/s"]),
    (|out, args| args.models[0] = out.at("zero.bin"), &["vel of cell (11, 10, 9) is 0; accepted: positive, finite m/s"]),
    (|out, args| args.models[1] = out.at("negative.bin"), &["rho of cell (11, 10, 9) is -1; accepted: positive, finite kg/m³"]),
    (|out, args| args.models[1] = out.at("huge.bin"), &["rho with vel of cell (11, 10, 9) is 1e38 kg/m³ with", "float32 can hold", "rho vel²"]),
    (|out, args| args.shot = out.at("none/shot.bin"), &["create", "none/shot.bin", "its folder does not exist (argument shot)"]),
    (|_, args| args.shot = "/proc/shot.bin".into(), &["create", "/proc/shot.bin"]),
    (|_, args| args.shot = args.models[0].clone(), &["shot is", "another file than vel, rho"]),
    (|_, args| args.shot = args.models[1].clone(), &["shot is", "another file than vel, rho"]),
    (|out, args| { args.snap = out.at("none/"); (args.show_snapshot, args.snap_interval) = (true, 10); }, &["create", "none/ishot_0it_0.bin", "its folder does not exist (argument snap)"]),
    (|_, args| args.nx = 0, &["nx is 0; accepted: 1 to 100000 cells"]),
    (|_, args| args.ny = -11, &["ny is -11; accepted: 1 to 100000 cells"]),
    (|_, args| args.nz = i32::MIN, &["nz is -2147483648; accepted: 1 to 100000 cells"]),
    // 3000^3 cells: beyond 2^31, and 4 times as many bytes beyond 2^32
    (|_, args| (args.nx, args.ny, args.nz) = (3000, 3000, 3000), &["vel.bin", "expected 108000000000 bytes", "found 5280 bytes"]),
    (|_, args| args.ns = i32::MAX, &["ns is 2147483647; accepted: 1 to 100000 shots"]),
    (|_, args| args.nt = 0, &["nt is 0; accepted: 1 to"]),
    (|_, args| { (args.nt, args.ns) = (10_000_000, 100_000); (args.nx, args.ny) = (100_000, 100_000); }, &["the size of the record file", "at most 2^63 - 1 bytes"]),
    (|_, args| args.dx = f32::NAN, &["dx is NaN; accepted: a finite number of metres, at least 0.000001"]),
    (|_, args| args.dy = 0.0, &["dy is 0; accepted: a finite number of metres, at least 0.000001"]),
    (|_, args| args.dz = f32::INFINITY, &["dz is inf; accepted: a finite number of metres, at least 0.000001"]),
    (|_, args| args.dt = 0.0, &["dt is 0", "accepted:"]),
    (|_, args| args.dgx = 9.0, &["dgx is 9; accepted: a finite number, at least dx, which is 10"]),
    (|_, args| args.dgy = -10.0, &["dgy is -10; accepted: a finite number, at least dy"]),
    (|_, args| args.dgt = 0.0005, &["dgt is 0.0005; accepted: a finite number, at least dt"]),
    (|_, args| args.wtype = 9, &["wtype is 9; accepted: 1 Ricker"]),
    (|_, args| args.fm = 0.0, &["fm is 0 Hz; accepted: 1e-6 to 1e12 Hz"]),
    (|_, args| args.sxbeg = -14, &["sxbeg is -14; accepted: -13 to nx + 14, which is 26"]),
    (|_, args| args.sybeg = 26, &["sybeg is 26; accepted: -13 to ny + 14, which is 25"]),
    (|_, args| args.szbeg = -17, &["szbeg is -17; accepted: -13 to nz + 14, which is 24"]),
    (|_, args| (args.ns, args.jsx) = (3, 11), &["sxbeg + (ns - 1) jsx is 27; accepted: -13 to nx + 14, which is 26"]),
    (|_, args| (args.ns, args.jsx) = (2, i32::MIN), &["sxbeg + (ns - 1) jsx is -2147483643"]),
    (|_, args| args.show_snapshot = true, &["snap_interval is 0; accepted: 1 to"]),
];

#[test]
fn each_bad_call_is_an_error_with_its_sentence_and_leaves_no_file() {
    let out = Folder::new();
    let args = small_call(&out);
    let mut model = raw::read(&args.models[0], 1320).unwrap();
    raw::write(&out.at("short.bin"), &model[1..]).unwrap();
    for (name, value) in
        [("nan.bin", f32::NAN), ("zero.bin", 0.0), ("negative.bin", -1.0), ("huge.bin", 1e38)]
    {
        model[1319] = value;
        raw::write(&out.at(name), &model).unwrap();
    }
    model.push(1.0);
    raw::write(&out.at("long.bin"), &model).unwrap();
    let before = out.names();

    for (row, (change, sentence)) in TABLE.iter().enumerate() {
        let mut args = args.clone();
        change(&out, &mut args);
        let error = match ACOUSTIC1.call(&args) {
            Ok(()) => panic!("row {row} was accepted; it should have said {sentence:?}"),
            Err(error) => error.to_string(),
        };
        for part in *sentence {
            assert!(error.contains(part), "row {row}: {error:?} lacks {part:?}");
        }
        assert_eq!(out.names(), before, "row {row} left something: {error}");
    }

    ACOUSTIC1.call(&args).unwrap();
}

#[test]
fn a_record_of_an_earlier_call_survives_a_bad_one() {
    let out = Folder::new();
    let args = small_call(&out);
    fs::write(&args.shot, "earlier").unwrap();
    let models = vec![args.models[0].clone(), out.at("none.bin")];
    ACOUSTIC1.call(&Args { models, ..args.clone() }).unwrap_err();
    assert_eq!(fs::read(&args.shot).unwrap(), b"earlier");
    ACOUSTIC1.call(&args).unwrap();
    assert_eq!(fs::metadata(&args.shot).unwrap().len(), 40 * 12 * 11 * 4);
}

/// Arguments that mean something else to the second-order function.
#[test]
fn bad_calls_of_the_second_order_function_are_errors() {
    let out = Folder::new();
    let mut args = small_call(&out);
    args.models.truncate(1);
    let table: [(Change, &str); 6] = [
        (|_, args| args.is = 1, "is is 1; accepted: 0 to 0 (ns - 1)"),
        (|_, args| args.nz = 1, "nz is 1; accepted: 2 to 100000 cells"),
        (|_, args| args.sxbeg = 12, "sxbeg + is jsx is 12; accepted: 0 to nx - 1, which is 11"),
        (
            |_, args| (args.ns, args.is, args.jsz) = (4, 3, 3),
            "szbeg + is jsz is 12; accepted: 0 to nz - 1, which is 9",
        ),
        (|_, args| args.fm = 0.0, "fm is 0 Hz"),
        (|_, args| args.shot = args.models[0].clone(), "another file than vel"),
    ];
    for (change, sentence) in table {
        let mut args = args.clone();
        change(&out, &mut args);
        let error = ACOUSTIC2.call(&args).unwrap_err().to_string();
        assert!(error.contains(sentence), "{error:?} lacks {sentence:?}");
        assert_eq!(out.names(), ["rho.bin", "vel.bin"]);
    }
}

/// Angles in degrees, in the files of `theta` and of `psi`.
#[test]
fn refused_angles_are_called_by_the_names_of_their_arguments() {
    let out = Folder::new();
    let args = small_call(&out);
    for (name, value) in [("zero", 0.0), ("degrees", 45.0)] {
        raw::write(&out.at(name), &[value; 1320]).unwrap();
    }
    for (position, argument) in [(3, "theta"), (4, "psi")] {
        let mut models: Vec<_> = ["vel.bin", "zero", "zero", "zero", "zero"].map(|name| out.at(name)).into();
        models[position] = out.at("degrees");
        let error = TTI.call(&Args { models, ..args.clone() }).unwrap_err().to_string();
        let sentence = format!("{argument} of cell (0, 0, 0) is 45; accepted: -2 pi to 2 pi radians");
        assert!(error.contains(&sentence), "{error}");
    }
}

/// Such a call has no choice of the absorbing layer.
#[test]
fn unstable_shot_is_described_by_the_names_of_the_arguments() {
    let out = Folder::new();
    let args = small_call(&out);
    let angles: Vec<f32> = (0..1320).map(|cell| (cell % 10) as f32 * 0.1).collect();
    raw::write(&out.at("angles"), &angles).unwrap();
    raw::write(&out.at("zero"), &[0.0; 1320]).unwrap();
    let models = ["vel.bin", "zero", "zero", "angles", "zero"].map(|name| out.at(name)).into();
    let error = TTI.call(&Args { models, nt: 400, dt: 0.01, dgt: 0.01, ..args }).unwrap_err();
    assert!(matches!(error, Error::Unstable { .. }), "{error}");
    let error = error.to_string();
    for words in ["theta or psi varies", "smooth theta and psi, or compute a survey", "vel "] {
        assert!(error.contains(words), "{error}");
    }
    for words in ["theta_rad", "phi_rad", "vp ", "layer \"pml\"", "default layer"] {
        assert!(!error.contains(words), "{error}");
    }
}

/// A file for an argument of the anisotropic functions, and the sentence about it.
#[rustfmt::skip]
const MEDIA: &[(&str, &str, &str)] = &[
    ("epsilon", "none.bin", "none.bin: No such file or directory (os error 2) (argument epsilon)"),
    ("delta", "short", "expected 5280 bytes (1320 values of 4 bytes), found 5276 bytes (argument delta)"),
    ("delta", "tenth", "epsilon of cell (0, 0, 0) is 0; accepted: delta, which is 0.1"),
    ("delta", "half", "delta of cell (0, 0, 0) is -0.5; accepted: "),
    ("epsilon", "nan", "epsilon of cell (0, 0, 0) is NaN; accepted: "),
];

#[test]
fn bad_epsilon_and_delta_are_errors_and_leave_no_file() {
    let out = Folder::new();
    let args = small_call(&out);
    for (name, value) in [("zero", 0.0), ("tenth", 0.1), ("half", -0.5), ("nan", f32::NAN)] {
        raw::write(&out.at(name), &[value; 1320]).unwrap();
    }
    raw::write(&out.at("short"), &[0.0; 1319]).unwrap();
    let before = out.names();
    for function in [&VTI, &TTI] {
        for &(argument, file, sentence) in MEDIA {
            let models = function.models.iter().map(|&(name, _)| match name {
                _ if name == argument => out.at(file),
                "vel" => out.at("vel.bin"),
                "rho" => out.at("rho.bin"),
                _ => out.at("zero"),
            });
            let bad = Args { models: models.collect(), nt: 101, ..args.clone() };
            let error = function.call(&bad).unwrap_err().to_string();
            assert!(error.contains(sentence), "{}: {error:?} lacks {sentence:?}", function.name);
            assert_eq!(out.names(), before, "{error}");
        }
    }
}
