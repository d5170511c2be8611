//! Account of one device's memory: a limit, and leases that return their bytes when dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory account of a device, shared by its workers.
#[derive(Debug, Default)]
pub struct Ledger {
    limit: AtomicU64,
    leased: AtomicU64,
    peak: AtomicU64,
}

/// Leased bytes of a device. Dropping it returns them.
#[derive(Debug)]
pub struct Lease {
    /// `None`: no bytes are leased.
    ledger: Option<Arc<Ledger>>,
    bytes: u64,
}

impl Ledger {
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Ledger { limit: limit.into(), ..Ledger::default() })
    }

    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit. Leases stay, even if they exceed it.
    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    pub fn leased(&self) -> u64 {
        self.leased.load(Ordering::Relaxed)
    }

    /// Returns the largest number of bytes leased at the same time.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Leases bytes. Returns `None` if they exceed the limit together with the leased ones.
    pub fn lease(self: &Arc<Self>, bytes: u64) -> Option<Lease> {
        if bytes == 0 {
            return Some(Lease { ledger: None, bytes });
        }
        let within = |leased: u64| leased.checked_add(bytes).filter(|&sum| sum <= self.limit());
        let before = self.leased.fetch_update(Ordering::Acquire, Ordering::Relaxed, within).ok()?;
        self.peak.fetch_max(before + bytes, Ordering::Relaxed);
        Some(Lease { ledger: Some(self.clone()), bytes })
    }
}

impl Lease {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(ledger) = &self.ledger {
            ledger.leased.fetch_sub(self.bytes, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_end_at_the_limit_and_return_when_dropped() {
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
