use serde_json::Value;

use super::*;
use crate::test_server::{Server, response};
use toolwire_net::store::Owner;

const KEY: &str = "serper-secret-key";

fn options(server: &Server) -> Options {
    let address = |path: &str| Some(format!("http://{}{path}", server.address).parse().unwrap());
    Options {
        api_key: Some(KEY.into()),
        base_url: address("/base"),
        scrape_url: address("/scrape"),
        ..Options::default()
    }
}

fn provider(options: &Options) -> Arc<dyn Provider> {
    options.build(&Host::detached("serper")).unwrap()
}

fn call(tool: &str, arguments: Value) -> Invocation {
    Invocation::in_test(tool, arguments)
}

fn ok(body: &Value) -> String {
    response("200 OK", "Content-Type: application/json\r\n", &body.to_string())
}

fn body(request: &str) -> Value {
    serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap()
}

fn content(output: &Output) -> Value {
    serde_json::from_str(&output.content).unwrap()
}

/// A response with all fields that Serper documents, and some others.
fn search_response() -> Value {
    json!({
        "searchParameters": {"q": "rust", "type": "search", "num": 5, "engine": "google"},
        "answerBox": {"title": "Rust", "answer": "1.91", "link": "https://rust-lang.org/", "snippetHighlighted": ["1.91"]},
        "knowledgeGraph": {"title": "Rust", "type": "Language", "description": "A language.", "attributes": {"Born": "2012"}},
        "organic": [
            {"title": "Rust", "link": "https://www.rust-lang.org/", "snippet": "A language", "position": 1,
             "sitelinks": [{"title": "Install", "link": "https://www.rust-lang.org/install"}], "new": {"a": 1.50}},
            {"title": "News", "link": "https://blog.rust-lang.org/", "snippet": "Blog", "position": 2, "date": "2 days ago"},
        ],
        "peopleAlsoAsk": [{"question": "What?", "snippet": "A language", "title": "Rust", "link": "https://a.example/"}],
        "relatedSearches": [{"query": "cargo"}],
        "topStories": [{"title": "Story", "link": "https://b.example/"}],
        "ok": "not ours",
        "credits": 1,
    })
}

#[tokio::test]
async fn search_sends_the_query_and_the_key() {
    let server = Server::start(&[&ok(&json!({"organic": []}))]).await;
    let options = Options {
        country: Some("de".into()),
        language: Some("en".into()),
        max_results: 7,
        ..options(&server)
    };
    let provider = provider(&options);
    let arguments = json!({"query": " rust\u{0}\n language ", "recency": "oneWeek", "count": 20, "page": 2, "engine": "serper"});
    provider.run(&call("web_search", arguments)).await.unwrap();
    let request = &server.requests()[0];
    assert!(request.starts_with("post /base/search http/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("\r\nx-api-key: {KEY}\r\n")), "{request}");
    assert!(request.contains("\r\ncontent-type: application/json\r\n"), "{request}");
    let expected = json!({"q": "rust language", "num": 7, "page": 2, "tbs": "qdr:w", "gl": "de", "hl": "en"});
    assert_eq!(body(request), expected);
}

#[tokio::test]
async fn search_results_have_the_uniform_form_and_keep_unknown_fields() {
    let server = Server::start(&[&ok(&search_response())]).await;
    let output =
        provider(&options(&server)).run(&call("web_search", json!({"query": "rust"}))).await.unwrap();
    let expected = json!({
        "ok": true,
        "engine": "serper",
        "query": "rust",
        "summary": "1.91",
        "results": [
            {"title": "Rust", "url": "https://www.rust-lang.org/", "snippet": "A language", "position": 1,
             "sitelinks": [{"title": "Install", "link": "https://www.rust-lang.org/install"}], "new": {"a": 1.50}},
            {"title": "News", "url": "https://blog.rust-lang.org/", "snippet": "Blog", "position": 2, "date": "2 days ago"},
        ],
        "answerBox": {"title": "Rust", "answer": "1.91", "link": "https://rust-lang.org/", "snippetHighlighted": ["1.91"]},
        "knowledgeGraph": {"title": "Rust", "type": "Language", "description": "A language.", "attributes": {"Born": "2012"}},
        "relatedQuestions": [{"question": "What?", "snippet": "A language", "title": "Rust", "link": "https://a.example/"}],
        "relatedSearches": [{"query": "cargo"}],
        "topStories": [{"title": "Story", "link": "https://b.example/"}],
        "credits": 1,
    });
    assert_eq!(content(&output), expected);
    assert_eq!(output.summary, "2 results");
    assert_eq!(output.details["results"], expected["results"]);
}

#[tokio::test]
async fn further_searches_have_paths_and_lists_of_their_own() {
    for (tool, path, list, entry, expected) in [
        (
            "image_search",
            "images",
            "images",
            json!({"title": "A", "imageUrl": "https://i.example/a.png", "link": "https://a.example/"}),
            json!({"title": "A", "url": "https://a.example/", "imageUrl": "https://i.example/a.png"}),
        ),
        (
            "news_search",
            "news",
            "news",
            json!({"title": "A", "link": "https://a.example/", "source": "S", "date": "1 hour ago"}),
            json!({"title": "A", "url": "https://a.example/", "source": "S", "date": "1 hour ago"}),
        ),
        (
            "places_search",
            "places",
            "places",
            json!({"title": "Cafe", "address": "Lyon", "rating": 4.5}),
            json!({"title": "Cafe", "address": "Lyon", "rating": 4.5}),
        ),
        (
            "places_search",
            "places",
            "places",
            json!({"title": "Cafe", "website": "https://cafe.example/"}),
            json!({"title": "Cafe", "url": "https://cafe.example/", "website": "https://cafe.example/"}),
        ),
    ] {
        let server = Server::start(&[&ok(&json!({list: [entry]}))]).await;
        let options = Options { extra_tools: vec![tool.to_owned()], ..options(&server) };
        let provider = provider(&options);
        let names: Vec<_> = provider.tools().iter().map(|spec| spec.name.clone()).collect();
        assert_eq!(names, ["web_search", "scrape", tool]);
        let output = provider.run(&call(tool, json!({"query": "a", "recency": "oneDay"}))).await.unwrap();
        assert_eq!(content(&output)["results"], json!([expected]), "{tool}");
        let request = &server.requests()[0];
        assert!(request.starts_with(&format!("post /base/{path} ")), "{request}");
        assert_eq!(body(request).get("tbs").is_some(), tool != "places_search");
    }
}

#[tokio::test]
async fn failures_are_codes_without_the_services_words() {
    let said = json!({"message": "internal words", "statusCode": 1}).to_string();
    let credits = json!({"message": "Not enough credits"}).to_string();
    let huge = format!("{{\"organic\":\"{}\"}}", "a".repeat(MAX_RESPONSE));
    let status = |status: &str| response(status, "", &said);
    for (response, code, is_retryable) in [
        (status("400 Bad Request"), ErrorCode::ProviderError, false),
        (status("401 Unauthorized"), ErrorCode::AuthFailed, false),
        (status("403 Forbidden"), ErrorCode::AuthFailed, false),
        (status("404 Not Found"), ErrorCode::ProviderError, false),
        (status("408 Request Timeout"), ErrorCode::Timeout, true),
        (status("429 Too Many Requests"), ErrorCode::RateLimited, false),
        (response("429 Too Many Requests", "Retry-After: 7\r\n", &said), ErrorCode::RateLimited, true),
        (status("500 Internal Server Error"), ErrorCode::ProviderError, true),
        (status("503 Service Unavailable"), ErrorCode::ProviderError, true),
        (status("504 Gateway Timeout"), ErrorCode::Timeout, true),
        (response("400 Bad Request", "", &credits), ErrorCode::RateLimited, false),
        (response("403 Forbidden", "", &credits), ErrorCode::RateLimited, false),
        (status("402 Payment Required"), ErrorCode::RateLimited, false),
        (response("302 Found", "Location: http://127.0.0.1:1/\r\n", ""), ErrorCode::ProviderError, false),
        (
            response("500 Internal Server Error", "", "<html>internal words</html>"),
            ErrorCode::ProviderError,
            true,
        ),
        (response("200 OK", "", "<html>internal words</html>"), ErrorCode::ProviderError, true),
        (response("200 OK", "", ""), ErrorCode::ProviderError, true),
        (response("200 OK", "", "[]"), ErrorCode::ProviderError, true),
        (response("200 OK", "", "{\"organic\": \"words\"}"), ErrorCode::ProviderError, true),
        (response("200 OK", "", "{\"organic\": [{\"title\": \"cut"), ErrorCode::ProviderError, true),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"organic\"".to_owned(),
            ErrorCode::ProviderError,
            true,
        ),
        (String::new(), ErrorCode::ProviderError, true),
        (response("200 OK", "", &huge), ErrorCode::TooLarge, false),
    ] {
        let server = Server::start(&[&response]).await;
        let provider = provider(&options(&server));
        let error = provider.run(&call("web_search", json!({"query": "a"}))).await.unwrap_err();
        assert_eq!((error.code, error.is_retryable), (code, is_retryable), "{response:.120}: {error:?}");
        assert!(!error.message.contains("words") && !error.message.contains(KEY), "{error:?}");
        let seconds = response.contains("Retry-After").then(|| Duration::from_secs(7));
        assert_eq!(error.retry_after, seconds);
    }
    let mut unreachable = options(&Server::start(&[""]).await);
    unreachable.base_url = Some("http://127.0.0.1:1/".parse().unwrap());
    let error = provider(&unreachable).run(&call("web_search", json!({"query": "a"}))).await.unwrap_err();
    assert_eq!((error.code, error.is_retryable), (ErrorCode::ProviderError, true));
}

#[tokio::test]
async fn fields_of_unexpected_types_do_not_fail_a_search() {
    for (given, expected) in [
        (json!({}), json!([])),
        (json!({"organic": null}), json!([])),
        (json!({"organic": [1, "a", null, []], "answerBox": [], "knowledgeGraph": 3}), json!([])),
        (
            json!({"organic": [{"title": 1, "link": "https://a.example/"}]}),
            json!([{"title": 1, "url": "https://a.example/"}]),
        ),
        (json!({"organic": [{"link": 1}, {"link": "javascript:alert(1)"}, {"link": "/a"}]}), json!([])),
    ] {
        let server = Server::start(&[&ok(&given)]).await;
        let output =
            provider(&options(&server)).run(&call("web_search", json!({"query": "a"}))).await.unwrap();
        assert_eq!(content(&output)["results"], expected, "{given}");
    }
}

#[tokio::test]
async fn nothing_of_a_response_leads_to_a_denied_domain() {
    let evil = "https://www.evil.example/x";
    let good = "https://good.example/x";
    let given = json!({
        "organic": [
            {"title": "a", "link": good, "url": evil, "imageUrl": evil, "sitelinks": [{"title": "b", "link": evil}, {"title": "c", "link": good}]},
            {"title": "d", "url": evil},
            {"title": "e", "url": good},
            {"title": "f", "website": evil, "link": good},
        ],
        "answerBox": {"answer": "evil", "link": evil},
        "knowledgeGraph": {"title": "g", "website": good, "descriptionLink": evil, "imageUrl": "data:image/png;base64,AA", "attributes": {"More": evil, "Note": "note: text"}},
        "peopleAlsoAsk": [{"question": "h", "link": evil}, {"question": "i", "link": good}],
        "topStories": [{"title": "j", "link": evil}],
        "images": [{"title": "k", "imageUrl": good, "link": "javascript:alert(1)"}],
        "relatedSearches": [{"query": "l"}],
    });
    let server = Server::start(&[&ok(&given)]).await;
    let options = Options { denied_domains: vec!["evil.example".into()], ..options(&server) };
    let output = provider(&options).run(&call("web_search", json!({"query": "q"}))).await.unwrap();
    assert!(
        !output.content.contains("evil") && !output.details.to_string().contains("evil"),
        "{}",
        output.content
    );
    let found = content(&output);
    assert_eq!(
        found["results"],
        json!([
            {"title": "a", "url": good, "sitelinks": [{"title": "c", "link": good}]},
            {"title": "e", "url": good},
            {"title": "f", "url": good},
        ])
    );
    let expected = json!({"title": "g", "website": good, "imageUrl": "data:image/png;base64,AA", "attributes": {"Note": "note: text"}});
    assert_eq!(found["knowledgeGraph"], expected);
    assert_eq!(found["relatedQuestions"], json!([{"question": "i", "link": good}]));
    assert_eq!(found["images"], json!([{"title": "k", "imageUrl": good}]));
    assert_eq!(found["relatedSearches"], json!([{"query": "l"}]));
}

#[tokio::test]
async fn results_are_limited_to_the_count_and_the_domains() {
    let link = |host: &str| json!({"link": format!("https://{host}/")});
    let organic = [
        link("good.example"),
        link("bad.good.example"),
        link("sub.good.example"),
        link("other.example"),
        link("GOOD.example."),
    ];
    let server = Server::start(&[&ok(&json!({"organic": organic}))]).await;
    let options = Options {
        allowed_domains: vec!["good.example".into()],
        denied_domains: vec!["bad.good.example".into()],
        ..options(&server)
    };
    let provider = provider(&options);
    let urls = |output: &Output| {
        let results = content(output)["results"].as_array().unwrap().clone();
        results.iter().map(|result| result["url"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let output = provider.run(&call("web_search", json!({"query": "a"}))).await.unwrap();
    assert_eq!(
        urls(&output),
        ["https://good.example/", "https://sub.good.example/", "https://good.example./"]
    );
    let output = provider.run(&call("web_search", json!({"query": "a", "count": 1}))).await.unwrap();
    assert_eq!(urls(&output), ["https://good.example/"]);
    let error = provider.run(&call("scrape", json!({"url": "https://other.example/"}))).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::BlockedUrl);
}

#[tokio::test]
async fn scrape_returns_the_text_of_a_page() {
    let page = json!({"text": "äöü two  three", "metadata": {"title": "Title", "og:description": "About", "x": 1}, "jsonld": {}, "credits": 2});
    let server = Server::start(&[&ok(&page)]).await;
    let provider = provider(&Options { max_content: 8, ..options(&server) });
    let output =
        provider.run(&call("scrape", json!({"url": " HTTPS://Example.com:443/a/../b#part "}))).await.unwrap();
    let request = &server.requests()[0];
    assert!(request.starts_with("post /scrape http/1.1\r\n") && request.contains(KEY), "{request}");
    assert_eq!(body(request), json!({"url": "https://example.com/b"}));
    let expected = json!({
        "ok": true, "title": "Title", "url": "https://example.com/b", "content": "äöü t", "wordCount": 3,
        "description": "About", "truncated": true, "credits": 2,
    });
    assert_eq!(content(&output), expected);
    assert_eq!(output.details["metadata"]["x"], 1);
}

#[tokio::test]
async fn pages_without_text_or_metadata() {
    for (page, expected) in [
        (
            json!({"text": ""}),
            Some(
                json!({"ok": true, "title": "", "url": "https://a.example/", "content": "", "wordCount": 0}),
            ),
        ),
        (
            json!({"text": "abcde", "metadata": []}),
            Some(
                json!({"ok": true, "title": "", "url": "https://a.example/", "content": "abcde", "wordCount": 1}),
            ),
        ),
        (json!({}), None),
        (json!({"text": 1}), None),
    ] {
        let server = Server::start(&[&ok(&page)]).await;
        let provider = provider(&Options { max_content: 5, ..options(&server) });
        let output = provider.run(&call("scrape", json!({"url": "https://a.example/"}))).await;
        assert_eq!(output.ok().map(|output| content(&output)), expected, "{page}");
    }
}

#[tokio::test]
async fn urls_of_internal_servers_are_not_sent() {
    let server = Server::start(&[&ok(&json!({"text": "secret"}))]).await;
    let provider = provider(&options(&server));
    for url in [
        "http://localhost/",
        "http://169.254.169.254/latest/",
        "http://2130706433/",
        "http://wiki.internal/",
        "file:///etc/passwd",
        "https://user:pw@example.com/",
        "",
        "example.com",
    ] {
        let error = provider.run(&call("scrape", json!({"url": url}))).await.unwrap_err();
        assert_eq!((error.code, error.is_retryable), (ErrorCode::BlockedUrl, false), "{url}");
    }
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn only_pages_of_results_are_read_if_so_configured() {
    let found = ok(&json!({"organic": [{"link": "https://a.example/x#top"}]}));
    let server = Server::start(&[&found, &ok(&json!({"text": "page"}))]).await;
    let provider = provider(&Options { seen_urls_only: true, ..options(&server) });
    let scrape = |url: &str| call("scrape", json!({"url": url}));
    let error = provider.run(&scrape("https://a.example/x")).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::BlockedUrl);
    provider.run(&call("web_search", json!({"query": "a"}))).await.unwrap();
    provider.run(&scrape("https://A.example/x#end")).await.unwrap();
    assert_eq!(provider.run(&scrape("https://a.example/y")).await.unwrap_err().code, ErrorCode::BlockedUrl);
    let stranger = Invocation { client: Owner([1; 32]), ..scrape("https://a.example/x") };
    assert_eq!(provider.run(&stranger).await.unwrap_err().code, ErrorCode::BlockedUrl);
}

#[tokio::test]
async fn a_test_of_the_key_gives_a_verdict() {
    let server = |status: &str| response(status, "", "{}");
    for (status, verdict) in [
        ("200 OK", Verdict::Valid),
        ("401 Unauthorized", Verdict::Invalid),
        ("403 Forbidden", Verdict::Invalid),
        ("429 Too Many Requests", Verdict::RateLimited),
        ("500 Internal Server Error", Verdict::Unreachable),
    ] {
        let server = Server::start(&[&server(status)]).await;
        let provider = provider(&Options { api_key: None, ..options(&server) });
        assert_eq!(provider.test(None).await, None);
        assert_eq!(provider.test(Some(&"other-key".into())).await, Some(verdict), "{status}");
        assert!(server.requests()[0].contains("x-api-key: other-key"));
    }
}

#[test]
fn settings_that_cannot_be_used_are_reported() {
    let fault = |options: Options| options.check().unwrap_err();
    let no_key = Options::default().build(&Host::detached("serper")).unwrap();
    assert!(no_key.tools().is_empty());
    let domain = Options { denied_domains: vec!["a b".into()], ..Options::default() };
    assert_eq!(fault(domain), Fault::new("denied_domains", "`a b` is not a domain"));
    let tool = Options { extra_tools: vec!["video_search".into()], ..Options::default() };
    let fault = fault(tool);
    assert_eq!(fault.key, "extra_tools");
    assert!(fault.message.contains("unknown tool: `video_search`"), "{}", fault.message);
}

#[test]
fn queries_are_cleaned() {
    let options = Options::default();
    let read =
        |arguments: Value| question::read(arguments.as_object().unwrap(), &options, &Default::default());
    for (query, expected) in [
        ("rust", "rust"),
        ("  rust \t\r\n language\u{7f}", "rust language"),
        ("a\u{200b}b\u{202e}c\u{feff}", "a b c"),
        ("می\u{200c}خواهم 👩\u{200d}💻", "می\u{200c}خواهم 👩\u{200d}💻"),
    ] {
        assert_eq!(read(json!({"query": query})).unwrap().query, expected);
    }
    let long = read(json!({"query": "ü".repeat(1000)})).unwrap().query;
    assert_eq!(long.chars().count(), 400);
    for query in [json!({"query": " \u{0} "}), json!({}), json!({"query": 3})] {
        assert_eq!(read(query).unwrap_err().code, ErrorCode::InvalidArguments);
    }
    for (count, expected) in [
        (json!(0), 1),
        (json!(1), 1),
        (json!(5), 5),
        (json!(6), 5),
        (json!(-1), 5),
        (json!(u64::MAX), 5),
        (json!(null), 5),
    ] {
        assert_eq!(read(json!({"query": "a", "count": count})).unwrap().count, expected);
    }
}
