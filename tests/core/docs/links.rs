//! Checks the links between Markdown pages.

use super::{files, none, page};

#[test]
fn relative_links_and_their_anchors_resolve() {
    let mut faults = Vec::new();
    for (file, text) in files("", &["md"]) {
        for link in page::links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = match link.split_once('#') {
                Some((path, anchor)) => (path, Some(anchor)),
                None => (link.as_str(), None),
            };
            let folder = file.parent().unwrap();
            let target = if path.is_empty() { file.clone() } else { folder.join(path) };
            let fault = page::fault(target.to_str().unwrap(), anchor);
            faults.extend(fault.map(|fault| format!("{}: {fault}", file.display())));
        }
    }
    none(&faults);
}
