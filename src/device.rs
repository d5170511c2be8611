//! What a device is called, what it has, and which devices a caller wants:
//! plain data, nothing here touches a device.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};

/// The kinds of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BackendKind {
    Cpu,
    Cuda,
    /// Exists only in a simulation: no backend drives one, and no selection names one.
    Simulated,
}

impl BackendKind {
    pub const fn name(self) -> &'static str {
        match self {
            BackendKind::Cpu => "cpu",
            BackendKind::Cuda => "cuda",
            BackendKind::Simulated => "sim",
        }
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that stays with a device across processes and reboots: the UUID that
/// the driver gives a card (`GPU-…`, `MIG-…`), `CPU-0` for the host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(Arc<str>);

impl DeviceId {
    pub fn new(uuid: &str) -> Self {
        DeviceId(uuid.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a device may be given work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    Good,
    /// Failed often enough, or in such a way, that nothing runs on it any more.
    Retired,
    /// There, but not for programs, or not for this library's.
    Barred,
}

/// A device as it was found, without having been touched.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceInfo {
    pub id: DeviceId,
    pub backend: BackendKind,
    /// The backend's own number for the device, in this process only.
    pub ordinal: u32,
    pub name: String,
    pub pci_bus_id: Option<String>,
    pub compute_capability: Option<(u32, u32)>,
    /// Threads that the host gives this process; `None` for a card.
    pub cpu_threads: Option<u32>,
    pub total_bytes: u64,
    pub free_bytes: u64,
    /// A first guess of how fast it is, in a unit that all devices share: bytes of memory traffic a
    /// second. `None`: no idea.
    pub speed: Option<f64>,
    pub health: Health,
}

/// Of a card, its context takes 60 to 600 MB: code, stacks of all threads, what the driver keeps for itself. How much is
/// known only once it is made.
const CONTEXT: u64 = 512 << 20;

impl DeviceInfo {
    /// A device in good health, without memory, of which nothing more is known.
    pub fn new(id: &str, backend: BackendKind, ordinal: u32, name: impl Into<String>) -> Self {
        DeviceInfo {
            id: DeviceId::new(id),
            backend,
            ordinal,
            name: name.into(),
            pci_bus_id: None,
            compute_capability: None,
            cpu_threads: None,
            total_bytes: 0,
            free_bytes: 0,
            speed: None,
            health: Health::Good,
        }
    }

    /// What tasks may have of it in all.
    pub fn room_bytes(&self) -> u64 {
        match self.backend {
            BackendKind::Cuda => self.total_bytes - CONTEXT.min(self.total_bytes / 16),
            _ => self.total_bytes,
        }
    }

    /// `cpu:0`, `cuda:3`, `sim:1`: how people name a device on a command line, and how messages name it.
    pub fn label(&self) -> String {
        format!("{}:{}", self.backend, self.ordinal)
    }

    /// `cuda:3 (GPU-5b…)`, and whether it can't be used.
    fn mention(&self) -> String {
        let health = match self.health {
            Health::Good => "",
            Health::Retired | Health::Barred => ", which can't be used",
        };
        format!("{} ({}{health})", self.label(), self.id)
    }
}

/// Which devices a caller wants: the text of `GPUSCHED_DEVICES` and `--devices`.
#[derive(Debug, Clone, PartialEq)]
pub enum Selection {
    /// Every card; the CPU if there is none.
    All,
    /// In this order; an empty list is no device at all.
    List(Vec<Wanted>),
}

/// One item of a list.
#[derive(Debug, Clone, PartialEq)]
pub enum Wanted {
    Kind(BackendKind),
    Ordinal(BackendKind, u32),
    /// A UUID, or enough of its beginning to be the only one.
    Uuid(BackendKind, String),
}

const ACCEPTED: &str = "all, none, or a list of cpu, cuda, cuda:NUMBER and cuda:UUID";

impl Selection {
    /// Empty text is `all`.
    pub fn parse(text: &str) -> Result<Self> {
        match text.trim() {
            "" | "all" => return Ok(Selection::All),
            "none" => return Ok(Selection::List(Vec::new())),
            _ => {}
        }
        text.split(',').map(|item| Wanted::parse(item.trim())).collect::<Result<_>>().map(Selection::List)
    }

    /// Whether devices of a kind matter to it.
    pub fn may_name(&self, kind: BackendKind) -> bool {
        let Selection::List(list) = self else { return true };
        list.iter().any(|wanted| match wanted {
            Wanted::Kind(other) | Wanted::Ordinal(other, _) | Wanted::Uuid(other, _) => *other == kind,
        })
    }

    /// Positions in `there` of the devices that are wanted, each once, of those that can be used. An item
    /// that names none of them is an error. `cpu_fallback`: `all` may mean the CPU where there is no card.
    pub fn choose(&self, there: &[&DeviceInfo], cpu_fallback: bool) -> Result<Vec<usize>> {
        let of = |wanted: &dyn Fn(&DeviceInfo) -> bool| -> Vec<usize> {
            let fit = |device: &DeviceInfo| device.health == Health::Good && wanted(device);
            (0..there.len()).filter(|&position| fit(there[position])).collect()
        };
        let Selection::List(list) = self else {
            let cards = of(&|device| device.backend != BackendKind::Cpu);
            return Ok(match cards.is_empty() && cpu_fallback {
                true => of(&|device| device.backend == BackendKind::Cpu),
                false => cards,
            });
        };
        let mut chosen = Vec::new();
        for wanted in list {
            let found = of(&|device| wanted.matches(device));
            let ambiguous = matches!(wanted, Wanted::Uuid(..)) && found.len() > 1;
            if found.is_empty() || ambiguous {
                let labels: Vec<String> = there.iter().map(|device| device.mention()).collect();
                let labels = if labels.is_empty() { "nothing".into() } else { labels.join(", ") };
                let problem = if ambiguous { "names several" } else { "names none" };
                let why = format!("'{wanted}' {problem} of what is there: {labels}");
                return Err(Error::NoDevice { what: "the selection".into(), why });
            }
            chosen
                .extend(found.into_iter().filter(|position| !chosen.contains(position)).collect::<Vec<_>>());
        }
        Ok(chosen)
    }
}

impl Wanted {
    fn parse(item: &str) -> Result<Self> {
        let bad = || Error::argument("an item of the device selection", format!("'{item}'"), ACCEPTED);
        let (kind, which) = match item.split_once(':') {
            Some((kind, which)) => (kind, Some(which)),
            None => (item, None),
        };
        let kind = match kind {
            "cpu" => BackendKind::Cpu,
            "cuda" => BackendKind::Cuda,
            _ => return Err(bad()),
        };
        match which {
            None => Ok(Wanted::Kind(kind)),
            Some("") => Err(bad()),
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map(|ordinal| Wanted::Ordinal(kind, ordinal)).map_err(|_| bad())
            }
            Some(uuid) => Ok(Wanted::Uuid(kind, uuid.into())),
        }
    }

    fn matches(&self, device: &DeviceInfo) -> bool {
        match self {
            Wanted::Kind(kind) => device.backend == *kind,
            Wanted::Ordinal(kind, ordinal) => device.backend == *kind && device.ordinal == *ordinal,
            Wanted::Uuid(kind, uuid) => {
                device.backend == *kind && device.id.as_str().starts_with(uuid.as_str())
            }
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wanted::Kind(kind) => write!(f, "{kind}"),
            Wanted::Ordinal(kind, ordinal) => write!(f, "{kind}:{ordinal}"),
            Wanted::Uuid(kind, uuid) => write!(f, "{kind}:{uuid}"),
        }
    }
}
