//! Parallel loops: one task whose work is a range of numbers, done chunk by chunk by all idle
//! workers. `docs/ranges.md` has the rules.
//!
//! A worker that becomes free joins by a hidden helper task, so by the ordinary rules of the queue.
//! A helper task that is lost, late or superfluous does no harm.
//!
//! The owner returns when all elements are done, or when something ends the range before. In both
//! cases it first waits for the helpers: no new chunk begins, those in flight end. So waiting,
//! cancelling, releasing, dependencies and shutdown need no rules for ranges.

pub mod division;
pub mod faults;
pub mod work;

pub use division::{ChunkSizer, Participant, Partitioner, length};
pub use faults::{ChunkFault, FaultLog};
pub use work::{RangeJob, RangeOwner, RangeRun};
