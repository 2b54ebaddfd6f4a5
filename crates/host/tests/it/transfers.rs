//! Copies of files to a remote host and back, over relays in this process whose connections are cut.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use steplatch_files::FileError;
use steplatch_host::{CLIENT_CONNECT_TIMEOUT, Copied, CopyOptions, MachineFiles, TransferError};
use steplatch_patience::eventually;

use super::remote::{cut_repeatedly, directory, local_hosts, start_remote};

const OPTIONS: CopyOptions = CopyOptions { mode: None, replace: true, limit: u64::MAX };

async fn copy(from: &MachineFiles, source: &Path, to: &MachineFiles, target: &Path) -> Result<Copied, TransferError> {
    let facts = from.describe(source.to_owned()).await?;
    from.copy((source, &facts), (to, target), OPTIONS, |_| {}).await
}

fn names(directory: &Path) -> Vec<PathBuf> {
    let mut names: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_continues_over_a_new_connection_in_both_directions() {
    let (machine, _host, _remote_directory) = start_remote().await;
    let directory = directory();
    let hosts = local_hosts(directory.path(), &machine).await;
    let local_files = hosts.files(None, CLIENT_CONNECT_TIMEOUT, None).await.unwrap();
    let remote_files = hosts.files(Some("box"), Duration::from_secs(60), None).await.unwrap();
    let content: Vec<u8> =
        (0..6_000_000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let (source, target, back) = (directory.path().join("a"), directory.path().join("b"), directory.path().join("c"));
    std::fs::write(&source, &content).unwrap();
    let cutter = cut_repeatedly(&machine);
    let sent = copy(&local_files, &source, &remote_files, &target).await.unwrap();
    let fetched = copy(&remote_files, &target, &local_files, &back).await.unwrap();
    cutter.abort();
    assert!(std::fs::read(&back).unwrap() == content);
    assert_eq!((sent.length, sent.digest), (content.len() as u64, fetched.digest));
    assert!(machine.dialed.load(Ordering::Relaxed) > 3, "the copy used several connections");
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_or_changed_copy_leaves_nothing_behind() {
    let (machine, _host, remote_directory) = start_remote().await;
    let directory = directory();
    let hosts = local_hosts(directory.path(), &machine).await;
    let local_files = hosts.files(None, CLIENT_CONNECT_TIMEOUT, None).await.unwrap();
    let remote_files = hosts.files(Some("box"), Duration::from_secs(60), None).await.unwrap();
    let inbox = remote_directory.path().join("inbox");
    remote_files.make_directory(inbox.clone()).await.unwrap();
    let source = directory.path().join("a");
    std::fs::write(&source, vec![7; 8 << 20]).unwrap();
    let facts = local_files.describe(source.clone()).await.unwrap();

    // Dropped after the first piece.
    let (first, begun) = tokio::sync::oneshot::channel();
    let mut first = Some(first);
    let target = inbox.join("b");
    let progress = |_| {
        if let Some(first) = first.take() {
            first.send(()).unwrap();
        }
    };
    let copying = local_files.copy((&source, &facts), (&remote_files, &target), OPTIONS, progress);
    tokio::select! {
        copied = copying => panic!("the copy ended before it was dropped: {copied:?}"),
        begun = begun => begun.unwrap(),
    }
    eventually("the unfinished copy is removed", async || match names(&inbox).as_slice() {
        [] => Ok(()),
        left => Err(format!("{left:?}")),
    })
    .await;

    // Changed after the first piece, so the pieces do not match.
    let mut is_changed = false;
    let change = |_| {
        if !std::mem::replace(&mut is_changed, true) {
            std::fs::write(&source, vec![8; 8 << 20]).unwrap();
        }
    };
    let changed = local_files.copy((&source, &facts), (&remote_files, &target), OPTIONS, change).await;
    assert_eq!(changed, Err(TransferError::File(FileError::Changed(facts.path.clone()))));
    eventually("the unfinished copy is removed", async || match names(&inbox).as_slice() {
        [] => Ok(()),
        left => Err(format!("{left:?}")),
    })
    .await;
    let short = CopyOptions { limit: 100, ..OPTIONS };
    let error = local_files.copy((&source, &facts), (&remote_files, &target), short, |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("at most 100 are copied"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn file_without_a_length_is_read_to_its_end() {
    let (machine, _host, remote_directory) = start_remote().await;
    let directory = directory();
    let hosts = local_hosts(directory.path(), &machine).await;
    let local_files = hosts.files(None, CLIENT_CONNECT_TIMEOUT, None).await.unwrap();
    let remote_files = hosts.files(Some("box"), Duration::from_secs(60), None).await.unwrap();
    let source = Path::new("/proc/sys/kernel/ostype");
    let target = remote_directory.path().join("type");
    copy(&remote_files, source, &local_files, &target).await.unwrap();
    assert_eq!(std::fs::read(&target).unwrap(), b"Linux\n");
    // An empty file is a file too.
    let empty = directory.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    assert_eq!(copy(&local_files, &empty, &remote_files, &target).await.unwrap().length, 0);
    assert_eq!(std::fs::read(&target).unwrap(), b"");
}
