//! The text format of the entries. A text with any error is rejected as a whole.
//!
//! ```text
//! gpusched rates 2 0.1.0
//! cuda   0   1.25e10   57   1764000000   NVIDIA H200
//! found   cuda   1764000000   a subject   a finding   NVIDIA H200
//! end 2
//! ```
//! The columns are separated by tabs. A rate has backend, task class, work per second, samples,
//! date (seconds since 1970) and the device's name, which may contain blanks. A finding has
//! backend, date, subject, text and the device's name. The first line has the format's version and
//! the library's version, because new kernels have other rates. The last line has the number of
//! entries, which reveals a truncated text. Entries older than 90 days are ignored; a date in the
//! future counts as today. Rates serve only as a first estimate; a finding may be any text.

use std::fmt::Write;

use super::entries::{
    DeviceKey, Entries, Finding, MAX_FINDING, MAX_SUBJECT, StoredRate, VALID_RATES, is_plain,
};

const FORMAT: &str = concat!("gpusched rates 2 ", env!("CARGO_PKG_VERSION"));
/// Maximum age of an entry in seconds. Older ones are ignored, because drivers and clocks may have
/// changed.
const MAX_AGE: u64 = 90 * 86_400;
/// Maximum number of entries of a text. The newest entries are written.
const MAX_ENTRIES: usize = 1000;
/// Maximum bytes of a text. `MAX_ENTRIES` of the longest entries have fewer.
pub const MAX_BYTES: usize = 1 << 20;

impl Entries {
    /// Parses a text. `now`: seconds since 1970. The error says what is wrong with the text.
    pub fn parse(text: &[u8], now: u64) -> Result<Entries, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("it has more than {} MiB", MAX_BYTES >> 20));
        }
        let text = std::str::from_utf8(text).map_err(|_| "it is not UTF-8 text".to_owned())?;
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        if first != FORMAT {
            return Err(match first.starts_with("gpusched rates ") {
                true => "another version of the library wrote it".into(),
                false => "its first line is not that of a rate file".into(),
            });
        }
        let mut entries = Entries::default();
        let mut count = 0;
        let mut lines = rest.lines();
        loop {
            let line = lines.next().ok_or("it is truncated")?;
            if let Some(counted) = line.strip_prefix("end ") {
                let whole = counted.parse() == Ok(count) && rest.ends_with('\n') && lines.next().is_none();
                if !whole {
                    return Err("its last line does not match the others".into());
                }
                let is_fresh = |when: u64| now.saturating_sub(when) <= MAX_AGE;
                entries.rates.retain(|_, rate| is_fresh(rate.when));
                entries.findings.retain(|_, finding| is_fresh(finding.when));
                return Ok(entries);
            }
            count += 1;
            let read = match line.strip_prefix("found\t") {
                Some(line) => finding(line, now).map(|found| entries.findings.extend([found])),
                None => rate(line, now).map(|rate| entries.rates.extend([rate])),
            };
            read.ok_or_else(|| format!("line {} is not a valid entry", count + 1))?;
        }
    }

    /// Returns the text of the newest entries.
    pub fn print(&self) -> String {
        let rates = self.rates.iter().map(|((key, class), stored)| {
            let (DeviceKey { backend, name }, StoredRate { rate, samples, when }) = (key, stored);
            (*when, format!("{backend}\t{class}\t{rate:e}\t{samples}\t{when}\t{name}"))
        });
        let findings = self.findings.iter().map(|((key, subject), finding)| {
            let (DeviceKey { backend, name }, Finding { text, when }) = (key, finding);
            (*when, format!("found\t{backend}\t{when}\t{subject}\t{text}\t{name}"))
        });
        let mut newest: Vec<_> = rates.chain(findings).collect();
        newest.sort_by_key(|(when, _)| std::cmp::Reverse(*when));
        newest.truncate(MAX_ENTRIES);
        let mut text = format!("{FORMAT}\n");
        let count = newest.len();
        for (_, line) in newest {
            // Writing into a string does not fail.
            let _ = writeln!(text, "{line}");
        }
        let _ = writeln!(text, "end {count}");
        text
    }
}

fn rate(line: &str, now: u64) -> Option<((DeviceKey, u32), StoredRate)> {
    let mut columns = line.splitn(6, '\t');
    let mut column = || columns.next();
    let backend = column()?.to_owned();
    let class = column()?.parse().ok()?;
    let rate = column()?.parse().ok().filter(|rate| VALID_RATES.contains(rate))?;
    let samples = column()?.parse().ok().filter(|&samples| samples > 0)?;
    let when = date(column()?, now)?;
    let name = column()?.to_owned();
    Some(((DeviceKey { backend, name }, class), StoredRate { rate, samples, when }))
}

fn finding(line: &str, now: u64) -> Option<((DeviceKey, String), Finding)> {
    let mut columns = line.splitn(5, '\t');
    let mut column = || columns.next();
    let backend = column()?.to_owned();
    let when = date(column()?, now)?;
    let subject = column().filter(|subject| is_plain(subject, MAX_SUBJECT))?.to_owned();
    let text = column().filter(|text| is_plain(text, MAX_FINDING))?.to_owned();
    let name = column()?.to_owned();
    Some(((DeviceKey { backend, name }, subject), Finding { text, when }))
}

/// Parses a date. One in the future counts as now: the clock of this machine may be behind, or that
/// of another with the same home ahead.
fn date(column: &str, now: u64) -> Option<u64> {
    column.parse().ok().map(|when: u64| when.min(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{BackendKind, DeviceInfo};

    const NOW: u64 = 1_800_000_000;

    fn device(backend: BackendKind, name: &str) -> DeviceInfo {
        DeviceInfo::new("X", backend, 0, name)
    }

    fn stored(rate: f64, samples: u64, when: u64) -> StoredRate {
        StoredRate { rate, samples, when }
    }

    fn finding_of(text: &str, when: u64) -> Finding {
        Finding { text: text.into(), when }
    }

    fn sample() -> (Entries, [DeviceInfo; 2]) {
        let devices = [device(BackendKind::Cuda, "H 200\tNVL"), device(BackendKind::Cpu, "")];
        let mut entries = Entries::default();
        entries.add_rate(&devices[0], 7, stored(1.25e10, 57, NOW));
        entries.add_rate(&devices[0], u32::MAX, stored(1e-9, 1, NOW - 5));
        entries.add_rate(&devices[1], 0, stored(0.1 + 0.2, u64::MAX, NOW - MAX_AGE));
        entries.add_finding(&devices[0], "blocks, 3x2x5+8", finding_of("4x2", NOW));
        entries.add_finding(&devices[1], "~", finding_of(" ", NOW - MAX_AGE));
        (entries, devices)
    }

    #[test]
    fn entries_survive_printing_and_parsing() {
        let (entries, devices) = sample();
        let read = Entries::parse(entries.print().as_bytes(), NOW).unwrap();
        assert_eq!(read, entries);
        assert_eq!(read.rate(&devices[0], 7), Some(1.25e10));
        assert_eq!(read.rate(&devices[1], 0), Some(0.1 + 0.2));
        assert_eq!(read.rate(&devices[1], 7), None);
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
    fn old_entries_are_ignored() {
        let (entries, _) = sample();
        let text = entries.print();
        let lens =
            |now| Entries::parse(text.as_bytes(), now).map(|all| (all.rates.len(), all.findings.len()));
        assert_eq!((lens(NOW), lens(NOW + 1), lens(NOW + 2 * MAX_AGE)), (Ok((3, 2)), Ok((2, 1)), Ok((0, 0))));
    }

    /// Another machine with the same home has a wrong clock, or this one.
    #[test]
    fn date_in_the_future_counts_as_now() {
        let (entries, devices) = sample();
        let past = NOW - 2 * MAX_AGE;
        let read = Entries::parse(entries.print().as_bytes(), past).unwrap();
        assert_eq!((read.rates.len(), read.findings.len()), (3, 2));
        assert_eq!(read.rate(&devices[0], 7), Some(1.25e10));
        assert!(read.rates.values().all(|stored| stored.when == past));
        assert!(read.findings.values().all(|found| found.when == past));
    }

    /// Returns a text of one rate, with one column replaced.
    fn with(column: usize, value: &str) -> String {
        line(["cuda", "0", "1e10", "5", "1800000000", "gpu"], column, value)
    }

    /// Returns a text of one finding, with one column replaced.
    fn with_found(column: usize, value: &str) -> String {
        line(["found", "cuda", "1800000000", "blocks", "4x2", "gpu"], column, value)
    }

    fn line<'a>(mut columns: [&'a str; 6], column: usize, value: &'a str) -> String {
        columns[column] = value;
        format!("{FORMAT}\n{}\nend 1\n", columns.join("\t"))
    }

    #[test]
    fn text_with_an_error_is_rejected_as_a_whole() {
        assert!(Entries::parse(with(0, "cuda").as_bytes(), NOW).is_ok());
        let columns = [
            (1, ["", "-1", "4294967296", "x"]),
            (2, ["NaN", "-1e10", "1e300", "inf"]),
            (3, ["0", "-3", "1.5", "18446744073709551616"]),
            (4, ["", "-1", "18446744073709551616", "soon"]),
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
            (2, ["", "-1", "18446744073709551616", "soon"]),
            (3, ["", "\u{7f}", "\r", "blöcke"]),
            (4, ["", "\u{1b}[2J", "ü", "4x2\u{0}"]),
        ] {
            for value in values {
                let text = with_found(column, value);
                assert!(Entries::parse(text.as_bytes(), NOW).is_err(), "{text}");
            }
        }
        for (column, most) in [(3, MAX_SUBJECT), (4, MAX_FINDING)] {
            let parsed = |len| Entries::parse(with_found(column, &"x".repeat(len)).as_bytes(), NOW);
            assert!(parsed(most).is_ok() && parsed(most + 1).is_err());
        }
        for (text, why) in [
            ("", "first line"),
            ("gpusched rates 2 0.0.0\nend 0\n", "another version"),
            (&format!("{FORMAT}\n"), "truncated"),
            (&format!("{FORMAT}\nend 1\n"), "last line"),
            (&format!("{FORMAT}\nend 0"), "last line"),
            (&format!("{FORMAT}\nend 0\nmore\n"), "last line"),
            (&format!("{FORMAT}\ncuda\t0\t1\nend 1\n"), "line 2"),
            (&"x".repeat(MAX_BYTES + 1), "more than"),
        ] {
            let error = Entries::parse(text.as_bytes(), NOW).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(Entries::parse(b"\xff\xfe", NOW).unwrap_err().contains("not UTF-8"));
    }

    /// Parsing mutated bytes either fails or returns valid entries.
    #[test]
    fn no_mutation_of_a_text_gives_invalid_entries() {
        let (entries, _) = sample();
        let text = entries.print().into_bytes();
        // Every truncation is detected.
        for end in 0..text.len() {
            assert!(Entries::parse(&text[..end], NOW).is_err(), "{end} bytes");
        }
        let mut random = testkit::Random::new(1);
        let mut random = |below: usize| random.below(below);
        let mut accepted = 0;
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
                accepted += 1;
                assert!(
                    read.rates
                        .values()
                        .all(|stored| VALID_RATES.contains(&stored.rate) && stored.samples > 0)
                );
                assert!(read.rates.values().all(|stored| stored.when <= NOW));
                assert!(read.findings.values().all(|found| found.when <= NOW));
                assert!(read.findings.iter().all(|((_, subject), Finding { text, .. })| {
                    is_plain(subject, MAX_SUBJECT) && is_plain(text, MAX_FINDING)
                }));
            }
        }
        // A changed digit of a rate or letter of a name is not detectable.
        assert!(accepted > 0, "the mutations are too rough to test anything");
    }

    #[test]
    fn surplus_entries_are_cut_to_the_newest() {
        let mut entries = Entries::default();
        let gpu = device(BackendKind::Cuda, &"n".repeat(1000));
        for class in 0..MAX_ENTRIES as u32 + 10 {
            entries.add_rate(&gpu, class, stored(1.0, 1, NOW - 20 + u64::from(class.min(10))));
        }
        let text = entries.print();
        assert!(text.len() < MAX_BYTES);
        let read = Entries::parse(text.as_bytes(), NOW).unwrap();
        assert_eq!((read.rates.len(), read.rate(&gpu, 0)), (MAX_ENTRIES, None));
        // The longest lines.
        let mut entries = Entries::default();
        let gpu = device(BackendKind::Cuda, &"\u{1f30d}".repeat(1000));
        for number in 0..MAX_ENTRIES + 10 {
            let subject = format!("{number:0MAX_SUBJECT$}");
            entries.add_finding(
                &gpu,
                &subject,
                finding_of(&"f".repeat(MAX_FINDING), NOW - 20 + number.min(10) as u64),
            );
        }
        let text = entries.print();
        let read = Entries::parse(text.as_bytes(), NOW).unwrap();
        assert_eq!(
            (read.findings.len(), read.finding(&gpu, &format!("{:0MAX_SUBJECT$}", 0))),
            (MAX_ENTRIES, None)
        );
    }
}
