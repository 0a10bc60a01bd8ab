//! The columns of a table, and the secret of their masks.

use change::{Column, Mask, SchemaError, Secret, Unfit};
use serde::{Deserialize, Deserializer, de::Error as _};

/// `[masking]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MaskingSection {
    #[serde(deserialize_with = "secret")]
    pub(super) secret: Secret,
}

/// serde's own errors would quote the value.
fn secret<'de, D: Deserializer<'de>>(value: D) -> Result<Secret, D::Error> {
    let value = toml::Value::deserialize(value)?;
    let text = value.as_str().ok_or_else(|| D::Error::custom("secret: write it as a string"))?;
    Secret::new(text.as_bytes()).map_err(|e| D::Error::custom(format!("secret: {e}")))
}

/// A column's type, alone or with what else becomes of it.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum ColumnSection {
    Type(String),
    Full(FullColumn),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FullColumn {
    r#type: String,
    name: Option<String>,
    unfit: Option<String>,
    mask: Option<String>,
    comment: Option<String>,
}

impl ColumnSection {
    /// What a section that is none of these should have been.
    pub(super) const SHAPE: &str = "write its type as a string, or { type = \"...\" } with name = \"...\", \
                                    unfit = \"...\", mask = \"...\" or comment = \"...\"";

    /// What the column is, in words.
    pub(super) fn comment(&self) -> Option<&str> {
        match self {
            Self::Type(_) => None,
            Self::Full(full) => full.comment.as_deref(),
        }
    }

    /// The column that the source has under this name.
    pub(super) fn check(self, source: &str, secret: Option<&Secret>) -> Result<Column, SchemaError> {
        let FullColumn { r#type, name, unfit, mask, comment: _ } = match self {
            Self::Type(r#type) => FullColumn { r#type, name: None, unfit: None, mask: None, comment: None },
            Self::Full(full) => full,
        };
        let unfit = unfit.map_or(Ok(Unfit::Refuse), |unfit| unfit.parse())?;
        let mut column = Column::declared(source, &r#type)?.with_unfit(unfit);
        if let Some(name) = name {
            column = column.named(&name);
        }
        match mask {
            Some(mask) => Ok(column.masked(Mask::declared(&mask, secret)?)),
            None => Ok(column),
        }
    }
}

#[cfg(test)]
mod tests {
    use change::{Column, Described};

    use crate::config::Config;

    const SECRET: &str = "a secret of a test";

    /// The problems of a config of this `[masking]` and these columns, and what it is where there are none.
    fn parse(masking: &str, columns: &str) -> Result<Config, String> {
        let text = format!(
            "{masking}\n[[table]]\nname = \"users\"\ntopic = \"users\"\nlocation = \"users\"\nkey = [\"Id\"]\n\
             [table.columns]\n{columns}"
        );
        Config::parse(&text).map_err(|problems| problems.to_string())
    }

    fn secret(secret: &str) -> String {
        format!("[masking]\nsecret = {secret}")
    }

    #[test]
    fn a_column_can_have_another_name_and_a_mask() {
        let columns = "\"Id\" = { type = \"long\", name = \"id\", mask = \"hmac-sha256\" }\nemail = \"string\"\n\
                       \"EMAIL\" = { type = \"string\", name = \"email_of_invoice\" }\n\
                       born = { type = \"date\", mask = \"null\", unfit = \"null\" }";
        let config = parse(&secret(&format!("\"{SECRET}\"")), columns).unwrap();
        let schema = &config.tables[0].schema;
        let columns = schema.columns().iter().map(|column| (column.source.as_str(), column.name.as_str()));
        let expected = [("Id", "id"), ("email", "email"), ("EMAIL", "email_of_invoice"), ("born", "born")];
        assert_eq!(columns.collect::<Vec<_>>(), expected);
        let types =
            schema.columns().iter().map(|column| (column.source_type().to_string(), column.data_type.to_string()));
        let same = |name: &str| (name.to_owned(), "string".to_owned());
        assert_eq!(types.collect::<Vec<_>>(), ["long", "string", "string", "date"].map(same));
        assert_eq!(schema.key_names().collect::<Vec<_>>(), ["id"]);
    }

    #[test]
    fn a_name_and_a_mask_stand_where_records_say_the_rest() {
        let text = format!(
            "{}\n[[table]]\nname = \"$1\"\ntopics = 'shop\\.(\\w+)'\nlocation = \"lake/$1\"\nexclude_columns = [\"Note\"]\n\
             [table.columns]\n\"E-Mail\" = {{ type = \"string\", name = \"email\", mask = \"hmac-sha256\" }}",
            secret(&format!("\"{SECRET}\""))
        );
        let pattern = &Config::parse(&text).unwrap().patterns[0];
        let columns = ["id", "E-Mail", "Note"].map(|name| Column::declared(name, "string").unwrap()).to_vec();
        let described = Described { columns, key: vec!["E-Mail".to_owned()] };
        let schema = pattern.table("shop.users", Some(described)).unwrap().schema;
        let columns: Vec<_> = schema.columns().iter().map(|column| (&*column.name, column.mask.is_some())).collect();
        assert_eq!((columns, schema.key()), (vec![("email", true), ("id", false)], &[0][..]));
    }

    #[test]
    fn what_cannot_stand_is_named_with_its_remedy() {
        let good = secret(&format!("\"{SECRET}\""));
        for (masking, columns, problem) in [
            (
                "",
                "\"Id\" = { type = \"long\", mask = \"hmac-sha256\" }",
                "column `Id`: mask = \"hmac-sha256\" needs the secret of [masking]",
            ),
            (
                &good,
                "\"Id\" = { type = \"long\", mask = \"md5\" }",
                "column `Id`: unknown mask `md5`: expected hmac-sha256 or null",
            ),
            (
                &good,
                "\"Id\" = { type = \"long\", mask = \"null\" }",
                "key column `Id`: the mask of a key cannot be \"null\"",
            ),
            (
                &good,
                "\"Id\" = \"long\"\ndoc = { type = \"json\", mask = \"hmac-sha256\" }",
                "column `doc`: the same json has several texts",
            ),
            (
                &good,
                "\"Id\" = \"long\"\nborn = { type = \"date\", mask = \"null\", unfit = \"raw\" }",
                "unfit = \"raw\" would keep values unmasked",
            ),
            ("", "\"Id\" = { type = \"long\", name = \"\" }", "its name in the replica is empty"),
            (
                "",
                "\"Id\" = \"long\"\nemail = \"string\"\n\"EMAIL\" = \"string\"",
                "columns `email` and `EMAIL` go by one name, as Delta ignores case; give one of them another with name = ",
            ),
            (
                "",
                "\"Id\" = { type = \"long\", name = \"is_deleted\" }",
                "columns `Id` (`is_deleted` in the replica) and `is_deleted` go by one name",
            ),
            (
                "",
                "id = { type = \"long\", name = \"Id\" }",
                "key column `Id` is not among the columns, which go by their names in the source",
            ),
            ("", "\"Id\" = { type = \"long\", alias = \"id\" }", "column `Id`: write its type as a string"),
            (
                &secret("\"fifteen bytes..\""),
                "\"Id\" = \"long\"",
                "[masking]: secret: the secret has fewer than 16 bytes",
            ),
            (&secret("\"\""), "\"Id\" = \"long\"", "[masking]: secret: the secret has fewer than 16 bytes"),
            ("[masking]", "\"Id\" = \"long\"", "[masking]: missing field `secret`"),
        ] {
            let problems = parse(masking, columns).unwrap_err();
            assert!(problems.contains(problem), "{problem} in {problems}");
        }
    }

    #[test]
    fn a_secret_is_never_printed() {
        for (value, hidden) in
            [("\"0123456789\"", "0123456789"), ("1234567890123456", "1234567890"), ("[\"one\", \"two\"]", "one")]
        {
            let problems = parse(&secret(value), "\"Id\" = \"long\"").unwrap_err();
            assert!(problems.contains("[masking]: secret: ") && !problems.contains(hidden), "{problems}");
        }
        let columns = "\"Id\" = { type = \"long\", mask = \"hmac-sha256\" }";
        let config = format!("{:?}", parse(&secret(&format!("\"{SECRET}\"")), columns).unwrap());
        assert!(config.contains("HmacSha256(***)") && !config.contains(SECRET), "{config}");
    }
}
