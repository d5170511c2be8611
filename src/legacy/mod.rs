//! The old packages' entry points, with the oddities that their callers rely on.
