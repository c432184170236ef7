//! Stands in for U2L, the encryption between a user and Lumo, in builds without the feature `lumo-u2l`. No
//! keys exist, so nothing is encrypted.

use std::{io, path::Path};

use bytes::Bytes;

use crate::{KeyError, failure::Failure};

/// The key of an encrypted request, which cannot exist without the feature `lumo-u2l`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestKey {}

/// The key of a server that can decrypt requests, which cannot exist without the feature `lumo-u2l`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recipient {}

impl Recipient {
    pub(super) fn find(
        _key_file: Option<&Path>,
        _read: &dyn Fn(&Path) -> io::Result<String>,
    ) -> Result<Self, KeyError> {
        let why = "`u2l`: this program was built without it; build it with `--features lumo-u2l`";
        Err(KeyError::Unusable(why, None))
    }

    pub(super) fn fingerprint(&self) -> &str {
        match *self {}
    }

    pub(super) fn expires_at(&self) -> Option<u64> {
        match *self {}
    }

    pub(super) fn seal(
        &self,
        _body: &[u8],
        _random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(Bytes, RequestKey), Failure> {
        match *self {}
    }
}

#[derive(Debug)]
pub(super) enum Unsealer {}

impl Unsealer {
    pub(super) fn new(key: RequestKey, _room: usize) -> Self {
        match key {}
    }

    pub(super) fn open(&mut self, _frame: &str) -> Result<Vec<String>, Failure> {
        match *self {}
    }

    pub(super) fn finish(&mut self) -> Result<Vec<String>, Failure> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::Encryption;

    #[test]
    fn encryption_that_is_not_built_in_is_refused() {
        for key_file in [None, Some(PathBuf::from("key.asc"))] {
            let mut encryption = Encryption { is_on: true, key_file, ..Encryption::default() };
            let problem = encryption.prepare(&|_| Ok(String::new()), 0).unwrap_err().to_string();
            assert!(problem.contains("built without it"), "{problem}");
        }
    }
}
