//! HTTP dates (RFC 9110 section 5.6.7): writing the one form, reading all three as leniently as Apache, and a clock that
//! formats the Date header once a second.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Wall clock of one thread. Reading it costs no system call (vDSO); formatting happens when the second changes.
#[derive(Debug)]
pub struct Clock {
    now: SystemTime,
    second: u64,
    text: Text,
}

/// A date as text, without a heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text([u8; 29]);

impl Text {
    /// The 29 characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("only ASCII is ever put in")
    }

    /// The same as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Clock {
    /// A clock showing the present.
    pub fn new() -> Clock {
        let mut clock = Clock { now: UNIX_EPOCH, second: 0, text: format(0) };
        clock.tick();
        clock
    }

    /// Reads the time. Called once per request.
    #[inline]
    pub fn tick(&mut self) {
        self.now = SystemTime::now();
        let second = self.now.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        if second != self.second {
            self.second = second;
            self.text = format(second as i64);
        }
    }

    /// Seconds since the epoch at the last tick.
    pub fn now_s(&self) -> i64 {
        self.second as i64
    }

    /// Microseconds since the epoch at the last tick.
    pub fn now_us(&self) -> i64 {
        self.now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_micros() as i64
    }

    /// The last tick as text for the Date header.
    pub fn date(&self) -> &str {
        self.text.as_str()
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
const WEEKDAYS: &[u8; 21] = b"ThuFriSatSunMonTueWed";

/// Seconds since the epoch as `Sun, 06 Nov 1994 08:49:37 GMT`. What lies before the epoch is written as the epoch, what
/// needs a fifth digit for its year as the last second of 9999.
pub fn format(seconds: i64) -> Text {
    const LAST: i64 = 253_402_300_799;
    let seconds = seconds.clamp(0, LAST);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    let weekday = (days % 7) as usize * 3;
    text[..3].copy_from_slice(&WEEKDAYS[weekday..weekday + 3]);
    let mut two = |at: usize, value: i64| {
        text[at] = b'0' + (value / 10) as u8;
        text[at + 1] = b'0' + (value % 10) as u8;
    };
    two(5, day);
    two(12, year / 100);
    two(14, year % 100);
    two(17, second / 3600);
    two(20, second / 60 % 60);
    two(23, second % 60);
    let month = (month as usize - 1) * 3;
    text[8..11].copy_from_slice(&MONTHS[month..month + 3]);
    Text(text)
}

/// Year, month and day of a day since the epoch (Hinnant's civil_from_days, for days from the epoch on).
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The day since the epoch of a date in the proleptic Gregorian calendar (Hinnant's days_from_civil).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let shifted_month = (month + 9) % 12;
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Reads a date in any of the three forms. As in Apache the weekday is not looked at and what follows the time neither.
pub fn parse(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii_start();
    let after_weekday = text.iter().position(|&b| b == b' ')? + 1;
    let date = &text[after_weekday..];
    let number = |from: usize, to: usize| -> i64 {
        date[from..to].iter().fold(0, |n, &b| n * 10 + i64::from(b.wrapping_sub(b'0') & 15))
    };
    // `#` a digit, `~` a digit or a space, `@` an upper-case and `$` a lower-case letter.
    let (day, month_at, year, time_at) = if fits(date, b"## @$$ #### ##:##:## ") {
        (number(0, 2), 3, number(7, 11), 12)
    } else if fits(date, b"##-@$$-## ##:##:## ") {
        let short = number(7, 9);
        (number(0, 2), 3, if short < 70 { 2000 + short } else { 1900 + short }, 10)
    } else if fits(date, b"@$$ ~# ##:##:## ####") {
        let tens = if date[4] == b' ' { 0 } else { number(4, 5) };
        (tens * 10 + number(5, 6), 0, number(16, 20), 7)
    } else if fits(date, b"# @$$ #### ##:##:## ") {
        (number(0, 1), 2, number(6, 10), 11)
    } else {
        return None;
    };
    let name = &date[month_at..month_at + 3];
    let month = MONTHS.chunks_exact(3).position(|m| m == name)? as i64 + 1;
    let (hour, minute, second) =
        (number(time_at, time_at + 2), number(time_at + 3, time_at + 5), number(time_at + 6, time_at + 8));
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !(1..=longest).contains(&day) || hour > 23 || minute > 59 || second > 61 {
        return None;
    }
    Some(days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

fn fits(text: &[u8], mask: &[u8]) -> bool {
    text.len() >= mask.len()
        && text.iter().zip(mask).all(|(&byte, &kind)| match kind {
            b'#' => byte.is_ascii_digit(),
            b'~' => byte.is_ascii_digit() || byte == b' ',
            b'@' => byte.is_ascii_uppercase(),
            b'$' => byte.is_ascii_lowercase(),
            exact => byte == exact,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_all_three_forms_and_apaches_leniencies() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Fri, 06 Nov 1994 08:49:37 GMT",
            "  Sun, 06 Nov 1994 08:49:37 GMT; length=7",
        ] {
            assert_eq!(parse(text.as_bytes()), Some(784_111_777), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_date() {
        for text in [
            "",
            "yesterday",
            "Sun, 06 Nov 1994",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 29 Feb 1900 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Abc 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn before_the_epoch_is_the_epoch() {
        assert_eq!(format(-86_400).as_str(), "Thu, 01 Jan 1970 00:00:00 GMT");
    }

    proptest! {
        #[test]
        fn writes_what_httpdate_writes_and_reads_it_back(seconds in 0_i64..253_402_300_800) {
            let theirs = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds as u64));
            let ours = format(seconds);
            prop_assert_eq!(ours.as_str(), &theirs);
            prop_assert_eq!(parse(theirs.as_bytes()), Some(seconds));
        }
    }
}
