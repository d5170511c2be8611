//! Shots on the CPU: tiles, threads, instructions and cells at rest change no bit.

use testkit::Random;

use super::coefficients::{TtiCoefficients, TtiMaterial};
use super::cpu::{TtiFields, TtiGeometry, TwoStages, thread_bytes};
use crate::backend::cpu::{Team, TeamMember};
use crate::error::Result;
use crate::fd::equation::traits::Scheme;
use crate::fd::grid::Grid;
use crate::fd::model::{Model, Property, Values};
use crate::fd::storage::Storage;
use crate::fd::survey::{Receivers, Shot};
use crate::fd::time_loop::cpu_steps::CpuSteps;
use crate::fd::vector::isa::Isa;
use crate::fd::wavelet::Wavelet;

const DT: f32 = 8e-4;

/// Returns a rough medium, whose angles are constant or not.
fn material(n: [usize; 3], pml: usize, tilted: bool, random: &mut Random) -> TtiMaterial {
    let grid = Grid { n, h: [10.0, 11.0, 9.0] };
    let mut field =
        |low, high| Values::Volume((0..grid.cells()).map(|_| random.between(low, high)).collect());
    let properties = [
        (Property::Vp, field(1500.0, 3000.0)),
        (Property::Epsilon, field(0.1, 0.3)),
        (Property::Delta, field(-0.1, 0.1)),
        (Property::Theta, if tilted { field(-1.5, 1.5) } else { 0.4.into() }),
        (Property::Phi, if tilted { field(-3.0, 3.0) } else { 0.0.into() }),
    ];
    TtiMaterial::new(&Model::of(grid, properties).unwrap(), pml, Storage::Float32).unwrap()
}

fn shot(source: [usize; 3], amplitude: f32, nt: usize) -> Shot {
    Shot {
        source,
        wavelet: Wavelet { samples: vec![0.3, -0.7, 0.4] },
        amplitude,
        nt,
        receivers: Receivers::Plane { iz: 0, every: [1, 1] },
        ..Shot::default()
    }
}

/// How a shot is computed.
#[derive(Debug, Clone, Copy)]
struct Way {
    tiles: [usize; 2],
    threads: usize,
    isa: Isa,
    stream: bool,
    /// Begins with rough pressures.
    rough: Option<u64>,
    /// Computes cells at rest, too.
    all: bool,
}

const ALONE: Way =
    Way { tiles: [1, 1], threads: 1, isa: Isa::Baseline, stream: false, rough: None, all: false };

/// Returns all fields after a shot, and the share of the cells that it computed.
fn fields(c: &TtiCoefficients, shot: &Shot, way: Way) -> (Vec<Vec<f32>>, f64) {
    let geometry = TtiGeometry::in_tiles(c, way.threads, &[way.tiles]);
    let mut fields = TtiFields::new(&c.layout, &geometry.partition).unwrap();
    if let Some(seed) = way.rough {
        let mut random = Random::new(seed);
        let [x, y, z] = [0, 1, 2].map(|axis| c.layout.active(axis));
        let shared = fields.shared();
        for (x, y) in y.flat_map(|y| x.clone().map(move |x| (x, y))) {
            for field in [shared.p[0], shared.q[0]] {
                // SAFETY: a row's updated cells; alone.
                let row = unsafe { field.write(c.layout.at([x, y, z.start]), z.len()) };
                row.iter_mut().for_each(|value| *value = random.between(-1.0, 1.0));
            }
        }
    }
    let mut steps = TwoStages::new(c, &geometry, shot, &mut fields);
    (steps.isa, steps.stream) = (way.isa, way.stream);
    if way.all || way.rough.is_some() {
        steps.resumed();
    }
    let run = |member: &TeamMember<'_>, _: Option<&()>| -> Result<()> {
        let mut own = steps.own()?;
        (0..shot.nt).try_for_each(|step| steps.step(member, &mut own, step))
    };
    Team::new(way.threads).unwrap().run(&(), run).unwrap();
    // SAFETY: no thread computes.
    let all = steps.fields().into_iter().map(|field| unsafe { field.all() }.to_vec()).collect();
    (all, steps.computed())
}

fn bits(fields: &[Vec<f32>]) -> Vec<u32> {
    fields.iter().flatten().map(|value| value.to_bits()).collect()
}

#[test]
fn no_bit_depends_on_how_a_grid_is_cut() {
    let mut random = Random::new(1);
    let fixed = [([1, 40, 1], 8), ([40, 1, 2], 8), ([2, 1, 60], 8), ([1, 1, 1], 20), ([9, 31, 17], 11)];
    for (n, pml) in fixed.into_iter().chain((0..5).map(|_| ([0; 3], 0))) {
        let drawn = pml == 0;
        let n = if drawn { [30, 34, 40].map(|most| 1 + random.below(most)) } else { n };
        let pml = if drawn { 8 + random.below(6) } else { pml };
        let scheme = Scheme { isotropic_source: random.below(2) == 0, ..Scheme::default() };
        let c = material(n, pml, random.below(3) > 0, &mut random).coefficients(DT, scheme);
        let shot = shot(n.map(|n| random.below(n)), 1.0, 4);
        // Only some rough, so that most rows of some shots are at rest.
        let rough = (random.below(2) == 0).then(|| random.next());
        let alone = bits(&fields(&c, &shot, Way { isa: Isa::best(), rough, ..ALONE }).0);
        for tiles in [[1000, 1000], [16, 64], [0, 0], [0, 0]] {
            let any = [1 + random.below(20), 1 + random.below(30)];
            let fused: Vec<_> =
                Isa::all().into_iter().filter(|isa| isa.is_fused() == Isa::best().is_fused()).collect();
            let way = Way {
                tiles: if tiles == [0, 0] { any } else { tiles },
                threads: 1 + random.below(4),
                isa: fused[random.below(fused.len())],
                stream: random.below(2) == 0,
                rough,
                all: false,
            };
            let found = bits(&fields(&c, &shot, way).0);
            let differs = found.iter().zip(&alone).position(|(a, b)| a != b);
            assert_eq!(differs, None, "{n:?}, layers of {pml}, source {:?}, {way:?}", shot.source);
        }
    }
}

/// The front's smallest values are among the bits: a tile that is left out for one step loses them.
#[test]
fn cells_at_rest_are_left_out_without_a_change_of_a_bit() {
    let n = [70, 50, 60];
    let c = material(n, 9, true, &mut Random::new(2)).coefficients(DT, Scheme::default());
    for source in [[0, 0, 0], [69, 49, 57], [34, 25, 2]] {
        let shot = shot(source, 1.0, 9);
        let way = Way { tiles: [12, 16], threads: 2, isa: Isa::best(), ..ALONE };
        let (part, computed) = fields(&c, &shot, way);
        let (whole, all) = fields(&c, &shot, Way { all: true, ..way });
        assert!(all == 1.0 && computed < 0.7, "{source:?}: {computed}");
        assert!(bits(&part) == bits(&whole), "{source:?}");
    }
}

/// Fused and separate rounding drift apart by some 1e-7; a wrong lane would be of order one. A source of 1e-36 gives
/// denormal fluxes only.
#[test]
fn baseline_rounds_twice_at_most_and_denormal_numbers_are_flushed() {
    let n = [19, 14, 33];
    let c = material(n, 9, true, &mut Random::new(3)).coefficients(DT, Scheme::default());
    let p = |isa, amplitude| {
        let way = Way { tiles: [16, 64], isa, ..ALONE };
        fields(&c, &shot([4, 2, 16], amplitude, 40), way).0.swap_remove(0)
    };
    let [narrow, wide] = [Isa::Baseline, Isa::best()].map(|isa| p(isa, 1.0));
    let norm = |a: &mut dyn Iterator<Item = f32>| a.map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt();
    let off = norm(&mut narrow.iter().zip(&wide).map(|(a, b)| a - b)) / norm(&mut narrow.iter().copied());
    assert!(off < 2e-6, "{off}");
    for isa in Isa::all() {
        assert!(p(isa, 1e-36).iter().all(|p| *p == 0.0), "{isa:?}");
    }
}

/// The rotated operators of the old kernel are those of waves only if all spacings are equal.
#[test]
fn schemes_are_equal_where_all_spacings_are() {
    let coefficients = |h, old_spacing| {
        let model = Model::of(Grid { n: [3, 4, 5], h }, [(Property::Vp, 2000.0.into())]).unwrap();
        let material = TtiMaterial::new(&model, 8, Storage::Float32).unwrap();
        let c = material.coefficients(DT, Scheme { old_spacing, ..Scheme::default() });
        // Factors of the derivative along each axis in the flux of each axis.
        [0, 1, 2].map(|flux| c.stencils.map(|stencil| (stencil[0] * c.axes[flux].rate).to_bits()))
    };
    assert_eq!(coefficients([10.0; 3], false), coefficients([10.0; 3], true));
    let found = coefficients([10.0, 20.0, 5.0], false);
    let first = f32::from_bits(found[0][0]);
    assert_eq!(found, [[first, 0.5 * first, 2.0 * first].map(f32::to_bits); 3]);
    assert_ne!(found, coefficients([10.0, 20.0, 5.0], true));
}

#[test]
fn bytes_are_those_of_fields_and_coefficients() {
    let c = material([40, 9, 70], 13, true, &mut Random::new(4)).coefficients(DT, Scheme::default());
    let partition = TtiGeometry::new(&c, 3).partition;
    let mut fields = TtiFields::new(&c.layout, &partition).unwrap();
    let values: usize = fields.shared().all().into_iter().map(|field| field.values()).sum();
    let count = fields.shared().all().len();
    assert_eq!(TtiFields::bytes(&c.layout), 4 * values as u64 + 64 * count as u64);
    assert!(thread_bytes(&c) > 4 * 3 * 8 * 16 * 83);
    // A grid of 300 cells a side with the default layers.
    let layout = crate::fd::grid::layout::Layout::new(&Grid { n: [300; 3], h: [10.0; 3] }, 40);
    let cell =
        (TtiFields::bytes(&layout) + 7 * 4 * 300 * 300 * layout.pitch as u64) as f64 / layout.cells() as f64;
    assert!(cell < 56.0, "{cell} bytes a cell");
}
