//! Tests with a real server, which are skipped if none is installed, and with an unreachable one.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Instant,
};

use bytes::Bytes;

use super::{
    super::{
        Admission, Demand, Key, Lease, NotStored, Owner, Refusal, Revision, SharedLimits, Spent, Store,
        Stores, Verdict,
    },
    *,
};
use crate::wire::hex;

mod cluster;
#[path = "../../../../../tests/support/redis_server.rs"]
mod redis_server;
mod sentinels;

const OWNER: Owner = Owner([7; 32]);
const HOUR: Duration = Duration::from_secs(3600);
const MONTH: &str = "2026-11";

/// Longer than any operation in these tests takes.
const PATIENCE: Duration = Duration::from_secs(30);

fn client(url: &str) -> Arc<RedisServer> {
    Arc::new(RedisServer::new(StoreAddress::parse(url).unwrap(), Box::new(|_| ())).unwrap())
}

/// The stored responses from the perspective of one instance.
fn responses(url: &str) -> Arc<dyn Store> {
    Stores::Redis(client(url)).open(Space::Responses, 1 << 20, HOUR, Box::new(|_| ()))
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: still waiting");
        thread::sleep(Duration::from_millis(20));
    }
}

fn demand() -> Demand {
    Demand {
        owner: OWNER,
        month: MONTH.to_owned(),
        requests_per_minute: None,
        tokens_per_minute: None,
        tokens_per_month: None,
        streams: None,
        tokens: 0,
        takes_place: true,
    }
}

fn ask(server: &RedisServer, demand: &Demand) -> Result<Verdict, super::super::StoreError> {
    let runtime = runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(server.admit(demand.clone()))
}

fn granted(server: &RedisServer, demand: &Demand) -> Lease {
    match ask(server, demand).unwrap().admission {
        Admission::Granted(lease) => lease.unwrap(),
        Admission::Refused(refusal) => panic!("{refusal:?}"),
    }
}

fn refused(server: &RedisServer, demand: &Demand) -> Refusal {
    match ask(server, demand).unwrap().admission {
        Admission::Granted(_) => panic!("it was admitted"),
        Admission::Refused(refusal) => refusal,
    }
}

fn spent(input: u64, output: u64) -> Spent {
    Spent { month: MONTH.to_owned(), input, output }
}

fn key(id: &str) -> Key {
    Key::new(OWNER, id)
}

#[test]
fn other_instance_reads_and_removes_what_one_has_put() {
    let Some(server) = redis_server::RedisServer::start().unwrap() else { return };
    let (first, second) = (responses(&server.url()), responses(&server.url()));
    let keys: Vec<_> = (0..200).map(|number| key(&format!("\0{number}\u{fffd}"))).collect();
    for (number, key) in keys.iter().enumerate() {
        first.put(key.clone(), Bytes::from(format!("value {number}")), now());
    }
    assert_eq!(first.get(&keys[199], now()).unwrap().as_deref(), Some(&b"value 199"[..]), "at once");
    until("values arrive", || second.get_all(&keys, now()).unwrap().iter().all(Option::is_some));
    let read = second.get_all(&[keys[3].clone(), key("none"), keys[7].clone()], now()).unwrap();
    assert_eq!(read, [Some(Bytes::from_static(b"value 3")), None, Some(Bytes::from_static(b"value 7"))]);
    assert_eq!(second.get(&Key::new(Owner([8; 32]), "\u{0}3\u{fffd}"), now()).unwrap(), None);
    assert!(second.remove(&keys[3], now()).unwrap());
    assert!(!second.remove(&keys[3], now()).unwrap());
    assert_eq!(first.get(&keys[3], now()).unwrap(), None);
}

#[test]
fn value_expires_and_too_large_one_is_not_kept() {
    let Some(server) = redis_server::RedisServer::start().unwrap() else { return };
    let lost = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&lost);
    let on_failure =
        Box::new(move |values: NotStored| _ = counted.fetch_add(values.count(), Ordering::Relaxed));
    let ttl = Duration::from_secs(1);
    let short = Stores::Redis(client(&server.url())).open(Space::Results, 1, ttl, on_failure);
    short.put(key("x"), Bytes::from_static(b"one"), now());
    until("it expires", || short.get(&key("x"), now()).unwrap().is_none());
    short.put(key("x"), Bytes::from(vec![0; (32 << 20) + 1]), now());
    assert_eq!((short.get(&key("x"), now()).unwrap(), lost.load(Ordering::Relaxed)), (None, 1));
}

#[test]
fn value_that_is_too_large_is_not_read_whole() {
    let Some(server) = redis_server::RedisServer::start().unwrap() else { return };
    let store = responses(&server.url());
    let place = format!("{}{{{}}}:big", Space::Responses.prefix(), hex::encode(&OWNER.0));
    let extend = |size: usize| server.said(&format!("SETRANGE {place} {} x", size - 1));
    let sent = || {
        let stats = server.said("INFO stats");
        let line =
            stats.lines().find_map(|line| line.trim().strip_prefix("total_net_output_bytes:")).unwrap();
        line.parse::<usize>().unwrap()
    };
    let most = 32 << 20;
    extend(most);
    assert_eq!(store.get(&key("big"), now()).unwrap().map(|value| value.len()), Some(most));
    extend(500 << 20);
    let before = sent();
    let error = store.get(&key("big"), now()).unwrap_err().to_string();
    assert!(error.contains("more than 33554432 bytes"), "{error}");
    let read = sent() - before;
    assert!((most..most + (1 << 20)).contains(&read), "{read}");
    assert_eq!(store.get(&key("small"), now()).unwrap(), None);
}

#[test]
fn what_is_put_while_the_server_is_away_is_written_later() {
    let Some(mut server) = redis_server::RedisServer::start().unwrap() else { return };
    let (first, second) = (responses(&server.url()), responses(&server.url()));
    first.put(key("before"), Bytes::from_static(b"1"), now());
    until("it is there", || second.get(&key("before"), now()).unwrap().is_some());
    server.kill().unwrap();
    until("it is away", || second.get(&key("before"), now()).is_err());
    first.put(key("meanwhile"), Bytes::from_static(b"2"), now());
    assert_eq!(first.get(&key("meanwhile"), now()).unwrap().as_deref(), Some(&b"2"[..]));
    assert!(second.remove(&key("before"), now()).is_err());
    server.restart().unwrap();
    until("it is back", || second.get(&key("meanwhile"), now()).is_ok_and(|value| value.is_some()));
    assert_eq!(second.get(&key("before"), now()).unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn many_instances_admit_no_more_than_the_limit() {
    let Some(server) = redis_server::RedisServer::start().unwrap() else { return };
    let instances: Vec<_> = (0..4).map(|_| client(&server.url())).collect();
    let wanted = Demand { requests_per_minute: Some(30), ..demand() };
    let (admitted, begun) = (AtomicU64::new(0), Instant::now());
    thread::scope(|scope| {
        for instance in &instances {
            scope.spawn(|| {
                for _ in 0..40 {
                    let verdict = ask(instance, &wanted).unwrap();
                    let granted = u64::from(matches!(verdict.admission, Admission::Granted(_)));
                    admitted.fetch_add(granted, Ordering::Relaxed);
                }
            });
        }
    });
    // The bucket refills one request every two seconds.
    let back = begun.elapsed().as_secs() / 2 + 1;
    let admitted = admitted.into_inner();
    assert!((30..=30 + back).contains(&admitted), "{admitted}");
    let Refusal::Requests(wait) = refused(&instances[0], &wanted) else { panic!("another limit") };
    assert!(wait <= Duration::from_secs(2), "{wait:?}");
}

#[test]
fn tokens_that_were_not_used_come_back_and_more_than_was_taken_is_owed() {
    let Some(server) = redis_server::RedisServer::start().unwrap() else { return };
    let (first, second) = (client(&server.url()), client(&server.url()));
    let wanted = Demand { tokens_per_minute: Some(1000), tokens: 900, ..demand() };
    let lease = granted(&first, &wanted);
    assert!(matches!(refused(&second, &wanted), Refusal::Tokens(_)));
    lease.settle(spent(60, 40));
    let mut lease = None;
    until("tokens come back", || match ask(&second, &wanted).unwrap().admission {
        Admission::Granted(granted) => {
            lease = granted;
            true
        }
        Admission::Refused(_) => false,
    });
    let small = Demand { tokens: 1, ..wanted };
    lease.unwrap().settle(spent(0, 5000));
    until(
        "the debt is known",
        || matches!(refused(&first, &small), Refusal::Tokens(wait) if wait > Duration::from_secs(120)),
    );
    let Verdict { month, tokens_full_in, .. } = ask(&first, &small).unwrap();
    assert_eq!(month, (2, 60, 5040));
    assert!(tokens_full_in > Duration::from_secs(180), "{tokens_full_in:?}");
}

#[test]
fn places_and_budget_are_shared_and_come_back() {
    let Some(server) = redis_server::RedisServer::start().unwrap() else { return };
    let (first, second) = (client(&server.url()), client(&server.url()));
    let one = Demand { streams: Some(1), ..demand() };
    let lease = granted(&first, &one);
    assert_eq!(refused(&second, &one), Refusal::Streams);
    drop(lease);
    until("the place is free", || matches!(ask(&second, &one).unwrap().admission, Admission::Granted(_)));

    let own = Owner([9; 32]);
    let budget = Demand { owner: own, tokens_per_month: Some(100), tokens: 100, ..demand() };
    let lease = granted(&first, &budget);
    assert_eq!(refused(&second, &budget), Refusal::MonthReserved);
    lease.settle(spent(50, 49));
    until("one is left", || matches!(ask(&second, &budget).unwrap().admission, Admission::Granted(_)));
    // The lease was dropped without being settled, so nothing counts as used.
    until("it is given back", || match ask(&second, &budget).unwrap().admission {
        Admission::Granted(lease) => {
            lease.unwrap().settle(spent(1, 0));
            true
        }
        Admission::Refused(refusal) => {
            assert_eq!(refusal, Refusal::MonthReserved);
            false
        }
    });
    until("it is used up", || match ask(&first, &budget).unwrap().admission {
        Admission::Granted(_) => panic!("nothing is left"),
        Admission::Refused(refusal) => refusal == Refusal::Month,
    });
}

#[test]
fn request_that_does_not_wait_for_its_answer_leaves_nothing() {
    let Some(server) = redis_server::RedisServer::start().unwrap() else { return };
    let instance = client(&server.url());
    let one = Demand { streams: Some(1), ..demand() };
    drop(instance.admit(one.clone()));
    until("the place is free", || matches!(ask(&instance, &one).unwrap().admission, Admission::Granted(_)));
}

#[test]
fn usage_is_counted_once_when_the_server_was_away() {
    let Some(mut server) = redis_server::RedisServer::start().unwrap() else { return };
    let instance = client(&server.url());
    let lease = granted(&instance, &demand());
    server.kill().unwrap();
    until("it is away", || ask(&instance, &demand()).is_err());
    lease.settle(spent(10, 1));
    instance.unchecked(OWNER, MONTH.to_owned()).settle(spent(20, 2));
    server.restart().unwrap();
    until("it is counted", || {
        let plain = Demand { takes_place: false, ..demand() };
        ask(&instance, &plain).is_ok_and(|verdict| (verdict.month.1, verdict.month.2) == (30, 3))
    });
}

/// Forwards connections to `port`, but no answers while `is_mute` is set. Returns the URL.
fn proxy(port: u16, is_mute: &Arc<AtomicBool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let is_mute = Arc::clone(is_mute);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { return };
            let (mut asked, mut answers) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let (mut client, mut server, is_mute) = (client, server, Arc::clone(&is_mute));
            thread::spawn(move || io::copy(&mut asked, &mut server));
            thread::spawn(move || {
                let mut read = [0; 4096];
                while let Ok(count @ 1..) = answers.read(&mut read) {
                    if is_mute.load(Ordering::Relaxed) || client.write_all(&read[..count]).is_err() {
                        break;
                    }
                }
                let _ = client.shutdown(Shutdown::Both);
            });
        }
    });
    url
}

#[test]
fn request_whose_admission_did_not_arrive_is_counted_once() {
    let Some(server) = redis_server::RedisServer::start().unwrap() else { return };
    let is_mute = Arc::new(AtomicBool::new(false));
    let instance = client(&proxy(server.port(), &is_mute));
    granted(&instance, &demand()).settle(spent(10, 1));
    let client = hex::encode(&OWNER.0);
    let counted = |what: &str| server.said(&format!("HGET toolwire:limits:{{{client}}}:{MONTH} {what}"));
    until("the first is counted", || counted("input").contains("10"));
    is_mute.store(true, Ordering::Relaxed);
    assert!(ask(&instance, &demand()).is_err());
    assert!(counted("requests").contains('2'), "the server has admitted it");
    instance.unchecked(OWNER, MONTH.to_owned()).settle(spent(20, 2));
    is_mute.store(false, Ordering::Relaxed);
    until("the second is counted", || counted("input").contains("30"));
    until("the second is counted once", || counted("requests").contains('2'));
    let leases = server.said(&format!("ZCARD toolwire:limits:{{{client}}}:leases"));
    assert!(leases.contains('0'), "{leases}");
}

/// Blocks until `asked` has completed, and returns its result.
fn wait<T>(asked: Asked<T>) -> T {
    runtime::Builder::new_current_thread().build().unwrap().block_on(asked)
}

#[test]
fn text_is_changed_by_one_instance_at_a_time() {
    let Some(mut server) = redis_server::RedisServer::start().unwrap() else { return };
    let text = || Stores::Redis(client(&server.url())).text("permissions").unwrap();
    let instances = [text(), text()];
    let mut known = Revision::default();
    assert_eq!(wait(instances[0].newest(&known)).unwrap(), None, "there is none");
    thread::scope(|scope| {
        for text in instances.iter().chain(&instances) {
            scope.spawn(|| {
                for _ in 0..25 {
                    let (mut revision, mut count) = (Revision::default(), 0);
                    loop {
                        if let Some(newest) = wait(text.newest(&revision)).unwrap() {
                            (revision, count) = (newest.revision, newest.text.parse::<u32>().unwrap());
                        }
                        let replaced = wait(text.replace(&revision, (count + 1).to_string())).unwrap();
                        if replaced.is_some() {
                            break;
                        }
                    }
                }
            });
        }
    });
    let newest = wait(instances[1].newest(&known)).unwrap().unwrap();
    assert_eq!(newest.text, "100");
    known = newest.revision;
    assert_eq!(wait(instances[0].newest(&known)).unwrap(), None, "it is known");
    server.kill().unwrap();
    until("it is away", || wait(instances[0].newest(&known)).is_err());
    assert!(wait(instances[0].replace(&known, "1".to_owned())).is_err());
}

#[test]
fn server_that_never_answers_delays_nothing_for_long() {
    // The listener accepts connections but never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let instance = client(&format!("redis://{}", listener.local_addr().unwrap()));
    let store = Stores::Redis(Arc::clone(&instance)).open(Space::Responses, 1, HOUR, Box::new(|_| ()));
    assert!(store.get(&key("x"), now()).is_err());
    until("it is away", || instance.inner.outage.lasts());
    assert!(ask(&instance, &demand()).is_err() && store.get(&key("x"), now()).is_err());
    store.put(key("x"), Bytes::from_static(b"1"), now());
    assert_eq!(store.get(&key("x"), now()).unwrap().as_deref(), Some(&b"1"[..]));
}
