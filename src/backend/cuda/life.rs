//! Whether a context is in use, and how it ended.

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Life {
    Alive,
    /// The driver has destroyed it, with all that was in it.
    Gone,
    /// This process has released it, and the driver still has it, for another library or because it failed.
    GivenUp,
}
