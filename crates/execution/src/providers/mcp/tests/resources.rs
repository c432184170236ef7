//! The tool that lists and reads a server's resources.

use super::*;

async fn read(server: &Started, uri: &str) -> Result<Output, ToolError> {
    server.call("resources", json!({"uri": uri})).await
}

async fn listed(server: &Started, arguments: Value) -> Value {
    let output = server.call("resources", arguments).await.expect("an output");
    serde_json::from_str(&output.content).expect("JSON")
}

#[tokio::test]
async fn resources_are_listed_and_read() {
    let server = Started::ready(&options("resources")).await;
    assert!(server.names().contains(&"s__resources".to_owned()));
    let expected = json!({
        "resources": [{"uri": "test://item/1", "name": "one", "mimeType": "text/plain", "size": 3}],
        "templates": [{"uriTemplate": "test://item/{id}", "name": "items"}],
    });
    assert_eq!(listed(&server, json!({})).await, expected);
    for (uri, expected) in [
        ("test://item/1", "test://item/1:\nthe first"),
        ("test://image", "[image/png, 9 bytes]"),
        ("test://blob", "test://blob: [application/zip, 3 bytes]"),
        ("test://two", "test://a:\na\ntest://b:\nb"),
        ("test://none", ""),
    ] {
        assert_eq!(read(&server, uri).await.expect("an output").content, expected, "{uri}");
    }
    let missing = read(&server, "test://item/2").await.expect("an output");
    assert_eq!((missing.content.as_str(), missing.is_error), ("no such resource", true));
    assert!(read(&server, "test://odd").await.is_err());
    assert!(server.call("echo", json!({})).await.is_ok());
}

#[tokio::test]
async fn uris_that_are_none_do_not_reach_the_server() {
    let server = Started::ready(&options("resources")).await;
    let long = format!("test://{}", "x".repeat(3000));
    for uri in ["notes.txt", "../etc/passwd", "/etc/passwd", "test://a\nb", "test://a\0", &long] {
        let error = read(&server, uri).await.expect_err("an error");
        assert_eq!(error.code, ErrorCode::InvalidArguments, "{uri}");
    }
}

#[tokio::test]
async fn endless_lists_are_cut_and_can_be_continued() {
    let server = Started::ready(&options("resources-endless")).await;
    let first = listed(&server, json!({})).await;
    assert_eq!(first["resources"].as_array().map(Vec::len), Some(90), "ten pages of nine");
    assert_eq!(
        (&first["cursor"], first["resources"][0]["name"].as_str().map(str::len)),
        (&json!("10"), Some(200))
    );
    let next = listed(&server, json!({"cursor": "10"})).await;
    assert_eq!((&next["resources"][0]["uri"], next.get("templates")), (&json!("test://item/10-0"), None));
    let same = Started::ready(&options("resources-same")).await;
    assert_eq!(listed(&same, json!({})).await["resources"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn server_with_resources_only_is_usable() {
    let server = Started::ready(&options("resources-only")).await;
    assert_eq!(server.names(), ["s__resources"]);
    assert!(read(&server, "test://item/1").await.is_ok());
    assert!(!Started::ready(&options("plain")).await.names().contains(&"s__resources".to_owned()));
}
