//! The `gpusched` command. It uses only the public interface of the library.
//!
//! Exit status: 0 for success, 1 if something failed after the start, 2 if the call was refused
//! before the start.
//!
//! A file imports from its own row and from the rows above it:
//!
//! | file | contents |
//! |---|---|
//! | `say`, `digits`, `names`, `process`, `stopping`, `plot` | output, numbers, names, this process, signals, images |
//! | `document`, `survey`, `key`, `checkpoint` | text of a survey, its keys; key and state of a shot |
//! | `speed`, `summary`, `progress` | measurements and lines that are printed |
//! | `args`, `restart`, `device_check`, `devices`, `init`, `bench`, `scenario` | command line and small commands |
//! | `part`, `positions`, `doubts`, `incoming`, `generated`, `model`, `simulate` | parts of a survey |
//! | `job` | a survey, read and checked |
//! | `checks`, `folder`, `reports`, `side` | before the run; the output folder; reports in it; the description of a shot |
//! | `picture`, `resume` | pictures; results of earlier runs |
//! | `output`, `collect` | files of a shot; state of a folder |
//! | `manifest`, `waiting` | `survey.json`; shots that wait for the folder |
//! | `shots` | runs the shots |
//! | `run` | `gpusched run` |

mod args;
mod bench;
mod checkpoint;
mod checks;
mod collect;
mod device_check;
mod devices;
mod digits;
mod document;
mod doubts;
mod folder;
#[cfg(test)]
mod fuzz;
mod generated;
mod incoming;
mod init;
mod job;
mod key;
mod manifest;
mod model;
mod names;
mod output;
mod part;
mod picture;
mod plot;
mod positions;
mod process;
mod progress;
mod reports;
mod restart;
mod resume;
mod run;
mod say;
mod scenario;
mod shots;
mod side;
mod simulate;
mod speed;
mod stopping;
mod summary;
mod survey;
mod waiting;

use std::process::ExitCode;
use std::thread::{Builder, JoinHandle};

use args::{Args, Bench, Command};
use clap::Parser;
use gpusched::Result;
use restart::End;

/// Stack size of the command in bytes, independent of the shell's limit.
const STACK: usize = 8 << 20;

fn main() -> ExitCode {
    gpusched::backend::cpu::save_address_space();
    match Builder::new().stack_size(STACK).spawn(run_command).map(JoinHandle::join) {
        Ok(Ok(status)) => status,
        // The thread has panicked and has printed a message.
        Ok(Err(_)) => ExitCode::from(101),
        Err(_) => run_command(),
    }
}

fn run_command() -> ExitCode {
    gpusched::ffi::logging::start_or("warn");
    stopping::take_limits_for_errors();
    // Before the arguments are parsed, so that refusals of arguments are objects, too.
    let as_json =
        std::env::args_os().take_while(|argument| argument != "--").any(|argument| argument == "--json");
    let outcome = match Args::try_parse() {
        Ok(args) => command(args.command),
        Err(refusal) if refusal.use_stderr() => {
            if as_json {
                let text = refusal.to_string();
                let why = text.lines().next().unwrap_or_default();
                say::error_object(why.strip_prefix("error: ").unwrap_or(why));
            }
            refusal.exit()
        }
        Err(text) => {
            say::help(&text);
            Ok(true)
        }
    };
    let (status, why) = match outcome {
        Ok(all) => {
            let lost = say::lost().map(|why| format!("standard output could not be written: {why}"));
            (u8::from(!all || lost.is_some()), lost)
        }
        Err(error) => {
            let why = error.to_string();
            if as_json {
                say::error_object(&why);
            }
            (2, Some(why))
        }
    };
    if let Some(why) = why {
        say::alert(&format!("gpusched: {why}"));
    }
    ExitCode::from(status)
}

/// Runs the command. Returns false if something failed after the start.
fn command(command: Command) -> Result<bool> {
    match command {
        Command::Devices { json } => devices::list(json),
        Command::Run(options) => {
            if options.quiet {
                say::be_quiet();
            }
            if options.json {
                say::print_events();
            }
            let why = match run::run(&options) {
                Ok(End::Whole) => return Ok(true),
                Ok(End::Incomplete) => return Ok(false),
                Ok(End::Restart(in_vain, stop)) => restart::exec(in_vain, &stop),
                // An earlier process of this run has computed shots.
                Err(error) if options.restart.is_some() => error.to_string(),
                Err(error) => return Err(error),
            };
            if options.json {
                say::error_object(&why);
            }
            say::alert(&format!("gpusched: {why}"));
            Ok(false)
        }
        Command::Init { file } => init::write(&file),
        Command::Generate { folder } => generated::write(&folder),
        Command::Status { folder, json } => collect::status(&folder).map(|merged| merged.report(json)),
        Command::Collect { folder, json } => collect::collect(&folder).map(|merged| merged.report(json)),
        Command::Simulate { scenario, json, trace } => simulate::run(&scenario, json, trace.as_deref()),
        Command::Bench { what: Bench::Fd(options) } => bench::fd(&options),
    }
}
