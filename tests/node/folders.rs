//! Folders and files that are refused, and invalid contents of the table.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use gpusched::node::{Membership, NodePolicy, SharedDevice, SlotRequest};
use testkit::process::output;
use testkit::skip;

use super::member::{Folder, begin, join, join_as, leases};

const NOBODY: u32 = 65534;

fn is_root() -> bool {
    // SAFETY: takes nothing.
    unsafe { libc::geteuid() == 0 }
}

/// Joins as the variables say, and prints the result.
pub fn play() -> ExitCode {
    println!(
        "{}",
        match Membership::join(None, &[], NodePolicy::default()) {
            Ok(Some(node)) => format!("in {}", node.folder().display()),
            Ok(None) => "off".into(),
            Err(error) => error.to_string(),
        }
    );
    ExitCode::SUCCESS
}

/// Returns the output of a process with these variables, and no others that affect leases.
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

fn refuses(folder: &Path, culprit: &Path, words: &str) {
    let said = refusal(folder);
    assert!(said.contains(words) && said.contains(culprit.to_str().unwrap()), "{said}");
}

fn refuses_to_another_owner(folder: &Path, culprit: &Path) {
    if is_root() {
        chown(culprit, Some(NOBODY), None).unwrap();
        refuses(folder, culprit, "it belongs to user 65534, and this process runs as user 0");
        chown(culprit, Some(0), None).unwrap();
    } else {
        skip("only root can give a file to another user");
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("what is there").permissions().mode() & 0o7777
}

pub fn folder_is_created_for_the_user_alone() {
    let folder = Folder::new();
    let node = join(&leases(&folder), 1, 1).expect("to join");
    assert_eq!(node.folder(), leases(&folder));
    assert_eq!((mode(node.folder()), mode(&node.folder().join("leases-2"))), (0o700, 0o600));
}

pub fn unsuitable_folder_is_refused_with_its_reason() {
    let folder = Folder::new();
    let path = leases(&folder);
    assert!(refusal(&path.join("below")).contains("its parent folder does not exist"));
    assert!(!path.exists(), "only the last folder is made");
    symlink(folder.make("good"), &path).unwrap();
    refuses(&path, &path, "it is a link or a file");
    fs::remove_file(&path).unwrap();
    fs::write(&path, "").unwrap();
    refuses(&path, &path, "it is a link or a file");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    for mode in [0o770, 0o722, 0o1777] {
        set_mode(&path, mode);
        refuses(&path, &path, "others may write to it");
    }
    set_mode(&path, 0o755);
    refuses_to_another_owner(&path, &path);
    assert!(!path.join("leases-2").exists(), "nothing is made in a folder that is refused");
    drop(join(&path, 1, 1).expect("now it will do"));
}

pub fn unsuitable_file_is_refused_with_its_reason() {
    let folder = Folder::new();
    let leases = folder.make("leases");
    set_mode(&leases, 0o700);
    let (path, elsewhere) = (leases.join("leases-2"), folder.at("elsewhere"));
    fs::write(&elsewhere, "mine").unwrap();
    let kinds: [(&dyn Fn(), &str); 5] = [
        (&|| symlink(&elsewhere, &path).unwrap(), "it is a link; delete it"),
        (&|| fs::hard_link(&elsewhere, &path).unwrap(), "it has 2 names; delete it"),
        (&|| assert!(Command::new("mkfifo").arg(&path).status().unwrap().success()), "it is no plain file"),
        (&|| drop(UnixListener::bind(&path).unwrap()), "it is a device or a socket; delete it"),
        (&|| fs::create_dir(&path).unwrap(), "it is a folder; delete it"),
    ];
    for (make, words) in kinds {
        make();
        refuses(&leases, &path, words);
        fs::remove_file(&path).or_else(|_| fs::remove_dir(&path)).unwrap();
    }
    assert_eq!(fs::read(&elsewhere).unwrap(), b"mine");
    fs::write(&path, "").unwrap();
    refuses_to_another_owner(&leases, &path);
    set_mode(&path, 0o666);
    let _node = join(&leases, 1, 1).expect("now it will do");
    assert_eq!(mode(&path), 0o600);
}

pub fn folder_is_the_callers_the_variables_the_sessions_or_a_temporary_one() {
    let folder = Folder::new();
    let [named, session, temporary] = ["named", "session", "temporary"].map(|name| folder.make(name));
    // SAFETY: takes nothing.
    let name = format!("gpusched-{}", unsafe { libc::geteuid() });
    let (last, common) = (temporary.join(&name), Path::new("/tmp").join(name));
    let within = |path: PathBuf| format!("in {}", path.display());
    let usual = [("XDG_RUNTIME_DIR", &*session), ("TMPDIR", &*temporary)];
    assert_eq!(told(&usual), within(session.join("gpusched")));
    let with = |variable: &Path| told(&[usual[0], usual[1], ("GPUSCHED_LEASE_DIR", variable)]);
    assert_eq!(with(&named), within(named.clone()));
    assert_eq!(with(Path::new("")), within(session.join("gpusched")));
    assert_eq!(with(Path::new("none")), "off");
    // A named folder is not replaced by another one; after a refused default folder the next one is
    // tried.
    set_mode(&named, 0o777);
    assert!(with(&named).contains("others may write to it"));
    assert_eq!(told(&[usual[1]]), within(last.clone()));
    for session in [Path::new("relative"), &folder.at("absent")] {
        assert_eq!(told(&[("XDG_RUNTIME_DIR", session), usual[1]]), within(last.clone()));
    }
    set_mode(&session.join("gpusched"), 0o777);
    assert_eq!(told(&usual), within(last.clone()));
    fs::remove_dir_all(&last).unwrap();
    symlink(&named, &last).unwrap();
    // That of the user of this test, which may be refused.
    let is_common = |said: String| assert!(said.contains(common.to_str().unwrap()), "{said}");
    is_common(told(&usual));
    // A folder that depends on the working directory would not be shared.
    for temporary in ["", "relative"] {
        is_common(told(&[("TMPDIR", Path::new(temporary))]));
    }
}

/// A member elsewhere would not see the leases of those that use the folder.
pub fn default_folder_that_members_use_is_not_left_for_the_next() {
    let folder = Folder::new();
    let [session, temporary] = ["session", "temporary"].map(|name| folder.make(name));
    let members: Vec<Membership> =
        (0..256).map(|_| join(&session.join("gpusched"), 1, 1).expect("to join")).collect();
    let said = told(&[("XDG_RUNTIME_DIR", &*session), ("TMPDIR", &*temporary)]);
    assert!(said.contains("256 schedulers use it"), "{said}");
    drop(members);
}

/// Root, to whom modes do not apply, joins as another user.
pub fn folder_that_may_not_be_written_to_is_an_error() {
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
    assert!(said.contains("Permission denied") && said.contains("leases-2"), "{said}");
}

/// Fills a small file system that only the mounting process sees.
pub fn full_disk_is_an_error_and_a_file_with_room_works_on() {
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
    a.lock().unwrap().request(Some(SlotRequest::of_task(0, [Some(1.0)])));
    ExitCode::SUCCESS
}

/// A daemon that has become another user may not enter its folder, and its descriptor works on.
pub fn leases_go_on_when_the_folder_may_not_be_entered_any_more() {
    let folder = Folder::new();
    let (a, b) = (join(&leases(&folder), 1, 1).unwrap(), join(&leases(&folder), 1, 1).unwrap());
    let is_root = is_root();
    let enter = |may: bool| match is_root {
        // SAFETY: takes a number.
        true => assert_eq!(unsafe { libc::seteuid(if may { 0 } else { NOBODY }) }, 0),
        false => set_mode(&leases(&folder), if may { 0o700 } else { 0 }),
    };
    enter(false);
    let first = begin(&a, 0, 0, 1, 1.0, 1);
    let second = begin(&b, 0, 0, 1, 1.0, 1);
    enter(true);
    assert!(first.expect("the table").is_some() && second.expect("the table").is_none());
}

pub fn invalid_table_is_replaced_if_unused_and_else_an_error() {
    let folder = Folder::new();
    fs::create_dir(leases(&folder)).unwrap();
    set_mode(&leases(&folder), 0o700);
    let path = leases(&folder).join("leases-2");
    for bytes in [vec![], vec![0; 100], vec![255; 100_000], b"gpuslea2".repeat(5000)] {
        fs::write(&path, bytes).unwrap();
        let node = join(&leases(&folder), 2, 1).expect("nobody uses it");
        assert!(begin(&node, 1, 0, 1, 1.0, 1).unwrap().is_some());
    }
    let node = join(&leases(&folder), 2, 1).expect("to join");
    let hold = begin(&node, 1, 0, 1, 1.0, 1).unwrap();
    let good = fs::read(&path).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[1; 16], 0).unwrap();
    for said in [refusal(&leases(&folder)), node.lock().expect_err("garbage").to_string()] {
        assert!(said.contains("and schedulers use it; end them and delete it"), "{said}");
    }
    // Another kernel has written the table: two machines use one folder.
    file.write_all_at(&good, 0).unwrap();
    file.write_all_at(&[1; 16], 8).unwrap();
    for said in [refusal(&leases(&folder)), node.lock().expect_err("another's").to_string()] {
        assert!(said.contains("another machine writes it") && said.contains("systemd-nspawn"), "{said}");
    }
    file.write_all_at(&good, 0).unwrap();
    assert!(node.lock().is_ok());
    drop(hold);
}

/// The file remains under another name, and members that join later create a new one.
pub fn table_that_loses_its_name_in_use_is_replaced() {
    type Move = fn(&Path, &Path) -> std::io::Result<()>;
    let moves: [Move; 2] = [
        |from, to| fs::rename(from, to),
        |from, to| {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        },
    ];
    for lose_name in moves {
        let folder = Folder::new();
        let path = leases(&folder).join("leases-2");
        let old = join(&leases(&folder), 2, 1).unwrap();
        let hold = begin(&old, 1, 0, 1, 1.0, 1).unwrap();
        assert!(hold.is_some());
        lose_name(&path, &folder.at("elsewhere")).unwrap();
        let new = join(&leases(&folder), 2, 1).unwrap();
        drop(old.lock().unwrap());
        assert!(begin(&new, 1, 0, 1, 1.0, 1).unwrap().is_none(), "two holders of a slot");
        drop(hold);
        assert!(begin(&new, 1, 0, 1, 1.0, 1).unwrap().is_some());
    }
}

pub fn table_that_is_deleted_or_cut_in_use_is_replaced() {
    let folder = Folder::new();
    let path = leases(&folder).join("leases-2");
    let (a, b) = (join(&leases(&folder), 3, 1).unwrap(), join(&leases(&folder), 2, 1).unwrap());
    let hold = begin(&a, 1, 0, 1, 1.0, 7).unwrap().expect("a free slot");
    b.lock().unwrap().request(Some(SlotRequest::of_task(0, [None, Some(1.0)])));
    fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    for node in [&a, &b] {
        assert!(node.lock().expect_err("nothing").to_string().contains("delete it"));
    }
    // As the message says. Members that read the table continue with a new one, and find the leases
    // and requests of the others there.
    fs::remove_file(&path).unwrap();
    let other = [None, Some("GPU-9"), Some("GPU-1")].map(|uuid| Some(SharedDevice { uuid: uuid?, slots: 1 }));
    let c = join_as(&leases(&folder), &other, NodePolicy::default()).unwrap();
    drop(a.lock().unwrap());
    drop(b.lock().unwrap());
    let looks = c.lock().unwrap().availability();
    assert_eq!((looks[1].busy_slots.len(), looks[1].waiters), (0, 0));
    assert_eq!((looks[2].busy_slots.len(), looks[2].pending_bytes, looks[2].waiters), (1, 7, 1));
    assert!(begin(&b, 1, 0, 1, 1.0, 1).unwrap().is_none());
    drop(hold);
    assert!(begin(&c, 2, 0, 1, 1.0, 1).unwrap().is_none(), "the one that waits is before it");
    let hold = begin(&b, 1, 0, 1, 1.0, 1).unwrap();
    assert!(hold.is_some() && begin(&a, 1, 0, 1, 1.0, 1).unwrap().is_none());
    // The folder is deleted, too; a sleeping member detects it.
    fs::remove_dir_all(leases(&folder)).unwrap();
    while a.lock().unwrap().availability()[1].busy_slots.is_empty() {
        b.wait(None);
        drop(b.lock().unwrap());
    }
    // While no folder can be created, joining is an error.
    let away = folder.path().with_extension("away");
    fs::rename(folder.path(), &away).unwrap();
    fs::remove_dir_all(away.join("leases")).unwrap();
    let why = a.lock().expect_err("no folder").to_string();
    assert!(why.contains("its parent folder does not exist"), "{why}");
    fs::rename(&away, folder.path()).unwrap();
    assert!(a.lock().is_ok());
}
