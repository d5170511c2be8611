//! A C program of the old library's users, through a link of the old name.

use std::fs;

use testkit::process::{isolated, output};
use testkit::{Folder, c, library, names_below, root};

#[test]
fn a_c_program_opens_the_library_by_its_old_name() {
    let folder = Folder::new();
    let out = folder.make("out");
    let old_library = folder.at("acoustic1order.so");
    std::os::unix::fs::symlink(library(), &old_library).unwrap();
    // Returns the exit status and all that is printed. The library prints nothing in its caller's terminal.
    let run = |device: &str, mode: Option<&str>| {
        let mut command = isolated(c::program("legacy"));
        command.args([&old_library, &root().join("tests/golden/iso1_multishot"), &out]).arg(device);
        command.envs(mode.map(|mode| ("GPUSCHED_LEGACY_DEVICE", mode)));
        let ended = output(&mut command).unwrap();
        let said = [ended.stdout, ended.stderr].concat();
        (ended.status.code(), String::from_utf8(said).unwrap())
    };
    let names = || names_below(&out);
    let snapshots = (0..3).flat_map(|shot| [0, 60].map(|step| format!("ishot_{shot}it_{step}.bin")));
    let expected: Vec<_> = snapshots.chain(["shot.bin".into()]).collect();

    // A device number that is not there is a hint, unless the mode is strict.
    assert_eq!(run("7", None), (Some(0), String::new()));
    assert_eq!(names(), expected);
    for name in names() {
        fs::remove_file(out.join(name)).unwrap();
    }
    for (device, mode, sentence) in [
        ("7", "strict", "it asks for device 7 and GPUSCHED_LEGACY_DEVICE is strict; there are: cpu:0"),
        ("-1", "strict", "it asks for device -1"),
        ("0", "always", "GPUSCHED_LEGACY_DEVICE is always; accepted: dynamic (the default) or strict"),
    ] {
        let (status, said) = run(device, Some(mode));
        assert!(status == Some(2) && said.contains(sentence), "{said:?} lacks {sentence:?}");
        assert_eq!(names(), [""; 0]);
    }
    assert_eq!(run("0", Some("strict")), (Some(0), String::new()));
    assert_eq!(names(), expected);
}
