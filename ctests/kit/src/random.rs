//! Random numbers that are the same on every run.

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    #[allow(clippy::should_implement_trait)] // it never ends
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number from 0 up to, but not including, `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.unit() * end as f64) as usize
    }

    pub fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit() as f32
    }

    pub fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    pub fn cell(&mut self, n: [usize; 3]) -> [usize; 3] {
        n.map(|n| self.below(n))
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        bytes.iter_mut().for_each(|byte| *byte = (self.next() >> 32) as u8);
    }
}

pub fn noise(n: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..n).map(|_| random.between(-1.0, 1.0)).collect()
}
