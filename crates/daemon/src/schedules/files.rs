//! Watches of the files of schedules.
//!
//! The state of the files is a digest of their names, sizes and times of change. Another digest is a change, whatever
//! events the system has reported, so a change while no daemon ran is found as well.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

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
#[derive(Debug)]
pub(super) struct FileWatch {
    watched: Watched,
    /// The task that looks at the files, if there are any. Dropping it ends it.
    task: JoinSet<()>,
    states: (mpsc::Sender<FilesState>, mpsc::Receiver<FilesState>),
}

/// The paths of each schedule.
type Watched = BTreeMap<String, Vec<PathBuf>>;

impl FileWatch {
    pub(super) fn new() -> Self {
        Self { watched: Watched::new(), task: JoinSet::new(), states: mpsc::channel(16) }
    }

    /// Watches the files of these schedules, and no others. Blocks for a few system calls.
    pub(super) fn replace(&mut self, watched: Watched) {
        if watched == self.watched {
            return;
        }
        let is_new = |name: &&String| self.watched.get(*name) != watched.get(*name);
        let unseen = watched.keys().filter(is_new).cloned().collect();
        self.watched.clone_from(&watched);
        self.task.abort_all();
        if watched.is_empty() {
            return;
        }
        match watch(&watched) {
            // The watch begins before the first look, so that no change is missed.
            Ok((watcher, events)) => {
                self.task.spawn(follow(watched, unseen, watcher, events, self.states.0.clone()));
            }
            Err(error) => tracing::warn!(%error, "failed to watch files; schedules with paths start no runs"),
        }
    }

    /// Waits for the state of the files of a schedule. Cancel-safe.
    pub(super) async fn next(&mut self) -> FilesState {
        match self.states.1.recv().await {
            Some(state) => state,
            // This struct has a sender, too.
            None => std::future::pending().await,
        }
    }
}

/// Watches paths. The receiver has an item after each change.
fn watch(watched: &Watched) -> notify::Result<(RecommendedWatcher, mpsc::Receiver<()>)> {
    let (sender, receiver) = mpsc::channel(1);
    let on_event = move |event: notify::Result<Event>| {
        if event.map_or(true, |event| !matches!(event.kind, EventKind::Access(_))) {
            // A full channel already has the news.
            let _ = sender.try_send(());
        }
    };
    let mut watcher = notify::recommended_watcher(on_event)?;
    for path in watched.values().flatten() {
        // A file that is replaced has another inode; its directory reports that.
        let is_directory = path.is_dir();
        let target = if is_directory { path.as_path() } else { path.parent().unwrap_or(path) };
        let mode = if is_directory { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
        if let Err(error) = watcher.watch(target, mode) {
            tracing::warn!(path = %path.display(), %error, "failed to watch a path of a schedule");
        }
    }
    Ok((watcher, receiver))
}

/// Looks at the files at the beginning and after each change.
async fn follow(
    watched: Watched,
    mut unseen: BTreeSet<String>,
    _watcher: RecommendedWatcher,
    mut events: mpsc::Receiver<()>,
    states: mpsc::Sender<FilesState>,
) {
    loop {
        let paths = watched.clone();
        let digests = tokio::task::spawn_blocking(move || {
            paths.into_iter().map(|(name, paths)| (name, digest_of(&paths))).collect::<Vec<_>>()
        });
        for (schedule, digest) in digests.await.unwrap_or_default() {
            let state = FilesState { is_first: unseen.remove(&schedule), schedule, digest };
            if states.send(state).await.is_err() {
                return;
            }
        }
        if events.recv().await.is_none() {
            return;
        }
        while tokio::time::timeout(QUIET_TIME, events.recv()).await.is_ok_and(|event| event.is_some()) {}
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
