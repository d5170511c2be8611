//! The recorded results of the old kernel; `tests/golden/README.md` says how they lie in their files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpusched::fd::grid::Grid;
use gpusched::fd::model::Model;
use gpusched::fd::survey::{Receivers, Shot};
use gpusched::fd::wavelet::{Shape, Wavelet};
use serde_json::Value;

/// One call of the old entry point and what it wrote.
pub struct Case {
    folder: PathBuf,
    index: Value,
    pub model: Arc<Model>,
    pub dt: f32,
    /// Whether the direct wave was muted.
    pub muted: bool,
}

impl Case {
    pub fn load(name: &str) -> Case {
        let folder = folder().join(name);
        let index = json(&folder.join("case.json"));
        let case = Argument(&index);
        let [nx, ny, nz] = ["nx", "ny", "nz"].map(|name| case.count(name));
        let grid = Grid::new([nx, ny, nz], ["dx", "dy", "dz"].map(|name| case.float(name))).unwrap();
        let field = |name| floats(&folder.join(case.value(name).as_str().unwrap()));
        let model = Arc::new(Model::new(grid, field("FNvel"), Some(field("FNrho"))).unwrap());
        let dt = case.float("dt");
        let muted = case.value("cut_directwave").as_bool().unwrap();
        Case { folder, index, model, dt, muted }
    }

    /// The shots of the call: from one to the next only x moves.
    pub fn shots(&self) -> Vec<Shot> {
        let case = Argument(&self.index);
        let nt = case.count("nt");
        let shape = Shape::try_from(case.count("wtype") as i32).unwrap();
        let wavelet = Wavelet::new(shape, case.float("fm"), self.dt, nt).unwrap();
        let snapshots = case.value("show_snapshot").as_bool().unwrap();
        let [every_x, every_y, every_t] = self.steps();
        let source = ["sxbeg", "sybeg", "szbeg"].map(|name| case.count(name) - 1);
        (0..case.count("ns"))
            .map(|is| Shot {
                source: [source[0] + is * case.count("jsx"), source[1], source[2]],
                wavelet: wavelet.clone(),
                amplitude: 10_000.0,
                nt,
                receivers: Receivers::Plane { iz: 0, every: [every_x, every_y] },
                record_every: every_t,
                snapshot_every: snapshots.then(|| case.count("snap_interval")),
                mute: None,
            })
            .collect()
    }

    /// Peak frequency in Hz.
    pub fn frequency(&self) -> f32 {
        Argument(&self.index).float("fm")
    }

    /// Every how many cells in x and y and steps in time the record keeps a value.
    fn steps(&self) -> [usize; 3] {
        let steps = list(&self.index["record"]["steps_xyt"]);
        [count(&steps[0]), count(&steps[1]), count(&steps[2])]
    }

    /// Returns the record of each shot, `[trace][sample]`.
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

    /// Returns the number of samples of a trace.
    pub fn samples(&self) -> usize {
        count(&list(&self.index["record"]["shape_per_shot"])[2])
    }

    /// Norms of each shot's record before its mute, where there was one.
    pub fn unmuted_norms(&self) -> Vec<f64> {
        list(&self.index["record"]["unmuted_l2_per_shot"]).iter().map(|v| v.as_f64().unwrap()).collect()
    }

    /// Steps of the snapshots that each shot wrote, with the fields.
    pub fn snapshots(&self) -> Vec<Vec<(usize, Vec<f32>)>> {
        let mut shots = vec![Vec::new(); self.shots().len()];
        for entry in list(&self.index["snapshots"]) {
            let file = entry["file"].as_str().unwrap();
            let name = file.strip_prefix("snap/ishot_").and_then(|name| name.strip_suffix(".bin"));
            let (shot, step) = name.and_then(|name| name.split_once("it_")).unwrap();
            let field = floats(&self.folder.join(file));
            shots[shot.parse::<usize>().unwrap()].push((step.parse().unwrap(), field));
        }
        for shot in &mut shots {
            shot.sort_by_key(|(step, _)| *step);
        }
        shots
    }
}

/// The arguments of a case by name.
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

/// Where the cases lie: in the repository, or, for a test that was carried to another machine, as `GPUSCHED_GOLDEN` says.
pub fn folder() -> PathBuf {
    let elsewhere = std::env::var_os("GPUSCHED_GOLDEN").map(PathBuf::from);
    elsewhere.unwrap_or_else(|| testkit::root().join("tests/golden"))
}

/// The names of all cases, sorted.
pub fn names() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).unwrap_or_else(|why| panic!("{}: {why}", folder().display()));
    let paths = entries.map(|entry| entry.unwrap().path()).filter(|path| path.join("case.json").exists());
    let mut names: Vec<_> =
        paths.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
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
