//! Rules for all files of the page.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use ring::digest::{SHA256, digest};
use strum::VariantArray;
use toolwire_execution::ErrorCode;
use toolwire_gateway::observe::failure_name;
use toolwire_pipeline::failure::{Failure, Kind};

use super::*;

/// Maximum size in bytes of everything that a browser loads, uncompressed.
const BUDGET: usize = 185_000;

/// Maximum size in bytes of the same files compressed with gzip.
const SENT_BUDGET: usize = 70_000;

/// Ways to create elements or code from strings. The page must build everything from text and single elements.
const REFUSED: &[&str] = &[
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "setHTML",
    "parseHTMLUnsafe",
    "createContextualFragment",
    "DOMParser",
    "document.write",
    "cssText",
    "srcdoc",
    "eval(",
    "new Function",
    "javascript:",
    "setAttribute(\"style\"",
    "setAttribute('style'",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console/page")
}

fn sources() -> BTreeMap<String, Vec<u8>> {
    fn read(folder: &Path, prefix: &str, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                read(&entry.path(), &format!("{name}/"), found);
            } else if name.ends_with(".js") || name.ends_with(".css") {
                found.insert(name, fs::read(entry.path()).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    read(&folder(), "", &mut found);
    found
}

/// If this fails, rebuild the bundle: `node clients/console/bundle.mjs`.
#[test]
fn bundle_is_made_of_the_sources() {
    let digests = sources().into_iter().map(|(name, bytes)| {
        let digest = digest(&SHA256, &bytes);
        let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{hex}  {name}\n")
    });
    assert_eq!(include_str!("bundle/sources.txt"), digests.collect::<String>());
}

#[test]
fn page_is_within_its_budget() {
    let loaded = DOCUMENT.len() + FILES.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
    assert!(loaded < BUDGET, "{loaded} bytes");
    let sent = DOCUMENT.len() + FILES.iter().map(|(_, bytes)| gzip(bytes).unwrap().len()).sum::<usize>();
    assert!(sent < SENT_BUDGET, "{sent} bytes");
}

/// Adds the codes of errors that `text`, a source file without its tests, contains.
fn collect_codes(text: &str, found: &mut BTreeSet<String>) {
    let calls = ["with_code(", "AdminError::new(", "AdminError::forbidden(", "conflict(", "StatusCode::"];
    for call in calls {
        for after in text.split(call).skip(1) {
            // The code is a word of its own among the arguments, before the message, which is a sentence.
            let arguments: String = after.chars().take(120).collect();
            let arguments = arguments.split([';', '?']).next().unwrap();
            let words = arguments.split('"').skip(1).step_by(2);
            let is_code = |word: &&str| {
                word.contains('_') && word.chars().all(|one| one.is_ascii_lowercase() || one == '_')
            };
            found.extend(words.take(1).filter(is_code).map(str::to_owned));
        }
    }
}

/// The codes of all errors that people see in the console.
fn codes() -> BTreeSet<String> {
    fn read(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(&path, found);
            } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
                let text = fs::read_to_string(&path).unwrap();
                collect_codes(text.split("#[cfg(test)]").next().unwrap(), found);
            }
        }
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned();
    let mut found = BTreeSet::new();
    for name in ["admin", "dialects", "engine", "execution", "gateway", "template"] {
        read(&crates.join(name).join("src"), &mut found);
    }
    found.extend(Kind::VARIANTS.iter().map(|&kind| failure_name(&Failure::new(kind, "")).to_owned()));
    found.extend(ErrorCode::VARIANTS.iter().map(|code| code.name().to_owned()));
    found
}

#[test]
fn every_code_of_an_error_has_advice() {
    let table = include_str!("page/core/advice.js");
    let rows = table.lines().filter_map(|line| line.strip_prefix("  [\"")?.split('"').next());
    let advised: BTreeSet<_> = rows.flat_map(str::split_whitespace).map(str::to_owned).collect();
    let codes = codes();
    assert!(codes.len() > 70 && codes.contains("model_not_found") && codes.contains("loop"), "{codes:?}");
    let missing: Vec<_> = codes.difference(&advised).collect();
    assert!(missing.is_empty(), "without advice in core/advice.js: {missing:?}");
}

#[test]
fn no_elements_or_code_are_made_of_strings() {
    let bundled = FILES.iter().map(|(name, bytes)| (format!("bundle/{name}"), bytes.to_vec()));
    for (path, bytes) in sources().into_iter().chain(bundled).filter(|(path, _)| path.ends_with(".js")) {
        let text = String::from_utf8(bytes).unwrap();
        for refused in REFUSED {
            assert!(!text.contains(refused), "{path}: {refused}");
        }
    }
}

/// The content security policy forbids inline code, and URLs with a host would break behind a proxy.
#[test]
fn document_has_no_inline_code_and_only_relative_urls() {
    assert!(!DOCUMENT.contains("<style") && !DOCUMENT.contains(" style=") && !DOCUMENT.contains(" on"));
    for tag in DOCUMENT.split("<script").skip(1) {
        assert!(tag.starts_with(" src=") || tag.starts_with(" type=\"module\" src="), "{tag}");
    }
    for attribute in ["href=\"", "src=\""] {
        for url in DOCUMENT.split(attribute).skip(1) {
            let url = url.split('"').next().unwrap();
            let path = url.strip_prefix("v/{{version}}/").unwrap_or_else(|| panic!("{url}"));
            assert!(FILES.iter().any(|(known, _)| *known == path), "{url}");
        }
    }
}

#[test]
fn files_are_found_only_in_their_version() {
    let (version, document) = &*PAGE;
    let find = |path: &str| find(path, false);
    let shell = find("").unwrap();
    assert!(!shell.is_immutable && shell.bytes == document && shell.content_type.starts_with("text/html"));
    assert!(!shell.bytes.windows(PLACEHOLDER.len()).any(|part| part == PLACEHOLDER.as_bytes()));
    let main = find(&format!("v/{version}/main.js")).unwrap();
    assert!(main.is_immutable && main.content_type.starts_with("text/javascript"));
    for path in ["main.js", "v/main.js", "v/00000000/main.js", "index.html", "v//main.js", "../mod.rs"] {
        assert!(find(path).is_none(), "{path}");
    }
    assert!(find(&format!("v/{version}/index.html")).is_none());
    assert!(find(&format!("v/{version}/")).is_none());
}

#[test]
fn compressed_files_are_the_same() {
    let (version, _) = &*PAGE;
    let path = format!("v/{version}/main.js");
    let (plain, compressed) = (find(&path, false).unwrap(), find(&path, true).unwrap());
    assert!(!plain.is_compressed && compressed.is_compressed);
    let mut read = Vec::new();
    flate2::read::GzDecoder::new(&*compressed.bytes).read_to_end(&mut read).unwrap();
    assert_eq!(plain.bytes, read);
}

/// Returns a custom property's colours in both themes, from `light-dark(#…, #…)`.
fn token(css: &str, name: &str) -> [[f64; 3]; 2] {
    let (_, rest) = css.split_once(&format!("--{name}: light-dark(")).unwrap_or_else(|| panic!("{name}"));
    let (values, _) = rest.split_once(')').unwrap();
    let mut values = values.split(',').map(|value| channels(value.trim()));
    [values.next().unwrap(), values.next().unwrap()]
}

fn channels(hex: &str) -> [f64; 3] {
    let number = u32::from_str_radix(hex.strip_prefix('#').unwrap(), 16).unwrap();
    assert_eq!(hex.len(), 7, "{hex}");
    let [_, channels @ ..] = number.to_be_bytes();
    channels.map(|channel| f64::from(channel) / 255.0)
}

/// Relative luminance as defined by WCAG 2.2.
fn luminance(color: [f64; 3]) -> f64 {
    let [r, g, b] =
        color.map(
            |channel| {
                if channel <= 0.04045 { channel / 12.92 } else { ((channel + 0.055) / 1.055).powf(2.4) }
            },
        );
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn contrast_is_sufficient_in_both_themes() {
    let css = include_str!("page/css/tokens.css");
    let surfaces = ["bg", "surface", "raised", "selected"];
    let tinted = ["call", "held", "reasoning", "result", "error"];
    let mut pairs = Vec::new();
    for text in ["ink", "ink-2", "ink-3", "accent"].iter().chain(&tinted) {
        pairs.extend(surfaces.map(|surface| (*text, surface.to_owned(), 4.5)));
    }
    for text in tinted {
        pairs.push((text, format!("{text}-bg"), 4.5));
        pairs.extend(["ink", "ink-2", "ink-3"].map(|ink| (ink, format!("{text}-bg"), 4.5)));
    }
    for border in ["control", "focus"] {
        pairs.extend(surfaces.map(|surface| (border, surface.to_owned(), 3.0)));
    }
    pairs.push(("on-accent", "accent".to_owned(), 4.5));
    for (text, surface, least) in pairs {
        let (text_colors, surface_colors) = (token(css, text), token(css, &surface));
        for (theme, (one, other)) in ["light", "dark"].iter().zip(text_colors.into_iter().zip(surface_colors))
        {
            let found = contrast(one, other);
            assert!(found >= least, "{text} on {surface}, {theme}: {found:.2}");
        }
    }
}

#[test]
fn contrast_of_parchment_is_sufficient() {
    let css = include_str!("page/css/tokens.css");
    let (_, rule) = css.split_once(".parchment {").unwrap();
    let (rule, _) = rule.split_once('}').unwrap();
    let token = |name: &str| {
        let (_, rest) = rule.split_once(&format!("--{name}: ")).unwrap_or_else(|| panic!("{name}"));
        channels(rest.split_once(';').unwrap().0)
    };
    for paper in ["paper-light", "paper-dark"] {
        for text in ["ink", "ink-2", "ink-3", "accent", "call", "held", "reasoning", "result", "error"] {
            assert!(contrast(token(text), token(paper)) >= 4.5, "{text} on {paper}");
        }
        assert!(contrast(token("focus"), token(paper)) >= 3.0);
    }
    for wax in ["wax-light", "wax-dark"] {
        assert!(contrast(token("on-wax"), token(wax)) >= 4.5, "{wax}");
    }
}
