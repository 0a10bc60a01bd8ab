//! Tables by hand, and what becomes of them.

mod compared;
mod document;
mod drafts;
mod keys;
mod mapping;

use crate::{
    Modes,
    table::{BaseType, Column, ReplicaIdentity, Table, TypeKind, UniqueIndex},
};

/// A column of a type as SQL writes it: built in, or by the kinds that `types.sql` of the captures defines.
fn column(name: &str, sql: &str) -> Column {
    let (element, array) = match sql.strip_suffix("[]") {
        Some(element) => (element, Some(1)),
        None => (sql, None),
    };
    let (element, domain) = match element.strip_prefix("domain over ") {
        Some(base) => (base, true),
        None => (element, false),
    };
    let (words, arguments) = match element.split_once('(') {
        Some((before, rest)) => {
            let (inside, after) = rest.split_once(')').unwrap();
            (format!("{before}{after}"), inside.split(',').map(|n| n.trim().parse().unwrap()).collect())
        }
        None => (element.to_owned(), Vec::<i32>::new()),
    };
    let name_of_type = match words.as_str() {
        "smallint" => "int2",
        "integer" | "serial" => "int4",
        "bigint" => "int8",
        "real" => "float4",
        "double precision" => "float8",
        "boolean" => "bool",
        "\"char\"" => "char",
        "char" => "bpchar",
        "bit varying" => "varbit",
        "time with time zone" => "timetz",
        "timestamp with time zone" => "timestamptz",
        other => other,
    };
    let modifier = match (name_of_type, arguments.as_slice()) {
        ("numeric", [precision, scale]) => Some(((precision << 16) | (scale & 0x7FF)) + 4),
        ("varchar" | "bpchar", [length]) => Some(length + 4),
        (_, [argument]) => Some(*argument),
        _ => None,
    };
    let kind = match name_of_type {
        "enum" => TypeKind::Enum,
        "composite" => TypeKind::Composite,
        _ if domain && array.is_some() => TypeKind::Domain,
        _ => TypeKind::Base,
    };
    let is_built_in = !matches!(name_of_type, "enum" | "composite" | "citext" | "hstore" | "ltree" | "vector" | "cube");
    Column {
        name: name.to_owned(),
        type_text: sql.to_owned(),
        base: BaseType {
            schema: if is_built_in { "pg_catalog" } else { "public" }.to_owned(),
            name: name_of_type.to_owned(),
            kind,
        },
        array,
        modifier,
        not_null: false,
        has_default: false,
        generated: false,
        toastable: array.is_some()
            || matches!(name_of_type, "text" | "varchar" | "jsonb" | "bytea" | "numeric" | "bit"),
        by_bytes: false,
        comment: None,
    }
}

/// `public.t`, whose key is its first column.
fn table(columns: &[(&str, &str)]) -> Table {
    Table {
        schema: "public".to_owned(),
        name: "t".to_owned(),
        columns: columns.iter().map(|(name, sql)| column(name, sql)).collect(),
        primary_key: vec![columns[0].0.to_owned()],
        replica_identity: ReplicaIdentity::Default,
        unique: Vec::new(),
        partitioned: false,
        comment: None,
    }
}

fn index(name: &str, columns: &[&str]) -> UniqueIndex {
    UniqueIndex { name: name.to_owned(), columns: columns.iter().map(|&c| c.to_owned()).collect(), partial: false }
}

fn modes(json: &str) -> Modes {
    Modes::from_connector(json).unwrap()
}
