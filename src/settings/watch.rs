//! Notification of changes of the settings file, without polling.
//!
//! [`Watch`] watches directories, because editors replace a file with a new one. For a missing directory, it watches
//! the nearest existing ancestor. For a link, it watches the link and its target.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::Mutex;
use tokio::sync::mpsc;

/// Delay of the reading after the first change, so that the writer may finish.
const SETTLE_TIME: Duration = Duration::from_millis(150);

/// Maximum number of links followed from a file to its target, like in the kernel.
const MAX_LINKS: usize = 40;

/// Watch for possible changes of a file.
pub(crate) struct Watch {
    file: PathBuf,
    link_chain: LinkChain,
    watcher: RecommendedWatcher,
    watched: BTreeMap<PathBuf, Identity>,
    changed: mpsc::Receiver<()>,
    /// True if a change was received and [`Self::changed`] has not returned since.
    pending: bool,
}

/// A file and the targets of its links.
type LinkChain = Arc<Mutex<Vec<PathBuf>>>;

/// Identity of a directory, to distinguish it from a replacement with the same name: device, inode and, because file
/// systems reuse inodes, the time of creation.
type Identity = (u64, u64, Option<SystemTime>);

impl Watch {
    /// Watches `file`. The file need not exist.
    ///
    /// # Errors
    /// If the limit of watches is reached.
    pub(crate) fn for_file(file: &Path) -> notify::Result<Self> {
        let file = std::path::absolute(file)?;
        // One message represents any number of changes.
        let (change_sender, changed) = mpsc::channel(1);
        let link_chain = LinkChain::default();
        let event_chain = link_chain.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // An error, such as lost events, is treated as a change.
            if event.map_or(true, |event| event.need_rescan() || affects_file(&event, &event_chain)) {
                let _ = change_sender.try_send(());
            }
        })?;
        let mut watch = Self { file, link_chain, watcher, watched: BTreeMap::new(), changed, pending: false };
        watch.update_watches()?;
        Ok(watch)
    }

    /// Completes shortly after a possible change of the file. The caller compares the content. Cancellation-safe: the
    /// next call completes for the same change.
    pub(crate) async fn changed(&mut self) {
        if !self.pending {
            // The channel cannot close, because the watcher (a field) owns the sender.
            let _ = self.changed.recv().await;
            self.pending = true;
        }
        tokio::time::sleep(SETTLE_TIME).await;
        while self.changed.try_recv().is_ok() {}
        self.pending = false;
        if let Err(error) = self.update_watches() {
            tracing::warn!(%error, "the settings can no longer be watched; send SIGHUP after a change");
        }
    }

    /// Watches exactly the directories that can show a change of the file now.
    fn update_watches(&mut self) -> notify::Result<()> {
        // Repeat until nothing differs, because other programs may create directories in the meantime.
        loop {
            let link_chain = link_chain(&self.file);
            let watch_directories = directories(&link_chain);
            *self.link_chain.lock() = link_chain;
            if watch_directories == self.watched {
                return Ok(());
            }
            for (directory, identity) in std::mem::take(&mut self.watched) {
                if watch_directories.get(&directory) == Some(&identity) {
                    self.watched.insert(directory, identity);
                } else {
                    // Ignore a failure, because the system drops the watch of a removed directory.
                    let _ = self.watcher.unwatch(&directory);
                }
            }
            for (directory, identity) in watch_directories {
                if self.watched.contains_key(&directory) {
                    continue;
                }
                match self.watcher.watch(&directory, RecursiveMode::NonRecursive) {
                    Ok(()) => _ = self.watched.insert(directory, identity),
                    // The directory was removed in the meantime.
                    Err(_) if !directory.exists() => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

/// Returns whether an event changes the file or one of its directories. Ignores reads and other files.
fn affects_file(event: &Event, link_chain: &LinkChain) -> bool {
    if matches!(&event.kind, EventKind::Access(kind) if !matches!(kind, AccessKind::Close(AccessMode::Write))) {
        return false;
    }
    let link_chain = link_chain.lock();
    event.paths.iter().any(|path| link_chain.iter().any(|file| file.starts_with(path)))
}

/// Returns a file and the targets of its links.
fn link_chain(file: &Path) -> Vec<PathBuf> {
    let mut link_chain = vec![file.to_owned()];
    let mut path = file.to_owned();
    while let Ok(target) = path.read_link()
        && link_chain.len() < MAX_LINKS
    {
        path = resolve_directory(&path.parent().unwrap_or(Path::new("/")).join(target));
        link_chain.push(path.clone());
    }
    link_chain
}

/// Resolves the directory of a path, so that paths can be compared. Returns the path unchanged if that fails.
fn resolve_directory(path: &Path) -> PathBuf {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return path.to_owned() };
    directory.canonicalize().map_or_else(|_| path.to_owned(), |directory| directory.join(name))
}

/// Returns the nearest existing directory of each file, with its identity.
fn directories(link_chain: &[PathBuf]) -> BTreeMap<PathBuf, Identity> {
    let existing = link_chain.iter().filter_map(|file| {
        file.ancestors()
            .skip(1)
            .find_map(|directory| Some((directory, directory.metadata().ok()?)))
            .filter(|(_, metadata)| metadata.is_dir())
    });
    existing
        .map(|(directory, metadata)| (directory.to_owned(), (metadata.dev(), metadata.ino(), metadata.created().ok())))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Waits until the watch reports a change; a timeout fails the test.
    async fn wait_for_change(watch: &mut Watch) {
        tokio::time::timeout(Duration::from_secs(20), watch.changed()).await.expect("a change is reported");
    }

    /// Returns whether no change is reported for a while.
    async fn has_no_change(watch: &mut Watch) -> bool {
        tokio::time::timeout(SETTLE_TIME * 4, watch.changed()).await.is_err()
    }

    #[tokio::test]
    async fn writing_replacing_and_removing_a_file_are_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("c.toml");
        let mut watch = Watch::for_file(&file).unwrap();
        fs::write(&file, "a = 1").unwrap();
        wait_for_change(&mut watch).await;
        fs::write(directory.path().join("c.new"), "a = 2").unwrap();
        fs::rename(directory.path().join("c.new"), &file).unwrap();
        wait_for_change(&mut watch).await;
        fs::read(&file).unwrap();
        fs::write(directory.path().join("other.toml"), "a = 3").unwrap();
        assert!(has_no_change(&mut watch).await, "reads and other files cause no change");
        fs::remove_file(&file).unwrap();
        wait_for_change(&mut watch).await;
    }

    #[tokio::test]
    async fn missing_directories_are_awaited() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config/steplatch/c.toml");
        let mut watch = Watch::for_file(&file).unwrap();
        fs::create_dir(directory.path().join("config")).unwrap();
        wait_for_change(&mut watch).await;
        fs::create_dir(directory.path().join("config/steplatch")).unwrap();
        wait_for_change(&mut watch).await;
        fs::write(&file, "a = 1").unwrap();
        wait_for_change(&mut watch).await;
        // Another directory of the same name replaces the whole directory.
        fs::rename(file.parent().unwrap(), directory.path().join("old")).unwrap();
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        wait_for_change(&mut watch).await;
        fs::write(&file, "a = 2").unwrap();
        wait_for_change(&mut watch).await;
    }

    #[tokio::test]
    async fn link_targets_are_watched() {
        let directory = tempfile::tempdir().unwrap();
        let (kept, used) = (directory.path().join("kept"), directory.path().join("used"));
        fs::create_dir(&kept).unwrap();
        fs::create_dir(&used).unwrap();
        fs::write(kept.join("c.toml"), "a = 1").unwrap();
        symlink("../kept/c.toml", used.join("c.toml")).unwrap();
        let mut watch = Watch::for_file(&used.join("c.toml")).unwrap();
        fs::write(kept.join("c.toml"), "a = 2").unwrap();
        wait_for_change(&mut watch).await;
    }
}
