//! Folders and files that will not do, and what has got into a file.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use gpusched::node::{Device, Node, Want};

use testkit::process::output;
use testkit::{Random, skip};

use super::member::{Case, Folder, begin, join, leases};

pub const CASES: &[Case] = &[
    ("a folder is made, for the user alone", it_is_made),
    ("a folder that will not do is refused in words", refused_folders),
    ("so is a file, and none of them hangs", refused_files),
    ("which folder: the caller's, the variable's, the session's, a temporary one", which_folder),
    ("a folder that may not be written to is an error", no_permission),
    ("a full disk is an error, and what has its room works on", full_disk),
    ("garbage that nobody uses is written anew, else it is an error", garbage),
    ("a file that is deleted or cut while it is in use", deleted),
    ("random bytes in a file in use are an error or harmless", random_bytes),
];

const NOBODY: u32 = 65534;

fn is_root() -> bool {
    // SAFETY: takes nothing.
    unsafe { libc::geteuid() == 0 }
}

/// Joins where the variables say, and tells how that went.
pub fn play() -> ExitCode {
    println!(
        "{}",
        match Node::join(None, &[]) {
            Ok(Some(node)) => format!("in {}", node.folder().display()),
            Ok(None) => "off".into(),
            Err(error) => error.to_string(),
        }
    );
    ExitCode::SUCCESS
}

/// What a process with these variables, and no others that matter, has to tell.
fn told(variables: &[(&str, &Path)]) -> String {
    told_by(&std::env::current_exe().expect("this program"), variables, None)
}

fn told_by(program: &Path, variables: &[(&str, &Path)], user: Option<u32>) -> String {
    let mut command = Command::new(program);
    command.arg("--join").env_remove("GPUSCHED_LEASE_DIR").env_remove("XDG_RUNTIME_DIR");
    if let Some(user) = user {
        command.uid(user);
    }
    let out = command.envs(variables.iter().copied()).output().expect("a process");
    String::from_utf8_lossy(&out.stdout).trim_end().to_owned()
}

fn refusal(folder: &Path) -> String {
    join(folder, 1, 1).expect_err("it will not do").to_string()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

fn it_is_made() {
    let folder = Folder::new();
    let node = join(&leases(&folder), 1, 1).expect("to join");
    assert_eq!(node.folder(), leases(&folder));
    let mode = |path: &Path| fs::metadata(path).expect("what is there").permissions().mode() & 0o7777;
    assert_eq!(mode(&leases(&folder)), 0o700);
    assert_eq!(mode(&leases(&folder).join("leases-1")), 0o600);
}

fn refused_folders() {
    let folder = Folder::new();
    let path = leases(&folder);
    let says = |what: &str| {
        let said = refusal(&path);
        assert!(said.contains(what) && said.contains(path.to_str().unwrap()), "{said}");
    };
    assert!(refusal(&path.join("below")).contains("the folder above it is not there"));
    assert!(!path.exists(), "only the last folder is made");
    fs::create_dir(folder.at("good")).unwrap();
    symlink(folder.at("good"), &path).unwrap();
    says("it is a link or a file");
    fs::remove_file(&path).unwrap();
    fs::write(&path, "").unwrap();
    says("it is a link or a file");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    for mode in [0o770, 0o722, 0o1777] {
        set_mode(&path, mode);
        says("others may write to it");
    }
    set_mode(&path, 0o755);
    if is_root() {
        chown(&path, Some(NOBODY), None).unwrap();
        says("user 65534 owns it, not user 0");
        chown(&path, Some(0), None).unwrap();
    } else {
        skip("only root can give a file to another user");
    }
    assert!(!path.join("leases-1").exists(), "nothing is made in a folder that is refused");
    drop(join(&path, 1, 1).expect("now it will do"));
}

fn refused_files() {
    let folder = Folder::new();
    fs::create_dir(leases(&folder)).unwrap();
    let path = leases(&folder).join("leases-1");
    let says = |what: &str| {
        let said = refusal(&leases(&folder));
        assert!(said.contains(what) && said.contains(path.to_str().unwrap()), "{said}");
    };
    let elsewhere = folder.at("elsewhere");
    fs::write(&elsewhere, "mine").unwrap();
    symlink(&elsewhere, &path).unwrap();
    says("it is a link; delete it");
    fs::remove_file(&path).unwrap();
    fs::hard_link(&elsewhere, &path).unwrap();
    says("it has 2 names; delete it");
    assert_eq!(fs::read(&elsewhere).unwrap(), b"mine");
    fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
    says("it is no plain file; delete it");
    fs::remove_file(&path).unwrap();
    let socket = UnixListener::bind(&path).unwrap();
    says("it is a device or a socket; delete it");
    drop(socket);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    says("it is a folder; delete it");
    fs::remove_dir(&path).unwrap();
    fs::write(&path, "").unwrap();
    if is_root() {
        chown(&path, Some(NOBODY), None).unwrap();
        says("user 65534 owns it, not user 0");
        chown(&path, Some(0), None).unwrap();
    } else {
        skip("only root can give a file to another user");
    }
    set_mode(&path, 0o666);
    let _node = join(&leases(&folder), 1, 1).expect("now it will do");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

fn which_folder() {
    let folder = Folder::new();
    let path = |name: &str| {
        let path = folder.at(name);
        let _ = fs::create_dir(&path);
        path
    };
    let (named, session, temporary) = (path("named"), path("session"), path("temporary"));
    // SAFETY: takes nothing.
    let last = temporary.join(format!("gpusched-{}", unsafe { libc::geteuid() }));
    let within = |path: PathBuf| format!("in {}", path.display());
    let usual = [("XDG_RUNTIME_DIR", &*session), ("TMPDIR", &*temporary)];
    assert_eq!(told(&usual), within(session.join("gpusched")));
    let with = |variable: &Path| told(&[usual[0], usual[1], ("GPUSCHED_LEASE_DIR", variable)]);
    assert_eq!(with(&named), within(named.clone()));
    assert_eq!(with(Path::new("")), within(session.join("gpusched")));
    assert_eq!(with(Path::new("none")), "off");
    // One that was named is not replaced by another; of the others the next is taken.
    set_mode(&named, 0o777);
    assert!(with(&named).contains("others may write to it"));
    assert_eq!(told(&[usual[1]]), within(last.clone()));
    assert_eq!(told(&[("XDG_RUNTIME_DIR", Path::new("relative")), usual[1]]), within(last.clone()));
    assert_eq!(told(&[("XDG_RUNTIME_DIR", &folder.at("absent")), usual[1]]), within(last.clone()));
    set_mode(&session.join("gpusched"), 0o777);
    assert_eq!(told(&usual), within(last.clone()));
    fs::remove_dir_all(&last).unwrap();
    symlink(&named, &last).unwrap();
    assert!(told(&usual).contains("it is a link or a file"));
}

/// Root, whom modes do not stop, joins as another user.
fn no_permission() {
    let folder = Folder::new();
    let path = leases(&folder);
    fs::create_dir(&path).unwrap();
    set_mode(folder.path(), 0o755);
    set_mode(&path, 0o500);
    // Another user may have no access to the folder of this program.
    let program = folder.at("program");
    fs::copy(std::env::current_exe().expect("this program"), &program).expect("a copy of it");
    set_mode(&program, 0o755);
    let user = is_root().then_some(NOBODY);
    if is_root() {
        chown(&path, Some(NOBODY), None).unwrap();
    }
    let said = told_by(&program, &[("GPUSCHED_LEASE_DIR", &path)], user);
    assert!(said.contains("Permission denied") && said.contains("leases-1"), "{said}");
}

/// Fills a small file system that only the process which mounts it sees.
fn full_disk() {
    let folder = Folder::new();
    let this = std::env::current_exe().expect("this program");
    let mut command = Command::new("unshare");
    command.arg("-rm").arg(this).arg("--full-disk").arg(folder.path());
    let ended = output(&mut command).expect("unshare");
    let said = String::from_utf8_lossy(&ended.stderr);
    if said.contains(NO_MOUNT) || said.starts_with("unshare: ") {
        return skip(&format!("no file system can be mounted: {said}"));
    }
    assert!(ended.status.success(), "{}: {said}", ended.status);
}

const NO_MOUNT: &str = "mount fails";

/// The process of [`full_disk`].
pub fn fill_disk(folder: &Path) -> ExitCode {
    let small = folder.join("small");
    fs::create_dir(&small).unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=16k", "none"]).arg(&small).status();
    if !mount.is_ok_and(|mount| mount.success()) {
        eprintln!("{NO_MOUNT}");
        return ExitCode::FAILURE;
    }
    fs::write(small.join("filler"), [1; 8192]).unwrap();
    let said = refusal(&small.join("leases"));
    assert!(said.contains("No space left"), "{said}");
    fs::remove_file(small.join("filler")).unwrap();
    // A file keeps its allocated blocks, so leases work on a full disk as well.
    let (a, b) = (join(&small.join("leases"), 4, 1).expect("room"), join(&small.join("leases"), 1, 1));
    assert!(b.expect_err("no room").to_string().contains("No space left"));
    drop(begin(&a, 0, 0, 1, 1.0, 1).unwrap().expect("a free slot"));
    a.inside().unwrap().want(Some(Want { costs: vec![Some(1.0)], ..Want::default() }));
    ExitCode::SUCCESS
}

fn garbage() {
    let folder = Folder::new();
    fs::create_dir(leases(&folder)).unwrap();
    let path = leases(&folder).join("leases-1");
    for bytes in [vec![], vec![0; 100], vec![255; 100_000], b"gpuslea1".repeat(5000)] {
        fs::write(&path, bytes).unwrap();
        let node = join(&leases(&folder), 2, 1).expect("nobody uses it");
        assert!(begin(&node, 1, 0, 1, 1.0, 1).unwrap().is_some());
    }
    let node = join(&leases(&folder), 2, 1).expect("to join");
    let hold = begin(&node, 1, 0, 1, 1.0, 1).unwrap();
    let good = fs::read(&path).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[1; 16], 0).unwrap();
    for said in [refusal(&leases(&folder)), node.inside().expect_err("garbage").to_string()] {
        assert!(said.contains("while schedulers use it; end them, and delete it"), "{said}");
    }
    // Another kernel has written it: two machines see one folder.
    file.write_all_at(&good, 0).unwrap();
    file.write_all_at(&[1; 16], 8).unwrap();
    for said in [refusal(&leases(&folder)), node.inside().expect_err("another's").to_string()] {
        assert!(said.contains("another machine writes it"), "{said}");
    }
    file.write_all_at(&good, 0).unwrap();
    assert!(node.inside().is_ok());
    drop(hold);
}

fn deleted() {
    let folder = Folder::new();
    let path = leases(&folder).join("leases-1");
    let (a, b) = (join(&leases(&folder), 3, 1).unwrap(), join(&leases(&folder), 2, 1).unwrap());
    let hold = begin(&a, 1, 0, 1, 1.0, 7).unwrap().expect("a free slot");
    b.inside().unwrap().want(Some(Want { costs: vec![None, Some(1.0)], ..Want::default() }));
    fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    for node in [&a, &b] {
        assert!(node.inside().expect_err("nothing").to_string().contains("delete it"));
    }
    // As its words say. Whoever looks goes on with a new one, and finds there what the others hold and want.
    fs::remove_file(&path).unwrap();
    let other = [None, Some("GPU-9"), Some("GPU-1")].map(|uuid| Some(Device { uuid: uuid?, slots: 1 }));
    let c = Node::join(Some(&leases(&folder)), &other).unwrap().expect("leases");
    drop(a.inside().unwrap());
    drop(b.inside().unwrap());
    let looks = c.inside().unwrap().outlook();
    assert_eq!((looks[1].lanes.len(), looks[1].waiting), (0, 0));
    assert_eq!((looks[2].lanes.len(), looks[2].pending_bytes, looks[2].waiting), (1, 7, 1));
    assert!(begin(&b, 1, 0, 1, 1.0, 1).unwrap().is_none());
    drop(hold);
    assert!(begin(&c, 2, 0, 1, 1.0, 1).unwrap().is_none(), "the one that waits is before it");
    let hold = begin(&b, 1, 0, 1, 1.0, 1).unwrap();
    assert!(hold.is_some() && begin(&a, 1, 0, 1, 1.0, 1).unwrap().is_none());
    // With its folder, too; who sleeps finds it out.
    fs::remove_dir_all(leases(&folder)).unwrap();
    while a.inside().unwrap().outlook()[1].lanes.is_empty() {
        b.wait(None);
        drop(b.inside().unwrap());
    }
    // Where no folder can be made, that is an error, until it can.
    let away = folder.path().with_extension("away");
    fs::rename(folder.path(), &away).unwrap();
    fs::remove_dir_all(away.join("leases")).unwrap();
    let why = a.inside().expect_err("no folder").to_string();
    assert!(why.contains("the folder above it is not there"), "{why}");
    fs::rename(&away, folder.path()).unwrap();
    assert!(a.inside().is_ok());
}

fn random_bytes() {
    let folder = Folder::new();
    let mut random = Random::new(1);
    let nodes: Vec<Node> = (0..4).map(|_| join(&leases(&folder), 4, 2).expect("to join")).collect();
    let file = fs::File::options().write(true).open(leases(&folder).join("leases-1")).unwrap();
    let good = fs::read(leases(&folder).join("leases-1")).unwrap();
    for round in 0..2000 {
        // Into the records, and into the head now and then.
        let at = if round % 5 == 0 { random.next() % 128 } else { 8192 + random.next() % (4 * 8192) };
        let bytes: Vec<u8> = (0..random.below(200)).map(|_| random.next() as u8).collect();
        file.write_all_at(&bytes, at).unwrap();
        let node = &nodes[random.below(4)];
        if let Ok(mut inside) = node.inside() {
            let looks = inside.outlook();
            assert!(looks.iter().flat_map(|look| &look.lanes).all(|lane| lane.is_finite() && *lane >= 0.0));
            inside.want(Some(Want { costs: vec![Some(1.0); 4], ..Want::default() }));
            drop(inside.hold(random.below(4), None, 1));
        }
        if round % 50 == 0 {
            file.write_all_at(&good, 0).unwrap();
        }
    }
}
