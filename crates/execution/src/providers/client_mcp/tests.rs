use super::*;

fn provider(servers: &[&str], allow_private: bool) -> Result<Arc<dyn Provider>, Fault> {
    let servers = servers.iter().map(|server| (*server).to_owned()).collect();
    let options = Options { servers, allow_private, ..Options::default() };
    options.check()?;
    options.build(&Host::detached("clients"))
}

#[test]
fn servers_are_admitted_by_scheme_host_port_and_path() {
    let provider = provider(&["https://mcp.example/mcp", "https://api.example:8443/", "http://203.0.114.9"], false).unwrap();
    for (url, expected) in [
        ("https://mcp.example/mcp", true),
        ("https://MCP.example./mcp/", true),
        ("https://mcp.example:443/mcp/a?b=c", true),
        ("https://mcp.example/./mcp", true),
        ("https://mcp.example\\mcp", true),
        ("https://api.example:8443/x", true),
        ("http://203.0.114.9/", true),
        ("http://0xcb007209/", true),
        ("http://mcp.example/mcp", false),
        ("https://mcp.example:8443/mcp", false),
        ("https://mcp.example/mcpx", false),
        ("https://mcp.example/", false),
        ("https://mcp.example/mcp/../other", false),
        ("https://mcp.example/mcp/%2e%2e/other", false),
        ("https://mcp.example/mcp/..%2fother", false),
        ("https://mcp.example/mcp/..%5Cother", false),
        ("https://mcp.example/mcp/%252e%252e/other", true),
        ("https://mcp.example@evil.example/mcp", false),
        ("https://user@mcp.example/mcp", false),
        ("https://evil.example/https://mcp.example/mcp", false),
        ("https://mcp.example.evil.example/mcp", false),
        ("https://sub.mcp.example/mcp", false),
        ("https://mcp.example%2eevil.example/mcp", false),
        ("https://evil.example\\@mcp.example/mcp", false),
        ("https://evil.example#@mcp.example/mcp", false),
        ("file:///mcp", false),
        ("//mcp.example/mcp", false),
        ("", false),
    ] {
        assert_eq!(provider.admits_server(url), expected, "{url}");
    }
}

#[test]
fn private_servers_need_the_setting_even_if_they_are_listed() {
    for (is_allowed, expected) in [(false, false), (true, true)] {
        let provider = provider(&["http://127.0.0.1:9/mcp", "http://files.lan/"], is_allowed).unwrap();
        for url in ["http://127.0.0.1:9/mcp", "http://0x7f.1:9/mcp", "http://files.lan/x"] {
            assert_eq!(provider.admits_server(url), expected, "{url}");
        }
        assert!(!provider.admits_server("http://169.254.169.254/"));
    }
}

#[test]
fn list_must_consist_of_urls() {
    for server in ["", "mcp.example", "ftp://mcp.example/", "https://u:p@mcp.example/", "https://mcp.example/?a"] {
        assert!(provider(&[server], false).is_err(), "{server}");
    }
    assert!(provider(&[], false).is_err());
}
