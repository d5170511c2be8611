//! The reports of the PTX interpreter on kernels with errors, and its flushing of denormal numbers. The whole shots of
//! `shots` show that its operations are right.

use fakecuda::ptx::{Fault, FaultKind, parse};
use gpusched::fd::equation::acoustic1::kernel::Launch;
use testkit::Random;
use testkit::random::noise;
use testmodels::kernels::{Interpreted, Memory, bytes};

const SMALL: &str = include_str!("../../ctests/doubles/fakecuda/fixtures/small.ptx");
const COPIES: &str = include_str!("../../ctests/doubles/fakecuda/fixtures/copies.ptx");
const FLUSH: &str = include_str!("../../ctests/doubles/fakecuda/fixtures/flush.ptx");

/// Runs the blocks of a kernel.
fn run(
    text: &str,
    memory: &Memory,
    kernel: &'static str,
    [blocks, threads]: [u32; 2],
    arguments: &[&[u8]],
) -> Result<(), Fault> {
    let launch = Launch { kernel, grid: [blocks, 1, 1], block: [threads, 1, 1] };
    Interpreted::of(&[text]).try_launch(memory, launch, arguments)
}

/// Returns the line of a text that a fault names, without blanks at its ends.
fn line(text: &str, number: u32) -> &str {
    text.lines().nth(number as usize - 1).unwrap_or("").trim()
}

#[test]
fn faults_name_the_line_and_the_thread() {
    let mut memory = Memory::default();
    let p = memory.put(&[0f32; 64]);
    // Kernel, its second argument and threads; the error, the instruction and the thread.
    let cases = [
        ("out_of_bounds", Some(40), 32, FaultKind::OutOfBounds, "st.global.f32", 24),
        ("out_of_bounds", Some(-1), 32, FaultKind::OutOfBounds, "st.global.f32", 0),
        ("misaligned", None, 1, FaultKind::Misaligned, "st.global.u32", 0),
        ("divergent", None, 32, FaultKind::DivergentBarrier, "bar.sync", 0),
        ("shared_out", None, 32, FaultKind::OutOfBounds, "st.shared", 16),
    ];
    for (name, second, threads, kind, text, thread) in cases {
        let second: Option<i64> = second;
        let arguments: Vec<&[u8]> = [bytes(&p)].into_iter().chain(second.as_ref().map(bytes)).collect();
        let fault = run(SMALL, &memory, name, [1, threads], &arguments).unwrap_err();
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

/// Runs two blocks one after the other in the same shared memory: their results, or their error.
fn copied(text: &str, offset: u64) -> Result<Vec<f32>, Fault> {
    let mut memory = Memory::default();
    let [a, b] = [64, 128].map(|n| memory.show(&noise(n, n as u64)));
    let (a, out) = (a + offset, memory.put(&[0f32; 64]));
    run(text, &memory, "ahead", [2, 64], &[bytes(&a), bytes(&b), bytes(&out)])?;
    Ok(memory.get(out))
}

#[test]
fn copies_are_there_when_they_are_waited_for() {
    let [a, b] = [64, 128].map(|n| noise(n, n as u64));
    let expected: Vec<f32> = (0..64).map(|t| a[t] + b[(t + 1) % 64 * 2 + 1]).collect();
    assert_eq!(copied(COPIES, 0).unwrap(), expected);
}

/// A GPU may make a copy at any time before its thread waits for it.
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
    copied(&unread, 0).unwrap();
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

/// Results of `flush.ptx` for a row of operands: add, sub, mul, fma, neg.
type Row = [f32; 5];

fn flushed(operands: &[[f32; 3]]) -> Vec<Row> {
    let mut memory = Memory::default();
    let (at, rows) = (memory.show(operands), operands.len() as i32);
    let out = memory.put(&vec![[0f32; 5]; operands.len()]);
    let blocks = operands.len().div_ceil(128) as u32;
    run(FLUSH, &memory, "flush", [blocks, 128], &[bytes(&at), bytes(&out), bytes(&rows)]).unwrap();
    memory.get(out)
}

fn bits(rows: &[Row]) -> Vec<[u32; 5]> {
    rows.iter().map(|row| row.map(f32::to_bits)).collect()
}

/// 2^-126, the smallest normal number.
const SMALLEST: f32 = f32::MIN_POSITIVE;

#[test]
fn denormal_operands_and_results_become_zeros_of_their_sign() {
    let (denormal, power, ulp) = (1e-40, |exponent: i32| 2f32.powi(exponent), f32::EPSILON);
    let rows = [
        // Operands.
        ([denormal, 1.0, 0.0], [1.0, -1.0, 0.0, 0.0, -0.0]),
        ([-denormal, 1.0, -0.0], [1.0, -1.0, -0.0, -0.0, 0.0]),
        ([denormal, 1e30, 2.0], [1e30, -1e30, 0.0, 2.0, -0.0]),
        ([0.9 * SMALLEST, 0.9 * SMALLEST, 0.9 * SMALLEST], [0.0, 0.0, 0.0, 0.0, -0.0]),
        // Results.
        ([1.5 * SMALLEST, -SMALLEST, 0.0], [0.0, 2.5 * SMALLEST, -0.0, -0.0, -1.5 * SMALLEST]),
        ([-1.5 * SMALLEST, SMALLEST, 0.0], [-0.0, -2.5 * SMALLEST, -0.0, -0.0, 1.5 * SMALLEST]),
        ([1e-20, -1e-20, 1.0], [0.0, 2e-20, -0.0, 1.0, -1e-20]),
        ([1e-20, 1e-20, -SMALLEST], [2e-20, 0.0, 0.0, -0.0, -1e-20]),
    ];
    assert_eq!(bits(&flushed(&rows.map(|row| row.0))), bits(&rows.map(|row| row.1)));
    // Products that become 2^-126 without flushing. Rounded to 24 bits, 2^-126 - 2^-150 stays below it, and
    // 2^-126 (1 - 2^-46) does not.
    let below = [SMALLEST, 1.0 - ulp / 2.0];
    let above = [power(-100) * (1.0 - ulp), power(-26) * (1.0 + ulp)];
    assert_eq!([below, above].map(|[a, b]| a * b), [SMALLEST; 2]);
    let operands = [below, above].map(|[a, b]| [[a, b, 0.0], [-a, b, -0.0]]).concat();
    let expected = [0.0, -0.0, SMALLEST, -SMALLEST].map(f32::to_bits);
    let found = bits(&flushed(&operands));
    assert_eq!([2, 3].map(|column| found.iter().map(|row| row[column]).collect::<Vec<_>>()), [expected; 2]);
}

/// Operands whose sums and products are around 2^-126, many of them within a few units of it.
fn near_the_boundary() -> Vec<[f32; 3]> {
    let mut random = Random::new(1);
    let mut operands = Vec::new();
    for _ in 0..100_000 {
        let [x, y, z] = [(); 3].map(|()| (random.next() >> 32) as u32);
        let a = f32::from_bits(0x3f80_0000 | x & 0x7f_ffff);
        let sign = if z & 1 == 0 { 1.0 } else { -1.0 };
        // The quotient is near 2^-126 / a.
        let near = (1.0 / f64::from(a)) as f32;
        let b = f32::from_bits(near.to_bits() + (y & 3) - 1) * 2f32.powi(-100) * sign;
        let c = match z >> 1 & 3 {
            0 => 0.0,
            1 => f32::from_bits(0x0080_0000 + (z >> 8 & 3)),
            2 => f32::from_bits(z & 0x81ff_ffff),
            _ => f32::from_bits(0x8080_0000 + (z >> 8 & 3)),
        };
        let scale = if z >> 16 & 3 == 0 { -26 - (z >> 20 & 31) as i32 } else { -26 };
        operands.push([a * 2f32.powi(scale), b, c]);
        // Small numbers, denormal ones among them, for sums.
        operands.push([x & 0x81ff_ffff, y & 0x81ff_ffff, z & 0x81ff_ffff].map(f32::from_bits));
    }
    operands
}

/// The processor flushes as the interpreter does.
#[test]
#[cfg(target_arch = "x86_64")]
fn processor_flushes_the_same_results() {
    use std::arch::asm;
    use std::hint::black_box;

    #[target_feature(enable = "fma")]
    fn by_processor(operands: &[[f32; 3]]) -> Vec<Row> {
        let mut found = vec![[0.0; 5]; operands.len()];
        let modes = [0x1f80 | 0x8040u32, 0x1f80];
        // SAFETY: masks all exceptions; the usual mode is set again below.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const modes[0]) };
        for (row, operands) in found.iter_mut().zip(black_box(operands)) {
            let [a, b, c] = *operands;
            *row = [a + b, a - b, a * b, a.mul_add(b, c), -(a * black_box(1.0))];
        }
        black_box(&mut found);
        // SAFETY: as above.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const modes[1]) };
        found
    }

    if !std::arch::is_x86_feature_detected!("fma") {
        return testkit::skip("this processor has no fused multiply-add");
    }
    let operands = near_the_boundary();
    // SAFETY: the processor has the instructions.
    let expected = unsafe { by_processor(&operands) };
    let found = flushed(&operands);
    let zeros = |column: usize| expected.iter().filter(|row| row[column] == 0.0).count();
    assert!([0, 1, 2, 3].into_iter().all(|column| (1000..199_000).contains(&zeros(column))));
    let apart = bits(&found).iter().zip(bits(&expected)).position(|(a, b)| *a != b);
    let words =
        apart.map(|at| format!("{:?}: {:?}, the processor {:?}", operands[at], found[at], expected[at]));
    assert_eq!(words, None);
}
