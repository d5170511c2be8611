//! Which of several ways to compute the same bits is the fastest on a GPU, found while shots run.
//!
//! A shot's steps come in legs, and any way may compute any leg. So the legs that are timed are those of the shots
//! themselves: nothing is computed for the trial alone. The first way is the one that is taken if nothing is
//! known. The ways take legs in turns, a round each; another way has won when it was faster than the first by
//! [`WORTH`] in all rounds but [`SPARED`], and is out as soon as it can't win any more. Most slow ways are out
//! after two rounds. What else runs on the GPU makes laps longer at random, and rarely the right ones to make a slow way win.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Laps of each way that are compared.
const ROUNDS: usize = 5;
/// Rounds that a way need not win.
const SPARED: usize = 1;
/// A lap of a way that wins takes at most so much of the first way's.
const WORTH: f64 = 0.97;

/// Shared by all shots that are alike, on one GPU.
pub struct Trial(Mutex<State>);

struct State {
    /// Seconds, of each way, round by round.
    laps: Vec<Vec<f64>>,
    turn: usize,
    best: Option<usize>,
}

impl Trial {
    /// Of so many ways, one at least.
    pub fn new(ways: usize) -> Trial {
        let mut state = State { laps: vec![Vec::new(); ways], turn: 0, best: None };
        state.judge();
        Trial(Mutex::new(state))
    }

    /// Nothing is tried: this one of so many.
    pub fn settled(way: usize, ways: usize) -> Trial {
        Trial(Mutex::new(State { laps: vec![Vec::new(); ways], turn: 0, best: Some(way) }))
    }

    /// Those that may still be taken: they only ever get fewer.
    pub fn ways(&self) -> Vec<usize> {
        self.state().ways()
    }

    /// The way of the next leg, and whether it is to be timed.
    pub fn next(&self) -> (usize, bool) {
        let mut state = self.state();
        let ways = state.ways();
        state.turn += 1;
        (ways[state.turn % ways.len()], state.best.is_none())
    }

    /// A leg took so many seconds. All that are told are of the same number of steps.
    pub fn took(&self, way: usize, seconds: f64) {
        let mut state = self.state();
        if state.best.is_some() {
            return;
        }
        if state.laps[way].len() < ROUNDS {
            state.laps[way].push(seconds);
        }
        state.judge();
    }

    /// What has been found; the first as long as nothing is.
    pub fn best(&self) -> usize {
        self.state().best.unwrap_or(0)
    }

    /// What laps have shown to be the best.
    pub fn found(&self) -> Option<usize> {
        let state = self.state();
        state.best.filter(|_| !state.laps[0].is_empty())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn ways(&self) -> Vec<usize> {
        match self.best {
            Some(best) => vec![best],
            None => (0..self.laps.len()).filter(|&way| way == 0 || !self.is_out(way)).collect(),
        }
    }

    /// How many rounds another way has won, and lost, against the first.
    fn rounds(&self, way: usize) -> [usize; 2] {
        let rounds = self.laps[0].iter().zip(&self.laps[way]);
        let all = rounds.len();
        let won = rounds.filter(|(first, other)| **other <= WORTH * **first).count();
        [won, all - won]
    }

    fn has_won(&self, way: usize) -> bool {
        self.rounds(way)[0] >= ROUNDS - SPARED
    }

    fn is_out(&self, way: usize) -> bool {
        self.rounds(way)[1] > SPARED
    }

    /// Over when every other way has won or is out.
    fn judge(&mut self) {
        let others = 1..self.laps.len();
        if others.clone().any(|way| !self.has_won(way) && !self.is_out(way)) {
            return;
        }
        let winners = others.filter(|&way| self.has_won(way) && !self.is_out(way));
        let quickest = winners.min_by(|&a, &b| self.middle(a).total_cmp(&self.middle(b)));
        self.best = Some(quickest.unwrap_or(0));
    }

    /// The median of a way's laps.
    fn middle(&self, way: usize) -> f64 {
        let mut laps = self.laps[way].clone();
        laps.sort_by(f64::total_cmp);
        laps[laps.len() / 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays legs, some of which are under way at a time, until a way is found; and how many legs it took.
    fn found(ways: usize, under_way: usize, mut seconds: impl FnMut(usize) -> f64) -> (usize, usize) {
        let trial = Trial::new(ways);
        let mut waiting = std::collections::VecDeque::new();
        for leg in 0.. {
            let (way, timed) = trial.next();
            if !timed {
                return (trial.best(), leg);
            }
            waiting.push_back((way, seconds(way)));
            if waiting.len() > under_way {
                let (way, seconds) = waiting.pop_front().unwrap();
                trial.took(way, seconds);
            }
        }
        unreachable!()
    }

    #[test]
    fn the_fastest_is_found_and_slow_ones_are_soon_out() {
        for under_way in 0..4 {
            assert_eq!(found(1, under_way, |_| 1.0), (0, 0));
            let (best, legs) = found(3, under_way, |way| [1.0, 1.3, 1.1][way]);
            assert!(best == 0 && legs <= 6 + 2 * under_way, "{legs}");
            assert_eq!(found(3, under_way, |way| [1.0, 0.95, 0.9][way]).0, 2);
            let (best, legs) = found(4, under_way, |way| [1.0, 0.9, 2.0, 2.0][way]);
            assert!(best == 1 && legs <= 16 + 2 * under_way, "{legs}");
        }
    }

    #[test]
    fn who_is_hardly_faster_does_not_win() {
        assert_eq!(found(2, 1, |way| [1.0, 0.98][way]).0, 0);
    }

    /// A clock that gets faster or slower, and one lap that something else has made long.
    #[test]
    fn rounds_are_compared_and_one_may_be_lost() {
        for drift in [0.95_f64, 1.05] {
            let mut leg = 0;
            let drifting = |way: usize| {
                leg += 1;
                let other = if leg == 5 { 10.0 } else { 1.0 };
                [1.0, 0.85][way] * drift.powi(leg) * other
            };
            assert_eq!(found(2, 1, drifting).0, 1);
        }
    }

    /// Laps of ways that are alike, any of which takes twice as long with a chance of one in two.
    #[test]
    fn noise_alone_seldom_makes_a_winner() {
        let mut random = testkit::Random::new(1);
        let mut noisy = |_| if random.below(2) == 0 { 1.0 } else { 2.0 };
        let wrong = (0..1000).filter(|_| found(2, 1, &mut noisy).0 != 0).count();
        assert!(wrong <= 30, "{wrong} of 1000");
    }

    #[test]
    fn what_is_settled_is_not_tried() {
        let trial = Trial::settled(1, 3);
        trial.took(0, 1.0);
        assert_eq!((trial.next(), trial.ways(), trial.best()), ((1, false), vec![1], 1));
        assert_eq!(trial.found(), None);
    }

    /// Laps of ways that are out come in late, and change nothing.
    #[test]
    fn laps_that_come_late_change_nothing() {
        let trial = Trial::new(2);
        for _ in 0..2 {
            trial.took(0, 1.0);
            trial.took(1, 2.0);
        }
        assert_eq!((trial.next(), trial.found()), ((0, false), Some(0)));
        for _ in 0..9 {
            trial.took(0, 1.0);
            trial.took(1, 0.1);
        }
        assert_eq!(trial.best(), 0);
    }
}
