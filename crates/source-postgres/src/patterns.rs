//! [`Patterns`]: a list of regular expressions, as Debezium's options have them.

use regex::{Regex, RegexBuilder};

use crate::ModesError;

/// Regular expressions, each of which is about a whole name, whatever its case.
#[derive(Debug, Clone, Default)]
pub(crate) struct Patterns(Vec<Pattern>);

#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    regex: Regex,
}

impl Pattern {
    /// # Errors
    /// [`ModesError`] where it is no regular expression; `option` is where it stands.
    pub(crate) fn new(option: &'static str, text: &str) -> Result<Self, ModesError> {
        let regex = RegexBuilder::new(&format!("^(?:{text})$")).case_insensitive(true).build();
        let regex = regex.map_err(|_| ModesError::Pattern { option, pattern: text.to_owned() })?;
        Ok(Self { text: text.to_owned(), regex })
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        self.regex.is_match(name)
    }
}

impl Patterns {
    /// A list with commas between; `\,` is a comma of a pattern.
    ///
    /// # Errors
    /// [`ModesError`] names the first that is no regular expression.
    pub(crate) fn list(option: &'static str, list: &str) -> Result<Self, ModesError> {
        let list = list.replace("\\,", "\0");
        let patterns = list.split(',').map(|pattern| pattern.trim().replace('\0', ","));
        let patterns = patterns.filter(|pattern| !pattern.is_empty());
        Ok(Self(patterns.map(|pattern| Pattern::new(option, &pattern)).collect::<Result<_, _>>()?))
    }

    /// # Errors
    /// [`ModesError`] names the first that is no regular expression.
    pub(crate) fn each(option: &'static str, patterns: &[String]) -> Result<Self, ModesError> {
        Ok(Self(patterns.iter().map(|pattern| Pattern::new(option, pattern)).collect::<Result<_, _>>()?))
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| pattern.matches(name))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pattern> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_about_the_whole_name_whatever_its_case() {
        let patterns = Patterns::list("x", " public.orders , shop\\.item{1\\,2} ,").unwrap();
        for (name, matches) in [
            ("public.orders", true),
            ("PUBLIC.Orders", true),
            ("publicXorders", true),
            ("public.orders2", false),
            ("my.public.orders", false),
            ("shop.itemm", true),
            ("shop.itemmm", false),
            ("", false),
        ] {
            assert_eq!(patterns.matches(name), matches, "{name}");
        }
    }

    #[test]
    fn what_is_no_regular_expression_is_named_with_its_option() {
        let said = Patterns::list("table.include.list", "public.(").unwrap_err().to_string();
        assert!(said.contains("table.include.list") && said.contains("public.("), "{said}");
    }
}
