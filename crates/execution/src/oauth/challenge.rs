//! [`Challenge`]: what a server says in `WWW-Authenticate` about the token that it wants (RFC 6750, section 3, and
//! RFC 9728, section 5.1).

/// In bytes. The rest of a header is not read.
const MAX_HEADER: usize = 8 << 10;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// The URL of the server's metadata.
    pub(crate) resource_metadata: Option<String>,
    /// The scopes that the request needs, separated by spaces.
    pub(crate) scope: Option<String>,
    pub(crate) error: Option<String>,
}

impl Challenge {
    /// Reads the first challenge for a bearer token.
    pub(crate) fn parse(header: &str) -> Self {
        let mut challenge = Self::default();
        let mut rest = header.get(..MAX_HEADER).unwrap_or(header);
        let mut is_bearer = false;
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            let (word, after) = split_token(rest);
            if word.is_empty() {
                return challenge;
            }
            match after.trim_start().strip_prefix('=') {
                // A token that no `=` follows is the name of a scheme.
                None => {
                    if is_bearer {
                        return challenge;
                    }
                    is_bearer = word.eq_ignore_ascii_case("bearer");
                    rest = after;
                }
                Some(after) => {
                    let (value, after) = split_value(after.trim_start());
                    if is_bearer {
                        challenge.set(&word.to_ascii_lowercase(), value);
                    }
                    rest = after;
                }
            }
        }
    }

    fn set(&mut self, name: &str, value: String) {
        let field = match name {
            "resource_metadata" => &mut self.resource_metadata,
            "scope" => &mut self.scope,
            "error" => &mut self.error,
            _ => return,
        };
        field.get_or_insert(value);
    }

    /// Whether the token is valid, but does not allow the request.
    pub(crate) fn lacks_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    /// The scopes, if all of them have valid names.
    pub(crate) fn scopes(&self) -> Option<&str> {
        self.scope.as_deref().filter(|scope| are_scopes(scope))
    }
}

/// Whether `scopes` is a list of scopes separated by spaces (RFC 6749, section 3.3).
pub(super) fn are_scopes(scopes: &str) -> bool {
    let is_part = |byte: u8| byte == b' ' || (byte.is_ascii_graphic() && !b"\"\\".contains(&byte));
    !scopes.trim().is_empty() && scopes.len() <= MAX_HEADER && scopes.bytes().all(is_part)
}

fn split_token(text: &str) -> (&str, &str) {
    let is_part = |char: char| char.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~/".contains(char);
    let end = text.find(|char| !is_part(char)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// Reads a value, which may be quoted. Returns the value and the rest.
fn split_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        let (value, rest) = text.split_at_checked(end).unwrap_or((text, ""));
        return (value.to_owned(), rest);
    };
    let mut value = String::new();
    let mut chars = quoted.chars();
    while let Some(char) = chars.next() {
        match char {
            '"' => return (value, chars.as_str()),
            '\\' => value.extend(chars.next()),
            char => value.push(char),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(header: &str) -> [Option<String>; 3] {
        let Challenge { resource_metadata, scope, error } = Challenge::parse(header);
        [resource_metadata, scope, error]
    }

    #[test]
    fn bearer_challenge_is_found_among_others() {
        let some = |text: &str| Some(text.to_owned());
        for (header, expected) in [
            ("", [None, None, None]),
            ("Bearer", [None, None, None]),
            ("Bearer scope=\"a b\"", [None, some("a b"), None]),
            (
                r#"bearer Error="x\"y", scope=a,resource_metadata="https://s/m""#,
                [some("https://s/m"), some("a"), some("x\"y")],
            ),
            (r#"Basic realm="Bearer scope=no", Bearer scope="yes""#, [None, some("yes"), None]),
            (r#"Bearer scope="one", Digest scope="two""#, [None, some("one"), None]),
            (r#"Bearer scope="one", scope="two""#, [None, some("one"), None]),
            (r#"Bearer scope = "a" , error = b"#, [None, some("a"), some("b")]),
            (r#"Bearer scope="open"#, [None, some("open"), None]),
            ("Bearer scope=\"\\", [None, some(""), None]),
            ("Negotiate abc==, Bearer error=e", [None, None, some("e")]),
            ("Bearer ä=b", [None, None, None]),
        ] {
            assert_eq!(parsed(header), expected, "{header}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_header_is_read(header in r#"(Bearer|Basic|[ ,="\\aé]|scope|error){0,30}"#) {
            let _ = Challenge::parse(&header);
        }
    }
}
