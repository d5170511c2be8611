//! The interpreter against plain Rust, bit for bit, and what it says of faulty kernels.

mod common;

use common::Arg::{I, L, P, Raw};
use common::{Host, noise, run, step};
use fakecuda::ptx::{FaultKind, Module, parse};

const STENCIL: &str = include_str!("../fixtures/stencil.ptx");
const FEATURES: &str = include_str!("../fixtures/features.ptx");

fn features() -> Module {
    parse(FEATURES).unwrap_or_else(|e| panic!("features.ptx: {e}"))
}

fn compare_stencil(tiled: bool) {
    let module = parse(STENCIL).unwrap_or_else(|e| panic!("stencil.ptx: {e}"));
    let n @ [nx, ny, nz] = [30, 21, 75];
    let cells = nx * ny * nz;
    let (p1, v, mut p0) = (noise(cells, 1), noise(cells, 2), noise(cells, 3));
    let mut host = Host::default();
    let (d1, dv, d0) = (host.put(&p1), host.put(&v), host.put(&p0));
    let args = [P(d1), P(dv), P(d0), I(nx as i32), I(ny as i32), I(nz as i32)];
    let block = [32, 4, 1];
    let groups = |cells: usize, by: usize| (cells - 8).div_ceil(by) as u32;
    let mut grid = [groups(nz, 32), groups(nx, 4), (ny - 8) as u32];
    let (name, shared) = if tiled { ("step_tiled", (4 + 8) * (32 + 8) * 4) } else { ("step", 0) };
    if tiled {
        grid[2] = 1;
    }
    run(&module, &mut host, name, grid, block, shared, &args).unwrap_or_else(|e| panic!("{name}: {e}"));
    step(&p1, &v, &mut p0, n);
    let got: Vec<f32> = host.get(d0);
    let different = got.iter().zip(&p0).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
    assert_eq!(different, 0, "cells of {cells} that differ in a bit");
}

#[test]
fn a_stencil_agrees_bit_for_bit() {
    compare_stencil(false);
}

#[test]
fn a_tiled_stencil_agrees_bit_for_bit() {
    compare_stencil(true);
}

/// Warps run one after the other, so numbers may be right by chance: who touched what since the last barrier tells.
#[test]
fn a_missing_barrier_is_a_race() {
    let barriers: Vec<_> = STENCIL.match_indices("bar.sync").map(|(at, _)| at).collect();
    assert_eq!(barriers.len(), 2);
    for missing in barriers {
        let text = format!("{}//{}", &STENCIL[..missing], &STENCIL[missing..]);
        let module = parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let noise = noise(30 * 21 * 75, 1);
        let mut host = Host::default();
        let (d1, dv, d0) = (host.put(&noise), host.put(&noise), host.put(&noise));
        let args = [P(d1), P(dv), P(d0), I(30), I(21), I(75)];
        let fault =
            run(&module, &mut host, "step_tiled", [3, 6, 1], [32, 4, 1], 12 * 40 * 4, &args).unwrap_err();
        // Between reading a tile and writing the next, or the other way round.
        let seen = [
            (FaultKind::Race, "st.shared"),
            (FaultKind::Race, "ld.shared"),
            (FaultKind::Unwritten, "ld.shared"),
        ];
        let (kind, line) = (fault.kind, line(&text, fault.line));
        assert!(seen.iter().any(|(k, l)| *k == kind && line.starts_with(l)), "{fault}");
    }
}

#[test]
fn integer_arithmetic() {
    let module = features();
    let edge = [0, 1, -1, 2, 7, -7, i32::MAX, i32::MIN, 255, -256, 65536, 12345678, -87654321, 31, 32, 33];
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for x in edge {
        for y in edge {
            a.push(x);
            b.push(y);
        }
    }
    let n = a.len();
    let mut host = Host::default();
    let (da, db, out) = (host.put(&a), host.put(&b), host.put(&vec![0i64; n]));
    run(&module, &mut host, "integers", [3, 1, 1], [96, 1, 1], 0, &[P(da), P(db), P(out), I(n as i32)])
        .unwrap();
    let got: Vec<i64> = host.get(out);
    for i in 0..n {
        assert_eq!(got[i], integers(a[i], b[i]), "of {} and {}", a[i], b[i]);
    }
}

/// `integers` of features.cu.
fn integers(x: i32, y: i32) -> i64 {
    let (ux, uy) = (x as u32, y as u32);
    let w = i64::from(x) * i64::from(y);
    let h = (u64::from(ux) * u64::from(uy)) >> 32;
    let g = ((x as i64 as u64 as u128 * y as i64 as u64 as u128) >> 64) as i64;
    let mut r = w ^ h as i64;
    r = r.wrapping_add(g);
    if y != 0 && !(x == i32::MIN && y == -1) {
        r = r.wrapping_add(i64::from(x / y + x % y));
    }
    if let (Some(quotient), Some(rest)) = (ux.checked_div(uy), ux.checked_rem(uy)) {
        r ^= i64::from(quotient) << 7;
        r = r.wrapping_add(i64::from(rest));
    }
    if w != 0 {
        r = r.wrapping_add(((w.wrapping_mul(31) / (w | 1)) as u64).wrapping_add(w as u64 % 1000003) as i64);
    }
    r = r.wrapping_add(
        i64::from(x >> (y & 31))
            .wrapping_add(i64::from(ux >> (uy & 31)))
            .wrapping_add(i64::from(x) << (y & 63)),
    );
    let ffs = if x == 0 { 0 } else { x.trailing_zeros() as i32 + 1 };
    let bits = (ux.count_ones() as i32 + x.leading_zeros() as i32 + ffs) as u32;
    let bits =
        bits.wrapping_add(ux.reverse_bits()).wrapping_add(w.count_ones()).wrapping_add(w.leading_zeros());
    r = r.wrapping_add(i64::from(bits));
    r ^= i64::from(x.min(y).wrapping_mul(3).wrapping_add(x.max(y)).wrapping_add(x.wrapping_abs()))
        + i64::from(ux.min(uy))
        - i64::from(ux.max(uy));
    r = r.wrapping_add(i64::from(x as i16) + i64::from(y as u16) + i64::from(x as i8) + i64::from(y as u8));
    let shifted = ((u64::from(uy) << 32 | u64::from(ux)) << (ux & 31) >> 32) as u32;
    let all = u64::from(uy) << 32 | u64::from(ux);
    let permuted = [5, 1, 7, 3]
        .iter()
        .enumerate()
        .fold(0u32, |p, (k, s)| p | ((all >> (8 * s)) as u8 as u32) << (8 * k));
    r.wrapping_add(i64::from(shifted ^ permuted))
}

#[test]
fn floating_point_arithmetic() {
    let module = features();
    let a: Vec<f32> =
        noise(64, 5).into_iter().chain([0.0, -0.0, 2.5, -2.5, 3.5e4, f32::NAN, 1e-40]).collect();
    let b: Vec<f64> = (0..a.len()).map(|i| f64::from(a[(i + 9) % a.len()]) * 7.3 + 0.1).collect();
    let k: Vec<i32> = (0..a.len() as i32).map(|i| i * 1000003).collect();
    let n = a.len();
    let mut host = Host::default();
    let (da, db, dk) = (host.put(&a), host.put(&b), host.put(&k));
    let (df, dd) = (host.put(&vec![0f32; n]), host.put(&vec![0f64; n]));
    let args = [P(da), P(db), P(df), P(dd), P(dk), I(n as i32)];
    run(&module, &mut host, "floats", [1, 1, 1], [128, 1, 1], 0, &args).unwrap();
    let (f, d, out): (Vec<f32>, Vec<f64>, Vec<i32>) = (host.get(df), host.get(dd), host.get(dk));
    let table = [1.5f32, -2.25, 3.0, 0.125];
    for i in 0..n {
        let (x, y) = (a[i], b[i]);
        let wf =
            x.mul_add(table[i & 3], x / 3.0) - x.abs().sqrt() + x.min(y as f32) * x.max(-1.0) + k[i] as f32;
        assert!(f[i].to_bits() == wf.to_bits() || f[i].is_nan() && wf.is_nan(), "f {x} {y}: {} {wf}", f[i]);
        let wd =
            y.mul_add(f64::from(x), y / 7.0) + y.abs().sqrt() - y.floor() + (y as i64) as f64 + y.min(2.0);
        assert!(d[i].to_bits() == wd.to_bits() || d[i].is_nan() && wd.is_nan(), "d {x} {y}: {} {wd}", d[i]);
        let less = if x < y as f32 { 5 } else { 9 };
        let t = x as i32
            + x.round_ties_even() as i32
            + y.floor() as i32
            + less
            + i32::from(x.is_nan())
            + x.round_ties_even() as i32
            + x.ceil() as i32
            + x as i32;
        let wk = t.wrapping_add(x as u32 as i32).wrapping_add(x.to_bits() as i32 & 3)
            + i32::from(y.is_sign_negative());
        assert_eq!(out[i], wk, "k {x} {y}");
    }
}

#[test]
fn shuffles_and_votes() {
    let module = features();
    let a: Vec<i32> = (0..64).map(|i| i * 7 % 50).collect();
    let mut host = Host::default();
    let (da, out) = (host.put(&a), host.put(&[0i32; 64]));
    run(&module, &mut host, "warp", [2, 1, 1], [32, 1, 1], 0, &[P(da), P(out)]).unwrap();
    let got: Vec<i32> = host.get(out);
    for block in 0..2 {
        let v = &a[block * 32..][..32];
        let sum: i32 = v.iter().sum();
        let odd = v.iter().enumerate().fold(0u32, |m, (i, x)| m | ((*x & 1) as u32) << i);
        for t in 0..32 {
            let x = v[t ^ 5] - v[if t >= 3 { t - 3 } else { t }];
            let any = i32::from(v.iter().any(|x| *x > 90));
            let want = sum * 16 + x + (odd & 0xff) as i32 + any * 2 + 1;
            assert_eq!(got[block * 32 + t], want, "block {block} thread {t}");
        }
    }
}

#[test]
fn atomics_and_reductions() {
    let module = features();
    let mut host = Host::default();
    let (sum, top, fsum) = (host.put(&[0i32]), host.put(&[0u32]), host.put(&[0f32]));
    let (lock, big) = (host.put(&[0i32; 3]), host.put(&[0u64; 2]));
    let args = [P(sum), P(top), P(fsum), P(lock), P(big)];
    run(&module, &mut host, "atomics", [8, 1, 1], [64, 1, 1], 0, &args).unwrap();
    assert_eq!(host.get::<i32>(sum), [8 * (-32 + 10)]);
    assert_eq!(host.get::<u32>(top), [763]);
    assert_eq!(host.get::<f32>(fsum), [512.0]);
    assert_eq!(host.get::<i32>(lock), [1, 42, 0xff]);
    assert_eq!(host.get::<u64>(big), [8 * (2016u64 << 33), 4.0f64.to_bits()]);
}

#[test]
fn structures_by_value_local_arrays_vectors_and_calls() {
    let module = features();
    let mut host = Host::default();
    let mut raw = Vec::new();
    raw.extend(3i32.to_le_bytes());
    raw.extend(5i32.to_le_bytes());
    for w in [0.5f32, 1.5, -2.0] {
        raw.extend(w.to_le_bytes());
    }
    raw.extend([0; 4]);
    raw.extend(0.25f64.to_le_bytes());
    raw.push(7);
    raw.extend([0; 7]);
    let boxes = host.put(&[raw.clone(), raw.clone()].concat());
    let out = host.put(&[0f32; 32]);
    run(&module, &mut host, "by_value", [1, 1, 1], [32, 1, 1], 0, &[Raw(raw), P(boxes), P(out)]).unwrap();
    let got: Vec<f32> = host.get(out);
    for (i, got) in got.iter().enumerate() {
        let k = (0..8).find(|k| (k * 5 + i) & 7 == i & 7).unwrap();
        let want = k as f32 * [0.5, 1.5, -2.0][k % 3] + 3.0 + 5.0 * 0.25 + 7.0;
        assert_eq!(*got, want, "thread {i}");
    }

    let (a, d, o) = (host.put(&noise(128, 9)), host.put(&[0f64; 64]), host.put(&[0f32; 128]));
    run(&module, &mut host, "vectors", [1, 1, 1], [32, 1, 1], 0, &[P(a), P(d), P(o)]).unwrap();
    let (a, d, o): (Vec<f32>, Vec<f64>, Vec<f32>) = (host.get(a), host.get(d), host.get(o));
    for i in 0..32 {
        assert_eq!([d[2 * i], d[2 * i + 1]], [f64::from(a[4 * i]), f64::from(a[4 * i + 3])]);
        assert_eq!([o[4 * i], o[4 * i + 3]], [a[4 * i + 3], a[4 * i]]);
    }

    let x = host.put(&noise(8, 4));
    run(&module, &mut host, "calls", [1, 1, 1], [8, 1, 1], 0, &[P(x)]).unwrap();
    let want: Vec<f32> =
        noise(8, 4).iter().enumerate().map(|(i, x)| if i > 3 { *x } else { x * 2.0 }).collect();
    assert_eq!(host.get::<f32>(x), want);
}

/// The line of the text that a fault names, without blanks at its ends.
fn line(text: &str, number: u32) -> &str {
    text.lines().nth(number as usize - 1).unwrap_or("").trim()
}

#[test]
fn faults_name_the_line() {
    let module = features();
    let mut host = Host::default();
    let p = host.put(&[0f32; 64]);
    let mut fail = |name: &str, block, shared, args: &[common::Arg]| {
        let fault = run(&module, &mut host, name, [1, 1, 1], [block, 1, 1], shared, args).unwrap_err();
        (fault.kind, line(FEATURES, fault.line), fault)
    };
    let (kind, text, fault) = fail("out_of_bounds", 32, 0, &[P(p), L(40)]);
    assert_eq!((kind, fault.thread), (FaultKind::OutOfBounds, [24, 0, 0]), "{fault}");
    assert!(text.starts_with("st.global.u32"), "{text}");
    let (kind, text, _) = fail("out_of_bounds", 1, 0, &[P(p), L(-1)]);
    assert_eq!(kind, FaultKind::OutOfBounds);
    assert!(text.starts_with("st.global.u32"), "{text}");
    let (kind, text, fault) = fail("misaligned", 1, 0, &[P(p)]);
    assert_eq!(kind, FaultKind::Misaligned, "{fault}");
    assert!(text.starts_with("st.global"), "{text}");
    let (kind, text, fault) = fail("endless", 1, 0, &[P(p)]);
    assert_eq!(kind, FaultKind::Endless, "{fault}");
    assert!(text.contains("bra"), "{text}");
    let (kind, text, fault) = fail("divergent", 32, 0, &[P(p)]);
    assert_eq!(kind, FaultKind::DivergentBarrier, "{fault}");
    assert!(text.starts_with("bar.sync"), "{text}");
    let (kind, text, fault) = fail("trap_at", 64, 0, &[I(37)]);
    assert_eq!((kind, fault.thread), (FaultKind::Trap, [37, 0, 0]));
    assert!(text.starts_with("trap"), "{text}");
    let (kind, text, fault) = fail("shared_out", 32, 64, &[P(p)]);
    assert_eq!((kind, fault.thread), (FaultKind::OutOfBounds, [16, 0, 0]), "{fault}");
    assert!(text.starts_with("st.shared"), "{text}");
}

#[test]
fn what_is_not_ptx_is_refused_with_its_line() {
    let refused = |text: &str| parse(text).unwrap_err();
    assert_eq!(refused("no ptx at all").line, 1);
    assert_eq!(refused("\u{7f}ELF").line, 1);
    assert_eq!(refused("").line, 1);
    let text = FEATURES.replace("popc.b32", "tex.2d.v4.f32");
    let (wrong, line) = (refused(&text), text.lines().position(|l| l.contains("tex.2d")).unwrap());
    assert_eq!(wrong.line as usize, line + 1, "{wrong}");
    let text = FEATURES.replacen("%r1,", "%r999,", 1);
    assert!(refused(&text).why.contains("%r999"));
    let text = FEATURES.replacen("$L__BB0_4:", "", 1);
    assert!(refused(&text).why.contains("$L__BB0_4"));
    let cut = &FEATURES[..FEATURES.len() / 2];
    assert!(refused(cut).why.contains("ends"), "{}", refused(cut));
}

#[test]
fn launches_know_their_limits() {
    let module = parse(STENCIL).unwrap();
    let kernel = module.kernel("step").unwrap();
    assert_eq!((module.version, module.target), ((6, 0), 35));
    assert_eq!((kernel.max_threads, kernel.param_bytes, kernel.shared_bytes), (Some(128), 36, 0));
    assert_eq!(kernel.params[5].offset, 32);
}

/// What the library ships must be executable here.
#[test]
fn the_shipped_kernels_are_understood() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/ptx");
    let mut kernels = 0;
    for entry in std::fs::read_dir(directory).expect("kernels/ptx") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "ptx") {
            let text = std::fs::read_to_string(&path).expect("a text");
            kernels += parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display())).kernels.len();
        }
    }
    assert!(kernels > 0);
}

#[test]
fn a_kernel_in_a_loop_can_be_cancelled() {
    let module = features();
    let mut host = Host::default();
    let p = host.put(&[0i32; 2]);
    let cancel = std::sync::atomic::AtomicBool::new(false);
    let launch = fakecuda::ptx::Launch {
        kernel: module.kernel("endless").expect("it"),
        grid: [1, 1, 1],
        block: [1, 1, 1],
        dynamic_shared: 0,
        params: &p.to_le_bytes(),
        globals: &[0; 2],
        memory: &host,
        fuel: u64::MAX,
        threads: 1,
        cancel: &cancel,
    };
    std::thread::scope(|scope| {
        let run = scope.spawn(|| launch.run());
        std::thread::sleep(std::time::Duration::from_millis(20));
        cancel.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(run.join().expect("no panic").map_err(|f| f.kind), Err(FaultKind::Cancelled));
    });
}

const COPIES: &str = include_str!("../fixtures/copies.ptx");

/// Of two blocks, one after the other in the same shared memory: what they leave, or what they did wrong.
fn copied(text: &str, offset: u64) -> Result<Vec<f32>, fakecuda::ptx::Fault> {
    let module = parse(text).unwrap_or_else(|e| panic!("copies.ptx: {e}"));
    let mut host = Host::default();
    let [a, b, c] = [64, 128, 256].map(|n| host.put(&noise(n, n as u64)));
    let out = host.put(&[0f32; 64]);
    let args = [P(a + offset), P(b), P(c), P(out)];
    common::run_on(1, &module, &mut host, "ahead", [2, 1, 1], [64, 1, 1], 0, &args)?;
    Ok(host.get(out))
}

#[test]
fn copies_are_there_when_they_are_waited_for() {
    let [a, b, c] = [64, 128, 256].map(|n| noise(n, n as u64));
    let expected: Vec<f32> = (0..64).map(|t| a[t] + b[(t + 1) % 64 * 2 + 1] + c[4 * t + 3]).collect();
    assert_eq!(copied(COPIES, 0).unwrap_or_else(|e| panic!("{e}")), expected);
}

/// On a card a copy may be there sooner, or not: who counts on either is told.
#[test]
fn what_is_wrong_about_copies_is_told() {
    let wrong = |from: &str, to: &str, kind: FaultKind, at: &str| {
        assert_eq!(COPIES.matches(from).count(), 1, "{from}");
        let text = COPIES.replace(from, to);
        let fault = copied(&text, 0).expect_err(from);
        let found = line(&text, fault.line);
        assert!(fault.kind == kind && found.starts_with(at), "{from} to {to}: {fault}: {found}");
    };
    // Not waited for: at all, of too few groups, and what is of no group is in none of them.
    wrong("cp.async.wait_group 1;", "", FaultKind::Copying, "ld.shared.f32 %f1");
    wrong("cp.async.wait_group 1;", "cp.async.wait_group 2;", FaultKind::Copying, "ld.shared.f32 %f1");
    wrong("cp.async.wait_group 0;", "", FaultKind::Copying, "ld.shared.f32 %f2");
    wrong("cp.async.wait_all;", "", FaultKind::Copying, "ld.shared.f32 %f4");
    wrong("cp.async.wait_all;", "cp.async.wait_group 0;", FaultKind::Copying, "ld.shared.f32 %f4");
    // Another thread has not waited for it, and no barrier says that it has.
    let race = "ld.shared.f32 %f2";
    let barrier = COPIES.replace("bar.sync 0;", "");
    let fault = copied(&barrier, 0).expect_err("no barrier");
    assert!(matches!(fault.kind, FaultKind::Race | FaultKind::Copying), "{fault}");
    assert!(line(&barrier, fault.line).starts_with(race), "{fault}");
    // Written meanwhile, or begun into what another thread may still read.
    wrong("cp.async.wait_group 1;", "st.shared.f32 [%r4], 0f00000000;", FaultKind::Copying, "st.shared");
    let late = "ld.shared.f32 %f2, [%r14+4];\n\tcp.async.ca.shared.global [%r7], [%rd9], 8;";
    wrong("ld.shared.f32 %f2, [%r14+4];", late, FaultKind::Race, "cp.async");
    // Nobody needs it, so nobody has to wait; the next block begins anew.
    let left = COPIES.replace("cp.async.wait_all;", "mov.f32 %f4, %f2;").replace("ld.shared.f32 %f4", "//");
    copied(&left, 0).unwrap_or_else(|e| panic!("{e}"));
    // The addresses.
    let fault = copied(COPIES, 2).expect_err("misaligned");
    assert_eq!(fault.kind, FaultKind::Misaligned, "{fault}");
    let fault = copied(COPIES, 4).expect_err("beyond the end");
    assert_eq!(fault.kind, FaultKind::OutOfBounds, "{fault}");
    wrong("mov.u32 %r8, fours;", "mov.u32 %r8, 16384;", FaultKind::OutOfBounds, "cp.async.cg");
    // What a card has not.
    let refused = |from: &str, to: &str| parse(&COPIES.replacen(from, to, 1)).expect_err(to);
    assert!(refused("[%rd9], 8;", "[%rd9], 6;").why.contains("6 bytes"));
    assert!(refused("ca.shared.global [%r7]", "cg.shared.global [%r7]").why.contains("8 bytes by .cg"));
    assert!(refused("cp.async.ca.shared", "cp.async.bulk.shared").why.contains("not known"));
}
