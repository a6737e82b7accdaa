//! How a figure is taken and told: medians of several rounds, ratios within one run, one line of JSON each.
//!
//! A machine that others use makes any lone number worthless, so each line carries the load it was taken under.

use actors::clock::Clock;
use gateway::wire::time::rfc3339;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Rounds of each measurement; the median is told.
pub const ROUNDS: usize = 3;

/// Where figures are kept, on the disk of the build.
pub fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench");
    std::fs::create_dir_all(&folder).expect("target/bench");
    folder
}

/// The median of some rounds.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// So many digits behind the point.
pub fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// User and system time of a process so far; `None` means this one. In ticks of 10 ms, so measure for seconds.
pub fn cpu(pid: Option<u32>) -> Duration {
    let text = of_process(pid, "stat");
    let after = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = after
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 10)
}

/// Resident bytes of a process; `None` means this one.
pub fn resident(pid: Option<u32>) -> u64 {
    let text = of_process(pid, "statm");
    let pages: u64 =
        text.split_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or_default();
    pages * 4_096
}

fn of_process(pid: Option<u32>, file: &str) -> String {
    let process = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    std::fs::read_to_string(format!("/proc/{process}/{file}"))
        .expect("Linux tells about its processes")
}

/// Tells a figure, what was measured, against what, and the ratio; and keeps the line in `target/bench/figures.jsonl`.
pub fn tell(figure: &str, fields: &Value) {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Option<f64> = load.split_whitespace().next().and_then(|field| field.parse().ok());
    let mut line = json!({"figure": figure});
    let run = json!({"load1": load, "rounds": ROUNDS, "at": rfc3339(Clock::System.now()), "commit": commit(),
        "bench_cpu_s": cpu(None).as_secs_f64(), "bench_resident_mb": resident(None) >> 20});
    if let (Some(line), Some(fields), Some(run)) =
        (line.as_object_mut(), fields.as_object(), run.as_object())
    {
        line.extend(fields.clone());
        line.extend(run.clone());
    }
    println!("{line}");
    let file =
        std::fs::File::options().create(true).append(true).open(folder().join("figures.jsonl"));
    let kept = file.and_then(|mut file| writeln!(file, "{line}"));
    kept.expect("the figure is kept");
}

/// The commit that was measured; `-dirty` where files differ from it.
fn commit() -> Option<String> {
    let said = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=12"])
        .output()
        .ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
