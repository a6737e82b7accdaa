//! Reasoning as `thinking` blocks. The signature says whose it is and has what its owner must get back, so that a
//! client that keeps no session hands it over with the block; a provider that gets reasoning that is not its own would
//! refuse the conversation.

use crate::front::bad_request::BadRequest;
use crate::front::blocks::Sealed;
use crate::front::tree::Object;
use events::message::Part;

/// What a signature of ours begins with.
const SIGN: &str = "piton:";
const SHAPE: &str = "send the block exactly as it came";

/// The signature of a block, or the data of one that nobody may read.
pub(super) fn signature(sealed: &Sealed) -> String {
    // Strings only; serialising them can not fail.
    format!("{SIGN}{}", serde_json::to_string(sealed).unwrap_or_default())
}

/// The part of a block that this node gave out; none of any other, whose owner nobody here knows.
pub(super) fn shown(object: &Object<'_, '_>) -> Result<Option<Part>, BadRequest> {
    let text = object.need("thinking", SHAPE)?.text()?;
    let Some(signature) = object.get("signature") else { return Ok(None) };
    Ok(part(text, signature.word()?))
}

/// The same for a block that nobody may read.
pub(super) fn unread(object: &Object<'_, '_>) -> Result<Option<Part>, BadRequest> {
    Ok(part(String::new(), object.need("data", SHAPE)?.word()?))
}

fn part(text: String, signature: &str) -> Option<Part> {
    let Sealed { seal, sealed } = serde_json::from_str(signature.strip_prefix(SIGN)?).ok()?;
    Some(Part::Reasoning { text, seal, sealed })
}
