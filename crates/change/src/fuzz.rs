//! What has to hold of whatever bytes a topic holds: the targets of the fuzzer (`scripts/fuzz`).
//!
//! Each target takes any input and fails an assertion where a promise is broken. The fuzzer looks for such inputs; the
//! ones that it found worth keeping are in `testdata/fuzz/`, and the unit tests go through them.

mod calendar;
mod envelope;
mod leaks;
mod record_schema;
mod story;
mod tables;
mod values;

pub use envelope::envelope;
pub use record_schema::record_schema;
pub use values::values;

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    /// Goes through the target's corpus; the file at fault is named.
    fn play(name: &str, target: fn(&[u8])) {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/fuzz").join(name);
        let files: Vec<_> = fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() > 20, "the corpus of {name} is not there");
        for file in files {
            let input = fs::read(&file).unwrap();
            assert!(std::panic::catch_unwind(|| target(&input)).is_ok(), "{}", file.display());
        }
    }

    #[test]
    fn no_input_of_the_corpus_breaks_a_promise_of_the_decoder() {
        play("envelope", super::envelope);
    }

    #[test]
    fn no_value_of_the_corpus_is_lost_or_changed() {
        play("values", super::values);
    }

    #[test]
    fn no_record_schema_of_the_corpus_breaks_a_promise_of_the_decoder() {
        play("record_schema", super::record_schema);
    }
}
