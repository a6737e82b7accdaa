//! How a figure is taken and told: medians of several rounds, ratios within one run, one line of JSON each.

use serde_json::{Value, json};
use std::time::Duration;

/// Rounds of each measurement; the median is told.
pub const ROUNDS: usize = 3;

/// The median of some rounds.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// User and system time of a process so far; `None` means this one. In ticks of 10 ms, so measure for seconds.
pub fn cpu(pid: Option<u32>) -> Duration {
    let path = pid.map_or_else(|| "/proc/self/stat".to_owned(), |pid| format!("/proc/{pid}/stat"));
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let after = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = after.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Resident bytes of this process.
pub fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or_default();
    pages * 4_096
}

/// Tells a figure: what was measured, against what, and the ratio.
pub fn tell(figure: &str, fields: &Value) {
    let mut line = json!({"figure": figure});
    if let (Some(line), Some(fields)) = (line.as_object_mut(), fields.as_object()) {
        line.extend(fields.clone());
    }
    println!("{line}");
}
