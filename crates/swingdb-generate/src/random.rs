//! Counter-based random numbers: a value is a function of what it is for, not of what was drawn
//! before.
//!
//! The mixer is SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
//! OOPSLA 2014). Normal deviates are sums of uniform ones (Irwin-Hall), which needs no logarithm
//! and so gives the same bits on every platform.

/// Scrambles 64 bits; a bijection.
#[inline]
pub(super) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The random number belonging to `key` in the stream `seed`.
#[inline]
pub(super) fn hash(seed: u64, key: u64) -> u64 {
    mix(seed ^ mix(key))
}

/// A uniform deviate in `[0, 1)` from the upper bits of `bits`.
#[inline]
pub(super) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// An approximately normal deviate, mean 0, standard deviation 1, limited to about 3.5.
#[inline]
pub(super) fn normal(bits: u64) -> f32 {
    const SCALE: f32 = 1.0 / 65_536.0;
    // The sum of four uniform deviates has variance 4/12.
    const INVERSE_DEVIATION: f32 = 1.732_050_8;
    let sum = (bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48);
    (sum as f32 * SCALE - 2.0) * INVERSE_DEVIATION
}

/// A short sequence of numbers for one purpose.
pub(super) struct Sequence {
    state: u64,
}

impl Sequence {
    /// The sequence of `key` in the stream `seed`.
    pub(super) fn new(seed: u64, key: u64) -> Self {
        Self { state: hash(seed, key) }
    }

    /// The next 64 bits.
    pub(super) fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
    }

    /// Uniform in `[low, high)`.
    pub(super) fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * unit(self.bits()) as f32
    }

    /// See [`normal`].
    pub(super) fn normal(&mut self) -> f32 {
        normal(self.bits())
    }

    /// Uniform in `0..count`; `count` must not be zero.
    #[cfg(test)]
    pub(super) fn below(&mut self, count: usize) -> usize {
        assert!(count > 0, "an empty range has no elements to draw");
        ((u128::from(self.bits()) * count as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviates_have_the_promised_moments() {
        let mut sequence = Sequence::new(7, 1);
        let count = 100_000;
        let (mut sum, mut squares, mut units) = (0.0f64, 0.0f64, 0.0f64);
        for _ in 0..count {
            let n = f64::from(sequence.normal());
            sum += n;
            squares += n * n;
            let u = unit(sequence.bits());
            assert!((0.0..1.0).contains(&u));
            units += u;
        }
        let count = f64::from(count);
        assert!((sum / count).abs() < 0.02, "mean {}", sum / count);
        assert!((squares / count - 1.0).abs() < 0.02, "variance {}", squares / count);
        assert!((units / count - 0.5).abs() < 0.01);
    }

    #[test]
    fn below_covers_its_range_evenly() {
        let mut sequence = Sequence::new(1, 2);
        let mut seen = [0u32; 7];
        for _ in 0..70_000 {
            seen[sequence.below(7)] += 1;
        }
        assert!(seen.iter().all(|n| (9_000..11_000).contains(n)), "{seen:?}");
    }

    #[test]
    fn streams_differ() {
        assert_ne!(hash(1, 2), hash(2, 1));
        assert_ne!(Sequence::new(1, 1).bits(), Sequence::new(1, 2).bits());
    }
}
