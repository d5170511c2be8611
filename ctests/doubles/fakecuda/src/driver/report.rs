//! A JSON report of the created and the remaining objects.

use std::sync::atomic::Ordering;

use super::{Driver, lock};

pub fn text(driver: &Driver) -> String {
    let gpus: Vec<String> = driver
        .gpus
        .iter()
        .map(|gpu| {
            let [contexts, streams, events, modules, graphs] = driver.census(gpu.index);
            let state = lock(&gpu.state);
            let allocations = state.pieces.len();
            let runs: Vec<String> =
                state.runs.iter().map(|(kernel, runs)| format!("\"{kernel}\":{runs}")).collect();
            format!(
                "{{\"contexts_made\":{},\"contexts\":{contexts},\"retained\":{},\
                 \"allocations_made\":{},\"allocations\":{allocations},\"used_bytes\":{},\"peak_bytes\":{},\
                 \"streams\":{streams},\"events\":{events},\"modules\":{modules},\"graphs\":{graphs},\
                 \"module_loads\":{},\"launches\":{},\"graph_launches\":{},\"graph_nodes\":{},\
                 \"runs\":{{{}}},\"together\":{}}}",
                state.contexts_made,
                state.retained,
                state.allocations,
                state.used,
                state.peak,
                state.loads,
                state.launches,
                state.graph_launches,
                state.graph_nodes,
                runs.join(","),
                state.together,
            )
        })
        .collect();
    let pinned = lock(&driver.pinned);
    let (pieces, bytes) = (pinned.len(), pinned.values().map(|piece| piece.bytes).sum::<usize>());
    format!(
        "{{\"calls\":{},\"graphs\":{},\"pinned\":{pieces},\"pinned_bytes\":{bytes},\"gpus\":[{}]}}\n",
        driver.calls.load(Ordering::Relaxed),
        driver.graphs(),
        gpus.join(",")
    )
}
