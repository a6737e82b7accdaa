//! What each machine of a cluster of three needs, made at once on one of them: its NATS server's configuration and
//! certificate, its node's configuration, and the passwords that all share.
//!
//! The configurations are those of `deploy/nats`, which the tests try; only addresses and the namespace are put into
//! them. Secrets stand in files of their own, which only their owner may read.

mod paper;
mod settings;

pub use paper::{PaperError, Papers, papers};
pub use settings::files;

use events::subject::Namespace;
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// Machines of a cluster: three copies of the journal need three that do not fail together.
pub const MACHINES: usize = 3;
/// Which form of a bundle this build writes and reads.
pub const FORMAT: u32 = 1;
/// The file of a bundle that says whose it is.
pub const MACHINE_FILE: &str = "machine.toml";
/// The file of a bundle with the hash of each other one, as `sha256sum` reads it.
pub const SUMS_FILE: &str = "SHA256SUMS";
/// Characters of the longest host.
const HOST_MAX: usize = 253;

/// Where the parts of a machine listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ports {
    /// Nodes connect to the server.
    pub client: u16,
    /// Servers connect to each other.
    pub route: u16,
    /// The server's monitoring.
    pub monitor: u16,
    /// Clients of Piton, on loopback.
    pub node: u16,
}

impl Ports {
    const USUAL: Self = Self { client: 4222, route: 6222, monitor: 8222, node: 7486 };
}

/// One machine, as it was asked for: a host that the others reach, perhaps with ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// A name or an IPv4 address.
    pub name: String,
    /// Where its parts listen.
    pub ports: Ports,
}

/// The text names no machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a machine: give HOST (a name or an IPv4 address), or HOST:CLIENT:ROUTE:MONITOR:NODE with its four ports"
)]
pub struct NotAHost(String);

impl FromStr for Host {
    type Err = NotAHost;

    fn from_str(text: &str) -> Result<Self, NotAHost> {
        let wrong = || NotAHost(text.chars().take(HOST_MAX).collect());
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !starts || name.len() > HOST_MAX || !name.chars().all(allowed) {
            return Err(wrong());
        }
        let ports: Vec<&str> = parts.collect();
        let port = |text: &str| text.parse().ok().filter(|port| *port != 0).ok_or_else(wrong);
        let ports = match ports.as_slice() {
            [] => Ports::USUAL,
            [client, route, monitor, node] => Ports {
                client: port(client)?,
                route: port(route)?,
                monitor: port(monitor)?,
                node: port(node)?,
            },
            _ => return Err(wrong()),
        };
        Ok(Self { name: name.to_owned(), ports })
    }
}

/// The root below which a machine's files are put. It stands in configurations and in commands, so it has plain letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(String);

/// The text is no such root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} can not be a prefix: give an absolute path of A-Z a-z 0-9 . _ - and /, in which {{name}} stands for the machine's name"
)]
pub struct NotAPrefix(String);

impl FromStr for Prefix {
    type Err = NotAPrefix;

    fn from_str(text: &str) -> Result<Self, NotAPrefix> {
        let plain = text.replace("{name}", "n");
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
        if !plain.starts_with('/') || !plain.chars().all(allowed) {
            return Err(NotAPrefix(text.to_owned()));
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

impl Prefix {
    fn of(&self, name: &str) -> String {
        self.0.replace("{name}", name)
    }
}

/// The whole cluster.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Which journal on the servers.
    pub namespace: Namespace,
    /// The machines, in order: they are called `n1`, `n2` and `n3`.
    pub hosts: [Host; MACHINES],
    /// Where their files are put.
    pub prefix: Prefix,
}

impl Plan {
    /// The machines with what each is called.
    pub fn machines(&self) -> impl Iterator<Item = Machine> + '_ {
        (1_u32..).zip(&self.hosts).map(|(nth, host)| {
            let name = format!("n{nth}");
            let prefix = self.prefix.of(&name);
            Machine { format: FORMAT, prefix, host: host.name.clone(), ports: host.ports, name }
        })
    }
}

/// One machine of a plan: what [`MACHINE_FILE`] says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// [`FORMAT`].
    pub format: u32,
    /// What its server and its node are called.
    pub name: String,
    /// Where the others reach it.
    pub host: String,
    /// The root of its files; empty for `/`.
    pub prefix: String,
    /// Where its parts listen.
    pub ports: Ports,
}

impl Machine {
    /// The text of [`MACHINE_FILE`]. Every value has plain letters.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { format, name, host, prefix, ports } = self;
        let Ports { client, route, monitor, node } = ports;
        format!(
            "format = {format}\nname = \"{name}\"\nhost = \"{host}\"\nprefix = \"{prefix}\"\n\n[ports]\n\
             client = {client}\nroute = {route}\nmonitor = {monitor}\nnode = {node}\n"
        )
    }

    /// Where a file of its bundle is put.
    #[must_use]
    pub fn at(&self, path: &str) -> String {
        format!("{}/{path}", self.prefix)
    }

    /// Starts its server in the foreground. The environment is read from a file, so that no password is in a list of
    /// processes.
    #[must_use]
    pub fn server_command(&self) -> String {
        let (env, conf) = (self.at("etc/nats/nats.env"), self.at("etc/nats/tls.conf"));
        format!("(set -a; . {env}; exec nats-server -c {conf})")
    }

    /// Starts its node in the foreground.
    #[must_use]
    pub fn node_command(&self) -> String {
        let (env, toml) = (self.at("etc/piton/piton.env"), self.at("etc/piton/piton.toml"));
        format!("(set -a; . {env}; exec piton serve --config {toml})")
    }
}

/// What all machines share and nobody else may know. It does not print.
pub struct Secrets {
    /// Of the node's user at the servers.
    pub node: String,
    /// Of programs that read the public events.
    pub reader: String,
    /// Of the operator of the servers.
    pub system: String,
    /// Of the administrator of the nodes.
    pub admin: String,
    /// Seals what nodes keep for each other.
    pub cluster_key: [u8; 32],
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// Its owner.
    Owner,
    /// Whoever is on the machine.
    All,
}

/// A file of a bundle.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    /// Below the bundle's folder, and below the machine's prefix.
    pub path: &'static str,
    /// What is in it.
    pub text: String,
    /// Who may read it.
    pub readers: Readers,
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_usual_ports_or_its_own_four() {
        let usual: Host = "n1.example.org".parse().unwrap();
        assert_eq!((usual.name.as_str(), usual.ports), ("n1.example.org", Ports::USUAL));
        let own: Host = "10.0.0.1:1:2:3:4".parse().unwrap();
        assert_eq!(own.ports, Ports { client: 1, route: 2, monitor: 3, node: 4 });
        for bad in ["", "-a", "a b", "a:1", "a:1:2:3", "a:0:2:3:4", "a:1:2:3:70000", "::1", "a\"b"]
        {
            let error = bad.parse::<Host>().unwrap_err().to_string();
            assert!(error.contains("HOST:CLIENT:ROUTE:MONITOR:NODE"), "{error}");
        }
    }

    #[test]
    fn what_a_bundle_says_of_its_machine_reads_back() {
        let hosts = ["a.b:1:2:3:4", "b", "10.0.0.3"].map(|host| host.parse().unwrap());
        let prefix = "/srv/{name}".parse().unwrap();
        let plan = Plan { namespace: "piton".parse().unwrap(), hosts, prefix };
        for machine in plan.machines() {
            assert_eq!(toml::from_str::<Machine>(&machine.text()).unwrap(), machine);
        }
    }

    #[test]
    fn a_prefix_is_plain_and_knows_the_machine() {
        let at = |prefix: &str| prefix.parse::<Prefix>().unwrap().of("n2");
        assert_eq!([at("/"), at("/srv/{name}/")], [String::new(), "/srv/n2".to_owned()]);
        for bad in ["", "srv", "/a b", "/a$HOME", "/{host}", "/a;b"] {
            assert!(bad.parse::<Prefix>().is_err(), "{bad}");
        }
    }
}
