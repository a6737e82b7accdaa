//! `note.append`: one line to a file outside, with the correlation id of the call, so that what really happened can be
//! counted from outside: a call that ran twice has two lines.

use crate::tool::{Call, ReplayClass, Tool, ToolError, Working};
use events::json::Json;
use events::quantity::Millis;
use serde::Deserialize;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The schema of the arguments. Notes are lines, not documents.
const PARAMETERS: &[u8] = br#"{"type":"object","properties":{"text":{"type":"string","description":"The text of the note.","minLength":1,"maxLength":8000}},"required":["text"],"additionalProperties":false}"#;
/// One line and its sync. A disk that takes longer is one that nobody knows anything of.
const TIMEOUT: Millis = Millis(5_000);
/// Notes are the owner's to read.
const MODE: u32 = 0o600;

/// The tool.
#[derive(Debug)]
pub struct Note {
    file: PathBuf,
    parameters: Json,
}

#[derive(Deserialize)]
struct Arguments {
    text: String,
}

impl Note {
    /// Notes go to this file, which is made when the first one comes; its folder must be there.
    #[must_use]
    pub fn new(file: PathBuf) -> Self {
        Self { file, parameters: Json::from_bytes(PARAMETERS) }
    }
}

impl Tool for Note {
    fn name(&self) -> &'static str {
        "note.append"
    }

    fn description(&self) -> &'static str {
        "Appends one line of text to the notes. It can not be undone."
    }

    fn parameters(&self) -> &Json {
        &self.parameters
    }

    fn class(&self) -> ReplayClass {
        ReplayClass::Effectful
    }

    fn timeout(&self) -> Millis {
        TIMEOUT
    }

    fn call(&self, call: Call) -> Working {
        let file = self.file.clone();
        Box::pin(async move {
            let arguments: Arguments = serde_json::from_slice(call.arguments.as_bytes())
                .map_err(|error| ToolError::Failed(error.to_string()))?;
            let line = line(call.correlation, &arguments.text);
            // The disk may take its time; the other tasks of this thread do not wait for it.
            let written = tokio::task::spawn_blocking(move || {
                // It may have waited for a thread.
                call.leave.ask()?;
                append(&file, &line)
            });
            let written = written.await;
            written.unwrap_or_else(|error| Err(ToolError::Unknown(error.to_string())))?;
            Ok(r#"{"status":"ok"}"#.to_owned())
        })
    }
}

/// `<32 hexadecimal digits>\t<text>\n`; line ends, tabs and backslashes of the text are escaped, so that one call is
/// one line.
fn line(correlation: u128, text: &str) -> String {
    let mut line = format!("{correlation:032x}\t");
    for c in text.chars() {
        match c {
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            '\\' => line.push_str("\\\\"),
            other => line.push(other),
        }
    }
    line.push('\n');
    line
}

/// Appends and makes it durable. Until the first byte is written nothing has happened; from then on a failure leaves
/// it open.
fn append(file: &Path, line: &str) -> Result<(), ToolError> {
    let opened = OpenOptions::new().append(true).create(true).mode(MODE).open(file);
    let mut opened = opened.map_err(|error| {
        ToolError::Failed(format!("{} can not be opened: {error}", file.display()))
    })?;
    let written = opened.write_all(line.as_bytes()).and_then(|()| opened.sync_all());
    written.map_err(|error| ToolError::Unknown(format!("{} broke off: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::{Leave, NotSent};
    use events::quantity::Instant;

    fn call(correlation: u128, text: &str) -> Call {
        let arguments = Json::from(serde_json::json!({ "text": text }).to_string());
        Call::new(correlation, arguments, Instant(0), Instant::MAX)
    }

    #[tokio::test]
    async fn each_call_is_one_line_with_its_correlation() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("notes");
        let note = Note::new(file.clone());
        for (correlation, text) in [(1, "buy rope"), (u128::MAX, "a\tb\\\r\nc"), (1, "buy rope")] {
            assert_eq!(note.call(call(correlation, text)).await, Ok(r#"{"status":"ok"}"#.into()));
        }
        let lines = std::fs::read_to_string(&file).unwrap();
        assert_eq!(
            lines.lines().collect::<Vec<_>>(),
            [
                "00000000000000000000000000000001\tbuy rope",
                "ffffffffffffffffffffffffffffffff\ta\\tb\\\\\\r\\nc",
                "00000000000000000000000000000001\tbuy rope",
            ]
        );
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(&file).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_note_that_may_not_leave_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("notes");
        let late = Call { leave: Leave::new(|| Err(NotSent::LeaseOver)), ..call(1, "x") };
        let told = Note::new(file.clone()).call(late).await;
        assert_eq!(told, Err(ToolError::NotSent(NotSent::LeaseOver)));
        assert!(!file.exists());
    }

    #[test]
    fn notes_of_many_calls_at_once_do_not_mix() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("notes");
        let text = "x".repeat(8_000);
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let (file, text) = (&file, &text);
                scope
                    .spawn(move || (0..8).for_each(|_| append(file, &line(writer, text)).unwrap()));
            }
        });
        let lines = std::fs::read_to_string(&file).unwrap();
        assert_eq!(lines.lines().count(), 32);
        assert!(lines.lines().all(|line| line.len() == 33 + 8_000 && line.ends_with('x')));
    }

    #[tokio::test]
    async fn a_file_that_can_not_be_opened_means_that_nothing_happened() {
        let folder = tempfile::tempdir().unwrap();
        let note = Note::new(folder.path().join("missing/notes"));
        let failed = note.call(call(1, "x")).await;
        assert!(
            matches!(&failed, Err(ToolError::Failed(words)) if words.contains("missing/notes")),
            "{failed:?}"
        );
    }
}
