//! Hostile input: whatever is read from a file, a variable or a caller is changed at random, and must be
//! read or refused in a sentence: no panic, no abort, no hang, no memory beyond what the input deserves.
//!
//! ```text
//! cargo test --test fuzz                              a few seconds for each target, always the same inputs
//! FUZZ_RUNS=1000000 FUZZ_SEED=7 cargo test --release --test fuzz survey -- --nocapture
//! FUZZ_FILE=path cargo test --test fuzz survey        one input, as it is
//! ```
//! Inputs begin as the files in `corpus/TARGET`; one whose answer has not been heard before is changed further.
//! What fails is left in the folder that the message names; once it is understood, it belongs into the corpus, which
//! is tried first, unchanged, every time.

// The command's own files: it is a program, and its parts are nobody's API.
#[allow(dead_code)]
#[path = "../../src/bin/gpusched/document.rs"]
mod document;
#[allow(dead_code)]
#[path = "../../src/bin/gpusched/job.rs"]
mod job;
#[allow(dead_code)]
#[path = "../../src/bin/gpusched/model.rs"]
mod model;
#[allow(dead_code)]
#[path = "../../src/bin/gpusched/positions.rs"]
mod positions;
#[allow(dead_code)]
#[path = "../../src/bin/gpusched/scenario.rs"]
mod scenario;
#[allow(dead_code)]
#[path = "../../src/bin/gpusched/survey.rs"]
mod survey;

#[allow(dead_code)]
#[path = "../../src/bin/gpusched/key.rs"]
mod key;
#[allow(dead_code)]
#[path = "../../src/bin/gpusched/names.rs"]
mod names;
#[allow(dead_code)]
#[path = "../../src/bin/gpusched/paused.rs"]
mod paused;
#[allow(dead_code)]
#[path = "../../src/bin/gpusched/resume.rs"]
mod resume;
#[allow(dead_code)]
#[path = "../../src/bin/gpusched/say.rs"]
mod say;
#[allow(dead_code)]
#[path = "../../src/bin/gpusched/side.rs"]
mod side;

mod harness;
mod left;
mod memory;
mod mutate;
mod places;
mod targets;
