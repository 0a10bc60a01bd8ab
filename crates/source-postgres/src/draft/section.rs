//! One table's section.

use std::collections::BTreeSet;

use change::MetaColumns;
use toml::{Table as Toml, Value};

use crate::{ColumnPlan, Modes, Sent, TablePlan};

/// The width of a comment that takes several lines.
const WIDTH: usize = 120;

/// A table's name in the config, its topic, and its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) topic: String,
    pub(super) location: String,
}

/// What the tables so far have taken.
#[derive(Debug, Default)]
pub(super) struct Places {
    names: BTreeSet<String>,
    topics: BTreeSet<String>,
    locations: BTreeSet<String>,
}

impl Places {
    pub(super) fn take(&mut self, place: Place) {
        self.names.insert(place.name);
        self.topics.insert(place.topic);
        self.locations.insert(place.location);
    }

    /// Why a config cannot have the table at this place.
    pub(super) fn refusal(&self, place: &Place, plan: &TablePlan) -> Option<String> {
        if self.topics.contains(&place.topic) {
            let topic = &place.topic;
            return Some(format!("the connector writes another table into its topic {topic} too; rename one of them"));
        }
        if self.names.contains(&place.name) || self.locations.contains(&place.location) {
            return Some("another table has its name or location here; choose one".to_owned());
        }
        let can_be = is_written(&place.name) && plan.key.iter().all(|name| is_written(name));
        (!can_be).then(|| "a name has ${, which a config takes for a reference; rename it".to_owned())
    }
}

/// The section, in comments where the table cannot be replicated.
pub(super) fn write(plan: &TablePlan, place: &Place, modes: &Modes) -> String {
    let mut remarks: Vec<String> = plan.comment.iter().filter(|comment| !is_written(comment)).cloned().collect();
    remarks.extend(plan.refusals.iter().map(|refusal| format!("Cannot be replicated: {refusal}.")));
    remarks.extend(plan.warnings.iter().map(|warning| format!("{}.", begin(warning))));
    let remarks: String = remarks.iter().map(|remark| comment(remark)).collect();
    let body = body(plan, place, modes);
    let body = if plan.can_be_replicated() { body } else { commented(&body) };
    format!("\n{remarks}{body}")
}

fn body(plan: &TablePlan, place: &Place, modes: &Modes) -> String {
    let key: Vec<Value> = plan.key.iter().map(|name| Value::String(name.clone())).collect();
    let mut body = "[[table]]\n".to_owned();
    body += &entry("name", place.name.as_str());
    body += &entry("topic", place.topic.as_str());
    // a topic's last two parts are taken for the table
    if plan.table.contains('.') || !place.topic.ends_with(&format!(".{}.{}", plan.schema, plan.table)) {
        body += &entry("source", format!("{}.{}", plan.schema, plan.table));
    }
    body += &entry("location", place.location.as_str());
    body += &entry("key", key);
    if let Some(comment) = plan.comment.as_deref().filter(|comment| is_written(comment)) {
        body += &entry("comment", comment);
    }
    if let Some(placeholder) = &modes.placeholder {
        body += &entry("unavailable_value_placeholder", placeholder.as_str());
    }
    body += "\n[table.columns]\n";
    for column in &plan.columns {
        body += &line(column);
    }
    body + &meta(&plan.meta)
}

/// A column's line, with what is to be said about it.
fn line(column: &ColumnPlan) -> String {
    let (kept, above) = match column.comment.as_deref() {
        Some(text) if matches!(column.sent, Sent::As(_)) && is_written(text) => (Some(text), String::new()),
        text => (None, text.map(comment).unwrap_or_default()),
    };
    let line = match &column.sent {
        Sent::As(declaration) => {
            let entry = declared(&column.name, declaration, kept);
            if column.notes.is_empty() {
                entry
            } else {
                format!("{} # {}\n", entry.trim_end(), one_line(&column.notes.join("; ")))
            }
        }
        Sent::LeftOut(reason) => comment(&format!("`{}` is left out: {reason}", column.name)),
        Sent::Unread(reason) => comment(&format!("`{}` halts the table: {reason}", column.name)),
    };
    above + &line
}

/// A column's declaration, with the comment that the table is to have of it.
fn declared(name: &str, declaration: &str, comment: Option<&str>) -> String {
    let Some(comment) = comment else { return entry(name, declaration) };
    let (declaration, comment) = (Value::from(declaration), Value::from(comment));
    let place = entry(name, true);
    place.replacen(" = true\n", &format!(" = {{ type = {declaration}, comment = {comment} }}\n"), 1)
}

/// Whether a config can hold this text: `${` would be taken for a reference.
fn is_written(text: &str) -> bool {
    !text.contains("${")
}

/// The names of Highwater's own columns, where they are not the default.
fn meta(meta: &MetaColumns) -> String {
    let default = MetaColumns::default();
    if *meta == default {
        return String::new();
    }
    let names = [
        ("source_lsn", &meta.source_lsn, &default.source_lsn),
        ("source_anchor", &meta.source_anchor, &default.source_anchor),
        ("is_deleted", &meta.is_deleted, &default.is_deleted),
    ];
    let changed = names.into_iter().filter(|(_, name, default)| name != default);
    let entries: String = changed.map(|(of, name, _)| entry(of, name.as_str())).collect();
    format!("\n[table.meta_columns]\n{entries}")
}

/// `key = value`, both quoted as TOML wants them, and a line feed.
pub(super) fn entry(key: &str, value: impl Into<Value>) -> String {
    Toml::from_iter([(key.to_owned(), value.into())]).to_string()
}

/// Lines of a comment.
pub(super) fn comment(text: &str) -> String {
    let mut lines = vec![String::from("#")];
    for word in one_line(text).split_whitespace() {
        let last = lines.len() - 1;
        if lines[last].len() > 1 && lines[last].chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(String::from("#"));
        }
        let last = lines.len() - 1;
        lines[last].push(' ');
        lines[last].push_str(word);
    }
    lines.join("\n") + "\n"
}

/// A comment ends with its line, and TOML allows no control characters in it.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn commented(text: &str) -> String {
    text.lines().map(|line| format!("# {line}").trim_end().to_owned() + "\n").collect()
}

/// With a capital letter, where it begins with one that is none.
fn begin(sentence: &str) -> String {
    let mut chars = sentence.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + chars.as_str())
}
