//! `comment` and `[table.properties]`: what a table is created with beside its columns.

use std::collections::BTreeMap;

use change::Column;
use replica_delta::{Layout, Properties};
use serde::Deserialize;

/// `[table.properties]`. Delta keeps every value as text.
#[derive(Deserialize, Default)]
#[serde(transparent)]
pub(super) struct PropertiesSection(BTreeMap<String, Value>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "write a property's value as a string, an integer, true or false")]
enum Value {
    Text(String),
    Integer(i64),
    Boolean(bool),
}

impl PropertiesSection {
    /// The layout of a table with this comment, and with columns of which some have one.
    pub(super) fn layout(
        self,
        comment: Option<String>,
        columns: &[(Column, Option<String>)],
    ) -> Result<Layout, String> {
        let text = |value| match value {
            Value::Text(text) => text,
            Value::Integer(integer) => integer.to_string(),
            Value::Boolean(boolean) => boolean.to_string(),
        };
        let given = self.0.into_iter().map(|(name, value)| (name, text(value))).collect();
        let commented = columns.iter().filter_map(|(column, comment)| Some((column.name.clone(), comment.clone()?)));
        Ok(Layout {
            properties: Properties::new(given).map_err(|problems| problems.join("; "))?,
            comment,
            column_comments: commented.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use change::{Column, Described};

    use crate::config::Config;

    fn parse(head: &str, rest: &str) -> Result<Config, String> {
        let text = format!(
            "[[table]]\nname = \"orders\"\ntopic = \"orders\"\nlocation = \"orders\"\nkey = [\"id\"]\n{head}\n\
             [table.columns]\nid = \"long\"\n\"Land\" = {{ type = \"string\", name = \"land\", comment = \"where to\" }}\n\
             doc = \"json\"\n{rest}"
        );
        Config::parse(&text).map_err(|problems| problems.to_string())
    }

    #[test]
    fn a_table_has_partition_columns_properties_and_comments() {
        let properties = "[table.properties]\n\"delta.targetFileSize\" = 1048576\n\"delta.enableChangeDataFeed\" = true\n\
                          \"delta.logRetentionDuration\" = \"interval 7 days\"\nowner = \"team orders\"";
        let config = parse("partition_by = [\"Land\"]\ncomment = \"what was sold\"", properties).unwrap();
        let table = &config.tables[0];
        assert_eq!(table.schema.partition_names().collect::<Vec<_>>(), ["land"]);
        let expected = [
            ("delta.enableChangeDataFeed", "true"),
            ("delta.logRetentionDuration", "interval 7 days"),
            ("delta.targetFileSize", "1048576"),
            ("owner", "team orders"),
        ];
        assert_eq!(table.layout.properties.iter().collect::<Vec<_>>(), expected);
        assert_eq!(table.layout.comment.as_deref(), Some("what was sold"));
        let comments: Vec<_> = table.layout.column_comments.iter().collect();
        assert_eq!(comments, [(&"land".to_owned(), &"where to".to_owned())]);
    }

    #[test]
    fn a_section_of_several_tables_gives_each_its_layout_or_says_why_not() {
        let text = "[[table]]\nname = \"$1\"\ntopics = 'shop\\.(\\w+)'\nlocation = \"lake/$1\"\n\
                    partition_by = [\"country\"]\n[table.properties]\n\"delta.checkpointInterval\" = 5";
        let pattern = &Config::parse(text).unwrap().patterns[0];
        let described = |columns: [&str; 2]| {
            let columns = columns.map(|name| Column::declared(name, "string").unwrap()).to_vec();
            pattern.table("shop.users", Some(Described { columns, key: vec!["id".to_owned()] }))
        };
        let table = described(["id", "country"]).unwrap();
        assert_eq!(table.schema.partition_names().collect::<Vec<_>>(), ["country"]);
        assert_eq!(table.layout.properties.get("delta.checkpointInterval"), Some("5"));
        let refused = described(["id", "city"]).unwrap_err();
        assert!(
            refused.contains("table `users`: partition_by: column `country` is not among the columns"),
            "{refused}"
        );
    }

    #[test]
    fn what_cannot_stand_is_named_with_the_table() {
        for (head, rest, problem) in [
            ("partition_by = [\"land\"]", "", "partition_by: column `land` is not among the columns"),
            ("partition_by = [\"doc\"]", "", "partition_by: column `doc` is json"),
            ("partition_by = [\"Land\", \"Land\"]", "", "partition_by: column `Land` stands there twice"),
            (
                "",
                "[table.properties]\n\"delta.appendOnly\" = true",
                "property delta.appendOnly: a merge replaces files",
            ),
            (
                "",
                "[table.properties]\n\"delta.targetFileSize\" = \"64MB\"",
                "property delta.targetFileSize: expected an",
            ),
            ("", "[table.properties]\nowner = [1]", "write a property's value as a string, an integer, true or false"),
            (
                "",
                "[table.properties]\n\"delta.dataSkippingStatsColumns\" = \"land\"",
                "it leaves out the key column `id`, by which files are passed over",
            ),
            (
                "",
                "[table.properties]\n\"delta.dataSkippingStatsColumns\" = \"id,Land\"",
                "Land is no column of the table; they go by their names in the replica",
            ),
            (
                "",
                "[table.properties]\n\"delta.dataSkippingNumIndexedCols\" = 0",
                "property delta.dataSkippingNumIndexedCols: it leaves out the key column `id`",
            ),
            (
                "",
                "_change_type = \"string\"\n[table.properties]\n\"delta.enableChangeDataFeed\" = true",
                "column `_change_type` has the name of a column of the feed",
            ),
        ] {
            let problems = parse(head, rest).unwrap_err();
            assert!(problems.contains("table") && problems.contains(problem), "{problem} in {problems}");
        }
    }
}
