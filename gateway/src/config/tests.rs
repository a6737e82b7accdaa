//! The rules of a configuration: who wins, what is refused and how it is named, and that no secret is shown.

use super::*;
use ::providers::registry;

mod table;
mod webhooks;

const KNOWN: [Known<'static>; 6] = [
    Known { id: "openrouter", aliases: &[], keys: &["OPENROUTER_API_KEY"], regions: &[] },
    Known { id: "openai", aliases: &["openai-api"], keys: &["OPENAI_API_KEY"], regions: &[] },
    Known { id: "kimi", aliases: &[], keys: &["KIMI_API_KEY", "MOONSHOT_API_KEY"], regions: &[] },
    Known { id: "llamacpp", aliases: &["llama.cpp", "llama-cpp"], keys: &[], regions: &[] },
    Known { id: "openai-codex", aliases: &["codex"], keys: &[], regions: &[] },
    Known {
        id: "bedrock",
        aliases: &["aws"],
        keys: &["AWS_TOKEN", "AWS_ID:AWS_SECRET:AWS_SESSION"],
        regions: &["AWS_REGION"],
    },
];

/// A folder to start in, with a home below it.
struct World {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
    flags: Flags,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(".piton")).unwrap();
        let home = folder.path().display().to_string();
        Self { folder, variables: vec![("HOME".to_owned(), home)], flags: Flags::default() }
    }

    fn file(self, text: &str) -> Self {
        std::fs::write(self.folder.path().join(FILE_NAME), text).unwrap();
        self
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn flag(mut self, key: &'static str, flag: &'static str, value: &str) -> Self {
        self.flags = self.flags.with(key, flag, value.to_owned());
        self
    }

    fn load(&self) -> Result<Loaded, ConfigError> {
        let environment = Environment::of(self.variables.clone());
        let here = self.folder.path();
        load(&Sources { flags: &self.flags, environment: &environment, known: &KNOWN, here })
    }

    /// The problems, with the folder's name taken out.
    fn problems(&self) -> Vec<String> {
        let folder = format!("{}/", self.folder.path().display());
        let error = self.load().unwrap_err();
        error.0.iter().map(|problem| problem.to_string().replace(&folder, "")).collect()
    }
}

#[test]
fn a_provider_may_speak_another_family_of_those_there_are() {
    let told = "[providers.kimi]\nfamily = \"anthropic_messages\"\n";
    let config = World::new().file(told).load().unwrap().config;
    assert_eq!(config.providers["kimi"].family, Some(Family::AnthropicMessages));
    assert_eq!(config.providers["openai"].family, None);
    let problems = World::new().variable("PITON_KIMI_FAMILY", "telex").problems();
    assert!(problems[0].contains("give one of openai_chat, anthropic_messages, "), "{problems:?}");
}

#[test]
fn nothing_said_is_a_working_configuration() {
    let loaded = World::new().load().unwrap();
    let config = &loaded.config;
    assert_eq!(config.bind, ([127, 0, 0, 1], 7486).into());
    assert!(config.data_dir.ends_with(".piton"));
    assert_eq!(config.default_model, None);
    let limits = Limits {
        max_body_bytes: 8 << 20,
        max_concurrent_runs: 256,
        max_connections: 1_024,
        drain: Millis(20_000),
        client_tool_wait: Millis(600_000),
        approval_timeout: Millis(1_800_000),
    };
    assert_eq!(config.limits, limits);
    assert_eq!(config.retry.limits(), events::model_call::Limits::default());
    assert!(!config.behind_proxy);
    assert_eq!(
        config.providers.keys().collect::<Vec<_>>(),
        ["bedrock", "kimi", "llamacpp", "openai", "openai-codex", "openrouter"]
    );
    assert!(loaded.origins.values().all(|origin| *origin == Origin::Default));
}

#[test]
fn a_flag_wins_over_the_environment_over_the_file_over_the_default() {
    let origin = |world: &World| world.load().unwrap().origins["limits.drain_seconds"].to_string();
    let world = World::new();
    assert_eq!(origin(&world), "default");
    let world = world.file("\n[limits]\ndrain_seconds = 1\n");
    assert!(origin(&world).ends_with("piton.toml:3"), "{}", origin(&world));
    let world = world.variable("PITON_LIMITS_DRAIN_SECONDS", "2");
    assert_eq!(origin(&world), "environment PITON_LIMITS_DRAIN_SECONDS");
    let world = world.flag("limits.drain_seconds", "--drain", "3");
    assert_eq!(origin(&world), "flag --drain");
    assert_eq!(world.load().unwrap().config.limits.drain, Millis(3_000));
}

#[test]
fn a_misspelt_key_is_named_with_its_line_and_the_nearest() {
    let world = World::new()
        .file("bnd = 1\n[limits]\nmax_body_byte = 5\n[providers.openai]\nkey = \"sk-planted\"\n");
    let nearest = |key: &str| format!("; {key} is the nearest that is known");
    assert_eq!(
        world.problems(),
        [
            format!("piton.toml:1: bnd is not a setting{}", nearest("bind")),
            format!("piton.toml:3: limits.max_body_byte is not a setting{}", nearest("limits.max_body_bytes")),
            "piton.toml:5: providers.openai.key is not a setting; providers.openai.api_key_env is the nearest that is known"
                .to_owned(),
        ]
    );
}

#[test]
fn a_wrong_value_is_named_with_its_key_its_place_and_its_rule_and_every_fault_is_found() {
    let world = World::new()
        .file("[limits]\nmax_connections = \"many\"\n[log]\nformat = \"xml\"\n[retry]\nretry_base_ms = 1.5\n")
        .variable("PITON_BEHIND_PROXY", "perhaps");
    assert_eq!(
        world.problems(),
        [
            "piton.toml:2: limits.max_connections = \"many\": give a whole number of connections from 1 to 1000000",
            "piton.toml:6: retry.retry_base_ms = a number with a fraction: give a whole number of milliseconds from 1 to 60000",
            "piton.toml:4: log.format = \"xml\": give text or json",
            "environment PITON_BEHIND_PROXY: behind_proxy = \"perhaps\": give true or false",
        ]
    );
}

#[test]
fn a_wrong_value_is_a_fault_even_where_a_stronger_one_is_right() {
    let world = World::new().file("bind = 5\n").variable("PITON_BIND", "127.0.0.1:1");
    assert!(world.problems()[0].starts_with("piton.toml:1: bind = 5: give ADDRESS:PORT"));
}

#[test]
fn an_empty_table_with_a_wrong_name_and_a_table_that_is_none_are_faults() {
    let world = World::new().file("log = 1\n[limts]\n[retry]\n");
    assert_eq!(
        world.problems(),
        [
            "piton.toml:2: limts is not a setting; limits is the nearest that is known",
            "piton.toml:1: log = (not shown): this is a table: write [table] and its keys below it",
        ]
    );
}

#[test]
fn an_address_that_others_reach_needs_a_proxy() {
    let world = World::new().variable("PITON_BIND", "0.0.0.0:7486");
    let problems = world.problems();
    assert_eq!(problems.len(), 1);
    for way_out in [
        "environment PITON_BIND",
        "127.0.0.1",
        "--behind-proxy",
        "PITON_BEHIND_PROXY",
        "behind_proxy = true",
    ] {
        assert!(problems[0].contains(way_out), "{way_out}: {problems:?}");
    }
    let world = world.flag("behind_proxy", "--behind-proxy", "true");
    assert!(world.load().unwrap().config.behind_proxy);
}

#[test]
fn a_key_is_found_in_the_first_variable_that_is_set_and_its_name_is_kept() {
    let world =
        World::new().variable("KIMI_API_KEY", "").variable("MOONSHOT_API_KEY", "sk-planted");
    let found = world.load().unwrap().config.providers["kimi"].key.clone().unwrap();
    assert_eq!(
        (found.variable.as_str(), found.secret.expose()),
        ("MOONSHOT_API_KEY", "sk-planted")
    );

    let world = World::new()
        .file("[providers.openai]\napi_key_env = \"WORK_KEY\"\n")
        .variable("OPENAI_API_KEY", "sk-private");
    assert!(world.load().unwrap().config.providers["openai"].key.is_none());
    let world = world.variable("WORK_KEY", "sk-work");
    let key = world.load().unwrap().config.providers["openai"].key.clone().unwrap();
    assert_eq!(key.secret.expose(), "sk-work");
}

#[test]
fn an_unknown_provider_is_named_with_the_nearest() {
    let world =
        World::new().file("[providers.opnai]\ntimeout_seconds = 5\nnext = 1\n[providers.mine]\n");
    let custom = "; a server of your own is providers.custom";
    assert_eq!(
        world.problems(),
        [
            format!("piton.toml:4: \"mine\" is not a known provider{custom}"),
            format!(
                "piton.toml:3: \"opnai\" is not a known provider; openai is the nearest that is known{custom}"
            ),
        ]
    );
}

#[test]
fn a_key_may_stand_in_a_variable_of_ours_which_is_tried_first() {
    let world = World::new()
        .variable("PITON_OPENAI_API_KEY", "sk-ours")
        .variable("OPENAI_API_KEY", "sk-theirs");
    let loaded = world.load().unwrap();
    assert_eq!(loaded.config.providers["openai"].key.as_ref().unwrap().secret.expose(), "sk-ours");
    assert_eq!(loaded.warnings, [] as [&str; 0]);
}

#[test]
fn a_header_needs_a_name_that_is_one() {
    let world = World::new().file("[providers.openai.headers]\n\"x team\" = \"planted\"\n");
    assert_eq!(
        world.problems(),
        [
            "piton.toml:2: providers.openai.headers.\"x team\" = (not shown): this is no name of a header"
        ]
    );
}

#[test]
fn a_provider_may_be_called_by_another_of_its_names_but_not_by_two() {
    let world = World::new()
        .file("[providers.\"llama.cpp\"]\ntimeout_seconds = 5\n[providers.llama-cpp]\nbase_url = \"http://127.0.0.1:1/v1\"\n")
        .variable("PITON_DEFAULT_MODEL", "llama.cpp/qwen");
    let config = world.load().unwrap().config;
    assert_eq!(config.providers["llamacpp"].timeout, Millis(5_000));
    assert!(config.providers["llamacpp"].base_url.is_some());
    assert_eq!(config.default_model.unwrap().to_string(), "llamacpp:qwen");
    let world = world.file(
        "[providers.llamacpp]\ntimeout_seconds = 5\n[providers.llama-cpp]\ntimeout_seconds = 6\n",
    );
    assert_eq!(
        world.problems(),
        [
            "piton.toml:4: providers.llamacpp.timeout_seconds is set twice, under two names of the same provider"
        ]
    );
}

#[test]
fn the_default_model_needs_a_provider_that_is_known() {
    let world = World::new().variable("PITON_DEFAULT_MODEL", "openia:gpt");
    let expected = "environment PITON_DEFAULT_MODEL: \"openia\" is not a known provider; openai is the nearest that is \
                    known; a server of your own is providers.custom";
    assert_eq!(world.problems(), [expected]);
    let world = World::new().variable("PITON_DEFAULT_MODEL", "openai/gpt-5.4-mini");
    assert_eq!(
        world.load().unwrap().config.default_model.unwrap().to_string(),
        "openai:gpt-5.4-mini"
    );
    assert!("gpt".parse::<Model>().is_err());
    assert!("openai:".parse::<Model>().is_err());
}

#[test]
fn the_file_beside_the_data_is_read_when_there_is_no_nearer_one() {
    let world = World::new();
    let beside = world.folder.path().join(".piton").join(FILE_NAME);
    std::fs::write(&beside, "[log]\nlevel = \"debug\"\n").unwrap();
    assert_eq!(world.load().unwrap().file, Some(beside.clone()));
    std::fs::write(&beside, "data_dir = \"/elsewhere\"\n").unwrap();
    assert_eq!(
        world.problems(),
        [
            ".piton/piton.toml:1: data_dir names another folder than the one that this file was found in: take it out here"
        ]
    );
    let world = world.file("[log]\nlevel = \"warn\"\n");
    assert_eq!(world.load().unwrap().config.log.level, "warn");
    let world = world.variable(CONFIG, &beside.display().to_string()).flag(
        "data_dir",
        "--data-dir",
        "/srv/piton",
    );
    assert_eq!(world.load().unwrap().config.data_dir, PathBuf::from("/srv/piton"));
}

#[test]
fn a_named_file_that_is_missing_is_a_fault() {
    let world = World::new().variable(CONFIG, "/gone.toml");
    assert_eq!(
        world.problems(),
        ["/gone.toml does not exist, but environment PITON_CONFIG names it as the configuration"]
    );
}

#[test]
fn a_misspelt_variable_is_a_warning_and_a_strange_one_is_not() {
    let world = World::new()
        .variable("PITON_LIMITS_MAX_BODY_BYTE", "5")
        .variable("PITON_SERVICE_HOST", "10.0.0.1")
        .variable("PITON_PORT_7486_TCP_ADDR", "10.0.0.1")
        .variable(ADMIN_KEY, "x");
    assert_eq!(
        world.load().unwrap().warnings,
        [
            "PITON_LIMITS_MAX_BODY_BYTE sets nothing; PITON_LIMITS_MAX_BODY_BYTES is the nearest variable that does"
        ]
    );
}

#[test]
fn what_is_shown_has_every_key_with_its_origin_and_no_secret() {
    let world = World::new()
        .file("[providers.openai]\nbase_url = \"https://example.org/v1\"\n[providers.openai.headers]\nX-Team = \"planted\"\n")
        .variable("OPENAI_API_KEY", "sk-planted");
    let loaded = world.load().unwrap();
    let rows = loaded.rows();
    let at = |key: &str| {
        let row = rows.iter().find(|row| row.key == key).unwrap();
        (
            row.value.clone(),
            row.origin.to_string().rsplit('/').next().unwrap_or_default().to_owned(),
        )
    };
    let pair = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
    assert_eq!(at("bind"), pair("127.0.0.1:7486", "default"));
    assert_eq!(at("providers.openai.base_url"), pair("https://example.org/v1", "piton.toml:2"));
    assert_eq!(at("providers.openai.headers.x-team"), pair("set", "piton.toml:4"));
    assert_eq!(at("providers.openai key"), pair("set", "environment OPENAI_API_KEY"));
    let silent = loaded.origins.keys().filter(|key| !rows.iter().any(|row| row.key == **key));
    assert!(
        silent.clone().all(|key| key.starts_with("providers.") || key.starts_with("nats.")),
        "{:?}",
        silent.collect::<Vec<_>>()
    );
    for printed in [format!("{rows:?}"), format!("{loaded:?}")] {
        assert!(!printed.contains("planted"), "{printed}");
    }
}

#[test]
fn the_example_in_deploy_is_valid_and_names_every_key() {
    let example = include_str!("../../../deploy/piton.example.toml");
    assert!(World::new().file(example).load().unwrap().config.nats.is_none());
    // The cluster's table is there to be taken in.
    let setting = |line: &str| line.starts_with('#') && !line.starts_with("# ");
    let whole: Vec<&str> = example
        .lines()
        .map(|line| if setting(line) { line.trim_start_matches('#') } else { line })
        .collect();
    let world = World::new();
    let routes = world.folder.path().join("routes.json");
    std::fs::write(&routes, r#"{"routes": {"planner": "openai:a"}}"#).unwrap();
    let whole = whole.join("\n");
    let whole = whole.replace("/etc/piton/model_routes.json", &routes.display().to_string());
    let world = world.file(&whole);
    let loaded = world.load().unwrap();
    let in_file = |key: &str| matches!(loaded.origins.get(key), Some(Origin::File { .. }));
    let scalars = loaded.rows().into_iter().filter(|row| !row.key.starts_with("providers."));
    let missing: Vec<String> = scalars.map(|row| row.key).filter(|key| !in_file(key)).collect();
    let tolerated = ["behind_proxy", "log.format", "log.level"];
    let missing: Vec<&String> =
        missing.iter().filter(|key| !tolerated.contains(&key.as_str())).collect();
    assert_eq!(missing, [] as [&String; 0]);
}

#[test]
fn an_issuer_is_over_tls_or_on_this_machine_and_only_of_those_who_are_logged_in_to() {
    let of = |url: &str| World::new().variable("PITON_OPENAI_CODEX_ISSUER_URL", url);
    for good in ["https://auth.example", "http://127.0.0.1:9"] {
        assert!(of(good).load().unwrap().config.providers["openai-codex"].issuer_url.is_some());
    }
    for bad in ["http://auth.example", "https://u:planted@auth.example", "auth.example"] {
        let problems = of(bad).problems();
        assert!(problems[0].contains("_ISSUER_URL") && !problems[0].contains("planted"));
    }
    let nobody = World::new().file("[providers.openai]\nissuer_url = \"https://a\"\n").problems();
    assert!(nobody[0].contains("issuer_url"));
}

#[test]
fn routes_come_from_the_environment_the_table_file_and_its_projects() {
    let world = World::new();
    let path = world.folder.path().join("routes.json");
    let table = r#"{"routes": {"planner": "openai:a", "phase_brain:fluid": "kimi:b"},
        "projects": {"p1": {"roles": {"chat": "openai-api:c"}}}}"#;
    std::fs::write(&path, table).unwrap();
    let text = "fallback_providers = [\"kimi:d\", \"openai:e\"]\nevaluator_independence = \"off\"\n\
        [roles.chat]\nfallback_providers = [\"openai:f\"]\n";
    let loaded = world
        .file(text)
        .variable("PITON_MODEL_ROUTES_PATH", &path.display().to_string())
        .variable("PITON_ROUTE_PHASE_BRAIN_FLUID", "openai:g")
        .load()
        .unwrap();
    let routes = &loaded.config.routes;
    let of = |role: &str| routes.file[&role.parse().unwrap()].to_string();
    assert_eq!((of("planner"), of("phase_brain:fluid")), ("openai:a".into(), "kimi:b".into()));
    let project = &routes.projects["p1"][&events::role::Role::chat()];
    assert_eq!(project.to_string(), "openai:c", "under the provider's own id");
    assert_eq!(routes.environment["PHASE_BRAIN_FLUID"].to_string(), "openai:g");
    let names = |targets: &[actors::routing::Target]| -> Vec<String> {
        targets.iter().map(ToString::to_string).collect()
    };
    assert_eq!(names(&routes.fallbacks), ["kimi:d", "openai:e"]);
    assert_eq!(names(&routes.role_fallbacks[&events::role::Role::chat()]), ["openai:f"]);
    assert_eq!(routes.independence, Some(actors::routing::Independence::Off));
    assert_eq!(loaded.warnings, [""; 0]);
    let rows = loaded.rows();
    let row = rows.iter().find(|row| row.key == "fallback_providers").unwrap();
    assert_eq!(
        (row.value.as_str(), row.origin.to_string().contains(":1")),
        ("kimi:d,openai:e", true)
    );
}

#[test]
fn a_bad_route_is_refused_wherever_it_stands() {
    let world = World::new();
    let path = world.folder.path().join("routes.json");
    std::fs::write(&path, r#"{"routes": {"No Role": "openai:a", "chat": "opena:b"}}"#).unwrap();
    let problems = world
        .file("fallback_providers = [\"kimi\"]\n[roles.\"1\"]\nfallback_providers = []\n")
        .variable("PITON_MODEL_ROUTES_PATH", &path.display().to_string())
        .variable("PITON_ROUTE_PLANNER", "gpt-6")
        .variable("PITON_ROUTE_", "openai:a")
        .problems();
    for part in [
        "No Role",
        "openai is the nearest",
        "PROVIDER:MODEL",
        "\"1\" is no role",
        "PITON_ROUTE_PLANNER",
        "names no role",
    ] {
        assert!(problems.iter().any(|one| one.contains(part)), "{part} in {problems:#?}");
    }
    let misspelt = World::new().variable("PITON_ROUTE_PLANER", "openai:a").load().unwrap();
    assert!(misspelt.warnings[0].contains("PITON_ROUTE_PLANNER"), "{:?}", misspelt.warnings);
}

#[test]
fn a_table_file_that_does_not_read_is_named() {
    let world = World::new();
    let path = world.folder.path().join("routes.json");
    std::fs::write(&path, r#"{"route": {}}"#).unwrap();
    let named = path.display().to_string();
    let problems = world.variable("PITON_MODEL_ROUTES_PATH", &named).problems();
    assert!(
        problems[0].contains("unknown field") && problems[0].contains("routes.json"),
        "{problems:?}"
    );
}

#[test]
fn a_key_of_several_variables_and_a_region_are_read_together() {
    let bedrock = |world: &World| world.load().unwrap().config.providers["bedrock"].clone();
    let key = |world: &World| {
        bedrock(world).key.map(|key| (key.variable, key.secret.expose().to_owned()))
    };
    let world = World::new().variable("AWS_ID", "A").variable("AWS_SESSION", "t");
    assert_eq!(key(&world), None);
    let world = world.variable("AWS_SECRET", "s").variable("AWS_REGION", "us-east-1");
    assert_eq!(key(&world), Some(("AWS_ID".to_owned(), "A:s:t".to_owned())));
    assert_eq!(bedrock(&world).region.as_deref(), Some("us-east-1"));
    let world = world.file("[providers.aws]\nregion = \"eu-west-1\"\n");
    assert_eq!(bedrock(&world).region.as_deref(), Some("eu-west-1"));
    let world = world.variable("PITON_BEDROCK_REGION", "EU/..");
    assert_eq!(
        world.problems(),
        [
            "environment PITON_BEDROCK_REGION: providers.bedrock.region = \"EU/..\": give a region such as eu-west-1"
        ]
    );
    let world = World::new().file("[providers.openai]\nregion = \"eu-west-1\"\n");
    assert!(world.problems()[0].contains("providers.openai.region is not a setting"));
}
