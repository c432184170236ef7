//! Reads the name and the ID of a call whose arguments are elements.

use super::{At, ElementsWalk};
use crate::{
    format::ElementsName,
    pattern::{Fit, fit},
    tag::{attribute, tag_text},
    text::{head, tail},
    walk::{CallRules, Step},
};

impl ElementsWalk {
    pub(super) fn tag(&mut self, text: &str, rules: &CallRules<'_>) -> Step {
        let ElementsName::Attribute(key, end) = self.elements.name else { return Step::Stop(0) };
        match tag_text(text, end) {
            Some(Some(tag)) => {
                let name = attribute(tag, key).and_then(|name| rules.name(name));
                let Some(name) = name else { return Step::Stop(0) };
                name.clone_into(&mut self.name);
                self.at = At::Between;
                Step::Took(tag.len() + end.len())
            }
            Some(None) => Step::Hold,
            None => Step::Stop(0),
        }
    }

    /// Reads the element with the name, or the element with the ID before it.
    pub(super) fn named(&mut self, text: &str, rules: &CallRules<'_>) -> Step {
        let ElementsName::Element(names) = self.elements.name else { return Step::Stop(0) };
        let id = Some(&self.elements.id).filter(|(open, _)| !open.is_empty() && self.id.is_empty());
        for (open, close) in names.iter().chain(id) {
            match fit(open, text) {
                Fit::Begins => return Step::Hold,
                Fit::No => {}
                Fit::Whole(before) => {
                    let Some(len) = tail(text, before).find('<') else {
                        return Step::Hold;
                    };
                    let content = head(tail(text, before), len).trim();
                    let after = match fit(close, tail(text, before + len)) {
                        Fit::Begins => return Step::Hold,
                        Fit::Whole(after) => after,
                        Fit::No => return Step::Stop(0),
                    };
                    if *open == self.elements.id.0 {
                        content.clone_into(&mut self.id);
                        return Step::Took(before + len + after);
                    }
                    let rules = CallRules { any_name: self.any_name, ..*rules };
                    let Some(name) = rules.name(content) else { return Step::Stop(0) };
                    name.clone_into(&mut self.name);
                    return Step::Took(before + len + after);
                }
            }
        }
        Step::Stop(0)
    }
}
