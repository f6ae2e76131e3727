//! Whether curves are periodic, and with which period: statistics that noise does not fool.
//!
//! **The curves.** Each point is the median of repeated measurements in random order, so a spike
//! moves no point, and a drift of the machine becomes noise instead of a pattern. The noise of a
//! curve's points is known from two halves of the repetitions.
//!
//! **The period.** A candidate folds the curves: points that lie a multiple of it apart are
//! predicted by their mean. The candidate with the least Bayesian information criterion wins. It
//! weighs the errors that are left, in units of the noise, against the number of means, so neither
//! a multiple of the period nor a part of it wins by chance; a part that explains most of the
//! curve, such as the sub-domains of a device, loses as soon as the rest is more than noise.
//!
//! **Is it real?** Three questions, and the answer is "no period" unless all say yes:
//! 1. Random orders of the same points give so good a criterion at most once in 500.
//! 2. What the period leaves unexplained is noise: at least 70 % of the variance beyond noise goes
//!    by the period. A step or a slope fails here.
//! 3. The effect is worth something: 1 % of the mean at least.

use crate::probe::Random;

/// How many random orders a period is compared with.
const ORDERS: u32 = 499;
/// The most of them that may look as periodic.
const MOST_BETTER: u32 = 1;
/// The part of the variance beyond noise that a period has to explain.
const LEAST_SHARE: f64 = 0.7;
/// The least effect, as a part of the mean.
const LEAST_EFFECT: f64 = 0.01;
/// The fewest repetitions of each point for a verdict.
pub(crate) const LEAST_ROUNDS: usize = 6;

/// Measurements over equal steps of one thing: an offset, or a distance.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// What tells the curve from others beside it: the request length in bytes.
    pub request_bytes: u32,
    /// The median at each step, in nanoseconds.
    pub values: Vec<f64>,
    /// The standard error of the values, in nanoseconds.
    pub noise: f64,
}

/// A period that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Period {
    /// Its length in steps.
    pub steps: usize,
    /// A smaller period inside, of lesser effect.
    pub inner: Option<usize>,
    /// How likely an accident is to look as periodic; not resolved below 0.002.
    pub p_value: f64,
    /// The part of the variance beyond noise that goes by the period, 0 to 1.
    pub share: f64,
    /// The effect on the curve that shows it most: standard deviation by mean.
    pub effect: f64,
}

impl Curve {
    /// The curve of repeated measurements: `samples[step]` holds those of a step in the order in
    /// which they were made.
    pub fn of(request_bytes: u32, samples: &[Vec<f64>]) -> Self {
        let values = samples.iter().map(|all| median(all.clone())).collect();
        let squares = samples.iter().map(|all| {
            let half = |n| median(all.iter().skip(n).step_by(2).copied().collect());
            // Each half has half the repetitions, so the difference has four times the variance.
            ((half(0) - half(1)) / 2.0).powi(2)
        });
        // 0.4549 is the median of the square of a standard normal variable.
        let noise = (median(squares.collect()) / 0.4549).sqrt();
        Curve { request_bytes, values, noise }
    }

    fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len() as f64
    }
}

/// The median; zero of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// The period that all curves share, from 2 steps to half their length.
pub fn find_period(curves: &[Curve], random: &mut Random) -> Option<Period> {
    let points = Points::of(curves)?;
    let identity: Vec<usize> = (0..points.steps).collect();
    let (best, gain) = points.best(&identity);
    let best = best?;
    let mut order = identity.clone();
    let mut better = 0;
    for _ in 0..ORDERS {
        random.shuffle(&mut order);
        better += u32::from(points.best(&order).1 >= gain);
        if better > MOST_BETTER {
            return None;
        }
    }
    let (flat, folded) = (points.left(&identity, 1), points.left(&identity, best));
    let count = points.count();
    let beyond = flat - (count - points.curves.len() as f64);
    let left = folded - (count - (best * points.curves.len()) as f64);
    let share = 1.0 - (left / beyond).clamp(0.0, 1.0);
    let effect = curves.iter().map(|curve| effect(curve, best)).fold(0.0, f64::max);
    if beyond <= 0.0 || share < LEAST_SHARE || effect < LEAST_EFFECT {
        return None;
    }
    let p_value = f64::from(better + 1) / f64::from(ORDERS + 1);
    Some(Period { steps: best, inner: points.inner(best), p_value, share, effect })
}

/// All curves in units of their noise.
struct Points {
    steps: usize,
    curves: Vec<Vec<f64>>,
}

impl Points {
    fn of(curves: &[Curve]) -> Option<Self> {
        let steps = curves.first()?.values.len();
        // A model without noise has an error all the same: that of the clock.
        let scaled = |curve: &Curve| {
            let (mean, noise) = (curve.mean(), curve.noise.max(curve.mean() * 1e-4).max(1.0));
            curve.values.iter().map(|value| (value - mean) / noise).collect::<Vec<_>>()
        };
        let curves: Vec<_> = curves.iter().map(scaled).collect();
        let whole = steps >= 4 && curves.iter().all(|curve| curve.len() == steps);
        whole.then_some(Points { steps, curves })
    }

    fn count(&self) -> f64 {
        (self.steps * self.curves.len()) as f64
    }

    /// The sum of squares that folding by `period` leaves, with the points in this order.
    fn left(&self, order: &[usize], period: usize) -> f64 {
        let mut sums = vec![0.0; period];
        let mut left = 0.0;
        for curve in &self.curves {
            sums.fill(0.0);
            for (at, &step) in order.iter().enumerate() {
                sums[at % period] += curve[step];
                left += curve[step] * curve[step];
            }
            for (phase, sum) in sums.iter().enumerate() {
                let members = (self.steps - phase).div_ceil(period);
                left -= sum * sum / members as f64;
            }
        }
        left.max(0.0)
    }

    /// The best period in this order of points, and how much better than none it is.
    fn best(&self, order: &[usize]) -> (Option<usize>, f64) {
        let means = |period: usize| (period * self.curves.len()) as f64;
        let left: Vec<_> = (1..=self.steps / 2).map(|period| self.left(order, period)).collect();
        // What no period explains counts as noise, too: otherwise the longest would explain it.
        let variance = (1..)
            .zip(&left)
            .map(|(period, left)| left / (self.count() - means(period)))
            .fold(f64::INFINITY, f64::min)
            .max(1.0);
        let weight = self.count().ln();
        let gain = |period: usize| {
            (left[0] - left[period - 1]) / variance - (means(period) - means(1)) * weight
        };
        (2..=self.steps / 2)
            .map(|period| (Some(period), gain(period)))
            .fold((None, 0.0), |best, other| if other.1 > best.1 { other } else { best })
    }

    /// The smaller period inside of one: the folded curve stands out most at one step, and to the
    /// same side at all steps that are a multiple of the smaller period away from it, only there.
    fn inner(&self, period: usize) -> Option<usize> {
        let mut profile = vec![0.0; period];
        for curve in &self.curves {
            for (step, value) in curve.iter().enumerate() {
                let members = (self.steps - step % period).div_ceil(period) as f64;
                profile[step % period] += value / members;
            }
        }
        let middle = median(profile.clone());
        profile.iter_mut().for_each(|value| *value -= middle);
        let far = |&a: &usize, &b: &usize| profile[a].abs().total_cmp(&profile[b].abs());
        let most = (0..period).max_by(far)?;
        let side = |away: &usize| profile[(most + away) % period] / profile[most] > 0.2;
        let like: Vec<_> = (1..period).filter(side).collect();
        let part = like.iter().fold(period, |part, &at| gcd(part, at));
        let all_there = like.len() + 1 == period / part;
        (part > 1 && part < period && all_there).then_some(part)
    }
}

/// The standard deviation that goes by the period, beyond noise, by the mean.
fn effect(curve: &Curve, period: usize) -> f64 {
    let Some(points) = Points::of(std::slice::from_ref(curve)) else { return 0.0 };
    let identity: Vec<usize> = (0..points.steps).collect();
    let explained = points.left(&identity, 1) - points.left(&identity, period);
    let beyond = (explained - (period - 1) as f64).max(0.0) / points.count();
    let noise = curve.noise.max(curve.mean() * 1e-4).max(1.0);
    beyond.sqrt() * noise / curve.mean().max(1.0)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Curves of this shape under noise, each point measured `rounds` times; one time in fifty the
    /// machine does something else.
    fn noisy(
        steps: usize,
        noise: f64,
        rounds: usize,
        seed: u64,
        shape: impl Fn(usize) -> f64,
    ) -> Vec<Curve> {
        let mut random = Random::new(seed);
        let mut samples = vec![Vec::new(); steps];
        for (step, all) in samples.iter_mut().enumerate() {
            for _ in 0..rounds {
                let bell: f64 = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
                let spike = if random.below(50) == 0 { 500.0 * random.unit() } else { 0.0 };
                all.push(100.0 + shape(step) + noise * bell + spike);
            }
        }
        vec![Curve::of(4096, &samples)]
    }

    fn found(curves: &[Curve]) -> Option<usize> {
        find_period(curves, &mut Random::new(3)).map(|period| period.steps)
    }

    #[test]
    fn a_period_shows_under_noise_as_large_as_itself() {
        for period in [2, 3, 5, 8, 20, 32, 47, 64] {
            for seed in 0..4 {
                let dip = |step: usize| if step.is_multiple_of(period) { 15.0 } else { 0.0 };
                let curves = noisy(256, 15.0, 200, seed, dip);
                assert_eq!(found(&curves), Some(period), "seed {seed}");
            }
        }
    }

    #[test]
    fn noise_steps_slopes_and_single_bumps_are_no_period() {
        let mut wrong = Vec::new();
        for seed in 0..100 {
            wrong.extend(found(&noisy(128, 10.0, 20, seed, |_| 0.0)));
        }
        assert!(wrong.len() <= 1, "{wrong:?}");
        for seed in 0..5 {
            assert_eq!(found(&noisy(256, 5.0, 50, seed, |s| s as f64)), None, "a slope");
            let step = |s| if s < 100 { 20.0 } else { 0.0 };
            assert_eq!(found(&noisy(256, 5.0, 50, seed, step)), None, "a step");
            let bump = |s: usize| if s.abs_diff(90) < 8 { 20.0 } else { 0.0 };
            assert_eq!(found(&noisy(256, 5.0, 50, seed, bump)), None, "a bump");
        }
    }

    #[test]
    fn an_effect_below_one_percent_is_not_told_of() {
        let shape = |height: f64| move |s: usize| if s % 8 < 4 { height } else { 0.0 };
        assert_eq!(found(&noisy(256, 1.0, 200, 1, shape(1.0))), None);
        assert_eq!(found(&noisy(256, 1.0, 200, 1, shape(3.0))), Some(8));
    }

    #[test]
    fn a_smaller_period_inside_does_not_win() {
        let two = |s: usize| match s % 20 {
            0 => 30.0,
            10 => 15.0,
            _ => 0.0,
        };
        for seed in 0..5 {
            let period = find_period(&noisy(80, 10.0, 50, seed, two), &mut Random::new(1));
            let found = period.map(|p| (p.steps, p.inner));
            assert_eq!(found, Some((20, Some(10))), "seed {seed}: {period:?}");
        }
        let one = |s: usize| if s.is_multiple_of(20) { 30.0 } else { 0.0 };
        let period = find_period(&noisy(80, 10.0, 50, 9, one), &mut Random::new(1));
        assert_eq!(period.map(|p| (p.steps, p.inner)), Some((20, None)));
    }

    #[test]
    fn curves_support_each_other() {
        let mut curves = noisy(256, 10.0, 40, 1, |_| 0.0);
        curves.extend(noisy(256, 10.0, 40, 2, |s| if s % 16 < 4 { 8.0 } else { 0.0 }));
        curves.extend(noisy(256, 10.0, 40, 3, |s| if s % 16 < 8 { 8.0 } else { 0.0 }));
        assert_eq!(found(&curves), Some(16));
    }

    #[test]
    fn nothing_and_too_little_are_no_period() {
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[Curve { request_bytes: 1, values: vec![1.0; 3], noise: 0.0 }]), None);
        assert_eq!(found(&[Curve { request_bytes: 1, values: vec![9.0; 64], noise: 0.0 }]), None);
        assert_eq!(median(Vec::new()), 0.0);
        assert_eq!((median(vec![3.0, 1.0, 2.0]), median(vec![4.0, 1.0])), (2.0, 2.5));
    }
}
