//! Days and the Gregorian calendar, both ways: Howard Hinnant, "chrono-Compatible Low-Level Date
//! Algorithms", 2013.

/// Year, month and day of a number of days since 1970-01-01.
///
/// ```
/// use swingdb_common::time::calendar::civil_from_days;
///
/// assert_eq!(civil_from_days(0), (1970, 1, 1));
/// assert_eq!(civil_from_days(-1), (1969, 12, 31));
/// ```
pub fn civil_from_days(days: i64) -> (i64, u8, u8) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_index + 2) / 5 + 1) as u8;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 } as u8;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Days from 1970-01-01 to a day; `None` for one that does not exist.
pub fn days_from_civil(year: i32, month: u32, day: u32) -> Option<i32> {
    const DAYS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    if !(1..=12).contains(&month) || day < 1 || day > DAYS[month as usize - 1] {
        return None;
    }
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if month == 2 && day == 29 && !leap {
        return None;
    }
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400) as u32;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era as i32 - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for days in (-800_000..3_000_000).step_by(97) {
            let (year, month, day) = civil_from_days(days);
            let back = days_from_civil(year as i32, month.into(), day.into());
            assert_eq!(back.map(i64::from), Some(days));
        }
        assert_eq!(civil_from_days(11_016), (2000, 2, 29));
        for (year, month, day) in [(1900, 2, 29), (2024, 0, 1), (2024, 13, 1), (2024, 4, 31)] {
            assert_eq!(days_from_civil(year, month, day), None);
        }
    }
}
