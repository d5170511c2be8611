//! Identifies the process of a run, so that a report shows whether its run was killed.

use std::io::ErrorKind;
use std::path::Path;
use std::{fs, process};

use gpusched::descriptor::read_to_string;
use serde_json::{Value, json};

/// Returns the boot id of the machine, the namespace of process ids, the id of this process, and
/// its start time.
pub fn name() -> Value {
    let boot = read_to_string("/proc/sys/kernel/random/boot_id".as_ref()).unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let id = process::id();
    let stat = read_to_string("/proc/self/stat".as_ref()).unwrap_or_default();
    json!([boot.trim(), namespace.to_string_lossy(), id, state_and_start(&stat).map(|(_, start)| start)])
}

/// Returns true if a process has ended. Returns false if that is unknown: for a process on another
/// machine, before the last boot or in another container, or if the system hides processes of other
/// users.
pub fn has_ended(named: &Value) -> bool {
    let own = name();
    let is_here = own[0] == named[0] && own[1] == named[1] && own[0] != "";
    let Some(id) = named[2].as_u64().filter(|_| is_here) else { return false };
    has_ended_in(Path::new("/proc"), id, &named[3])
}

/// Returns true if the process with this id and start time has ended, by the files of `/proc`. That
/// folder may hide processes of other users, or only the contents of their folders.
fn has_ended_in(proc: &Path, id: u64, start: &Value) -> bool {
    match read_to_string(&proc.join(id.to_string()).join("stat")) {
        // A zombie has ended; its parent has not collected its status.
        Ok(text) => state_and_start(&text).is_some_and(|(state, found)| state == "Z" || *start != found),
        Err(why) if why.kind() == ErrorKind::NotFound || why.raw_os_error() == Some(libc::ESRCH) => {
            fs::metadata(proc.join("1")).is_ok()
        }
        Err(_) => false,
    }
}

/// Returns the state of a process, and its start time in ticks since the boot.
fn state_and_start(stat: &str) -> Option<(String, u64)> {
    // The process name, in brackets, may contain any characters.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_has_ended_if_its_number_is_gone_or_has_another_start() {
        let own = name();
        assert!(!has_ended(&own), "{own}");
        let mut child = process::Command::new("true").spawn().unwrap();
        let with = |at: usize, value: Value| {
            let mut other = own.clone();
            other[at] = value;
            other
        };
        let start = own[3].as_u64().unwrap();
        assert!(has_ended(&with(3, (start + 1).into())));
        child.wait().unwrap();
        assert!(has_ended(&with(2, child.id().into())));
        for elsewhere in [with(0, "another".into()), with(1, "another".into())] {
            let mut ended = elsewhere;
            ended[3] = (start + 1).into();
            assert!(!has_ended(&ended), "{ended}");
        }
        assert!(!has_ended(&Value::Null));
    }

    /// `hidepid` of 1 hides the contents of the folders of others, 2 the folders. Links to
    /// themselves cannot be read by any user.
    #[test]
    fn hidden_process_has_not_ended() {
        let proc = testkit::Folder::new();
        let has_ended = |id| has_ended_in(proc.path(), id, &Value::from(7));
        assert!(!has_ended(2), "the folder of process 1 is hidden, too");
        for id in ["1", "3"] {
            fs::create_dir(proc.at(id)).unwrap();
            std::os::unix::fs::symlink("stat", proc.at(id).join("stat")).unwrap();
        }
        assert!(!has_ended(3));
        assert!(has_ended(2));
    }
}
