//! Keeps the images that a tool returns, so that clients can show them.

use std::{sync::Arc, time::SystemTime};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;
use tokio::task::spawn_blocking;

use super::MediaFile;
use crate::{
    Output,
    files::{ImageFiles, UnclaimedImage},
};

/// Maximum number of images of a result that are kept.
const MAX_KEPT: usize = 8;

/// Stores the images of `output`, and replaces their descriptions in its text with links.
pub(crate) async fn kept(mut output: Output, files: Option<&Arc<ImageFiles>>) -> Output {
    let images = output.media.iter().filter(|file| file.is_image()).take(MAX_KEPT).cloned();
    let images: Vec<_> = images.collect();
    let Some(files) = files.cloned().filter(|_| !images.is_empty()) else { return output };
    let keeping = spawn_blocking(move || {
        let keep = |image: MediaFile| Some((image.described(), saved(&files, &image)?));
        images.into_iter().filter_map(keep).collect::<Vec<_>>()
    });
    // Images that cannot be stored are only described.
    let kept = keeping.await.unwrap_or_default();
    let (mut rest, mut linked, mut urls) = (output.content.as_str(), String::new(), Vec::new());
    for (described, (image, url)) in kept {
        let Some((before, behind)) = rest.split_once(&described) else { continue };
        linked.push_str(before);
        linked.push_str(&format!("![image]({url})"));
        rest = behind;
        image.claim();
        urls.push(url);
    }
    linked.push_str(rest);
    output.content = linked;
    if !urls.is_empty() && output.details.is_null() {
        output.summary = match urls.len() {
            1 => "1 image".to_owned(),
            count => format!("{count} images"),
        };
        output.details = json!({"kind": "images", "data": {"image_urls": urls}});
    }
    output
}

/// Stores an image, and returns it with its URL. `None` if it is not in a known format or cannot be stored.
fn saved(files: &Arc<ImageFiles>, image: &MediaFile) -> Option<(UnclaimedImage, String)> {
    let bytes = BASE64_STANDARD.decode(&*image.base64).ok()?;
    let image = UnclaimedImage::save(files, &bytes, SystemTime::now()).ok()?;
    let url = files.url(image.name.as_ref()?);
    Some((image, url))
}

/// The text for a file that a tool returned as `base64`, and the file for the model. `claimed` is its type according to the
/// tool, which is shown for files of unknown types.
pub(crate) fn shown(base64: &str, claimed: &str) -> (String, Option<MediaFile>) {
    match MediaFile::read(base64) {
        Some(file) => (file.described(), Some(file)),
        None => {
            let mime = if super::is_mime(claimed) { claimed } else { "data" };
            (super::described(mime, base64.len() / 4 * 3), None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{ImageGauges, ImageSettings};

    const PNG: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

    #[tokio::test]
    async fn images_are_stored_and_linked() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = ImageSettings::default().in_state_dir(Some(folder.path()));
        let files = ImageFiles::new(&settings, ImageGauges::default()).map(Arc::new).expect("a folder");
        files.reached_at("http://h");
        let (png, image) = shown(PNG, "image/svg+xml");
        let (gif, other) = shown("R0lGODlhAQABAAAAACw=", "image/gif");
        let media: Vec<_> = image.into_iter().chain(other).collect();
        assert_eq!(
            (png.as_str(), gif.as_str(), media.len()),
            ("[image/png, 72 bytes]", "[image/gif, 15 bytes]", 2)
        );
        let content = format!("a {png} b {gif}");
        let output = kept(Output { content, media, ..Output::default() }, Some(&files)).await;
        assert!(output.content.starts_with("a ![image](http://h/api/images/"), "{}", output.content);
        assert!(output.content.ends_with(".png) b [image/gif, 15 bytes]"), "{}", output.content);
        assert_eq!((output.summary.as_str(), output.media.len()), ("1 image", 2));
        assert_eq!(std::fs::read_dir(folder.path().join("images")).map(Iterator::count).ok(), Some(1));
    }

    #[test]
    fn files_of_unknown_types_are_only_described() {
        for (data, claimed, expected) in [
            ("AAAAAAAA", "audio/x-own", "[audio/x-own, 6 bytes]"),
            ("AAAAAAAA", "](http://evil.example)", "[data, 6 bytes]"),
            ("?", "image/png", "[image/png, 0 bytes]"),
        ] {
            assert_eq!(shown(data, claimed), (expected.to_owned(), None));
        }
    }
}
