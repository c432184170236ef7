//! [`FrameCache`]: a reader's fast path, for frames that differ from an earlier one only in a few values.

/// The latest template that was learnt. It recognises similar frames, whose meaning is `P`.
#[derive(Debug)]
pub(super) struct FrameCache<P> {
    plain: Option<P>,
    /// Number of templates learnt since one last matched a frame.
    unused: u32,
}

/// Number of unused templates after which learning stops, since each one costs copies of a frame.
const FUTILE: u32 = 4;

impl<P> Default for FrameCache<P> {
    fn default() -> Self {
        Self { plain: None, unused: 0 }
    }
}

impl<P> FrameCache<P> {
    /// Applies `recognise` to the template. Returns the meaning of the frame and what `recognise` extracted,
    /// or `None` if there is no template or the frame does not match.
    pub(super) fn find<'f>(
        &mut self,
        recognise: impl FnOnce(&P) -> Option<&'f str>,
    ) -> Option<(&P, &'f str)> {
        let plain = self.plain.as_ref()?;
        let found = recognise(plain)?;
        self.unused = 0;
        Some((plain, found))
    }

    pub(super) fn may_learn(&self) -> bool {
        self.unused <= FUTILE
    }

    /// Sets the template of the frame that was just read. `None` if the frame has no template.
    pub(super) fn learn(&mut self, plain: Option<P>) {
        self.unused += 1;
        self.plain = plain;
    }

    /// Drops the template, because similar frames may mean something else from now on.
    pub(super) fn forget(&mut self) {
        self.plain = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learning_stops_after_templates_that_match_nothing() {
        let mut cache = FrameCache::default();
        for _ in 0..=FUTILE {
            assert!(cache.may_learn());
            cache.learn(Some("a"));
            assert_eq!(cache.find(|_| None), None);
        }
        assert!(!cache.may_learn());
        assert_eq!(cache.find(|plain| Some(*plain)), Some((&"a", "a")));
        assert!(cache.may_learn());
    }
}
