//! Compares the planner's schedules with those of other policies in the same simulated worlds.
//! Prints a table, and the worlds in which the planner loses to a rival; writes
//! target/schedules.json.
//!
//! ```text
//! cargo bench --bench schedules                  all worlds, 200 seeds each
//! cargo bench --bench schedules -- 20 20:1x4     20 seeds, worlds with this in their name
//! ```

mod rivals;

use std::fs;

use serde_json::json;
use testmodels::schedules::compare::{Case, POLICIES, Policy, Ratios, ratios, rival};
use testmodels::schedules::worlds::{Mishap, NODES, Shots};

/// Larger surveys scatter less, so fewer seeds are enough.
const LARGE: usize = 1000;

fn policies() -> Vec<Policy> {
    let [greedy, ours @ ..] = POLICIES;
    let rivals = [
        rival("old", 0, |world| rivals::old_package(world, false)),
        rival("old, order differs", 0, |world| rivals::old_package(world, true)),
        rival("blocks", 0, rivals::blocks),
        rival("round robin", 0, rivals::round_robin),
        greedy,
        rival("longest first", 2, rivals::longest_first),
        rival("blocks by speed", 3, rivals::blocks_by_speed),
        rival("oracle", 3, rivals::oracle),
    ];
    rivals.into_iter().chain(ours).collect()
}

fn main() {
    let policies = policies();
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).peekable();
    let seeds = arguments.peek().and_then(|argument| argument.parse().ok());
    if seeds.is_some() {
        arguments.next();
    }
    let word = arguments.next().unwrap_or_default();
    let mut rows = Vec::new();
    println!("Makespan over the bound, mean / 95th percentile\n");
    println!(
        "| node · shots · durations | {} |",
        policies.iter().map(|policy| policy.name).collect::<Vec<_>>().join(" | ")
    );
    println!("|---{}|", "|---".repeat(policies.len()));
    for case in cases().into_iter().filter(|case| case.name().contains(&word)) {
        let seeds = seeds.unwrap_or(200_u64);
        let seeds = if case.count == LARGE { (seeds / 10).max(1) } else { seeds };
        let row: Vec<Ratios> = policies.iter().map(|policy| ratios(&case, policy, seeds)).collect();
        let cells: Vec<String> = row.iter().map(cell).collect();
        println!("| {} | {} |", case.name(), cells.join(" | "));
        rows.push((case, seeds, row));
    }
    losses(&policies, &rows);
    let json: Vec<_> = rows.iter().map(|(case, seeds, row)| describe(&policies, case, *seeds, row)).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/target/schedules.json");
    let written = fs::write(path, format!("{:#}\n", json!(json)));
    println!("\n{path}{}", written.map_or_else(|why| format!(": {why}"), |()| String::new()));
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for node in &NODES {
        for count in [10, 40, 100] {
            for shots in Shots::ALL {
                cases.push(Case { node, count, shots, mishap: Mishap::None });
            }
        }
        cases.push(Case { node, count: LARGE, shots: Shots::Lognormal, mishap: Mishap::None });
        for mishap in Mishap::ALL {
            for count in [40, 100] {
                cases.push(Case { node, count, shots: Shots::Lognormal, mishap });
            }
        }
    }
    cases
}

fn cell(ratios: &Ratios) -> String {
    match ratios.mean.is_finite() {
        true => format!("{:.3} / {:.3}", ratios.mean, ratios.p95),
        false => "never ends".into(),
    }
}

/// Prints the worlds in which the planner is worse on average than a rival that knows no more than it does.
fn losses(policies: &[Policy], rows: &[(Case, u64, Vec<Ratios>)]) {
    println!("\nWhere ours loses to one that is told no more:");
    let mut none = true;
    for (case, _, row) in rows {
        for (ours, mine) in policies.iter().zip(row).filter(|(policy, _)| policy.ours) {
            for (rival, other) in policies.iter().zip(row) {
                if !rival.ours && rival.told <= ours.told && mine.mean > 1.0005 * other.mean {
                    let percent = 100.0 * (mine.mean / other.mean - 1.0);
                    println!("- {}: '{}' by {percent:.1} % to '{}'", case.name(), ours.name, rival.name);
                    none = false;
                }
            }
        }
    }
    if none {
        println!("- nowhere");
    }
}

fn describe(policies: &[Policy], case: &Case, seeds: u64, row: &[Ratios]) -> serde_json::Value {
    let policies: serde_json::Map<String, serde_json::Value> = policies
        .iter()
        .zip(row)
        .map(|(policy, ratios)| (policy.name.into(), json!({ "mean": ratios.mean, "p95": ratios.p95 })))
        .collect();
    json!({
        "node": case.node.name,
        "shots": case.count,
        "durations": case.shots.name(),
        "mishap": case.mishap.name().trim_start_matches(", "),
        "seeds": seeds,
        "ratios": policies,
    })
}
