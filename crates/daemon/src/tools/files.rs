//! Watches of the directories of libraries, for changes by the daemon, an editor or git.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::{Mutex, MutexGuard};

use crate::changes::ChangeHub;

/// The watches of all subscribers. A single thread and a single descriptor serve all of them.
#[derive(Debug)]
pub(super) struct Files {
    changes: ChangeHub,
    inner: Arc<Mutex<Inner>>,
    /// Number of watches of each library. Has its own lock for the thread that receives changes, because watching waits
    /// for that thread with `inner` locked.
    libraries: Libraries,
}

type Libraries = Arc<Mutex<HashMap<PathBuf, usize>>>;

#[derive(Debug, Default)]
struct Inner {
    watcher: Option<RecommendedWatcher>,
    /// Number of watches of each directory.
    watched: HashMap<PathBuf, usize>,
}

/// A watch on libraries. Dropping it stops the watch.
#[derive(Debug)]
pub(super) struct DirectoryWatch {
    inner: Arc<Mutex<Inner>>,
    watched_libraries: Libraries,
    directories: Vec<PathBuf>,
    libraries: Vec<PathBuf>,
}

impl Files {
    pub(super) fn new(changes: ChangeHub) -> Self {
        Self { changes, inner: Arc::default(), libraries: Arc::default() }
    }

    /// Reports changes in these libraries as changes of the tools. Watches a library that does not exist yet from its
    /// creation. Blocks for a few system calls.
    pub(super) fn watch(&self, libraries: &[PathBuf]) -> DirectoryWatch {
        for library in libraries {
            *lock(&self.libraries).entry(library.clone()).or_default() += 1;
        }
        let mut inner = lock(&self.inner);
        let mut directories = Vec::new();
        for library in libraries {
            let nearest = library.ancestors().find(|directory| directory.is_dir()).map(Path::to_owned);
            let above = library.parent().filter(|directory| directory.is_dir()).map(Path::to_owned);
            for directory in nearest.into_iter().chain(above) {
                if directories.contains(&directory) {
                    continue;
                }
                if !inner.watched.contains_key(&directory)
                    && let Err(error) = self.add_watch(&mut inner, &directory)
                {
                    // The daemon reports its own changes in any case.
                    tracing::warn!(folder = %directory.display(), %error, "failed to watch a directory; its changes will not be detected");
                    continue;
                }
                *inner.watched.entry(directory.clone()).or_default() += 1;
                directories.push(directory);
            }
        }
        drop(inner);
        let (inner, watched_libraries, libraries) = (self.inner.clone(), self.libraries.clone(), libraries.to_vec());
        DirectoryWatch { inner, watched_libraries, directories, libraries }
    }

    fn add_watch(&self, inner: &mut Inner, directory: &Path) -> notify::Result<()> {
        let watcher = match &mut inner.watcher {
            Some(watcher) => watcher,
            none => {
                let (changes, libraries) = (self.changes.clone(), self.libraries.clone());
                let on_event = move |event: notify::Result<Event>| {
                    if event.map_or(true, |event| affects_library(&event, &lock(&libraries))) {
                        changes.report_tools();
                    }
                };
                none.insert(notify::recommended_watcher(on_event)?)
            }
        };
        watcher.watch(directory, RecursiveMode::NonRecursive)
    }
}

/// Returns whether an event may have changed something in a library.
fn affects_library(event: &Event, libraries: &HashMap<PathBuf, usize>) -> bool {
    // Ignore opens by readers of a library.
    if matches!(event.kind, EventKind::Access(_)) {
        return false;
    }
    let concerns = |path: &Path| libraries.keys().any(|library| path.starts_with(library) || library.starts_with(path));
    event.paths.is_empty() || event.paths.iter().any(|path| concerns(path))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl Drop for DirectoryWatch {
    fn drop(&mut self) {
        for library in &self.libraries {
            let mut counts = lock(&self.watched_libraries);
            if let Some(count) = counts.get_mut(library) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(library);
                }
            }
        }
        let mut inner = lock(&self.inner);
        for directory in &self.directories {
            let Some(count) = inner.watched.get_mut(directory) else { continue };
            *count -= 1;
            if *count == 0 {
                inner.watched.remove(directory);
                if let Some(watcher) = &mut inner.watcher {
                    // Ignore the error, because a removed directory no longer has a watch.
                    let _ = watcher.unwatch(directory);
                }
            }
        }
    }
}
