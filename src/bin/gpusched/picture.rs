//! Pictures of a shot: the traces of one line of receivers, and one section of a snapshot.

use std::path::Path;

use gpusched::Result;
use gpusched::fd::grid::Grid;
use gpusched::fd::plan::Plan;
use gpusched::fd::survey::{Gather, Receivers, Shot};
use gpusched::io::raw;

use crate::digits::decimal;
use crate::names;
use crate::plot::{self, Colours, Image, Labels};
use crate::positions;
use crate::side::{About, time};

#[derive(Default)]
pub struct Picture {
    pub line: Option<Drawing>,
    pub section: Option<Drawing>,
}

/// One image with its texts, without the title of the survey.
pub struct Drawing {
    /// Part of the file's name.
    what: &'static str,
    image: Image,
    labels: Labels,
    colours: Colours,
    true_scale: bool,
}

/// Returns the traces of the receiver line along x that is nearest to the source in y. `None`: no
/// line along x has two traces or more.
pub fn nearest_line(plan: &Plan, shot: &Shot, gather: &Gather) -> Option<Drawing> {
    let grid = &plan.model.grid;
    let cells: Vec<_> = shot.receivers.cells(grid.n).collect();
    let nearest = cells.iter().map(|cell| cell[1]).min_by_key(|iy| iy.abs_diff(shot.source[1]))?;
    let mut traces: Vec<usize> = (0..cells.len()).filter(|&trace| cells[trace][1] == nearest).collect();
    if matches!(shot.receivers, Receivers::List(_)) {
        traces.sort_by_key(|&trace| cells[trace][0]);
    }
    let (first, last) = (*traces.first()?, *traces.last()?);
    if cells[first][0] == cells[last][0] || gather.samples < 2 {
        return None;
    }
    let values: Vec<f32> = traces
        .iter()
        .flat_map(|&trace| &gather.data[trace * gather.samples..(trace + 1) * gather.samples])
        .copied()
        .collect();
    debug_assert_eq!(values.len(), traces.len() * gather.samples);
    let metres = |trace: usize| positions::metres(grid, cells[trace]);
    let dt = decimal(plan.dt);
    let image = Image {
        columns: traces.len(),
        values,
        across: [metres(first)[0], metres(last)[0]],
        down: [dt, dt * ((gather.samples - 1) * shot.record_every + 1) as f64],
    };
    let [x, y, z] = positions::metres(grid, shot.source);
    let y_m = metres(first)[1];
    let labels = Labels {
        title: "pressure record".into(),
        subtitle: format!("source at x {x} m, y {y} m, z {z} m; receivers along y = {y_m} m"),
        across: "Receiver x (m)",
        down: "Time (s)",
    };
    Some(Drawing { what: "gather", image, labels, colours: Colours::Grey, true_scale: false })
}

/// Returns the section of a snapshot at the source's y. `None`: it has one row or column only.
pub fn section(grid: &Grid, source: [usize; 3], seconds: f64, field: &[f32]) -> Option<Drawing> {
    let [nx, _, nz] = grid.n;
    if nx < 2 || nz < 2 {
        return None;
    }
    let start = grid.index([0, source[1], 0]);
    let far = positions::metres(grid, grid.n.map(|n| n - 1));
    let image = Image {
        columns: nx,
        values: field[start..start + nx * nz].to_vec(),
        across: [0.0, far[0]],
        down: [0.0, far[2]],
    };
    let [x, y, z] = positions::metres(grid, source);
    let labels = Labels {
        title: format!("pressure after {seconds} s"),
        subtitle: format!("section at y = {y} m; source at x {x} m, z {z} m"),
        across: "x (m)",
        down: "Depth z (m)",
    };
    Some(Drawing { what: "snapshot", image, labels, colours: Colours::BlueRed, true_scale: true })
}

/// Returns the step of the snapshot that gets a picture: the middle one, or the later of two.
pub fn section_step(about: &About) -> Option<usize> {
    about.shot.snapshot_every.map(|every| ((about.shot.nt - 1) / every).div_ceil(2) * every)
}

impl Picture {
    /// Reads the data of the pictures of a complete shot from its files.
    pub fn of_files(folder: &Path, about: &About) -> Result<Picture> {
        let (plan, shot) = (&about.plan, &about.shot);
        let (traces, samples) = (about.traces(), shot.samples());
        let data = raw::read(&folder.join(names::record(about.number)), traces * samples)?;
        let line = nearest_line(plan, shot, &Gather { traces, samples, data });
        let grid = &plan.model.grid;
        let read = |step| {
            let field = raw::read(&folder.join(names::snapshot(about.number, step)), grid.cells())?;
            Ok::<_, gpusched::Error>(section(grid, shot.source, time(step, plan.dt), &field))
        };
        Ok(Picture { line, section: section_step(about).map(read).transpose()?.flatten() })
    }

    /// Draws the pictures and appends the name of each file that is written to `names`.
    pub fn draw(
        self,
        folder: &Path,
        number: usize,
        title: &str,
        percentile: f64,
        names: &mut Vec<String>,
    ) -> Result<()> {
        let drawings = self.line.into_iter().chain(self.section);
        for Drawing { what, image, mut labels, colours, true_scale } in drawings {
            let path = names::picture(folder, number, what);
            labels.title = format!("{title}, shot {number}: {}", labels.title);
            plot::draw(&path, &image, &labels, colours, percentile, true_scale)?;
            names.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
        Ok(())
    }
}
