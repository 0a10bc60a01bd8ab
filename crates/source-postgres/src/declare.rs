//! From a column's type to its declaration, under the connector's modes: docs/types.md, "Every type in every mode", as
//! code.

mod number;
mod scalar;

use change::Column as Declared;

use crate::{
    Modes,
    table::{BaseType, Column, Table, TypeKind},
};

/// What becomes of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnPlan {
    /// Its name.
    pub name: String,
    /// Whether the connector sends it, and how.
    pub sent: Sent,
    /// What the connector's modes lose of it, and other remarks, a sentence each.
    pub notes: Vec<String>,
    /// Its `COMMENT`.
    pub comment: Option<String>,
}

/// How the connector sends a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// As values of this declaration, `TYPE` or `TYPE@FORM`.
    As(String),
    /// Not at all, for this reason. The replica does not have it.
    LeftOut(String),
    /// In a way that no declaration is known to read, for this reason. A record with it halts its table.
    Unread(String),
}

impl ColumnPlan {
    /// The column as it is declared, where it is.
    #[must_use]
    pub fn declared(&self) -> Option<Declared> {
        match &self.sent {
            // the tests declare every one that can come about
            Sent::As(declaration) => Declared::declared(&self.name, declaration).ok(),
            Sent::LeftOut(_) | Sent::Unread(_) => None,
        }
    }
}

/// The plan of each column of a table, in order.
#[must_use]
pub fn columns(table: &Table, modes: &Modes) -> Vec<ColumnPlan> {
    table.columns.iter().map(|column| plan(&format!("{}.{}", table.schema, table.name), column, modes)).collect()
}

fn plan(table: &str, column: &Column, modes: &Modes) -> ColumnPlan {
    let (sent, notes) = sent(table, column, modes);
    ColumnPlan { name: column.name.clone(), sent, notes, comment: column.comment.clone() }
}

fn sent(table: &str, column: &Column, modes: &Modes) -> (Sent, Vec<String>) {
    if !modes.columns.takes(&format!("{table}.{}", column.name)) {
        return (Sent::LeftOut("by the connector's column lists".to_owned()), Vec::new());
    }
    if column.generated {
        let reason =
            "it is generated, so that a snapshot carries it and a change does not; name it in column.exclude.list";
        return (Sent::Unread(reason.to_owned()), Vec::new());
    }
    let form = match column.array {
        Some(_) => element(&column.base, column.modifier, modes),
        None => scalar::form(&column.base, column.modifier, modes),
    };
    let in_array =
        |data_type: &str| if column.array.is_some() { format!("array<{data_type}>") } else { data_type.to_owned() };
    let type_text = &column.type_text;
    let mut notes = Vec::new();
    let sent = match form {
        Form::As { data_type, wire, note } => {
            notes.extend(note);
            Sent::As(in_array(&data_type) + wire)
        }
        Form::Unknown if modes.unknown_datatypes => {
            notes.push(format!("the bytes of its text: the connector does not know {type_text}"));
            Sent::As(in_array("binary") + scalar::bytes(modes))
        }
        Form::Unknown => Sent::LeftOut(format!(
            "the connector does not know {type_text}; include.unknown.datatypes=true sends the bytes of its text"
        )),
        Form::Never => Sent::LeftOut(format!("the connector does not send {type_text}")),
        Form::Unproven => Sent::Unread(format!(
            "how the connector writes {type_text} is not known here; name it in column.exclude.list, or declare it \
             yourself"
        )),
        Form::Misread => Sent::Unread(format!(
            "the connector misreads the negative scale of {type_text}; name it in column.exclude.list, or change its \
             type"
        )),
    };
    if column.array.is_some_and(|dimensions| dimensions > 1) {
        notes.push("a second dimension arrives as nulls".to_owned());
    }
    (sent, notes)
}

/// What the connector makes of a type.
enum Form {
    /// Values of this type, in this form (with its @, where it needs one).
    As { data_type: String, wire: &'static str, note: Option<String> },
    /// It does not know the type: `include.unknown.datatypes` decides.
    Unknown,
    /// It knows the type and sends nothing.
    Never,
    /// It sends something that has not been seen.
    Unproven,
    /// It sends another number.
    Misread,
}

impl Form {
    fn plain(data_type: &str) -> Self {
        Self::wired(data_type, "")
    }

    fn wired(data_type: &str, wire: &'static str) -> Self {
        Self::As { data_type: data_type.to_owned(), wire, note: None }
    }

    fn noting(self, remark: &str) -> Self {
        match self {
            Self::As { data_type, wire, .. } => Self::As { data_type, wire, note: Some(remark.to_owned()) },
            other => other,
        }
    }
}

/// What becomes of an array's elements.
fn element(base: &BaseType, modifier: Option<i32>, modes: &Modes) -> Form {
    let is_built_in = base.schema == "pg_catalog";
    match (base.kind, base.name.as_str()) {
        (TypeKind::Enum, _) => Form::plain("string"),
        // by their element's name, which is the domain's, the connector finds nothing
        (TypeKind::Domain | TypeKind::Composite, _) => Form::Unknown,
        (_, "money" | "xml" | "name" | "point" | "interval" | "varbit" | "refcursor") if is_built_in => Form::Never,
        (_, "bit" | "tsvector") if is_built_in => Form::Unproven,
        (_, "isbn") if !is_built_in => Form::Unproven,
        _ => scalar::form(base, modifier, modes),
    }
}
