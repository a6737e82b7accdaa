//! Names to addresses, asked once for each connection: what was checked is what is connected to.

use std::fmt::Debug;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;

/// An answer that is on its way.
pub type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Whoever knows the addresses of names.
pub trait Resolve: Debug + Send + Sync {
    /// All addresses of a name.
    fn resolve(&self, name: &str) -> Resolving;
}

/// The system's own.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl Resolve for System {
    fn resolve(&self, name: &str) -> Resolving {
        let name = name.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}
