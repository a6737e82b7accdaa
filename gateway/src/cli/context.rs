//! What every verb can reach: where to print, what was typed, what the process was told, and the node.

use super::arguments::{Global, Output};
use super::client::Client;
use super::failure::CliError;
use super::print;
use super::progress::Watched;
use crate::config::{self, Environment, Flags, Known, Loaded, Sources};
use providers::registry::{self, Provider};
use serde_json::Value;
use std::io::{self, Write};
use std::path::Path;

/// What every verb can reach.
pub struct Context<'a> {
    /// For data, and nothing else.
    pub out: &'a mut dyn Write,
    /// For remarks, progress and errors.
    pub err: &'a mut dyn Write,
    /// Whether a person reads the data.
    pub out_is_terminal: bool,
    /// Whether a person reads the remarks.
    pub err_is_terminal: bool,
    /// What was typed with every verb.
    pub global: Global,
    /// What the process was told.
    pub environment: Environment,
}

impl Context<'_> {
    /// The configuration in force, without a verb's own flags.
    pub(super) fn load(&mut self) -> Result<Loaded, CliError> {
        let flags = self.flags();
        self.load_with(&flags)
    }

    /// The flags that go with every verb.
    pub(super) fn flags(&self) -> Flags {
        let flags = Flags::reading(self.global.config.clone());
        match &self.global.data_dir {
            Some(folder) => flags.with("data_dir", "--data-dir", folder.display().to_string()),
            None => flags,
        }
    }

    /// The configuration in force. What is doubtful in it is said.
    pub(super) fn load_with(&mut self, flags: &Flags) -> Result<Loaded, CliError> {
        let known: Vec<Known<'_>> = registry::providers().map(known).collect();
        let here = Path::new(".");
        let sources = Sources { flags, environment: &self.environment, known: &known, here };
        let loaded = config::load(&sources)?;
        for warning in &loaded.warnings {
            self.remark(warning)?;
        }
        Ok(loaded)
    }

    /// The node, as a client of it.
    pub(super) fn client(&mut self) -> Result<Client, CliError> {
        let loaded = self.load()?;
        self.client_of(&loaded)
    }

    /// The same, of a configuration that was read before.
    pub(super) fn client_of(&self, loaded: &Loaded) -> Result<Client, CliError> {
        Client::find(self.global.url.as_deref(), &self.environment, &loaded.config.data_dir)
    }

    /// Says something that is no data; nothing when quiet.
    pub(super) fn remark(&mut self, text: &str) -> io::Result<()> {
        if self.global.quiet { Ok(()) } else { writeln!(self.err, "{text}") }
    }

    /// Asks for a line, where a person can see it.
    pub(super) fn prompt(&mut self, text: &str) -> io::Result<()> {
        if self.err_is_terminal && !self.global.quiet {
            write!(self.err, "{text}")?;
            self.err.flush()?;
        }
        Ok(())
    }

    /// Prints one object.
    pub(super) fn object(&mut self, value: &Value) -> io::Result<()> {
        let output = self.output();
        print::object(self.out, output, value)
    }

    /// How answers are printed.
    pub(super) fn output(&self) -> Output {
        self.global.output()
    }

    /// Whether anybody watches progress.
    pub(super) fn watched(&self) -> Watched {
        if self.err_is_terminal && !self.global.quiet { Watched::Yes } else { Watched::No }
    }
}

fn known(one: &'static Provider) -> Known<'static> {
    let regions: &[&str] = if one.is_regional() { &registry::REGION_ENV } else { &[] };
    Known { id: one.id, aliases: one.aliases, keys: one.key_env, regions }
}
