//! `piton cluster join`: checks one machine's bundle and puts its files into their places.

use super::super::arguments::{ClusterJoin, Output};
use super::super::context::Context;
use super::super::failure::CliError;
use super::{failed, open_up, sum, write};
use crate::auth::private;
use crate::bundle::{FORMAT, MACHINE_FILE, Machine, Readers, SUMS_FILE};
use crate::config::Flags;
use crate::error::Exit;
use serde_json::json;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

/// Bytes of the largest file of a bundle (1 MiB); a real one has some kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Folders that hold what a machine keeps, of its server and of its node.
const KEPT: [&str; 2] = ["var/lib/nats", "var/lib/piton"];

/// A file of the bundle that was read and is as it was written.
struct Found {
    path: String,
    text: String,
    readers: Readers,
}

pub(super) fn join(ctx: &mut Context<'_>, asked: &ClusterJoin) -> Result<Exit, CliError> {
    let machine = machine(&asked.from)?;
    let found = found(&asked.from)?;
    if !asked.anywhere {
        is_here(&machine)?;
    }
    let place = |path: &str| PathBuf::from(machine.at(path));
    let differs = |file: &&Found| {
        std::fs::read(place(&file.path)).is_ok_and(|there| there != file.text.as_bytes())
    };
    let taken: Vec<String> =
        found.iter().filter(differs).map(|one| machine.at(&one.path)).collect();
    if !taken.is_empty() && !asked.force {
        let message = format!(
            "{} {} with other contents: look, and write over with --force",
            taken.join(", "),
            if taken.len() == 1 { "exists" } else { "exist" }
        );
        return Err(CliError::Store { exit: Exit::Conflict, message });
    }
    for kept in KEPT {
        let kept = place(kept);
        if let Some(above) = kept.parent() {
            above_of(above)?;
        }
        private::folder(&kept)?;
    }
    for file in &found {
        let path = place(&file.path);
        if let Some(above) = path.parent() {
            above_of(above)?;
        }
        write(&path, &file.text, file.readers)?;
    }
    // What was written is what a node reads.
    let config = place("etc/piton/piton.toml");
    ctx.load_with(&Flags::reading(Some(config)))?;
    told(ctx, &machine, &found)
}

/// Folders of configuration, and those above what a machine keeps, may be entered by everybody: a server runs as another
/// user than whoever joins. Those that are there stay as they are.
fn above_of(folder: &Path) -> Result<(), CliError> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|above| !above.exists()).collect();
    std::fs::create_dir_all(folder).map_err(|source| failed("can not make", folder, source))?;
    missing.into_iter().filter(|above| above.exists()).try_for_each(|above| open_up(above, 0o755))
}

fn conflict(message: String) -> CliError {
    CliError::Store { exit: Exit::Conflict, message }
}

fn text(path: &Path) -> Result<String, CliError> {
    let about = path.metadata().map_err(|source| failed("can not read", path, source))?;
    if about.len() > FILE_BYTES_MAX {
        return Err(conflict(format!("{} is too large for a bundle", path.display())));
    }
    std::fs::read_to_string(path).map_err(|source| failed("can not read", path, source))
}

/// Whose bundle it is.
fn machine(from: &Path) -> Result<Machine, CliError> {
    let path = from.join(MACHINE_FILE);
    if !path.exists() {
        let below = ["n1", "n2", "n3"].map(|name| from.join(name));
        let hint = if below.iter().any(|folder| folder.join(MACHINE_FILE).exists()) {
            ": it holds the bundles of all; give this machine's, n1, n2 or n3 in it"
        } else {
            ": make one with `piton cluster init`"
        };
        return Err(CliError::Usage(format!("--from {} is no bundle{hint}", from.display())));
    }
    let machine: Machine = toml::from_str(&text(&path)?)
        .map_err(|error| conflict(format!("{}: {error}", path.display())))?;
    if machine.format != FORMAT {
        let message = format!(
            "{} is of form {}, this build knows form {FORMAT}: use the build that made it",
            from.display(),
            machine.format
        );
        return Err(conflict(message));
    }
    Ok(machine)
}

/// Every file of the bundle, each as it was written.
fn found(from: &Path) -> Result<Vec<Found>, CliError> {
    let mut found = Vec::new();
    for line in text(&from.join(SUMS_FILE))?.lines() {
        let broken =
            || conflict(format!("{SUMS_FILE} of {} is broken: copy it again", from.display()));
        let (wanted, path) = line.split_once("  ").ok_or_else(broken)?;
        let plain = path.split('/').all(|part| !part.is_empty() && !part.starts_with('.'));
        if !plain {
            return Err(broken());
        }
        let file = from.join(path);
        let text = text(&file)?;
        if sum(&text) != wanted {
            let message =
                format!("{} is not as it was written: copy the bundle again", file.display());
            return Err(conflict(message));
        }
        if path != MACHINE_FILE {
            found.push(Found { path: path.to_owned(), text, readers: readers(path) });
        }
    }
    Ok(found)
}

/// What holds a secret, by its name.
fn readers(path: &str) -> Readers {
    let secret = [".env", ".key", "key.pem"].iter().any(|end| path.ends_with(end));
    if secret { Readers::Owner } else { Readers::All }
}

/// Whether the machine's host is an address of this one: a bundle in the wrong place would be two servers of one name.
fn is_here(machine: &Machine) -> Result<(), CliError> {
    match TcpListener::bind((machine.host.as_str(), 0)) {
        Ok(_free) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => Err(conflict(format!(
            "{} is no address of this machine, and the bundle is for the one at it: join there, or give --anywhere",
            machine.host
        ))),
        Err(error) => Err(conflict(format!(
            "{} is not known here ({error}): put the three machines into /etc/hosts or the DNS, or give --anywhere",
            machine.host
        ))),
    }
}

fn told(ctx: &mut Context<'_>, machine: &Machine, found: &[Found]) -> Result<Exit, CliError> {
    let (server, node) = (machine.server_command(), machine.node_command());
    let health = format!("http://{}:{}/healthz", machine.host, machine.ports.monitor);
    let ready = format!("http://127.0.0.1:{}/health/ready", machine.ports.node);
    if ctx.output() != Output::Table {
        let files: Vec<String> = found.iter().map(|file| machine.at(&file.path)).collect();
        let key = machine.at("etc/piton/piton.env");
        let run = json!({"server": server, "node": node, "healthy": health, "ready": ready});
        ctx.object(
            &json!({"name": machine.name, "files": files, "run": run, "admin_key_in": key}),
        )?;
        return Ok(Exit::Ok);
    }
    let at = |path: &str| machine.at(path);
    writeln!(
        ctx.out,
        "{} is set up: {} files below {}/etc and {}/var/lib\n\nnext, with systemd, as root:",
        machine.name,
        found.len(),
        machine.prefix,
        machine.prefix
    )?;
    for (user, folders) in [
        ("nats", [at("etc/nats"), at("var/lib/nats")]),
        ("piton", [at("etc/piton"), at("var/lib/piton")]),
    ] {
        writeln!(ctx.out, "  id {user} || useradd --system --shell /usr/sbin/nologin {user}")?;
        writeln!(ctx.out, "  chown -R {user}: {}", folders.join(" "))?;
    }
    writeln!(ctx.out, "  systemctl daemon-reload && systemctl enable --now nats")?;
    writeln!(ctx.out, "  curl {health}    # on all three, before the first node")?;
    writeln!(
        ctx.out,
        "  systemctl enable --now piton\n\nor without it, each in a shell of its own:"
    )?;
    writeln!(ctx.out, "  {server}\n  {node}\n\nit is up when {ready} says ready.")?;
    writeln!(
        ctx.out,
        "The administrator's key is PITON_ADMIN_KEY in {}; the providers' keys go there too.",
        at("etc/piton/piton.env")
    )?;
    Ok(Exit::Ok)
}
