//! The pressure around the dipole source in a homogeneous medium.
//!
//! A step computes `p⁺ - 2p + p⁻ = dt² c² ∇²(p + s)`, where `s` is the source value, there in
//! the cell of each pole. So `q = p + s` obeys `q_tt = c² ∇² q + s_tt`, and away from the source,
//! where `p = q`, each pole of strength `a` in a cell of volume `V` gives
//! `p(r, t) = a V w''(t - r/c) / (4 π c² r)`.

use std::f64::consts::PI;

/// The pulse `exp(-(π f (t - delay))²)`. The travelling wave is its second derivative: a Ricker
/// wavelet of peak frequency `f` with reversed sign.
#[derive(Clone, Copy)]
pub struct Bell {
    pub frequency: f64,
    pub delay: f64,
}

impl Bell {
    pub fn at(&self, t: f64) -> f64 {
        (-(PI * self.frequency * (t - self.delay)).powi(2)).exp()
    }

    pub fn second_derivative(&self, t: f64) -> f64 {
        let a = (PI * self.frequency).powi(2);
        2.0 * a * (2.0 * a * (t - self.delay).powi(2) - 1.0) * self.at(t)
    }
}

/// Returns the samples of a pulse that lasts `2 delay`; sample `i` is at the time `i dt`.
pub fn samples(pulse: impl Fn(f64) -> f64, delay: f64, dt: f64) -> Vec<f32> {
    let count = (2.0 * delay / dt).ceil() as usize;
    (0..=count).map(|i| pulse(i as f64 * dt) as f32).collect()
}

/// Distance, and signed strength times volume, of each pole as seen from a receiver.
pub type Poles = [(f64, f64); 2];

/// Returns the poles as seen from a receiver `offset` cells away from the upper, negative pole. The
/// positive pole is two cells deeper.
pub fn poles(offset: [isize; 3], h: [f64; 3]) -> Poles {
    let volume = h[0] * h[1] * h[2];
    [(0, -volume), (2, volume)].map(|(deeper, strength)| {
        let from = [offset[0], offset[1], offset[2] - deeper];
        let square: f64 = (0..3).map(|a| (from[a] as f64 * h[a]).powi(2)).sum();
        (square.sqrt(), strength)
    })
}

/// Returns the solution of the wave equation. Sample `i` is one step after the wavelet's sample
/// `i`, as in a record.
pub fn exact(poles: &Poles, bell: Bell, c: f64, dt: f64, nt: usize) -> Vec<f32> {
    let at = |i: usize| {
        let t = (i + 1) as f64 * dt;
        let pole = |&(r, a): &(f64, f64)| a * bell.second_derivative(t - r / c) / (4.0 * PI * c * c * r);
        poles.iter().map(pole).sum::<f64>()
    };
    (0..nt).map(|i| at(i) as f32).collect()
}

/// Returns the solution with the scheme's time steps and exact derivatives in space: for each
/// frequency `w` the wavenumber is `2 sin(w dt / 2) / (c dt)` in place of `w / c`. Its difference
/// from a record is the error of the space grid. The wavelet must have no frequency above `highest`
/// Hz.
pub fn stepped(poles: &Poles, wavelet: &[f32], highest: f64, c: f64, dt: f64, nt: usize) -> Vec<f32> {
    let period = 2 * (nt + wavelet.len());
    let highest = ((highest * period as f64 * dt).ceil() as usize).min(period / 2);
    let mut trace = vec![0.0; nt];
    for j in 1..highest {
        let angle = 2.0 * PI * j as f64 / period as f64;
        let (mut re, mut im) = (0.0, 0.0);
        for (n, &w) in wavelet.iter().enumerate() {
            re += f64::from(w) * (angle * n as f64).cos();
            im -= f64::from(w) * (angle * n as f64).sin();
        }
        let (amount, phase) = (re.hypot(im), im.atan2(re));
        let k = 2.0 * (angle / 2.0).sin() / (c * dt);
        for &(r, a) in poles {
            let scale = 2.0 / period as f64 * -k * k * a * amount / (4.0 * PI * r);
            for (i, value) in trace.iter_mut().enumerate() {
                *value += scale * (angle * (i + 1) as f64 + phase - k * r).cos();
            }
        }
    }
    trace.iter().map(|&v| v as f32).collect()
}
