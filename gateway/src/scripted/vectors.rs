//! The demo's vectors: made of a digest of each text, so that the same text has the same vector and another text
//! another one. They say nothing of what a text means.

use crate::front::asked::Asked;
use events::message::{Message, Part};
use serde_json::{Map, Value, json};

/// Numbers of a vector that is asked for without a length: 16, to be read at a glance.
const DIMENSIONS: u64 = 16;
/// The most numbers of a vector, as of OpenAI's largest model.
const DIMENSIONS_MAX: u64 = 3_072;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The body of an answer.
pub(super) fn answer(asked: &Asked) -> String {
    let wishes: Map<String, Value> =
        serde_json::from_slice(asked.params.extra.as_bytes()).unwrap_or_default();
    let wanted = wishes.get("dimensions").and_then(Value::as_u64).unwrap_or(DIMENSIONS);
    let dimensions = wanted.clamp(1, DIMENSIONS_MAX);
    let packed = wishes.get("encoding_format").is_some_and(|format| format == "base64");
    let item = |(index, message): (usize, &Message)| {
        let vector = vector(message, dimensions);
        let embedding = if packed { json!(base64(&vector)) } else { json!(vector) };
        json!({"object": "embedding", "index": index, "embedding": embedding})
    };
    let data: Vec<Value> = asked.messages.iter().enumerate().map(item).collect();
    let used: u64 = asked.messages.iter().map(count).sum();
    let usage = json!({"prompt_tokens": used, "total_tokens": used});
    json!({"object": "list", "data": data, "model": asked.model, "usage": usage}).to_string()
}

/// A text's words, or its tokens where it came as those.
fn count(message: &Message) -> u64 {
    let tokens = |part: &Part| match part {
        Part::Opaque(value) => value.get("tokens").and_then(Value::as_array).map(Vec::len),
        Part::Text { .. }
        | Part::Image { .. }
        | Part::ToolCall(_)
        | Part::ToolResult(_)
        | Part::Reasoning { .. }
        | Part::Refusal { .. } => None,
    };
    let tokens: usize = message.parts.iter().filter_map(tokens).sum();
    super::converse::words(&message.plain())
        .saturating_add(u64::try_from(tokens).unwrap_or(u64::MAX))
}

/// A vector of length 1.
fn vector(message: &Message, dimensions: u64) -> Vec<f32> {
    // The text once, however long it and its vector are.
    let text = events::id::digest(&[b"piton/demo/text", message.body().json().as_bytes()]);
    let number = |place: u64| {
        let parts = [&b"piton/demo/vector"[..], &text.to_le_bytes(), &place.to_le_bytes()];
        let digest = events::id::digest(&parts);
        let [low, high, ..] = digest.to_le_bytes();
        f32::from(i16::from_le_bytes([low, high])) + 0.5
    };
    let numbers: Vec<f32> = (0..dimensions).map(number).collect();
    let length = numbers.iter().map(|number| number * number).sum::<f32>().sqrt();
    numbers.into_iter().map(|number| number / length).collect()
}

/// The numbers' bytes, the lowest first, as text.
fn base64(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, place| {
            (bits << 8) | three.get(place).map_or(0, |byte| u32::from(*byte))
        });
        for place in 0..4_usize {
            let digit = usize::try_from((bits >> (18 - 6 * place)) & 63).ok();
            let digit = digit.filter(|_| place <= three.len()).and_then(|digit| DIGITS.get(digit));
            text.push(digit.map_or('=', |digit| char::from(*digit)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::message::Role;

    #[test]
    fn a_text_has_its_own_vector_of_length_one() {
        let of = |text: &str| vector(&Message::text(Role::User, text), 8);
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
        let length: f32 = of("a").iter().map(|number| number * number).sum();
        assert!((length - 1.0).abs() < 1e-5, "{length}");
    }

    #[test]
    fn packed_numbers_are_their_bytes() {
        assert_eq!(base64(&[1.0]), "AACAPw==");
        assert_eq!(base64(&[1.0, -2.0, 0.5]), "AACAPwAAAMAAAAA/");
        assert_eq!(base64(&[1.0, 1.0]), "AACAPwAAgD8=");
        assert_eq!(base64(&[]), "");
    }
}
