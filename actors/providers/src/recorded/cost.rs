//! What recorded exchanges cost, by prices that stand here: golden totals, worked out by hand.
//!
//! Prices are micro-USD per million tokens, so tokens times price, over a million, rounded up, is the cost.

use super::{bedrock, read, responses, whole};
use crate::delta::Answer;
use crate::family::Family;
use events::quantity::MicroUsd;
use events::quantity::Tokens;
use events::usage::{CostSource, LongInput, Price, Rates};

/// Input, output, cached input, cache write.
const fn rates(input: u64, output: u64, cached: u64, written: u64) -> Rates {
    Rates {
        input: MicroUsd(input),
        output: MicroUsd(output),
        cached_input: Some(MicroUsd(cached)),
        cache_write: Some(MicroUsd(written)),
    }
}

const fn flat(rates: Rates) -> Price {
    Price { usual: rates, long: None }
}

const SONNET: Price = flat(rates(3_000_000, 15_000_000, 300_000, 3_750_000));
const GPT: Price = flat(rates(2_500_000, 10_000_000, 1_250_000, 2_500_000));
const GEMINI: Price = Price {
    usual: rates(2_000_000, 12_000_000, 200_000, 2_000_000),
    long: Some(LongInput {
        above: Tokens(200),
        rates: rates(4_000_000, 18_000_000, 400_000, 4_000_000),
    }),
};
const DEEPSEEK: Price = flat(rates(280_000, 420_000, 28_000, 280_000));

/// The answers of a fixture, whole ones and streams alike; none where the fixtures are not there.
fn answers(family: Family, name: &str) -> Vec<Answer> {
    if family == Family::Bedrock {
        return bedrock::answers(name);
    }
    let read = |body: String| {
        if body.trim_start().starts_with('{') {
            return whole(family, &body);
        }
        read(family, &body, usize::MAX).unwrap()
    };
    responses(name).unwrap_or_default().into_iter().map(|one| read(one.body)).collect()
}

/// Family, fixture, which of its answers, prices, what it must cost, and who says so. The fourth: 9 fresh tokens, 4,202
/// written to the cache and 5 of output are 27 + 15,757.5 + 75. The tenth is longer than the bound of the usual rates.
type Row = (Family, &'static str, usize, Price, u64, CostSource);

const ROWS: [Row; 14] = [
    (
        Family::AnthropicMessages,
        "01-anthropic-parallel-tools.json",
        0,
        SONNET,
        3_150,
        CostSource::Table,
    ),
    (
        Family::AnthropicMessages,
        "01-anthropic-parallel-tools.json",
        1,
        SONNET,
        2_928,
        CostSource::Table,
    ),
    (
        Family::AnthropicMessages,
        "02-anthropic-thinking-tool-stream.json",
        0,
        SONNET,
        3_708,
        CostSource::Table,
    ),
    (
        Family::AnthropicMessages,
        "03-anthropic-redacted-thinking-stream.json",
        0,
        SONNET,
        3_111,
        CostSource::Table,
    ),
    (
        Family::AnthropicMessages,
        "04-anthropic-cache-usage-stream.json",
        0,
        SONNET,
        15_860,
        CostSource::Table,
    ),
    (
        Family::AnthropicMessages,
        "06-anthropic-thinking-signature-roundtrip.json",
        0,
        SONNET,
        3_519,
        CostSource::Table,
    ),
    (
        Family::OpenaiChat,
        "07-openai-chat-parallel-tools-stream.json",
        0,
        GPT,
        645,
        CostSource::Table,
    ),
    (
        Family::OpenaiResponses,
        "09-openai-responses-reasoning-tools-stream.json",
        0,
        GPT,
        715,
        CostSource::Table,
    ),
    (
        Family::Gemini,
        "13-gemini-stream-functioncall-thoughtsignature.json",
        0,
        GEMINI,
        2_602,
        CostSource::Table,
    ),
    (
        Family::Gemini,
        "13-gemini-stream-functioncall-thoughtsignature.json",
        1,
        GEMINI,
        1_172,
        CostSource::Table,
    ),
    (Family::Gemini, "14-gemini-parallel-tools-stream.json", 0, GEMINI, 4_614, CostSource::Table),
    (
        Family::Bedrock,
        "17-bedrock-conversestream-two-tools.json",
        0,
        SONNET,
        2_649,
        CostSource::Table,
    ),
    (
        Family::OpenaiChat,
        "22-openrouter-reasoning-details-tools-stream.json",
        0,
        GPT,
        1_650,
        CostSource::Reported,
    ),
    (Family::OpenaiChat, "23-deepseek-tools-stream.json", 0, DEEPSEEK, 37, CostSource::Table),
];

#[test]
fn recorded_exchanges_cost_what_was_worked_out_by_hand() {
    for (family, name, nth, price, cost, source) in ROWS {
        let Some(answer) = answers(family, name).into_iter().nth(nth) else { continue };
        let priced = answer.usage.priced(Some(&price));
        assert_eq!(
            (priced.cost, priced.cost_source),
            (Some(MicroUsd(cost)), Some(source)),
            "{name} {nth}"
        );
    }
}
