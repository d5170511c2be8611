//! The C ABI: the only floor that knows C.
