//! A member: what it knows, what it is to have written down, and who of its threads does that.
//!
//! Within the process, `desk` is held by the thread that has the door or is about to take it, `book` for
//! moments by whoever changes what this member is to have written down. What is changed there while another
//! thread has the door is written by that one when he leaves (see [`Seat::settle`]), so giving a lease
//! back waits for no thread of the process, its own included.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::book::Book;
use super::door::PATIENCE;
use super::layout::Head;
use super::sitting::{self, Boot, Sitting};
use super::{folder, sys};
use crate::error::{Error, Result};
use crate::node::Device;
use crate::node::line::{Member, Stopped};

/// The ticket of one whose line is gone.
const LOST: u64 = u64::MAX;

/// What the thread at the door knows.
#[derive(Debug)]
pub(super) struct Desk {
    pub head: Head,
    pub stopped: Stopped,
    /// The other members, as they were read when it came in.
    pub others: Vec<Member>,
    /// When it last looked.
    pub looked: u64,
    /// When a thread last found the door kept shut, and by whom.
    refused: Option<(u64, Error)>,
}

#[derive(Debug)]
pub(super) struct Seat {
    /// Changes only while `desk` is held, when the file has been deleted.
    sitting: Mutex<Arc<Sitting>>,
    /// How often it has.
    pub moves: AtomicU64,
    candidates: Vec<PathBuf>,
    pub folder: PathBuf,
    /// By the scheduler's device index.
    uuids: Vec<Option<String>>,
    /// By the scheduler's device index: which of the places.
    pub places: Vec<Option<usize>>,
    pub book: Mutex<Book>,
    desk: Mutex<Desk>,
    born: u64,
    boot: Boot,
    /// The count of changes that we have made or seen.
    pub known: AtomicU64,
    /// The count at which others had last changed something, as far as a thread at the door has seen.
    pub foreign: AtomicU64,
    /// When to look again though nothing changes. 0: never.
    pub due: AtomicU64,
}

impl Seat {
    /// In the first of the folders that will do.
    pub fn join(candidates: Vec<PathBuf>, devices: &[Option<Device<'_>>]) -> Result<Seat> {
        let (boot, born) = (sitting::boot(), sys::forks());
        let (folder, file) = folder::first(&candidates)?;
        let (sitting, (head, member, places)) = Sitting::take(&folder, file, boot, devices)?;
        let desk =
            Desk { head, stopped: Stopped::default(), others: Vec::new(), looked: sys::now(), refused: None };
        Ok(Seat {
            sitting: Mutex::new(Arc::new(sitting)),
            moves: AtomicU64::new(0),
            candidates,
            folder,
            uuids: devices.iter().map(|device| device.map(|device| device.uuid.to_owned())).collect(),
            places,
            book: Mutex::new(Book { member, ..Book::default() }),
            desk: Mutex::new(desk),
            born,
            boot,
            known: AtomicU64::new(head.changes),
            foreign: AtomicU64::new(head.changes),
            due: AtomicU64::new(0),
        })
    }

    pub fn sitting(&self) -> Arc<Sitting> {
        Arc::clone(&self.sitting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether this is the process that joined.
    pub fn is_here(&self) -> bool {
        self.born == sys::forks()
    }

    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the door, for the calling thread. A thread that finds the door kept shut fails, and with it those that
    /// waited behind it: each would wait as long again.
    pub fn enter(&self) -> Result<MutexGuard<'_, Desk>> {
        if !self.is_here() {
            return Err(Error::Forked);
        }
        let came = sys::now();
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, error)) = desk.refused.as_ref().filter(|(when, _)| *when >= came) {
            return Err(error.clone());
        }
        if let Err(error) = self.open(&mut desk, PATIENCE) {
            desk.refused = Some((sys::now(), error.clone()));
            return Err(error);
        }
        let sitting = self.sitting();
        match sitting.others(&desk.head) {
            Ok(others) => desk.others = others,
            Err(error) => {
                let _ = sitting.leave();
                return Err(sitting.no(error));
            }
        }
        Ok(desk)
    }

    fn open(&self, desk: &mut Desk, patience: Duration) -> Result<()> {
        for _ in 0..8 {
            let sitting = self.sitting();
            sitting.enter(patience)?;
            let gone = sitting.is_gone().map_err(|error| sitting.no(error));
            match gone.and_then(|gone| if gone { Ok(None) } else { sitting.head(&self.boot).map(Some) }) {
                Ok(Some(head)) => {
                    self.read(desk, head);
                    return Ok(());
                }
                Ok(None) => {
                    // Nobody who comes now sees it.
                    let _ = sitting.leave();
                    self.move_on()?;
                }
                Err(error) => {
                    let _ = sitting.leave();
                    return Err(error);
                }
            }
        }
        Err(self.sitting().no("somebody deletes it again and again"))
    }

    fn read(&self, desk: &mut Desk, head: Head) {
        if head.changes > self.known.load(Ordering::Relaxed) {
            self.known.store(head.changes, Ordering::Relaxed);
            self.foreign.store(head.changes, Ordering::Relaxed);
        }
        desk.head = head;
        let mut book = self.book();
        // One of another file.
        if book.member.ticket == LOST {
            book.member.ticket = desk.head.next_ticket;
            desk.head.next_ticket += 1;
            book.changed = true;
        }
    }

    /// Takes a record of the file that those who come now take, with all that this member holds.
    fn move_on(&self) -> Result<()> {
        let slots: Vec<u32> = self.book().member.places.iter().map(|place| place.slots).collect();
        let device = |(uuid, place): (&'_ Option<String>, &Option<usize>)| {
            Some((uuid.clone()?, slots.get((*place)?).copied()?))
        };
        let devices: Vec<_> = self.uuids.iter().zip(&self.places).map(device).collect();
        let devices: Vec<_> = devices
            .iter()
            .map(|device| device.as_ref().map(|(uuid, slots)| Device { uuid, slots: *slots }))
            .collect();
        let (folder, file) = folder::first(&self.candidates)?;
        let (sitting, (head, member, _)) = Sitting::take(&folder, file, self.boot, &devices)?;
        log::warn!(
            "leases: {} was deleted while it was in use; what this process holds is in {} now",
            self.sitting().path.display(),
            sitting.path.display()
        );
        let mut book = self.book();
        let mine = &mut book.member;
        mine.id = member.id;
        // The same devices in the same order, which the new file may have other numbers for.
        for held in &mut mine.holds {
            let place = mine.places.iter().position(|place| place.device == held.device);
            held.device = place.map_or(held.device, |place| member.places[place].device);
        }
        for (place, now) in mine.places.iter_mut().zip(&member.places) {
            place.device = now.device;
        }
        if mine.waits() {
            mine.ticket = LOST;
        }
        book.changed = true;
        self.known.store(head.changes, Ordering::Relaxed);
        self.foreign.store(head.changes, Ordering::Relaxed);
        *self.sitting.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(sitting);
        self.moves.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Writes what has changed, and leaves the door; whether all is written.
    pub fn close(&self, mut desk: MutexGuard<'_, Desk>) -> bool {
        let written = self.write(&mut desk, &mut self.book());
        let sitting = self.sitting();
        let left = sitting.leave();
        drop(desk);
        match written.and(left) {
            Ok(()) => true,
            Err(error) => {
                if self.is_here() {
                    log::warn!("leases: {}: {error}", sitting.path.display());
                }
                false
            }
        }
    }

    /// At the door.
    pub fn write(&self, desk: &mut Desk, book: &mut Book) -> std::io::Result<()> {
        if !book.changed {
            return Ok(());
        }
        let sitting = self.sitting();
        sitting.write(&book.member)?;
        desk.head.changes += 1;
        // Before others see it, so that this member does not take it for a change of theirs.
        self.known.store(desk.head.changes, Ordering::Relaxed);
        sitting.write_head(&desk.head)?;
        book.changed = false;
        Ok(())
    }

    /// Has written what is not yet, unless another thread of the process is at the door: it looks here
    /// after it has left. `patience`: how long others are waited for.
    pub fn settle(&self, patience: Duration) {
        while self.is_here() && self.book().changed {
            let Ok(mut desk) = self.desk.try_lock() else { return };
            if let Err(error) = self.open(&mut desk, patience) {
                if !patience.is_zero() {
                    log::warn!("leases: {error}; it is tried again");
                }
                return;
            }
            if !self.close(desk) {
                return;
            }
        }
    }

    /// As [`Seat::settle`], however long it takes others to leave the door.
    pub fn settle_patiently(&self) {
        self.settle(PATIENCE);
    }
}
