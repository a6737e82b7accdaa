//! Names as people write them, and environments as they are.

use super::*;
use std::collections::BTreeSet;

#[track_caller]
fn named(text: &str, id: &str, model: &str) {
    match resolve(text) {
        Ok(Route::Named { provider, model: found }) => {
            assert_eq!((provider.id, found), (id, model), "{text}");
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[track_caller]
fn unknown(text: &str, nearest: &'static str) {
    match resolve(text) {
        Err(ResolveError::Unknown { nearest: Some(found), .. }) => {
            assert_eq!(found, nearest, "{text}");
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_name_may_carry_its_provider() {
    named("openai:gpt-4.1", "openai", "gpt-4.1");
    named("openai/gpt-4.1", "openai", "gpt-4.1");
    named("OpenAI:gpt-4.1", "openai", "gpt-4.1");
    named("grok:grok-4.7", "xai", "grok-4.7");
    named("anthropic:claude-x", "anthropic", "claude-x");
    named("claude/claude-x", "anthropic", "claude-x");
    named("google:gemini-3-pro", "gemini", "gemini-3-pro");
    named("aws/us.anthropic.claude-v1:0", "bedrock", "us.anthropic.claude-v1:0");
    named("codex:gpt-6.1-sol", "openai-codex", "gpt-6.1-sol");
    named("llama.cpp:gemma", "llamacpp", "gemma");
    named("ollama:llama3:8b", "ollama", "llama3:8b");
    named("ollama/llama3:8b", "ollama", "llama3:8b");
    named("openrouter:anthropic/claude-opus-5", "openrouter", "anthropic/claude-opus-5");
    named("openrouter/openai/gpt-5.5:free", "openrouter", "openai/gpt-5.5:free");
}

#[test]
fn a_bare_name_stays_whole() {
    for text in [
        "gpt-4.1",
        "llama3:8b",
        "glm4:9b",
        "meta-llama/Llama-4-Scout",
        "qwen3:8b",
        "deepseek-r1:7b",
        "gemma3:4b",
        "m",
    ] {
        assert_eq!(resolve(text), Ok(Route::Bare { model: text }));
    }
}

#[test]
fn a_misspelt_provider_is_named_with_its_neighbour() {
    unknown("opnai:gpt-4.1", "openai");
    unknown("openia/gpt-4.1", "openai");
    unknown("openruoter:x/y", "openrouter");
    unknown("antropic:claude", "anthropic");
    let text = resolve("opnai:m").unwrap_err().to_string();
    assert!(text.contains("did you mean openai") && text.contains("deepseek"), "{text}");
    assert_eq!(
        provider("zzzzzzzzz"),
        Err(ResolveError::Unknown { id: "zzzzzzzzz".into(), nearest: None })
    );
    assert!(matches!(
        provider("olama"),
        Err(ResolveError::Unknown { nearest: Some("ollama"), .. })
    ));
}

#[test]
fn other_families_are_not_supported_yet_rather_than_unknown() {
    for (text, id) in [("vertex:x", "vertex"), ("github-copilot:x", "github-copilot")] {
        let found = resolve(text);
        assert!(
            matches!(found, Err(ResolveError::NotSupportedYet { id: got, .. }) if got == id),
            "{text}: {found:?}"
        );
    }
}

#[test]
fn a_name_without_a_model_is_refused() {
    for text in ["", "  ", "openai:", "openai/"] {
        assert!(matches!(resolve(text), Err(ResolveError::NoModel { .. })), "{text}");
    }
}

#[test]
fn no_name_means_two_providers() {
    let ours = table::PROVIDERS.iter().map(|one| (one.id, one.aliases));
    let later = table::LATER.iter().map(|(id, aliases, _)| (*id, *aliases));
    let all: Vec<&str> =
        ours.chain(later).flat_map(|(id, aliases)| aliases.iter().copied().chain([id])).collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    assert!(
        all.iter().all(|name| name.to_lowercase() == *name),
        "names are compared in lower case"
    );
}

#[test]
fn every_address_of_the_table_is_sound() {
    for one in providers() {
        if one.base_url.is_some() {
            let is_key = |name: &str| {
                let ours = one.key_name();
                let names = one.key_env.iter().copied().chain([ours.as_str()]);
                names.flat_map(|key| key.split(':')).any(|key| key == name)
            };
            let env = |name: &str| {
                (is_key(name) || name == "AWS_REGION")
                    .then(|| name.to_lowercase().replace('_', "-"))
            };
            let endpoint = one.endpoint(&env).unwrap();
            assert!(
                (endpoint.base_url.path() == "/" || !endpoint.base_url.path().ends_with('/'))
                    && endpoint.base_url.query().is_none(),
                "{}",
                one.id
            );
        }
    }
}

fn env<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
    |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
}

#[track_caller]
fn address(id: &str, pairs: &[(&str, &str)]) -> Result<String, EndpointError> {
    provider(id).unwrap().endpoint(&env(pairs)).map(|endpoint| endpoint.base_url.to_string())
}

#[test]
fn our_variable_comes_before_the_vendors_and_both_before_the_table() {
    let key = ("OPENAI_API_KEY", "k");
    let vendor = ("OPENAI_BASE_URL", "http://vendor/v1");
    let ours = ("PITON_OPENAI_BASE_URL", "http://127.0.0.1:9100/v1");
    assert_eq!(address("openai", &[key, vendor, ours]).unwrap(), "http://127.0.0.1:9100/v1");
    assert_eq!(address("openai", &[key, vendor]).unwrap(), "http://vendor/v1");
    assert_eq!(address("openai", &[key]).unwrap(), "https://api.openai.com/v1");
    assert_eq!(provider("azure").unwrap().base_url_name(), "PITON_AZURE_FOUNDRY_BASE_URL");
}

#[test]
fn what_is_missing_is_named() {
    let failed = |id: &str, pairs: &[(&str, &str)]| address(id, pairs).unwrap_err().to_string();
    assert_eq!(failed("openai", &[]), "provider openai needs a key: set OPENAI_API_KEY");
    assert_eq!(
        failed("openai", &[("OPENAI_API_KEY", " ")]),
        "provider openai needs a key: set OPENAI_API_KEY"
    );
    assert!(
        failed("azure", &[("AZURE_OPENAI_API_KEY", "k")])
            .contains("set PITON_AZURE_FOUNDRY_BASE_URL")
    );
    assert!(failed("custom", &[]).contains("set PITON_CUSTOM_BASE_URL"));
    let words = failed("codex", &[]);
    assert_eq!(words, "provider openai-codex needs a key: set PITON_OPENAI_CODEX_API_KEY");
    for bad in ["localhost:9100", "ftp://x/", "not an address", "http://"] {
        assert!(
            failed("openai", &[("PITON_OPENAI_BASE_URL", bad)]).contains("PITON_OPENAI_BASE_URL="),
            "{bad}"
        );
    }
}

#[test]
fn an_address_with_a_password_is_refused_without_showing_it() {
    for bad in ["http://ann:hush@h/v1", "http://hush@h/v1", "ftp://ann:hush@h/"] {
        let words = address("openai", &[("PITON_OPENAI_BASE_URL", bad)]).unwrap_err().to_string();
        assert!(words.contains("PITON_OPENAI_BASE_URL") && !words.contains("hush"), "{words}");
    }
}

#[test]
fn a_key_is_optional_at_home_and_at_a_configured_address() {
    let key_of = |id: &str, pairs: &[(&str, &str)]| {
        provider(id).unwrap().endpoint(&env(pairs)).unwrap().key.is_some()
    };
    assert!(!key_of("ollama", &[]));
    assert!(!key_of("openai", &[("PITON_OPENAI_BASE_URL", "http://127.0.0.1:9100/v1")]));
    assert!(key_of("kimi", &[("MOONSHOT_API_KEY", "k")]));
    assert!(key_of(
        "custom",
        &[("PITON_CUSTOM_API_KEY", "k"), ("PITON_CUSTOM_BASE_URL", "http://h/v1")]
    ));
}

#[test]
fn another_family_is_spoken_where_it_is_known_or_where_somebody_says_so() {
    let spoken = |id: &str, pairs: &[(&str, &str)]| {
        provider(id).unwrap().endpoint_as(Family::AnthropicMessages, &env(pairs))
    };
    let twin = spoken("minimax", &[("MINIMAX_API_KEY", "k")]).unwrap();
    assert_eq!(
        (twin.base_url.as_str(), twin.family),
        ("https://api.minimax.io/anthropic", Family::AnthropicMessages)
    );
    let own = spoken("custom", &[("PITON_CUSTOM_BASE_URL", "http://h/")]).unwrap();
    assert_eq!(own.family, Family::AnthropicMessages);
    let words = spoken("zai", &[("GLM_API_KEY", "k")]).unwrap_err().to_string();
    assert!(words.contains("zai is not known to speak anthropic_messages"), "{words}");
    assert!(words.contains("set PITON_ZAI_BASE_URL"), "{words}");
    assert!(matches!(spoken("minimax", &[]), Err(EndpointError::NoKey { .. })));
}

#[test]
fn a_twin_is_a_provider_s_second_family() {
    for (id, family, _) in table::TWINS {
        let provider = provider(id).unwrap();
        assert_ne!(provider.family, family, "{id}");
        let env = |name: &str| name.ends_with("API_KEY").then(|| "k".to_owned());
        assert_eq!(provider.endpoint_as(family, &env).unwrap().family, family);
    }
}

#[test]
fn a_key_of_several_variables_needs_the_first_two() {
    let key = |pairs: &[(&str, &str)]| {
        let all = [&[("AWS_REGION", "eu-west-1")], pairs].concat();
        let endpoint = provider("bedrock").unwrap().endpoint(&env(&all));
        endpoint.map(|endpoint| endpoint.key.unwrap().expose().to_owned())
    };
    let (id, secret) = (("AWS_ACCESS_KEY_ID", "A"), ("AWS_SECRET_ACCESS_KEY", "s/+= "));
    let token = ("AWS_SESSION_TOKEN", "t");
    assert_eq!(key(&[id, secret]).unwrap(), "A:s/+=");
    assert_eq!(key(&[id, secret, token]).unwrap(), "A:s/+=:t");
    let bearer = ("AWS_BEARER_TOKEN_BEDROCK", "b");
    assert_eq!(key(&[id, secret, bearer]).unwrap(), "b");
    let ours = ("PITON_BEDROCK_API_KEY", "A:s");
    assert_eq!(key(&[bearer, ours]).unwrap(), "A:s");
    assert_eq!(
        key(&[id, token]).unwrap_err().to_string(),
        "provider bedrock needs a key: set AWS_BEARER_TOKEN_BEDROCK or AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY"
    );
}

#[test]
fn an_address_for_each_region_wants_one() {
    let key = ("AWS_BEARER_TOKEN_BEDROCK", "b");
    let at = |pairs: &[(&str, &str)]| address("bedrock", &[&[key], pairs].concat());
    let default = ("AWS_DEFAULT_REGION", "us-east-1");
    assert_eq!(at(&[default]).unwrap(), "https://bedrock-runtime.us-east-1.amazonaws.com/");
    let region = ("AWS_REGION", "eu-west-1");
    assert_eq!(at(&[default, region]).unwrap(), "https://bedrock-runtime.eu-west-1.amazonaws.com/");
    let ours = ("PITON_BEDROCK_REGION", "ap-south-1");
    assert_eq!(at(&[region, ours]).unwrap(), "https://bedrock-runtime.ap-south-1.amazonaws.com/");
    assert!(at(&[]).unwrap_err().to_string().contains("set PITON_BEDROCK_REGION or AWS_REGION"));
    for bad in ["evil.example/", "EU", "a b"] {
        assert!(
            matches!(at(&[("AWS_REGION", bad)]), Err(EndpointError::BadRegion { .. })),
            "{bad}"
        );
    }
    // At another address the region is only signed for.
    let elsewhere = ("PITON_BEDROCK_BASE_URL", "http://127.0.0.1:1/aws");
    assert_eq!(at(&[elsewhere]).unwrap(), "http://127.0.0.1:1/aws");
    let told = provider("bedrock").unwrap().endpoint(&env(&[key, elsewhere, region])).unwrap();
    assert_eq!(told.region.as_deref(), Some("eu-west-1"));
}

#[test]
fn local_runtimes_stand_at_their_usual_ports() {
    for (id, port) in
        [("ollama", 11_434), ("llamacpp", 8_080), ("vllm", 8_000), ("lmstudio", 1_234)]
    {
        assert_eq!(address(id, &[]).unwrap(), format!("http://127.0.0.1:{port}/v1"));
    }
}

#[test]
fn edits_count_swaps_as_one() {
    for (one, other, then) in [
        ("", "", 0),
        ("abc", "abc", 0),
        ("opnai", "openai", 1),
        ("openia", "openai", 1),
        ("abc", "", 3),
        ("", "abc", 3),
        ("llama3", "ollama", 2),
    ] {
        assert_eq!(edits(one, other), then, "{one} {other}");
    }
}

#[test]
fn a_cache_key_is_sent_to_those_who_know_it_and_to_no_server_of_ones_own() {
    let sent: Vec<&str> = providers()
        .filter(|provider| provider.quirks.cache_key == crate::endpoint::CacheKey::Sent)
        .map(|provider| provider.id)
        .collect();
    assert_eq!(sent, ["openai", "openrouter"]);
    for own in ["ollama", "llamacpp", "vllm", "lmstudio", "sglang", "litellm", "custom"] {
        assert!(provider(own).is_ok(), "{own} is served");
    }
}
