//! `${NAME}` and `${file:PATH}` in a config's values.

/// Replaces them in every string of `table`; what cannot be replaced is a problem with its path.
pub(super) fn expand(table: &mut toml::Table, problems: &mut Vec<String>) {
    for (key, value) in table.iter_mut() {
        walk(value, key, problems);
    }
}

fn walk(value: &mut toml::Value, path: &str, problems: &mut Vec<String>) {
    match value {
        toml::Value::String(text) => match replace(text) {
            Ok(replaced) => *text = replaced,
            Err(problem) => problems.push(format!("{path}: {problem}")),
        },
        toml::Value::Array(values) => {
            for (index, value) in values.iter_mut().enumerate() {
                walk(value, &format!("{path}[{index}]"), problems);
            }
        }
        toml::Value::Table(table) => {
            for (key, value) in table.iter_mut() {
                walk(value, &format!("{path}.{key}"), problems);
            }
        }
        _ => {}
    }
}

fn replace(text: &str) -> Result<String, String> {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').ok_or("a ${ without its }")?;
        replaced.push_str(before);
        replaced.push_str(&match name.strip_prefix("file:") {
            // a file written with an editor ends with a line feed that is no part of the secret
            Some(path) => {
                std::fs::read_to_string(path).map_err(|e| format!("cannot read {path}: {e}"))?.trim_end().to_owned()
            }
            None => std::env::var(name).map_err(|_| format!("the environment variable {name} is not set"))?,
        });
        rest = after;
    }
    Ok(replaced + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_and_files_are_put_in_and_what_is_missing_is_named() {
        let secret = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(secret.path(), "hush\n").unwrap();
        assert_eq!(replace(&format!("a ${{file:{}}} b", secret.path().display())), Ok("a hush b".to_owned()));
        assert_eq!(replace("${PATH}"), Ok(std::env::var("PATH").unwrap()));
        assert_eq!(
            replace("${HIGHWATER_UNSET}"),
            Err("the environment variable HIGHWATER_UNSET is not set".to_owned())
        );
        let mut table: toml::Table = "[a]\nb = ['${HIGHWATER_UNSET}']".parse().unwrap();
        let mut problems = Vec::new();
        expand(&mut table, &mut problems);
        assert_eq!(problems, ["a.b[0]: the environment variable HIGHWATER_UNSET is not set"]);
    }
}
