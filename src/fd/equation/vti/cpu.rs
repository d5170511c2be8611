//! The policy of the CPU's sweep: two pressures, coupled by E and S.

use std::sync::Arc;

use super::material::VtiPropagator;
use crate::fd::edge_field::EdgeField;
use crate::fd::isotropic_ball::IsotropicBall;
use crate::fd::one_pass::coefficients::Coefficients;
use crate::fd::one_pass::policy::Policy;
use crate::fd::vector::lanes::Lanes;

/// A shot in the medium of a propagator.
pub struct VtiShot<'a> {
    pub propagator: &'a VtiPropagator,
    pub ball: Option<IsotropicBall>,
}

impl Policy for VtiShot<'_> {
    const NAME: &'static str = "vti";
    const PRESSURES: usize = 2;
    const MIXING: usize = 2;
    const SOURCE: &'static [(usize, f32)] = &[(0, 1.0)];

    fn coefficients(&self) -> &Arc<Coefficients> {
        &self.propagator.bulk
    }

    fn words(&self, padded: [usize; 3]) -> String {
        let Coefficients { layout, .. } = &*self.propagator.bulk;
        let nearest = std::array::from_fn(|axis| layout.nearest(axis, padded[axis]) + layout.pml);
        let mut room = Vec::new();
        let [e, s] =
            [0, 1].map(|number| f64::from(self.mixing(number).row(layout, nearest, 1).values(&mut room)[0]));
        let [epsilon, delta] = [e, s * s].map(|value| 0.5 * (value - 1.0));
        let more = format!(", epsilon {epsilon:.3}, delta {delta:.3}");
        self.propagator.bulk.describe_cell(padded, e.max(1.0).sqrt(), &more)
    }

    fn mixing(&self, number: usize) -> &EdgeField {
        if number == 0 { &self.propagator.e } else { &self.propagator.s }
    }

    #[inline(always)]
    unsafe fn adapt(
        &self,
        number: usize,
        row: [usize; 2],
        first: usize,
        from: *const f32,
        to: *mut f32,
        len: usize,
    ) -> bool {
        let Some(near) = self.ball.as_ref().and_then(|ball| ball.row(number, row)) else { return false };
        // SAFETY: by the caller's promise.
        let to = unsafe {
            std::ptr::copy_nonoverlapping(from, to, len);
            std::slice::from_raw_parts_mut(to, len)
        };
        near.put(first, to);
        true
    }

    #[inline(always)]
    unsafe fn advance<L: Lanes>([p, q]: [L::V; 2], [xy, z]: [L::V; 2], [e, s]: [L::V; 2]) -> [L::V; 2] {
        // SAFETY: by the caller's promise.
        unsafe { [L::add(p, L::fma(e, xy, L::mul(s, z))), L::add(q, L::fma(s, xy, z))] }
    }
}
