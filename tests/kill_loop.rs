//! Killed again and again while it acknowledges, a store loses nothing that was acknowledged, tears no commit and
//! breaks no chain. The ledger of acknowledgements is kept here, outside the process that dies.

use crate::probe::{Dice, wake_of};
use events::record::Hash;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use store::verify::verify;
use tempfile::TempDir;

/// Kills of one story; `PITON_TEST_KILLS` overrides it.
const KILLS: u64 = 24;
/// Kills of one journal: each is followed by a verification of all of it, so a longer life costs its square.
const JOURNAL_KILLS_MAX: u64 = 50;
/// Streams that are written at the same time.
const WRITERS: u32 = 48;
/// A child that says nothing for so long is broken.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// An acknowledged commit: its id and its hash, as the child said them.
type Acknowledged = (Vec<u8>, String);

fn kills() -> u64 {
    std::env::var("PITON_TEST_KILLS").map_or(KILLS, |kills| kills.parse().unwrap())
}

struct Writer {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Writer {
    fn start(path: &Path, manner: &str, boot: u64) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_writer"));
        command.arg(path).arg(manner).arg(WRITERS.to_string()).arg(boot.to_string());
        command.stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// Hears `count` acknowledgements, kills, and hears what was said before that.
    fn kill_after(mut self, count: u64, ledger: &mut Vec<Acknowledged>) {
        let before = ledger.len();
        let heard = |ledger: &Vec<Acknowledged>| u64::try_from(ledger.len() - before).unwrap();
        while heard(ledger) < count && self.hear(ledger) {}
        self.child.kill().unwrap();
        while self.hear(ledger) {}
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), None, "the writer must die of the kill and not before: {status}");
    }

    /// One line; false at the end. A line that was cut off was not said.
    fn hear(&mut self, ledger: &mut Vec<Acknowledged>) -> bool {
        let mut line = String::new();
        let began = Instant::now();
        let heard = self.out.read_line(&mut line).unwrap();
        assert!(began.elapsed() < SILENCE_MAX, "the writer said nothing");
        if heard == 0 || !line.ends_with('\n') {
            return false;
        }
        if let Some((id, hash)) = line.trim().strip_prefix("ack ").and_then(|s| s.split_once(' ')) {
            let id = u128::from_str_radix(id, 16).unwrap();
            ledger.push((id.to_le_bytes().to_vec(), hash.to_owned()));
        }
        true
    }
}

/// Acknowledged commits that do not stand in the file as they were acknowledged.
fn lost(path: &Path, ledger: &[Acknowledged]) -> u64 {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut select = connection.prepare("select hash from commits where commit_id = ?1").unwrap();
    let mut lost = 0;
    for (id, hash) in ledger {
        let found = select.query_row([id], |row| row.get::<_, [u8; 32]>(0)).optional().unwrap();
        let stands = found.is_some_and(|found| Hash(found).to_string() == *hash);
        lost += u64::from(!stands);
    }
    lost
}

/// Kills a writer at a random moment, again and again over the same journal. Returns what was acknowledged, and
/// how much of that is lost at the end.
fn story(manner: &str, kills: u64, seed: u64) -> (usize, u64) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("journal.db");
    let mut dice = Dice::new(seed);
    let mut ledger = vec![];
    for kill in 0..kills {
        // Sometimes before the first word: while it opens, or plays the log back.
        let count = if dice.roll(6) == 0 { 0 } else { dice.roll(400) };
        let known = ledger.len();
        Writer::start(&path, manner, kill + 1).kill_after(count, &mut ledger);
        if !path.exists() {
            continue;
        }
        // An owner that dies before the journal is made leaves none.
        match verify(&path, wake_of, |_, _| {}) {
            Ok(report) => {
                assert_eq!(report.problems, [], "kill {kill}, seed {seed}");
                if manner == "honest" {
                    let fresh = &ledger[known..];
                    assert_eq!(lost(&path, fresh), 0, "kill {kill}, seed {seed}");
                }
            }
            Err(error) => assert!(ledger.is_empty(), "kill {kill}, seed {seed}: {error}"),
        }
    }
    let lost = lost(&path, &ledger);
    (ledger.len(), lost)
}

#[test]
fn nothing_acknowledged_is_lost_however_often_it_is_killed() {
    let seed = u64::from(std::process::id());
    let (mut acknowledged, mut lost) = (0, 0);
    for before in (0..kills()).step_by(usize::try_from(JOURNAL_KILLS_MAX).unwrap()) {
        let kills = JOURNAL_KILLS_MAX.min(kills() - before);
        let found = story("honest", kills, seed + before);
        (acknowledged, lost) = (acknowledged + found.0, lost + found.1);
    }
    println!("{} kills, {acknowledged} acknowledged, {lost} lost, seed {seed}", kills());
    assert_eq!(lost, 0, "seed {seed}");
    assert!(acknowledged > 500, "only {acknowledged}: the loop tried nothing");
}

#[test]
fn a_reply_before_the_commit_is_caught() {
    let seed = u64::from(std::process::id());
    let (acknowledged, lost) = story("liar", 8, seed);
    println!("8 kills, {acknowledged} acknowledged too early, {lost} lost, seed {seed}");
    assert!(lost > 0, "the same check must find what a liar loses, seed {seed}");
}
