//! The traits of an equation, and the types of their methods.

use std::fmt;
use std::ops::RangeInclusive;

use crate::backend::cpu::Team;
use crate::backend::cuda::Stream;
use crate::error::{Error, Result};
use crate::fd::control::Control;
use crate::fd::inject::SourceMedium;
use crate::fd::model::{Model, Outline, Property, check_epsilon_not_below_delta, foreign, missing};
use crate::fd::stencil::Stencil;
use crate::fd::storage::Storage;
use crate::fd::survey::{Effort, Gather, Shot};

/// The properties of a medium that an equation has. A model with another one is refused.
pub struct Properties {
    /// Properties that every model must have.
    pub required: &'static [Property],
    /// Optional properties, each with its default.
    pub optional: &'static [(Property, f32)],
}

/// Accepted cells of an absorbing layer on each side.
pub const LAYER_CELLS: RangeInclusive<usize> = 8..=1000;

/// The kind of an absorbing layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absorber {
    /// A perfectly matched layer.
    Pml,
    /// Factors below 1 that multiply the pressure.
    Sponge,
}

impl Absorber {
    pub const ALL: [Absorber; 2] = [Absorber::Pml, Absorber::Sponge];

    pub fn name(self) -> &'static str {
        if self == Absorber::Pml { "pml" } else { "sponge" }
    }
}

/// Choices of a discretization. An equation ignores those that it has not.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scheme {
    pub stencil: Stencil,
    /// Make anisotropic media isotropic around the source of a shot.
    pub isotropic_source: bool,
    /// Three rules of the old kernels: layers along a much finer axis are damped too little, and so are waves that are
    /// much faster than one cell; all derivatives of a rotated one are scaled by the spacing along its flux.
    pub old_rules: bool,
}

/// An equation.
pub trait Equation: Sync {
    /// Returns the name by which users select it.
    fn name(&self) -> &'static str;

    /// Returns the properties of its media.
    fn properties(&self) -> Properties;

    /// Returns the kind of its absorbing layer. An equation with another one is another value of the same name.
    fn absorber(&self) -> Absorber {
        Absorber::Pml
    }

    /// Returns the cells of its absorbing layer on each side, unless the user chooses their number.
    fn default_layer(&self) -> usize {
        20
    }

    /// Returns the class of its shots as tasks: devices have a rate for each class.
    fn class(&self) -> u32;

    /// Returns the factor `c` of [`Grid::stable_step`](crate::fd::grid::Grid::stable_step).
    fn courant(&self, stencil: Stencil) -> f64 {
        stencil.courant()
    }

    /// Returns the largest stable time step in seconds with exact coefficients.
    fn dt_max(&self, model: &Outline, stencil: Stencil) -> f64 {
        model.grid.stable_step(self.courant(stencil), f64::from(model.fastest))
    }

    /// Returns the number of stored coefficients whose product is the square of a speed, at most.
    fn speed_factors(&self) -> i32 {
        2
    }

    /// Returns a time step in seconds that is certainly stable with exact coefficients.
    fn dt_sure(&self, model: &Model, stencil: Stencil) -> f64;

    /// Computes the coefficients that do not depend on the time step, with layers of `pml` cells.
    ///
    /// # Errors
    /// No memory; values that 16 bits are not enough for.
    fn propagator_factory(&self, model: &Model, pml: usize, storage: Storage) -> Result<PropagatorFactory>;
}

/// Makes the propagator for a time step in seconds.
pub type PropagatorFactory = Box<dyn Fn(f32, Scheme) -> Box<dyn Propagator> + Send + Sync>;

/// The properties of a medium as an equation multiplies with them. Plans with different time steps share it.
pub struct Material {
    pub equation: &'static dyn Equation,
    pub model: Outline,
    /// Cells of an absorbing layer.
    pub pml: usize,
    pub storage: Storage,
    pub factory: PropagatorFactory,
}

/// An equation in a medium, with a time step. All shots of a plan share it.
pub trait Propagator: SourceMedium + Send + Sync {
    /// Returns the bytes of the coefficients on the host.
    fn bytes(&self) -> u64;

    /// Returns the bytes of the fields of a shot on the CPU.
    fn field_bytes(&self) -> u64;

    /// Returns the scratch bytes of `threads` CPU threads.
    fn thread_bytes(&self, threads: usize) -> u64;

    /// Returns the bytes of a GPU that a shot of `nt` steps takes, with what it shares with others of its plan.
    fn gpu_bytes(&self, _shot: &Shot, _nt: usize) -> u64 {
        0
    }

    /// Returns the bytes of a GPU that a shot with few receivers takes in a model of `n` cells.
    fn gpu_bytes_of_cells(&self, _n: [usize; 3]) -> u64 {
        0
    }

    /// Returns the bytes of a GPU that the plan's shots share and that are allocated already.
    fn gpu_shared_bytes(&self, _stream: &Stream) -> u64 {
        0
    }

    /// Runs a shot that fits the grid on the CPU.
    fn run_on_cpu(&self, shot: &Shot, team: &Team, control: &dyn Control) -> Result<(Gather, Effort)>;

    /// Runs a shot that fits the grid on a GPU.
    fn run_on_gpu(&self, _shot: &Shot, _stream: &Stream, _control: &dyn Control) -> Result<(Gather, Effort)> {
        Err(Error::Internal("the equation has no kernels for GPUs".into()))
    }
}

impl Properties {
    /// Returns all of them, the required ones first.
    pub fn all(&self) -> impl Iterator<Item = Property> {
        self.required.iter().copied().chain(self.optional.iter().map(|(property, _)| *property))
    }
}

impl dyn Equation {
    /// Refuses a model that lacks a required property, has one that the equation has not, or whose
    /// properties do not go together.
    pub fn check_model(&self, model: &Model) -> Result<()> {
        let (properties, own): (_, Vec<_>) = (self.properties(), self.properties().all().collect());
        let given = |property: &Property| model.get(*property).is_some();
        let lacking: Vec<_> = properties.required.iter().copied().filter(|one| !given(one)).collect();
        if let [first, others @ ..] = &lacking[..] {
            return Err(missing(*first, others, self.name()));
        }
        let is_other = |one: &Property| given(one) && !own.contains(one);
        let other: Vec<_> = Property::ALL.into_iter().filter(is_other).collect();
        if let [first, others @ ..] = &other[..] {
            return Err(foreign(*first, others, self.name(), &own));
        }
        check_epsilon_not_below_delta(model)
    }
}

impl fmt::Debug for dyn Equation {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

impl PartialEq for dyn Equation {
    fn eq(&self, other: &dyn Equation) -> bool {
        self.name() == other.name() && self.absorber() == other.absorber()
    }
}
