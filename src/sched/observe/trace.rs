//! The trace: attempts, notes and leased memory, kept in memory and written as a timeline.
//!
//! The format is the Chrome trace event format (JSON), which chrome://tracing and
//! <https://ui.perfetto.dev> show: a process for each device, a row for each slot, a bar for each
//! attempt, a flag for each note, and a curve of the leased memory. Times are microseconds since
//! the scheduler was created.

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::device::DeviceInfo;
use crate::sched::base::{TaskId, lock};

/// The most bytes of a label, so that the number of events bounds the memory of a trace.
const MAX_LABEL: usize = 120;
/// Events copied at a time while a trace is written, so that recording threads don't wait for a
/// disk; and the first for which memory is allocated.
const PORTION: usize = 1024;

/// The way in which an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Done,
    Failed,
    Cancelled,
    /// The attempt failed, and the task was retried.
    Retried,
    /// Another copy of the task won.
    Late,
    /// The attempt did not return after a stop request and was abandoned.
    GivenUp,
    /// The attempt had not ended when the trace was written.
    Running,
}

impl Ending {
    pub const fn name(self) -> &'static str {
        match self {
            Ending::Done => "done",
            Ending::Failed => "failed",
            Ending::Cancelled => "cancelled",
            Ending::Retried => "retried",
            Ending::Late => "late",
            Ending::GivenUp => "given up",
            Ending::Running => "running",
        }
    }
}

/// An attempt. Times count from the creation of the scheduler.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    pub task: TaskId,
    /// Empty if the task has none.
    pub label: String,
    pub class: u32,
    pub device: usize,
    pub slot: u32,
    pub attempt: u32,
    pub begin: Duration,
    pub end: Duration,
    pub ending: Ending,
    /// Device memory that was leased for the attempt.
    pub bytes: u64,
    pub work: Option<f64>,
}

#[derive(Debug, Clone)]
pub(crate) enum TraceEvent {
    Attempt(Span),
    /// A time, a device, and a note about it or a task on it.
    Flag(Duration, usize, String),
    /// A time, a device, and its leased bytes from then on.
    Leased(Duration, usize, u64),
}

/// Records up to a number of events, and counts the others.
#[derive(Debug)]
pub struct Trace {
    names: Vec<String>,
    capacity: usize,
    buffer: Mutex<TraceBuffer>,
}

#[derive(Debug, Default)]
struct TraceBuffer {
    events: Vec<TraceEvent>,
    left_out: u64,
}

/// By device and slot: the end of the last span on each row of the slot. A task that waits in its
/// job lends its slot, and gets another row.
type SlotRows = [Vec<Vec<Duration>>];

impl Trace {
    /// `capacity`: the most events.
    pub fn new(devices: &[DeviceInfo], capacity: usize) -> Self {
        let names = devices.iter().map(|device| format!("{} {}", device.label(), device.name)).collect();
        Trace { names, capacity, buffer: Mutex::default() }
    }

    /// Records an event, or counts it if the host refuses the memory. A longer text than
    /// [`MAX_LABEL`] is cut.
    pub(crate) fn record(&self, mut event: TraceEvent) {
        if let TraceEvent::Attempt(Span { label: text, .. }) | TraceEvent::Flag(_, _, text) = &mut event {
            truncate(text);
        }
        let TraceBuffer { events, left_out } = &mut *lock(&self.buffer);
        let more = events.len().max(PORTION).min(self.capacity - events.len());
        if more > 0 && (events.len() < events.capacity() || events.try_reserve_exact(more).is_ok()) {
            events.push(event);
        } else {
            *left_out += 1;
        }
    }

    /// Writes the names and the order of the processes.
    fn write_devices(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut comma = "";
        for (device, name) in self.names.iter().enumerate() {
            let (pid, name) = (pid(device), Quoted(name));
            write!(
                out,
                "{comma}\n{{\"ph\":\"M\",\"pid\":{pid},\"name\":\"process_name\",\"args\":{{\"name\":{name}}}}},\n\
                 {{\"ph\":\"M\",\"pid\":{pid},\"name\":\"process_sort_index\",\"args\":{{\"sort_index\":{device}}}}}"
            )?;
            comma = ",";
        }
        Ok(())
    }

    fn write_event(&self, out: &mut dyn Write, event: &TraceEvent, rows: &mut SlotRows) -> io::Result<()> {
        match event {
            TraceEvent::Attempt(span) => {
                let row = place(rows, span);
                let name = match span.label.as_str() {
                    "" => "task",
                    label => label,
                };
                let work = span.work.filter(|work| work.is_finite());
                let work = work.map_or("null".into(), |work| format!("{work:?}"));
                write!(
                    out,
                    ",\n{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{:.3},\"dur\":{:.3},\"cat\":\"{ending}\",\"name\":{},\
                     \"args\":{{\"task\":\"{:#018x}\",\"attempt\":{},\"ended\":\"{ending}\",\"class\":{},\
                     \"work\":{work},\"bytes\":{}}}}}",
                    pid(span.device),
                    tid(span.device, span.slot, row),
                    microseconds(span.begin),
                    microseconds(span.end.saturating_sub(span.begin)),
                    Quoted(name),
                    span.task.0,
                    span.attempt,
                    span.class,
                    span.bytes,
                    ending = span.ending.name(),
                )
            }
            TraceEvent::Flag(at, device, text) => write!(
                out,
                ",\n{{\"ph\":\"i\",\"s\":\"p\",\"pid\":{},\"tid\":{},\"ts\":{:.3},\"cat\":\"note\",\"name\":{}}}",
                pid(*device),
                tid(*device, 0, 0),
                microseconds(*at),
                Quoted(text)
            ),
            TraceEvent::Leased(at, device, bytes) => write!(
                out,
                ",\n{{\"ph\":\"C\",\"pid\":{},\"ts\":{:.3},\"name\":\"leased memory\",\"args\":{{\"bytes\":{bytes}}}}}",
                pid(*device),
                microseconds(*at)
            ),
        }
    }
}

/// Returns the first row of the span's slot on which nothing overlaps it. Spans come in the order
/// of their ends.
fn place(rows: &mut SlotRows, span: &Span) -> u32 {
    let slots = &mut rows[span.device];
    let slot = span.slot as usize;
    if slots.len() <= slot {
        slots.resize(slot + 1, Vec::new());
    }
    let rows = &mut slots[slot];
    let row = rows.iter().position(|&end| end <= span.begin).unwrap_or_else(|| {
        rows.push(Duration::ZERO);
        rows.len() - 1
    });
    rows[row] = span.end;
    row as u32
}

/// Writes the names of the rows.
fn write_rows(out: &mut dyn Write, rows: &SlotRows) -> io::Result<()> {
    for (device, slots) in rows.iter().enumerate() {
        for (slot, rows) in slots.iter().enumerate() {
            for row in 0..rows.len() {
                let beside = if row == 0 { "" } else { ", lent" };
                let (pid, tid) = (pid(device), tid(device, slot as u32, row as u32));
                write!(
                    out,
                    ",\n{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"thread_name\",\
                     \"args\":{{\"name\":\"slot {slot}{beside}\"}}}}"
                )?;
            }
        }
    }
    Ok(())
}

/// Returns the process id of a device. Viewers take 0 for the kernel.
fn pid(device: usize) -> usize {
    device + 1
}

/// Returns a thread id that is unique in the trace, for viewers. A device has at most 64 slots. A
/// slot has fewer than 65,536 rows, since nested tasks share one stack.
fn tid(device: usize, slot: u32, row: u32) -> u64 {
    ((device as u64 + 1) * 64 + u64::from(slot)) << 16 | u64::from(row)
}

fn truncate(text: &mut String) {
    if text.len() > MAX_LABEL {
        let end = (0..=MAX_LABEL).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
        text.shrink_to_fit();
    }
}

/// Returns microseconds, to be written with three digits after the point.
fn microseconds(time: Duration) -> f64 {
    1e6 * time.as_secs_f64()
}

/// Formats a text as a JSON string.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for letter in self.0.chars() {
            match letter {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                // The last two are line ends in JavaScript, though not in JSON.
                c if c < ' ' || c == '\u{2028}' || c == '\u{2029}' => write!(f, "\\u{:04x}", u32::from(c))?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
}

/// The trace of a scheduler up to a time, and the attempts that ran then.
pub struct Timeline {
    trace: Arc<Trace>,
    running: Vec<Span>,
    /// The numbers of events in the trace, and of those left out.
    count: usize,
    left_out: u64,
}

impl Timeline {
    /// Returns the trace up to now. The planner is locked, so that no attempt ends meanwhile.
    pub(crate) fn new(trace: Arc<Trace>, running: Vec<Span>) -> Self {
        let buffer = lock(&trace.buffer);
        let (count, left_out) = (buffer.events.len(), buffer.left_out);
        drop(buffer);
        Timeline { trace, running, count, left_out }
    }

    /// Writes JSON in the Chrome trace event format, which chrome://tracing and
    /// <https://ui.perfetto.dev> show.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Timeline { trace, running, count, left_out } = self;
        let mut rows = vec![Vec::new(); trace.names.len()];
        let library = Quoted(concat!("gpusched ", env!("CARGO_PKG_VERSION")));
        write!(
            out,
            "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"library\":{library},\"left_out\":{left_out}}},\n\
             \"traceEvents\":["
        )?;
        trace.write_devices(out)?;
        let mut begin = 0;
        while begin < *count {
            let end = (begin + PORTION).min(*count);
            let portion = lock(&trace.buffer).events[begin..end].to_vec();
            portion.iter().try_for_each(|event| trace.write_event(out, event, &mut rows))?;
            begin = end;
        }
        for span in running {
            trace.write_event(out, &TraceEvent::Attempt(span.clone()), &mut rows)?;
        }
        write_rows(out, &rows)?;
        writeln!(out, "\n]}}")
    }

    /// Returns the number of events for which the trace had no room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_take_no_more_memory_than_short_ones() {
        let trace = Trace::new(&[], 1);
        trace.record(TraceEvent::Flag(Duration::ZERO, 0, "x".repeat(1 << 20)));
        let buffer = lock(&trace.buffer);
        assert!(matches!(&buffer.events[..], [TraceEvent::Flag(_, _, text)] if text.capacity() < 200));
    }
}
