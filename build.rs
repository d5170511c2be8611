//! Passes the linker the name and options of the shared library, and packs large kernels.

use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=GPUSCHED_SONAME");
    // The name that programs ask for at run time. Packagers set libgpusched.so.0 and ship the links.
    let soname = std::env::var("GPUSCHED_SONAME").unwrap_or_else(|_| "libgpusched.so".into());
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
        // Worker threads run our code: dlclose must not take it away under them.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
        // A symbol that nobody defines is an error now and not when the library is loaded; but a sanitizer's are
        // the program's.
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

/// Packs a file of `kernels/ptx`, to a fifth of its size, into the folder for what is built.
fn pack(name: &str) {
    let from = PathBuf::from("kernels/ptx").join(name);
    println!("cargo:rerun-if-changed={}", from.display());
    let text = std::fs::read(&from).expect("the kernels' text");
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo's folder"));
    let packed = miniz_oxide::deflate::compress_to_vec_zlib(&text, 9);
    std::fs::write(folder.join(format!("{name}.z")), packed).expect("room for the packed kernels");
}
