//! The interpreter's arithmetic against Rust, and what it reports of kernels with errors.

use fakecuda::host::Arg::{L, P};
use fakecuda::host::{Arg, Host, run};
use fakecuda::ptx::{Fault, FaultKind, Launch, parse};
use testkit::random::noise;

const SMALL: &str = include_str!("../fixtures/small.ptx");
const COPIES: &str = include_str!("../fixtures/copies.ptx");

/// A binary operation: its opcode, the files of its result and operands, and the same in Rust.
type Operation = (&'static str, [char; 3], fn(i64, i64) -> i64);

const OPERATIONS: [Operation; 30] = [
    ("add.s32", ['r', 'r', 'r'], |a, b| (a as i32).wrapping_add(b as i32).into()),
    ("sub.s32", ['r', 'r', 'r'], |a, b| (a as i32).wrapping_sub(b as i32).into()),
    ("mul.lo.s32", ['r', 'r', 'r'], |a, b| (a as i32).wrapping_mul(b as i32).into()),
    ("min.s32", ['r', 'r', 'r'], |a, b| (a as i32).min(b as i32).into()),
    ("max.s32", ['r', 'r', 'r'], |a, b| (a as i32).max(b as i32).into()),
    ("max.u32", ['r', 'r', 'r'], |a, b| i64::from((a as u32).max(b as u32))),
    ("and.b32", ['r', 'r', 'r'], |a, b| a & b),
    ("or.b32", ['r', 'r', 'r'], |a, b| a | b),
    ("shl.b32", ['r', 'r', 'r'], |a, b| (a as u32).checked_shl(b as u32).unwrap_or(0).into()),
    ("shr.u32", ['r', 'r', 'r'], |a, b| (a as u32).checked_shr(b as u32).unwrap_or(0).into()),
    ("shr.s32", ['r', 'r', 'r'], |a, b| (a as i32).checked_shr(b as u32).unwrap_or(a as i32 >> 31).into()),
    ("mul.wide.s32", ['d', 'r', 'r'], |a, b| i64::from(a as i32) * i64::from(b as i32)),
    ("mul.wide.u32", ['d', 'r', 'r'], |a, b| (u64::from(a as u32) * u64::from(b as u32)) as i64),
    ("add.s64", ['d', 'd', 'd'], i64::wrapping_add),
    ("sub.s64", ['d', 'd', 'd'], i64::wrapping_sub),
    ("mul.lo.s64", ['d', 'd', 'd'], i64::wrapping_mul),
    ("and.b64", ['d', 'd', 'd'], |a, b| a & b),
    ("shl.b64", ['d', 'd', 'r'], |a, b| (a as u64).checked_shl(b as u32).unwrap_or(0) as i64),
    ("setp.eq.s32", ['p', 'r', 'r'], |a, b| (a as i32 == b as i32).into()),
    ("setp.ne.s32", ['p', 'r', 'r'], |a, b| (a as i32 != b as i32).into()),
    ("setp.lt.s32", ['p', 'r', 'r'], |a, b| ((a as i32) < b as i32).into()),
    ("setp.le.s32", ['p', 'r', 'r'], |a, b| (a as i32 <= b as i32).into()),
    ("setp.gt.s32", ['p', 'r', 'r'], |a, b| (a as i32 > b as i32).into()),
    ("setp.ge.s32", ['p', 'r', 'r'], |a, b| (a as i32 >= b as i32).into()),
    ("setp.lt.u32", ['p', 'r', 'r'], |a, b| ((a as u32) < b as u32).into()),
    ("setp.le.u32", ['p', 'r', 'r'], |a, b| (a as u32 <= b as u32).into()),
    ("setp.gt.u32", ['p', 'r', 'r'], |a, b| (a as u32 > b as u32).into()),
    ("setp.ge.u32", ['p', 'r', 'r'], |a, b| (a as u32 >= b as u32).into()),
    ("setp.eq.s64", ['p', 'd', 'd'], |a, b| (a == b).into()),
    ("setp.lt.s64", ['p', 'd', 'd'], |a, b| (a < b).into()),
];

#[test]
fn integer_operations_are_those_of_rust() {
    let edges = [0, 1, -1, 7, -7, 31, 32, 33, 63, 64, 255, 65536, -87_654_321]
        .into_iter()
        .chain([i32::MAX.into(), i32::MIN.into(), i64::MAX, i64::MIN, 0x1234_5678_9abc])
        .collect::<Vec<i64>>();
    for (opcode, [result, first, second], expected) in OPERATIONS {
        // A result of 32 bits is compared as such; a predicate selects 1 or 0.
        let (to, store) = match result {
            'p' => ("%p1", "selp.u32 %r4, 1, 0, %p1; st.global.u32 [%d4], %r4;"),
            'r' => ("%r3", "st.global.u32 [%d4], %r3;"),
            _ => ("%d3", "st.global.u64 [%d4], %d3;"),
        };
        let text = format!(
            ".version 6.0\n.target sm_35\n.visible .entry one(.param .u64 a, .param .u64 b, .param .u64 to) {{
            .reg .b32 %r<5>; .reg .b64 %d<5>; .reg .pred %p<2>;
            ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d4, [to];
            cvt.u32.u64 %r1, %d1; cvt.u32.u64 %r2, %d2;
            {opcode} {to}, %{first}1, %{second}2; {store} ret; }}"
        );
        let module = parse(&text).unwrap_or_else(|why| panic!("{opcode}: {why}"));
        for (a, b) in edges.iter().flat_map(|a| edges.iter().map(move |b| (*a, *b))) {
            let mut host = Host::default();
            let to = host.put(&[0i64]);
            run(&module, &host, "one", [1; 3], [1; 3], &[L(a), L(b), P(to)]).unwrap();
            let (found, expected) = (host.get::<i64>(to)[0], expected(a, b));
            let expected = if result == 'd' { expected } else { i64::from(expected as u32) };
            assert_eq!(found, expected, "{opcode} of {a} and {b}");
        }
    }
}

/// The line of the text that a fault names, without blanks at its ends.
fn line(text: &str, number: u32) -> &str {
    text.lines().nth(number as usize - 1).unwrap_or("").trim()
}

#[test]
fn faults_name_the_line_and_the_thread() {
    let module = parse(SMALL).unwrap();
    let mut host = Host::default();
    let p = host.put(&[0f32; 64]);
    // Kernel, its arguments and threads; the error, the instruction and the thread that has it.
    type Case<'a> = (&'a str, &'a [Arg], u32, FaultKind, &'a str, u32);
    let cases: [Case<'_>; 6] = [
        ("out_of_bounds", &[P(p), L(40)], 32, FaultKind::OutOfBounds, "st.global.f32", 24),
        ("out_of_bounds", &[P(p), L(-1)], 32, FaultKind::OutOfBounds, "st.global.f32", 0),
        ("misaligned", &[P(p)], 1, FaultKind::Misaligned, "st.global.u32", 0),
        ("endless", &[P(p)], 1, FaultKind::Endless, "@%p1 bra", 0),
        ("divergent", &[P(p)], 32, FaultKind::DivergentBarrier, "bar.sync", 0),
        ("shared_out", &[P(p)], 32, FaultKind::OutOfBounds, "st.shared", 16),
    ];
    for (name, args, threads, kind, text, thread) in cases {
        let fault = run(&module, &host, name, [1; 3], [threads, 1, 1], args).unwrap_err();
        let found = line(SMALL, fault.line);
        assert!((fault.kind, fault.thread) == (kind, [thread, 0, 0]), "{name}: {fault}");
        assert!(found.starts_with(text), "{name}: {found}");
    }
}

#[test]
fn text_that_is_not_understood_is_refused_with_its_line() {
    let refused = |text: &str| parse(text).unwrap_err();
    for text in ["no ptx at all", "\u{7f}ELF", ""] {
        assert_eq!(refused(text).line, 1, "{text:?}");
    }
    // Instructions, types, modifiers and registers of the hardware that no kernel here uses.
    for unknown in
        ["tex.2d.v4.f32", "popc.b32", "fma.rn.f64", "fma.rz.f32", "fma.f32", "setp.lt.f32", "mul.ftz.f32"]
    {
        let text = SMALL.replace("fma.rn.f32", unknown);
        let (why, line) = (refused(&text), text.lines().position(|line| line.contains(unknown)).unwrap());
        assert_eq!(why.line as usize, line + 1, "{why}");
        assert!(why.why.contains(&format!("'{unknown}' is not known")), "{why}");
    }
    for (from, to, word) in [
        ("%tid.x", "%laneid", "%laneid"),
        ("%r1,", "%r999,", "%r999"),
        ("DONE:", "", "DONE"),
        (".visible", ".extern", ".extern"),
        (", %r1;", ", %rd1;", "%rd1"),
    ] {
        assert!(refused(&SMALL.replacen(from, to, 1)).why.contains(word), "{from} to {to}");
    }
    let cut = refused(&SMALL[..SMALL.len() / 2]);
    assert!(cut.why.contains("ends"), "{cut}");
}

#[test]
fn shipped_kernels_are_understood() {
    let directory = testkit::root().join("kernels/ptx");
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
fn kernel_in_a_loop_can_be_cancelled() {
    let module = parse(SMALL).unwrap();
    let mut host = Host::default();
    let p = host.put(&[0i32; 2]);
    let cancel = std::sync::atomic::AtomicBool::new(false);
    let launch = Launch {
        kernel: module.kernel("endless").expect("it"),
        grid: [1, 1, 1],
        block: [1, 1, 1],
        params: &p.to_le_bytes(),
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

/// Runs two blocks one after the other in the same shared memory: their results, or their error.
fn copied(text: &str, offset: u64) -> Result<Vec<f32>, Fault> {
    let module = parse(text).unwrap_or_else(|e| panic!("copies.ptx: {e}"));
    let mut host = Host::default();
    let [a, b] = [64, 128].map(|n| host.put(&noise(n, n as u64)));
    let out = host.put(&[0f32; 64]);
    run(&module, &host, "ahead", [2, 1, 1], [64, 1, 1], &[P(a + offset), P(b), P(out)])?;
    Ok(host.get(out))
}

#[test]
fn copies_are_there_when_they_are_waited_for() {
    let [a, b] = [64, 128].map(|n| noise(n, n as u64));
    let expected: Vec<f32> = (0..64).map(|t| a[t] + b[(t + 1) % 64 * 2 + 1]).collect();
    assert_eq!(copied(COPIES, 0).unwrap_or_else(|e| panic!("{e}")), expected);
}

/// A GPU may have made a copy sooner, or not: the interpreter reports whoever counts on either.
#[test]
fn wrong_use_of_copies_is_reported() {
    let wrong = |from: &str, to: &str, kind: FaultKind, at: &str| {
        assert_eq!(COPIES.matches(from).count(), 1, "{from}");
        let text = COPIES.replace(from, to);
        let fault = copied(&text, 0).expect_err(from);
        let found = line(&text, fault.line);
        assert!(fault.kind == kind && found.starts_with(at), "{from} to {to}: {fault}: {found}");
    };
    // Not waited for at all, or for too few groups.
    wrong("cp.async.wait_group 1;", "", FaultKind::Copying, "ld.shared.f32 %f1");
    wrong("cp.async.wait_group 1;", "cp.async.wait_group 2;", FaultKind::Copying, "ld.shared.f32 %f1");
    wrong("cp.async.wait_group 0;", "", FaultKind::Copying, "ld.shared.f32 %f2");
    // Another thread has not waited for it, and no barrier says that it has.
    let barrier = COPIES.replace("bar.sync 0;", "");
    let fault = copied(&barrier, 0).expect_err("no barrier");
    assert!(matches!(fault.kind, FaultKind::Race | FaultKind::Copying), "{fault}");
    assert!(line(&barrier, fault.line).starts_with("ld.shared.f32 %f2"), "{fault}");
    // Written meanwhile, or begun into what another thread may still read.
    wrong("cp.async.wait_group 1;", "st.shared.f32 [%r4], 0f00000000;", FaultKind::Copying, "st.shared");
    let late = "ld.shared.f32 %f2, [%r14+4];\n\tcp.async.ca.shared.global [%r7], [%rd9], 8;";
    wrong("ld.shared.f32 %f2, [%r14+4];", late, FaultKind::Race, "cp.async");
    // Nobody reads it, so nobody has to wait; the next block begins without it.
    let unread = COPIES.replace("cp.async.wait_group 0;", "").replace("ld.shared.f32 %f2", "//");
    copied(&unread, 0).unwrap_or_else(|e| panic!("{e}"));
    // The addresses.
    let fault = copied(COPIES, 2).expect_err("misaligned");
    assert_eq!(fault.kind, FaultKind::Misaligned, "{fault}");
    let fault = copied(COPIES, 4).expect_err("beyond the end");
    assert_eq!(fault.kind, FaultKind::OutOfBounds, "{fault}");
    wrong("mov.u32 %r5, pairs;", "mov.u32 %r5, 16384;", FaultKind::OutOfBounds, "cp.async.ca");
    let refused = |from: &str, to: &str| parse(&COPIES.replacen(from, to, 1)).expect_err(to);
    assert!(refused("[%rd9], 8;", "[%rd9], 6;").why.contains("6 bytes"));
    assert!(refused("cp.async.ca.shared", "cp.async.bulk.shared").why.contains("not known"));
}
