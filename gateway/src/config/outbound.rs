//! The tables `[tools.outbound]` and `[tools.web_search]`: where tools may go, and who searches the web for them.
//!
//! An entry that can not be read stops the node: a list with a slip in it would let through less than was meant, or its
//! private places would be believed to be shut.

use super::merge::{Problem, Reader};
use super::rule::{self, Broken, Raw};
use super::secret::Secret;
use tools::native::search::Backend;
use tools::outbound::{PLACES_MAX, Place, Places};
use url::Url;

/// The variable for the key of whichever search engine is configured.
pub const SEARCH_KEY: &str = "PITON_TOOLS_WEB_SEARCH_API_KEY";

/// Where tools may go, and who searches for them.
#[derive(Debug, Clone, Default)]
pub struct Outbound {
    /// Where `http.fetch` may go.
    pub places: Places,
    /// Who searches; without one there is no `web.search`.
    pub search: Option<Searcher>,
}

/// A search engine as it is configured.
#[derive(Debug, Clone)]
pub struct Searcher {
    /// Which one.
    pub backend: Backend,
    /// Where it is.
    pub base_url: Url,
    /// Its key, where one of its variables is set.
    pub key: Option<Secret>,
    /// The variable that is to hold the key, when the usual ones are not meant.
    pub key_variable: Option<String>,
}

impl Outbound {
    /// Its keys with their values as the file would spell them, without secrets.
    pub(super) fn spoken(&self) -> Vec<(&'static str, String)> {
        let list =
            |places: &[Place]| places.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let mut rows = vec![
            ("tools.outbound.allow", list(&self.places.allow)),
            ("tools.outbound.allow_private", list(&self.places.allow_private)),
        ];
        if let Some(search) = &self.search {
            rows.extend([
                ("tools.web_search.backend", search.backend.word().to_owned()),
                ("tools.web_search.base_url", search.base_url.to_string()),
                ("tools.web_search.api_key_env", search.key_variable.clone().unwrap_or_default()),
            ]);
        }
        rows
    }
}

/// Asks for every key of the tables. Faults are remembered by the reader.
pub(super) fn read(reader: &mut Reader<'_>) -> Outbound {
    let allow = reader.take("tools.outbound.allow", places).unwrap_or_default();
    let allow_private = reader.take("tools.outbound.allow_private", private_places);
    let places = Places { allow, allow_private: allow_private.unwrap_or_default() };
    let backend = reader.take("tools.web_search.backend", backend);
    let base_url = reader.take("tools.web_search.base_url", rule::url);
    let key_variable = reader.take("tools.web_search.api_key_env", rule::variable);
    // Known, so that nobody is told that the variable sets nothing.
    reader.asked.insert("tools.web_search.api_key".to_owned());
    let search = backend.and_then(|backend| {
        let usual = || backend.usual_url().and_then(|url| url.parse().ok());
        let Some(base_url) = base_url.or_else(usual) else {
            let key = "tools.web_search.base_url".to_owned();
            let at = reader.origin("tools.web_search.backend");
            let rule = format!("give the address of your {}", backend.word());
            reader.problems.push(Problem::Wrong { at, key, value: "nothing".to_owned(), rule });
            return None;
        };
        let variables: Vec<&str> = match &key_variable {
            Some(name) => vec![name.as_str()],
            None => {
                std::iter::once(SEARCH_KEY).chain(backend.key_variables().iter().copied()).collect()
            }
        };
        let key = variables.into_iter().find_map(|name| reader.environment.secret(name));
        Some(Searcher { backend, base_url, key, key_variable })
    });
    Outbound { places, search }
}

fn backend(raw: &Raw) -> Result<Backend, Broken> {
    let found = rule::text(raw).and_then(Backend::named);
    found.ok_or_else(|| {
        let words = Backend::ALL.map(Backend::word).join(", ");
        Broken::Shown(format!("give one of {words}"))
    })
}

/// Places: a list of the file, or a text with commas between them.
fn places(raw: &Raw) -> Result<Vec<Place>, Broken> {
    let shown = |rule: String| Broken::Shown(rule);
    let texts: Vec<&str> = match raw {
        Raw::List(texts) => texts.iter().map(String::as_str).collect(),
        Raw::Spoken(text) => text.split(',').collect(),
        Raw::Text(_) | Raw::Integer(_) | Raw::Switch(_) | Raw::EmptyTable | Raw::Other(_) => {
            return Err(shown(
                "give a list of places, such as [\"example.org\", \"*.example.org\"]".to_owned(),
            ));
        }
    };
    if texts.len() > PLACES_MAX {
        return Err(shown(format!("give at most {PLACES_MAX} places")));
    }
    let parsed = texts.iter().map(|text| text.trim().parse::<Place>());
    parsed.collect::<Result<_, _>>().map_err(|error| shown(error.to_string()))
}

/// The same without what stands for everything.
fn private_places(raw: &Raw) -> Result<Vec<Place>, Broken> {
    let places = places(raw)?;
    if places.iter().any(Place::is_any) {
        let rule = "name each private place: * would open this machine and its network";
        return Err(Broken::Shown(rule.to_owned()));
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::super::{Environment, Flags, Sources, load};
    use super::*;

    fn loaded(text: &str, variables: &[(&str, &str)]) -> Result<Outbound, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("piton.toml");
        std::fs::write(&file, text).unwrap();
        let flags = Flags::reading(Some(file));
        let environment = Environment::of(variables.iter().copied().chain([("HOME", "/nowhere")]));
        let (known, here) = (&[][..], folder.path());
        let sources = Sources { flags: &flags, environment: &environment, known, here };
        load(&sources).map(|loaded| loaded.config.outbound).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_is_open_unless_it_is_said() {
        let outbound = loaded("", &[]).unwrap();
        assert_eq!(outbound.places, Places::default());
        assert!(outbound.search.is_none());
    }

    #[test]
    fn places_come_from_the_file_or_from_a_variable() {
        let file = "[tools.outbound]\nallow = [\"example.org\", \"*.example.org:443\"]\nallow_private = [\"10.0.0.0/8\"]\n";
        let outbound = loaded(file, &[]).unwrap();
        assert_eq!(outbound.spoken()[0].1, "example.org,*.example.org:443");
        assert_eq!(outbound.spoken()[1].1, "10.0.0.0/8");
        let outbound = loaded("", &[("PITON_TOOLS_OUTBOUND_ALLOW", "a.test, b.test")]).unwrap();
        assert_eq!(outbound.places.allow.len(), 2);
        for (file, word) in [
            ("[tools.outbound]\nallow = [\"http://a\"]\n", "names no place"),
            ("[tools.outbound]\nallow = 7\n", "give a list"),
            ("[tools.outbound]\nallow_private = [\"*\"]\n", "name each private place"),
            ("[tools.outbound]\nalow = []\n", "tools.outbound.allow"),
        ] {
            let told = loaded(file, &[]).unwrap_err();
            assert!(told.contains(word), "{told}");
        }
    }

    #[test]
    fn a_search_engine_has_its_address_and_its_key() {
        let brave = "[tools.web_search]\nbackend = \"brave\"\n";
        let search = |file: &str, variables| loaded(file, variables).unwrap().search.unwrap();
        let found = search(brave, &[("BRAVE_API_KEY", "planted")]);
        assert_eq!(found.base_url.as_str(), "https://api.search.brave.com/");
        assert_eq!(found.key.as_ref().map(Secret::expose), Some("planted"));
        assert!(!format!("{found:?}").contains("planted"));
        let both = [("BRAVE_API_KEY", "usual"), (SEARCH_KEY, "ours")];
        assert_eq!(search(brave, &both).key.unwrap().expose(), "ours");
        let named = format!("{brave}api_key_env = \"OWN\"\n");
        assert_eq!(
            search(&named, &[("OWN", "own"), (SEARCH_KEY, "ours")]).key.unwrap().expose(),
            "own"
        );
        let own = "[tools.web_search]\nbackend = \"searxng\"\n";
        assert!(loaded(own, &[]).unwrap_err().contains("address of your searxng"));
        let told = loaded("[tools.web_search]\nbackend = \"google\"\n", &[]).unwrap_err();
        assert!(told.contains("brave, tavily, searxng"), "{told}");
    }
}
