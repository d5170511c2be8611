//! The step on the CPU, tile by tile. An equation adds a [`TiledEquation`]; this folder knows none.

pub mod activity;
mod autotuner;
pub mod copies;
pub mod describe;
pub mod equation;
pub mod partition;
pub mod source;
pub mod steps;
pub mod tiles;
pub mod tuning;

use self::equation::TiledEquation;
use self::steps::TiledSteps;
use self::tuning::TileTuner;
use crate::backend::cpu::Team;
use crate::error::Result;
use crate::fd::control::Control;
use crate::fd::survey::{Effort, Gather, Shot};
use crate::fd::time_loop;

/// Runs a shot that fits the equation's grid on the CPU.
pub fn run<E: TiledEquation>(
    equation: &E,
    shot: &Shot,
    team: &Team,
    control: &dyn Control,
) -> Result<(Gather, Effort)> {
    let (layout, threads) = (equation.layout(), team.threads());
    let own = equation.field_bytes().saturating_add(equation.thread_bytes(threads));
    time_loop::cpu::check_memory(layout, shot, own)?;
    let partition = equation.partition(threads);
    let mut fields = equation.fields_at_rest()?;
    let tuner = TileTuner::new(&equation.kind(), layout, equation.storage(), &partition, threads, control);
    let steps = TiledSteps::new(equation, &partition, shot, &mut fields).tuned(&tuner);
    let done = time_loop::cpu::run(layout, shot, &steps, team, control);
    tuner.report(control);
    done
}
