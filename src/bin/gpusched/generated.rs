//! Writes man pages and shell completions for packages.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::{Shell, generate_to};
use gpusched::{Error, Result};

use crate::args::Args;

/// Writes `gpusched*.1`, `gpusched.bash`, `_gpusched` and `gpusched.fish` to a folder.
pub fn write(folder: &Path) -> Result<bool> {
    let mut command = Args::command();
    let failed = |why| Error::io("write to", folder, why);
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut command, "gpusched", folder).map_err(failed)?;
    }
    clap_mangen::generate_to(command, folder).map_err(failed)?;
    Ok(true)
}
