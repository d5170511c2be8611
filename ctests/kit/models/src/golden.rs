//! The recorded results of the old kernels; `tests/golden/README.md` describes their files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpusched::fd::grid::Grid;
use gpusched::fd::model::{DensityAt, Model, Property};
use gpusched::fd::plan::Options;
use gpusched::fd::survey::{Receivers, Shot};
use gpusched::fd::wavelet::{Shape, Wavelet};
use serde_json::Value;

use crate::reference::{Equation, PI};

/// One call of an old entry point and its results.
pub struct Case {
    folder: PathBuf,
    index: Value,
    pub equation: Equation,
    pub model: Arc<Model>,
    pub dt: f32,
    pub muted: bool,
}

impl Case {
    pub fn load(name: &str) -> Case {
        let folder = folder().join(name);
        let index = json(&folder.join("case.json"));
        let case = Argument(&index);
        let n = ["nx", "ny", "nz"].map(|name| case.count(name));
        let h = ["dx", "dy", "dz"].map(|name| case.float(name));
        let names = [
            (Property::Vp, "vel"),
            (Property::Rho, "rho"),
            (Property::Epsilon, "epsilon"),
            (Property::Delta, "delta"),
            (Property::Theta, "theta"),
            (Property::Phi, "psi"),
        ];
        // Properties that the old kernel read.
        let read = |(property, name)| {
            let path = folder.join(index["inputs"].get(name)?["file"].as_str().unwrap());
            Some((property, floats(&path).into()))
        };
        let model = Model::of(Grid::new(n, h).unwrap(), names.into_iter().filter_map(read)).unwrap();
        let model = Arc::new(model.with_density_at(DensityAt::Cells));
        let dt = case.float("dt");
        let equation = equation(&index);
        // The second-order kernel ignores the argument.
        let muted = case.value("cut_directwave").as_bool().unwrap() && equation != Equation::Acoustic2;
        Case { folder, index, equation, model, dt, muted }
    }

    pub fn options(&self) -> Options {
        let equation = self.equation.of_old_kernel().expect("an equation of the library");
        Options { equation, old_rules: true, ..Options::default() }
    }

    pub fn shots(&self) -> Vec<Shot> {
        let (case, equation) = (Argument(&self.index), self.equation);
        let (frequency, nt) = (self.frequency(), case.count("nt"));
        let shape = if equation == Equation::Acoustic1 { case.count("wtype") } else { 1 };
        let wavelet = match equation {
            Equation::Acoustic2 => second_order_ricker(frequency, self.dt, nt),
            _ => Wavelet::new(Shape::try_from(shape as i32).unwrap(), frequency, self.dt, nt).unwrap(),
        };
        let amplitude = match equation {
            Equation::Acoustic1 => 10_000.0,
            Equation::Acoustic2 => -1.0,
            Equation::Vti | Equation::Tti => 10.0,
        };
        let shown = case.value("show_snapshot").as_bool().unwrap();
        let snapshot_every = match equation {
            Equation::Acoustic1 | Equation::Vti => shown.then(|| case.count("snap_interval")),
            Equation::Acoustic2 => shown.then_some(500),
            Equation::Tti => Some(100),
        };
        let [every_x, every_y, every_t] = self.steps();
        let begin = ["sxbeg", "sybeg", "szbeg"].map(|name| case.count(name));
        let jump = ["jsx", "jsy", "jsz"].map(|name| case.count(name));
        let is = case.count("is");
        let sources = match equation {
            Equation::Acoustic1 | Equation::Vti => {
                let along_x = |is| [begin[0] - 1 + is * jump[0], begin[1] - 1, begin[2] - 1];
                (0..case.count("ns")).map(along_x).collect()
            }
            Equation::Acoustic2 => vec![[0, 1, 2].map(|a| begin[a] + is * jump[a])],
            Equation::Tti => vec![begin.map(|at| at - 1)],
        };
        let iz = usize::from(equation == Equation::Acoustic2);
        let shot = |source| Shot {
            source,
            wavelet: wavelet.clone(),
            amplitude,
            nt,
            receivers: Receivers::Plane { iz, every: [every_x, every_y] },
            record_every: every_t,
            snapshot_every,
            ..Shot::default()
        };
        sources.into_iter().map(shot).collect()
    }

    pub fn frequency(&self) -> f32 {
        Argument(&self.index).float("fm")
    }

    /// Returns the distances of recorded values in cells along x and y, and in time steps.
    fn steps(&self) -> [usize; 3] {
        let steps = list(&self.index["record"]["steps_xyt"]);
        [count(&steps[0]), count(&steps[1]), count(&steps[2])]
    }

    pub fn records(&self) -> Vec<Vec<f32>> {
        self.records_in(&self.folder.join(self.index["record"]["file"].as_str().unwrap()))
    }

    /// Returns the records in a file that this call wrote.
    ///
    /// # Panics
    /// If a value between two records is not zero, or the file has another length.
    pub fn records_in(&self, path: &Path) -> Vec<Vec<f32>> {
        let record = &self.index["record"];
        let values = floats(path);
        let size: usize = list(&record["shape_per_shot"]).iter().map(count).product();
        let mut end = 0;
        let mut records = Vec::new();
        for offset in list(&record["byte_offset_per_shot"]) {
            let start = count(offset) / 4;
            assert!(values[end..start].iter().all(|v| v.to_bits() == 0), "the gap before {start}");
            end = start + size;
            records.push(values[start..end].to_vec());
        }
        assert_eq!(end, values.len(), "the file ends with the last shot");
        records
    }

    pub fn samples(&self) -> usize {
        count(&list(&self.index["record"]["shape_per_shot"])[2])
    }

    pub fn unmuted_norms(&self) -> Vec<f64> {
        list(&self.index["record"]["unmuted_l2_per_shot"]).iter().map(|v| v.as_f64().unwrap()).collect()
    }

    pub fn snapshots(&self) -> Vec<Vec<(usize, Vec<f32>)>> {
        let mut shots = vec![Vec::new(); self.shots().len()];
        for entry in list(&self.index["snapshots"]) {
            let file = entry["file"].as_str().unwrap();
            let name = file.strip_prefix("snap/ishot_").and_then(|name| name.strip_suffix(".bin"));
            let (shot, step) = name.and_then(|name| name.split_once("it_")).unwrap();
            let shot = shot.trim_end_matches('_');
            let field = floats(&self.folder.join(file));
            shots[shot.parse::<usize>().unwrap()].push((step.parse().unwrap(), field));
        }
        for shot in &mut shots {
            shot.sort_by_key(|(step, _)| *step);
        }
        shots
    }
}

struct Argument<'a>(&'a Value);

impl Argument<'_> {
    fn value(&self, name: &str) -> &Value {
        let argument = list(&self.0["args"]).iter().find(|argument| argument[0] == name);
        &argument.unwrap_or_else(|| panic!("no argument {name}"))[2]
    }

    fn count(&self, name: &str) -> usize {
        count(self.value(name))
    }

    fn float(&self, name: &str) -> f32 {
        float(self.value(name))
    }
}

/// Returns the folder of the cases: in the repository, or, for a test on another machine, that of
/// `GPUSCHED_GOLDEN`.
pub fn folder() -> PathBuf {
    let elsewhere = std::env::var_os("GPUSCHED_GOLDEN").map(PathBuf::from);
    elsewhere.unwrap_or_else(|| testkit::root().join("tests/golden"))
}

pub fn names(of: Equation) -> Vec<String> {
    let entries = std::fs::read_dir(folder()).unwrap_or_else(|why| panic!("{}: {why}", folder().display()));
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let index = |name: &str| folder().join(name).join("case.json");
    let mut names: Vec<_> =
        names.filter(|name| index(name).exists() && equation(&json(&index(name))) == of).collect();
    names.sort();
    names
}

fn equation(index: &Value) -> Equation {
    match index["kernel"].as_str() {
        Some("cuda_3dfd_1order") => Equation::Acoustic1,
        Some("cuda_3dfd") => Equation::Acoustic2,
        Some("cuda_3dfd_vti") => Equation::Vti,
        Some("cuda_3dfd_tti") => Equation::Tti,
        other => panic!("{other:?} is no old kernel"),
    }
}

/// Returns the source of the old second-order kernel, which lasts as long as the shot.
pub fn second_order_ricker(frequency: f32, dt: f32, nt: usize) -> Wavelet {
    let sample = |it: usize| {
        let tau = (f64::from(it as f32 * dt) - 1.0 / f64::from(frequency)).abs() as f32;
        let x = (PI * f64::from(frequency) * f64::from(tau)) as f32;
        let q = x * x;
        ((1.0 - 2.0 * f64::from(q)) * f64::from((-q).exp())) as f32
    };
    Wavelet::from_samples((0..nt).map(sample).collect()).unwrap()
}

pub fn floats(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    assert_eq!(bytes.len() % 4, 0, "{} is no array of float32", path.display());
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

pub fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

pub fn float(value: &Value) -> f32 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number")) as f32
}

pub fn count(value: &Value) -> usize {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count")) as usize
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}
