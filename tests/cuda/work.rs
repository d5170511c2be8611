//! Queues at work, and what they leave.

use crate::cards::*;

pub fn the_used_card_alone_has_a_context() {
    let scheduler = scheduler("cuda:1", 2).unwrap();
    assert_eq!(told(1, "contexts_made"), 0, "nothing has run");
    for value in 0..4 {
        run(&scheduler, task(move |stream| filled(stream, value as f32))).unwrap();
    }
    assert_eq!((told(0, "contexts_made"), told(1, "contexts_made")), (0, 1));
    assert_eq!((told(1, "retained"), told(1, "module_loads")), (1, 1));
    drop(scheduler);
    assert_nothing_is_left();
}

pub fn memory_is_used_again() {
    let scheduler = scheduler("cuda", 1).unwrap();
    for _ in 0..10 {
        run(&scheduler, task(|stream| filled(stream, 3.0))).unwrap();
    }
    assert_eq!((told(0, "allocations_made"), report()["pinned"].as_u64()), (1, Some(1)));
    drop(scheduler);
    assert_nothing_is_left();
}
