//! The CUDA kernels compiled for the host (`ctests/doubles/hostcuda`): fast, and any thread order can be asked for.

use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;

use gpusched::fd::equation::acoustic1::kernel::Launch;

use crate::kernel_shots::{Engine, Memory};
use testkit::c;

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
type DefectFn = unsafe extern "C" fn() -> *const std::ffi::c_char;

/// Kernels, ready to run.
pub struct Host {
    launch: LaunchFn,
    defect: DefectFn,
}

pub fn source() -> PathBuf {
    testkit::root().join("kernels/acoustic1.cu")
}

/// What the PTX has to say of its source: the sum of its texts, one after the other.
pub fn sum(source: &Path, headers: &[&str]) -> String {
    let files = headers.iter().map(|name| source.with_file_name(name));
    let text: Vec<u8> = [source.to_path_buf()]
        .into_iter()
        .chain(files)
        .flat_map(|file| std::fs::read(file).unwrap())
        .collect();
    let path = c::scratch("hostcuda").join("source");
    std::fs::write(&path, text).unwrap();
    let sum = Command::new("sha256sum").arg(path).output().expect("sha256sum of the coreutils");
    String::from_utf8(sum.stdout).unwrap().split_whitespace().next().unwrap().into()
}

impl Host {
    /// Compiles a `.cu` file, with what is said beside the usual options.
    pub fn compile(kernels: &Path, name: &str, options: &[&str]) -> Host {
        let out = c::scratch("hostcuda").join(format!("{name}.so"));
        let folder = testkit::root().join("ctests/doubles/hostcuda");
        let fused: &[&str] = if cfg!(target_arch = "x86_64") { &["-mfma"] } else { &[] };
        let status = Command::new(c::cpp_compiler())
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
        // SAFETY: a library of our own whose constructors do little; the functions have these types in launch.cpp.
        unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            assert!(!library.is_null(), "{} can't be loaded", out.display());
            let launch = libc::dlsym(library, c"hostcuda_launch".as_ptr());
            let defect = libc::dlsym(library, c"hostcuda_defect".as_ptr());
            assert!(!launch.is_null() && !defect.is_null());
            Host {
                launch: std::mem::transmute::<*mut c_void, LaunchFn>(launch),
                defect: std::mem::transmute::<*mut c_void, DefectFn>(defect),
            }
        }
    }
}

/// The kernels with threads in an order.
pub struct Ordered<'a>(pub &'a Host, pub Order);

impl Ordered<'_> {
    /// Or what the threads did wrong.
    pub fn try_launch(&self, launch: Launch, arguments: &[&[u8]]) -> Result<(), String> {
        let name = CString::new(launch.kernel).unwrap();
        let order = match self.1 {
            Order::Ascending => 0,
            Order::Descending => 1,
            Order::Shuffled(seed) => c_uint::from(seed) + 2,
        };
        let arguments: Vec<*const c_void> = arguments.iter().map(|value| value.as_ptr().cast()).collect();
        // SAFETY: the arguments are those of the kernel, as `kernel` says.
        let status = unsafe {
            let (grid, block) = (launch.grid.as_ptr(), launch.block.as_ptr());
            (self.0.launch)(name.as_ptr(), grid, block, arguments.as_ptr(), order)
        };
        assert_ne!(status, 1, "no kernel {}", launch.kernel);
        if status == 0 {
            return Ok(());
        }
        // SAFETY: a text of this thread, until its next launch.
        let defect = unsafe { CStr::from_ptr((self.0.defect)()) };
        Err(defect.to_str().unwrap().into())
    }
}

impl Engine for Ordered<'_> {
    fn launch(&self, _: &Memory, launch: Launch, arguments: &[&[u8]]) {
        self.try_launch(launch, arguments).unwrap_or_else(|defect| panic!("{}: {defect}", launch.kernel));
    }
}
