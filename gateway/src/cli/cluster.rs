//! `piton cluster`: `init` makes what three machines need, `join` puts one machine's part into its place.
//!
//! No secret is printed and none is an argument: they go from file to file, each of which only its owner may read.

mod join;

use super::arguments::{Cluster, ClusterInit, Output};
use super::context::Context;
use super::failure::CliError;
use crate::auth::private;
use crate::bundle::{
    File, Host, MACHINE_FILE, MACHINES, Machine, Plan, Readers, SUMS_FILE, Secrets, files, papers,
};
use crate::error::{Exit, chain};
use crate::wire::time::rfc3339;
use actors::clock::Clock;
use actors::entropy::Entropy;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The authority's certificate and its key, beside the bundles.
const AUTHORITY: [&str; 2] = ["ca.pem", "ca.key"];

pub(super) fn cluster(ctx: &mut Context<'_>, verb: Cluster) -> Result<Exit, CliError> {
    match verb {
        Cluster::Init(asked) => init(ctx, &asked),
        Cluster::Join(asked) => join::join(ctx, &asked),
        Cluster::RotateKey => super::wait(super::auth::rotate_key(ctx)),
    }
}

fn init(ctx: &mut Context<'_>, asked: &ClusterInit) -> Result<Exit, CliError> {
    let plan = plan(asked)?;
    let out = &asked.out;
    let taken = out.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    if taken {
        let message = format!(
            "{} is not empty, and what is in it may be in use: give another folder with --out",
            out.display()
        );
        return Err(CliError::Store { exit: Exit::Conflict, message });
    }
    let secrets = draw(&Entropy::System);
    let papers = papers(&plan, year()).map_err(|error| CliError::Usage(chain(&error)))?;
    private::folder(out)?;
    let [certificate, key] = AUTHORITY.map(|name| out.join(name));
    write(&certificate, &papers.authority.certificate, Readers::All)?;
    write(&key, &papers.authority.key, Readers::Owner)?;
    let mut machines = Vec::new();
    for (machine, own) in plan.machines().zip(&papers.machines) {
        let files = files(&plan, &machine, &secrets, (&papers.authority.certificate, own));
        bundle(&out.join(&machine.name), &machine, &files)?;
        machines.push(machine);
    }
    told(ctx, out, &machines)
}

fn plan(asked: &ClusterInit) -> Result<Plan, CliError> {
    let usage = |error: String| CliError::Usage(error);
    let hosts: Vec<Host> = asked
        .servers
        .split(',')
        .map(|text| text.trim().parse())
        .collect::<Result<_, _>>()
        .map_err(|error: crate::bundle::NotAHost| usage(format!("--servers: {error}")))?;
    let count = hosts.len();
    let hosts: [Host; MACHINES] = hosts.try_into().map_err(|_| {
        usage(format!(
            "--servers names {count} machines: give {MACHINES} with commas between them, for the journal is kept three times"
        ))
    })?;
    let [first, second, third] = &hosts;
    if first == second || second == third || first == third {
        return Err(usage(
            "--servers names a machine twice: three copies on one are one".to_owned(),
        ));
    }
    let namespace = asked.namespace.parse();
    let namespace = namespace.map_err(|error| usage(format!("--namespace: {error}")))?;
    let prefix = asked.prefix.parse();
    let prefix = prefix.map_err(|error| usage(format!("--prefix: {error}")))?;
    Ok(Plan { namespace, hosts, prefix })
}

/// They begin with a letter: a NATS server reads a value as if it stood in its file, where `1e5` is a number.
fn draw(entropy: &Entropy) -> Secrets {
    let password = || format!("n{:032x}{:016x}", entropy.draw(), entropy.draw() >> 64);
    let mut cluster_key = [0; 32];
    let (low, high) = cluster_key.split_at_mut(16);
    low.copy_from_slice(&entropy.draw().to_le_bytes());
    high.copy_from_slice(&entropy.draw().to_le_bytes());
    Secrets {
        node: password(),
        reader: password(),
        system: password(),
        admin: password(),
        cluster_key,
    }
}

/// The current one, by this machine's clock.
fn year() -> i32 {
    let now = rfc3339(Clock::System.now());
    now.split('-').next().and_then(|year| year.parse().ok()).unwrap_or(2026)
}

/// Writes one machine's folder; last of all what says that it is whole.
fn bundle(folder: &Path, machine: &Machine, files: &[File]) -> Result<(), CliError> {
    private::folder(folder)?;
    let mut sums = String::new();
    let about = File { path: MACHINE_FILE, text: machine.text(), readers: Readers::All };
    for file in files.iter().chain([&about]) {
        let path = folder.join(file.path);
        if let Some(above) = path.parent() {
            private::folder(above)?;
        }
        write(&path, &file.text, file.readers)?;
        // Writing to a string does not fail.
        let _written = writeln!(sums, "{}  {}", sum(&file.text), file.path);
    }
    write(&folder.join(SUMS_FILE), &sums, Readers::All)
}

/// As `sha256sum` says it.
fn sum(text: &str) -> String {
    let sum: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    sum.iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _written = write!(hex, "{byte:02x}");
        hex
    })
}

/// Writes a file that only its owner may read, and lets others read it where they may.
fn write(path: &Path, text: &str, readers: Readers) -> Result<(), CliError> {
    private::write(path, text)?;
    match readers {
        Readers::Owner => Ok(()),
        Readers::All => open_up(path, 0o644),
    }
}

fn open_up(path: &Path, mode: u32) -> Result<(), CliError> {
    let opened = std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
    opened.map_err(|source| failed("can not set the mode of", path, source))
}

fn failed(what: &'static str, path: &Path, source: io::Error) -> CliError {
    CliError::File { what, path: path.to_owned(), source }
}

fn told(ctx: &mut Context<'_>, out: &Path, machines: &[Machine]) -> Result<Exit, CliError> {
    let folder = |machine: &Machine| out.join(&machine.name).display().to_string();
    if ctx.output() != Output::Table {
        let rows = machines.iter().map(|machine| {
            json!({"name": machine.name, "host": machine.host, "bundle": folder(machine)})
        });
        let rows: Vec<_> = rows.collect();
        ctx.object(&json!({"folder": out, "authority_key": out.join("ca.key"), "machines": rows}))?;
        return Ok(Exit::Ok);
    }
    writeln!(
        ctx.out,
        "wrote a bundle for each of three machines; what is secret in them is in files of mode 0600:"
    )?;
    for machine in machines {
        writeln!(ctx.out, "  {}  {}  {}", machine.name, machine.host, folder(machine))?;
    }
    writeln!(ctx.out, "\nnext, for each of them, as root on its machine:")?;
    for machine in machines {
        writeln!(ctx.out, "  scp -rp {} {}:", folder(machine), machine.host)?;
        writeln!(ctx.out, "  piton cluster join --from {}", machine.name)?;
    }
    writeln!(
        ctx.out,
        "\nthen remove the copies. Keep {} away from all three: who has it can become a part of the cluster.\nThe certificates are good for ten years.",
        out.join("ca.key").display()
    )?;
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_long_differ_and_begin_with_a_letter() {
        let Secrets { node, reader, system, admin, cluster_key } = draw(&Entropy::seeded(1));
        let all = [node, reader, system, admin];
        for (nth, one) in all.iter().enumerate() {
            assert!(one.len() == 49 && one.starts_with('n'), "{one}");
            assert!(all.iter().skip(nth + 1).all(|other| other != one));
        }
        assert_ne!(cluster_key, [0; 32]);
        assert!((2026..2200).contains(&year()));
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sum("abc"), known);
    }
}
