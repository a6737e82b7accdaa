//! How an answer ended, in neutral words; each API has its own for them.

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It had said all, or met a stop sequence.
    Stop,
    /// It reached the most output allowed; the answer is incomplete.
    Length,
    /// It waits for the results of its calls.
    ToolCalls,
    /// The provider's filter cut it off.
    ContentFilter,
}
