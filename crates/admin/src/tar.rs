//! Writes an archive in the `ustar` format of POSIX.1-1988, which every `tar` can read.

/// Size in bytes of a header, and the unit to which files are padded.
const BLOCK: usize = 512;

/// Archives `files` (names and contents) in the folder `folder`. `now`, a Unix time in seconds, becomes their
/// modification time. Names must be short.
pub(super) fn archive(folder: &str, files: &[(String, Vec<u8>)], now: u64) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, content) in files {
        archive.extend_from_slice(&header(&format!("{folder}/{name}"), content.len(), now));
        archive.extend_from_slice(content);
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    // Two zero blocks mark the end of an archive.
    archive.resize(archive.len() + 2 * BLOCK, 0);
    archive
}

fn header(name: &str, size: usize, now: u64) -> Vec<u8> {
    let fields = |checksum: &str| {
        let mut header = Vec::with_capacity(BLOCK);
        for (text, width) in [
            (name, 100),
            ("0000644", 8),
            ("0000000", 8),
            ("0000000", 8),
            (&format!("{size:011o}"), 12),
            (&format!("{now:011o}"), 12),
            (checksum, 8),
            ("0", 1),
            ("", 100),
            ("ustar", 6),
            ("00", 2),
        ] {
            let end = header.len() + width;
            header.extend(text.bytes().take(width));
            header.resize(end, 0);
        }
        header.resize(BLOCK, 0);
        header
    };
    // The checksum is computed as if its own field contained spaces.
    let sum: u32 = fields("        ").iter().map(|byte| u32::from(*byte)).sum();
    fields(&format!("{sum:06o}\0 "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_has_whole_blocks_and_a_right_checksum() {
        let files = [("a.txt".to_owned(), b"hello".to_vec()), ("b".to_owned(), vec![7; 512])];
        let archive = archive("folder", &files, 1_700_000_000);
        assert_eq!(archive.len(), 6 * BLOCK);
        assert!(archive.starts_with(b"folder/a.txt\0"));
        assert_eq!(&archive[124..136], b"00000000005\0");
        assert_eq!(&archive[257..265], b"ustar\x0000");
        assert_eq!(&archive[BLOCK..BLOCK + 6], b"hello\0");
        let stored = std::str::from_utf8(&archive[148..154]).unwrap();
        let sum: u32 = archive[..BLOCK].iter().map(|byte| u32::from(*byte)).sum();
        let own: u32 = archive[148..156].iter().map(|byte| u32::from(*byte)).sum();
        assert_eq!(u32::from_str_radix(stored, 8).unwrap(), sum - own + 8 * u32::from(b' '));
    }
}
