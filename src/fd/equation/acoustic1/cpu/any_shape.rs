//! Grids of any shape in tiles of any size, by any number of threads and with any instructions, are computed to the same bits.

use testkit::Random;

use super::*;
use crate::backend::cpu::Team;
use crate::fd::equation::acoustic1::coefficients::Acoustic1Material;
use crate::fd::grid::Grid;
use crate::fd::model::Model;
use crate::fd::stencil::Stencil;
use crate::fd::storage::Storage;
use crate::fd::survey::Receivers;
use crate::fd::wavelet::Wavelet;

/// Each step uses what four neighbours on each side were, and what was kept of the step before.
const STEPS: usize = 4;

/// How a grid is swept.
#[derive(Debug, Clone, Copy)]
struct Execution {
    tiles: [usize; 2],
    threads: usize,
    isa: Isa,
    large: bool,
}

/// A grid, layers, a source's cell, whether it has a density.
type GridCase = ([usize; 3], usize, [usize; 3], bool);

fn coefficients((n, pml, _, density): GridCase, storage: Storage, random: &mut Random) -> Coefficients {
    let grid = Grid { n, h: [10.0, 11.0, 9.0] };
    let mut values = |low, high| (0..grid.cells()).map(|_| random.between(low, high)).collect::<Vec<_>>();
    let vp = values(1500.0, 3000.0);
    let model = Model::new(grid, vp, density.then(|| values(1000.0, 2000.0))).unwrap();
    Acoustic1Material::new(&model, pml, storage).unwrap().coefficients(1e-3)
}

/// All of the pressure, after steps from a rough one.
fn swept(c: &Coefficients, source: [usize; 3], execution: Execution, random: &mut Random) -> Vec<u32> {
    let shot = Shot {
        source,
        wavelet: Wavelet { samples: vec![0.5; STEPS - 1] },
        amplitude: 1.0,
        nt: STEPS,
        receivers: Receivers::Plane { iz: 0, every: [1, 1] },
        record_every: 1,
        snapshot_every: None,
        mute: None,
    };
    let geometry = Geometry::in_tiles(c, execution.threads, &[execution.tiles]);
    let mut fields = Fields::new(&c.layout, &geometry).unwrap();
    let first = fields.shared().p[0];
    let [x, y, z] = [0, 1, 2].map(|axis| c.layout.active(axis));
    for (x, y) in y.flat_map(|y| x.clone().map(move |x| (x, y))) {
        // SAFETY: a row's updated cells; alone.
        let row = unsafe { first.write(c.layout.at([x, y, z.start]), z.len()) };
        row.iter_mut().for_each(|p| *p = random.between(-1.0, 1.0));
    }
    let mut steps = OnePass::new(c, &geometry, &shot, &mut fields);
    (steps.isa, steps.large) = (execution.isa, execution.large);
    steps.resumed();
    let run = |member: &TeamMember<'_>, _: Option<&()>| {
        let mut own = steps.own()?;
        (0..STEPS).try_for_each(|step| steps.step(member, &mut own, step))
    };
    Team::new(execution.threads).unwrap().run(&(), run).unwrap();
    let p = steps.pressure(STEPS - 1);
    // SAFETY: nobody writes any more.
    unsafe { p.read(0, c.layout.field_len()) }.iter().map(|p| p.to_bits()).collect()
}

#[test]
fn no_bit_depends_on_how_a_grid_is_cut() {
    let mut random = Random::new(1);
    // Long along each axis, thin along each, and what comes.
    let fixed = [([1, 70, 1], 8), ([70, 1, 2], 8), ([2, 1, 70], 8), ([1, 1, 1], 31), ([9, 41, 17], 11)];
    let any = (0..10).map(|_| ([0; 3], 0));
    for (n, pml) in fixed.into_iter().chain(any) {
        let drawn = pml == 0;
        let n = if drawn { [30, 44, 40].map(|most| 1 + random.below(most)) } else { n };
        let pml = if drawn { 8 + random.below(8) } else { pml };
        let source = n.map(|n| random.below(n));
        let case = (n, pml, source, random.below(3) > 0);
        let seed = random.next();
        for storage in Storage::ALL {
            let mut c = coefficients(case, storage, &mut Random::new(seed));
            if random.below(2) == 0 {
                c = c.with(Stencil::Optimised);
            }
            // A row at a time: no fluxes of one are still there for another.
            let alone = Execution { tiles: [1, 1], threads: 1, isa: Isa::best(), large: false };
            let one_by_one = swept(&c, source, alone, &mut Random::new(seed));
            for (columns, depth) in [(1000, 1000), (32, 64), (0, 0), (0, 0), (0, 0)] {
                let any = [1 + random.below(20), 1 + random.below(30)];
                #[cfg(target_arch = "x86_64")]
                let isa =
                    if random.below(2) == 0 && Isa::best() == Isa::Avx512 { Isa::Avx2 } else { Isa::best() };
                #[cfg(not(target_arch = "x86_64"))]
                let isa = Isa::best();
                let execution = Execution {
                    tiles: if columns == 0 { any } else { [columns, depth] },
                    threads: 1 + random.below(4),
                    isa,
                    large: random.below(2) == 0,
                };
                let found = swept(&c, source, execution, &mut Random::new(seed));
                let differs = found.iter().zip(&one_by_one).position(|(a, b)| a != b);
                assert_eq!(differs, None, "{case:?}, {storage:?}, {execution:?}");
            }
        }
    }
}
