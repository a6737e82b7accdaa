//! Commands of the operator's that look at every tool call before it may be intended, as Claude Code's `PreToolUse` hooks
//! do: JSON on standard input, exit 2 blocks with standard error as the reason.
//!
//! Invariant: a call passes only when every hook that matches it has said so, in time. A hook that fails, is late, says
//! too much or can not be started blocks. A hook may run twice for one call: the node may die between it and the
//! intent. It gets none of the node's environment but what it was started with by name, for that holds keys.

mod child;
mod matcher;
mod verdict;

pub use matcher::{Matcher, NotAMatcher};

use events::id::RunId;
use events::json::Json;
use serde_json::{Value, json};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How long all hooks of one call may take together (15 s); then it is blocked.
pub const BUDGET: Duration = Duration::from_secs(15);
/// Hooks of one node (32).
pub const HOOKS_MAX: usize = 32;
/// Calls whose hooks run at the same time (16); more wait, within their own 15 s.
const AT_ONCE: usize = 16;
/// Characters of a reason (2,000): what a model and a person are told.
const REASON_CHARS_MAX: usize = 2_000;

/// One hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// Which tools it looks at.
    pub matcher: Matcher,
    /// What a shell is told to run.
    pub command: String,
}

/// All hooks of a node, in order.
pub struct Hooks {
    all: Vec<Hook>,
    /// The folder that they run in.
    folder: PathBuf,
    /// All of their environment.
    environment: Vec<(String, String)>,
    budget: Duration,
    room: Semaphore,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").field("all", &self.all).finish_non_exhaustive()
    }
}

/// A call that hooks look at.
#[derive(Debug, Clone, Copy)]
pub struct HookCall<'a> {
    /// The run that makes it.
    pub run: RunId,
    /// Its project.
    pub project: &'a str,
    /// The tool, by its model-facing name.
    pub tool: &'a str,
    /// Its canonical arguments.
    pub arguments: &'a Json,
}

/// A hook did not let a call pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    /// It said no.
    #[error("a hook blocks this call: {0}")]
    Said(String),
    /// It could not say yes. The call is not run either.
    #[error("a hook could not look at this call, so it is not run: {0}")]
    Failed(String),
}

impl Hooks {
    /// These hooks, which run in this folder with this environment and no other.
    #[must_use]
    pub const fn new(all: Vec<Hook>, folder: PathBuf, environment: Vec<(String, String)>) -> Self {
        Self { all, folder, environment, budget: BUDGET, room: Semaphore::const_new(AT_ONCE) }
    }

    /// No hooks.
    #[must_use]
    pub const fn none() -> Self {
        Self::new(vec![], PathBuf::new(), vec![])
    }

    /// Lets every hook that matches look at a call, in order. The first that does not let it pass is the last.
    ///
    /// # Errors
    ///
    /// [`Blocked`]; the call is not to be run.
    pub async fn pre_tool_use(&self, call: &HookCall<'_>) -> Result<(), Blocked> {
        let matching: Vec<&Hook> =
            self.all.iter().filter(|hook| hook.matcher.matches(call.tool)).collect();
        if matching.is_empty() {
            return Ok(());
        }
        let until = Instant::now() + self.budget;
        let late = || Blocked::Failed(format!("it took longer than {} s", self.budget.as_secs()));
        // Never closed, so waiting for it ends with a permit or in time.
        let room = tokio::time::timeout_at(until, self.room.acquire()).await;
        let _room = room.map_err(|_elapsed| late())?;
        let told = self.told(call)?;
        for hook in matching {
            let run = child::run(&hook.command, &self.folder, &self.environment, &told);
            let ended = tokio::time::timeout_at(until, run).await;
            let found = match ended {
                Err(_elapsed) => Err(late()),
                Ok(Err(why)) => Err(Blocked::Failed(why.to_string())),
                Ok(Ok(ended)) => verdict::of(&ended),
            };
            if let Err(blocked) = found {
                let (run, tool, command) = (call.run, call.tool, &hook.command);
                tracing::warn!(%run, tool, command, %blocked, "hook_blocked");
                return Err(blocked);
            }
        }
        Ok(())
    }

    /// What a hook reads: Claude Code's keys, and our run and project beside them.
    fn told(&self, call: &HookCall<'_>) -> Result<Vec<u8>, Blocked> {
        let input: Value = serde_json::from_slice(call.arguments.as_bytes())
            .map_err(|_| Blocked::Failed("the arguments are not JSON".to_owned()))?;
        let run = call.run.to_string();
        let told = json!({
            "session_id": run,
            "hook_event_name": "PreToolUse",
            "permission_mode": "default",
            "cwd": self.folder,
            "tool_name": call.tool,
            "tool_input": input,
            "run_id": run,
            "project": call.project,
        });
        Ok(told.to_string().into_bytes())
    }
}

/// The beginning of what a hook said, for people and models.
fn reason(text: &str) -> String {
    let text = text.trim();
    let mut cut: String = text.chars().take(REASON_CHARS_MAX).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests;
