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
    // At 160 and at 200 cells a side.
    let means = [[25.9, 24.4], [9.6, 10.1], [43.7, 42.0], [34.7, 37.3], [21.8, 19.6], [50.0, 51.9]];
    let all = EQUATIONS.into_iter().chain(WITH_OTHER_LAYER);
    for (equation, (outside, means)) in all.zip(outside.into_iter().zip(means)) {
        let what = format!("{equation:?}, {:?}", equation.absorber());
        let count = volumes(equation, Storage::Float32);
        let mixed = (0..8u32).map(|corner| {
            let n = [0, 1, 2].map(|axis| if corner >> axis & 1 == 0 { 128 } else { 192 });
            let bytes = counted(equation, count, n).1 as i64;
            if corner.count_ones() % 2 == 1 { bytes } else { -bytes }
        });
        assert_eq!(mixed.sum::<i64>(), outside * 64i64.pow(3), "{what}, outside layers");
        for (side, expected) in [160, 200].into_iter().zip(means) {
            let (cells, bytes) = counted(equation, count, [side; 3]);
            let mean = bytes as f64 / cells as f64;
            assert!((mean - expected).abs() < 0.06, "{what}, {side} cubed: {mean}");
        }
    }
}

/// Large models are counted, not made: the coefficients of a small one tell how many have a value for each cell.
#[test]
fn a_cell_takes_at_most_the_documented_bytes() {
    // At 300 and at 600 cells a side.
    let documented = [[24.0, 22.0], [11.0, 12.0], [43.0, 41.0], [40.0, 44.0], [18.0, 15.0], [53.0, 54.0]];
    let has_16_bits = [true, true, true, false, true, false];
    let all = EQUATIONS.into_iter().chain(WITH_OTHER_LAYER);
    for (equation, (documented, has_16_bits)) in all.zip(documented.into_iter().zip(has_16_bits)) {
        let count = volumes(equation, Storage::Float32);
        let of_a_cell = |n| {
            let (cells, bytes) = counted(equation, count, [n; 3]);
            bytes as f64 / cells as f64
        };
        for (n, most) in [300, 600].into_iter().zip(documented) {
            let (what, of_a_cell) =
                (format!("{equation:?}, {:?}, {n} cubed", equation.absorber()), of_a_cell(n));
            println!("{what}: {of_a_cell:.2} bytes a cell");
            assert!(of_a_cell <= most && of_a_cell > 0.9 * most, "{what}: {of_a_cell}");
        }
        assert!(count > 0 && (!has_16_bits || volumes(equation, Storage::Bits16) == count), "{equation:?}");
        let most = (300..=1000).map(of_a_cell).fold(0.0, f64::max);
        assert!(equation.name() != "acoustic1" || most <= 24.0, "{most} from 300 to 1000 cubed");
    }
}
