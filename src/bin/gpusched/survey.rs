//! The keys of a survey file. `docs/survey.md` lists each with its unit, range and default.
//! `examples/quickstart/survey.toml` contains each.

use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use gpusched::fd::model::DensityAt;
use gpusched::fd::plan::{Stencil, Storage};
use gpusched::fd::survey::SourceKind;
use gpusched::fd::wavelet::Shape;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Survey {
    pub title: Option<String>,
    /// Name of the equation; by default the first one of the library.
    pub equation: Option<String>,
    pub grid: Grid,
    pub model: Model,
    pub time: Time,
    #[serde(default)]
    pub accuracy: Accuracy,
    pub wavelet: Wavelet,
    pub sources: Sources,
    #[serde(default)]
    pub receivers: Receivers,
    pub snapshots: Option<Snapshots>,
    pub mute: Option<Mute>,
    #[serde(default)]
    pub output: Output,
    #[serde(default)]
    pub run: Run,
}

impl Survey {
    /// Returns the factor on the wavelet.
    pub fn amplitude(&self) -> f64 {
        let default = if matches!(self.sources.kind, SourceKind::Pressure) { 10_000.0 } else { 1.0 };
        self.wavelet.amplitude.unwrap_or(default)
    }

    /// Returns the wavelet with its amplitude, for reports.
    pub fn wavelet(&self) -> Value {
        let mut wavelet = json!(self.wavelet);
        wavelet["amplitude"] = self.amplitude().into();
        wavelet
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    pub n: Exactly<usize, 3>,
    pub spacing_m: Spacing,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a number of metres, or three: [dx, dy, dz]")]
pub enum Spacing {
    Cubic(f64),
    Axes(Exactly<f64, 3>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    pub vp: Property,
    pub rho: Option<Property>,
    pub epsilon: Option<Property>,
    pub delta: Option<Property>,
    pub theta_rad: Option<Property>,
    pub phi_rad: Option<Property>,
    /// Accepts values that look like km/s or g/cm³.
    #[serde(default)]
    pub any_values: bool,
}

/// One property of the medium on the grid.
#[derive(Debug)]
pub enum Property {
    Constant(f64),
    /// Path of a file, or name of a rule.
    Name(String),
    Table(PropertyTable),
}

impl Property {
    /// Returns the path of the property's file, if any.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Property::Constant(_) => None,
            Property::Name(path) => Some(Path::new(path)),
            Property::Table(table) => table.file.as_deref(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PropertyTable {
    pub file: Option<PathBuf>,
    /// Number of cells of a raw file along each axis; by default those of the grid.
    pub n: Option<Exactly<usize, 3>>,
    pub first: Option<Exactly<usize, 3>>,
    pub every: Option<Exactly<usize, 3>>,
    #[serde(default)]
    pub extrude: bool,
    pub layers: Option<Vec<Layer>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    #[serde(default)]
    pub top_m: f64,
    /// Increase of the depth of the top per metre along x and y.
    #[serde(default)]
    pub slope: Exactly<f64, 2>,
    pub value: f64,
    /// Change of the value per metre below the top.
    #[serde(default)]
    pub gradient: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Time {
    pub dt_s: Step,
    pub nt: Option<usize>,
    pub duration_s: Option<f64>,
    #[serde(default = "one")]
    pub record_every: usize,
}

/// Options that change the results.
#[derive(Debug, Default, Clone, Copy, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Accuracy {
    pub exact_time: bool,
    #[serde(with = "StencilName")]
    pub stencil: Stencil,
    #[serde(with = "StorageName")]
    pub storage: Storage,
    #[serde(with = "DensityName")]
    pub density_at: DensityAt,
    /// Epsilon and delta keep their values around the source.
    pub anisotropic_source: bool,
    /// Absorbing layer; by default that of the equation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absorbing_layer: Option<Absorber>,
}

#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Absorber {
    Pml,
    Sponge,
}

// The following enums have the names of the library's values.

#[derive(Deserialize, Serialize)]
#[serde(remote = "Stencil", rename_all = "kebab-case")]
enum StencilName {
    Taylor,
    Optimised,
}

#[derive(Deserialize, Serialize)]
#[serde(remote = "Storage")]
enum StorageName {
    #[serde(rename = "float32")]
    Float32,
    #[serde(rename = "16-bit")]
    Bits16,
}

#[derive(Deserialize, Serialize)]
#[serde(remote = "DensityAt", rename_all = "kebab-case")]
enum DensityName {
    HalfPoints,
    Cells,
}

#[derive(Deserialize, Serialize)]
#[serde(remote = "Shape", rename_all = "kebab-case")]
enum ShapeName {
    Ricker,
    GaussianDerivative,
    Gaussian,
    CutRicker,
    CutGaussianDerivative,
    CutGaussian,
    CutRickerIntegral,
    CutRickerDoubleIntegral,
    CutRickerTripleIntegral,
}

#[derive(Deserialize)]
#[serde(remote = "SourceKind", rename_all = "kebab-case")]
enum SourceName {
    Pressure,
    Monopole,
    ForceX,
    ForceY,
    ForceZ,
}

#[derive(Debug, Clone, Copy)]
pub enum Step {
    Auto,
    Seconds(f64),
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Wavelet {
    #[serde(default, with = "ShapeName")]
    pub shape: Shape,
    pub frequency_hz: f64,
    pub amplitude: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sources {
    #[serde(default, with = "SourceName")]
    pub kind: SourceKind,
    pub first_m: Option<Exactly<f64, 3>>,
    pub step_m: Option<Exactly<f64, 2>>,
    pub count: Option<Exactly<usize, 2>>,
    pub positions_m: Option<Vec<Exactly<f64, 3>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receivers {
    pub depth_m: Option<f64>,
    pub every: Option<Exactly<usize, 2>>,
    pub positions_m: Option<Vec<Exactly<f64, 3>>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshots {
    pub every: usize,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Mute {
    pub velocity_m_s: f64,
    #[serde(default)]
    pub after_s: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Output {
    pub folder: PathBuf,
    /// Number of shots with pictures, from the first shot.
    pub pictures: usize,
    pub clip_percentile: f64,
}

impl Default for Output {
    fn default() -> Self {
        Output { folder: "out".into(), pictures: 3, clip_percentile: 99.0 }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    pub devices: Option<String>,
    pub slots: Option<u32>,
    pub deadline_s: Option<f64>,
    pub write_retry_s: Option<f64>,
}

/// An array with exactly `N` values in the file. The toml crate drops further values of a plain
/// array.
#[derive(Debug, Clone, Copy)]
pub struct Exactly<T, const N: usize>(pub [T; N]);

impl<T: Copy + Default, const N: usize> Default for Exactly<T, N> {
    fn default() -> Self {
        Exactly([T::default(); N])
    }
}

impl<'de, T: Deserialize<'de> + Copy + Default, const N: usize> Deserialize<'de> for Exactly<T, N> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Array<T, const N: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de> + Copy + Default, const N: usize> Visitor<'de> for Array<T, N> {
            type Value = Exactly<T, N>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an array of length {N}")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Exactly<T, N>, A::Error> {
                let mut array = Exactly::default();
                for (at, value) in array.0.iter_mut().enumerate() {
                    *value = values.next_element()?.ok_or_else(|| Error::invalid_length(at, &self))?;
                }
                match values.next_element::<IgnoredAny>()? {
                    None => Ok(array),
                    Some(_) => Err(Error::invalid_length(N + 1, &self)),
                }
            }
        }

        from.deserialize_seq(Array(PhantomData))
    }
}

fn one() -> usize {
    1
}

impl<'de> Deserialize<'de> for Property {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Forms;

        impl<'de> Visitor<'de> for Forms {
            type Value = Property;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, a file's path, or a table with `file` or `layers`")
            }

            fn visit_f64<E>(self, value: f64) -> Result<Property, E> {
                Ok(Property::Constant(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Property, E> {
                Ok(Property::Constant(value as f64))
            }

            fn visit_str<E>(self, text: &str) -> Result<Property, E> {
                Ok(Property::Name(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Property, A::Error> {
                PropertyTable::deserialize(MapAccessDeserializer::new(map)).map(Property::Table)
            }
        }

        from.deserialize_any(Forms)
    }
}

impl<'de> Deserialize<'de> for Step {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Forms;

        impl Visitor<'_> for Forms {
            type Value = Step;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of seconds, or \"auto\"")
            }

            fn visit_f64<E>(self, value: f64) -> Result<Step, E> {
                Ok(Step::Seconds(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Step, E> {
                Ok(Step::Seconds(value as f64))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Step, E> {
                match text {
                    "auto" => Ok(Step::Auto),
                    other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
                }
            }
        }

        from.deserialize_any(Forms)
    }
}
