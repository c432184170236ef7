//! [`Progress`]: the progress bar on stderr, since results go to stdout.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Number of steps of the bar per trial, so that it also advances during a trial.
const STEPS: u64 = 100;

/// Shows the progress of a run, if stderr is a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    steps: u64,
    /// Progress in thousandths, read by other threads.
    course: Option<Arc<AtomicU32>>,
}

impl Progress {
    /// Creates a bar for a run of `turns` trials (rounds × targets). It is hidden if `quiet`.
    pub(crate) fn new(turns: usize, quiet: bool) -> Self {
        let steps = u64::try_from(turns).unwrap_or(u64::MAX).max(1).saturating_mul(STEPS);
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3} %  {msg}  {eta} left") {
            bar.set_style(style.progress_chars("━╸─"));
        }
        Self { bar, steps, course: None }
    }

    /// Also writes the progress in thousandths to `course`.
    pub(crate) fn with_course(mut self, course: Arc<AtomicU32>) -> Self {
        self.course = Some(course);
        self
    }

    /// Shows `label`, such as `round 2 of 5, nginx`, and `fraction`, the overall progress from 0 to 1.
    pub(crate) fn tick(&self, label: &str, fraction: f64) {
        let fraction = fraction.clamp(0.0, 1.0);
        if let Some(course) = &self.course {
            course.store((fraction * 1000.0) as u32, Ordering::Relaxed);
        }
        let position = (fraction * self.steps as f64) as u64;
        if self.bar.message() != label {
            self.bar.set_message(label.to_owned());
        }
        self.bar.set_position(position);
    }

    /// Redraws the bar at intervals, so that the remaining time stays current between steps.
    pub(crate) fn steady(&self) {
        if !self.bar.is_hidden() {
            self.bar.enable_steady_tick(Duration::from_millis(500));
        }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_position_follows_the_fraction_and_is_bounded() {
        let progress = Progress::new(15, true);
        progress.tick("round 1 of 5, direct", 0.5);
        assert_eq!(progress.bar.position(), 750);
        progress.tick("round 5 of 5, toolwire", 7.0);
        assert_eq!(progress.bar.position(), 1500);
        progress.tick("", f64::NAN);
        assert_eq!(progress.bar.position(), 0);
    }

    #[test]
    fn course_follows_the_fraction() {
        let course = Arc::new(AtomicU32::new(0));
        let progress = Progress::new(3, true).with_course(Arc::clone(&course));
        for (fraction, thousandths) in [(0.25, 250), (7.0, 1000), (f64::NAN, 0)] {
            progress.tick("", fraction);
            assert_eq!(course.load(Ordering::Relaxed), thousandths);
        }
    }

    #[test]
    fn quiet_bar_is_hidden() {
        assert!(Progress::new(3, true).bar.is_hidden());
    }
}
