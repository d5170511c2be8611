//! `include/gpusched.h` is what the sources say, and any compiler takes it.

use std::fmt::Write;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

use gpusched::ffi::*;
use testkit::c::{compiler, cpp_compiler, has};
use testkit::{Folder, root, skip};

/// In the order in which a reader meets them.
const FILES: [&str; 12] = [
    "status",
    "logging",
    "scheduler",
    "device",
    "task_run",
    "leased",
    "task",
    "range",
    "seeing",
    "fd_model",
    "fd_shot",
    "legacy",
];

fn generate() -> String {
    let config = cbindgen::Config::from_file(root().join("cbindgen.toml")).expect("cbindgen.toml");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in FILES {
        builder = builder.with_src(root().join("src/ffi").join(file).with_extension("rs"));
    }
    let mut text = Vec::new();
    builder.generate().expect("the sources in src/ffi").write(&mut text);
    String::from_utf8(text).expect("UTF-8")
}

/// A committed file must be what is made now, or `UPDATE=1` makes it so.
fn committed(name: &str, fresh: &str) {
    let path = root().join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, fresh).expect(name);
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == fresh, "{name} is stale; repair it with: UPDATE=1 cargo test --test it header");
}

#[test]
fn committed_header_is_fresh() {
    committed("include/gpusched.h", &generate());
}

fn compiles(compiler: &str, language: &str, standard: &str, source: &Path) {
    let out = Command::new(compiler)
        .args(["-fsyntax-only", "-Wall", "-Wextra", "-pedantic", "-Werror", "-D_GNU_SOURCE"])
        .arg(format!("-std={standard}"))
        .args(["-x", language, "-I"])
        .arg(root().join("include"))
        .arg(source)
        .output()
        .expect("a compiler");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{} as {standard}:\n{said}", source.display());
}

#[test]
fn header_compiles_alone_twice_and_beside_the_systems_own() {
    let folder = Folder::new();
    for (name, text) in [
        ("alone.c", "#include \"gpusched.h\"\nint nothing;\n"),
        ("behind.c", "#include <sched.h>\n#include <pthread.h>\n#include \"gpusched.h\"\nint nothing;\n"),
    ] {
        std::fs::write(folder.at(name), text).expect("a file");
    }
    let cpp = cpp_compiler();
    if !has(&cpp) {
        return skip(&format!("{cpp} is not installed: the header is not compiled as C++"));
    }
    for source in [folder.at("alone.c"), folder.at("behind.c"), root().join("ctests/c/header.c")] {
        for standard in ["c99", "c11", "c17"] {
            compiles(&compiler(), "c", standard, &source);
        }
        for standard in ["c++11", "c++20"] {
            compiles(&cpp, "c++", standard, &source);
        }
    }
}

/// What a struct looks like in memory: its name and size, then each field with offset and size.
struct Layout {
    name: &'static str,
    size: usize,
    fields: Vec<(&'static str, usize, usize)>,
}

fn width<T, F>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

macro_rules! layouts {
    ($($name:ident { $($field:ident),* $(,)? })*) => {
        [$(Layout {
            name: stringify!($name),
            size: size_of::<$name>(),
            fields: vec![$((stringify!($field), offset_of!($name, $field), width(|s: &$name| &s.$field))),*],
        }),*]
    };
}

fn layouts() -> impl IntoIterator<Item = Layout> {
    layouts! {
        sched_config_t { size, devices, slots, cpu_threads, trace_events, reserved, rates_path, stack_bytes }
        sched_stats_t {
            size, submitted, queued, running, done, failed, cancelled, retried, devices, reserved, makespan_ns,
            lower_bound_ns,
        }
        sched_progress_t {
            size, queued, running, done, failed, cancelled, retried, elapsed_ns, eta_ns, work_total, work_done,
        }
        sched_device_stats_t { size, done, failed, busy_ns, leased_bytes, peak_bytes, slots, health }
        sched_device_info_t {
            size, backend, ordinal, uuid, pci_bus_id, name, compute_major, compute_minor, cpu_threads, health,
            total_bytes, free_bytes,
        }
        sched_exec_t { size, task, device, backend, ordinal, slot, attempt, cpu_threads, stream }
        sched_task_desc_t {
            size, run, user, drop, label, device_bytes, work, device_mask, backend_mask, priority, retries, flags,
            task_class, reserved, deadline_ns, after, after_count,
        }
        sched_task_info_t {
            size, state, status, device, slot, attempts, reserved, progress, queued_ns, running_ns,
        }
        sched_range_desc_t {
            size, begin, end, grain, run, user, drop, label, device_bytes, device_mask, backend_mask, priority,
            flags, reserved, deadline_ns, after, after_count,
        }
        sched_fd_model_desc_t { size, nx, ny, nz, dx_m, dy_m, dz_m, flags, vp_m_s, rho_kg_m3 }
        sched_fd_cell_t { ix, iy, iz }
        sched_fd_shot_desc_t {
            size, dt_s, frequency_hz, nt, wavelet, flags, wavelet_samples, wavelet_len, amplitude, record_every,
            source, receivers, receiver_count, plane_iz, plane_every_x, plane_every_y, record, record_len,
            snapshot_every, snapshots, snapshots_len,
        }
        sched_fd_shot_size_t { size, traces, samples, record_len, snapshots, snapshots_len, device_bytes, host_bytes }
    }
}

/// `abi/layout.txt` is what programs that are already built rely on: lines may be added, none may change.
#[test]
#[cfg(target_pointer_width = "64")]
fn layout_is_as_promised_without_holes_and_the_same_in_c() {
    let mut text = String::new();
    let mut source = String::from("#include \"gpusched.h\"\n");
    for Layout { name, size, fields } in layouts() {
        writeln!(text, "{name} {size}").expect("a string");
        writeln!(source, "_Static_assert(sizeof({name}) == {size}, \"{name}\");").expect("a string");
        let mut end = 0;
        for (field, offset, width) in fields {
            writeln!(text, "{name}.{field} {offset} {width}").expect("a string");
            writeln!(
                source,
                "_Static_assert(offsetof({name}, {field}) == {offset} && \
                 sizeof((({name} *)0)->{field}) == {width}, \"{name}.{field}\");"
            )
            .expect("a string");
            assert_eq!(offset, end, "a hole before {name}.{field}");
            end = offset + width;
        }
        assert_eq!(end, size, "a hole at the end of {name}, or a field that this test does not know");
    }
    committed("abi/layout.txt", &text);
    let folder = Folder::new();
    std::fs::write(folder.at("layout.c"), source).expect("a file");
    compiles(&compiler(), "c", "c11", &folder.at("layout.c"));
}

/// The statuses of the header, as `(name, number)`.
fn statuses(header: &str) -> Vec<(String, i32)> {
    let defines = header.lines().filter_map(|line| line.strip_prefix("#define "));
    let pairs = defines.filter_map(|define| define.split_once(' '));
    pairs
        .filter(|(name, _)| {
            name.starts_with("SCHED_E_") || ["SCHED_OK", "SCHED_PENDING", "SCHED_CANCELLED"].contains(name)
        })
        .map(|(name, number)| (name.to_owned(), number.parse().expect("a number")))
        .collect()
}

#[test]
fn every_status_has_its_name_and_every_name_its_status() {
    let name_of = |status| {
        // SAFETY: the function returns a static text that ends with NUL.
        unsafe { std::ffi::CStr::from_ptr(sched_status_name(status)) }.to_str().expect("UTF-8")
    };
    let statuses = statuses(&generate());
    for (name, number) in &statuses {
        assert_eq!(name_of(*number), name);
    }
    let named = (-1000..1000).filter(|&number| name_of(number) != "unknown status").count();
    assert_eq!(named, statuses.len(), "a status without a #define, or the other way round");
    assert_eq!(name_of(i32::MIN), "unknown status");
}

/// That each variant of `Error` has a status is for the compiler to see; here: that it is its own,
/// but for those that tell of memory, of threads, and of some elements of a range.
#[test]
fn errors_and_statuses_are_in_step() {
    let source = std::fs::read_to_string(root().join("src/error.rs")).expect("src/error.rs");
    let (_, body) = source.split_once("pub enum Error {").expect("the enum");
    let (body, _) = body.split_once("\n}").expect("its end");
    let variants = body
        .lines()
        .filter(|line| line.starts_with("    ") && line[4..].starts_with(char::is_uppercase))
        .count();
    let errors = statuses(&generate()).iter().filter(|(_, number)| *number < 0).count();
    assert_eq!(
        variants - 4,
        errors,
        "all variants but NoHostMemory, NoThread, Elements and Cancelled have a status of their own"
    );
}
