//! `[source]`: the connection to the source itself, beside its topics.

use std::path::Path;

use serde::Deserialize;
use source_postgres::{Modes, PostgresSettings};

/// The source's database, and how its connector writes.
#[derive(Debug, Clone)]
pub(crate) struct SourceConfig {
    pub(crate) settings: PostgresSettings,
    /// The connector's modes, where its config is given: without them the catalog does not say how values are written.
    pub(crate) modes: Option<Modes>,
    /// The primary, where the other one is a standby.
    pub(crate) primary: Option<PostgresSettings>,
    /// The connector's replication slot.
    pub(crate) slot: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourceSection {
    url: String,
    connector: Option<String>,
    primary: Option<String>,
    slot: Option<String>,
}

impl SourceSection {
    pub(super) fn check(self, problems: &mut Vec<String>) -> Option<SourceConfig> {
        let Self { url, connector, primary, slot } = self;
        let settings = url.parse().map_err(|error| format!("[source]: {error}"));
        let primary = primary.map(|url| url.parse().map_err(|error| format!("[source] primary: {error}"))).transpose();
        let modes = connector.map(|path| match read_connector(Path::new(&path)) {
            Ok(Modes { topic_prefix: None, .. }) => Err(format!("[source]: {path}: it has no topic.prefix")),
            modes => modes.map_err(|e| format!("[source]: {e}")),
        });
        match (settings, modes.transpose(), primary) {
            (Ok(settings), Ok(modes), Ok(primary)) => {
                let slot = slot.or_else(|| modes.as_ref()?.slot.clone());
                return Some(SourceConfig { settings, modes, primary, slot });
            }
            (settings, modes, primary) => {
                problems.extend(settings.err().into_iter().chain(modes.err()).chain(primary.err()));
            }
        }
        None
    }
}

/// The modes of a connector from its config, in a file as Kafka Connect takes it.
pub(crate) fn read_connector(path: &Path) -> Result<Modes, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    Modes::from_connector(&text).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn with(section: &str) -> Result<Config, String> {
        let table =
            "[[table]]\nname = \"a\"\ntopic = \"a\"\nlocation = \"a\"\nkey = [\"id\"]\ncolumns = { id = \"long\" }";
        Config::parse(&format!("{section}\n{table}")).map_err(|problems| problems.to_string())
    }

    #[test]
    fn a_source_is_a_url_that_may_stand_in_a_file_and_is_never_shown() {
        assert!(with("").unwrap().source.is_none());
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "postgres://reader:SECRET@db/shop\n").unwrap();
        let config = with(&format!("[source]\nurl = \"${{file:{}}}\"", file.path().display())).unwrap();
        assert_eq!(config.source.as_ref().unwrap().settings.database(), "shop");
        assert!(!format!("{config:?}").contains("SECRET"));
    }

    #[test]
    fn what_is_wrong_with_a_source_is_said_without_its_password() {
        for (section, problem) in [
            ("url = \"db:5432\"", "[source]: the source's URL: it does not begin with postgres://"),
            (
                "url = \"postgres://reader:SECRET@db/shop?sslmode=perhaps\"",
                "[source]: the source's URL: sslmode is one",
            ),
            ("uri = \"postgres://reader:SECRET@db/shop\"", "[source]: unknown field `uri`"),
            ("", "[source]: missing field `url`"),
            (
                "url = \"postgres://db/shop\"\nprimary = \"reader:SECRET@db\"",
                "[source] primary: the source's URL: it does not begin with postgres://",
            ),
            ("url = \"postgres://db/shop\"\nconnector = \"nowhere.json\"", "[source]: cannot read nowhere.json: "),
        ] {
            let problems = with(&format!("[source]\n{section}")).unwrap_err();
            assert!(problems.starts_with(problem) && !problems.contains("SECRET"), "{problems}");
        }
    }
}
