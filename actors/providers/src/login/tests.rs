//! Requests to an issuer and their answers, over a socket of our own.

use super::*;
use crate::transport::Client;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use events::credential::{Fault, LoginLost};
use events::leave::{Leave, NotSent};
use events::quantity::{Instant, Millis};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const NOW: Instant = Instant(1_800_000_000_000_000);

/// A token with these claims, signed by nobody.
fn token(claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.c2ln", part(&json!({"alg": "none"})), part(claims))
}

fn access(account: &str, exp: u64) -> String {
    token(&json!({"exp": exp, "https://api.openai.com/auth": {"chatgpt_account_id": account}}))
}

fn tokens() -> Tokens {
    Tokens::new(access("acc-1", 1_800_000_100), "rt-planted-1".to_owned(), None).unwrap()
}

/// Answers one request, and returns it.
async fn issuer(status: u16, body: &str) -> (Issuer, tokio::task::JoinHandle<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/base/", listener.local_addr().unwrap());
    let answer = format!(
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\nretry-after: 7\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    #[expect(clippy::disallowed_methods, reason = "a server of the test, which no actor knows")]
    let task = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        loop {
            socket.read_buf(&mut bytes).await.unwrap();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let Some((head, sent)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if sent.len() >= length.unwrap().parse().unwrap() {
                socket.write_all(answer.as_bytes()).await.unwrap();
                return (head.to_owned(), sent.to_owned());
            }
        }
    });
    (Issuer::at(url.parse().unwrap()).unwrap(), task)
}

#[test]
fn tokens_are_sent_to_an_issuer_over_tls_or_on_this_machine_only() {
    let at = |url: &str| Issuer::at(url.parse().unwrap());
    for good in ["https://auth.example", "http://127.0.0.1:9/x", "http://localhost", "http://[::1]"]
    {
        assert!(at(good).is_ok(), "{good}");
    }
    for bad in [
        "http://auth.example",
        "http://10.0.0.1",
        "ftp://localhost",
        "https://u:p@auth.example",
        "https://auth.example?x=1",
        "https://auth.example#x",
        "http://localhost.example",
    ] {
        assert_eq!(at(bad), Err(NotAnIssuer), "{bad}");
    }
}

#[test]
fn tokens_say_whose_they_are_and_when_they_end_and_print_as_nothing() {
    let tokens = tokens();
    assert_eq!(tokens.account.as_deref(), Some("acc-1"));
    assert_eq!(tokens.expires, Some(Instant(1_800_000_100_000_000)));
    let shown = format!("{tokens:?}");
    assert!(!shown.contains("planted") && !shown.contains("eyJ"), "{shown}");
    let back = Tokens::read(&tokens.write()).unwrap();
    assert_eq!(back.write(), tokens.write());
    // An opaque token says nothing; what an answer says of it is kept with it.
    let opaque = Tokens::new("at".into(), "rt".into(), Some("acc".into())).unwrap();
    assert_eq!((opaque.expires, opaque.account.as_deref()), (None, Some("acc")));
    let renewed = opaque.renewed(&json!({"access_token": "at2", "expires_in": 60}), NOW).unwrap();
    assert_eq!(renewed.expires, Some(NOW.after(Millis(60_000))));
    let kept = String::from_utf8(renewed.write()).unwrap();
    assert!(kept.contains(r#""access_token":"at2","refresh_token":"rt","account_id":"acc""#));
    assert_eq!(Tokens::read(kept.as_bytes()).unwrap().expires, renewed.expires);
    for bad in ["", "a b", "a\nb", "ü", "a\"b", &"x".repeat(8_193)] {
        assert!(Tokens::new(bad.to_owned(), "rt".into(), None).is_none(), "{bad}");
    }
    for bad in [r#"{"kind":"api_key","key":"k"}"#, "{}", "", r#"{"kind":"login"}"#] {
        assert!(Tokens::read(bad.as_bytes()).is_none(), "{bad}");
    }
    // A hostile claim becomes no header.
    let odd = token(&json!({"https://api.openai.com/auth": {"chatgpt_account_id": "a\r\nb"}}));
    assert_eq!(account_of(&odd), None);
    for odd in ["", "a.b.c", "sk-x", "..", "a.\u{e9}.c"] {
        assert_eq!(account_of(odd), None, "{odd}");
    }
}

#[test]
fn the_file_of_codex_is_read_and_none_of_it_is_quoted() {
    let id = access("acc-9", 1);
    let text = json!({"auth_mode": "chatgpt", "OPENAI_API_KEY": null, "last_refresh": "2026-11-30T00:00:00Z",
        "tokens": {"id_token": id, "access_token": "at-planted", "refresh_token": "rt-planted"}});
    let tokens = Tokens::of_codex(&text.to_string()).unwrap();
    assert_eq!(tokens.account.as_deref(), Some("acc-9"), "the id token says whose it is");
    for none in ["{}", r#"{"OPENAI_API_KEY":"sk-planted","tokens":null}"#, r#"{"tokens":{}}"#] {
        assert_eq!(Tokens::of_codex(none).unwrap_err(), NotALogin::NoTokens, "{none}");
    }
    let said = Tokens::of_codex(r#"{"tokens": "rt-planted" "#).unwrap_err().to_string();
    assert!(said.contains("line 1") && !said.contains("planted"), "{said}");
}

#[tokio::test]
async fn a_token_is_asked_for_anew_and_what_the_answer_leaves_out_stays() {
    let next = access("acc-1", 1_800_003_600);
    let (issuer, asked) = issuer(200, &json!({"access_token": next}).to_string()).await;
    let client = Client::new().unwrap();
    let fresh = client.refresh(&issuer, &tokens(), NOW, &Leave::free()).await.unwrap();
    assert_eq!(fresh.expires, Some(Instant(1_800_003_600_000_000)));
    assert_eq!(fresh.refresh.expose(), "rt-planted-1");
    let (head, body) = asked.await.unwrap();
    assert!(head.starts_with("POST /base/oauth/token HTTP/1.1"), "{head}");
    assert!(!head.contains("planted") && head.contains("originator: piton"), "{head}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&body["grant_type"], &body["refresh_token"]),
        (&json!("refresh_token"), &json!("rt-planted-1"))
    );
}

#[track_caller]
fn again(outcome: Result<Tokens, NotRefreshed>, fault: Fault, wait: Option<u64>) {
    match outcome {
        Err(NotRefreshed::Again { why, hint, words }) => {
            assert_eq!((why, hint), (fault, wait.map(Millis)));
            assert!(!words.contains("planted"), "{words}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_refresh_that_is_refused_says_whether_somebody_must_log_in() {
    let client = Client::new().unwrap();
    let refresh = async |status, body: &str| {
        let (issuer, _asked) = issuer(status, body).await;
        client.refresh(&issuer, &tokens(), NOW, &Leave::free()).await
    };
    for (status, body, lost) in [
        (401, r#"{"error":{"message":"m","code":"refresh_token_reused"}}"#, LoginLost::Reused),
        (401, r#"{"error":{"code":"refresh_token_expired"}}"#, LoginLost::Expired),
        (400, r#"{"error":{"code":"refresh_token_invalidated"}}"#, LoginLost::Revoked),
        (400, r#"{"error":"invalid_grant","error_description":"no"}"#, LoginLost::Refused),
        (401, "", LoginLost::Refused),
    ] {
        let lost = NotRefreshed::NeedsLogin(lost);
        assert_eq!(refresh(status, body).await.unwrap_err(), lost, "{body}");
    }
    again(refresh(429, "{}").await, Fault::Limited, Some(7_000));
    again(refresh(503, "rt-planted-1 is bad").await, Fault::Failed, Some(7_000));
    again(refresh(403, "<html>").await, Fault::Refused, Some(7_000));
    again(refresh(200, "{}").await, Fault::Odd, None);
    let nobody = Issuer::at("http://127.0.0.1:9".parse().unwrap()).unwrap();
    again(client.refresh(&nobody, &tokens(), NOW, &Leave::free()).await, Fault::Unreachable, None);
    let (issuer, _asked) = issuer(200, "{}").await;
    let late = Leave::new(|| Err(NotSent::LeaseOver));
    let kept = client.refresh(&issuer, &tokens(), NOW, &late).await.unwrap_err();
    assert_eq!(kept, NotRefreshed::NotSent(NotSent::LeaseOver));
}

#[tokio::test]
async fn a_device_asks_waits_and_exchanges() {
    let client = Client::new().unwrap();
    let (at, _) =
        issuer(200, r#"{"device_auth_id":"d-planted","user_code":"AB-12","interval":"0"}"#).await;
    let device = client.device(&at).await.unwrap();
    assert_eq!((device.user_code.as_str(), device.interval.as_secs()), ("AB-12", 1));
    assert!(!format!("{device:?}").contains("planted"));
    let (at, _) = issuer(404, "{}").await;
    assert_eq!(client.device(&at).await.unwrap_err(), Rejected::NoDevices);
    let (at, _) = issuer(200, r#"{"device_auth_id":"d","user_code":"\u001b[2J"}"#).await;
    assert_eq!(client.device(&at).await.unwrap_err(), Rejected::Odd);
    for status in [403, 404] {
        let (at, asked) = issuer(status, "{}").await;
        assert!(matches!(client.poll(&at, &device).await, Ok(Polled::Pending)));
        let (head, body) = asked.await.unwrap();
        assert!(head.starts_with("POST /base/api/accounts/deviceauth/token "), "{head}");
        assert_eq!(body, r#"{"device_auth_id":"d-planted","user_code":"AB-12"}"#);
    }
    let entered =
        r#"{"authorization_code":"c-planted","code_challenge":"x","code_verifier":"v-planted"}"#;
    let (at, _) = issuer(200, entered).await;
    let Ok(Polled::Entered { code, pkce }) = client.poll(&at, &device).await else { panic!() };
    let given = json!({"id_token": access("acc-2", 1), "access_token": "at", "refresh_token": "rt", "expires_in": 60});
    let (at, asked) = issuer(200, &given.to_string()).await;
    let redirect = at.device_callback();
    let tokens = client.redeem(&at, (&code, &pkce), &redirect, NOW).await.unwrap();
    assert_eq!(tokens.account.as_deref(), Some("acc-2"));
    assert_eq!(tokens.expires, Some(NOW.after(Millis(60_000))));
    let (head, body) = asked.await.unwrap();
    assert!(
        head.contains("application/x-www-form-urlencoded") && !head.contains("planted"),
        "{head}"
    );
    assert!(body.contains("code=c-planted") && body.contains("code_verifier=v-planted"), "{body}");
    assert!(body.contains("deviceauth%2Fcallback"), "{body}");
    let (at, _) = issuer(400, r#"{"error":{"message":"bad code eyJhbGciOiJub25lIn0"}}"#).await;
    let said = client.redeem(&at, (&code, &pkce), &redirect, NOW).await.unwrap_err().to_string();
    assert!(said.contains("HTTP 400: bad code [redacted]"), "{said}");
    // Whatever was sent in secret may be repeated in the words of a refusal.
    let (at, _) = issuer(400, r#"{"error":{"message":"c-planted of v-planted is old"}}"#).await;
    let said = client.redeem(&at, (&code, &pkce), &redirect, NOW).await.unwrap_err();
    assert!(said.to_string().contains("[redacted] of [redacted] is old"), "{said}");
    for (status, passes) in [(429, true), (500, true), (503, true), (400, false), (401, false)] {
        let (at, _) = issuer(status, r#"{"error":{"message":"no d-planted with AB-12"}}"#).await;
        let said = client.poll(&at, &device).await.unwrap_err();
        assert!(said.to_string().contains("no [redacted] with [redacted]"), "{said}");
        assert_eq!(said.is_passing(), passes, "{status}");
    }
    assert!(Rejected::Unreachable(String::new()).is_passing() && !Rejected::Odd.is_passing());
}

#[test]
fn a_browser_is_sent_with_a_challenge_and_without_its_verifier() {
    let issuer = Issuer::at("https://auth.example/x".parse().unwrap()).unwrap();
    let pkce = Pkce::of(&[9; 64]);
    let url = issuer.authorize("http://localhost:1455/auth/callback", &pkce, "st");
    assert_eq!((url.host_str(), url.path()), (Some("auth.example"), "/x/oauth/authorize"));
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let says =
        |name: &str| pairs.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
    assert_eq!(says("code_challenge"), Some(pkce.challenge()));
    assert_eq!((says("code_challenge_method"), says("state")), (Some("S256"), Some("st")));
    assert_eq!((says("originator"), says("response_type")), (Some("piton"), Some("code")));
    assert!(!url.as_str().contains(pkce.verifier().expose()));
}
