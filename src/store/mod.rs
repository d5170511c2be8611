//! The rate store: measured rates and findings of tasks, stored between runs by kind of device.
//!
//! | file | contents |
//! |---|---|
//! | `entries.rs` | rates and findings in memory |
//! | `format.rs` | the text that holds them |
//! | `rate_store.rs` | loading and saving the text |
//! | `findings.rs` | the findings of this process and of earlier ones |

pub mod entries;
pub mod findings;
pub mod format;
pub mod rate_store;
