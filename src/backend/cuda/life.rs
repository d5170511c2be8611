//! Whether a context is in use, and how it ended.

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Life {
    Alive,
    /// With all that was in it.
    Gone,
    /// We have given it up, and the driver still has it, for another library or because it failed.
    GivenUp,
}
