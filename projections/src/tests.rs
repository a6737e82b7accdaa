//! Journals made by the real rules, followed by the real runner: what holds for all projections together.

pub(crate) mod facts;
mod follow;
pub(crate) mod journal;
mod lists;
mod rebuilds;
pub(crate) mod recorder;
pub(crate) mod views;
