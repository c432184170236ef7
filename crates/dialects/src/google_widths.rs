//! [`Widths`]: converts positions in a text between bytes and characters.

/// The widths of a text's characters, as runs: ASCII text of any length is a single run.
#[derive(Debug, Default)]
pub(crate) struct Widths(Vec<Run>);

/// Consecutive characters of the same width.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// The width of each character in bytes.
    width: usize,
    /// The length of the text up to the end of the run, in bytes and in characters.
    bytes: usize,
    characters: usize,
}

impl Widths {
    /// Adds a piece of the text.
    pub(crate) fn said(&mut self, text: &str) {
        if text.is_ascii() {
            return self.add(1, text.len());
        }
        text.chars().for_each(|character| self.add(character.len_utf8(), 1));
    }

    fn add(&mut self, width: usize, count: usize) {
        match self.0.last_mut() {
            Some(last) if last.width == width => {
                last.bytes += width * count;
                last.characters += count;
            }
            last => {
                let (bytes, characters) = last.map_or((0, 0), |run| (run.bytes, run.characters));
                self.0.push(Run { width, bytes: bytes + width * count, characters: characters + count });
            }
        }
    }

    /// The length of the text in characters.
    pub(crate) fn characters(&self) -> u64 {
        self.0.last().map_or(0, |run| run.characters as u64)
    }

    /// The position in characters of a position in bytes. Positions behind the text are at its end.
    pub(crate) fn character(&self, place: u64) -> u64 {
        self.convert(place, |run| (run.bytes, run.characters), |_| 1, |run| run.width)
    }

    /// The position in bytes of a position in characters. Positions behind the text are at its end.
    pub(crate) fn bytes(&self, place: u64) -> u64 {
        self.convert(place, |run| (run.characters, run.bytes), |run| run.width, |_| 1)
    }

    /// `ends` is the end of a run: as `place` is counted, and as the result is. `times` and `by` convert a
    /// distance within the run.
    fn convert(
        &self,
        place: u64,
        ends: impl Fn(&Run) -> (usize, usize),
        times: impl Fn(&Run) -> usize,
        by: impl Fn(&Run) -> usize,
    ) -> u64 {
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        let at = self.0.partition_point(|run| ends(run).0 < place);
        let converted = match (self.0.get(at), self.0.last()) {
            (Some(run), _) => ends(run).1 - (ends(run).0 - place) * times(run) / by(run),
            (None, last) => last.map_or(0, |run| ends(run).1),
        };
        u64::try_from(converted).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_converted_both_ways() {
        let text = "aé漢😀b";
        for pieces in [vec![text], text.split_inclusive(|_| true).collect()] {
            let mut widths = Widths::default();
            pieces.iter().for_each(|piece| widths.said(piece));
            for (characters, (bytes, _)) in text.char_indices().enumerate() {
                assert_eq!(widths.character(bytes as u64), characters as u64, "{bytes}");
                assert_eq!(widths.bytes(characters as u64), bytes as u64, "{characters}");
            }
            assert_eq!((widths.character(11), widths.character(99), widths.characters()), (5, 5, 5));
            assert_eq!((widths.bytes(5), widths.bytes(99)), (11, 11));
        }
        assert_eq!((Widths::default().character(7), Widths::default().bytes(7)), (0, 0));
    }
}
