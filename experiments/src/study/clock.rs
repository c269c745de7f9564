//! Points in time as text, in UTC: RFC 3339 for results, a compact form for directory names.

use std::time::{SystemTime, UNIX_EPOCH};

/// Year, month, day, hour, minute, second, milliseconds.
fn civil(time: SystemTime) -> (i64, i64, i64, u64, u64, u64, u32) {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs();
    // Days to a date by Howard Hinnant's `civil_from_days`: years begin in March, eras are 400 years.
    let days = i64::try_from(seconds / 86_400).expect("a u64 of seconds is far fewer days than an i64 holds")
        + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let of_day = seconds % 86_400;
    (year, month, day, of_day / 3600, of_day / 60 % 60, of_day % 60, since.subsec_millis())
}

/// `2026-12-01T08:30:05.250Z`.
pub fn rfc3339(time: SystemTime) -> String {
    let (year, month, day, hour, minute, second, millis) = civil(time);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// `20261201-083005`.
pub fn compact(time: SystemTime) -> String {
    let (year, month, day, hour, minute, second, _) = civil(time);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_around_leap_days_and_turns_of_year() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_799, "2000-02-29T23:59:59.000Z"),
            (1_709_251_200, "2024-03-01T00:00:00.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
        assert_eq!(compact(UNIX_EPOCH + Duration::from_millis(1_709_251_205_999)), "20240301-000005");
    }
}
