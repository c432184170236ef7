//! [`page`]: the formats as a page of documentation, made from the tables.

use std::fmt::Write;

use super::{ALL, Format};

const HEAD: &str = "\
# Text formats

The ways of writing tool calls as text that toolwire reads. `detect` in the [configuration](configuration.md) says which
are looked for; `tools` says in which one a model is taught to call tools. A configuration can tell formats of its own in
`[[formats]]`.

- **auto**: `detect = \"auto\"` looks for it in every answer to a request with tools. The others are looked for when they
  are named, or when the model's name fits one of the globs below.
- **taught**: `tools` may name it.

This page is written by `toolwire formats --markdown`.
";

/// The page, in Markdown.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("\n| format | auto | taught | models |\n|---|---|---|---|\n");
    for format in ALL {
        let models: Vec<_> = format.models.iter().map(|glob| format!("`{glob}`")).collect();
        let (auto, taught) = (yes(format.auto), yes(format.teach.is_some()));
        let name = format.name;
        // Writing to a string cannot fail.
        let _ = writeln!(page, "| [{name}](#{name}) | {auto} | {taught} | {} |", models.join(", "));
    }
    ALL.iter().for_each(|format| section(format, &mut page));
    page
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "" }
}

fn section(format: &Format, page: &mut String) {
    let Format { name, summary, example, .. } = format;
    let _ = write!(page, "\n## {name}\n\n{summary}\n\n````text\n{example}\n````\n");
}
