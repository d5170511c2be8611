//! Converts the `[model]` table to properties on the grid.

use std::cmp::Reverse;
use std::f64::consts::TAU;
use std::path::{Path, PathBuf};

use gpusched::fd::grid::{AXES, Grid};
use gpusched::fd::model::{self as fd, Values};
use gpusched::fd::warnings::{LIGHTEST, SLOWEST};
use gpusched::io::{npy, raw};
use gpusched::{Error, Result};

use crate::digits::decimal;
use crate::document::{Document, FILE_CELLS};
use crate::positions;
use crate::survey::{Layer, Model, Property, PropertyTable};

/// Extensions of formats that are not supported and would be read as raw files.
const FOREIGN: &[&str] =
    &["segy", "sgy", "su", "rsf", "npz", "h5", "hdf5", "nc", "mat", "csv", "txt", "zarr"];
/// Name of the rule for the density.
const GARDNER: &str = "gardner";
/// Returns the properties of a `[model]` table with the keys that state them.
pub fn stated(from: &Model) -> Vec<(fd::Property, &Property)> {
    let Model { vp, rho, epsilon, delta, theta_rad, phi_rad, any_values: _ } = from;
    let others = [rho, epsilon, delta, theta_rad, phi_rad].map(Option::as_ref);
    let all = [Some(vp)].into_iter().chain(others);
    fd::Property::ALL.into_iter().zip(all).filter_map(|(property, from)| Some((property, from?))).collect()
}

/// Returns the number of properties of a `[model]` table that are not constant.
pub fn volumes(from: &Model) -> usize {
    let is_volume = |from: &Property| !matches!(from, Property::Constant(_));
    let counts = |(property, stated): &(fd::Property, &Property)| match stated {
        Property::Name(name) if *property == fd::Property::Rho && name == GARDNER => is_volume(&from.vp),
        stated => is_volume(stated),
    };
    stated(from).iter().filter(|stated| counts(stated)).count()
}

/// Returns the key of a property in a survey file.
pub fn key(property: fd::Property) -> String {
    format!("model.{}", property.name())
}

/// Returns a line of the summary for each property of a model other than the velocity. It shows
/// angles in degrees, so that degrees in a file of radians are noticed.
pub fn ranges(model: &fd::Model) -> Vec<String> {
    let lines = [
        (fd::Property::Rho, "density", "kg/m³"),
        (fd::Property::Epsilon, "epsilon", ""),
        (fd::Property::Delta, "delta", ""),
        (fd::Property::Theta, "tilt", "degrees"),
        (fd::Property::Phi, "azimuth", "degrees"),
    ];
    let line = |(property, label, unit)| {
        let mut range = model.get(property)?.range();
        if unit == "degrees" {
            range = range.map(|angle| (10.0 * angle.to_degrees()).round() / 10.0);
        }
        let [low, high] = range;
        Some(format!("{label:<12}{low} to {high} {unit}").trim_end().into())
    };
    lines.into_iter().filter_map(line).collect()
}

/// Returns the accepted values of a property in a survey file, and their unit.
fn range(property: fd::Property) -> ((f64, f64), &'static str) {
    match property {
        fd::Property::Vp => ((1.0, 20_000.0), "m/s"),
        fd::Property::Rho => ((0.1, 30_000.0), "kg/m3"),
        fd::Property::Epsilon | fd::Property::Delta => ((-0.49, 2.0), "(0.2, not 20 %)"),
        fd::Property::Theta | fd::Property::Phi => ((-TAU, TAU), "radians; 90 degrees are 1.5708"),
    }
}

/// Loads or computes all properties of a `[model]` table.
pub fn properties(file: &Document, grid: &Grid, from: &Model) -> Result<Vec<(fd::Property, Values)>> {
    let mut properties: Vec<(fd::Property, Values)> = Vec::new();
    for (property, from) in stated(from) {
        let (range, unit) = range(property);
        let filler = Filler { file, grid, key: key(property), range, unit };
        let values = match (property, from, properties.first()) {
            (fd::Property::Rho, Property::Name(name), Some((_, vp))) if name == GARDNER => gardner(vp),
            _ => filler.fill(from)?,
        };
        properties.push((property, values));
    }
    Ok(properties)
}

/// Returns the density by Gardner, Gardner and Gregory (1974): 310 vp^0.25 in kg/m³, with vp in
/// m/s.
fn gardner(velocity: &Values) -> Values {
    let density = |vp: f32| 310.0 * vp.sqrt().sqrt();
    match velocity {
        Values::Constant(vp) => density(*vp).into(),
        Values::Volume(vp) => vp.iter().copied().map(density).collect::<Vec<_>>().into(),
    }
}

struct Filler<'a> {
    file: &'a Document,
    grid: &'a Grid,
    key: String,
    range: (f64, f64),
    unit: &'static str,
}

impl Filler<'_> {
    fn fill(&self, from: &Property) -> Result<Values> {
        match from {
            Property::Constant(value) => {
                self.check(&self.key, *value)?;
                Ok((*value as f32).into())
            }
            Property::Name(path) if path.is_empty() => Err(self.file.refuse(&self.key, "a path")),
            Property::Name(path) => {
                let table = PropertyTable { file: Some(PathBuf::from(path)), ..Default::default() };
                self.load(&table).map(Values::from)
            }
            Property::Table(table) => match (&table.file, &table.layers) {
                (Some(path), None) if path.as_os_str().is_empty() => {
                    Err(self.file.refuse(&format!("{}.file", self.key), "a path"))
                }
                (Some(_), None) => self.load(table).map(Values::from),
                (None, Some(layers)) => {
                    self.check_keys_of_layers(table)?;
                    self.layers(layers).map(Values::from)
                }
                (file, _) => Err(self.file.refuse_choice(&self.key, file.is_some(), ["`file`", "`layers`"])),
            },
        }
    }

    fn check_keys_of_layers(&self, table: &PropertyTable) -> Result<()> {
        let PropertyTable { file: _, n, first, every, extrude, layers: _ } = table;
        let keys = [
            ("n", n.is_some()),
            ("first", first.is_some()),
            ("every", every.is_some()),
            ("extrude", *extrude),
        ];
        match keys.iter().find(|(_, is_set)| *is_set) {
            Some((key, _)) => {
                Err(self.file.refuse(&format!("{}.{key}", self.key), "no value: it belongs to `file`"))
            }
            None => Ok(()),
        }
    }

    fn check(&self, key: &str, value: f64) -> Result<()> {
        let (least, most) = self.range;
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(self.file.refuse(key, format!("{least} to {most} {}", self.unit)))
    }

    fn layers(&self, layers: &[Layer]) -> Result<Vec<f32>> {
        if layers.is_empty() {
            return Err(self.file.refuse(&format!("{}.layers", self.key), "at least one layer"));
        }
        for (at, layer) in layers.iter().enumerate() {
            let key = |name: &str| format!("{}.layers.{at}.{name}", self.key);
            self.check(&key("value"), layer.value)?;
            if !layer.top_m.is_finite() {
                return Err(self.file.refuse(&key("top_m"), "a finite number of metres"));
            }
            if !layer.slope.0.iter().all(|slope| slope.is_finite()) {
                return Err(self.file.refuse(&key("slope"), "two finite numbers, metres per metre"));
            }
            if !layer.gradient.is_finite() {
                return Err(self.file.refuse(&key("gradient"), "a finite change per metre"));
            }
        }
        let [nx, ny, nz] = self.grid.n;
        let h = self.grid.h.map(decimal);
        let depths: Vec<f64> = (0..nz).map(|iz| positions::metres(self.grid, [0, 0, iz])[2]).collect();
        // A product of a slope and a distance may be rounded to a depth below that of its cell.
        let close = 1e-6 * h[2];
        let mut values = Vec::with_capacity(self.grid.cells());
        for iy in 0..ny {
            for ix in 0..nx {
                let top = |layer: &Layer| {
                    let [along_x, along_y] = layer.slope.0;
                    layer.top_m + along_x * ix as f64 * h[0] + along_y * iy as f64 * h[1]
                };
                for (iz, &z) in depths.iter().enumerate() {
                    // Cells above the first top belong to the first layer, without its gradient.
                    let layer =
                        layers.iter().rev().find(|layer| top(layer) <= z + close).unwrap_or(&layers[0]);
                    let value = layer.value + layer.gradient * (z - top(layer)).max(0.0);
                    let (least, most) = self.range;
                    if !(least..=most).contains(&value) {
                        return Err(Error::argument(
                            format!("{} of cell ({ix}, {iy}, {iz}) from its layers", self.key),
                            value,
                            format!("{least} to {most} {}", self.unit),
                        ));
                    }
                    values.push(value as f32);
                }
            }
        }
        Ok(values)
    }

    /// Loads a file [iy][ix][iz], or a section [iz][ix] that is the same for all y.
    fn load(&self, from: &PropertyTable) -> Result<Vec<f32>> {
        let key = |name: &str| format!("{}.{name}", self.key);
        let name = from.file.as_deref().unwrap_or(Path::new(""));
        let path = self.file.resolve(name);
        let extension =
            path.extension().map(|text| text.to_string_lossy().to_lowercase()).unwrap_or_default();
        if FOREIGN.contains(&&*extension) {
            let accepted = "an NPY file (.npy) or raw little-endian float32 (.bin, or any other name); convert other formats, \
                            for example with segyio and numpy.save";
            return Err(self.blame(Error::argument("the file", path.display(), accepted)));
        }
        let is_npy = extension == "npy";
        if from.every.is_some_and(|every| every.0.contains(&0)) {
            return Err(self.file.refuse(&key("every"), FILE_CELLS));
        }
        let (n, strides, data) = if is_npy {
            if from.n.is_some() {
                return Err(self.file.refuse(&key("n"), "no value: an NPY file states its shape"));
            }
            let array = npy::read(&path).map_err(|error| self.unread(name, error))?;
            match (array.shape.as_slice(), from.extrude) {
                (&[ny, nx, nz], false) => ([nx, ny, nz], [nz, nx * nz, 1], array.data),
                (&[nz, nx], true) => ([nx, self.grid.n[1], nz], [1, 0, nx], array.data),
                (shape, extrude) => {
                    let accepted = match extrude {
                        false => "[iy][ix][iz]; a section [iz][ix] needs `extrude = true`",
                        true => "with `extrude`, a section [iz][ix]",
                    };
                    let what = format!("the shape of {}", path.display());
                    return Err(self.blame(Error::argument(what, format!("{shape:?}"), accepted)));
                }
            }
        } else {
            let n = from.n.map(|n| n.0).unwrap_or(match from.extrude {
                true => [self.grid.n[0], 1, self.grid.n[2]],
                false => self.grid.n,
            });
            let count =
                n.iter().try_fold(1usize, |count, &n| count.checked_mul(n)).filter(|&count| count > 0);
            let Some(count) = count else {
                return Err(self.file.refuse(&key("n"), FILE_CELLS));
            };
            if from.extrude && n[1] != 1 {
                return Err(self
                    .file
                    .refuse(&key("n"), "ny of 1 with `extrude`: the file is one section [ix][iz]"));
            }
            let along_y = if from.extrude { (self.grid.n[1], 0) } else { (n[1], n[0] * n[2]) };
            let data = raw::read(&path, count).map_err(|error| self.unread(name, error))?;
            ([n[0], along_y.0, n[2]], [n[2], along_y.1, 1], data)
        };
        self.cut(from, &path, n, strides, &data)
    }

    /// Extracts the grid's cells from a file of `n` cells whose neighbours are `strides` values
    /// apart.
    fn cut(
        &self,
        from: &PropertyTable,
        path: &Path,
        n: [usize; 3],
        strides: [usize; 3],
        data: &[f32],
    ) -> Result<Vec<f32>> {
        let first = from.first.map_or([0; 3], |first| first.0);
        let every = from.every.map_or([1; 3], |every| every.0);
        let whole = from.first.is_none() && from.every.is_none();
        let least: [usize; 3] = std::array::from_fn(|axis| {
            let last = (self.grid.n[axis] - 1).saturating_mul(every[axis]).saturating_add(first[axis]);
            last.saturating_add(1)
        });
        // The axes of the file, the slowest first. An extruded section has no y.
        let mut axes = [1, 0, 2].into_iter().filter(|&axis| strides[axis] != 0).collect::<Vec<_>>();
        axes.sort_by_key(|&axis| Reverse(strides[axis]));
        if axes.iter().any(|&axis| n[axis] < least[axis] || (whole && n[axis] != least[axis])) {
            return Err(self.blame(self.wrong_shape(path, &axes, n, least, whole)));
        }
        // An axis of one cell has no step, however large `every` is.
        let step: [usize; 3] = std::array::from_fn(|axis| match self.grid.n[axis] {
            1 => 0,
            _ => every[axis] * strides[axis],
        });
        let start: usize = (0..3).map(|axis| first[axis] * strides[axis]).sum();
        let [nx, ny, nz] = self.grid.n;
        let mut values = Vec::with_capacity(self.grid.cells());
        for iy in 0..ny {
            for ix in 0..nx {
                let row = start + iy * step[1] + ix * step[0];
                values.extend((0..nz).map(|iz| data[row + iz * step[2]]));
            }
        }
        let (least, most) = (self.range.0 as f32, self.range.1 as f32);
        match values.iter().position(|value| !(least..=most).contains(value)) {
            None => Ok(values),
            Some(at) => {
                let (iz, ix, iy) = (at % nz, at / nz % nx, at / nz / nx);
                let what = format!("cell ({ix}, {iy}, {iz}) from {}", path.display());
                let accepted = format!("{least} to {most} {}", self.unit);
                Err(self.blame(Error::argument(what, values[at], accepted)))
            }
        }
    }

    /// Returns the error for a file of `n` cells, with `axes` in the order of the file.
    fn wrong_shape(
        &self,
        path: &Path,
        axes: &[usize],
        n: [usize; 3],
        least: [usize; 3],
        whole: bool,
    ) -> Error {
        let list = |of: &dyn Fn(usize) -> String| {
            format!("({})", axes.iter().map(|&axis| of(axis)).collect::<Vec<_>>().join(", "))
        };
        let sorted = |of: [usize; 3]| {
            let mut of = axes.iter().map(|&axis| of[axis]).collect::<Vec<_>>();
            of.sort_unstable();
            of
        };
        let names = list(&|axis| format!("n{}", AXES[axis]));
        let wanted = list(&|axis| least[axis].to_string());
        let key = &self.key;
        let accepted = match whole {
            true if sorted(n) == sorted(least) => {
                format!("{wanted}, the cells of grid.n in this order of axes: transpose the array")
            }
            true => format!(
                "{wanted}, the cells of grid.n; {key}.first and {key}.every take a part of a larger file"
            ),
            false => format!("at least {wanted}, for {key}.first and {key}.every"),
        };
        let what = format!("the shape {names} of {}", path.display());
        Error::argument(what, list(&|axis| n[axis].to_string()), accepted)
    }

    fn blame(&self, error: Error) -> Error {
        self.file.blame(&self.key, error)
    }

    /// Returns the error for a file that could not be read, with a suggestion if no such file
    /// exists.
    fn unread(&self, name: &Path, error: Error) -> Error {
        let is_missing = self.file.resolve(name).try_exists().is_ok_and(|exists| !exists);
        match (self.blame(error), self.suggestion(name).filter(|_| is_missing)) {
            (Error::Io { action, path, why }, Some(hint)) => {
                Error::Io { action, path, why: format!("{why}; {hint}") }
            }
            (error, _) => error,
        }
    }

    /// Returns the value that the name of a file may stand for.
    fn suggestion(&self, name: &Path) -> Option<String> {
        let name = name.to_str()?.trim();
        if self.key == key(fd::Property::Rho) && strsim::jaro(&name.to_lowercase(), GARDNER) > 0.8 {
            return Some(format!("did you mean \"{GARDNER}\"?"));
        }
        let number: f64 = name.replace('_', "").parse().ok()?;
        let property = self.key.rsplit('.').next().unwrap_or_default();
        let (least, most) = self.range;
        // Smaller values look like km/s and g/cm³.
        let least = match property {
            "vp" => f64::from(SLOWEST),
            "rho" => f64::from(LIGHTEST),
            _ => least,
        };
        let hint = "numbers stand without quotes";
        match (least..=most).contains(&number) {
            true => Some(format!("{hint}: {property} = {number:?}")),
            false => number.is_finite().then(|| format!("{hint}; accepted: {least} to {most} {}", self.unit)),
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::command::SURVEY;

    use super::*;
    use crate::survey::Survey;

    fn velocities(layers: &str, grid: &Grid) -> Vec<f32> {
        let folder = testkit::Folder::new();
        std::fs::write(folder.at("survey.toml"), SURVEY.replace("top_m = 80.0", layers)).unwrap();
        let file = Document::open(&folder.at("survey.toml")).unwrap();
        let properties = properties(&file, grid, &file.read::<Survey>().unwrap().model).unwrap();
        (0..grid.cells()).map(|cell| properties[0].1.at(cell)).collect()
    }

    /// In floating point three times 33.3 is less than 99.9, and 0.1 times 3 times 100 more than 30.
    #[test]
    fn layer_begins_at_the_cell_at_its_top() {
        let level = velocities("top_m = 99.9", &Grid { n: [1, 1, 5], h: [33.3; 3] });
        assert_eq!(level, [1500.0, 1500.0, 1500.0, 2000.0, 2000.0]);
        let n = [6, 1, 7];
        let dipping = velocities("slope = [0.1, 0.0]", &Grid { n, h: [100.0, 100.0, 10.0] });
        for (ix, column) in dipping.chunks(n[2]).enumerate() {
            assert_eq!(column.iter().position(|&vp| vp == 2000.0), Some(ix), "ix {ix}");
        }
    }
}
