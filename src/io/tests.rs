//! Tests of raw and NPY files, and of outputs that are complete or absent.

use std::fs;
use std::io::Write;
use std::path::Path;

use testkit::{Folder, skip};

use super::atomic::{self, Output};
use super::{npy, raw};
use crate::error::Error;

fn says(error: Error, parts: &[&str]) {
    let sentence = error.to_string();
    for part in parts {
        assert!(sentence.contains(part), "{sentence:?} lacks {part:?}");
    }
}

#[test]
fn raw_files_round_trip() {
    let folder = Folder::new();
    let path = folder.at("model.bin");
    // Longer than one block, with values that differ only in their bits.
    let data: Vec<f32> = (0..40_000u32).map(|i| f32::from_bits(i.wrapping_mul(2_654_435_761))).collect();
    raw::write(&path, &data).unwrap();
    let back = raw::read(&path, data.len()).unwrap();
    assert!(back.iter().zip(&data).all(|(a, b)| a.to_bits() == b.to_bits()));
    assert_eq!(fs::metadata(&path).unwrap().len(), 160_000);
    assert_eq!(fs::read(&path).unwrap()[4..8], data[1].to_le_bytes());
    assert_eq!(folder.names(), ["model.bin"]);
}

#[test]
fn raw_files_are_checked_without_reading_them() {
    let folder = Folder::new();
    let path = folder.at("model.bin");
    raw::write(&path, &[1.0; 10]).unwrap();
    says(raw::check(&path, usize::MAX).unwrap_err(), &["expected 73786976294838206460 bytes", "found 40"]);
    raw::check(&path, 10).unwrap();
}

#[test]
fn lack_of_memory_is_an_error() {
    // ext4 supports no file of 64 TiB; a file system in memory supports a sparse one.
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { Folder::below(memory) } else { Folder::new() };
    let path = folder.at("huge.bin");
    let count = 1usize << 44;
    if fs::File::create(&path).unwrap().set_len(count as u64 * 4).is_err() {
        return skip("no file system here has a sparse file of 64 TiB");
    }
    says(raw::read(&path, count).unwrap_err(), &["huge.bin needs 64.00 TiB"]);
}

#[test]
fn output_gets_its_name_only_when_complete() {
    let folder = Folder::new();
    let path = folder.at("record.bin");
    fs::write(&path, "old").unwrap();

    let mut output = Output::create(&path).unwrap();
    assert_eq!(output.target(), path);
    output.write_all(b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(folder.names().len(), 2, "written beside its target");
    output.commit().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(folder.names(), ["record.bin"]);

    let mut output = Output::create(&path).unwrap();
    output.write_all(b"half").unwrap();
    drop(output);
    let sealed = Output::create(&path).unwrap().seal().unwrap();
    assert_eq!(folder.names().len(), 2);
    drop(sealed);
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(folder.names(), ["record.bin"]);

    atomic::write(&path, b"bytes").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"bytes");
}

#[test]
fn many_writers_of_one_name_leave_one_whole_file() {
    let folder = Folder::new();
    let path = folder.at("record.bin");
    std::thread::scope(|scope| {
        for writer in 0..8u8 {
            let path = &path;
            scope.spawn(move || {
                for _ in 0..10 {
                    raw::write(path, &[f32::from(writer); 1000]).unwrap();
                }
            });
        }
    });
    let data = raw::read(&path, 1000).unwrap();
    assert!(data.iter().all(|&value| value == data[0]));
    assert_eq!(folder.names(), ["record.bin"]);
}

#[test]
fn only_plain_files_are_replaced() {
    let folder = Folder::new();
    fs::create_dir(folder.at("sub")).unwrap();
    fs::write(folder.at("real"), "kept").unwrap();
    std::os::unix::fs::symlink("real", folder.at("link")).unwrap();
    says(Output::create(&folder.at("sub")).unwrap_err(), &["create", "sub", "a folder"]);
    says(Output::create(&folder.at("link")).unwrap_err(), &["link", "a symbolic link"]);
    says(Output::create(Path::new("/dev/null")).unwrap_err(), &["/dev/null", "a device or pipe"]);
    says(Output::create(Path::new("")).unwrap_err(), &["names no file"]);
    says(Output::create(&folder.at("new/")).unwrap_err(), &["new/", "names no file"]);
    says(Output::create(&folder.at("none/x")).unwrap_err(), &["none/x", "its folder does not exist"]);
    says(Output::create(&folder.at("real/x")).unwrap_err(), &["real/x", "Not a directory"]);
    says(Output::create(&folder.at("n".repeat(256))).unwrap_err(), &["too long"]);
    assert_eq!(folder.names(), ["link", "real", "sub"]);

    // A link that appears while the file is being written is not replaced either.
    let late = folder.at("late");
    let output = Output::create(&late).unwrap();
    std::os::unix::fs::symlink("real", &late).unwrap();
    says(output.commit().unwrap_err(), &["late", "a symbolic link"]);
    assert_eq!(fs::read(folder.at("real")).unwrap(), b"kept");
    assert_eq!(folder.names(), ["late", "link", "real", "sub"]);
}

#[test]
fn unfinished_file_that_was_removed_is_named_as_the_reason() {
    let folder = Folder::new();
    fs::create_dir(folder.at("sub")).unwrap();
    for (name, removed, reason) in [
        ("record", &folder.at("record"), "its unfinished file was moved or removed"),
        ("sub/record", &folder.at("sub"), "its folder does not exist"),
    ] {
        let output = Output::create(&folder.at(name)).unwrap();
        if removed.is_dir() {
            fs::remove_dir_all(removed).unwrap();
        } else {
            let unfinished = folder.names().into_iter().find(|name| name.ends_with(".part")).unwrap();
            fs::remove_file(folder.at(unfinished)).unwrap();
        }
        says(output.commit().unwrap_err(), &["write", "record", reason]);
    }
}

/// Returns the bytes of an NPY file as NumPy writes them.
fn npy_bytes(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    let length = (header.len() as u32).to_le_bytes();
    bytes.extend(if version == 1 { &length[..2] } else { &length[..] });
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

#[test]
fn npy_files_of_every_accepted_kind_are_read() {
    let folder = Folder::new();
    let path = folder.at("a.npy");
    let values = [0.0f32, 1.5, -2.25, 3.0, 4.0, 5.0];
    let le4: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let be4: Vec<u8> = values.iter().flat_map(|v| v.to_be_bytes()).collect();
    let le8: Vec<u8> = values.iter().flat_map(|&v| f64::from(v).to_le_bytes()).collect();
    let be8: Vec<u8> = values.iter().flat_map(|&v| f64::from(v).to_be_bytes()).collect();
    for version in [1, 2, 3] {
        for (descr, data) in [("<f4", &le4), (">f4", &be4), ("<f8", &le8), (">f8", &be8)] {
            let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (1, 2, 3), }}  \n");
            fs::write(&path, npy_bytes(version, &header, data)).unwrap();
            let array = npy::read(&path).unwrap();
            assert_eq!(array.shape, [1, 2, 3]);
            assert_eq!(array.data, values, "{descr} of version {version}");
        }
    }
    for (shape, expected) in [("(6,)", vec![6]), ("(6L, 1L)", vec![6, 1]), ("( 3 ,2 )", vec![3, 2])] {
        let header = format!("{{\"shape\": {shape}, 'fortran_order': False, 'descr': '<f4'}}");
        fs::write(&path, npy_bytes(1, &header, &le4)).unwrap();
        assert_eq!(npy::read(&path).unwrap().shape, expected);
    }
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': ()}";
    fs::write(&path, npy_bytes(1, header, &le4[..4])).unwrap();
    assert_eq!(npy::read(&path).unwrap(), npy::Array { shape: vec![], data: vec![0.0] });
}

#[test]
fn fortran_order_gives_the_same_elements() {
    let folder = Folder::new();
    let path = folder.at("a.npy");
    // Element (i, j, k) is 100 i + 10 j + k, and i runs fastest in the file.
    let file = (0..24).map(|n| (100 * (n % 2) + 10 * (n / 2 % 3) + n / 6) as f32);
    let header = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3, 4), }\n";
    fs::write(&path, npy_bytes(1, header, &file.flat_map(f32::to_le_bytes).collect::<Vec<_>>())).unwrap();
    let data = (0..24).map(|n| (100 * (n / 12) + 10 * (n / 4 % 3) + n % 4) as f32).collect();
    assert_eq!(npy::read(&path).unwrap(), npy::Array { shape: vec![2, 3, 4], data });
}

#[test]
fn odd_npy_files_are_refused_with_a_reason() {
    let folder = Folder::new();
    let path = folder.at("a.npy");
    let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
    let with = |from: &str, to: &str| npy_bytes(1, &good.replace(from, to), &[0; 8]);
    let mut long_header = npy_bytes(2, good, &[0; 8]);
    long_header[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (vec![], "too short"),
        (b"\x93NUMPY\x01\x00\x40".to_vec(), "ends in its header"),
        (npy_bytes(1, good, &[0; 8])[..30].to_vec(), "ends in its header"),
        (b"PK\x03\x04 an npz archive".to_vec(), "not an NPY file"),
        (npy_bytes(4, good, &[0; 8]), "NPY version 4"),
        (long_header, "4294967295 bytes"),
        (npy_bytes(1, good, &[0; 7]), "expected 8 bytes after the header for the shape [2] of <f4, found 7"),
        (npy_bytes(1, good, &[0; 9]), "found 9 bytes"),
        (with("'<f4'", "'<i4'"), "<i4; accepted: float32 or float64 (<f4, >f4, <f8, >f8)"),
        (with("'<f4'", "[('a', '<f4')]"), "records"),
        (with("(2,)", "(-2,)"), "not that of a plain array"),
        (with("(2,)", "(2 2)"), "not that of a plain array"),
        (with("(2,)", "(4294967296, 4294967296)"), "more than 2^64"),
        (with("False", "Maybe"), "not that of a plain array"),
        (with("'shape': (2,),", ""), "not that of a plain array"),
        (with("{", ""), "not that of a plain array"),
        (with("'descr'", "'d\u{e9}scr'"), "not that of a plain array"),
    ];
    for (bytes, reason) in cases {
        fs::write(&path, bytes).unwrap();
        says(npy::read(&path).unwrap_err(), &["read", "a.npy", reason]);
    }
    says(npy::read(folder.path()).unwrap_err(), &["not a plain file"]);
}
