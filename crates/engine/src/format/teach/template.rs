//! [`render`]: fills templates with names in double braces.

/// Replaces each `{{name}}` in one pass, so that inserted text is not searched again. Unknown names are left
/// as they are. If there are three braces, the outer one is text.
pub(super) fn render(template: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        text.push_str(before);
        let outer = after.len() - after.trim_start_matches('{').len();
        text.push_str(&"{".repeat(outer));
        let after = after.trim_start_matches('{');
        match after.split_once("}}").and_then(|(name, after)| Some((value(name.trim())?, after))) {
            Some((value, after)) => {
                text.push_str(&value);
                rest = after;
            }
            None => {
                text.push_str("{{");
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}
