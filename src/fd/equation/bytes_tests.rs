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
fn plan(equation: &'static dyn Equation, n: usize, varies: bool, team: &Team) -> (Plan, u64) {
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
    let plan = Plan::new(Arc::new(model), 8e-4, Options { equation, ..Options::default() }).unwrap();
    let bytes = plan.resident_bytes(Lane::Cpu(team), &Shot::default());
    (plan, bytes)
}

/// Returns the bytes that a coefficient takes more if its values differ from cell to cell.
fn bytes_of_volume(n: usize, plan: &Plan) -> u64 {
    let layout = Layout::new(plan.model.grid.n, plan.options.pml);
    let [all, one] = [n * n, 1].map(|rows| EdgeField::bytes_of(&layout, Storage::Float32, rows));
    all - one
}

/// Large models are counted, not made: the coefficients of a small one tell how many have a value for each cell.
#[test]
fn a_cell_takes_at_most_the_documented_bytes() {
    let team = Team::new(1).unwrap();
    // At 300 and at 600 cells a side.
    let documented = [[24.0, 22.0], [11.0, 12.0], [43.0, 41.0], [40.0, 44.0], [18.0, 15.0], [53.0, 54.0]];
    let all = EQUATIONS.into_iter().chain(WITH_OTHER_LAYER);
    for (equation, documented) in all.zip(documented) {
        let small = 12;
        let [(_, varied), (plan_of_small, uniform)] =
            [true, false].map(|varies| plan(equation, small, varies, &team));
        let volume = bytes_of_volume(small, &plan_of_small);
        let volumes = (varied - uniform) / volume;
        assert_eq!((varied - uniform) % volume, 0, "{equation:?}");
        for (n, most) in [300, 600].into_iter().zip(documented) {
            let (plan, uniform) = plan(equation, n, false, &team);
            let bytes = uniform + volumes * bytes_of_volume(n, &plan);
            let of_a_cell = bytes as f64 / plan.padded_cells() as f64;
            let what = format!("{equation:?}, {:?}, {n} cubed", equation.absorber());
            println!("{what}: {of_a_cell:.2} bytes a cell");
            assert!(of_a_cell <= most && of_a_cell > 0.9 * most, "{what}: {of_a_cell}");
        }
    }
}
