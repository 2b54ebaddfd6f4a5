//! Word of changes of the file of settings, without looking again and again.
//!
//! What is watched are folders: editors put a new file in the place of the old one.
//! A folder that is not there yet is waited for in the nearest one above it that is,
//! and a link is watched where it stands and where it leads.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

/// How long a file is left to whoever writes it once it begins to change.
const SETTLING: Duration = Duration::from_millis(150);

/// Links that are followed from a file to what it stands for; the kernel follows as many.
const MOST_LINKS: usize = 40;

/// Says when a file may have changed.
pub(crate) struct Watch {
    file: PathBuf,
    trail: Trail,
    watcher: RecommendedWatcher,
    watched: BTreeMap<PathBuf, Identity>,
    changed: mpsc::Receiver<()>,
    /// Whether a change was told that nobody was told of yet.
    pending: bool,
}

/// The file, and what it leads to.
type Trail = Arc<Mutex<Vec<PathBuf>>>;

/// What tells a folder from another one that comes to have its name: device, number, and, as numbers are given again,
/// when it was made.
type Identity = (u64, u64, Option<SystemTime>);

impl Watch {
    /// Watches `file`, which need not be there.
    ///
    /// # Errors
    /// When the system has no more room for watches.
    pub(crate) fn of(file: &Path) -> notify::Result<Self> {
        let file = std::path::absolute(file)?;
        // One word is as good as many.
        let (tell, changed) = mpsc::channel(1);
        let trail = Trail::default();
        let ours = trail.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // What can not be told is a change too, such as events that were lost.
            if event.map_or(true, |event| event.need_rescan() || concerns(&event, &ours)) {
                let _ = tell.try_send(());
            }
        })?;
        let mut watch = Self { file, trail, watcher, watched: BTreeMap::new(), changed, pending: false };
        watch.arm()?;
        Ok(watch)
    }

    /// Returns a moment after the file may have changed; whoever asks compares what they find. May be cancelled: the change
    /// is told next time.
    pub(crate) async fn changed(&mut self) {
        if !self.pending {
            // The sender lives in the watcher, which lives in us.
            let _ = self.changed.recv().await;
            self.pending = true;
        }
        tokio::time::sleep(SETTLING).await;
        while self.changed.try_recv().is_ok() {}
        self.pending = false;
        if let Err(error) = self.arm() {
            tracing::warn!(%error, "the settings can not be watched any more; send SIGHUP after a change");
        }
    }

    /// Watches the folders that matter now, and no others.
    fn arm(&mut self) -> notify::Result<()> {
        // A folder may come to be while we look: what is armed is right once nothing is different any more.
        loop {
            let trail = trail(&self.file);
            let wanted = folders(&trail);
            *self.trail.lock().unwrap_or_else(PoisonError::into_inner) = trail;
            if wanted == self.watched {
                return Ok(());
            }
            for (folder, identity) in std::mem::take(&mut self.watched) {
                if wanted.get(&folder) == Some(&identity) {
                    self.watched.insert(folder, identity);
                } else {
                    // One that was removed is not watched any more anyhow.
                    let _ = self.watcher.unwatch(&folder);
                }
            }
            for (folder, identity) in wanted {
                if self.watched.contains_key(&folder) {
                    continue;
                }
                match self.watcher.watch(&folder, RecursiveMode::NonRecursive) {
                    Ok(()) => _ = self.watched.insert(folder, identity),
                    // Removed since we looked.
                    Err(_) if !folder.exists() => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

/// Whether something of the file, or of a folder above it, is another way than before. That somebody reads is no change,
/// and others have files in the same folders.
fn concerns(event: &Event, trail: &Trail) -> bool {
    if matches!(&event.kind, EventKind::Access(kind) if !matches!(kind, AccessKind::Close(AccessMode::Write))) {
        return false;
    }
    let trail = trail.lock().unwrap_or_else(PoisonError::into_inner);
    event.paths.iter().any(|path| trail.iter().any(|file| file.starts_with(path)))
}

/// A file and what it leads to, over links.
fn trail(file: &Path) -> Vec<PathBuf> {
    let mut trail = vec![file.to_owned()];
    let mut at = file.to_owned();
    while let Ok(target) = at.read_link()
        && trail.len() < MOST_LINKS
    {
        at = without_dots(&at.parent().unwrap_or(Path::new("/")).join(target));
        trail.push(at.clone());
    }
    trail
}

/// A path that is compared with others, without `..` where what is before it is no link.
fn without_dots(path: &Path) -> PathBuf {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return path.to_owned() };
    folder.canonicalize().map_or_else(|_| path.to_owned(), |folder| folder.join(name))
}

/// The folders in which a change shows: where each of them is, or would be.
fn folders(trail: &[PathBuf]) -> BTreeMap<PathBuf, Identity> {
    let existing = trail.iter().filter_map(|file| {
        file.ancestors()
            .skip(1)
            .find_map(|folder| Some((folder, folder.metadata().ok()?)))
            .filter(|(_, about)| about.is_dir())
    });
    existing.map(|(folder, about)| (folder.to_owned(), (about.dev(), about.ino(), about.created().ok()))).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Waits until the watch says so; that it never does fails the test.
    async fn said(watch: &mut Watch) {
        tokio::time::timeout(Duration::from_secs(20), watch.changed()).await.expect("a change is told");
    }

    /// Whether nothing is told for a while.
    async fn silent(watch: &mut Watch) -> bool {
        tokio::time::timeout(SETTLING * 4, watch.changed()).await.is_err()
    }

    #[tokio::test]
    async fn a_file_is_seen_to_be_written_replaced_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        let mut watch = Watch::of(&file).unwrap();
        fs::write(&file, "a = 1").unwrap();
        said(&mut watch).await;
        fs::write(folder.path().join("c.new"), "a = 2").unwrap();
        fs::rename(folder.path().join("c.new"), &file).unwrap();
        said(&mut watch).await;
        fs::read(&file).unwrap();
        fs::write(folder.path().join("other.toml"), "a = 3").unwrap();
        assert!(silent(&mut watch).await, "who reads changes nothing, and other files are nothing to us");
        fs::remove_file(&file).unwrap();
        said(&mut watch).await;
    }

    #[tokio::test]
    async fn folders_that_are_not_there_yet_are_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config/steplatch/c.toml");
        let mut watch = Watch::of(&file).unwrap();
        fs::create_dir(folder.path().join("config")).unwrap();
        said(&mut watch).await;
        fs::create_dir(folder.path().join("config/steplatch")).unwrap();
        said(&mut watch).await;
        fs::write(&file, "a = 1").unwrap();
        said(&mut watch).await;
        // The whole folder gives way to another one of the same name.
        fs::rename(file.parent().unwrap(), folder.path().join("old")).unwrap();
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        said(&mut watch).await;
        fs::write(&file, "a = 2").unwrap();
        said(&mut watch).await;
    }

    #[tokio::test]
    async fn what_a_link_leads_to_is_watched_too() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, used) = (folder.path().join("kept"), folder.path().join("used"));
        fs::create_dir(&kept).unwrap();
        fs::create_dir(&used).unwrap();
        fs::write(kept.join("c.toml"), "a = 1").unwrap();
        symlink("../kept/c.toml", used.join("c.toml")).unwrap();
        let mut watch = Watch::of(&used.join("c.toml")).unwrap();
        fs::write(kept.join("c.toml"), "a = 2").unwrap();
        said(&mut watch).await;
    }
}
