//! NVIDIA's cards, through their driver, which is looked for at run time.
//!
//! | file | what it is |
//! |---|---|
//! | `driver` | the driver's library: its functions, their status a plain number |
//! | `status` | what each status means to the scheduler |
//! | `nvml`, `probe` | which cards there are, without touching one |
//! | `card` | a card: what is known of it, and what failures mean there |
//! | `life`, `host_pool`, `pool`, `module`, `shared` | what a context keeps |
//! | `context`, `primary` | a context, and the one that the process has of a card |
//! | `function`, `memory`, `pinned`, `event` | what belongs to a context |
//! | `graph` | launches that come again and again, as one |
//! | `stream` | the queue of a slot, with all that a propagator does |

mod card;
mod context;
mod driver;
mod event;
mod function;
mod graph;
mod host_pool;
mod life;
mod memory;
mod module;
mod nvml;
mod pinned;
mod pool;
mod primary;
mod probe;
mod shared;
mod status;
mod stream;

use std::sync::{Arc, Mutex, PoisonError};

pub use card::Card;
pub use driver::left_behind;
pub use event::{Download, Event};
pub use function::{Function, Params};
pub use graph::{Graphs, Launches};
pub use memory::{Block, granted};
pub use module::Ptx;
pub use pinned::{Number, Pinned};
pub use stream::Stream;

use self::primary::PrimaryContext;
use super::{Backend, Lane, Queue};
use crate::device::{BackendKind, DeviceInfo};
use crate::error::{Error, Result};

/// The cards that this process may use; none where there is no driver.
#[derive(Default)]
pub struct CudaBackend {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    primaries: Vec<Arc<PrimaryContext>>,
    notes: Vec<String>,
}

impl CudaBackend {
    pub fn new() -> Self {
        CudaBackend::default()
    }

    fn primary(&self, ordinal: u32) -> Result<Arc<PrimaryContext>> {
        let seen = self.seen();
        let primary = seen.primaries.iter().find(|primary| primary.card().info().ordinal == ordinal);
        primary.cloned().ok_or_else(|| {
            let accepted = format!("one of the {} that were found", seen.primaries.len());
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
        let primaries = match driver::Driver::get() {
            Ok(driver) => found.cards.into_iter().map(|card| PrimaryContext::of(driver, card)).collect(),
            Err(_) => Vec::new(),
        };
        *self.seen() = Seen { primaries, notes: found.notes };
        Ok(infos)
    }

    fn notes(&self) -> Vec<String> {
        self.seen().notes.clone()
    }

    fn free_bytes(&self, ordinal: u32) -> Result<u64> {
        Ok(self.primary(ordinal)?.free_bytes())
    }

    fn open(&self, ordinal: u32, _slot: u32, _slots: u32) -> Result<Box<dyn Queue>> {
        Ok(Box::new(Stream::open(&*self.primary(ordinal)?)?))
    }

    fn renew(&self, ordinal: u32) {
        if let Ok(primary) = self.primary(ordinal) {
            primary.renew();
        }
    }
}

impl Queue for Stream {
    /// A task on top of another is counted for itself: the other is still inside when it has gone.
    fn enter(&self) -> Result<()> {
        self.context.come();
        self.context.enter().inspect_err(|_| self.context.go())
    }

    fn finish(&self) -> Result<()> {
        let done = Stream::finish(self);
        self.context.go();
        done
    }

    fn resume(&self) {
        self.context.resume();
    }

    fn lane(&self) -> Lane<'_> {
        Lane::Cuda(self)
    }

    fn relieve(&self) {
        Stream::relieve(self);
    }
}
