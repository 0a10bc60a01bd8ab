//! What is not there, closed or full: each is named, ends with a failure, and costs no record.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use highwater_tests::highwater::binary;
use highwater_tests::stack::{HOST, free_port, shared};
use serde_json::{Value, json};

use crate::command::{Said, highwater, under};
use crate::refusals::{SECRET, config, envelope, message, row, simulate, write_lines};
use crate::verdict::figures;

/// Fails unless the command failed, said all of `parts`, and no value of a row.
fn refused(said: &Said, parts: &[&str]) -> Result<()> {
    ensure!(!said.status.success(), "exit status 0: {}", said.stderr);
    ensure!(said.status.code().is_some(), "it was killed: {}", said.stderr);
    ensure!(!said.stderr.contains(SECRET), "a value of a row is in the log: {}", said.stderr);
    for part in parts {
        ensure!(said.stderr.contains(part), "`{part}` is not in: {}", said.stderr);
    }
    Ok(())
}

/// Inserts of these many keys, a few hundred random bytes each.
fn inserts(count: i64) -> Vec<Value> {
    let insert = |id: i64| {
        let mut row = row(id);
        let noise: Vec<String> = (0..32).map(|_| format!("{:016x}", rand::random::<u64>())).collect();
        row["name"] = format!("{SECRET}{}", noise.concat()).into();
        message(id, &json!({"id": id}), &envelope(id, "c", &row))
    };
    (0..count).map(insert).collect()
}

#[test]
fn a_topic_that_does_not_exist_is_refused_by_name() -> Result<()> {
    let stack = shared()?;
    let folder = stack.scratch.folder("no_topic")?;
    let config = config(&folder, &stack.kafka.broker().bootstrap, "no.such.topic", "halt")?;
    refused(&highwater(["run", "--until-caught-up", "--config", &config])?, &["no.such.topic"])?;
    let checked = highwater(["check", "--config", &config])?;
    let all = checked.stdout.clone() + &checked.stderr;
    ensure!(!checked.status.success() && all.contains("no.such.topic"), "check does not find it: {all}");
    figures("no topic: refused by run and by check");
    Ok(())
}

#[test]
fn a_broker_that_does_not_answer_is_refused_by_its_address() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let address = format!("{HOST}:{}", free_port()?);
    let config = config(folder.path(), &address, "t", "halt")?;
    refused(&highwater(["run", "--until-caught-up", "--config", &config])?, &[&address, "broker"])?;
    let checked = highwater(["check", "--config", &config])?;
    let all = checked.stdout.clone() + &checked.stderr;
    ensure!(!checked.status.success() && all.contains(&address), "check does not find it: {all}");
    figures("no broker: refused by run and by check");
    Ok(())
}

#[test]
fn a_table_with_another_schema_on_disk_is_refused_with_each_column_and_left_as_it_was() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (file, table) = (folder.path().join("messages.ndjson"), folder.path().join("table"));
    write_lines(&file, &inserts(3))?;
    let into = table.to_string_lossy().into_owned();
    highwater(simulate(&file, &["--into", &into]))?.success()?;
    let log = || -> Result<usize> { Ok(std::fs::read_dir(table.join("_delta_log"))?.count()) };
    let before = log()?;
    for (column, other) in [("amount", "amount:double"), ("name", "name:long")] {
        let args: Vec<String> = simulate(&file, &["--into", &into])
            .into_iter()
            .map(|arg| if arg.starts_with(&format!("{column}:")) { other.to_owned() } else { arg })
            .collect();
        refused(&highwater(args)?, &["table `table`", &into, &format!("column `{column}`")])?;
    }
    refused(&highwater(simulate(&file, &["--into", &into, "--column", "more:long"]))?, &["table `table`", "`more`"])?;
    ensure!(log()? == before, "the table was changed");
    figures("wrong schema on disk: cases=3");
    Ok(())
}

#[test]
fn a_store_that_may_not_be_written_is_refused_with_the_table_and_its_place() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("messages.ndjson");
    write_lines(&file, &inserts(3))?;
    let not_there = "/proc/highwater/table";
    refused(&highwater(simulate(&file, &["--into", not_there]))?, &["table `table`", not_there])?;
    // Nobody makes a folder there, whatever the account.
    let closed = "/sys/highwater/table";
    let said = if rustix::process::geteuid().is_root() {
        let open = |path: &Path| {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
        };
        open(folder.path())?;
        let own = folder.path().join("table");
        let wrapper = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
        let said = under(&wrapper, simulate(&file, &["--into", &own.to_string_lossy()]))?;
        refused(&said, &["table `table`", &own.to_string_lossy(), "check the folder's owner and permissions"])?;
        under(&wrapper, simulate(&file, &["--into", closed]))?
    } else {
        highwater(simulate(&file, &["--into", closed]))?
    };
    refused(&said, &["table `table`", closed, "permissions"])?;
    figures("no permission on the store: refused by name");
    Ok(())
}

/// Fills a file system of 300 KiB in a mount namespace of its own, which leaves nothing behind; then makes room and goes on.
const FULL: &str = r#"
mount -t tmpfs -o size=300k highwater "$1" || exit 90
"$2" simulate "$3" $4 --into "$1/table" --batch-rows 100 2> "$5/full.err"
echo "status=$?"
mount -o remount,size=64m highwater "$1" || exit 91
"$2" simulate "$3" $4 --into "$1/table" --batch-rows 100 --print json 2> "$5/roomy.err" > "$5/rows" || exit 92
"#;

#[test]
fn a_full_disk_halts_the_table_by_name_and_nothing_is_lost_once_there_is_room() -> Result<()> {
    const ROWS: u64 = 2000;
    let folder = tempfile::tempdir()?;
    let (file, mount) = (folder.path().join("messages.ndjson"), folder.path().join("mount"));
    std::fs::create_dir(&mount)?;
    write_lines(&file, &inserts(i64::try_from(ROWS)?))?;
    let flags = "--topic t --key id --column id:long --column name:string --column amount:decimal(12,2)@text";
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "120", "unshare", "--mount", "--map-root-user", "sh", "-c", FULL, "full"]);
    let output = command.arg(&mount).arg(binary()?).arg(&file).arg(flags).arg(folder.path()).output()?;
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &read("roomy.err");
    ensure!(output.status.success(), "{} (90 and 91: a namespace could not mount): {said}", output.status);
    ensure!(String::from_utf8_lossy(&output.stdout).trim() == "status=1", "on the full disk: {:?}", output.stdout);
    let full = Said { status: output.status, stdout: String::new(), stderr: read("full.err") };
    let error = full.stderr.lines().find(|line| line.contains("ERROR")).context("no error on the full disk")?;
    for part in ["table", "No space left on device"] {
        ensure!(error.contains(part), "`{part}` is not in: {error}");
    }
    ensure!(!full.stderr.contains(SECRET), "a value of a row is in the log");
    ensure!(!full.stderr.contains("panicked"), "it panicked: {}", full.stderr);
    let landed = full.counts()?["merged"];
    ensure!(landed < ROWS, "the disk was not full");
    let roomy = Said { status: output.status, stdout: read("rows"), stderr: read("roomy.err") };
    let counts = roomy.counts()?;
    ensure!((counts["merged"], counts["guarded"]) == (ROWS - landed, landed), "after {landed} rows: {counts:?}");
    ensure!(u64::try_from(roomy.objects()?.len())? == ROWS, "rows are missing");
    figures(&format!("full disk: rows={ROWS} before_it_was_full={landed}"));
    Ok(())
}

#[test]
fn dead_letters_that_cannot_be_written_stop_it_and_nothing_is_lost() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (file, table) = (folder.path().join("messages.ndjson"), folder.path().join("table"));
    let mut lines = inserts(20);
    lines[10]["value"] = json!(SECRET);
    write_lines(&file, &lines)?;
    let into = table.to_string_lossy().into_owned();
    let args =
        |letters: &str| simulate(&file, &["--into", &into, "--on-error", "dead-letter", "--dead-letters", letters]);
    refused(&highwater(args("/dev/full"))?, &["dead letter of t/0 offset 10 to /dev/full", "No space left on device"])?;
    let letters = folder.path().join("dead.ndjson");
    let said = highwater(args(&letters.to_string_lossy()))?.success()?;
    let counts = said.counts()?;
    ensure!(counts["received"] == 20 && counts["dead_lettered"] == 1, "{counts:?}");
    ensure!(said.objects()?.len() == 19, "rows are missing");
    ensure!(std::fs::read_to_string(&letters)?.lines().count() == 1, "not one dead letter");
    figures(&format!("full dead letters: rows=19 applied_before={}", counts["guarded"]));
    Ok(())
}
