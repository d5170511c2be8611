//! State of a context: in use, or how it ended.

#[derive(Clone, Copy, PartialEq)]
pub(super) enum ContextState {
    Alive,
    /// The driver has destroyed it with all its objects.
    Destroyed,
    /// This process has released it, and the driver still has it: another library retains it, or it
    /// failed.
    Released,
}
