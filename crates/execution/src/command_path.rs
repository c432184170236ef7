//! Chat commands: a user message that starts with `/generate-image` generates images without a model.

use serde_json::{Value, json};

use toolwire_pipeline::conversation::{Call, CallOutput, Conversation, Part, Role};

/// Maximum length of an image's alternative text, in characters.
const MAX_ALT: usize = 100;

/// Larger numbers at the start of a description are not meant as a number of images.
const MAX_COUNT: usize = 4;

/// Returns the text after `command` if the newest message is from the user and starts with this command. The text may
/// be empty.
///
/// Clients add their own text before and after the user's, so each text part of the message is checked separately.
pub fn description<'c>(conversation: &'c Conversation, command: &str) -> Option<&'c str> {
    let is_instruction = |role| matches!(role, Role::System | Role::Developer);
    let newest = conversation.turns.iter().rev().find(|turn| !is_instruction(turn.role))?;
    if newest.role != Role::User {
        return None;
    }
    newest.parts.iter().find_map(|part| {
        let Part::Text(text) = part else { return None };
        let (own, rest) = text.trim_start().split_at_checked(command.len())?;
        if !own.eq_ignore_ascii_case(command) {
            return None;
        }
        (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim())
    })
}

/// The call for a description. If it begins with a small number, as in `3 cats`, this is also the number of images.
pub fn call(id: String, tool: &str, description: &str) -> Call {
    let first = description.split_whitespace().next().and_then(|word| word.parse().ok());
    let arguments = match first.filter(|count: &usize| (1..=MAX_COUNT).contains(count)) {
        Some(count) => json!({"prompt": description, "count": count}),
        None => json!({"prompt": description}),
    };
    Call::new(id, tool, arguments.to_string())
}

pub fn usage(command: &str) -> String {
    format!("Describe the image after the command: `{command} a red fox in the snow, at dawn`.")
}

/// The message for the user: the images as Markdown, or why there are none.
pub fn message(output: &CallOutput, description: &str) -> String {
    let result: Value = serde_json::from_str(&output.content).unwrap_or_default();
    let urls = result.pointer("/data/image_urls").and_then(Value::as_array).into_iter().flatten();
    let urls = urls.filter_map(Value::as_str);
    let images: Vec<_> = urls.map(|url| format!("![{}]({url})", alt(description))).collect();
    let said = ["/message", "/error/message"].into_iter().find_map(|place| result.pointer(place)?.as_str());
    let said = said.unwrap_or("The image could not be generated.").to_owned();
    std::iter::once(said).chain(images).collect::<Vec<_>>().join("\n\n")
}

/// Formats the description as an image's alternative text: on one line, and without brackets, which would end it.
fn alt(description: &str) -> String {
    let words = description
        .split(|char: char| char.is_whitespace() || char.is_control() || "[]\\`<>!".contains(char));
    let text = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    text.chars().take(MAX_ALT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolwire_pipeline::conversation::Turn;

    const COMMAND: &str = "/generate-image";

    fn described(turns: Vec<Turn>) -> Option<String> {
        let conversation = Conversation { turns, ..Conversation::default() };
        description(&conversation, COMMAND).map(str::to_owned)
    }

    #[test]
    fn newest_message_of_the_user_may_be_a_command() {
        let user = |text: &str| Turn::text(Role::User, text);
        for (text, expected) in [
            ("/generate-image a red fox", Some("a red fox")),
            ("  \n/generate-image\ta red\nfox \n", Some("a red\nfox")),
            ("/generate-image", Some("")),
            ("/generate-image   ", Some("")),
            ("/generate-images a fox", None),
            ("/generate-imagea fox", None),
            ("/Generate-Image a fox", Some("a fox")),
            ("/generate-imagé a fox", None),
            ("please /generate-image a fox", None),
            ("", None),
        ] {
            assert_eq!(described(vec![user("hello"), user(text)]).as_deref(), expected, "{text:?}");
        }
        let fox = || user("/generate-image a fox");
        let reply = Turn::text(Role::Assistant, "/generate-image a fox");
        assert_eq!(described(vec![fox(), reply]), None, "it is not the newest message");
        assert_eq!(described(vec![fox(), user("thanks")]), None);
        assert_eq!(described(vec![fox(), Turn::text(Role::System, "be kind")]).as_deref(), Some("a fox"));
        assert_eq!(described(vec![Turn::text(Role::System, "/generate-image a fox")]), None);
        assert_eq!(described(vec![]), None);
        let parts =
            ["<reminder/>", "/generate-image a fox", "<reminder/>"].map(|text| Part::Text(text.into()));
        assert_eq!(described(vec![Turn::of(Role::User, parts.to_vec())]).as_deref(), Some("a fox"));
    }

    #[test]
    fn small_number_at_the_start_is_the_number_of_images() {
        for (description, count) in
            [("3 cats", Some(3)), ("a cat", None), ("12 cats", None), ("0", None), ("4", Some(4))]
        {
            let arguments: Value =
                serde_json::from_str(&call(String::new(), "t", description).arguments).unwrap();
            assert_eq!(
                (arguments["prompt"].as_str(), arguments["count"].as_u64()),
                (Some(description), count)
            );
        }
    }

    #[test]
    fn message_shows_the_images_or_the_error() {
        let output = |content: Value| CallOutput {
            id: String::new(),
            name: String::new(),
            content: content.to_string(),
            is_error: false,
        };
        let made =
            json!({"ok": true, "message": "Generated 2 images.", "data": {"image_urls": ["u1", "u2"]}});
        let shown = message(&output(made), "a ](x) fox\n`b`");
        assert_eq!(shown, "Generated 2 images.\n\n![a (x) fox b](u1)\n\n![a (x) fox b](u2)");
        let failed = json!({"ok": false, "error": {"code": "timeout", "message": "Too slow."}});
        assert_eq!(message(&output(failed), "a fox"), "Too slow.");
        assert_eq!(message(&output(json!("cut off")), "a fox"), "The image could not be generated.");
        assert_eq!(alt(&"x".repeat(500)).len(), MAX_ALT);
    }
}
