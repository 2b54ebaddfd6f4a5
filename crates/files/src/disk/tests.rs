use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;

fn target(path: &Path) -> WriteTarget {
    WriteTarget { path: path.to_owned(), transfer: "t1".to_owned() }
}

/// Writes `content` in pieces of `piece` bytes, each sent `times` times.
fn send(path: &Path, content: &[u8], piece: usize, times: usize) -> Result<(), FileError> {
    for _ in 0..times {
        write(&target(path), 0, &content[..content.len().min(piece)])?;
    }
    for offset in (piece..content.len()).step_by(piece) {
        for _ in 0..times {
            write(&target(path), offset as u64, &content[offset..content.len().min(offset + piece)])?;
        }
    }
    Ok(())
}

fn put_in_place(path: &Path, content: &[u8], mode: Option<u32>, replace: bool) -> Result<FileWritten, FileError> {
    finish(&target(path), content.len() as u64, FileDigest::from_content(content), mode, replace)
}

fn names(directory: &Path) -> Vec<String> {
    list(directory).unwrap().into_iter().map(|entry| entry.name).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// The content read back equals the content sent, for any piece size and any repetition of pieces.
    #[test]
    fn file_sent_in_pieces_arrives_unchanged(content in proptest::collection::vec(any::<u8>(), 0..3000), piece in 1_usize..700, times in 1_usize..3) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a file");
        send(&path, &content, piece, times).unwrap();
        prop_assert!(!path.exists());
        for again in [false, true] {
            let written = put_in_place(&path, &content, None, true).unwrap();
            let content = Some((content.len() as u64, FileDigest::from_content(&content)));
            prop_assert_eq!(written, FileWritten { path: display_path(&path), mode: 0o644, replaced: false, unchanged: again, content });
        }
        let facts = describe(&path).unwrap();
        let mut read_again = Vec::new();
        while read_again.len() < content.len() {
            let next = read(&path, facts.identity, read_again.len() as u64, piece).unwrap().bytes;
            prop_assert!(!next.is_empty());
            read_again.extend(next);
        }
        prop_assert_eq!(&read_again, &content);
        prop_assert_eq!(digest(&path, facts.identity, facts.size).unwrap(), FileDigest::from_content(&content));
        prop_assert_eq!(names(directory.path()), ["a file"]);
    }
}

#[test]
fn replaced_file_keeps_its_permissions_unless_requested() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("script");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4750)).unwrap();
    send(&path, b"new", 10, 1).unwrap();
    let written = put_in_place(&path, b"new", None, true).unwrap();
    assert_eq!((written.mode, written.replaced), (0o750, true));
    send(&path, b"newer", 10, 1).unwrap();
    assert_eq!(put_in_place(&path, b"newer", Some(0o600), true).unwrap().mode, 0o600);
    assert_eq!(fs::read(&path).unwrap(), b"newer");
}

#[test]
fn protected_file_stays_and_equal_content_is_not_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("note");
    send(&path, b"one", 10, 1).unwrap();
    assert!(!put_in_place(&path, b"one", None, false).unwrap().unchanged);
    send(&path, b"one", 10, 1).unwrap();
    assert!(put_in_place(&path, b"one", None, false).unwrap().unchanged);
    send(&path, b"two", 10, 1).unwrap();
    assert_eq!(put_in_place(&path, b"two", None, false), Err(FileError::Exists(display_path(&path))));
    assert_eq!(fs::read(&path).unwrap(), b"one");
    assert_eq!(names(directory.path()), ["note"]);
}

#[test]
fn corrupted_copy_does_not_replace_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("note");
    fs::write(&path, "old").unwrap();
    for sent in [&b"ne"[..], b"nex", b"newer"] {
        send(&path, sent, 10, 1).unwrap();
        assert_eq!(put_in_place(&path, b"new", None, true), Err(FileError::Damaged(display_path(&path))));
    }
    // A piece whose predecessors are missing starts no file.
    assert_eq!(write(&target(&path), 5, b"x"), Err(FileError::Lost(display_path(&path))));
    assert_eq!(put_in_place(&path, b"new", None, true), Err(FileError::Lost(display_path(&path))));
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(names(directory.path()), ["note"]);
}

#[test]
fn unfinished_copy_is_private_and_removed_when_abandoned() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("note");
    send(&path, b"secret", 10, 1).unwrap();
    let part = directory.path().join(".steplatch-t1.part");
    assert_eq!(fs::metadata(&part).unwrap().mode() & 0o777, 0o600);
    abandon(&target(&path));
    assert_eq!(names(directory.path()), Vec::<String>::new());
}

#[test]
fn link_is_followed_and_non_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (real, link) = (directory.path().join("real"), directory.path().join("link"));
    fs::write(&real, "old").unwrap();
    symlink(&real, &link).unwrap();
    send(&link, b"new", 10, 1).unwrap();
    put_in_place(&link, b"new", None, true).unwrap();
    assert_eq!(fs::read(&real).unwrap(), b"new");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());

    let identity = describe(directory.path()).unwrap().identity;
    assert_eq!(read(directory.path(), identity, 0, 1), Err(FileError::IsDirectory(display_path(directory.path()))));
    assert_eq!(write(&target(directory.path()), 0, b"x"), Err(FileError::IsDirectory(display_path(directory.path()))));
    let device = Path::new("/dev/null");
    let identity = describe(device).unwrap().identity;
    assert_eq!(read(device, identity, 0, 1), Err(FileError::NotRegular(display_path(device))));
    assert_eq!(write(&target(device), 0, b"x"), Err(FileError::NotRegular(display_path(device))));
    let nowhere = directory.path().join("no/where");
    assert_eq!(describe(&nowhere), Err(FileError::NotFound(display_path(&nowhere))));
    assert_eq!(
        write(&target(&nowhere), 0, b"x"),
        Err(FileError::NoDirectory(display_path(&directory.path().join("no"))))
    );
    let below = real.join("below");
    assert_eq!(write(&target(&below), 0, b"x"), Err(FileError::NotDirectory(display_path(&real))));
    assert_eq!(make_directory(&below), Err(FileError::NotDirectory(display_path(&below))));
    assert_eq!(list(&real), Err(FileError::NotDirectory(display_path(&real))));
}

#[test]
fn pipe_is_refused_without_blocking() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let identity = describe(&pipe).unwrap().identity;
    assert_eq!(read(&pipe, identity, 0, 1), Err(FileError::NotRegular(display_path(&pipe))));
}

#[test]
fn replaced_or_shrunk_file_is_not_read_further() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    fs::write(&path, "one").unwrap();
    let facts = describe(&path).unwrap();
    // The file may grow.
    fs::write(&path, "one and more").unwrap();
    assert_eq!(digest(&path, facts.identity, 3).unwrap(), FileDigest::from_content(b"one"));
    fs::write(&path, "o").unwrap();
    assert_eq!(digest(&path, facts.identity, 3), Err(FileError::Changed(display_path(&path))));
    let other_file = directory.path().join("other");
    fs::write(&other_file, "two").unwrap();
    fs::rename(&other_file, &path).unwrap();
    assert_eq!(read(&path, facts.identity, 0, 3), Err(FileError::Changed(display_path(&path))));
}

#[test]
fn out_of_range_requests_are_refused() {
    let path = Path::new("/nowhere");
    let identity = FileIdentity { device: 0, inode: 0 };
    assert!(matches!(read(path, identity, 0, MAX_PIECE_BYTES + 1), Err(FileError::Invalid(_))));
    assert!(matches!(write(&target(path), 0, &vec![0; MAX_PIECE_BYTES + 1]), Err(FileError::Invalid(_))));
    for transfer in ["", "../x", "a/b", &"a".repeat(65)] {
        let target = WriteTarget { path: path.to_owned(), transfer: transfer.to_owned() };
        assert!(matches!(write(&target, 0, b""), Err(FileError::Invalid(_))), "{transfer}");
    }
    let root = WriteTarget { path: "/".into(), transfer: "t1".to_owned() };
    assert!(matches!(write(&root, 0, b""), Err(FileError::Invalid(_) | FileError::IsDirectory(_))));
}

#[test]
fn relative_path_starts_at_the_home_directory() {
    let home = std::env::home_dir().unwrap();
    for (path, expected) in [
        ("~", home.clone()),
        ("~/a", home.join("a")),
        ("a/b", home.join("a/b")),
        ("/a", "/a".into()),
        ("", home.clone()),
    ] {
        assert_eq!(absolute(Path::new(path)), expected, "{path}");
    }
}

#[test]
fn full_disk_is_reported_with_the_system_message() {
    let error = system_error(Path::new("/x"), &io::Error::from(Errno::NOSPC));
    assert_eq!(error.to_string(), "'/x': No space left on device");
}

#[test]
fn directory_lists_entry_kinds_without_following_links() {
    use std::os::unix::ffi::OsStrExt as _;

    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("b"), "123").unwrap();
    make_directory(&directory.path().join("a/deep")).unwrap();
    symlink("b", directory.path().join("c")).unwrap();
    fs::write(directory.path().join(std::ffi::OsStr::from_bytes(b"d\xff")), "").unwrap();
    let entries = list(directory.path()).unwrap();
    let kinds: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.kind)).collect();
    assert_eq!(
        kinds,
        [("a", Some(FileKind::Directory)), ("b", Some(FileKind::File)), ("c", None), ("d\u{fffd}", None)]
    );
    assert_eq!(entries[1].size, 3);
}
