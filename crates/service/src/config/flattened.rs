//! `envelope` and `[table.flattened]`: the form of a table's change events.

use std::sync::Arc;

use change::{Deletes, EnvelopeForm, Flattening, Metadata};
use serde::Deserialize;

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub(super) enum EnvelopeName {
    #[default]
    Debezium,
    Flattened,
}

/// The settings of the transform `ExtractNewRecordState`, as far as they change how its rows are read.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct FlattenedSection {
    #[serde(default)]
    deletes: DeletesName,
    prefix: Option<String>,
    op: Option<String>,
    lsn: Option<String>,
    deleted: Option<String>,
    sequence: Option<String>,
    snapshot: Option<String>,
    ts_ms: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
enum DeletesName {
    #[default]
    Rewrite,
    Tombstone,
}

impl EnvelopeName {
    pub(super) fn form(self, section: Option<FlattenedSection>) -> Result<EnvelopeForm, &'static str> {
        match (self, section) {
            (Self::Debezium, None) => Ok(EnvelopeForm::Debezium),
            (Self::Debezium, Some(_)) => Err("[table.flattened] needs envelope = \"flattened\""),
            (Self::Flattened, section) => {
                Ok(EnvelopeForm::Flattened(Arc::new(section.unwrap_or_default().flattening())))
            }
        }
    }
}

impl FlattenedSection {
    fn flattening(self) -> Flattening {
        let Self { deletes, prefix, op, lsn, deleted, sequence, snapshot, ts_ms } = self;
        let deletes = match deletes {
            DeletesName::Rewrite => Deletes::Rewrite,
            DeletesName::Tombstone => Deletes::Tombstone,
        };
        let names = [
            (Metadata::Op, op),
            (Metadata::Lsn, lsn),
            (Metadata::Deleted, deleted),
            (Metadata::Sequence, sequence),
            (Metadata::Snapshot, snapshot),
            (Metadata::Time, ts_ms),
        ];
        let default = Flattening::new(prefix.as_deref().unwrap_or(Flattening::PREFIX), deletes);
        let given = names.into_iter().filter_map(|(metadata, name)| Some((metadata, name?)));
        given.fold(default, |flattening, (metadata, name)| flattening.with_name(metadata, &name))
    }
}
