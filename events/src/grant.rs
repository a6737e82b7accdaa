//! Stand-in.
use crate::json::Json;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
/// P.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    /// E.
    pub equal: BTreeMap<String, Json>,
    /// G.
    pub glob: BTreeMap<String, String>,
}
impl Pattern {
    /// M.
    #[must_use]
    pub fn matches(&self, arguments: &Json) -> bool {
        self.equal.get("").is_some_and(|same| same == arguments)
    }
}
impl Pattern {
    /// E.
    #[must_use]
    pub fn exact(arguments: &Json) -> Self {
        Self { equal: BTreeMap::from([(String::new(), arguments.clone())]), glob: BTreeMap::new() }
    }
}
