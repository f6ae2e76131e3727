//! YCSB's choice of keys: few are popular.

/// YCSB's zipfian distribution (Gray and others, SIGMOD 1994), of exponent 0.99.
pub struct Zipf {
    count: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    /// Over so many ranks.
    pub fn new(count: u64) -> Self {
        const THETA: f64 = 0.99;
        let zeta_of = |n: u64| (1..=n).map(|i| (i as f64).powf(-THETA)).sum::<f64>();
        let (zeta, first) = (zeta_of(count), zeta_of(2));
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - THETA)) / (1.0 - first / zeta);
        Zipf { count: count as f64, alpha: 1.0 / (1.0 - THETA), zeta, eta }
    }

    /// The next rank, from 0 on.
    pub fn next(&self, random: &mut fastrand::Rng) -> u64 {
        let u = random.f64();
        let scaled = u * self.zeta;
        if scaled < 1.0 {
            0
        } else if scaled < 1.0 + 0.5_f64.powf(0.99) {
            1
        } else {
            let at = self.count * (self.eta * u - self.eta + 1.0).powf(self.alpha);
            (at as u64).min(self.count as u64 - 1)
        }
    }
}
