//! The arrival numbers of tasks that have not ended.

use std::collections::VecDeque;

/// A set of arrival numbers, which come in order and leave in nearly the same order. It takes a bit for
/// each number from the first that is left: 125 MB where 1e9 tasks end beside one that runs on.
#[derive(Default)]
pub struct Unended {
    /// The first word has a bit that is set.
    words: VecDeque<u64>,
    /// The position of the first word.
    begin: u64,
}

impl Unended {
    /// Adds a number larger than all before.
    pub fn insert(&mut self, arrival: u64) {
        if self.words.is_empty() {
            self.begin = arrival / 64;
        }
        let word = (arrival / 64 - self.begin) as usize;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (arrival % 64);
    }

    pub fn remove(&mut self, arrival: u64) {
        let word = (arrival / 64).checked_sub(self.begin).and_then(|word| self.words.get_mut(word as usize));
        if let Some(word) = word {
            *word &= !(1 << (arrival % 64));
        }
        while self.words.front() == Some(&0) {
            self.words.pop_front();
            self.begin += 1;
        }
    }

    pub fn first(&self) -> Option<u64> {
        let word = self.words.front()?;
        Some(self.begin * 64 + u64::from(word.trailing_zeros()))
    }

    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_is_the_least_that_is_left() {
        let (mut unended, mut left) = (Unended::default(), std::collections::BTreeSet::new());
        for step in 0..2000_u64 {
            // Some numbers never come; now and then none is left.
            if step % 7 != 3 {
                unended.insert(step);
                left.insert(step);
            }
            let removed = if step % 500 == 499 { step } else { step * 31 % 97 / 40 };
            for _ in 0..removed {
                let position = (step as usize * 13) % left.len().max(1);
                let Some(&number) = left.iter().nth(position) else { break };
                unended.remove(number);
                left.remove(&number);
            }
            assert_eq!((unended.first(), unended.len()), (left.first().copied(), left.len()));
        }
    }
}
