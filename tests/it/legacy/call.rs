//! Calls of the old entry point, and the folders that they write to.

use gpusched::legacy::{Args, Function};
use testkit::Folder;
use testmodels::golden;

/// Returns the call of a golden case, with results in `shot.bin` and `snap/` of a folder.
pub fn golden_call(function: &Function, case: &str, out: &Folder) -> Args {
    let inputs = golden::folder().join(case);
    let index = golden::json(&inputs.join("case.json"));
    let argument = |name: &str| {
        let mut found = golden::list(&index["args"]).iter().filter(|argument| argument[0] == name);
        found.next().map(|argument| argument[2].clone())
    };
    let value = |name: &str| argument(name).unwrap_or_else(|| panic!("{case} has no argument {name}"));
    let int = |name| i32::try_from(value(name).as_i64().unwrap()).unwrap();
    let float = |name| golden::float(&value(name));
    let flag = |name| value(name).as_bool().unwrap();
    let mut args = call(out);
    let input = |(name, _): &(&str, _)| inputs.join(value(&format!("FN{name}")).as_str().unwrap());
    args.models = function.models.iter().map(input).collect();
    args.snap = out.at("snap/");
    (args.is, args.ns, args.nt) = (int("is"), int("ns"), int("nt"));
    (args.nx, args.ny, args.nz) = (int("nx"), int("ny"), int("nz"));
    (args.dx, args.dy, args.dz) = (float("dx"), float("dy"), float("dz"));
    (args.sxbeg, args.sybeg, args.szbeg) = (int("sxbeg"), int("sybeg"), int("szbeg"));
    (args.jsx, args.jsy, args.jsz) = (int("jsx"), int("jsy"), int("jsz"));
    (args.dgx, args.dgy, args.dgt) = (float("dgx"), float("dgy"), float("dgt"));
    (args.dt, args.fm) = (float("dt"), float("fm"));
    args.wtype = argument("wtype").map_or(1, |_| int("wtype"));
    (args.show_snapshot, args.cut_directwave) = (flag("show_snapshot"), flag("cut_directwave"));
    (args.snap_interval, args.device) = (int("snap_interval"), int("cudaDevicei"));
    args
}

/// Returns a short call: 12 x 11 x 10 cells, 40 steps, one shot, models in `out`.
pub fn small_call(out: &Folder) -> Args {
    let cells = 12 * 11 * 10;
    let vel: Vec<f32> = (0..cells).map(|cell| 1500.0 + (cell % 10) as f32 * 100.0).collect();
    let rho: Vec<f32> = (0..cells).map(|cell| 1000.0 + (cell % 7) as f32 * 50.0).collect();
    gpusched::io::raw::write(&out.at("vel.bin"), &vel).unwrap();
    gpusched::io::raw::write(&out.at("rho.bin"), &rho).unwrap();
    call(out)
}

#[rustfmt::skip]
fn call(out: &Folder) -> Args {
    Args {
        models: vec![out.at("vel.bin"), out.at("rho.bin")],
        snap: out.at("snap_"),
        shot: out.at("shot.bin"),
        is: 0, ns: 1,
        nx: 12, ny: 11, nz: 10, dx: 10.0, dy: 10.0, dz: 10.0,
        sxbeg: 5, sybeg: 6, szbeg: 3, jsx: 0, jsy: 0, jsz: 0,
        dgx: 10.0, dgy: 10.0, dgt: 0.001,
        nt: 40, dt: 0.001, wtype: 1, fm: 50.0,
        show_snapshot: false, cut_directwave: false, snap_interval: 0,
        device: 0,
    }
}
