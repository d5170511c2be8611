//! Reads the survey file as text. Errors name the line, the key, its value and the accepted values.

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use gpusched::device::SELECTIONS;
use gpusched::{Error, Result, descriptor};
use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

/// Maximum bytes of a file. A list of a million positions has half as many.
const LARGEST: u64 = 64 << 20;

/// Reads a text of at most `largest` bytes.
pub fn read_text(path: &Path, largest: u64, too_large: &str) -> Result<String> {
    let mut bytes = Vec::new();
    let read = descriptor::open_read(path).and_then(|file| file.take(largest + 1).read_to_end(&mut bytes));
    if read.map_err(|why| Error::io("read", path, why))? as u64 > largest {
        return Err(Error::io("read", path, too_large));
    }
    // UTF-16 without a mark at its beginning is UTF-8 with zeros.
    let (offset, byte) = match String::from_utf8(bytes) {
        Ok(text) => match text.find('\0') {
            Some(offset) => (offset, 0),
            None => return Ok(text),
        },
        Err(why) => {
            let offset = why.utf8_error().valid_up_to();
            (offset, why.as_bytes()[offset])
        }
    };
    let what = format!("{}: byte {offset}", path.display());
    Err(Error::argument(what, format!("{byte:#04x}"), "UTF-8 text; save the file as UTF-8"))
}

pub struct Document {
    path: PathBuf,
    text: String,
}

impl Document {
    pub fn open(path: &Path) -> Result<Document> {
        let text = read_text(path, LARGEST, "larger than any survey file, 64 MiB")?;
        Ok(Document { path: path.to_owned(), text })
    }

    /// Resolves a path in the file, which is relative to the folder of the file.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        match self.path.parent() {
            Some(folder) => folder.join(path),
            None => path.to_owned(),
        }
    }

    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        toml::from_str(&self.text).map_err(|error| self.explain(&error))
    }

    /// Returns the error for a value that has the right type and is not accepted. `key` has the
    /// form `sources.positions_m.3`.
    pub fn refuse(&self, key: &str, accepted: impl Into<String>) -> Error {
        match self.find(key) {
            Some((span, is_whole)) => {
                let place = self.place(span.start, key);
                let value = if is_whole { self.text[span].trim() } else { "missing" };
                Error::argument(place, one_line(value), accepted)
            }
            None => Error::argument(format!("{}: {key}", self.path.display()), "missing", accepted),
        }
    }

    /// Returns the error for a table in which both or none of two sets of keys are set. Exactly one
    /// must be set.
    pub fn refuse_choice(&self, table: &str, are_both: bool, keys: [&str; 2]) -> Error {
        let start = self.find(table).map_or(0, |(span, _)| span.start);
        let value = if are_both { "ambiguous" } else { "incomplete" };
        let accepted = format!("either {} or {}", keys[0], keys[1]);
        Error::argument(self.place(start, table), value, accepted)
    }

    /// Adds the key and its place to an error of the library about its value.
    pub fn blame(&self, key: &str, error: Error) -> Error {
        let start = self.find(key).map_or(0, |(span, _)| span.start);
        match error {
            Error::Io { action, path, why } => {
                Error::Io { action, path, why: format!("{why} ({})", self.place(start, key)) }
            }
            Error::Argument { what, value, accepted } => {
                let is_named = key.rsplit('.').next().is_some_and(|name| what.starts_with(name));
                let what = if is_named { String::new() } else { format!(" ({what})") };
                Error::argument(format!("{}{what}", self.place(start, key)), value, accepted)
            }
            other => other,
        }
    }

    fn place(&self, offset: usize, key: &str) -> String {
        let line = self.text[..offset].matches('\n').count() + 1;
        format!("{}, line {line}: {key}", self.path.display())
    }

    /// Returns the place of a key's value, or of the deepest existing table of its path. True: of the
    /// value.
    fn find(&self, key: &str) -> Option<(Range<usize>, bool)> {
        let table = DeTable::parse(&self.text).ok()?;
        let mut span = table.span();
        let mut here = DeValue::Table(table.into_inner());
        for part in key.split('.') {
            let next = match &here {
                DeValue::Table(table) => table.get(part),
                DeValue::Array(array) => part.parse().ok().and_then(|at: usize| array.get(at)),
                _ => None,
            };
            match next {
                Some(value) => {
                    span = value.span();
                    here = value.get_ref().clone();
                }
                None => return Some((span, false)),
            }
        }
        Some((span, true))
    }

    /// Returns the key at this place of the text, or the key whose value contains it.
    fn key_at(&self, span: &Range<usize>) -> String {
        fn walk(table: &DeTable<'_>, span: &Range<usize>, path: &mut Vec<String>) {
            for (key, value) in table {
                let inside = |outer: Range<usize>| outer.start <= span.start && span.end <= outer.end;
                if inside(key.span()) || inside(value.span()) {
                    path.push(key.get_ref().to_string());
                    if let DeValue::Table(table) = value.get_ref() {
                        walk(table, span, path);
                    }
                    return;
                }
                // The span of a [table] is that of its header only.
                if let DeValue::Table(table) = value.get_ref() {
                    let depth = path.len();
                    path.push(key.get_ref().to_string());
                    walk(table, span, path);
                    if path.len() > depth + 1 {
                        return;
                    }
                    path.truncate(depth);
                }
            }
        }
        let mut path = Vec::new();
        if let Ok(table) = DeTable::parse(&self.text) {
            walk(table.get_ref(), span, &mut path);
        }
        path.join(".")
    }

    fn explain(&self, error: &toml::de::Error) -> Error {
        let span = error.span().unwrap_or(0..0);
        let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
        let key = self.key_at(&span);
        let text = one_line(self.text.get(span.clone()).unwrap_or_default());
        if message == "duplicate key" {
            let what = self.place(span.start, &format!("key {text}"));
            return Error::argument(what, "a duplicate", "each key once");
        }
        if DeTable::parse(&self.text).is_err() {
            let what = self.place(span.start, "the text");
            return Error::argument(what, format!("not TOML ({message})"), "TOML 1.0, `key = value` a line");
        }
        let (found, accepted) = message.split_once(", expected ").unwrap_or((&message, ""));
        let words = in_plain_words(accepted.trim_start_matches("one of "));
        let accepted = match range(&key) {
            Some(range) if words.ends_with(']') => format!("{words}, each {range}"),
            Some(range) => range.into(),
            None if key == "run.devices" => {
                format!("{words}: {SELECTIONS}, such as devices = \"cpu,cuda:0\"")
            }
            None => words,
        };
        if let Some(missing) = found.strip_prefix("missing field ") {
            let missing = missing.trim_matches('`');
            // A missing table has no place in the file.
            let what = match span.is_empty() {
                true => format!("{}: {missing}", self.path.display()),
                false => self.place(span.start, &format!("{key}.{missing}")),
            };
            return Error::argument(what, "missing", example(missing));
        }
        if found.starts_with("unknown field") {
            let unsupported = UNSUPPORTED.iter().find(|(keys, _)| keys.contains(&&*text));
            let accepted = match (unsupported, meant(&text, &accepted)) {
                (Some((_, why)), _) => format!("{accepted}; {why}"),
                (None, Some(meant)) => format!("{accepted}; did you mean `{meant}`?"),
                (None, None) => accepted,
            };
            return Error::argument(self.place(span.start, &format!("key {key}")), "unknown", accepted);
        }
        if accepted.is_empty() {
            // The message is a sentence of `survey.rs`, or of an enum.
            let accepted = match message.as_str() {
                "wanted string or table" => example(key.rsplit('.').next().unwrap_or_default()),
                message => in_plain_words(message),
            };
            return Error::argument(self.place(span.start, &key), text, accepted);
        }
        let accepted = match misspelt(text.trim_matches(['"', '\'']), &accepted) {
            Some(meant) if found.starts_with("unknown variant") => {
                format!("{accepted}; did you mean `{meant}`?")
            }
            _ => accepted,
        };
        Error::argument(self.place(span.start, &key), text, accepted)
    }
}

/// Keys of features that do not exist.
const UNSUPPORTED: &[(&[&str], &str)] = &[
    (
        &["free_surface", "boundary", "boundaries"],
        "not supported: a free surface, or another boundary than the absorbing layer on all six sides",
    ),
    (
        &["pml", "sponge", "absorbing"],
        "no such key; absorbing_layer = \"pml\" in [accuracy] sets the kind of the absorbing layer",
    ),
    (&["vs", "qp"], "not supported: elastic or attenuating media"),
];

/// Returns the text to write for a missing or misspelt key.
fn example(key: &str) -> String {
    let text = match key {
        "grid" => "[grid] with `n` and `spacing_m`, such as n = [120, 60, 80], spacing_m = 10.0",
        "n" => "the cells along x, y and z, such as n = [120, 60, 80]",
        "spacing_m" => "the spacing in metres, such as spacing_m = 10.0",
        "model" => "[model] with `vp` and, if it is not 1000 kg/m3 everywhere, `rho`, such as vp = 1500.0",
        "vp" => "the velocity in m/s: a number, a file or layers, such as vp = 1500.0 or vp = \"vp.npy\"",
        "time" => "[time] with `dt_s` and `nt` or `duration_s`, such as dt_s = \"auto\", duration_s = 1.0",
        "dt_s" => "the time step in seconds, or dt_s = \"auto\"",
        "wavelet" => "[wavelet] with `frequency_hz`, such as frequency_hz = 20.0",
        "frequency_hz" => "the peak frequency in hertz, such as frequency_hz = 20.0",
        "sources" => {
            "[sources] with `first_m` or `positions_m` in metres, such as first_m = [300.0, 300.0, 10.0]"
        }
        "shape" => "a name in quotes, such as shape = \"ricker\"",
        "stencil" => "stencil = \"taylor\" or stencil = \"optimised\"",
        "storage" => "storage = \"float32\" or storage = \"16-bit\"",
        "density_at" => "density_at = \"half-points\" or density_at = \"cells\"",
        "absorbing_layer" => "absorbing_layer = \"pml\" or absorbing_layer = \"sponge\"",
        "every" => "the time steps between snapshots, such as every = 100",
        "velocity_m_s" => "the velocity of the mute in m/s, such as velocity_m_s = 1500.0",
        "value" => "the value at the top of the layer, such as value = 1500.0",
        _ => "a value; `gpusched init` writes a survey file with all keys",
    };
    text.into()
}

/// Words that users may write for an accepted key.
const SYNONYMS: &[(&str, &str)] =
    &[("velocity", "vp"), ("density", "rho"), ("peak_hz", "frequency_hz"), ("sample_every", "record_every")];

/// Returns the accepted key that an unknown key stands for or resembles.
fn meant<'a>(unknown: &str, accepted: &'a str) -> Option<&'a str> {
    let names = || names(accepted);
    let synonym = SYNONYMS.iter().find(|(other, _)| *other == unknown).map(|(_, name)| *name);
    let resembles = |name: &&str| strsim::jaro(unknown, name) > 0.7;
    let closest = |a: &&str, b: &&str| strsim::jaro(unknown, a).total_cmp(&strsim::jaro(unknown, b));
    names().find(|name| synonym == Some(name)).or_else(|| names().filter(resembles).max_by(closest))
}

/// Returns the accepted value from which an unknown one differs in one of six letters at most. A
/// value that differs more may have another meaning.
fn misspelt<'a>(unknown: &str, accepted: &'a str) -> Option<&'a str> {
    let unknown = unknown.to_lowercase().replace('_', "-");
    let distance = |name: &&str| strsim::osa_distance(&unknown, name);
    names(accepted).min_by_key(distance).filter(|name| distance(name) <= (name.len() / 6).max(1))
}

/// Returns the names in a list like "`nt`, `dt_s`".
fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split('`').skip(1).step_by(2)
}

fn one_line(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((cut, _)) = line.char_indices().nth(LONGEST) {
        line.truncate(cut);
        line.push('…');
    }
    line
}

/// Accepted values of `grid.n`, `wavelet.frequency_hz`, `run.slots`, `run.deadline_s`, `run.write_retry_s`, and of `n`
/// and `every` of a model's file.
pub const CELLS: &str = "1 to 100000 cells along x, y and z";
pub const FREQUENCIES: &str = "1e-6 to 1e12 Hz";
pub const SLOTS: &str = "1 to 64 shots at a time on a device";
pub const DEADLINES: &str = "0.001 to 1e9 seconds for a shot";
pub const WRITE_RETRIES: &str = "0 to 1e9 seconds in which shots wait for the output folder";
pub const FILE_CELLS: &str = "1 or more cells along each axis";

/// Returns the accepted values of a key whose type accepts more.
fn range(key: &str) -> Option<&'static str> {
    let range = match key {
        "grid.n" => CELLS,
        "grid.spacing_m" => "0.000001 to 1000000 metres, one number or three: [dx, dy, dz]",
        "time.nt" | "time.record_every" | "snapshots.every" => "1 to 10000000 steps",
        "wavelet.frequency_hz" => FREQUENCIES,
        "sources.count" => "1 to 1000000 shots in all",
        "receivers.every" => "1 to 100000 cells",
        "output.clip_percentile" => "50 to 100",
        "run.slots" => SLOTS,
        "run.deadline_s" => DEADLINES,
        "run.write_retry_s" => WRITE_RETRIES,
        _ => {
            let name =
                key.strip_prefix("model.").and_then(|key| key.split_once('.')).map(|(_, name)| name)?;
            match name {
                "file" => "a path in quotes; a number that is the same in all cells stands without `file`",
                "n" | "every" => FILE_CELLS,
                _ => return None,
            }
        }
    };
    Some(range)
}

fn in_plain_words(accepted: &str) -> String {
    match accepted {
        "usize" | "u64" | "u32" => "a whole number, 0 or more".into(),
        "f64" | "f32" => "a number".into(),
        "a boolean" => "true or false".into(),
        "a string" => "a text in quotes".into(),
        "a sequence" => "a list".into(),
        "path string" => "a path in quotes".into(),
        "an array of length 3" => "three values: [x, y, z]".into(),
        "an array of length 2" => "two values: [x, y]".into(),
        table if table.starts_with("struct ") => "a table".into(),
        other => other.to_owned(),
    }
}
