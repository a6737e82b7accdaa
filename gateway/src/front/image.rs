//! What an image may be addressed by.

use super::bad_request::BadRequest;
use super::tree::{Node, quoted};

/// Anything else could make a local server read its own disk.
const SCHEMES: [&str; 3] = ["https://", "http://", "data:"];

/// The address that a field holds.
pub(super) fn address(node: &Node<'_, '_>) -> Result<String, BadRequest> {
    let url = node.text()?;
    let is_one = |scheme: &str| {
        url.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme))
    };
    if SCHEMES.iter().any(|scheme| is_one(scheme)) {
        return Ok(url);
    }
    let rule = format!("is {}, which is neither an https: nor a data: address", quoted(&url));
    Err(node.refuse(rule, "put the image on a server, or into a data: address"))
}
