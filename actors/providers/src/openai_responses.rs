//! OpenAI Responses, with an API key or behind a ChatGPT subscription: the neutral request in, wire bytes out; wire
//! bytes in, deltas and an answer out. Pure functions; nothing here knows a socket.
//!
//! Nothing is stored at the provider: each request carries the whole conversation, and reasoning goes back encrypted.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod hear;
pub(crate) mod play;
