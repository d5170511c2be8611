//! Systems without leases: a scheduler can only switch them off.

use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use super::queue::DeviceAvailability;
use super::request::{NodePolicy, SharedDevice, SlotRequest, WaitEnd};
use crate::error::{Error, Result};

/// Does nothing: no descriptor has to be closed in a child.
pub fn install_fork_handlers() {}

/// Never created on this system.
#[derive(Debug)]
pub struct Membership(Infallible);

/// Never created on this system.
#[derive(Debug)]
pub struct LockedTable<'a>(Infallible, std::marker::PhantomData<&'a ()>);

/// Never created on this system.
#[derive(Debug)]
pub struct SlotLease(Infallible);

impl Membership {
    /// Returns `Ok(None)` if leases are switched off, else an error.
    pub fn join(
        folder: Option<&Path>,
        _devices: &[Option<SharedDevice<'_>>],
        _policy: NodePolicy,
    ) -> Result<Option<Membership>> {
        if folder.is_none() && std::env::var_os("GPUSCHED_LEASE_DIR").is_some_and(|value| value == "none") {
            return Ok(None);
        }
        let path = folder.unwrap_or(Path::new("a folder"));
        Err(Error::io("keep leases in", path, "leases between processes need Linux"))
    }

    pub fn leave(&self) {
        match self.0 {}
    }

    pub fn set_slots(&self, _device: usize, _slots: u32) {
        match self.0 {}
    }

    pub fn lock(&self) -> Result<LockedTable<'_>> {
        match self.0 {}
    }

    pub fn wait(&self, _timeout: Option<Duration>) -> WaitEnd {
        match self.0 {}
    }

    pub fn wake(&self) {
        match self.0 {}
    }

    pub fn is_behind(&self) -> bool {
        match self.0 {}
    }

    pub fn catch_up(&self) {
        match self.0 {}
    }

    pub fn folder(&self) -> &Path {
        match self.0 {}
    }
}

impl LockedTable<'_> {
    pub fn availability(&mut self) -> Vec<DeviceAvailability> {
        match self.0 {}
    }

    pub fn other_members(&self) -> usize {
        match self.0 {}
    }

    pub fn seconds_per_cost(&self) -> f64 {
        match self.0 {}
    }

    pub fn lease(&mut self, _device: usize, _cost: Option<f64>, _bytes: u64) -> Result<SlotLease> {
        match self.0 {}
    }

    pub fn request(&mut self, _request: Option<SlotRequest>) {
        match self.0 {}
    }

    pub fn retain_tasks(&mut self, _is_wanted: impl Fn(u32) -> bool) {
        match self.0 {}
    }

    pub fn report_seconds_per_cost(&mut self, _seconds: f64) {
        match self.0 {}
    }

    pub fn measured_seconds_per_cost(&self) -> Option<f64> {
        match self.0 {}
    }
}

impl SlotLease {
    pub fn set_used_bytes(&self, _bytes: u64) {
        match self.0 {}
    }
}
