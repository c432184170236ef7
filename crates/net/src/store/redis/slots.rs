//! Slots of a cluster. Each key belongs to one of 16,384 slots, and each slot is assigned to one server.

use std::ops::RangeInclusive;

use redis::{FromRedisValue, Value, from_redis_value_ref};

use super::super::Node;

const SLOTS: u16 = 1 << 14;

/// Maximum number of candidates when searching for a key in given slots. One key in 16,384 belongs to a given slot.
const TRIES: u32 = 1 << 18;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(u16);

impl Slot {
    /// Computes the slot of a key. If the first pair of braces in the key is not empty, only the text inside it is
    /// hashed.
    pub(super) fn of(key: &[u8]) -> Self {
        let tag = || {
            let (_, rest) = split(key, b'{')?;
            split(rest, b'}').map(|(tag, _)| tag).filter(|tag| !tag.is_empty())
        };
        Self(crc16(tag().unwrap_or(key)) % SLOTS)
    }

    pub(super) fn is_in(self, ranges: &[RangeInclusive<u16>]) -> bool {
        ranges.iter().any(|range| range.contains(&self.0))
    }
}

fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = memchr::memchr(at, text)?;
    Some((text.get(..place)?, text.get(place + 1..)?))
}

/// CRC-16 with the polynomial 0x1021, most significant bit first.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ (u16::from(*byte) << 8), |sum, _| {
            let shifted = sum << 1;
            if sum & 0x8000 == 0 { shifted } else { shifted ^ 0x1021 }
        })
    })
}

/// Returns a key with this prefix that belongs to one of these slots.
pub(super) fn key_in(prefix: &str, ranges: &[RangeInclusive<u16>]) -> Option<String> {
    if ranges.is_empty() {
        // Without this check, all candidates would be tried, and none would match.
        return None;
    }
    let mut keys = (0..TRIES).map(|number| format!("{prefix}{number}"));
    keys.find(|key| Slot::of(key.as_bytes()).is_in(ranges))
}

impl Node {
    /// Parses `host:port` in a server's answer. An empty host means `own_host`, the host of that server.
    pub(super) fn read(written: &str, own_host: &str) -> Option<Self> {
        let (host, port) = written.rsplit_once(':')?;
        Some(Self { host: or_own(host, own_host), port: port.parse().ok()? })
    }
}

fn or_own(host: &str, own_host: &str) -> String {
    if host.is_empty() { own_host } else { host }.to_owned()
}

/// The slots of each primary server.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SlotRanges(pub(super) Vec<(Node, Vec<RangeInclusive<u16>>)>);

impl SlotRanges {
    /// Parses the answer to `CLUSTER SLOTS` from the server `own_host`. Leaves out ranges whose server is unknown.
    pub(super) fn read(answer: &Value, own_host: &str) -> Self {
        let ranges = Vec::<Vec<Value>>::from_redis_value_ref(answer).unwrap_or_default();
        let mut read = Self::default();
        for range in &ranges {
            if let Some((slots, node)) = range_of(range, own_host) {
                match read.0.iter_mut().find(|(known, _)| *known == node) {
                    Some((_, known)) => known.push(slots),
                    None => read.0.push((node, vec![slots])),
                }
            }
        }
        read
    }

    /// Whether every slot is assigned to a server.
    pub(super) fn are_all(&self) -> bool {
        let count = |range: &RangeInclusive<u16>| usize::from(range.end() - range.start()) + 1;
        self.0.iter().flat_map(|(_, ranges)| ranges).map(count).sum::<usize>() >= usize::from(SLOTS)
    }
}

/// Parses a range: its first and last slot, its primary server, and then its replicas, each with host and port.
fn range_of(range: &[Value], own_host: &str) -> Option<(RangeInclusive<u16>, Node)> {
    let [first, last, Value::Array(primary), ..] = range else { return None };
    let [host, port, ..] = primary.as_slice() else { return None };
    let number = |value: &Value| from_redis_value_ref::<u16>(value).ok();
    let host = from_redis_value_ref::<Option<String>>(host).ok()?.unwrap_or_default();
    let (first, last) = (number(first)?, number(last)?);
    let is_known = host != "?" && first <= last && last < SLOTS;
    let node = Node { host: or_own(&host, own_host), port: number(port)? };
    is_known.then_some((first..=last, node))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values are from the `CLUSTER KEYSLOT` command of a server.
    #[test]
    fn slot_of_a_key_is_that_of_its_first_tag() {
        for (key, slot) in [
            ("", 0),
            ("123456789", 12739),
            ("foo", 12182),
            ("a{foo}b", 12182),
            ("{foo}{bar}", 12182),
            ("{}foo", 9500),
            ("foo{", 7673),
        ] {
            assert_eq!(Slot::of(key.as_bytes()), Slot(slot), "{key}");
        }
    }

    #[test]
    fn key_is_found_for_a_single_slot() {
        let key = key_in("toolwire:probe:", &[7..=7]).unwrap();
        assert_eq!(Slot::of(key.as_bytes()), Slot(7));
        assert_eq!(key_in("toolwire:probe:", &[]), None);
    }

    fn range(first: i64, last: i64, host: Value, port: i64) -> Value {
        let node = Value::Array(vec![host, Value::Int(port), Value::BulkString(b"id".to_vec())]);
        Value::Array(vec![Value::Int(first), Value::Int(last), node.clone(), node])
    }

    #[test]
    fn ranges_are_read_with_the_hosts_that_are_left_out() {
        let host = |name: &str| Value::BulkString(name.as_bytes().to_vec());
        let answer = Value::Array(vec![
            range(0, 99, host("a"), 7000),
            range(200, 16383, host("a"), 7000),
            range(100, 100, Value::Nil, 7001),
            range(101, 150, host(""), 7001),
            range(151, 199, host("?"), 7002),
            range(3, 2, host("b"), 7003),
            range(0, 16384, host("b"), 7003),
            Value::Nil,
        ]);
        let read = SlotRanges::read(&answer, "own");
        let node = |host: &str, port| Node { host: host.to_owned(), port };
        let expected = vec![
            (node("a", 7000), vec![0..=99, 200..=16383]),
            (node("own", 7001), vec![100..=100, 101..=150]),
        ];
        assert_eq!(read, SlotRanges(expected));
        assert!(!read.are_all());
        assert!(SlotRanges::read(&Value::Array(vec![range(0, 16383, host("a"), 1)]), "own").are_all());
        assert_eq!(SlotRanges::read(&Value::Okay, "own"), SlotRanges::default());
    }

    #[test]
    fn node_is_read_as_redirections_write_it() {
        assert_eq!(Node::read("::1:7000", "own").unwrap().to_string(), "[::1]:7000");
        assert_eq!(Node::read(":7000", "own").unwrap().to_string(), "own:7000");
        assert_eq!(Node::read("7000", "own"), None);
    }
}
