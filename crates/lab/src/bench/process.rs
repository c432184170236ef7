//! [`ProcessTree`]: CPU time and memory of a process under test and its children, from `/proc` on Linux.
//!
//! CPU time comes from `schedstat`, which counts nanoseconds, not from `stat`, which counts ticks. Memory is the
//! proportional set size (PSS), which divides each shared page among the processes that map it. To compute the PSS, the
//! kernel walks the entire address space under a lock, so a separate thread reads it only five times per second.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs, io,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

/// Interval between memory readings.
const READING: Duration = Duration::from_millis(200);

/// Processes and all their descendants.
#[derive(Debug, Clone)]
pub(crate) struct ProcessTree {
    roots: Vec<u32>,
}

/// The error for a process that cannot be inspected.
#[derive(Debug)]
pub struct Unseen {
    pid: u32,
    error: io::Error,
}

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, error } = self;
        if cfg!(not(target_os = "linux")) {
            return write!(f, "process {pid}: CPU time and memory of processes are measured on Linux only");
        }
        match error.kind() {
            io::ErrorKind::NotFound => write!(f, "there is no process {pid}"),
            io::ErrorKind::PermissionDenied => {
                write!(f, "process {pid}: its memory may be read by its own user or by root only")
            }
            _ => write!(f, "process {pid}: {error}"),
        }
    }
}

impl std::error::Error for Unseen {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl ProcessTree {
    /// The processes `roots` and their descendants.
    ///
    /// # Errors
    /// One of `roots` cannot be inspected.
    pub(crate) fn new(roots: &[u32]) -> Result<Self, Unseen> {
        for &pid in roots {
            pss(pid).map_err(|error| Unseen { pid, error })?;
        }
        Ok(Self { roots: roots.to_vec() })
    }

    /// Returns the CPU time of the bench itself, excluding its child processes.
    pub(crate) fn own_cpu() -> Option<u64> {
        let threads = thread_times(std::process::id());
        (!threads.is_empty()).then(|| threads.values().sum())
    }

    /// Returns the CPU time of every live thread, in nanoseconds. A thread's time disappears when the thread ends, so
    /// compare two readings with [`used`].
    pub(crate) fn cpu(&self) -> BTreeMap<u32, u64> {
        self.members().into_iter().flat_map(thread_times).collect()
    }

    /// Returns the total proportional set size of all processes, in KiB.
    pub(crate) fn kib(&self) -> f64 {
        self.members().into_iter().filter_map(|pid| pss(pid).ok()).sum()
    }

    /// Returns all live processes.
    fn members(&self) -> BTreeSet<u32> {
        let mut members = BTreeSet::new();
        let mut open = self.roots.clone();
        while let Some(pid) = open.pop() {
            if members.insert(pid) {
                open.extend(children(pid));
            }
        }
        members
    }
}

/// Returns the CPU time used between two readings of [`ProcessTree::cpu`], in nanoseconds.
pub(crate) fn used(before: &BTreeMap<u32, u64>, after: &BTreeMap<u32, u64>) -> u64 {
    let threads = after.iter();
    threads.map(|(thread, time)| time.saturating_sub(before.get(thread).copied().unwrap_or(0))).sum()
}

/// Returns the CPU time of each thread of a process, in nanoseconds.
fn thread_times(pid: u32) -> BTreeMap<u32, u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let time = |thread: fs::DirEntry| {
        let stats = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let number = thread.file_name().to_str()?.parse().ok()?;
        Some((number, stats.split_whitespace().next()?.parse().ok()?))
    };
    threads.filter_map(time).collect()
}

/// Returns the child processes of all threads of `pid`.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    children
        .flat_map(|line| line.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Proportional set size of one process, in KiB.
fn pss(pid: u32) -> io::Result<f64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")).and_then(|kib| kib.trim().parse().ok());
    kib.ok_or_else(|| io::Error::other("its smaps_rollup has no Pss"))
}

/// Samples the memory of a process tree from [`Watch::begin`] to [`Watch::end`].
#[derive(Debug)]
pub(crate) struct Watch {
    stop: Sender<()>,
    thread: JoinHandle<f64>,
    family: ProcessTree,
    cpu: BTreeMap<u32, u64>,
}

impl Watch {
    pub(crate) fn begin(family: ProcessTree) -> Self {
        let (stop, stopped) = mpsc::channel();
        let watched = family.clone();
        let thread = thread::spawn(move || {
            let mut peak = 0_f64;
            loop {
                let wait = stopped.recv_timeout(READING);
                peak = peak.max(watched.kib());
                if wait != Err(RecvTimeoutError::Timeout) {
                    return peak;
                }
            }
        });
        let cpu = family.cpu();
        Self { stop, thread, family, cpu }
    }

    /// Stops sampling and returns the CPU time used since the start, in nanoseconds, and the peak memory in KiB.
    pub(crate) fn end(self) -> (u64, f64) {
        let cpu = used(&self.cpu, &self.family.cpu());
        let _ = self.stop.send(());
        (cpu, self.thread.join().unwrap_or(0.0))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{
        hint::black_box,
        process::{Child, Command},
    };

    use super::*;

    struct Shell(Child);

    impl Drop for Shell {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn process_tree_contains_all_descendants() {
        let shell = Shell(Command::new("sh").args(["-c", "sleep 30 & wait"]).spawn().unwrap());
        let family = ProcessTree::new(&[shell.0.id()]).unwrap();
        // Until `exec`, the child shares its memory with the shell.
        let is_started = |pid: u32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep")
        };
        while !family.members().into_iter().any(is_started) {
            thread::yield_now();
        }
        assert!(family.kib() > pss(shell.0.id()).unwrap());
        for pid in family.members() {
            if pid != shell.0.id() {
                Command::new("kill").arg(pid.to_string()).status().unwrap();
            }
        }
    }

    #[test]
    fn cpu_time_is_counted() {
        let family = ProcessTree::new(&[std::process::id()]).unwrap();
        let watch = Watch::begin(family);
        let own = ProcessTree::own_cpu().unwrap();
        let mut sum = 0_u64;
        // `schedstat` advances only at scheduler ticks.
        while ProcessTree::own_cpu().unwrap() < own + 5_000_000 {
            sum = black_box(sum.wrapping_add(1));
        }
        let (cpu, kib) = watch.end();
        assert!(cpu >= 5_000_000, "{cpu}");
        assert!(kib > 100.0, "{kib}");
    }

    #[test]
    fn cpu_time_of_new_threads_is_counted_from_their_start() {
        let before = BTreeMap::from([(1, 100), (2, 50)]);
        let after = BTreeMap::from([(1, 130), (3, 7)]);
        assert_eq!(used(&before, &after), 37);
    }

    #[test]
    fn missing_process_is_reported() {
        let error = ProcessTree::new(&[u32::MAX]).unwrap_err();
        assert_eq!(error.to_string(), format!("there is no process {}", u32::MAX));
    }
}
