//! Values that events left out and that the replica cannot have: from the old key's row, or read back from the source.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use highwater_tests::highwater::{Highwater, number};
use highwater_tests::shop::Shop;
use highwater_tests::stack::{HOST, Stack, shared};

use crate::verdict::figures;

const ROWS: i64 = 300;
const COLUMNS: &str =
    "order_id = \"long\"\nnote = \"string\"\nphoto = \"binary\"\ndoc = \"json\"\ntags = \"array<string>\"\n";

/// A shop with values that are stored out of line, whatever they are, and of whose old rows only the keys are sent.
fn shop_of_documents(stack: &Stack, name: &str) -> Result<Shop> {
    let shop = Shop::open(stack, name, 3)?;
    let columns = [("note", "text"), ("photo", "bytea"), ("doc", "jsonb"), ("tags", "text[]")];
    let each = columns.map(|(name, kind)| {
        format!(
            "alter table orders add column {name} {kind}; alter table orders alter column {name} set storage external;"
        )
    });
    shop.database.execute(&format!("alter table orders replica identity default; {}", each.concat()))?;
    Ok(shop)
}

/// Random values of some kilobytes, with quotes and characters of several bytes among them; every tenth row has none.
fn insert(shop: &Shop, rows: std::ops::RangeInclusive<i64>) -> Result<()> {
    let (from, to) = rows.into_inner();
    shop.database.execute(&format!(
        "insert into orders (order_id, status, note, photo, doc, tags)
         select n, 'new', r || ' \"ä\\', decode(r, 'hex'), jsonb_build_object('r', r, 'n', n), array[r, null, 'a,\"b\\', r]
         from generate_series({from}, {to}) n,
             lateral (select string_agg(md5(random()::text || m || n), '') from generate_series(1, 120) m) t(r) where n % 10 > 0;
         insert into orders (order_id, status) select n, 'new' from generate_series({from}, {to}) n where n % 10 = 0"
    ))
}

/// Changes what is small in every row.
fn touch(shop: &Shop, status: &str) -> Result<()> {
    shop.database.execute(&format!("update orders set status = '{status}' where order_id > 0"))
}

/// Changes the keys of a seventh of the rows.
fn move_some(shop: &Shop, round: i64) -> Result<()> {
    shop.database.execute(&format!(
        "update orders set order_id = order_id + 1000000 where order_id > 0 and order_id % 7 = {}",
        round % 7
    ))
}

/// Has both sides digest every value in SQL; gives how many rows were compared.
fn compare(shop: &Shop, highwater: &Highwater) -> Result<usize> {
    let source: String = shop.database.value(
        "select string_agg(concat_ws(',', order_id, status, coalesce(md5(note), 'null'), coalesce(md5(photo), 'null'), \
         coalesce(md5(doc::text), 'null'), coalesce(md5(array_to_string(tags, '|', 'null')), 'null')), E'\\n' order by order_id) \
         from orders",
    )?;
    let replica = highwater.sql(
        "select order_id, status, coalesce(md5(note), 'null') a, coalesce(md5(photo), 'null') b, coalesce(md5(doc), 'null') c, \
         coalesce(md5(array_to_string(tags, '|', 'null')), 'null') d from orders_current order by order_id",
    )?;
    let (source, replica): (Vec<_>, Vec<_>) = (source.lines().collect(), replica.lines().skip(1).collect());
    for (source, replica) in source.iter().zip(&replica) {
        ensure!(source == replica, "source {source}\nreplica {replica}");
    }
    ensure!(source.len() == replica.len(), "{} rows in the source, {} in the replica", source.len(), replica.len());
    Ok(source.len())
}

#[test]
fn rows_that_were_never_seen_are_read_back_under_load_with_key_changes_and_kills() -> Result<()> {
    const KILLS: u64 = 4;
    let stack = shared()?;
    // the rows are there before the connector, which takes no snapshot of them
    let shop = shop_of_documents(&stack, "readback")?.with_connector(&[("snapshot.mode", "no_data")]);
    insert(&shop, 1..=ROWS)?;
    shop.connect()?;
    let first = Highwater::configure(&stack.scratch.folder("readback")?, &shop)?;
    first.change("order_id = \"long\"\n", COLUMNS)?;
    touch(&shop, "touched")?;
    shop.delivered()?;

    let refused = first.output(&["run", "--until-caught-up"])?;
    let sign = "leaves out an unchanged value, and the table has no row to take it from";
    ensure!(!refused.status.success() && refused.stderr.contains(sign), "without [source]: {}", refused.stderr);
    let (port, database) = (shop.database.port, &shop.database.name);
    first.change("[batch]", &format!("[source]\nurl = \"postgres://cdc:cdc@{HOST}:{port}/{database}\"\n\n[batch]"))?;
    let check = first.output(&["check"])?;
    ensure!(check.stdout.contains("what events leave out can be read from the source"), "{}", check.stdout);
    first.catch_up()?;
    let at_rest = compare(&shop, &first)?;

    // once more from nothing, while everything moves
    let second = first.another("second")?;
    for member in [&first, &second] {
        member.change(&first.group.clone(), &format!("{}-again", first.group))?;
        member.change("lake/orders", "lake/again")?;
    }
    let mut one = first.run()?;
    let mut two = second.run()?;
    let done = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| -> Result<i64> {
        let load = scope.spawn(|| -> Result<i64> {
            let mut rounds = 0;
            while !done.load(Ordering::Relaxed) {
                rounds += 1;
                move_some(&shop, rounds)?;
                touch(&shop, &format!("round {rounds}"))?;
                insert(&shop, 1_000 + 2 * rounds..=1_001 + 2 * rounds)?;
                let one = "select order_id from orders where order_id > 0 order by random() limit 1";
                shop.database.execute(&format!("delete from orders where order_id = ({one})"))?;
                std::thread::sleep(Duration::from_millis(100));
            }
            Ok(rounds)
        });
        let mut kill = || -> Result<()> {
            for kill in 0..KILLS {
                std::thread::sleep(Duration::from_secs(4));
                let (member, process) = if kill % 2 == 0 { (&first, &mut one) } else { (&second, &mut two) };
                process.kill()?;
                *process = member.run()?;
            }
            Ok(())
        };
        let killed = kill();
        done.store(true, Ordering::Relaxed);
        let rounds = load.join().expect("the load does not panic")?;
        killed.map(|()| rounds)
    })?;
    shop.delivered()?;
    for (member, process) in [(&first, one), (&second, two)] {
        member.stop(process)?;
        member.no_dead_letters()?;
    }
    let last = first.catch_up()?;
    let rows = compare(&shop, &first)?;
    first.no_dead_letters()?;
    figures(&format!(
        "read back: rows={at_rest} then rows={rows} after rounds={rounds} kills={KILLS} records={} superseded_at_the_end={}",
        shop.broker.count(&shop.topic)?,
        number(&last.stderr, "superseded").unwrap_or_default()
    ));
    Ok(())
}

#[test]
fn without_a_connection_to_the_source_a_changed_key_takes_its_values_along() -> Result<()> {
    let stack = shared()?;
    let shop = shop_of_documents(&stack, "moved")?;
    insert(&shop, 1..=ROWS)?;
    shop.connect()?;
    let highwater = Highwater::configure(&stack.scratch.folder("moved")?, &shop)?;
    highwater.change("order_id = \"long\"\n", COLUMNS)?;
    shop.delivered()?;
    highwater.catch_up()?;
    let mut compared = compare(&shop, &highwater)?;
    for round in 0..3 {
        // several changes of one key in a batch, and updates in between
        move_some(&shop, 2 * round)?;
        touch(&shop, &format!("round {round}"))?;
        move_some(&shop, 2 * round + 3)?;
        shop.delivered()?;
        highwater.catch_up()?;
        compared += compare(&shop, &highwater)?;
    }
    insert(&shop, 1001..=1100)?;
    shop.database.execute("update orders set order_id = order_id + 5000 where order_id between 1001 and 1100")?;
    shop.delivered()?;
    highwater.catch_up()?;
    compared += compare(&shop, &highwater)?;
    let version = highwater.version();
    let replay = highwater.replay()?;
    ensure!(replay.rows_changed == 0 && highwater.version() == version, "{replay:?}");
    highwater.no_dead_letters()?;
    figures(&format!("changed keys: rows_compared={compared} records={}", shop.broker.count(&shop.topic)?));
    Ok(())
}
