//! Passes the linker the name and options of the shared library, and packs large kernels.

use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=GPUSCHED_SONAME");
    // The name that programs look up at run time. Packagers set libgpusched.so.0 and ship the
    // links.
    let soname = std::env::var("GPUSCHED_SONAME").unwrap_or_else(|_| "libgpusched.so".into());
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
        // Worker threads run code of the library, so dlclose must not unmap it.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
        // An undefined symbol is a link error, and not an error when the library is loaded. A
        // sanitizer's symbols are defined by the program.
        if std::env::var_os("CARGO_CFG_SANITIZE").is_none() {
            println!("cargo:rustc-cdylib-link-arg=-Wl,-z,defs");
        }
    }
    for equation in ["acoustic1", "acoustic2", "vti"] {
        pack(&format!("{equation}_one_pass.ptx"));
    }
    for equation in ["tti", "tti_old"] {
        pack(&format!("{equation}.ptx"));
    }
}

/// Packs a file of `kernels/ptx`, to a fifth of its size, into cargo's output folder.
fn pack(name: &str) {
    let from = PathBuf::from("kernels/ptx").join(name);
    println!("cargo:rerun-if-changed={}", from.display());
    let text = std::fs::read(&from).expect("the kernels' text");
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo's folder"));
    let packed = miniz_oxide::deflate::compress_to_vec_zlib(&text, 9);
    std::fs::write(folder.join(format!("{name}.z")), packed).expect("room for the packed kernels");
}
