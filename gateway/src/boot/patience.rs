//! A start's patience with a journal that does not read yet: servers that elect, or that are behind after a death, are
//! waited for. To end would only be to start again.

use std::error::Error;
use std::time::Duration;
use store::{FollowError, Outage};
use tokio::time::{Instant, sleep};

/// How long a start waits for one thing that it reads (25 s): as long as its opening waits for leaders.
const READS_WITHIN: Duration = Duration::from_secs(25);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// Asks until there is an answer, a refusal, or no patience left.
///
/// # Errors
///
/// The newest failure.
pub(super) async fn until_it_reads<T, E>(ask: impl AsyncFn() -> Result<T, E>) -> Result<T, E>
where
    E: Error + 'static,
{
    let deadline = Instant::now() + READS_WITHIN;
    loop {
        match ask().await {
            Err(why) if not_yet(&why) && Instant::now() < deadline => {
                let why: &dyn Error = &why;
                tracing::warn!(why, "the journal does not read yet");
                sleep(LOOK).await;
            }
            answer => return answer,
        }
    }
}

/// Whether somebody else may answer in a moment. A full disk does not mend itself.
fn not_yet(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(this) = cause {
        let away = matches!(this.downcast_ref(), Some(Outage::Lost | Outage::Unavailable(_)));
        if away || matches!(this.downcast_ref(), Some(FollowError::Ahead { .. })) {
            return true;
        }
        cause = this.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::keys::KeysError;
    use actors::follower::FollowerError;
    use std::cell::Cell;
    use store::StoreError;

    fn outage() -> FollowerError {
        StoreError::from(Outage::Unavailable("timed out".to_owned())).into()
    }

    #[tokio::test(start_paused = true)]
    async fn a_journal_that_does_not_read_yet_is_asked_again() {
        let asked = Cell::new(0);
        let answer = until_it_reads(async || {
            asked.set(asked.get() + 1);
            if asked.get() < 4 { Err(outage()) } else { Ok("read") }
        });
        assert_eq!(answer.await.unwrap(), "read");
        assert_eq!(asked.get(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends_and_what_will_not_mend_itself_gets_none() {
        let since = Instant::now();
        assert!(until_it_reads(async || Err::<(), _>(outage())).await.is_err());
        assert!(since.elapsed() >= READS_WITHIN && since.elapsed() < READS_WITHIN + 2 * LOOK);
        let since = Instant::now();
        let full = async || Err::<(), _>(StoreError::from(Outage::Full));
        assert!(until_it_reads(full).await.is_err());
        assert_eq!(since.elapsed(), Duration::ZERO);
        // A server that is behind looks like a log that was rolled back.
        let behind = KeysError::from(FollowError::Ahead { cursor: 2, newest: 1 });
        assert!(not_yet(&behind));
    }
}
