//! `explain`: what an event is, where it stands, and what the replica would do with it.

use std::{
    collections::BTreeMap,
    io::{self, BufRead},
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use arrow::array::RecordBatch;
use change::{BatchBuilder, ChangeBatch, Decoded, Decoder, Horizon, Op, Order, Restart, TableSchema};
use pipeline::{Replica, TopicPartition};
use replica_delta::{DeltaReplica, Lake, Verdict};
use serde_json::json;

use crate::{
    assemble,
    cli::{ExplainArgs, Print},
    config::{Config, TableConfig},
    print,
    recorded::{self, Recorded},
    shape,
};

pub(crate) async fn explain(args: ExplainArgs) -> Result<ExitCode> {
    let config = match args.table.config.as_deref().map(Config::read).transpose()? {
        Some(config) => Some(config.discovered().await?),
        None => None,
    };
    let files: Vec<_> = args.file.iter().cloned().collect();
    let tables = shape::tables(&args.table, config.as_ref(), &files)?;
    let lake = config.as_ref().map_or_else(Lake::default, assemble::lake);
    let group = config.as_ref().and_then(|config| config.kafka.as_ref()).map_or("", |kafka| kafka.group.as_str());
    let mut explainers = BTreeMap::new();
    for table in &tables {
        explainers.insert(table.topic.clone(), Explainer::new(&lake, table, group).await?);
    }
    let input: Box<dyn BufRead> = match &args.file {
        Some(file) => recorded::lines(file)?,
        None => Box::new(io::stdin().lock()),
    };
    let default_topic = tables.first().map(|table| table.topic.clone()).unwrap_or_default();
    for (number, line) in input.lines().enumerate() {
        let line = line.context("reading the input")?;
        if line.trim().is_empty() {
            continue;
        }
        let message = message(&line, number, &default_topic);
        if let Some(explainer) = message.topic.as_ref().and_then(|topic| explainers.get_mut(topic)) {
            let explanation = explainer.explain(&message).await?;
            show(&explanation, args.print)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A recorded message, or a bare envelope, for which a key is taken from the row.
fn message(line: &str, number: usize, default_topic: &str) -> Recorded {
    let recorded = Recorded::parse(line).ok().filter(|recorded| recorded.topic.is_some() || recorded.key.is_some());
    let mut message = recorded.unwrap_or_else(|| Recorded {
        topic: None,
        partition: 0,
        offset: i64::try_from(number).ok(),
        key: row_of(line),
        value: Some(line.as_bytes().to_vec()),
        timestamp: None,
        old_key: None,
    });
    message.topic.get_or_insert_with(|| default_topic.to_owned());
    message
}

fn row_of(envelope: &str) -> Option<Vec<u8>> {
    let envelope: serde_json::Value = serde_json::from_str(envelope).ok()?;
    let envelope = envelope.get("payload").unwrap_or(&envelope);
    let image = ["before", "after"].iter().filter_map(|image| envelope.get(image)).find(|row| row.is_object());
    // a flattened one is the row itself
    Some(image.unwrap_or(envelope).to_string().into_bytes())
}

/// What is said of one message.
struct Explanation {
    place: String,
    kind: String,
    order: Option<Order>,
    action: &'static str,
    why: String,
    row: Option<RecordBatch>,
}

/// Explains the messages of one table, each as if those before it had been applied.
struct Explainer {
    table: TableConfig,
    decoder: Decoder,
    replica: Option<DeltaReplica>,
    group_horizons: BTreeMap<i32, Horizon>,
    /// The orders of keys that the input has set, and what a truncate in it did.
    set: BTreeMap<Vec<u8>, Order>,
    floor: Order,
    has_group: bool,
}

impl Explainer {
    async fn new(lake: &Lake, table: &TableConfig, group: &str) -> Result<Self> {
        let replica = DeltaReplica::existing(lake, &table.name, &table.location, group, table.schema.clone()).await?;
        let schema = replica.as_ref().map_or(&table.schema, |replica| replica.schema());
        Ok(Self {
            decoder: Decoder::new(schema.clone()),
            table: table.clone(),
            replica,
            group_horizons: BTreeMap::new(),
            set: BTreeMap::new(),
            floor: Order::default(),
            has_group: !group.is_empty(),
        })
    }

    async fn explain(&mut self, message: &Recorded) -> Result<Explanation> {
        let offset = message.offset.unwrap_or_default();
        let place = format!("{}/{} offset {offset}", self.table.topic, message.partition);
        let mut horizon = self.horizon(message.partition).await?;
        let epoch = self.replica.as_ref().map_or(0, |replica| replica.epoch().since);
        if message.timestamp.is_some_and(|at| at < epoch) {
            return Ok(Explanation {
                place,
                kind: "of an earlier epoch".to_owned(),
                order: None,
                action: "guarded",
                why: format!("the table's LSN space holds since {epoch}, and the record is older"),
                row: None,
            });
        }
        let mut batch = BatchBuilder::new(self.decoder.schema().clone());
        let mut decoded = self.decoder.decode(message.record(offset), &mut horizon, &mut batch);
        if let Ok(Decoded::Grown(schema)) = decoded {
            batch = BatchBuilder::new(schema.clone());
            self.decoder = Decoder::new(schema);
            decoded = self.decoder.decode(message.record(offset), &mut horizon, &mut batch);
        }
        self.group_horizons.insert(message.partition, horizon);
        let changes = batch.finish()?;
        Ok(match decoded {
            Ok(Decoded::Grown(_)) => bail!("the record's columns grow without end"),
            Ok(Decoded::NoChange(kind)) => Explanation {
                place,
                kind: format!("{kind:?}"),
                order: None,
                action: "no change",
                why: "it changes no row; its offset is acknowledged".to_owned(),
                row: None,
            },
            Ok(Decoded::Restart(Restart { lsn, reached, .. })) => Explanation {
                place,
                kind: "restart".to_owned(),
                order: None,
                action: "halt",
                why: format!(
                    "a snapshot at LSN {lsn} lies below LSN {reached}, which was reached before it: the source's LSNs \
                     have begun again"
                ),
                row: None,
            },
            Ok(Decoded::Truncate(order)) => self.truncate(place, order),
            Ok(Decoded::Change(op, order)) => self.change(place, op, order, changes).await?,
            Err(malformed) => Explanation {
                place,
                kind: "malformed".to_owned(),
                order: None,
                action: match self.table.on_error {
                    pipeline::OnError::Halt => "halt",
                    pipeline::OnError::DeadLetter => "dead letter",
                },
                why: malformed.to_string(),
                row: None,
            },
        })
    }

    /// The horizon before the message: as the input left it, or as the replica's checkpoint has it.
    async fn horizon(&mut self, partition: i32) -> Result<Horizon> {
        if let Some(&known) = self.group_horizons.get(&partition) {
            return Ok(known);
        }
        let tp = TopicPartition::new(self.table.topic.as_str(), partition);
        Ok(match &mut self.replica {
            Some(replica) if self.has_group => replica
                .checkpoint(std::slice::from_ref(&tp))
                .await?
                .get(&tp)
                .map_or_else(Horizon::default, |p| p.horizon),
            _ => Horizon::default(),
        })
    }

    fn truncate(&mut self, place: String, order: Order) -> Explanation {
        let (action, why) = if order > self.floor {
            self.floor = order;
            for stored in self.set.values_mut() {
                *stored = (*stored).max(order);
            }
            ("truncate", "every older row is soft-deleted, and older events are refused from now on".to_owned())
        } else {
            ("guarded", format!("the floor is already at {}", self.floor))
        };
        Explanation { place, kind: "truncate".to_owned(), order: Some(order), action, why, row: None }
    }

    async fn change(&mut self, place: String, op: Op, order: Order, changes: ChangeBatch) -> Result<Explanation> {
        let key = key_bytes(&changes.schema, &changes.rows)?;
        let verdict = match self.set.get(&key) {
            Some(&stored) if order > stored => Verdict::Update(stored),
            Some(&stored) => Verdict::Stale(stored),
            None => match &self.replica {
                Some(replica) => replica.preview(&changes).await?.first().copied().unwrap_or(Verdict::Insert),
                None => Verdict::Insert,
            },
        };
        let verdict = match verdict {
            Verdict::Insert if order <= self.floor => Verdict::BelowFloor(self.floor),
            Verdict::Update(_) if order <= self.floor => Verdict::Stale(self.floor),
            other => other,
        };
        let deletes = op == Op::Delete;
        let (action, why) = match verdict {
            Verdict::Insert if deletes => {
                ("delete", "the key is new: a soft-deleted row of nothing but the key is inserted".to_owned())
            }
            Verdict::Insert => ("insert", "the key is new".to_owned()),
            Verdict::Update(stored) if deletes => {
                ("delete", format!("the stored row is older, {stored}: it is soft-deleted and keeps its columns"))
            }
            Verdict::Update(stored) => ("update", format!("the stored row is older, {stored}")),
            Verdict::Stale(stored) if stored == order => {
                ("guarded", "delivered before: the stored row has this very order".to_owned())
            }
            Verdict::Stale(stored) => ("guarded", format!("stale: the stored row is newer, {stored}")),
            Verdict::BelowFloor(floor) => {
                ("guarded", format!("the key is not there, and the event is not above the floor {floor}"))
            }
        };
        if !verdict.is_guarded() {
            self.set.insert(key, order);
        }
        Ok(Explanation { place, kind: op.name().to_owned(), order: Some(order), action, why, row: Some(changes.rows) })
    }
}

fn key_bytes(schema: &Arc<TableSchema>, rows: &RecordBatch) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    print::json(&rows.project(schema.key())?, &mut key)?;
    Ok(key)
}

#[expect(clippy::print_stdout, reason = "the command's result")]
fn show(explanation: &Explanation, form: Print) -> Result<()> {
    let Explanation { place, kind, order, action, why, row } = explanation;
    let mut json_row = Vec::new();
    if let Some(row) = row {
        print::json(row, &mut json_row)?;
    }
    let row: Option<serde_json::Value> =
        if json_row.is_empty() { None } else { Some(serde_json::from_slice(&json_row)?) };
    if form == Print::Json {
        let object = json!({
            "place": place, "kind": kind, "action": action, "why": why, "row": row,
            "anchor": order.map(|o| o.anchor.as_long()), "lsn": order.map(|o| o.lsn.as_long()),
        });
        println!("{object}");
        return Ok(());
    }
    println!("{place}: {kind}");
    if let Some(order) = order {
        println!("  order   {order}: anchor {}, lsn {}", order.anchor.as_long(), order.lsn.as_long());
    }
    if let Some(row) = row {
        println!("  row     {row}");
    }
    println!("  action  {action}: {why}");
    Ok(())
}
