//! Stories across crates, one file each: real processes, real sockets, the scripted model, no sleeps.

mod chat;
mod contract;
mod crash;
mod hosts;
mod kill_loop;
mod node_story;
mod probe;
mod runs;
mod tidy;
