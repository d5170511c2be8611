//! Finds the fastest tile size of a shot in its own steps.
//!
//! The candidates are the tilings of the shot's [`Partition`]; all compute the same bits. A lap is
//! a few steps in tiles of one candidate. Its cost is the time per computed cell, so that a growing
//! wave does not matter.

use std::sync::Arc;
use std::time::Instant;

use super::activity::Activity;
use super::autotuner::{Autotuner, ROUNDS};
use super::partition::Partition;
use crate::fd::control::Control;
use crate::fd::grid::layout::Layout;
use crate::fd::storage::Storage;
use crate::fd::vector::isa::Isa;

/// Steps of a lap.
const LAP: usize = 4;
/// A shot begins to tune only if this many times the most steps of the tuning remain.
const PAYS: usize = 2;
/// Laps are timed only in steps that compute at least this share of the cells: with fewer, threads
/// wait for a few tiles.
const BUSY: f64 = 0.5;

/// Most tile sizes that a shot compares.
pub const SIZES: usize = 4;
/// Steps from a shot's first busy step on, after which it has compared all tile sizes. When
/// candidates drop out, turns may be uneven by a round.
pub const TUNING_STEPS: usize = LAP * (ROUNDS + 1) * SIZES;

/// Tunes the tiles of all shots of one kind.
pub struct TileTuner {
    autotuner: Arc<Autotuner>,
    /// Text that names all that the best tile size depends on, except the processor.
    subject: String,
    names: Vec<String>,
}

impl TileTuner {
    /// Makes the tuner of a shot. `kind`: the equation, and all else that the best tile size
    /// depends on. The tuner starts with the winner of earlier shots, if `control` knows it.
    pub fn new(
        kind: &str,
        layout: &Layout,
        storage: Storage,
        partition: &Partition,
        threads: usize,
        control: &dyn Control,
    ) -> TileTuner {
        let ([nx, ny, nz], pml, isa) = (layout.inner, layout.pml, Isa::best());
        let subject = format!("{kind}, {nx}x{ny}x{nz}+{pml}, {storage:?}, {isa:?}, {threads} threads");
        let names: Vec<_> = partition.tilings.iter().map(|tiling| format!("{} rows", tiling.rows)).collect();
        let autotuner = Autotuner::shared(format!("cpu {subject}"), names.len(), || {
            let found = control.finding(&subject)?;
            names.iter().position(|name| *name == found)
        });
        TileTuner { autotuner, subject, names }
    }

    /// Passes the winner to `control`, so that later shots start with it.
    pub fn report(&self, control: &dyn Control) {
        if let Some(candidate) = self.autotuner.found() {
            control.found(&self.subject, &self.names[candidate]);
        }
    }
}

/// The tuning of one shot.
pub struct Tuning {
    /// Tuner; with `None` the shot uses the first tiling throughout.
    autotuner: Option<Arc<Autotuner>>,
    nt: usize,
    begun: bool,
    lap: Option<TunedLap>,
}

struct TunedLap {
    candidate: usize,
    /// Step after the last of the lap.
    end: usize,
    begin: Instant,
    /// Cells that were computed before the lap.
    computed: f64,
}

impl Tuning {
    pub fn new(tuner: Option<&TileTuner>, nt: usize) -> Tuning {
        Tuning { autotuner: tuner.map(|tuner| tuner.autotuner.clone()), nt, begun: false, lap: None }
    }

    /// Returns the tiling of the first step.
    pub fn first(&self) -> usize {
        self.autotuner.as_ref().map_or(0, |autotuner| autotuner.best())
    }

    /// Returns the tiling of step `next`. The steps before it are done.
    pub fn tiling(&mut self, next: usize, activity: &Activity<'_>) -> usize {
        let Some(autotuner) = &self.autotuner else { return 0 };
        if let Some(lap) = self.lap.take_if(|lap| next >= lap.end) {
            let cells = activity.computed - lap.computed;
            autotuner.took(lap.candidate, lap.begin.elapsed().as_secs_f64() / cells);
        }
        if let Some(lap) = &self.lap {
            return lap.candidate;
        }
        if let Some(winner) = autotuner.winner() {
            return winner;
        }
        let most = LAP * ROUNDS * autotuner.candidates();
        let pays = if self.begun { LAP } else { PAYS * most };
        if next + pays > self.nt || activity.share() < BUSY {
            return autotuner.best();
        }
        let (candidate, timed) = autotuner.next();
        if timed {
            self.begun = true;
            let computed = activity.computed;
            self.lap = Some(TunedLap { candidate, end: next + LAP, begin: Instant::now(), computed });
        }
        candidate
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::fd::grid::zones::Zones;

    const THREADS: usize = 2;

    /// Stores one finding.
    #[derive(Default)]
    struct OneFinding(Mutex<Option<(String, String)>>);

    impl Control for OneFinding {
        fn finding(&self, subject: &str) -> Option<String> {
            self.0.lock().unwrap().clone().filter(|(about, _)| about == subject).map(|(_, finding)| finding)
        }
        fn found(&self, subject: &str, finding: &str) {
            *self.0.lock().unwrap() = Some((subject.into(), finding.into()));
        }
    }

    /// Returns a grid that no other test tunes, and its tiles.
    fn tiled(nx: usize) -> (Layout, Partition) {
        let layout = Layout::new([nx, 12, 11], 8);
        let zones = [0, 1, 2].map(|axis| Zones::new(&layout, axis));
        (layout, Partition::new(&layout, zones, THREADS, &[[32, 512], [8, 512], [16, 512]]))
    }

    fn tuner_of((layout, tiles): &(Layout, Partition), threads: usize, control: &dyn Control) -> TileTuner {
        TileTuner::new("a test", layout, Storage::Float32, tiles, threads, control)
    }

    fn whole((layout, tiles): &(Layout, Partition)) -> Activity<'_> {
        let mut activity = Activity::new(tiles, layout, 0);
        activity.mark(|tile| Some([tile.sides[0].cells.clone(), tile.sides[1].cells.clone(), 0..1000]));
        activity
    }

    /// Runs the tuning of a shot's steps. Returns their tilings, and the number of timed laps.
    fn steps(tuner: &TileTuner, nt: usize, activity: &mut Activity<'_>) -> (Vec<usize>, usize) {
        let mut tuning = Tuning::new(Some(tuner), nt);
        let mut tilings = vec![tuning.first()];
        let mut laps = 0;
        for next in 1..nt {
            activity.end_step();
            let earlier = tuning.lap.as_ref().map(|lap| lap.end);
            tilings.push(tuning.tiling(next, activity));
            let lap = tuning.lap.as_ref().map(|lap| lap.end);
            laps += usize::from(lap.is_some() && lap != earlier);
        }
        (tilings, laps)
    }

    #[test]
    fn winner_is_kept_and_later_shots_begin_with_it() {
        let (grid, findings) = (tiled(90), OneFinding::default());
        let tuner = tuner_of(&grid, THREADS, &findings);
        tuner.report(&findings);
        assert!(findings.0.lock().unwrap().is_none());
        for (candidate, cost) in [(0, 2.0), (1, 1.0), (2, 3.0)].repeat(ROUNDS) {
            tuner.autotuner.took(candidate, cost);
        }
        tuner.report(&findings);
        let finding = findings.0.lock().unwrap().clone().unwrap();
        assert!(finding.0.contains("90x12x11+8") && finding.0.ends_with("2 threads"), "{finding:?}");
        assert_eq!(finding.1, "8 rows");
        // In this process, and in a later one that has the finding.
        let again = tuner_of(&grid, THREADS, &OneFinding::default());
        assert_eq!(Tuning::new(Some(&again), 10).first(), 1);
        let other = tuner_of(&grid, THREADS + 1, &findings);
        assert_eq!(Tuning::new(Some(&other), 10).first(), 0);
        let subject = other.subject.clone();
        let subject = subject.replace("90x", "91x");
        findings.found(&subject, "8 rows");
        let stored = tuner_of(&tiled(91), THREADS + 1, &findings);
        assert_eq!(Tuning::new(Some(&stored), 10).first(), 1);
        // Any other text is ignored.
        let subject = subject.replace("91x", "92x");
        findings.found(&subject, "7 rows");
        let unknown = tuner_of(&tiled(92), THREADS + 1, &findings);
        assert_eq!(Tuning::new(Some(&unknown), 10).first(), 0);
    }

    #[test]
    fn long_shot_times_all_candidates_in_turns_until_one_wins() {
        let grid = tiled(93);
        let tuner = tuner_of(&grid, THREADS, &OneFinding::default());
        let nt = (PAYS + 1) * LAP * ROUNDS * 3;
        let (tilings, laps) = steps(&tuner, nt, &mut whole(&grid));
        assert!((2 * 3..=4 * ROUNDS).contains(&laps), "{laps}");
        let found = tuner.autotuner.found().unwrap();
        assert!(tilings[nt - LAP..].iter().all(|tiling| *tiling == found));
        assert!((0..3).all(|tiling| tilings[..4 * LAP].contains(&tiling)), "{tilings:?}");
    }

    #[test]
    fn short_shots_and_steps_with_few_cells_are_not_timed() {
        let grid = tiled(94);
        let tuner = tuner_of(&grid, THREADS, &OneFinding::default());
        let long = PAYS * LAP * ROUNDS * 3 + 1;
        assert_eq!(steps(&tuner, long - 1, &mut whole(&grid)).1, 0);
        let mut few = Activity::new(&grid.1, &grid.0, 0);
        few.mark(|tile| tile.sides[0].cells.contains(&8).then_some([8..9, 8..9, 8..9]));
        assert!(few.share() > 0.0 && few.share() < BUSY);
        assert_eq!(steps(&tuner, 2 * long, &mut few).1, 0);
        assert!(steps(&tuner, long, &mut whole(&grid)).1 > 0);
    }
}
