//! Discovery: the GPUs that are found, their numbers, and the notes on the others.

use std::sync::Mutex;
use std::time::Duration;

use gpusched::Error;
use gpusched::device::{DeviceInfo, Health};
use gpusched::sched::Builder;

use crate::fixtures::*;
use testkit::process::in_child;

/// Returns the names by the driver's numbers. Checks that NVML and the driver describe the same GPU.
fn names() -> Vec<String> {
    let (gpus, _) = found();
    for (place, gpu) in gpus.iter().enumerate() {
        assert_eq!(gpu.ordinal as usize, place);
        let (bytes, uuid, bus, speed) = match gpu.name.as_str() {
            "A" => (1 << 30, "GPU-aa000000-0000-0000-0000-000000000001", "0000:01:00.0", 1.0),
            "B" => (2 << 30, "GPU-aa100000-0000-0000-0000-000000000002", "0000:03:00.0", 3.0),
            _ => (3 << 30, "GPU-bb000000-0000-0000-0000-000000000003", "0000:02:00.0", 2.0),
        };
        assert_eq!((gpu.total_bytes, gpu.free_bytes), (bytes, bytes), "{gpu:?}");
        assert_eq!((gpu.id.as_str(), gpu.pci_bus_id.as_deref()), (uuid, Some(bus)));
        // 2 GHz times the GPU's speed, twice a clock, 256 bits.
        assert_eq!(gpu.speed, Some(128e9 * speed), "{gpu:?}");
    }
    assert!(report()["gpus"].as_array().unwrap().iter().all(|gpu| gpu["contexts_made"] == 0));
    gpus.into_iter().map(|gpu| gpu.name).collect()
}

fn refused(devices: &str) -> String {
    match scheduler(devices, 1).err() {
        Some(error @ Error::NoDevice { .. }) => error.to_string(),
        other => panic!("{devices}: {other:?}"),
    }
}

fn compute(devices: &str) {
    let scheduler = scheduler(devices, 1).unwrap();
    run(&scheduler, task(|stream| filled(stream, 1.0))).unwrap();
}

fn labels(devices: &str) -> Vec<String> {
    scheduler(devices, 1).unwrap().devices().iter().map(DeviceInfo::label).collect()
}

pub fn orders_that_differ() {
    assert_eq!(names(), ["B", "C", "A"]);
    let chosen = |devices: &str| -> Vec<String> {
        let scheduler = scheduler(devices, 1).unwrap();
        scheduler.devices().iter().map(|device| device.name.clone()).collect()
    };
    assert_eq!(chosen("all"), ["B", "C", "A"]);
    assert_eq!(chosen("cuda:2,cuda:GPU-aa1"), ["A", "B"]);
    assert_eq!(chosen("cuda"), ["B", "C", "A"]);
    let why = refused("cuda:3");
    assert!(why.contains("'cuda:3' matches none") && why.contains("cuda:0 (GPU-aa1"), "{why}");
    assert!(refused("cuda:GPU-aa").contains("matches several"));
    assert!(refused("cuda:GPU-cc").contains("matches none"));
}

pub fn pci_order() {
    assert_eq!(names(), ["A", "C", "B"]);
}

pub fn visible_numbers() {
    assert_eq!(names(), ["A", "B"]);
    let (_, notes) = found();
    assert!(notes.contains("CUDA_VISIBLE_DEVICES=2,0 hides from this process: GPU-bb"), "{notes}");
}

pub fn visible_names() {
    assert_eq!(names(), ["C", "B"]);
}

pub fn visible_until_the_mistake() {
    assert_eq!(names(), ["C"]);
}

pub fn visible_none() {
    assert_eq!(names(), [""; 0]);
    let (_, notes) = found();
    assert!(notes.contains("CUDA_VISIBLE_DEVICES= hides every GPU"), "{notes}");
    assert!(refused("cuda:0").contains("hides every GPU"));
    // The selection names no GPU, so the CPU is enough.
    assert_eq!(labels("all"), ["cpu:0"]);
}

fn one_part(free: u64) {
    let (gpus, _) = found();
    assert_eq!(gpus.len(), 1);
    assert_eq!(gpus[0].id.as_str(), "MIG-69000000-0000-0000-0000-000000000001");
    assert_eq!((gpus[0].total_bytes, gpus[0].free_bytes), (40 << 30, free));
    compute("cuda:MIG-69");
}

pub fn mig() {
    one_part(40 << 30);
    // Half of the GPU has half of its bandwidth.
    assert_eq!(found().0[0].speed, Some(64e9));
}

/// Neither NVML nor the driver reports the memory of the whole GPU, so the part's share is unknown.
pub fn mig_without_its_gpu() {
    one_part(40 << 30);
    let (gpus, notes) = found();
    assert_eq!(gpus[0].speed, None);
    let expected = ["NVML can't be used", "CUDA gives a process one MIG part"];
    assert!(notes.is_empty() || expected.iter().any(|text| notes.starts_with(text)), "{notes}");
}

pub fn mig_by_its_name() {
    let (gpus, notes) = found();
    assert_eq!(gpus.len(), 1);
    assert_eq!(gpus[0].id.as_str(), "MIG-69000000-0000-0000-0000-000000000001");
    let hidden = notes.split("hides from this process: ").nth(1).unwrap_or_else(|| panic!("{notes}"));
    assert_eq!(hidden, "GPU-dd000000-0000-0000-0000-000000000002 (A100)");
    let others = "one MIG part; start a process for each of the others, with its name in CUDA_VISIBLE_DEVICES: \
                  MIG-69000000-0000-0000-0000-000000000101 (H100)";
    assert!(notes.contains(others), "{notes}");
    compute("all");
}

pub fn closed_gpus() {
    let (gpus, notes) = found();
    assert_eq!(gpus.iter().map(|gpu| gpu.health).collect::<Vec<_>>(), [Health::Barred, Health::Good]);
    assert!(notes.contains("cuda:0") && notes.contains("compute mode prohibited"), "{notes}");
    assert_eq!(labels("all"), ["cuda:1"]);
    compute("all");
    let why = refused("cuda:0");
    assert!(why.contains("can't be used") && why.contains("compute mode prohibited"), "{why}");
    assert_eq!(driver_count(0, "contexts_made"), 0);
}

pub fn nothing_but_closed_gpus() {
    assert_eq!(labels("all"), ["cpu:0"]);
    assert!(refused("cuda").contains("compute mode prohibited"));
}

pub fn driver_alone() {
    assert_eq!(names(), ["B", "C", "A"]);
    let (_, notes) = found();
    assert!(notes.contains("NVML can't be used") && notes.contains("libnvidia-ml.so"), "{notes}");
    compute("cuda");
}

pub fn nvml_that_fails() {
    let (gpus, notes) = found();
    assert_eq!((gpus.len(), gpus[0].name.as_str(), gpus[0].free_bytes), (1, "A", 1 << 30));
    assert!(notes.contains("NVML can't be used") && notes.contains("driver"), "{notes}");
    compute("cuda");
}

pub fn nvml_of_470() {
    let (gpus, notes) = found();
    assert_eq!((gpus[0].total_bytes, gpus[0].free_bytes), (3 << 30, 2 << 30));
    assert_eq!((gpus[0].compute_capability, notes.as_str()), (Some((3, 5)), ""));
}

pub fn gpu_that_nvml_cannot_query_is_used() {
    let (gpus, notes) = found();
    assert_eq!(gpus.len(), 2);
    assert!(notes.contains("NVML can't query its GPU 0"), "{notes}");
    assert_eq!((gpus[0].free_bytes, gpus[0].health), (2 << 30, Health::Good));
}

pub fn lost_gpu() {
    let (gpus, notes) = found();
    assert_eq!(gpus.iter().map(|gpu| gpu.health).collect::<Vec<_>>(), [Health::Retired, Health::Good]);
    assert!(notes.contains("fallen off the bus"), "{notes}");
    assert_eq!(labels("all"), ["cuda:1"]);
}

pub fn part_of_an_old_driver_is_the_one_that_the_variable_names() {
    let named = std::env::var("CUDA_VISIBLE_DEVICES").unwrap();
    let (gpus, notes) = found();
    let gpu = &gpus[0];
    assert_eq!((gpu.id.as_str(), gpu.health), (named.as_str(), Health::Good), "{notes}");
    // Half of the GPU has half of its memory and bandwidth.
    assert_eq!((gpu.total_bytes, gpu.free_bytes, gpu.speed), (40 << 30, 40 << 30, Some(64e9)));
    assert!(notes.starts_with("CUDA gives a process one MIG part") && !notes.contains(&named), "{notes}");
    compute("cuda:MIG-GPU-cc");
}

pub fn only_part_of_an_old_driver_needs_no_name() {
    let (gpus, notes) = found();
    let part = "MIG-GPU-cc000000-0000-0000-0000-000000000001/1/0";
    assert_eq!((gpus[0].id.as_str(), gpus[0].health, notes.as_str()), (part, Health::Good, ""));
}

pub fn unnamed_part_of_an_old_driver_is_barred() {
    let (gpus, notes) = found();
    assert_eq!((gpus.len(), gpus[0].health), (1, Health::Barred), "{notes}");
    assert!(notes.contains("CUDA_VISIBLE_DEVICES") && notes.contains("CUDA 11.4 (470)"), "{notes}");
    assert_eq!(labels("all"), ["cpu:0"]);
}

fn names_the_gpu_without_parts() {
    let (_, notes) = found();
    assert!(notes.contains("GPU-ee000000-0000-0000-0000-000000000001 (H100)"), "{notes}");
    assert!(notes.contains("nvidia-smi mig") && !notes.contains("finds no GPU"), "{notes}");
}

pub fn divided_gpu_without_parts_is_named() {
    names_the_gpu_without_parts();
    assert!(refused("cuda").contains("nvidia-smi mig"));
}

pub fn divided_gpu_without_parts_is_named_beside_others() {
    names_the_gpu_without_parts();
    assert_eq!(labels("all"), ["cuda:0"]);
}

pub fn a_toolkits_stub() {
    let (gpus, notes) = found();
    assert_eq!(gpus, []);
    assert!(notes.contains("the libcuda.so.1 that was found is a toolkit's stub"), "{notes}");
    assert!(notes.contains("remove its directory from LD_LIBRARY_PATH"), "{notes}");
}

pub fn a_driver_that_does_not_begin() {
    log::set_logger(&Warnings).expect("no other logger");
    log::set_max_level(log::LevelFilter::Warn);
    let why = refused("cuda");
    assert!(why.contains("NVIDIA's driver can't be used: cuInit: status 803"), "{why}");
    assert!(why.contains("restart the machine"), "{why}");
    assert_eq!(WARNINGS.lock().unwrap()[..], [""; 0], "the error says it");
    assert_eq!(labels("all"), ["cpu:0"]);
    let warnings = WARNINGS.lock().unwrap();
    assert!(warnings.len() == 1 && warnings[0].contains("status 803"), "{warnings:?}");
}

/// A service of the machine begins after the job: the CPU must not compute what the GPUs should.
pub fn driver_that_is_not_ready_is_not_replaced_by_the_cpu() {
    for devices in ["all", "cuda", "cuda:0"] {
        match impatient(devices).err() {
            Some(Error::NoDevice { why, .. }) => assert!(why.contains("nvidia-fabricmanager"), "{why}"),
            other => panic!("{devices}: {other:?}"),
        }
    }
    assert!(in_child(|| matches!(impatient("all"), Err(Error::NoDevice { .. }))));
    assert_eq!(impatient("cpu").unwrap().devices().len(), 1);
}

pub fn driver_is_initialised_again_until_it_is_ready() {
    assert_eq!(impatient("all").unwrap().devices()[0].label(), "cuda:0");
    compute("cuda");
}

/// Another thread waits for the driver at the fork.
pub fn child_forked_during_the_wait_for_the_driver_finds_no_gpus() {
    std::thread::scope(|scope| {
        let parent = scope.spawn(|| labels("all"));
        while !driver_is_loaded() {
            std::thread::sleep(Duration::from_millis(5));
        }
        // The parent waits a second.
        std::thread::sleep(Duration::from_millis(300));
        let child = in_child(|| {
            let refused = matches!(impatient("all"), Err(Error::NoDevice { .. }));
            refused && impatient("cpu").is_ok()
        });
        assert!(child);
        assert_eq!(parent.join().unwrap(), ["cuda:0"]);
    });
}

/// Records the warnings of the library.
struct Warnings;

static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

impl log::Log for Warnings {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        WARNINGS.lock().unwrap().push(record.args().to_string());
    }

    fn flush(&self) {}
}

/// Where no file can be opened, nothing says whether the machine has GPUs.
pub fn driver_is_searched_again_after_a_lack_of_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid struct.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) }, 0);
    let set = |limit: libc::rlimit| {
        // SAFETY: a valid struct.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    };
    set(libc::rlimit { rlim_cur: 3, ..limit });
    let few = scheduler("all", 1).err();
    set(limit);
    let why = few.map(|error| error.to_string()).unwrap_or_default();
    assert!(why.contains("(ulimit -n)"), "{why}");
    assert_eq!(labels("all"), ["cuda:0"]);
}

/// An integrated GPU is promised no more memory than the host has.
pub fn memory_of_the_host() {
    let (devices, _) = gpusched::sched::discover_all().unwrap();
    let most = devices.iter().find(|device| device.cpu_threads.is_some()).unwrap().total_bytes;
    let (gpus, _) = found();
    assert_eq!(gpus[0].total_bytes, 64 << 40);
    assert!((1..=most).contains(&gpus[0].free_bytes), "{:?}", gpus[0]);
    let scheduler = scheduler("cuda", 1).unwrap();
    let check = task(move |stream| match stream.free_bytes() {
        free if (1..=most).contains(&free) => filled(stream, 1.0),
        free => Err(Error::Internal(format!("{free} bytes are free"))),
    });
    run(&scheduler, check).unwrap();
}

pub fn no_driver() {
    let (gpus, notes) = found();
    assert_eq!(gpus, []);
    assert!(notes.contains("libcuda.so.1 was not found") && notes.contains("install"), "{notes}");
    assert!(refused("cuda:0").contains("libcuda.so.1 was not found"));
    assert_eq!(labels("all"), ["cpu:0"]);
}

pub fn cpu_fallback_replaces_missing_gpus_unless_the_variable_is_0() {
    let (gpus, notes) = found();
    assert_eq!((gpus.len(), notes.as_str()), (0, "NVIDIA's driver finds no GPU"));
    assert_eq!(labels("all"), ["cpu:0"]);
}

pub fn old_driver() {
    let why = refused("cuda");
    assert!(why.contains("the driver is for CUDA 9.1") && why.contains("9.2 (driver 396)"), "{why}");
}

pub fn old_gpu() {
    let (gpus, notes) = found();
    assert_eq!(gpus[0].health, Health::Barred);
    assert!(notes.contains("capability 3.0") && notes.contains("3.5"), "{notes}");
}

pub fn selection_without_gpus_loads_no_driver() {
    let scheduler = scheduler("cpu", 1).unwrap();
    assert_eq!(scheduler.devices().len(), 1);
    assert!(!driver_is_loaded());
}

pub fn cpu_fallback_that_is_off_leaves_no_device_where_there_is_no_gpu() {
    assert_eq!(labels("all"), [""; 0]);
    let scheduler = scheduler("all", 1).unwrap();
    let refused = scheduler.submit(task(|_| Ok(()))).unwrap_err();
    assert!(matches!(refused, Error::NoDevice { .. }), "{refused}");
    assert_eq!(self::scheduler("cpu", 1).unwrap().devices().len(), 1, "a CPU that is named is no fallback");
}

pub fn cpu_fallback_is_not_needed_where_there_are_gpus() {
    assert_eq!(labels("all"), ["cuda:0", "cuda:1"]);
}

pub fn slots_variable_counts_where_the_caller_names_no_number() {
    let slots = |slots: Option<u32>| {
        let scheduler = Builder { slots, ..Builder::default() }.build().unwrap();
        scheduler.stats().unwrap().devices.iter().map(|device| device.slots).collect::<Vec<_>>()
    };
    assert_eq!(slots(None), [3, 3]);
    assert_eq!(slots(Some(2)), [2, 2]);
}
