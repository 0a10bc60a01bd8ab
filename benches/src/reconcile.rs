//! What a comparison of a table with its source takes, at rest: equal, and with one row that differs.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use highwater_tests::{
    highwater::Highwater,
    shop::{Shop, wait},
    stack::{HOST, shared},
};

const LONG: Duration = Duration::from_hours(2);
const RUNS: usize = 3;

pub(crate) fn reconcile(rows: u64) -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, "reconciled", 3)?;
    let mut highwater = Highwater::configure(&stack.scratch.folder("reconciled")?, &shop)?;
    highwater.patience = LONG;
    let (port, database) = (shop.database.port, &shop.database.name);
    highwater
        .change("[batch]", &format!("[source]\nurl = \"postgres://cdc:cdc@{HOST}:{port}/{database}\"\n\n[batch]"))?;
    shop.database.execute(&format!(
        "insert into orders select n, n % 1000, 'status ' || n % 7, n / 7.0, clock_timestamp() from generate_series(1, {rows}) n"
    ))?;
    shop.database.execute("vacuum analyze orders")?;
    shop.register()?;
    let began = Instant::now();
    let process = highwater.run()?;
    let is_there = || {
        let (ends, committed) =
            (shop.broker.end_offsets(&shop.topic)?, shop.broker.committed(&highwater.group, &shop.topic)?);
        let all = u64::try_from(ends.iter().sum::<i64>())? >= rows;
        Ok(all && ends.iter().zip(committed).all(|(&end, committed)| committed.unwrap_or(0) == end))
    };
    wait(LONG, "the rows did not arrive", is_there)?;
    say(&format!("{rows} rows are there after {:.0} s", began.elapsed().as_secs_f64()));
    for run in 0..RUNS {
        let connections = if run + 1 == RUNS { "2" } else { "1" };
        compare(&highwater, "equal", 0, connections)?;
    }
    for change in [
        "alter publication shop_pub drop table orders",
        "update orders set amount = amount + 1 where order_id = 7",
        "alter publication shop_pub add table orders",
    ] {
        shop.database.execute(change)?;
    }
    compare(&highwater, "drift", 1, "1")?;
    highwater.stop(process)?;
    Ok(())
}

fn compare(highwater: &Highwater, verdict: &str, status: i32, connections: &str) -> Result<()> {
    let began = Instant::now();
    let output = highwater.output(&["reconcile", "--json", "--grace", "1", "--connections", connections])?;
    let took = began.elapsed();
    ensure!(output.status.code() == Some(status), "{}\n{}", output.stdout, output.stderr);
    let parts = output.stdout.split_once("\"took_ms\":").context("no times")?.1;
    let parts = parts.split_once('}').context("no times")?.0;
    say(&format!("{verdict}, {connections} connection(s): {:.1} s, of these in ms {parts}}}", took.as_secs_f64()));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the figures")]
fn say(line: &str) {
    println!("{line}");
}
