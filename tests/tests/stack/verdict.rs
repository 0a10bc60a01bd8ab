//! What every test ends with.

use std::io::Write;

use anyhow::Result;
use highwater_tests::checkpoints::Watch;
use highwater_tests::highwater::Highwater;
use highwater_tests::oracle;
use highwater_tests::order::Event;
use highwater_tests::shop::Shop;

/// Compares every column of every row, checks the offsets, and prints the figures. Returns the topic's events.
pub(crate) fn verdict(test: &str, shop: &Shop, highwater: &Highwater, watch: Watch, more: &str) -> Result<Vec<Event>> {
    let events = shop.events()?;
    let checked = watch.finish(&events)?;
    let digest = oracle::compare(shop, highwater)?;
    highwater.no_dead_letters()?;
    let again = events.iter().filter(|event| event.again).count();
    figures(&format!(
        "{test}: records={} redelivered={again} rows_compared={} set_hash={:016x} list_hash={:016x} offset_samples={} \
         ahead_over_no_change={}{}{more}",
        events.len(),
        digest.rows,
        digest.set,
        digest.list,
        checked.samples,
        checked.ahead,
        if more.is_empty() { "" } else { " " },
    ));
    Ok(events)
}

/// Prints a line of figures past the test runner's capture: they are wanted when a test passes.
pub(crate) fn figures(line: &str) {
    let _ = writeln!(std::io::stdout(), "figures: {line}");
}
