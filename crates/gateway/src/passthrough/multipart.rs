//! Finds a field of a form (`multipart/form-data`, RFC 7578, section 4) without copying its parts.
//!
//! A form that servers could parse in different ways is rejected, since they could find different fields in it.

use std::ops::Range;

use memchr::memmem;

/// Maximum size in bytes of the headers of a part.
const MAX_HEADERS: usize = 8 << 10;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FormError {
    #[error("the form's content type has no `boundary`")]
    NoBoundary,
    #[error("the form's `boundary` is empty or longer than 70 characters")]
    Boundary,
    #[error("the form's boundary occurs inside a line, or behind a line end without CR")]
    InsideLine,
    #[error("the form's field `{0}` is not a text")]
    NotText(String),
    #[error("the form has the field `{0}` twice")]
    Twice(String),
    #[error("something follows the form's boundary on its line")]
    BehindBoundary,
    #[error("the form has no end")]
    NoEnd,
    #[error("a part of the form has no headers, or too long ones")]
    Headers,
    #[error("the headers of a part of the form are not UTF-8")]
    HeaderText,
    #[error("a part of the form does not have one `Content-Disposition`")]
    Disposition,
    #[error("a part of the form names itself in a form that is not supported")]
    NameForm,
    #[error("a part of the form has no name")]
    NoName,
}

/// Finds the value of the field `name` in `body`, and the range of the value.
///
/// # Errors
/// If the form is rejected.
pub(super) fn field<'b>(
    content_type: &str,
    body: &'b [u8],
    name: &str,
) -> Result<Option<(&'b str, Range<usize>)>, FormError> {
    let boundary = parameter(content_type, "boundary").ok_or(FormError::NoBoundary)?;
    if boundary.is_empty() || boundary.len() > 70 {
        return Err(FormError::Boundary);
    }
    let delimiter = format!("--{boundary}");
    let mut found = None;
    // Where the latest part starts, after its delimiter.
    let mut part: Option<usize> = None;
    for at in memmem::find_iter(body, delimiter.as_bytes()) {
        let before = body.get(..at).unwrap_or_default();
        if !(before.is_empty() || before.ends_with(b"\r\n")) {
            return Err(FormError::InsideLine);
        }
        if let Some(start) = part.take() {
            let end = at.saturating_sub(2).max(start);
            if let Some(content) = content_of(body, start..end, name)? {
                let value = body.get(content.clone()).and_then(|value| str::from_utf8(value).ok());
                let value = value.filter(|value| !value.is_empty());
                let value = value.ok_or_else(|| FormError::NotText(name.to_owned()))?;
                if found.replace((value, content)).is_some() {
                    return Err(FormError::Twice(name.to_owned()));
                }
            }
        }
        let start = at + delimiter.len();
        match body.get(start..).unwrap_or_default() {
            rest if rest.starts_with(b"\r\n") => part = Some(start + 2),
            rest if rest.starts_with(b"--") => return Ok(found),
            _ => return Err(FormError::BehindBoundary),
        }
    }
    Err(FormError::NoEnd)
}

/// Returns the range of a part's content if the part is the field `name`.
fn content_of(body: &[u8], part: Range<usize>, name: &str) -> Result<Option<Range<usize>>, FormError> {
    let bytes = body.get(part.clone()).unwrap_or_default();
    let limit = bytes.len().min(MAX_HEADERS);
    let end = memmem::find(bytes.get(..limit).unwrap_or_default(), b"\r\n\r\n");
    let end = end.ok_or(FormError::Headers)?;
    let headers = bytes.get(..end).and_then(|headers| str::from_utf8(headers).ok());
    let headers = headers.ok_or(FormError::HeaderText)?;
    let mut dispositions = headers.split("\r\n").filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    });
    let (Some(disposition), None) = (dispositions.next(), dispositions.next()) else {
        return Err(FormError::Disposition);
    };
    if headers.replace("\r\n", "").contains(['\r', '\n'])
        || disposition.to_ascii_lowercase().contains("name*")
    {
        return Err(FormError::NameForm);
    }
    let field = parameter(disposition, "name").ok_or(FormError::NoName)?;
    Ok((field == name).then(|| part.start + end + 4..part.end))
}

/// Returns a parameter of a header's value. `None` if it is missing or occurs twice.
fn parameter<'v>(value: &'v str, name: &str) -> Option<&'v str> {
    let mut found = None;
    let mut rest = value.split_once(';')?.1;
    loop {
        let (key, behind) = rest.split_once('=')?;
        let behind = behind.trim_start();
        let (value, after) = match behind.strip_prefix('"') {
            // Servers differ in how they parse escapes in quoted values.
            Some(quoted) => quoted.split_once('"').filter(|(value, _)| !value.contains('\\'))?,
            None => {
                let end = behind.find(';').unwrap_or(behind.len());
                let (value, after) = behind.split_at(end);
                (value.trim_end(), after)
            }
        };
        if key.trim().eq_ignore_ascii_case(name) && found.replace(value).is_some() {
            return None;
        }
        match after.trim_start().strip_prefix(';') {
            Some(more) if !more.trim().is_empty() => rest = more,
            _ => return found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=\"x y\"";

    fn part(headers: &str, content: &str) -> String {
        format!("--x y\r\n{headers}\r\n\r\n{content}\r\n")
    }

    fn read(form: &str) -> Result<Option<&str>, FormError> {
        let found = field(TYPE, form.as_bytes(), "model")?;
        assert!(found.as_ref().is_none_or(|(value, place)| form.get(place.clone()) == Some(*value)));
        Ok(found.map(|(value, _)| value))
    }

    const FILE: &str =
        "Content-Disposition: form-data; name=\"file\"; filename=\"a;b.wav\"\r\nContent-Type: audio/wav";
    const MODEL: &str = "content-disposition: form-data; name=\"model\"";

    #[test]
    fn field_is_found_among_files() {
        let file = part(FILE, "RIFF\r\n\r\nname=\"model\"\r\n--x");
        for form in [
            format!("{file}{}--x y--\r\n", part(MODEL, "whisper-1")),
            format!("{}{file}--x y--", part(MODEL, "whisper-1")),
            format!("{}--x y--", part(&MODEL.replace('"', ""), "whisper-1")),
        ] {
            assert_eq!(read(&form), Ok(Some("whisper-1")), "{form}");
        }
        assert_eq!(read(&format!("{file}--x y--")), Ok(None));
        assert_eq!(read("--x y--"), Ok(None));
    }

    #[test]
    fn ambiguous_forms_are_refused() {
        let model = part(MODEL, "a");
        for form in [
            format!("{model}{model}--x y--"),
            model.clone(),
            String::new(),
            format!("preamble{model}--x y--"),
            format!("{}--x y--", model.replace("\r\n", "\n")),
            format!("{}\n--x y\r\n{MODEL}\r\n\r\nb\r\n--x y--", model.trim_end()),
            format!("{}--x y--", part("content-disposition: form-data; name*=utf-8''model", "a")),
            format!("{}--x y--", part("content-disposition: form-data; name=\"mod\\el\"", "a")),
            format!("{}--x y--", part(&format!("{MODEL}; name=\"file\""), "a")),
            format!("{}--x y--", part(&format!("{MODEL}\r\n{FILE}"), "a")),
            format!("{}--x y--", part("x: y", "a")),
            format!("{}--x y--", part(MODEL, "")),
            format!("{}--x y--", part(&format!("x: {}\r\n{MODEL}", "y".repeat(9000)), "a")),
            format!("--x y more\r\n{model}--x y--"),
        ] {
            assert!(read(&form).is_err(), "{form:?}: {:?}", read(&form));
        }
        for content_type in [
            "multipart/form-data",
            "multipart/form-data; boundary=",
            "multipart/form-data; boundary=a; boundary=b",
        ] {
            assert!(field(content_type, b"--a--", "model").is_err(), "{content_type}");
        }
    }
}
