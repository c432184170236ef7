//! Tests files, audio and the ways of sending an image.

use super::*;

const PDF: &str = "data:application/pdf;base64,JVBERi0=";

/// A file in each API's format, with a client of that API.
fn files() -> [(ClientDialect, Value); 3] {
    [
        (
            ClientDialect::Chat,
            user(json!([{"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}}])),
        ),
        (
            ClientDialect::Responses,
            input(json!([{"type": "input_file", "filename": "a.pdf", "file_data": PDF}])),
        ),
        (
            ClientDialect::Messages,
            user(json!([{"type": "document", "title": "a.pdf", "source":
                {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}])),
        ),
    ]
}

#[test]
fn file_has_the_form_of_the_upstreams_api() {
    for (client, fields) in files() {
        let part = |upstream: Dialect, pointer: &str| {
            let sent = sent(client, fields.clone(), upstream).unwrap();
            sent.pointer(pointer).cloned().unwrap_or(sent)
        };
        let file = json!({"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}});
        assert_eq!(part(Dialect::Chat, "/messages/0/content/0"), file, "{client:?}");
        let file = json!({"type": "input_file", "filename": "a.pdf", "file_data": PDF});
        assert_eq!(part(Dialect::Responses, "/input/0/content/0"), file, "{client:?}");
        let source = json!({"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="});
        assert_eq!(part(Dialect::Messages, "/messages/0/content/0/source"), source, "{client:?}");
        let file = json!({"mimeType": "application/pdf", "data": "JVBERi0="});
        assert_eq!(part(Dialect::Gemini, "/contents/0/parts/1/inlineData"), file, "{client:?}");
        for upstream in [Dialect::Ollama, Dialect::Lumo] {
            let (message, param) = refused(client, fields.clone(), upstream);
            assert!(
                message.contains("a PDF, a.pdf") && param.ends_with("[0].content[0]"),
                "{message} {param}"
            );
        }
    }
}

#[test]
fn pdf_as_an_image_is_a_document() {
    let part = user(json!([{"type": "image_url", "image_url": {"url": PDF}}]));
    let sent = sent(ClientDialect::Chat, part, Dialect::Messages).unwrap();
    assert_eq!(sent["messages"][0]["content"][0]["type"], "document");
}

#[test]
fn file_that_is_text_is_sent_as_text() {
    for upstream in UPSTREAMS {
        let part =
            json!([{"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,NDI="}]);
        if upstream != Dialect::Responses {
            let sent = sent(ClientDialect::Responses, input(part), upstream).unwrap().to_string();
            assert!(sent.contains("a.txt:\\n42"), "{upstream}: {sent}");
        }
        let part = json!([{"type": "file", "file": {"filename": "a.json", "file_data": "data:application/json;base64,NDI="}}]);
        if upstream != Dialect::Chat {
            let sent = sent(ClientDialect::Chat, user(part), upstream).unwrap().to_string();
            assert!(sent.contains("a.json:\\n42"), "{upstream}: {sent}");
        }
    }
}

#[test]
fn file_by_reference_is_sent_where_the_api_has_it() {
    let by_url = input(json!([{"type": "input_file", "file_url": "https://a/b.pdf"}]));
    let sent_by_url = sent(ClientDialect::Responses, by_url.clone(), Dialect::Messages).unwrap();
    let source = json!({"type": "url", "url": "https://a/b.pdf"});
    assert_eq!(sent_by_url["messages"][0]["content"][0]["source"], source);
    assert_eq!(refused(ClientDialect::Responses, by_url, Dialect::Chat).1, "input[0].content[0]");
    let by_id = input(json!([{"type": "input_file", "file_id": "file-1"}]));
    let sent_by_id = sent(ClientDialect::Responses, by_id.clone(), Dialect::Chat).unwrap();
    assert_eq!(
        sent_by_id["messages"][0]["content"][0],
        json!({"type": "file", "file": {"file_id": "file-1"}})
    );
    assert_eq!(refused(ClientDialect::Responses, by_id, Dialect::Messages).1, "input[0].content[0]");
    let image = input(json!([{"type": "input_image", "file_id": "file-1"}]));
    assert!(refused(ClientDialect::Responses, image, Dialect::Chat).0.contains("an image, file-1"));
    let upload = user(json!([{"type": "container_upload", "file_id": "file_1"}]));
    assert!(refused(ClientDialect::Messages, upload, Dialect::Responses).0.contains("file_1"));
}

#[test]
fn recording_is_sent_where_the_api_has_it() {
    let audio = json!([{"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}]);
    let sent_to = |upstream| sent(ClientDialect::Chat, user(audio.clone()), upstream).unwrap();
    let file = json!({"mimeType": "audio/wav", "data": "UklGRg=="});
    assert_eq!(sent_to(Dialect::Gemini)["contents"][0]["parts"][0]["inlineData"], file);
    assert_eq!(sent_to(Dialect::Responses)["input"][0]["content"][0], audio[0]);
    assert!(refused(ClientDialect::Chat, user(audio), Dialect::Messages).0.contains("a recording"));
}

#[test]
fn media_of_a_result_is_sent_or_named() {
    let pdf = json!({"type": "document", "title": "a.pdf", "source":
        {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}});
    let sent_to = |upstream| sent(ClientDialect::Messages, result(json!([pdf])), upstream).unwrap();
    let chat = sent_to(Dialect::Chat);
    assert_eq!(chat["messages"][3]["content"][0]["text"], "Attached to the result of the call toolu_1 of f:");
    assert_eq!(chat["messages"][3]["content"][1]["type"], "file");
    let responses = sent_to(Dialect::Responses);
    assert_eq!(responses["input"][2]["output"][1]["type"], "input_file", "{responses}");
    let ollama = sent_to(Dialect::Ollama);
    let content = ollama["messages"][2]["content"].as_str().unwrap();
    assert!(content.starts_with("[a PDF, a.pdf, was left out"), "{content}");
    assert_eq!(ollama["messages"].as_array().unwrap().len(), 3);
    let image = json!([{"type": "image", "source": {"type": "url", "url": "https://a/b.png"}}]);
    let ollama = sent(ClientDialect::Messages, result(image), Dialect::Ollama).unwrap();
    assert!(ollama["messages"][2]["content"].as_str().unwrap().contains("https://a/b.png"));
}

#[test]
fn types_of_images_have_one_form() {
    for mime in ["image/jpg", "image/JPG", "image/JPEG", "Image/jpeg;name=a"] {
        let part = json!([{"type": "image_url", "image_url": {"url": format!("data:{mime};base64,/9j/")}}]);
        for upstream in [Dialect::Gemini, Dialect::Messages, Dialect::Responses] {
            let sent = sent(ClientDialect::Chat, user(part.clone()), upstream).unwrap().to_string();
            assert!(sent.contains("image/jpeg") && !sent.contains("jpg"), "{upstream} {mime}: {sent}");
        }
    }
}

#[test]
fn image_as_bare_base64_is_read_and_a_local_one_is_refused() {
    let part = |url: &str| user(json!([{"type": "image_url", "image_url": {"url": url}}]));
    for upstream in [Dialect::Gemini, Dialect::Messages, Dialect::Responses, Dialect::Ollama] {
        let sent = sent(ClientDialect::Chat, part("iVBORw0KGgo="), upstream).unwrap().to_string();
        assert!(sent.contains("iVBORw0KGgo="), "{upstream}: {sent}");
        for url in ["file:///a.png", "not a url", ""] {
            let (message, param) = refused(ClientDialect::Chat, part(url), upstream);
            assert_eq!(param, "messages[0].content[0].image_url.url", "{message}");
        }
    }
}
