//! [`Latencies`]: a histogram of durations with logarithmic buckets, for percentiles.

use std::time::Duration;

/// Number of buckets per power of two. The error of a percentile is at most a sixteenth.
const STEPS: u32 = 8;

/// Base-2 logarithm of [`STEPS`].
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// Converts a duration to milliseconds. Rounds to three decimals, since the proxy's own share is far below a
/// millisecond.
pub(super) fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// A histogram of durations. Durations above 71 minutes count as 71 minutes.
///
/// Takes 8 bytes per non-empty bucket, and about 2 when [packed](Self::pack).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Latencies {
    /// Non-empty buckets and their counts, in order.
    buckets: Vec<(u8, u32)>,
}

impl Latencies {
    pub(crate) fn add(&mut self, time: Duration) {
        self.add_to(bucket(time), 1);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        other.buckets.iter().for_each(|(bucket, count)| self.add_to(*bucket, *count));
    }

    /// Appends the number of non-empty buckets, and for each the distance from the one before and the count.
    pub(crate) fn pack(&self, bytes: &mut Vec<u8>) {
        pack(bytes, self.buckets.len() as u64);
        let mut last = 0;
        for &(bucket, count) in &self.buckets {
            pack(bytes, (bucket - last).into());
            pack(bytes, count.into());
            last = bucket;
        }
    }

    /// Removes what [`pack`](Self::pack) has appended from the beginning of `bytes`.
    pub(crate) fn unpack(bytes: &mut &[u8]) -> Self {
        let mut last = 0;
        let buckets = (0..unpack(bytes)).map(|_| {
            last += unpack(bytes);
            (u8::try_from(last).unwrap_or(u8::MAX), u32::try_from(unpack(bytes)).unwrap_or(u32::MAX))
        });
        Self { buckets: buckets.collect() }
    }

    /// The memory of the buckets in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<(u8, u32)>()
    }

    fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    fn add_to(&mut self, bucket: u8, count: u32) {
        match self.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => {
                self.buckets.iter_mut().skip(at).take(1).for_each(|(_, own)| *own = own.saturating_add(count))
            }
            Err(at) => self.buckets.insert(at, (bucket, count)),
        }
    }

    /// Returns the smallest duration that `percent` % of all durations do not exceed. `None` if there are none.
    pub(crate) fn percentile(&self, percent: u64) -> Option<Duration> {
        let rank = self.count().saturating_mul(percent).div_ceil(100).max(1);
        let mut seen = 0;
        let found = self.buckets.iter().find(|(_, count)| {
            seen += u64::from(*count);
            seen >= rank
        });
        found.map(|(bucket, _)| middle(*bucket))
    }
}

/// Appends a number, seven bits to a byte, lowest first. All bytes but the last have the highest bit set (LEB128).
pub(super) fn pack(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(0x80 | (number & 0x7f) as u8);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Removes a number that [`pack`] has appended from the beginning of `bytes`. Returns 0 for none.
pub(super) fn unpack(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    while let Some(byte) = bytes.split_off_first() {
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            break;
        }
        shift += 7;
    }
    number
}

/// Returns the bucket of a duration: the position of the highest bit of its microseconds, and the bits after it.
fn bucket(time: Duration) -> u8 {
    let micros = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
    let Some(shift) = micros.checked_ilog2().and_then(|highest| highest.checked_sub(STEP_BITS)) else {
        return u8::try_from(micros).unwrap_or(u8::MAX);
    };
    u8::try_from((shift + 1) * STEPS + ((micros >> shift) & (STEPS - 1))).unwrap_or(u8::MAX)
}

fn middle(bucket: u8) -> Duration {
    let (octave, step) = (u32::from(bucket) / STEPS, u32::from(bucket) % STEPS);
    let Some(shift) = octave.checked_sub(1) else { return Duration::from_micros(step.into()) };
    Duration::from_micros((u64::from(STEPS + step) << shift) + ((1 << shift) >> 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middle_is_near_every_time_of_its_bucket() {
        for micros in (0..10_000).chain((10_000..4_000_000_000).step_by(999_983)) {
            let found = middle(bucket(Duration::from_micros(micros))).as_micros();
            assert!(found.abs_diff(micros.into()) * 16 <= u128::from(micros), "{micros}: {found}");
        }
        let longest = bucket(Duration::MAX);
        assert_eq!(longest, bucket(Duration::from_micros(u32::MAX.into())));
        assert!(middle(longest) > Duration::from_secs(69 * 60));
    }

    #[test]
    fn percentiles_of_merged_times() {
        let (mut low, mut high) = (Latencies::default(), Latencies::default());
        assert_eq!(low.percentile(50), None);
        (1..=50).for_each(|millis| low.add(Duration::from_millis(millis)));
        (51..=100).rev().for_each(|millis| high.add(Duration::from_millis(millis)));
        low.merge(&high);
        for percent in [1, 50, 95, 100] {
            let found = low.percentile(percent).unwrap().as_millis();
            assert!(found.abs_diff(percent.into()) <= 1 + u128::from(percent) / 16, "{percent}: {found}");
        }
        assert_eq!(low.count(), 100);
    }
}
