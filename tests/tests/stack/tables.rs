//! Several tables in one process, each from its own topic.

use anyhow::{Result, ensure};
use highwater_tests::scratch::Scratch;
use highwater_tests::stack;

use crate::command::highwater;
use crate::verdict::figures;

const ROWS: i64 = 40;

fn section(name: &str, topic: &str, lake: &std::path::Path) -> String {
    let location = lake.join(name);
    format!(
        "[[table]]\nname = \"{name}\"\ntopic = \"{topic}\"\nlocation = \"{}\"\nkey = [\"id\"]\n\
         columns = {{ id = \"long\", note = \"string\" }}\n",
        location.display()
    )
}

#[test]
fn a_table_that_halts_leaves_the_others_of_its_process_alone() -> Result<()> {
    let stack = stack::shared()?;
    let scratch = Scratch::new("tables")?;
    let broker = &stack.kafka.broker();
    for (topic, partitions) in [("tables.a", 2), ("tables.b", 3), ("tables.bad", 1)] {
        broker.create_topic(topic, partitions)?;
        for id in 0..ROWS {
            let partition = usize::try_from(id)? % partitions;
            let key = format!(r#"{{"id":{id}}}"#);
            let note = if topic == "tables.bad" && id == 10 { "7" } else { "\"x\"" };
            let value = format!(r#"{{"op":"c","after":{{"id":{id},"note":{note}}},"source":{{"lsn":{}}}}}"#, id + 1);
            broker.produce(topic, partition, Some(key.as_bytes()), Some(value.as_bytes()))?;
        }
    }
    let lake = scratch.path().join("lake");
    let mut config = format!("[kafka]\nbootstrap_servers = \"{}\"\ngroup = \"tables\"\n", broker.bootstrap);
    for name in ["a", "b", "bad"] {
        config += &section(name, &format!("tables.{name}"), &lake);
    }
    let path = scratch.path().join("tables.toml");
    std::fs::write(&path, config)?;
    let path = path.to_string_lossy();

    let run = highwater(["run", "--config", &path, "--until-caught-up"])?;
    ensure!(!run.status.success(), "a halted table must fail the run");
    ensure!(
        run.stderr.contains("table `bad`, tables.bad/0 offset 10: column `note`: expected a string"),
        "{}",
        run.stderr
    );
    let counts = "select (select count(*) from a) a, (select count(*) from b) b, (select count(*) from bad) bad";
    let rows = highwater(["sql", "--config", &path, "--print", "csv", counts])?.success()?;
    ensure!(rows.stdout.lines().last() == Some("40,40,10"), "{}", rows.stdout);
    ensure!(broker.committed("tables", "tables.bad")? == [Some(10)], "{:?}", broker.committed("tables", "tables.bad")?);
    ensure!(broker.committed("tables", "tables.a")? == [Some(20), Some(20)]);

    let again = highwater(["replay", "--config", &path, "--table", "a"])?;
    ensure!(again.stdout.contains("rows_changed=0"), "{}", again.stdout);
    figures(&format!("tables: tables=3 halted=1 rows={}", 2 * ROWS + 10));
    Ok(())
}
