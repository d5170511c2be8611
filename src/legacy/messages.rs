//! Rewrites errors with the argument names of an old function.

use std::path::Path;

use super::args::Args;
use super::function::Function;
use crate::error::Error;

/// Terms of `crate::fd`, and the arguments that have these values.
const ARGUMENTS: &[(&str, &str)] = &[
    ("the wavelet's number", "wtype"),
    ("the wavelet's peak frequency", "fm"),
    ("the medium of cell", "rho with vel of cell"),
    ("rho vp²", "rho vel²"),
    // An old call has no choice of the layer.
    (
        ", and with the absorbing layer \"pml\" no step is certainly stable then; use the default layer, a sponge",
        ", and no step is certainly stable then; smooth theta and psi, or compute a survey",
    ),
];

impl Function {
    /// Returns the error with the names of this function's arguments.
    pub fn in_its_terms(&self, args: &Args, error: Error) -> Error {
        match error {
            Error::Argument { what, value, accepted } => {
                Error::Argument { what: self.renamed(&what), value, accepted: self.renamed(&accepted) }
            }
            Error::Io { action, path, why } => match self.argument_of(args, &path) {
                Some(name) if path.as_os_str().is_empty() => {
                    Error::argument(name, "''", "the name of a file")
                }
                Some(name) => Error::io(action, &path, format_args!("{why} (argument {name})")),
                None => Error::Io { action, path, why },
            },
            Error::Unstable { what, value, why, suspect } => {
                Error::Unstable { what, value, why: self.renamed(&why), suspect }
            }
            other => other,
        }
    }

    fn renamed(&self, text: &str) -> String {
        let properties = self.models.iter().map(|(name, property)| (property.name(), *name));
        let all = ARGUMENTS.iter().copied().chain(properties);
        all.fold(text.to_owned(), |text, (term, argument)| text.replace(term, argument))
    }

    /// Returns the name of the argument with the path of this file.
    fn argument_of(&self, args: &Args, path: &Path) -> Option<&'static str> {
        if let Some((_, (name, _))) = args.models.iter().zip(self.models).find(|(model, _)| *model == path) {
            return Some(name);
        }
        let [path, shot, snap] =
            [path, &args.shot, &args.snap].map(|path| path.as_os_str().as_encoded_bytes());
        let is_snapshot = || path.strip_prefix(snap).is_some_and(|name| name.starts_with(b"ishot_"));
        if path == shot { Some("shot") } else { is_snapshot().then_some("snap") }
    }
}
