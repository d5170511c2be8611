//! The numbers that docs/scheduling.md promises. `cargo bench --bench schedules` prints the whole
//! table.

use testmodels::schedules::compare::{Case, POLICIES, Ratios, ratios as ratios_of};
use testmodels::schedules::worlds::{Mishap, NODES, Node, Shots};

const SEEDS: u64 = 200;

fn node(name: &str) -> &'static Node {
    NODES.iter().find(|node| node.name == name).expect("one of the nodes")
}

fn ratios(node: &'static Node, count: usize, shots: Shots, mishap: Mishap, name: &str) -> (String, Ratios) {
    let case = Case { node, count, shots, mishap };
    let policy = POLICIES.iter().find(|policy| policy.name == name).expect("one of the policies");
    let ratios = ratios_of(&case, policy, SEEDS);
    (format!("{}, {name}: {ratios:?}", case.name()), ratios)
}

#[test]
fn a_hundred_shots_with_hints_come_near_the_bound() {
    for node in &NODES {
        let (text, ratios) = ratios(node, 100, Shots::Lognormal, Mishap::None, "ours");
        assert!(ratios.mean <= 1.02 && ratios.p95 <= 1.04, "{text}");
        assert!(ratios.mean >= 1.0, "a bound that is beaten is none: {text}");
    }
}

#[test]
fn few_shots_with_hints_go_to_the_right_gpus() {
    let (text, ratios_40) = ratios(node("2.2:2.2:1:1"), 40, Shots::Lognormal, Mishap::None, "ours");
    assert!(ratios_40.mean <= 1.03, "{text}");
    let (text, ratios_10) = ratios(node("20:1x4"), 10, Shots::Lognormal, Mishap::None, "ours");
    assert!(ratios_10.mean <= 1.25, "{text}");
}

#[test]
fn schedule_without_hints_is_not_worse_than_greedy() {
    for node in &NODES {
        for count in [10, 40, 100] {
            for shots in Shots::ALL {
                let (_, greedy) = ratios(node, count, shots, Mishap::None, "greedy");
                for told in ["ours, no hints", "ours, uninformed"] {
                    let (text, ours) = ratios(node, count, shots, Mishap::None, told);
                    assert!(ours.mean <= 1.01 * greedy.mean, "{text}; greedy {greedy:?}");
                }
            }
        }
    }
    let (text, ratios) = ratios(node("20:1x4"), 100, Shots::Lognormal, Mishap::None, "ours, no hints");
    assert!(ratios.mean <= 1.08, "{text}");
}

#[test]
fn a_gpu_that_is_lost_half_way_costs_little_more_than_its_work() {
    for node in &NODES {
        let (text, ratios) = ratios(node, 100, Shots::Lognormal, Mishap::Lost, "ours");
        assert!(ratios.mean <= 1.03, "{text}");
    }
}

#[test]
fn shot_thirty_times_slower_than_stated_does_not_delay_the_rest() {
    for node in &NODES {
        for mishap in [Mishap::Slow, Mishap::Stumble] {
            let (text, ratios) = ratios(node, 40, Shots::Lognormal, mishap, "ours");
            assert!(ratios.mean <= 1.6, "{text}");
        }
    }
}
