//! `piton tools policy` and `configure-policy`: the bounds of mediated calls.

use crate::cli::client::Ask;
use crate::cli::context::Context;
use crate::cli::failure::CliError;
use crate::error::Exit;
use reqwest::Method;
use serde_json::Value;
use std::io::Read;
use std::path::Path;

/// Bytes of the largest policy that is read (64 KiB).
const BYTES_MAX: u64 = 64 << 10;

pub(super) async fn show(ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let policy = ctx.client()?.ask(Method::GET, Ask::at(&["v1", "tools", "policy"])).await?;
    ctx.object(&policy)?;
    Ok(Exit::Ok)
}

pub(super) async fn configure(ctx: &mut Context<'_>, file: &Path) -> Result<Exit, CliError> {
    let client = ctx.client()?;
    let mut ask = Ask::at(&["v1", "tools", "policy"]);
    ask.body = Some(read(file)?);
    let policy = client.ask(Method::PUT, ask).await?;
    ctx.object(&policy)?;
    ctx.remark("runs that are queued from now on have it; those that are queued keep theirs")?;
    Ok(Exit::Ok)
}

fn read(file: &Path) -> Result<Value, CliError> {
    let refused = |why: String| CliError::Usage(format!("{}: {why}", file.display()));
    let source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(std::fs::File::open(file).map_err(|error| refused(error.to_string()))?)
    };
    let mut text = String::new();
    let bytes = source.take(BYTES_MAX + 1).read_to_string(&mut text);
    let bytes = bytes.map_err(|error| refused(error.to_string()))?;
    if u64::try_from(bytes).unwrap_or(u64::MAX) > BYTES_MAX {
        return Err(refused(format!("it has more than {BYTES_MAX} bytes")));
    }
    serde_json::from_str(&text).map_err(|error| refused(format!("it is not JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_a_file_of_json_of_a_bounded_size() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("p.json");
        let said = |text: &str| {
            std::fs::write(&file, text).unwrap();
            read(&file).map_err(|error| error.to_string())
        };
        assert_eq!(said("{\"calls_limit\": 3}").unwrap()["calls_limit"], 3);
        assert!(said("calls_limit = 3").unwrap_err().contains("p.json: it is not JSON"));
        let long = " ".repeat(usize::try_from(BYTES_MAX).unwrap() + 1);
        assert!(said(&long).unwrap_err().contains("more than 65536 bytes"));
        std::fs::remove_file(&file).unwrap();
        assert!(read(&file).is_err());
    }
}
