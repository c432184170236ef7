//! [`FileWatch`]: detects changes to the configuration file and the files that it refers to.
//!
//! It reads the files and compares their content. File system notifications are not reliable: Kubernetes updates a
//! ConfigMap by replacing a symbolic link two levels above the file, editors rename files, and network file systems do
//! not send any.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use super::{Config, source::read_file};
use toolwire_pipeline::wire::digest::Digest;

/// The files of a configuration, with the content that was last seen.
#[derive(Debug)]
pub struct FileWatch(BTreeMap<PathBuf, Watched>);

#[derive(Debug)]
struct Watched {
    /// The content when the configuration was loaded or a change was last reported.
    known: Content,
    /// The content that was last seen. A change is reported only when the same content is seen twice in a row, because
    /// a file may be written in several steps.
    seen: Content,
}

/// The digest of a file's content, or why the file cannot be read.
type Content = Result<Digest, io::ErrorKind>;

impl FileWatch {
    /// Watches the files that `config` was read from. `None` if there are none, or if the configuration file is a pipe,
    /// which cannot be read again.
    pub fn new(config: &Config) -> Option<Self> {
        if let Some((path, _)) = config.sources.origin()?.source.file()
            && !fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
        {
            return None;
        }
        let mut watch = Self(BTreeMap::new());
        watch.follow(config);
        (!watch.0.is_empty()).then_some(watch)
    }

    /// Watches only the files that `config` was read from. Changes that were already reported are not reported again.
    pub fn follow(&mut self, config: &Config) {
        let files = config.files();
        self.0.retain(|path, _| files.contains_key(path));
        for (path, content) in files {
            self.0.entry(path).or_insert(Watched { known: Ok(content), seen: Ok(content) });
        }
    }

    /// Whether a file has changed since the last report and all files have settled. Blocks on the disk. Call it at
    /// intervals that are long enough for a file to be written.
    pub fn has_changed(&mut self) -> bool {
        let mut is_settled = true;
        for (path, watched) in &mut self.0 {
            let content = content(path);
            is_settled &= watched.seen == content;
            watched.seen = content;
        }
        let is_news = is_settled && self.0.values().any(|watched| watched.known != watched.seen);
        if is_news {
            self.0.values_mut().for_each(|watched| watched.known = watched.seen);
        }
        is_news
    }
}

/// The files that a configuration refers to, collected while it is read.
#[derive(Debug, Default)]
pub(super) struct NamedFiles(RefCell<BTreeMap<PathBuf, Digest>>);

impl NamedFiles {
    /// Records `path` before the file is read, so that a later change is noticed. Skips pipes, which can be read only
    /// once, and unreadable files, which are reported elsewhere.
    pub(super) fn note(&self, path: &Path) {
        if let Ok(content) = content(path) {
            self.0.borrow_mut().insert(path.to_owned(), content);
        }
    }

    pub(super) fn into_read(self) -> BTreeMap<PathBuf, Digest> {
        self.0.into_inner()
    }
}

fn content(path: &Path) -> Content {
    let kind = |error: io::Error| error.kind();
    // Opening a pipe would block until there is a writer.
    if !fs::metadata(path).map_err(kind)?.is_file() {
        return Err(io::ErrorKind::InvalidInput);
    }
    read_file(path).map(|bytes| Digest::of_bytes(&bytes)).map_err(kind)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::{Overrides, load};

    const FILE: &str = "[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
        [[models]]\nname = \"m\"\n";

    fn read(path: PathBuf) -> Config {
        let overrides = Overrides { file: Some(path), ..Overrides::default() };
        load(&overrides, &|_| None).unwrap().config
    }

    fn watch(path: PathBuf) -> FileWatch {
        FileWatch::new(&read(path)).unwrap()
    }

    #[test]
    fn files_that_values_name_are_watched_as_long_as_they_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a"), "secret-a").unwrap();
        fs::write(at("b"), "secret-b").unwrap();
        let file = at("toolwire.toml");
        fs::write(&file, format!("api_keys = [\"file:a\"]\n{FILE}")).unwrap();
        let mut watch = watch(file.clone());
        fs::write(at("a"), "other-a").unwrap();
        assert_eq!([watch.has_changed(), watch.has_changed(), watch.has_changed()], [false, true, false]);
        watch.follow(&read(file.clone()));
        assert_eq!([watch.has_changed(), watch.has_changed()], [false, false]);

        fs::write(&file, format!("api_keys = [\"file:b\"]\n{FILE}")).unwrap();
        assert_eq!([watch.has_changed(), watch.has_changed()], [false, true]);
        watch.follow(&read(file));
        fs::write(at("a"), "another-a").unwrap();
        assert_eq!([watch.has_changed(), watch.has_changed()], [false, false], "nothing names it");
        fs::write(at("b"), "other-b").unwrap();
        assert_eq!([watch.has_changed(), watch.has_changed()], [false, true]);
    }

    #[test]
    fn change_of_two_files_is_reported_when_both_have_settled() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a"), "secret-a").unwrap();
        let file = at("toolwire.toml");
        fs::write(&file, format!("api_keys = [\"file:a\"]\n{FILE}")).unwrap();
        let mut watch = watch(file.clone());
        fs::write(&file, "one").unwrap();
        assert!(!watch.has_changed());
        fs::write(at("a"), "two").unwrap();
        assert_eq!([watch.has_changed(), watch.has_changed(), watch.has_changed()], [false, true, false]);
    }

    #[test]
    fn change_is_reported_once_when_it_has_settled() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("toolwire.toml");
        fs::write(&file, FILE).unwrap();
        let mut watch = watch(file.clone());
        assert!(!watch.has_changed() && !watch.has_changed());
        for content in ["", "half", "whole"] {
            fs::write(&file, content).unwrap();
            assert!(!watch.has_changed(), "{content}: it may be unfinished");
        }
        assert!(watch.has_changed());
        assert!(!watch.has_changed());
        fs::write(&file, "other").unwrap();
        watch.has_changed();
        fs::write(&file, "whole").unwrap();
        assert!(!watch.has_changed() && !watch.has_changed(), "it is as before");
    }

    #[test]
    fn file_that_is_gone_is_a_change_and_so_is_its_return() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("toolwire.toml");
        fs::write(&file, FILE).unwrap();
        let mut watch = watch(file.clone());
        fs::remove_file(&file).unwrap();
        assert_eq!([watch.has_changed(), watch.has_changed(), watch.has_changed()], [false, true, false]);
        fs::create_dir(&file).unwrap();
        assert_eq!([watch.has_changed(), watch.has_changed(), watch.has_changed()], [false, true, false]);
        fs::remove_dir(&file).unwrap();
        fs::write(&file, FILE).unwrap();
        assert_eq!([watch.has_changed(), watch.has_changed(), watch.has_changed()], [false, true, false]);
    }

    /// Kubernetes updates a ConfigMap by replacing this link.
    #[test]
    fn swap_of_a_link_above_the_file_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (version, text) in [("v1", FILE.to_owned()), ("v2", format!("{FILE}\n"))] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("toolwire.toml"), text).unwrap();
        }
        symlink("v1", at("..data")).unwrap();
        symlink("..data/toolwire.toml", at("toolwire.toml")).unwrap();
        let mut watch = watch(at("toolwire.toml"));
        assert!(!watch.has_changed());
        symlink("v2", at("..new")).unwrap();
        fs::rename(at("..new"), at("..data")).unwrap();
        fs::remove_dir_all(at("v1")).unwrap();
        assert_eq!([watch.has_changed(), watch.has_changed()], [false, true]);
    }
}
