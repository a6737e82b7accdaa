//! How answers look: a table for people, JSON for programs. Data goes to standard output and nothing else does.
//!
//! Text from outside is escaped in a table: an answer of a model must not move the cursor or rename the window.

use super::arguments::Output;
use serde_json::Value;
use std::io::{self, Write};

/// Characters of the widest cell of a table (80): a longer one is cut and marked, JSON has it whole.
const CELL_CHARS_MAX: usize = 80;

/// One column of a table: its title, and what of a row stands in it.
pub(crate) type Column = (&'static str, fn(&Value) -> String);

/// Prints a list whose rows stand in `data`, or are the answer itself.
pub(crate) fn list(
    out: &mut dyn Write,
    output: Output,
    answer: &Value,
    columns: &[Column],
) -> io::Result<()> {
    let rows = rows(answer);
    match output {
        Output::Json => json(out, answer),
        Output::Jsonl => rows.iter().try_for_each(|row| line(out, row)),
        Output::Table => {
            let cells = |row: &Value| columns.iter().map(|(_, cell)| cut(&cell(row))).collect();
            let body: Vec<Vec<String>> = rows.iter().map(cells).collect();
            let titles = columns.iter().map(|(title, _)| (*title).to_owned()).collect();
            table(out, titles, &body)
        }
    }
}

/// Prints one object: as a table, a line for each of its fields.
pub(crate) fn object(out: &mut dyn Write, output: Output, answer: &Value) -> io::Result<()> {
    match output {
        Output::Json => json(out, answer),
        Output::Jsonl => line(out, answer),
        Output::Table => {
            let fields = fields(answer, "");
            let width = fields.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
            fields
                .iter()
                .try_for_each(|(name, value)| writeln!(out, "{name:width$}  {}", escape(value)))
        }
    }
}

fn json(out: &mut dyn Write, value: &Value) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

/// One JSON document on one line.
pub(crate) fn line(out: &mut dyn Write, value: &Value) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)
}

/// The rows of an answer.
pub(crate) fn rows(answer: &Value) -> &[Value] {
    answer.get("data").or(Some(answer)).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A field of an object by its dotted path, as text; empty when it is absent or null.
pub(crate) fn field(value: &Value, path: &str) -> String {
    let found = path.split('.').try_fold(value, |value, name| value.get(name));
    found.map_or_else(String::new, scalar)
}

fn scalar(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// The fields of an object and of those in it, by dotted name, without those that are absent.
fn fields(value: &Value, above: &str) -> Vec<(String, String)> {
    let Value::Object(map) = value else { return vec![(above.to_owned(), scalar(value))] };
    let mut found = Vec::new();
    for (name, value) in map.iter().filter(|(_, value)| !value.is_null()) {
        let name = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        found.extend(fields(value, &name));
    }
    found
}

/// Prints columns, each as wide as its widest cell.
pub(crate) fn table(
    out: &mut dyn Write,
    titles: Vec<String>,
    body: &[Vec<String>],
) -> io::Result<()> {
    let mut widths: Vec<usize> = titles.iter().map(|title| title.chars().count()).collect();
    for row in body {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in std::iter::once(&titles).chain(body) {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        writeln!(out, "{}", padded.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// Text for a cell: escaped, and no longer than a line bears.
pub(crate) fn cut(text: &str) -> String {
    let escaped = escape(text);
    if escaped.chars().count() <= CELL_CHARS_MAX {
        return escaped;
    }
    escaped.chars().take(CELL_CHARS_MAX - 1).chain(['…']).collect()
}

/// Text that moves nothing on a terminal: control characters are shown and not obeyed.
pub(crate) fn escape(text: &str) -> String {
    text.chars().flat_map(|c| shown(c, Breaks::Shown)).collect()
}

/// The same for running text, whose line breaks and tabs stay.
pub(crate) fn escape_text(text: &str) -> String {
    text.chars().flat_map(|c| shown(c, Breaks::Kept)).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Breaks {
    Kept,
    Shown,
}

fn shown(c: char, breaks: Breaks) -> Vec<char> {
    match c {
        '\n' | '\t' if breaks == Breaks::Kept => vec![c],
        // Bidirectional controls can make a line read as another one.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => c.escape_unicode().collect(),
        c if c.is_control() => c.escape_default().collect(),
        c => vec![c],
    }
}

/// A time in seconds since 1970 as `2026-11-30 19:08:37`, in UTC; any other text as it is.
pub(crate) fn time(text: &str) -> String {
    let Ok(seconds) = text.parse::<u32>() else { return text.to_owned() };
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        rest / 3_600,
        rest / 60 % 60,
        rest % 60
    )
}

/// The Gregorian date of a day since 1970, by the 400-year cycle counted from 1 March.
fn date(days: u32) -> (u32, u32, u32) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u32::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const COLUMNS: [Column; 2] =
        [("ID", |row| field(row, "id")), ("COST", |row| field(row, "usage.cost_usd"))];

    fn printed(output: Output, answer: &Value) -> String {
        let mut out = Vec::new();
        list(&mut out, output, answer, &COLUMNS).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_list_is_a_table_a_document_or_a_line_for_each_row() {
        let answer = json!({"data": [{"id": "run_1", "usage": {"cost_usd": "0.5"}}, {"id": "r2", "usage": null}], "next": null});
        assert_eq!(printed(Output::Table, &answer), "ID     COST\nrun_1  0.5\nr2\n");
        let lines =
            "{\"id\":\"run_1\",\"usage\":{\"cost_usd\":\"0.5\"}}\n{\"id\":\"r2\",\"usage\":null}\n";
        assert_eq!(printed(Output::Jsonl, &answer), lines);
        assert_eq!(serde_json::from_str::<Value>(&printed(Output::Json, &answer)).unwrap(), answer);
        assert_eq!(printed(Output::Table, &json!({"data": []})), "ID  COST\n");
    }

    #[test]
    fn an_object_is_a_line_for_each_field_and_what_is_absent_is_left_out() {
        let mut out = Vec::new();
        let answer = json!({"id": "run_1", "reason": null, "usage": {"tokens": 5}});
        object(&mut out, Output::Table, &answer).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "id            run_1\nusage.tokens  5\n");
    }

    #[test]
    fn text_from_outside_moves_nothing() {
        assert_eq!(escape("a\u{1b}[2Jb\nc\u{202e}"), "a\\u{1b}[2Jb\\nc\\u{202e}");
        assert_eq!(escape_text("a\n\tb\u{7}\r"), "a\n\tb\\u{7}\\r");
        assert_eq!(escape("grüße ✓"), "grüße ✓");
        let long = cut(&"x".repeat(200));
        assert_eq!((long.chars().count(), long.chars().last()), (CELL_CHARS_MAX, Some('…')));
    }

    #[test]
    fn a_time_is_a_date_in_utc() {
        assert_eq!(time("0"), "1970-01-01 00:00:00");
        assert_eq!(time("951782400"), "2000-02-29 00:00:00");
        assert_eq!(time("1796065717"), "2026-11-30 19:08:37");
        assert_eq!(time("2026-11-30T19:08:37Z"), "2026-11-30T19:08:37Z");
    }
}
