//! OpenAI chat completions, and the many that speak it: the neutral request in, wire bytes out; wire bytes in, deltas
//! and an answer out. Pure functions; nothing here knows a socket.

pub mod decode;
pub mod encode;

/// Names the family, in the seal of reasoning too.
pub const FAMILY: &str = "openai_chat";
/// Where completions are asked for, below the base address.
pub(crate) const COMPLETIONS: &str = "chat/completions";
/// Where the models are listed, below the base address.
pub(crate) const MODELS: &str = "models";

/// How an answer is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Piece by piece.
    Stream,
    /// In one body.
    Whole,
}
