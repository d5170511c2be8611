//! Identifies the process of a run, so that a report shows whether its run was killed.

use std::io;
use std::path::Path;
use std::{fs, process};

use gpusched::descriptor;
use serde_json::{Value, json};

/// Returns the boot id of the machine, the namespace of process ids, the id of this process, and
/// its start time.
pub fn name() -> Value {
    let boot = read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let id = process::id();
    json!([boot.trim(), namespace.to_string_lossy(), id, state_and_start(id.into()).map(|(_, start)| start)])
}

/// Returns true if a process has ended. Returns false if that is unknown: for a process on another
/// machine, before the last boot or in another container, or if the system hides processes of other
/// users.
pub fn has_ended(named: &Value) -> bool {
    let own = name();
    let is_here = own[0] == named[0] && own[1] == named[1] && own[0] != "" && fs::metadata("/proc/1").is_ok();
    let Some(id) = named[2].as_u64().filter(|_| is_here) else { return false };
    // A zombie has ended; its parent has not collected its status.
    state_and_start(id).is_none_or(|(state, start)| state == "Z" || named[3] != start)
}

/// Returns the state of a process, and its start time in ticks since the boot.
fn state_and_start(id: u64) -> Option<(String, u64)> {
    let text = read(&format!("/proc/{id}/stat"))?;
    // The process name, in brackets, may contain any characters.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.nth(18)?.parse().ok()?))
}

fn read(path: &str) -> Option<String> {
    descriptor::open_read(Path::new(path)).and_then(io::read_to_string).ok()
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
}
