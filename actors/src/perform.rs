//! What each kind's effects do: the only code between an intent in the log and the world.
//!
//! An effect reads its own command from what happened; it decides nothing. It is started only after its intent is
//! durable, and a host that dies takes its effects with it, so everything here may be cut off at any await.

pub mod about;
pub mod artifact;
pub mod budget;
pub mod credential;
pub mod gates;
pub mod grant;
pub mod key;
pub mod room;
pub mod run;
pub mod session;
pub mod settings;
