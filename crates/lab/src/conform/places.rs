//! [`Places`]: where a body is cut in two.

use super::Selection;

/// Chooses the positions at which a body is cut in two.
pub(super) struct Places<'n> {
    pub(super) name: &'n str,
    pub(super) len: usize,
}

impl Places<'_> {
    /// Returns up to [`Selection::cuts`] positions, sorted. They depend only on the seed, the name and the length.
    pub(super) fn chosen(&self, selection: &Selection) -> impl Iterator<Item = usize> + use<> {
        let last = self.len.saturating_sub(1);
        let mut places: Vec<usize> = (1..=last).collect();
        if selection.cuts < places.len() {
            let name = self
                .name
                .bytes()
                .fold(selection.seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
            fastrand::Rng::with_seed(name).shuffle(&mut places);
            places.truncate(selection.cuts);
            places.sort_unstable();
        }
        places.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cuts_are_made_if_there_are_not_more_places() {
        let all = Places { name: "", len: 5 }.chosen(&selection(100)).collect::<Vec<_>>();
        assert_eq!(all, [1, 2, 3, 4]);
        assert_eq!(Places { name: "", len: 0 }.chosen(&selection(100)).count(), 0);
        assert_eq!(Places { name: "", len: 50 }.chosen(&selection(7)).count(), 7);
    }

    fn selection(cuts: usize) -> Selection {
        Selection { apis: Vec::new(), formats: Vec::new(), fixtures: Vec::new(), cuts, seed: 1 }
    }
}
