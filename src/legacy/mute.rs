//! The old direct-wave mute: everything before an arrival time that is estimated from the
//! velocity of the first cell, with the old roundings.

/// Samples in every mute beyond travel time and pulse.
const EXTRA: usize = 60;

/// What the estimate is made of.
pub struct DirectWave {
    /// Metres between cells along x, y and z.
    pub h: [f32; 3],
    /// The source's cell along x, y and z counted from 1; receivers are counted from 0,
    /// so the estimate is one cell off in x and y.
    pub source: [i64; 3],
    /// m/s, in the model's first cell.
    pub velocity: f32,
    pub dt: f32,
    /// Peak frequency in Hz.
    pub frequency: f32,
}

impl DirectWave {
    /// The first step that is kept at the receiver in cell (ix, iy, 0).
    pub fn first_kept(&self, ix: usize, iy: usize) -> usize {
        let along = |axis: usize, cell: usize| {
            let cells = (cell as i64 - self.source[axis]).abs();
            f64::from(self.h[axis] * cells as f32).powi(2)
        };
        let distance = ((along(0, ix) + along(1, iy) + along(2, 0)) as f32).sqrt();
        let travel = (distance / self.velocity / self.dt) as usize;
        let pulse = (2.0 / f64::from(self.dt * self.frequency)) as usize;
        travel.saturating_add(pulse).saturating_add(EXTRA)
    }
}
