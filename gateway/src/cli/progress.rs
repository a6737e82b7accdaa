//! A line on standard error that says how far long work has come; on a terminal only, and only after a second.

use std::io::Write;
use std::time::{Duration, Instant};

/// How long work may take before it is worth a line (1 s).
const SILENT_FOR: Duration = Duration::from_secs(1);
/// The shortest time between two lines (100 ms): faster is not read, and slows the work.
const EVERY: Duration = Duration::from_millis(100);

/// Whether anybody looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// A person at a terminal.
    Yes,
    /// A file, a program, or somebody who asked for quiet.
    No,
}

/// The progress of one piece of work.
pub struct Progress<'a> {
    err: &'a mut dyn Write,
    what: &'static str,
    unit: &'static str,
    watched: Watched,
    began: Instant,
    shown: Option<Instant>,
}

impl<'a> Progress<'a> {
    /// Work of a name, counted in a unit.
    pub fn new(
        err: &'a mut dyn Write,
        watched: Watched,
        what: &'static str,
        unit: &'static str,
    ) -> Self {
        Self { err, what, unit, watched, began: Instant::now(), shown: None }
    }

    /// So much is done, of so much in all; zero in all when that is not known.
    pub fn at(&mut self, done: u64, total: u64) {
        self.at_time(done, total, Instant::now());
    }

    fn at_time(&mut self, done: u64, total: u64, now: Instant) {
        let since = self.shown.map_or(self.began + SILENT_FOR, |shown| shown + EVERY);
        if self.watched == Watched::No || now < since {
            return;
        }
        self.shown = Some(now);
        let line = said(self.what, self.unit, done, total, now.duration_since(self.began));
        // Progress that can not be shown stops no work.
        let _unseen = write!(self.err, "\r\x1b[K{line}").and_then(|()| self.err.flush());
    }
}

/// Takes the line away, so that the answer stands alone.
impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _unseen = write!(self.err, "\r\x1b[K").and_then(|()| self.err.flush());
        }
    }
}

fn said(what: &str, unit: &str, done: u64, total: u64, took: Duration) -> String {
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = done.saturating_mul(1_000) / millis;
    match done.saturating_mul(100).checked_div(total) {
        Some(percent) => {
            let left = total.saturating_sub(done).checked_div(rate);
            let left = left.map_or_else(String::new, |seconds| format!(", {seconds} s left"));
            format!("{what} {percent:3} %  {done}/{total} {unit}, {rate}/s{left}")
        }
        None => format!("{what} {done} {unit}, {rate}/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(watched: Watched, at: &[(u64, u64)]) -> String {
        let mut err = Vec::new();
        let mut progress = Progress::new(&mut err, watched, "verify", "commits");
        for (millis, done) in at {
            let now = progress.began + Duration::from_millis(*millis);
            progress.at_time(*done, 1_000, now);
        }
        drop(progress);
        String::from_utf8(err).unwrap()
    }

    #[test]
    fn the_first_second_is_silent_and_lines_are_rare_and_taken_away() {
        assert_eq!(shown(Watched::Yes, &[(0, 1), (999, 400)]), "");
        let lines = shown(Watched::Yes, &[(1_000, 500), (1_050, 510), (1_100, 550)]);
        let expected = "\r\x1b[Kverify  50 %  500/1000 commits, 500/s, 1 s left\
                        \r\x1b[Kverify  55 %  550/1000 commits, 500/s, 0 s left\r\x1b[K";
        assert_eq!(lines, expected);
        assert_eq!(shown(Watched::No, &[(5_000, 500)]), "");
    }

    #[test]
    fn work_of_unknown_size_has_a_rate_and_no_percent() {
        assert_eq!(
            said("export", "bytes", 500, 0, Duration::from_secs(2)),
            "export 500 bytes, 250/s"
        );
        assert_eq!(said("export", "bytes", 0, 10, Duration::ZERO), "export   0 %  0/10 bytes, 0/s");
    }
}
