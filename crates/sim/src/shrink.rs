//! Cuts a failing scenario down to the steps that it takes to fail.

use crate::{
    run::run,
    scenario::{Scenario, Step},
};

/// The smallest scenario found that still fails, by leaving out ever smaller runs of steps.
#[must_use]
pub fn shrink(scenario: &Scenario) -> Scenario {
    let mut smallest = scenario.clone();
    let mut cut = smallest.steps.len().div_ceil(2);
    while cut > 0 {
        let mut from = 0;
        while from < smallest.steps.len() {
            let end = (from + cut).min(smallest.steps.len());
            let mut steps = smallest.steps.clone();
            // the time of what is left out still passes, or everything after it would move
            let passed = steps.drain(from..end).map(|step| step.after).sum();
            if let Some(Step { after, .. }) = steps.get_mut(from) {
                *after += passed;
            }
            let candidate = Scenario { steps, ..smallest.clone() };
            if run(&candidate, false).violations.is_empty() {
                from = end;
            } else {
                smallest = candidate;
            }
        }
        cut /= 2;
    }
    smallest
}
