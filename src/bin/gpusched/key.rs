//! The key of a shot: a hash of everything that determines its result. Shots with the same key have
//! the same record and snapshots, bit for bit, on every device.
//!
//! The hash covers the propagator's input, not the survey's text. A comment or the name of a model
//! file does not change it. A single value of the model changes the key of every shot.

use blake3::Hasher;
use gpusched::fd::NUMERICS;
use gpusched::fd::equation::by_name;
use gpusched::fd::grid::Grid;
use gpusched::fd::model::{DensityAt, Model, Property, Values};
use gpusched::fd::plan::Options;
use gpusched::fd::survey::{Receivers, Shot, SourceKind};
use gpusched::fd::wavelet::Wavelet;

/// Number of values that are hashed at a time.
const BLOCK: usize = 1 << 14;

/// Computes the keys of all shots of one model.
#[derive(Clone)]
pub struct Keys(Hasher);

impl Keys {
    pub fn new(model: &Model) -> Keys {
        let Grid { n, h } = &model.grid;
        let mut keys = Keys(Hasher::new());
        keys.number(NUMERICS as usize);
        keys.numbers(n);
        keys.floats(h);
        let cells = model.grid.cells();
        keys.volume(Some(model.vp()), cells);
        let rho = model.get(Property::Rho);
        keys.number(rho.is_some().into());
        keys.volume(rho, cells);
        for property in &Property::ALL[2..] {
            if let Some(values) = model.get(*property) {
                keys.text(property.name());
                keys.volume(Some(values), cells);
            }
        }
        if model.density_at == DensityAt::Cells {
            keys.text("density at cells");
        }
        keys
    }

    /// Returns the key of a survey, whose shots differ only in their sources.
    pub fn of_survey(&self, dt: f32, options: &Options, shots: &[Shot]) -> String {
        let mut keys = Keys(Hasher::new());
        keys.text(&shots.first().map_or_else(String::new, |first| self.of(dt, options, first)));
        shots.iter().for_each(|shot| keys.numbers(&shot.source));
        keys.0.finalize().to_hex().to_string()
    }

    /// Returns the key of a shot. Every field is named, so the compiler reports a field that is
    /// added later.
    pub fn of(&self, dt: f32, options: &Options, shot: &Shot) -> String {
        // `allow_unstable` only decides whether a plan is refused.
        let Options {
            equation,
            pml,
            allow_unstable: _,
            stencil,
            isotropic_source,
            old_rules,
            exact_time,
            storage,
        } = options;
        let Shot {
            source,
            kind,
            wavelet: Wavelet { samples },
            amplitude,
            nt,
            receivers,
            record_every,
            snapshot_every,
            mute,
            // The sources of a survey are in the grid.
            outside: _,
        } = shot;
        let mut keys = self.clone();
        keys.floats(&[dt, *amplitude]);
        keys.numbers(&[*pml, (*exact_time).into(), *nt, *record_every]);
        keys.text(equation.name());
        keys.text(stencil.name());
        keys.text(storage.name());
        if by_name(equation.name()).is_none_or(|default| default.absorber() != equation.absorber()) {
            keys.text(equation.absorber().name());
        }
        if !isotropic_source {
            keys.text("anisotropic source");
        }
        if *old_rules {
            keys.text("old rules");
        }
        if *kind != SourceKind::Pressure {
            keys.text(kind.name());
        }
        keys.numbers(source);
        keys.floats(samples);
        match receivers {
            Receivers::Plane { iz, every } => keys.numbers(&[0, *iz, every[0], every[1]]),
            Receivers::List(cells) => {
                keys.number(1);
                keys.numbers(cells.as_flattened());
            }
        }
        keys.numbers(&[snapshot_every.is_some().into(), snapshot_every.unwrap_or(0)]);
        keys.number(mute.is_some().into());
        let steps = mute.as_deref().unwrap_or_default();
        keys.number(steps.len());
        steps.iter().for_each(|&step| keys.number(step as usize));
        keys.0.finalize().to_hex().to_string()
    }

    fn number(&mut self, value: usize) {
        self.0.update(&(value as u64).to_le_bytes());
    }

    /// Adds the length of a list before its values, so that two lists never hash like two others
    /// with the same values in total.
    fn numbers(&mut self, values: &[usize]) {
        self.number(values.len());
        values.iter().for_each(|&value| self.number(value));
    }

    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.0.update(text.as_bytes());
    }

    /// Adds a value for each cell, so that a constant has the key of a volume of equal values.
    fn volume(&mut self, values: Option<&Values>, cells: usize) {
        match values {
            None => self.floats(&[]),
            Some(Values::Volume(values)) => self.floats(values),
            Some(Values::Constant(value)) => {
                self.number(cells);
                let block = vec![*value; BLOCK.min(cells)];
                for first in (0..cells).step_by(BLOCK) {
                    self.plain(&block[..BLOCK.min(cells - first)]);
                }
            }
        }
    }

    fn floats(&mut self, values: &[f32]) {
        self.number(values.len());
        values.chunks(BLOCK).for_each(|values| self.plain(values));
    }

    /// Adds values without their number.
    fn plain(&mut self, values: &[f32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.0.update(&bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gpusched::fd::equation::{Absorber, with_absorber};
    use gpusched::fd::plan::Storage;
    use gpusched::fd::stencil::Stencil;

    use super::*;

    #[test]
    fn every_input_of_a_result_changes_its_key() {
        let grid = Grid { n: [3, 1, 2], h: [10.0; 3] };
        let (vp, rho) = (Values::from(vec![1500.0; 6]), vec![1000.0; 6]);
        let options = Options::default();
        let shot = Shot {
            source: [1, 0, 0],
            wavelet: Wavelet { samples: vec![1.0, -1.0] },
            amplitude: 2.0,
            nt: 7,
            receivers: Receivers::Plane { iz: 0, every: [1, 1] },
            ..Shot::default()
        };
        let keys = |grid: &Grid, vp: &Values, others: &[(Property, Values)]| {
            let properties = [(Property::Vp, vp.clone())].into_iter().chain(others.iter().cloned());
            Keys::new(&Model::of(*grid, properties).unwrap())
        };
        let base = keys(&grid, &vp, &[]);
        let plain = base.of(0.001, &options, &shot);
        assert_eq!(plain, keys(&grid, &1500.0.into(), &[]).of(0.001, &options, &shot));
        let indifferent = Options { allow_unstable: true, ..options };
        assert_eq!(plain, base.of(0.001, &indifferent, &shot));

        let model = |grid: &Grid, vp: &Values, others: &[(Property, Values)]| {
            keys(grid, vp, others).of(0.001, &options, &shot)
        };
        let with = |options: &Options| base.of(0.001, options, &shot);
        let [second_order, tilted] = ["acoustic2", "tti"].map(|name| by_name(name).unwrap());
        let of = |change: &dyn Fn(&mut Shot)| {
            let mut shot = shot.clone();
            change(&mut shot);
            base.of(0.001, &options, &shot)
        };
        let (mut faster, mut heavier) = (vec![1500.0; 6], rho.clone());
        faster[5] = f32::from_bits(1500f32.to_bits() + 1);
        heavier[0] = 1001.0;
        let with_property = |property: Property, values: Values| model(&grid, &vp, &[(property, values)]);
        let properties = [(Property::Vp, vp.clone()), (Property::Rho, heavier.clone().into())];
        let at_cells = Model::of(grid, properties).unwrap().with_density_at(DensityAt::Cells);
        let at_cells = Keys::new(&at_cells);
        let all = [
            plain,
            base.of(0.0011, &options, &shot),
            model(&Grid { n: [1, 3, 2], h: [10.0; 3] }, &vp, &[]),
            model(&Grid { n: [3, 1, 2], h: [10.0, 10.0, 11.0] }, &vp, &[]),
            model(&grid, &faster.into(), &[]),
            with_property(Property::Rho, rho.into()),
            with_property(Property::Rho, heavier.clone().into()),
            at_cells.of(0.001, &options, &shot),
            with_property(Property::Epsilon, 0.1.into()),
            with_property(Property::Delta, 0.1.into()),
            with_property(Property::Theta, 0.1.into()),
            with_property(Property::Phi, 0.1.into()),
            with(&Options { pml: 21, ..options }),
            with(&Options { equation: second_order, ..options }),
            with(&Options { equation: with_absorber(second_order, Absorber::Pml).unwrap(), ..options }),
            with(&Options { equation: tilted, ..options }),
            with(&Options { equation: with_absorber(tilted, Absorber::Pml).unwrap(), ..options }),
            with(&Options { stencil: Stencil::Optimised, ..options }),
            with(&Options { exact_time: true, ..options }),
            with(&Options { isotropic_source: false, ..options }),
            with(&Options { old_rules: true, ..options }),
            with(&Options { storage: Storage::Bits16, ..options }),
            of(&|shot| shot.source = [0, 0, 1]),
            of(&|shot| shot.kind = SourceKind::Monopole),
            of(&|shot| shot.kind = SourceKind::ForceX),
            of(&|shot| shot.wavelet.samples = vec![1.0, -1.5]),
            of(&|shot| shot.wavelet.samples = vec![1.0]),
            of(&|shot| shot.amplitude = -2.0),
            of(&|shot| shot.nt = 8),
            of(&|shot| shot.record_every = 2),
            of(&|shot| shot.receivers = Receivers::Plane { iz: 1, every: [1, 1] }),
            of(&|shot| shot.receivers = Receivers::Plane { iz: 0, every: [2, 1] }),
            of(&|shot| shot.receivers = Receivers::List(vec![[0, 1, 1]])),
            of(&|shot| shot.receivers = Receivers::List(vec![[0, 1, 1], [1, 0, 0]])),
            of(&|shot| shot.snapshot_every = Some(1)),
            of(&|shot| shot.snapshot_every = Some(2)),
            of(&|shot| shot.mute = Some(vec![])),
            of(&|shot| shot.mute = Some(vec![0, 3, 0])),
        ];
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }
}
