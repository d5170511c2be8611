//! Finds the fastest of several candidates, which compute the same bits, while shots run.
//!
//! A shot's steps are timed in laps of a few steps each, and any candidate may compute any lap. So
//! nothing is computed for the tuning alone. The candidates take laps in turns, a round each. The
//! first candidate is the default. Another one wins if it was faster than the first by [`WORTH`] in
//! all rounds but [`SPARED`]. It is out as soon as it cannot win any more. Most slow candidates are
//! out after two rounds. Other work on the device makes laps longer at random, which rarely makes a
//! slow candidate win.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fork::forks;

/// Laps of each candidate that are compared.
pub const ROUNDS: usize = 5;
/// Rounds that a winner may lose.
const SPARED: usize = 1;
/// A lap wins its round if it takes at most this share of the first candidate's.
const WORTH: f64 = 0.97;

/// Most tuners that a process keeps.
const KNOWN: usize = 64;
/// Tuners by their keys.
type Tuners = Mutex<Vec<(String, Arc<Autotuner>)>>;

/// Tuners of a process, its child, the child's child and so on. A child does not use its parent's,
/// because another thread of the parent may have held a lock.
static TUNERS: [Tuners; 8] = [const { Mutex::new(Vec::new()) }; 8];

/// Tuner of all shots of one kind on one device.
pub struct Autotuner(Mutex<TunerState>);

struct TunerState {
    /// Costs of the laps of each candidate, round by round.
    laps: Vec<Vec<f64>>,
    turn: usize,
    best: Option<usize>,
}

impl Autotuner {
    /// Makes a tuner of `candidates` candidates, at least one. `best`: the winner, if it is known.
    fn new(candidates: usize, best: Option<usize>) -> Autotuner {
        let mut state = TunerState { laps: vec![Vec::new(); candidates], turn: 0, best };
        if best.is_none() {
            state.update_winner();
        }
        Autotuner(Mutex::new(state))
    }

    /// Returns the number of candidates that may still be used. It never rises.
    pub fn candidates(&self) -> usize {
        self.state().candidates().len()
    }

    /// Returns the candidate of the next lap, and whether to time it.
    pub fn next(&self) -> (usize, bool) {
        let mut state = self.state();
        let candidates = state.candidates();
        state.turn += 1;
        (candidates[state.turn % candidates.len()], state.best.is_none())
    }

    /// Records the cost of a lap: seconds for an amount of work that is the same for all laps.
    pub fn took(&self, candidate: usize, cost: f64) {
        let mut state = self.state();
        if state.best.is_some() {
            return;
        }
        if state.laps[candidate].len() < ROUNDS {
            state.laps[candidate].push(cost);
        }
        state.update_winner();
    }

    /// Returns the winner; `None` while the candidates are compared.
    pub fn winner(&self) -> Option<usize> {
        self.state().best
    }

    /// Returns the winner; the first candidate while there is none.
    pub fn best(&self) -> usize {
        self.winner().unwrap_or(0)
    }

    /// Returns the winner if laps were compared for it.
    pub fn found(&self) -> Option<usize> {
        let state = self.state();
        state.best.filter(|_| !state.laps[0].is_empty())
    }

    /// Returns the tuner with a key, which lives as long as the process; from the eighth fork on, a
    /// new one. `known`: returns the winner that an earlier process found.
    pub fn shared(key: String, candidates: usize, known: impl FnOnce() -> Option<usize>) -> Arc<Autotuner> {
        let tuners = usize::try_from(forks()).ok().and_then(|generation| TUNERS.get(generation));
        let mut tuners = tuners.map(|tuners| tuners.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some((_, there)) =
            tuners.iter().flat_map(|tuners| tuners.iter()).find(|(other, _)| *other == key)
        {
            return there.clone();
        }
        let tuner = Arc::new(Autotuner::new(candidates, known()));
        if let Some(tuners) = &mut tuners {
            if tuners.len() == KNOWN {
                tuners.remove(0);
            }
            tuners.push((key, tuner.clone()));
        }
        tuner
    }

    fn state(&self) -> MutexGuard<'_, TunerState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TunerState {
    fn candidates(&self) -> Vec<usize> {
        match self.best {
            Some(best) => vec![best],
            None => {
                (0..self.laps.len()).filter(|&candidate| candidate == 0 || !self.is_out(candidate)).collect()
            }
        }
    }

    /// Returns the numbers of rounds that a candidate has won and lost against the first.
    fn rounds(&self, candidate: usize) -> [usize; 2] {
        let rounds = self.laps[0].iter().zip(&self.laps[candidate]);
        let all = rounds.len();
        let won = rounds.filter(|(first, other)| **other <= WORTH * **first).count();
        [won, all - won]
    }

    fn has_won(&self, candidate: usize) -> bool {
        self.rounds(candidate)[0] >= ROUNDS - SPARED
    }

    fn is_out(&self, candidate: usize) -> bool {
        self.rounds(candidate)[1] > SPARED
    }

    /// Ends the tuning when every other candidate has won or is out.
    fn update_winner(&mut self) {
        let others = 1..self.laps.len();
        if others.clone().any(|candidate| !self.has_won(candidate) && !self.is_out(candidate)) {
            return;
        }
        let winners = others.filter(|&candidate| self.has_won(candidate) && !self.is_out(candidate));
        let quickest = winners.min_by(|&a, &b| self.median(a).total_cmp(&self.median(b)));
        self.best = Some(quickest.unwrap_or(0));
    }

    /// Returns the median of a candidate's laps.
    fn median(&self, candidate: usize) -> f64 {
        let mut laps = self.laps[candidate].clone();
        laps.sort_by(f64::total_cmp);
        laps[laps.len() / 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fork::tests::fork_during;

    /// Plays laps until there is a winner, up to `under_way` of them in flight. Returns the winner
    /// and the number of laps.
    fn found(candidates: usize, under_way: usize, mut seconds: impl FnMut(usize) -> f64) -> (usize, usize) {
        let tuner = Autotuner::new(candidates, None);
        let mut waiting = std::collections::VecDeque::new();
        for lap in 0.. {
            let (candidate, timed) = tuner.next();
            if !timed {
                return (tuner.best(), lap);
            }
            waiting.push_back((candidate, seconds(candidate)));
            if waiting.len() > under_way {
                let (candidate, seconds) = waiting.pop_front().unwrap();
                tuner.took(candidate, seconds);
            }
        }
        unreachable!()
    }

    #[test]
    fn the_fastest_is_found_and_slow_ones_are_soon_out() {
        for under_way in 0..4 {
            assert_eq!(found(1, under_way, |_| 1.0), (0, 0));
            let (best, laps) = found(3, under_way, |candidate| [1.0, 1.3, 1.1][candidate]);
            assert!(best == 0 && laps <= 6 + 2 * under_way, "{laps}");
            assert_eq!(found(3, under_way, |candidate| [1.0, 0.95, 0.9][candidate]).0, 2);
            let (best, laps) = found(4, under_way, |candidate| [1.0, 0.9, 2.0, 2.0][candidate]);
            assert!(best == 1 && laps <= 16 + 2 * under_way, "{laps}");
        }
    }

    #[test]
    fn hardly_faster_candidate_does_not_win() {
        assert_eq!(found(2, 1, |candidate| [1.0, 0.98][candidate]).0, 0);
    }

    /// The clock gets faster or slower, and other work makes one lap long.
    #[test]
    fn rounds_are_compared_and_one_may_be_lost() {
        for drift in [0.95_f64, 1.05] {
            let mut lap = 0;
            let drifting = |candidate: usize| {
                lap += 1;
                let other = if lap == 5 { 10.0 } else { 1.0 };
                [1.0, 0.85][candidate] * drift.powi(lap) * other
            };
            assert_eq!(found(2, 1, drifting).0, 1);
        }
    }

    /// Laps of equal candidates, any of which takes twice as long with a chance of one in two.
    #[test]
    fn noise_alone_seldom_makes_a_winner() {
        let mut random = testkit::Random::new(1);
        let mut noisy = |_| if random.below(2) == 0 { 1.0 } else { 2.0 };
        let wrong = (0..1000).filter(|_| found(2, 1, &mut noisy).0 != 0).count();
        assert!(wrong <= 30, "{wrong} of 1000");
    }

    #[test]
    fn known_winner_is_not_tuned_again() {
        let tuner = Autotuner::new(3, Some(1));
        tuner.took(0, 1.0);
        assert_eq!((tuner.next(), tuner.candidates(), tuner.best()), ((1, false), 1, 1));
        assert_eq!(tuner.found(), None);
    }

    /// Late laps of candidates that are out change nothing.
    #[test]
    fn laps_that_come_late_change_nothing() {
        let tuner = Autotuner::new(2, None);
        for _ in 0..2 {
            tuner.took(0, 1.0);
            tuner.took(1, 2.0);
        }
        assert_eq!((tuner.next(), tuner.found()), ((0, false), Some(0)));
        for _ in 0..9 {
            tuner.took(0, 1.0);
            tuner.took(1, 0.1);
        }
        assert_eq!(tuner.best(), 0);
    }

    #[test]
    fn forked_child_has_tuners_of_its_own() {
        let tuner = |known: Option<usize>| Autotuner::shared("fork".into(), 2, || known);
        let of_parent = tuner(None);
        let status = fork_during(
            |pause| {
                let _lap = of_parent.state();
                pause();
            },
            || assert_eq!(tuner(Some(1)).best(), 1),
        );
        assert_eq!(status, 0);
        assert_eq!(tuner(Some(1)).winner(), None);
    }
}
