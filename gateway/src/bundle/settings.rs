//! The files of one machine.

use super::paper::Paper;
use super::{File, Machine, Plan, Readers, Secrets};
use events::subject::Namespace;
use std::fmt::Write;

const TLS: &str = include_str!("../../../deploy/nats/tls.conf");
const LIMITS: &str = include_str!("../../../deploy/nats/limits.conf");
const PERMISSIONS: &str = include_str!("../../../deploy/nats/permissions.conf");

/// Everything that one machine needs, in the order of its folders.
#[must_use]
pub fn files(
    plan: &Plan,
    machine: &Machine,
    secrets: &Secrets,
    (authority, own): (&str, &Paper),
) -> Vec<File> {
    let file = |path, readers, text: String| File { path, text, readers };
    let (all, owner) = (Readers::All, Readers::Owner);
    vec![
        file("etc/nats/tls.conf", all, server(plan, machine)),
        file("etc/nats/limits.conf", all, LIMITS.to_owned()),
        file("etc/nats/permissions.conf", all, permissions(&plan.namespace)),
        file("etc/nats/nats.env", owner, server_environment(machine, secrets)),
        file("etc/nats/ca.pem", all, authority.to_owned()),
        file("etc/nats/cert.pem", all, own.certificate.clone()),
        file("etc/nats/key.pem", owner, own.key.clone()),
        file("etc/piton/piton.toml", all, node(plan, machine)),
        file("etc/piton/piton.env", owner, node_environment(secrets)),
        file("etc/piton/ca.pem", all, authority.to_owned()),
        file("etc/systemd/system/nats.service", all, server_unit(machine)),
        file("etc/systemd/system/piton.service", all, node_unit(machine)),
        file("var/lib/piton/cluster.key", owner, cluster_key(&secrets.cluster_key)),
    ]
}

/// `tls.conf` with the addresses of the plan.
fn server(plan: &Plan, machine: &Machine) -> String {
    let ports = machine.ports;
    let hosts = plan.hosts.iter();
    let routes = hosts.map(|host| format!("\"nats://{}:{}\"", host.name, host.ports.route));
    let routes: Vec<String> = routes.collect();
    let line = |line: &str| match line.trim() {
        "host: $NATS_NAME" => line.replace("$NATS_NAME", &format!("\"{}\"", machine.host)),
        "port: 4222" => line.replace("4222", &ports.client.to_string()),
        "http_port: 8222" => line.replace("8222", &ports.monitor.to_string()),
        "port: 6222" => line.replace("6222", &ports.route.to_string()),
        routed if routed.starts_with("routes: [") => format!("  routes: [{}]", routes.join(", ")),
        _ => line.to_owned(),
    };
    TLS.lines().map(|text| line(text) + "\n").collect()
}

/// `permissions.conf` for the namespace, as its own comment says to do it.
fn permissions(namespace: &Namespace) -> String {
    let mut text = String::with_capacity(PERMISSIONS.len());
    let mut rest = PERMISSIONS;
    while let Some(at) = rest.find("piton") {
        let (before, found) = rest.split_at(at);
        let after = found.strip_prefix("piton").unwrap_or_default();
        let opens = before.ends_with(['.', '_']);
        let closes = after.starts_with(['.', '_', '"']);
        text.push_str(before);
        text.push_str(if opens && closes { namespace.as_str() } else { "piton" });
        rest = after;
    }
    text.push_str(rest);
    text
}

fn server_environment(machine: &Machine, secrets: &Secrets) -> String {
    let Secrets { node, reader, system, .. } = secrets;
    let at = |path| machine.at(path);
    format!(
        "NATS_NAME={}\nNATS_STORE={}\nNATS_NODE_PASSWORD={node}\nNATS_READER_PASSWORD={reader}\nNATS_SYSTEM_PASSWORD={system}\n\
         NATS_CA={}\nNATS_CERT={}\nNATS_KEY={}\n",
        machine.name,
        at("var/lib/nats"),
        at("etc/nats/ca.pem"),
        at("etc/nats/cert.pem"),
        at("etc/nats/key.pem"),
    )
}

fn node(plan: &Plan, machine: &Machine) -> String {
    let each = |one: &dyn Fn(&super::Host) -> String| -> String {
        plan.hosts.iter().map(one).collect::<Vec<_>>().join(",")
    };
    format!(
        "# Written by `piton cluster init`; piton.example.toml has everything else. Secrets are in piton.env.\n\
         bind = \"127.0.0.1:{}\"\ndata_dir = \"{}\"\n\n[nats]\nurl = \"{}\"\nmonitor = \"{}\"\nnamespace = \"{}\"\n\
         node = \"{}\"\nuser = \"node\"\nreplicas = {}\nca_file = \"{}\"\ncluster_key = \"{}\"\n",
        machine.ports.node,
        machine.at("var/lib/piton"),
        each(&|host| format!("tls://{}:{}", host.name, host.ports.client)),
        each(&|host| format!("http://{}:{}", host.name, host.ports.monitor)),
        plan.namespace,
        machine.name,
        plan.hosts.len(),
        machine.at("etc/piton/ca.pem"),
        machine.at("var/lib/piton/cluster.key"),
    )
}

fn node_environment(secrets: &Secrets) -> String {
    format!(
        "PITON_NATS_PASSWORD={}\nPITON_ADMIN_KEY={}\n# The providers' keys, the same on all machines:\n# OPENAI_API_KEY=...\n",
        secrets.node, secrets.admin
    )
}

fn cluster_key(key: &[u8; 32]) -> String {
    let mut text =
        "# The same on every node. A line for each key, the newest first.\nk1:".to_owned();
    for byte in key {
        // Writing to a string does not fail.
        let _written = write!(text, "{byte:02x}");
    }
    text.push('\n');
    text
}

fn server_unit(machine: &Machine) -> String {
    format!(
        "[Unit]\nDescription=NATS server {} of a Piton cluster\nAfter=network-online.target\nWants=network-online.target\n\n\
         [Service]\nUser=nats\nEnvironmentFile={}\nExecStart=/usr/local/bin/nats-server -c {}\nExecReload=/bin/kill -HUP $MAINPID\n\
         # A lame duck hands its leaderships over before it lets its clients go.\n\
         KillSignal=SIGUSR2\nTimeoutStopSec=90\nLimitNOFILE=65536\nRestart=always\n\n[Install]\nWantedBy=multi-user.target\n",
        machine.name,
        machine.at("etc/nats/nats.env"),
        machine.at("etc/nats/tls.conf"),
    )
}

fn node_unit(machine: &Machine) -> String {
    format!(
        "[Unit]\nDescription=Piton node {}\nAfter=network-online.target nats.service\nWants=network-online.target\n\n\
         [Service]\nUser=piton\nEnvironmentFile={}\nExecStart=/usr/local/bin/piton serve --config {}\n\
         # Longer than limits.drain_seconds.\nTimeoutStopSec=60\nLimitNOFILE=65536\nRestart=always\nRestartSec=2\n\
         # Configuration, or fenced by an operator: a restart by itself would not mend it.\nRestartPreventExitStatus=3 7\n\n\
         [Install]\nWantedBy=multi-user.target\n",
        machine.name,
        machine.at("etc/piton/piton.env"),
        machine.at("etc/piton/piton.toml"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(namespace: &str) -> Plan {
        let hosts = ["a.example:1:2:3:4", "10.0.0.2", "c"].map(|host| host.parse().unwrap());
        Plan {
            namespace: namespace.parse().unwrap(),
            hosts,
            prefix: "/srv/{name}".parse().unwrap(),
        }
    }

    #[test]
    fn addresses_are_put_into_the_template_and_nothing_of_it_is_left() {
        let plan = plan("piton");
        let [first, second, _] = &plan.machines().collect::<Vec<_>>()[..] else { panic!() };
        let text = server(&plan, first);
        for line in [
            "host: \"a.example\"",
            "port: 1",
            "http_port: 3",
            "  host: \"a.example\"",
            "  port: 2",
            "  routes: [\"nats://a.example:2\", \"nats://10.0.0.2:6222\", \"nats://c:6222\"]",
            "server_name: $NATS_NAME",
        ] {
            assert!(text.lines().any(|one| one == line), "{line:?} is not in {text}");
        }
        let left = text.lines().filter(|line| !line.starts_with('#'));
        assert!(
            left.clone().all(|line| !line.contains("n1:") && !line.contains("host: $")),
            "{text}"
        );
        assert!(server(&plan, second).contains("host: \"10.0.0.2\"\nport: 4222"));
    }

    #[test]
    fn permissions_are_those_of_the_namespace_and_else_as_deployed() {
        assert_eq!(permissions(&"piton".parse().unwrap()), PERMISSIONS);
        let other = permissions(&"other".parse().unwrap());
        for allowed in [
            "\"piton.other.>\"",
            "\"ev.other.>\"",
            "STREAM.CREATE.EV_other_0_0",
            "\"$KV.LEASE_other.>\"",
        ] {
            assert!(other.contains(allowed), "{allowed} in {other}");
        }
        let lines = other.lines().filter(|line| !line.trim_start().starts_with('#'));
        for line in lines.filter(|line| line.contains("piton")) {
            assert!(line.replace("piton.other.", "").find("piton").is_none(), "{line}");
        }
    }

    #[test]
    fn secrets_stand_only_in_files_of_their_owner() {
        let plan = plan("piton");
        let secret = |what: &str| format!("planted-{what}");
        let secrets = Secrets {
            node: secret("node"),
            reader: secret("reader"),
            system: secret("system"),
            admin: secret("admin"),
            cluster_key: [0xab; 32],
        };
        let own = Paper { certificate: "cert".into(), key: secret("key") };
        let machine = plan.machines().next().unwrap();
        let files = files(&plan, &machine, &secrets, ("ca", &own));
        assert_eq!(files.iter().filter(|file| file.readers == Readers::Owner).count(), 4);
        for file in &files {
            let holds = file.text.contains("planted") || file.text.contains("abab");
            assert_eq!(holds, file.readers == Readers::Owner, "{}", file.path);
        }
        assert!(!format!("{secrets:?} {own:?} {files:?}").contains("planted"));
    }
}
