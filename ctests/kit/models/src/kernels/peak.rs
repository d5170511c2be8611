//! The kernel that finds the largest magnitude of a field.

use std::sync::Arc;

use gpusched::fd::equation::acoustic1::Coefficients;
use gpusched::fd::equation::acoustic1::cuda::tables::Tables;
use gpusched::fd::model::Model;
use gpusched::fd::time_loop::field_kernels::Field;

use super::{Engine, Memory, bytes};

/// Returns the peak of a field that holds `value` in one place and zeros elsewhere.
pub fn peak_of(engine: &dyn Engine, model: &Arc<Model>, value: f32, number: usize) -> f32 {
    let layout = Tables::new(&Coefficients::new(model, 1e-3, 8).unwrap()).layout;
    let mut p = vec![0.0f32; layout.field_len()];
    let [nx, ny, nz] = layout.padded;
    p[layout.at([number / nz % nx, number / nz / nx % ny, number % nz])] = value;
    let mut memory = Memory::default();
    let (field, peak) = (Field::new(&layout, memory.show(&p)), memory.put(&[0u32]));
    engine.launch(&memory, field.peak(), &[bytes(&field), bytes(&peak)]);
    f32::from_bits(memory.get(peak)[0])
}
