//! What a setting's value must be: text or TOML in, a type out, else the rule it broke.

use super::{Format, Model};
use events::quantity::{MicroUsd, Millis, Tokens};
use providers::Family;
use providers::login::Issuer;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tracing_subscriber::filter::EnvFilter;
use url::Url;

/// A value before it is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Raw {
    /// From a flag, a variable or a default, where everything is text.
    Spoken(String),
    /// A TOML string.
    Text(String),
    /// A TOML integer, as its decimal digits.
    Integer(String),
    /// A TOML boolean.
    Switch(bool),
    /// A TOML list of strings.
    List(Vec<String>),
    /// A TOML table without keys.
    EmptyTable,
    /// Any other TOML value: what kind it is.
    Other(&'static str),
}

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spoken(text) | Self::Text(text) => write!(f, "{text:?}"),
            Self::Integer(digits) => f.write_str(digits),
            Self::Switch(on) => on.fmt(f),
            Self::List(texts) => write!(f, "{texts:?}"),
            Self::EmptyTable => f.write_str("a table"),
            Self::Other(kind) => f.write_str(kind),
        }
    }
}

/// The rule that a value broke, and whether the value may be printed beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The value is harmless.
    Shown(String),
    /// The value may hold a secret.
    Hidden(String),
}

fn shown<T>(rule: &str) -> Result<T, Broken> {
    Err(Broken::Shown(rule.to_owned()))
}

pub(crate) fn text(raw: &Raw) -> Option<&str> {
    match raw {
        Raw::Spoken(text) | Raw::Text(text) => Some(text.trim()).filter(|text| !text.is_empty()),
        Raw::Integer(_) | Raw::Switch(_) | Raw::List(_) | Raw::EmptyTable | Raw::Other(_) => None,
    }
}

/// Where to listen.
pub(crate) fn address(raw: &Raw) -> Result<SocketAddr, Broken> {
    const RULE: &str = "give ADDRESS:PORT, such as 127.0.0.1:7486 or [::1]:7486";
    let Some(text) = text(raw) else { return shown(RULE) };
    let named = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    named.as_deref().unwrap_or(text).parse().or_else(|_| shown(RULE))
}

/// A folder; `~` is the home folder.
pub(crate) fn folder(home: Option<&Path>) -> impl Fn(&Raw) -> Result<PathBuf, Broken> {
    move |raw| {
        let Some(text) = text(raw) else { return shown("give the path of a folder") };
        let below_home = match text.strip_prefix('~') {
            Some("") => Some(""),
            Some(rest) => rest.strip_prefix('/'),
            None => None,
        };
        match (below_home, home) {
            (None, _) => Ok(PathBuf::from(text)),
            (Some(rest), Some(home)) => Ok(home.join(rest)),
            (Some(_), None) => {
                shown("HOME is not set, so ~ names no folder: give an absolute path")
            }
        }
    }
}

/// A model with its provider.
pub(crate) fn model(raw: &Raw) -> Result<Model, Broken> {
    let Some(text) = text(raw) else { return shown(Model::RULE) };
    text.parse().or_else(|_| shown(Model::RULE))
}

/// Models that one list may name.
const MODELS_MAX: usize = 16;

/// Models with their providers, in order: a list of the file, or a text with commas between them.
pub(crate) fn models(raw: &Raw) -> Result<Vec<Model>, Broken> {
    let rule = || {
        let rule = Model::RULE;
        Broken::Shown(format!(
            "{rule}: at most {MODELS_MAX} of them, as a list or with commas between them"
        ))
    };
    let texts: Vec<&str> = match raw {
        Raw::List(texts) => texts.iter().map(String::as_str).collect(),
        Raw::Spoken(text) => text.split(',').collect(),
        Raw::Text(_) | Raw::Integer(_) | Raw::Switch(_) | Raw::EmptyTable | Raw::Other(_) => {
            return Err(rule());
        }
    };
    let models: Result<Vec<Model>, _> = texts.iter().map(|text| text.trim().parse()).collect();
    models.ok().filter(|models| models.len() <= MODELS_MAX).ok_or_else(rule)
}

/// What a provider speaks.
pub(crate) fn family(raw: &Raw) -> Result<Family, Broken> {
    text(raw).and_then(Family::named).map_or_else(
        || shown(&format!("give one of {}", Family::ALL.map(Family::name).join(", "))),
        Ok,
    )
}

fn whole(raw: &Raw, min: u64, max: u64, unit: &str) -> Result<u64, Broken> {
    let digits = match raw {
        Raw::Spoken(text) => Some(text.trim()),
        Raw::Integer(digits) => Some(digits.as_str()),
        Raw::Text(_) | Raw::Switch(_) | Raw::List(_) | Raw::EmptyTable | Raw::Other(_) => None,
    };
    let number = digits.and_then(|digits| digits.parse().ok());
    let within = number.filter(|number| (min..=max).contains(number));
    within
        .ok_or_else(|| Broken::Shown(format!("give a whole number of {unit} from {min} to {max}")))
}

/// A count of things or bytes in memory.
pub(crate) fn count(min: u64, max: u64, unit: &str) -> impl Fn(&Raw) -> Result<usize, Broken> {
    move |raw| {
        let number = whole(raw, min, max, unit)?;
        usize::try_from(number).or_else(|_| shown("give a number that this machine can address"))
    }
}

/// A size in tokens.
pub(crate) fn tokens(min: u64, max: u64) -> impl Fn(&Raw) -> Result<Tokens, Broken> {
    move |raw| whole(raw, min, max, "tokens").map(Tokens)
}

/// A small count.
pub(crate) fn times(max: u32) -> impl Fn(&Raw) -> Result<u32, Broken> {
    move |raw| {
        let number = whole(raw, 0, u64::from(max), "times")?;
        Ok(u32::try_from(number).unwrap_or(max))
    }
}

/// A duration given in milliseconds.
pub(crate) fn millis(min: u64, max: u64) -> impl Fn(&Raw) -> Result<Millis, Broken> {
    move |raw| whole(raw, min, max, "milliseconds").map(Millis)
}

/// A duration given in seconds.
pub(crate) fn seconds(min: u64, max: u64) -> impl Fn(&Raw) -> Result<Millis, Broken> {
    move |raw| whole(raw, min, max, "seconds").map(|seconds| Millis(seconds.saturating_mul(1_000)))
}

/// An amount of US dollars, with at most six decimals; 0 is none.
pub(crate) fn dollars(raw: &Raw) -> Result<Option<MicroUsd>, Broken> {
    let digits = match raw {
        Raw::Spoken(text) | Raw::Integer(text) | Raw::Text(text) => text.trim(),
        Raw::Switch(_) | Raw::List(_) | Raw::EmptyTable | Raw::Other(_) => "",
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let micro = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(1_000_000));
    let part = if part.len() <= 6 { format!("{part:0<6}").parse::<u64>().ok() } else { None };
    match micro.zip(part).and_then(|(micro, part)| micro.checked_add(part)) {
        Some(amount) => Ok(Some(MicroUsd(amount)).filter(|amount| amount.0 > 0)),
        None => shown("give an amount of US dollars such as \"5\" or \"0.25\", or 0 for none"),
    }
}

/// On or off.
pub(crate) fn switch(raw: &Raw) -> Result<bool, Broken> {
    match raw {
        Raw::Switch(on) => Ok(*on),
        Raw::Spoken(text) => match text.trim() {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => shown("give true or false"),
        },
        Raw::Text(_) | Raw::Integer(_) | Raw::List(_) | Raw::EmptyTable | Raw::Other(_) => {
            shown("give true or false, without quotes")
        }
    }
}

/// How log lines look.
pub(crate) fn format(raw: &Raw) -> Result<Format, Broken> {
    match text(raw) {
        Some("text") => Ok(Format::Text),
        Some("json") => Ok(Format::Json),
        _ => shown("give text or json"),
    }
}

/// Which log lines are written.
pub(crate) fn level(raw: &Raw) -> Result<String, Broken> {
    const RULE: &str =
        "give error, warn, info, debug, trace or off, or a filter such as info,actors=debug";
    let Some(text) = text(raw) else { return shown(RULE) };
    match EnvFilter::builder().parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => shown(RULE),
    }
}

/// Where a provider is reached. The value is not printed: people put passwords into addresses.
pub(crate) fn url(raw: &Raw) -> Result<Url, Broken> {
    let hidden = |rule: &str| Err(Broken::Hidden(rule.to_owned()));
    let Some(Ok(url)) = text(raw).map(Url::parse) else {
        return hidden("give an address such as https://api.openai.com/v1");
    };
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return hidden("give an address that starts with http:// or https://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return hidden(
            "an address carries no user and no password: name the key's variable in api_key_env",
        );
    }
    if url.query().is_some() || url.fragment().is_some() {
        return hidden("an address carries no ? and no #");
    }
    Ok(url)
}

/// Who gives out the tokens of logins.
pub(crate) fn issuer(raw: &Raw) -> Result<Issuer, Broken> {
    Issuer::at(url(raw)?).map_err(|error| Broken::Hidden(error.to_string()))
}

/// A region of a provider, as in its addresses.
pub(crate) fn region(raw: &Raw) -> Result<String, Broken> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match text(raw) {
        Some(name) if !name.is_empty() && name.len() <= 32 && name.chars().all(allowed) => {
            Ok(name.to_owned())
        }
        Some(_) | None => shown("give a region such as eu-west-1"),
    }
}

/// The name of an environment variable. The value is not printed: people put the key itself here.
pub(crate) fn variable(raw: &Raw) -> Result<String, Broken> {
    let allowed = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    match text(raw) {
        Some(name)
            if name.chars().all(allowed) && !name.starts_with(|c: char| c.is_ascii_digit()) =>
        {
            Ok(name.to_owned())
        }
        Some(_) | None => Err(Broken::Hidden(
            "give the name of the variable that holds the key (A-Z, 0-9 and _), not the key"
                .to_owned(),
        )),
    }
}

/// A header's value.
pub(crate) fn header(raw: &Raw) -> Result<String, Broken> {
    let visible = |c: char| c.is_ascii_graphic() || c == ' ';
    match text(raw) {
        Some(text) if text.chars().all(visible) => Ok(text.to_owned()),
        Some(_) | None => {
            Err(Broken::Hidden("give a string of visible ASCII characters".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(text: &str) -> Raw {
        Raw::Spoken(text.to_owned())
    }

    #[test]
    fn an_address_is_numeric_or_localhost() {
        assert_eq!(address(&spoken("localhost:0")), Ok(([127, 0, 0, 1], 0).into()));
        assert_eq!(address(&spoken("[::1]:7486")), Ok(([0, 0, 0, 0, 0, 0, 0, 1], 7486).into()));
        for bad in ["", "7486", ":7486", "example.org:80", "127.0.0.1", "127.0.0.1:70000"] {
            assert!(address(&spoken(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_number_in_quotes_is_a_number_only_where_everything_is_text() {
        let rule = count(1, 10, "runs");
        assert_eq!(rule(&spoken(" 7 ")), Ok(7));
        assert_eq!(rule(&Raw::Integer("7".to_owned())), Ok(7));
        for bad in [
            Raw::Text("7".to_owned()),
            Raw::Other("a float"),
            spoken("0"),
            spoken("11"),
            spoken("-1"),
        ] {
            let rule = "give a whole number of runs from 1 to 10".to_owned();
            assert_eq!(count(1, 10, "runs")(&bad), Err(Broken::Shown(rule)), "{bad}");
        }
    }

    #[test]
    fn a_folder_below_home_needs_a_home() {
        let home = PathBuf::from("/home/ada");
        assert_eq!(folder(Some(&home))(&spoken("~/.piton")), Ok(home.join(".piton")));
        assert_eq!(folder(Some(&home))(&spoken("~ada")), Ok(PathBuf::from("~ada")));
        assert_eq!(folder(None)(&spoken("/srv")), Ok(PathBuf::from("/srv")));
        assert!(folder(None)(&spoken("~/.piton")).is_err());
    }

    #[test]
    fn what_may_be_a_secret_is_never_shown_back() {
        for bad in ["sk-planted", "postgres://a:b@c/d", "https://user:planted@host/v1"] {
            assert!(matches!(url(&spoken(bad)), Err(Broken::Hidden(_))), "{bad}");
            assert!(matches!(variable(&spoken(bad)), Err(Broken::Hidden(_))), "{bad}");
        }
        assert_eq!(variable(&spoken("OPENAI_API_KEY")), Ok("OPENAI_API_KEY".to_owned()));
        assert!(header(&spoken("a\r\nb: c")).is_err());
    }

    #[test]
    fn a_level_is_a_filter() {
        assert_eq!(level(&spoken("info,actors=debug")), Ok("info,actors=debug".to_owned()));
        assert!(level(&spoken("info,actors=loud")).is_err());
    }
}
