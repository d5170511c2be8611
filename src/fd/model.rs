//! The medium: properties on a grid, each a constant or a value for each cell.

use std::f32::consts::TAU;
use std::ops::Deref;

use super::grid::Grid;
use crate::error::{Error, Result};

/// A property of a medium. An equation states which of them it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Property {
    /// P velocity along the symmetry axis in m/s.
    Vp,
    /// Density in kg/m³.
    Rho,
    /// Thomsen's epsilon.
    Epsilon,
    /// Thomsen's delta.
    Delta,
    /// Tilt of the symmetry axis from the vertical in radians.
    Theta,
    /// Azimuth of the symmetry axis in radians.
    Phi,
}

impl Property {
    pub const ALL: [Property; 6] =
        [Property::Vp, Property::Rho, Property::Epsilon, Property::Delta, Property::Theta, Property::Phi];

    /// Returns the name in messages, survey files and bindings.
    pub fn name(self) -> &'static str {
        ["vp", "rho", "epsilon", "delta", "theta_rad", "phi_rad"][self as usize]
    }

    fn accepts(self, value: f32) -> bool {
        match self {
            Property::Vp | Property::Rho => value.is_finite() && value > 0.0,
            Property::Epsilon | Property::Delta => value.is_finite() && value > -0.5,
            Property::Theta | Property::Phi => value.abs() <= TAU,
        }
    }

    /// Returns the accepted values in words, for the message about a rejected `value`.
    fn accepted(self, value: f32) -> String {
        match self {
            Property::Vp => "positive, finite m/s".into(),
            Property::Rho => "positive, finite kg/m³".into(),
            Property::Epsilon | Property::Delta => "a finite number above -0.5".into(),
            Property::Theta | Property::Phi if value.is_finite() => {
                format!("-2 pi to 2 pi radians ({value} looks like degrees)")
            }
            Property::Theta | Property::Phi => "-2 pi to 2 pi radians".into(),
        }
    }
}

/// The values of a property.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// The same in all cells.
    Constant(f32),
    /// A value for each cell, `[iy][ix][iz]`.
    Volume(Vec<f32>),
}

impl Values {
    /// Returns the value at a cell's position in the grid.
    #[inline]
    pub fn at(&self, cell: usize) -> f32 {
        match self {
            Values::Constant(value) => *value,
            Values::Volume(values) => values[cell],
        }
    }

    /// Returns the stored values: one if the property is constant.
    fn distinct(&self) -> &[f32] {
        match self {
            Values::Constant(value) => std::slice::from_ref(value),
            Values::Volume(values) => values,
        }
    }

    /// Returns the smallest and the largest value.
    pub fn range(&self) -> [f32; 2] {
        self.distinct()
            .iter()
            .fold([f32::INFINITY, f32::NEG_INFINITY], |[low, high], &value| [low.min(value), high.max(value)])
    }
}

impl From<f32> for Values {
    fn from(value: f32) -> Self {
        Values::Constant(value)
    }
}

impl From<Vec<f32>> for Values {
    fn from(values: Vec<f32>) -> Self {
        Values::Volume(values)
    }
}

/// Point whose density a particle velocity uses; the velocity is half a cell after its cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DensityAt {
    /// The half point: its density is the mean of the two cells beside it.
    #[default]
    HalfPoints,
    /// The cell before the half point, as in the old kernels. Interfaces lie up to half a cell too
    /// deep.
    Cells,
}

/// A medium whose values are in the ranges of their properties.
#[derive(Debug)]
pub struct Model {
    pub outline: Outline,
    vp: Values,
    /// Other properties, by their number; the entry of the velocity is `None`.
    others: [Option<Values>; Property::ALL.len()],
}

/// Facts of a model that a plan keeps after the fields have become coefficients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outline {
    pub grid: Grid,
    /// Smallest and largest P velocity along the symmetry axis in m/s.
    pub vp_range: [f32; 2],
    /// Largest P velocity in any direction in m/s: `vp sqrt(1 + 2 epsilon)` where epsilon is
    /// positive.
    pub fastest: f32,
    /// Horizontal P velocity of cell (0, 0, 0) in m/s, `vp sqrt(1 + 2 epsilon)`, by which the old
    /// kernels mute the direct wave.
    pub direct_velocity: f32,
    /// Largest angle in radians between the symmetry axis and the vertical.
    pub tilt: f32,
    /// Largest magnitude of theta in radians.
    pub largest_theta: f32,
    /// Whether theta or phi differs between cells.
    pub angles_vary: bool,
    /// Whether epsilon or delta differs from 0 in any cell.
    pub is_anisotropic: bool,
    pub density_at: DensityAt,
}

impl Deref for Model {
    type Target = Outline;

    fn deref(&self) -> &Outline {
        &self.outline
    }
}

/// Density in kg/m³ of a model that states none.
pub const WATER: f32 = 1000.0;

impl Model {
    /// Makes a model of a velocity and a density, both over the grid. Without a density it is
    /// [`WATER`].
    pub fn new(grid: Grid, vp: Vec<f32>, rho: Option<Vec<f32>>) -> Result<Self> {
        let rho = rho.map(|rho| (Property::Rho, rho.into()));
        Model::of(grid, [(Property::Vp, vp.into())].into_iter().chain(rho))
    }

    /// Makes a model of any properties. If a property is given more than once, the last values
    /// count.
    ///
    /// # Errors
    /// No velocity; a volume with another number of values than the grid has cells; a value outside
    /// the range of its property, or so extreme that 1/rho or rho vp² is zero or infinite in
    /// float32. The message names the first such cell.
    pub fn of(grid: Grid, properties: impl IntoIterator<Item = (Property, Values)>) -> Result<Self> {
        let grid = Grid::new(grid.n, grid.h)?;
        let mut all = [const { None }; Property::ALL.len()];
        for (property, values) in properties {
            check(&grid, property, &values)?;
            all[property as usize] = Some(values);
        }
        let Some(vp) = all[Property::Vp as usize].take() else {
            return Err(missing(Property::Vp, &[], "every equation"));
        };
        let [_, rho, epsilon, delta, theta, phi] = &all;
        check_moduli(&grid, &vp, rho.as_ref().unwrap_or(&Values::Constant(WATER)))?;
        let horizontal = |cell: usize| {
            let epsilon = epsilon.as_ref().map_or(0.0, |epsilon| epsilon.at(cell));
            (f64::from(vp.at(cell)) * f64::from(1.0 + 2.0 * epsilon).sqrt()) as f32
        };
        let cells = epsilon.as_ref().map_or(0, |epsilon| vp.distinct().len().max(epsilon.distinct().len()));
        let thetas = || theta.iter().flat_map(|theta| theta.distinct());
        let varies = |angle: &Values| angle.distinct().iter().any(|value| *value != angle.at(0));
        let is_other_than_zero = |values: &Values| values.distinct().iter().any(|value| *value != 0.0);
        let vp_range = vp.range();
        let outline = Outline {
            grid,
            vp_range,
            fastest: (0..cells).map(horizontal).fold(vp_range[1], f32::max),
            direct_velocity: horizontal(0),
            tilt: thetas().map(|theta| theta.sin().abs()).fold(0.0, f32::max).asin(),
            largest_theta: thetas().map(|theta| theta.abs()).fold(0.0, f32::max),
            angles_vary: [theta, phi].into_iter().flatten().any(varies),
            is_anisotropic: [epsilon, delta].into_iter().flatten().any(is_other_than_zero),
            density_at: DensityAt::default(),
        };
        Ok(Model { outline, vp, others: all })
    }

    /// Returns the model with another rule for the density between cells. Equations without density
    /// ignore it.
    pub fn with_density_at(mut self, density_at: DensityAt) -> Model {
        self.outline.density_at = density_at;
        self
    }

    /// Returns the values of a property, if the model has it.
    pub fn get(&self, property: Property) -> Option<&Values> {
        if property == Property::Vp { Some(&self.vp) } else { self.others[property as usize].as_ref() }
    }

    /// Returns the values of a property; 0 if the model lacks it.
    pub fn or_zero(&self, property: Property) -> &Values {
        self.get(property).unwrap_or(&Values::Constant(0.0))
    }

    /// Returns the velocity, which every model has.
    pub fn vp(&self) -> &Values {
        &self.vp
    }
}

/// Returns the error for a model without a property that `equation` needs. `others`: further such
/// properties.
pub fn missing(property: Property, others: &[Property], equation: &str) -> Error {
    let each = if others.is_empty() { "" } else { " of each" };
    let accepted = format!("a constant or a value for each cell{each}, which {equation} needs");
    let also: String = others.iter().map(|one| format!(", and so is {}", one.name())).collect();
    Error::argument(property.name(), format!("missing{also}"), accepted)
}

/// Returns the error for a model with a property that `equation` lacks. `others`: further such
/// properties.
pub fn foreign(property: Property, others: &[Property], equation: &str, own: &[Property]) -> Error {
    let own: Vec<_> = own.iter().copied().map(Property::name).collect();
    let also: String = others.iter().map(|one| format!(", nor is {}", one.name())).collect();
    Error::argument(property.name(), format!("no property of {equation}{also}"), own.join(", "))
}

/// Refuses a model in which epsilon is smaller than delta anywhere: pseudo-acoustic anisotropic
/// equations are unstable there, whatever the time step. A missing property counts as 0.
pub fn check_epsilon_not_below_delta(model: &Model) -> Result<()> {
    let [epsilon, delta] = [Property::Epsilon, Property::Delta].map(|property| model.or_zero(property));
    let cells = epsilon.distinct().len().max(delta.distinct().len());
    let Some(bad) = (0..cells).find(|&cell| epsilon.at(cell) < delta.at(cell)) else { return Ok(()) };
    let place = if cells == 1 { String::new() } else { format!(" of cell {}", cell(&model.grid, bad)) };
    let accepted =
        format!("delta, which is {} there, or more: below it waves grow without limit", delta.at(bad));
    Err(Error::argument(format!("epsilon{place}"), epsilon.at(bad), accepted))
}

/// Returns the cell at a position in a field, in words.
fn cell(grid: &Grid, at: usize) -> String {
    let [nx, _, nz] = grid.n;
    format!("({}, {}, {})", at / nz % nx, at / nz / nx, at % nz)
}

fn check(grid: &Grid, property: Property, values: &Values) -> Result<()> {
    let name = property.name();
    if let Values::Volume(values) = values
        && values.len() != grid.cells()
    {
        let [nx, ny, nz] = grid.n;
        return Err(Error::argument(
            format!("the number of {name} values"),
            values.len(),
            format!("{}, which is nx {nx} times ny {ny} times nz {nz}", grid.cells()),
        ));
    }
    let Some(bad) = values.distinct().iter().position(|&value| !property.accepts(value)) else {
        return Ok(());
    };
    let what = match values {
        Values::Constant(_) => name.into(),
        Values::Volume(_) => format!("{name} of cell {}", cell(grid, bad)),
    };
    Err(Error::argument(what, values.at(bad), property.accepted(values.at(bad))))
}

fn check_moduli(grid: &Grid, vp: &Values, rho: &Values) -> Result<()> {
    let fits = |&at: &usize| {
        let (vp, rho) = (vp.at(at), rho.at(at));
        (rho * vp * vp).is_normal() && (1.0 / rho).is_normal() && (0.5 * rho).is_normal()
    };
    let cells = vp.distinct().len().max(rho.distinct().len());
    let Some(bad) = (0..cells).find(|at| !fits(at)) else { return Ok(()) };
    let value = format!("{:e} kg/m³ with {:e} m/s", rho.at(bad), vp.at(bad));
    let what = format!("the medium of cell {}", cell(grid, bad));
    Err(Error::argument(what, value, "values whose 1/rho and rho vp² float32 can hold"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: Grid = Grid { n: [1, 1, 2], h: [10.0; 3] };

    /// A modulus of zero would give a record of zeros, and no error.
    #[test]
    fn a_medium_that_float32_can_not_hold_is_refused_with_its_cell() {
        for (vp, rho) in [(1e-30, 1e3), (1e30, 1e3), (1500.0, 1e-40), (1.0, 3e38)] {
            let refused = Model::new(GRID, vec![1500.0, vp], Some(vec![1e3, rho]));
            let why = refused.map(drop).unwrap_err().to_string();
            assert!(why.contains("cell (0, 0, 1)") && why.contains("float32"), "{why}");
        }
        assert!(Model::new(GRID, vec![1500.0, 1e-30], None).is_err());
        assert!(Model::new(GRID, vec![1e-6, 1e6], Some(vec![1e-6, 1e6])).is_ok());
    }

    #[test]
    fn values_outside_the_range_of_their_property_are_refused() {
        use Property::*;
        let cases = [
            (Vp, 0.0, 1e-6, "vp is 0; accepted: positive, finite m/s"),
            (Rho, f32::NAN, 1.0, "rho is NaN; accepted: positive, finite kg/m³"),
            (Epsilon, -0.5, -0.499, "epsilon is -0.5; accepted: a finite number above -0.5"),
            (Delta, f32::INFINITY, -0.499, "delta is inf; accepted: a finite number above -0.5"),
            (Theta, 45.0, -TAU, "theta_rad is 45; accepted: -2 pi to 2 pi radians (45 looks like degrees)"),
            (Phi, f32::NAN, TAU, "phi_rad is NaN; accepted: -2 pi to 2 pi radians"),
        ];
        for (property, value, good, message) in cases {
            let with = |values| Model::of(GRID, [(Vp, 1500.0.into()), (property, values)]);
            assert_eq!(with(Values::Constant(value)).unwrap_err().to_string(), message);
            let why = with(vec![good, value].into()).unwrap_err().to_string();
            assert_eq!(why, message.replacen(" is", " of cell (0, 0, 1) is", 1));
            let why = with(vec![1.0].into()).unwrap_err().to_string();
            let name = property.name();
            assert!(why.starts_with(&format!("the number of {name} values is 1; accepted: 2")), "{why}");
            assert!(with(vec![good, 1.0].into()).is_ok(), "{name}");
        }
        let why = Model::of(GRID, [(Rho, 1.0.into())]).unwrap_err().to_string();
        assert!(why.starts_with("vp is missing"), "{why}");
    }

    #[test]
    fn epsilon_below_delta_is_refused_with_the_first_cell() {
        let refused = |epsilon: Values, delta: Values| {
            let properties =
                [(Property::Vp, 1500.0.into()), (Property::Epsilon, epsilon), (Property::Delta, delta)];
            let why = check_epsilon_not_below_delta(&Model::of(GRID, properties).unwrap());
            why.map_err(|why| why.to_string())
        };
        let why = refused(0.1.into(), vec![0.1, 0.2].into()).unwrap_err();
        assert!(why.starts_with("epsilon of cell (0, 0, 1) is 0.1; accepted: delta, which is 0.2"), "{why}");
        let why = refused(0.1.into(), 0.2.into()).unwrap_err();
        assert!(why.starts_with("epsilon is 0.1; accepted: delta, which is 0.2"), "{why}");
        assert_eq!(refused(vec![0.1, 0.2].into(), vec![0.1, -0.2].into()), Ok(()));
    }

    #[test]
    fn models_are_anisotropic_if_a_cell_is() {
        let is_anisotropic = |property, values: Values| {
            Model::of(GRID, [(Property::Vp, 2000.0.into()), (property, values)]).unwrap().is_anisotropic
        };
        assert!(is_anisotropic(Property::Delta, vec![0.0, -0.1].into()));
        assert!(is_anisotropic(Property::Epsilon, 0.1.into()));
        assert!(!is_anisotropic(Property::Epsilon, vec![0.0, -0.0].into()));
        assert!(!is_anisotropic(Property::Rho, 1000.0.into()));
    }

    #[test]
    fn horizontal_velocities_follow_epsilon() {
        let model = |vp: Values, epsilon: Values| {
            Model::of(GRID, [(Property::Vp, vp), (Property::Epsilon, epsilon)]).unwrap()
        };
        let faster = model(vec![2000.0, 3000.0].into(), 0.22.into());
        assert_eq!((faster.direct_velocity, faster.fastest), (2400.0, 3600.0));
        assert_eq!(faster.vp_range, [2000.0, 3000.0]);
        let slower = model(2000.0.into(), vec![-0.18, 0.0].into());
        assert_eq!((slower.direct_velocity, slower.fastest), (1600.0, 2000.0));
    }
}
