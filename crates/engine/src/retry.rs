use fluvial_core::{Clock, ErrorKind, Result};
use futures::future::BoxFuture;
use std::time::Duration;

/// How often something that is `Unavailable` is tried again before the query fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Attempts in all; at least one is made.
    pub attempts: u32,
    /// Pause after the first failure; doubles after each further one.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Default for Retry {
    /// Six attempts over about three seconds.
    fn default() -> Self {
        Self { attempts: 6, first: Duration::from_millis(100), longest: Duration::from_secs(10) }
    }
}

impl Retry {
    /// Runs `attempt` until it succeeds, fails for good, or has failed too often.
    pub(crate) async fn run<'a, T>(
        &self,
        clock: &dyn Clock,
        mut attempt: impl FnMut() -> BoxFuture<'a, Result<T>>,
    ) -> Result<T> {
        let mut pause = self.first;
        for tried in 1.. {
            match attempt().await {
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    if tried >= self.attempts {
                        return Err(match tried {
                            1 => error,
                            _ => error.at(format_args!("after {tried} attempts")),
                        });
                    }
                    clock.sleep(pause).await;
                    pause = (pause * 2).min(self.longest);
                }
                result => return result,
            }
        }
        unreachable!("the loop has no end")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_core::Error;
    use fluvial_sim::{VirtualClock, block_on};

    fn failing(times: u32, error: fn() -> Error) -> (Result<u32>, u32, i64) {
        let (clock, mut tried) = (VirtualClock::new(), 0);
        let retry = Retry { attempts: 4, ..Retry::default() };
        let result = block_on(retry.run(&clock, || {
            tried += 1;
            let now = tried;
            Box::pin(async move { if now <= times { Err(error()) } else { Ok(now) } })
        }));
        (result, tried, clock.now_ms())
    }

    #[test]
    fn what_passes_is_tried_again_after_growing_pauses() {
        let (result, tried, slept_ms) = failing(3, || Error::unavailable("busy"));
        assert_eq!((result.unwrap(), tried, slept_ms), (4, 4, 100 + 200 + 400));
    }

    #[test]
    fn it_gives_up_and_says_so() {
        let (result, tried, _) = failing(9, || Error::unavailable("busy"));
        assert_eq!(tried, 4);
        assert_eq!(result.unwrap_err().to_string(), "after 4 attempts: busy");
    }

    #[test]
    fn what_does_not_pass_is_not_tried_again() {
        let (result, tried, _) = failing(9, || Error::invalid("no"));
        assert_eq!((result.unwrap_err().to_string().as_str(), tried), ("no", 1));
    }
}
