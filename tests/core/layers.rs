//! The order of the modules: each imports only modules below it, no dialect imports another, and nothing outside of
//! `dialect` imports one.
//!
//! The test reads the sources as text. It resolves every path that begins with `crate` or leaves its file by `super`,
//! in imports, bodies, macros and tests alike, and ignores comments and literals. The compiler checks what a crate imports;
//! here the modules of all crates have one order, so that those inside a crate have one too.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::{Path, PathBuf},
};

use crate::support::repository::root;

/// The modules from the bottom up. A module may import those that stand before it.
const ORDER: &[&str] = &[
    "suggest",
    "settings",
    "digest",
    "wire",
    "http1",
    "event",
    "conversation",
    "failure",
    "rules",
    "tools",
    "format",
    "enforce",
    "detect",
    "dialect",
    "template",
    "pipeline",
    "redact",
    "untrusted",
    "analysis",
    "private",
    "telemetry",
    "tls",
    "proxied",
    "store",
    "execute",
    "config",
    "observe",
    "console",
    "manifest",
    "proxy",
    "clock",
    "fixture",
    "bench",
    "calibrate",
    "conform",
    "cli",
];

/// The crates that are one module of this order, with its name. The others hold several, as `src` does.
const CRATES: &[(&str, &str)] = &[
    ("detect", "detect"),
    ("dialects", "dialect"),
    ("http1", "http1"),
    ("template", "template"),
    ("wire", "wire"),
];

#[test]
fn architecture_lists_the_modules_in_this_order() {
    let page = root().join("ARCHITECTURE.md");
    let page = fs::read_to_string(page).expect("the page");
    let (_, list) = page.split_once("    src/\n").expect("the list of modules");
    let names = list.lines().filter_map(|line| line.strip_prefix("      ")?.split_whitespace().next());
    let names = names.map(|name| name.trim_end_matches('/').trim_end_matches(".rs"));
    let listed: Vec<_> = names.filter(|name| ORDER.contains(name)).collect();
    assert_eq!(listed, ORDER);
}

/// What `dialect/` has besides the dialects: all of them may import it.
const SHARED_BY_DIALECTS: &[&str] = &[
    "block_order",
    "body",
    "cache_hints",
    "channel",
    "custom_tools",
    "field_case",
    "fields",
    "finish",
    "fit",
    "json_array",
    "learnt",
    "media",
    "objects",
    "opaque",
    "openai_error",
    "probe",
    "progress",
    "refusal",
    "schemas",
    "search_results",
    "server",
    "signatures",
    "skipped",
    "status",
    "system_messages",
    "thinking",
    "tool_calls",
    "upstream",
    "usage",
    "whole_calls",
];

/// A path in a source file, without `crate` and `super`: the module that it names, seen from the root of the crate.
#[derive(Debug, PartialEq, Eq)]
struct Import {
    line: usize,
    path: Vec<String>,
    /// The name after `as`.
    renamed: Option<String>,
    /// It is in a module of tests of the file.
    in_tests: bool,
}

/// An import that the order forbids.
#[derive(Debug, PartialEq, Eq)]
struct Forbidden {
    file: String,
    line: usize,
    from: String,
    to: String,
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: `{}` imports `{}`", self.file, self.line, self.from, self.to)
    }
}

#[test]
fn each_module_imports_only_modules_below_it() {
    let mut forbidden = Vec::new();
    for (name, text) in all_sources() {
        // The roots of the library and of the program see everything.
        if place_of(&name).module().is_empty() || name == "src/main.rs" {
            continue;
        }
        forbidden.extend(check(&name, &text));
    }
    let lines: Vec<_> = forbidden.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "imports that point up:\n{}", lines.join("\n"));
}

#[test]
fn the_order_names_each_module_once() {
    let mut modules: Vec<_> = all_sources()
        .iter()
        .filter(|(name, _)| name != "src/main.rs")
        .filter_map(|(name, _)| place_of(name).module().first().cloned())
        .collect();
    modules.sort_unstable();
    modules.dedup();
    let mut order = ORDER.to_vec();
    order.sort_unstable();
    assert_eq!(modules, order);
}

#[test]
fn imports_that_point_up_are_found_in_every_form() {
    let found = |name: &str, text: &str| {
        let forbidden = check(name, text);
        forbidden.into_iter().map(|found| (found.line, found.to)).collect::<Vec<_>>()
    };
    let up = |line: usize, to: &str| vec![(line, to.to_owned())];
    for (text, line, to) in [
        ("use crate::pipeline::Pipeline;", 1, "pipeline"),
        ("use crate::{\n    event::Event,\n    pipeline::{State, Pipeline},\n};", 3, "pipeline"),
        ("use {crate::pipeline as other, std::fmt};", 1, "pipeline"),
        ("pub(crate) use ::std::fmt;\nuse super::super::proxy;", 2, "proxy"),
        ("use super::{super::{event, pipeline}, gate};", 1, "pipeline"),
        ("fn f() {\n    let _ = crate :: cli :: run();\n}", 2, "cli"),
        ("mod tests {\n    use super::super::super::bench;\n}", 2, "bench"),
        ("macro_rules! m { () => { $crate::cli::run() } }", 1, "cli"),
        ("const C: char = '\"';\nuse crate::cli;", 2, "cli"),
        ("fn f<'a>(_: &'a str) {}\nuse crate::r#cli;", 2, "cli"),
        ("use crate::*;", 1, "*"),
        ("use crate::Anything;", 1, "Anything"),
    ] {
        assert_eq!(found("src/detect/prose.rs", text), up(line, to), "{text}");
    }
    for text in [
        "use crate::{event::Event, format, detect::gate, wire::{json, sse}};",
        "// use crate::cli;\n/* use crate::cli; /* nested */ use crate::cli; */",
        "const C: &str = \"use crate::cli;\\\" crate::cli\";\nconst R: &str = r#\"crate::cli\"#;",
        "use super::pipeline;\nuse self::cli;",
        "mod tests {\n    use super::cli;\n}",
        "pub(in crate::detect) fn f() {}\npub(crate) fn g() {}\npub(super) fn h() {}",
    ] {
        assert_eq!(found("src/detect/prose.rs", text), [], "{text}");
    }
}

#[test]
fn dialects_that_import_each_other_are_found() {
    let found = |name: &str, text: &str| check(name, text).len();
    assert_eq!(found("src/dialect/lumo/v2.rs", "use crate::dialect::chat;"), 1);
    assert_eq!(found("src/dialect/lumo/v2.rs", "use super::super::{chat::Reader, tool_calls};"), 1);
    assert_eq!(found("src/dialect/tool_calls/mod.rs", "use crate::dialect::lumo::V1;"), 1);
    assert_eq!(found("src/dialect/lumo/v2.rs", "use crate::dialect::{Ids, lumo, tool_calls};"), 0);
    assert_eq!(found("crates/dialects/src/lumo/v2.rs", "use crate::{chat::Reader, event::Event};"), 1);
    assert_eq!(found("crates/dialects/src/lumo/v2.rs", "use super::super::{event, tool_calls};"), 0);
    assert_eq!(found("src/dialect/mod.rs", "use self::{chat, lumo};\nuse crate::dialect::chat;"), 0);
}

#[test]
fn modules_that_name_a_dialects_folder_are_found() {
    let found = |name: &str, text: &str| check(name, text).len();
    assert_eq!(found("src/proxy/reply.rs", "use crate::{dialect::chat, failure::Failure};"), 1);
    assert_eq!(found("src/config/upstream.rs", "fn f() -> crate::dialect::lumo::Version {}"), 1);
    assert_eq!(found("src/proxy/reply.rs", "use crate::dialect::{self, ClientDialect};"), 0);
}

/// The largest group of modules in one folder that may depend on each other.
const LARGEST_CYCLE: usize = 3;

#[test]
fn no_large_group_of_modules_in_a_folder_depends_on_itself() {
    let mut lines = Vec::new();
    for (folder, graph) in folders() {
        for cycle in graph.cycles() {
            if cycle.len() > LARGEST_CYCLE {
                lines.push(format!("{}: {}", folder.join("::"), cycle.join(", ")));
            }
        }
    }
    assert!(lines.is_empty(), "groups of more than {LARGEST_CYCLE} modules:\n{}", lines.join("\n"));
}

#[test]
fn modules_that_depend_on_each_other_are_found() {
    let mut graph = Graph::default();
    for (from, to) in [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("f", "a")] {
        graph.add(from, to);
    }
    assert_eq!(graph.cycles(), [["a", "b", "c"]]);
    let reexported =
        reexports("pub use self::{a::{One, Two as Other}, b};\nuse c::Three;\nuse std::fmt::Debug;");
    let modules = |name: &str| reexported.get(name).map(String::as_str);
    assert_eq!(
        [modules("One"), modules("Other"), modules("b"), modules("Three"), modules("Two")],
        [Some("a"), Some("a"), Some("b"), Some("c"), None],
    );
}

/// Which modules of one folder import which others of it.
#[derive(Debug, Default)]
struct Graph(BTreeMap<String, BTreeSet<String>>);

impl Graph {
    fn add(&mut self, from: &str, to: &str) {
        self.0.entry(from.to_owned()).or_default().insert(to.to_owned());
    }

    /// The groups of at least two modules each of which leads to all others of its group.
    fn cycles(&self) -> Vec<Vec<String>> {
        let reached: BTreeMap<_, _> = self.0.keys().map(|from| (from, self.reached(from))).collect();
        let leads = |from: &String, to: &String| reached.get(from).is_some_and(|names| names.contains(to));
        let mut found: Vec<Vec<String>> = Vec::new();
        for name in self.0.keys() {
            if found.iter().any(|group| group.contains(name)) {
                continue;
            }
            let group: Vec<_> =
                self.0.keys().filter(|other| leads(name, other) && leads(other, name)).cloned().collect();
            if group.len() > 1 {
                found.push(group);
            }
        }
        found
    }

    /// All modules that `from` imports, directly or by way of others.
    fn reached(&self, from: &str) -> BTreeSet<String> {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(next) = open.pop() {
            for to in self.0.get(&next).into_iter().flatten() {
                if reached.insert(to.clone()) {
                    open.push(to.clone());
                }
            }
        }
        reached
    }
}

/// The imports between the modules of each folder. Tests do not count, nor does the file that declares the modules.
fn folders() -> BTreeMap<Vec<String>, Graph> {
    let sources = all_sources();
    let modules: Vec<_> = sources.iter().map(|(name, text)| (place_of(name), text)).collect();
    let names: BTreeMap<_, _> =
        modules.iter().map(|(place, text)| (place.module(), reexports(text))).collect();
    let mut folders: BTreeMap<Vec<String>, Graph> = BTreeMap::new();
    for (place, text) in &modules {
        let module = place.module();
        for import in place.imports(text).into_iter().filter(|import| !import.in_tests) {
            // The folder is the part that both have in common.
            let common = module.iter().zip(&import.path).take_while(|(from, to)| from == to).count();
            let (folder, inner) = import.path.split_at(common);
            let (Some(from), Some(to)) = (module.get(common), inner.first()) else { continue };
            if folder.is_empty() {
                continue;
            }
            let mut path = folder.to_vec();
            path.push(to.clone());
            let to = match names.get(folder).and_then(|names| names.get(to)) {
                Some(module) if !names.contains_key(&path) => module,
                _ if names.contains_key(&path) => to,
                _ => continue,
            };
            if from != to {
                folders.entry(folder.to_vec()).or_default().add(from, to);
            }
        }
    }
    folders
}

/// The names that a file imports from the modules it declares, and of which of them.
fn reexports(text: &str) -> BTreeMap<String, String> {
    let mut scanner = Scanner::new(&[], text);
    let mut found = BTreeMap::new();
    while let Some((_, token)) = scanner.tokens.get(scanner.at).cloned() {
        scanner.at += 1;
        if token == Token::Word("use".to_owned()) && scanner.depth == 0 {
            let mut imports = Vec::new();
            scanner.path(Some(Vec::new()), &mut imports);
            for Import { path, renamed, .. } in imports {
                if let (Some(module), Some(name)) = (path.first(), path.last()) {
                    found.insert(renamed.unwrap_or_else(|| name.clone()), module.clone());
                }
            }
        }
    }
    found
}

/// All source files of all crates, with their names from the root.
fn all_sources() -> Vec<(String, String)> {
    let crates = fs::read_dir(root().join("crates")).expect("the crates");
    let crates = crates.map(|entry| entry.expect("an entry").path().join("src"));
    let files = [root().join("src")].into_iter().chain(crates).flat_map(|folder| sources(&folder));
    let mut all: Vec<_> = files
        .map(|file| {
            let name = file.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
            (name, fs::read_to_string(&file).expect("a source file"))
        })
        .collect();
    all.sort();
    all
}

/// All source files below `folder`, sorted.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Where a file is.
struct Place {
    /// The module that its crate is, if it is one.
    krate: Option<&'static str>,
    /// The module that the file holds, in its crate.
    inner: Vec<String>,
}

impl Place {
    /// The module of the file, among those of all crates.
    fn module(&self) -> Vec<String> {
        self.global(self.inner.clone())
    }

    /// A path in this crate, among those of all crates. A crate imports the modules of others by their names in the order.
    fn global(&self, mut path: Vec<String>) -> Vec<String> {
        let is_known = path.first().is_some_and(|first| ORDER.contains(&first.as_str()));
        if let Some(krate) = self.krate.filter(|_| !is_known) {
            path.insert(0, krate.to_owned());
        }
        path
    }

    /// The imports of a file with this text.
    fn imports(&self, text: &str) -> Vec<Import> {
        let imports = Scanner::new(&self.inner, text).imports().into_iter();
        imports.map(|import| Import { path: self.global(import.path), ..import }).collect()
    }
}

/// The place of a file: `src/detect/body/mod.rs` is `detect::body`, and so is `crates/detect/src/body/mod.rs`.
fn place_of(file: &str) -> Place {
    let (folder, inner) = file.split_once("src/").expect("a source file");
    let folder = folder.trim_start_matches("crates/").trim_end_matches('/');
    let krate = CRATES.iter().find(|(name, _)| *name == folder).map(|(_, module)| *module);
    let mut inner: Vec<_> = inner.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if inner.last().is_some_and(|last| last == "mod" || last == "lib") {
        inner.pop();
    }
    Place { krate, inner }
}

/// The imports of a file that the order forbids.
fn check(file: &str, text: &str) -> Vec<Forbidden> {
    let place = place_of(file);
    let (imports, module) = (place.imports(text), place.module());
    let forbidden = imports.into_iter().filter_map(|import| {
        let to = points_up(&module, &import.path)?;
        Some(Forbidden { file: file.to_owned(), line: import.line, from: module.join("::"), to })
    });
    let mut forbidden: Vec<_> = forbidden.collect();
    forbidden.dedup();
    forbidden
}

/// What a module must not import of `path`.
fn points_up(module: &[String], path: &[String]) -> Option<String> {
    let place = |name: &String| ORDER.iter().position(|known| known == name);
    let (from, to) = (module.first()?, path.first()?);
    if from == "dialect" && to == "dialect" {
        let shared = |name: &str| SHARED_BY_DIALECTS.contains(&name) || !is_module_of_dialect(name);
        let (from, to) = (module.get(1)?, path.get(1)?);
        return (from != to && !shared(to)).then(|| format!("dialect::{to}"));
    }
    // Everything else holds a `ClientDialect` or an `UpstreamDialect`, and does not choose a dialect's folder.
    if to == "dialect"
        && let Some(inner) = path.get(1)
        && is_module_of_dialect(inner)
    {
        return Some(format!("dialect::{inner}"));
    }
    // Tests find the repository by it.
    if to == "repository" {
        return None;
    }
    match (place(from), place(to)) {
        (Some(from), Some(to)) if to <= from => None,
        _ => Some(to.clone()),
    }
}

/// Whether a name in `dialect` is a module's: types and functions begin otherwise or are not there as a file.
fn is_module_of_dialect(name: &str) -> bool {
    let folder = root().join("crates/dialects/src");
    folder.join(name).is_dir() || folder.join(format!("{name}.rs")).is_file()
}

/// A word or sign of Rust source, as far as paths need them apart.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    /// `::`
    Path,
    Sign(char),
}

/// Reads the paths of one file.
struct Scanner {
    tokens: Vec<(usize, Token)>,
    at: usize,
    /// The module that the text at `at` is in: that of the file, and inline modules, each with the depth of its braces.
    module: Vec<String>,
    inline: Vec<usize>,
    depth: usize,
}

impl Scanner {
    fn new(module: &[String], text: &str) -> Self {
        Self { tokens: tokens(text), at: 0, module: module.to_vec(), inline: Vec::new(), depth: 0 }
    }

    fn imports(mut self) -> Vec<Import> {
        let mut found = Vec::new();
        while let Some((_, token)) = self.tokens.get(self.at).cloned() {
            match token {
                Token::Word(word) if word == "mod" => self.enter_inline_module(),
                Token::Word(word) if ["crate", "super"].contains(&word.as_str()) && self.begins_path() => {
                    if self.is_visibility() {
                        self.at += 1;
                    } else {
                        let module = self.module.clone();
                        self.path(Some(module), &mut found);
                    }
                }
                Token::Sign('{') => self.open(),
                Token::Sign('}') => self.close(),
                _ => self.at += 1,
            }
        }
        found
    }

    fn token(&self, at: usize) -> Option<&Token> {
        self.tokens.get(at).map(|(_, token)| token)
    }

    fn open(&mut self) {
        self.depth += 1;
        self.at += 1;
    }

    fn close(&mut self) {
        if self.inline.last() == Some(&self.depth) {
            self.inline.pop();
            self.module.pop();
        }
        self.depth = self.depth.saturating_sub(1);
        self.at += 1;
    }

    fn enter_inline_module(&mut self) {
        self.at += 1;
        if let (Some(Token::Word(name)), Some(Token::Sign('{'))) =
            (self.token(self.at), self.token(self.at + 1))
        {
            self.module.push(name.clone());
            self.at += 1;
            self.open();
            self.inline.push(self.depth);
        }
    }

    /// A path goes on behind this word, and none goes on before it.
    fn begins_path(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|before| self.token(before));
        before != Some(&Token::Path) && self.token(self.at + 1) == Some(&Token::Path)
    }

    /// `pub(in path)`: who may see something is not an import.
    fn is_visibility(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|before| self.token(before));
        before == Some(&Token::Word("in".to_owned()))
            && self.at.checked_sub(2).and_then(|before| self.token(before)) == Some(&Token::Sign('('))
    }

    /// Reads one path, with the trees that it may end in. `from`: the module that the path so far names; `None` where
    /// it names something outside the crate.
    fn path(&mut self, from: Option<Vec<String>>, found: &mut Vec<Import>) {
        let (mut path, mut line) = (from, 0);
        while let Some((at, token)) = self.tokens.get(self.at).cloned() {
            line = at;
            match token {
                Token::Word(word) => {
                    self.at += 1;
                    if let Some(path) = &mut path {
                        step(path, word);
                    }
                }
                Token::Sign('*') => {
                    self.at += 1;
                    if let Some(path) = &mut path {
                        path.push("*".to_owned());
                    }
                    break;
                }
                Token::Sign('{') => {
                    self.tree(path.as_ref(), found);
                    return;
                }
                _ => break,
            }
            if self.token(self.at) != Some(&Token::Path) {
                break;
            }
            self.at += 1;
        }
        let (renamed, in_tests) = (self.renamed(), self.module.iter().any(|name| name == "tests"));
        found.extend(path.filter(|path| !path.is_empty()).map(|path| Import {
            line,
            path,
            renamed,
            in_tests,
        }));
    }

    /// Reads the other name that an import gives.
    fn renamed(&mut self) -> Option<String> {
        let (Some(Token::Word(word)), Some(Token::Word(name))) =
            (self.token(self.at), self.token(self.at + 1))
        else {
            return None;
        };
        let name = (word == "as").then(|| name.clone())?;
        self.at += 2;
        Some(name)
    }

    /// Reads what stands in the braces of an import.
    fn tree(&mut self, from: Option<&Vec<String>>, found: &mut Vec<Import>) {
        self.at += 1;
        while let Some(token) = self.token(self.at).cloned() {
            match token {
                Token::Sign('}') => {
                    self.at += 1;
                    return;
                }
                Token::Word(_) | Token::Sign('*' | '{') => self.path(from.cloned(), found),
                _ => self.at += 1,
            }
        }
    }
}

/// Where a path leads with one more word.
fn step(path: &mut Vec<String>, word: String) {
    match word.as_str() {
        "crate" => path.clear(),
        "super" => {
            path.pop();
        }
        "self" => {}
        _ => path.push(word),
    }
}

/// The words and signs of a source, each with its line. Comments and literals are left out.
fn tokens(text: &str) -> Vec<(usize, Token)> {
    let (mut tokens, mut line) = (Vec::new(), 1);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => comment(rest),
            '"' => string(rest),
            '\'' => character(rest),
            ':' if rest.starts_with("::") => {
                tokens.push((line, Token::Path));
                2
            }
            _ if is_word(first) => {
                let end = rest.find(|other| !is_word(other)).unwrap_or(rest.len());
                match raw(&rest[..end], &rest[end..]) {
                    Some(literal) => end + literal,
                    // `r#name`
                    None if &rest[..end] == "r" && rest[end..].starts_with('#') => end + 1,
                    None => {
                        tokens.push((line, Token::Word(rest[..end].to_owned())));
                        end
                    }
                }
            }
            _ => {
                if !first.is_whitespace() {
                    tokens.push((line, Token::Sign(first)));
                }
                first.len_utf8()
            }
        };
        line += rest[..taken].matches('\n').count();
        rest = &rest[taken..];
    }
    tokens
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Bytes of a block comment, with those inside it.
fn comment(text: &str) -> usize {
    let (mut at, mut depth) = (2, 1);
    while depth > 0 && at < text.len() {
        let rest = &text.as_bytes()[at..];
        let step = match rest {
            [b'/', b'*', ..] => Some(1),
            [b'*', b'/', ..] => Some(-1),
            _ => None,
        };
        depth += step.unwrap_or(0);
        at += if step.is_some() { 2 } else { 1 };
    }
    at.min(text.len())
}

/// Bytes of a string literal.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// Bytes of a raw string's literal behind its prefix, if `word` is one.
fn raw(word: &str, rest: &str) -> Option<usize> {
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let is_raw = ["r", "br", "cr"].contains(&word) && rest[hashes..].starts_with('"');
    is_raw.then(|| {
        let end = format!("\"{}", "#".repeat(hashes));
        let body = &rest[hashes + 1..];
        body.find(&end).map_or(rest.len(), |at| hashes + 1 + at + end.len())
    })
}

/// Bytes of a character literal; of a lifetime, its quote.
fn character(text: &str) -> usize {
    let mut characters = text.char_indices().skip(1);
    match characters.next() {
        Some((_, '\\')) => text[3..].find('\'').map_or(1, |at| at + 4),
        Some((at, first)) if text[at + first.len_utf8()..].starts_with('\'') => at + first.len_utf8() + 1,
        _ => 1,
    }
}
