//! Tiles, threads, instructions, storage and cells at rest change no bit.

use testkit::Random;

use super::*;
use crate::fd::equation::Absorber;
use crate::fd::equation::acoustic2::coefficients::Medium;
use crate::fd::grid::Grid;
use crate::fd::model::Model;
use crate::fd::stencil::Stencil;
use crate::fd::storage::Storage;
use crate::fd::survey::Receivers;
use crate::fd::wavelet::Wavelet;

/// How a grid is swept.
#[derive(Debug, Clone, Copy)]
struct Way {
    tiles: [usize; 2],
    threads: usize,
    isa: Isa,
    /// Cells at rest are computed, too.
    all: bool,
}

fn coefficients(
    n: [usize; 3],
    pml: usize,
    storage: Storage,
    absorber: Absorber,
    random: &mut Random,
) -> Coefficients {
    let grid = Grid { n, h: [10.0, 11.0, 9.0] };
    let vp = (0..grid.cells()).map(|_| random.between(1500.0, 4500.0)).collect();
    let stencil = Stencil::ALL[random.below(2)];
    let medium = Medium::new(&Model::new(grid, vp, None).unwrap(), pml, storage, absorber).unwrap();
    medium.coefficients(9e-4, stencil)
}

/// Returns both fields after some steps, and the share of the cells that was computed.
fn fields_after(c: &Coefficients, source: [usize; 3], amplitude: f32, way: Way) -> (Vec<Vec<f32>>, f64) {
    let shot = Shot {
        source,
        wavelet: Wavelet { samples: vec![0.3, -0.7, 0.4] },
        amplitude,
        nt: 9,
        receivers: Receivers::Plane { iz: 0, every: [1, 1] },
        ..Shot::default()
    };
    let partition = partition(&c.layout, way.threads, &[way.tiles]);
    let mut fields = fields(c).unwrap();
    let steps = Sweeps { isa: way.isa, ..Sweeps::new(c, &partition, &shot, &mut fields) };
    if way.all {
        steps.resumed();
    }
    let run = |member: &TeamMember<'_>, _: Option<&()>| {
        (0..shot.nt).try_for_each(|step| steps.step(member, &mut (), step))
    };
    Team::new(way.threads).unwrap().run(&(), run).unwrap();
    // SAFETY: no thread computes.
    let values = |field: Rows<'_>| unsafe { field.all() }.to_vec();
    (steps.fields().into_iter().map(values).collect(), steps.computed())
}

fn bits(fields: &[Vec<f32>]) -> Vec<u32> {
    fields.iter().flatten().map(|value| value.to_bits()).collect()
}

fn all_kinds() -> impl Iterator<Item = (Storage, Absorber)> {
    Storage::ALL.into_iter().flat_map(|storage| Absorber::ALL.map(|absorber| (storage, absorber)))
}

#[test]
fn no_bit_depends_on_how_a_grid_is_swept() {
    let mut random = Random::new(1);
    let fused: Vec<Isa> =
        Isa::all().into_iter().filter(|isa| isa.is_fused() == Isa::best().is_fused()).collect();
    for (n, pml) in [([1, 1, 1], 8), ([70, 1, 2], 8), ([2, 41, 17], 11), ([33, 20, 70], 9), ([9, 9, 40], 54)]
    {
        for (storage, absorber) in all_kinds() {
            let c = coefficients(n, pml, storage, absorber, &mut random);
            let source = random.cell(n);
            let alone = Way { tiles: [1, 1], threads: 1, isa: Isa::best(), all: true };
            let (one_by_one, everything) = fields_after(&c, source, 1.0, alone);
            assert_eq!(everything, 1.0);
            for isa in &fused {
                for (tiles, threads, all) in
                    [([1000, 1000], 1, true), ([32, 64], 2, false), ([1 + random.below(20), 7], 3, false)]
                {
                    let way = Way { tiles, threads, isa: *isa, all };
                    let (found, computed) = fields_after(&c, source, 1.0, way);
                    assert!(bits(&found) == bits(&one_by_one), "{n:?}, {pml}, {storage:?}, {way:?}");
                    assert!(all || n[1] < 41 && n[2] < 70 || computed < 0.9, "{n:?}, {way:?}: {computed}");
                }
            }
            let moves = |row: usize, z: usize| {
                let [x, y] = [row % c.layout.padded[0], row / c.layout.padded[0]];
                [x, y, z].into_iter().enumerate().all(|(axis, i)| c.layout.active(axis).contains(&i))
            };
            for row in 0..c.layout.padded[0] * c.layout.padded[1] {
                let values = &one_by_one[0][c.layout.row(row)..][..c.layout.padded[2]];
                let at_rest = values.iter().enumerate().all(|(z, v)| moves(row, z) || v.to_bits() == 0);
                assert!(at_rest, "{n:?}, {pml}, {storage:?}: row {row} moves beyond the updated cells");
            }
        }
    }
}

#[test]
fn denormal_numbers_are_flushed_with_all_instructions() {
    let c = coefficients([9, 7, 12], 8, Storage::Float32, Absorber::Pml, &mut Random::new(2));
    for isa in Isa::all() {
        let way = Way { tiles: [32, 64], threads: 2, isa, all: true };
        let (fields, _) = fields_after(&c, [4, 3, 5], 3e-38, way);
        let count = fields.iter().flatten().filter(|value| value.is_subnormal()).count();
        assert_eq!(count, 0, "{isa:?}");
        assert!(fields.iter().flatten().any(|value| *value != 0.0), "{isa:?}");
    }
}

/// Separate and fused rounding differ by some 1e-7; a wrong lane would differ by the whole value.
#[test]
fn baseline_instructions_differ_by_rounding_only() {
    for (storage, absorber) in Storage::ALL.into_iter().zip(Absorber::ALL) {
        let c = coefficients([19, 14, 33], 9, storage, absorber, &mut Random::new(3));
        let [narrow, wide] = [Isa::Baseline, Isa::best()].map(|isa| {
            let way = Way { tiles: [32, 64], threads: 2, isa, all: true };
            fields_after(&c, [4, 2, 16], 1.0, way).0.concat()
        });
        let norm = |values: &mut dyn Iterator<Item = f32>| {
            values.map(|value| f64::from(value).powi(2)).sum::<f64>().sqrt()
        };
        let apart = norm(&mut narrow.iter().zip(&wide).map(|(a, b)| a - b)) / norm(&mut wide.iter().copied());
        assert!(apart < 2e-6, "{storage:?}: {apart:e}");
    }
}
