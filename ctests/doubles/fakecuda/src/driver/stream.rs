//! Streams are threads with a queue; events remember generations.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::{Answer, Code, Context, capture, code, lock};

type Work = Box<dyn FnOnce() -> Answer + Send>;

struct Job {
    work: Work,
    /// Runs also in a poisoned context, because other streams wait for it.
    always: bool,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    enqueued: u64,
    completed: u64,
    closing: bool,
}

pub struct Stream {
    pub handle: usize,
    pub context: Arc<Context>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Stream {
    pub fn start(handle: usize, context: Arc<Context>) -> Answer<Arc<Self>> {
        let stream = Arc::new(Stream { handle, context, queue: Mutex::default(), changed: Condvar::new() });
        let run = stream.clone();
        let thread = std::thread::Builder::new().name(format!("stream {handle:x}"));
        thread.spawn(move || run.work()).map_err(|_| code::OUT_OF_MEMORY)?;
        Ok(stream)
    }

    fn work(&self) {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                if (job.always || self.context.check().is_ok())
                    && let Err(code) = (job.work)()
                {
                    self.context.poison(code);
                }
                queue = lock(&self.queue);
                queue.completed += 1;
                self.changed.notify_all();
            } else if queue.closing || self.context.dead() {
                return;
            } else {
                let waited = self.changed.wait_timeout(queue, Duration::from_millis(200));
                queue = waited.unwrap_or_else(|e| e.into_inner()).0;
            }
        }
    }

    pub fn push(&self, always: bool, work: impl FnOnce() -> Answer + Send + 'static) {
        let mut queue = lock(&self.queue);
        queue.enqueued += 1;
        queue.jobs.push_back(Job { work: Box::new(work), always });
        self.changed.notify_all();
    }

    pub fn given(&self) -> (u64, bool) {
        let queue = lock(&self.queue);
        (queue.enqueued, queue.enqueued == queue.completed)
    }

    fn wait_for(&self, count: u64) {
        let mut queue = lock(&self.queue);
        while queue.completed < count && !self.context.dead() {
            let waited = self.changed.wait_timeout(queue, Duration::from_millis(20));
            queue = waited.unwrap_or_else(|e| e.into_inner()).0;
        }
    }

    pub fn synchronize(&self) -> Answer {
        if capture::is_captured(self.handle) {
            return Err(code::STREAM_CAPTURE_UNSUPPORTED);
        }
        let (given, _) = self.given();
        self.wait_for(given);
        self.context.check()
    }

    pub fn close(&self) {
        capture::destroyed(self.handle);
        lock(&self.queue).closing = true;
        self.changed.notify_all();
    }
}

pub fn wait_all(streams: &[Arc<Stream>]) {
    for stream in streams {
        let (given, _) = stream.given();
        stream.wait_for(given);
    }
}

/// One recording of an event. Each further recording is another record.
#[derive(Default)]
struct Record {
    at: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Record {
    fn complete(&self) {
        *lock(&self.at) = Some(Instant::now());
        self.changed.notify_all();
    }

    fn at(&self) -> Option<Instant> {
        *lock(&self.at)
    }

    fn wait(&self, context: &Context) {
        let mut at = lock(&self.at);
        while at.is_none() && !context.dead() {
            let waited = self.changed.wait_timeout(at, Duration::from_millis(20));
            at = waited.unwrap_or_else(|e| e.into_inner()).0;
        }
    }
}

pub struct Event {
    pub context: Arc<Context>,
    pub timing: bool,
    last: Mutex<Option<Arc<Record>>>,
}

impl Event {
    pub fn new(context: Arc<Context>, flags: u32) -> Self {
        Event { context, timing: flags & 2 == 0, last: Mutex::default() }
    }

    pub fn record(&self, stream: &Arc<Stream>) {
        let record = Arc::new(Record::default());
        *lock(&self.last) = Some(record.clone());
        stream.push(true, move || {
            record.complete();
            Ok(())
        });
    }

    fn current(&self) -> Option<Arc<Record>> {
        lock(&self.last).clone()
    }

    pub fn synchronize(&self) -> Answer {
        if let Some(record) = self.current() {
            record.wait(&self.context);
        }
        self.context.check()
    }

    /// Makes later work of a stream wait for the event's current recording.
    pub fn hold(&self, stream: &Stream) {
        if let Some(record) = self.current() {
            let context = self.context.clone();
            stream.push(true, move || {
                record.wait(&context);
                Ok(())
            });
        }
    }

    pub fn elapsed(&self, end: &Event) -> Answer<f32> {
        self.context.check()?;
        if !self.timing || !end.timing {
            return Err(code::INVALID_HANDLE);
        }
        let at = |event: &Event| -> Result<Instant, Code> {
            event.current().ok_or(code::INVALID_HANDLE)?.at().ok_or(code::NOT_READY)
        };
        let (begin, end) = (at(self)?, at(end)?);
        let seconds = if end >= begin { (end - begin).as_secs_f32() } else { -(begin - end).as_secs_f32() };
        Ok(seconds * 1e3)
    }
}
