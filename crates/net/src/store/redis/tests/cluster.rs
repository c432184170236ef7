//! Tests with a cluster.

use super::{
    redis_server::{RedisCluster, expect_ok},
    *,
};

/// Enough clients that each server has the keys of some of them.
const CLIENTS: u8 = 24;

fn owners() -> impl Iterator<Item = Owner> {
    (0..CLIENTS).map(|number| Owner([number; 32]))
}

/// The owners whose keys are on the given one of three servers.
fn owners_at(server: usize) -> Vec<Owner> {
    let slots = [0..=5460, 5461..=10921, 10922..=16383];
    owners().filter(|owner| slot_of(*owner).is_in(&slots[server..=server])).collect()
}

fn slot_of(owner: Owner) -> slots::Slot {
    slots::Slot::of(format!("{{{}}}", hex::encode(&owner.0)).as_bytes())
}

fn demand_of(owner: Owner) -> Demand {
    Demand { owner, ..demand() }
}

fn is_there(store: &Arc<dyn Store>, key: &Key, value: &[u8]) -> bool {
    store.get(key, now()).is_ok_and(|found| found.as_deref() == Some(value))
}

/// The client's usage as counted by the cluster.
fn month_of(instance: &RedisServer, owner: Owner) -> Option<(u64, u64, u64)> {
    let plain = Demand { takes_place: false, ..demand_of(owner) };
    ask(instance, &plain).ok().map(|verdict| verdict.month)
}

#[test]
fn instances_share_values_limits_and_texts_of_a_cluster() {
    let Some(cluster) = RedisCluster::start(3).unwrap() else { return };
    let instances = [client(&cluster.url()), client(&cluster.url())];
    let stores = instances.each_ref().map(|instance| {
        Stores::Redis(Arc::clone(instance)).open(Space::Responses, 1, HOUR, Box::new(|_| ()))
    });
    assert!((0..3).all(|server| owners_at(server).len() > 2));
    let keys: Vec<_> = owners().map(|owner| Key::new(owner, "{x}")).collect();
    for key in &keys {
        stores[0].put(key.clone(), Bytes::from(format!("{key:?}")), now());
    }
    until("values arrive", || stores[1].get_all(&keys, now()).unwrap().iter().all(Option::is_some));
    let read = stores[1].get_all(&keys, now()).unwrap();
    let expected: Vec<_> = keys.iter().map(|key| Some(Bytes::from(format!("{key:?}")))).collect();
    assert_eq!(read, expected, "in the order of their keys");
    assert!(keys.iter().all(|key| stores[1].remove(key, now()).unwrap()));
    assert_eq!(stores[0].get_all(&keys, now()).unwrap(), vec![None; keys.len()]);

    for owner in owners() {
        let one = Demand { streams: Some(1), ..demand_of(owner) };
        let lease = granted(&instances[0], &one);
        assert_eq!(refused(&instances[1], &one), Refusal::Streams);
        lease.settle(spent(3, 4));
        until("it is settled", || month_of(&instances[1], owner).is_some_and(|month| month.1 + month.2 == 7));
    }
    let text = |instance: &Arc<RedisServer>| Stores::Redis(Arc::clone(instance)).text("permissions").unwrap();
    let revision = wait(text(&instances[0]).replace(&Revision::default(), "a".into())).unwrap().unwrap();
    assert_eq!(wait(text(&instances[1]).newest(&Revision::default())).unwrap().unwrap().revision, revision);
    assert!(!instances[0].inner.outage.lasts());
}

/// The slot is moved to a server that is new to the cluster and unknown to the instance.
#[test]
fn slot_that_moves_is_found_while_it_does_and_afterwards() {
    let Some(cluster) = RedisCluster::start(3).unwrap() else { return };
    let [instance, other] = [client(&cluster.url()), client(&cluster.url())];
    let owner = owners_at(0)[0];
    let (old, new) = (&cluster.servers[0], &cluster.servers[3]);
    let store = |instance| Stores::Redis(instance).open(Space::Responses, 1, HOUR, Box::new(|_| ()));
    let (store, read) = (store(Arc::clone(&instance)), store(Arc::clone(&other)));
    let lease = granted(&instance, &demand_of(owner));
    store.put(Key::new(owner, "before"), Bytes::from_static(b"1"), now());
    until("it is written", || is_there(&read, &Key::new(owner, "before"), b"1"));

    let id =
        |server: &redis_server::RedisServer| server.said("CLUSTER MYID").lines().nth(1).unwrap().to_owned();
    let (old_id, new_id) = (id(old), id(new));
    let tag = hex::encode(&owner.0);
    let slot = old.said(&format!("CLUSTER KEYSLOT {tag}")).trim_start_matches(':').trim().to_owned();
    expect_ok(new, &format!("CLUSTER SETSLOT {slot} IMPORTING {old_id}")).unwrap();
    expect_ok(old, &format!("CLUSTER SETSLOT {slot} MIGRATING {new_id}")).unwrap();
    // New keys are on the new server, while the existing keys are still on the old one.
    store.put(Key::new(owner, "meanwhile"), Bytes::from_static(b"2"), now());
    until("the new server is asked", || is_there(&read, &Key::new(owner, "meanwhile"), b"2"));
    assert!(is_there(&read, &Key::new(owner, "before"), b"1"));
    assert!(new.said(&format!("CLUSTER COUNTKEYSINSLOT {slot}")).starts_with(":1"));

    let keys = old.said(&format!("CLUSTER GETKEYSINSLOT {slot} 100"));
    for key in keys.lines().filter(|line| line.starts_with("toolwire:")) {
        expect_ok(old, &format!("MIGRATE 127.0.0.1 {} {key} 0 5000", new.port())).unwrap();
    }
    lease.settle(spent(5, 6));
    for server in [new, old] {
        expect_ok(server, &format!("CLUSTER SETSLOT {slot} NODE {new_id}")).unwrap();
    }
    until("the new server counts", || {
        month_of(&other, owner).is_some_and(|month| (month.1, month.2) == (5, 6))
    });
    let keys = ["before", "meanwhile"].map(|id| Key::new(owner, id));
    assert!(read.get_all(&keys, now()).unwrap().iter().all(Option::is_some));
    assert!(![&instance, &other].iter().any(|instance| instance.inner.outage.lasts()), "no server was away");
}

#[test]
fn server_of_a_cluster_that_is_away_keeps_only_its_clients_waiting() {
    let Some(mut cluster) = RedisCluster::start(3).unwrap() else { return };
    let away = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&away);
    let on_change = Box::new(move |reach| told.store(u64::from(reach == Reach::Away), Ordering::Relaxed));
    let address = StoreAddress::parse(&cluster.url()).unwrap();
    let instance = Arc::new(RedisServer::new(address, on_change).unwrap());
    let store = Stores::Redis(Arc::clone(&instance)).open(Space::Responses, 1, HOUR, Box::new(|_| ()));
    let leases: Vec<_> = owners().map(|owner| (owner, granted(&instance, &demand_of(owner)))).collect();

    // Kills a server that the URL lists.
    cluster.servers[1].kill().unwrap();
    let (gone, others) = (owners_at(1), [owners_at(0), owners_at(2)].concat());
    until("it is away", || ask(&instance, &demand_of(gone[0])).is_err());
    assert_eq!(away.load(Ordering::Relaxed), 1);
    for owner in &gone {
        assert!(
            store.get(&Key::new(*owner, "x"), now()).is_err() && ask(&instance, &demand_of(*owner)).is_err()
        );
    }
    for (owner, lease) in leases {
        lease.settle(spent(1, 2));
        store.put(Key::new(owner, "y"), Bytes::from_static(b"2"), now());
    }
    // The other servers still store values and count usage.
    let other_instance = client(&cluster.url());
    let reader = Stores::Redis(Arc::clone(&other_instance)).open(Space::Responses, 1, HOUR, Box::new(|_| ()));
    for owner in &others {
        until("others are written", || is_there(&reader, &Key::new(*owner, "y"), b"2"));
        until("others are settled", || {
            month_of(&instance, *owner).is_some_and(|month| (month.1, month.2) == (1, 2))
        });
    }
    assert_eq!(away.load(Ordering::Relaxed), 1, "others do not end it");

    cluster.servers[1].restart().unwrap();
    for owner in &gone {
        until("it is written later", || is_there(&reader, &Key::new(*owner, "y"), b"2"));
        until("it is settled later", || {
            month_of(&instance, *owner).is_some_and(|month| (month.1, month.2) == (1, 2))
        });
    }
    until("nothing is away", || away.load(Ordering::Relaxed) == 0);
}

#[test]
fn replica_of_a_cluster_takes_the_place_of_its_primary() {
    let Some(mut cluster) = RedisCluster::start(3).unwrap() else { return };
    let primary = cluster.servers[0].said("CLUSTER MYID").lines().nth(1).unwrap().to_owned();
    expect_ok(&cluster.servers[3], &format!("CLUSTER REPLICATE {primary}")).unwrap();
    until("it is copied", || cluster.servers[3].said("INFO replication").contains("master_link_status:up"));
    let instance = client(&cluster.url());
    let store = Stores::Redis(Arc::clone(&instance)).open(Space::Responses, 1, HOUR, Box::new(|_| ()));
    let owner = owners_at(0)[0];
    let lease = granted(&instance, &demand_of(owner));
    until("the lease is copied", || {
        cluster.servers[3].said("DBSIZE").starts_with(&cluster.servers[0].said("DBSIZE"))
    });

    cluster.servers[0].kill().unwrap();
    until("it is away", || ask(&instance, &demand_of(owner)).is_err());
    lease.settle(spent(8, 9));
    store.put(Key::new(owner, "z"), Bytes::from_static(b"3"), now());
    until("the replica counts", || {
        month_of(&instance, owner).is_some_and(|month| (month.1, month.2) == (8, 9))
    });
    let reader = Stores::Redis(client(&cluster.url())).open(Space::Responses, 1, HOUR, Box::new(|_| ()));
    until("the replica has what waited", || is_there(&reader, &Key::new(owner, "z"), b"3"));
    until("nothing is away", || !instance.inner.outage.lasts());
}

#[test]
fn servers_of_a_cluster_all_get_the_password_of_the_url() {
    let Some(cluster) = RedisCluster::start(2).unwrap() else { return };
    for server in &cluster.servers {
        expect_ok(server, "CONFIG SET requirepass secret").unwrap();
    }
    let instance = client(&cluster.url().replace("://", "://:secret@"));
    for owner in owners() {
        granted(&instance, &demand_of(owner)).settle(spent(1, 1));
    }
    assert!(!instance.inner.outage.lasts());
    let stranger = client(&cluster.url());
    until("it is away", || ask(&stranger, &demand()).is_err() && stranger.inner.outage.lasts());
}

#[test]
fn one_server_of_a_cluster_is_refused_by_itself_and_a_server_without_one_as_a_cluster() {
    let Some(cluster) = RedisCluster::start(2).unwrap() else { return };
    for server in &cluster.servers {
        let instance = client(&server.url());
        until("it is away", || ask(&instance, &demand()).is_err());
        let inner = Arc::clone(&instance.inner);
        let probed = instance.asked(async move { Ok(inner.servers.probe_first().await) });
        let error = wait(probed).unwrap().unwrap_err();
        assert!(error.to_string().contains("redis+cluster://"), "{error}");
    }
    let Some(single) = redis_server::RedisServer::start().unwrap() else { return };
    let instance = client(&single.url().replace("redis://", "redis+cluster://"));
    until("it is away", || ask(&instance, &demand()).is_err() && instance.inner.outage.lasts());
}
