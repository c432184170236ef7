//! Reloads the configuration of `serve` on SIGHUP, and when the configuration file or a file that it refers to changes.

use std::{future::pending, time::Duration};

use tokio::{
    signal::unix::Signal,
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use super::systemd::Notifier;
use toolwire_config::FileWatch;
use toolwire_gateway::{ReloadReason, Reloads};

/// Interval between checks of the files. A change is loaded after two checks have seen it.
const LOOK: Duration = Duration::from_secs(1);

/// Reloads the configuration whenever necessary, until the future is dropped. The server logs the outcome.
pub(super) async fn run(reloads: &Reloads, hangups: Signal, watch: Option<FileWatch>, systemd: &Notifier) {
    tokio::join!(on_signal(reloads, hangups, systemd), on_change(reloads, watch));
}

async fn on_signal(reloads: &Reloads, mut hangups: Signal, systemd: &Notifier) {
    while hangups.recv().await.is_some() {
        systemd.reloading();
        let _ = reloads.reload(ReloadReason::Signal).await;
        systemd.ready(reloads.generation());
    }
    pending().await
}

async fn on_change(reloads: &Reloads, watch: Option<FileWatch>) {
    let mut watch = watch;
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while let Some(mut looking) = watch.take() {
        looks.tick().await;
        // Reading the files may block.
        let looked = spawn_blocking(move || (looking.has_changed(), looking)).await;
        if let Ok((has_changed, looked)) = looked {
            watch = Some(looked);
            if has_changed {
                let _ = reloads.reload(ReloadReason::FileChanged).await;
            }
        }
        // The new configuration may refer to other files.
        if let Some(watch) = &mut watch {
            watch.follow(&reloads.config());
        }
    }
    pending().await
}
