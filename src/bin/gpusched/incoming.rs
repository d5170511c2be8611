//! Reads lists of shots from standard input while a survey runs.

use std::collections::BTreeSet;
use std::io::{self, BufRead};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use gpusched::{Error, Result};

use crate::part::Part;

/// Number of lines that are read ahead.
const AHEAD: usize = 256;

pub struct Incoming {
    lines: Receiver<io::Result<Vec<u8>>>,
    /// Numbers of the last list that have not been taken.
    numbers: BTreeSet<usize>,
    /// Number of shots of the survey.
    shots: usize,
}

/// Result of a wait for the next shot.
pub enum Arrival {
    Shot(usize),
    /// A list is not valid.
    Refused(Error),
    Nothing,
    /// The input is closed.
    End,
}

impl Incoming {
    /// Starts reading the lines of standard input.
    pub fn open(shots: usize) -> Result<Incoming> {
        let (sender, lines) = mpsc::sync_channel(AHEAD);
        let read = move || {
            for line in io::stdin().lock().split(b'\n') {
                let is_last = line.is_err();
                if sender.send(line).is_err() || is_last {
                    return;
                }
            }
        };
        let reader = thread::Builder::new().name("standard input".into()).spawn(read);
        let purpose = "to read standard input";
        reader.map_err(|why| Error::NoThread { purpose, why: why.to_string() })?;
        Ok(Incoming { lines, numbers: BTreeSet::new(), shots })
    }

    /// Returns the next shot; waits for it at most `wait`. A blank line is an empty list.
    pub fn next(&mut self, wait: Duration) -> Arrival {
        loop {
            if let Some(number) = self.numbers.pop_first() {
                return Arrival::Shot(number);
            }
            let line = match self.lines.recv_timeout(wait) {
                Ok(Ok(line)) => String::from_utf8_lossy(&line).into_owned(),
                Ok(Err(why)) => return Arrival::Refused(Error::io("read", "standard input".as_ref(), why)),
                Err(RecvTimeoutError::Timeout) => return Arrival::Nothing,
                Err(RecvTimeoutError::Disconnected) => return Arrival::End,
            };
            if line.trim().is_empty() {
                return Arrival::Nothing;
            }
            match Part::parse("standard input", &line).and_then(|part| part.numbers(self.shots)) {
                Ok(numbers) => self.numbers = numbers,
                Err(why) => return Arrival::Refused(why),
            }
        }
    }
}
