//! Captures of streams, as far as calls on other streams and threads notice them. Nothing is
//! recorded.

use std::cell::Cell;
use std::sync::Mutex;
use std::thread::ThreadId;

use super::{Answer, code, lock};

const GLOBAL: u32 = 0;
const RELAXED: u32 = 2;

struct Capture {
    stream: usize,
    mode: u32,
    thread: ThreadId,
    invalidated: bool,
}

static CAPTURES: Mutex<Vec<Capture>> = Mutex::new(Vec::new());

thread_local! {
    static MODE: Cell<u32> = const { Cell::new(GLOBAL) };
}

fn known(mode: u32) -> Answer<u32> {
    if mode > RELAXED { Err(code::INVALID_VALUE) } else { Ok(mode) }
}

/// Sets the mode of the calling thread and returns the old one.
pub fn exchange_mode(mode: u32) -> Answer<u32> {
    Ok(MODE.replace(known(mode)?))
}

pub fn begin(stream: usize, mode: u32) -> Answer {
    if is_captured(stream) {
        return Err(code::ILLEGAL_STATE);
    }
    let capture = Capture { stream, mode: known(mode)?, thread: thread(), invalidated: false };
    lock(&CAPTURES).push(capture);
    Ok(())
}

pub fn end(stream: usize) -> Answer {
    match forget(stream) {
        None => Err(code::ILLEGAL_STATE),
        Some(capture) if capture.invalidated => Err(code::STREAM_CAPTURE_INVALIDATED),
        Some(_) => Ok(()),
    }
}

pub fn is_captured(stream: usize) -> bool {
    lock(&CAPTURES).iter().any(|capture| capture.stream == stream)
}

pub fn destroyed(stream: usize) {
    forget(stream);
}

fn forget(stream: usize) -> Option<Capture> {
    let mut captures = lock(&CAPTURES);
    let position = captures.iter().position(|capture| capture.stream == stream)?;
    Some(captures.remove(position))
}

/// Refuses an unsafe call on a thread whose mode does not allow it, and invalidates the captures
/// that forbid it.
pub fn judge_unsafe_call() -> Answer {
    let mode = MODE.get();
    let forbids = |capture: &&mut Capture| {
        let own = capture.thread == thread() && capture.mode != RELAXED;
        mode != RELAXED && (own || mode == GLOBAL && capture.mode == GLOBAL)
    };
    let mut captures = lock(&CAPTURES);
    let spoilt = captures.iter_mut().filter(forbids).map(|capture| capture.invalidated = true).count();
    if spoilt == 0 { Ok(()) } else { Err(code::STREAM_CAPTURE_UNSUPPORTED) }
}

fn thread() -> ThreadId {
    std::thread::current().id()
}
