//! [`RememberedRules`]: answers that were saved as rules.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::rules::Asked;
use toolwire_net::private;

/// Maximum number of rules. Beyond it, the least recently used ones are removed.
const MAX_RULES: usize = 10_000;

/// An answer that was saved as a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberedRule {
    pub id: String,
    pub tool: String,
    /// `None` matches all domains, and calls without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Whether matching calls may run.
    pub granted: bool,
    /// The tool's [definition](crate::ToolSpec::definition) when a person allowed it. Once the tool has another one,
    /// the person is asked again. `None` allows any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
    /// Unix time in milliseconds.
    pub granted_at: u64,
    /// When the rule last answered a question, as Unix time in milliseconds.
    #[serde(default)]
    pub last_used: Option<u64>,
    /// Number of questions that the rule has answered.
    #[serde(default)]
    pub use_count: u64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct RememberedRules {
    /// Whether all questions are answered with yes automatically.
    #[serde(default)]
    pub(super) auto_approve: bool,
    #[serde(default)]
    rules: Vec<RememberedRule>,
    /// The text that was last written.
    #[serde(skip)]
    written: Option<String>,
    /// Uses that the shared string does not include yet: the number of uses and the time of the last one, by rule id.
    #[serde(skip)]
    uses: HashMap<String, (u64, u64)>,
}

impl RememberedRules {
    /// Reads the rules in the file. Without a file, there are none. An unreadable file is renamed.
    pub(super) fn read(file: &Path) -> Self {
        let bytes = match fs::read(file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Self::default(),
            Err(error) => {
                tracing::error!(path = %file.display(), %error, "remembered permissions cannot be read");
                return Self::default();
            }
        };
        match serde_json::from_slice::<Self>(&bytes) {
            Ok(mut remembered) => {
                remembered.written = String::from_utf8(bytes).ok();
                remembered
            }
            Err(error) => {
                let aside = file.with_extension("unreadable");
                tracing::error!(
                    path = %file.display(), %error, aside = %aside.display(),
                    "remembered permissions are damaged and were set aside: people are asked again. A copy from before the damage can be put in their place while toolwire is stopped"
                );
                // If this fails too, the file will be overwritten.
                let _ = fs::rename(file, aside);
                Self::default()
            }
        }
    }

    /// Replaces the rules with those in the shared string, and adds the uses that were counted here but that the shared
    /// string does not include yet.
    ///
    /// # Errors
    /// The text is invalid. Nothing was changed.
    pub(super) fn take_over(&mut self, text: &str) -> serde_json::Result<()> {
        let mut next = if text.is_empty() { Self::default() } else { serde_json::from_str::<Self>(text)? };
        next.written = (!text.is_empty()).then(|| text.to_owned());
        for rule in &mut next.rules {
            if let Some((id, (count, last))) = self.uses.remove_entry(&rule.id) {
                rule.use_count = rule.use_count.saturating_add(count);
                rule.last_used = rule.last_used.max(Some(last));
                next.uses.insert(id, (count, last));
            }
        }
        *self = next;
        Ok(())
    }

    /// The rules, oldest first.
    pub(super) fn rules(&self) -> &[RememberedRule] {
        &self.rules
    }

    /// The remembered answer for a call to a tool with this [definition](crate::ToolSpec::definition). A rule for the
    /// domain takes precedence over one for the tool.
    pub(super) fn answer(&mut self, asked: &Asked<'_>, definition: &str, now: u64) -> Option<bool> {
        if self.auto_approve {
            return Some(true);
        }
        let of_tool = self.rules.iter_mut().filter(|rule| rule.tool == asked.tool);
        let fitting = of_tool.filter(|rule| rule.domain.is_none() || rule.domain.as_deref() == asked.domain);
        let rule = fitting.max_by_key(|rule| rule.domain.is_some())?;
        if rule.granted && rule.definition.as_ref().is_some_and(|allowed| allowed != definition) {
            return None;
        }
        rule.last_used = Some(now);
        rule.use_count = rule.use_count.saturating_add(1);
        let (count, last) = self.uses.entry(rule.id.clone()).or_default();
        (*count, *last) = (count.saturating_add(1), now);
        Some(rule.granted)
    }

    /// Saves an answer. Replaces an earlier one for the same tool and domain.
    pub(super) fn remember(
        &mut self,
        (tool, domain): (String, Option<String>),
        definition: Option<String>,
        granted: bool,
        now: u64,
    ) {
        self.rules.retain(|rule| !(rule.tool == tool && rule.domain == domain));
        if self.rules.len() >= MAX_RULES {
            let used = |rule: &RememberedRule| rule.last_used.unwrap_or(rule.granted_at);
            let least =
                self.rules.iter().enumerate().min_by_key(|(_, rule)| used(rule)).map(|(place, _)| place);
            if let Some(place) = least {
                self.rules.remove(place);
            }
        }
        let id = format!("rule_{:016x}", fastrand::u64(..));
        self.rules.push(RememberedRule {
            id,
            tool,
            domain,
            granted,
            definition: definition.filter(|_| granted),
            granted_at: now,
            last_used: None,
            use_count: 0,
        });
    }

    /// Saves that a tool may run for all domains.
    pub(super) fn allow_everywhere(&mut self, tool: &str, now: u64) {
        self.rules.retain(|rule| rule.tool != tool);
        self.remember((tool.to_owned(), None), None, true, now);
    }

    /// Removes a rule. Returns whether there was one.
    pub(super) fn revoke(&mut self, id: &str) -> bool {
        let before = self.rules.len();
        self.rules.retain(|rule| rule.id != id);
        self.rules.len() < before
    }

    /// Returns the text to write if it has changed since the last call.
    pub(super) fn text_if_changed(&mut self) -> Option<String> {
        // Serializing these types cannot fail.
        let text = serde_json::to_string_pretty(self).ok()?;
        let is_empty = self.written.is_none() && self.rules.is_empty() && !self.auto_approve;
        if is_empty || self.written.as_ref() == Some(&text) {
            return None;
        }
        self.written = Some(text.clone());
        self.uses.clear();
        Some(text)
    }

    /// Records that the last text could not be written.
    pub(super) fn is_not_written(&mut self) {
        self.written = Some(String::new());
    }
}

/// A pending write.
#[derive(Debug)]
pub(super) struct Save {
    pub(super) file: PathBuf,
    pub(super) text: String,
}

impl Save {
    /// Replaces the file atomically. Blocks on the disk.
    ///
    /// # Errors
    /// The file could not be replaced.
    pub(super) fn write(&self) -> io::Result<()> {
        if let Some(folder) = self.file.parent() {
            private::create_dir_all(folder)?;
        }
        private::replace_on_disk(&self.file, self.text.as_bytes())
    }
}
