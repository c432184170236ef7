//! [`ImageFormat`]: the formats in which images are stored.

/// An image format that all browsers support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ImageFormat {
    Png,
    Jpeg,
    WebP,
}

const ALL: [ImageFormat; 3] = [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP];

impl ImageFormat {
    /// Detects the format from the first bytes of a file.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        ALL.into_iter().find(|format| match format {
            // PNG, section 5.2.
            Self::Png => bytes.starts_with(b"\x89PNG\r\n\x1a\n"),
            // ITU T.81, B.1.1.3: start of image, then another marker.
            Self::Jpeg => bytes.starts_with(b"\xff\xd8\xff"),
            // RFC 9649, section 2.4. The size of the file is in between.
            Self::WebP => bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP"),
        })
    }

    /// Determines the format from a file name extension.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let (_, ending) = name.rsplit_once('.')?;
        ALL.into_iter().find(|format| format.ending() == ending)
    }

    pub(super) fn ending(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpg",
            Self::WebP => "webp",
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::WebP => "image/webp",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_is_what_the_first_bytes_say() {
        for (bytes, format) in [
            (b"\x89PNG\r\n\x1a\nabc".as_slice(), Some(ImageFormat::Png)),
            (b"\xff\xd8\xff\xe0\x00\x10JFIF", Some(ImageFormat::Jpeg)),
            (b"RIFF\x24\x00\x00\x00WEBPVP8 ", Some(ImageFormat::WebP)),
            (b"RIFF\x24\x00\x00\x00WAVEfmt ", None),
            (b"RIFF\x24\x00\x00\x00WEB", None),
            (b"\xff\xd8", None),
            (b"\x89PNG\n\x1a\n", None),
            (b"GIF89a", None),
            (b"<svg xmlns=\"http://www.w3.org/2000/svg\"><script>1</script></svg>", None),
            (b"<html>\x89PNG\r\n\x1a\n", None),
            (b"", None),
        ] {
            assert_eq!(ImageFormat::of(bytes), format, "{bytes:?}");
        }
    }

    #[test]
    fn name_and_content_type_agree() {
        for format in ALL {
            assert_eq!(ImageFormat::of_name(&format!("x.{}", format.ending())), Some(format));
        }
        for other in ["x", "x.", "x.jpeg", "x.svg", "x.PNG", "png"] {
            assert_eq!(ImageFormat::of_name(other), None, "{other}");
        }
    }
}
