//! [`Entry`]: what a table says about a type.

use toolwire::dialect::Dialect;

/// What becomes of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Becomes {
    /// It is forwarded as it is. Only if client and upstream speak the same dialect.
    Carried,
    /// It becomes the other dialect's counterpart.
    Mapped,
    /// Its contents become text for the model, or for the client's user.
    Said,
    /// The request gets an error with status 400.
    Refused,
    /// It is left out, and nothing else changes.
    Ignored,
}

impl Becomes {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "carried" => Self::Carried,
            "mapped" => Self::Mapped,
            "said" => Self::Said,
            "refused" => Self::Refused,
            "ignored" => Self::Ignored,
            _ => return None,
        })
    }
}

/// What becomes of a type towards some dialects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The dialects. Empty for all that no other claim of the entry names.
    pub(crate) towards: Vec<Dialect>,
    pub(crate) becomes: Becomes,
    /// Members whose contents are left out.
    pub(crate) without: Vec<String>,
    /// To what it is mapped, or why it is not.
    pub(crate) note: String,
}

/// The claims about a type: `CLAIM[ without MEMBER, …][: NOTE]`, each but the first preceded by `; DIALECT …: `.
#[derive(Debug, Clone)]
pub(crate) struct Entry(pub(crate) Vec<Claim>);

impl Entry {
    /// Parses an entry. `None` if it is malformed.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let claims: Option<Vec<_>> = text.split("; ").map(claim).collect();
        let claims = claims?;
        let are_told_apart = claims.iter().skip(1).all(|claim| !claim.towards.is_empty());
        are_told_apart.then_some(Self(claims))
    }

    /// The claim about an exchange between a type's own dialect and another one. `None` if nothing is said: it is
    /// carried between equal dialects.
    pub(crate) fn towards(&self, own: Dialect, other: Dialect) -> Option<&Claim> {
        let named = self.0.iter().find(|claim| claim.towards.contains(&other));
        named.or_else(|| self.0.iter().find(|claim| claim.towards.is_empty() && own != other))
    }
}

fn claim(text: &str) -> Option<Claim> {
    let (mut rest, mut towards) = (text, Vec::new());
    if let Some((names, behind)) = text.split_once(": ") {
        let names: Option<Vec<Dialect>> = names.split(' ').map(|name| name.parse().ok()).collect();
        if let Some(names) = names {
            (rest, towards) = (behind, names);
        }
    }
    let (what, note) = rest.split_once(": ").unwrap_or((rest, ""));
    let (word, without) = what.split_once(" without ").unwrap_or((what, ""));
    let without = without.split(", ").filter(|name| !name.is_empty()).map(str::to_owned).collect();
    Some(Claim { towards, becomes: Becomes::parse(word)?, without, note: note.to_owned() })
}
