//! Rates and findings in memory, by kind of device.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::device::DeviceInfo;

/// Maximum number of characters of a device's name, a subject and a finding.
const MAX_NAME: usize = 200;
pub const MAX_SUBJECT: usize = 160;
pub const MAX_FINDING: usize = 40;
/// Range of valid rates. No device and no unit of work has a rate outside of it.
pub const VALID_RATES: RangeInclusive<f64> = 1e-30..=1e30;

/// Rate of a kind of device for a class of tasks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StoredRate {
    /// Work per second of one slot.
    pub rate: f64,
    pub samples: u64,
    /// Seconds since 1970.
    pub when: u64,
}

/// A finding about a subject on a kind of device.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub text: String,
    /// Seconds since 1970.
    pub when: u64,
}

/// A kind of device: devices of one name share their entries.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceKey {
    pub backend: String,
    pub name: String,
}

impl DeviceKey {
    fn of(device: &DeviceInfo) -> Self {
        let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
        let name = device.name.chars().take(MAX_NAME).map(plain).collect();
        DeviceKey { backend: device.backend.name().to_owned(), name }
    }
}

/// Rates by class, and findings by subject, of each kind of device.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Entries {
    pub(super) rates: BTreeMap<(DeviceKey, u32), StoredRate>,
    pub(super) findings: BTreeMap<(DeviceKey, String), Finding>,
}

impl Entries {
    pub fn is_empty(&self) -> bool {
        self.rates.is_empty() && self.findings.is_empty()
    }

    /// Returns the rate of such a device, in work per second of one slot.
    pub fn rate(&self, device: &DeviceInfo, class: u32) -> Option<f64> {
        self.rates.get(&(DeviceKey::of(device), class)).map(|stored| stored.rate)
    }

    /// Returns the classes that have a rate.
    pub fn classes(&self) -> Vec<u32> {
        let mut classes: Vec<u32> = self.rates.keys().map(|(_, class)| *class).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    /// Adds a measured rate, averaged with those of other devices of the kind. Ignores a rate
    /// outside of [`VALID_RATES`].
    pub fn add_rate(&mut self, device: &DeviceInfo, class: u32, measured: StoredRate) {
        if !VALID_RATES.contains(&measured.rate) || measured.samples == 0 {
            return;
        }
        let entry = self.rates.entry((DeviceKey::of(device), class));
        entry
            .and_modify(|stored| {
                let (a, b) = (stored.samples as f64, measured.samples as f64);
                stored.rate = (stored.rate * a + measured.rate * b) / (a + b);
                stored.samples = stored.samples.saturating_add(measured.samples);
            })
            .or_insert(measured);
    }

    /// Returns the finding about a subject on such a device.
    pub fn finding(&self, device: &DeviceInfo, subject: &str) -> Option<&str> {
        self.findings.get(&(DeviceKey::of(device), subject.to_owned())).map(|finding| finding.text.as_str())
    }

    /// Adds a finding. Ignores text that is not short and plain; the text that is stored already
    /// keeps its date.
    pub fn add_finding(&mut self, device: &DeviceInfo, subject: &str, finding: Finding) {
        if is_plain(subject, MAX_SUBJECT)
            && is_plain(&finding.text, MAX_FINDING)
            && self.finding(device, subject) != Some(&finding.text)
        {
            self.findings.insert((DeviceKey::of(device), subject.to_owned()), finding);
        }
    }

    /// Adds the entries of `other` that are missing here or older here.
    pub fn merge(&mut self, other: Entries) {
        merge(&mut self.rates, other.rates, |rate| rate.when);
        merge(&mut self.findings, other.findings, |finding| finding.when);
    }
}

fn merge<K: Ord, V>(entries: &mut BTreeMap<K, V>, other: BTreeMap<K, V>, when: impl Fn(&V) -> u64) {
    for (key, value) in other {
        if entries.get(&key).is_none_or(|own| when(own) < when(&value)) {
            entries.insert(key, value);
        }
    }
}

/// Returns true for 1 to `most` printable ASCII characters.
pub fn is_plain(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::BackendKind;

    const NOW: u64 = 1_800_000_000;

    fn gpu() -> DeviceInfo {
        DeviceInfo::new("X", BackendKind::Cuda, 0, "gpu")
    }

    #[test]
    fn devices_of_a_kind_share_a_mean_rate_and_invalid_rates_are_ignored() {
        let stored = |rate, samples| StoredRate { rate, samples, when: NOW };
        let mut entries = Entries::default();
        entries.add_rate(&gpu(), 0, stored(10.0, 1));
        entries.add_rate(&gpu(), 0, stored(20.0, 3));
        assert_eq!(entries.rate(&gpu(), 0), Some(17.5));
        for rate in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300, 1e-300] {
            entries.add_rate(&gpu(), 1, stored(rate, 1));
        }
        entries.add_rate(&gpu(), 1, stored(1.0, 0));
        assert_eq!(entries.rate(&gpu(), 1), None);
    }

    #[test]
    fn findings_are_short_plain_text_and_keep_the_date_of_the_first() {
        let finding = |text: &str, when| Finding { text: text.into(), when };
        let mut entries = Entries::default();
        for (subject, text) in [
            ("", "4x2"),
            ("blocks", ""),
            ("blocks", "4x2\nend 1"),
            ("blocks\tof", "4x2"),
            ("blocks", "4 × 2"),
            (&"b".repeat(MAX_SUBJECT + 1), "4x2"),
            ("blocks", &"4".repeat(MAX_FINDING + 1)),
        ] {
            entries.add_finding(&gpu(), subject, finding(text, NOW));
            assert!(entries.is_empty(), "{subject}, {text}");
        }
        for (text, when, then) in [("4x2", NOW, NOW), ("4x2", NOW + 1, NOW), ("4x4", NOW + 2, NOW + 2)] {
            entries.add_finding(&gpu(), "blocks", finding(text, when));
            assert_eq!(entries.findings.values().collect::<Vec<_>>(), [&finding(text, then)]);
        }
    }
}
