//! [`Search`]: what to look for in the text of one request, built from its tools and settings. Most of it is the
//! [`SearchPlan`], which depends only on the formats and is shared by all requests that do not name a format.

use crate::tools::DeclaredTools;
use std::sync::{Arc, LazyLock};

use super::{
    after_call::Framing,
    gate::Wait,
    markers::Markers,
    openers::Reads,
    shared_plans::{Origin, PlanUse, SharedPlans},
    text::tail,
    walk::CallRules,
};
use crate::{
    format::{self, Calls, Channels, Format, Grammar, KnownFormats, Place, Python},
    rules::{ArgumentDelivery, Detect, QuotedCalls, Rules, UnknownCalls},
};

/// A format whose calls are written in fences.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fenced {
    pub(super) format: &'static Format,
    pub(super) infos: &'static [&'static str],
    /// The Python syntax of the calls, if they may be written as code.
    pub(super) code: Option<&'static Python>,
}

fn fenced(format: &'static Format, grammar: &'static Grammar) -> Option<Fenced> {
    match grammar {
        Grammar::Fenced { infos } => Some(Fenced { format, infos, code: None }),
        Grammar::Code { info, python } => {
            Some(Fenced { format, infos: std::slice::from_ref(info), code: Some(python) })
        }
        _ => None,
    }
}

/// A format whose calls have no marker, which are Python lists or JSON. Lists are tried first, since they fail at
/// the first character that does not continue a declared name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unmarked {
    pub(super) format: &'static Format,
    pub(super) list: Option<&'static Calls>,
}

fn unmarked(format: &'static Format, grammar: &'static Grammar) -> Option<Unmarked> {
    match grammar {
        Grammar::Bare => Some(Unmarked { format, list: None }),
        Grammar::Calls(calls) if calls.place == Place::Bracket => {
            Some(Unmarked { format, list: Some(calls) })
        }
        _ => None,
    }
}

/// What a byte of prose may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begins {
    /// A value or a marker.
    Bracket,
    /// A fence, if it is at the start of a line.
    Fence,
    /// A marker, if it is at this place or a more specific one.
    Marker(Place),
}

/// Where a byte may begin something other than text.
pub(super) mod opens {
    /// Anywhere.
    pub(crate) const ANYWHERE: u8 = 1;
    /// At the start of a message.
    pub(crate) const MESSAGE_START: u8 = 2;
    /// Where visible quotations count.
    pub(crate) const QUOTATIONS: u8 = 4;
    /// In a block quote or comment.
    pub(crate) const QUOTED: u8 = 8;
}

/// The first keys of call objects, or how they begin.
const CALL_KEYS: &[&str] = &[
    "name",
    "tool",
    "func",
    "action",
    "arguments",
    "param",
    "args",
    "input",
    "id\"",
    "id\\",
    "call",
    "type",
];

/// Removes the white space at the start of `text`, which may be written with escapes.
fn without_blanks(text: &str) -> &str {
    let mut rest = text.trim_ascii_start();
    while let Some(behind) = ["\\n", "\\r", "\\t"].iter().find_map(|escape| rest.strip_prefix(escape)) {
        rest = behind.trim_ascii_start();
    }
    rest
}

/// Whether the formats of a plan were chosen, be it by name or because of the model's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chosen {
    No,
    /// Chosen, and fences of other formats have no calls.
    Unquoted,
    /// Chosen, and such fences are read like other text.
    All,
}

/// The part of a search that depends only on the formats.
#[derive(Debug)]
pub(super) struct SearchPlan {
    pub(super) markers: Markers,
    pub(super) fences: Vec<Fenced>,
    /// The info strings of fences with calls.
    pub(super) infos: Vec<&'static str>,
    pub(super) unmarked: Vec<Unmarked>,
    /// The markup that is framing right after a call.
    pub(super) framing: Framing,
    /// For each byte, where it may begin something other than text, as flags of [`opens`].
    opens: [u8; 256],
    /// The bytes with which something other than text may begin.
    first_bytes: Vec<u8>,
    /// Whether nothing is read in fences, even if no format has its calls in them.
    skips_fences: bool,
    /// The format whose messages begin inside a header.
    pub(super) begun: Option<(&'static Format, &'static Channels)>,
    /// Whether only reasoning is read from the channels of formats that were not chosen by name. Their other
    /// messages stay text, which may contain calls of the named formats.
    only_reasoning: bool,
}

impl SearchPlan {
    /// Returns the plan, or `None` if there is nothing to look for. The plan for automatic detection is built only
    /// once, and plans for named formats are shared. Formats that a model's name adds are tried before the formats of
    /// that plan.
    fn of(settings: &Rules, known: &KnownFormats, reads: Reads, plan_use: PlanUse) -> Option<Arc<Self>> {
        static ALL: LazyLock<Arc<SearchPlan>> = LazyLock::new(|| auto(true, true));
        static CALLS: LazyLock<Arc<SearchPlan>> = LazyLock::new(|| auto(true, false));
        static SAID: LazyLock<Arc<SearchPlan>> = LazyLock::new(|| auto(false, true));
        static SHARED: SharedPlans = SharedPlans::new();
        fn auto(calls: bool, reasoning: bool) -> Arc<SearchPlan> {
            Arc::new(SearchPlan::new(&format::auto(), Reads { calls, reasoning }, Chosen::No, None))
        }
        let auto: &'static Arc<Self> = match (reads.calls, reads.reasoning) {
            (true, true) => &ALL,
            (true, false) => &CALLS,
            (false, true) => &SAID,
            (false, false) => return None,
        };
        let (names, with_auto) = match &settings.detect {
            Detect::Auto | Detect::Off => return Some(Arc::clone(auto)),
            Detect::AutoAnd(first) => (first, true),
            Detect::Formats(formats) if formats.is_empty() && !reads.reasoning => return None,
            Detect::Formats(formats) => (formats, false),
        };
        let chosen = if settings.quoted_calls == QuotedCalls::Call { Chosen::All } else { Chosen::Unquoted };
        let origin = Origin { formats: known.named(names), reads, chosen, with_auto };
        Some(SHARED.get(origin, plan_use, |origin| {
            let behind = if with_auto { Some(&**auto) } else { reads.reasoning.then(|| &**SAID) };
            let mut plan = Self::new(&origin.formats, reads, chosen, behind);
            plan.only_reasoning = !with_auto && reads.calls;
            plan
        }))
    }

    /// Builds a plan for `formats`, followed by the formats of `behind`.
    pub(super) fn new(
        formats: &[&'static Format],
        reads: Reads,
        chosen: Chosen,
        behind: Option<&'static Self>,
    ) -> Self {
        let skips_fences = !reads.calls || chosen != Chosen::All;
        let chosen = chosen != Chosen::No;
        let read = |format: &&'static Format| {
            let format = *format;
            format.grammars.iter().filter(move |grammar| reads.grammar(grammar)).map(move |g| (format, g))
        };
        let grammars = || formats.iter().flat_map(read);
        let mut sought = Self {
            markers: Markers::new(formats, reads, chosen, behind.map(|behind| &behind.markers)),
            fences: grammars().filter_map(|(format, grammar)| fenced(format, grammar)).collect(),
            infos: Vec::new(),
            // A list of calls without a marker may also be code, unless the model is known to write it.
            unmarked: grammars()
                .filter_map(|(format, grammar)| unmarked(format, grammar))
                .filter(|unmarked| chosen || unmarked.list.is_none())
                .collect(),
            framing: if reads.calls { Framing::new(formats) } else { Framing::of_reasoning(formats) },
            opens: [0; 256],
            first_bytes: Vec::new(),
            skips_fences,
            begun: if chosen { begun(grammars()) } else { None },
            only_reasoning: false,
        };
        if let Some(behind) = behind {
            let other = |format| !formats.contains(format);
            sought.fences.extend(behind.fences.iter().filter(|fenced| other(&fenced.format)));
            sought.unmarked.extend(behind.unmarked.iter().filter(|unmarked| other(&unmarked.format)));
            sought.opens = behind.opens;
            sought.framing.add(&behind.framing);
        }
        sought.fences.sort_by_key(|fenced| fenced.code.is_none());
        sought.infos.extend(sought.fences.iter().flat_map(|fenced| fenced.infos));
        sought.unmarked.sort_by_key(|unmarked| unmarked.list.is_none());
        sought.learn_opens();
        sought
    }

    pub(super) fn reads_only_reasoning(&self, format: &'static Format) -> bool {
        self.only_reasoning && !self.markers.is_named(format)
    }

    /// Updates the table, which was copied from `behind`, for bytes that begin something in this plan.
    fn learn_opens(&mut self) {
        let mut opens = self.opens;
        for byte in self.markers.first_bytes().chain(*b"{[`~>\n-") {
            let begins = match self.begins(byte) {
                None => 0,
                Some(Begins::Marker(Place::MessageStart)) => opens::MESSAGE_START,
                Some(_) => opens::ANYWHERE | opens::MESSAGE_START,
            };
            let quotes = match byte {
                b'>' => opens::QUOTATIONS,
                b'\n' | b'-' => opens::QUOTED,
                _ => 0,
            };
            if let Some(known) = opens.get_mut(usize::from(byte)) {
                *known = begins | quotes;
            }
        }
        self.opens = opens;
        let has_values = !self.unmarked.is_empty() || !self.fences.is_empty();
        let may_begin = |byte: &u8| {
            self.begins(*byte).is_some() || (has_values && matches!(byte, b'{' | b'[' | b'`' | b'~'))
        };
        self.first_bytes = (0..=u8::MAX).filter(may_begin).collect();
    }

    pub(super) fn begins(&self, byte: u8) -> Option<Begins> {
        match byte {
            b'{' | b'[' if !self.unmarked.is_empty() => Some(Begins::Bracket),
            b'`' | b'~' => (self.skips_fences || !self.fences.is_empty()).then_some(Begins::Fence),
            _ => self.markers.first(byte).map(Begins::Marker),
        }
    }

    /// Returns the offset of the first byte from `from` on that may begin something at a place with one of the flags
    /// `here` of [`opens`].
    pub(super) fn first_opening(&self, text: &str, from: usize, here: u8) -> Option<usize> {
        let rest = text.as_bytes().get(from..)?;
        let opens = |&byte: &u8| self.opens.get(usize::from(byte)).is_some_and(|opens| opens & here != 0);
        rest.iter().position(opens).map(|at| from + at)
    }

    /// Whether `text` contains something with which a call may begin.
    pub(super) fn has_marker(&self, text: &str) -> bool {
        if self.begun.is_some() {
            return !text.is_empty();
        }
        let unmarked = !self.unmarked.is_empty() || !self.fences.is_empty();
        let begins = |at: usize| {
            let rest = tail(text, at);
            let before = at.checked_sub(1).and_then(|before| text.as_bytes().get(before)).copied();
            self.markers.opens_call(rest) || (unmarked && self.may_begin_value(rest, before))
        };
        self.first_bytes.chunks(3).any(|bytes| {
            let byte = |at: usize| bytes.get(at).or(bytes.first()).copied().unwrap_or_default();
            memchr::memchr3_iter(byte(0), byte(1), byte(2), text.as_bytes()).any(begins)
        })
    }

    /// Whether a call without a marker may begin at the start of `text`: an object whose first key belongs to calls,
    /// a list of Python calls, or a fence with code. `before` is the byte before it.
    fn may_begin_value(&self, text: &str, before: Option<u8>) -> bool {
        match text.as_bytes().first() {
            Some(b'{') => {
                let key = without_blanks(tail(text, 1)).trim_start_matches('\\').strip_prefix('"');
                key.is_some_and(|key| CALL_KEYS.iter().any(|known| key.starts_with(known)))
            }
            Some(b'[') => {
                let inside = tail(text, 1).trim_ascii_start();
                let name = inside
                    .bytes()
                    .position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')));
                name.is_some_and(|end| end > 0 && inside.as_bytes().get(end) == Some(&b'('))
            }
            // A run of ticks is read once.
            Some(&tick @ (b'`' | b'~')) if before != Some(tick) => {
                let info = text.trim_start_matches(['`', '~']);
                let codes = self.fences.iter().filter(|fenced| fenced.code.is_some());
                codes.flat_map(|fenced| fenced.infos).any(|code| info.starts_with(code))
            }
            _ => false,
        }
    }
}

/// What to look for in the text of one request.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) tools: DeclaredTools,
    pub(super) sought: Arc<SearchPlan>,
    pub(super) calls: bool,
    pub(super) whole: bool,
    /// Whether calls wait until they are complete.
    pub(super) waits: bool,
    any_name: bool,
    /// Whether the model is asked again if it calls an undeclared tool.
    pub(super) asks: bool,
    repair: bool,
    max_depth: usize,
    max_name: usize,
    pub(super) max_markup: usize,
    pub(super) max_hold: usize,
    pub(super) max_arguments: usize,
    pub(super) quoted_calls: QuotedCalls,
    /// The flag of [`opens`] for visible quotations, if they count.
    pub(super) quotations: u8,
}

impl Search {
    /// Builds the search for reasoning and for calls to `tools`. Returns `None` if there is nothing to look for.
    pub(super) fn new(
        tools: DeclaredTools,
        settings: &Rules,
        known: &KnownFormats,
        waits: bool,
        plan_use: PlanUse,
    ) -> Option<Self> {
        let calls = !tools.is_empty() && settings.detect != Detect::Off;
        let reads = Reads { calls, reasoning: settings.reasoning.reads_markers() };
        Some(Self {
            sought: SearchPlan::of(settings, known, reads, plan_use)?,
            calls,
            // If calls are not detected, no name belongs to a tool, so a possible call is text.
            tools: if calls { tools } else { DeclaredTools::default() },
            whole: waits && settings.arguments == ArgumentDelivery::Whole,
            waits,
            any_name: calls && settings.unknown_calls != UnknownCalls::Text,
            asks: calls && settings.unknown_calls == UnknownCalls::Retry && settings.may_follow_up(),
            repair: settings.repair,
            max_depth: settings.limits.max_depth,
            max_name: settings.limits.max_name,
            max_markup: settings.limits.max_markup,
            max_hold: settings.limits.max_hold,
            max_arguments: settings.limits.max_arguments,
            quoted_calls: settings.quoted_calls,
            quotations: if calls && settings.quoted_calls != QuotedCalls::Call {
                opens::QUOTATIONS
            } else {
                0
            },
        })
    }

    /// Returns the rules for calls. `marked` is set if the format has a marker that is specific to calls.
    pub(super) fn rules(&self, marked: bool) -> CallRules<'_> {
        CallRules {
            tools: &self.tools,
            marked,
            any_name: self.any_name,
            asks: false,
            no_tool: &[],
            repair: self.repair,
            whole: self.whole,
            waits: self.waits,
            max_depth: self.max_depth,
            max_name: self.max_name,
            max_markup: self.max_markup,
            max_hold: self.max_hold,
        }
    }

    /// What the calls in a container wait for. `quoted` is set if a backtick precedes the container, and `marked` if
    /// calls have their own marker.
    pub(super) fn wait(&self, quoted: bool, marked: bool) -> Wait {
        Wait::new(quoted, marked || !self.whole, self.waits)
    }
}

/// Returns the chosen format whose messages begin inside a header, if there is one.
fn begun(
    grammars: impl Iterator<Item = (&'static Format, &'static Grammar)>,
) -> Option<(&'static Format, &'static Channels)> {
    let mut channels = grammars.filter_map(|(format, grammar)| match grammar {
        Grammar::Channels(channels) if channels.begins_in_header => Some((format, channels)),
        _ => None,
    });
    channels.next()
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::{prelude::*, sample::subsequence};

    use super::*;
    use crate::format::ALL;

    static AUTO: LazyLock<SearchPlan> =
        LazyLock::new(|| SearchPlan::new(&format::auto(), Reads::ALL, Chosen::No, None));

    proptest! {
        #[test]
        fn named_formats_are_tried_before_the_shared_plan(
            first in subsequence(ALL.to_vec(), 0..6).prop_shuffle(),
        ) {
            let behind = format::auto().into_iter().filter(|format| !first.contains(format));
            let all: Vec<_> = first.iter().copied().chain(behind).collect();
            let (layered, flat) = (SearchPlan::new(&first, Reads::ALL, Chosen::All, Some(&AUTO)), SearchPlan::new(&all, Reads::ALL, Chosen::All, None));
            let names = |sought: &SearchPlan| {
                let fences = sought.fences.iter().map(|fenced| fenced.format.name);
                // In one list, all formats count as chosen, so their lists of calls count, too.
                let counts = |unmarked: &&Unmarked| unmarked.list.is_none() || first.contains(&unmarked.format);
                let unmarked = sought.unmarked.iter().filter(counts).map(|unmarked| unmarked.format.name);
                (fences.collect::<Vec<_>>(), unmarked.collect::<Vec<_>>(), sought.infos.clone())
            };
            prop_assert_eq!(names(&layered), names(&flat));
            for byte in 0..=u8::MAX {
                let begins = layered.begins(byte);
                let within = begins.is_some_and(|begins| begins != Begins::Marker(Place::MessageStart));
                let opens = layered.opens[usize::from(byte)];
                prop_assert_eq!(opens & opens::ANYWHERE != 0, within, "{}", byte);
                prop_assert_eq!(opens & opens::MESSAGE_START != 0, begins.is_some(), "{}", byte);
            }
        }
    }
}
