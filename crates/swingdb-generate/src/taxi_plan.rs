//! What one taxi does during one block of time: a list of legs.
//!
//! A day is cut into blocks of about two hours. Where a taxi is at the start of a block (its
//! *anchor*) is a function of seed, taxi and block alone, and the plan of a block ends at the
//! anchor of the next. So blocks can be made in any order and in parallel, and still no taxi ever
//! jumps.
//!
//! Inside a block a taxi waits for work, drives empty to a passenger, carries it, sets it down, and
//! so on as long as it can still reach its next anchor. The `occupied` flag flips while the car
//! stands, at the pick-up and the drop-off.

use super::city::{
    HALF_HEIGHT_M, HALF_WIDTH_M, HotSpot, Point, STREET_SPACING_M, demand, street_speed,
};
use super::random::{Sequence, hash};

/// Length of a block that the plans aim at, seconds: long enough to cross the city in the rush
/// hour.
pub(super) const BLOCK_S: u32 = 7_200;

/// A car stops and goes with this period, seconds.
const STOP_AND_GO_S: f32 = 75.0;
/// Entries of the stop-and-go table for one period.
const PROFILE_STEPS: usize = 256;

/// Streams of random numbers by purpose.
const STREAM_PLAN: u64 = 0x91A5;
const STREAM_ANCHOR: u64 = 0xA5C0;

/// Distance and speed of a car over one period of stop-and-go traffic, for average speed 1.
pub(super) struct Profile {
    distance: [f32; PROFILE_STEPS + 1],
    speed: [f32; PROFILE_STEPS + 1],
}

impl Profile {
    /// Accelerates for 10 s, drives for 40 s, brakes for 8 s, and waits at a light for 17 s.
    pub(super) fn new() -> Self {
        let speed_at = |second: f32| match second {
            s if s < 10.0 => s / 10.0,
            s if s < 50.0 => 1.0,
            s if s < 58.0 => (58.0 - s) / 8.0,
            _ => 0.0,
        };
        let mut profile =
            Self { distance: [0.0; PROFILE_STEPS + 1], speed: [0.0; PROFILE_STEPS + 1] };
        let step_s = STOP_AND_GO_S / PROFILE_STEPS as f32;
        for i in 0..=PROFILE_STEPS {
            profile.speed[i] = speed_at(i as f32 * step_s);
            if i > 0 {
                let mean = (profile.speed[i] + profile.speed[i - 1]) / 2.0;
                profile.distance[i] = profile.distance[i - 1] + mean;
            }
        }
        let total = profile.distance[PROFILE_STEPS];
        for i in 0..=PROFILE_STEPS {
            profile.distance[i] /= total;
            profile.speed[i] *= PROFILE_STEPS as f32 / total;
        }
        profile
    }

    /// Periods' worth of distance after `periods` of time, and the speed then relative to the
    /// average.
    #[inline]
    fn at(&self, periods: f32) -> (f32, f32) {
        let whole = periods.floor();
        let place = (periods - whole) * PROFILE_STEPS as f32;
        let index = (place as usize).min(PROFILE_STEPS - 1);
        let part = place - index as f32;
        let (low, high) = (self.distance[index], self.distance[index + 1]);
        let (slow, fast) = (self.speed[index], self.speed[index + 1]);
        (whole + low + (high - low) * part, slow + (fast - slow) * part)
    }
}

/// A stretch of one taxi's time: it drives from here to there along two streets, or stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Leg {
    /// When the leg is over, seconds since the block began.
    pub(super) end_s: f32,
    from: Point,
    to: Point,
    /// Metres in one stop-and-go period; 0 for a car that stands.
    pace_m: f32,
    /// Where in its stop-and-go period the car is when the block begins.
    phase: f32,
    /// Profile distance at the start of the leg.
    offset: f32,
    along_x_first: bool,
    /// Whether a passenger is on board.
    pub(super) occupied: bool,
}

/// Where a car is and what it does at one moment.
pub(super) struct Moment {
    pub(super) place: Point,
    pub(super) speed_kmh: f32,
    /// Degrees clockwise from the city's "north": 0, 90, 180 or 270.
    pub(super) heading: i16,
}

impl Leg {
    /// The state of the car `second` seconds after the block began; within this leg.
    #[inline]
    pub(super) fn at(&self, second: f32, profile: &Profile) -> Moment {
        let (periods, relative) = profile.at(second * (1.0 / STOP_AND_GO_S) + self.phase);
        let driven_m = self.pace_m * (periods - self.offset);
        let (dx, dy) = (self.to.x - self.from.x, self.to.y - self.from.y);
        let first_m = if self.along_x_first { dx.abs() } else { dy.abs() };
        let on_first = driven_m < first_m;
        let along = if on_first { driven_m } else { driven_m - first_m };
        let along_x = on_first == self.along_x_first;
        let place = if along_x {
            let y = if self.along_x_first { self.from.y } else { self.to.y };
            Point { x: self.from.x + along.min(dx.abs()).copysign(dx), y }
        } else {
            let x = if self.along_x_first { self.to.x } else { self.from.x };
            Point { x, y: self.from.y + along.min(dy.abs()).copysign(dy) }
        };
        let heading = match (along_x, dx < 0.0, dy < 0.0) {
            (true, false, _) => 90,
            (true, true, _) => 270,
            (false, _, false) => 0,
            (false, _, true) => 180,
        };
        let speed_kmh = self.pace_m * relative * (3.6 / STOP_AND_GO_S);
        Moment { place, speed_kmh, heading }
    }
}

/// Makes plans for one seed.
pub(super) struct Planner {
    seed: u64,
    spots: Vec<HotSpot>,
    /// Running sums of the spots' weights.
    cumulative: Vec<f32>,
    profile: Profile,
    block_s: f32,
    /// Second of the day at which block 0 begins.
    origin_s: u64,
}

impl Planner {
    pub(super) fn new(seed: u64, spots: Vec<HotSpot>, block_s: u32, origin_s: u64) -> Self {
        assert!(!spots.is_empty(), "a city has hot spots");
        let mut sum = 0.0;
        let cumulative = spots
            .iter()
            .map(|spot| {
                sum += spot.weight as f32;
                sum
            })
            .collect();
        let profile = Profile::new();
        Self { seed, spots, cumulative, profile, block_s: block_s as f32, origin_s }
    }

    pub(super) fn profile(&self) -> &Profile {
        &self.profile
    }

    fn any_spot(&self, random: &mut Sequence) -> usize {
        let draw = random.between(0.0, 1.0);
        let found = self.cumulative.iter().position(|sum| draw < *sum);
        found.unwrap_or(self.spots.len() - 1)
    }

    fn around(&self, spot: usize, random: &mut Sequence) -> Point {
        let HotSpot { centre, spread_m, .. } = &self.spots[spot];
        let x = centre.x + random.normal() * spread_m;
        let y = centre.y + random.normal() * spread_m;
        Point { x, y }.on_street(random.bits() & 1 == 0)
    }

    /// Where `taxi` is when `block` begins: near the spot it calls home.
    fn anchor(&self, taxi: u32, block: u64) -> Point {
        let mut home = Sequence::new(self.seed ^ STREAM_ANCHOR, u64::from(taxi));
        let first = self.any_spot(&mut home);
        let second = self.any_spot(&mut home);
        let key = hash(u64::from(taxi), block);
        let mut random = Sequence::new(self.seed ^ STREAM_ANCHOR ^ 1, key);
        let spot = if random.bits().is_multiple_of(3) { second } else { first };
        self.around(spot, &mut random)
    }

    fn pick_up(&self, here: Point, random: &mut Sequence) -> Point {
        if random.between(0.0, 1.0) < 0.12 {
            let x = here.x + random.between(-2_000.0, 2_000.0);
            let y = here.y + random.between(-2_000.0, 2_000.0);
            return Point { x, y }.on_street(random.bits() & 1 == 0);
        }
        let (a, b) = (self.any_spot(random), self.any_spot(random));
        let nearer = |spot: usize| self.spots[spot].centre.street_distance(here);
        self.around(if nearer(a) <= nearer(b) { a } else { b }, random)
    }

    fn drop_off(&self, from: Point, random: &mut Sequence) -> Point {
        let mut place = from;
        for _ in 0..4 {
            place = if random.between(0.0, 1.0) < 0.7 {
                let spot = self.any_spot(random);
                self.around(spot, random)
            } else {
                let x = random.between(-HALF_WIDTH_M, HALF_WIDTH_M);
                let y = random.between(-HALF_HEIGHT_M, HALF_HEIGHT_M);
                Point { x, y }.on_street(random.bits() & 1 == 0)
            };
            if (1_500.0..9_000.0).contains(&from.street_distance(place)) {
                break;
            }
        }
        place
    }

    /// Appends the legs of `taxi` during `block` to `legs`; the last one ends with the block.
    pub(super) fn plan(&self, taxi: u32, block: u64, legs: &mut Vec<Leg>) {
        let key = hash(u64::from(taxi), block);
        let random = Sequence::new(self.seed ^ STREAM_PLAN, key);
        let day_s = ((self.origin_s + block * self.block_s as u64) % 86_400) as u32;
        let here = self.anchor(taxi, block);
        let goal = self.anchor(taxi, block + 1);
        let mut trip = Trip { planner: self, random, legs, now_s: 0.0, here, day_s };
        while trip.serve(goal) {}
        let left_s = self.block_s - trip.now_s;
        let home_s = trip.driving_time(trip.here, goal, 1.0).min(left_s);
        trip.drive(goal, home_s, false);
        trip.stand((self.block_s - trip.now_s).max(0.0), false);
        // Rounding must not leave a gap before the next block.
        if let Some(last) = legs.last_mut() {
            last.end_s = f32::INFINITY;
        }
    }
}

/// A plan in the making.
struct Trip<'a> {
    planner: &'a Planner,
    random: Sequence,
    legs: &'a mut Vec<Leg>,
    now_s: f32,
    here: Point,
    day_s: u32,
}

impl Trip<'_> {
    fn second_of_day(&self) -> u32 {
        self.day_s + self.now_s as u32
    }

    /// Seconds for the way at the speed of this hour; long ways lead over faster streets.
    fn driving_time(&self, from: Point, to: Point, haste: f32) -> f32 {
        let distance_m = from.street_distance(to);
        let highway = 1.0 + (distance_m / 40_000.0).min(0.3);
        distance_m / (street_speed(self.second_of_day()) * highway * haste)
    }

    fn stand(&mut self, duration_s: f32, occupied: bool) {
        self.now_s += duration_s;
        let (from, to) = (self.here, self.here);
        self.legs.push(Leg { end_s: self.now_s, from, to, occupied, ..Leg::default() });
    }

    /// Drives to `to`, arriving exactly after `duration_s`.
    fn drive(&mut self, to: Point, duration_s: f32, occupied: bool) {
        let distance_m = self.here.street_distance(to);
        if distance_m < 1.0 || duration_s <= 0.0 {
            self.here = to;
            return;
        }
        let profile = &self.planner.profile;
        let phase = self.random.between(0.0, 1.0);
        let start = profile.at(self.now_s / STOP_AND_GO_S + phase).0;
        let end = profile.at((self.now_s + duration_s) / STOP_AND_GO_S + phase).0;
        // A short leg that lies within one red light would need an infinite pace.
        let periods = (end - start).max(duration_s / STOP_AND_GO_S * 0.5);
        self.now_s += duration_s;
        self.legs.push(Leg {
            end_s: self.now_s,
            from: self.here,
            to,
            pace_m: distance_m / periods,
            phase,
            offset: start,
            along_x_first: self.random.bits() & 1 == 0,
            occupied,
        });
        self.here = to;
    }

    /// Finds and serves one passenger; false when there is no time for another before `goal`.
    fn serve(&mut self, goal: Point) -> bool {
        let quiet = 1.0 - demand(self.second_of_day());
        let idle = self.random.between(0.0, 1.0);
        let wait_s = 10.0 + 60.0 * idle + 2_400.0 * quiet * quiet * idle * idle;
        let from = self.planner.pick_up(self.here, &mut self.random);
        let to = self.planner.drop_off(from, &mut self.random);
        if from.street_distance(to) < 2.0 * STREET_SPACING_M {
            // Nobody takes a taxi for that; the draw is lost, the time is not.
            self.stand(wait_s.min(60.0), false);
            return self.now_s + self.driving_time(self.here, goal, 0.8) < self.planner.block_s;
        }
        let haste = self.random.between(0.8, 1.25);
        let boarding_s = self.random.between(16.0, 40.0);
        let paying_s = self.random.between(16.0, 40.0);
        let empty_s = self.driving_time(self.here, from, haste);
        let trip_s = self.driving_time(from, to, haste);
        let home_s = self.driving_time(to, goal, 0.75);
        let total_s = wait_s + empty_s + boarding_s * 2.0 + trip_s + paying_s * 2.0;
        if self.now_s + total_s + home_s > self.planner.block_s {
            return false;
        }
        self.stand(wait_s, false);
        self.drive(from, empty_s, false);
        self.stand(boarding_s, false);
        self.stand(boarding_s, true);
        self.drive(to, trip_s, true);
        self.stand(paying_s, true);
        self.stand(paying_s, false);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::city::hot_spots;
    use super::*;

    fn planner() -> Planner {
        Planner::new(42, hot_spots(42), BLOCK_S, 7 * 3600)
    }

    #[test]
    fn a_taxi_never_jumps() {
        let planner = planner();
        let mut last: Option<Point> = None;
        for block in 0..6 {
            let mut legs = Vec::new();
            planner.plan(17, block, &mut legs);
            let mut leg = 0;
            for second in 0..BLOCK_S {
                let second = second as f32;
                while second >= legs[leg].end_s {
                    leg += 1;
                }
                let now = legs[leg].at(second, planner.profile());
                if let Some(last) = last {
                    let step_m = now.place.street_distance(last);
                    assert!(step_m < 45.0, "block {block} second {second}: {step_m} m");
                }
                assert!(now.speed_kmh >= 0.0 && now.speed_kmh < 140.0, "{}", now.speed_kmh);
                last = Some(now.place);
            }
        }
    }

    #[test]
    fn speed_is_the_derivative_of_the_position() {
        let planner = planner();
        let mut legs = Vec::new();
        planner.plan(3, 1, &mut legs);
        let leg = legs.iter().find(|leg| leg.occupied && leg.pace_m > 0.0).copied().unwrap();
        let mut second = leg.end_s - 60.0;
        while second < leg.end_s - 2.0 {
            let a = leg.at(second, planner.profile());
            let b = leg.at(second + 0.5, planner.profile());
            let measured = a.place.street_distance(b.place) * 2.0 * 3.6;
            let stated = (a.speed_kmh + b.speed_kmh) / 2.0;
            assert!((measured - stated).abs() < 3.0, "{measured} {stated}");
            second += 0.5;
        }
    }

    #[test]
    fn passengers_board_and_leave_while_the_car_stands() {
        let planner = planner();
        let mut trips = 0;
        for taxi in 0..200 {
            let mut legs = Vec::new();
            planner.plan(taxi, 2, &mut legs);
            for pair in legs.windows(2) {
                if pair[0].occupied != pair[1].occupied {
                    assert!(pair[0].pace_m == 0.0 && pair[1].pace_m == 0.0);
                    trips += 1;
                }
            }
        }
        assert!(trips / 2 > 200, "{trips} flips");
    }
}
