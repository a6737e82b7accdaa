//! What a `[[webhooks]]` says, and what is shown of it.

use super::*;
use std::collections::BTreeSet;

const HOOK: &str = "[[webhooks]]\nurl = \"https://hooks.example.org/T0/planted\"\nsecret_env = \"HOOK_SECRET\"\n\
                    events = [\"approval.asked\", \"run.finished\"]\n";

#[test]
fn a_webhook_says_where_of_what_and_which_variable_signs_and_shows_no_more_than_its_host() {
    let world = World::new().file(HOOK).variable("HOOK_SECRET", "planted-planted-planted");
    let loaded = world.load().unwrap();
    let [hook] = &loaded.config.webhooks[..] else { panic!("{:?}", loaded.config.webhooks) };
    assert_eq!(hook.events, BTreeSet::from([HookEvent::ApprovalAsked, HookEvent::RunFinished]));
    assert!(hook.secret.is_some() && !hook.allow_private && !hook.include_text);
    let shown: Vec<String> = loaded.rows().into_iter().map(|row| row.value).collect();
    let of = "https://hooks.example.org: approval.asked, run.finished; HOOK_SECRET set";
    assert!(shown.iter().any(|value| value == of), "{shown:?}");
    assert!(!format!("{shown:?}").contains("planted"));
    // A client of the node need not have the secret; the node itself does not start without it.
    let without = World::new().file(HOOK).load().unwrap();
    let refused = crate::webhooks::check(&without.config).unwrap_err().to_string();
    assert!(refused.contains("HOOK_SECRET") && refused.contains("hooks.example.org"), "{refused}");
    assert_eq!(crate::webhooks::check(&loaded.config), Ok(()));
}

#[test]
fn a_webhook_with_a_fault_is_named_with_its_place() {
    let short = World::new().file(HOOK).variable("HOOK_SECRET", "short").problems();
    assert!(short[0].contains("webhooks.0.secret_env") && short[0].contains("at least 16 bytes"));
    let unknown = HOOK.replace("run.finished", "run.started");
    let unknown = World::new().file(&unknown).problems();
    assert!(unknown[0].contains("webhooks.0.events") && unknown[0].contains("fallback.sustained"));
    let misspelt = HOOK.replace("secret_env", "secret_enw");
    let misspelt = World::new().file(&misspelt).problems().join(" ");
    assert!(misspelt.contains("webhooks.0.secret_enw is not a setting"), "{misspelt}");
    assert!(misspelt.contains("name the variable that holds the signing secret"), "{misspelt}");
    let key = HOOK.replace("HOOK_SECRET", "whsec-planted");
    let key = World::new().file(&key).problems().join(" ");
    assert!(!key.contains("planted") || key.contains("T0"), "{key}");
}
