//! Warnings of a survey whose results may be of little use.

use gpusched::fd::equation::Absorber;
use gpusched::fd::model::{Model, Property};
use gpusched::fd::plan::Plan;
use gpusched::fd::survey::Shot;
use gpusched::fd::warnings::warnings;
use gpusched::fd::wavelet::Shape;

use crate::part::list;

/// Longest list of shots that a warning names.
const LIST: usize = 40;
/// Radians of the symmetry axis from the vertical, beyond which layers reflect more than a few percent.
const TILTED: f32 = 0.8;

/// Returns each warning of the shots once, with the shots that it is about unless these are all.
pub fn of(model: &Model, plan: &Plan, shots: &[Shot], wavelet: (Shape, f32), dt_sure: f64) -> Vec<String> {
    let mut found: Vec<(String, Vec<usize>)> = Vec::new();
    for (nth, shot) in shots.iter().enumerate() {
        for warning in warnings(plan, shot, Some(wavelet), dt_sure) {
            match found.iter_mut().find(|(known, _)| *known == warning) {
                Some((_, numbers)) => numbers.push(nth + 1),
                None => found.push((warning, vec![nth + 1])),
            }
        }
    }
    let named = |(warning, numbers): (String, Vec<usize>)| match &numbers[..] {
        all if all.len() == shots.len() => warning,
        [number] => format!("shot {number}: {warning}"),
        some => match list(some.iter().copied()) {
            list if list.len() <= LIST => format!("shots {list}: {warning}"),
            _ => format!("{} of {} shots, first {}: {warning}", some.len(), shots.len(), some[0]),
        },
    };
    found.into_iter().map(named).chain(of_mute(shots)).chain(of_tilt(model, plan)).collect()
}

/// Returns a warning if the mute zeroes all samples of some shots.
fn of_mute(shots: &[Shot]) -> Option<String> {
    let is_muted = |shot: &&Shot| {
        let last = (shot.samples() - 1) * shot.record_every;
        shot.mute.as_ref().is_some_and(|ends| ends.iter().all(|&end| end as usize > last))
    };
    let muted = shots.iter().filter(is_muted).count();
    (muted > 0).then(|| {
        let all = shots.len();
        format!(
            "mute.velocity_m_s, in m/s, zeroes all samples of {muted} of {all} shots: raise it, or lower mute.after_s"
        )
    })
}

/// Returns a warning if the layers of the old operators reflect because of the tilt of the symmetry axis.
fn of_tilt(model: &Model, plan: &Plan) -> Option<String> {
    if plan.options.equation.absorber() != Absorber::Pml {
        return None;
    }
    let tilts = model.get(Property::Theta)?.range().map(|theta| theta.sin().abs().asin());
    let most = tilts[0].max(tilts[1]);
    (most > TILTED).then(|| {
        format!(
            "the symmetry axis is up to {most:.2} rad from the vertical, and the absorbing layers reflect waves there: \
             by tens of percent where it is horizontal; set accuracy.absorbing_layer to \"sponge\""
        )
    })
}
