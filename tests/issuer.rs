//! An issuer of logins and the subscription behind it, for the stories: refresh tokens are taken once, access tokens end
//! or are taken back, codes are entered by the story. It keeps all that it was asked.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tests::upstream::{events, response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// The code of every device.
pub const USER_CODE: &str = "AB12-CD34";
/// Whose every login is.
pub const ACCOUNT: &str = "acc-0042";
/// What the provider says of a token that it does not take: a recording of 2026.
const UNKNOWN: &str =
    r#"{"detail":"Could not parse your authentication token. Please try signing in again."}"#;

/// One request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    pub head: String,
    pub body: String,
}

#[derive(Default)]
struct Kept {
    /// Refresh tokens that were not used yet.
    unused: BTreeSet<String>,
    used: BTreeSet<String>,
    /// Access tokens that the provider takes.
    good: BTreeSet<String>,
    /// What a browser's code was asked for with.
    challenges: BTreeMap<String, String>,
    entered: bool,
    /// What the next looks at a device are answered with instead.
    stumbles: Vec<u16>,
    /// A refresh is taken and its answer is held back.
    holds: bool,
    /// A refresh is answered with this instead.
    fails: Option<(u16, String)>,
    count: u32,
    refreshes: u32,
    asked: Vec<Asked>,
}

/// It answers until it is dropped.
pub struct Issuer {
    pub url: String,
    kept: Arc<Mutex<Kept>>,
    released: Arc<Notify>,
    task: tokio::task::JoinHandle<()>,
}

/// The tokens of a login.
#[derive(Debug, Clone)]
pub struct Login {
    pub access: String,
    pub refresh: String,
}

impl Login {
    /// As the API takes it.
    pub fn json(&self) -> Value {
        json!({"access_token": self.access, "refresh_token": self.refresh})
    }

    /// As Codex keeps it.
    pub fn codex(&self) -> String {
        let tokens = json!({"id_token": self.access, "access_token": self.access, "refresh_token": self.refresh, "account_id": ACCOUNT});
        json!({"OPENAI_API_KEY": null, "tokens": tokens, "last_refresh": "2026-11-30T00:00:00Z"})
            .to_string()
    }
}

impl Kept {
    /// The tokens of a new login; the access token ends so many seconds from now.
    fn login(&mut self, seconds: i64) -> Login {
        self.count += 1;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let exp = i64::try_from(now).unwrap() + seconds;
        let claims = json!({"exp": exp, "n": self.count, "https://api.openai.com/auth": {"chatgpt_account_id": ACCOUNT}});
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let access = format!("{}.{}.cGxhbnRlZA", part(&json!({"alg": "none"})), part(&claims));
        let refresh = format!("rt-planted-{}", self.count);
        self.unused.insert(refresh.clone());
        if seconds > 0 {
            self.good.insert(access.clone());
        }
        Login { access, refresh }
    }
}

impl Issuer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (kept, released) = (Arc::<Mutex<Kept>>::default(), Arc::<Notify>::default());
        let (shared, free) = (Arc::clone(&kept), Arc::clone(&released));
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, Arc::clone(&shared), Arc::clone(&free)));
            }
        });
        Self { url, kept, released, task }
    }

    /// What tells a node and a command line where both are.
    pub fn variables(&self) -> [(&'static str, String); 2] {
        [
            ("PITON_OPENAI_CODEX_ISSUER_URL", self.url.clone()),
            ("PITON_OPENAI_CODEX_BASE_URL", format!("{}/backend-api/codex", self.url)),
        ]
    }

    /// The tokens of a login whose access token ends so many seconds from now.
    pub fn login(&self, seconds: i64) -> Login {
        self.kept.lock().unwrap().login(seconds)
    }

    /// Somebody enters the code of the device.
    pub fn enter(&self) {
        self.kept.lock().unwrap().entered = true;
    }

    /// The next looks at a device fail with these.
    pub fn stumble(&self, with: &[u16]) {
        self.kept.lock().unwrap().stumbles = with.to_vec();
    }

    /// Somebody logs in with a browser: the code that it is sent back with.
    pub fn authorize(&self, challenge: &str) -> String {
        let mut kept = self.kept.lock().unwrap();
        let code = format!("code-planted-{}", kept.challenges.len());
        kept.challenges.insert(code.clone(), challenge.to_owned());
        code
    }

    /// The provider takes no token any more that was given until now.
    pub fn revoke(&self) {
        self.kept.lock().unwrap().good.clear();
    }

    /// From now on a refresh is taken and its answer held back, or no longer.
    pub fn hold(&self, holds: bool) {
        self.kept.lock().unwrap().holds = holds;
        if !holds {
            self.released.notify_waiters();
        }
    }

    /// From now on a refresh is answered with this, or as usual.
    pub fn fail(&self, with: Option<(u16, &str)>) {
        self.kept.lock().unwrap().fails = with.map(|(status, body)| (status, body.to_owned()));
    }

    /// Refreshes that were asked for.
    pub fn refreshes(&self) -> u32 {
        self.kept.lock().unwrap().refreshes
    }

    /// The model calls so far.
    pub fn calls(&self) -> Vec<Asked> {
        let kept = self.kept.lock().unwrap();
        kept.asked.iter().filter(|one| one.head.contains("/codex/responses")).cloned().collect()
    }

    /// Every token that was ever given.
    pub fn tokens(&self) -> Vec<String> {
        let kept = self.kept.lock().unwrap();
        kept.unused.iter().chain(&kept.used).chain(&kept.good).cloned().collect()
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut socket: TcpStream, kept: Arc<Mutex<Kept>>, released: Arc<Notify>) {
    let mut bytes = Vec::new();
    let (head, body) = loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                break (head.to_owned(), body.to_owned());
            }
        }
        match socket.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    };
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let wakes = released.notified();
    let (answer, holds) = {
        let mut kept = kept.lock().unwrap();
        kept.asked.push(Asked { head: head.clone(), body: body.clone() });
        match path.as_str() {
            "/api/accounts/deviceauth/usercode" => {
                let answer =
                    json!({"device_auth_id": "device-1", "user_code": USER_CODE, "interval": "1"});
                (json_response(200, &answer.to_string()), false)
            }
            "/api/accounts/deviceauth/token" => (device(&mut kept), false),
            "/oauth/token" => token(&mut kept, &body),
            "/backend-api/codex/responses" => (model(&kept, &head, &body), false),
            _ => (json_response(404, "{}"), false),
        }
    };
    if holds {
        // Lost with whoever asked; or, when the story lets go of it, late.
        tokio::select! {
            () = wakes => {}
            () = tokio::time::sleep(Duration::from_secs(60)) => return,
        }
    }
    let _gone = socket.write_all(answer.as_bytes()).await;
    let _closed = socket.shutdown().await;
}

fn json_response(status: u16, body: &str) -> String {
    response(&format!("{status} x"), "application/json", body)
}

/// A device's code is exchanged with a proof that the issuer made.
fn device(kept: &mut Kept) -> String {
    if let Some(status) = kept.stumbles.pop() {
        return json_response(status, "{}");
    }
    if !kept.entered {
        return json_response(403, r#"{"error":{"code":"deviceauth_authorization_unknown"}}"#);
    }
    let verifier = "verifier-planted-0123456789-0123456789-0123456789";
    kept.challenges.insert("code-planted-device".to_owned(), challenge(verifier));
    let answer = json!({"authorization_code": "code-planted-device", "code_challenge": challenge(verifier), "code_verifier": verifier});
    json_response(200, &answer.to_string())
}

fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}

/// The answer, and whether it is held back.
fn token(kept: &mut Kept, body: &str) -> (String, bool) {
    let given = |login: Login| {
        let answer = json!({"id_token": login.access, "access_token": login.access, "refresh_token": login.refresh});
        json_response(200, &answer.to_string())
    };
    let Ok(asked) = serde_json::from_str::<Value>(body) else {
        let field = |name: &str| {
            let pair = body.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
            pair.unwrap_or_default().to_owned()
        };
        let found = kept.challenges.remove(&field("code"));
        if found.as_deref() != Some(challenge(&field("code_verifier")).as_str()) {
            return (json_response(400, r#"{"error":{"code":"invalid_grant"}}"#), false);
        }
        return (given(kept.login(3_600)), false);
    };
    kept.refreshes += 1;
    if let Some((status, body)) = &kept.fails {
        return (json_response(*status, body), false);
    }
    let refresh = asked["refresh_token"].as_str().unwrap_or_default().to_owned();
    if kept.unused.remove(&refresh) {
        kept.used.insert(refresh);
        let login = kept.login(3_600);
        return (given(login), kept.holds);
    }
    let code = if kept.used.contains(&refresh) { "reused" } else { "invalidated" };
    let body = json!({"error": {"message": "no", "code": format!("refresh_token_{code}")}});
    (json_response(401, &body.to_string()), false)
}

/// What a subscription demands of a call, and an answer.
fn model(kept: &Kept, head: &str, body: &str) -> String {
    let field = |name: &str| {
        let line = head.lines().find_map(|line| {
            let (own, value) = line.split_once(": ")?;
            own.eq_ignore_ascii_case(name).then_some(value)
        });
        line.unwrap_or_default().to_owned()
    };
    let bearer = field("authorization").replace("Bearer ", "");
    if !kept.good.contains(&bearer) || field("chatgpt-account-id") != ACCOUNT {
        return json_response(401, UNKNOWN);
    }
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let detail = if body["stream"] != true {
        "Stream must be set to true"
    } else if body["store"] != false {
        "Store must be set to false"
    } else if !body["instructions"].is_string() {
        "Instructions are required"
    } else if !body["max_output_tokens"].is_null() {
        "Unsupported parameter: max_output_tokens"
    } else {
        let item = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hello from afar"}]});
        let usage = json!({"input_tokens": 5, "output_tokens": 3, "total_tokens": 8});
        return events(&[
            json!({"type": "response.created", "response": {"id": "resp_1", "model": "gpt-6.1-sol"}}),
            json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "role": "assistant", "content": []}}),
            json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "hello from afar"}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
            json!({"type": "response.completed", "response": {"id": "resp_1", "model": "gpt-6.1-sol", "status": "completed", "output": [], "usage": usage}}),
        ]);
    };
    json_response(400, &json!({"detail": detail}).to_string())
}
