//! The client's own tools in the words of this API.

use crate::front::bad_request::BadRequest;
use crate::front::catalogue::{self, Tool};
use crate::front::tree::{Node, Object};
use events::prompt::Catalogue;

/// The function tools; tools of any other type are the provider's own and are ignored.
pub(super) fn catalogue(node: Option<Node<'_, '_>>) -> Result<Catalogue, BadRequest> {
    catalogue::catalogue(node, tool)
}

fn tool(object: &Object<'_, '_>) -> Result<Option<Tool>, BadRequest> {
    let shape = "send {\"type\": \"function\", \"function\": {\"name\": …, \"parameters\": {…}}}";
    if object.need("type", shape)?.word()? != "function" {
        return Ok(None);
    }
    let function = object.need("function", shape)?.object()?;
    Tool::read(&function, "parameters", shape).map(Some)
}
