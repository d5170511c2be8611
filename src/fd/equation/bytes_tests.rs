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

/// Returns the plan of `n` cells a side, with the default layers, and its resident bytes. `varies`: each property has
/// a value for each cell, not one for all.
fn plan(equation: &'static dyn Equation, storage: Storage, n: usize, varies: bool) -> (Plan, u64) {
    let grid = Grid { n: [n; 3], h: [10.0; 3] };
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
fn bytes_of_volume(n: usize, plan: &Plan) -> u64 {
    let layout = Layout::new(plan.model.grid.n, plan.options.pml);
    let [all, one] = [n * n, 1].map(|rows| EdgeField::bytes_of(&layout, plan.options.storage, rows));
    all - one
}

/// Large models are counted, not made: the coefficients of a small one tell how many have a value for each cell.
#[test]
fn a_cell_takes_at_most_the_documented_bytes() {
    // At 300 and at 600 cells a side.
    let documented = [[24.0, 22.0], [11.0, 12.0], [43.0, 41.0], [40.0, 44.0], [18.0, 15.0], [53.0, 54.0]];
    let has_16_bits = [true, true, true, false, true, false];
    let all = EQUATIONS.into_iter().chain(WITH_OTHER_LAYER);
    for (equation, (documented, has_16_bits)) in all.zip(documented.into_iter().zip(has_16_bits)) {
        let volumes = |storage| {
            let [(_, varied), (small, uniform)] =
                [true, false].map(|varies| plan(equation, storage, 12, varies));
            let volume = bytes_of_volume(12, &small);
            assert_eq!((varied - uniform) % volume, 0, "{equation:?}, {storage:?}");
            (varied - uniform) / volume
        };
        let count = volumes(Storage::Float32);
        let of_a_cell = |n| {
            let (plan, uniform) = plan(equation, Storage::Float32, n, false);
            let bytes = uniform + count * bytes_of_volume(n, &plan);
            bytes as f64 / plan.padded_cells() as f64
        };
        for (n, most) in [300, 600].into_iter().zip(documented) {
            let (what, of_a_cell) =
                (format!("{equation:?}, {:?}, {n} cubed", equation.absorber()), of_a_cell(n));
            println!("{what}: {of_a_cell:.2} bytes a cell");
            assert!(of_a_cell <= most && of_a_cell > 0.9 * most, "{what}: {of_a_cell}");
        }
        assert!(count > 0 && (!has_16_bits || volumes(Storage::Bits16) == count), "{equation:?}");
        let most = (300..=1000).map(of_a_cell).fold(0.0, f64::max);
        assert!(equation.name() != "acoustic1" || most <= 24.0, "{most} from 300 to 1000 cubed");
    }
}
