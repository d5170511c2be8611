//! The virtual machine: settings and GPUs in `FAKECUDA`, separated by `;`. Without it there are no
//! GPUs.
//! ```text
//! FAKECUDA="driver=12090;dev=name:GTX 1080 Ti,cc:6.1,mem:11G,speed:2.2;dev=cc:3.5,mem:3G,pci:0000:01:00.0"
//! ```
//! | setting | meaning | default |
//! |---|---|---|
//! | `driver` | CUDA version of the driver | 12090 |
//! | `pace` | million instructions a second of a GPU of speed 1; 0: without pauses | 0 |
//! | `nvml` | `ok`, `notloaded`, `mismatch`; `470`: without the functions that drivers before 510 lack, which list processes, too | `ok` |
//! | `nvmlms` | milliseconds that `nvmlInit` takes | 0 |
//! | `jitms` | milliseconds that loading a module takes | 0 |
//! | `init` | result of `cuInit`; 34: the driver is a toolkit's stub; `807:2`: of the first two calls | 0 |
//! | `root` | 0: NVML hides the memory of a GPU that is divided | 1 |
//!
//! Settings of a GPU: `name`, `cc`, `mem` (K, M, G, T: powers of 1024), `speed`, `uuid`, `pci`,
//! `mode` (`exclusive`, `prohibited`), `mig` (instances; `empty`: divided, without one), `ctx` (bytes of a context), `other`
//! (bytes of another process), `sms`, `lost` (1: fallen off the bus), `gone` (NVML's code for it
//! then, 15), `integrated` (1: its memory is the host's).

use std::str::FromStr;

#[derive(Clone, Default)]
pub struct GpuSpec {
    pub name: String,
    pub cc: (i32, i32),
    pub memory: u64,
    pub speed: f64,
    pub uuid: [u8; 16],
    pub pci: (u32, u32, u32),
    pub mode: i32,
    /// MIG is on.
    pub divided: bool,
    pub mig: u32,
    /// The driver is older than CUDA 11.4: NVML names instances as `MIG-GPU-…/1/0`, and the driver
    /// reports only the UUID of their GPU.
    pub old_parts: bool,
    pub context_bytes: u64,
    pub other: u64,
    pub sms: i32,
    pub lost: bool,
    pub gone: i32,
    pub integrated: bool,
}

pub const PROHIBITED: i32 = 2;
pub const EXCLUSIVE: i32 = 3;

#[derive(Default)]
pub struct Config {
    pub driver: i32,
    pub pace: f64,
    pub nvml: u32,
    /// True if NVML has all functions of a driver of 2023.
    pub nvml_new: bool,
    pub nvml_ms: u64,
    pub jit_ms: u64,
    pub init: i32,
    /// Number of calls of `cuInit` that return [`init`](Config::init).
    pub init_calls: u64,
    pub root: bool,
    pub gpus: Vec<GpuSpec>,
}

fn number<T: FromStr>(key: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("'{text}' is no value of {key}"))
}

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
    /// Reads `FAKECUDA`. Prints a mistake on standard error; then no GPUs exist.
    pub fn from_environment() -> Self {
        let text = std::env::var("FAKECUDA").unwrap_or_default();
        Config::parse(&text).unwrap_or_else(|why| {
            eprintln!("fakecuda: FAKECUDA: {why}");
            Config::default()
        })
    }

    pub fn parse(text: &str) -> Result<Self, String> {
        let mut config = Config { driver: 12090, nvml_new: true, root: true, ..Config::default() };
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or(format!("'{part}' has no '='"))?;
            match key.trim() {
                "driver" => config.driver = number(key, value)?,
                "pace" => config.pace = number(key, value)?,
                "nvml" => match value {
                    "ok" => config.nvml = 0,
                    "470" => config.nvml_new = false,
                    "notloaded" => config.nvml = 9,
                    "mismatch" => config.nvml = 18,
                    _ => return Err(format!("'{value}' is no value of nvml")),
                },
                "nvmlms" => config.nvml_ms = number(key, value)?,
                "jitms" => config.jit_ms = number(key, value)?,
                "init" => {
                    let (code, calls) = value.split_once(':').unwrap_or((value, "18446744073709551615"));
                    (config.init, config.init_calls) = (number(key, code)?, number(key, calls)?);
                }
                "root" => config.root = value == "1",
                "dev" => config.gpus.push(GpuSpec::parse(value, config.gpus.len())?),
                other => return Err(format!("'{other}' is no setting")),
            }
        }
        let old_parts = config.driver < 11040;
        config.gpus.iter_mut().for_each(|gpu| gpu.old_parts = old_parts);
        Ok(config)
    }

    pub fn pci_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.gpus.len()).collect();
        order.sort_by_key(|gpu| self.gpus[*gpu].pci);
        order
    }

    /// The GPUs that a program sees, in its order. Read once, when the driver is initialised.
    pub fn visible(&self, order: Option<&str>, visible: Option<&str>) -> Vec<usize> {
        let mut all = self.pci_order();
        all.retain(|gpu| !self.gpus[*gpu].divided || self.gpus[*gpu].mig > 0);
        if order != Some("PCI_BUS_ID") {
            all.sort_by(|a, b| self.gpus[*b].speed.total_cmp(&self.gpus[*a].speed));
        }
        let Some(list) = visible else { return all };
        let mut chosen = Vec::new();
        for entry in list.split(',').map(str::trim) {
            let found = match entry.parse::<usize>() {
                Ok(number) => all.get(number).copied(),
                Err(_) => {
                    let is_named = |gpu: &&usize| {
                        let spec = &self.gpus[**gpu];
                        if spec.mig > 0 && spec.old_parts && entry.starts_with("MIG-") {
                            return (0..spec.mig).any(|instance| spec.mig_uuid_text(instance) == entry);
                        }
                        let name = if spec.mig > 0 && entry.starts_with("MIG-") {
                            spec.mig_uuid_text(0)
                        } else {
                            spec.uuid_text()
                        };
                        entry.len() > 4 && name.starts_with(entry)
                    };
                    // A prefix of two names selects no GPU.
                    let mut named = all.iter().filter(is_named);
                    named.next().copied().filter(|_| named.next().is_none())
                }
            };
            // A mistake or a repetition hides all GPUs after it.
            match found {
                Some(gpu) if !chosen.contains(&gpu) => chosen.push(gpu),
                _ => break,
            }
        }
        chosen
    }
}

impl GpuSpec {
    fn parse(text: &str, index: usize) -> Result<Self, String> {
        let mut uuid = [0x5f; 16];
        uuid[..4].copy_from_slice(&(0x1f2e_3d4c_u32.wrapping_mul(2 * index as u32 + 1)).to_be_bytes());
        uuid[15] = index as u8;
        let mut gpu = GpuSpec {
            name: format!("Virtual GPU {index}"),
            cc: (7, 0),
            memory: 4 << 30,
            speed: 1.0,
            uuid,
            pci: (0, 1 + index as u32, 0),
            sms: 20,
            gone: 15,
            ..GpuSpec::default()
        };
        let mut context = None;
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once(':').ok_or(format!("'{part}' has no ':'"))?;
            let wrong = || format!("'{value}' is no value of {key}");
            match key {
                "name" => gpu.name = value.into(),
                "cc" => {
                    let (major, minor) = value.split_once('.').ok_or_else(wrong)?;
                    gpu.cc = (number(key, major)?, number(key, minor)?);
                }
                "mem" => gpu.memory = bytes(value)?,
                "ctx" => context = Some(bytes(value)?),
                "other" => gpu.other = bytes(value)?,
                "speed" => gpu.speed = number(key, value)?,
                "sms" => gpu.sms = number(key, value)?,
                "uuid" => {
                    let digits: String =
                        value.trim_start_matches("GPU-").chars().filter(|c| *c != '-').collect();
                    let number = u128::from_str_radix(&digits, 16).map_err(|_| wrong())?;
                    gpu.uuid = number.to_be_bytes();
                }
                "pci" => {
                    let numbers: Option<Vec<u32>> = value
                        .trim_end_matches(".0")
                        .split(':')
                        .map(|part| u32::from_str_radix(part, 16).ok())
                        .collect();
                    gpu.pci = match numbers.as_deref() {
                        Some([domain, bus, device]) => (*domain, *bus, *device),
                        _ => return Err(wrong()),
                    };
                }
                "mode" if value == "prohibited" => gpu.mode = PROHIBITED,
                "mode" if value == "exclusive" => gpu.mode = EXCLUSIVE,
                "mig" if value == "empty" => gpu.divided = true,
                "mig" => {
                    gpu.mig = number(key, value)?;
                    gpu.divided = gpu.mig > 0;
                }
                "lost" => gpu.lost = value == "1",
                "gone" => gpu.gone = number(key, value)?,
                "integrated" => gpu.integrated = value == "1",
                other => return Err(format!("'{other}' is no property of a GPU")),
            }
        }
        gpu.context_bytes = context.unwrap_or((100 << 20).min(gpu.memory / 16));
        Ok(gpu)
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
        match self.old_parts {
            true => format!("MIG-{}/{}/0", self.uuid_text(), instance + 1),
            false => format!("MIG-{}", dashed(&self.mig_uuid(instance))),
        }
    }

    pub fn usable(&self) -> u64 {
        self.memory / u64::from(self.mig.max(1))
    }

    /// Returns the address as `0000:01:00.0`, with a number of digits of the domain.
    pub fn pci_text(&self, domain_digits: usize) -> String {
        let (domain, bus, device) = self.pci;
        format!("{domain:0domain_digits$X}:{bus:02X}:{device:02X}.0")
    }
}

fn dashed(uuid: &[u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
