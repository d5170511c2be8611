//! Many threads at once: every task has exactly one outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gpusched::Error;
use gpusched::sched::{Exec, Task, Wait};

use crate::scripted::*;

#[test]
fn every_task_has_one_outcome() {
    const THREADS: u64 = 6;
    const EACH: u64 = 200;
    let scheduler = Scripted::new(3).scheduler(2);
    let dropped = Arc::new(AtomicU64::new(0));
    struct Count(Arc<AtomicU64>);
    impl Drop for Count {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let outcomes = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (scheduler, dropped) = (&scheduler, &dropped);
                scope.spawn(move || {
                    let mut told = [0_u64; 3];
                    for i in 0..EACH {
                        let count = Count(Arc::clone(dropped));
                        let job = move |exec: &Exec<'_>| {
                            let _ = &count;
                            match i % 5 {
                                0 => Err(Error::Callback { code: 1 }),
                                1 => exec.commit(),
                                _ => Ok(()),
                            }
                        };
                        let task = Task {
                            retries: (i % 2) as u32,
                            priority: (i % 3) as i32,
                            device_bytes: (i * 37 + thread) % 1000,
                            ..Task::new(job)
                        };
                        let id = scheduler.submit(task).unwrap();
                        if i % 3 == 0 {
                            scheduler.cancel(id).unwrap();
                        }
                        let first = wait(scheduler, id);
                        assert_eq!(first, wait(scheduler, id), "it does not change");
                        told[match first {
                            Ok(Wait::Done) => 0,
                            Ok(_) => 1,
                            Err(_) => 2,
                        }] += 1;
                        scheduler.release(id).unwrap();
                    }
                    told
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .fold([0; 3], |sum, told| [sum[0] + told[0], sum[1] + told[1], sum[2] + told[2]])
    });
    let stats = scheduler.stats().unwrap();
    assert_eq!([stats.done, stats.cancelled, stats.failed], outcomes);
    assert_eq!(stats.submitted, THREADS * EACH);
    assert_eq!(dropped.load(Ordering::Relaxed), THREADS * EACH, "each job is dropped once");
    assert!(stats.devices.iter().all(|device| device.leased_bytes == 0 && device.peak_bytes <= 1000));
}

#[test]
fn shutdown_in_a_storm_loses_nothing() {
    let scheduler = Scripted::new(2).scheduler(2);
    let taken = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while scheduler.submit(quick()).is_ok() {
                    taken.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        let ends: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| scheduler.shutdown().unwrap()))
            .map(|end| end.join().unwrap())
            .collect();
        assert_eq!(ends[1..], [0, 0]);
    });
    let stats = scheduler.stats().unwrap();
    assert_eq!(stats.done + stats.cancelled, taken.load(Ordering::Relaxed));
    assert_eq!((stats.queued, stats.running), (0, 0));
}
