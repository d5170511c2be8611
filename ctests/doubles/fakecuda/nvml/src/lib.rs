//! `libnvidia-ml.so.1`: the functions of NVML that the library and its tests use.
//!
//! A handle is the card's place plus one; a MIG instance has its number in the second byte.
//! What happens at run time (memory in use, a lost card) is asked of the driver's
//! library, if the process has loaded it.

#![allow(non_snake_case)] // the names are NVML's

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fakecuda::config::{CardSpec, Config};
use fakecuda::faults::{Effect, Faults, Operation};
use fakecuda::node::Node;

pub type Device = usize;

const UNINITIALIZED: c_int = 1;
const INVALID: c_int = 2;
const NOT_SUPPORTED: c_int = 3;
const NO_PERMISSION: c_int = 4;
const NOT_FOUND: c_int = 6;
const INSUFFICIENT_SIZE: c_int = 7;
const FUNCTION_NOT_FOUND: c_int = 13;
const GPU_LOST: c_int = 15;

struct Machine {
    config: Config,
    faults: Faults,
    order: Vec<usize>,
}

static USERS: AtomicU32 = AtomicU32::new(0);

fn machine() -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let config = Config::from_environment();
        Machine { order: config.pci_order(), config, faults: Faults::from_environment() }
    })
}

/// A function of the driver's library, if that is loaded.
fn driver(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: names end with zero; a library that is there stays (it asks never to be unloaded).
    unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if library.is_null() {
            return None;
        }
        let symbol = libc::dlsym(library, name.as_ptr());
        libc::dlclose(library);
        (!symbol.is_null()).then_some(symbol)
    }
}

/// Bytes in use by this process (on a node: by all that share it) and by others, and whether the card is lost.
fn state(card: usize) -> [u64; 3] {
    let spec = &machine().config.cards[card];
    let mut view = [0, spec.other, spec.lost.into()];
    if let Some(symbol) = driver(c"fakecuda_card") {
        // SAFETY: our driver's function of that name has this type.
        unsafe {
            let ask: unsafe extern "C" fn(usize, *mut [u64; 3]) -> c_int = std::mem::transmute(symbol);
            ask(card, &mut view);
        }
    }
    if let Some(node) = Node::get() {
        view[0] = node.in_use(card);
    }
    view
}

fn index(device: Device) -> Option<usize> {
    (device & 0xff).checked_sub(1).filter(|card| *card < machine().config.cards.len())
}

fn spec(device: Device) -> Result<&'static CardSpec, c_int> {
    index(device).map(|card| &machine().config.cards[card]).ok_or(INVALID)
}

/// Every call on a card: whether it can be asked at all.
fn touch(device: Device) -> Result<usize, c_int> {
    if USERS.load(Ordering::Relaxed) == 0 {
        return Err(UNINITIALIZED);
    }
    let card = index(device).ok_or(INVALID)?;
    for effect in machine().faults.count(card, Operation::Nvml) {
        match effect {
            Effect::Code(code) => return Err(code),
            Effect::Lost => return Err(GPU_LOST),
            _ => {}
        }
    }
    if state(card)[2] != 0 { Err(machine().config.cards[card].gone) } else { Ok(card) }
}

/// Total and used bytes.
fn memory(device: Device) -> Result<(u64, u64), c_int> {
    let card = touch(device)?;
    let spec = &machine().config.cards[card];
    if spec.integrated {
        return Err(NOT_SUPPORTED);
    }
    // All of a card that is divided is its administrator's to see.
    if device <= 0xff && spec.mig > 0 && !machine().config.root {
        return Err(NO_PERMISSION);
    }
    let total = if device > 0xff { spec.usable() } else { spec.memory };
    let [used, other, ..] = state(card);
    Ok((total, (used + other).min(total)))
}

macro_rules! nvml {
    ($( fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block )*) => { $(
        /// # Safety
        /// As NVML asks of its callers.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_int {
            // SAFETY: what the caller gives is as NVML asks; handles are numbers.
            #[allow(unused_unsafe)]
            let run = || -> Result<(), c_int> { unsafe { $body } };
            run().err().unwrap_or(0)
        }
    )* };
}

unsafe fn out<T>(to: *mut T, value: T) -> Result<(), c_int> {
    if to.is_null() {
        return Err(INVALID);
    }
    // SAFETY: not null; the caller vouches.
    unsafe { to.write(value) };
    Ok(())
}

unsafe fn text(to: *mut c_char, room: c_uint, value: &str) -> Result<(), c_int> {
    if to.is_null() {
        return Err(INVALID);
    }
    if value.len() >= room as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    // SAFETY: room for the text and its zero, asked just now.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(value.as_ptr(), value.len());
        to.add(value.len()).write(0);
    }
    Ok(())
}

#[repr(C)]
pub struct Pci {
    legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    id: c_uint,
    subsystem: c_uint,
    bus_id: [c_char; 32],
}

#[repr(C)]
pub struct Memory {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[repr(C)]
pub struct MemoryV2 {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

nvml! {
    fn nvmlInit_v2() {
        std::thread::sleep(Duration::from_millis(machine().config.nvml_ms));
        match machine().config.nvml {
            0 => {
                USERS.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            code => Err(code as c_int),
        }
    }
    fn nvmlShutdown() {
        let one_less = |n: u32| n.checked_sub(1);
        USERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).map(|_| ()).map_err(|_| UNINITIALIZED)
    }
    fn nvmlDeviceGetCount_v2(count: *mut c_uint) {
        if USERS.load(Ordering::Relaxed) == 0 { return Err(UNINITIALIZED) }
        out(count, machine().order.len() as c_uint)
    }
    fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: *mut Device) {
        if USERS.load(Ordering::Relaxed) == 0 { return Err(UNINITIALIZED) }
        let card = *machine().order.get(index as usize).ok_or(INVALID)?;
        touch(card + 1)?;
        out(device, card + 1)
    }
    fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, device: *mut Device) {
        if USERS.load(Ordering::Relaxed) == 0 { return Err(UNINITIALIZED) }
        if uuid.is_null() { return Err(INVALID) }
        let wanted = CStr::from_ptr(uuid).to_string_lossy().to_lowercase();
        for (card, spec) in machine().config.cards.iter().enumerate() {
            if spec.uuid_text().to_lowercase() == wanted {
                touch(card + 1)?;
                return out(device, card + 1);
            }
            if let Some(instance) = (0..spec.mig).find(|i| spec.mig_uuid_text(*i).to_lowercase() == wanted) {
                return out(device, (card + 1) | ((instance as usize + 1) << 8));
            }
        }
        Err(NOT_FOUND)
    }
    fn nvmlDeviceGetName(device: Device, name: *mut c_char, length: c_uint) {
        touch(device)?;
        text(name, length, &spec(device)?.name)
    }
    fn nvmlDeviceGetUUID(device: Device, uuid: *mut c_char, length: c_uint) {
        touch(device)?;
        let spec = spec(device)?;
        match device >> 8 {
            0 => text(uuid, length, &spec.uuid_text()),
            instance => text(uuid, length, &spec.mig_uuid_text(instance as u32 - 1)),
        }
    }
    fn nvmlDeviceGetPciInfo_v3(device: Device, pci: *mut Pci) {
        touch(device)?;
        let spec = spec(device)?;
        let mut info = Pci {
            legacy: [0; 16],
            domain: spec.pci.0,
            bus: spec.pci.1,
            device: spec.pci.2,
            id: 0x1b06_10de,
            subsystem: 0,
            bus_id: [0; 32],
        };
        text(info.legacy.as_mut_ptr(), 16, &spec.pci_text(4))?;
        text(info.bus_id.as_mut_ptr(), 32, &spec.pci_text(8))?;
        out(pci, info)
    }
    fn nvmlDeviceGetMemoryInfo(device: Device, info: *mut Memory) {
        let (total, used) = memory(device)?;
        out(info, Memory { total, free: total - used, used })
    }
    fn nvmlDeviceGetMemoryInfo_v2(device: Device, info: *mut MemoryV2) {
        if !machine().config.nvml_new { return Err(FUNCTION_NOT_FOUND) }
        let (total, used) = memory(device)?;
        if info.is_null() || (*info).version != (size_of::<MemoryV2>() as c_uint | 2 << 24) { return Err(INVALID) }
        out(info, MemoryV2 { version: (*info).version, total, reserved: 0, free: total - used, used })
    }
    fn nvmlDeviceGetComputeMode(device: Device, mode: *mut c_uint) {
        touch(device)?;
        out(mode, spec(device)?.mode as c_uint)
    }
    fn nvmlDeviceGetMigMode(device: Device, current: *mut c_uint, pending: *mut c_uint) {
        touch(device)?;
        let spec = spec(device)?;
        if spec.cc.0 < 8 { return Err(NOT_SUPPORTED) }
        out(current, (spec.mig > 0).into())?;
        out(pending, (spec.mig > 0).into())
    }
    fn nvmlDeviceGetMaxMigDeviceCount(device: Device, count: *mut c_uint) {
        touch(device)?;
        out(count, if spec(device)?.cc.0 < 8 { 0 } else { 7 })
    }
    fn nvmlDeviceGetMigDeviceHandleByIndex(device: Device, index: c_uint, mig: *mut Device) {
        let card = touch(device)?;
        for effect in machine().faults.count(card, Operation::Mig) {
            if let Effect::Code(code) = effect { return Err(code) }
        }
        if index >= spec(device)?.mig { return Err(NOT_FOUND) }
        out(mig, (device & 0xff) | ((index as usize + 1) << 8))
    }
}
