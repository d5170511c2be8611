//! The committed PTX belongs to the source beside it and uses no instruction whose rounding is
//! undefined.

use std::process::Command;

use gpusched::fd::march::kernel_set::KernelSet;
use gpusched::fd::time_loop::field_kernels::PTX;
use testkit::c;

use crate::shots::kernel_sets;

/// Float operations with IEEE rounding that flush denormal numbers: a compiler may fuse `add.f32`
/// without `.rn`. Also the conversion from 16 bits, which is exact.
const EXACT: [&str; 6] =
    ["add.rn.ftz.f32", "sub.rn.ftz.f32", "mul.rn.ftz.f32", "fma.rn.ftz.f32", "neg.ftz.f32", "cvt.rn.f32.u16"];
/// Wrong by up to a unit in the last place, and corrected: see `reciprocal.rs`.
const APPROXIMATE: &str = "rcp.approx.ftz.f32";
const MOVES: [&str; 7] = ["ld.param", "ld.global", "st.global", "ld.shared", "st.shared", "mov", "selp"];

/// Returns the SHA-256 sum of a source followed by its headers.
fn sum(source: &str, headers: &[&str]) -> String {
    let folder = testkit::root().join("kernels");
    let text: Vec<u8> =
        [source].iter().chain(headers).flat_map(|file| std::fs::read(folder.join(file)).unwrap()).collect();
    let path = c::scratch("hostcuda").join("source");
    std::fs::write(&path, text).unwrap();
    let sum = Command::new("sha256sum").arg(path).output().expect("sha256sum of the coreutils");
    String::from_utf8(sum.stdout).unwrap().split_whitespace().next().unwrap().into()
}

#[test]
fn the_ptx_is_of_the_source_beside_it() {
    let tilted = ["grid.cuh", "tile.cuh", "activity.cuh", "layer.cuh", "tilted.cuh", "tilted_stages.cuh"];
    let centred = [&["grid.cuh", "centred.cuh"], &tilted[1..]].concat();
    let one_pass = [&tilted[..4], &["one_pass.cuh", "one_pass_cells.cuh", "one_pass_march.cuh"]].concat();
    let sets = kernel_sets();
    let [acoustic1, acoustic2, vti, tti, old_tti] = sets.map(KernelSet::all);
    for (source, headers, text) in [
        ("field.cu", &[][..], PTX),
        ("acoustic1_one_pass.cu", &one_pass[..], &acoustic1),
        ("acoustic2_one_pass.cu", &centred[..4], &acoustic2),
        ("vti_one_pass.cu", &one_pass[..], &vti),
        ("tti.cu", &centred[..], &tti),
        ("tti_old.cu", &tilted[..], &old_tti),
    ] {
        let sum = sum(source, headers);
        let recorded = text.lines().find_map(|line| line.strip_prefix("// sha256 of the source: "));
        assert_eq!(recorded, Some(sum.as_str()), "{source} has changed: python3 kernels/generate.py");
        // Accepted by drivers from 470 on, for GPUs from Kepler on.
        for line in [".version 6.0", ".target sm_35", ".address_size 64"] {
            assert!(text.lines().any(|found| found == line), "{line}");
        }
        for word in text.lines().filter_map(|line| line.split_whitespace().next()) {
            let floats = word.contains(".f32") && !word.starts_with('.');
            let known = EXACT.contains(&word)
                || word == APPROXIMATE
                || MOVES.iter().any(|start| word.starts_with(start));
            assert!(!floats || known, "{word}");
        }
    }
    for launch in ["snapshot", "peak", "inject"] {
        assert!(PTX.contains(&format!(".visible .entry field_{launch}(")), "{launch}");
    }
    for set in sets {
        for kernel in [Some(set.step), set.step_16_bit, set.before, Some(set.source)].into_iter().flatten() {
            let alone = set.text(kernel);
            assert!(alone.contains(&format!(".visible .entry {kernel}(")), "{kernel}");
            assert_eq!(
                (alone.matches(".entry").count(), alone.matches(".version").count()),
                (1, 1),
                "{kernel}"
            );
            // For Kepler and all GPUs after it.
            assert!(alone.contains("\n.target sm_35\n"), "{kernel}");
        }
    }
}
