//! Time, passed in: the one place that reads the wall clock, and the one that waits for it.
//!
//! A rule that read the clock itself could not be replayed; a test that slept would be slow and still flaky.
//! Back-offs do not wait here: they count elapsed time, which no jump of the wall clock may stretch.

use events::quantity::{Instant, Millis};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The longest sleep before the wall clock is read again, so that a jump of it delays a timer by no more.
const NAP_MAX: Duration = Duration::from_secs(60);

/// What says what time it is.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The wall.
    System,
    /// A test's hand.
    Fixed(Hand),
}

impl Clock {
    /// Now.
    #[must_use]
    pub fn now(&self) -> Instant {
        match self {
            Self::System => wall(),
            Self::Fixed(hand) => hand.now(),
        }
    }

    /// Returns once it is `at` or later. With a fixed clock that is when the hand is moved there.
    pub async fn sleep_until(&self, at: Instant) {
        match self {
            Self::System => loop {
                let left = at.0.saturating_sub(wall().0);
                let Ok(left @ 1..) = u64::try_from(left) else { return };
                tokio::time::sleep(Duration::from_micros(left).min(NAP_MAX)).await;
            },
            Self::Fixed(hand) => hand.reaches(at).await,
        }
    }

    /// Returns once `wait` has gone by.
    pub async fn pause(&self, wait: Millis) {
        match self {
            Self::System => tokio::time::sleep(Duration::from_millis(wait.0)).await,
            Self::Fixed(hand) => hand.reaches(hand.now().after(wait)).await,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
fn wall() -> Instant {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    Instant(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// A clock that only moves when it is told to; whoever waits for a time is woken when it is set.
#[derive(Debug, Clone)]
pub struct Hand(Arc<watch::Sender<Instant>>);

impl Hand {
    /// A clock that stands at `at`.
    #[must_use]
    pub fn at(at: Instant) -> Self {
        Self(Arc::new(watch::Sender::new(at)))
    }

    /// The clock that this hand moves.
    #[must_use]
    pub fn clock(&self) -> Clock {
        Clock::Fixed(self.clone())
    }

    /// Where it stands.
    #[must_use]
    pub fn now(&self) -> Instant {
        *self.0.borrow()
    }

    /// Moves it to `at`, backwards too.
    pub fn set(&self, at: Instant) {
        self.0.send_replace(at);
    }

    /// Moves it on by `wait`.
    pub fn advance(&self, wait: Millis) {
        self.0.send_modify(|now| *now = now.after(wait));
    }

    async fn reaches(&self, at: Instant) {
        let mut time = self.0.subscribe();
        // It can not fail: this hand holds the sender. What it gives is a read lock, so it is let go at once.
        drop(time.wait_for(|now| *now >= at).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn a_fixed_clock_wakes_sleepers_when_its_hand_is_moved_there() {
        let hand = Hand::at(Instant(1_000));
        let clock = hand.clock();
        let mut sleep = pin!(clock.sleep_until(Instant(3_000)));
        let mut ctx = Context::from_waker(Waker::noop());
        assert_eq!(sleep.as_mut().poll(&mut ctx), Poll::Pending);
        hand.advance(Millis(1));
        assert_eq!(sleep.as_mut().poll(&mut ctx), Poll::Pending);
        hand.advance(Millis(1));
        assert_eq!(sleep.as_mut().poll(&mut ctx), Poll::Ready(()));
        assert_eq!(clock.now(), Instant(3_000));
    }

    #[test]
    fn the_wall_clock_is_past_the_year_2020_and_a_past_time_needs_no_wait() {
        assert!(Clock::System.now() > Instant(1_577_836_800_000_000));
        let mut sleep = pin!(Clock::System.sleep_until(Instant(0)));
        let ready = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(ready, Poll::Ready(()));
    }
}
