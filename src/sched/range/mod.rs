//! Parallel loops: one task whose work is a range of numbers, done piece by piece by all workers that
//! have nothing better to do.
//!
//! **Who works.** The range is a task like any other; the worker that runs it is the *host*. While the host is in
//! it, other workers may be guests: a guest comes by an *invitation*, a hidden task with the same masks and the
//! same memory. As long as there is something to steal, one invitation is in the queue, and who takes it
//! posts the next. So a worker that becomes free comes by the ordinary rules of the queue, and
//! an invitation that is lost, late or too many does no harm.
//!
//! **Who does what.** `range/partitioner.rs` hands out the elements: each participant has a share, takes pieces
//! from its front, and steals the upper half of the largest share when its own is empty, also while
//! the owner is busy with a long element. `range/chunk_sizer.rs` says how large a piece is.
//!
//! **How it ends.** The host returns when all is done, or when something ends the range before; in both cases it first lets
//! the guests go: no new piece begins, those in flight end. So whatever is asked of the task
//! (wait, cancel, release, dependencies, destroy) needs to know nothing of ranges.
//!
//! | a piece ends with | what follows |
//! |---|---|
//! | an error of its own, a panic, `Cancelled` | the range ends with that; the words name the elements |
//! | out of memory | half of it is tried; a single element is left to other devices, at last to the queue's rules for a task |
//! | a device error | its elements are loose again, the device is the scheduler's to judge; the second time for the same elements they are to blame, and the range ends |

mod chunk_sizer;
mod glue;
pub mod partitioner;
pub mod work;
