//! Tests plans of hops and calls for every pair of dialects: the client gets the planned answer, every hosted call
//! runs once, and the history in every upstream request follows the plan.

use proptest::{prelude::*, test_runner::Config};

use super::plan::{Hop, Plan, SPEECHES, Speaker, WITH_STATE, hop};
use crate::independent::generated::tries;

#[tokio::test]
async fn hosted_calls_run_between_every_pair_of_dialects() {
    let hops = [hop("Let me look.", "s"), hop("It rains.", "")];
    for speech in SPEECHES {
        for speaker in Speaker::ALL {
            for stream in [true, false] {
                Plan { stream, ..Plan::new(&hops, speech, speaker) }.play().await;
            }
        }
    }
}

#[tokio::test]
async fn mixed_turns_are_completed_between_every_pair_of_dialects() {
    for calls in ["sc", "cs", "scsc"] {
        let hops = [hop("First.", "s"), hop("Hm.", calls), hop("So.", "c"), hop("Done.", "")];
        for speech in SPEECHES {
            for speaker in Speaker::ALL {
                let stream = calls != "cs";
                Plan { stream, in_order: false, ..Plan::new(&hops, speech, speaker) }.play().await;
            }
        }
    }
}

/// Without IDs, results can only be matched to calls by their order.
#[tokio::test]
async fn results_of_the_client_alone_are_in_the_order_of_the_calls_where_there_are_no_ids() {
    let hops = [hop("Both.", "cc"), hop("Hm.", "sccs"), hop("Done.", "")];
    for speech in SPEECHES {
        for speaker in Speaker::ALL {
            Plan { in_order: false, ..Plan::new(&hops, speech, speaker) }.play().await;
        }
    }
}

#[tokio::test]
async fn mixed_turns_outlive_restarts() {
    let hops = [hop("First.", "s"), hop("Hm.", "scs"), hop("", "c"), hop("Again.", "cs"), hop("Done.", "")];
    for speaker in Speaker::ALL {
        Plan { restarts: true, ..Plan::new(&hops, SPEECHES[0], speaker) }.play().await;
    }
}

#[tokio::test]
async fn state_returns_with_the_turns_of_hosted_and_mixed_hops() {
    let hops = [hop("First.", "s"), hop("Hm.", "sc"), hop("So.", "c"), hop("Then.", "ss"), hop("Done.", "")];
    for speech in WITH_STATE {
        for speaker in Speaker::ALL {
            for stream in [true, false] {
                Plan { states: true, stream, ..Plan::new(&hops, speech, speaker) }.play().await;
            }
        }
    }
}

/// Generates a plan whose last hop has text and no calls.
fn plan() -> impl Strategy<Value = Plan> {
    let hop = ("[a-z]{0,9}", prop::collection::vec(prop::bool::weighted(0.7), 1..4));
    let hops = prop::collection::vec(hop.prop_map(|(text, calls)| Hop { text, calls }), 0..5);
    let hops = hops.prop_map(|mut hops| {
        hops.push(super::plan::hop("The end.", ""));
        hops
    });
    let carried = (
        prop::sample::select(&SPEECHES[..]),
        prop::sample::select(&Speaker::ALL[..]),
        prop::sample::select(&[1, 3, 17, 1 << 20][..]),
    );
    (hops, carried, any::<[bool; 4]>()).prop_map(
        |(hops, (speech, speaker, size), [stream, in_order, restarts, states])| {
            let states = states && !restarts && WITH_STATE.contains(&speech);
            Plan { stream, size, in_order, restarts, states, ..Plan::new(&hops, speech, speaker) }
        },
    )
}

proptest! {
    #![proptest_config(Config { max_shrink_iters: 200, ..tries(24) })]

    #[test]
    fn any_plan_is_played_to_its_end(plan in plan()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(plan.play());
    }
}
