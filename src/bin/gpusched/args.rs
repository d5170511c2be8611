//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand, ValueEnum};
use gpusched::fd::bench::Shapes;
use gpusched::fd::plan::{Form, Options, SHAPES, Storage};

/// Runs seismic surveys on whatever devices this machine has.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Lists the devices that are there.
    Devices {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Runs the survey that a file describes. Status 0 only if every shot is written.
    Run {
        /// The survey file; docs/survey.md tells its keys.
        survey: PathBuf,
        /// Keep the shots that are in the output folder, whole and of the same parameters and model; run the rest.
        #[arg(long)]
        resume: bool,
        /// Stop after this time, such as 2h30m: shots that run leave their state for --resume, as after SIGTERM.
        #[arg(long, value_name = "TIME", value_parser = crate::stopping::duration)]
        stop_after: Option<Duration>,
        /// Devices to use: all, none, or a list such as cpu,cuda:0.
        #[arg(long, value_name = "LIST")]
        devices: Option<String>,
        /// Run a shot with a known answer on each device first, and leave out those that can't compute it.
        #[arg(long)]
        check_devices: bool,
        /// Check everything, say what would run, and stop.
        #[arg(long)]
        dry_run: bool,
        /// Print one JSON object a line for every event.
        #[arg(long)]
        json: bool,
        /// Write what ran where and when, for chrome://tracing or ui.perfetto.dev.
        #[arg(long, value_name = "FILE")]
        trace: Option<PathBuf>,
        /// Neither use nor keep what is known of the devices' speeds from earlier runs.
        #[arg(long)]
        no_rates_cache: bool,
    },
    /// Runs the scheduler on simulated devices, in virtual time. Status 0 only if every task has finished.
    Simulate {
        /// The scenario, a JSON file; docs/simulate.md tells its keys.
        #[arg(value_name = "SCENARIO.json")]
        scenario: PathBuf,
        /// Print one line of JSON.
        #[arg(long)]
        json: bool,
        /// Write what ran where and when, in virtual time, for chrome://tracing or ui.perfetto.dev.
        #[arg(long, value_name = "FILE")]
        trace: Option<PathBuf>,
    },
    /// Writes man pages and shell completions to a folder.
    #[command(hide = true)]
    Generate { folder: PathBuf },
    /// Measures how fast something is.
    Bench {
        #[command(subcommand)]
        what: Bench,
    },
}

#[derive(Subcommand)]
pub enum Bench {
    /// The finite-difference propagator, beside a plain copy of memory.
    Fd {
        #[arg(long, value_enum, default_value = "acoustic1")]
        equation: Equation,
        /// Cells along x, y and z, the absorbing layer not included.
        #[arg(long, num_args = 3, value_names = ["NX", "NY", "NZ"], default_values_t = [200, 200, 200])]
        n: Vec<usize>,
        /// Time steps.
        #[arg(long, default_value_t = 20)]
        nt: usize,
        /// cpu, or a GPU such as cuda:0.
        #[arg(long, default_value = "cpu")]
        device: String,
        /// How a step is computed: all velocities from the pressure, then the pressure from them; or the pressure
        /// alone, the velocities eliminated where nothing is damped.
        #[arg(long, value_parser = form(), default_value = "one-pass")]
        form: Form,
        /// How 1/rho and rho vp² are kept.
        #[arg(long, value_parser = storage(), default_value = "float32")]
        storage: Storage,
        /// Shape of a block on a GPU, in one pass with float32, as warps x rows of each: auto takes the one that shots find
        /// best, each measures all that the GPU runs in turns. 4x2_async, whose copies run ahead, needs a GPU of compute
        /// capability 8.0 or higher.
        #[arg(long, value_parser = shapes(), default_value = "auto")]
        shape: Shapes,
        /// Threads on the CPU; without it as many as it has cores.
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4096))]
        threads: Option<u32>,
        /// Cells of the absorbing layer on each side.
        #[arg(long, default_value_t = Options::default().pml)]
        pml: usize,
        /// Shots of which the fastest counts, each after a copy.
        #[arg(long, default_value_t = 3)]
        repeats: usize,
        /// Print one line of JSON.
        #[arg(long)]
        json: bool,
    },
}

fn form() -> impl TypedValueParser<Value = Form> {
    let named = |name: String| Form::ALL.into_iter().find(|form| form.name() == name).ok_or("no such form");
    PossibleValuesParser::new(Form::ALL.map(Form::name)).try_map(named)
}

fn storage() -> impl TypedValueParser<Value = Storage> {
    let named = |name: String| {
        Storage::ALL.into_iter().find(|storage| storage.name() == name).ok_or("no such storage")
    };
    PossibleValuesParser::new(Storage::ALL.map(Storage::name)).try_map(named)
}

fn shapes() -> impl TypedValueParser<Value = Shapes> {
    let all = || {
        [("auto", Shapes::Auto), ("each", Shapes::Each)]
            .into_iter()
            .chain(SHAPES.map(|one| (one.name(), Shapes::One(one))))
    };
    let named = move |name: String| {
        all().find(|(known, _)| *known == name).map(|(_, shapes)| shapes).ok_or("no such shape")
    };
    PossibleValuesParser::new(all().map(|(name, _)| name)).try_map(named)
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Equation {
    /// The acoustic equation of first order in time.
    Acoustic1,
}

impl Equation {
    pub fn name(self) -> &'static str {
        match self {
            Equation::Acoustic1 => "acoustic1",
        }
    }
}
