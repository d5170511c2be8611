//! The stack of a task: what the scheduler promises, also on top of a waiting task.

use testkit::c;

/// An outer task uses `outer` KiB of stack and waits for an inner one, which uses `inner` KiB.
fn run(outer: u32, inner: u32, stack: u32, nested: i32) {
    let args = [outer.to_string(), inner.to_string(), stack.to_string(), nested.to_string()];
    c::run_plain(&c::program("task_stack"), &args.each_ref().map(String::as_str));
}

const MIB: u32 = 1 << 10;
/// Stack of the C function's own frame.
const FRAME: u32 = 1;

#[test]
fn nested_task_has_the_promised_stack() {
    for (outer, inner) in [(1, 8), (2, 7), (3, 6), (4, 5), (4, 8), (6, 8), (8, 8)] {
        run(outer * MIB - FRAME, inner * MIB - FRAME, 0, -1);
    }
}

#[test]
fn task_with_little_stack_in_use_runs_the_awaited_task_itself() {
    run(1, 8 * MIB - FRAME, 0, 1);
    run(3 * MIB, 8 * MIB - FRAME, 0, 1);
}

#[test]
fn task_with_much_stack_in_use_leaves_the_awaited_task_to_another_worker() {
    run(5 * MIB, 1, 0, 0);
}

#[test]
fn configured_stack_is_given_to_outer_and_nested_tasks() {
    for outer in [1, 3 * MIB, 5 * MIB, 64 * MIB - FRAME] {
        run(outer, 64 * MIB - FRAME, 64 * MIB, -1);
    }
    run(MIB - FRAME, MIB - FRAME, MIB, 1);
}

#[test]
fn task_on_a_configured_stack_is_clean_under_valgrind() {
    let program = c::program("task_stack");
    c::run_with(&program, &["4095", "7000", "0", "-1"]);
    c::run_with(&program, &["1", "7000", "16384", "1"]);
}

#[test]
fn chain_of_ten_thousand_waiting_tasks_ends() {
    c::run_plain(&c::program("task_stack"), &["chain", "10000", "0"]);
}
