//! `piton init`: a commented configuration to begin with, and what was found that can answer.

use super::arguments::{Init, Output};
use super::context::Context;
use super::detect;
use super::failure::CliError;
use crate::auth::private::{self, Readers};
use crate::config::FILE_NAME;
use crate::error::Exit;
use serde_json::json;
use std::path::Path;

/// The documented example; in it every key stands with its meaning.
const EXAMPLE: &str = include_str!("../../../deploy/piton.example.toml");

pub(super) async fn init(ctx: &mut Context<'_>, init: &Init) -> Result<Exit, CliError> {
    let loaded = ctx.load()?;
    let folder = &loaded.config.data_dir;
    let path = folder.join(FILE_NAME);
    private::folder(folder)?;
    if !init.force && path.exists() {
        let message =
            format!("{} exists: look at it, or write over it with --force", path.display());
        return Err(CliError::Store { exit: Exit::Conflict, message });
    }
    private::write(&path, &commented(EXAMPLE, folder))?;
    // What was written must be what the node reads.
    private::read(&path, Readers::Owner)?;
    let found = detect::found(&loaded.config).await;
    match ctx.output() {
        Output::Table => {
            writeln!(ctx.out, "wrote {}; every setting in it is commented out", path.display())?;
            for one in &found {
                writeln!(ctx.out, "found {one}")?;
            }
            if found.is_empty() {
                writeln!(
                    ctx.out,
                    "found no key and no local model: set OPENAI_API_KEY, or try piton serve --demo"
                )?;
            }
            writeln!(ctx.out, "next: piton serve")?;
        }
        Output::Json | Output::Jsonl => ctx.object(&json!({"file": path, "found": found}))?,
    }
    Ok(Exit::Ok)
}

/// The example with every setting commented out: it changes nothing until a line is uncommented.
fn commented(example: &str, folder: &Path) -> String {
    let mut text = String::new();
    for line in example.lines() {
        let stays = line.is_empty() || line.starts_with('#') || line.starts_with('[');
        if line.starts_with("data_dir") {
            // This file is found through the folder, so it can not name another one.
            text.push_str(&format!(
                "# data_dir = {:?}  # this folder; set it with --data-dir or PITON_DATA_DIR\n",
                folder.display().to_string()
            ));
        } else {
            text.push_str(if stays { "" } else { "# " });
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, Flags, Known, Origin, Sources, load};

    #[test]
    fn what_is_written_changes_nothing_and_is_valid() {
        let home = tempfile::tempdir().unwrap();
        let text = commented(EXAMPLE, home.path());
        std::fs::write(home.path().join(FILE_NAME), &text).unwrap();
        let environment = Environment::of([("HOME", home.path().display().to_string())]);
        let regions: &[&str] = &["AWS_REGION"];
        let known = ["openai", "llamacpp", "bedrock", "openai-codex"].map(|id| Known {
            id,
            aliases: &[],
            keys: &[],
            regions,
        });
        let flags =
            Flags::default().with("data_dir", "--data-dir", home.path().display().to_string());
        let loaded = load(&Sources {
            flags: &flags,
            environment: &environment,
            known: &known,
            here: Path::new("/nowhere"),
        })
        .unwrap();
        assert_eq!(loaded.file, Some(home.path().join(FILE_NAME)));
        let from_file =
            loaded.origins.values().filter(|origin| matches!(origin, Origin::File { .. }));
        assert_eq!(from_file.count(), 0);
        for key in ["# bind = ", "# max_body_bytes = ", "# api_key_env = ", "[limits]"] {
            assert!(text.contains(key), "{key}");
        }
    }
}
