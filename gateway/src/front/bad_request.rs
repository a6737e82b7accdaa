//! What is wrong with a request, in words that name the field, the rule and the mend.

/// The request can not be worked with. It is the caller's to mend; nothing was started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {rule}; {mend}")]
pub struct BadRequest {
    /// The path of the field, as in `messages[2].content`; `body` for the whole.
    pub field: String,
    /// The rule that it breaks, with what was found.
    pub rule: String,
    /// What to send instead.
    pub mend: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_request_reads_as_field_rule_and_mend() {
        let refused = BadRequest {
            field: "messages[2].content".into(),
            rule: "must be a string, not a number".into(),
            mend: "put it in quotes".into(),
        };
        let text = "messages[2].content: must be a string, not a number; put it in quotes";
        assert_eq!(refused.to_string(), text);
    }
}
