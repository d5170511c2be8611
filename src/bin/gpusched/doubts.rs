//! Warnings about surveys whose results may be useless.

use gpusched::fd::plan::Plan;
use gpusched::fd::survey::Shot;
use gpusched::fd::warnings::warnings;
use gpusched::fd::wavelet::Shape;

use crate::part::list;

/// Maximum length of a list of shots in a warning.
const LIST: usize = 40;

/// Returns each warning once, with a list of the shots that have it. A warning of all shots has no
/// list.
pub fn of(plan: &Plan, shots: &[Shot], wavelet: (Shape, f32), dt_sure: f64) -> Vec<String> {
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
    found.into_iter().map(named).collect()
}
