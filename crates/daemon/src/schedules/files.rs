//! Watches of the files of schedules.
//!
//! The state of the files is a digest of their names, sizes and times of change. Another digest is a change, whatever
//! events the system has reported, so a change while no daemon ran is found as well.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

/// Maximum number of files and directories that one schedule watches.
const MAX_FILES: usize = 20_000;

/// Directories of tools, whose changes are not those of a person.
const IGNORED_DIRECTORIES: [&str; 3] = [".git", "node_modules", "target"];

/// Time without a change before the files are looked at: an editor or a build changes several files.
const QUIET_TIME: Duration = Duration::from_millis(300);

/// The state of the files of a schedule.
#[derive(Debug)]
pub(super) struct FilesState {
    pub(super) schedule: String,
    pub(super) digest: String,
    /// True at the first look of this daemon.
    pub(super) is_first: bool,
}

/// Checks a path that a schedule watches.
///
/// # Errors
/// If it does not exist.
pub(super) fn check_path(path: &Path) -> Result<String, String> {
    let resolved = path.canonicalize().map_err(|error| format!("'{}' cannot be watched: {error}", path.display()))?;
    if entries_below(&resolved).len() > MAX_FILES {
        return Err(format!("'{}' has more than {MAX_FILES} files; watch a part of it", path.display()));
    }
    resolved.to_str().map(str::to_owned).ok_or_else(|| format!("'{}' is not UTF-8", path.display()))
}

/// The watches of all schedules.
#[derive(Debug, Default)]
pub(super) struct FileWatch {
    watched: BTreeMap<String, Vec<PathBuf>>,
    /// Schedules whose files have not been looked at.
    unseen: Vec<String>,
    watcher: Option<(RecommendedWatcher, mpsc::Receiver<()>)>,
}

impl FileWatch {
    /// Watches the files of these schedules, and no others. Blocks for a few system calls.
    pub(super) fn replace(&mut self, watched: BTreeMap<String, Vec<PathBuf>>) {
        if watched == self.watched {
            return;
        }
        self.unseen.extend(watched.keys().filter(|name| self.watched.get(*name) != watched.get(*name)).cloned());
        self.watched = watched;
        // One watcher has one descriptor, and dropping it removes its watches.
        self.watcher = None;
        if self.watched.is_empty() {
            return;
        }
        let (sender, receiver) = mpsc::channel(1);
        let on_event = move |event: notify::Result<Event>| {
            if event.map_or(true, |event| !matches!(event.kind, EventKind::Access(_))) {
                // A full channel already has the news.
                let _ = sender.try_send(());
            }
        };
        let mut watcher = match notify::recommended_watcher(on_event) {
            Ok(watcher) => watcher,
            Err(error) => {
                tracing::warn!(%error, "failed to watch files; schedules with paths start no runs");
                return;
            }
        };
        for path in self.watched.values().flatten() {
            // A file that is replaced has another inode; its directory reports that.
            let is_directory = path.is_dir();
            let target = if is_directory { path.as_path() } else { path.parent().unwrap_or(path) };
            let mode = if is_directory { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
            if let Err(error) = watcher.watch(target, mode) {
                tracing::warn!(path = %path.display(), %error, "failed to watch a path of a schedule");
            }
        }
        self.watcher = Some((watcher, receiver));
    }

    /// Waits for a change and returns the states of all watched files. Cancel-safe.
    pub(super) async fn next(&mut self) -> Vec<FilesState> {
        if self.unseen.is_empty() {
            match &mut self.watcher {
                Some((_, receiver)) => {
                    if receiver.recv().await.is_none() {
                        std::future::pending::<()>().await;
                    }
                    while tokio::time::timeout(QUIET_TIME, receiver.recv()).await.is_ok_and(|event| event.is_some()) {}
                }
                None => std::future::pending().await,
            }
        }
        let watched = self.watched.clone();
        let digests = tokio::task::spawn_blocking(move || {
            let digest = |(name, paths): (String, Vec<PathBuf>)| (name, digest_of(&paths));
            watched.into_iter().map(digest).collect::<Vec<_>>()
        });
        let digests = digests.await.unwrap_or_default();
        let unseen = std::mem::take(&mut self.unseen);
        let state = |(schedule, digest)| FilesState { is_first: unseen.contains(&schedule), schedule, digest };
        digests.into_iter().map(state).collect()
    }
}

/// Returns the paths below a path, with itself, in order.
fn entries_below(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    let mut next = 0;
    while next < found.len() && found.len() <= MAX_FILES {
        let entries = std::fs::read_dir(&found[next]).into_iter().flatten().flatten();
        let is_symlink = next > 0 && found[next].is_symlink();
        let names = entries
            .filter(|entry| !is_symlink && !IGNORED_DIRECTORIES.iter().any(|ignored| entry.file_name() == *ignored));
        let names: Vec<_> = names.map(|entry| entry.path()).collect();
        found.extend(names);
        next += 1;
    }
    found.sort_unstable();
    found
}

fn digest_of(paths: &[PathBuf]) -> String {
    let mut hasher = Sha256::new();
    for path in paths.iter().flat_map(|path| entries_below(path)) {
        // The time of a directory changes with ignored entries.
        let state = std::fs::symlink_metadata(&path).ok().filter(|state| !state.is_dir());
        let numbers = state.map(|state| (state.ino(), state.size(), state.mtime(), state.mtime_nsec()));
        hasher.update(format!("{}\0{numbers:?}\n", path.display()));
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
