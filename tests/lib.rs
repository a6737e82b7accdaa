//! What stories share: a real node in a process of its own, spoken to over HTTP, killed when the story says so.
//!
//! Nothing here waits for a time: each wait is for a state that shows, with a deadline.

pub mod audit;
pub mod books;
pub mod brokered;
pub mod fleet;
pub mod nats;
pub mod process;
pub mod site;
pub mod sse;
pub mod upstream;
pub mod work;

pub use process::{ADMIN_KEY, Node};
