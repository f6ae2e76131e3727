//! Generated data in tables: the same for a seed, and with the statistics it promises.

mod common;

use swingdb::arrow::array::AsArray;
use swingdb::arrow::datatypes::TimestampMicrosecondType;
use swingdb_generate::{
    TaxiOptions, TpchTable, WeatherOptions, city::Point, fill_taxi, fill_tpch, fill_weather,
    hot_spots,
};

use common::Place;

#[test]
fn taxis_are_the_same_whoever_makes_them() {
    let place = Place::new();
    let options = TaxiOptions { rows: 300_000, taxis: 777, seed: 9, ..TaxiOptions::default() };
    assert_eq!(fill_taxi(&place.con, "a", &options).unwrap(), 300_000);
    let head = TaxiOptions { rows: 123_456, ..options.clone() };
    let tail = TaxiOptions { first_row: 123_456, rows: 300_000 - 123_456, ..options };
    fill_taxi(&place.con, "b", &head).unwrap();
    fill_taxi(&place.con, "b", &tail).unwrap();
    assert!(place.table("a") == place.table("b"));
    let times = place.table("a").column(1).as_primitive::<TimestampMicrosecondType>().clone();
    assert!(times.values().windows(2).all(|pair| pair[0] <= pair[1]));
}

#[test]
fn pick_ups_are_at_hot_spots_and_rush_hours_are_slow() {
    let place = Place::new();
    let options = TaxiOptions { rows: 1_500_000, taxis: 300, seed: 4, ..TaxiOptions::default() };
    fill_taxi(&place.con, "taxi", &options).unwrap();
    place.run(
        "CREATE TABLE flips AS SELECT longitude, latitude, occupied FROM (SELECT *, lag(occupied) \
         OVER (PARTITION BY taxi_id ORDER BY time) AS before FROM taxi WHERE longitude BETWEEN \
             113 AND 115 \
         AND latitude BETWEEN 22 AND 23) WHERE occupied <> before",
    );
    let flips = place.rows("SELECT longitude, latitude, occupied FROM flips");
    let spots = hot_spots(4);
    let near = |row: &Vec<String>| {
        let point = Point::from_degrees(row[0].parse().unwrap(), row[1].parse().unwrap());
        spots.iter().any(|spot| spot.centre.distance(point) < 4.0 * spot.spread_m)
    };
    let picks: Vec<_> = flips.iter().filter(|row| row[2] == "true").collect();
    let at_spots = picks.iter().filter(|row| near(row)).count();
    assert!(picks.len() > 5_000, "{} pick-ups", picks.len());
    assert!(at_spots * 100 > picks.len() * 75, "{at_spots} of {}", picks.len());
    let drops = flips.len() - picks.len();
    assert!(drops.abs_diff(picks.len()) * 20 < picks.len(), "{drops} {}", picks.len());

    let speed = |hour: u32| -> f64 {
        let sql = format!(
            "SELECT avg(speed) FROM taxi WHERE occupied AND speed BETWEEN 0 AND 200 AND \
                date_part('hour', time) = {hour}"
        );
        place.value(&sql).parse().unwrap()
    };
    assert!(speed(8) < 0.7 * speed(22), "{} {}", speed(8), speed(22));
    let dirty = "SELECT count(*) FROM taxi WHERE NOT longitude BETWEEN 113 AND 115 OR speed IS \
        NULL \
                 OR speed < 0 OR speed > 200";
    let dirty: u64 = place.value(dirty).parse().unwrap();
    assert!((2_400..3_600).contains(&dirty), "{dirty} wrong rows in a million and a half");
}

#[test]
fn tpch_with_and_without_keys() {
    for keys in [false, true] {
        let place = Place::new();
        let filled = fill_tpch(&place.con, 0.01, keys).unwrap();
        assert_eq!(filled.len(), 8);
        assert_eq!(filled[7], (TpchTable::LineItem, 60_175));
        assert_eq!(place.value("SELECT count(DISTINCT c_custkey) FROM customer"), "1500");
        let twice =
            place.con.query("INSERT INTO region SELECT * FROM region").and_then(|r| r.collect());
        assert_eq!(twice.is_err(), keys);
    }
}

#[test]
fn weather_joins_with_taxis() {
    let place = Place::new();
    fill_taxi(
        &place.con,
        "taxi",
        &TaxiOptions { rows: 50_000, dirty_per_million: 0, ..Default::default() },
    )
    .unwrap();
    fill_weather(&place.con, &WeatherOptions::default()).unwrap();
    let joined = "SELECT count(*) FROM taxi t JOIN zones z ON t.longitude >= z.min_longitude AND \
                  t.longitude < z.max_longitude AND t.latitude >= z.min_latitude AND \
                      t.latitude < z.max_latitude \
                  JOIN weather w ON w.zone_id = z.zone_id AND w.hour = date_trunc('hour', t.time)";
    assert_eq!(place.value(joined), "50000");
}
