//! The account of one device's memory: a limit, and leases that give themselves back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shared by the device's workers.
#[derive(Debug)]
pub struct Ledger {
    limit: u64,
    book: Mutex<LedgerState>,
}

#[derive(Debug, Default)]
struct LedgerState {
    leased: u64,
    peak: u64,
}

/// So many bytes of a device, until it is dropped.
#[derive(Debug)]
pub struct Lease {
    ledger: Arc<Ledger>,
    bytes: u64,
}

impl Ledger {
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Ledger { limit, book: Mutex::default() })
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub fn leased(&self) -> u64 {
        self.book().leased
    }

    /// The most that was ever leased at one time.
    pub fn peak(&self) -> u64 {
        self.book().peak
    }

    /// `None` if the limit does not allow that much beside what is leased.
    pub fn lease(self: &Arc<Self>, bytes: u64) -> Option<Lease> {
        let mut book = self.book();
        let leased = book.leased.checked_add(bytes).filter(|&leased| leased <= self.limit)?;
        book.leased = leased;
        book.peak = book.peak.max(leased);
        drop(book);
        Some(Lease { ledger: self.clone(), bytes })
    }

    /// Nothing in here can panic half-way, so a poisoned book is still right.
    fn book(&self) -> MutexGuard<'_, LedgerState> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.ledger.book().leased -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_up_to_the_limit_and_takes_back() {
        let ledger = Ledger::new(10);
        let six = ledger.lease(6).unwrap();
        assert!(ledger.lease(5).is_none());
        let four = ledger.lease(4).unwrap();
        assert_eq!((ledger.leased(), ledger.peak()), (10, 10));
        drop(six);
        assert_eq!((ledger.leased(), ledger.peak()), (4, 10));
        drop(four);
        assert_eq!(ledger.leased(), 0);
        assert!(ledger.lease(u64::MAX).is_none());
    }
}
