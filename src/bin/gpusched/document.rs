//! The survey file as text: what is read from it, and errors that name the line, the
//! key, the value that stands there and what would have been accepted.

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use gpusched::{Error, Result, descriptor};
use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

/// Bytes. A list of a million positions has half as many.
const LARGEST: u64 = 64 << 20;

pub struct Document {
    path: PathBuf,
    text: String,
}

/// What is found on the way to a key.
struct Found {
    span: Range<usize>,
    value: Option<Range<usize>>,
    is_table: bool,
}

impl Document {
    pub fn open(path: &Path) -> Result<Document> {
        let mut text = String::new();
        let read =
            descriptor::open_read(path).and_then(|file| file.take(LARGEST + 1).read_to_string(&mut text));
        if read.map_err(|why| Error::io("read", path, why))? as u64 > LARGEST {
            return Err(Error::io("read", path, "larger than any survey file, 64 MiB"));
        }
        Ok(Document { path: path.to_owned(), text })
    }

    /// A path of the file, which is relative to the folder that the file is in.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        match self.path.parent() {
            Some(folder) => folder.join(path),
            None => path.to_owned(),
        }
    }

    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        toml::from_str(&self.text).map_err(|error| self.explain(&error))
    }

    /// The error for a value that is of the right type and still not accepted. `key` is
    /// written as in `sources.positions_m.3`.
    pub fn refuse(&self, key: &str, accepted: impl Into<String>) -> Error {
        match self.find(key) {
            // What is wrong with a table is which of its keys are there.
            Some(Found { span, is_table: true, .. }) => {
                Error::argument(self.place(span.start, key), "given as neither or both", accepted)
            }
            Some(Found { span, value, .. }) => {
                let value = value.map_or("missing", |value| self.text[value].trim());
                Error::argument(self.place(span.start, key), one_line(value), accepted)
            }
            None => Error::argument(format!("{}: {key}", self.path.display()), "missing", accepted),
        }
    }

    /// The same for a value that the library refused: its own sentence behind the place.
    pub fn blame(&self, key: &str, error: Error) -> Error {
        match error {
            Error::Argument { what, value, accepted } => {
                let start = self.find(key).map_or(0, |found| found.span.start);
                let is_named = key.rsplit('.').next() == Some(&what);
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

    fn find(&self, key: &str) -> Option<Found> {
        let table = DeTable::parse(&self.text).ok()?;
        let mut found = Found { span: table.span(), value: Some(table.span()), is_table: true };
        let mut here = DeValue::Table(table.into_inner());
        for part in key.split('.') {
            let next = match &here {
                DeValue::Table(table) => table.get(part),
                DeValue::Array(array) => part.parse().ok().and_then(|at: usize| array.get(at)),
                _ => None,
            };
            match next {
                Some(value) => {
                    let is_table = matches!(value.get_ref(), DeValue::Table(_));
                    found = Found { span: value.span(), value: Some(value.span()), is_table };
                    here = value.get_ref().clone();
                }
                None => return Some(Found { value: None, is_table: false, ..found }),
            }
        }
        Some(found)
    }

    /// The key whose value holds this place in the text, or that stands there itself.
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
                // A [table]'s span is that of its header only.
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
        if DeTable::parse(&self.text).is_err() {
            let what = self.place(span.start, "the text");
            return Error::argument(what, format!("not TOML ({message})"), "TOML 1.0, `key = value` a line");
        }
        let (found, accepted) = message.split_once(", expected ").unwrap_or((&message, ""));
        let accepted = in_plain_words(accepted.trim_start_matches("one of "));
        if let Some(missing) = found.strip_prefix("missing field ") {
            let missing = missing.trim_matches('`');
            // What the whole file lacks has no place in it.
            let what = match span.is_empty() {
                true => format!("{}: {missing}", self.path.display()),
                false => self.place(span.start, &format!("{key}.{missing}")),
            };
            return Error::argument(what, "missing", "a value; docs/survey.md tells which");
        }
        if found.starts_with("unknown field") {
            let accepted = match meant(&text, &accepted) {
                Some(meant) => format!("{accepted}; did you mean `{meant}`?"),
                None => accepted,
            };
            return Error::argument(self.place(span.start, &format!("key {key}")), "unknown", accepted);
        }
        if accepted.is_empty() {
            // A sentence of our own, from a value that has several forms.
            return Error::argument(self.place(span.start, &key), text, in_plain_words(&message));
        }
        Error::argument(self.place(span.start, &key), text, accepted)
    }
}

/// Keys by which users may call an accepted one.
const SYNONYMS: &[(&str, &str)] =
    &[("velocity", "vp"), ("density", "rho"), ("peak_hz", "frequency_hz"), ("sample_every", "record_every")];

/// Returns the accepted key, one of a list like "`nt`, `dt_s`", that an unknown key stands for or resembles.
fn meant<'a>(unknown: &str, accepted: &'a str) -> Option<&'a str> {
    let names = || accepted.split('`').skip(1).step_by(2);
    let synonym = SYNONYMS.iter().find(|(other, _)| *other == unknown).map(|(_, name)| *name);
    let resembles = |name: &&str| strsim::jaro(unknown, name) > 0.7;
    let closest = |a: &&str, b: &&str| strsim::jaro(unknown, a).total_cmp(&strsim::jaro(unknown, b));
    names().find(|name| synonym == Some(name)).or_else(|| names().filter(resembles).max_by(closest))
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

fn in_plain_words(accepted: &str) -> String {
    match accepted {
        "usize" | "u64" | "u32" => "a whole number, 0 or more".into(),
        "f64" | "f32" => "a number".into(),
        "a boolean" => "true or false".into(),
        // What an enum asks for that stands for a word.
        "wanted string or table" => "one of the words in docs/survey.md, in quotes".into(),
        "an array of length 3" => "three values: [x, y, z]".into(),
        "an array of length 2" => "two values: [x, y]".into(),
        other => other.to_owned(),
    }
}
