//! Our JSON shapes: the only place that spells a key of ours. A type here is never an event and never a command.

pub mod artifact;
pub mod budget;
pub mod call;
pub mod credential;
pub mod fact;
pub mod gate;
pub mod grant;
pub mod inbox;
pub mod journal;
pub mod list;
pub mod live;
pub mod node;
pub mod provider;
pub mod public;
pub mod run;
pub mod search;
pub mod settings;
pub mod time;
pub mod tool;
pub mod usage;
