//! NVIDIA's cards, through their driver, which is looked for at run time.
//!
//! | file | what it is |
//! |---|---|
//! | `driver` | the driver's library: its functions, their status a plain number |
//! | `status` | what each status means to the scheduler |
//! | `nvml`, `probe` | which cards there are, without touching one |
//! | `card`, `context` | a card in this process, and its primary context |
//! | `module`, `memory`, `pinned`, `event`, `shared` | what belongs to a context |
//! | `graph` | launches that come again and again, as one |
//! | `stream` | the queue of a slot, with all that a propagator does |

mod card;
mod context;
mod driver;
mod event;
mod graph;
mod memory;
mod module;
mod nvml;
mod pinned;
mod probe;
mod shared;
mod status;
mod stream;

use std::sync::{Arc, Mutex, PoisonError};

pub use card::Card;
pub use driver::left_behind;
pub use event::{Download, Event};
pub use graph::{Graphs, Launches};
pub use memory::{Block, granted};
pub use module::{Function, Params, Ptx};
pub use pinned::{Number, Pinned};
pub use stream::Stream;

use super::{Backend, Queue};
use crate::device::{BackendKind, DeviceInfo};
use crate::error::{Error, Result};

/// The cards that this process may use; none where there is no driver.
#[derive(Default)]
pub struct CudaBackend {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    cards: Vec<Arc<Card>>,
    notes: Vec<String>,
}

impl CudaBackend {
    pub fn new() -> Self {
        CudaBackend::default()
    }

    fn card(&self, ordinal: u32) -> Result<Arc<Card>> {
        let seen = self.seen();
        let card = seen.cards.iter().find(|card| card.info().ordinal == ordinal);
        card.cloned().ok_or_else(|| {
            let accepted = format!("one of the {} that were found", seen.cards.len());
            Error::argument("the card's number", ordinal, accepted)
        })
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for CudaBackend {
    fn kind(&self) -> BackendKind {
        BackendKind::Cuda
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        let found = probe::probe();
        let infos = found.cards.iter().map(|card| card.info.clone()).collect();
        let cards = match driver::Driver::get() {
            Ok(driver) => found.cards.into_iter().map(|card| Card::of(driver, card)).collect(),
            Err(_) => Vec::new(),
        };
        *self.seen() = Seen { cards, notes: found.notes };
        Ok(infos)
    }

    fn notes(&self) -> Vec<String> {
        self.seen().notes.clone()
    }

    fn free_bytes(&self, ordinal: u32) -> Result<u64> {
        Ok(self.card(ordinal)?.free_bytes())
    }

    fn open(&self, ordinal: u32, _slot: u32, _slots: u32) -> Result<Box<dyn Queue>> {
        Ok(Box::new(Stream::open(&self.card(ordinal)?)?))
    }

    fn renew(&self, ordinal: u32) {
        if let Ok(card) = self.card(ordinal) {
            card.renew();
        }
    }
}
