//! Queues: their memory, kernels and shared objects, and the end of their work.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use gpusched::Error;
use gpusched::backend::cuda::Ptx;
use gpusched::sched::{Exec, Task};

use crate::fixtures::*;
use testkit::process::in_child;
use testkit::{Folder, Random};

pub fn the_used_gpu_alone_has_a_context() {
    let scheduler = scheduler("cuda:1", 2).unwrap();
    assert_eq!(driver_count(1, "contexts_made"), 0, "nothing has run");
    (0..4).for_each(|value| run(&scheduler, task(move |stream| filled(stream, value as f32))).unwrap());
    assert_eq!((driver_count(0, "contexts_made"), driver_count(1, "contexts_made")), (0, 1));
    assert_eq!((driver_count(1, "retained"), driver_count(1, "module_loads")), (1, 1));
}

/// Another library may create the next context. `set`: flags that it sets while this one exists.
fn flags_after_a_context(set: Option<u32>) -> u32 {
    let flags = || {
        let (mut flags, mut active) = (0_u32, 0_i32);
        assert_eq!(
            cu!(cuDevicePrimaryCtxGetState(0 => i32, &mut flags => &mut u32, &mut active => &mut i32)),
            0
        );
        flags
    };
    let set_flags = |flags| assert_eq!(cu!(cuDevicePrimaryCtxSetFlags_v2(0 => i32, flags => u32)), 0);
    assert_eq!(cu!(cuInit(0 => u32)), 0);
    set_flags(9);
    let scheduler = scheduler("cuda", 1).unwrap();
    run(&scheduler, task(|stream| filled(stream, 1.0))).unwrap();
    assert_eq!(flags(), 12, "threads that wait sleep");
    set.into_iter().for_each(set_flags);
    drop(scheduler);
    flags()
}

pub fn flags_of_contexts_are_restored() {
    assert_eq!((flags_after_a_context(None), flags_after_a_context(Some(2))), (9, 2));
}

pub fn memory_is_used_again() {
    let scheduler = scheduler("cuda", 1).unwrap();
    (0..10).for_each(|_| run(&scheduler, task(|stream| filled(stream, 3.0))).unwrap());
    assert_eq!((driver_count(0, "allocations_made"), report()["pinned"].as_u64()), (1, Some(1)));
}

fn downloading(values: usize) -> Task {
    task(move |stream| {
        let block = stream.zeroed::<f32>(values, "a test's values")?;
        stream.download(&block, 0..values)?.wait().map(|_| ())
    })
}

/// Each task needs more than the one before, as when every shot has other receivers: the cached memory is too small.
pub fn pinned_memory_does_not_grow_with_the_tasks() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let pinned = || report()["pinned"].as_u64().unwrap();
    let mut random = Random::new(7);
    for number in 0..60 {
        let rows = if number < 40 { 1 + number } else { 1 + random.below(60) };
        run(
            &scheduler,
            task(move |stream| {
                let block = stream.zeroed::<f32>(1024 * rows, "a test's values")?;
                let (one, other) = (stream.download(&block, 0..1024 * rows)?, stream.download(&block, 0..1)?);
                assert!(one.wait()?.iter().chain(other.wait()?.iter()).all(|&value| value == 0.0));
                Ok(())
            }),
        )
        .unwrap();
        // Two pieces in use, and cached ones that are twice as long each.
        assert!(pinned() <= 8, "{} pieces after task {number}", pinned());
    }
    // Pinned memory fits the next task.
    let before = pinned();
    [60, 55, 50].iter().for_each(|rows| run(&scheduler, downloading(1024 * rows)).unwrap());
    assert!(pinned() <= before + 1);
}

/// The values arrive without pinned memory.
pub fn memory_that_cant_be_pinned() {
    let scheduler = scheduler("cuda", 1).unwrap();
    (0..3).for_each(|value| run(&scheduler, task(move |stream| filled(stream, value as f32))).unwrap());
    assert_eq!(report()["pinned"].as_u64(), Some(0));
}

/// Cached memory is freed for a larger piece.
pub fn memory_that_is_short_to_pin() {
    let scheduler = scheduler("cuda", 1).unwrap();
    run(&scheduler, task(|stream| filled(stream, 1.0))).unwrap();
    run(&scheduler, downloading(5000)).unwrap();
    // One piece of whole pages: that of the first task was freed.
    assert_eq!((report()["pinned"].as_u64(), report()["pinned_bytes"].as_u64()), (Some(1), Some(20480)));
}

/// Sixteen tasks need the same kernels at once.
pub fn kernels_are_loaded_once_a_gpu() {
    let scheduler = scheduler("cuda", 8).unwrap();
    run_together(&scheduler, 16, |stream| filled(stream, 4.0));
    for gpu in 0..2 {
        assert_eq!((driver_count(gpu, "module_loads"), driver_count(gpu, "contexts_made")), (1, 1));
        assert_eq!((driver_count(gpu, "retained"), driver_count(gpu, "streams")), (1, 8));
    }
}

/// One slot launches a kernel that is loaded, while another slot's kernel is compiled.
pub fn loading_a_module_keeps_no_other_waiting() {
    let folder = Folder::new();
    let gate = folder.at("gate");
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("FAKECUDA_JIT_GATE", &gate) };
    let scheduler = scheduler("cuda", 2).unwrap();
    run(&scheduler, task(|stream| filled(stream, 1.0))).unwrap();
    std::fs::write(&gate, "").unwrap();
    let [loading, loaded] = [0; 2].map(|_| Arc::new(AtomicBool::new(false)));
    let text: &'static str = Box::leak(SMALL.text.to_owned().into_boxed_str());
    let (begun, done) = (loading.clone(), loaded.clone());
    let loads = task(move |stream| {
        begun.store(true, Ordering::SeqCst);
        stream.function(Ptx { name: "another", text }, "fill")?;
        done.store(true, Ordering::SeqCst);
        Ok(())
    });
    let launches = task(move |stream| {
        while !loading.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(200));
        filled(stream, 2.0)?;
        assert!(!loaded.load(Ordering::SeqCst), "the launch waited for the other module");
        std::fs::remove_file(&gate).unwrap();
        Ok(())
    });
    run_all(&scheduler, [loads, launches]);
    assert_eq!(driver_count(0, "module_loads"), 2);
}

/// A driver may compile new kernels for a minute.
pub fn a_deadline_begins_when_the_kernels_are_compiled() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let text: &'static str = Box::leak(SMALL.text.to_owned().into_boxed_str());
    let run_within = |deadline, works| {
        let task = Task::new(move |exec: &Exec<'_>| {
            match works {
                0 => _ = stream(exec).function(Ptx { name: "another", text }, "fill")?,
                _ => filled(stream(exec), 1.0)?,
            }
            std::thread::sleep(Duration::from_millis(works));
            if exec.cancelled() { Err(Error::Cancelled) } else { Ok(()) }
        });
        run(&scheduler, Task { deadline: Some(Duration::from_millis(deadline)), retries: 0, ..task })
            .unwrap();
    };
    // The kernels are compiled before the limit, and the task ends after it.
    run_within(2400, 1000);
    run_within(900, 0);
}

/// Objects that all slots of a GPU share are freed with their owner.
pub fn shared_objects_are_made_once() {
    let scheduler = scheduler("cuda", 4).unwrap();
    let (owner, made, door) = (Arc::new(7_u32), Arc::new(AtomicU32::new(0)), Arc::new(Barrier::new(4)));
    let tasks = (0..8).map(|_| {
        let (owner, made, door) = (owner.clone(), made.clone(), door.clone());
        task(move |stream| {
            door.wait();
            let values = stream.shared(&owner, || {
                made.fetch_add(1, Ordering::SeqCst);
                stream.uploaded(&[1.5_f32; 5000], "a model")
            })?;
            let here = stream.download(&values, 0..5000)?.wait()?;
            assert!(here.iter().all(|&value| value == 1.5));
            Ok(())
        })
    });
    run_all(&scheduler, tasks);
    assert_eq!((made.load(Ordering::SeqCst), driver_count(0, "allocations")), (1, 1));
    assert_eq!(Arc::strong_count(&owner), 1);
    // Objects of another owner take the place of the first.
    drop(owner);
    let owner = Arc::new(8_u32);
    let code = task(move |stream| {
        stream.shared(&owner, || stream.uploaded(&[2.5_f32; 5000], "a model")).map(|_| ())
    });
    run(&scheduler, code).unwrap();
    // The memory is reused if the same queue allocates it; otherwise it is new.
    assert!(driver_count(0, "allocations_made") <= 2, "{}", report());
}

/// Memory that one slot has returned is not allocated by another while work may still use it.
pub fn memory_stays_with_its_slot_until_the_work_is_done() {
    let scheduler = scheduler("cuda", 2).unwrap();
    let (door, numbers) = (Arc::new(Barrier::new(2)), Arc::new(AtomicU32::new(0)));
    let tasks = (0..2).map(|_| {
        let (door, numbers) = (door.clone(), numbers.clone());
        task(move |stream| {
            let first = numbers.fetch_add(1, Ordering::SeqCst) == 0;
            door.wait();
            if first {
                let block = stream.zeroed::<f32>(1000, "a test's values")?;
                let address = block.address();
                drop(block);
                door.wait();
                door.wait();
                // The same queue may allocate it at once.
                assert_eq!(stream.alloc::<f32>(1000, "a test's values")?.address(), address);
            } else {
                door.wait();
                let _other = stream.alloc::<f32>(1000, "a test's values")?;
                door.wait();
            }
            Ok(())
        })
    });
    run_all(&scheduler, tasks);
    assert_eq!(driver_count(0, "allocations_made"), 2);
}

/// The work that a task has put on its queue ends before the task.
pub fn task_ends_after_its_work_on_the_gpu() {
    let scheduler = scheduler("cuda", 1).unwrap();
    run(
        &scheduler,
        task(|stream| {
            let (from, to) = (stream.uploaded(&[3_i32; 4096], "values")?, stream.zeroed(4096, "values")?);
            let begin = stream.stamp()?;
            stream.copy(&from, &to)?;
            let end = stream.stamp()?;
            end.wait()?;
            assert!(end.seconds_since(&begin)? >= 0.0);
            let under_way = stream.download(&to, 4000..4096)?;
            drop(stream.download(&to, 0..4096)?);
            assert_eq!(under_way.wait()?[..], [3; 96]);
            // Still runs when the job returns.
            fill(stream, &stream.zeroed(64, "values")?, 1.0)
        }),
    )
    .unwrap();
}

pub fn mistakes_are_reported() {
    use gpusched::backend::cuda::Params;
    let scheduler = scheduler("cuda", 1).unwrap();
    let code = task(|stream| {
        let words = |error: gpusched::Error| error.to_string();
        let block = stream.zeroed::<f32>(8, "values")?;
        assert!(
            words(stream.upload(&block, 1, &[0.0; 8]).unwrap_err()).contains("values 1 to 9 of a block of 8")
        );
        assert!(stream.download(&block, 5..9).is_err());
        let kernel = stream.function(SMALL, "fill")?;
        assert!(words(stream.function(SMALL, "nosuch").err().unwrap()).contains("nosuch"));
        // Too few parameters: refused by the driver, which compares their sizes.
        assert!(stream.launch(&kernel, [1; 3], [1; 3], Params::new().with(1_u64)).is_err());
        assert!(stream.launch(&kernel, [1; 3], [1; 3], Params::new().with([0_u8; 513])).is_err());
        let bad = Ptx { name: "bad", text: ".version 6.0\n.target sm_35\nnonsense" };
        let error = stream.function(bad, "any").err().unwrap();
        assert!(matches!(error, gpusched::Error::Device { .. }), "{error}");
        let error = words(error);
        // The driver's log has two lines.
        assert!(error.contains("the kernels bad (") && error.contains(" ptxas fatal : "), "{error}");
        assert!(!error.contains('\n'), "{error}");
        assert!(kernel.blocks_at_once(64)? >= 20);
        filled(stream, 1.0)
    });
    run(&scheduler, code).unwrap();
}

/// A driver does not survive a fork: the child finds no GPUs, gets the reason, and ends normally.
pub fn a_child_finds_no_gpus() {
    let scheduler = scheduler("cuda", 2).unwrap();
    run(&scheduler, task(|stream| filled(stream, 1.0))).unwrap();
    let child = in_child(|| {
        let forked = matches!(scheduler.submit(task(|_| Ok(()))), Err(gpusched::Error::Forked));
        // The CPU does not replace GPUs that the parent has.
        let refused = matches!(self::scheduler("all", 1), Err(gpusched::Error::NoDevice { .. }));
        forked && finds_no_gpus() && refused && self::scheduler("cpu", 1).is_ok()
    });
    assert!(child);
    run(&scheduler, task(|stream| filled(stream, 2.0))).unwrap();
}

/// A GPU writes to the parent's pages only, so the child must not share them.
pub fn a_child_gets_no_pinned_memory() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let code = task(|stream| {
        let block = stream.zeroed::<f32>(5000, "a test's values")?;
        let values = stream.download(&block, 0..5000)?.wait()?;
        let is_mapped = || {
            let mut resident = [0; 5];
            // SAFETY: the pages of the values, and a byte for each.
            unsafe { libc::mincore(values.as_ptr() as *mut _, 5 * 4096, resident.as_mut_ptr()) == 0 }
        };
        assert!(is_mapped() && in_child(|| !is_mapped()));
        Ok(())
    });
    run(&scheduler, code).unwrap();
}

/// Another thread is in discovery at the fork, so its locks stay locked in the child.
pub fn child_forked_during_discovery_finds_no_gpus() {
    std::thread::scope(|scope| {
        // NVML takes its time to begin.
        scope.spawn(found);
        while !driver_is_loaded() {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(500));
        assert!(in_child(finds_no_gpus));
    });
    assert_eq!(found().0.len(), 1);
}

fn finds_no_gpus() -> bool {
    let (gpus, notes) = found();
    gpus.is_empty() && notes.contains("does not survive a fork")
}
