//! A record of the file that is a member's own, for as long as the file is there.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::door::{self, Living, PATIENCE};
use super::layout::{self, HEAD, Head, MEMBERS, RECORD, RECORDS};
use super::sys::Descriptor;
use crate::descriptor;
use crate::error::{Error, Result};
use crate::node::Device;
use crate::node::line::{Member, Place};

/// Bytes that most records do with.
const FEW: usize = 512;

/// What names the running kernel.
pub(super) type Boot = [u8; 16];

#[derive(Debug)]
pub(super) struct Sitting {
    pub file: Descriptor,
    pub path: PathBuf,
    pub id: usize,
}

impl Sitting {
    /// Takes a free record of the file.
    pub fn take(
        folder: &Path,
        file: Descriptor,
        boot: Boot,
        devices: &[Option<Device<'_>>],
    ) -> Result<(Sitting, Seated)> {
        let path = folder.join("leases-1");
        door::enter(&file, MEMBERS, PATIENCE).map_err(|why| no(&path, why))?;
        let seated = sit(&file, boot, devices);
        let left = door::leave(&file, MEMBERS);
        let seated = seated.map_err(|why| why.into_error(&path))?;
        left.map_err(|error| no(&path, error))?;
        let id = seated.1.id;
        Ok((Sitting { file, path, id }, seated))
    }

    pub fn no(&self, why: impl std::fmt::Display) -> Error {
        no(&self.path, why)
    }

    pub fn enter(&self, patience: Duration) -> Result<()> {
        door::enter(&self.file, self.id, patience).map_err(|why| self.no(why))
    }

    pub fn leave(&self) -> io::Result<()> {
        door::leave(&self.file, self.id)
    }

    /// Whether the file has been deleted, so that who comes now takes another.
    pub fn is_gone(&self) -> io::Result<bool> {
        Ok(self.file.status()?.links == 0)
    }

    /// At the door.
    pub fn head(&self, boot: &Boot) -> Result<Head> {
        let mut bytes = [0; HEAD];
        self.file.read_at(&mut bytes, 0).map_err(|error| self.no(error))?;
        let head = Head::parse(&bytes).ok_or_else(|| self.no(GARBAGE))?;
        if head.boot == *boot { Ok(head) } else { Err(self.no(FOREIGN)) }
    }

    /// The count of changes as it is now, read from outside the door: a wrong one costs a look, or has one
    /// come a second later.
    pub fn changes(&self) -> Option<u64> {
        let mut bytes = [0; HEAD];
        self.file.read_at(&mut bytes, 0).ok()?;
        Head::parse(&bytes).map(|head| head.changes)
    }

    /// The other members that live.
    pub fn living(&self) -> io::Result<Living> {
        door::living(&self.file, self.id)
    }

    /// At the door: what they have written.
    pub fn others(&self, head: &Head) -> io::Result<Vec<Member>> {
        let mut members = Vec::new();
        let mut bytes = vec![0; RECORD];
        for id in door::members_of(&self.living()?) {
            let at = layout::place_of(id);
            let mut there = self.file.read_at(&mut bytes[..FEW], at)?;
            let length = layout::length(&bytes[..there]);
            if length > FEW && there == FEW {
                there += self.file.read_at(&mut bytes[FEW..length], at + FEW as u64)?;
            }
            members.push(layout::member(id, &bytes[..there.min(length)], head));
        }
        Ok(members)
    }

    /// At the door.
    pub fn write(&self, member: &Member) -> io::Result<()> {
        self.file.write_at(&layout::record(member, std::process::id()), layout::place_of(self.id))
    }

    pub fn write_head(&self, head: &Head) -> io::Result<()> {
        self.file.write_at(&head.bytes(), 0)
    }
}

const GARBAGE: &str =
    "it holds what no library of this version has written, while schedulers use it; end them, and delete it";
const FOREIGN: &str = "another machine writes it, too: the folder is on a network file system; name a folder of this \
                       machine by GPUSCHED_LEASE_DIR";

fn no(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::io("use the leases in", path, why)
}

enum Why {
    Words(String),
    Error(Error),
}

impl Why {
    fn into_error(self, path: &Path) -> Error {
        match self {
            Why::Words(why) => no(path, why),
            Why::Error(error) => error,
        }
    }
}

impl<E: std::fmt::Display> From<E> for Why {
    fn from(error: E) -> Why {
        Why::Words(error.to_string())
    }
}

/// The head; what has been written down; and by the scheduler's device index: which of the places.
pub(super) type Seated = (Head, Member, Vec<Option<usize>>);

/// Takes a record, at the door.
fn sit(file: &Descriptor, boot: Boot, devices: &[Option<Device<'_>>]) -> std::result::Result<Seated, Why> {
    let living = door::living(file, MEMBERS)?;
    let alone = door::members_of(&living).next().is_none();
    let mut front = vec![0; RECORDS];
    file.read_at(&mut front, 0)?;
    let bytes: &[u8; HEAD] = front.first_chunk().ok_or("it is too short")?;
    let found = Head::parse(bytes).and_then(|head| Some((head, layout::uuids(&head, &front)?)));
    let (mut head, mut uuids) = match found {
        Some((head, _)) if head.boot != boot && !alone => return Err(FOREIGN.into()),
        Some((head, uuids)) if !alone => (head, uuids),
        None if !alone => return Err(GARBAGE.into()),
        // Nobody is there: what was worth to know stays.
        found => {
            let worth = found.and_then(|(head, _)| head.worth);
            (Head { worth, ..Head::new(boot) }, Vec::new())
        }
    };
    let mut member = Member::default();
    let mut places = Vec::new();
    for device in devices {
        let Some(Device { uuid, slots }) = *device else {
            places.push(None);
            continue;
        };
        if !layout::is_uuid(uuid) {
            let accepted = "1 to 95 printable ASCII characters without blanks";
            return Err(Why::Error(Error::argument("the UUID of a device", format!("{uuid:?}"), accepted)));
        }
        let device = uuids.iter().position(|known| known == uuid).unwrap_or_else(|| {
            uuids.push(uuid.to_owned());
            uuids.len() - 1
        });
        let known = member.places.iter().position(|place| place.device == device);
        places.push(Some(known.unwrap_or(member.places.len())));
        if known.is_none() {
            member.places.push(Place { device, slots: slots.min(layout::SLOTS), cost: None, bytes: 0 });
        }
    }
    if uuids.len() > layout::DEVICES {
        let why = format!("it has room for {} devices, not for {}", layout::DEVICES, uuids.len());
        return Err(why.into());
    }
    let mut free = (0..MEMBERS).filter(|id| living[id / 64] >> (id % 64) & 1 == 0);
    let id = loop {
        let id = free.next().ok_or_else(|| {
            let then = "end some, or name another folder by GPUSCHED_LEASE_DIR";
            format!("{MEMBERS} schedulers use it, and there is room for no more: {then}")
        })?;
        if file.lock(id as u64, 1)? {
            break id;
        }
    };
    member.id = id;
    // The whole record, so that room on disk is never looked for later.
    let mut record = layout::record(&member, std::process::id());
    record.resize(RECORD, 0);
    head.devices = uuids.len();
    head.changes += 1;
    // The records of the dead are nobody's; the head goes last, for it names what the others may believe.
    file.write_at(&record, layout::place_of(id))?;
    file.write_at(&layout::front(&head, &uuids), 0)?;
    Ok((head, member, places))
}

/// What names the running kernel: the same in all containers of a machine, another on each machine.
pub(super) fn boot() -> Boot {
    let text = descriptor::read_to_string(Path::new("/proc/sys/kernel/random/boot_id")).unwrap_or_default();
    let digits: Vec<u8> =
        text.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    let mut boot = [0; 16];
    for (byte, pair) in boot.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    boot
}
