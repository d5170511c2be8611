//! The equations once more, in double precision and without any cleverness: split fields
//! everywhere, one cell after the other. It shares nothing with the library but the description
//! of model and shot.

use gpusched::fd::model::Model;
use gpusched::fd::survey::Shot;

/// Staggered first derivative of 8th order, the digits of the old kernels in float32.
const STENCIL: [f32; 4] = [1.196289, -0.0797526, 0.009570313, -0.0006975447];

/// Outermost layers of the padded grid, which stay at rest.
const RIM: usize = 4;

pub struct Run {
    /// `[trace][sample]`, as in the library's gather.
    pub record: Vec<f64>,
    /// Step, and the pressure over the model's grid.
    pub snapshots: Vec<(usize, Vec<f64>)>,
}

impl Run {
    pub fn record_f32(&self) -> Vec<f32> {
        narrow(&self.record)
    }
}

pub fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&v| v as f32).collect()
}

/// Damping along an axis: factors (A, B) of `f' = B f - A rate`, a pair for each padded index.
struct Profile {
    velocity: Vec<[f64; 2]>,
    pressure: Vec<[f64; 2]>,
}

impl Profile {
    fn new(n: usize, pml: usize, damping: f64) -> Self {
        let (n, d) = (n as f64, pml as f64);
        // depth in the layer, 0 to 1, of a point `shift` behind index i
        let factors = |i: usize, shift: f64| {
            let i = i as f64;
            let depth = if i < d {
                (d - shift - i) / d
            } else if i < d + n {
                0.0
            } else {
                (i + shift - n - d) / d
            };
            let g = damping * depth * depth / 2.0;
            [1.0 / (1.0 + g), (1.0 - g) / (1.0 + g)]
        };
        let padded = 0..(n + 2.0 * d) as usize;
        Profile {
            velocity: padded.clone().map(|i| factors(i, 0.5)).collect(),
            pressure: padded.map(|i| factors(i, 0.0)).collect(),
        }
    }
}

/// Runs a shot, its mute left out, with `pml` cells of absorbing layer.
pub fn run(model: &Model, dt: f32, pml: usize, shot: &Shot) -> Run {
    let n = model.grid.n;
    let h = model.grid.h.map(f64::from);
    let dt = f64::from(dt);
    let size = n.map(|cells| cells + 2 * pml);
    let stride = [size[2], size[2] * size[0], 1];
    let place = |at: [usize; 3]| at[0] * stride[0] + at[1] * stride[1] + at[2];
    let inside = |at: [usize; 3]| place(at.map(|i| i + pml));
    let cells = size[0] * size[1] * size[2];

    // The medium, its border values carried on into the layer.
    let (mut vp, mut rho) = (vec![0.0; cells], vec![1000.0; cells]);
    for iy in 0..size[1] {
        for ix in 0..size[0] {
            for iz in 0..size[2] {
                let at = [ix, iy, iz];
                let nearest = [0, 1, 2].map(|a| at[a].saturating_sub(pml).min(n[a] - 1));
                vp[place(at)] = f64::from(model.vp[model.grid.index(nearest)]);
                if let Some(values) = &model.rho {
                    rho[place(at)] = f64::from(values[model.grid.index(nearest)]);
                }
            }
        }
    }

    let mean = (h[0] + h[1] + h[2]) / 3.0;
    let damping = dt * 10.0 * vp[cells / 2] * 1e5f64.ln() / (2.0 * pml as f64 * mean);
    let profiles = n.map(|cells| Profile::new(cells, pml, damping));

    let mut p = vec![0.0; cells];
    let mut velocity = [vec![0.0; cells], vec![0.0; cells], vec![0.0; cells]];
    let mut split = [vec![0.0; cells], vec![0.0; cells], vec![0.0; cells]];
    let receivers = shot.receivers.cells(n).collect::<Vec<_>>();
    let mut traces = vec![Vec::new(); receivers.len()];
    let mut snapshots = Vec::new();

    let [sx, sy, sz] = shot.source;
    let poles = [(inside([sx, sy, sz]), -1.0), (inside([sx, sy, sz + 2]), 1.0)];

    let each_row = |work: &mut dyn FnMut(usize, usize)| {
        for iy in RIM..size[1] - RIM {
            for ix in RIM..size[0] - RIM {
                work(ix, iy);
            }
        }
    };
    for it in 0..shot.nt {
        if let Some(&sample) = shot.wavelet.samples.get(it) {
            for (at, sign) in poles {
                p[at] += sign * f64::from(shot.amplitude) * f64::from(sample);
            }
        }
        for axis in 0..3 {
            let (v, s, rate) = (&mut velocity[axis], stride[axis], dt / h[axis]);
            each_row(&mut |ix, iy| {
                for iz in RIM..size[2] - RIM {
                    let at = place([ix, iy, iz]);
                    let [a, b] = profiles[axis].velocity[[ix, iy, iz][axis]];
                    v[at] = b * v[at] - a * rate / rho[at] * difference(&p, at + s, at, s);
                }
            });
        }
        for axis in 0..3 {
            let (part, v) = (&mut split[axis], &velocity[axis]);
            let (s, rate) = (stride[axis], dt / h[axis]);
            each_row(&mut |ix, iy| {
                for iz in RIM..size[2] - RIM {
                    let at = place([ix, iy, iz]);
                    let [a, b] = profiles[axis].pressure[[ix, iy, iz][axis]];
                    let stiffness = rho[at] * vp[at] * vp[at];
                    part[at] = b * part[at] - a * rate * stiffness * difference(v, at, at - s, s);
                }
            });
        }
        for (at, p) in p.iter_mut().enumerate() {
            *p = split[0][at] + split[1][at] + split[2][at];
        }
        if it % shot.record_every == 0 {
            for (trace, &cell) in traces.iter_mut().zip(&receivers) {
                trace.push(p[inside(cell)]);
            }
        }
        if shot.snapshot_every.is_some_and(|every| it % every == 0) {
            let mut field = vec![0.0; model.grid.cells()];
            for iy in 0..n[1] {
                for ix in 0..n[0] {
                    for iz in 0..n[2] {
                        field[model.grid.index([ix, iy, iz])] = p[inside([ix, iy, iz])];
                    }
                }
            }
            snapshots.push((it, field));
        }
    }
    Run { record: traces.concat(), snapshots }
}

/// `sum of c_m (f[ahead + m s] - f[behind - m s])`: the derivative halfway between, times the spacing.
#[inline(always)]
fn difference(f: &[f64], ahead: usize, behind: usize, s: usize) -> f64 {
    (0..4).map(|m| f64::from(STENCIL[m]) * (f[ahead + m * s] - f[behind - m * s])).sum()
}
