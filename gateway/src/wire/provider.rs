//! Providers, what they can do, and their models, as JSON.

use super::usage::dollars;
use events::usage::Billing;
use providers::endpoint::{CacheKey, Parts, Reasoning};
use providers::pricing::{self, Facts};
use providers::{Endpoint, Family, registry};
use serde_json::{Map, Value, json};

/// What a provider can do here, as far as the product speaks to it: nobody was asked.
#[must_use]
pub fn capabilities(endpoint: &Endpoint) -> Value {
    let quirks = endpoint.quirks;
    let (replays, caches) = match endpoint.family {
        Family::AnthropicMessages => (true, "breakpoints"),
        Family::Gemini | Family::Bedrock | Family::OpenaiResponses => (true, "automatic"),
        Family::OpenaiChat => (quirks.reasoning == Reasoning::ReasoningContent, "automatic"),
    };
    json!({
        "family": endpoint.family.name(),
        "streaming": true,
        "tools": true,
        "tools_max": quirks.tools_max,
        "images": quirks.parts == Parts::All,
        "reasoning_replayed": replays,
        "prompt_cache": if quirks.cache_key == CacheKey::Sent { "key" } else { caches },
        "lists_models": endpoint.family != Family::Bedrock,
    })
}

/// What the table of prices says of a model.
#[must_use]
pub fn facts(facts: &Facts) -> Value {
    let price = facts.price;
    let usual = price.map(|price| price.usual);
    let long = price.and_then(|price| price.long);
    json!({
        "input_usd_per_million": dollars(usual.map(|rates| rates.input)),
        "output_usd_per_million": dollars(usual.map(|rates| rates.output)),
        "cached_input_usd_per_million": dollars(usual.and_then(|rates| rates.cached_input)),
        "cache_write_usd_per_million": dollars(usual.and_then(|rates| rates.cache_write)),
        "long_above_tokens": long.map(|long| long.above.0),
        "long_input_usd_per_million": dollars(long.map(|long| long.rates.input)),
        "long_output_usd_per_million": dollars(long.map(|long| long.rates.output)),
        "context_tokens_max": facts.context_max.map(|tokens| tokens.0),
        "output_tokens_max": facts.output_max.map(|tokens| tokens.0),
    })
}

/// A model at a provider, by its resolved id. What the table does not have is null, and never zero.
#[must_use]
pub fn model(provider: &str, model: &str) -> Value {
    let nothing = Facts { price: None, context_max: None, output_max: None };
    let known = pricing::facts(provider, model);
    let (as_of, _) = pricing::source();
    let mut row = Map::from_iter([
        ("id".to_owned(), Value::from(format!("{provider}:{model}"))),
        ("object".to_owned(), Value::from("harness.model")),
        ("provider".to_owned(), Value::from(provider)),
        ("model".to_owned(), Value::from(model)),
        ("priced".to_owned(), Value::from(known.is_some_and(|facts| facts.price.is_some()))),
        ("as_of".to_owned(), known.map_or(Value::Null, |_| Value::from(as_of))),
    ]);
    let billing = match registry::billing(provider) {
        Billing::Metered => "metered",
        Billing::Subscription => "subscription",
    };
    row.insert("billing".to_owned(), Value::from(billing));
    if let Value::Object(facts) = facts(known.unwrap_or(&nothing)) {
        row.extend(facts);
    }
    Value::Object(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_without_a_price_has_none_and_one_with_a_price_its_day() {
        let unknown = model("vllm", "any");
        assert_eq!(unknown["input_usd_per_million"], Value::Null);
        assert_eq!((&unknown["priced"], &unknown["as_of"]), (&json!(false), &Value::Null));
        let known = model("openai", "gpt-6-luna");
        assert_eq!((&known["id"], &known["priced"]), (&json!("openai:gpt-6-luna"), &json!(true)));
        assert_eq!(known["as_of"], pricing::source().0);
        assert!(known["context_tokens_max"].as_u64() > known["output_tokens_max"].as_u64());
        assert!(known["input_usd_per_million"].as_f64() > Some(0.0));
        assert_eq!(model("openai-codex", "x")["billing"], "subscription");
    }

    #[test]
    fn what_takes_text_only_says_so() {
        let of = |id: &str| {
            let known = registry::provider(id).unwrap();
            let url = known.base_url.unwrap().parse().unwrap();
            capabilities(&Endpoint::new(id, known.family, url, None, known.quirks))
        };
        assert_eq!(of("deepseek")["images"], false);
        assert_eq!(
            (&of("openai")["images"], &of("openai")["tools_max"]),
            (&json!(true), &json!(128))
        );
        assert_eq!(of("anthropic")["prompt_cache"], "breakpoints");
    }
}
