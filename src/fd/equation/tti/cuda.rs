//! The step on a GPU: its parameters and its part of [`march`](crate::fd::march).

use std::sync::Arc;

use super::TtiShot;
use super::coefficients::TtiCoefficients;
use super::old::KERNELS;
use crate::fd::edge_field::EdgeField;
use crate::fd::grid::layout::Layout;
use crate::fd::isotropic_ball::IsotropicBall;
use crate::fd::march::equation::{CudaEquation, PlanAddresses, ShotAddresses};
use crate::fd::march::kernel_set::KernelSet;
use crate::fd::march::tables::Tables;

impl CudaEquation for TtiShot<'_> {
    type Params = u64;
    type Shared = TtiCoefficients;

    const COEFFICIENTS: &'static [&'static str] = &[
        "theta of the model",
        "theta of the model",
        "theta of the model",
        "vp² of the model",
        "epsilon of the model",
        "delta of the model",
    ];
    const PROFILES: usize = 1;
    const FIELDS: usize = 6;
    const PRESSURE_FIELDS: usize = 1;
    const OWN_BYTES: u64 = IsotropicBall::BYTES;

    fn kernels() -> &'static KernelSet {
        &KERNELS
    }

    fn lens(layout: &Layout) -> Vec<usize> {
        vec![layout.field_len(); Self::FIELDS]
    }

    fn shared(&self) -> &Arc<TtiCoefficients> {
        self.c
    }

    fn fields(&self) -> Vec<&EdgeField> {
        let c = &self.c.columns;
        c.rotation.iter().chain([&c.modulus, &c.e, &c.s]).collect()
    }

    fn profiles(&self) -> Vec<f32> {
        self.c.damping.concat()
    }

    fn increments(_from: usize) -> usize {
        4
    }

    fn params(&self, _tables: &Tables, _plan: &PlanAddresses, _shot: &ShotAddresses) -> [u64; 2] {
        [0; 2]
    }
}
