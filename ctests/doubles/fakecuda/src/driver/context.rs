//! Primary contexts.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, Once, Weak};

use super::{Answer, Driver, Gpu, Object, Stream, code, lock, open_for_good};
use crate::config::{EXCLUSIVE, PROHIBITED};
use crate::faults::sticky;
use crate::node::Node;

pub struct Context {
    pub handle: usize,
    pub gpu: usize,
    poison: AtomicI32,
    dead: AtomicBool,
    pub streams: Mutex<Vec<Weak<Stream>>>,
}

impl Context {
    pub fn gpu(&self) -> &'static Gpu {
        &Driver::get().gpus[self.gpu]
    }

    pub fn check(&self) -> Answer {
        if self.gpu().lost() {
            return Err(code::UNKNOWN);
        }
        if self.dead.load(Ordering::Relaxed) {
            return Err(code::CONTEXT_DESTROYED);
        }
        match self.poison.load(Ordering::Relaxed) {
            0 => Ok(()),
            code => Err(code),
        }
    }

    /// Returns the code of a kernel that has failed in the context, as an error. Driver 580 then
    /// gives the process no other context, though this one counts as gone. The code of an invalid
    /// handle does not affect the GPU.
    fn fault(&self) -> Answer {
        match self.poison.load(Ordering::Relaxed) {
            0 | code::INVALID_CONTEXT | code::CONTEXT_DESTROYED => Ok(()),
            code => Err(code),
        }
    }

    pub fn dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed) || self.gpu().lost()
    }

    /// Makes all later calls in this context fail with `code`. The first code remains.
    pub fn poison(&self, code: i32) {
        let _ = self.poison.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Ends a call: a code that poisons the context does so here.
    pub fn judge<T>(&self, answer: Answer<T>) -> Answer<T> {
        if let Err(code) = answer
            && sticky(code)
            && code != code::CONTEXT_DESTROYED
        {
            self.poison(code);
        }
        answer
    }

    pub fn all_streams(&self) -> Vec<Arc<Stream>> {
        let mut streams = lock(&self.streams);
        streams.retain(|stream| stream.strong_count() > 0);
        streams.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Driver {
    pub fn retain(&self, gpu: &Gpu) -> Answer<usize> {
        if gpu.lost() {
            return Err(code::UNKNOWN);
        }
        let forbidden = gpu.spec.mode == PROHIBITED || gpu.spec.mode == EXCLUSIVE && gpu.spec.other > 0;
        if forbidden {
            // Drivers before 11.7 have no separate code for this.
            return Err(if self.config.driver >= 11070 { 46 } else { code::INVALID_DEVICE });
        }
        self.suffer(gpu, "ctx")?;
        gpu.barred()?;
        let _alone = lock(&gpu.making);
        let mut state = lock(&gpu.state);
        if state.context.is_none() {
            gpu.take(&mut state, gpu.spec.context_bytes)?;
            state.contexts_made += 1;
            static OPENED: Once = Once::new();
            OPENED.call_once(open_for_good);
            if let Some(node) = Node::get() {
                node.event(gpu.index, "context", "");
            }
            let context = Arc::new(Context {
                handle: gpu.handle(),
                gpu: gpu.index,
                poison: AtomicI32::new(0),
                dead: AtomicBool::new(false),
                streams: Mutex::default(),
            });
            self.insert(context.handle, Object::Context(context.clone()));
            state.context = Some(context);
        }
        state.retained += 1;
        Ok(state.context.as_ref().map_or(0, |context| context.handle))
    }

    pub fn release(&self, gpu: &Gpu) -> Answer {
        self.suffer(gpu, "release")?;
        let _alone = lock(&gpu.making);
        let mut state = lock(&gpu.state);
        if state.retained == 0 {
            return Err(code::INVALID_CONTEXT);
        }
        state.retained -= 1;
        let last = state.retained == 0;
        drop(state);
        if last { self.destroy(gpu) } else { Ok(()) }
    }

    /// Destroys the primary context and all objects in it. Each caller that has retained it must
    /// still release it.
    pub fn reset(&self, gpu: &Gpu) -> Answer {
        self.suffer(gpu, "reset")?;
        let _alone = lock(&gpu.making);
        self.destroy(gpu)
    }

    fn destroy(&self, gpu: &Gpu) -> Answer {
        let context = lock(&gpu.state).context.take();
        let Some(context) = context else { return Ok(()) };
        context.dead.store(true, Ordering::Relaxed);
        if let Err(code) = context.fault() {
            gpu.bar(code);
        }
        let streams = context.all_streams();
        for stream in &streams {
            stream.close();
        }
        self.bury(&context);
        // No kernel may use freed memory, so wait for running ones.
        wait_idle(&streams);
        let mut state = lock(&gpu.state);
        state.pieces.clear();
        let all = state.used;
        gpu.give_back(&mut state, all);
        if let Some(node) = Node::get() {
            node.event(gpu.index, "leave", "");
        }
        drop(state);
        if gpu.lost() { Err(code::UNKNOWN) } else { Ok(()) }
    }
}

/// Waits until the threads of all streams have ended their jobs; each reads `dead` often. Gives up
/// after 10 s.
fn wait_idle(streams: &[Arc<Stream>]) {
    let begin = std::time::Instant::now();
    while begin.elapsed().as_secs() < 10 && !streams.iter().all(|stream| stream.given().1) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

thread_local! {
    static STACK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

pub struct Current;

impl Current {
    pub fn get() -> usize {
        STACK.with_borrow(|stack| stack.last().copied().unwrap_or(0))
    }

    pub fn set(handle: usize) {
        STACK.with_borrow_mut(|stack| {
            stack.pop();
            if handle != 0 {
                stack.push(handle);
            }
        });
    }

    pub fn push(handle: usize) {
        STACK.with_borrow_mut(|stack| stack.push(handle));
    }

    pub fn pop() -> Answer<usize> {
        STACK.with_borrow_mut(Vec::pop).ok_or(code::INVALID_CONTEXT)
    }

    pub fn enter(operation: &'static str) -> Answer<(Arc<Context>, bool)> {
        let driver = Driver::get();
        driver.visible()?;
        let handle = Current::get();
        if handle == 0 {
            return Err(code::INVALID_CONTEXT);
        }
        let context = driver.context(handle).map_err(|_| code::CONTEXT_DESTROYED)?;
        context.check()?;
        match driver.suffer(context.gpu(), operation) {
            Ok(hang) => Ok((context, hang)),
            // A launch that poisons the context returns success; the next call reports the failure.
            Err(code) if matches!(operation, "launch" | "graphlaunch") && sticky(code) => {
                context.poison(code);
                if context.gpu().lost() { Err(code) } else { Err(0) }
            }
            Err(code) => context.judge(Err(code)),
        }
    }
}
