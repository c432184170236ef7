//! The audit file: one event for each line, as JSON.

use std::{path::PathBuf, sync::Arc};

use tokio::{fs::OpenOptions, io::AsyncWriteExt, sync::mpsc};

use super::Record;

/// Appends all events to the file, until the bus is dropped.
pub(crate) async fn write(path: PathBuf, mut records: mpsc::Receiver<Arc<Record>>) {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    options.mode(0o600);
    let mut file = match options.open(&path).await {
        Ok(file) => file,
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "the audit file cannot be written");
            return;
        }
    };
    let mut batch = Vec::new();
    while records.recv_many(&mut batch, 64).await > 0 {
        let lines: String = batch.drain(..).map(|record| record.line()).collect();
        let written = async {
            file.write_all(lines.as_bytes()).await?;
            file.flush().await
        };
        if let Err(error) = written.await {
            tracing::error!(path = %path.display(), %error, "the audit file cannot be written");
            return;
        }
    }
}
