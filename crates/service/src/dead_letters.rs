//! `dead-letters`: shows the records that could not be applied, and applies them after a fix.

mod replay;

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context, Result};
use pipeline::{LetterLine, Letters};

use crate::{
    cli::{DeadLettersAction, DeadLettersArgs, LettersArgs},
    config::Config,
    print,
};

pub(crate) async fn dead_letters(args: DeadLettersArgs) -> Result<ExitCode> {
    match args.action {
        None => list(&args.list, io::stdout()),
        Some(DeadLettersAction::List(args)) => list(&args, io::stdout()),
        Some(DeadLettersAction::Replay(args)) => replay::replay(&args).await,
    }
}

fn path(config: &Config) -> Result<&Path> {
    let path = config.dead_letters.as_deref().context("the config has no [dead_letters] section")?;
    Ok(Path::new(path))
}

fn list(args: &LettersArgs, out: impl Write) -> Result<ExitCode> {
    let config = Config::read(&args.config.config)?;
    let mut out = io::BufWriter::new(out);
    let names = ["table", "topic", "partition", "offset", "reason", "key", "value"];
    let mut text = print::headed(if args.show_values { &names } else { &names[..5] });
    let mut kinds = BTreeMap::<(String, String), u64>::new();
    let mut each = |letter: &LetterLine<'_>| -> Result<()> {
        if args.table.as_ref().is_some_and(|table| letter.table != *table) {
            return Ok(());
        }
        if args.json {
            let shown = if args.show_values { letter.clone() } else { without_values(letter) };
            writeln!(out, "{}", serde_json::to_string(&shown)?)?;
            return Ok(());
        }
        let mut row = vec![
            letter.table.to_string(),
            letter.topic.to_string(),
            letter.partition.to_string(),
            letter.offset.to_string(),
            letter.reason.to_string(),
        ];
        if args.show_values {
            row.push(bytes(letter.key.as_deref(), letter.key_base64.as_deref()));
            row.push(bytes(letter.value.as_deref(), letter.value_base64.as_deref()));
        }
        text.add_row(row);
        *kinds.entry((letter.table.to_string(), letter.reason.to_string())).or_default() += 1;
        Ok(())
    };
    if let Some(letters) = Letters::read(path(&config)?)? {
        letters.visit(&mut each)?;
    }
    if !args.json {
        let mut summary = print::headed(&["table", "reason", "letters"]);
        for ((table, reason), letters) in &kinds {
            summary.add_row([table, reason, &letters.to_string()]);
        }
        if !kinds.is_empty() {
            writeln!(out, "{text}\n\n{summary}\n")?;
        }
        writeln!(out, "{} dead letter(s)", kinds.values().sum::<u64>())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn without_values<'a>(letter: &LetterLine<'a>) -> LetterLine<'a> {
    LetterLine { key: None, key_base64: None, value: None, value_base64: None, ..letter.clone() }
}

fn bytes(text: Option<&str>, base64: Option<&str>) -> String {
    match (text, base64) {
        (Some(text), _) => text.to_owned(),
        (None, Some(base64)) => format!("base64:{base64}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::cli::ConfigArg;

    #[test]
    fn letters_are_listed_with_their_reasons_and_their_values_only_when_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("highwater.toml");
        let path = dir.path().join("dead.ndjson");
        let text = format!(
            "[dead_letters]\npath = \"{}\"\n[[table]]\nname = \"a\"\ntopic = \"a\"\nlocation = \"a\"\nkey = [\"id\"]\n\
             columns = {{ id = \"long\" }}\n",
            path.display()
        );
        fs::write(&config, text).unwrap();
        let said = |table: Option<&str>, json, show_values| {
            let config = ConfigArg { config: config.clone() };
            let mut out = Vec::new();
            let args = LettersArgs { config, table: table.map(str::to_owned), json, show_values };
            list(&args, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(said(None, false, false), "0 dead letter(s)\n");
        let letter = |table: &str, offset: i64, value: &str| {
            format!(
                "{{\"table\":\"{table}\",\"topic\":\"t\",\"partition\":0,\"offset\":{offset},\"reason\":\"too wide\",{value}}}\n"
            )
        };
        let letters = [
            letter("a", 1, "\"key\":\"SECRET\""),
            letter("a", 2, "\"value\":\"SECRET\""),
            letter("b", 1, "\"value_base64\":\"/w==\""),
        ];
        fs::write(&path, letters.concat()).unwrap();

        let text = said(None, false, false);
        assert!(!text.contains("SECRET") && text.ends_with("3 dead letter(s)\n"), "{text}");
        let summary = text
            .lines()
            .filter(|line| line.contains("too wide"))
            .skip(3)
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        assert_eq!(summary.collect::<Vec<_>>(), ["a too wide 2", "b too wide 1"]);
        let text = said(Some("b"), false, true);
        assert!(text.contains("base64:/w==") && text.ends_with("1 dead letter(s)\n"), "{text}");

        assert_eq!(said(None, true, true), letters.concat());
        let json = said(Some("a"), true, false);
        assert!(json.lines().count() == 2 && !json.contains("SECRET"), "{json}");
    }
}
