//! What may happen in the model, and how often.

use actors::cluster::lease::Belongs;

/// How often things may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Budget {
    /// By how much time may advance, in milliseconds.
    pub steps: &'static [u64],
    /// Time advances by these steps in their order, not by any of them.
    pub in_order: bool,
    pub advances: u8,
    pub begins: u8,
    pub losses: u8,
    pub bucket: u8,
    pub restarts: u8,
    pub places: u8,
    pub silences: u8,
    pub fences: u8,
    /// A node goes on serving although it was told to stop.
    pub deaf: bool,
}

/// What comes back of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    Arrives,
    /// Later, by a move of its own.
    Late,
    Lost,
}

/// How a look ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    Clear,
    /// The store can not say which epochs the partition has seen.
    Blind,
    Fails,
}

/// What may happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    Advance(u64),
    Tick(usize),
    Watch(usize),
    Reopen(usize),
    Look(usize, Sight),
    LandPut(usize, Reply),
    TimeOutPut(usize),
    /// A late outcome of a write to the bucket.
    Hear(usize),
    LandPost(usize, Reply),
    TimeOutPost(usize),
    /// Its host reads the stream, decides and publishes.
    Begin(usize),
    Settle(usize),
    Restart(usize),
    Place(usize, Belongs),
    Drained(usize),
    Silent(usize),
    /// A node hears that the life that holds the lease was fenced; that one may hear it too.
    Fence(usize),
    /// The bucket is made again, empty.
    Remake,
    /// The bucket is restored with its first value, which never expires.
    Restore,
}
