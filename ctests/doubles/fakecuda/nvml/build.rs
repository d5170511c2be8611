//! The name that programs ask for.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnvidia-ml.so.1");
    // Stream threads run its code to the end of the process.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
