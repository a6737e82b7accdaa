//! Names of what this crate measures. Labels are a provider's id and an outcome, never a model, a key or an id.

use events::model_call::Class;
use metrics::{counter, histogram};
use std::time::Duration;

/// Wire calls by provider and outcome: `answered` or the error class.
pub const WIRE_CALLS: &str = "piton_provider_wire_calls_total";
/// Seconds from the start of a wire call to its end, by provider.
pub const WIRE_CALL_SECONDS: &str = "piton_provider_wire_call_seconds";
/// Seconds from the start of a wire call to the first byte of its answer, by provider.
pub const FIRST_BYTE_SECONDS: &str = "piton_provider_first_byte_seconds";

/// The label of the provider's id.
const PROVIDER: &str = "provider";
/// The label of what came of it.
const OUTCOME: &str = "outcome";
/// The outcome of a call that was answered.
const ANSWERED: &str = "answered";

/// A wire call has ended; `failed` is its class when it gave no answer.
pub(crate) fn called(provider: &str, failed: Option<Class>, took: Duration) {
    let outcome = failed.map_or(ANSWERED, Class::name);
    counter!(WIRE_CALLS, PROVIDER => provider.to_owned(), OUTCOME => outcome).increment(1);
    histogram!(WIRE_CALL_SECONDS, PROVIDER => provider.to_owned()).record(took);
}

/// The first byte of an answer is there.
pub(crate) fn first_byte(provider: &str, took: Duration) {
    histogram!(FIRST_BYTE_SECONDS, PROVIDER => provider.to_owned()).record(took);
}
