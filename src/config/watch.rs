//! [`FileWatch`]: notices that the configuration file has changed.
//!
//! It reads the file and compares what is in it. Notifications of the file system miss files that are replaced by way of their
//! folder: Kubernetes swaps a symbolic link two levels above a ConfigMap's file, editors rename, and network file systems send
//! none at all.

use std::{fs, io, path::PathBuf};

use super::{Config, source::read_file};
use crate::digest::Digest;

/// The configuration file as it was seen last.
#[derive(Debug)]
pub(crate) struct FileWatch {
    path: PathBuf,
    /// What was read when the configuration was loaded, or a change reported.
    known: Content,
    /// What was seen last. A change is reported when it was seen twice in a row: a file may be written in several steps.
    seen: Content,
}

/// What is in the file, or why it cannot be read.
type Content = Result<Digest, io::ErrorKind>;

impl FileWatch {
    /// The file that `config` was read from. `None`: there is no such file, or it is a pipe.
    pub(crate) fn new(config: &Config) -> Option<Self> {
        let (path, content) = config.sources.origin()?.source.file()?;
        if !fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
            return None;
        }
        Some(Self { path: path.to_owned(), known: Ok(content), seen: Ok(content) })
    }

    /// Whether the file has changed since the last time, and is settled. Blocks on the disk. It is meant to be called at
    /// intervals in which a file can be written.
    pub(crate) fn has_changed(&mut self) -> bool {
        let content = self.content();
        let is_settled = self.seen == content;
        self.seen = content;
        let is_news = is_settled && self.known != content;
        if is_news {
            self.known = content;
        }
        is_news
    }

    fn content(&self) -> Content {
        let kind = |error: io::Error| error.kind();
        // Opening a pipe would wait for a writer.
        if !fs::metadata(&self.path).map_err(kind)?.is_file() {
            return Err(io::ErrorKind::InvalidInput);
        }
        read_file(&self.path).map(|bytes| Digest::of_bytes(&bytes)).map_err(kind)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::config::{Overrides, load};

    const FILE: &str = "[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
        [[models]]\nname = \"m\"\n";

    fn watch(path: PathBuf) -> FileWatch {
        let overrides = Overrides { file: Some(path), ..Overrides::default() };
        FileWatch::new(&load(&overrides, &|_| None).unwrap().config).unwrap()
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

    /// As a kubelet updates a ConfigMap.
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
