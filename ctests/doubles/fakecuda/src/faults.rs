//! What shall go wrong, and at which call.
//!
//! `FAKECUDA_FAULTS` is a list `card:operation:when:what`, separated by `;`. The card is its
//! place in `FAKECUDA`. Operations: `ctx release reset alloc free host copy module function stream
//! event launch graph graphlaunch sync info nvml mig` (`graph`: any call that puts one together; of NVML: any question on the card; for a part of it). When: the call
//! counted from 1, `3+` from the third on, `*` always.
//! What: a status code, known to CUDA or not; `hang` (a launch that never ends); `lost` (the
//! card falls off the bus); `take=BYTES` (another process takes memory, the call goes on);
//! `nan=SEED` and `flip=SEED` (nobody notices: when the next kernel on the
//! card has run, one number in the middle half of each of its largest pieces of memory is none, or has one of its nine
//! upper bits turned over; seed and call say where, and which bit; the call goes on).

use std::collections::HashMap;
use std::sync::Mutex;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    Context,
    Release,
    Reset,
    Alloc,
    Free,
    Host,
    Copy,
    Module,
    Function,
    Stream,
    Event,
    Launch,
    Graph,
    GraphLaunch,
    Sync,
    Info,
    Nvml,
    Mig,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    Code(i32),
    Hang,
    Lost,
    Take(u64),
    Corrupt(Corruption),
}

/// Numbers that are wrong from now on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Corruption {
    pub seed: u64,
    /// To no number; else by a bit.
    pub nan: bool,
}

impl Corruption {
    /// What becomes of a piece of memory that holds float32 numbers.
    pub fn apply(self, piece: &mut [u8]) {
        // SplitMix64.
        let draw = |round: u64| {
            let mut z = self.seed.wrapping_add(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        };
        let numbers = piece.len() / 4;
        if numbers == 0 {
            return;
        }
        let at = numbers / 4 + (draw(1) % (numbers as u64 / 2).max(1)) as usize;
        let Some(number) = piece.get_mut(4 * at..4 * at + 4) else { return };
        let before = u32::from_le_bytes([number[0], number[1], number[2], number[3]]);
        let after = if self.nan { 0x7fff_ffff } else { before ^ 1 << (23 + draw(2) % 9) };
        number.copy_from_slice(&after.to_le_bytes());
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    card: usize,
    operation: Operation,
    first: u64,
    last: u64,
    effect: Effect,
}

#[derive(Debug, Default)]
pub struct Faults {
    rules: Vec<Rule>,
    calls: Mutex<HashMap<(usize, Operation), u64>>,
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
            let wrong = || format!("'{part}' is not card:operation:when:what");
            let fields: Vec<&str> = part.split(':').collect();
            let [card, operation, when, what] = fields[..] else { return Err(wrong()) };
            let operation = match operation {
                "ctx" => Operation::Context,
                "release" => Operation::Release,
                "reset" => Operation::Reset,
                "alloc" => Operation::Alloc,
                "free" => Operation::Free,
                "host" => Operation::Host,
                "copy" => Operation::Copy,
                "module" => Operation::Module,
                "function" => Operation::Function,
                "stream" => Operation::Stream,
                "event" => Operation::Event,
                "launch" => Operation::Launch,
                "graph" => Operation::Graph,
                "graphlaunch" => Operation::GraphLaunch,
                "sync" => Operation::Sync,
                "info" => Operation::Info,
                "nvml" => Operation::Nvml,
                "mig" => Operation::Mig,
                _ => return Err(wrong()),
            };
            let (first, last) = match (when, when.strip_suffix('+')) {
                ("*", _) => (1, u64::MAX),
                (_, Some(first)) => (first.parse().map_err(|_| wrong())?, u64::MAX),
                (one, None) => (one.parse().map_err(|_| wrong())?, one.parse().map_err(|_| wrong())?),
            };
            let effect = match what.split_once('=') {
                Some(("take", bytes)) => Effect::Take(bytes.parse::<f64>().map_err(|_| wrong())? as u64),
                Some((kind @ ("nan" | "flip"), seed)) => {
                    let seed = seed.parse().map_err(|_| wrong())?;
                    Effect::Corrupt(Corruption { seed, nan: kind == "nan" })
                }
                Some(_) => return Err(wrong()),
                None if what == "hang" => Effect::Hang,
                None if what == "lost" => Effect::Lost,
                None => Effect::Code(what.parse().map_err(|_| wrong())?),
            };
            rules.push(Rule { card: card.parse().map_err(|_| wrong())?, operation, first, last, effect });
        }
        Ok(Faults { rules, calls: Mutex::default() })
    }

    /// Counts a call; what it shall suffer.
    pub fn count(&self, card: usize, operation: Operation) -> Vec<Effect> {
        if !self.rules.iter().any(|rule| rule.card == card && rule.operation == operation) {
            return Vec::new();
        }
        let mut calls = self.calls.lock().unwrap_or_else(|e| e.into_inner());
        let call = calls.entry((card, operation)).or_default();
        *call += 1;
        let hit = |rule: &&Rule| {
            rule.card == card && rule.operation == operation && (rule.first..=rule.last).contains(call)
        };
        let effect = |rule: &Rule| match rule.effect {
            // Each call its own place.
            Effect::Corrupt(how) => {
                Effect::Corrupt(Corruption { seed: how.seed.wrapping_add(*call << 32), ..how })
            }
            other => other,
        };
        self.rules.iter().filter(hit).map(effect).collect()
    }
}

/// Codes after which a context answers nothing else.
pub fn sticky(code: i32) -> bool {
    matches!(code, 201 | 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 810 | 911 | 999)
}
