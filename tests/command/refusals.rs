//! Refusals before a run, with status and message.

use std::fs;

use testkit::command::{Ended, SURVEY, Workspace, executable};
use testkit::npy;

/// The lines of the survey from its grid to the end of its model.
const MEDIUM: &str = "[grid]
n = [24, 8, 16]
spacing_m = 10.0
[model]
vp = { layers = [{ value = 1500.0 }, { top_m = 80.0, value = 2000.0 }] }
rho = \"gardner\"";

/// A change of the survey, and the required message.
type Case = (&'static str, &'static str, &'static [&'static str]);

#[rustfmt::skip]
const FILES: &[Case] = &[
    ("[grid]", "[gird]", &["line 2", "gird", "unknown", "did you mean `grid`?"]),
    ("record_every", "sample_every", &["line 11: key time.sample_every is unknown", "did you mean `record_every`?"]),
    ("frequency_hz", "peak_hz", &["line 13: key wavelet.peak_hz is unknown", "did you mean `frequency_hz`?"]),
    ("vp =", "velocity =", &["key model.velocity is unknown", "did you mean `vp`?"]),
    ("rho =", "density =", &["key model.density is unknown", "did you mean `rho`?"]),
    ("spacing_m = 10.0", "spacing_m = 10.0\nfree_surface = true", &["line 5: key grid.free_surface is unknown", "not supported: a free surface"]),
    ("frequency_hz = 20.0", "", &["wavelet.frequency_hz is missing", "such as frequency_hz = 20.0"]),
    ("nt = 60", "nt = \"many\"", &["line 10: time.nt is \"many\"; accepted: 1 to 10000000 steps\n"]),
    ("nt = 60", "nt = -2", &["line 10: time.nt is -2; accepted: 1 to 10000000 steps\n"]),
    ("record_every = 2", "record_every = 2.5", &["time.record_every is 2.5; accepted: 1 to 10000000 steps\n"]),
    ("every = 30", "every = true", &["snapshots.every is true; accepted: 1 to 10000000 steps\n"]),
    ("pictures = 1", "pictures = \"1\"", &["output.pictures is \"1\"; accepted: a whole number, 0 or more\n"]),
    ("pictures = 1", "[run]\nslots = \"2\"", &["run.slots is \"2\"; accepted: 1 to 64 shots at a time on a device\n"]),
    ("pictures = 1", "[run]\ndevices = []", &["line 24: run.devices is []; accepted: a text in quotes: all, none, or a list of cpu, cuda, ", ", such as devices = \"cpu,cuda:0\"\n"]),
    ("pictures = 1", "[run]\ndevices = [\"cuda:0\"]", &["line 24: run.devices is [\"cuda:0\"]; accepted: a text in quotes: all, none, ", "devices = \"cpu,cuda:0\"\n"]),
    ("pictures = 1", "[run]\ndevices = \"\"", &["line 24: run.devices is an empty list; accepted: all, none, or a list of cpu, cuda, "]),
    ("title = \"Test\"", "title = 5", &["line 1: title is 5; accepted: a text in quotes\n"]),
    ("nt = 60", "nt = 0", &["line 10: time.nt is 0", "1 to 10000000 steps"]),
    ("nt = 60", "nt = 60\nduration_s = 1.0", &["line 8: time is ambiguous", "either `nt` or `duration_s`"]),
    ("nt = 60", "duration_s = inf", &["time.duration_s is inf", "seconds that make 1 to 10000000 steps"]),
    ("[grid]\nn = [24, 8, 16]\nspacing_m = 10.0", "grid = 5", &["line 2: grid is 5; accepted: a table\n"]),
    ("n = [24, 8, 16]", "n = [24, 8]", &["line 3: grid.n", "three values"]),
    ("n = [24, 8, 16]", "n = [24, 8, 16, 4]", &["line 3: grid.n is [24, 8, 16, 4]; accepted: three values: [x, y, z]"]),
    ("n = [24, 8, 16]", "n = [24, -8, 16]", &["line 3: grid.n is -8; accepted: 1 to 100000 cells along x, y and z\n"]),
    ("n = [24, 8, 16]", "n = 5", &["line 3: grid.n is 5; accepted: three values: [x, y, z], each 1 to 100000 cells along x, y and z\n"]),
    ("n = [24, 8, 16]", "n = [24, 0, 16]", &["line 3: grid.n is [24, 0, 16]", "1 to 100000 cells"]),
    ("n = [24, 8, 16]", "n = [100000, 100000, 100000]", &["needs 14.21 PiB"]),
    ("spacing_m = 10.0", "spacing_m = 0.0", &["line 4: grid.spacing_m is 0.0", "metres"]),
    ("spacing_m = 10.0", "spacing_m = [10.0, 10.0]", &["line 4: grid.spacing_m is [10.0, 10.0]", "three: [dx, dy, dz]"]),
    ("spacing_m = 10.0", "spacing_m = [10.0, 10.0, 10.0, 10.0]", &["line 4: grid.spacing_m is [10.0, 10.0, 10.0, 10.0]", "three: [dx, dy, dz]"]),
    ("spacing_m = 10.0", "spacing_m =", &["line 4", "not TOML"]),
    ("nt = 60", "", &["line 8: time is incomplete", "either `nt` or `duration_s`"]),
    ("dt_s = 0.002", "dt_s = 0.003", &["line 9: time.dt_s is 0.003", "at most 0.0022442 s, the largest stable step"]),
    ("dt_s = 0.002", "dt_s = \"soon\"", &["line 9: time.dt_s is \"soon\"", "\"auto\""]),
    ("[wavelet]", "[accuracy]\nstencil = \"best\"\n[wavelet]", &["line 13: accuracy.stencil is \"best\"", "`optimised`"]),
    ("[time]\ndt_s = 0.002", "[accuracy]\nstencil = \"optimised\"\n[time]\ndt_s = 0.0022", &["time.dt_s is 0.0022", "at most 0.0021622 s"]),
    ("[wavelet]", "[accuracy]\ndensity_at = \"edges\"\n[wavelet]", &["line 13: accuracy.density_at is \"edges\"", "`half-points`"]),
    ("rho = \"gardner\"", "[accuracy]\ndensity_at = \"cells\"", &["line 8: accuracy.density_at is \"cells\"; accepted: \"half-points\" without model.rho\n"]),
    ("[wavelet]", "[accuracy]\nanisotropic_source = true\n[wavelet]", &["line 13: accuracy.anisotropic_source is true; accepted: false for acoustic1, which has no epsilon\n"]),
    ("[wavelet]", "[accuracy]\nabsorbing_layer = \"sponge\"\n[wavelet]", &["line 13: accuracy.absorbing_layer is sponge; accepted: pml for acoustic1"]),
    ("[wavelet]", "[accuracy]\nstorage = \"8-bit\"\n[wavelet]", &["line 13: accuracy.storage is \"8-bit\"", "`16-bit`"]),
    ("[time]\ndt_s = 0.002", "[accuracy]\nstorage = \"16-bit\"\n[time]\ndt_s = 0.002243", &["time.dt_s is 0.002243", "at most 0.0022419 s"]),
    ("2000.0 }] }\nrho = \"gardner\"", "20.0 }, { top_m = 110.0, value = 21.0 }] }\nany_values = true\n[accuracy]\nstorage = \"16-bit\"", &["accuracy.storage (rho vp² of the model in 16 bits) is off", "at most 1e-3; store it in float32"]),
    ("dt_s = 0.002", "dt_s = 1e-9", &["line 9: time.dt_s (dt) is 1e-9 s", "for a wavelet of 20 Hz"]),
    ("record_every = 2", "record_every = 50\n[accuracy]\nexact_time = true", &["line 11: time.record_every is 50", "with exact time"]),
    ("every = 30", "every = 20000000", &["snapshots.every (snapshot_every) is 20000000", "1 to 10000000 steps"]),
    ("[wavelet]", "[accuracy]\nexact_time = true\n[wavelet]", &["snapshots.every (snapshot_every) is 30", "exact time"]),
    ("[sources]", "[sources]\nkind = \"dipole\"", &["sources.kind", "dipole", "monopole", "force-z"]),
    ("record_every = 2", "record_every = 0", &["line 11: time.record_every is 0; accepted: 1 to 10000000 steps"]),
    ("frequency_hz = 20.0", "frequency_hz = 1e-30", &["wavelet.frequency_hz", "1e-6 to 1e12 Hz"]),
    ("frequency_hz = 20.0", "frequency_hz = \"20\"", &["wavelet.frequency_hz is \"20\"; accepted: 1e-6 to 1e12 Hz\n"]),
    ("frequency_hz = 20.0", "frequency_hz = -20.0", &["wavelet.frequency_hz is -20.0; accepted: 1e-6 to 1e12 Hz\n"]),
    ("frequency_hz = 20.0", "frequency_hz = 20.0\namplitude = 1e60", &["wavelet.amplitude is 1e60", "float32"]),
    ("frequency_hz = 20.0", "frequency_hz = 20.0\nshape = \"square\"", &["wavelet.shape is \"square\"", "`ricker`"]),
    ("frequency_hz = 20.0", "frequency_hz = 20.0\nshape = 'rickr'", &["did you mean `ricker`?"]),
    ("frequency_hz = 20.0", "frequency_hz = 20.0\nshape = 1", &["wavelet.shape is 1", "shape = \"ricker\""]),
    ("frequency_hz", "shape = \"long-ricker\"\nfrequency_hz", &["line 13: wavelet.shape is \"long-ricker\"; accepted: `ricker`, `gaussian-derivative`, ", "`cut-ricker-triple-integral`\n"]),
    ("frequency_hz", "shape = \"ricker_integral\"\nfrequency_hz", &["line 13: wavelet.shape is \"ricker_integral\"; accepted: `ricker`, `gaussian-derivative`, ", "`cut-ricker-triple-integral`\n"]),
    ("frequency_hz", "shape = \"Gausian\"\nfrequency_hz", &["line 13: wavelet.shape is \"Gausian\"; accepted: `ricker`, `gaussian-derivative`, ", "`cut-ricker-triple-integral`; did you mean `gaussian`?\n"]),
    ("frequency_hz", "shape = \"cut_ricker\"\nfrequency_hz", &["line 13: wavelet.shape is \"cut_ricker\"; accepted: `ricker`, `gaussian-derivative`, ", "`cut-ricker-triple-integral`; did you mean `cut-ricker`?\n"]),
    ("frequency_hz", "shape = \"cut-ricker-integal\"\nfrequency_hz", &["line 13: wavelet.shape is \"cut-ricker-integal\"; accepted: `ricker`, `gaussian-derivative`, ", "`cut-ricker-triple-integral`; did you mean `cut-ricker-integral`?\n"]),
    ("first_m = [60.0,", "first_m = [1000.0,", &["line 15: sources.first_m is [1000.0, 40.0, 10.0]", "x from 0 to 230 m"]),
    ("first_m = [60.0,", "first_m = [64.0,", &["sources.first_m", "nearest to 64 m is 60 m"]),
    ("step_m = [40.0, 10.0]", "step_m = [45.0, 10.0]", &["sources.step_m", "multiples of the spacing"]),
    ("step_m = [40.0, 10.0]", "step_m = [40.04, 10.0]", &["line 16: sources.step_m is [40.04, 10.0]", "multiples of the spacing", "10 m in x; 3 steps of 40.04 m end 0.12 m beside a cell\n"]),
    ("step_m = [40.0, 10.0]", "step_m = [45.0, 10.0]", &["sources.step_m is [45.0, 10.0]", "10 m in x; nearest to 45 m is 50 m\n"]),
    ("step_m = [40.0, 10.0]", "step_m = [40.0, 10.0, 10.0]", &["line 16: sources.step_m is [40.0, 10.0, 10.0]; accepted: two values: [x, y]"]),
    ("step_m = [40.0, 10.0]", "", &["sources.step_m is missing", "more than one shot"]),
    ("count = [4, 1]", "", &["line 16: sources.step_m is [40.0, 10.0]; accepted: no value: it belongs to `count`"]),
    ("count = [4, 1]", "count = [1, 1, 10]", &["line 17: sources.count is [1, 1, 10]; accepted: two values: [x, y]"]),
    ("count = [4, 1]", "count = [4, -1]", &["line 17: sources.count is -1; accepted: 1 to 1000000 shots in all\n"]),
    ("count = [4, 1]", "count = [6, 1]", &["line 17: sources.count is [6, 1]", "at most 5 in x"]),
    ("count = [4, 1]", "count = [4, 5]", &["line 17: sources.count is [4, 5]", "at most 4 in y"]),
    ("count = [4, 1]", "count = [4, 1]\npositions_m = [[0, 0, 0]]", &["sources", "either `first_m`"]),
    ("every = [2, 4]", "every = [2, 0]", &["line 19: receivers.every (the receivers' step in y) is 0; accepted: 1 to 100000 cells"]),
    ("every = [2, 4]", "every = [2, -1]", &["line 19: receivers.every is -1; accepted: 1 to 100000 cells\n"]),
    ("every = [2, 4]", "every = 2.5", &["line 19: receivers.every is 2.5; accepted: two values: [x, y], each 1 to 100000 cells\n"]),
    ("every = [2, 4]", "positions_m = 5", &["line 19: receivers.positions_m is 5; accepted: a list\n"]),
    ("every = [2, 4]", "every = [1000000000000000000, 1]", &["line 19: receivers.every (the receivers' step in x) is 1000000000000000000"]),
    ("every = [2, 4]", "every = [2, 4, \"junk\"]", &["receivers.every is [2, 4, \"junk\"]; accepted: two values: [x, y]"]),
    ("every = [2, 4]", "depth_m = 500.0", &["receivers.depth_m is 500.0; accepted: z from 0 to 150 m, inside the grid\n"]),
    ("every = [2, 4]", "positions_m = []", &["receivers.positions_m is []", "at least one"]),
    ("every = [2, 4]", "positions_m = [[0, 0, 0], [10, 10, 10, 50, 50, 10]]", &["line 19: receivers.positions_m is [10, 10, 10, 50, 50, 10]; accepted: three values: [x, y, z]"]),
    ("every = [2, 4]", "positions_m = [[0, 0, 0], [5, 0, 0]]", &["receivers.positions_m.1 is [5, 0, 0]", "nearest to 5 m"]),
    ("every = 30", "every = 0", &["snapshots.every (snapshot_every) is 0; accepted: 1 to 10000000 steps"]),
    ("pictures = 1", "clip_percentile = 120", &["output.clip_percentile is 120", "50 to 100"]),
    ("pictures = 1", "[run]\nslots = 0", &["run.slots is 0", "1 to 64"]),
    ("pictures = 1", "[run]\ndeadline_s = 0", &["run.deadline_s is 0", "0.001 to 1e9 seconds"]),
    ("pictures = 1", "[run]\nwrite_retry_s = -1", &["run.write_retry_s is -1", "0 to 1e9 seconds"]),
    ("pictures = 1", "[run]\ndeadline_s = \"1h\"", &["run.deadline_s is \"1h\"; accepted: 0.001 to 1e9 seconds for a shot\n"]),
    ("pictures = 1", "[run]\ndevices = \" \"", &["line 24: run.devices is an empty list; accepted: all, none, or a list of cpu, cuda"]),
    ("pictures = 1", "[run]\ndevices = \"abacus\"", &["line 24: run.devices (an item of the device selection) is 'abacus'", "a list of cpu, cuda"]),
    ("pictures = 1", "[mute]\nvelocity_m_s = 0", &["mute.velocity_m_s is 0", "positive"]),
    ("top_m = 80.0, value = 2000.0", "top_m = 80.0, value = 2.0e6", &["model.vp.layers.1.value is 2.0e6", "1 to 20000 m/s"]),
    ("top_m = 80.0, value = 2000.0", "top_m = 80.0, value = 2000.0, slope = [0.1, 0.2, \"x\"]", &["line 6: model.vp", "[0.1, 0.2, \"x\"]; accepted: two values: [x, y]"]),
    ("top_m = 80.0, value = 2000.0", "top_m = 80.0, value = 2000.0, gradient = -100", &["cell (0, 0, 10)", "1 to 20000 m/s"]),
    ("1500.0 }, { top_m = 80.0, value = 2000.0", "1.5 }, { top_m = 80.0, value = 2.0", &["line 6: model.vp is at most 2 m/s; accepted: a largest value of 100 m/s or more (2 looks like km/s)"]),
    ("rho = \"gardner\"", "rho = 2.2", &["line 7: model.rho is at most 2.2 kg/m³", "2.2 looks like g/cm³"]),
    ("rho = \"gardner\"", "epsilon = 0.1", &["line 7: model.epsilon is no property of acoustic1; accepted: vp, rho"]),
    ("rho = \"gardner\"", "epsilon = 20", &["line 7: model.epsilon is 20; accepted: -0.49 to 2 (0.2, not 20 %)"]),
    ("rho = \"gardner\"", "theta_rad = 45.0", &["line 7: model.theta_rad is 45.0; accepted: -6.283185307179586 to 6.283185307179586 radians"]),
    ("rho = \"gardner\"", "delta = \"short.bin\"", &["short.bin", "expected 12288 bytes", "line 7: model.delta)"]),
    ("[grid]", "equation = \"vti\"\n[grid]", &["model.epsilon is missing, and so is delta; accepted: a constant or a value for each cell of each, which vti needs\n"]),
    ("rho = \"gardner\"", "epsilon = 0.2\n[accuracy]", &["line 7: model.epsilon is no property of acoustic1; accepted: vp, rho\n"]),
    (MEDIUM, "equation = \"vti\"\ngrid = { n = [24, 8, 16], spacing_m = 10.0 }\n[model]\nvp = 1500.0\ndelta = 0.1", &["model.epsilon is missing; accepted: a constant or a value for each cell, which vti needs\n"]),
    (MEDIUM, "equation = \"acoustic2\"\ngrid = { n = [24, 8, 16], spacing_m = 10.0 }\n[model]\nvp = 1500.0\nepsilon = 0.2\ndelta = 0.1\ntheta_rad = 0.3", &["line 6: model.epsilon is no property of acoustic2, nor is delta, nor is theta_rad; accepted: vp\n"]),
    ("[grid]\nn = [24, 8, 16]\nspacing_m = 10.0\n[model]", "equation = \"vti\"\n[grid]\nn = [24, 8, 16]\nspacing_m = 10.0\n[model]\nepsilon = 0.1\ndelta = 0.2", &["line 7: model.epsilon is 0.1; accepted: delta, which is 0.2"]),
    ("[grid]", "equation = \"acoustic2\"\n[grid]", &["line 8: model.rho is no property of acoustic2; accepted: vp\n"]),
    ("[grid]", "equation = \"tti\"\n[grid]", &["line 8: model.rho is no property of tti; accepted: vp, epsilon, delta, theta_rad, phi_rad\n"]),
    (MEDIUM, "equation = \"vti\"\ngrid = { n = [24, 8, 16], spacing_m = 10.0 }\n[model]\nvp = 1500.0\nepsilon = 0.2\ndelta = 0.1\nphi_rad = 0.1\ntheta_rad = 0.3", &["line 9: model.theta_rad is no property of vti, nor is phi_rad; accepted: vp, epsilon, delta, rho\n"]),
    (MEDIUM, "equation = \"tti\"\ngrid = { n = [24, 8, 16], spacing_m = 10.0 }\n[model]\nvp = 1500.0\nepsilon = 0.1\ndelta = 0.2", &["line 6: model.epsilon is 0.1; accepted: delta, which is 0.2"]),
    (MEDIUM, "equation = \"tti\"\ngrid = { n = [24, 8, 16], spacing_m = 10.0 }\n[model]\nvp = 1500.0\ntheta_rad = 45.0", &["line 6: model.theta_rad is 45.0; accepted: -6.283185307179586 to 6.283185307179586 radians"]),
    (MEDIUM, "equation = \"tti\"\ngrid = { n = [24, 8, 16], spacing_m = 10.0 }\n[model]\nvp = 1500.0\nphi_rad = \"degrees.bin\"", &["line 6: model.phi_rad (cell (0, 0, 0) from degrees.bin) is 30; accepted: -6.2831855 to 6.2831855 radians; 90 degrees are 1.5708\n"]),
    (MEDIUM, "equation = \"vti\"\ngrid = { n = [24, 8, 8], spacing_m = 10.0 }\n[model]\nvp = 1500.0\nepsilon = 0.2\ndelta = 0.1", &["shot 2: the grid is 24 x 8 x 8 cells, all nearer than 15 cells to the source (10, 4, 1), so none keeps its epsilon and delta; accepted: a larger grid, or anisotropic_source"]),
    (MEDIUM, "equation = \"tti\"\ngrid = { n = [24, 8, 8], spacing_m = 10.0 }\n[model]\nvp = 1500.0\nepsilon = 0.2", &["shot 2: the grid is 24 x 8 x 8 cells, all nearer than 15 cells"]),
    ("[grid]", "equation = \"elastic\"\n[grid]", &["line 2: equation is \"elastic\"; accepted: \"acoustic1\""]),
    ("rho = \"gardner\"", "rho = true", &["model.rho is true", "a number, a file's path"]),
    ("rho = \"gardner\"", "rho = \"Gardner\"", &["read Gardner: No such file", "did you mean \"gardner\"?"]),
    ("n = [24, 8, 16]\nspacing_m = 10.0\n[model]\nvp = { layers = [{ value = 1500.0 }, { top_m = 80.0, value = 2000.0 }] }", "n = [8, 16, 24]\nspacing_m = 10.0\n[model]\nvp = \"turned.npy\"", &["line 6: model.vp (the shape", "accepted: (16, 8, 24)"]),
    ("rho = \"gardner\"", "rho = \"2000\"", &["read", "2000: No such file", "line 7: model.rho); numbers stand without quotes: rho = 2000.0\n"]),
    ("rho = \"gardner\"", "rho = \"2_000\"", &["line 7: model.rho); numbers stand without quotes: rho = 2000.0\n"]),
    ("rho = \"gardner\"", "rho = \".5\"", &["line 7: model.rho); numbers stand without quotes; accepted: 30 to 30000 kg/m3\n"]),
    ("rho = \"gardner\"", "epsilon = \".5\"", &["line 7: model.epsilon); numbers stand without quotes: epsilon = 0.5\n"]),
    ("rho = \"gardner\"", "rho = \"0.0\"", &["line 7: model.rho); numbers stand without quotes; accepted: 30 to 30000 kg/m3\n"]),
    ("rho = \"gardner\"", "rho = \"2.2\"", &["line 7: model.rho); numbers stand without quotes; accepted: 30 to 30000 kg/m3\n"]),
    ("rho = \"gardner\"", "epsilon = \"-5.0\"", &["line 7: model.epsilon); numbers stand without quotes; accepted: -0.49 to 2 (0.2, not 20 %)\n"]),
    ("rho = \"gardner\"", "rho = { file = 2000 }", &["line 7: model.rho.file is 2000; accepted: a path in quotes; a number that is the same in all cells stands without `file`\n"]),
    ("rho = \"gardner\"", "rho = { file = \"short.bin\", n = [1, -1, 3] }", &["line 7: model.rho.n is -1; accepted: 1 or more cells along each axis\n"]),
    ("rho = \"gardner\"", "rho = { file = \"short.bin\", every = [1, -1, 3] }", &["line 7: model.rho.every is -1; accepted: 1 or more cells along each axis\n"]),
    ("rho = \"gardner\"", "rho = { file = \"short.bin\", every = [1, 0, 3] }", &["line 7: model.rho.every is [1, 0, 3]; accepted: 1 or more cells along each axis\n"]),
    ("rho = \"gardner\"", "rho = \"nan\"", &["read nan: No such file", "line 7: model.rho)\n"]),
    ("rho = \"gardner\"", "rho = { file = \"2000\" }", &["line 7: model.rho); numbers stand without quotes: rho = 2000.0\n"]),
    ("rho = \"gardner\"", "rho = \"1000\"", &["expected 12288 bytes", "found 12 bytes (", "line 7: model.rho)\n"]),
    ("rho = \"gardner\"", "rho = \"\"", &["line 7: model.rho is \"\"; accepted: a path\n"]),
    ("rho = \"gardner\"", "rho = { file = \"\" }", &["line 7: model.rho.file is \"\"; accepted: a path\n"]),
    ("rho = \"gardner\"", "rho = \"none.bin\"", &["read", "none.bin: No such file", "line 7: model.rho)"]),
    ("rho = \"gardner\"", "rho = \"short.bin\"", &["short.bin", "expected 12288 bytes", "found 12 bytes", "line 7: model.rho)"]),
    ("rho = \"gardner\"", "rho = \"rho.segy\"", &["line 7: model.rho (the file) is", "rho.segy", "an NPY file (.npy) or raw little-endian float32"]),
    ("rho = \"gardner\"", "rho = \"turned.npy\"", &["the shape (ny, nx, nz) of", "is (24, 8, 16); accepted: (8, 24, 16)", "transpose the array"]),
    ("rho = \"gardner\"", "rho = \"section.npy\"", &["line 7: model.rho (the shape of section.npy) is [2, 3]", "extrude = true"]),
    ("rho = \"gardner\"", "rho = { file = \"section.npy\", extrude = true }", &["the shape (nz, nx) of", "section.npy) is (2, 3); accepted: (16, 24), the cells of grid.n"]),
    ("rho = \"gardner\"", "rho = { file = \"short.bin\", n = [1, 3, 1], first = [9, 0, 0] }", &["short.bin) is (3, 1, 1); accepted: at least (8, 33, 16), for model.rho.first"]),
    ("rho = \"gardner\"", "rho = { extrude = true }", &["model.rho", "either `file` or `layers`"]),
    ("rho = \"gardner\"", "rho = { layers = [{ value = 2000.0 }], n = [24, 8, 16] }", &["line 7: model.rho.n is [24, 8, 16]; accepted: no value: it belongs to `file`"]),
    ("rho = \"gardner\"", "rho = { layers = [{ value = 2000.0 }], first = [1, 0, 0] }", &["line 7: model.rho.first is [1, 0, 0]; accepted: no value: it belongs to `file`"]),
    ("rho = \"gardner\"", "rho = { layers = [{ value = 2000.0 }], every = [2, 2, 2] }", &["line 7: model.rho.every is [2, 2, 2]; accepted: no value: it belongs to `file`"]),
    ("rho = \"gardner\"", "rho = { layers = [{ value = 2000.0 }], extrude = true }", &["line 7: model.rho.extrude is true; accepted: no value: it belongs to `file`"]),
    ("rho = \"gardner\"", "rho = { file = \"short.npy\" }", &["short.npy", "not an NPY file"]),
    ("rho = \"gardner\"", "rho = \"nan.bin\"", &["cell (20, 3, 7) from", "nan.bin) is NaN", "0.1 to 30000 kg/m3"]),
    ("nt = 60", "nt = 60\nnt = 61", &["line 11: key nt is a duplicate", "each key once"]),
    ("pictures = 1", "folder = 5", &["output.folder is 5; accepted: a path in quotes\n"]),
    ("pictures = 1", "folder = \"\"", &["output.folder is \"\"; accepted: a path"]),
    ("pictures = 1", "folder = \"/proc\"", &["write to the output folder /proc: create", "; name another by output.folder"]),
    ("pictures = 1", "folder = \"short.bin\"", &["write to the output folder", "short.bin"]),
];

#[test]
fn bad_surveys_are_refused_with_key_value_and_range() {
    let folder = Workspace::new();
    fs::write(folder.at("short.bin"), [0; 12]).unwrap();
    fs::write(folder.at("short.npy"), [0; 12]).unwrap();
    fs::write(folder.at("1000"), [0; 12]).unwrap();
    let mut densities = [2000_f32; 24 * 8 * 16];
    densities[(3 * 24 + 20) * 16 + 7] = f32::NAN;
    fs::write(folder.at("nan.bin"), densities.map(f32::to_le_bytes).as_flattened()).unwrap();
    let degrees = [30_f32; 24 * 8 * 16].map(f32::to_le_bytes);
    fs::write(folder.at("degrees.bin"), degrees.as_flattened()).unwrap();
    fs::write(folder.at("turned.npy"), npy("(24, 8, 16)", [2000.0; 24 * 8 * 16].into_iter())).unwrap();
    fs::write(folder.at("section.npy"), npy("(2, 3)", [0.0; 6].into_iter())).unwrap();
    let mut wrong = Vec::new();
    for (from, to, words) in FILES {
        assert!(SURVEY.contains(from), "{from}");
        fs::write(folder.at("survey.toml"), SURVEY.replacen(from, to, 1)).unwrap();
        let ended = folder.gpusched(&["run", "survey.toml"]);
        let said = words.iter().all(|word| ended.err.contains(word));
        if ended.status != 2 || !said || ended.err.lines().count() != 1 {
            wrong.push(format!("{to:?}: status {}, {words:?} in {:?}", ended.status, ended.err));
        }
        if folder.at("out").exists() {
            wrong.push(format!("{to:?}: wrote the output folder"));
            fs::remove_dir_all(folder.at("out")).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), FILES.len(), wrong.join("\n"));
}

/// On the finest accepted grid a step is some 1e-12 s long, and zero is no step.
#[test]
fn largest_step_of_a_fine_grid_has_five_digits() {
    let survey = "[grid]\nn = [3, 3, 3]\nspacing_m = 1e-6\n[model]\nvp = 20000\n[time]\ndt_s = 1\nnt = 3\n\
                  [wavelet]\nfrequency_hz = 1e9\n[sources]\nfirst_m = [0, 0, 0]\n";
    let said = |survey: &str| {
        let ended = Workspace::with_survey(survey).gpusched(&["run", "survey.toml", "--dry-run"]);
        (ended.status, ended.err)
    };
    let (status, err) = said(survey);
    assert!(status == 2 && err.contains("time.dt_s is 1; accepted: at most 0.000000000022442 s"), "{err}");
    let (status, err) = said(&survey.replace("dt_s = 1", "dt_s = 0.000000000022442"));
    assert_eq!(status, 0, "{err}");
}

#[rustfmt::skip]
const LINES: &[(&[&str], &str)] = &[
    (&[], "Usage"),
    (&["fly"], "unrecognized subcommand"),
    (&["run"], "<SURVEY>"),
    (&["run", "none.toml"], "read none.toml"),
    (&["run", "survey.toml", "--fast"], "--fast"),
    (&["run", "survey.toml", "--devices", "cuda:99"], "cuda:99"),
    (&["run", "survey.toml", "--devices", "none"], "no device"),
    (&["run", "survey.toml", "--devices", ""], "--devices is an empty list; accepted: all, none, or a list of cpu, cuda"),
    (&["run", "survey.toml", "--devices", "gpu"], "an item of --devices is 'gpu'; accepted: all, none, or a list"),
    (&["run", "."], "read ."),
    (&["run", "/dev/zero"], "larger than any survey file"),
    (&["run", "latin.toml"], "latin.toml: byte 10 is 0xfc; accepted: UTF-8 text; save the file as UTF-8\n"),
    (&["run", "survey.toml", "--stop-after", "soon"], "2h30m"),
    (&["run", "survey.toml", "--stop-after", "-5s"], "2h30m"),
    (&["simulate", "nowhere.json", "--json"], "read nowhere.json: No such file"),
    (&["bench"], "Usage"),
    (&["bench", "fd", "--n", "10", "10"], "3 values required"),
    (&["bench", "fd", "--n", "10", "10", "-1"], "-1"),
    (&["bench", "fd", "--n", "1", "2", "3", "--n", "4", "5", "6"], "cannot be used multiple times"),
    (&["bench", "fd", "--pml", "0"], "--pml is 0; accepted: 8 to 1000 cells for acoustic1\n"),
    (&["bench", "fd", "--pml", "7", "--equation", "tti"], "--pml is 7; accepted: "),
    (&["bench", "fd", "--device", ""], "--device is an empty list; accepted: "),
    (&["bench", "fd", "--n", "10", "10", "0"], "nz is 0"),
    (&["bench", "fd", "--n", "9000", "9000", "9000"], "model that is measured needs 10.61 TiB"),
    (&["bench", "fd", "--nt", "0", "--n", "8", "8", "8"], "nt is 0"),
    (&["bench", "fd", "--threads", "0"], "0 is not in 1..=4096"),
    (&["bench", "fd", "--repeats", "0", "--n", "8", "8", "8"], "the number of repeats is 0"),
    (&["bench", "fd", "--equation", "heat"], "acoustic1"),
    (&["bench", "fd", "--device", "cuda:99", "--nt", "1"], "'cuda:99' matches none of the devices: cpu:0"),
    (&["bench", "fd", "--device", "tpu"], "'tpu'; accepted: all, none, or a list"),
];

#[test]
fn bad_command_lines_are_refused() {
    let folder = Workspace::with_survey(SURVEY);
    fs::write(folder.at("latin.toml"), b"title = \"M\xfcller\"").unwrap();
    let mut wrong = Vec::new();
    for (args, words) in LINES {
        let ended = folder.gpusched(args);
        if ended.status != 2 || !ended.err.contains(words) {
            wrong.push(format!("{args:?}: status {}, {words:?} in {:?}", ended.status, ended.err));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn refusal_of_a_benchmark_is_printed_once() {
    let ended = Workspace::new().gpusched(&["bench", "fd", "--n", "8", "8", "8", "--nt", "0"]);
    assert_eq!((ended.status, ended.err.lines().count()), (2, 1), "{ended:?}");
}

/// Readers of JSON objects get an object in addition to the text.
#[test]
fn refusal_is_also_a_json_object() {
    let folder = Workspace::with_survey(&SURVEY.replace("nt = 60", "nt = 0"));
    let ended = folder.gpusched(&["run", "survey.toml", "--json"]);
    assert!(ended.status == 2 && ended.err.contains("time.nt is 0"), "{ended:?}");
    let events = ended.events();
    let [event] = events.as_slice() else { panic!("{events:?}") };
    let error = event["error"].as_str().unwrap();
    assert!(event["event"] == "error" && error.contains("time.nt is 0"), "{event}");
    for (args, words) in [
        ("bench fd --json --n 8 8 8 --nt 0", "nt is 0"),
        ("bench fd --json --device cuda:99", "cuda:99"),
        ("bench fd --json --threads 0", "invalid value '0' for '--threads <THREADS>': 0 is not in 1..=4096"),
        ("run survey.toml --json --fast", "unexpected argument '--fast' found"),
        ("run --json --devices tpu survey.toml", "time.nt is 0"),
        ("simulate nowhere.json --json", "read nowhere.json: No such file"),
        ("status nowhere --json", "nowhere"),
        ("collect nowhere --json", "nowhere"),
    ] {
        let ended = folder.gpusched(&args.split(' ').collect::<Vec<_>>());
        let events = ended.events();
        let [event] = events.as_slice() else { panic!("{ended:?}") };
        let error = event["error"].as_str().unwrap();
        assert!(ended.status == 2 && error.contains(words) && ended.err.contains(error), "{ended:?}");
    }
}

/// The command compares the whole measurement with the free memory before it allocates any.
#[test]
fn benchmark_beyond_the_memory_is_refused_without_a_retry() {
    let mut shell = testkit::process::isolated("sh");
    shell.args(["-c", r#"ulimit -v 800000; exec "$0" bench fd --n 200 200 200"#]);
    let ended = Ended::from(shell.arg(executable()).env("GPUSCHED_LOG", "info").output().unwrap());
    let said = "gpusched: the measurement, a shot and a copy of memory, needs ";
    assert!(ended.status == 2 && ended.err.contains(said), "{ended:?}");
    assert!(ended.err.contains("(ulimit -v) leaves ") && !ended.err.contains("retried"), "{ended:?}");
}
