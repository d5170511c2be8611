//! A session: the record of the table that a member holds while the file exists.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use super::file_lock;
use super::layout::{
    self, HEADER_BYTES, MAX_DEVICES, MAX_MEMBERS, RECORD_BYTES, RECORDS_OFFSET, TableHeader,
};
use super::listener::ChangeListener;
use super::sys::Descriptor;
use crate::descriptor;
use crate::error::{Error, Result};
use crate::node::queue::{DeviceEntry, MemberRecord};
use crate::node::request::SharedDevice;

/// Bytes that hold most records, so that one read is enough.
const SHORT_RECORD: usize = 512;

/// Identifies the running kernel.
pub(super) type BootId = [u8; 16];

#[derive(Debug)]
pub(super) struct Session {
    pub file: Descriptor,
    pub path: PathBuf,
    /// Index of the record.
    pub id: usize,
    pub listener: ChangeListener,
}

impl Session {
    /// Claims a free record of the file.
    pub fn join(
        folder: &Path,
        file: Descriptor,
        boot_id: BootId,
        devices: &[Option<SharedDevice<'_>>],
        lock_timeout: Duration,
    ) -> Result<(Session, JoinState)> {
        let path = folder.join("leases-2");
        file_lock::lock_table(&file, MAX_MEMBERS, lock_timeout).map_err(|why| file_error(&path, why))?;
        let joined = claim_record(&file, boot_id, devices);
        let unlocked = file_lock::unlock_table(&file, MAX_MEMBERS);
        let joined = joined.map_err(|why| file_error(&path, why))?;
        unlocked.map_err(|error| file_error(&path, error))?;
        let id = joined.1.id;
        let listener = ChangeListener::new(joined.0.changes).map_err(|error| file_error(&path, error))?;
        Ok((Session { file, path, id, listener }, joined))
    }

    /// Returns the session of a member that has left: its file is closed.
    pub fn closed(&self) -> Session {
        let (file, listener) = (Descriptor::closed(), ChangeListener::closed(0));
        Session { file, path: self.path.clone(), id: self.id, listener }
    }

    pub fn error(&self, why: impl std::fmt::Display) -> Error {
        file_error(&self.path, why)
    }

    /// Locks the table.
    pub fn lock(&self, timeout: Duration) -> Result<()> {
        file_lock::lock_table(&self.file, self.id, timeout).map_err(|why| self.error(why))
    }

    pub fn unlock(&self) -> io::Result<()> {
        file_lock::unlock_table(&self.file, self.id)
    }

    /// Returns true if the file has lost its name, because it was deleted, renamed or hidden by a
    /// mount. Members that join later use another file.
    pub fn has_lost_name(&self) -> io::Result<bool> {
        let named = match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            // The process has become another user. The open file still works.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Ok(self.file.metadata()?.nlink() == 0);
            }
            named => named?,
        };
        let open = self.file.metadata()?;
        Ok((named.dev(), named.ino()) != (open.dev(), open.ino()))
    }

    /// Reads the header. The caller has locked the table.
    pub fn read_header(&self, boot_id: &BootId) -> Result<TableHeader> {
        let mut bytes = [0; HEADER_BYTES];
        self.file.read_at(&mut bytes, 0).map_err(|error| self.error(error))?;
        let header = TableHeader::parse(&bytes).ok_or_else(|| self.error(GARBAGE))?;
        if header.boot_id == *boot_id { Ok(header) } else { Err(self.error(FOREIGN)) }
    }

    /// Reads the records of the other living members. The caller has locked the table.
    pub fn read_others(&self, header: &TableHeader) -> io::Result<Vec<MemberRecord>> {
        let mut members = Vec::new();
        let mut bytes = vec![0; RECORD_BYTES];
        for id in file_lock::live_members(&self.file)? {
            let at = layout::record_offset(id);
            let mut read = self.file.read_at(&mut bytes[..SHORT_RECORD], at)?;
            let length = layout::record_length(&bytes[..read]);
            if length > SHORT_RECORD && read == SHORT_RECORD {
                read += self.file.read_at(&mut bytes[SHORT_RECORD..length], at + SHORT_RECORD as u64)?;
            }
            members.push(layout::parse_record(id, &bytes[..read.min(length)], header));
        }
        Ok(members)
    }

    /// Writes this member's record. The caller has locked the table.
    pub fn write_record(&self, member: &MemberRecord) -> io::Result<()> {
        let bytes = layout::record_bytes(member, std::process::id());
        self.file.write_at(&bytes, layout::record_offset(self.id))
    }

    /// Writes the header. The caller has locked the table.
    pub fn write_header(&self, header: &TableHeader) -> io::Result<()> {
        self.file.write_at(&header.to_bytes(), 0)
    }
}

const GARBAGE: &str = "its content is invalid, and schedulers use it; end them and delete it";
const FOREIGN: &str = "another machine writes it, too: the folder is on a network file system; or a \
                       container of LXC, LXD, Incus or systemd-nspawn does, which has a boot id of its \
                       own; set GPUSCHED_LEASE_DIR to a folder of this machine or container";

fn file_error(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::io("use the leases in", path, why)
}

/// The header and the own record as written. Then, by the scheduler's device index, the index of
/// the device's entry in the record.
pub(super) type JoinState = (TableHeader, MemberRecord, Vec<Option<usize>>);

/// Claims a free record. The caller has locked the table.
fn claim_record(
    file: &Descriptor,
    boot_id: BootId,
    devices: &[Option<SharedDevice<'_>>],
) -> std::result::Result<JoinState, Box<dyn std::error::Error>> {
    let live = file_lock::live_members(file)?;
    let alone = live.is_empty();
    let mut front = vec![0; RECORDS_OFFSET];
    file.read_at(&mut front, 0)?;
    let bytes: &[u8; HEADER_BYTES] = front.first_chunk().ok_or("it is too short")?;
    let found =
        TableHeader::parse(bytes).and_then(|header| Some((header, layout::parse_uuids(&header, &front)?)));
    let (mut header, mut uuids) = match found {
        Some((header, _)) if header.boot_id != boot_id && !alone => return Err(FOREIGN.into()),
        Some((header, uuids)) if !alone => (header, uuids),
        None if !alone => return Err(GARBAGE.into()),
        // No member lives, so the table starts empty, but for the measured cost.
        found => {
            let seconds_per_cost = found.and_then(|(header, _)| header.seconds_per_cost);
            (TableHeader { seconds_per_cost, ..TableHeader::new(boot_id) }, Vec::new())
        }
    };
    let (mut member, entries) = device_entries(&mut uuids, devices)?;
    let mut free = (0..MAX_MEMBERS).filter(|id| !live.contains(id));
    let id = loop {
        let id = free.next().ok_or_else(|| {
            let then = "end some, or set GPUSCHED_LEASE_DIR to another folder";
            format!("it is full: {MAX_MEMBERS} schedulers use it; {then}")
        })?;
        if file.lock(id as u64, 1)? {
            break id;
        }
    };
    member.id = id;
    // The whole record is written, so that later writes never have to allocate disk space.
    let mut record = layout::record_bytes(&member, std::process::id());
    record.resize(RECORD_BYTES, 0);
    header.devices = uuids.len();
    header.changes += 1;
    // The header goes last, because it says which devices other members accept.
    file.write_at(&record, layout::record_offset(id))?;
    file.write_at(&layout::header_and_uuids(&header, &uuids), 0)?;
    Ok((header, member, entries))
}

/// Returns a record with one entry per device, and the index of each device's entry. Adds missing
/// devices to `uuids`.
fn device_entries(
    uuids: &mut Vec<String>,
    devices: &[Option<SharedDevice<'_>>],
) -> std::result::Result<(MemberRecord, Vec<Option<usize>>), String> {
    let mut member = MemberRecord::default();
    let mut entries = Vec::new();
    for device in devices {
        let Some(SharedDevice { uuid, slots }) = *device else {
            entries.push(None);
            continue;
        };
        let device = uuids.iter().position(|known| known == uuid).unwrap_or_else(|| {
            uuids.push(uuid.to_owned());
            uuids.len() - 1
        });
        let known = member.devices.iter().position(|entry| entry.device == device);
        entries.push(Some(known.unwrap_or(member.devices.len())));
        if known.is_none() {
            let slots = slots.min(layout::MAX_SLOTS);
            member.devices.push(DeviceEntry { device, slots, task: None });
        }
    }
    if uuids.len() > MAX_DEVICES {
        return Err(format!("it has room for {MAX_DEVICES} devices, and {} are needed", uuids.len()));
    }
    Ok((member, entries))
}

/// Returns the id of the running kernel, different on each machine and after each boot. It is the
/// same in all containers of a machine, except those of LXC and systemd-nspawn, which replace it.
pub(super) fn boot_id() -> Result<BootId> {
    read_boot_id(Path::new("/proc/sys/kernel/random/boot_id"))
}

fn read_boot_id(path: &Path) -> Result<BootId> {
    let text = descriptor::read_to_string(path);
    let text = text.map_err(|why| Error::io("lease GPUs without", path, why))?;
    let digits: String = text.trim().split('-').collect();
    let number = u128::from_str_radix(&digits, 16);
    number.map(u128::to_be_bytes).map_err(|why| Error::io("lease GPUs without a boot id in", path, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_id_that_cannot_be_read_is_an_error() {
        let folder = testkit::Folder::new();
        let path = folder.at("boot_id");
        let error = || read_boot_id(&path).unwrap_err().to_string();
        assert!(error().contains("boot_id: No such file"), "{}", error());
        fs::write(&path, "none\n").unwrap();
        assert!(error().contains("boot_id: invalid digit"), "{}", error());
        fs::write(&path, "00112233-4455-6677-8899-aabbccddeeff\n").unwrap();
        assert_eq!(
            read_boot_id(&path).unwrap().map(|byte| byte % 16),
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
        );
    }
}
