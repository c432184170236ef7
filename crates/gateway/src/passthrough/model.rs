//! Determines the model of a request from its body, from a header, or from a configuration that leaves no choice.

use std::ops::Range;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, header};

use super::{
    super::exchange::{MULTIPLIERS, check_multiplier},
    multipart,
};
use toolwire_config::{Config, Model};
use toolwire_pipeline::{
    dialect::is_like,
    failure::{Failure, Kind},
    wire::json::{self, Json, span},
};

/// Header that names the model if the body does not.
pub(super) const HEADER: HeaderName = HeaderName::from_static("x-toolwire-model");

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) name: String,
    written: Written,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Written {
    InHeader,
    /// In a JSON string, at this range of the body.
    AsJson(Range<usize>),
    /// In plain text, at this range of the body.
    AsText(Range<usize>),
}

impl Named {
    /// Replaces the model's name in the body with `name`. All other bytes stay the same.
    pub(super) fn renamed(&self, name: &str, body: Bytes) -> Bytes {
        let (range, written) = match &self.written {
            _ if self.name == name => return body,
            Written::InHeader => return body,
            Written::AsJson(range) => (range, serde_json::Value::from(name).to_string()),
            Written::AsText(range) => (range, name.to_owned()),
        };
        match (body.get(..range.start), body.get(range.end..)) {
            (Some(before), Some(after)) => [before, written.as_bytes(), after].concat().into(),
            _ => body,
        }
    }
}

/// Finds the model's name in a request.
///
/// # Errors
/// [`Kind::Request`] if servers could find different names in the body, if the body and the header differ, or if a JSON
/// body multiplies the upstream's work by more than `max_n`.
pub(super) fn named(headers: &HeaderMap, body: &[u8], max_n: usize) -> Result<Option<Named>, Failure> {
    let content_type =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let in_body = match media_type.as_str() {
        _ if body.is_empty() => None,
        // Servers parse such a body as JSON, whatever its content type.
        _ if begins_as_object(body) => in_json(body, max_n)?,
        "application/json" => in_json(body, max_n)?,
        json if json.ends_with("+json") => in_json(body, max_n)?,
        "multipart/form-data" => {
            let field =
                multipart::field(content_type, body, "model").map_err(|error| refused(error.to_string()))?;
            field.map(|(name, range)| Named { name: name.to_owned(), written: Written::AsText(range) })
        }
        "application/x-www-form-urlencoded" if names_model(body) => {
            return Err(refused(format!(
                "a model that a URL-encoded form names cannot be checked; set the header `{HEADER}`, or send another form"
            )));
        }
        _ => None,
    };
    let Some(in_header) = headers.get(HEADER) else { return Ok(in_body) };
    let in_header = in_header.to_str().ok().filter(|name| !name.is_empty());
    let in_header =
        in_header.ok_or_else(|| refused(format!("the request's `{HEADER}` header is not a model's name")))?;
    match in_body {
        Some(in_body) if in_body.name != in_header => {
            Err(refused(format!("the request names one model in its body and another in `{HEADER}`")))
        }
        Some(in_body) => Ok(Some(in_body)),
        None => Ok(Some(Named { name: in_header.to_owned(), written: Written::InHeader })),
    }
}

/// Whether a server could find a JSON object at the start of `body`: `{`, followed by a key or `}`. Skips byte order
/// marks, and the zeros of UTF-16 and UTF-32.
pub(super) fn begins_as_object(body: &[u8]) -> bool {
    let is_passed =
        |byte: &&u8| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0 | 0xef | 0xbb | 0xbf | 0xfe | 0xff);
    let mut bytes = body.iter().filter(is_passed);
    bytes.next() == Some(&b'{') && matches!(bytes.next(), Some(b'"' | b'}'))
}

/// Whether a query or a URL-encoded form has a field that servers could take for the model's name.
pub(super) fn names_model(pairs: &[u8]) -> bool {
    url::form_urlencoded::parse(pairs).any(|(key, _)| is_like(&key, "model"))
}

fn in_json(body: &[u8], max_n: usize) -> Result<Option<Named>, Failure> {
    let text = str::from_utf8(body).map_err(|_| refused("the request's body is not UTF-8".to_owned()))?;
    let (mut found, mut times, mut respelled, mut multiplied) = (None, 0, None, Ok(()));
    let parsed = Json::parse_members(text, |key, value| {
        if key == "model" {
            times += 1;
            found = Some(value);
        } else if is_like(&key, "model") {
            respelled = Some(key.into_owned());
        } else if multiplied.is_ok() {
            multiplied = check_multipliers(&key, value, max_n);
        }
    });
    parsed.map_err(|error| refused(format!("the request's body is not JSON: {error}")))?;
    multiplied?;
    if let Some(key) = respelled {
        let why = "is not `model`, but servers could take it for that";
        return Err(Failure::new(Kind::Request, format!("`{key}` {why}")).with_param(key));
    }
    let Some(value) = found else { return Ok(None) };
    if times > 1 {
        return Err(refused("the request's body names its model twice".to_owned()));
    }
    match (value.kind(), value.as_str(), span(text, value.raw())) {
        (json::Kind::Null, ..) => Ok(None),
        (_, Some(name), Some(range)) if !name.is_empty() => {
            Ok(Some(Named { name: name.into_owned(), written: Written::AsJson(range) }))
        }
        _ => Err(refused("the request's `model` is not a model's name".to_owned())),
    }
}

/// Checks a member of the body that servers could interpret as a field that multiplies their work.
fn check_multipliers(key: &str, value: Json<'_>, max: usize) -> Result<(), Failure> {
    let Some(name) = MULTIPLIERS.iter().find(|name| is_like(key, name)) else { return Ok(()) };
    match value.kind() {
        json::Kind::Number | json::Kind::String => {
            let value = serde_json::from_str(value.raw()).unwrap_or_default();
            check_multiplier(name, &value, max)
        }
        _ => Ok(()),
    }
}

/// Returns the model for requests that name none: the wildcard model, or any model if there is only one upstream.
pub(super) fn default(config: &Config) -> Option<&Model> {
    let wildcard = config.models.iter().find(|model| model.is_wildcard());
    wildcard.or_else(|| config.models.first().filter(|_| config.upstreams.len() == 1))
}

fn refused(message: String) -> Failure {
    Failure::new(Kind::Request, message).with_param("model")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 4;

    #[test]
    fn multipliers_of_the_upstreams_work_are_limited() {
        let check =
            |body: &str| named(&headers(&[]), body.as_bytes(), MAX).map_err(|failure| failure.to_string());
        for body in [
            r#"{"n":5}"#,
            r#"{"model":"a","best_of":1e9}"#,
            r#"{"n":"5"}"#,
            r#"{"N":5}"#,
            r#"{"n":1,"n":5}"#,
            r#"{"\u006e":5}"#,
            r#"{"n":-1}"#,
        ] {
            let error = check(body).unwrap_err();
            assert!(error.contains("at most 4"), "{body}: {error}");
        }
        for body in [r#"{"n":4}"#, r#"{"n":null}"#, r#"{"n":[9]}"#, r#"{"x":{"n":9}}"#, r#"{"size":"9x9"}"#] {
            assert!(check(body).is_ok(), "{body}");
        }
    }

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), http::HeaderValue::from_static(value))).collect()
    }

    fn renamed(content_type: &'static str, body: &str, name: &str) -> Result<Option<String>, String> {
        let headers = headers(&[(header::CONTENT_TYPE, content_type)]);
        let named = named(&headers, body.as_bytes(), MAX).map_err(|failure| failure.message().to_owned())?;
        let bytes = |named: Named| named.renamed(name, Bytes::copy_from_slice(body.as_bytes())).to_vec();
        Ok(named.map(|named| String::from_utf8(bytes(named)).unwrap()))
    }

    #[test]
    fn only_the_name_in_a_json_body_is_replaced() {
        let body = r#" {"input" : [1.50, "\u00e9"],  "model"	: "a\/b" , "x":{"model":"no"}, "model2":1} "#;
        let expected = body.replace(r#""a\/b""#, r#""c\"d""#);
        assert_eq!(renamed("application/json; charset=utf-8", body, "c\"d"), Ok(Some(expected)));
        assert_eq!(renamed("Application/JSON", body, "a/b"), Ok(Some(body.to_owned())), "nothing to replace");
        assert_eq!(renamed("application/json", r#"{"input":1}"#, "c"), Ok(None));
        assert_eq!(renamed("application/json", r#"{"model":null}"#, "c"), Ok(None));
        assert_eq!(renamed("text/plain", "model: a", "c"), Ok(None));
        assert_eq!(renamed("application/octet-stream", "{model:\"a\"}", "c"), Ok(None));
    }

    #[test]
    fn json_object_is_read_whatever_its_type_says() {
        for content_type in [
            "",
            "text/plain",
            "application/json5",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=b",
        ] {
            let body = " \r\n{ \"model\":\"a\"}";
            assert_eq!(renamed(content_type, body, "c"), Ok(Some(body.replace("a", "c"))), "{content_type}");
            for body in [
                "{\"model\":\"a\"} more",
                "\u{feff}{\"model\":\"a\"}",
                "{\0\"\0m\0",
                "{\"model\":",
                "{\"a\":1,}",
            ] {
                assert!(renamed(content_type, body, "c").is_err(), "{content_type}: {body}");
            }
        }
        let form = "application/x-www-form-urlencoded";
        for body in ["model=a", "x=1&mod%65l=a", "MODEL=a"] {
            assert!(renamed(form, body, "c").is_err(), "{body}");
        }
        assert_eq!(renamed(form, "models=a&x=model", "c"), Ok(None));
    }

    #[test]
    fn ambiguous_names_are_refused() {
        for (body, error) in [
            (r#"{"model":"a","model":"b"}"#, "twice"),
            (r#"{"model":"a","mod\u0065l":"b"}"#, "twice"),
            (r#"{"model":null,"model":"b"}"#, "twice"),
            (r#"{"model":"a","Model":"b"}"#, "`Model` is not `model`"),
            (r#"{"MODEL":"b"}"#, "`MODEL` is not `model`"),
            (r#"{"model":"a","model\u0000":"b"}"#, "is not `model`"),
            (r#"{"model":7}"#, "not a model's name"),
            (r#"{"model":""}"#, "not a model's name"),
            (r#"{"model":"a"} {}"#, "not JSON"),
            ("model=a", "not JSON"),
        ] {
            let message = renamed("application/json", body, "c").unwrap_err();
            assert!(message.contains(error), "{body}: {message}");
        }
        let both = headers(&[(header::CONTENT_TYPE, "application/json"), (HEADER, "a")]);
        assert!(named(&both, br#"{"model":"b"}"#, MAX).is_err());
        assert_eq!(named(&both, br#"{"model":"a"}"#, MAX).unwrap().unwrap().name, "a");
        assert_eq!(named(&both, b"", MAX).unwrap().unwrap().name, "a");
        assert!(named(&headers(&[(HEADER, "")]), b"", MAX).is_err());
    }
}
