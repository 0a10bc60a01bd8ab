//! The simulator itself: the same seed is the same history, and it notices what it is there to notice.

use crate::{
    contract::{self, Stage},
    lake::{Lake, Mishap, SimReplica, SimTable, Simulated},
    member::{GROUP, Handle},
    run::run,
    scenario::Scenario,
    world::World,
};

#[test]
fn the_same_seed_gives_the_same_trace_to_the_letter() {
    for seed in 0..20 {
        let scenario = Scenario::draw(seed);
        let (first, second) = (run(&scenario, true), run(&scenario, true));
        assert!(first.trace.len() > 10, "{first:?}");
        assert_eq!(first, second, "seed {seed}");
    }
}

#[test]
fn two_hundred_histories_keep_every_promise() {
    for seed in 0..200 {
        let outcome = run(&Scenario::draw(seed), false);
        assert!(outcome.violations.is_empty(), "seed {seed}: {:?}", outcome.violations);
    }
}

/// One member on a simulated lake, without a history.
struct Alone(std::sync::Arc<std::sync::Mutex<World>>);

impl Stage for Alone {
    type Replica = SimReplica;

    async fn writer(&self) -> SimReplica {
        Simulated.open(&Handle::new(&self.0, 0), 0, GROUP).await
    }

    async fn table(&self) -> SimTable {
        Simulated.table(&Handle::new(&self.0, 0), 0).await
    }

    fn next(&self, mishap: Mishap) {
        self.0.lock().unwrap().lake.mishaps.push(mishap);
    }
}

#[tokio::test(start_paused = true)]
async fn the_simulated_lake_keeps_the_contract() {
    let scenario = Scenario { tables: 1, members: 1, ..Scenario::draw(0) };
    contract::every_case(|| Alone(std::sync::Arc::new(std::sync::Mutex::new(World::new(&scenario, false))))).await;
}
