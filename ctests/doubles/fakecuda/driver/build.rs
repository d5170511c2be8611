//! Names the library as programs look for it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    // Stream threads run its code until the process ends.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
