//! Resident bytes of a cell, for all equations.

use std::sync::Arc;

use super::{EQUATIONS, Equation, WITH_OTHER_LAYER};
use crate::backend::Lane;
use crate::backend::cpu::Team;
use crate::fd::edge_field::EdgeField;
use crate::fd::grid::Grid;
use crate::fd::grid::layout::Layout;
use crate::fd::model::{Model, Property, Values};
use crate::fd::plan::{Options, Plan};
use crate::fd::storage::Storage;
use crate::fd::survey::Shot;

/// Returns the plan of `n` cells, with the default layers, and its resident bytes. `varies`: each property has
/// a value for each cell, not one for all.
fn plan(equation: &'static dyn Equation, storage: Storage, n: [usize; 3], varies: bool) -> (Plan, u64) {
    let grid = Grid { n, h: [10.0; 3] };
    let value = |property| match property {
        Property::Vp => 2000.0,
        Property::Rho => 1000.0,
        _ => 0.1,
    };
    let values = |property| match varies {
        true => Values::Volume(vec![value(property); grid.cells()]),
        false => Values::Constant(value(property)),
    };
    let properties = equation.properties();
    let model = Model::of(grid, properties.all().map(|property| (property, values(property)))).unwrap();
    let plan = Plan::new(Arc::new(model), 8e-4, Options { equation, storage, ..Options::default() }).unwrap();
    let bytes = plan.resident_bytes(Lane::Cpu(&Team::new(1).unwrap()), &Shot::default());
    (plan, bytes)
}

/// Returns the bytes that a coefficient takes more if its values differ from cell to cell.
fn bytes_of_volume(plan: &Plan) -> u64 {
    let n = plan.model.grid.n;
    let layout = Layout::new(n, plan.options.pml);
    let [all, one] = [n[0] * n[1], 1].map(|rows| EdgeField::bytes_of(&layout, plan.options.storage, rows));
    all - one
}

/// Returns the number of coefficients that have a value for each cell.
fn volumes(equation: &'static dyn Equation, storage: Storage) -> u64 {
    let [(_, varied), (small, uniform)] =
        [true, false].map(|varies| plan(equation, storage, [12; 3], varies));
    let volume = bytes_of_volume(&small);
    assert_eq!((varied - uniform) % volume, 0, "{equation:?}, {storage:?}");
    (varied - uniform) / volume
}

/// Returns the padded cells of a model of `n` cells, and its resident bytes with `count` coefficients that vary.
fn counted(equation: &'static dyn Equation, count: u64, n: [usize; 3]) -> (usize, u64) {
    let (plan, uniform) = plan(equation, Storage::Float32, n, false);
    (plan.padded_cells(), uniform + count * bytes_of_volume(&plan))
}

/// Bytes of layers grow with two sides of the grid, so only cells outside them have a part in the mixed difference of
/// all three. The sides differ by whole vectors.
#[test]
fn fields_and_layers_take_the_documented_bytes() {
    let outside = [20, 12, 40, 48, 12, 56];
    let has_16_bits = [true, true, true, false, true, false];
    // At 160, 200, 300 and 600 cells a side.
    let means = [
        [23.73, 22.65, 22.59, 20.99],
        [9.6, 10.1, 10.36, 11.06],
        [41.57, 40.22, 41.47, 40.02],
        [34.7, 37.3, 39.37, 43.19],
        [21.8, 19.6, 17.84, 14.82],
        [50.0, 51.9, 52.08, 53.85],
    ];
    let all = EQUATIONS.into_iter().chain(WITH_OTHER_LAYER);
    for (((equation, outside), means), has_16_bits) in all.zip(outside).zip(means).zip(has_16_bits) {
        let what = format!("{equation:?}, {:?}", equation.absorber());
        let count = volumes(equation, Storage::Float32);
        assert!(count > 0 && (!has_16_bits || volumes(equation, Storage::Bits16) == count), "{what}");
        let mixed = (0..8u32).map(|corner| {
            let n = [0, 1, 2].map(|axis| if corner >> axis & 1 == 0 { 128 } else { 192 });
            let bytes = counted(equation, count, n).1 as i64;
            if corner.count_ones() % 2 == 1 { bytes } else { -bytes }
        });
        assert_eq!(mixed.sum::<i64>(), outside * 64i64.pow(3), "{what}, outside layers");
        let mean = |side| {
            let (cells, bytes) = counted(equation, count, [side; 3]);
            bytes as f64 / cells as f64
        };
        for (side, expected) in [160, 200, 300, 600].into_iter().zip(means) {
            let mean = mean(side);
            assert!((mean - expected).abs() < 0.06, "{what}, {side} cubed: {mean}");
        }
        // Large models are counted, not made.
        let most = [160, 200].into_iter().chain(216..=1000).map(mean).fold(0.0, f64::max);
        assert!(equation.name() != "acoustic1" || most <= 24.0, "{most} at 160, 200 and 216 to 1000 cubed");
    }
}
