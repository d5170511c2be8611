//! Loads and saves rates and findings.

use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

use super::entries::Entries;
use crate::error::Result;

/// A storage place for one text.
pub trait Store: Debug + Send + Sync {
    /// Returns the text, or `None` if there is none. More than
    /// [`MAX_BYTES`](super::format::MAX_BYTES) bytes need not be read.
    fn load(&self) -> Result<Option<Vec<u8>>>;

    /// Replaces the text by the result of `renew`, which is called with the current text. No other
    /// process changes the text meanwhile.
    fn replace(&self, renew: &dyn Fn(Option<&[u8]>) -> String) -> Result<()>;
}

/// Returns seconds since 1970, by the machine's clock.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Returns the stored entries. If they can't be read or are invalid, logs the reason and returns
/// none.
pub fn load(store: &dyn Store) -> Entries {
    let parsed = match store.load() {
        Ok(None) => return Entries::default(),
        Ok(Some(text)) => Entries::parse(&text, now()),
        Err(error) => Err(error.to_string()),
    };
    parsed.unwrap_or_else(|why| {
        log::info!("stored rates are ignored: {why} ({store:?})");
        Entries::default()
    })
}

/// Merges the entries of this process into the stored ones. A failure is logged.
pub fn save(store: &dyn Store, learned: &Entries) {
    if learned.is_empty() {
        return;
    }
    let renew = |text: Option<&[u8]>| {
        let mut all = learned.clone();
        // An invalid text is replaced.
        all.merge(text.and_then(|text| Entries::parse(text, now()).ok()).unwrap_or_default());
        all.print()
    };
    if let Err(error) = store.replace(&renew) {
        log::info!("rates could not be saved: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::entries::{Finding, StoredRate};
    use super::*;
    use crate::device::{BackendKind, DeviceInfo};
    use crate::error::Error;

    fn device(backend: BackendKind, name: &str) -> DeviceInfo {
        DeviceInfo::new("X", backend, 0, name)
    }

    fn stored(rate: f64, samples: u64, when: u64) -> StoredRate {
        StoredRate { rate, samples, when }
    }

    fn finding(text: &str, when: u64) -> Finding {
        Finding { text: text.into(), when }
    }

    #[derive(Debug, Default)]
    struct MemoryStore(Mutex<Option<Vec<u8>>>);

    impl Store for MemoryStore {
        fn load(&self) -> Result<Option<Vec<u8>>> {
            Ok(self.0.lock().unwrap().clone())
        }

        fn replace(&self, renew: &dyn Fn(Option<&[u8]>) -> String) -> Result<()> {
            let mut there = self.0.lock().unwrap();
            let text = renew(there.as_deref());
            *there = Some(text.into_bytes());
            Ok(())
        }
    }

    #[test]
    fn newer_entry_of_two_processes_counts() {
        let store = MemoryStore::default();
        let (a, b) = (device(BackendKind::Cuda, "a"), device(BackendKind::Cuda, "b"));
        let time = now();
        let mut first = Entries::default();
        first.add_rate(&a, 0, stored(1.0, 1, time));
        first.add_rate(&b, 0, stored(2.0, 1, time - 10));
        first.add_finding(&a, "x", finding("newer", time));
        first.add_finding(&b, "x", finding("older", time - 10));
        save(&store, &first);
        let mut second = Entries::default();
        second.add_rate(&a, 0, stored(9.0, 1, time - 10));
        second.add_rate(&b, 0, stored(8.0, 1, time));
        second.add_finding(&a, "x", finding("older", time - 10));
        second.add_finding(&b, "x", finding("newer", time));
        second.add_finding(&b, "y", finding("alone", time));
        save(&store, &second);
        let all = load(&store);
        assert_eq!((all.rate(&a, 0), all.rate(&b, 0)), (Some(1.0), Some(8.0)));
        let found = [all.finding(&a, "x"), all.finding(&b, "x"), all.finding(&b, "y")];
        assert_eq!(found, [Some("newer"), Some("newer"), Some("alone")]);
        // Without learned entries nothing changes; an invalid text is replaced.
        *store.0.lock().unwrap() = Some(b"nonsense".to_vec());
        save(&store, &Entries::default());
        assert_eq!(store.load().unwrap().unwrap(), b"nonsense");
        assert_eq!(load(&store), Entries::default());
        save(&store, &second);
        assert_eq!(load(&store), second);
    }

    #[derive(Debug)]
    struct FailingStore;

    impl Store for FailingStore {
        fn load(&self) -> Result<Option<Vec<u8>>> {
            Err(Error::io("read", "rates".as_ref(), "broken"))
        }

        fn replace(&self, _: &dyn Fn(Option<&[u8]>) -> String) -> Result<()> {
            Err(Error::io("write", "rates".as_ref(), "broken"))
        }
    }

    #[test]
    fn failing_store_counts_as_empty() {
        assert_eq!(load(&FailingStore), Entries::default());
        let mut learned = Entries::default();
        learned.add_rate(&device(BackendKind::Cuda, "a"), 0, stored(1.0, 1, now()));
        save(&FailingStore, &learned);
    }
}
