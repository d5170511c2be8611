//! The functions of NVML that all drivers from 470 on have.
//!
//! A handle is the card's place plus one; a MIG instance has its number in the second byte.
//! What happens at run time (memory in use, events, a lost card) is asked of the driver's
//! library, if the process has loaded it.

#![allow(non_snake_case)] // the names are NVML's

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use fakecuda::config::{CardSpec, Config};
use fakecuda::faults::{Effect, Faults, Operation};
use fakecuda::node::Node;

pub type Device = usize;

pub const UNINITIALIZED: c_int = 1;
pub const INVALID: c_int = 2;
pub const NOT_SUPPORTED: c_int = 3;
pub const NO_PERMISSION: c_int = 4;
pub const NOT_FOUND: c_int = 6;
pub const INSUFFICIENT_SIZE: c_int = 7;
pub const TIMEOUT: c_int = 10;
pub const GPU_LOST: c_int = 15;

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

/// Bytes in use by this process (on a node: by all that share it) and by others, whether the card is lost, whether it has a context.
fn state(card: usize) -> [u64; 4] {
    let spec = &machine().config.cards[card];
    let mut view = [0, spec.other, spec.lost.into(), 0];
    if let Some(symbol) = driver(c"fakecuda_card") {
        // SAFETY: our driver's function of that name has this type.
        unsafe {
            let ask: unsafe extern "C" fn(usize, *mut [u64; 4]) -> c_int = std::mem::transmute(symbol);
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
pub fn touch(device: Device) -> Result<usize, c_int> {
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
pub fn memory(device: Device) -> Result<(u64, u64), c_int> {
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
pub struct Process {
    pid: c_uint,
    used: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

#[repr(C)]
pub struct EventData {
    device: Device,
    kind: c_ulonglong,
    data: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

const XID_EVENT: u64 = 8;

/// A set of events: cards, and how many of each one's events were told.
#[derive(Default)]
struct Events {
    sets: Vec<(usize, Vec<(usize, usize)>)>,
    next: usize,
}

fn events() -> std::sync::MutexGuard<'static, Events> {
    static EVENTS: OnceLock<Mutex<Events>> = OnceLock::new();
    EVENTS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Those that have a context on a card, and their bytes.
fn users(card: usize) -> Vec<(u32, u64)> {
    let [used, _, _, active] = state(card);
    match Node::get() {
        Some(node) => {
            let shares = node.shares(card).into_iter().filter(|share| share.context);
            shares.map(|share| (share.process, share.bytes)).collect()
        }
        None if active != 0 => vec![(std::process::id(), used)],
        None => Vec::new(),
    }
}

/// The processes that have a context on a card.
///
/// # Safety
/// `count` and as many entries of `list` as it says may be written.
pub unsafe fn processes(device: Device, count: *mut c_uint, list: *mut Process, short: c_int) -> c_int {
    let card = match touch(device) {
        Ok(card) => card,
        Err(code) => return code,
    };
    if count.is_null() {
        return INVALID;
    }
    let users = users(card);
    // SAFETY: the caller vouches.
    unsafe {
        let room = *count as usize;
        *count = users.len() as c_uint;
        if users.is_empty() {
            return 0;
        }
        if room < users.len() || list.is_null() {
            return short;
        }
        for (at, (pid, used)) in users.into_iter().enumerate() {
            let entry = Process { pid, used, gpu_instance: u32::MAX, compute_instance: u32::MAX };
            list.add(at).write(entry);
        }
    }
    0
}

fn init() -> Result<(), c_int> {
    std::thread::sleep(Duration::from_millis(machine().config.nvml_ms));
    match machine().config.nvml {
        0 => {
            USERS.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        code => Err(code as c_int),
    }
}

nvml! {
    fn nvmlInit_v2() { init() }
    fn nvmlInitWithFlags(flags: c_uint) { let _ = flags; init() }
    fn nvmlShutdown() {
        let one_less = |n: u32| n.checked_sub(1);
        USERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).map(|_| ()).map_err(|_| UNINITIALIZED)
    }
    fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) {
        let branch = match machine().config.driver {
            ..11050 => "470.256.02",
            11050..12030 => "535.261.03",
            12030..12100 => "575.57.08",
            _ => "580.65.06",
        };
        text(version, length, branch)
    }
    fn nvmlSystemGetNVMLVersion(version: *mut c_char, length: c_uint) { text(version, length, "12.575.57.08") }
    fn nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int) { out(version, machine().config.driver) }
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
    fn nvmlDeviceGetHandleByPciBusId_v2(id: *const c_char, device: *mut Device) {
        if USERS.load(Ordering::Relaxed) == 0 { return Err(UNINITIALIZED) }
        if id.is_null() { return Err(INVALID) }
        let wanted = CStr::from_ptr(id).to_string_lossy().to_uppercase();
        let same = |spec: &CardSpec| [4, 8].iter().any(|digits| spec.pci_text(*digits) == wanted);
        let card = machine().config.cards.iter().position(same).ok_or(NOT_FOUND)?;
        touch(card + 1)?;
        out(device, card + 1)
    }
    fn nvmlDeviceGetIndex(device: Device, index: *mut c_uint) {
        let card = touch(device)?;
        out(index, machine().order.iter().position(|c| *c == card).unwrap_or(0) as c_uint)
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
    fn nvmlDeviceGetComputeMode(device: Device, mode: *mut c_uint) {
        touch(device)?;
        out(mode, spec(device)?.mode as c_uint)
    }
    fn nvmlDeviceGetCudaComputeCapability(device: Device, major: *mut c_int, minor: *mut c_int) {
        touch(device)?;
        let cc = spec(device)?.cc;
        out(major, cc.0)?;
        out(minor, cc.1)
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
    fn nvmlDeviceIsMigDeviceHandle(device: Device, is: *mut c_uint) {
        touch(device)?;
        out(is, (device > 0xff).into())
    }
    fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig: Device, device: *mut Device) {
        touch(mig)?;
        if mig <= 0xff { return Err(INVALID) }
        out(device, mig & 0xff)
    }
    fn nvmlDeviceGetEccMode(device: Device, current: *mut c_uint, pending: *mut c_uint) {
        touch(device)?;
        let spec = spec(device)?;
        if !spec.ecc { return Err(NOT_SUPPORTED) }
        out(current, 1)?;
        out(pending, 1)
    }
    fn nvmlDeviceGetTotalEccErrors(device: Device, kind: c_uint, counter: c_uint, count: *mut c_ulonglong) {
        let _ = (kind, counter);
        touch(device)?;
        if spec(device)?.ecc { out(count, 0) } else { Err(NOT_SUPPORTED) }
    }
    fn nvmlDeviceGetUtilizationRates(device: Device, rates: *mut [c_uint; 2]) {
        touch(device)?;
        if device > 0xff || spec(device)?.cc.0 < 5 { return Err(NOT_SUPPORTED) }
        out(rates, [0, 0])
    }
    fn nvmlDeviceGetClockInfo(device: Device, kind: c_uint, clock: *mut c_uint) {
        let _ = kind;
        touch(device)?;
        out(clock, (1000.0 * spec(device)?.speed) as c_uint)
    }
    fn nvmlDeviceGetMaxClockInfo(device: Device, kind: c_uint, clock: *mut c_uint) {
        let _ = kind;
        touch(device)?;
        out(clock, (1000.0 * spec(device)?.speed) as c_uint)
    }
    fn nvmlDeviceGetTemperature(device: Device, sensor: c_uint, celsius: *mut c_uint) {
        let _ = sensor;
        touch(device)?;
        out(celsius, 40)
    }
    fn nvmlDeviceGetComputeRunningProcesses_v2(device: Device, count: *mut c_uint, list: *mut Process) {
        match processes(device, count, list, INSUFFICIENT_SIZE) { 0 => Ok(()), code => Err(code) }
    }
    fn nvmlEventSetCreate(set: *mut usize) {
        let mut all = events();
        all.next += 1;
        let id = all.next;
        all.sets.push((id, Vec::new()));
        out(set, id)
    }
    fn nvmlEventSetFree(set: usize) {
        let mut all = events();
        let before = all.sets.len();
        all.sets.retain(|(id, _)| *id != set);
        if all.sets.len() < before { Ok(()) } else { Err(INVALID) }
    }
    fn nvmlDeviceGetSupportedEventTypes(device: Device, kinds: *mut c_ulonglong) {
        touch(device)?;
        out(kinds, XID_EVENT)
    }
    fn nvmlDeviceRegisterEvents(device: Device, kinds: c_ulonglong, set: usize) {
        let card = touch(device)?;
        if kinds & XID_EVENT == 0 { return Err(NOT_SUPPORTED) }
        let mut all = events();
        let found = all.sets.iter_mut().find(|(id, _)| *id == set).ok_or(INVALID)?;
        found.1.push((card, 0));
        Ok(())
    }
    fn nvmlEventSetWait_v2(set: usize, data: *mut EventData, milliseconds: c_uint) {
        let end = Instant::now() + Duration::from_millis(milliseconds.into());
        loop {
            if let Some(symbol) = driver(c"fakecuda_xid") {
                // SAFETY: our driver's function of that name has this type.
                let ask: extern "C" fn(usize, usize) -> u64 = std::mem::transmute(symbol);
                let mut all = events();
                let found = all.sets.iter_mut().find(|(id, _)| *id == set).ok_or(INVALID)?;
                for (card, seen) in &mut found.1 {
                    let xid = ask(*card, *seen);
                    if xid != 0 {
                        *seen += 1;
                        let (none, device) = (u32::MAX, *card + 1);
                        let event = EventData {
                            device, kind: XID_EVENT, data: xid, gpu_instance: none, compute_instance: none,
                        };
                        return out(data, event);
                    }
                }
            }
            if Instant::now() >= end { return Err(TIMEOUT) }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The words of a code.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(code: c_uint) -> *const c_char {
    match code {
        0 => c"The operation was successful",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        9 => c"Driver Not Loaded",
        10 => c"Timeout",
        15 => c"GPU is lost",
        16 => c"GPU requires reset",
        18 => c"Driver/library version mismatch",
        _ => c"Unknown Error",
    }
    .as_ptr()
}
