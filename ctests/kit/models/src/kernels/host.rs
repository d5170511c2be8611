//! CUDA kernels compiled for the host by `ctests/doubles/hostcuda`: fast, and in any order of
//! threads.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use gpusched::fd::time_loop::launch::Launch;
use testkit::c;

use super::{Engine, Memory};

/// The order in which the threads of a launch run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Order {
    Ascending,
    Descending,
    Shuffled(u16),
}

type Run =
    unsafe extern "C" fn(*const c_char, *const c_uint, *const c_uint, *const *const c_void, c_uint) -> c_int;

/// A compiled `.cu` file.
pub struct Host {
    launch: Run,
    defect: unsafe extern "C" fn() -> *const c_char,
}

impl Host {
    /// Compiles a `.cu` file with further options.
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
        // SAFETY: our own library, whose constructors do little. launch.cpp gives the functions
        // these types.
        unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            assert!(!library.is_null(), "{} can't be loaded", out.display());
            let launch = libc::dlsym(library, c"hostcuda_launch".as_ptr());
            let defect = libc::dlsym(library, c"hostcuda_defect".as_ptr());
            assert!(!launch.is_null() && !defect.is_null());
            Host { launch: std::mem::transmute_copy(&launch), defect: std::mem::transmute_copy(&defect) }
        }
    }
}

/// Kernels of some files, with an order of threads. A file is compiled at the first launch of one
/// of its kernels.
pub struct Ordered<'a>(pub &'a [&'a LazyLock<Host>], pub Order);

impl Engine for Ordered<'_> {
    fn launch(&self, _: &Memory, launch: Launch, arguments: &[&[u8]]) {
        let name = CString::new(launch.kernel).unwrap();
        let order = match self.1 {
            Order::Ascending => 0,
            Order::Descending => 1,
            Order::Shuffled(seed) => c_uint::from(seed) + 2,
        };
        let arguments: Vec<*const c_void> = arguments.iter().map(|value| value.as_ptr().cast()).collect();
        for host in self.0 {
            // SAFETY: the arguments are those of the kernel; the text is of this thread's last
            // launch.
            unsafe {
                let (grid, block) = (launch.grid.as_ptr(), launch.block.as_ptr());
                match (host.launch)(name.as_ptr(), grid, block, arguments.as_ptr(), order) {
                    0 => return,
                    1 => {}
                    _ => panic!("{}: {}", launch.kernel, CStr::from_ptr((host.defect)()).to_str().unwrap()),
                }
            }
        }
        panic!("no kernel {}", launch.kernel)
    }
}
