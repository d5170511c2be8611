//! Failures of chosen calls: `FAKECUDA_FAULTS` is a list `gpu:operation:when:what`, separated by
//! `;`.
//!
//! The GPU is its place in `FAKECUDA`. Operations: [`OPERATIONS`]. `graph` is any call that builds
//! a graph, `nvml` any call of NVML for the GPU, `mig` one for an instance of it. When: the call
//! from 1 on, `3+` from the third on, `*` always.
//!
//! | what | effect |
//! |---|---|
//! | a status code | the call returns it |
//! | `hang` | the launch never ends |
//! | `lost` | the GPU falls off the bus |
//! | `closed` | the compute mode becomes prohibited; the call returns 999 |
//! | `take=BYTES` | another process takes memory; the call succeeds |
//! | `wait=MS` | the call takes so many milliseconds more |
//! | `nan=SEED`, `flip=SEED` | silent corruption; the call succeeds |
//!
//! Silent corruption: after the next kernel on the GPU, one number in the middle half of one of its
//! largest allocations up to 64 MiB becomes NaN, or one of the nine upper bits of the number flips.
//! Seed and call select all three.

use std::collections::HashMap;
use std::sync::Mutex;

#[rustfmt::skip]
pub const OPERATIONS: [&str; 18] = [
    "ctx", "release", "reset", "alloc", "free", "host", "copy", "module", "function", "stream",
    "event", "launch", "graph", "graphlaunch", "sync", "info", "nvml", "mig",
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    Code(i32),
    Hang,
    Lost,
    Closed,
    Take(u64),
    Wait(u64),
    Corrupt(Corruption),
}

/// A silent corruption of memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Corruption {
    pub seed: u64,
    /// Replaces the number by NaN; otherwise flips a bit.
    pub nan: bool,
}

impl Corruption {
    /// SplitMix64.
    fn draw(self, round: u64) -> u64 {
        let mut z = self.seed.wrapping_add(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns the index of the affected allocation.
    pub fn of_piece(self, pieces: usize) -> usize {
        (self.draw(3) % pieces.max(1) as u64) as usize
    }

    pub fn apply(self, piece: &mut [u8]) {
        let numbers = piece.len() / 4;
        if numbers == 0 {
            return;
        }
        let at = numbers / 4 + (self.draw(1) % (numbers as u64 / 2).max(1)) as usize;
        let Some(number) = piece.get_mut(4 * at..4 * at + 4) else { return };
        let before = u32::from_le_bytes([number[0], number[1], number[2], number[3]]);
        let after = if self.nan { 0x7fff_ffff } else { before ^ 1 << (23 + self.draw(2) % 9) };
        number.copy_from_slice(&after.to_le_bytes());
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    gpu: usize,
    operation: &'static str,
    first: u64,
    last: u64,
    effect: Effect,
}

#[derive(Debug, Default)]
pub struct Faults {
    rules: Vec<Rule>,
    calls: Mutex<HashMap<(usize, &'static str), u64>>,
}

impl Faults {
    pub fn from_environment() -> Self {
        let text = std::env::var("FAKECUDA_FAULTS").unwrap_or_default();
        Faults::parse(&text).unwrap_or_else(|why| {
            eprintln!("fakecuda: FAKECUDA_FAULTS: {why}");
            Faults::default()
        })
    }

    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Vec::new();
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let wrong = || format!("'{part}' is not gpu:operation:when:what");
            let fields: Vec<&str> = part.split(':').collect();
            let [gpu, operation, when, what] = fields[..] else { return Err(wrong()) };
            let operation = *OPERATIONS.iter().find(|name| **name == operation).ok_or_else(wrong)?;
            let (first, last) = match (when, when.strip_suffix('+')) {
                ("*", _) => (1, u64::MAX),
                (_, Some(first)) => (first.parse().map_err(|_| wrong())?, u64::MAX),
                (one, None) => (one.parse().map_err(|_| wrong())?, one.parse().map_err(|_| wrong())?),
            };
            let effect = match what.split_once('=') {
                Some(("take", bytes)) => Effect::Take(bytes.parse::<f64>().map_err(|_| wrong())? as u64),
                Some(("wait", ms)) => Effect::Wait(ms.parse().map_err(|_| wrong())?),
                Some((kind @ ("nan" | "flip"), seed)) => {
                    let seed = seed.parse().map_err(|_| wrong())?;
                    Effect::Corrupt(Corruption { seed, nan: kind == "nan" })
                }
                Some(_) => return Err(wrong()),
                None if what == "hang" => Effect::Hang,
                None if what == "lost" => Effect::Lost,
                None if what == "closed" => Effect::Closed,
                None => Effect::Code(what.parse().map_err(|_| wrong())?),
            };
            rules.push(Rule { gpu: gpu.parse().map_err(|_| wrong())?, operation, first, last, effect });
        }
        Ok(Faults { rules, calls: Mutex::default() })
    }

    pub fn count(&self, gpu: usize, operation: &'static str) -> Vec<Effect> {
        if !self.rules.iter().any(|rule| rule.gpu == gpu && rule.operation == operation) {
            return Vec::new();
        }
        let mut calls = self.calls.lock().unwrap_or_else(|e| e.into_inner());
        let call = calls.entry((gpu, operation)).or_default();
        *call += 1;
        let hit = |rule: &&Rule| {
            rule.gpu == gpu && rule.operation == operation && (rule.first..=rule.last).contains(call)
        };
        let effect = |rule: &Rule| match rule.effect {
            // Each call corrupts another place.
            Effect::Corrupt(how) => {
                Effect::Corrupt(Corruption { seed: how.seed.wrapping_add(*call << 32), ..how })
            }
            other => other,
        };
        self.rules.iter().filter(hit).map(effect).collect()
    }
}

/// Returns true for codes after which every call in the context fails; 1700 stands for those of
/// later drivers.
pub fn sticky(code: i32) -> bool {
    matches!(code, 1700 | 201 | 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 810 | 911 | 999)
}
