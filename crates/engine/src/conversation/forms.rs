//! Converts tool names and call ids to what an upstream accepts.
//!
//! Clients name tools as they like, and call ids may come from other upstreams. What an upstream would reject
//! is replaced consistently throughout the conversation. A replacement depends only on the conversation, so
//! it is the same in every request of a dialogue. Ids in responses are the upstream's own and need not be
//! mapped back, but names must be, see [`DeclaredTools`](crate::tools::DeclaredTools).

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use super::{
    Conversation, Part, Tool, ToolChoice,
    unique_ids::{has_repeated_ids, with_unique_ids},
};

/// Which tool names an upstream accepts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NameForm {
    /// Any text.
    Any,
    /// 1 to 64 ASCII letters, digits, `_` and `-`. This is the limit of OpenAI's APIs, which other APIs
    /// share.
    #[default]
    Word,
    /// Like `Word`, but starting with a letter or `_`.
    Identifier,
}

/// Which call ids an upstream accepts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IdForm {
    /// Any text.
    #[default]
    Any,
    /// At most this many characters.
    AtMost(usize),
    /// Up to 64 ASCII letters, digits, `_` and `-`.
    Word,
    /// Exactly this many ASCII letters and digits.
    Alphanumeric(usize),
}

/// Maximum length of names, and of ids of the form `Word`.
const LONGEST: usize = 64;

impl NameForm {
    fn accepts(self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Word => is_word(name),
            Self::Identifier => is_word(name) && begins_identifier(name),
        }
    }

    /// A name that upstreams accept, as similar to `name` as possible.
    fn readable(self, name: &str) -> String {
        let plain = |letter: char| if is_word_letter(letter) { letter } else { '_' };
        let mut readable: String = name.chars().map(plain).collect();
        if self == Self::Identifier && !begins_identifier(&readable) {
            readable.insert(0, '_');
        }
        readable
    }
}

impl IdForm {
    pub(super) fn accepts(self, id: &str) -> bool {
        match self {
            Self::Any => true,
            Self::AtMost(longest) => id.len() <= longest || id.chars().nth(longest).is_none(),
            Self::Word => is_word(id),
            Self::Alphanumeric(length) => {
                id.len() == length && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
            }
        }
    }

    /// An id that upstreams accept, derived from a hash of `id`. Different attempts give different ids.
    pub(super) fn hashed(self, id: &str, attempt: u64) -> String {
        match self {
            Self::Any => id.to_owned(),
            Self::AtMost(longest) if longest < HASHED_ID => hash_letters(id, attempt, longest),
            Self::AtMost(_) | Self::Word => {
                format!("call_{}", hash_letters(id, attempt, HASHED_ID - "call_".len()))
            }
            Self::Alphanumeric(length) => hash_letters(id, attempt, length),
        }
    }
}

/// Length of a replaced id, if the form does not determine it.
const HASHED_ID: usize = 25;

fn is_word_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')
}

fn begins_identifier(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

fn is_word(text: &str) -> bool {
    (1..=LONGEST).contains(&text.len()) && text.chars().all(is_word_letter)
}

/// `length` letters and digits that depend only on `text` and `attempt`, and not on the process.
fn hash_letters(text: &str, attempt: u64, length: usize) -> String {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    /// Number of letters taken from one hash. Any further ones would depend only on its last bits.
    const OF_ONE_HASH: usize = 10;
    let mut letters = String::with_capacity(length);
    for block in 0..length.div_ceil(OF_ONE_HASH) {
        let mut hasher = DefaultHasher::new();
        (text, attempt, block).hash(&mut hasher);
        let mut hash = hasher.finish();
        for _ in 0..OF_ONE_HASH.min(length - letters.len()) {
            let place = usize::try_from(hash % 62).unwrap_or_default();
            letters.push(LETTERS.get(place).copied().unwrap_or(b'0').into());
            hash /= 62;
        }
    }
    letters
}

#[derive(Debug, Default)]
struct Replacements(HashMap<String, String>);

impl Replacements {
    /// Creates replacements for those of `texts` that are not accepted. They differ from each other, from all
    /// accepted texts, and from `reserved`.
    fn new<'a>(
        texts: impl Iterator<Item = &'a str> + Clone,
        reserved: impl Iterator<Item = &'a str>,
        accepts: impl Fn(&str) -> bool,
        replace: impl Fn(&str, u64) -> String,
    ) -> Self {
        let mut replaced = HashMap::new();
        if texts.clone().all(&accepts) {
            return Self(replaced);
        }
        let accepted = texts.clone().filter(|text| accepts(text));
        let mut taken: HashSet<Cow<'a, str>> = accepted.chain(reserved).map(Cow::Borrowed).collect();
        for text in texts.filter(|text| !accepts(text)) {
            if replaced.contains_key(text) {
                continue;
            }
            let mut attempt = 0;
            let mut new = replace(text, attempt);
            while taken.contains(new.as_str()) {
                attempt += 1;
                new = replace(text, attempt);
            }
            taken.insert(Cow::Owned(new.clone()));
            replaced.insert(text.to_owned(), new);
        }
        Self(replaced)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The replacement for `text`, or else `text` itself.
    fn of<'t>(&'t self, text: &'t str) -> &'t str {
        self.0.get(text).map_or(text, String::as_str)
    }

    /// Replaces `text` if it has a replacement. Returns whether it did.
    fn apply(&self, text: &mut String) -> bool {
        let new = self.0.get(text.as_str());
        if let Some(new) = new {
            text.clone_from(new);
        }
        new.is_some()
    }
}

/// A replacement for `name`. Different attempts give different names.
fn replaced_name(form: NameForm, name: &str, attempt: u64) -> String {
    let mut readable = form.readable(name);
    if attempt == 0 && readable.len() <= LONGEST && !readable.is_empty() {
        return readable;
    }
    let suffix = hash_letters(name, attempt, 8);
    readable.truncate(LONGEST - suffix.len() - 1);
    format!("{readable}_{suffix}")
}

/// Replacements for the names of declared tools. They depend only on the tools, so that names in a response
/// can be mapped back. An identifier is derived from the tool's `Word` replacement, so it never equals that
/// of another tool, and a response can be mapped back without knowing which form its upstream received.
fn declared_replacements(tools: &[Tool], form: NameForm) -> Replacements {
    if tools.iter().all(|tool| form.accepts(&tool.name)) {
        return Replacements::default();
    }
    let replaced = |names: &[&str], form: NameForm| {
        let replace = |name: &str, attempt| replaced_name(form, name, attempt);
        Replacements::new(names.iter().copied(), std::iter::empty(), |name| form.accepts(name), replace)
    };
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let words = replaced(&names, NameForm::Word);
    if form == NameForm::Word {
        return words;
    }
    let at_words: Vec<&str> = names.iter().map(|name| words.of(name)).collect();
    let identifiers = replaced(&at_words, form);
    let changed = names.iter().zip(&at_words).map(|(name, word)| (*name, identifiers.of(word)));
    let changed = changed.filter(|(name, identifier)| name != identifier);
    Replacements(changed.map(|(name, new)| (name.to_owned(), new.to_owned())).collect())
}

/// The names under which upstreams that restrict names may know `tools`, each with its tool.
pub(crate) fn names_at_upstreams(tools: &[Tool]) -> Vec<(String, &Tool)> {
    let mut names = Vec::new();
    for form in [NameForm::Word, NameForm::Identifier] {
        let replaced = declared_replacements(tools, form);
        let known = tools.iter().filter_map(|tool| Some((replaced.0.get(&tool.name)?.clone(), tool)));
        names.extend(known);
    }
    names
}

impl Conversation {
    /// Replaces names and ids that an upstream would reject, and ids that several calls share.
    pub fn in_forms(&self, names: NameForm, ids: IdForm) -> Cow<'_, Self> {
        let names = all_replacements(self, names);
        let accepts = |id: &str| id.is_empty() || ids.accepts(id);
        let replace = |id: &str, attempt| ids.hashed(id, attempt);
        let replacements = Replacements::new(past_ids(self), std::iter::empty(), accepts, replace);
        let repeats = has_repeated_ids(self);
        if names.is_empty() && replacements.is_empty() && !repeats {
            return Cow::Borrowed(self);
        }
        let mut sent = replaced(self.clone(), &names, &replacements);
        if repeats {
            with_unique_ids(&mut sent, ids);
        }
        Cow::Owned(sent)
    }
}

/// Replacements for the names of declared tools and of past calls. The replacement for a past name that is
/// not declared differs from the names of all declared tools.
fn all_replacements(conversation: &Conversation, form: NameForm) -> Replacements {
    let mut all = declared_replacements(&conversation.tools, form);
    let new: HashSet<String> = all.0.values().cloned().collect();
    let accepts = |name: &str| form.accepts(name) && !new.contains(name);
    if past_names(conversation).all(accepts) {
        return all;
    }
    let declared: HashSet<&str> = conversation.tools.iter().map(|tool| tool.name.as_str()).collect();
    let past = past_names(conversation).filter(|name| !declared.contains(name));
    let reserved = declared.iter().copied().chain(new.iter().map(String::as_str));
    let replace = |name: &str, attempt| replaced_name(form, name, attempt);
    all.0.extend(Replacements::new(past, reserved, accepts, replace).0);
    all
}

fn past_parts(conversation: &Conversation) -> impl Iterator<Item = &Part> + Clone {
    conversation.turns.iter().flat_map(|turn| &turn.parts)
}

fn past_names(conversation: &Conversation) -> impl Iterator<Item = &str> + Clone {
    past_parts(conversation).filter_map(|part| match part {
        Part::Call(call) => Some(call.name.as_str()),
        Part::Result(output) if !output.name.is_empty() => Some(output.name.as_str()),
        _ => None,
    })
}

fn past_ids(conversation: &Conversation) -> impl Iterator<Item = &str> + Clone {
    past_parts(conversation).filter_map(|part| match part {
        Part::Call(call) => Some(call.id.as_str()),
        Part::Result(output) => Some(output.id.as_str()),
        _ => None,
    })
}

fn replaced(mut conversation: Conversation, names: &Replacements, ids: &Replacements) -> Conversation {
    for part in conversation.turns.iter_mut().flat_map(|turn| &mut turn.parts) {
        match part {
            Part::Call(call) => {
                names.apply(&mut call.name);
                ids.apply(&mut call.id);
            }
            Part::Result(output) => {
                names.apply(&mut output.name);
                ids.apply(&mut output.id);
            }
            _ => {}
        }
    }
    // A renamed custom tool would still have the old name in its own declaration, so it is declared as a
    // function.
    conversation.custom_tools.retain(|name| !names.0.contains_key(name));
    for tool in &mut conversation.tools {
        if names.apply(&mut tool.name) {
            tool.declared = None;
        }
    }
    match &mut conversation.tool_choice {
        ToolChoice::Named(name) => _ = names.apply(name),
        ToolChoice::Allowed { names: allowed, .. } => {
            allowed.iter_mut().for_each(|name| _ = names.apply(name))
        }
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Required => {}
    }
    conversation
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{Call, CallOutput, Role, Turn};

    fn conversation(tools: &[&str], calls: &[(&str, &str)]) -> Conversation {
        let call = |(id, name): &(&str, &str)| Part::Call(Call::new(*id, *name, "{}"));
        let result = |(id, _): &(&str, &str)| {
            let output =
                CallOutput { id: (*id).into(), name: String::new(), content: "1".into(), is_error: false };
            Turn::of(Role::Tool, vec![Part::Result(output)])
        };
        let asked = Turn::of(Role::Assistant, calls.iter().map(call).collect());
        Conversation {
            tools: tools.iter().map(|name| Tool::named(*name)).collect(),
            turns: [asked].into_iter().chain(calls.iter().map(result)).collect(),
            ..Conversation::default()
        }
    }

    fn names(conversation: &Conversation) -> Vec<&str> {
        conversation.tools.iter().map(|tool| tool.name.as_str()).chain(past_names(conversation)).collect()
    }

    #[test]
    fn accepted_names_and_ids_are_not_copied() {
        let plain = conversation(&["a", "b-c_9"], &[("call_1", "a"), ("", "b-c_9")]);
        for (names, ids) in [(NameForm::Any, IdForm::Any), (NameForm::Identifier, IdForm::Word)] {
            assert!(matches!(plain.in_forms(names, ids), Cow::Borrowed(_)));
        }
        let odd = conversation(&["a.b", ""], &[("functions.a:0", "x y")]);
        assert!(matches!(odd.in_forms(NameForm::Any, IdForm::Any), Cow::Borrowed(_)));
    }

    #[test]
    fn rejected_names_stay_readable() {
        let long = "x".repeat(65);
        let odd =
            conversation(&["tab.open", "Größe ändern", &long, "3d"], &[("1", "tab.open"), ("2", "old.one")]);
        let sent = odd.in_forms(NameForm::Word, IdForm::Any);
        let sent_names = names(&sent);
        assert_eq!(sent_names[0], "tab_open");
        assert_eq!(sent_names[1], "Gr__e__ndern");
        assert!(sent_names[2].starts_with("xxx") && sent_names[2].len() == 64, "{}", sent_names[2]);
        assert_eq!(sent_names[3..], ["3d", "tab_open", "old_one"]);
        let sent = odd.in_forms(NameForm::Identifier, IdForm::Any);
        assert_eq!(names(&sent)[3], "_3d");
    }

    #[test]
    fn replaced_names_differ_from_all_others() {
        let odd = conversation(&["a.b", "a b", "a_b", "a:b"], &[("1", "a/b"), ("2", "a.b")]);
        let sent = odd.in_forms(NameForm::Word, IdForm::Any);
        let sent = names(&sent);
        assert_eq!(sent[2], "a_b");
        let different: HashSet<_> = sent[..5].iter().collect();
        assert_eq!((different.len(), sent[5]), (5, sent[0]));
        assert!(sent.iter().all(|name| is_word(name)), "{sent:?}");
        // Responses are mapped back from the names that the upstream received.
        let known = names_at_upstreams(&odd.tools);
        for (place, name) in [(0, "a.b"), (1, "a b"), (3, "a:b")] {
            assert!(known.iter().any(|(new, tool)| new == sent[place] && tool.name == name), "{name}");
        }
    }

    #[test]
    fn name_at_any_upstream_belongs_to_one_tool() {
        for tools in [&["🛰: \u{10a0c}", " ¡¡🌀𖬀"][..], &["3d", "#3d", "é3d"], &["-", "_-", "?-", "--", "-?"]]
        {
            let odd = conversation(tools, &[]);
            let mut known: HashMap<String, &str> = HashMap::new();
            for (name, tool) in names_at_upstreams(&odd.tools) {
                let tool = tool.name.as_str();
                assert!(!tools.contains(&name.as_str()) || name == tool, "{name} is declared");
                assert_eq!(*known.entry(name.clone()).or_insert(tool), tool, "{name}");
            }
        }
    }

    #[test]
    fn ids_are_replaced_the_same_way_everywhere() {
        let odd = conversation(&[], &[("call_abc", "f"), ("abcDEF123", "f"), ("", "f")]);
        let sent = odd.in_forms(NameForm::Word, IdForm::Alphanumeric(9));
        let ids: Vec<_> = past_ids(&sent).collect();
        assert_eq!(ids[0].len(), 9);
        assert!(ids[0].bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_eq!(ids, [ids[0], "abcDEF123", "", ids[0], "abcDEF123", ""]);
        let again = conversation(&[], &[("call_abc", "f")]);
        let again = again.in_forms(NameForm::Word, IdForm::Alphanumeric(9));
        assert_eq!(past_ids(&again).next(), Some(ids[0]), "it does not depend on the rest of the history");
    }

    #[test]
    fn an_id_that_looks_like_a_replacement_is_not_confused_with_it() {
        let replacement = IdForm::Alphanumeric(9).hashed("call_abc", 0);
        let odd = conversation(&[], &[("call_abc", "f"), (&replacement, "f")]);
        let sent = odd.in_forms(NameForm::Word, IdForm::Alphanumeric(9));
        let ids: Vec<_> = past_ids(&sent).collect();
        assert_eq!((ids[1], ids[3]), (&*replacement, &*replacement));
        assert_eq!(ids[0], ids[2]);
        assert_ne!(ids[0], replacement);
    }

    #[test]
    fn forms_of_ids_have_limits() {
        let long = "é".repeat(41);
        assert!(IdForm::AtMost(40).accepts(&"é".repeat(40)));
        assert!(!IdForm::AtMost(40).accepts(&long));
        assert!(IdForm::AtMost(40).accepts(&IdForm::AtMost(40).hashed(&long, 0)));
        assert_eq!(IdForm::AtMost(9).hashed(&long, 0).len(), 9);
        assert!(!IdForm::Word.accepts("functions.a:0") && IdForm::Word.accepts("toolu_01-x"));
        assert!(IdForm::Word.accepts(&IdForm::Word.hashed("functions.a:0", 3)));
        assert!(!IdForm::Word.accepts(&"x".repeat(65)));
    }
}
