//! Schema views: what is sent of a JSON schema to a family that takes less than all of it.
//!
//! A view is a pure function of the schema and total: what a family does not know is rewritten where its meaning can
//! be kept and left out where it can not, so a view accepts at least what the schema accepts. The exact schema stays
//! with whoever checks the arguments.

mod gemini;

pub(crate) use gemini::gemini;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

/// The view of families that take all of a schema, but want its root to say that it is an object: one that does not
/// say it gets the word, others stay byte for byte.
///
/// # Errors
///
/// When the schema is no JSON, which a catalogue that was read can not be.
pub(crate) fn object(schema: Box<RawValue>) -> Result<Box<RawValue>, serde_json::Error> {
    let read: Value = serde_json::from_str(schema.get())?;
    match read {
        Value::Object(fields) if fields.contains_key("type") => Ok(schema),
        Value::Object(mut fields) => {
            fields.insert("type".to_owned(), "object".into());
            to_raw_value(&fields)
        }
        // `true` and its like: anything that is an object.
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            to_raw_value(&Map::from_iter([("type".to_owned(), Value::from("object"))]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_that_says_what_it_is_stays_byte_for_byte() {
        let view = |text: &str| {
            object(RawValue::from_string(text.to_owned()).unwrap()).unwrap().get().to_owned()
        };
        assert_eq!(view(r#"{ "type":"object","b":1.10 }"#), r#"{ "type":"object","b":1.10 }"#);
        assert_eq!(view(r#"{"properties":{}}"#), r#"{"properties":{},"type":"object"}"#);
        assert_eq!(view("true"), r#"{"type":"object"}"#);
    }
}
