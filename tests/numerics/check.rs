//! Compares the stored answer of the library's check shot with that of the reference.

use std::path::Path;

use gpusched::Error;
use gpusched::fd::check::{PML, TOLERANCE, question};
use gpusched::fd::model::Model;

use testmodels::norms::relative_l2;
use testmodels::reference::{Equation, Medium, Reference};

fn reference<'a>(model: &Model, medium: &'a Medium, dt: f32) -> Reference<'a> {
    let density_at = model.density_at;
    Reference { layer: PML, density_at, old_rules: false, ..Reference::new(Equation::Acoustic1, medium, dt) }
}

/// `UPDATE=1` writes the file again.
#[test]
fn the_known_answer_is_the_references() {
    let (model, dt, shot) = question().unwrap();
    let medium = Medium::from(&*model);
    let truth = reference(&model, &medium, dt).run(&shot).record;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/fd/check.f32");
    if std::env::var_os("UPDATE").is_some() {
        let bytes: Vec<u8> = truth.iter().flat_map(|value| value.to_le_bytes()).collect();
        std::fs::write(&path, bytes).unwrap();
    }
    let bytes = std::fs::read(&path).unwrap();
    let carried: Vec<f32> =
        bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
    // The answer is in double precision, rounded: differences between compilers are far below the
    // resolution of float32.
    assert!(carried.len() == truth.len() && relative_l2(&carried, &truth) < 1e-7);
    let silent = carried.chunks(shot.samples()).filter(|trace| trace.iter().all(|value| *value == 0.0));
    assert_eq!(silent.count(), 0, "every receiver hears something");
}

/// An error of a thousandth of a step is far larger than rounding.
#[test]
fn the_check_sees_small_mistakes() {
    let (model, dt, shot) = question().unwrap();
    let medium = Medium::from(&*model);
    let record = |dt: f32| reference(&model, &medium, dt).run(&shot).record;
    let off = relative_l2(&record(1.001 * dt), &record(dt));
    assert!(off > 10.0 * TOLERANCE, "{off:e}");
    let refused = Error::WrongResult { device: "cpu".into(), what: String::new() };
    assert!(refused.is_suspect() && !refused.is_final());
}
