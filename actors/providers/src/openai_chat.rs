//! OpenAI chat completions, and the many that speak it: the neutral request in, wire bytes out; wire bytes in, deltas
//! and an answer out. Pure functions; nothing here knows a socket.

pub(crate) mod decode;
pub(crate) mod embed;
pub(crate) mod encode;
pub(crate) mod hear;
pub(crate) mod play;
