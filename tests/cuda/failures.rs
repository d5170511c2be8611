//! Everything that can go wrong, on purpose.
