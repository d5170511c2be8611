//! How tasks are taken: all that can be known to be wrong with one is said here, and nothing of one that is refused is left.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use super::common::Book;
use super::light::{Bare, Code, Hand, Item, NO_DEVICE, STOPPING, Slots};
use super::scheduler::Scheduler;
use super::task::{Task, TaskId};
use crate::error::{Error, Result};

impl Scheduler {
    /// Takes a task. Refused at once, with the numbers, if no device could ever run it.
    pub fn submit(&self, mut task: Task) -> Result<TaskId> {
        if task.is_light() {
            return self.submit_light(Code::Boxed(task.job), task.detached);
        }
        let ordered = task.ordered;
        let mut book = self.lock()?;
        self.check(&book, &task)?;
        if let Err(error) = self.prepare(&mut book, &mut task) {
            // What it has put into the plan for others may have ended.
            self.shared.settle(book);
            return Err(error);
        }
        let id = book.core.admit(self.shared.now(), task)?;
        if ordered {
            self.line.push(id);
        }
        self.shared.settle(book);
        self.fail_if_deserted();
        Ok(id)
    }

    /// Takes all of the tasks, or none: then the error is that of the first that can't be taken.
    pub fn submit_many(&self, tasks: Vec<Task>) -> Result<Vec<TaskId>> {
        // What is refused is dropped after the book is open again: that is code of the caller's.
        let mut refused = Vec::new();
        let mut left;
        let mut book = self.lock()?;
        for task in &tasks {
            self.check(&book, task)?;
        }
        let me = self.shared.me();
        let hand = me.as_ref().map(|me| &me.hand);
        let light = tasks.iter().filter(|task| task.is_light()).count() as u64;
        let phase = match self.shared.light.accept(hand, light) {
            Ok(phase) => phase,
            Err(refused) => {
                // Why is read in the book.
                drop(book);
                return Err(self.refused(refused, light));
            }
        };
        let now = self.shared.clock();
        let mut ids = Vec::with_capacity(tasks.len());
        let mut items = Vec::with_capacity(light as usize);
        let mut ordered = Vec::new();
        let mut failed = None;
        left = tasks.into_iter();
        for mut task in left.by_ref() {
            let in_line = task.ordered;
            let taken = if task.is_light() {
                self.shared.light.slots.take().map(|(slot, position)| {
                    let generation = slot.fill(Some(Code::Boxed(task.job)), task.detached, phase, now);
                    let id = self.shared.light.slots.id(position, generation);
                    items.push(id);
                    id
                })
            } else if let Err(error) = self.prepare(&mut book, &mut task) {
                refused.push(task);
                Err(error)
            } else {
                book.core.admit(self.shared.now(), task)
            };
            match taken {
                Ok(id) => {
                    ids.push(id);
                    ordered.extend(in_line.then_some(id));
                }
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        if let Some(error) = failed {
            return Err(self.withdraw(book, ids, light, phase, error));
        }
        ordered.into_iter().for_each(|id| self.line.push(id));
        for id in items {
            self.shared.light.queues.push(hand, Item::Known(id));
        }
        self.shared.settle(book);
        self.after_push();
        Ok(ids)
    }

    /// Takes back what a half-way refused list has left; nothing of it has begun.
    fn withdraw(
        &self,
        mut book: MutexGuard<'_, Book>,
        ids: Vec<TaskId>,
        light: u64,
        phase: u8,
        error: Error,
    ) -> Error {
        for &id in ids.iter().filter(|id| !Slots::is_light(**id)) {
            let _ = book.core.cancel(id);
        }
        self.shared.settle(book);
        let mut left = light;
        for id in ids {
            if let Ok((slot, generation)) = self.shared.light.slots.find(id)
                && self.shared.end_queued(None, slot, generation, id, &Error::Cancelled)
            {
                left -= 1;
            }
            let _ = self.release(id);
        }
        self.shared.light.refuse(left);
        self.shared.count_ended(None, phase, left);
        error
    }

    /// Takes a task of which nothing is stated, and that nobody will ask for: it has no id.
    pub(crate) fn submit_bare_unknown(&self, code: Bare) -> Result<()> {
        self.shared.born.check()?;
        let me = self.shared.me();
        let hand = me.as_ref().map(|me| &me.hand);
        let phase = self.accept(hand, 1)?;
        self.shared.light.queues.push(hand, Item::Loose { code: Code::Bare(code), phase });
        self.after_push();
        Ok(())
    }

    /// Takes a task of which nothing is stated.
    pub(crate) fn submit_bare(&self, code: Bare, detached: bool) -> Result<TaskId> {
        self.submit_light(Code::Bare(code), detached)
    }

    fn submit_light(&self, code: Code, detached: bool) -> Result<TaskId> {
        self.shared.born.check()?;
        let me = self.shared.me();
        let hand = me.as_ref().map(|me| &me.hand);
        let light = &self.shared.light;
        let phase = self.accept(hand, 1)?;
        let (slot, position) = light.slots.take().inspect_err(|_| self.refuse(phase, 1))?;
        let generation = slot.fill(Some(code), detached, phase, self.shared.clock());
        let id = light.slots.id(position, generation);
        light.queues.push(hand, Item::Known(id));
        self.after_push();
        Ok(id)
    }

    fn accept(&self, hand: Option<&Hand>, tasks: u64) -> Result<u8> {
        self.shared.light.accept(hand, tasks).map_err(|refused| self.refused(refused, tasks))
    }

    #[cold]
    fn refused(&self, (phase, gate): (u8, u8), tasks: u64) -> Error {
        self.refuse(phase, tasks);
        self.shared.refusal(gate)
    }

    #[cold]
    fn refuse(&self, phase: u8, tasks: u64) {
        self.shared.light.refuse(tasks);
        self.shared.count_ended(None, phase, tasks);
    }

    /// After items were pushed: somebody comes for them, or nobody ever will.
    fn after_push(&self) {
        self.shared.call_any();
        if self.shared.light.gate.load(Ordering::SeqCst) & (NO_DEVICE | STOPPING) != 0 {
            self.shared.end_all_queued();
        }
        self.fail_if_deserted();
    }

    /// The system gives no thread at all.
    fn fail_if_deserted(&self) {
        if self.shared.crew.is_deserted() {
            self.shared.fail_deserted();
        }
    }

    fn check(&self, book: &Book, task: &Task) -> Result<()> {
        if book.core.closed {
            return Err(Error::Shutdown { what: "submitting a task" });
        }
        for &before in task.after.iter().filter(|before| Slots::is_light(**before)) {
            self.shared.light.slots.find(before)?;
        }
        book.core.check(task)
    }

    /// All that could keep a checked task from being admitted, which would drop the caller's code with the book locked.
    fn prepare(&self, book: &mut Book, task: &mut Task) -> Result<()> {
        for before in &mut task.after {
            *before = self.shared.in_plan(book, *before)?;
        }
        book.core.tasks.check_room()
    }
}
