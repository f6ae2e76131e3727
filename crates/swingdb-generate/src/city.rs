//! The made-up city in which the taxis drive: its place on the map, its streets and its hot spots.
//!
//! Positions inside the city are metres east and north of its centre, along a street grid that is
//! turned a little against the compass. [`Point::to_degrees`] turns them into longitude and
//! latitude by the local flat projection, exact to a few metres at this size.

use super::random::{Sequence, hash};

/// Longitude of the city's centre, degrees.
pub const CENTRE_LONGITUDE: f64 = 114.06;
/// Latitude of the city's centre, degrees.
pub const CENTRE_LATITUDE: f64 = 22.55;
/// Half the city's extent along its long axis, metres.
pub const HALF_WIDTH_M: f32 = 11_000.0;
/// Half the city's extent along its short axis, metres.
pub const HALF_HEIGHT_M: f32 = 6_000.0;
/// Distance between neighbouring streets, metres.
pub const STREET_SPACING_M: f32 = 200.0;

const METRES_PER_DEGREE_LATITUDE: f64 = 110_760.0;
/// At the centre's latitude.
const METRES_PER_DEGREE_LONGITUDE: f64 = 102_860.0;
/// Cosine and sine of the angle (12 degrees) between the long axis and due east.
const TURN_COS: f64 = 0.978_147_600_733_805_6;
const TURN_SIN: f64 = 0.207_911_690_817_759_34;
/// The same angle in whole degrees, for headings.
pub(super) const TURN_DEGREES: i16 = 12;

/// A place in the city's own axes, metres from its centre.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Along the long axis.
    pub x: f32,
    /// Along the short axis.
    pub y: f32,
}

impl Point {
    /// Longitude and latitude, degrees.
    #[inline]
    pub fn to_degrees(self) -> (f64, f64) {
        let (x, y) = (f64::from(self.x), f64::from(self.y));
        let east = x * TURN_COS - y * TURN_SIN;
        let north = x * TURN_SIN + y * TURN_COS;
        (
            CENTRE_LONGITUDE + east * (1.0 / METRES_PER_DEGREE_LONGITUDE),
            CENTRE_LATITUDE + north * (1.0 / METRES_PER_DEGREE_LATITUDE),
        )
    }

    /// The inverse of [`Point::to_degrees`].
    pub fn from_degrees(longitude: f64, latitude: f64) -> Self {
        let east = (longitude - CENTRE_LONGITUDE) * METRES_PER_DEGREE_LONGITUDE;
        let north = (latitude - CENTRE_LATITUDE) * METRES_PER_DEGREE_LATITUDE;
        Self {
            x: (east * TURN_COS + north * TURN_SIN) as f32,
            y: (north * TURN_COS - east * TURN_SIN) as f32,
        }
    }

    /// Distance along the street grid, metres.
    #[inline]
    pub fn street_distance(self, other: Self) -> f32 {
        (self.x - other.x).abs() + (self.y - other.y).abs()
    }

    /// Distance as the crow flies, metres.
    pub fn distance(self, other: Self) -> f32 {
        ((self.x - other.x) * (self.x - other.x) + (self.y - other.y) * (self.y - other.y)).sqrt()
    }

    /// The nearest point of the city that lies on a street.
    pub(super) fn on_street(self, along_x: bool) -> Self {
        let snap = |v: f32| (v / STREET_SPACING_M).round() * STREET_SPACING_M;
        let x = self.x.clamp(-HALF_WIDTH_M, HALF_WIDTH_M);
        let y = self.y.clamp(-HALF_HEIGHT_M, HALF_HEIGHT_M);
        if along_x { Self { x, y: snap(y) } } else { Self { x: snap(x), y } }
    }
}

/// A place where many trips begin and end.
#[derive(Clone, Debug, PartialEq)]
pub struct HotSpot {
    /// Its name, unique in the city.
    pub name: &'static str,
    /// Degrees.
    pub longitude: f64,
    /// Degrees.
    pub latitude: f64,
    /// Share of the trips that begin here, over all hot spots 1.
    pub weight: f64,
    /// Standard deviation of where trips begin around the centre, metres in each axis.
    pub spread_m: f32,
    /// The centre in the city's axes.
    pub centre: Point,
}

/// Names, and weights before normalisation. The order decides nothing but the names.
const SPOTS: [(&str, f64); 20] = [
    ("Airport", 9.0),
    ("Central Station", 10.0),
    ("North Station", 7.0),
    ("Ferry Pier", 3.0),
    ("Exchange Square", 8.0),
    ("Old Market", 6.0),
    ("University", 4.5),
    ("Software Park", 6.5),
    ("General Hospital", 5.0),
    ("Stadium", 2.5),
    ("Zoo", 2.0),
    ("Museum Mile", 3.0),
    ("Harbour Mall", 6.0),
    ("East Coach Station", 4.0),
    ("Border Crossing", 5.5),
    ("Convention Centre", 3.5),
    ("Tea Gardens", 2.0),
    ("Night Market", 4.5),
    ("Lake Hotels", 3.5),
    ("Industrial Zone", 2.5),
];

/// Hot spots are at least this far apart, so that clusters can be told from each other.
const LEAST_DISTANCE_M: f32 = 2_000.0;
/// Tries to keep that distance before the best try so far is taken.
const PLACEMENT_TRIES: usize = 64;

/// The hot spots of the city with this seed: the truth that a clustering of pick-ups should find.
///
/// ```
/// let spots = swingdb_generate::hot_spots(42);
/// assert_eq!(spots.len(), 20);
/// assert!((spots.iter().map(|spot| spot.weight).sum::<f64>() - 1.0).abs() < 1e-9);
/// ```
pub fn hot_spots(seed: u64) -> Vec<HotSpot> {
    let total: f64 = SPOTS.iter().map(|(_, weight)| weight).sum();
    let mut spots: Vec<HotSpot> = Vec::with_capacity(SPOTS.len());
    let mut sequence = Sequence::new(hash(seed, 0xC17), 0);
    for (name, weight) in SPOTS {
        let mut best = (Point::default(), -1.0);
        for _ in 0..PLACEMENT_TRIES {
            let x = sequence.between(-HALF_WIDTH_M * 0.92, HALF_WIDTH_M * 0.92);
            let y = sequence.between(-HALF_HEIGHT_M * 0.88, HALF_HEIGHT_M * 0.88);
            let candidate = Point { x, y }.on_street(true).on_street(false);
            let nearest = spots
                .iter()
                .map(|spot| spot.centre.distance(candidate))
                .fold(f32::INFINITY, f32::min);
            if nearest > best.1 {
                best = (candidate, nearest);
            }
            if nearest >= LEAST_DISTANCE_M {
                break;
            }
        }
        let (longitude, latitude) = best.0.to_degrees();
        let spread_m = sequence.between(120.0, 260.0);
        spots.push(HotSpot {
            name,
            longitude,
            latitude,
            weight: weight / total,
            spread_m,
            centre: best.0,
        });
    }
    spots
}

/// Average driving speed on the city's streets for each hour of the day, km/h.
const SPEED_BY_HOUR_KMH: [f32; 24] = [
    40.0, 42.0, 44.0, 44.0, 43.0, 40.0, 34.0, 25.0, 20.0, 23.0, 27.0, 28.0, 27.0, 28.0, 28.0, 27.0,
    25.0, 21.0, 19.0, 22.0, 27.0, 31.0, 35.0, 38.0,
];

/// Demand for taxis for each hour of the day; 1 means that an empty taxi hardly waits.
const DEMAND_BY_HOUR: [f32; 24] = [
    0.35, 0.25, 0.18, 0.15, 0.15, 0.25, 0.5, 0.85, 1.0, 0.9, 0.75, 0.75, 0.8, 0.8, 0.75, 0.75, 0.8,
    0.95, 1.0, 0.95, 0.85, 0.8, 0.7, 0.5,
];

/// Average driving speed at a second of the day, metres per second.
pub(super) fn street_speed(second_of_day: u32) -> f32 {
    by_hour(&SPEED_BY_HOUR_KMH, second_of_day) / 3.6
}

/// Demand at a second of the day, 0 to 1.
pub(super) fn demand(second_of_day: u32) -> f32 {
    by_hour(&DEMAND_BY_HOUR, second_of_day)
}

/// Straight lines between the full hours.
fn by_hour(table: &[f32; 24], second_of_day: u32) -> f32 {
    let hour = (second_of_day / 3600 % 24) as usize;
    let part = (second_of_day % 3600) as f32 / 3600.0;
    table[hour] + (table[(hour + 1) % 24] - table[hour]) * part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn degrees_and_metres_are_inverse() {
        let point = Point { x: 4_321.0, y: -1_234.0 };
        let (longitude, latitude) = point.to_degrees();
        let back = Point::from_degrees(longitude, latitude);
        assert!(point.distance(back) < 0.1, "{point:?} {back:?}");
    }

    #[test]
    fn hot_spots_stand_apart_and_inside() {
        for seed in 0..20 {
            let spots = hot_spots(seed);
            assert_eq!(spots, hot_spots(seed));
            for (i, a) in spots.iter().enumerate() {
                assert!(a.centre.x.abs() <= HALF_WIDTH_M && a.centre.y.abs() <= HALF_HEIGHT_M);
                for b in &spots[i + 1..] {
                    let apart = a.centre.distance(b.centre);
                    assert!(apart > 1_000.0, "seed {seed}: {} {} {apart}", a.name, b.name);
                }
            }
        }
        assert_ne!(hot_spots(1), hot_spots(2));
    }

    #[test]
    fn speeds_change_smoothly_over_the_day() {
        let day: Vec<f32> = (0..86_400).step_by(60).map(street_speed).collect();
        assert!(day.windows(2).all(|pair| (pair[0] - pair[1]).abs() < 0.2));
        assert!(street_speed(18 * 3600) < street_speed(3 * 3600) / 2.0);
        assert!(demand(3 * 3600) < demand(18 * 3600));
    }
}
