use fluvial_core::{Error, Result, parse_duration};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// When batches run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trigger {
    /// One batch after the other, as soon as there is something to do.
    #[default]
    Default,
    /// At the multiples of this interval since the epoch. A batch that takes longer is followed
    /// by the next one at once; missed ticks are not made up for.
    ProcessingTime(Duration),
    /// One batch of everything that is there, whatever the limits, then stop. A batch that an
    /// earlier run planned and did not finish is finished first. No batch without data.
    Once,
    /// Everything that was there when the run began, in batches that keep their limits, then
    /// stop. At most one batch without data follows.
    AvailableNow,
}

impl Trigger {
    /// Milliseconds from `now_ms` to the next tick of `interval`: the next multiple of it since
    /// the epoch, never `now_ms` itself.
    pub(crate) fn until_next_tick(interval: Duration, now_ms: i64) -> Duration {
        let interval_ms = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX).max(1);
        let wait_ms = interval_ms - now_ms.rem_euclid(interval_ms);
        Duration::from_millis(wait_ms.unsigned_abs())
    }
}

impl FromStr for Trigger {
    type Err = Error;

    /// `default`, `once`, `available-now` (or `availableNow`), or an interval: `30s`,
    /// `10 seconds`. Case does not matter.
    fn from_str(text: &str) -> Result<Self> {
        let word: String = text
            .chars()
            .filter(|c| c.is_alphanumeric())
            .flat_map(char::to_lowercase)
            .collect::<String>();
        match word.as_str() {
            "default" => return Ok(Self::Default),
            "once" => return Ok(Self::Once),
            "availablenow" => return Ok(Self::AvailableNow),
            _ => {}
        }
        for unknown in ["continuous", "realtime"] {
            if word.starts_with(unknown) {
                return Err(Error::invalid(format!(
                    "the trigger {text:?} is not supported: batches give exactly-once output; use \
                     default, once, available-now or an interval such as '1 second'"
                ))
                .with_condition("STREAMING_TRIGGER.CONTINUOUS_NOT_SUPPORTED"));
            }
        }
        let interval = parse_duration(text).map_err(|error| {
            Error::invalid(format!(
                "the trigger {text:?} is none of default, once, available-now and an interval \
                 such as '30 seconds'"
            ))
            .with_condition("STREAMING_TRIGGER.INVALID")
            .with_source(error)
        })?;
        Ok(Self::ProcessingTime(interval))
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::ProcessingTime(interval) => write!(f, "every {interval:?}"),
            Self::Once => f.write_str("once"),
            Self::AvailableNow => f.write_str("available-now"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_understood() {
        let every = |s| Trigger::ProcessingTime(Duration::from_secs(s));
        for (text, expected) in [
            ("default", Trigger::Default),
            ("Once", Trigger::Once),
            ("available-now", Trigger::AvailableNow),
            ("availableNow", Trigger::AvailableNow),
            ("AVAILABLE_NOW", Trigger::AvailableNow),
            ("30s", every(30)),
            ("10 seconds", every(10)),
            ("1 minute", every(60)),
        ] {
            assert_eq!(text.parse::<Trigger>().unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn continuous_is_refused_by_name() {
        for text in ["continuous", "continuous(1 second)", "Continuous 1s", "realTime"] {
            let error = text.parse::<Trigger>().unwrap_err();
            let expected = "STREAMING_TRIGGER.CONTINUOUS_NOT_SUPPORTED";
            assert_eq!(error.condition(), Some(expected), "{text}");
        }
        for text in ["", "soon", "-1 seconds", "10"] {
            let error = text.parse::<Trigger>().unwrap_err();
            assert_eq!(error.condition(), Some("STREAMING_TRIGGER.INVALID"), "{text}");
        }
    }

    #[test]
    fn ticks_are_multiples_since_the_epoch() {
        let wait = |ms, now| Trigger::until_next_tick(Duration::from_millis(ms), now).as_millis();
        assert_eq!(wait(1000, 1), 999);
        assert_eq!(wait(1000, 999), 1);
        assert_eq!(wait(1000, 1000), 1000);
        assert_eq!(wait(1000, -1), 1);
        assert_eq!(wait(0, 17), 1);
    }
}
