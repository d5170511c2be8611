//! Options and subcommands of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Parser, Subcommand};
use gpusched::fd::equation::{Absorber, EQUATIONS, Equation};
use gpusched::fd::plan::Storage;

/// Runs seismic surveys on the GPUs and the CPU of this machine.
#[derive(Parser)]
#[command(version, arg_required_else_help = true, after_help = AFTER_ALL)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Lists the devices of this machine, and whether a run uses them.
    #[command(after_help = AFTER_DEVICES)]
    Devices {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Writes a survey file with all keys and comments, which runs unchanged. Does not overwrite a
    /// file.
    #[command(after_help = AFTER_INIT)]
    Init {
        /// File to create.
        #[arg(default_value = "survey.toml")]
        file: PathBuf,
    },
    /// Runs the survey that a file describes.
    #[command(after_help = AFTER_RUN)]
    Run(RunOptions),
    /// Prints which shots of an output folder are done, failed, stopped or missing. Reads no
    /// record.
    #[command(after_help = AFTER_STATUS)]
    Status {
        /// Output folder of one run, or of several runs with --shots.
        folder: PathBuf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Checks the files of all shots of an output folder, and merges the reports of several runs
    /// into survey.json.
    #[command(after_help = AFTER_STATUS)]
    Collect {
        /// Output folder of several runs with --shots.
        folder: PathBuf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Runs the scheduler on simulated devices, in virtual time.
    #[command(after_help = AFTER_SIMULATE)]
    Simulate {
        /// Scenario file in JSON.
        #[arg(value_name = "SCENARIO.json")]
        scenario: PathBuf,
        /// Print one line of JSON.
        #[arg(long)]
        json: bool,
        /// Write where and when each attempt ran, in virtual microseconds, for chrome://tracing or
        /// ui.perfetto.dev.
        #[arg(long, value_name = "FILE")]
        trace: Option<PathBuf>,
    },
    /// Writes man pages and shell completions to a folder.
    #[command(hide = true)]
    Generate { folder: PathBuf },
    /// Measures speed.
    Bench {
        #[command(subcommand)]
        what: Bench,
    },
}

#[derive(clap::Args)]
pub struct RunOptions {
    /// Survey file in TOML; `gpusched init` writes one with all keys.
    pub survey: PathBuf,
    /// Keep the complete shots in the output folder that have the same parameters and model,
    /// continue stopped ones, and compute the rest. Without it all shots are computed.
    #[arg(long, overrides_with = "resume")]
    pub resume: bool,
    /// Compute only these shots, such as 5,8-20. Other runs may compute others into the same
    /// folder at the same time, also on other nodes; `gpusched collect` merges their reports.
    #[arg(long, value_name = "LIST")]
    pub shots: Option<String>,
    /// Read the list of --shots from a file. Numbers are separated by commas, blanks or
    /// lines. -: read lists from standard input, one per line, and begin their shots as they
    /// arrive, until it is closed.
    #[arg(long, value_name = "FILE", conflicts_with = "shots")]
    pub shots_from: Option<PathBuf>,
    /// Compute the Nth of M parts of about the same number of shots, such as 3/10: for arrays
    /// of jobs.
    #[arg(long, value_name = "N/M", conflicts_with_all = ["shots", "shots_from"])]
    pub array_index: Option<String>,
    /// Stop after this time, such as 2h30m. Running shots save their state for --resume, as
    /// after SIGTERM.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    #[arg(value_parser = crate::stopping::duration, overrides_with = "stop_after")]
    pub stop_after: Option<Duration>,
    /// Devices to use: all, none, cpu, or a list such as cpu,cuda:0. Default: run.devices of
    /// the survey, else GPUSCHED_DEVICES, else all.
    #[arg(long, value_name = "LIST")]
    pub devices: Option<String>,
    /// Run a shot with a known result on each device first, and exclude the devices that fail
    /// it.
    #[arg(long)]
    pub check_devices: bool,
    /// Check the survey, the memory, the output folder and the file of --trace, print the
    /// numbers, and stop. With --devices none: without the memory.
    #[arg(long)]
    pub dry_run: bool,
    /// Print only warnings and errors, to standard error.
    #[arg(short, long, conflicts_with = "json")]
    pub quiet: bool,
    /// Print one JSON object for each event, one per line.
    #[arg(long)]
    pub json: bool,
    /// Write where and when each attempt ran, for chrome://tracing or ui.perfetto.dev.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Neither read nor update the cached speeds of the devices.
    #[arg(long)]
    pub no_rates_cache: bool,
    /// The run goes on in a new process, after so many in a row that computed no shot.
    #[arg(long, value_name = "N", hide = true, overrides_with = "restart")]
    pub restart: Option<usize>,
}

#[derive(Subcommand)]
pub enum Bench {
    /// Measures the finite-difference propagator, and a plain copy of memory for comparison.
    #[command(after_help = AFTER_BENCH)]
    Fd(BenchOptions),
}

#[derive(clap::Args)]
pub struct BenchOptions {
    /// Equation to solve.
    #[arg(long, value_parser = named(EQUATIONS, Equation::name), default_value = EQUATIONS[0].name())]
    pub equation: &'static dyn Equation,
    /// Cells along x, y and z, without the absorbing layer.
    #[arg(long, num_args = 3, action = ArgAction::Set, value_names = ["NX", "NY", "NZ"], default_values_t = [200, 200, 200])]
    pub n: Vec<usize>,
    /// Time steps.
    #[arg(long, default_value_t = 20)]
    pub nt: usize,
    /// Device to measure: cpu, or a GPU such as cuda:0.
    #[arg(long, default_value = "cpu")]
    pub device: String,
    /// Storage of rho and rho vp².
    #[arg(long, value_parser = named(Storage::ALL, Storage::name), default_value = "float32")]
    pub storage: Storage,
    /// Threads on the CPU [default: number of cores]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub threads: Option<u32>,
    /// Kind of the absorbing layer [default: sponge for acoustic2 and tti, else pml]
    #[arg(long, value_parser = named(Absorber::ALL, Absorber::name))]
    pub absorbing_layer: Option<Absorber>,
    /// Cells of the absorbing layer on each side [default: by equation, 20 for acoustic1]
    #[arg(long)]
    pub pml: Option<usize>,
    /// Repetitions, each a shot, a copy, and steps in fields that are nowhere at rest; the
    /// fastest of each counts, and all records must have the same bits.
    #[arg(long, default_value_t = 3)]
    pub repeats: usize,
    /// Print one line of JSON.
    #[arg(long)]
    pub json: bool,
}

/// Parses one of these values by its name.
fn named<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let find = move |wanted: String| all.into_iter().find(|one| name(*one) == wanted).ok_or("unknown name");
    PossibleValuesParser::new(all.map(name)).try_map(find)
}

const AFTER_ALL: &str = "\
First steps:
  gpusched init                       write survey.toml
  gpusched run survey.toml --dry-run  check it
  gpusched run survey.toml            run it

Environment:
  GPUSCHED_DEVICES    devices to use, such as cpu,cuda:0 [default: all]
  GPUSCHED_SLOTS      shots at a time on a device, 1 to 64 or auto [default: 1]
  GPUSCHED_LOG        LEVEL or LEVEL:FILE; off, error, warn, info, debug, trace [default: warn]
  GPUSCHED_LEASE_DIR  folder by which processes share GPUs; none: do not share [default: by user]

Exit status: 0 success; 1 something failed after the start; 2 refused before anything ran.";

const AFTER_DEVICES: &str = "\
Sizes are in binary units: 1 GiB is 1073741824 bytes. Notes name GPUs or drivers that are missing, and why.

Examples:
  gpusched devices
  GPUSCHED_DEVICES=cuda:1 gpusched devices --json

Exit status: 0 success; 1 output was lost; 2 GPUSCHED_DEVICES is not accepted.";

const AFTER_INIT: &str = "\
Examples:
  gpusched init
  gpusched init line1/survey.toml

Exit status: 0 the file is written; 2 it exists or cannot be created.";

const AFTER_RUN: &str = "\
Paths in the survey file are relative to its folder. The output folder, `out` by default, gets survey.json
(the state of each shot), shot_0001.bin (the record, float32), shot_0001.json (its axes and units), snapshots
and pictures. Units: m, s, Hz, m/s, kg/m3. Progress goes to standard output, warnings and errors to standard
error. A second SIGTERM or SIGINT ends the run at once if it comes a second or more after the first.

Examples:
  gpusched run survey.toml --dry-run
  gpusched run survey.toml --devices cuda:0,cuda:1 --stop-after 11h30m
  gpusched run survey.toml --resume --quiet
  gpusched run survey.toml --shots 5,8-20
  gpusched run survey.toml --resume --array-index 3/10

Files: $XDG_CACHE_HOME/gpusched/rates, else ~/.cache/gpusched/rates, caches the speeds of the devices.

Exit status:
  0  every shot is written, and the trace if requested
  1  a shot failed, the run was stopped, every device failed its check, or output was lost; --resume continues
  2  the survey or an option was refused; nothing ran";

const AFTER_STATUS: &str = "\
A shot is done if its description is there and belongs to the survey; `collect` also compares the checksums of its
files. The last line lists the shots that are not done, as --shots accepts them.

Examples:
  gpusched status out
  gpusched collect out --json

Exit status: 0 all shots are done; 1 some are not; 2 the folder has no results of one survey, or cannot be written.";

const AFTER_SIMULATE: &str = "\
The scenario is an object with `devices` and `tasks`. An error for an unknown key lists the accepted ones, and
the page on simulated devices explains them. A task takes work / speed seconds.

Example scenario:
  { \"devices\": [{ \"speed\": 2 }, { \"speed\": 1 }],
    \"tasks\": [{ \"work\": 10 }, { \"work\": 20 }, { \"work\": 30 }] }

Exit status: 0 every task finished; 1 a task did not; 2 the scenario was refused.";

const AFTER_BENCH: &str = "\
Prints the seconds, millions of cells per second with and without the absorbing layer, on a CPU the
rate over that in fields of zeros, bytes per cell, and GB/s of the copy.

Examples:
  gpusched bench fd --n 300 300 300 --nt 100 --device cuda:0

Exit status: 0 success; 2 an option was refused, the shot failed, or its record differed between repetitions.";
