//! The tools of a request, read once and checked for every family: names, twins, and the provider's cap.

use super::EncodeError;
use crate::endpoint::Endpoint;
use crate::schema::Unfit;
use events::prompt::Catalogue;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeSet;

/// The schema of a tool that takes nothing.
const NOTHING: &str = r#"{"type":"object","properties":{}}"#;

/// A tool as the catalogue has it.
#[derive(Debug, Deserialize)]
pub(crate) struct Offered {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: Option<String>,
    #[serde(default)]
    parameters: Option<Box<RawValue>>,
    #[serde(default)]
    pub(crate) strict: Option<bool>,
}

impl Offered {
    /// The schema of its arguments, byte for byte; that of nothing where it has none.
    ///
    /// # Errors
    ///
    /// Never in practice: the schema of nothing is JSON.
    pub(crate) fn schema(self) -> Result<Box<RawValue>, EncodeError> {
        match self.parameters.filter(|schema| schema.get() != "null") {
            Some(schema) => Ok(schema),
            None => Ok(RawValue::from_string(NOTHING.to_owned())?),
        }
    }
}

/// The tools of a request as a family is told of them. One that it can not be told of is left out and named in the log:
/// refusing the request would take the others away with it, at every turn.
///
/// # Errors
///
/// Those of [`offered`], and what `view` says besides that a schema is unfit.
pub(crate) fn viewed<T>(
    endpoint: &Endpoint,
    catalogue: &Catalogue,
    name_chars_max: usize,
    view: impl Fn(Offered) -> Result<Result<T, Unfit>, EncodeError>,
) -> Result<Vec<T>, EncodeError> {
    let offered = offered(endpoint, catalogue, name_chars_max)?;
    let mut views = Vec::with_capacity(offered.len());
    for tool in offered {
        let name = tool.name.clone();
        match view(tool)? {
            Ok(view) => views.push(view),
            Err(Unfit(why)) => {
                let (provider, family) = (endpoint.provider.as_str(), endpoint.family.name());
                tracing::warn!(tool = %name, provider, family, why, "tool_quarantined");
            }
        }
    }
    Ok(views)
}

/// The tools, in the catalogue's order, which is by name.
///
/// # Errors
///
/// [`EncodeError`] for a catalogue that does not read, a name that the family refuses or that stands twice, and for
/// more tools than the provider takes.
pub(crate) fn offered(
    endpoint: &Endpoint,
    catalogue: &Catalogue,
    name_chars_max: usize,
) -> Result<Vec<Offered>, EncodeError> {
    if catalogue.is_empty() {
        return Ok(Vec::new());
    }
    let offered: Vec<Offered> = serde_json::from_slice(catalogue.json().as_bytes())
        .map_err(|error| EncodeError::Catalogue(error.to_string()))?;
    if let Some(max) = endpoint.quirks.tools_max.filter(|max| offered.len() > *max) {
        let provider = endpoint.provider.clone();
        return Err(EncodeError::TooManyTools { count: offered.len(), max, provider });
    }
    let mut names = BTreeSet::new();
    for Offered { name, .. } in &offered {
        if name.is_empty() || name.len() > name_chars_max || !name.chars().all(is_name_char) {
            return Err(EncodeError::ToolName {
                name: name.chars().take(name_chars_max * 2).collect(),
                chars_max: name_chars_max,
            });
        }
        if !names.insert(name) {
            return Err(EncodeError::ToolTwice(name.clone()));
        }
    }
    Ok(offered)
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// A name that a model made up, as a family takes it in the history: the call is bound to its result by id, and a
/// refusal of the name would make the whole conversation unanswerable.
pub(crate) fn history_name(name: &str, chars_max: usize) -> String {
    let safe: String =
        name.chars().take(chars_max).map(|c| if is_name_char(c) { c } else { '_' }).collect();
    if safe.is_empty() { "unnamed".to_owned() } else { safe }
}
