//! Detects races in a block's shared memory: records the accesses of each word since the last
//! barrier.

/// Stands for several readers, in place of a thread.
const ANY: u32 = u32::MAX;

/// A word of four bytes. Phases are the intervals between barriers, counted over all blocks of a
/// host thread.
#[derive(Clone, Copy, Default)]
struct Word {
    written: u32,
    writer: u32,
    read: u32,
    reader: u32,
}

pub(super) enum Wrong {
    Unwritten,
    Written(u32),
    /// Thread that has read the word since the last barrier; `None`: several threads.
    Read(Option<u32>),
}

#[derive(Default)]
pub(in crate::ptx) struct Watch {
    words: Vec<Word>,
    phase: u32,
    begin: u32,
}

impl Watch {
    pub fn new(bytes: usize) -> Self {
        Watch { words: vec![Word::default(); bytes.div_ceil(4)], ..Watch::default() }
    }

    pub fn block(&mut self) {
        self.phase += 1;
        self.begin = self.phase;
    }

    pub fn barrier(&mut self) {
        self.phase += 1;
    }

    /// Checks and records that a thread reads or writes `bytes` bytes (4 or more) from `at` on, all
    /// inside.
    #[inline]
    pub(super) fn touch(&mut self, at: usize, bytes: usize, thread: u32, store: bool) -> Result<(), Wrong> {
        let (phase, begin) = (self.phase, self.begin);
        for word in &mut self.words[at / 4..(at + bytes).div_ceil(4)] {
            let others = word.written == phase && word.writer != thread;
            if others {
                return Err(Wrong::Written(word.writer));
            }
            if store {
                if word.read == phase && word.reader != thread {
                    return Err(Wrong::Read((word.reader != ANY).then_some(word.reader)));
                }
                (word.written, word.writer) = (phase, thread);
            } else {
                if word.written < begin {
                    return Err(Wrong::Unwritten);
                }
                let several = word.read == phase && word.reader != thread;
                (word.read, word.reader) = (phase, if several { ANY } else { thread });
            }
        }
        Ok(())
    }
}
