//! Identity, properties and selection of devices: plain data. No function here accesses a device.

use std::fmt;

use crate::error::{Error, Result};

/// Kinds of device.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BackendKind {
    #[default]
    Cpu,
    Cuda,
    /// Exists only in a simulation: no backend drives it, and no selection can name it.
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

/// Whether tasks may run on a device.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    #[default]
    Good,
    /// Retired after failures.
    Retired,
    /// Present, but closed to programs, or not usable by this library.
    Barred,
}

/// Properties of a device as found by a backend.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct DeviceInfo {
    /// Name that the device keeps across processes and reboots: the UUID that the driver gives a
    /// GPU (`GPU-…`, `MIG-…`), `CPU-0` for the host.
    pub id: String,
    pub backend: BackendKind,
    /// The backend's number for the device, valid in this process only.
    pub ordinal: u32,
    pub name: String,
    pub pci_bus_id: Option<String>,
    pub compute_capability: Option<(u32, u32)>,
    /// Threads that the host gives this process; `None` for a GPU.
    pub cpu_threads: Option<u32>,
    pub total_bytes: u64,
    pub free_bytes: u64,
    /// Bytes that this process's context takes; 0: not measured.
    pub context_bytes: u64,
    /// Estimated speed before any measurement, in a unit common to all devices: bytes of memory
    /// traffic per second. `None`: unknown.
    pub speed: Option<f64>,
    pub health: Health,
}

/// Bytes reserved for the context of a GPU. A context takes 60 to 700 MB for code, thread stacks
/// and the driver itself. The exact number is known only after its creation.
const CONTEXT_BYTES: u64 = 512 << 20;

impl DeviceInfo {
    /// Returns a device in good health, without memory and further properties.
    pub fn new(id: &str, backend: BackendKind, ordinal: u32, name: impl Into<String>) -> Self {
        DeviceInfo { id: id.into(), backend, ordinal, name: name.into(), ..DeviceInfo::default() }
    }

    /// Returns the bytes that all tasks together may use.
    pub fn usable_bytes(&self) -> u64 {
        match self.backend {
            BackendKind::Cuda => {
                let reserve = CONTEXT_BYTES.min(self.total_bytes / 16);
                self.total_bytes.saturating_sub(self.context_bytes.max(reserve))
            }
            _ => self.total_bytes,
        }
    }

    /// Returns the label in command lines and messages: `cpu:0`, `cuda:3`, `sim:1`.
    pub fn label(&self) -> String {
        format!("{}:{}", self.backend, self.ordinal)
    }

    /// Returns label, UUID and health for messages: `cuda:3 (GPU-5b…)`.
    fn describe(&self) -> String {
        let health = match self.health {
            Health::Good => "",
            Health::Retired | Health::Barred => ", which can't be used",
        };
        format!("{} ({}{health})", self.label(), self.id)
    }
}

/// Selection of devices: the text of `GPUSCHED_DEVICES` and `--devices`.
#[derive(Debug, Clone, PartialEq)]
pub enum Selection {
    /// Every GPU, or the CPU if there is none.
    All,
    /// These devices in this order. An empty list selects no device.
    List(Vec<DeviceSelector>),
}

/// Item of a device list.
#[derive(Debug, Clone, PartialEq)]
pub enum DeviceSelector {
    Kind(BackendKind),
    Ordinal(BackendKind, u32),
    /// A UUID, or a unique prefix of it.
    Uuid(BackendKind, String),
}

/// Accepted selections of devices.
pub const SELECTIONS: &str = "all, none, or a list of cpu, cuda, cuda:NUMBER and cuda:UUID";

impl Selection {
    /// Parses a selection. Errors call it `named`. An empty text means `all`.
    pub fn parse(named: &str, text: &str) -> Result<Self> {
        match text.trim() {
            "" | "all" => return Ok(Selection::All),
            "none" => return Ok(Selection::List(Vec::new())),
            _ => {}
        }
        text.split(',')
            .map(|item| DeviceSelector::parse(named, item.trim()))
            .collect::<Result<_>>()
            .map(Selection::List)
    }

    /// Returns true if the selection may contain devices of this kind.
    pub fn may_name(&self, kind: BackendKind) -> bool {
        let Selection::List(list) = self else { return true };
        list.iter().any(|selector| match selector {
            DeviceSelector::Kind(other)
            | DeviceSelector::Ordinal(other, _)
            | DeviceSelector::Uuid(other, _) => *other == kind,
        })
    }

    /// Returns the indices in `available` of the selected usable devices, each once. Returns an
    /// error if an item matches none. `cpu_fallback`: `all` means the CPU if no GPU exists.
    pub fn choose(&self, available: &[&DeviceInfo], cpu_fallback: bool) -> Result<Vec<usize>> {
        let of = |selector: &dyn Fn(&DeviceInfo) -> bool| -> Vec<usize> {
            let fit = |device: &DeviceInfo| device.health == Health::Good && selector(device);
            (0..available.len()).filter(|&position| fit(available[position])).collect()
        };
        let Selection::List(list) = self else {
            let gpus = of(&|device| device.backend != BackendKind::Cpu);
            return Ok(match gpus.is_empty() && cpu_fallback {
                true => of(&|device| device.backend == BackendKind::Cpu),
                false => gpus,
            });
        };
        let mut chosen = Vec::new();
        for selector in list {
            let found = of(&|device| selector.matches(device));
            let ambiguous = matches!(selector, DeviceSelector::Uuid(..)) && found.len() > 1;
            if found.is_empty() || ambiguous {
                let labels: Vec<String> = available.iter().map(|device| device.describe()).collect();
                let labels = if labels.is_empty() { "nothing".into() } else { labels.join(", ") };
                let problem = if ambiguous { "matches several" } else { "matches none" };
                let why = format!("'{selector}' {problem} of the devices: {labels}");
                return Err(Error::NoDevice { what: "the selection".into(), why });
            }
            chosen
                .extend(found.into_iter().filter(|position| !chosen.contains(position)).collect::<Vec<_>>());
        }
        Ok(chosen)
    }
}

impl DeviceSelector {
    fn parse(named: &str, item: &str) -> Result<Self> {
        let bad = || Error::argument(format!("an item of {named}"), format!("'{item}'"), SELECTIONS);
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
            None => Ok(DeviceSelector::Kind(kind)),
            Some("") => Err(bad()),
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map(|ordinal| DeviceSelector::Ordinal(kind, ordinal)).map_err(|_| bad())
            }
            Some(uuid) => Ok(DeviceSelector::Uuid(kind, uuid.into())),
        }
    }

    fn matches(&self, device: &DeviceInfo) -> bool {
        match self {
            DeviceSelector::Kind(kind) => device.backend == *kind,
            DeviceSelector::Ordinal(kind, ordinal) => device.backend == *kind && device.ordinal == *ordinal,
            DeviceSelector::Uuid(kind, uuid) => {
                device.backend == *kind && device.id.as_str().starts_with(uuid.as_str())
            }
        }
    }
}

impl fmt::Display for DeviceSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceSelector::Kind(kind) => write!(f, "{kind}"),
            DeviceSelector::Ordinal(kind, ordinal) => write!(f, "{kind}:{ordinal}"),
            DeviceSelector::Uuid(kind, uuid) => write!(f, "{kind}:{uuid}"),
        }
    }
}
