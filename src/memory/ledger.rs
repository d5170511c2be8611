//! Account of one device's memory: a limit, and leases that return their bytes when they are
//! dropped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory account of a device, shared by its workers.
#[derive(Debug)]
pub struct Ledger {
    limit: u64,
    state: Mutex<LedgerState>,
}

#[derive(Debug, Default)]
struct LedgerState {
    leased: u64,
    peak: u64,
}

/// Leased bytes of a device. Dropping it returns them.
#[derive(Debug)]
pub struct Lease {
    ledger: Arc<Ledger>,
    bytes: u64,
}

impl Ledger {
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Ledger { limit, state: Mutex::default() })
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub fn leased(&self) -> u64 {
        self.lock().leased
    }

    /// Returns the largest number of bytes leased at the same time.
    pub fn peak(&self) -> u64 {
        self.lock().peak
    }

    /// Leases bytes. Returns `None` if the limit does not allow them beside the leased ones.
    pub fn lease(self: &Arc<Self>, bytes: u64) -> Option<Lease> {
        let mut state = self.lock();
        let leased = state.leased.checked_add(bytes).filter(|&leased| leased <= self.limit)?;
        state.leased = leased;
        state.peak = state.peak.max(leased);
        drop(state);
        Some(Lease { ledger: self.clone(), bytes })
    }

    /// Locks the state. No code under the lock can panic half-way, so a poisoned state is still
    /// valid.
    fn lock(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.ledger.lock().leased -= self.bytes;
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
