//! Findings of tasks about devices, for later tasks of this process and of later processes.
//!
//! To the scheduler a subject and its finding are text. They are stored beside the rates, by the
//! same rules; see [`store`](super).

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::entries::{Entries, Finding};
use super::rate_store::now;
use crate::device::DeviceInfo;

#[derive(Debug)]
pub struct Findings {
    /// Findings of earlier processes.
    stored: Entries,
    /// Findings of this process.
    own: Mutex<Entries>,
}

impl Findings {
    pub fn new(stored: Entries) -> Findings {
        Findings { stored, own: Mutex::default() }
    }

    /// Returns the finding about a subject on such a device, that of this process first.
    pub fn get(&self, device: &DeviceInfo, subject: &str) -> Option<String> {
        let own = self.lock();
        own.finding(device, subject).or_else(|| self.stored.finding(device, subject)).map(str::to_owned)
    }

    pub fn record(&self, device: &DeviceInfo, subject: &str, text: &str) {
        self.lock().add_finding(device, subject, Finding { text: text.to_owned(), when: now() });
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the findings of this process.
    pub fn own(&self) -> Entries {
        self.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::BackendKind;

    #[test]
    fn own_findings_come_first_and_alone_are_saved() {
        let [a, b] = ["a", "b"].map(|name| DeviceInfo::new("X", BackendKind::Cuda, 0, name));
        let mut stored = Entries::default();
        stored.add_finding(&a, "best", Finding { text: "old".into(), when: 1 });
        let findings = Findings::new(stored);
        assert_eq!((findings.get(&a, "best").as_deref(), findings.get(&b, "best")), (Some("old"), None));
        assert!(findings.own().is_empty());
        findings.record(&a, "best", "new");
        assert_eq!(findings.get(&a, "best").as_deref(), Some("new"));
        assert_eq!(findings.own().finding(&a, "best"), Some("new"));
    }
}
