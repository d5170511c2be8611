//! Building a scheduler from the caller's settings, or else the environment's.

use std::env;
use std::path::PathBuf;
use std::sync::Arc;

use log::Level;

use super::{Ownership, Scheduler};
use crate::backend::{Backend, CpuFallback, cpu::CpuBackend, cuda::CudaBackend};
use crate::device::{BackendKind, DeviceInfo, Selection};
use crate::error::{Error, Result};
use crate::node::NodePolicy;
use crate::sched::base::Policy;
use crate::sched::estimate::AUTO_SLOTS;
use crate::sched::runtime::{DEFAULT_STACK, FoundDevice, Peers, Runtime, STACKS, run_worker};
use crate::store::rate_store::Store;

/// More slots would only divide a device; a mask has a bit for each device.
const MAX_SLOTS: u32 = 64;
const MAX_DEVICES: usize = 64;

/// The settings of a scheduler. Each has a default.
#[derive(Default)]
pub struct Builder {
    /// `all`, `none`, or a list such as `cpu,cuda:0,cuda:GPU-5b…`; `None`: the value of
    /// `GPUSCHED_DEVICES`, else `all`.
    pub devices: Option<String>,
    /// Tasks at a time on a device, 1 to 64, or [`AUTO_SLOTS`]. `None`: the value of
    /// `GPUSCHED_SLOTS`, else 1.
    pub slots: Option<u32>,
    /// Threads of the CPU device, over all its slots. `None`: all that the process may use.
    pub cpu_threads: Option<u32>,
    /// Bytes of stack for each task, 1 MiB to 64 GiB. `None`: 8 MiB.
    pub stack_bytes: Option<u64>,
    /// The most events of the trace (about 150 bytes each); 0: no trace. See
    /// [`Scheduler::timeline`].
    pub trace_events: usize,
    /// The store that keeps learned rates between runs. `None`: they are not kept.
    pub rates: Option<Arc<dyn Store>>,
    /// The folder through which processes of a node share their GPUs. `None`: the value of
    /// `GPUSCHED_LEASE_DIR`, else the user's own; but none with [`Builder::backends`], whose
    /// devices no other process has.
    pub lease_folder: Option<PathBuf>,
    /// Replaces the backends that are compiled in.
    pub backends: Option<Vec<Arc<dyn Backend>>>,
    /// Tuning numbers, which tests shorten.
    #[doc(hidden)]
    pub policy: Policy,
}

impl Scheduler {
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Builder {
    /// Looks for devices without using them. Threads start when a task needs them.
    pub fn build(self) -> Result<Scheduler> {
        Ok(Scheduler::new(self.build_runtime()?, Ownership::Own))
    }

    pub(super) fn build_runtime(self) -> Result<Arc<Runtime>> {
        let slots = match self.slots {
            Some(slots @ (1..=MAX_SLOTS | AUTO_SLOTS)) => slots,
            Some(slots) => {
                let accepted = format!("1 to {MAX_SLOTS} tasks at a time on a device");
                return Err(Error::argument("slots", slots, accepted));
            }
            None => parse_slots(&environment("GPUSCHED_SLOTS"))?,
        };
        if let Some(threads) = self.cpu_threads.filter(|threads| !(1..=4096).contains(threads)) {
            return Err(Error::argument("cpu_threads", threads, "1 to 4096 threads"));
        }
        let bytes = self.stack_bytes.unwrap_or(DEFAULT_STACK);
        let stack = usize::try_from(bytes).ok().filter(|_| STACKS.contains(&bytes)).ok_or_else(|| {
            let (least, most) = (STACKS.start(), STACKS.end());
            Error::argument("stack_bytes", bytes, format!("{least} to {most} bytes (1 MiB to 64 GiB)"))
        })?;
        let shared = self.backends.is_none() || self.lease_folder.is_some();
        let backends = self.backends.unwrap_or_else(|| compiled_in(self.cpu_threads, &self.policy));
        let found = find_devices(&backends, self.devices.as_deref())?;
        if found.len() > MAX_DEVICES {
            return Err(Error::argument("devices", found.len(), format!("at most {MAX_DEVICES}")));
        }
        let peers =
            if shared { join_peers(self.lease_folder, &found, slots, self.policy.node)? } else { None };
        let mut runtime = Runtime::new(found, slots, stack, peers, run_worker, self.policy);
        runtime.observe(self.trace_events, self.rates);
        Ok(Arc::new(runtime))
    }
}

/// Joins the processes of the node. A folder that fails is an error only if the caller or the
/// environment named it, or if no file can be opened.
fn join_peers(
    folder: Option<PathBuf>,
    found: &[FoundDevice],
    slots: u32,
    policy: NodePolicy,
) -> Result<Option<Peers>> {
    let slots = if slots == AUTO_SLOTS { 1 } else { slots };
    let joined = Peers::join(folder.as_deref(), found, slots, policy);
    let named = folder.is_some() || env::var_os("GPUSCHED_LEASE_DIR").is_some_and(|named| !named.is_empty());
    joined.or_else(|error| match named || error.is_out_of_descriptors() {
        true => Err(error),
        false => {
            log::warn!("other processes do not know which GPUs this one uses: {error}");
            Ok(None)
        }
    })
}

/// Returns the devices of this machine that `selection` names (`None`: the value of
/// `GPUSCHED_DEVICES`, else all), in the order in which a scheduler has them.
pub fn discover(selection: Option<&str>) -> Result<Vec<DeviceInfo>> {
    Ok(find_devices(&compiled_in(None, &Policy::default()), selection)?
        .into_iter()
        .map(|(device, _)| device)
        .collect())
}

/// Returns every device of this machine, usable or not, and notes for the user about what was found
/// or missed.
pub fn discover_all() -> Result<(Vec<DeviceInfo>, Vec<String>)> {
    let (mut devices, mut notes) = (Vec::new(), Vec::new());
    for backend in compiled_in(None, &Policy::default()) {
        let found = backend.search()?;
        devices.extend(found.devices);
        notes.extend(found.notes);
    }
    Ok((devices, notes))
}

fn compiled_in(cpu_threads: Option<u32>, policy: &Policy) -> Vec<Arc<dyn Backend>> {
    vec![Arc::new(CpuBackend::new(cpu_threads)), Arc::new(CudaBackend::new(policy.backoff))]
}

/// Returns the selected devices, in the order in which a scheduler has them.
fn find_devices(backends: &[Arc<dyn Backend>], selection: Option<&str>) -> Result<Vec<FoundDevice>> {
    let fallback = match environment("GPUSCHED_CPU_FALLBACK").trim() {
        "" | "1" => true,
        "0" => false,
        other => return Err(Error::argument("GPUSCHED_CPU_FALLBACK", other, "0, or 1 (the default)")),
    };
    let selection = match selection {
        Some(text) => Selection::parse("the device selection", text)?,
        None => Selection::parse("GPUSCHED_DEVICES", &environment("GPUSCHED_DEVICES"))?,
    };
    let (mut found, mut notes, mut level) = (Vec::new(), Vec::new(), Level::Debug);
    let falls_back = || selection == Selection::All && fallback;
    // A backend that is not selected is not searched: looking for GPUs loads their driver.
    let selected = |backend: &&Arc<dyn Backend>| {
        backend.kind() == BackendKind::Cpu || selection.may_name(backend.kind())
    };
    for backend in backends.iter().filter(selected) {
        let search = backend.search()?;
        found.extend(search.devices.into_iter().map(|device| (device, backend.clone())));
        notes.extend(search.notes);
        match search.cpu_fallback {
            CpuFallback::Refused if falls_back() => {
                let what = "the selection 'all'".into();
                return Err(Error::NoDevice { what, why: notes.join("; ") });
            }
            CpuFallback::Warned if falls_back() => level = Level::Warn,
            _ => {}
        }
    }
    for note in &notes {
        log::log!(level, "{note}");
    }
    let infos: Vec<&DeviceInfo> = found.iter().map(|(device, _)| device).collect();
    let chosen = selection.choose(&infos, fallback).map_err(|error| match error {
        Error::NoDevice { what, why } if !notes.is_empty() => {
            Error::NoDevice { what, why: format!("{why}; {}", notes.join("; ")) }
        }
        other => other,
    })?;
    Ok(chosen.into_iter().map(|position| found[position].clone()).collect())
}

/// Returns the value of a variable, or an empty text. Invalid UTF-8 becomes characters that no
/// value has, so that it is refused like any other mistake.
fn environment(name: &str) -> String {
    env::var_os(name).map(|value| value.to_string_lossy().into_owned()).unwrap_or_default()
}

fn parse_slots(text: &str) -> Result<u32> {
    match text.trim() {
        "" => Ok(1),
        "auto" => Ok(AUTO_SLOTS),
        number => match number.parse() {
            Ok(slots @ 1..=MAX_SLOTS) => Ok(slots),
            _ => Err(Error::argument("GPUSCHED_SLOTS", text, format!("1 to {MAX_SLOTS}, or auto"))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_variable_is_a_number_or_auto() {
        let expected =
            [("", 1), ("1", 1), (" 3 ", 3), ("64", 64), ("auto", AUTO_SLOTS), (" auto\n", AUTO_SLOTS)];
        for (text, slots) in expected {
            assert_eq!(parse_slots(text), Ok(slots), "{text:?}");
        }
        // The last is the number that stands for `auto` in the interface.
        for text in ["0", "65", "-1", "many", "2.0", "4294967295"] {
            let refused = parse_slots(text).unwrap_err().to_string();
            assert_eq!(refused, format!("GPUSCHED_SLOTS is {text}; accepted: 1 to 64, or auto"));
        }
    }
}
