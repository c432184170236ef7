//! Tests law 3 for hosted tools: for any sequence of hops, texts and calls, and any split, the client gets the
//! planned answer, and every hosted call runs exactly once.

use bytes::BytesMut;
use proptest::prelude::*;
use serde_json::json;
use toolwire::{
    conversation::{Conversation, Part, Tool},
    dialect::ClientDialect,
    pipeline::{FollowUp, Pipeline, Reason, State},
    rules::{HostedRules, MixedTurns, Rules},
};

use crate::laws::tries;
use crate::support::{
    exchange::{Exchange, request, tools},
    upstream::Speech,
};

#[derive(Debug, Clone)]
enum Step {
    Text(String),
    /// A call, with flags for whether its tool is hosted and whether it is written as text.
    Call {
        is_hosted: bool,
        is_written: bool,
    },
}

use Step::{Call, Text};

const MODES: [MixedTurns; 3] = [MixedTurns::Defer, MixedTurns::ServerFirst, MixedTurns::ClientOnly];

#[derive(Debug, Clone)]
struct Plan {
    hops: Vec<Vec<Step>>,
    mode: MixedTurns,
    speech: Speech,
    client: ClientDialect,
    stream: bool,
    size: usize,
}

/// The arguments contain the number of the call, which makes every call unique.
fn arguments(number: usize) -> String {
    format!(r#"{{"n":{number}}}"#)
}

/// The answer that the client must get, and the calls that must run.
#[derive(Debug, Default, PartialEq)]
struct Expected {
    text: String,
    sent: Vec<String>,
    ran: Vec<String>,
    hops: usize,
}

impl Plan {
    fn responses(&self) -> Vec<Vec<u8>> {
        let mut number = 0;
        let response = |hop: &Vec<Step>| {
            let (mut events, mut index) = (Vec::new(), 0);
            for step in hop {
                match step {
                    Text(text) => events.push(json!(["m", text])),
                    Call { is_hosted, is_written } => {
                        let name = if *is_hosted { "hosted" } else { "own" };
                        let arguments = arguments(number);
                        number += 1;
                        if *is_written {
                            let call = format!(r#"{{"name":"{name}","arguments":{arguments}}}"#);
                            events.push(json!(["m", format!("<tool_call>{call}</tool_call>")]));
                            continue;
                        }
                        // The server numbers its calls from 0, so IDs repeat in every hop.
                        let call = json!({"index": index, "id": format!("call_{index}"), "type": "function",
                            "function": {"name": name, "arguments": arguments}});
                        index += 1;
                        events.push(json!(["d", {"tool_calls": [call]}]));
                    }
                }
            }
            events.extend([json!(["fin", if index > 0 { "tool_calls" } else { "stop" }]), json!(["done"])]);
            self.speech.stream(&events)
        };
        self.hops.iter().map(response).collect()
    }

    fn expected(&self) -> Expected {
        let mut expected = Expected::default();
        let mut number = 0;
        for hop in &self.hops {
            expected.hops += 1;
            let (mut text, mut own, mut hosted) = (String::new(), Vec::new(), Vec::new());
            for step in hop {
                match step {
                    Text(more) => text.push_str(more),
                    Call { is_hosted, .. } => {
                        if *is_hosted { &mut hosted } else { &mut own }.push(arguments(number));
                        number += 1;
                    }
                }
            }
            if !text.is_empty() && !expected.text.is_empty() {
                expected.text.push_str("\n\n");
            }
            expected.text.push_str(&text);
            let goes_on = !hosted.is_empty() && (own.is_empty() || self.mode == MixedTurns::ServerFirst);
            if goes_on || self.mode == MixedTurns::Defer || own.is_empty() {
                expected.ran.append(&mut hosted);
            }
            if goes_on && expected.hops < self.hops.len() {
                continue;
            }
            expected.sent = own;
            return expected;
        }
        expected
    }

    fn conversation(&self) -> Conversation {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let mut conversation = request(&json!({"stream": self.stream, "tools": tools(["own"], &schema)}));
        let parameters = conversation.tools[0].parameters.clone();
        conversation.tools.push(Tool { parameters, ..Tool::named("hosted") });
        conversation.hosted_tools.push("hosted".to_owned());
        conversation
    }
}

fn push(pipeline: &mut Pipeline, response: &[u8], size: usize, out: &mut BytesMut) {
    response.chunks(size).for_each(|piece| _ = pipeline.push(piece, out));
    pipeline.finish(out);
}

fn run(follow_up: &FollowUp, ran: &mut Vec<String>) {
    assert_eq!(follow_up.reason, Reason::Hosted);
    let turn = follow_up.turns.last().unwrap();
    let ids = turn.parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(&call.id),
        _ => None,
    });
    let ids = ids.collect::<Vec<_>>();
    assert!(ids.iter().enumerate().all(|(at, id)| !id.is_empty() && !ids[..at].contains(id)), "{ids:?}");
    assert!(follow_up.hosted.iter().all(|call| ids.contains(&&call.id)));
    ran.extend(follow_up.hosted.iter().map(|call| call.arguments.clone()));
}

/// Generates a hop. Most calls go to hosted tools, so that there are many hops.
fn hop() -> impl Strategy<Value = Vec<Step>> {
    let call = |is_hosted: bool| any::<bool>().prop_map(move |is_written| Call { is_hosted, is_written });
    prop::collection::vec(
        prop_oneof![4 => "[a-z]{1,9}".prop_map(Text), 4 => call(true), 1 => call(false)],
        0..6,
    )
}

fn plan() -> impl Strategy<Value = Plan> {
    let hops = prop::collection::vec(hop(), 1..5);
    let speech =
        prop::sample::select(&[Speech::Chat, Speech::Messages, Speech::Responses, Speech::LumoV2][..]);
    let client = prop::sample::select(ClientDialect::all().collect::<Vec<_>>());
    let size = prop::sample::select(&[1, 3, 17, 1 << 20][..]);
    (hops, prop::sample::select(&MODES[..]), speech, client, any::<bool>(), size).prop_map(
        |(hops, mode, speech, client, stream, size)| Plan { hops, mode, speech, client, stream, size },
    )
}

proptest! {
    #![proptest_config(tries(400))]

    #[test]
    fn answer_is_that_of_the_plan_and_every_hosted_call_runs_once(plan in plan()) {
        let exchange = Exchange {
            client: plan.client,
            ..Exchange::new(plan.conversation(), Rules::default(), plan.speech)
        };
        let mut pipeline = exchange.pipeline();
        pipeline.host(HostedRules { mixed_turns: plan.mode, ..HostedRules::default() });
        let (mut out, mut ran, mut hops) = (BytesMut::new(), Vec::new(), 0);
        for response in plan.responses() {
            if hops > 0 {
                pipeline.resume(exchange.reader(), &mut out);
            }
            hops += 1;
            push(&mut pipeline, &response, plan.size, &mut out);
            match pipeline.follow_up() {
                Some(follow_up) => run(follow_up, &mut ran),
                None => break,
            }
        }
        pipeline.end(&mut out);
        if let Some(deferred) = pipeline.take_deferred() {
            ran.extend(deferred.hosted.iter().map(|call| call.arguments.clone()));
        }
        prop_assert_eq!(pipeline.state(), State::Done);
        let answer = exchange.ended(&mut pipeline, out);
        let expected = plan.expected();
        let sent: Vec<String> = answer.calls.iter().map(|call| call.arguments.clone()).collect();
        let got = Expected { text: answer.text.clone(), sent, ran, hops };
        prop_assert_eq!(&got, &expected);
        prop_assert!(answer.calls.iter().all(|call| call.name == "own"));
        let mut ids: Vec<&String> = answer.calls.iter().map(|call| &call.id).collect();
        ids.sort();
        ids.dedup();
        prop_assert_eq!(ids.len(), expected.sent.len());
        let finish = answer.finish.as_deref().unwrap_or_default();
        let calls = ["tool_calls", "tool_use"].contains(&finish);
        prop_assert!(calls != expected.sent.is_empty() || plan.client == ClientDialect::Responses, "{}", finish);
    }
}
