//! The primary context of a card in this process: retained when the first queue needs it and released
//! with the last, whatever schedulers they belong to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::card::Card;
use super::context::Context;
use super::driver::Driver;
use super::probe;
use crate::error::Result;

/// How long a new queue waits for the tasks that still work in a stale context.
const LEAVING: Duration = Duration::from_secs(10);

pub(super) struct PrimaryContext {
    card: Arc<Card>,
    context: Mutex<Weak<Context>>,
}

/// The context as a new queue finds it.
enum Found {
    Fit(Arc<Context>),
    /// Stale, and a task is still inside: the caller waits for it without the lock, as others may wait too.
    Left(Arc<Context>),
}

impl PrimaryContext {
    /// Returns the one of the card; the process has one for each ordinal.
    pub fn of(driver: &'static Driver, found: probe::Card) -> Arc<PrimaryContext> {
        static ALL: Mutex<BTreeMap<u32, Arc<PrimaryContext>>> = Mutex::new(BTreeMap::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(found.info.ordinal)
            .or_insert_with(|| {
                let card = Arc::new(Card::new(driver, found));
                Arc::new(PrimaryContext { card, context: Mutex::default() })
            })
            .clone()
    }

    pub fn card(&self) -> &Card {
        &self.card
    }

    /// Returns the bytes that could be allocated now: those that are free, and those that the context keeps for reuse.
    pub fn free_bytes(&self) -> u64 {
        // Upgraded before it is used: the lock must not be held where the last to hold the context drops it.
        let context = self.lock().upgrade();
        context.map_or_else(|| self.card.free_bytes(0, || None), |context| context.free_bytes())
    }

    /// Returns the context; retains one if nobody has it. A stale one is released first, when all tasks
    /// have left it.
    pub fn context(&self) -> Result<Arc<Context>> {
        let until = Instant::now() + LEAVING;
        loop {
            match self.find()? {
                Found::Fit(context) => return Ok(context),
                Found::Left(context) => context.wait_until_left(until)?,
            }
        }
    }

    fn find(&self) -> Result<Found> {
        // Declared before the lock, and so dropped after it: it may be the last to hold a context.
        let mut there;
        let mut retained = self.card.retained.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            there = self.lock().upgrade();
            match &there {
                Some(context) if !context.is_stale() => return Ok(Found::Fit(context.clone())),
                Some(context) if !context.bury(&mut retained)? => return Ok(Found::Left(context.clone())),
                Some(_) => {}
                // Nobody has it any more, and it is about to be released.
                None if *retained => {
                    retained = self.card.released.wait(retained).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                None => {}
            }
            let context = Context::retain(&self.card)?;
            *retained = true;
            *self.lock() = Arc::downgrade(&context);
            return Ok(Found::Fit(context));
        }
    }

    /// The context takes no more queues.
    pub fn renew(&self) {
        let context = self.lock().upgrade();
        if let Some(context) = context {
            context.retire();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Weak<Context>> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
