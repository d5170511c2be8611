//! How the library behaves in a process that treats it badly: `ctests/c/manners/run` has the cases.

use std::process::Command;

#[test]
fn every_case_has_its_documented_answer() {
    // The library as this test has it, whatever was built last.
    let out = Command::new(testkit::root().join("ctests/c/manners/run"))
        .arg(testkit::built())
        .output()
        .expect("bash");
    let (said, errors) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{said}\n{errors}");
    assert!(said.contains("14 of 14"), "{said}");
    let told = std::fs::read_to_string(testkit::root().join("docs/embedding.md")).expect("docs/embedding.md");
    for row in said.lines().filter(|line| line.contains("| ok ")) {
        let [_, case, _, answer, _] = row.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("not a row: {row}");
        };
        assert!(
            told.contains(&format!("| `{case}` | {answer} |")),
            "docs/embedding.md lacks {case}: {answer}"
        );
    }
}
