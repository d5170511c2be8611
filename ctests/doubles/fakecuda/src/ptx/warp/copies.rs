//! Copies from global into shared memory that go on while their thread does. A GPU may make one at any time until its
//! thread has waited for it. The interpreter makes it then and no sooner, and reports whoever touches its place before.

use super::*;

#[derive(Default)]
pub(super) struct Copies {
    waiting: Vec<Copy>,
    groups: [u32; LANES],
}

#[derive(Clone, Copy)]
struct Copy {
    lane: usize,
    to: usize,
    from: u64,
    bytes: usize,
    group: u32,
}

impl Copies {
    pub fn end_group(&mut self, m: u32) {
        lanes(m).for_each(|lane| self.groups[lane] += 1);
    }

    /// Takes those of some threads that are due when all groups but the last so many have to be there.
    fn due(&mut self, m: u32, last: u32) -> Vec<Copy> {
        let groups = self.groups;
        let due = |copy: &mut Copy| m >> copy.lane & 1 != 0 && copy.group + last < groups[copy.lane];
        self.waiting.extract_if(.., due).collect()
    }
}

impl Warp {
    pub(super) fn begin_copy(&mut self, shared: &mut Shared, ins: &Ins, m: u32) -> Result<(), Fault> {
        let bytes = ins.imm as usize;
        for lane in lanes(m) {
            let (to, from) = (self.get(ins.a, true, lane), self.get(ins.b, true, lane));
            self.locate(shared, lane, from, bytes, Space::Global, false)?;
            let at = self.locate(shared, lane, to, bytes, Space::Shared, true)?;
            self.watched(shared, lane, at, |watch, at, thread| watch.begin_copy(at, bytes, thread))?;
            let (to, group) = (to as usize, self.copies.groups[lane]);
            self.copies.waiting.push(Copy { lane, to, from, bytes, group });
        }
        Ok(())
    }

    pub(super) fn wait_for_copies(&mut self, shared: &mut Shared, ins: &Ins, m: u32) -> Result<(), Fault> {
        for Copy { lane, to, from, bytes, .. } in self.copies.due(m, ins.imm as u32) {
            let from = self.locate(shared, lane, from, bytes, Space::Global, false)?;
            let at = self.locate(shared, lane, to as u64, bytes, Space::Shared, true)?;
            // SAFETY: `locate` vouches for the bytes of both.
            unsafe { at.copy_from_nonoverlapping(from, bytes) };
            shared.watch.end_copy(to, bytes);
        }
        Ok(())
    }
}
