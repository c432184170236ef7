use serde_json::json;

use super::*;
use toolwire_pipeline::{conversation::ToolMedia, event::Opaque};

const OWNER: Owner = Owner([1; 32]);

fn output(id: &str, content: &str) -> CallOutput {
    CallOutput { id: id.to_owned(), name: String::new(), content: content.to_owned(), is_error: false }
}

fn result(id: &str, content: &str) -> Turn {
    Turn::of(Role::Tool, vec![Part::Result(output(id, content))])
}

fn call(id: &str) -> Part {
    Part::Call(Call::new(id, format!("tool_{id}"), "{}"))
}

fn calling(text: &str, ids: &[&str]) -> Turn {
    let text = (!text.is_empty()).then(|| Part::Text(text.into()));
    Turn::of(Role::Assistant, text.into_iter().chain(ids.iter().map(|id| call(id))).collect())
}

/// A turn with the calls `ids`, some of which are `hosted`.
fn record(ids: &[&str], hosted: &[&str]) -> Record {
    Record {
        before: Vec::new(),
        turn: calling("Hm.", ids),
        hosted: hosted.iter().map(|id| (*id).to_owned()).collect(),
        results: hosted.iter().map(|id| output(id, &format!("result of {id}"))).collect(),
        files: Vec::new(),
    }
}

fn asked(turns: Vec<Turn>) -> Conversation {
    let turns = [Turn::text(Role::User, "?")].into_iter().chain(turns).collect();
    Conversation { turns, ..Conversation::default() }
}

async fn restored(deferred: &DeferredTurns, turns: Vec<Turn>) -> Vec<Turn> {
    let mut conversation = asked(turns);
    deferred.restore(&mut conversation, OWNER, Instant::now()).await.unwrap();
    conversation.turns.split_off(1)
}

fn kept(deferred: &Arc<DeferredTurns>, record: Record) {
    let (results, files) = (record.results.clone(), record.files.clone());
    let begun = Record { results: Vec::new(), files: Vec::new(), ..record };
    deferred.begin(OWNER, begun).finish(results, files);
}

fn in_memory() -> Arc<DeferredTurns> {
    Arc::new(DeferredTurns::new(&Stores::in_folder(None)))
}

#[tokio::test]
async fn hosted_calls_and_results_are_put_back_in_call_order() {
    for ids in [["a", "b", "c", "d"], ["b", "a", "d", "c"], ["a", "c", "b", "d"], ["b", "d", "a", "c"]] {
        let deferred = in_memory();
        kept(&deferred, record(&ids, &["a", "c"]));
        let own: Vec<&str> = ids.into_iter().filter(|id| ["b", "d"].contains(id)).collect();
        // The client sends its results in a different order.
        let sent =
            vec![calling("", &own), result("d", "of d"), result("b", "of b"), Turn::text(Role::User, "so?")];
        let turns = restored(&deferred, sent).await;
        let mut expected = vec![calling("Hm.", &ids)];
        expected.extend(ids.map(|id| match id {
            "a" | "c" => result(id, &format!("result of {id}")),
            _ => result(id, &format!("of {id}")),
        }));
        expected.push(Turn::text(Role::User, "so?"));
        assert_eq!(turns, expected);
    }
}

#[tokio::test]
async fn turns_of_earlier_hops_are_put_back() {
    let deferred = in_memory();
    let before = vec![calling("First.", &["x"]), result("x", "of x")];
    kept(&deferred, Record { before: before.clone(), ..record(&["a", "b"], &["a"]) });
    let turns = restored(&deferred, vec![calling("First.\n\nHm.", &["b"]), result("b", "of b")]).await;
    let rest = [calling("Hm.", &["a", "b"]), result("a", "result of a"), result("b", "of b")];
    assert_eq!(turns, [before.as_slice(), &rest].concat());
}

#[tokio::test]
async fn files_are_put_back_with_their_results() {
    let deferred = in_memory();
    let file = ToolMedia::part(json!({"type": "image", "mimeType": "image/png", "data": "AAAA"}));
    let with_file = |mut turn: Turn| {
        turn.parts.push(file.clone());
        turn
    };
    let before = vec![calling("First.", &["x"]), with_file(result("x", "of x"))];
    let files = vec![("a".to_owned(), file.clone())];
    kept(&deferred, Record { before: before.clone(), files, ..record(&["a", "b"], &["a"]) });
    let turns = restored(&deferred, vec![calling("First.\n\nHm.", &["b"]), result("b", "of b")]).await;
    let own = with_file(result("a", "result of a"));
    let rest = [calling("Hm.", &["a", "b"]), own, result("b", "of b")];
    assert_eq!(turns, [before.as_slice(), &rest].concat());
}

#[tokio::test]
async fn a_response_that_is_replayed_in_pieces_is_one_turn_again() {
    let deferred = in_memory();
    kept(&deferred, record(&["b", "a", "c"], &["a"]));
    let sent = vec![
        Turn::text(Role::Assistant, "Hm."),
        calling("", &["b"]),
        calling("", &["c"]),
        Turn::of(Role::Tool, vec![Part::Result(output("b", "of b")), Part::Result(output("c", "of c"))]),
    ];
    let turns = restored(&deferred, sent).await;
    let expected = [
        calling("Hm.", &["b", "a", "c"]),
        result("b", "of b"),
        result("a", "result of a"),
        result("c", "of c"),
    ];
    assert_eq!(turns, expected);
}

#[tokio::test]
async fn a_call_that_the_client_dropped_stays_dropped() {
    let deferred = in_memory();
    kept(&deferred, record(&["a", "b", "c"], &["a"]));
    let turns = restored(&deferred, vec![calling("Hm.", &["c"]), result("c", "of c")]).await;
    assert_eq!(turns, [calling("Hm.", &["a", "c"]), result("a", "result of a"), result("c", "of c")]);
}

#[tokio::test]
async fn what_has_no_record_is_left_as_it_is() {
    let deferred = in_memory();
    kept(&deferred, record(&["a", "b"], &["a"]));
    for sent in [
        vec![calling("Hm.", &["other"]), result("other", "of other")],
        // A turn that also contains a call that the model did not make.
        vec![calling("Hm.", &["b", "other"]), result("b", "of b"), result("other", "of other")],
        vec![Turn::text(Role::Assistant, "Hm."), Turn::text(Role::User, "b")],
        vec![calling("", &["a"]), result("a", "a guess")],
    ] {
        assert_eq!(restored(&deferred, sent.clone()).await, sent);
    }
}

#[tokio::test]
async fn records_belong_to_their_owner() {
    let deferred = in_memory();
    kept(&deferred, record(&["a", "b"], &["a"]));
    let sent = vec![calling("Hm.", &["b"]), result("b", "of b")];
    let mut conversation = asked(sent.clone());
    assert!(!deferred.restore(&mut conversation, Owner([2; 32]), Instant::now()).await.unwrap());
    assert_eq!(conversation, asked(sent));
}

#[tokio::test(start_paused = true)]
async fn the_next_request_waits_for_results() {
    let deferred = in_memory();
    let Record { results, .. } = record(&["a", "b"], &["a"]);
    let pending = deferred.begin(OWNER, Record { results: Vec::new(), ..record(&["a", "b"], &["a"]) });
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        pending.finish(results, Vec::new());
    });
    let mut conversation = asked(vec![calling("Hm.", &["b"]), result("b", "of b")]);
    deferred.restore(&mut conversation, OWNER, Instant::now() + Duration::from_secs(60)).await.unwrap();
    assert_eq!(conversation.turns.get(2), Some(&result("a", "result of a")));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_does_not_come_is_an_error_for_the_model() {
    let deferred = in_memory();
    let pending = deferred.begin(OWNER, Record { results: Vec::new(), ..record(&["a", "b"], &["a"]) });
    let mut conversation = asked(vec![calling("Hm.", &["b"]), result("b", "of b")]);
    deferred.restore(&mut conversation, OWNER, Instant::now() + Duration::from_secs(60)).await.unwrap();
    let Some([Part::Result(result)]) = conversation.turns.get(2).map(|turn| turn.parts.as_slice()) else {
        panic!("no result: {conversation:?}")
    };
    assert!(result.is_error && result.content.contains("cancelled"), "{result:?}");
    drop(pending);
    assert!(deferred.running.lock().is_empty());
}

#[tokio::test]
async fn records_outlive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let first = Arc::new(DeferredTurns::new(&Stores::in_folder(Some(folder.path().to_owned()))));
    let signature = Some(Opaque::new("gemini", "s"));
    let mut own = record(&["a", "b"], &["a"]);
    own.turn.parts.insert(0, Part::Reasoning { text: "why".to_owned(), signature, redacted: false });
    kept(&first, own.clone());
    drop(first);
    let second = DeferredTurns::new(&Stores::in_folder(Some(folder.path().to_owned())));
    let turns = restored(&second, vec![calling("Hm.", &["b"]), result("b", "of b")]).await;
    assert_eq!(turns, [own.turn, result("a", "result of a"), result("b", "of b")]);
}

#[tokio::test]
async fn large_record_of_many_calls_is_kept_once() {
    let deferred = in_memory();
    let ids: Vec<String> = (0..120).map(|number| format!("call_{number}")).collect();
    let all: Vec<&str> = ids.iter().map(String::as_str).chain(["a"]).collect();
    let large = "x".repeat(1 << 20);
    kept(&deferred, Record { results: vec![output("a", &large)], ..record(&["before", "b"], &["b"]) });
    kept(&deferred, Record { results: vec![output("a", &large)], ..record(&all, &["a"]) });
    // Storing one record does not displace the other.
    for id in ["call_0", "call_119"] {
        let turns = restored(&deferred, vec![calling("", &[id]), result(id, "done")]).await;
        assert_eq!(turns.last(), Some(&result("a", &large)), "{id}");
    }
    let turns = restored(&deferred, vec![calling("", &["before"]), result("before", "done")]).await;
    assert_eq!(turns.len(), 3, "{turns:?}");
}

/// A store to which another instance adds a turn during a read.
#[derive(Debug)]
struct Overtaken {
    store: Arc<dyn Store>,
    /// Written after the first read.
    meanwhile: Mutex<Vec<(Key, Bytes)>>,
}

impl Store for Overtaken {
    fn get(&self, key: &Key, now: u64) -> Result<Option<Bytes>, StoreError> {
        let value = self.store.get(key, now);
        for (key, value) in self.meanwhile.lock().drain(..) {
            self.store.put(key, value, now);
        }
        value
    }

    fn put(&self, key: Key, value: Bytes, now: u64) {
        self.store.put(key, value, now);
    }

    fn remove(&self, key: &Key, now: u64) -> Result<bool, StoreError> {
        self.store.remove(key, now)
    }
}

#[test]
fn turn_that_is_put_while_it_is_looked_for_is_found_whole() {
    let record = record(&["a", "b", "c"], &["a"]);
    let meanwhile = vec![
        (Key::new(OWNER, "b"), record_json::write(&record).into()),
        (Key::new(OWNER, "c"), record_json::write_under("b").into()),
    ];
    let store = Stores::in_folder(None).open(Space::Deferred, MAX_BYTES, TTL, Box::new(|_| ()));
    let store = Overtaken { store, meanwhile: Mutex::new(meanwhile) };
    let found = find(&store, OWNER, &["b".to_owned(), "c".to_owned()]).unwrap();
    assert_eq!(found.records.len(), 2, "the record is read behind its pointer");
}

#[test]
fn turns_that_older_versions_kept_are_read() {
    const VERSIONS: &[&str] = &["93faecc2"];
    let fixtures = crate::repository::root().join("fixtures/upgrade");
    for version in VERSIONS {
        let folder = tempfile::tempdir().unwrap();
        let facts = std::fs::read(fixtures.join(version).join("facts.json")).unwrap();
        let facts: serde_json::Value = serde_json::from_slice(&facts).unwrap();
        let file = "deferred.redb";
        std::fs::copy(fixtures.join(version).join("state").join(file), folder.path().join(file)).unwrap();
        let deferred = DeferredTurns::new(&Stores::in_folder(Some(folder.path().to_owned())));
        // The owner that belongs to a client's name.
        let owner = Owner::of_key(b"\0name\0team");
        let kept = deferred.store.get(&Key::new(owner, facts["call"].as_str().unwrap()), 0).unwrap().unwrap();
        let Some(DeferredEntry::Record(record)) = record_json::read(&kept) else {
            panic!("{version}: no record")
        };
        assert_eq!(record.hosted, ["call_lookup"], "{version}");
        assert_eq!(record.client_ids().collect::<Vec<_>>(), [facts["call"].as_str().unwrap()]);
        assert_eq!(
            record.results.iter().map(|result| result.content.as_str()).collect::<Vec<_>>(),
            [r#"{"key":"k1"}"#]
        );
        assert_eq!(record.turn.parts.len(), 3);
    }
}
