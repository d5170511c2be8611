//! Writes the files of one shot: the record, the snapshots, and last the description beside them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use std::{fs, io};

use gpusched::fd::control::{STATE_LAYOUT, State as Fields};
use gpusched::fd::shot;
use gpusched::fd::survey::{Effort, Gather, Shot};
use gpusched::io::atomic::{self, Sealed};
use gpusched::io::{raw, space};
use gpusched::sched::{Exec, Task};
use gpusched::{Error, Result};

use crate::checkpoint::{self, Checkpoint, Header, Summed};
use crate::folder::{OutputFolder, fill, remove};
use crate::job::Job;
use crate::names;
use crate::picture::{Picture, nearest_line, section, section_step};
use crate::resume::{self, STALE};
use crate::side::{About, Description, Sums, snapshot_steps, time};
use crate::stopping::Stop;

/// The files of one shot, shared by the task that writes them and the command that reports them.
#[derive(Clone)]
pub struct Files {
    inner: Arc<Inner>,
}

struct Inner {
    about: About,
    output: Arc<OutputFolder>,
    /// Step of the snapshot that gets a picture. `None`: this shot gets none.
    section_step: Option<usize>,
    pictured: bool,
    /// Time limit of an attempt.
    deadline: Option<Duration>,
    /// Whether the shot continues from a saved state.
    resume: bool,
    stop: Stop,
    room: Room,
    /// State by attempt, because two copies of a shot may run at a time.
    attempts: Mutex<BTreeMap<u32, State>>,
    /// Locked by the attempt that renames or removes files. True after the files of an earlier run
    /// are removed.
    naming: Mutex<bool>,
}

#[derive(Default)]
struct State {
    device: String,
    /// `None`: the files cannot be written.
    begun: Option<Instant>,
    sums: Sums,
    /// Complete snapshots, which get their names when the attempt commits.
    snapshots: Vec<Sealed>,
    /// The shot has ended; this attempt may still run.
    over: bool,
    seconds: Option<f64>,
    /// See [`Effort::computed`].
    computed: Option<f64>,
    picture: Picture,
    /// Number of steps in the saved state from which the attempt started.
    begun_with: usize,
    /// Reason why a saved state is not usable.
    unusable: Option<String>,
    /// Number of steps after which the attempt stopped, or why its state is not saved.
    paused: Option<std::result::Result<usize, String>>,
}

/// The report on a finished shot.
pub struct Report {
    pub device: String,
    pub attempt: u32,
    pub seconds: Option<f64>,
    /// See [`Effort::computed`], rounded.
    pub computed: Option<f64>,
    pub files: Vec<String>,
    /// Number of steps in the saved state from which the shot started.
    pub begun_with: usize,
    /// Reason why a saved state is not usable.
    pub unusable: Option<String>,
}

impl Files {
    /// Prepares the files of the shot with this number, counted from 1.
    pub fn new(
        job: &Job,
        number: usize,
        resume: bool,
        stop: &Stop,
        room: &Room,
        output: &Arc<OutputFolder>,
    ) -> Files {
        let pictured = number <= job.survey.output.pictures;
        let about = About::new(job, number);
        let inner = Inner {
            section_step: section_step(&about).filter(|_| pictured),
            about,
            output: output.clone(),
            pictured,
            deadline: job.survey.run.deadline_s.map(Duration::from_secs_f64),
            resume,
            stop: stop.clone(),
            room: room.clone(),
            attempts: Mutex::default(),
            naming: Mutex::default(),
        };
        Files { inner: Arc::new(inner) }
    }

    /// Returns the shot as a task that writes these files. `threads`: see [`shot::task`]. `saved`: its
    /// usable saved state, from which devices of that kind continue.
    pub fn task(&self, threads: u32, saved: Option<&Header>) -> Result<Task> {
        let About { plan, shot, .. } = self.about();
        let mut task = shot::task(plan.clone(), shot.clone(), threads, self.clone())?;
        task.label = format!("shot {}", self.about().number);
        if let Some(saved) = saved {
            task.work = task.work.map(|work| work * (1.0 - saved.done as f64 / plan.steps(shot) as f64));
            task.backends = vec![saved.backend()];
        }
        // No attempt changes the files of another.
        task.idempotent = true;
        task.deadline = self.inner.deadline;
        let (job, files) = (task.job, self.clone());
        task.job = Arc::new(move |exec: &Exec<'_>| {
            files.begin(exec).inspect_err(|error| files.inner.room.learn(Some(error)))?;
            let outcome = job.run(exec);
            files.inner.room.learn(outcome.as_ref().err());
            // Removes the snapshots of an attempt that did not commit.
            drop(files.take_snapshots(exec.attempt));
            outcome
        });
        Ok(task)
    }

    /// Ends the shot: removes the snapshots of attempts that still run.
    pub fn close(&self) {
        for state in self.attempts().values_mut() {
            state.over = true;
            state.snapshots.clear();
        }
    }

    /// Returns true if an attempt could write its files and has begun to compute.
    pub fn have_begun(&self) -> bool {
        self.attempts().values().any(|state| state.begun.is_some())
    }

    /// Returns an error if the files cannot be written. See [`Room`].
    pub fn find_room(&self) -> Result<()> {
        let about = self.about();
        let path = |name: String| self.inner.output.path.join(name);
        let record = (path(names::record(about.number)), 4 * about.traces() * about.shot.samples());
        // The snapshots of a saved state are there.
        let saved = checkpoint::header(&self.paused_path());
        let saved = saved
            .filter(|header| self.inner.resume && header.key == about.key && header.layout == STATE_LAYOUT);
        let done = saved.map_or(0, |header| header.done);
        let bytes = 4 * about.plan.model.grid.cells();
        let snapshots = snapshot_steps(&about.shot).skip_while(|&step| step < done);
        let snapshots = snapshots.map(|step| (path(names::snapshot(about.number, step)), bytes));
        self.inner.room.find([record].into_iter().chain(snapshots))
    }

    /// Returns the report of the attempt that committed, or else of the last one.
    pub fn report(&self) -> Report {
        let attempts = self.attempts();
        let counts = attempts.iter().find(|(_, state)| state.seconds.is_some());
        let (attempt, state) = counts.or_else(|| attempts.iter().next_back()).unzip();
        Report {
            device: state.map(|state| state.device.clone()).unwrap_or_default(),
            attempt: attempt.copied().unwrap_or_default(),
            seconds: state.and_then(|state| state.seconds),
            computed: state.and_then(|state| state.computed).map(|share| (1e4 * share).round() / 1e4),
            files: self.names(),
            begun_with: state.map_or(0, |state| state.begun_with),
            unusable: state.and_then(|state| state.unusable.clone()),
        }
    }

    /// Returns the number of steps of the saved state, or why none is saved. `None`: the shot was not
    /// started.
    pub fn paused(&self) -> Option<std::result::Result<usize, String>> {
        let attempts = self.attempts();
        let paused = || attempts.values().filter_map(|state| state.paused.as_ref());
        let furthest = paused().filter_map(|paused| paused.as_ref().ok()).max();
        furthest.map(|&done| Ok(done)).or_else(|| paused().next_back().cloned())
    }

    /// Takes the data of the pictures.
    pub fn take_picture(&self) -> Picture {
        let mut attempts = self.attempts();
        let counts = attempts.values_mut().find(|state| state.seconds.is_some());
        counts.map(|state| std::mem::take(&mut state.picture)).unwrap_or_default()
    }

    fn attempts(&self) -> MutexGuard<'_, BTreeMap<u32, State>> {
        self.inner.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn naming(&self) -> MutexGuard<'_, bool> {
        self.inner.naming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_snapshots(&self, attempt: u32) -> Vec<Sealed> {
        let mut attempts = self.attempts();
        attempts.get_mut(&attempt).map(|state| std::mem::take(&mut state.snapshots)).unwrap_or_default()
    }

    fn name_snapshots(&self, attempt: u32) -> Result<()> {
        // The first snapshot holds the lock, so it is renamed last.
        self.take_snapshots(attempt).into_iter().rev().try_for_each(Sealed::commit)
    }

    fn about(&self) -> &About {
        &self.inner.about
    }

    fn names(&self) -> Vec<String> {
        all_files(self.about().number, &self.about().shot)
    }

    fn paused_path(&self) -> PathBuf {
        self.inner.output.path.join(names::paused(self.about().number))
    }

    /// Opens the saved state of the shot, if there is one. `Err`: why it is not usable.
    fn left(&self, fields: &dyn Fields) -> std::result::Result<Option<Checkpoint>, String> {
        if !self.inner.resume {
            return Ok(None);
        }
        let Some(checkpoint) = resume::saved_state(&self.inner.output.path, self.about())? else {
            return Ok(None);
        };
        let header = &checkpoint.header;
        if header.kind != fields.kind() || header.values != fields.values() {
            return Err(format!(
                "another kind of device saved it ({}; here: {})",
                header.kind,
                fields.kind()
            ));
        }
        Ok(Some(checkpoint))
    }

    /// Removes the files of a shot that could not be completed. The snapshots of a saved state
    /// stay. If the path may lead to another folder now, only files that were written after
    /// `begun` are of this run.
    fn unname(&self, begun: SystemTime) {
        // Another part may own the files, which have the same bytes.
        if self.inner.output.is_part {
            return;
        }
        let is_left = self.paused_path().exists();
        let is_other = self.inner.output.check().is_err();
        let is_new = |path: &Path| {
            let changed = fs::symlink_metadata(path).and_then(|found| found.modified());
            changed.is_ok_and(|changed| changed >= begun)
        };
        for name in self.names() {
            let path = self.inner.output.path.join(&name);
            if (!is_left || names::snapshot_of(&name).is_none()) && (!is_other || is_new(&path)) {
                drop(fs::remove_file(path));
            }
        }
    }

    /// Stops an attempt after `done` steps. Saves its state, unless a state of as many steps is saved.
    fn save(&self, attempt: u32, done: usize, fields: &mut dyn Fields) -> Result<()> {
        let _naming = self.naming();
        let is_enough = |state: &State| {
            state.seconds.is_some() || matches!(state.paused, Some(Ok(saved)) if saved >= done)
        };
        if self.attempts().values().any(is_enough) {
            return Ok(());
        }
        let saved = match self.steps_of_an_earlier_state(done) {
            Some(earlier) => Ok(earlier),
            None => self.inner.output.check().and_then(|()| self.keep(attempt, done, fields)).map(|()| done),
        };
        if let Some(state) = self.attempts().get_mut(&attempt) {
            state.paused = Some(saved.as_ref().copied().map_err(Error::to_string));
        }
        match saved {
            // The shot stops in any case; the report says that its state is lost.
            Err(Error::Io { .. }) => Err(Error::Cancelled),
            saved => saved.map(drop),
        }
    }

    /// Returns the number of steps of a usable state of an earlier run, if that is at least `done`.
    /// The attempt did not begin with it, because another kind of device had saved it.
    fn steps_of_an_earlier_state(&self, done: usize) -> Option<usize> {
        let is_ahead = |header: Header| header.key == self.about().key && header.done >= done;
        if !self.inner.resume || !checkpoint::header(&self.paused_path()).is_some_and(is_ahead) {
            return None;
        }
        let state = resume::saved_state(&self.inner.output.path, self.about());
        state.ok().flatten().map(|state| state.header.done)
    }

    /// Saves the state after `done` steps, and the snapshots up to that step.
    fn keep(&self, attempt: u32, done: usize, fields: &mut dyn Fields) -> Result<()> {
        self.name_snapshots(attempt)?;
        let snapshots =
            self.attempts().get(&attempt).map(|state| state.sums.snapshots.clone()).unwrap_or_default();
        let key = self.about().key.clone();
        let layout = STATE_LAYOUT;
        let header = Header { key, layout, kind: fields.kind(), done, values: fields.values(), snapshots };
        checkpoint::write(&self.paused_path(), &header, fields)
    }

    /// Prepares an attempt. Removes the files of an earlier run once, the description first. Then
    /// checks that the files can be written, so that a failure is found before the computation.
    fn begin(&self, exec: &Exec<'_>) -> Result<()> {
        let begun = Instant::now();
        let mut cleared = self.naming();
        let mut attempts = self.attempts();
        // Another attempt has committed, for example after a GPU hung.
        if attempts.values().any(|state| state.over || state.seconds.is_some()) {
            return Err(Error::Cancelled);
        }
        attempts.insert(exec.attempt, State { device: exec.device.label(), ..State::default() });
        drop(attempts);
        // A worker may take queued shots between a signal and their cancellation.
        if self.inner.stop.is_asked() {
            return Err(Error::Cancelled);
        }
        self.inner.output.check()?;
        if !*cleared {
            self.clear(exec)?;
            *cleared = true;
        }
        self.find_room()?;
        if let Some(state) = self.attempts().get_mut(&exec.attempt) {
            state.begun = Some(begun);
        }
        Ok(())
    }

    /// Removes the files of an earlier run, the description first.
    fn clear(&self, exec: &Exec<'_>) -> Result<()> {
        let (folder, number) = (&self.inner.output.path, self.about().number);
        let description = Description::of(folder, number);
        self.clear_stale(exec, description.as_ref())?;
        // Another part may be writing these files, with the same bytes.
        if self.inner.output.is_part && description.as_ref().is_none_or(|found| found.key == self.about().key)
        {
            return Ok(());
        }
        remove(&folder.join(names::side(number)))?;
        remove(&folder.join(names::record(number)))?;
        // A failure is reported when the picture is drawn.
        names::PICTURES.iter().for_each(|what| drop(fs::remove_file(names::picture(folder, number, what))));
        if !self.inner.resume {
            remove(&self.paused_path())?;
        }
        let listed = description.map(|found| found.snapshots).unwrap_or_default();
        listed
            .iter()
            .filter(|one| names::snapshot_of(&one.file) == Some(number))
            .try_for_each(|one| remove(&folder.join(&one.file)))
    }

    /// Removes a saved state of other parameters, and its snapshots except those that a description
    /// lists.
    fn clear_stale(&self, exec: &Exec<'_>, description: Option<&Description>) -> Result<()> {
        let (path, about) = (self.paused_path(), self.about());
        let Some(stale) = checkpoint::header(&path).filter(|header| header.key != about.key) else {
            return Ok(());
        };
        let is_listed = |name: &String| {
            description.is_some_and(|found| found.snapshots.iter().any(|one| one.file == *name))
        };
        for name in stale.snapshots.keys().map(|&step| names::snapshot(about.number, step)) {
            if !is_listed(&name) {
                remove(&self.inner.output.path.join(name))?;
            }
        }
        remove(&path)?;
        if self.inner.resume
            && let Some(state) = self.attempts().get_mut(&exec.attempt)
        {
            state.unusable = Some(STALE.into());
        }
        Ok(())
    }
}

/// Remembers whether files can be written. With a full disk, shots fail before they are computed.
#[derive(Debug, Default, Clone)]
pub struct Room {
    /// True if the last write failed.
    short: Arc<AtomicBool>,
}

impl Room {
    /// Takes the error of an attempt, or `None` if it has written its files.
    fn learn(&self, error: Option<&Error>) {
        match error {
            None => self.short.store(false, Ordering::Relaxed),
            Some(Error::Io { .. }) => self.short.store(true, Ordering::Relaxed),
            Some(_) => {}
        }
    }

    /// Checks that the first of the files, each with its bytes, can be created. After a failed
    /// write, also checks that the disk has room for all of them. A quota is not in the number of
    /// free bytes, so the first two are written: the record and a snapshot. Some systems report a
    /// full disk only once a file is on it.
    fn find(&self, mut files: impl Iterator<Item = (PathBuf, usize)>) -> Result<()> {
        let Some((first, bytes)) = files.next() else { return Ok(()) };
        // The files are removed, because they are dropped without a commit.
        let output = atomic::Output::create(&first)?;
        if self.short.load(Ordering::Relaxed) {
            let free = first.parent().and_then(|folder| space::free_bytes(folder).ok().flatten());
            let _first = try_to_fill(output, bytes)?;
            let Some((second, more)) = files.next() else { return Ok(()) };
            let all = (bytes + more) as u64 + files.map(|(_, bytes)| bytes as u64).sum::<u64>();
            if free.is_some_and(|free| free < all) {
                let full = io::Error::from_raw_os_error(libc::ENOSPC);
                return Err(Error::io("write", &second, full));
            }
            try_to_fill(atomic::Output::create(&second)?, more)?;
        }
        Ok(())
    }
}

/// Forces a temporary file of this size to disk.
fn try_to_fill(mut output: atomic::Output, bytes: usize) -> Result<Sealed> {
    fill(&mut output, bytes).map_err(|error| Error::io("write", output.target(), error))?;
    output.seal()
}

/// Returns the names of all files of a complete shot except its pictures.
pub fn all_files(number: usize, shot: &Shot) -> Vec<String> {
    let snapshots = snapshot_steps(shot).map(|step| names::snapshot(number, step));
    [names::record(number), names::side(number)].into_iter().chain(snapshots).collect()
}

impl shot::ShotOutput for Files {
    fn snapshot(&self, exec: &Exec<'_>, step: usize, field: &[f32]) -> Result<()> {
        let about = self.about();
        let begun = raw::begin(&self.inner.output.path.join(names::snapshot(about.number, step)), field)?;
        let is_first = self.attempts().get(&exec.attempt).is_some_and(|state| state.snapshots.is_empty());
        // One locked file protects all, because descriptors are scarce.
        let sealed = if is_first { begun.seal_locked() } else { begun.seal() }?;
        let mut attempts = self.attempts();
        let Some(state) = attempts.get_mut(&exec.attempt) else { return Err(unknown()) };
        if state.over {
            return Err(Error::Cancelled);
        }
        state.snapshots.push(sealed);
        state.sums.snapshots.insert(step, checksum(field));
        if self.inner.section_step == Some(step) {
            let seconds = time(step, about.plan.dt);
            state.picture.section = section(&about.plan.model.grid, about.shot.source, seconds, field);
        }
        Ok(())
    }

    fn finish(&self, exec: &Exec<'_>, gather: Gather, effort: Effort) -> Result<()> {
        let about = self.about();
        let record = self.inner.output.path.join(names::record(about.number));
        let side = self.inner.output.path.join(names::side(about.number));
        let _naming = self.naming();
        // The clock of a file system may be some milliseconds behind.
        let begun = SystemTime::now() - Duration::from_secs(1);
        // Another attempt has written the same files.
        if self.attempts().values().any(|state| state.seconds.is_some()) {
            return Ok(());
        }
        self.inner.output.check()?;
        let written = self.name_snapshots(exec.attempt).and_then(|()| raw::write(&record, &gather.data));
        written.inspect_err(|_| self.unname(begun))?;
        let mut attempts = self.attempts();
        let Some(state) = attempts.get_mut(&exec.attempt) else { return Err(unknown()) };
        state.sums.record = checksum(&gather.data);
        let described = about.text(&state.sums).and_then(|text| atomic::write(&side, text.as_bytes()));
        described.and_then(|()| self.inner.output.check()).inspect_err(|_| self.unname(begun))?;
        // The shot is complete; a saved state that cannot be removed does no harm.
        remove(&self.paused_path()).unwrap_or_else(|error| log::warn!("{error}"));
        state.computed = Some(effort.computed);
        state.seconds = state.begun.map(|begun| begun.elapsed().as_secs_f64());
        if self.inner.pictured {
            state.picture.line = nearest_line(&about.plan, &about.shot, &gather);
        }
        Ok(())
    }

    fn resume(&self, exec: &Exec<'_>, fields: &mut dyn Fields) -> Result<usize> {
        let left = self.left(fields);
        let mut attempts = self.attempts();
        let Some(state) = attempts.get_mut(&exec.attempt) else { return Err(unknown()) };
        match left {
            Ok(None) => Ok(0),
            Ok(Some(checkpoint)) => {
                state.sums.snapshots = checkpoint.header.snapshots.clone();
                state.begun_with = checkpoint.header.done;
                drop(attempts);
                checkpoint.copy_to(&self.paused_path(), fields)
            }
            Err(why) => {
                state.unusable = Some(why);
                Ok(0)
            }
        }
    }

    fn pauses(&self) -> bool {
        self.inner.stop.is_asked()
    }

    fn pause(&self, exec: &Exec<'_>, done: usize, fields: &mut dyn Fields) -> Result<()> {
        self.save(exec.attempt, done, fields)
    }
}

fn unknown() -> Error {
    Error::Internal("an attempt that was not started".into())
}

/// Returns the CRC-32 of the little-endian bytes.
fn checksum(data: &[f32]) -> u32 {
    let mut summed = Summed::new(io::sink());
    // The stream accepts all bytes.
    drop(raw::write_to(&mut summed, data));
    summed.sum.finalize()
}

#[cfg(test)]
mod tests {
    use testkit::command::brief;

    use super::*;
    use crate::checkpoint::Values;

    fn job(folder: &testkit::Folder) -> Job {
        fs::write(folder.at("survey.toml"), brief().replace("nt = 4", "nt = 5000")).unwrap();
        Job::load(&folder.at("survey.toml")).unwrap()
    }

    /// Another folder has the name of the run's folder now.
    #[test]
    fn failed_shot_removes_its_files_in_the_folder_of_the_run_only() {
        let folder = testkit::Folder::new();
        let job = job(&folder);
        let output = Arc::new(OutputFolder::claim(&job.folder, false).unwrap());
        let files = Files::new(&job, 1, false, &Stop::default(), &Room::default(), &output);
        let [record, side] = ["out/shot_0001.bin", "out/shot_0001.json"].map(|name| folder.at(name));
        let begun = SystemTime::now() - Duration::from_secs(1);
        let write = || {
            fs::write(&side, "").unwrap();
            fs::File::create(&record).unwrap().set_modified(begun - Duration::from_secs(9)).unwrap();
        };
        write();
        files.unname(begun);
        assert!(!record.exists() && !side.exists());
        fs::rename(folder.at("out"), folder.at("out.1")).unwrap();
        fs::create_dir(folder.at("out")).unwrap();
        write();
        files.unname(begun);
        assert!(record.exists() && !side.exists());
    }

    #[test]
    fn state_of_the_attempt_with_most_steps_is_kept() {
        let folder = testkit::Folder::new();
        let job = job(&folder);
        let output = Arc::new(OutputFolder::claim(&job.folder, false).unwrap());
        let begin = |resume| {
            let files = Files::new(&job, 1, resume, &Stop::default(), &Room::default(), &output);
            (1..=3).for_each(|attempt| drop(files.attempts().insert(attempt, State::default())));
            files
        };
        let done = |files: &Files| checkpoint::header(&files.paused_path()).map(|header| header.done);
        let files = begin(false);
        for (attempt, steps, saved) in [(1, 2, 2), (2, 3, 3), (3, 1, 3)] {
            files.save(attempt, steps, &mut Values(Vec::new())).unwrap();
            assert_eq!((done(&files), files.paused()), (Some(saved), Some(Ok(saved))));
        }
        // That of an earlier run, too, if its snapshot is there.
        begin(true).save(1, 1, &mut Values(Vec::new())).unwrap();
        assert_eq!(done(&files), Some(1));
        let field = vec![0.0; files.about().plan.model.grid.cells()];
        raw::write(&folder.at("out").join(names::snapshot(1, 0)), &field).unwrap();
        let earlier = begin(true);
        earlier.attempts().get_mut(&1).unwrap().sums.snapshots.insert(0, checksum(&field));
        earlier.save(1, 3, &mut Values(Vec::new())).unwrap();
        let files = begin(true);
        files.save(2, 2, &mut Values(Vec::new())).unwrap();
        assert_eq!((done(&files), files.paused()), (Some(3), Some(Ok(3))));
        // But not that of another version.
        let header = checkpoint::header(&files.paused_path()).unwrap();
        let header = Header { layout: header.layout + 1, ..header };
        checkpoint::write(&files.paused_path(), &header, &mut Values(Vec::new())).unwrap();
        let refused = resume::saved_state(&job.folder, files.about()).err();
        assert!(refused.is_some_and(|why| why.contains("another version")));
    }
}
