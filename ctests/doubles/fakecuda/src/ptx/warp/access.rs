//! A warp's loads, stores and atomic operations, each with a check of its addresses.

use super::*;

impl Warp {
    /// Returns the memory for bytes `lo..hi` of global space, if one region contains them.
    #[inline(always)]
    fn region(&self, shared: &mut Shared, lo: u64, hi: u64, store: bool) -> Option<Region> {
        // SAFETY: the cache has an entry for each instruction.
        let cached = unsafe { shared.cache.get_unchecked_mut(self.pc) };
        if lo < cached.lo || hi > cached.hi {
            let found = shared.memory.find(lo)?;
            if hi > found.hi || store && !found.writable {
                return None;
            }
            *cached = found;
        }
        Some(*cached)
    }

    /// Returns the lowest and highest address of the lanes, and whether they are contiguous and
    /// aligned to four bytes.
    #[inline(always)]
    fn span32(&self, ins: &Ins, m: u32) -> (u64, u64, bool, bool) {
        // SAFETY: as in `get`.
        let base = unsafe { &self.wide.get_unchecked(usize::from(ins.a)).0 };
        if m == u32::MAX {
            let (mut row, first) = (0u64, base[0]);
            for (lane, address) in base.iter().enumerate() {
                row |= address ^ first.wrapping_add(4 * lane as u64);
            }
            if row == 0 {
                let lo = first.wrapping_add(ins.imm as u64);
                return (lo, lo.wrapping_add(4 * LANES as u64), true, lo & 3 == 0);
            }
        }
        let (mut lo, mut hi, mut low_bits) = (u64::MAX, 0, 0);
        for lane in lanes(m) {
            let address = base[lane].wrapping_add(ins.imm as u64);
            lo = lo.min(address);
            hi = hi.max(address);
            low_bits |= address;
        }
        (lo, hi.saturating_add(4), false, low_bits & 3 == 0)
    }

    #[inline(always)]
    pub(super) fn global32(
        &mut self,
        shared: &mut Shared,
        ins: &Ins,
        m: u32,
        store: bool,
    ) -> Result<(), Fault> {
        let (lo, hi, row, aligned) = self.span32(ins, m);
        let region = if aligned { self.region(shared, lo, hi, store) } else { None };
        let Some(region) = region else {
            return self.touch(shared, ins, m, Access::word(Space::Global), store);
        };
        let host = |address: u64| region.host.wrapping_add((address - region.lo) as usize).cast::<u32>();
        // SAFETY: the region has all of `lo..hi`, may be written if this is a store, and its host
        // bytes are as aligned as its addresses; registers as in `get`. Other threads may write the
        // same bytes at the same time, as on a GPU: what is read then is one or the other.
        unsafe {
            let register = self.narrow.as_mut_ptr().add(usize::from(ins.d)).cast::<u32>();
            if row {
                let (all, there) = (register.cast::<[u32; LANES]>(), host(lo).cast::<[u32; LANES]>());
                if store {
                    there.write(all.read())
                } else {
                    all.write(there.read())
                }
                return Ok(());
            }
            let base = self.wide.as_ptr().add(usize::from(ins.a)).cast::<u64>();
            for lane in lanes(m) {
                let there = host((*base.add(lane)).wrapping_add(ins.imm as u64));
                let value = register.add(lane);
                if store { there.write(*value) } else { *value = there.read() }
            }
        }
        Ok(())
    }

    pub(super) fn locate(
        &mut self,
        shared: &mut Shared,
        lane: usize,
        address: u64,
        bytes: usize,
        space: Space,
        store: bool,
    ) -> Result<*mut u8, Fault> {
        let verb = if store { "write" } else { "read" };
        if !address.is_multiple_of(bytes as u64) {
            let detail = format!("{verb} of {bytes} bytes at 0x{address:x} of {space:?} memory");
            return Err(self.fault(shared, FaultKind::Misaligned, 1 << lane, detail));
        }
        let limit = match space {
            Space::Global => {
                let end = address.saturating_add(bytes as u64);
                if let Some(region) = self.region(shared, address, end, store) {
                    // SAFETY: the region has the bytes from `address` on.
                    return Ok(unsafe { region.host.add((address - region.lo) as usize) });
                }
                let near = match shared.memory.find(address) {
                    Some(region) => format!("memory there is 0x{:x}..0x{:x}", region.lo, region.hi),
                    None => "there is no memory".into(),
                };
                let detail = format!("{verb} of {bytes} bytes at 0x{address:x}: {near}");
                return Err(self.fault(shared, FaultKind::OutOfBounds, 1 << lane, detail));
            }
            Space::Shared => shared.shared_bytes,
            Space::Param => shared.params.len(),
        };
        if address as usize > limit || limit - (address as usize) < bytes {
            let detail = format!("{verb} of {bytes} bytes at {address} of {limit} bytes of {space:?} memory");
            return Err(self.fault(shared, FaultKind::OutOfBounds, 1 << lane, detail));
        }
        // SAFETY: checked just now against the length of each.
        Ok(unsafe {
            match space {
                Space::Shared => shared.shared.as_mut_ptr().cast::<u8>().add(address as usize),
                _ => shared.params.as_ptr().cast_mut().add(address as usize),
            }
        })
    }

    /// Records an access to shared memory, and refuses a race or a read of unwritten bytes.
    #[inline(always)]
    fn watched(
        &self,
        shared: &mut Shared,
        lane: usize,
        at: *mut u8,
        bytes: usize,
        store: bool,
    ) -> Result<(), Fault> {
        let at = (at as usize).wrapping_sub(shared.shared.as_ptr() as usize);
        if at >= shared.shared_bytes {
            return Ok(());
        }
        let thread = (self.index * LANES + lane) as u32;
        let noted = shared.watch.touch(at, bytes, thread, store);
        noted.map_err(|wrong| self.wrong(shared, lane, at, &wrong))
    }

    #[cold]
    fn wrong(&self, shared: &Shared, lane: usize, at: usize, wrong: &Wrong) -> Fault {
        let (kind, detail) = match wrong {
            Wrong::Unwritten => (FaultKind::Unwritten, "was never written".to_string()),
            Wrong::Written(by) => {
                (FaultKind::Race, format!("was written by thread {by} since the last barrier"))
            }
            Wrong::Read(Some(by)) => {
                (FaultKind::Race, format!("was read by thread {by} since the last barrier"))
            }
            Wrong::Read(None) => {
                (FaultKind::Race, "was read by several threads since the last barrier".into())
            }
        };
        self.fault(shared, kind, 1 << lane, format!("byte {at} of shared memory {detail}"))
    }

    pub(super) fn touch(
        &mut self,
        shared: &mut Shared,
        ins: &Ins,
        m: u32,
        access: Access,
        store: bool,
    ) -> Result<(), Fault> {
        let (width, wide) = (usize::from(access.width), access.wide());
        let registers = &[ins.d, ins.c][..1 + usize::from(access.pair)];
        let bytes = width * registers.len();
        for lane in lanes(m) {
            let address = self.get(ins.a, true, lane).wrapping_add(ins.imm as u64);
            let at = self.locate(shared, lane, address, bytes, access.space, store)?;
            self.watched(shared, lane, at, bytes, store)?;
            for (k, &register) in registers.iter().enumerate() {
                // SAFETY: `locate` vouches for the bytes; unaligned access, since parameters
                // are only as aligned as their own bytes.
                unsafe {
                    let at = at.add(k * width);
                    if store {
                        let value = self.get(register, wide, lane);
                        at.copy_from_nonoverlapping(value.to_le_bytes().as_ptr(), width);
                    } else {
                        let mut value = [0; 8];
                        value.as_mut_ptr().copy_from_nonoverlapping(at, width);
                        self.put(register, wide, lane, u64::from_le_bytes(value));
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn atomic_max(&mut self, shared: &mut Shared, ins: &Ins, m: u32) -> Result<(), Fault> {
        use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
        for lane in lanes(m) {
            let address = self.get(ins.a, true, lane).wrapping_add(ins.imm as u64);
            let at = self.locate(shared, lane, address, 4, Space::Global, true)?;
            // SAFETY: `locate` vouches for the bytes and their alignment.
            let old = unsafe { AtomicU32::from_ptr(at.cast()) }
                .fetch_max(self.get(ins.b, false, lane) as u32, SeqCst);
            self.put(ins.d, false, lane, old.into());
        }
        Ok(())
    }

    pub(super) fn atomic_add(&mut self, shared: &mut Shared, ins: &Ins, m: u32) -> Result<(), Fault> {
        use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
        for lane in lanes(m) {
            let address = self.get(ins.a, true, lane).wrapping_add(ins.imm as u64);
            let at = self.locate(shared, lane, address, 8, Space::Global, true)?;
            // SAFETY: `locate` vouches for the bytes and their alignment.
            let old =
                unsafe { AtomicU64::from_ptr(at.cast()) }.fetch_add(self.get(ins.b, true, lane), SeqCst);
            self.put(ins.d, true, lane, old);
        }
        Ok(())
    }
}
