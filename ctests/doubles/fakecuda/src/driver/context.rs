//! Primary contexts.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::{Answer, Driver, Gpu, Object, Stream, code, lock};
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

    /// The code of a kernel that has failed in it. Driver 580 then gives the process no other context, though this one
    /// counts as gone. Handles that are no longer valid leave the GPU alone.
    fn fault(&self) -> Answer {
        match self.poison.load(Ordering::Relaxed) {
            0 | code::INVALID_CONTEXT | code::CONTEXT_DESTROYED => Ok(()),
            code => Err(code),
        }
    }

    pub fn dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed) || self.gpu().lost()
    }

    /// From now on everything in this context answers `code`; the first one stays.
    pub fn poison(&self, code: i32) {
        let _ = self.poison.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The end of a call: a code that poisons does so.
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
            // Drivers before 11.7 have no code of its own for this.
            return Err(if self.config.driver >= 11070 { 46 } else { code::INVALID_DEVICE });
        }
        self.suffer(gpu, "ctx")?;
        gpu.barred()?;
        let _alone = lock(&gpu.making);
        let mut state = lock(&gpu.state);
        if state.context.is_none() {
            gpu.take(&mut state, gpu.spec.context_bytes)?;
            state.contexts_made += 1;
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

    /// Destroys the primary context and all in it. Who has retained it still has to release it.
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
        // Nothing may run on memory that is given back: wait for what is running now.
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

/// Until the threads of all streams have done with their job; each looks at `dead` often.
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
            // What poisons in a launch is told later, by whoever asks next.
            Err(code) if matches!(operation, "launch" | "graphlaunch") && sticky(code) => {
                context.poison(code);
                if context.gpu().lost() { Err(code) } else { Err(0) }
            }
            Err(code) => context.judge(Err(code)),
        }
    }
}
