//! Where there are no leases.

use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use super::{Device, Outlook, Want, Woken};
use crate::error::{Error, Result};

/// There is nothing to arrange.
pub fn watch_forks() {}

/// Never made on this system.
#[derive(Debug)]
pub struct Node(Infallible);

/// Never made on this system.
#[derive(Debug)]
pub struct Inside<'a>(Infallible, std::marker::PhantomData<&'a ()>);

/// Never made on this system.
#[derive(Debug)]
pub struct Hold(Infallible);

impl Node {
    /// `Ok(None)` where leases are switched off, else an error that says that they need Linux.
    pub fn join(folder: Option<&Path>, _devices: &[Option<Device<'_>>]) -> Result<Option<Node>> {
        if folder.is_none() && std::env::var_os("GPUSCHED_LEASE_DIR").is_some_and(|told| told == "none") {
            return Ok(None);
        }
        let path = folder.unwrap_or(Path::new("a folder"));
        Err(Error::io("keep leases in", path, "leases between processes need Linux"))
    }

    pub fn set_slots(&self, _device: usize, _slots: u32) {
        match self.0 {}
    }

    pub fn inside(&self) -> Result<Inside<'_>> {
        match self.0 {}
    }

    pub fn wait(&self, _timeout: Option<Duration>) -> Woken {
        match self.0 {}
    }

    pub fn wake(&self) {
        match self.0 {}
    }

    pub fn folder(&self) -> &Path {
        match self.0 {}
    }
}

impl Inside<'_> {
    pub fn outlook(&mut self) -> Vec<Outlook> {
        match self.0 {}
    }

    pub fn others(&self) -> usize {
        match self.0 {}
    }

    pub fn seconds_per_cost(&self) -> f64 {
        match self.0 {}
    }

    pub fn hold(&mut self, _device: usize, _cost: Option<f64>, _bytes: u64) -> Result<Hold> {
        match self.0 {}
    }

    pub fn want(&mut self, _want: Option<Want>) {
        match self.0 {}
    }

    pub fn learned(&mut self, _worth: f64) {
        match self.0 {}
    }

    pub fn worth(&self) -> Option<f64> {
        match self.0 {}
    }
}

impl Hold {
    pub fn in_use(&self, _bytes: u64) {
        match self.0 {}
    }
}
