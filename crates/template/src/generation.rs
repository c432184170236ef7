//! Replaces `{% generation %}` and `{% endgeneration %}`, which transformers adds to Jinja.
//!
//! These tags mark the model's own text, which matters only for training. The block between them has its own scope,
//! so the tags become `{% with %}` and `{% endwith %}`, which preserves line numbers and white space.

/// Returns `source` with the tags replaced. Text, comments, strings and raw blocks are unchanged.
pub(super) fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    let mut is_raw = false;
    while let Some(at) = rest.find('{') {
        let (before, tag) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(before);
        let length = match tag.as_bytes().get(1) {
            Some(b'#') if !is_raw => tag.find("#}").map_or(tag.len(), |end| end + 2),
            Some(b'{') if !is_raw => tag_length(tag, "}}"),
            Some(b'%') => tag_length(tag, "%}"),
            _ => 1,
        };
        let (tag, after) = tag.split_at_checked(length).unwrap_or((tag, ""));
        let inside = tag.strip_prefix("{%").and_then(|tag| tag.strip_suffix("%}"));
        let word = inside.map_or("", tag_word);
        match word {
            "raw" => is_raw = true,
            "endraw" => is_raw = false,
            _ => {}
        }
        match word {
            "generation" if !is_raw => out.push_str(&tag.replacen("generation", "with", 1)),
            "endgeneration" if !is_raw => out.push_str(&tag.replacen("endgeneration", "endwith", 1)),
            // In a raw block, only the tag that ends the block has a meaning.
            _ if is_raw && word != "raw" => {
                out.push('{');
                rest = rest.get(at + 1..).unwrap_or_default();
                continue;
            }
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Returns the length of a tag up to and including `end`, ignoring `end` in strings.
fn tag_length(tag: &str, end: &str) -> usize {
    let mut quote = None;
    let mut escaped = false;
    for (at, byte) in tag.bytes().enumerate().skip(2) {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if byte == b'\\' => escaped = true,
            Some(open) if byte == open => quote = None,
            Some(_) => {}
            None if matches!(byte, b'\'' | b'"') => quote = Some(byte),
            None if tag.as_bytes().get(at..).is_some_and(|rest| rest.starts_with(end.as_bytes())) => {
                return at + end.len();
            }
            None => {}
        }
    }
    tag.len()
}

/// Returns the content of a tag, without the markers for white space control.
fn tag_word(inside: &str) -> &str {
    let inside = inside.strip_prefix(['-', '+']).unwrap_or(inside);
    let inside = inside.strip_suffix(['-', '+']).unwrap_or(inside);
    inside.trim()
}

#[cfg(test)]
mod tests {
    use super::without_generation_tags;

    #[test]
    fn only_tags_of_the_template_are_replaced() {
        for (source, expected) in [
            ("a{% generation %}b{% endgeneration %}c", "a{% with %}b{% endwith %}c"),
            ("{%- generation -%}\n{%+endgeneration+%}", "{%- with -%}\n{%+endwith+%}"),
            (
                "{# {% generation %} #}{{ '{% generation %}' }}",
                "{# {% generation %} #}{{ '{% generation %}' }}",
            ),
            ("{% set x = '%} {% generation %}' %}", "{% set x = '%} {% generation %}' %}"),
            (
                "{% raw %}{% generation %}{{{% endraw %}{% generation %}",
                "{% raw %}{% generation %}{{{% endraw %}{% with %}",
            ),
            ("{ generation } {", "{ generation } {"),
            ("{% generation", "{% generation"),
        ] {
            assert_eq!(without_generation_tags(source), expected);
        }
    }
}
