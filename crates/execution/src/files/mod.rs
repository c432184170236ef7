//! [`ImageFiles`]: a folder of generated images. Clients get them at `/api/images/{name}` without a key, because the
//! names cannot be guessed.
//!
//! A name from outside is validated before any file is accessed ([`is_name`]). Files are opened relative to the folder
//! without following symbolic links, so nothing outside the folder can be read.
//!
//! All functions that access the disk block. Async code must call them on a thread that may block.

mod format;
mod name;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fs::{DirBuilder, File},
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::fs::DirBuilderExt},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use http::Uri;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, open, openat, renameat, unlinkat};
use tokio::{task::spawn_blocking, time::sleep};

use self::format::ImageFormat;
pub use self::name::is_name;
use toolwire_pipeline::{event::Media, settings::Settings};

/// The URL path of images, without the image's name.
pub const PATH: &str = "/api/images/";

/// Prefix of the names of incomplete files.
const UNFINISHED: &str = ".new-";

/// Age after which an incomplete file counts as left behind by a crash.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// Each file counts as at least this many bytes, which limits the number of tiny files.
const BLOCK: u64 = 4096;

/// Maximum interval at which expired images are removed.
const CLEANING: Duration = Duration::from_secs(60 * 60);

pub fn content_type(name: &str) -> &'static str {
    ImageFormat::of_name(name).unwrap_or(ImageFormat::Png).content_type()
}

/// The MIME type of an image in a format that is stored, by its first bytes. `None` for other files.
pub(crate) fn image_type(bytes: &[u8]) -> Option<&'static str> {
    ImageFormat::of(bytes).map(ImageFormat::content_type)
}

/// Settings of the folder of images.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
pub struct ImageSettings {
    /// the URL under which clients reach toolwire, for links to generated images
    #[setting(or = "the first address in `listen`")]
    pub(crate) public_url: Option<Uri>,
    /// the folder for generated images
    #[setting(key = "image_dir", or = "`images` in `state_dir`", file_only)]
    pub(crate) folder: Option<String>,
    /// the largest generated image that is kept
    #[setting(default = 2 << 20, size)]
    pub(crate) max_image: usize,
    /// all generated images; beyond, the oldest are removed
    #[setting(default = 512 << 20, size)]
    pub(crate) max_images: usize,
    /// how long a generated image is kept
    #[setting(key = "image_ttl", default = Duration::from_secs(7 * 24 * 60 * 60))]
    pub(crate) ttl: Duration,
}

impl ImageSettings {
    /// If no folder is set, uses one below `state_dir`.
    pub(crate) fn in_state_dir(self, state_dir: Option<&Path>) -> Self {
        let own = || Some(state_dir?.join("images").to_string_lossy().into_owned());
        Self { folder: self.folder.clone().or_else(own), ..self }
    }
}

#[derive(Debug, Clone, Default)]
pub struct ImageGauges {
    pub count: Gauge,
    /// In bytes.
    pub bytes: Gauge,
}

#[derive(Debug)]
pub struct ImageFiles {
    folder: PathBuf,
    settings: ImageSettings,
    gauges: ImageGauges,
    /// The base URL for clients, without a trailing slash.
    base: OnceLock<String>,
    /// `None` until the folder has been read.
    index: Mutex<Option<FolderIndex>>,
}

#[derive(Debug, Default)]
struct FolderIndex {
    /// How many bytes each file counts as. Names start with the time, so the first one is the oldest.
    sizes: BTreeMap<String, u64>,
    bytes: u64,
}

/// Why an image was not saved.
#[derive(Debug)]
pub(crate) enum SaveError {
    /// Not an image in a known format.
    NotImage,
    TooLarge,
    /// It would take more than this many bytes, the limit for all images together.
    NoRoom(usize),
    /// Writing failed. The error is for the log.
    Io(io::Error),
}

impl From<io::Error> for SaveError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rustix::io::Errno> for SaveError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}

/// An image that was saved for a result. Dropping it removes the image, unless it was claimed: after a failed or
/// cancelled call, no client knows about the image.
#[derive(Debug)]
pub(crate) struct UnclaimedImage {
    files: Arc<ImageFiles>,
    /// `None` after the image was claimed.
    pub(crate) name: Option<String>,
}

impl UnclaimedImage {
    /// See [`ImageFiles::save`].
    ///
    /// # Errors
    /// Why the image was not saved.
    pub(crate) fn save(files: &Arc<ImageFiles>, image: &[u8], now: SystemTime) -> Result<Self, SaveError> {
        let name = files.save(image, now)?;
        Ok(Self { files: Arc::clone(files), name: Some(name) })
    }

    /// Keeps the image, which is now part of a result, and returns its name.
    pub(crate) fn claim(mut self) -> Option<String> {
        self.name.take()
    }
}

impl Drop for UnclaimedImage {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            self.files.remove(name);
        }
    }
}

impl ImageFiles {
    /// Does not access the folder yet. Returns `None` if the settings contain no folder.
    pub(crate) fn new(settings: &ImageSettings, gauges: ImageGauges) -> Option<Self> {
        let folder = PathBuf::from(settings.folder.as_ref()?);
        let base = OnceLock::new();
        if let Some(url) = &settings.public_url {
            let _ = base.set(url.to_string().trim_end_matches('/').to_owned());
        }
        Some(Self { folder, settings: settings.clone(), gauges, base, index: Mutex::default() })
    }

    /// Whether the folder was opened with these settings.
    pub(crate) fn is_by(&self, settings: &ImageSettings) -> bool {
        self.settings == *settings
    }

    /// Sets the base URL, such as `http://127.0.0.1:8787`, unless the settings contain one.
    pub fn reached_at(&self, base: &str) {
        let _ = self.base.set(base.trim_end_matches('/').to_owned());
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("{}{PATH}{name}", self.base.get().map_or("", String::as_str))
    }

    /// How long images are stored.
    pub fn ttl(&self) -> Duration {
        self.settings.ttl
    }

    /// Maximum size of an image, in bytes.
    pub(crate) fn max_image(&self) -> usize {
        self.settings.max_image
    }

    /// Saves an image under a new name, and returns the name. The format is detected from the image's first bytes; what
    /// the service says about it is ignored.
    ///
    /// # Errors
    /// Why the image was not saved.
    pub(crate) fn save(&self, image: &[u8], now: SystemTime) -> Result<String, SaveError> {
        let format = ImageFormat::of(image).ok_or(SaveError::NotImage)?;
        let limit = self.settings.max_images as u64;
        let size = charged(image.len() as u64);
        if image.len() > self.settings.max_image {
            return Err(SaveError::TooLarge);
        }
        if size > limit {
            return Err(SaveError::NoRoom(self.settings.max_images));
        }
        let name = name::new(now, format)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let folder = self.open_folder()?;
        let unfinished = format!("{UNFINISHED}{name}");
        let mut index = self.index.lock();
        let index = index.get_or_insert_with(|| read_folder(&folder));
        while index.bytes + size > limit
            && let Some((oldest, _)) = index.sizes.first_key_value()
        {
            let oldest = oldest.clone();
            index.remove(&oldest, &folder);
        }
        let written = write(&folder, &unfinished, image)
            .and_then(|()| renameat(&folder, &*unfinished, &folder, &*name));
        if let Err(error) = written {
            let _ = unlinkat(&folder, &*unfinished, AtFlags::empty());
            return Err(error.into());
        }
        index.add(name.clone(), size);
        self.show(index);
        Ok(name)
    }

    fn remove(&self, name: &str) {
        let Ok(folder) = self.open_folder() else { return };
        if let Some(index) = self.index.lock().as_mut() {
            index.remove(name, &folder);
            self.show(index);
        }
    }

    /// Returns `None` if there is no such image.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        use io::ErrorKind::{NotADirectory, NotFound};
        if !is_name(name) {
            return Ok(None);
        }
        match self.open_folder().map_err(io::Error::from).and_then(|folder| self.open(&folder, name)) {
            Ok(Some(mut file)) => {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes)?;
                Ok(Some(bytes))
            }
            Ok(None) => Ok(None),
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads images for a response. `names` contains the id of each image in the response and the name of its file.
    /// Images that cannot be read, or that do not fit into the remaining `room` (in bytes), are left out.
    pub(crate) fn media(&self, names: Vec<(String, String)>, mut room: usize) -> Vec<Media<'static>> {
        let mut all = Vec::new();
        for (id, name) in names {
            let Ok(Some(bytes)) = self.read(&name) else { continue };
            let data = BASE64_STANDARD.encode(bytes);
            if let Some(left) = room.checked_sub(data.len()) {
                room = left;
                all.push(Media { id: id.into(), mime: content_type(&name).into(), data: data.into() });
            }
        }
        all
    }

    /// Opens an image. Returns `None` if it is not a regular file, such as a link, or if it exceeds the size limit for
    /// all images together.
    fn open(&self, folder: &OwnedFd, name: &str) -> io::Result<Option<impl Read + use<>>> {
        // Without `NONBLOCK`, opening a named pipe would block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(folder, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(rustix::io::Errno::LOOP) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let about = fstat(&file)?;
        let size = u64::try_from(about.st_size).unwrap_or(u64::MAX);
        let is_image =
            FileType::from_raw_mode(about.st_mode).is_file() && size <= self.settings.max_images as u64;
        Ok(is_image.then(|| File::from(file).take(size)))
    }

    /// Removes expired images and files left behind by a crash. Rereads the folder, in case another process has changed
    /// it.
    pub(crate) fn clean(&self, now: SystemTime) {
        let Ok(folder) = self.open_folder() else { return };
        let mut index = self.index.lock();
        let fresh = read_folder(&folder);
        let ages = |name: &str| -> Option<Duration> {
            let about = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            let written = UNIX_EPOCH + Duration::from_secs(u64::try_from(about.st_mtime).ok()?);
            now.duration_since(written).ok()
        };
        let expired: Vec<_> = fresh
            .sizes
            .keys()
            .filter(|name| ages(name).is_some_and(|age| age > self.settings.ttl))
            .cloned()
            .collect();
        let index = index.insert(fresh);
        for name in &expired {
            index.remove(name, &folder);
        }
        for name in names_in(&folder).filter(|name| name.starts_with(UNFINISHED)) {
            if ages(&name).is_some_and(|age| age > ABANDONED) {
                let _ = unlinkat(&folder, &*name, AtFlags::empty());
            }
        }
        self.show(index);
    }

    fn open_folder(&self) -> rustix::io::Result<OwnedFd> {
        open(&self.folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    }

    fn show(&self, index: &FolderIndex) {
        self.gauges.count.set(i64::try_from(index.sizes.len()).unwrap_or(i64::MAX));
        self.gauges.bytes.set(i64::try_from(index.bytes).unwrap_or(i64::MAX));
    }
}

impl FolderIndex {
    fn add(&mut self, name: String, size: u64) {
        self.bytes += size;
        self.sizes.insert(name, size);
    }

    /// Removes an image from the index and from the folder. If the file cannot be removed, it is still removed from the
    /// index; otherwise, the attempt would be repeated forever.
    fn remove(&mut self, name: &str, folder: &OwnedFd) {
        if let Some(size) = self.sizes.remove(name) {
            self.bytes = self.bytes.saturating_sub(size);
        }
        match unlinkat(folder, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => tracing::warn!(%error, "a generated image cannot be removed"),
        }
    }
}

/// Removes expired images at intervals. Never returns.
pub(crate) async fn keep_clean(files: Arc<ImageFiles>) {
    loop {
        let cleaned = Arc::clone(&files);
        let cleaning = spawn_blocking(move || cleaned.clean(SystemTime::now()));
        if let Err(error) = cleaning.await {
            tracing::error!(%error, "the folder of generated images cannot be cleaned");
        }
        sleep(CLEANING.min(files.settings.ttl)).await;
    }
}

/// How many bytes a file of this size counts as.
fn charged(size: u64) -> u64 {
    size.max(BLOCK)
}

fn write(folder: &OwnedFd, name: &str, bytes: &[u8]) -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?;
    let errno = |error: io::Error| rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO);
    let mut file = File::from(file);
    file.write_all(bytes).and_then(|()| file.sync_data()).map_err(errno)
}

fn read_folder(folder: &OwnedFd) -> FolderIndex {
    let mut index = FolderIndex::default();
    for name in names_in(folder).filter(|name| is_name(name)) {
        if let Ok(about) = rustix::fs::statat(folder, &*name, AtFlags::SYMLINK_NOFOLLOW) {
            index.add(name, charged(u64::try_from(about.st_size).unwrap_or(0)));
        }
    }
    index
}

/// The names in the folder that are valid UTF-8.
fn names_in(folder: &OwnedFd) -> impl Iterator<Item = String> + use<> {
    let entries = Dir::read_from(folder).ok().into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.file_name().to_str().ok()?.to_owned()))
}
