//! What was made and what is left, as JSON: to `FAKECUDA_REPORT` at exit, or on request.

use super::{Driver, FORKED, lock};
use std::sync::atomic::Ordering;

pub extern "C" fn at_exit() {
    if FORKED.load(Ordering::Relaxed) {
        return;
    }
    if let Some(path) = std::env::var_os("FAKECUDA_REPORT")
        && let Err(why) = std::fs::write(&path, text(Driver::get()))
    {
        eprintln!("fakecuda: {}: {why}", path.display());
    }
}

pub fn text(driver: &Driver) -> String {
    let cards: Vec<String> = driver
        .cards
        .iter()
        .map(|card| {
            let [contexts, streams, events, modules, graphs] = driver.census(card.index);
            let state = lock(&card.state);
            let allocations = state.pieces.values().filter(|piece| !piece.module).count();
            let runs: Vec<String> =
                state.runs.iter().map(|(kernel, runs)| format!("{}:{runs}", quote(kernel))).collect();
            let quoted: Vec<String> = state.faults.iter().map(|text| quote(text)).collect();
            format!(
                "{{\"card\":{},\"name\":{},\"contexts_made\":{},\"contexts\":{contexts},\"retained\":{},\
                 \"allocations_made\":{},\"allocations\":{allocations},\"used_bytes\":{},\"peak_bytes\":{},\
                 \"streams\":{streams},\"events\":{events},\"modules\":{modules},\"graphs\":{graphs},\
                 \"module_loads\":{},\"launches\":{},\"graph_launches\":{},\"graph_nodes\":{},\"runs\":{{{}}},\"together\":{},\"instructions\":{},\"lost\":{},\"faults\":[{}]}}",
                card.index,
                quote(&card.spec.name),
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
                state.instructions,
                card.lost(),
                quoted.join(",")
            )
        })
        .collect();
    let pinned = lock(&driver.pinned);
    let (pieces, bytes) = (pinned.len(), pinned.values().map(|piece| piece.bytes).sum::<usize>());
    format!(
        "{{\"calls\":{},\"graphs\":{},\"pinned\":{pieces},\"pinned_bytes\":{bytes},\"cards\":[{}]}}\n",
        driver.calls.load(Ordering::Relaxed),
        driver.graphs(),
        cards.join(",")
    )
}

fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
