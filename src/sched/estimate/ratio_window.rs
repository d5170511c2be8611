//! The last ratios of taken to expected seconds of a class, and their trimmed mean.

use std::collections::VecDeque;

/// The last ratios.
#[derive(Debug, Default)]
pub struct RatioWindow {
    /// In the order of their arrival.
    ratios: VecDeque<f64>,
    sorted: Vec<f64>,
}

impl RatioWindow {
    /// Adds a ratio to the last `most - 1`.
    pub fn push(&mut self, ratio: f64, most: usize) {
        if self.ratios.len() >= most
            && let Some(oldest) = self.ratios.pop_front()
        {
            self.sorted.remove(self.place(oldest));
        }
        self.ratios.push_back(ratio);
        self.sorted.insert(self.place(ratio), ratio);
    }

    /// Returns the mean without the fifth at either end. `None`: fewer than three ratios.
    pub fn trimmed_mean(&self) -> Option<f64> {
        self.kept().map(|kept| kept.iter().sum::<f64>() / kept.len() as f64)
    }

    /// Returns the largest ratio in [`RatioWindow::trimmed_mean`].
    pub fn trimmed_most(&self) -> Option<f64> {
        self.kept().and_then(|kept| kept.last().copied())
    }

    fn kept(&self) -> Option<&[f64]> {
        let cut = self.sorted.len() / 5;
        (self.sorted.len() >= 3).then(|| &self.sorted[cut..self.sorted.len() - cut])
    }

    fn place(&self, ratio: f64) -> usize {
        self.sorted.partition_point(|other| other.total_cmp(&ratio).is_lt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_keeps_the_last_ratios_in_order() {
        let mut window = RatioWindow::default();
        for number in 0..100 {
            window.push(f64::from(number * 37 % 100), 32);
            let mut last = Vec::from_iter(window.ratios.iter().copied());
            last.sort_by(f64::total_cmp);
            assert_eq!(last, window.sorted);
        }
        assert_eq!(window.sorted.len(), 32);
    }
}
