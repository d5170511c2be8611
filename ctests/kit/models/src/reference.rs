//! A reference propagator in double precision, which shares only the description of model and shot with the library.

use gpusched::fd::{model::Model, survey::Shot};

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

/// The padded grid: the medium, its border values carried on into the layer, and how it is damped.
struct World {
    n: [usize; 3],
    pml: usize,
    size: [usize; 3],
    /// From cell to cell along x, y, z in a field.
    stride: [usize; 3],
    rho: Vec<f64>,
    /// rho vp².
    kappa: Vec<f64>,
    profiles: [Profile; 3],
    /// dt / h of each axis.
    rate: [f64; 3],
}

impl World {
    fn new(model: &Model, dt: f32, pml: usize) -> World {
        let n = model.grid.n;
        let h = model.grid.h.map(f64::from);
        let dt = f64::from(dt);
        let size = n.map(|cells| cells + 2 * pml);
        let cells = size[0] * size[1] * size[2];
        let (mut vp, mut rho) = (vec![0.0; cells], vec![1000.0; cells]);
        for (at, vp) in vp.iter_mut().enumerate() {
            let here = [at / size[2] % size[0], at / size[2] / size[0], at % size[2]];
            let nearest = [0, 1, 2].map(|a| here[a].saturating_sub(pml).min(n[a] - 1));
            *vp = f64::from(model.vp[model.grid.index(nearest)]);
            if let Some(values) = &model.rho {
                rho[at] = f64::from(values[model.grid.index(nearest)]);
            }
        }
        let mean = (h[0] + h[1] + h[2]) / 3.0;
        let damping = dt * 10.0 * vp[cells / 2] * 1e5f64.ln() / (2.0 * pml as f64 * mean);
        World {
            n,
            pml,
            size,
            stride: [size[2], size[2] * size[0], 1],
            kappa: rho.iter().zip(&vp).map(|(rho, vp)| rho * vp * vp).collect(),
            rho,
            profiles: n.map(|cells| Profile::new(cells, pml, damping)),
            rate: h.map(|h| dt / h),
        }
    }

    fn field(&self) -> Vec<f64> {
        vec![0.0; self.rho.len()]
    }

    fn place(&self, at: [usize; 3]) -> usize {
        at[0] * self.stride[0] + at[1] * self.stride[1] + at[2]
    }

    /// A cell of the model's grid.
    fn inside(&self, at: [usize; 3]) -> usize {
        self.place(at.map(|i| i + self.pml))
    }

    /// Every cell that moves: its indices and its place.
    fn each(&self, mut work: impl FnMut([usize; 3], usize)) {
        for iy in RIM..self.size[1] - RIM {
            for ix in RIM..self.size[0] - RIM {
                for iz in RIM..self.size[2] - RIM {
                    work([ix, iy, iz], self.place([ix, iy, iz]));
                }
            }
        }
    }
}

/// Velocities and three parts of the pressure everywhere, as in the old kernel.
struct Split {
    p: Vec<f64>,
    velocity: [Vec<f64>; 3],
    part: [Vec<f64>; 3],
}

impl Split {
    fn new(world: &World) -> Split {
        let fields = || [world.field(), world.field(), world.field()];
        Split { p: world.field(), velocity: fields(), part: fields() }
    }

    /// `source`: terms of the pressure of two cells that only the velocities see.
    fn step(&mut self, world: &World, source: [(usize, f64); 2]) {
        let Split { p, velocity, part } = self;
        for (at, value) in source {
            p[at] += value;
        }
        for axis in 0..3 {
            let (v, s, rate) = (&mut velocity[axis], world.stride[axis], world.rate[axis]);
            world.each(|index, at| {
                let [a, b] = world.profiles[axis].velocity[index[axis]];
                v[at] = b * v[at] - a * rate / world.rho[at] * difference(p, at + s, at, s);
            });
        }
        for axis in 0..3 {
            let (part, v) = (&mut part[axis], &velocity[axis]);
            let (s, rate) = (world.stride[axis], world.rate[axis]);
            world.each(|index, at| {
                let [a, b] = world.profiles[axis].pressure[index[axis]];
                part[at] = b * part[at] - a * rate * world.kappa[at] * difference(v, at, at - s, s);
            });
        }
        for (at, p) in p.iter_mut().enumerate() {
            *p = part[0][at] + part[1][at] + part[2][at];
        }
    }
}

/// Runs a shot without its mute, with `pml` cells of absorbing layer.
pub fn run(model: &Model, dt: f32, pml: usize, shot: &Shot) -> Run {
    let world = World::new(model, dt, pml);
    let mut scheme = Split::new(&world);
    let receivers = shot.receivers.cells(world.n).collect::<Vec<_>>();
    let mut traces = vec![Vec::new(); receivers.len()];
    let mut snapshots = Vec::new();
    let [sx, sy, sz] = shot.source;
    let poles = [(world.inside([sx, sy, sz]), -1.0), (world.inside([sx, sy, sz + 2]), 1.0)];
    for it in 0..shot.nt {
        let sample = shot.wavelet.samples.get(it).map_or(0.0, |&sample| f64::from(sample));
        scheme.step(&world, poles.map(|(at, sign)| (at, sign * f64::from(shot.amplitude) * sample)));
        let p = &scheme.p;
        if it % shot.record_every == 0 {
            for (trace, &cell) in traces.iter_mut().zip(&receivers) {
                trace.push(p[world.inside(cell)]);
            }
        }
        if shot.snapshot_every.is_some_and(|every| it % every == 0) {
            let mut field = vec![0.0; model.grid.cells()];
            for (at, value) in field.iter_mut().enumerate() {
                let [nx, _, nz] = world.n;
                *value = p[world.inside([at / nz % nx, at / nz / nx, at % nz])];
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
