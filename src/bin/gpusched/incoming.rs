//! Reads lists of shots from standard input while a survey runs.

use std::collections::BTreeSet;
use std::io::{self, BufRead};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use gpusched::{Error, Result};

use crate::part::Part;

pub struct Incoming {
    lines: Receiver<io::Result<Vec<u8>>>,
    /// Number of shots of the survey.
    shots: usize,
}

/// Result of a wait for the next list.
pub enum Arrival {
    Shots(BTreeSet<usize>),
    Refused(Error),
    Nothing,
    /// The input is closed.
    End,
}

impl Incoming {
    /// Starts reading the lines of standard input.
    pub fn open(shots: usize) -> Result<Incoming> {
        let (sender, lines) = mpsc::channel();
        let read = move || {
            for line in io::stdin().lock().split(b'\n') {
                let is_last = line.is_err();
                if sender.send(line).is_err() || is_last {
                    return;
                }
            }
        };
        let reader = thread::Builder::new().name("standard input".into()).spawn(read);
        reader.map_err(|why| Error::Internal(format!("no thread for standard input: {why}")))?;
        Ok(Incoming { lines, shots })
    }

    /// Returns the next list; waits for it at most `wait`. A blank line is an empty list.
    pub fn next(&self, wait: Duration) -> Arrival {
        let line = match self.lines.recv_timeout(wait) {
            Ok(Ok(line)) => String::from_utf8_lossy(&line).into_owned(),
            Ok(Err(why)) => return Arrival::Refused(Error::io("read", "standard input".as_ref(), why)),
            Err(RecvTimeoutError::Timeout) => return Arrival::Nothing,
            Err(RecvTimeoutError::Disconnected) => return Arrival::End,
        };
        if line.trim().is_empty() {
            return Arrival::Shots(BTreeSet::new());
        }
        let numbers = Part::parse("standard input", &line).and_then(|part| part.numbers(self.shots));
        numbers.map_or_else(Arrival::Refused, Arrival::Shots)
    }
}
