//! Kernels whose threads share memory and meet at barriers run without a GPU in both engines, as PTX and as source
//! compiled for the host, and both report threads that do not meet.

use std::sync::LazyLock;

use fakecuda::ptx::FaultKind;
use gpusched::fd::equation::acoustic1::kernel::Launch;

use testmodels::kernels::{Host, Interpreted, Memory, Order, Ordered, bytes};

const TEXT: &str = include_str!("../../ctests/doubles/fakecuda/fixtures/barriers.ptx");

static PTX: LazyLock<Interpreted> = LazyLock::new(|| Interpreted::of(&[TEXT]));
static HOST: LazyLock<Host> = LazyLock::new(|| {
    Host::compile(&testkit::root().join("ctests/doubles/fakecuda/fixtures/barriers.cu"), "barriers", &[])
});

/// Runs a kernel of one block on 64 numbers from 0 on. Returns the numbers afterwards, or what it did wrong.
fn on_numbers(host: Option<Order>, kernel: &'static str, more: &[i32]) -> Result<Vec<f32>, String> {
    let mut memory = Memory::default();
    let at = memory.put(&std::array::from_fn::<f32, 64, _>(|k| k as f32));
    let arguments: Vec<&[u8]> = [bytes(&at)].into_iter().chain(more.iter().map(bytes)).collect();
    let launch = Launch { kernel, grid: [1; 3], block: [64, 1, 1] };
    match host {
        Some(order) => Ordered(&[&HOST], order).try_launch(launch, &arguments)?,
        None => PTX.try_launch(&memory, launch, &arguments).map_err(|fault| fault.to_string())?,
    }
    Ok(memory.get(at))
}

const HOSTS: [Option<Order>; 3] = [Some(Order::Ascending), Some(Order::Descending), Some(Order::Shuffled(3))];

#[test]
fn all_threads_come_to_a_barrier_before_any_goes_on() {
    let turned: Vec<f32> = (0..64).map(|k| (63 - k) as f32).collect();
    for host in HOSTS.into_iter().chain([None]) {
        assert_eq!(on_numbers(host, "leave", &[64]), Ok(turned.clone()), "{host:?}");
        for by in [1, 33] {
            let passed: Vec<f32> = (0..64).map(|k| ((k + by) % 64) as f32).collect();
            assert_eq!(on_numbers(host, "pass", &[by, 64]), Ok(passed), "{host:?}");
        }
    }
}

#[test]
fn threads_that_do_not_meet_are_reported() {
    for host in HOSTS {
        // Before and after, in a launch of the same thread, all is well.
        assert!(on_numbers(host, "leave", &[64]).is_ok());
        for (stay, there) in [(63, 63), (32, 32), (1, 1)] {
            let said = on_numbers(host, "leave", &[stay]).unwrap_err();
            assert!(said.starts_with(&format!("{there} of 64 threads")) && said.contains("ended"), "{said}");
        }
        let said = on_numbers(host, "part", &[40]).unwrap_err();
        assert!(said.contains("others in line"), "{said}");
        assert!(on_numbers(host, "leave", &[0]).is_ok() && on_numbers(host, "part", &[64]).is_ok());
    }
    for (kernel, some) in [("leave", 63), ("leave", 32), ("leave", 1), ("part", 40), ("part", 32)] {
        let said = on_numbers(None, kernel, &[some]).unwrap_err();
        assert!(said.starts_with(&format!("{:?}", FaultKind::DivergentBarrier)), "{said}");
    }
    assert!(on_numbers(None, "leave", &[0]).is_ok() && on_numbers(None, "part", &[64]).is_ok());
}

/// The interpreter reports them. On the host a word that nobody wrote is not a number, and the result of a race depends
/// on the order.
#[test]
fn shared_memory_that_nobody_wrote_and_races_are_seen() {
    let said = on_numbers(None, "pass", &[1, 60]).unwrap_err();
    assert!(said.starts_with("Unwritten") && said.contains("[59, 0, 0]"), "{said}");
    // Warps run one after the other here: what an earlier one has written is there, and not to be relied on.
    for (by, kind) in [(1, "Race"), (32, "Unwritten")] {
        let said = on_numbers(None, "race", &[by]).unwrap_err();
        assert!(said.starts_with(kind), "{said}");
    }
    assert!(on_numbers(None, "race", &[0]).is_ok());
    for host in HOSTS {
        let found = on_numbers(host, "pass", &[1, 60]).unwrap();
        assert!((0..64).all(|k| found[k].is_nan() == (59..63).contains(&k)), "{found:?}");
    }
    let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
    let raced = HOSTS.map(|host| bits(on_numbers(host, "race", &[1]).unwrap()));
    assert!(raced[0] != raced[1] && raced[1] != raced[2] && raced[2] != raced[0]);
}
