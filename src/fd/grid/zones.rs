//! Zones of an axis: the cells that need PML velocities, and where those are stored.
//!
//! Along an axis, the pressure of a cell takes a term from the eight velocities around it. Where
//! none of them is damped, they are eliminated: the term is then a second derivative of the
//! pressure alone. Damped velocities have a history, so they are stored as PML velocities. The
//! updated indices of an axis fall into
//!
//! ```text
//! 4 .. pml                     layer: the term is damped, too
//! pml .. pml + 4               strip: undamped, but some of the velocities are
//! pml + 4 .. pml + n - 4       middle: eliminated
//! pml + n - 4 .. pml + n       strip
//! pml + n .. N - 4             layer
//! ```
//!
//! At the near end PML velocities are stored from index 4, the first that is updated, to the last
//! that a cell of the strip needs. The same holds at the far end. An axis of up to eight cells
//! has no middle.

use std::ops::Range;

use super::layout::Layout;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::vector::lanes::WIDEST;

#[derive(Debug, Clone, PartialEq)]
pub struct Zones {
    /// Indices of the pressure at which the velocities of this axis are eliminated.
    pub middle: Range<usize>,
    /// Indices of the stored velocities at the near and at the far end. If the ends would meet, all
    /// are in the near one.
    pub near: Range<usize>,
    pub far: Range<usize>,
    /// Indices at which the pressure is damped.
    layers: [Range<usize>; 2],
}

/// Kind of the term of an axis at an index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Term {
    Middle,
    Strip,
    Layer,
}

impl Zones {
    pub fn new(layout: &Layout, axis: usize) -> Zones {
        let active = layout.active(axis);
        let far_layer = layout.pml + layout.inner[axis];
        let middle = layout.pml + HALF_WIDTH..far_layer.saturating_sub(HALF_WIDTH);
        let middle = if middle.is_empty() { active.end..active.end } else { middle };
        // `near` ends with the last tap of the last cell before the middle, and `far` begins with
        // the first tap of the first cell after it.
        let near = active.start..(middle.start + HALF_WIDTH - 1).min(active.end);
        let far = middle.end - HALF_WIDTH..active.end;
        // Along z both ends are stored in whole vectors, which must not meet either.
        let begin = |index: usize| (index - active.start) / WIDEST * WIDEST;
        let apart = !middle.is_empty() && near.len().next_multiple_of(WIDEST) <= begin(far.start);
        let (near, far) = if apart { (near, far) } else { (active.clone(), active.end..active.end) };
        let layers = [active.start..layout.pml, far_layer..active.end];
        Zones { middle, near, far, layers }
    }

    /// Returns the zones of an axis without velocities: all its cells are updated alike.
    pub fn uniform(layout: &Layout, axis: usize) -> Zones {
        let Range { start, end } = layout.active(axis);
        Zones { middle: start..end, near: start..start, far: end..end, layers: [start..start, end..end] }
    }

    pub fn term(&self, index: usize) -> Term {
        if self.middle.contains(&index) {
            Term::Middle
        } else if self.layers.iter().any(|layer| layer.contains(&index)) {
            Term::Layer
        } else {
            Term::Strip
        }
    }

    /// Returns the number of PML velocities of a line along the axis.
    pub fn velocities(&self) -> usize {
        self.near.len() + self.far.len()
    }

    /// Returns the place of an index's velocity among the stored ones.
    pub fn slot(&self, index: usize) -> Option<usize> {
        if self.near.contains(&index) {
            Some(index - self.near.start)
        } else if self.far.contains(&index) {
            Some(self.near.len() + index - self.far.start)
        } else {
            None
        }
    }
}

/// Division of a row along z into vectors of [`WIDEST`] values. Some at both ends store PML
/// velocities.
#[derive(Debug, Clone)]
pub struct Ends {
    /// Values of a sweep over a row, from the first updated cell on.
    pub len: usize,
    /// Values with PML velocities, at the near and at the far end.
    pub pml: [usize; 2],
    /// Outermost values of these whose pressure is damped.
    pub damped: [usize; 2],
}

impl Ends {
    pub fn new(layout: &Layout, zones: &Zones) -> Ends {
        let active = layout.active(2);
        let up = |n: usize| n.next_multiple_of(WIDEST);
        let len = up(active.len());
        if zones.near.is_empty() {
            return Ends { len, pml: [0, 0], damped: [0, 0] };
        }
        if zones.far.is_empty() {
            return Ends { len, pml: [len, 0], damped: [len, 0] };
        }
        let from = |index: usize| len - (index - active.start) / WIDEST * WIDEST;
        let [near, far] = &zones.layers;
        Ends {
            len,
            pml: [up(zones.near.len()), from(zones.far.start)],
            damped: [up(near.len()), from(far.start)],
        }
    }

    /// Returns the values of an end in a row.
    pub fn pml(&self, end: usize) -> Range<usize> {
        if end == 0 { 0..self.pml[0] } else { self.len - self.pml[1]..self.len }
    }

    /// Returns the damped values of an end, counted from its first value.
    pub fn damped(&self, end: usize) -> Range<usize> {
        if end == 0 { 0..self.damped[0] } else { self.pml[1] - self.damped[1]..self.pml[1] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every velocity that a cell's term needs is stored.
    #[test]
    fn all_taps_of_a_term_are_there() {
        for pml in [8, 9, 20, 37] {
            for n in 1..90 {
                let layout = Layout::new([n, n, n], pml);
                for axis in 0..3 {
                    let zones = Zones::new(&layout, axis);
                    let active = layout.active(axis);
                    let mut slots: Vec<_> = active.clone().filter_map(|i| zones.slot(i)).collect();
                    slots.sort_unstable();
                    assert_eq!(slots, (0..zones.velocities()).collect::<Vec<_>>(), "{n}, {pml}");
                    for i in active.clone() {
                        let taps = (i - HALF_WIDTH..i + HALF_WIDTH).filter(|tap| active.contains(tap));
                        let damped = |i: usize| layout.in_layer(axis, i).is_some();
                        match zones.term(i) {
                            Term::Middle => {
                                // The velocity after an index lies in a layer if either cell beside
                                // it does.
                                for tap in i - HALF_WIDTH..i + HALF_WIDTH {
                                    assert!(!damped(tap) && !damped(tap + 1));
                                }
                            }
                            term => {
                                assert!(taps.clone().all(|tap| zones.slot(tap).is_some()), "{n}, {pml}, {i}");
                                assert_eq!(term == Term::Layer, damped(i));
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn ends_are_whole_vectors_within_the_row_and_hold_what_is_kept() {
        for pml in [8, 9, 20, 37] {
            for n in 1..120 {
                let layout = Layout::new([n, n, n], pml);
                let zones = Zones::new(&layout, 2);
                let ends = Ends::new(&layout, &zones);
                let active = layout.active(2);
                assert!(ends.len.is_multiple_of(WIDEST) && ends.len >= active.len());
                for end in 0..2 {
                    let (kept, damped) = (ends.pml(end), ends.damped(end));
                    assert!([kept.len(), damped.len()].iter().all(|count| count.is_multiple_of(WIDEST)));
                    assert!(kept.end <= ends.len && damped.end <= kept.len());
                }
                let in_end = |i: usize, part: &dyn Fn(usize) -> Range<usize>| {
                    let at = i - active.start;
                    (0..2).any(|end| {
                        let kept = ends.pml(end);
                        at >= kept.start && part(end).contains(&(at - kept.start))
                    })
                };
                let kept = |end| 0..ends.pml(end).len();
                for i in active.clone() {
                    assert!(zones.slot(i).is_none() || in_end(i, &kept), "{n}, {pml}, {i}");
                    assert!(zones.term(i) == Term::Middle || in_end(i, &kept), "{n}, {pml}, {i}");
                    assert!(
                        zones.term(i) != Term::Layer || in_end(i, &|end| ends.damped(end)),
                        "{n}, {pml}, {i}"
                    );
                }
                // The ends don't meet.
                assert!(ends.pml(0).end <= ends.pml(1).start);
            }
        }
    }
}
