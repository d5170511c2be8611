//! Rates that are remembered between runs: a small text, which is believed only where it is sound.
//!
//! ```text
//! gpusched rates 1 0.1.0
//! cuda   0   1.25e10   57   1764000000   NVIDIA H200
//! end 1
//! ```
//! Between the first and the last line (tabs between the columns): backend, task class, work a second, samples,
//! when they were taken (seconds since 1970), and the device's name, which may hold blanks. The first line names
//! the format and the version of the library, as new kernels have other rates; the last one counts
//! the entries, so that a text that was cut is known. A text with anything wrong in it is not believed
//! at all. Entries older than 90 days are left out. What is believed is still no more than a first guess: see
//! [`Rates::remember`](super::rates::Rates).

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::device::DeviceInfo;
use crate::error::Result;

const FORMAT: &str = concat!("gpusched rates 1 ", env!("CARGO_PKG_VERSION"));
/// Seconds: 90 days, after which drivers and clocks may have changed.
const STALE: u64 = 90 * 86_400;
/// Seconds that the clock of another machine with the same home may be ahead.
const AHEAD: u64 = 86_400;
/// The newest are kept.
const ENTRIES: usize = 1000;
/// Bytes of a text of so many entries with long names, and more than that.
pub const LARGEST: usize = 1 << 20;
/// Rates beyond these come from no device and no unit of work.
const SANE: std::ops::RangeInclusive<f64> = 1e-30..=1e30;
/// Between two times of saving.
const PAUSE: Duration = Duration::from_secs(60);

/// Where the text is kept. An absent one is `None`; more than [`LARGEST`] bytes need not be read.
pub trait Store: Debug + Send + Sync {
    fn load(&self) -> Result<Option<Vec<u8>>>;
    /// Replaces the text by what `renew` makes of it as it is by then.
    fn replace(&self, renew: &dyn Fn(Option<&[u8]>) -> String) -> Result<()>;
}

/// What is known of one kind of device and one class of tasks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Known {
    /// Work a second, of one slot.
    pub rate: f64,
    pub samples: u64,
    /// Seconds since 1970.
    pub when: u64,
}

/// Alike devices share what is known of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    backend: String,
    name: String,
    class: u32,
}

/// What the text says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Entries(BTreeMap<Key, Known>);

impl Entries {
    /// `now`: seconds since 1970. `Err`: what is wrong with the text.
    pub fn parse(text: &[u8], now: u64) -> std::result::Result<Entries, String> {
        if text.len() > LARGEST {
            return Err(format!("it has more than {LARGEST} bytes"));
        }
        let text = std::str::from_utf8(text).map_err(|_| "it is no text".to_owned())?;
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        if first != FORMAT {
            return Err(match first.starts_with("gpusched rates ") {
                true => "another version of the library wrote it".into(),
                false => "its first line is not that of such a file".into(),
            });
        }
        let mut entries = Entries::default();
        let mut count = 0;
        let mut lines = rest.lines();
        loop {
            let line = lines.next().ok_or("its end is missing")?;
            if let Some(told) = line.strip_prefix("end ") {
                let whole = told.parse() == Ok(count) && rest.ends_with('\n') && lines.next().is_none();
                return if whole { Ok(entries) } else { Err("its last line does not fit the others".into()) };
            }
            count += 1;
            let (key, known) = entry(line, now).ok_or_else(|| format!("line {} is no entry", count + 1))?;
            if now.saturating_sub(known.when) <= STALE {
                entries.0.insert(key, known);
            }
        }
    }

    pub fn print(&self) -> String {
        let mut newest: Vec<_> = self.0.iter().collect();
        newest.sort_by_key(|(_, known)| std::cmp::Reverse(known.when));
        newest.truncate(ENTRIES);
        let mut text = format!("{FORMAT}\n");
        let count = newest.len();
        for (Key { backend, name, class }, Known { rate, samples, when }) in newest {
            // Writing into a string does not fail.
            let _ = writeln!(text, "{backend}\t{class}\t{rate:e}\t{samples}\t{when}\t{name}");
        }
        let _ = writeln!(text, "end {count}");
        text
    }

    /// Work a second of such a device, as it was when it was last measured.
    pub fn prior(&self, device: &DeviceInfo, class: u32) -> Option<f64> {
        self.0.get(&key(device, class)).map(|known| known.rate)
    }

    /// The classes of which something is known.
    pub fn classes(&self) -> Vec<u32> {
        let mut classes: Vec<u32> = self.0.keys().map(|key| key.class).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    /// What has been learned now; alike devices give one mean. Rates that no device has are left out.
    pub fn learned(&mut self, device: &DeviceInfo, class: u32, known: Known) {
        if !SANE.contains(&known.rate) || known.samples == 0 {
            return;
        }
        let entry = self.0.entry(key(device, class));
        entry
            .and_modify(|there| {
                let (a, b) = (there.samples as f64, known.samples as f64);
                there.rate = (there.rate * a + known.rate * b) / (a + b);
                there.samples = there.samples.saturating_add(known.samples);
            })
            .or_insert(known);
    }

    /// Takes over what the other knows and this does not, or knows from earlier.
    pub fn merge(&mut self, other: Entries) {
        for (key, known) in other.0 {
            match self.0.get(&key) {
                Some(own) if own.when >= known.when => {}
                _ => {
                    self.0.insert(key, known);
                }
            }
        }
    }
}

fn entry(line: &str, now: u64) -> Option<(Key, Known)> {
    let mut columns = line.splitn(6, '\t');
    let mut column = || columns.next();
    let backend = column()?.to_owned();
    let class = column()?.parse().ok()?;
    let rate = column()?.parse().ok().filter(|rate| SANE.contains(rate))?;
    let samples = column()?.parse().ok().filter(|&samples| samples > 0)?;
    let when = column()?.parse().ok().filter(|&when: &u64| when <= now.saturating_add(AHEAD))?;
    let name = column()?.to_owned();
    Some((Key { backend, name, class }, Known { rate, samples, when }))
}

fn key(device: &DeviceInfo, class: u32) -> Key {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    let name = device.name.chars().take(200).map(plain).collect();
    Key { backend: device.backend.name().to_owned(), name, class }
}

/// Seconds since 1970, by the machine's clock.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A store, and when it was last written.
#[derive(Debug)]
pub struct Cache {
    store: Arc<dyn Store>,
    saved: Duration,
}

impl Cache {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Cache { store, saved: Duration::ZERO }
    }

    /// What was kept, if it is sound; else one line in the log, and nothing.
    pub fn load(&self) -> Entries {
        let parsed = match self.store.load() {
            Ok(None) => return Entries::default(),
            Ok(Some(text)) => Entries::parse(&text, now()),
            Err(error) => Err(error.to_string()),
        };
        parsed.unwrap_or_else(|why| {
            log::info!("remembered rates are ignored: {why} ({:?})", self.store);
            Entries::default()
        })
    }

    /// Whether it is time to save what a running scheduler has learned; asked once a minute, it says yes.
    pub fn due(&mut self, now: Duration) -> bool {
        let due = now >= self.saved + PAUSE;
        if due {
            self.saved = now;
        }
        due
    }

    pub fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }
}

/// Saves what was learned, beside what others may have saved meanwhile; where that fails, one line in the log.
pub fn save(store: &dyn Store, learned: &Entries) {
    if learned.0.is_empty() {
        return;
    }
    let renew = |text: Option<&[u8]>| {
        let mut all = learned.clone();
        // What is not sound is replaced.
        all.merge(text.and_then(|text| Entries::parse(text, now()).ok()).unwrap_or_default());
        all.print()
    };
    if let Err(error) = store.replace(&renew) {
        log::info!("rates could not be remembered: {error}");
    }
}
