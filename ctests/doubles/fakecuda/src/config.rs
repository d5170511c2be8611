//! The virtual machine, from environment variables that both libraries read.
//!
//! `FAKECUDA` lists settings and cards, separated by `;`:
//! ```text
//! FAKECUDA="driver=12090;dev=name:GTX 1080 Ti,cc:6.1,mem:11G,speed:2.2;dev=cc:3.5,mem:3G,pci:0000:01:00.0"
//! ```
//! Settings: `driver` (CUDA version of the driver, 12090), `pace` (million instructions a
//! second of a card of speed 1; 0, the default: as fast as it goes),
//! `fuel` (instructions that the warps of a block may spend in loops together, 1e8:
//! some seconds), `nvml` (`ok`,
//! `notloaded`, `mismatch`, `470`: without the functions that drivers before 510 do not have), `nvmlms` (milliseconds that `nvmlInit` takes), `init` (what `cuInit` answers,
//! 0; 34 makes a toolkit's stub of the driver), `root` (1; 0: NVML does not tell the memory of a card that is divided).
//! Of a card: `name`, `cc`, `mem` (K, M, G, T; powers of 1024), `speed`, `uuid`, `pci`, `mode`
//! (`default`, `exclusive`, `prohibited`), `mig` (instances), `ctx` (bytes of a
//! context), `other` (bytes that another process has), `sms`, `lost` (1: fallen off the bus), `gone`
//! (what NVML answers of it then, 15), `integrated` (1: its memory is the host's).
//! Without `FAKECUDA` there are no cards.

/// A card as the machine was told it has.
#[derive(Clone, Debug, PartialEq)]
pub struct CardSpec {
    pub name: String,
    pub cc: (i32, i32),
    pub memory: u64,
    pub speed: f64,
    pub uuid: [u8; 16],
    /// Domain, bus, device.
    pub pci: (u32, u32, u32),
    pub mode: ComputeMode,
    /// MIG instances; 0: MIG is off.
    pub mig: u32,
    pub context_bytes: u64,
    pub other: u64,
    pub sms: i32,
    pub lost: bool,
    pub gone: i32,
    pub integrated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ComputeMode {
    Default = 0,
    Prohibited = 2,
    Exclusive = 3,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub driver: i32,
    pub pace: f64,
    pub fuel: u64,
    /// What `nvmlInit` answers.
    pub nvml: u32,
    /// NVML has all functions of a driver of 2023.
    pub nvml_new: bool,
    pub nvml_ms: u64,
    /// What `cuInit` answers.
    pub init: i32,
    pub root: bool,
    pub cards: Vec<CardSpec>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            driver: 12090,
            pace: 0.0,
            fuel: 100_000_000,
            nvml: 0,
            nvml_new: true,
            nvml_ms: 0,
            init: 0,
            root: true,
            cards: Vec::new(),
        }
    }
}

/// `11G` as a number.
fn bytes(text: &str) -> Result<u64, String> {
    let shift = match text.trim().to_ascii_uppercase().chars().last() {
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        Some('T') => 40,
        _ => 0,
    };
    let digits = text.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let value: f64 = digits.parse().map_err(|_| format!("'{text}' is no size"))?;
    Ok((value * (1u64 << shift) as f64) as u64)
}

impl Config {
    /// What `FAKECUDA` says; a mistake is told on standard error, and there are no cards then.
    pub fn from_environment() -> Self {
        let text = std::env::var("FAKECUDA").unwrap_or_default();
        Config::parse(&text).unwrap_or_else(|why| {
            eprintln!("fakecuda: FAKECUDA: {why}");
            Config::default()
        })
    }

    pub fn parse(text: &str) -> Result<Self, String> {
        let mut config = Config::default();
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or(format!("'{part}' has no '='"))?;
            let wrong = || format!("'{value}' is no value of {key}");
            match key.trim() {
                "driver" => config.driver = value.parse().map_err(|_| wrong())?,
                "pace" => config.pace = value.parse().map_err(|_| wrong())?,
                "fuel" => config.fuel = value.parse::<f64>().map_err(|_| wrong())? as u64,
                "nvml" => match value {
                    "ok" => config.nvml = 0,
                    "470" => config.nvml_new = false,
                    "notloaded" => config.nvml = 9,
                    "mismatch" => config.nvml = 18,
                    _ => return Err(wrong()),
                },
                "nvmlms" => config.nvml_ms = value.parse().map_err(|_| wrong())?,
                "init" => config.init = value.parse().map_err(|_| wrong())?,
                "root" => config.root = value == "1",
                "dev" => {
                    let card = CardSpec::parse(value, config.cards.len())?;
                    config.cards.push(card);
                }
                other => return Err(format!("'{other}' is no setting")),
            }
        }
        Ok(config)
    }

    /// Indices of the cards as NVML and `CUDA_DEVICE_ORDER=PCI_BUS_ID` order them.
    pub fn pci_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.cards.len()).collect();
        order.sort_by_key(|card| self.cards[*card].pci);
        order
    }

    /// The cards that a program sees, in its order; read once, when the driver is initialised.
    pub fn visible(&self, order: Option<&str>, visible: Option<&str>) -> Vec<usize> {
        let mut all = self.pci_order();
        if order != Some("PCI_BUS_ID") {
            all.sort_by(|a, b| self.cards[*b].speed.total_cmp(&self.cards[*a].speed));
        }
        let Some(list) = visible else { return all };
        let mut chosen = Vec::new();
        for entry in list.split(',').map(str::trim) {
            let found = if let Ok(number) = entry.parse::<usize>() {
                all.get(number).copied()
            } else if entry.len() > 4 && (entry.starts_with("GPU-") || entry.starts_with("MIG-")) {
                let mut matching = all.iter().filter(|card| {
                    let spec = &self.cards[**card];
                    let (name, mig) = (spec.uuid_text(), spec.mig_uuid_text(0));
                    if entry.starts_with("MIG-") {
                        spec.mig > 0 && mig.starts_with(entry)
                    } else {
                        name.starts_with(entry)
                    }
                });
                // A prefix of two names is the name of none.
                match (matching.next(), matching.next()) {
                    (Some(card), None) => Some(*card),
                    _ => None,
                }
            } else {
                None
            };
            // What is wrong hides all that follows; so does a repetition.
            match found {
                Some(card) if !chosen.contains(&card) => chosen.push(card),
                _ => break,
            }
        }
        chosen
    }
}

impl CardSpec {
    fn parse(text: &str, index: usize) -> Result<Self, String> {
        let mut uuid = [0x5f; 16];
        uuid[..4].copy_from_slice(&(0x1f2e_3d4c_u32.wrapping_mul(2 * index as u32 + 1)).to_be_bytes());
        uuid[15] = index as u8;
        let mut card = CardSpec {
            name: format!("Virtual Card {index}"),
            cc: (7, 0),
            memory: 4 << 30,
            speed: 1.0,
            uuid,
            pci: (0, 1 + index as u32, 0),
            mode: ComputeMode::Default,
            mig: 0,
            context_bytes: 0,
            other: 0,
            sms: 20,
            lost: false,
            gone: 15,
            integrated: false,
        };
        let mut context = None;
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once(':').ok_or(format!("'{part}' has no ':'"))?;
            let wrong = || format!("'{value}' is no value of {key}");
            match key {
                "name" => card.name = value.into(),
                "cc" => {
                    let (major, minor) = value.split_once('.').ok_or_else(wrong)?;
                    card.cc = (major.parse().map_err(|_| wrong())?, minor.parse().map_err(|_| wrong())?);
                }
                "mem" => card.memory = bytes(value)?,
                "ctx" => context = Some(bytes(value)?),
                "other" => card.other = bytes(value)?,
                "speed" => card.speed = value.parse().map_err(|_| wrong())?,
                "sms" => card.sms = value.parse().map_err(|_| wrong())?,
                "uuid" => {
                    let digits: String =
                        value.trim_start_matches("GPU-").chars().filter(|c| *c != '-').collect();
                    let number = u128::from_str_radix(&digits, 16).map_err(|_| wrong())?;
                    card.uuid = number.to_be_bytes();
                }
                "pci" => {
                    let numbers: Option<Vec<u32>> = value
                        .trim_end_matches(".0")
                        .split(':')
                        .map(|part| u32::from_str_radix(part, 16).ok())
                        .collect();
                    card.pci = match numbers.as_deref() {
                        Some([domain, bus, device]) => (*domain, *bus, *device),
                        _ => return Err(wrong()),
                    };
                }
                "mode" => {
                    card.mode = match value {
                        "default" => ComputeMode::Default,
                        "prohibited" => ComputeMode::Prohibited,
                        "exclusive" => ComputeMode::Exclusive,
                        _ => return Err(wrong()),
                    }
                }
                "mig" => card.mig = value.parse().map_err(|_| wrong())?,
                "lost" => card.lost = value == "1",
                "gone" => card.gone = value.parse().map_err(|_| wrong())?,
                "integrated" => card.integrated = value == "1",
                other => return Err(format!("'{other}' is no property of a card")),
            }
        }
        card.context_bytes = context.unwrap_or((100 << 20).min(card.memory / 16));
        Ok(card)
    }

    pub fn uuid_text(&self) -> String {
        format!("GPU-{}", dashed(&self.uuid))
    }

    pub fn mig_uuid(&self, instance: u32) -> [u8; 16] {
        let mut uuid = self.uuid;
        uuid[0] ^= 0xa5;
        uuid[14] = uuid[14].wrapping_add(instance as u8);
        uuid
    }

    pub fn mig_uuid_text(&self, instance: u32) -> String {
        format!("MIG-{}", dashed(&self.mig_uuid(instance)))
    }

    /// Bytes that a program on this card can have at most.
    pub fn usable(&self) -> u64 {
        self.memory / u64::from(self.mig.max(1))
    }

    /// `0000:01:00.0`, with as many digits of the domain as asked.
    pub fn pci_text(&self, domain_digits: usize) -> String {
        let (domain, bus, device) = self.pci;
        format!("{domain:0domain_digits$X}:{bus:02X}:{device:02X}.0")
    }
}

fn dashed(uuid: &[u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
