//! Hostile input: the library must read or refuse randomly changed input: no panic, no abort, no
//! hang, and no more memory than the input's size justifies.
//!
//! ```text
//! cargo test --test fuzz                              a few seconds for each target, always the same inputs
//! FUZZ_RUNS=1000000 FUZZ_SEED=7 cargo test --release --test fuzz npy -- --nocapture
//! FUZZ_FILE=path cargo test --test fuzz npy        one input, as it is
//! ```
//! Inputs begin as the files in `corpus/TARGET`; one with a new answer is changed further. An input
//! that fails stays in the folder that the message names; it belongs into the corpus, which is
//! tried first. `cargo test --bin gpusched fuzz` fuzzes the inputs of the command; `store::format`
//! tests changed texts of the rates cache.

mod leases;

use gpusched::device::{BackendKind, DeviceInfo, Health, Selection};
use gpusched::io::npy;
use testkit::fuzz::{Target, memory, run};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

#[rustfmt::skip]
const NPY_WORDS: &[&str] = &[
    "descr", "fortran_order", "shape", "True", "False", "<f4", ">f4", "<f8", ">f8", "|O", "<i4", "(", ")",
    "L", "(2, 3)", "(0,)", "()", "(3,)", "(1, 1, 1, 1, 6)", "(18446744073709551615, 0)", "'", "\"",
];

#[rustfmt::skip]
const SELECTION_WORDS: &[&str] = &[
    "all", "none", "cpu", "cuda", "sim", ":", ",", "GPU-", "MIG-", "GPU-5b1c", "4294967296", "cuda:0",
    "cpu:0", " ",
];

#[test]
fn npy_header() {
    run(&Target {
        name: "npy",
        seeds: Vec::new,
        words: NPY_WORDS,
        runs: 6000,
        most: 200_000,
        memory: |length| (256 << 10) + 32 * length,
        give: |file, bytes| match npy::read(file) {
            Err(error) => {
                let sentence = error.to_string();
                assert!(sentence.contains("input"), "does not name the file: {sentence}");
                Some(sentence)
            }
            Ok(array) => {
                assert_eq!(array.shape.iter().product::<usize>(), array.data.len());
                assert!(array.data.len() <= bytes.len());
                None
            }
        },
    });
}

#[test]
fn selection() {
    run(&Target {
        name: "selection",
        seeds: Vec::new,
        words: SELECTION_WORDS,
        runs: 6000,
        most: 20_000,
        memory: |length| (64 << 10) + 64 * length,
        give: |_, bytes| {
            let text = String::from_utf8_lossy(bytes);
            let there = there();
            let list: Vec<&DeviceInfo> = there.iter().collect();
            let chosen =
                Selection::parse("the text", &text).and_then(|selection| selection.choose(&list, true));
            match chosen {
                Err(error) => Some(error.to_string()),
                Ok(chosen) => {
                    let mut once = chosen.clone();
                    once.sort_unstable();
                    once.dedup();
                    assert_eq!(once.len(), chosen.len(), "a device twice");
                    assert!(chosen.iter().all(|&at| there[at].health == Health::Good));
                    None
                }
            }
        },
    });
}

fn there() -> [DeviceInfo; 4] {
    let device = |uuid, backend, ordinal, health| DeviceInfo {
        health,
        ..DeviceInfo::new(uuid, backend, ordinal, "device")
    };
    [
        device("CPU-0", BackendKind::Cpu, 0, Health::Good),
        device("GPU-5b1c", BackendKind::Cuda, 0, Health::Good),
        device("GPU-5b22", BackendKind::Cuda, 1, Health::Good),
        device("GPU-7777", BackendKind::Cuda, 2, Health::Retired),
    ]
}
