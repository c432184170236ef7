use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use super::*;

fn files(folder: &Path, change: impl FnOnce(&mut ImageSettings)) -> ImageFiles {
    let folder = Some(folder.join("state/images").to_str().unwrap().to_owned());
    let mut settings = ImageSettings { folder, ..ImageSettings::default() };
    change(&mut settings);
    ImageFiles::new(&settings, ImageGauges::default()).unwrap()
}

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

fn png(len: usize) -> Vec<u8> {
    let mut bytes = SIGNATURE.to_vec();
    bytes.resize(len.max(SIGNATURE.len()), 7);
    bytes
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

const NAME: &str = "20261123_081500_0123456789abcdef0123456789abcdef.png";

#[test]
fn saved_image_is_read_back_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), |_| {});
    let name = files.save(&png(100), at(1_795_421_700)).unwrap();
    assert!(name.starts_with("20261123_081500_") && is_name(&name), "{name}");
    assert_eq!(files.read(&name).unwrap(), Some(png(100)));
    assert_ne!(files.save(&png(100), at(1_795_421_700)).unwrap(), name);
    assert_eq!((files.gauges.count.get(), files.gauges.bytes.get()), (2, 8192));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&files.folder), mode(&files.folder.join(&name))), (0o700, 0o600));
    assert_eq!(fs::read_dir(&files.folder).unwrap().count(), 2, "an unfinished file is left");
}

#[test]
fn names_have_one_form() {
    for ending in [".png", ".jpg", ".webp"] {
        assert!(is_name(&NAME.replace(".png", ending)));
    }
    let long = "a".repeat(100_000);
    for other in [
        "",
        ".",
        "..",
        ".png",
        "x.png",
        "../20261123_081500_0123456789abcdef0123456789abcdef.png",
        "20261123_081500_0123456789abcdef0123456789abcdef.png/..",
        "20261123_081500_0123456789abcdef0123456789abcdef.PNG",
        "20261123_081500_0123456789abcdef0123456789abcdef.jpeg",
        "20261123_081500_0123456789abcdef0123456789abcdef.svg",
        "20261123_081500_0123456789abcdef0123456789abcdef.",
        "20261123_081500_0123456789abcdef0123456789abcdef",
        "20261123_081500_0123456789abcdef0123456789abcdef.png\0",
        "20261123_081500_0123456789abcdef0123456789abcdef.png.png",
        "20261123_081500_0123456789ABCDEF0123456789abcdef.png",
        "20261123_081500_0123456789abcdef0123456789abcde.png",
        "20261123_081500_0123456789abcdef0123456789abcdef0.png",
        "20261123_081500_0123456789abcdef0123456789abcdef_.png",
        "20261123_081500_0123456789abcdef/123456789abcdef.png",
        "20261123_081500_..3456789abcdef0123456789abcdef.png",
        "20261123_08150\u{664}_0123456789abcdef0123456789abcdef.png",
        "20261123%5f081500_0123456789abcdef0123456789abcdef.png",
        "2026112３_081500_0123456789abcdef0123456789abcdef.png",
        ".new-20261123_081500_0123456789abcdef0123456789abcdef.png",
        &long,
    ] {
        assert!(!is_name(other), "{other:?}");
    }
}

#[test]
fn only_regular_files_of_the_folder_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), |_| {});
    assert_eq!(files.read(NAME).unwrap(), None, "there is no folder yet");
    files.save(&png(10), at(1)).unwrap();
    assert_eq!(files.read(NAME).unwrap(), None);
    fs::write(folder.path().join("secret"), "secret").unwrap();
    symlink(folder.path().join("secret"), files.folder.join(NAME)).unwrap();
    assert_eq!(files.read(NAME).unwrap(), None, "a link was followed");
    let second = NAME.replace("0123", "4567");
    fs::create_dir(files.folder.join(&second)).unwrap();
    assert_eq!(files.read(&second).unwrap(), None, "a folder was read");
    assert_eq!(files.read("../../secret").unwrap(), None);
}

#[test]
fn only_images_within_the_limit_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), |settings| settings.max_image = 1000);
    for other in [&b"GIF89a"[..], b"<svg/>", b"<html>", b"", b"\x89PNG"] {
        assert!(matches!(files.save(other, at(1)), Err(SaveError::NotImage)), "{other:?}");
    }
    assert!(files.save(&png(1000), at(1)).is_ok());
    assert!(matches!(files.save(&png(1001), at(1)), Err(SaveError::TooLarge)));
}

#[test]
fn oldest_images_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), |settings| settings.max_images = 3 * 4096);
    let names: Vec<_> = (1..=4).map(|second| files.save(&png(10), at(second)).unwrap()).collect();
    assert_eq!(files.read(&names[0]).unwrap(), None);
    assert!(names[1..].iter().all(|name| files.read(name).unwrap().is_some()));
    assert!(matches!(files.save(&png(3 * 4096 + 1), at(9)), Err(SaveError::NoRoom(12288))));
    // Another process that opens the folder includes the existing files in its count.
    let again = super::ImageFiles::new(&files.settings, ImageGauges::default()).unwrap();
    again.save(&png(10), at(5)).unwrap();
    assert_eq!(files.read(&names[1]).unwrap(), None);
    assert_eq!(again.gauges.count.get(), 3);
}

#[test]
fn expired_images_and_abandoned_files_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), |settings| settings.ttl = Duration::from_secs(1000));
    files.clean(SystemTime::now());
    let name = files.save(&png(10), SystemTime::now()).unwrap();
    let abandoned = files.folder.join(format!("{UNFINISHED}{NAME}"));
    fs::write(&abandoned, "half").unwrap();
    fs::write(files.folder.join("notes.txt"), "of the user").unwrap();
    files.clean(SystemTime::now() + Duration::from_secs(990));
    assert!(files.read(&name).unwrap().is_some() && abandoned.exists());
    files.clean(SystemTime::now() + Duration::from_secs(4000));
    assert_eq!(files.read(&name).unwrap(), None);
    assert_eq!((files.gauges.count.get(), abandoned.exists()), (0, false));
    assert!(files.folder.join("notes.txt").exists(), "a file that is not an image was removed");
}

#[test]
fn links_begin_with_the_public_url() {
    let folder = tempfile::tempdir().unwrap();
    let files_at = |url: Option<&str>| {
        files(folder.path(), |settings| settings.public_url = url.map(|url| url.parse().unwrap()))
    };
    let own = files_at(None);
    own.reached_at("http://127.0.0.1:8787/");
    assert_eq!(own.url("x.png"), "http://127.0.0.1:8787/api/images/x.png");
    let public = files_at(Some("https://ai.example/tools/"));
    public.reached_at("http://127.0.0.1:8787");
    assert_eq!(public.url("x.png"), "https://ai.example/tools/api/images/x.png");
}

#[test]
fn image_keeps_its_format_in_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), |_| {});
    for (bytes, ending, kind) in [
        (b"\xff\xd8\xff\xe0abc".as_slice(), ".jpg", "image/jpeg"),
        (b"RIFF\x04\x00\x00\x00WEBPVP8 ", ".webp", "image/webp"),
        (&png(100), ".png", "image/png"),
    ] {
        let name = files.save(bytes, at(0)).unwrap();
        assert!(name.ends_with(ending) && is_name(&name), "{name}");
        assert_eq!((files.read(&name).unwrap().as_deref(), content_type(&name)), (Some(bytes), kind));
    }
    files.clean(SystemTime::now() + Duration::from_secs(8 * 24 * 60 * 60));
    assert_eq!(files.gauges.count.get(), 0, "images of every format expire");
}

#[test]
fn images_for_a_response_are_bounded_together() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), |_| {});
    let names: Vec<_> = (0..3).map(|seconds| files.save(&png(300), at(seconds)).unwrap()).collect();
    let asked = || names.iter().map(|name| ("call".to_owned(), name.clone())).collect::<Vec<_>>();
    for (room, count) in [(1200, 3), (1199, 2), (400, 1), (399, 0), (0, 0)] {
        let media = files.media(asked(), room);
        assert_eq!(media.len(), count, "{room}");
        assert!(media.iter().all(|media| media.id == "call" && media.mime == "image/png"));
    }
    let unknown = vec![("call".to_owned(), "../x.png".to_owned()), ("call".to_owned(), NAME.to_owned())];
    assert_eq!(files.media(unknown, 1200), []);
}

#[test]
fn image_that_no_result_claims_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let files = Arc::new(files(folder.path(), |_| {}));
    let save = || UnclaimedImage::save(&files, &png(100), at(1_795_421_700)).unwrap();
    let claimed = save().claim().unwrap();
    let dropped = save();
    let name = dropped.name.clone().unwrap();
    assert_eq!(files.gauges.count.get(), 2);
    drop(dropped);
    assert_eq!(files.read(&name).unwrap(), None);
    assert_eq!(files.read(&claimed).unwrap(), Some(png(100)));
    assert_eq!((files.gauges.count.get(), files.gauges.bytes.get()), (1, 4096));
}
