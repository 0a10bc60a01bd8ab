//! `init`: a config from the source's catalog and the connector's config.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use source_postgres::{Catalog, Draft, Drafted, Modes, PostgresSettings, Selection};

use crate::{cli::InitArgs, config::read_connector};

/// Has the source's URL where --source is not given.
const URL: &str = "DATABASE_URL";

pub(crate) async fn init(args: InitArgs) -> Result<ExitCode> {
    let drafted = draft(&args).await?;
    match &args.output {
        Some(path) => write_new(path, &drafted.text)?,
        None => io::stdout().write_all(drafted.text.as_bytes())?,
    }
    for (table, refusals) in &drafted.refused {
        tracing::warn!("table {table} cannot be replicated: {}", refusals.join("; "));
    }
    for column in &drafted.unread {
        tracing::warn!("column {column} would halt its table; the config says what to do");
    }
    Ok(if drafted.tables > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn draft(args: &InitArgs) -> Result<Drafted> {
    let url = args.source.clone().or_else(|| std::env::var(URL).ok());
    let url = url.with_context(|| format!("no source: set the environment variable {URL}, or give --source"))?;
    let settings: PostgresSettings = url.parse()?;
    let modes = match &args.connector {
        Some(path) => read_connector(path).map_err(anyhow::Error::msg)?,
        None => Modes::default(),
    };
    let prefix = args.topic_prefix.as_ref().or(modes.topic_prefix.as_ref());
    let prefix =
        prefix.context("the topics' prefix is not known: give --connector with topic.prefix, or --topic-prefix")?;
    let selection = Selection::new(&modes, &args.table)?;

    let mut client = source_postgres::connect(&settings).await?;
    let catalog = Catalog::read(&mut client, &settings, &selection).await?;
    if catalog.tables.is_empty() {
        bail!("no table of database `{}` is taken by --table and the connector's lists", settings.database());
    }
    let draft = Draft {
        database: settings.database(),
        topic_prefix: prefix,
        location: &args.location,
        bootstrap_servers: &args.bootstrap_servers,
    };
    Ok(draft.write(&catalog, &modes))
}

/// Writes a file that is not there yet: a config may have been edited since.
fn write_new(path: &Path, text: &str) -> Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = file.with_context(|| format!("cannot write {}, which init never overwrites", path.display()))?;
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use source_postgres::table::{BaseType, Column, ReplicaIdentity, Table, TypeKind};

    use super::*;
    use crate::config::Config;

    fn column(name: &str, base: &str) -> Column {
        let schema = if base == "vector" { "public" } else { "pg_catalog" }.to_owned();
        Column {
            name: name.to_owned(),
            type_text: base.to_owned(),
            base: BaseType { schema, name: base.to_owned(), kind: TypeKind::Base },
            array: None,
            modifier: None,
            not_null: false,
            has_default: true,
            generated: false,
            toastable: base == "text",
            by_bytes: false,
            comment: Some("a\ncomment".to_owned()),
        }
    }

    fn table(name: &str, columns: Vec<Column>) -> Table {
        Table {
            schema: "public".to_owned(),
            name: name.to_owned(),
            primary_key: columns.iter().take(1).map(|column| column.name.clone()).collect(),
            columns,
            replica_identity: ReplicaIdentity::Default,
            unique: Vec::new(),
            partitioned: false,
            comment: Some("a \"table\"".to_owned()),
        }
    }

    #[test]
    fn what_is_drafted_is_a_good_config() {
        let names = ["Id", "is_deleted", "a.b", "say \"hi\"", "select", "größe", "x = [1] # no", "line\nfeed"];
        let types = ["int8", "bool", "numeric", "interval", "text", "time", "vector", "box"];
        let columns: Vec<Column> = names.iter().zip(types).map(|(name, base)| column(name, base)).collect();
        let mut keyless = table("Key less", columns.clone());
        keyless.primary_key.clear();
        let tables = vec![table("Order \"Lines\"", columns), keyless];
        let draft =
            Draft { database: "shop", topic_prefix: "shop", location: "lake", bootstrap_servers: "localhost:9092" };
        let connector = r#"{"unavailable.value.placeholder": "hex:00ff", "time.precision.mode": "nanoseconds"}"#;
        let modes = Modes::from_connector(connector).unwrap();
        let drafted = draft.write(&Catalog { tables, unmatched: vec!["a\nb".to_owned()] }, &modes);

        let config = Config::parse(&drafted.text).unwrap_or_else(|problems| panic!("{problems}\n{}", drafted.text));
        assert_eq!((config.tables.len(), drafted.tables, drafted.refused.len()), (1, 1, 1));
        let schema = &config.tables[0].schema;
        let found: Vec<&str> = schema.columns().iter().map(|column| column.name.as_str()).collect();
        assert_eq!(found, names[..6]);
        assert_eq!(schema.key_names().collect::<Vec<_>>(), ["Id"]);
        assert_eq!(schema.meta().is_deleted, "_is_deleted");
        assert_eq!(*schema.placeholder(), "hex:00ff".parse().unwrap());
        assert_eq!(config.tables[0].topic, "shop.public.Order__Lines_");
        let layout = &config.tables[0].layout;
        assert_eq!(layout.comment.as_deref(), Some("a \"table\""));
        assert_eq!(layout.column_comments.get("a.b").map(String::as_str), Some("a\ncomment"));
    }

    #[test]
    fn a_file_that_is_there_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("highwater.toml");
        write_new(&path, "first").unwrap();
        assert!(write_new(&path, "second").unwrap_err().to_string().contains("never overwrites"));
        assert_eq!(std::fs::read_to_string(path).unwrap(), "first");
    }
}
