//! The tools that come with the node.

mod clock;
mod fetch;
mod note;
pub mod search;

pub use clock::Clock;
pub use fetch::Fetch;
pub use note::Note;
pub use search::Search;

use crate::tool::Tool;
use std::path::PathBuf;
use std::sync::Arc;

/// All of them; notes go to this file.
#[must_use]
pub fn tools(notes: PathBuf) -> Vec<Arc<dyn Tool>> {
    vec![Arc::new(Note::new(notes)), Arc::new(Clock::new())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Entry, Registry};
    use crate::tool::ReplayClass;

    #[test]
    fn the_native_tools_are_offered_as_they_are() {
        let registry = Registry::new(tools(PathBuf::from("/nowhere/notes"))).unwrap();
        let names: Vec<&str> = registry.names().collect();
        assert_eq!(names, ["clock_now", "note_append"]);
        assert_eq!(registry.get("clock_now").map(Entry::class), Some(ReplayClass::ReadOnly));
        assert_eq!(registry.get("note_append").map(Entry::class), Some(ReplayClass::Effectful));
        assert_eq!(
            registry.catalogue(&names).unwrap().json().as_str(),
            concat!(
                r#"[{"description":"Says what time it is now, in UTC.","name":"clock_now","parameters":{"additionalProperties":false,"properties":{},"type":"object"}},"#,
                r#"{"description":"Appends one line of text to the notes. It can not be undone.","name":"note_append","parameters":{"additionalProperties":false,"properties":{"text":{"description":"The text of the note.","maxLength":8000,"minLength":1,"type":"string"}},"required":["text"],"type":"object"}}]"#
            )
        );
    }
}
