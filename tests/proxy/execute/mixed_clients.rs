//! Tests turns that call both hosted tools and the client's: the modes `server_first` and `client_only`, and
//! clients that send results twice, late or never.

use serde_json::{Value, json};

use super::{
    plan::{History, Hop, Past, Plan, SPEECHES, Speaker, history, hop, notes, ran},
    script::speaking,
};
use crate::{independent::upstream::Speech, support::soon};

const MODES: [&str; 2] = ["server_first", "client_only"];

/// Returns the first hop as the upstream's history must contain it, with only the calls that `is_in` selects.
fn past(hop: &Hop, is_in: impl Fn(bool) -> bool, result: impl Fn(usize, bool) -> String) -> Past {
    let calls = hop.calls.iter().enumerate().filter(|(_, is_hosted)| is_in(**is_hosted));
    Past {
        state: None,
        text: hop.text.clone(),
        calls: calls
            .clone()
            .map(|(number, is_hosted)| {
                let name = if *is_hosted { "hosted" } else { "own" };
                (name.to_owned(), json!({"n": number}))
            })
            .collect(),
        results: calls.map(|(number, is_hosted)| result(number, *is_hosted)).collect(),
    }
}

fn found(number: usize) -> String {
    format!("found {{\"n\":{number}}}")
}

fn told(number: usize) -> String {
    format!("told {{\"n\":{number}}}")
}

/// The model is told that the client's calls were not run, and makes them again.
#[tokio::test]
async fn hosted_calls_run_first_for_every_client() {
    for speaker in Speaker::ALL {
        for (calls, stream) in [("sc", true), ("cs", true), ("csc", false)] {
            let hops = [hop("Hm.", calls), hop("So.", "c"), hop("Done.", "")];
            let plan = Plan { mode: MODES[0], stream, ..Plan::new(&hops, Speech::Messages, speaker) };
            let (upstream, asked) = speaking(plan.responses(), 7).await;
            let folder = tempfile::tempdir().unwrap();
            let proxy = plan.setup(&upstream, folder.path()).start().await;
            let mut client = History::new(speaker);
            let (answer, id) = plan.ask(&proxy, &client).await;
            assert_eq!((answer.text.as_str(), answer.calls.len()), ("Hm.\n\nSo.", 1), "{plan:?}");
            assert_eq!(answer.finish.as_deref(), Some("tool_calls"));
            let past = |not_executed: &str| {
                past(
                    &hops[0],
                    |_| true,
                    |number, is_hosted| {
                        if is_hosted { found(number) } else { not_executed.to_owned() }
                    },
                )
            };
            let seen = history(plan.speech, &asked.lock().unwrap()[1]);
            let not_executed = "This call was not executed. If it is still needed, call the tool again.";
            assert_eq!(seen, [past(not_executed)], "{plan:?}");
            // The client's history lacks the first turn. A turn can only be found by one of its client calls, and that
            // turn had none.
            client.add(&answer, id, true);
            let (answer, _) = plan.ask(&proxy, &client).await;
            assert_eq!((answer.text.as_str(), answer.finish.as_deref()), ("Done.", Some("stop")), "{plan:?}");
            assert_eq!(ran(folder.path(), 1).await.len(), 1);
        }
    }
}

#[tokio::test]
async fn hosted_calls_beside_the_client_s_are_dropped_for_every_client() {
    for speaker in Speaker::ALL {
        for (calls, stream) in [("sc", true), ("cs", true), ("scsc", false)] {
            let hops = [hop("Hm.", calls), hop("Done.", "")];
            let plan = Plan { mode: MODES[1], stream, ..Plan::new(&hops, Speech::Responses, speaker) };
            let (upstream, asked) = speaking(plan.responses(), 7).await;
            let folder = tempfile::tempdir().unwrap();
            let proxy = plan.setup(&upstream, folder.path()).start().await;
            let mut client = History::new(speaker);
            let (answer, id) = plan.ask(&proxy, &client).await;
            assert_eq!(
                (answer.text.as_str(), answer.finish.as_deref()),
                ("Hm.", Some("tool_calls")),
                "{plan:?}"
            );
            client.add(&answer, id, true);
            let (answer, _) = plan.ask(&proxy, &client).await;
            assert_eq!(answer.text, "Done.");
            let seen = history(plan.speech, &asked.lock().unwrap()[1]);
            let expected = past(&hops[0], |is_hosted| !is_hosted, |number, _| told(number));
            assert_eq!(seen, [expected], "{plan:?}");
            assert!(!notes(folder.path()).exists(), "a hosted call ran: {plan:?}");
        }
    }
}

/// Both requests wait for the hosted call, which runs only once.
#[tokio::test]
async fn results_that_come_twice_at_the_same_time_get_the_same_history() {
    for speaker in Speaker::ALL {
        let hops = [hop("Hm.", "scs"), hop("Done.", ""), hop("Done.", ""), hop("Done.", "")];
        let plan = Plan { work: "sleep 0.3".to_owned(), ..Plan::new(&hops, SPEECHES[1], speaker) };
        let (upstream, asked) = speaking(plan.responses(), 1 << 20).await;
        let folder = tempfile::tempdir().unwrap();
        let proxy = plan.setup(&upstream, folder.path()).start().await;
        let mut client = History::new(speaker);
        let (answer, id) = plan.ask(&proxy, &client).await;
        client.add(&answer, id, true);
        let (first, second) = tokio::join!(plan.ask(&proxy, &client), plan.ask(&proxy, &client));
        let (third, _) = plan.ask(&proxy, &client).await;
        assert!([&first.0, &second.0, &third].iter().all(|answer| answer.text == "Done."));
        let asked = asked.lock().unwrap().clone();
        let expected = past(
            &hops[0],
            |_| true,
            |number, is_hosted| {
                if is_hosted { found(number) } else { told(number) }
            },
        );
        for request in &asked[1..] {
            assert_eq!(history(plan.speech, request), std::slice::from_ref(&expected), "{plan:?}");
        }
        assert_eq!(asked.len(), 4);
        assert_eq!(ran(folder.path(), 2).await.len(), 2);
    }
}

/// A client may leave out the result of one of its calls.
#[tokio::test]
async fn client_that_drops_one_of_its_calls_still_gets_the_hosted_results() {
    let hops = [hop("Hm.", "csc"), hop("Done.", "")];
    let plan = Plan::new(&hops, Speech::Chat, Speaker::Chat);
    let (upstream, asked) = speaking(plan.responses(), 1 << 20).await;
    let folder = tempfile::tempdir().unwrap();
    let proxy = plan.setup(&upstream, folder.path()).start().await;
    let mut client = History::new(Speaker::Chat);
    let (mut answer, id) = plan.ask(&proxy, &client).await;
    answer.calls.truncate(1);
    client.add(&answer, id, true);
    client.say("And tomorrow?");
    let (answer, _) = plan.ask(&proxy, &client).await;
    assert_eq!(answer.text, "Done.");
    let asked = asked.lock().unwrap();
    let seen = history(plan.speech, &asked[1]);
    let calls: Vec<_> = seen[0].calls.iter().map(|(_, arguments)| arguments["n"].clone()).collect();
    assert_eq!((calls, &seen[0].results), (vec![json!(0), json!(1)], &vec![told(0), found(1)]));
    let last = asked[1]["messages"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["role"], &last["content"]), (&json!("user"), &json!("And tomorrow?")));
}

#[tokio::test]
async fn client_that_never_comes_back_holds_up_nothing() {
    let hops = [hop("Hm.", "sc"), hop("Hm.", "sc")];
    let plan = Plan { work: "sleep 0.1".to_owned(), ..Plan::new(&hops, Speech::Chat, Speaker::Messages) };
    let (upstream, _) = speaking(plan.responses(), 1 << 20).await;
    let folder = tempfile::tempdir().unwrap();
    let mut proxy = plan.setup(&upstream, folder.path()).start().await;
    plan.ask(&proxy, &History::new(Speaker::Messages)).await;
    assert_eq!(ran(folder.path(), 1).await, [r#"{"n":0}"#], "it runs although the client has left");
    plan.ask(&proxy, &History::new(Speaker::Messages)).await;
    proxy.stop();
    soon("the end of the server", proxy.ended()).await;
}

/// A record belongs to the client that got the response.
#[tokio::test]
async fn result_under_a_foreign_client_s_key_gets_no_hosted_results() {
    let hops = [hop("Hm.", "sc"), hop("Done.", ""), hop("Done.", "")];
    let plan = Plan { key: "alice", ..Plan::new(&hops, Speech::Chat, Speaker::Chat) };
    let (upstream, asked) = speaking(plan.responses(), 1 << 20).await;
    let folder = tempfile::tempdir().unwrap();
    let mut setup = plan.setup(&upstream, folder.path());
    setup.keys = vec!["alice", "bob"];
    let proxy = setup.start().await;
    let mut client = History::new(Speaker::Chat);
    let (answer, id) = plan.ask(&proxy, &client).await;
    client.add(&answer, id, true);
    Plan { key: "bob", ..plan.clone() }.ask(&proxy, &client).await;
    plan.ask(&proxy, &client).await;
    let asked = asked.lock().unwrap();
    let calls = |request: &Value| history(Speech::Chat, request)[0].calls.len();
    assert_eq!((calls(&asked[1]), calls(&asked[2])), (1, 2));
}
