//! The reference once more with the velocities eliminated where no damped one reaches, still in double precision:
//! that this changes nothing is what the form of one pass rests on.

use crate::reference::{RIM, Scheme, World, difference};

/// Cells to each side whose velocities a cell's pressure takes: those of `i - 4` to `i + 3`.
const REACH: usize = 4;

pub struct Eliminated {
    p: Vec<f64>,
    /// What eliminated velocities changed in the last step.
    d: Vec<f64>,
    /// Not a number wherever they are said not to be needed.
    velocity: [Vec<f64>; 3],
    part: [Vec<f64>; 3],
    /// Along each axis, by index: whether the pressure does without velocities, and which velocities others need.
    without: [Vec<bool>; 3],
    needed: [Vec<bool>; 3],
}

impl Eliminated {
    /// `D-(1/rho D+ p)`, not divided by the spacings.
    fn curvature(&self, world: &World, axis: usize, at: usize) -> f64 {
        let s = world.stride[axis];
        let mut flux = [0.0; 2 * REACH];
        for (tap, flux) in flux.iter_mut().enumerate() {
            let at = at + tap * s - REACH * s;
            *flux = difference(&self.p, at + s, at, s) / world.rho[at];
        }
        difference(&flux, REACH, REACH - 1, 1)
    }
}

impl Scheme for Eliminated {
    fn new(world: &World) -> Eliminated {
        let fields = |value: f64| [0, 1, 2].map(|_| vec![value; world.rho.len()]);
        let moving = |axis: usize, i: usize| (RIM..world.size[axis] - RIM).contains(&i);
        let plain = |axis: usize, i: usize| world.profiles[axis].velocity[i] == [1.0, 1.0];
        let without = [0, 1, 2].map(|axis| {
            let all_plain = |i: usize| moving(axis, i) && (i - REACH..i + REACH).all(|tap| plain(axis, tap));
            (0..world.size[axis]).map(all_plain).collect::<Vec<_>>()
        });
        let needed = [0, 1, 2].map(|axis| {
            let mut needed = vec![false; world.size[axis]];
            for i in (0..world.size[axis]).filter(|&i| moving(axis, i) && !without[axis][i]) {
                needed[i - REACH..i + REACH].fill(true);
            }
            needed
        });
        let mut velocity = fields(f64::NAN);
        for axis in 0..3 {
            for (at, v) in velocity[axis].iter_mut().enumerate() {
                let index = at / world.stride[axis] % world.size[axis];
                if needed[axis][index] {
                    *v = 0.0;
                }
            }
        }
        Eliminated { p: world.field(), d: world.field(), velocity, part: fields(0.0), without, needed }
    }

    fn step(&mut self, world: &World, source: [(usize, f64); 2]) {
        for (at, value) in source {
            self.p[at] += value;
        }
        for axis in 0..3 {
            let (v, p, s) = (&mut self.velocity[axis], &self.p, world.stride[axis]);
            world.each(|index, at| {
                if self.needed[axis][index[axis]] {
                    let [a, b] = world.profiles[axis].velocity[index[axis]];
                    v[at] = b * v[at] - a * world.rate[axis] / world.rho[at] * difference(p, at + s, at, s);
                }
            });
        }
        let mut change = world.field();
        world.each(|index, at| {
            for (axis, &i) in index.iter().enumerate() {
                let (s, rate) = (world.stride[axis], world.rate[axis]);
                if self.without[axis][i] {
                    self.d[at] += world.kappa[at] * rate * rate * self.curvature(world, axis, at);
                    continue;
                }
                let [a, b] = world.profiles[axis].pressure[i];
                let part = &mut self.part[axis][at];
                let before = *part;
                *part =
                    b * before - a * rate * world.kappa[at] * difference(&self.velocity[axis], at, at - s, s);
                change[at] += *part - before;
            }
            change[at] += self.d[at];
        });
        for (at, value) in source {
            self.p[at] -= value;
        }
        for (p, change) in self.p.iter_mut().zip(&change) {
            *p += change;
        }
    }

    fn pressure(&self) -> &[f64] {
        &self.p
    }
}
