//! The bus of one process: a call into the directory, with the checks that a wire would make.
//!
//! It holds the directory weakly, for what the tables' effects need holds the bus in turn.

use crate::directory::Serves;
use crate::host::Hosted;
use crate::order::{Answer, NoDecision, Observed, Order};
use crate::table::Table;
use postcard::ser_flavors::Size;
use serde::Serialize;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use tokio::sync::watch;

/// Bytes of one command. A message of a conversation fits; a file belongs into a blob, whose reference is sent.
pub const COMMAND_BYTES_MAX: usize = 8 << 20;

/// Calls into this process's own directory. Clones lead to the same one.
pub struct Local<D>(Arc<OnceLock<Weak<D>>>);

impl<D> Local<D> {
    /// A bus that leads nowhere yet, so that what hangs on it can be built before the directory is.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// Says where it leads, once; a second time changes nothing. Whoever built the directory keeps it alive.
    pub fn lead_to(&self, directory: &Arc<D>) {
        self.0.get_or_init(|| Arc::downgrade(directory));
    }

    pub(super) async fn decide<A>(&self, id: A::Id, order: Order<A::Command>) -> Answer<A>
    where
        A: Hosted,
        A::Command: Serialize,
        D: Serves<A>,
    {
        let table = self.table::<A>()?;
        let bytes = size(&order.command);
        if bytes > COMMAND_BYTES_MAX {
            return Err(NoDecision::TooLarge { bytes, max: COMMAND_BYTES_MAX });
        }
        table.decide(id, order).await
    }

    pub(super) async fn observe<A>(&self, id: A::Id) -> Result<Observed<A>, NoDecision>
    where
        A: Hosted,
        D: Serves<A>,
    {
        self.table::<A>()?.observe(id).await
    }

    pub(super) async fn watch<A>(
        &self,
        id: A::Id,
    ) -> Result<watch::Receiver<Observed<A>>, NoDecision>
    where
        A: Hosted,
        D: Serves<A>,
    {
        self.table::<A>()?.watch(id).await
    }

    fn table<A>(&self) -> Result<Arc<Table<A>>, NoDecision>
    where
        A: Hosted,
        D: Serves<A>,
    {
        let directory = self.0.get().and_then(Weak::upgrade).ok_or(NoDecision::NobodyThere)?;
        directory.table().map(Arc::clone).ok_or(NoDecision::NobodyThere)
    }
}

/// Bytes on a wire. What can not be written at all could be sent to nobody, and is larger than any limit.
pub(super) fn size(command: &impl Serialize) -> usize {
    postcard::serialize_with_flavor(command, Size::default()).unwrap_or(usize::MAX)
}

impl<D> Clone for Local<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<D> Default for Local<D> {
    fn default() -> Self {
        Self::new()
    }
}

impl<D> fmt::Debug for Local<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("leads", &self.0.get().is_some()).finish()
    }
}
