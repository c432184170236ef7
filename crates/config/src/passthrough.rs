//! [`Passthrough`]: paths whose requests are passed to the upstream without being parsed (`passthrough`).

use toml::de::DeValue;

use super::{
    keys::strings,
    table::Cell,
    value::{list, parsed},
};
use toolwire_pipeline::{dialect::ClientDialect, wire::Invalid};

/// The prefix of all paths. The part after it is appended to the upstream's base URL.
pub const BASE: &str = "/v1/";

/// The paths below which toolwire serves everything itself.
const OWN: [&str; 3] = ["/v1/responses", "/v1/models", "/v1/providers"];

/// The paths that toolwire serves itself, and whether it also serves everything below them.
fn own() -> impl Iterator<Item = (&'static str, bool)> {
    let endpoints = ClientDialect::all().flat_map(|dialect| dialect.side().endpoints());
    let endpoints = endpoints.map(|endpoint| (endpoint.beginning(), endpoint.names_model()));
    OWN.iter().map(|own| (*own, true)).chain(endpoints)
}

/// Path patterns. Each is a path, or a prefix followed by `*`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Passthrough(Vec<String>);

impl Passthrough {
    /// Parses patterns.
    ///
    /// # Errors
    /// A description of the first pattern that is invalid or that covers one of toolwire's own paths.
    pub fn parse(written: &[&str]) -> Result<Self, Invalid> {
        Ok(Self(written.iter().map(|pattern| parse(pattern)).collect::<Result<_, _>>()?))
    }

    /// Whether requests for `path`, exactly as the client sent it, are passed through. Paths with escapes, empty
    /// segments or dot segments are never passed through, because two servers could interpret them differently.
    pub fn covers(&self, path: &str) -> bool {
        let matches = |pattern: &String| match pattern.strip_suffix('*') {
            Some(beginning) => path.starts_with(beginning),
            None => path == pattern,
        };
        self.0.iter().any(matches) && is_plain(path)
    }

    /// The value in the configuration file.
    pub(super) fn shown(&self) -> toml::Value {
        strings(self.0.iter().map(String::as_str))
    }
}

/// Reads `passthrough`: one pattern, or an array.
pub(super) fn read(cell: Cell<'_>) -> Option<Passthrough> {
    let pattern = parsed(parse);
    let patterns = match cell.value {
        DeValue::Array(_) => list(|cell: Cell<'_>| Some((pattern(cell.clone())?, cell)))(cell)?,
        _ => vec![(pattern(cell.clone())?, cell)],
    };
    let mut known = Vec::new();
    for (pattern, cell) in patterns {
        if known.contains(&pattern) {
            return cell.wrong(format!("`{pattern}` is listed twice"));
        }
        known.push(pattern);
    }
    Some(Passthrough(known))
}

fn parse(written: &str) -> Result<String, Invalid> {
    const EXPECTED: &str =
        "expected a path such as \"/v1/embeddings\", or \"/v1/audio/*\" for everything below one";
    let beginning = written.strip_suffix('*');
    let path = beginning.map_or(written, |beginning| beginning.strip_suffix('/').unwrap_or(beginning));
    let is_base = beginning == Some(BASE);
    if !(is_base || is_plain(path)) {
        return Err(format!(
            "{EXPECTED}; it begins with `{BASE}` and has letters, digits, `-`, `.`, `_`, `~`, `:` and `@` between slashes"
        )
        .into());
    }
    match own().find(|own| conflicts(beginning.ok_or(written), *own)) {
        Some((own, _)) => Err(format!("toolwire serves `{own}` itself").into()),
        None => Ok(written.to_owned()),
    }
}

/// Whether a pattern covers one of toolwire's own paths. The pattern is a prefix (`Ok`) or a single path (`Err`).
fn conflicts(pattern: Result<&str, &str>, (own, has_below): (&str, bool)) -> bool {
    let own = own.trim_end_matches('/');
    let is_below = |path: &str| has_below && path.strip_prefix(own).is_some_and(|rest| rest.starts_with('/'));
    match pattern {
        Ok(beginning) => own.starts_with(beginning) || is_below(beginning),
        Err(path) => path == own || is_below(path),
    }
}

/// Whether all servers interpret this path in the same way.
fn is_plain(path: &str) -> bool {
    let is_segment = |segment: &str| {
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:@".contains(&byte);
        !matches!(segment, "" | "." | "..") && segment.bytes().all(is_legal)
    };
    path.strip_prefix(BASE).is_some_and(|rest| rest.split('/').all(is_segment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_match_exactly_or_by_their_beginning() {
        let known = Passthrough::parse(&["/v1/embeddings", "/v1/audio/*", "/v1/file*"]).unwrap();
        for path in
            ["/v1/embeddings", "/v1/audio/speech", "/v1/audio/a/b", "/v1/files", "/v1/files/f-1/content"]
        {
            assert!(known.covers(path), "{path}");
        }
        for path in [
            "/v1/embeddings/",
            "/v1/embeddings/x",
            "/v1/Embeddings",
            "/v1/audio",
            "/v1/audio/",
            "/v1",
            "/",
            "",
        ] {
            assert!(!known.covers(path), "{path}");
        }
    }

    #[test]
    fn ambiguous_paths_are_never_passed_through() {
        let known = Passthrough::parse(&["/v1/audio/*", "/v1/f*"]).unwrap();
        for path in [
            "/v1/audio/..",
            "/v1/audio/../models",
            "/v1/audio/./x",
            "/v1/audio//x",
            "/v1/audio/%2e%2e/models",
            "/v1/audio/%2E./models",
            "/v1/audio/a%2fb",
            "/v1/audio/a\\b",
            "/v1/audio/..;/models",
            "/v1/audio/x?y",
            "/v1/audio/x#y",
            "/v1/audio/x y",
            "/v1/audio/\u{e9}",
            "//v1/audio/x",
            "/v1/f/../models",
        ] {
            assert!(!known.covers(path), "{path}");
        }
    }

    #[test]
    fn patterns_that_are_none_or_cover_own_paths_are_rejected() {
        for pattern in [
            "",
            "/",
            "*",
            "/*",
            "/v1",
            "/v1/",
            "v1/embeddings",
            "/v2/embeddings",
            "/v1/a//b",
            "/v1/../x",
            "/v1/a/..",
            "/v1/%61",
            "/v1/a?b",
            "/v1/a b",
            "/v1/*/x",
            "/v1/a**",
            "/v1/a/../*",
            "/v1//*",
            "http://host/v1/x",
        ] {
            let error = Passthrough::parse(&[pattern]).unwrap_err().to_string();
            assert!(error.starts_with("expected a path"), "{pattern}: {error}");
        }
        for (pattern, own) in [
            ("/v1/chat/completions", "/v1/chat/completions"),
            ("/v1/*", "/v1/responses"),
            ("/v1/ch*", "/v1/chat/completions"),
            ("/v1/completions", "/v1/completions"),
            ("/v1/messages", "/v1/messages"),
            ("/v1/messages/*", "/v1/messages/count_tokens"),
            ("/v1/models/x", "/v1/models"),
            ("/v1/models/*", "/v1/models"),
            ("/v1/models/x*", "/v1/models"),
            ("/v1/responses/x/cancel", "/v1/responses"),
        ] {
            assert_eq!(
                Passthrough::parse(&[pattern]),
                Err(format!("toolwire serves `{own}` itself").into()),
                "{pattern}"
            );
        }
        for pattern in ["/v1/completionsx", "/v1/messages/batches", "/v1/modelsx", "/v1/chat/*x"] {
            assert_eq!(Passthrough::parse(&[pattern]).is_ok(), !pattern.contains('*'), "{pattern}");
        }
    }
}
