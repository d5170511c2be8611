//! What is remembered between runs: rates, and what tasks have found out about devices. A small text, which is believed
//! only where it is sound.
//!
//! ```text
//! gpusched rates 2 0.1.0
//! cuda   0   1.25e10   57   1764000000   NVIDIA H200
//! found   cuda   1764000000   a subject   a finding   NVIDIA H200
//! end 2
//! ```
//! Between the first and the last line (tabs between the columns) rates: backend, task class, work a second, samples,
//! when they were taken (seconds since 1970), and the device's name, which may hold blanks. And findings, for which only
//! those who found them have a use: backend, when, what it is about, what was found, and the device's name. The first line names
//! the format and the version of the library, as new kernels have other rates; the last one counts
//! the entries, so that a text that was cut is known. A text with anything wrong in it is not believed
//! at all. Entries older than 90 days are left out. What is believed is still no more than a first guess: see
//! [`Estimator::remember`](crate::sched::estimate::estimator::Estimator), and whoever reads a finding has to bear that it is any text.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::device::DeviceInfo;
use crate::error::Result;

const FORMAT: &str = concat!("gpusched rates 2 ", env!("CARGO_PKG_VERSION"));
/// Seconds: 90 days, after which drivers and clocks may have changed.
const STALE: u64 = 90 * DAY;
/// Seconds that the clock of another machine with the same home may be ahead.
const AHEAD: u64 = DAY;
const DAY: u64 = 86_400;
/// The newest are kept.
const ENTRIES: usize = 1000;
/// Letters of a device's name, and of what a finding is about and of itself, at most.
const NAME: usize = 200;
const SUBJECT: usize = 160;
const FINDING: usize = 40;
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
pub struct StoredRate {
    /// Work a second, of one slot.
    pub rate: f64,
    pub samples: u64,
    /// Seconds since 1970.
    pub when: u64,
}

/// What was found out about something on a kind of device.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub text: String,
    /// Seconds since 1970.
    pub when: u64,
}

/// What ages.
trait Dated {
    fn when(&self) -> u64;
}

impl Dated for StoredRate {
    fn when(&self) -> u64 {
        self.when
    }
}

impl Dated for Finding {
    fn when(&self) -> u64 {
        self.when
    }
}

/// Alike devices share what is known of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct DeviceKey {
    backend: String,
    name: String,
}

/// What the text says: by kind of device, rates by class and findings by what they are about.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Entries {
    rates: BTreeMap<(DeviceKey, u32), StoredRate>,
    findings: BTreeMap<(DeviceKey, String), Finding>,
}

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
            let taken = match line.strip_prefix("found\t") {
                Some(line) => {
                    finding(line, now).map(|(key, value)| put(&mut entries.findings, key, value, now))
                }
                None => rate(line, now).map(|(key, value)| put(&mut entries.rates, key, value, now)),
            };
            taken.ok_or_else(|| format!("line {} is no entry", count + 1))?;
        }
    }

    pub fn print(&self) -> String {
        let rates = self.rates.iter().map(|((like, class), known)| {
            let (DeviceKey { backend, name }, StoredRate { rate, samples, when }) = (like, known);
            (*when, format!("{backend}\t{class}\t{rate:e}\t{samples}\t{when}\t{name}"))
        });
        let findings = self.findings.iter().map(|((like, subject), finding)| {
            let (DeviceKey { backend, name }, Finding { text, when }) = (like, finding);
            (*when, format!("found\t{backend}\t{when}\t{subject}\t{text}\t{name}"))
        });
        let mut newest: Vec<_> = rates.chain(findings).collect();
        newest.sort_by_key(|(when, _)| std::cmp::Reverse(*when));
        newest.truncate(ENTRIES);
        let mut text = format!("{FORMAT}\n");
        let count = newest.len();
        for (_, line) in newest {
            // Writing into a string does not fail.
            let _ = writeln!(text, "{line}");
        }
        let _ = writeln!(text, "end {count}");
        text
    }

    pub fn is_empty(&self) -> bool {
        self.rates.is_empty() && self.findings.is_empty()
    }

    /// Work a second of such a device, as it was when it was last measured.
    pub fn prior(&self, device: &DeviceInfo, class: u32) -> Option<f64> {
        self.rates.get(&(like(device), class)).map(|known| known.rate)
    }

    /// The classes of which something is known.
    pub fn classes(&self) -> Vec<u32> {
        let mut classes: Vec<u32> = self.rates.keys().map(|(_, class)| *class).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    /// What has been learned now; alike devices give one mean. Rates that no device has are left out.
    pub fn learned(&mut self, device: &DeviceInfo, class: u32, known: StoredRate) {
        if !SANE.contains(&known.rate) || known.samples == 0 {
            return;
        }
        let entry = self.rates.entry((like(device), class));
        entry
            .and_modify(|there| {
                let (a, b) = (there.samples as f64, known.samples as f64);
                there.rate = (there.rate * a + known.rate * b) / (a + b);
                there.samples = there.samples.saturating_add(known.samples);
            })
            .or_insert(known);
    }

    /// What was found out about something on such a device.
    pub fn finding(&self, device: &DeviceInfo, subject: &str) -> Option<&str> {
        self.findings.get(&(like(device), subject.to_owned())).map(|finding| finding.text.as_str())
    }

    /// What has been found out now. What is no short, plain text is left out; the same once more is no news.
    pub fn found(&mut self, device: &DeviceInfo, subject: &str, finding: Finding) {
        if is_plain(subject, SUBJECT)
            && is_plain(&finding.text, FINDING)
            && self.finding(device, subject) != Some(&finding.text)
        {
            self.findings.insert((like(device), subject.to_owned()), finding);
        }
    }

    /// Takes over what the other knows and this does not, or knows from earlier.
    pub fn merge(&mut self, other: Entries) {
        merge(&mut self.rates, other.rates);
        merge(&mut self.findings, other.findings);
    }
}

fn put<K: Ord, V: Dated>(entries: &mut BTreeMap<K, V>, key: K, value: V, now: u64) {
    if now.saturating_sub(value.when()) <= STALE {
        entries.insert(key, value);
    }
}

fn merge<K: Ord, V: Dated>(entries: &mut BTreeMap<K, V>, other: BTreeMap<K, V>) {
    for (key, value) in other {
        match entries.get(&key) {
            Some(own) if own.when() >= value.when() => {}
            _ => {
                entries.insert(key, value);
            }
        }
    }
}

fn rate(line: &str, now: u64) -> Option<((DeviceKey, u32), StoredRate)> {
    let mut columns = line.splitn(6, '\t');
    let mut column = || columns.next();
    let backend = column()?.to_owned();
    let class = column()?.parse().ok()?;
    let rate = column()?.parse().ok().filter(|rate| SANE.contains(rate))?;
    let samples = column()?.parse().ok().filter(|&samples| samples > 0)?;
    let when = time(column()?, now)?;
    let name = column()?.to_owned();
    Some(((DeviceKey { backend, name }, class), StoredRate { rate, samples, when }))
}

fn finding(line: &str, now: u64) -> Option<((DeviceKey, String), Finding)> {
    let mut columns = line.splitn(5, '\t');
    let mut column = || columns.next();
    let backend = column()?.to_owned();
    let when = time(column()?, now)?;
    let subject = column().filter(|subject| is_plain(subject, SUBJECT))?.to_owned();
    let text = column().filter(|text| is_plain(text, FINDING))?.to_owned();
    let name = column()?.to_owned();
    Some(((DeviceKey { backend, name }, subject), Finding { text, when }))
}

fn time(column: &str, now: u64) -> Option<u64> {
    column.parse().ok().filter(|&when: &u64| when <= now.saturating_add(AHEAD))
}

/// Letters that are on any keyboard, and blanks.
fn is_plain(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

fn like(device: &DeviceInfo) -> DeviceKey {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    let name = device.name.chars().take(NAME).map(plain).collect();
    DeviceKey { backend: device.backend.name().to_owned(), name }
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
    if learned.is_empty() {
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::device::BackendKind;
    use crate::error::Error;

    const NOW: u64 = 1_800_000_000;

    fn device(backend: BackendKind, name: &str) -> DeviceInfo {
        DeviceInfo::new("X", backend, 0, name)
    }

    fn known(rate: f64, samples: u64, when: u64) -> StoredRate {
        StoredRate { rate, samples, when }
    }

    fn is(text: &str, when: u64) -> Finding {
        Finding { text: text.into(), when }
    }

    fn some() -> (Entries, [DeviceInfo; 2]) {
        let devices = [device(BackendKind::Cuda, "H 200\tNVL"), device(BackendKind::Cpu, "")];
        let mut entries = Entries::default();
        entries.learned(&devices[0], 7, known(1.25e10, 57, NOW));
        entries.learned(&devices[0], u32::MAX, known(1e-9, 1, NOW - 5));
        entries.learned(&devices[1], 0, known(0.1 + 0.2, u64::MAX, NOW - STALE));
        entries.found(&devices[0], "blocks, 3x2x5+8", is("4x2", NOW));
        entries.found(&devices[1], "~", is(" ", NOW - STALE));
        (entries, devices)
    }

    #[test]
    fn what_is_printed_is_what_is_read() {
        let (entries, devices) = some();
        let read = Entries::parse(entries.print().as_bytes(), NOW).unwrap();
        assert_eq!(read, entries);
        assert_eq!(read.prior(&devices[0], 7), Some(1.25e10));
        assert_eq!(read.prior(&devices[1], 0), Some(0.1 + 0.2));
        assert_eq!(read.prior(&devices[1], 7), None);
        assert_eq!(read.classes(), [0, 7, u32::MAX]);
        assert_eq!(read.finding(&devices[0], "blocks, 3x2x5+8"), Some("4x2"));
        assert_eq!(read.finding(&devices[1], "~"), Some(" "));
        assert_eq!(
            (read.finding(&devices[1], "blocks, 3x2x5+8"), read.finding(&devices[0], "~")),
            (None, None)
        );
        let none = Entries::default();
        assert_eq!(Entries::parse(none.print().as_bytes(), NOW), Ok(none));
    }

    #[test]
    fn what_is_old_is_left_out() {
        let (entries, _) = some();
        let text = entries.print();
        let lens =
            |now| Entries::parse(text.as_bytes(), now).map(|all| (all.rates.len(), all.findings.len()));
        assert_eq!((lens(NOW), lens(NOW + 1), lens(NOW + 2 * STALE)), (Ok((3, 2)), Ok((2, 1)), Ok((0, 0))));
        // A clock that is a little behind is no matter; one that is far behind knows that something is wrong.
        assert!(Entries::parse(text.as_bytes(), NOW - AHEAD).is_ok());
        assert!(Entries::parse(text.as_bytes(), NOW - AHEAD - 1).is_err());
    }

    #[test]
    fn alike_devices_have_one_rate_and_absurd_ones_none() {
        let card = device(BackendKind::Cuda, "card");
        let mut entries = Entries::default();
        entries.learned(&card, 0, known(10.0, 1, NOW));
        entries.learned(&card, 0, known(20.0, 3, NOW));
        assert_eq!(entries.prior(&card, 0), Some(17.5));
        for rate in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300, 1e-300] {
            entries.learned(&card, 1, known(rate, 1, NOW));
        }
        entries.learned(&card, 1, known(1.0, 0, NOW));
        assert_eq!(entries.prior(&card, 1), None);
    }

    #[test]
    fn findings_are_short_plain_text_and_the_same_is_no_news() {
        let card = device(BackendKind::Cuda, "card");
        let mut entries = Entries::default();
        for (subject, found) in [
            ("", "4x2"),
            ("blocks", ""),
            ("blocks", "4x2\nend 1"),
            ("blocks\tof", "4x2"),
            ("blocks", "4 × 2"),
            (&"b".repeat(SUBJECT + 1), "4x2"),
            ("blocks", &"4".repeat(FINDING + 1)),
        ] {
            entries.found(&card, subject, is(found, NOW));
            assert!(entries.is_empty(), "{subject}, {found}");
        }
        for (found, when, then) in [("4x2", NOW, NOW), ("4x2", NOW + 1, NOW), ("4x4", NOW + 2, NOW + 2)] {
            entries.found(&card, "blocks", is(found, when));
            assert_eq!(entries.findings.values().collect::<Vec<_>>(), [&is(found, then)]);
        }
    }

    /// Entry line with one column replaced.
    fn with(column: usize, value: &str) -> String {
        line(["cuda", "0", "1e10", "5", "1800000000", "card"], column, value)
    }

    /// That of a finding.
    fn with_found(column: usize, value: &str) -> String {
        line(["found", "cuda", "1800000000", "blocks", "4x2", "card"], column, value)
    }

    fn line<'a>(mut columns: [&'a str; 6], column: usize, value: &'a str) -> String {
        columns[column] = value;
        format!("{FORMAT}\n{}\nend 1\n", columns.join("\t"))
    }

    #[test]
    fn a_text_with_anything_wrong_is_not_believed_at_all() {
        assert!(Entries::parse(with(0, "cuda").as_bytes(), NOW).is_ok());
        let columns = [
            (1, ["", "-1", "4294967296", "x"]),
            (2, ["NaN", "-1e10", "1e300", "inf"]),
            (3, ["0", "-3", "1.5", "18446744073709551616"]),
            (4, ["", "-1", "99999999999", "soon"]),
        ];
        for (column, values) in columns {
            for value in values {
                let text = with(column, value);
                assert!(Entries::parse(text.as_bytes(), NOW).is_err(), "{text}");
            }
        }
        assert!(Entries::parse(with_found(0, "found").as_bytes(), NOW).is_ok());
        for (column, values) in [
            (0, ["", "foun", "FOUND", "found "]),
            (2, ["", "-1", "99999999999", "soon"]),
            (3, ["", "\u{7f}", "\r", "blöcke"]),
            (4, ["", "\u{1b}[2J", "ü", "4x2\u{0}"]),
        ] {
            for value in values {
                let text = with_found(column, value);
                assert!(Entries::parse(text.as_bytes(), NOW).is_err(), "{text}");
            }
        }
        for (column, most) in [(3, SUBJECT), (4, FINDING)] {
            let parsed = |len| Entries::parse(with_found(column, &"x".repeat(len)).as_bytes(), NOW);
            assert!(parsed(most).is_ok() && parsed(most + 1).is_err());
        }
        for (text, why) in [
            ("", "first line"),
            ("gpusched rates 2 0.0.0\nend 0\n", "another version"),
            (&format!("{FORMAT}\n"), "end is missing"),
            (&format!("{FORMAT}\nend 1\n"), "last line"),
            (&format!("{FORMAT}\nend 0"), "last line"),
            (&format!("{FORMAT}\nend 0\nmore\n"), "last line"),
            (&format!("{FORMAT}\ncuda\t0\t1\nend 1\n"), "line 2"),
            (&"x".repeat(LARGEST + 1), "more than"),
        ] {
            let said = Entries::parse(text.as_bytes(), NOW).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        assert!(Entries::parse(b"\xff\xfe", NOW).unwrap_err().contains("no text"));
    }

    /// Whatever happens to the bytes, what comes out is nothing, or entries that are sane.
    #[test]
    fn no_mutation_of_a_file_gives_absurd_rates() {
        let (entries, _) = some();
        let text = entries.print().into_bytes();
        // Every cut is noticed.
        for end in 0..text.len() {
            assert!(Entries::parse(&text[..end], NOW).is_err(), "{end} bytes");
        }
        let mut state = 1_u64;
        let mut random = |below: usize| {
            // Knuth's linear congruential generator; its upper bits.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let mut believed = 0;
        for _ in 0..20_000 {
            let mut bytes = text.clone();
            for _ in 0..=random(3) {
                let at = random(bytes.len());
                match random(5) {
                    0 => bytes[at] = random(256) as u8,
                    1 => bytes.insert(at, b"\t\n0123456789-+eE.naif"[random(21)]),
                    2 => drop(bytes.remove(at)),
                    3 => bytes[at] ^= 1 << random(8),
                    _ => bytes.extend_from_within(at..(at + 7).min(bytes.len())),
                }
            }
            if let Ok(read) = Entries::parse(&bytes, NOW) {
                believed += 1;
                assert!(read.rates.values().all(|known| SANE.contains(&known.rate) && known.samples > 0));
                assert!(read.rates.values().all(|known| known.when <= NOW + AHEAD));
                assert!(read.findings.values().all(|found| found.when <= NOW + AHEAD));
                assert!(read.findings.iter().all(|((_, subject), Finding { text, .. })| {
                    is_plain(subject, SUBJECT) && is_plain(text, FINDING)
                }));
            }
        }
        // A digit of a rate or a letter of a name can change unnoticed, and no more than the policy shrinks.
        assert!(believed > 0, "the mutations are too rough to test anything");
    }

    #[derive(Debug, Default)]
    struct Memory(Mutex<Option<Vec<u8>>>);

    impl Store for Memory {
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
    fn what_another_process_saved_stays_and_the_newer_counts() {
        let store = Arc::new(Memory::default());
        let (a, b) = (device(BackendKind::Cuda, "a"), device(BackendKind::Cuda, "b"));
        let time = now();
        let mut first = Entries::default();
        first.learned(&a, 0, known(1.0, 1, time));
        first.learned(&b, 0, known(2.0, 1, time - 10));
        first.found(&a, "x", is("newer", time));
        first.found(&b, "x", is("older", time - 10));
        save(&*store, &first);
        let mut second = Entries::default();
        second.learned(&a, 0, known(9.0, 1, time - 10));
        second.learned(&b, 0, known(8.0, 1, time));
        second.found(&a, "x", is("older", time - 10));
        second.found(&b, "x", is("newer", time));
        second.found(&b, "y", is("alone", time));
        save(&*store, &second);
        let cache = Cache::new(store.clone());
        let all = cache.load();
        assert_eq!((all.prior(&a, 0), all.prior(&b, 0)), (Some(1.0), Some(8.0)));
        let found = [all.finding(&a, "x"), all.finding(&b, "x"), all.finding(&b, "y")];
        assert_eq!(found, [Some("newer"), Some("newer"), Some("alone")]);
        // Nothing learned changes nothing, and what is not sound is replaced.
        *store.0.lock().unwrap() = Some(b"nonsense".to_vec());
        save(&*store, &Entries::default());
        assert_eq!(store.load().unwrap().unwrap(), b"nonsense");
        assert_eq!(cache.load(), Entries::default());
        save(&*store, &second);
        assert_eq!(cache.load(), second);
    }

    #[test]
    fn more_than_a_file_holds_is_cut_to_the_newest() {
        let mut entries = Entries::default();
        let card = device(BackendKind::Cuda, &"n".repeat(1000));
        for class in 0..ENTRIES as u32 + 10 {
            entries.learned(&card, class, known(1.0, 1, NOW - 20 + u64::from(class.min(10))));
        }
        let text = entries.print();
        assert!(text.len() < LARGEST);
        let read = Entries::parse(text.as_bytes(), NOW).unwrap();
        assert_eq!((read.rates.len(), read.prior(&card, 0)), (ENTRIES, None));
        // As long as lines get.
        let mut entries = Entries::default();
        let card = device(BackendKind::Cuda, &"\u{1f30d}".repeat(1000));
        for number in 0..ENTRIES + 10 {
            let subject = format!("{number:0SUBJECT$}");
            entries.found(&card, &subject, is(&"f".repeat(FINDING), NOW - 20 + number.min(10) as u64));
        }
        let text = entries.print();
        let read = Entries::parse(text.as_bytes(), NOW).unwrap();
        assert_eq!((read.findings.len(), read.finding(&card, &format!("{:0SUBJECT$}", 0))), (ENTRIES, None));
    }

    #[derive(Debug)]
    struct Broken;

    impl Store for Broken {
        fn load(&self) -> Result<Option<Vec<u8>>> {
            Err(Error::io("read", "rates".as_ref(), "broken"))
        }

        fn replace(&self, _: &dyn Fn(Option<&[u8]>) -> String) -> Result<()> {
            Err(Error::io("write", "rates".as_ref(), "broken"))
        }
    }

    #[test]
    fn a_store_that_fails_is_as_good_as_none() {
        assert_eq!(Cache::new(Arc::new(Broken)).load(), Entries::default());
        save(&Broken, &some().0);
    }
}
