//! One process of a hook: a shell in a process group of its own, which is killed with it, whatever it started.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::path::Path;
use std::process::Stdio;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// Bytes of standard output and of standard error that a hook may write, each (64 KiB).
const WRITTEN_MAX: u64 = 64 << 10;

/// How a hook ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ended {
    /// Its exit code; none when a signal ended it.
    pub(super) code: Option<i32>,
    /// What it wrote to standard output.
    pub(super) out: String,
    /// What it wrote to standard error.
    pub(super) err: String,
}

/// Why a hook did not end as one does.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    #[error("it could not be started: {0}")]
    Start(io::Error),
    #[error("it could not be watched: {0}")]
    Watch(io::Error),
    #[error("it wrote more than {WRITTEN_MAX} bytes")]
    Chatty,
}

/// Kills the whole group, also when whoever waits for it is dropped.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // One that has ended needs no killing.
            let _gone = kill_process_group(group, Signal::KILL);
        }
    }
}

fn start(
    command: &str,
    folder: &Path,
    environment: &[(String, String)],
) -> io::Result<(Child, Group)> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).current_dir(folder).env_clear();
    shell.envs(environment.iter().map(|(name, value)| (name, value)));
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = shell.process_group(0).kill_on_drop(true).spawn()?;
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    Ok((child, Group(pid)))
}

pub(super) async fn run(
    command: &str,
    folder: &Path,
    environment: &[(String, String)],
    told: &[u8],
) -> Result<Ended, Failed> {
    let (mut child, group) = start(command, folder, environment).map_err(Failed::Start)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let tell = async {
        if let Some(mut stdin) = stdin {
            // A hook need not read what it is told.
            let _unread = stdin.write_all(told).await;
        }
    };
    let wait = async {
        let status = child.wait().await;
        // What it left behind holds the pipes open and was not asked to stay.
        drop(group);
        status
    };
    let (status, out, err, ()) = tokio::join!(wait, heard(stdout), heard(stderr), tell);
    let status = status.map_err(Failed::Watch)?;
    Ok(Ended { code: status.code(), out: out?, err: err? })
}

/// All that is written there. Who writes beyond the bound finds the pipe closed.
async fn heard(pipe: Option<impl AsyncRead + Unpin>) -> Result<String, Failed> {
    let Some(pipe) = pipe else { return Ok(String::new()) };
    let mut bytes = Vec::new();
    pipe.take(WRITTEN_MAX + 1).read_to_end(&mut bytes).await.map_err(Failed::Watch)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > WRITTEN_MAX {
        return Err(Failed::Chatty);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
