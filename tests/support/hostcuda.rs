//! The CUDA kernels compiled for the host (`ctests/hostcuda`), and whole shots by them, as a card would be
//! driven: upload, launch step by step, drain a small buffer of samples now and then.

use std::ffi::{CString, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use gpusched::fd::equation::acoustic1::Coefficients;
use gpusched::fd::equation::acoustic1::kernel::{self, Addresses, Launch, Tables};
use gpusched::fd::model::Model;
use gpusched::fd::survey::Shot;

use super::c;
use super::support::shooting::Shots;

/// In which order the threads of a launch run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Order {
    Ascending,
    Descending,
    Shuffled(u16),
}

type LaunchFn = unsafe extern "C" fn(
    *const std::ffi::c_char,
    *const c_uint,
    *const c_uint,
    *const *const c_void,
    c_uint,
) -> c_int;

/// Kernels, ready to run.
pub struct Host {
    launch: LaunchFn,
}

pub fn source() -> PathBuf {
    c::root().join("kernels/acoustic1.cu")
}

pub fn cplusplus() -> String {
    std::env::var("CXX").unwrap_or_else(|_| "g++".into())
}

impl Host {
    /// Compiles a `.cu` file, with what is said beside the usual options.
    pub fn compile(kernels: &Path, name: &str, options: &[&str]) -> Host {
        let out = c::scratch("hostcuda").join(format!("{name}.so"));
        let folder = c::root().join("ctests/hostcuda");
        let fused: &[&str] = if cfg!(target_arch = "x86_64") { &["-mfma"] } else { &[] };
        let status = Command::new(cplusplus())
            .args(["-std=c++17", "-O2", "-g1", "-ffp-contract=off", "-fno-math-errno", "-fPIC", "-shared"])
            .args(["-Wall", "-Wextra", "-Wno-unknown-pragmas", "-Werror"])
            .args(fused)
            .args(options)
            .arg(format!("-DKERNELS=\"{}\"", kernels.display()))
            .arg(folder.join("launch.cpp"))
            .arg("-o")
            .arg(&out)
            .status();
        assert!(status.expect("a C++ compiler").success(), "{} does not compile", kernels.display());
        let path = CString::new(out.to_str().unwrap()).unwrap();
        // SAFETY: a library of our own without constructors; the function has this type in launch.cpp.
        unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            assert!(!library.is_null(), "{} can't be loaded", out.display());
            let launch = libc::dlsym(library, c"hostcuda_launch".as_ptr());
            assert!(!launch.is_null());
            Host { launch: std::mem::transmute::<*mut c_void, LaunchFn>(launch) }
        }
    }

    fn launch(&self, launch: Launch, order: Order, arguments: &[*const c_void]) {
        let name = CString::new(launch.kernel).unwrap();
        let order = match order {
            Order::Ascending => 0,
            Order::Descending => 1,
            Order::Shuffled(seed) => c_uint::from(seed) + 2,
        };
        assert!(launch.grid[1].max(launch.grid[2]) <= 65_535 && launch.block.iter().product::<u32>() <= 1024);
        // SAFETY: the arguments are those of the kernel, as `kernel` says.
        let status = unsafe {
            let (grid, block) = (launch.grid.as_ptr(), launch.block.as_ptr());
            (self.launch)(name.as_ptr(), grid, block, arguments.as_ptr(), order)
        };
        assert_eq!(status, 0, "no kernel {}", launch.kernel);
    }

    /// A whole shot. `planes` is of [`Tables::params`].
    pub fn fire(
        &self,
        model: &Arc<Model>,
        dt: f32,
        shot: &Shot,
        pml: usize,
        planes: usize,
        order: Order,
    ) -> Shots {
        let c = Coefficients::new(model, dt, pml).unwrap();
        let tables = Tables::new(&c).unwrap();
        let zeros = |len: usize| vec![0.0f32; len];
        let mut p = zeros(tables.field_len());
        let mut velocity = [0; 3].map(|_| zeros(tables.field_len()));
        let mut part = tables.part_lens().map(zeros);
        let address = |array: &mut Vec<f32>| array.as_mut_ptr().expose_provenance() as u64;
        let at = Addresses {
            p: address(&mut p),
            velocity: velocity.each_mut().map(address),
            part: part.each_mut().map(address),
            b: tables.b.as_ptr().expose_provenance() as u64,
            kappa: tables.kappa.as_ptr().expose_provenance() as u64,
            profiles: tables.profiles.as_ptr().expose_provenance() as u64,
        };
        let params = tables.params(&at, planes);
        let all: *const c_void = (&raw const params).cast();

        let terms = tables.source(&c, shot.source);
        let (terms_at, terms_count) = (terms.as_ptr(), terms.len() as i32);
        let receivers = tables.receivers(&shot.receivers);
        let (receivers_at, traces) = (receivers.as_ptr(), receivers.len());
        let traces_count = traces as i32;
        let samples = shot.samples();
        // What a card holds of the record: a few samples of each trace.
        const SLOTS: usize = 7;
        let mut buffer = vec![f32::NAN; SLOTS * traces];
        let mut record = vec![f32::NAN; traces * samples];
        let mut snapshots = Vec::new();
        for step in 0..shot.nt {
            self.launch(kernel::velocity(&params), order, &[all]);
            if let Some(sample) = shot.wavelet.samples.get(step) {
                let value = shot.amplitude * sample;
                let arguments: [*const c_void; 4] = [
                    all,
                    (&raw const terms_at).cast(),
                    (&raw const terms_count).cast(),
                    (&raw const value).cast(),
                ];
                self.launch(kernel::source(terms.len()), order, &arguments);
            }
            self.launch(kernel::pressure(&params), order, &[all]);
            let (sample, slot) = (step / shot.record_every, step / shot.record_every % SLOTS);
            if step.is_multiple_of(shot.record_every) && traces > 0 {
                let row = buffer[slot * traces..][..traces].as_mut_ptr();
                let arguments: [*const c_void; 4] = [
                    all,
                    (&raw const receivers_at).cast(),
                    (&raw const traces_count).cast(),
                    (&raw const row).cast(),
                ];
                self.launch(kernel::record(traces), order, &arguments);
                if slot + 1 == SLOTS || sample + 1 == samples {
                    for (trace, to) in record.chunks_mut(samples).enumerate() {
                        for slot in 0..=slot {
                            to[sample / SLOTS * SLOTS + slot] = buffer[slot * traces + trace];
                        }
                    }
                    buffer.fill(f32::NAN);
                }
            }
            if shot.snapshot_every.is_some_and(|every| step.is_multiple_of(every)) {
                let mut field = vec![f32::NAN; model.grid.cells()];
                let to = field.as_mut_ptr();
                self.launch(kernel::snapshot(&params), order, &[all, (&raw const to).cast()]);
                snapshots.push((step, field));
            }
        }
        let mut peak = 0u32;
        let peak_at = &raw mut peak;
        self.launch(kernel::peak(&params), order, &[all, (&raw const peak_at).cast()]);
        let largest = p.iter().map(|p| p.abs().to_bits()).max();
        assert_eq!(Some(peak), largest, "the peak");
        for field in velocity.iter().chain([&p]) {
            check_border(&tables, field);
        }
        Shots { record, samples, snapshots }
    }

    /// What the peak of a field is that holds one of these values somewhere, zeros elsewhere.
    pub fn peak_of(&self, model: &Arc<Model>, value: f32, number: usize) -> f32 {
        let c = Coefficients::new(model, 1e-3, 8).unwrap();
        let tables = Tables::new(&c).unwrap();
        let mut p = vec![0.0f32; tables.field_len()];
        let layout = &tables.layout;
        let [nx, ny, nz] = layout.padded;
        p[layout.at([number / nz % nx, number / nz / nx % ny, number % nz])] = value;
        let at = p.as_ptr().expose_provenance() as u64;
        let at = Addresses { p: at, velocity: [at; 3], part: [at; 3], b: at, kappa: at, profiles: at };
        let params = tables.params(&at, 1);
        let mut peak = 0u32;
        let peak_at = &raw mut peak;
        let arguments = [(&raw const params).cast(), (&raw const peak_at).cast()];
        self.launch(kernel::peak(&params), Order::Shuffled(1), &arguments);
        f32::from_bits(peak)
    }
}

/// What is never updated is zero still: the outermost layers, and all that only fills up rows.
fn check_border(tables: &Tables, field: &[f32]) {
    let layout = &tables.layout;
    let [nx, ny, _] = layout.padded;
    for row in 0..nx * ny {
        let (x, y) = (row % nx, row / nx);
        let inside = layout.active(0).contains(&x) && layout.active(1).contains(&y);
        let values = &field[layout.row(row)..][..layout.pitch.min(field.len() - layout.row(row))];
        let active = if inside { layout.active(2) } else { 0..0 };
        let clean = values.iter().enumerate().all(|(z, v)| active.contains(&z) || v.to_bits() == 0);
        assert!(clean, "row {row} of {nx} x {ny} is written where it must not be");
    }
}
