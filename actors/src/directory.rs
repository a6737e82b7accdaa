//! Which kinds of streams have their hosts here; the directory itself is built where the node is put together.

use crate::host::Hosted;
use crate::table::Table;
use std::sync::Arc;

/// A directory that knows where streams of kind `A` are served.
pub trait Serves<A: Hosted>: Send + Sync + 'static {
    /// Their table, if this process has one.
    fn table(&self) -> Option<&Arc<Table<A>>>;
}
