//! Parallel loops: one task whose work is a range of numbers, done chunk by chunk by all idle
//! workers.
//!
//! **Participants.** A range is a task like any other; the worker that runs it is the *owner*.
//! While the owner is inside, other workers may participate as *helpers*. A helper joins by a
//! hidden task with the range's masks and memory. While there are elements to steal, one such task
//! is queued, and the worker that takes it submits the next one. So a worker that becomes free
//! joins by the ordinary rules of the queue, and a helper task that is lost, late or superfluous
//! does no harm.
//!
//! **Division.** [`division`] hands out the elements. Each participant has a share and takes chunks
//! from its front. When it is empty, the participant steals the upper half of the largest share,
//! also while the owner of that share is busy with a long element.
//!
//! **End.** The owner returns when all elements are done, or when something ends the range before.
//! In both cases it first waits for the helpers: no new chunk begins, those in flight end. So
//! waiting, cancelling, releasing, dependencies and shutdown need no rules for ranges.
//!
//! | a chunk ends with | the scheduler |
//! |---|---|
//! | an error of its own, a panic, `Cancelled` | ends the range with that error, which names the elements |
//! | out of memory | tries half of it; leaves a single element to other devices, and at last applies the rules for tasks |
//! | a device error | hands out its elements again and judges the device; ends the range if elements fail on too many devices |

pub mod division;
pub mod faults;
pub mod work;

pub use division::{ChunkSizer, Partitioner, Share, length};
pub use faults::{Fault, FaultLog};
pub use work::{RangeJob, RangeOwner, RangeRun};
