//! What tasks have found out about devices, for the tasks after them: of this process, and of later ones if it is kept.
//!
//! To the scheduler both what it is about and what was found are words. They are kept where the rates are, with the same
//! rules; see [`rate_store`](super::rate_store).

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::rate_store::{Entries, Finding, now};
use crate::device::DeviceInfo;

#[derive(Debug)]
pub struct Findings {
    /// From earlier processes.
    kept: Entries,
    /// Of this one.
    own: Mutex<Entries>,
}

impl Findings {
    pub fn new(kept: Entries) -> Findings {
        Findings { kept, own: Mutex::default() }
    }

    pub fn of(&self, device: &DeviceInfo, subject: &str) -> Option<String> {
        let own = self.lock();
        own.finding(device, subject).or_else(|| self.kept.finding(device, subject)).map(str::to_owned)
    }

    pub fn found(&self, device: &DeviceInfo, subject: &str, text: &str) {
        self.lock().found(device, subject, Finding { text: text.to_owned(), when: now() });
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of this process.
    pub fn own(&self) -> Entries {
        self.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::BackendKind;

    #[test]
    fn the_own_come_first_and_alone_are_to_be_kept() {
        let [a, b] = ["a", "b"].map(|name| DeviceInfo::new("X", BackendKind::Cuda, 0, name));
        let mut kept = Entries::default();
        kept.found(&a, "best", Finding { text: "old".into(), when: 1 });
        let findings = Findings::new(kept);
        assert_eq!((findings.of(&a, "best").as_deref(), findings.of(&b, "best")), (Some("old"), None));
        assert!(findings.own().is_empty());
        findings.found(&a, "best", "new");
        assert_eq!(findings.of(&a, "best").as_deref(), Some("new"));
        assert_eq!(findings.own().finding(&a, "best"), Some("new"));
    }
}
