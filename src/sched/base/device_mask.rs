//! A set of devices.

/// A set of devices, by their position in
/// [`Scheduler::devices`](crate::sched::api::scheduler::Scheduler::devices).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceMask(pub u64);

impl DeviceMask {
    pub const ALL: DeviceMask = DeviceMask(u64::MAX);
    pub const NONE: DeviceMask = DeviceMask(0);

    pub fn contains(self, index: usize) -> bool {
        index < 64 && self.0 >> index & 1 == 1
    }

    /// Returns the mask of one device, or an empty one for a position beyond 63.
    pub fn only(index: usize) -> DeviceMask {
        DeviceMask(u32::try_from(index).ok().and_then(|index| 1_u64.checked_shl(index)).unwrap_or(0))
    }

    pub fn add(&mut self, index: usize) {
        self.0 |= DeviceMask::only(index).0;
    }

    pub fn without(self, other: DeviceMask) -> DeviceMask {
        DeviceMask(self.0 & !other.0)
    }
}

impl FromIterator<usize> for DeviceMask {
    fn from_iter<I: IntoIterator<Item = usize>>(devices: I) -> DeviceMask {
        devices
            .into_iter()
            .fold(DeviceMask::NONE, |mask, index| DeviceMask(mask.0 | DeviceMask::only(index).0))
    }
}
