//! Tests which addresses are allowed and which are blocked.

use super::*;

fn verdict(text: &str) -> Result<String, Blocked> {
    AddressRules::default().check(text).map(String::from)
}

#[test]
fn public_urls_are_normalized() {
    for (text, expected) in [
        ("https://example.com", "https://example.com/"),
        ("  HTTPS://EXAMPLE.com:443/a/../b?q=1#top \n", "https://example.com/b?q=1#top"),
        ("http://example.com:80/", "http://example.com/"),
        ("http://example.com.", "http://example.com./"),
        ("https://bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC"),
        ("http:\\\\example.com\\a", "http://example.com/a"),
        ("http://exa\tmple.com/\na", "http://example.com/a"),
        ("http://8.8.8.8/", "http://8.8.8.8/"),
        ("http://0x08080808/", "http://8.8.8.8/"),
        ("http://[2606:4700:4700::1111]/", "http://[2606:4700:4700::1111]/"),
        ("http://[::ffff:8.8.8.8]/", "http://[::ffff:808:808]/"),
        ("http://[64:ff9b::8.8.8.8]/", "http://[64:ff9b::808:808]/"),
        ("http://localhost.example.com/", "http://localhost.example.com/"),
        ("http://172.15.0.1/", "http://172.15.0.1/"),
        ("http://172.32.0.1/", "http://172.32.0.1/"),
        ("http://100.128.0.1/", "http://100.128.0.1/"),
        ("http://11.0.0.0/", "http://11.0.0.0/"),
        ("http://223.255.255.255/", "http://223.255.255.255/"),
        ("https://example.com/?u=http://localhost/", "https://example.com/?u=http://localhost/"),
    ] {
        assert_eq!(verdict(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn urls_that_are_not_of_the_public_web_are_blocked() {
    use Blocked::{Invalid, Port, Scheme, UserInfo};
    for (text, reason) in [
        ("", Scheme),
        ("example.com", Scheme),
        ("//example.com/", Scheme),
        ("/etc/passwd", Scheme),
        ("file:///etc/passwd", Scheme),
        ("ftp://example.com/", Scheme),
        ("gopher://example.com:70/_", Scheme),
        ("javascript:alert(1)", Scheme),
        ("data:text/html,x", Scheme),
        ("ws://example.com/", Scheme),
        ("unix:/run/docker.sock", Scheme),
        ("blob:https://example.com/1", Scheme),
        ("view-source:http://example.com/", Scheme),
        ("http://", Invalid),
        ("http:///", Invalid),
        ("http://?q", Invalid),
        ("http://exa mple.com/", Invalid),
        ("http://exa%00mple.com/", Invalid),
        ("http://a..example.com/", Invalid),
        ("http://example.com../", Invalid),
        ("http://.../", Invalid),
        ("http://[::1", Invalid),
        ("http://[fe80::1%25eth0]/", Invalid),
        ("http://[fe80::1%eth0]/", Invalid),
        ("http://[::1]a/", Invalid),
        ("http://1.2.3.4.5/", Invalid),
        ("http://256.1.1.1/", Invalid),
        ("http://0x100000000/", Invalid),
        ("http://09.1.1.1/", Invalid),
        ("http://example.com:99999/", Invalid),
        ("http://example.com:8a/", Invalid),
        ("http://user@example.com/", UserInfo),
        ("http://user:password@example.com/", UserInfo),
        ("http://:password@example.com/", UserInfo),
        ("http://example.com@localhost/", UserInfo),
        ("http://example.com%40localhost/", Invalid),
        ("http://example.com:22/", Port),
        ("http://example.com:0/", Port),
        ("http://example.com:8080/", Port),
        ("https://example.com:6379/", Port),
    ] {
        assert_eq!(verdict(text), Err(reason), "{text}");
    }
    let long = |length: usize| format!("http://example.com/{}", "a".repeat(length - 19));
    assert!(verdict(&long(MAX_URL)).is_ok());
    assert_eq!(verdict(&long(MAX_URL + 1)), Err(Blocked::TooLong));
    // Percent-encoded, each of these letters takes six bytes.
    assert_eq!(verdict(&format!("http://example.com/{}", "ü".repeat(1000))), Err(Blocked::TooLong));
}

#[test]
fn private_addresses_are_blocked_in_every_spelling() {
    for text in [
        // Loopback.
        "http://localhost/",
        "http://LOCALHOST/",
        "http://localhost./",
        "http://a.localhost/",
        "http://%6c%6fcalhost/",
        "http://ｌｏｃａｌｈｏｓｔ/",
        "http://lo\u{ad}calhost/",
        "http://localhost\\@example.com/",
        "http://loc\talhost/",
        "http://127.0.0.1/",
        "http://127.0.0.1./",
        "http://127.1/",
        "http://127.255.255.255/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.0.0.1/",
        "http://0177.0.0.1/",
        "http://017700000001/",
        "http://127.0.0x0.1/",
        "http://１２７.０.０.１/",
        "http://127。0。0。1/",
        "http://①②⑦.⓪.⓪.①/",
        "http://%31%32%37.0.0.1/",
        "http:127.0.0.1/",
        "http:/\\127.0.0.1/",
        "http://[::1]/",
        "http://[0:0:0:0:0:0:0:1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b::127.0.0.1]/",
        "http://[2002:7f00:1::]/",
        "http://[2001:0:7f00:1::]/",
        // This network, and the unspecified address.
        "http://0/",
        "http://0.0.0.0/",
        "http://0.1.2.3/",
        "http://[::]/",
        "http://[::ffff:0:0]/",
        // Private networks.
        "http://10.0.0.1/",
        "http://10.255.255.255/",
        "http://167772161/",
        "http://172.16.0.1/",
        "http://172.31.255.255/",
        "http://192.168.1.1/",
        "http://192.168.257/",
        "http://0xc0.0xa8.1.1/",
        "http://100.64.0.1/",
        "http://100.127.255.255/",
        "http://[fc00::1]/",
        "http://[fdff::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://[::ffff:c0a8:101]/",
        "http://[64:ff9b::a00:1]/",
        "http://[64:ff9b:1::1]/",
        "http://[2002:c0a8:101::1]/",
        "http://[fec0::1]/",
        // Link-local and metadata services.
        "http://169.254.169.254/latest/meta-data/",
        "http://169.254.0.0/",
        "http://0xa9fea9fe/",
        "http://2852039166/",
        "http://0251.0376.0251.0376/",
        "http://[::ffff:169.254.169.254]/",
        "http://[fe80::1]/",
        "http://[febf::1]/",
        "http://[fd00:ec2::254]/",
        "http://168.63.129.16/",
        "http://100.100.100.200/",
        "http://metadata/",
        "http://metadata.google.internal/",
        "http://METADATA.google.internal./",
        "http://metadata.goog/",
        "http://instance-data/",
        // Reserved, documentation, benchmarks, multicast, broadcast.
        "http://192.0.0.1/",
        "http://192.0.2.1/",
        "http://192.88.99.1/",
        "http://198.18.0.1/",
        "http://198.19.255.255/",
        "http://198.51.100.1/",
        "http://203.0.113.1/",
        "http://224.0.0.1/",
        "http://239.255.255.255/",
        "http://240.0.0.1/",
        "http://255.255.255.255/",
        "http://[ff02::1]/",
        "http://[2001:db8::1]/",
        "http://[3fff::1]/",
        "http://[100::1]/",
        "http://[5f00::1]/",
        "http://[2001:2::1]/",
        "http://[4000::1]/",
        "http://[::ffff:0:127.0.0.1]/",
        // Names in local networks.
        "http://printer/",
        "http://printer.local/",
        "http://db.internal/",
        "http://wiki.corp/",
        "http://nas.lan/",
        "http://fritz.box/",
        "http://api.default.svc/",
        "http://x.invalid./",
        "http://router.home.arpa/",
        "http://router.home/",
        "http://a.localdomain/",
        "http://x.intranet./",
    ] {
        assert_eq!(verdict(text), Err(Blocked::Private), "{text}");
    }
}

#[test]
fn private_addresses_are_allowed_by_the_setting_but_metadata_services_never() {
    let rules = AddressRules { allow_private: true, ..AddressRules::default() };
    for text in [
        "http://localhost:8080/",
        "http://127.0.0.1:1/",
        "http://[::1]:65535/",
        "http://10.1.2.3/",
        "http://192.168.0.1/",
        "http://172.20.0.1/",
        "http://100.64.0.1/",
        "http://[fd12::1]/",
        "http://printer/",
        "http://db.internal/",
        "http://[::ffff:127.0.0.1]/",
        "https://example.com/",
    ] {
        assert!(rules.check(text).is_ok(), "{text}");
    }
    for text in [
        "http://169.254.169.254/",
        "http://[fe80::1]/",
        "http://[fd00:ec2::254]/",
        "http://metadata.google.internal/",
        "http://0.0.0.0/",
        "http://255.255.255.255/",
        "http://224.0.0.1/",
        "http://[ff02::1]/",
        "http://[::]/",
        "http://100.100.100.200/",
        "http://168.63.129.16/",
        "http://[::ffff:169.254.169.254]/",
        "http://[64:ff9b::169.254.169.254]/",
        "http://metadata/",
        "http://localhost:0/",
        "file:///etc/passwd",
        "http://user@localhost/",
    ] {
        assert!(rules.check(text).is_err(), "{text}");
    }
}

#[test]
fn urls_that_programs_may_read_otherwise_are_refused() {
    for text in [
        "",
        "example.com",
        "file:///etc/passwd",
        "mailto:a@example.com",
        "http://user@example.com/",
        "http://:password@example.com/",
        "http://example.com@127.0.0.1/",
        "http://127.0.0.{1,2}/",
        "http://{127.0.0.1,x}/",
        "http://%7b127.0.0.1,x%7d/",
        "http://a,b/",
        "http://a;b/",
        "http://a$b/",
        "http://a'b/",
        "http://[::1]a/",
        "http://./",
        "gopher://{a,b}/",
        "gopher://a\\@b/",
        "gopher://a%40b/",
    ] {
        assert_eq!(normal(text).map(|(url, _)| url.to_string()), None, "{text}");
    }
    for (text, expected, host) in [
        (
            "http://allowed.example\\@127.0.0.1:9001/i",
            "http://allowed.example/@127.0.0.1:9001/i",
            "allowed.example",
        ),
        ("http:\\\\Allowed.example\\@127.0.0.1", "http://allowed.example/@127.0.0.1", "allowed.example"),
        ("http:x\\@127.0.0.1:9001/i", "http://x/@127.0.0.1:9001/i", "x"),
        ("http://a_b.example./?@c#@d", "http://a_b.example./?@c#@d", "a_b.example"),
        ("gopher://LOCAL%68ost:70/_x", "gopher://localhost:70/_x", "localhost"),
        ("ldap://0x7f.1/", "ldap://127.0.0.1/", "127.0.0.1"),
    ] {
        let found = normal(text).map(|(url, host)| (url.to_string(), host));
        assert_eq!(found, Some((expected.to_owned(), host.to_owned())), "{text}");
    }
}

#[test]
fn denied_address_is_denied_in_every_spelling() {
    let is_denied = |domain: &str, text: &str| {
        normal(text).is_none_or(|(_, host)| !is_admitted(&host, &[], &[Domain::parse(domain).unwrap()]))
    };
    for own in ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "2130706433", "[::ffff:127.0.0.1]"] {
        for text in [
            "http://localhost/",
            "http://LOCALHOST/",
            "http://localhost./",
            "http://a.localhost/",
            "http://localhost.localdomain/",
            "http://ip6-localhost/",
            "http://%6c%6fcalhost/",
            "http://ｌｏｃａｌｈｏｓｔ/",
            "http://lo\u{ad}calhost/",
            "http://localhost\\@example.com/",
            "http://loc\talhost/",
            "http://127.0.0.1/",
            "http://127.0.0.1./",
            "http://127.1/",
            "http://127.255.255.255/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0x7f.0.0.1/",
            "http://0177.0.0.1/",
            "http://017700000001/",
            "http://127.0.0x0.1/",
            "http://１２７.０.０.１/",
            "http://127。0。0。1/",
            "http://①②⑦.⓪.⓪.①/",
            "http://%31%32%37.0.0.1/",
            "http:127.0.0.1/",
            "http:/\\127.0.0.1/",
            "http://[::1]/",
            "http://[0:0:0:0:0:0:0:1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://[::127.0.0.1]/",
            "http://[64:ff9b::127.0.0.1]/",
            "http://0/",
            "http://0.0.0.0/",
            "http://[::]/",
            "http://[::ffff:0:0]/",
            "ftp://127.1/",
            "ws://127.1/",
            "gopher://0177.1/",
            "gopher://LOCALHOST/",
        ] {
            assert!(is_denied(own, text), "{own}: {text}");
        }
        assert!(!is_denied(own, "http://128.0.0.1/") && !is_denied(own, "http://localhost.example/"));
    }
    for text in [
        "http://10.0.0.1/",
        "http://167772161/",
        "http://[::ffff:a00:1]/",
        "http://0xa.1/",
        "http://10.0.0.1./",
    ] {
        assert!(is_denied("10.0.0.1", text), "{text}");
    }
    assert!(!is_denied("10.0.0.1", "http://10.0.0.2/"));
    // Allowing one address of this machine does not allow its other addresses.
    let allowed = [Domain::parse("localhost").unwrap()];
    assert!(is_admitted("localhost", &allowed, &[]) && !is_admitted("127.0.0.1", &allowed, &[]));
}

#[test]
fn ports_and_domains_are_limited_to_the_lists() {
    let domains = |list: &[&str]| list.iter().filter_map(|text| Domain::parse(text)).collect::<Vec<_>>();
    let rules = AddressRules {
        ports: vec![443, 8443],
        allowed_domains: domains(&["example.com", "*.Bücher.example", "8.8.8.8"]),
        denied_domains: domains(&["private.example.com"]),
        ..AddressRules::default()
    };
    for (text, expected) in [
        ("https://example.com/", Ok(())),
        ("https://EXAMPLE.com./", Ok(())),
        ("https://www.example.com:8443/", Ok(())),
        ("https://xn--bcher-kva.example/", Ok(())),
        ("https://shop.bücher.example/", Ok(())),
        ("https://8.8.8.8/", Ok(())),
        ("https://0x08080808/", Ok(())),
        ("http://example.com/", Err(Blocked::Port)),
        ("https://example.org/", Err(Blocked::Domain)),
        ("https://notexample.com/", Err(Blocked::Domain)),
        ("https://example.com.evil.org/", Err(Blocked::Domain)),
        ("https://private.example.com/", Err(Blocked::Domain)),
        ("https://a.PRIVATE.example.com./", Err(Blocked::Domain)),
    ] {
        assert_eq!(rules.check(text).map(drop), expected, "{text}");
    }
    for text in [
        "",
        "a b",
        "example.com/path",
        "example.com:80",
        "user@example.com",
        "example.com?q",
        "[::1]:80",
        "*",
    ] {
        assert_eq!(Domain::parse(text), None, "{text}");
    }
}
