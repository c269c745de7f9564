//! `RequestReadTimeout`: how long a request may take to arrive, as mod_reqtimeout reads it.
//!
//! `stage=T[-M][,MinRate=R]`, any number of them: T seconds to begin with; with a rate, each received byte adds 1/R
//! seconds, never past M. 0 is no limit. What the numbers do is in `connection::patience`.

use std::time::Duration;

/// The limits of each stage. `Default` is what Debian's reqtimeout.conf says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadTimeout {
    /// The TLS handshake: accepted, of no effect on a server without TLS.
    pub handshake: Stage,
    /// Request line and header fields.
    pub header: Stage,
    /// The request body.
    pub body: Stage,
}

/// The limit of one stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stage {
    /// T, in seconds; 0 is no limit.
    pub initial: u32,
    /// M, in seconds; 0 is no maximum.
    pub most: u32,
    /// R, in bytes per second; 0: received bytes add nothing.
    pub rate: u32,
}

impl Stage {
    /// What one received byte adds, in whole microseconds, as mod_reqtimeout counts: nothing above a million bytes per
    /// second.
    pub fn per_byte(&self) -> Duration {
        Duration::from_micros(1_000_000_u64.checked_div(u64::from(self.rate)).unwrap_or(0))
    }
}

impl Default for ReadTimeout {
    fn default() -> ReadTimeout {
        ReadTimeout {
            handshake: Stage::default(),
            header: Stage { initial: 20, most: 40, rate: 500 },
            body: Stage { initial: 10, most: 0, rate: 500 },
        }
    }
}

impl ReadTimeout {
    /// No limit at any stage: as Apache without mod_reqtimeout.
    pub const OFF: ReadTimeout = {
        let off = Stage { initial: 0, most: 0, rate: 0 };
        ReadTimeout { handshake: off, header: off, body: off }
    };

    /// Sets the stages that `words` name; the others stay.
    ///
    /// # Errors
    /// mod_reqtimeout's own words, without the directive's name.
    pub fn set(&mut self, words: &[String]) -> Result<(), String> {
        for word in words {
            let Some((key, text)) = word.split_once('=') else {
                return Err(
                    "Invalid RequestReadTimeout parameter. Parameter must be in the form 'key=value'"
                        .to_owned(),
                );
            };
            self.set_stage(key, text).map_err(|what| format!("{key}={text}: {what}"))?;
        }
        Ok(())
    }

    fn set_stage(&mut self, key: &str, text: &str) -> Result<(), String> {
        let stage = match key.to_ascii_lowercase().as_str() {
            "handshake" => &mut self.handshake,
            "header" => &mut self.header,
            "body" => &mut self.body,
            _ => return Err("Unknown RequestReadTimeout parameter".to_owned()),
        };
        const RATE: &str = ",minrate=";
        *stage = match text.to_ascii_lowercase().find(RATE) {
            None if text.contains('-') => {
                return Err("Must set MinRate option if using timeout range".to_owned());
            }
            None => Stage { initial: number(text)?, ..Stage::default() },
            Some(at) => {
                let (times, rate) = (&text[..at], number(&text[at + RATE.len()..])?);
                if rate == 0 {
                    return Err("Minimum data rate must be larger than 0".to_owned());
                }
                let (initial, most) = match times.split_once('-') {
                    None => (times, 0),
                    Some((initial, most)) => (initial, number(most)?),
                };
                Stage { initial: number(initial)?, most, rate }
            }
        };
        if stage.most > 0 && stage.initial >= stage.most {
            return Err("Maximum timeout must be larger than initial timeout".to_owned());
        }
        Ok(())
    }
}

/// A number as C's `strtol` takes it, whole, with mod_reqtimeout's complaints. More than fits an `int` is refused; Apache
/// takes it for another number.
fn number(text: &str) -> Result<u32, String> {
    let start = text.trim_ascii_start();
    let unsigned = start.strip_prefix(['+', '-']).unwrap_or(start);
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Err(format!("Value '{text}' not numerical"));
    }
    if digits < unsigned.len() {
        return Err(format!("Cannot parse '{}'", &unsigned[digits..]));
    }
    match start.parse::<i64>() {
        Ok(n) if n < 0 => Err("Value must be non-negative".to_owned()),
        Ok(n) if n <= i64::from(i32::MAX) => Ok(n as u32),
        _ => Err(format!("'{text}' is out of range; must be at most {}", i32::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(words: &[&str]) -> Result<ReadTimeout, String> {
        let mut timeout = ReadTimeout::OFF;
        timeout.set(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())?;
        Ok(timeout)
    }

    #[test]
    fn stages_are_set_one_by_one() {
        let all = set(&["HEADER=20-40,MinRate=500", "body=10", "handshake=+5,minrate=3", "body=9"]).unwrap();
        assert_eq!(all.header, Stage { initial: 20, most: 40, rate: 500 });
        assert_eq!(all.body, Stage { initial: 9, most: 0, rate: 0 }, "a later one replaces the whole stage");
        assert_eq!(all.handshake, Stage { initial: 5, most: 0, rate: 3 });
        let mut debian = ReadTimeout::default();
        debian.set(&["body=0".to_owned()]).unwrap();
        assert_eq!(debian, ReadTimeout { body: Stage::default(), ..ReadTimeout::default() });
        assert_eq!(set(&[]), Ok(ReadTimeout::OFF));
    }

    #[test]
    fn complaints_are_the_modules() {
        for (word, what) in [
            ("header", "Invalid RequestReadTimeout parameter. Parameter must be in the form 'key=value'"),
            ("header=", "header=: Value '' not numerical"),
            ("header=5x", "header=5x: Cannot parse 'x'"),
            ("header=5-10", "header=5-10: Must set MinRate option if using timeout range"),
            ("header=5-10,minrate=0", "header=5-10,minrate=0: Minimum data rate must be larger than 0"),
            ("body=5-5,minrate=1", "body=5-5,minrate=1: Maximum timeout must be larger than initial timeout"),
            ("body=5,minrate=-1", "body=5,minrate=-1: Value must be non-negative"),
            ("foo=1", "foo=1: Unknown RequestReadTimeout parameter"),
            (
                "header=99999999999",
                "header=99999999999: '99999999999' is out of range; must be at most 2147483647",
            ),
        ] {
            assert_eq!(set(&[word]), Err(what.to_owned()));
        }
    }

    #[test]
    fn a_byte_is_worth_whole_microseconds() {
        let worth = |rate| Stage { initial: 1, most: 0, rate }.per_byte().as_micros();
        assert_eq!([0, 1, 3, 500, 1_000_000, 1_000_001].map(worth), [0, 1_000_000, 333_333, 2000, 1, 0]);
    }
}
