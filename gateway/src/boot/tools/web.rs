//! The tools that go out to the web, as far as the configuration opens it.

use crate::config::outbound::{Outbound, Searcher};
use ::tools::Tool;
use ::tools::native::search::{Engine, Key};
use ::tools::native::{Fetch, Search};
use ::tools::outbound::{ClientError, Guard, NotAPlace, System};
use std::sync::Arc;

/// The tools for the web can not be made.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The HTTP client refuses its own settings.
    #[error("the HTTP client of the tools can not be built")]
    Client(#[from] ClientError),
    /// Give an address with a host.
    #[error("tools.web_search.base_url has no host that can be asked")]
    Search(#[from] NotAPlace),
}

/// What may go nowhere is not offered: `http.fetch` without a place, `web.search` without an engine.
pub(super) fn tools(outbound: &Outbound) -> Result<Vec<Arc<dyn Tool>>, WebError> {
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    let guard = Guard::new(outbound.places.clone(), Arc::new(System))?;
    if let Some(Searcher { backend, base_url, key, .. }) = outbound.search.clone() {
        let key = key.map(|key| Key::new(key.expose()));
        tools.push(Arc::new(Search::new(&guard, Engine { backend, base_url, key })?));
    }
    if guard.is_open() {
        tools.push(Arc::new(Fetch::new(guard)));
    }
    Ok(tools)
}
