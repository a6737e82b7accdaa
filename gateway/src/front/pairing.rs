//! Whether each result of a tool answers a call that stands before it. Providers refuse a stray one, and by then it
//! has cost a run.

use super::bad_request::BadRequest;
use super::tree::{Node, quoted};
use events::message::Message;
use std::collections::HashSet;

/// The calls that were made so far.
#[derive(Debug, Default)]
pub(super) struct Called(HashSet<String>);

impl Called {
    /// Takes in the next message, which was read from `item`.
    pub(super) fn admit(
        &mut self,
        item: &Node<'_, '_>,
        message: &Message,
        mend: &str,
    ) -> Result<(), BadRequest> {
        let stray = message.results().find(|result| !self.0.contains(&result.call));
        if let Some(result) = stray {
            let rule = format!("answers {}, which no earlier message calls", quoted(&result.call));
            return Err(item.refuse(rule, mend));
        }
        self.0.extend(message.calls().map(|call| call.id.clone()));
        Ok(())
    }
}
