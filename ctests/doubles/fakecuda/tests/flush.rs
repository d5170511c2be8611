//! Arithmetic of float32 with `.ftz` and without it.

use fakecuda::host::Arg::{I, P};
use fakecuda::host::{Host, run};
use fakecuda::ptx::parse;
use testkit::Random;

/// A row a value of a: add, sub, mul, fma, neg of a, b and c.
const PTX: &str = include_str!("../fixtures/flush.ptx");
const OPERATIONS: usize = 5;
/// 2^-126, the smallest normal number.
const SMALLEST: f32 = f32::MIN_POSITIVE;
const DENORMAL: f32 = 1e-40;

fn computed(text: &str, operands: &[[f32; 3]]) -> Vec<[f32; OPERATIONS]> {
    let module = parse(text).unwrap_or_else(|e| panic!("flush.ptx: {e}"));
    let mut host = Host::default();
    let at = host.put(operands.as_flattened());
    let out = host.put(&vec![0f32; OPERATIONS * operands.len()]);
    let grid = [operands.len().div_ceil(128) as u32, 1, 1];
    run(&module, &host, "flush", grid, [128, 1, 1], &[P(at), P(out), I(operands.len() as i32)])
        .unwrap_or_else(|e| panic!("{e}"));
    host.get::<f32>(out).as_chunks().0.to_vec()
}

fn bits(rows: &[[f32; OPERATIONS]]) -> Vec<[u32; OPERATIONS]> {
    rows.iter().map(|row| row.map(f32::to_bits)).collect()
}

fn power(exponent: i32) -> f32 {
    2f32.powi(exponent)
}

#[test]
fn denormal_operands_and_results_become_zeros_of_their_sign() {
    let rows = [
        // Operands.
        ([DENORMAL, 1.0, 0.0], [1.0, -1.0, 0.0, 0.0, -0.0]),
        ([-DENORMAL, 1.0, -0.0], [1.0, -1.0, -0.0, -0.0, 0.0]),
        ([DENORMAL, 1e30, 2.0], [1e30, -1e30, 0.0, 2.0, -0.0]),
        ([0.9 * SMALLEST, 0.9 * SMALLEST, 0.9 * SMALLEST], [0.0, 0.0, 0.0, 0.0, -0.0]),
        // Results.
        ([1.5 * SMALLEST, -SMALLEST, 0.0], [0.0, 2.5 * SMALLEST, -0.0, -0.0, -1.5 * SMALLEST]),
        ([-1.5 * SMALLEST, SMALLEST, 0.0], [-0.0, -2.5 * SMALLEST, -0.0, -0.0, 1.5 * SMALLEST]),
        ([1e-20, -1e-20, 1.0], [0.0, 2e-20, -0.0, 1.0, -1e-20]),
        ([1e-20, 1e-20, -SMALLEST], [2e-20, 0.0, 0.0, -0.0, -1e-20]),
    ];
    let found = computed(PTX, &rows.map(|row| row.0));
    assert_eq!(bits(&found), bits(&rows.map(|row| row.1)));
}

/// The rule of the boundary: a result is denormal if it is below 2^-126 when rounded to 24 bits.
#[test]
fn product_just_below_the_smallest_normal_number_is_rounded_before_it_is_flushed() {
    let ulp = f32::EPSILON;
    // 2^-126 - 2^-150 has 24 bits; on the grid of denormal numbers it lies half-way and goes to 2^-126.
    let kept = [SMALLEST, 1.0 - ulp / 2.0];
    // 2^-126 (1 - 2^-46) is rounded to 2^-126.
    let rounded = [power(-100) * (1.0 - ulp), power(-26) * (1.0 + ulp)];
    assert_eq!([kept, rounded].map(|[a, b]| a * b), [SMALLEST; 2]);
    let operands = [kept, rounded].map(|[a, b]| [[a, b, 0.0], [-a, b, -0.0]]).concat();
    let column = |text: &str, column: usize| {
        computed(text, &operands).iter().map(|row| row[column].to_bits()).collect::<Vec<_>>()
    };
    let expected = [0.0, -0.0, SMALLEST, -SMALLEST].map(f32::to_bits);
    for operation in [2, 3] {
        assert_eq!(column(PTX, operation), expected);
        let kept = [SMALLEST, -SMALLEST, SMALLEST, -SMALLEST].map(f32::to_bits);
        assert_eq!(column(&PTX.replace(".ftz", ""), operation), kept);
    }
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
        let b = f32::from_bits(near.to_bits() + (y & 3) - 1) * power(-100) * sign;
        let c = match z >> 1 & 3 {
            0 => 0.0,
            1 => f32::from_bits(0x0080_0000 + (z >> 8 & 3)),
            2 => f32::from_bits(z & 0x81ff_ffff),
            _ => f32::from_bits(0x8080_0000 + (z >> 8 & 3)),
        };
        let scale = if z >> 16 & 3 == 0 { power(-26 - (z >> 20 & 31) as i32) } else { power(-26) };
        operands.push([a * scale, b, c]);
        // Small numbers, denormal ones among them, for sums.
        operands.push([x & 0x81ff_ffff, y & 0x81ff_ffff, z & 0x81ff_ffff].map(f32::from_bits));
    }
    operands
}

#[test]
fn without_ftz_nothing_is_flushed() {
    let operands = near_the_boundary();
    let expected: Vec<_> =
        operands.iter().map(|&[a, b, c]| [a + b, a - b, a * b, a.mul_add(b, c), -a]).collect();
    assert_eq!(bits(&computed(&PTX.replace(".ftz", ""), &operands)), bits(&expected));
}

/// Where the processor can flush as the interpreter does, it says the same of 200 000 operands.
#[test]
#[cfg(target_arch = "x86_64")]
fn processor_flushes_the_same_results() {
    use std::arch::asm;
    use std::hint::black_box;

    #[target_feature(enable = "fma")]
    fn by_processor(operands: &[[f32; 3]]) -> Vec<[f32; OPERATIONS]> {
        let mut found = vec![[0.0; OPERATIONS]; operands.len()];
        let mode = 0x1f80 | 0x8040u32;
        // SAFETY: masks all exceptions; the usual mode is set again below.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const mode) };
        for (row, operands) in found.iter_mut().zip(black_box(operands)) {
            let [a, b, c] = *operands;
            *row = [a + b, a - b, a * b, a.mul_add(b, c), -(a * black_box(1.0))];
        }
        black_box(&mut found);
        let usual = 0x1f80u32;
        // SAFETY: as above.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const usual) };
        found
    }

    if !std::arch::is_x86_feature_detected!("fma") {
        return;
    }
    let operands = near_the_boundary();
    // SAFETY: asked just now.
    let expected = unsafe { by_processor(&operands) };
    let found = computed(PTX, &operands);
    let flushed = |column: usize| expected.iter().filter(|row| row[column] == 0.0).count();
    assert!([0, 1, 2, 3].into_iter().all(|column| (1000..199_000).contains(&flushed(column))));
    let apart = bits(&found).iter().zip(bits(&expected)).position(|(a, b)| *a != b);
    let words =
        apart.map(|at| format!("{:?}: {:?}, the processor {:?}", operands[at], found[at], expected[at]));
    assert_eq!(words, None);
}
