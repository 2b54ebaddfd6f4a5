//! Files of a remote host that lies about their names.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use steplatch_access::{Caller, Redactor};
use steplatch_files::FileRequest;
use steplatch_host::{HostRequest, Hosts, RemoteHostConfig, Role, Starter};
use steplatch_liar::{Liar, Lie, Lies, answer, with};
use steplatch_protocol::{CopyFile, GetFile};
use steplatch_sessions::{CommandPolicy, EventSink, Sessions};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;

#[derive(Debug)]
struct Plain;

impl CommandPolicy for Plain {
    fn opens_pagers(&self) -> bool {
        false
    }

    fn integrates(&self) -> bool {
        false
    }
}

/// A directory with an inbox, and a remote host `box` that lies about its files.
struct Scene {
    sessions: Sessions,
    caller: Arc<Caller>,
    directory: TempDir,
}

impl Scene {
    async fn new(reply: impl Fn(&FileRequest) -> Option<Value> + Send + Sync + 'static) -> Self {
        let directory = tempfile::Builder::new().prefix("lies-").tempdir_in("/tmp").unwrap();
        for name in ["inbox", "home", "home/state", "sockets"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        let sockets = directory.path().join("sockets");
        let hosts = Hosts::find(Role::Visitor, &sockets, &sockets, Starter::InProcess(Box::default()), "1", drop)
            .await
            .unwrap();
        let liar = Liar::new(Lies::in_replies(move |ask| match ask {
            HostRequest::File(ask) => reply(ask).map(Lie::Value),
            _ => None,
        }));
        let secrets = Arc::new(Redactor::default());
        hosts.enable_remote(liar.setup(sockets.join("machines"), secrets.clone()));
        hosts.configure_remotes(&[RemoteHostConfig { name: "box".to_owned(), ssh: "ana@box".to_owned() }]);
        let (_, ending) = tokio::sync::watch::channel(None);
        let private = [directory.path().join("home/state")];
        let sessions = Sessions::new(hosts, secrets, Arc::new(Plain), ending, private);
        let caller = Arc::new(Caller::unnamed(directory.path().to_owned(), Arc::default()));
        Self { sessions, caller, directory }
    }

    /// Copies from the host. Returns the report or the error.
    async fn copy(&self, from: &str, to: &str) -> Result<String, String> {
        let verb = CopyFile {
            from_host: Some("box".to_owned()),
            from: from.to_owned(),
            to_host: None,
            to: to.to_owned(),
            overwrite: true,
            recursive: true,
        };
        let (reply, events) = self.sessions.copy_file(&self.caller, verb).await;
        let Some(events) = events else { return Err(reply.error.unwrap()) };
        let (mut reading, writing) = tokio::io::duplex(1 << 20);
        let sink = EventSink::new(writing);
        events.forward(&json!(1), &sink).await.unwrap();
        drop(sink);
        let mut report = String::new();
        reading.read_to_string(&mut report).await.unwrap();
        Ok(report)
    }

    /// Returns all files of the scene by path, except the files of the hosts.
    fn files(&self) -> BTreeMap<PathBuf, String> {
        let mut open = vec![self.directory.path().to_owned()];
        let mut files = BTreeMap::new();
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap()) {
                let (path, kind) = (entry.path(), entry.file_type().unwrap());
                if kind.is_dir() && entry.file_name() != "sockets" {
                    open.push(path);
                } else if kind.is_file() {
                    let name = path.strip_prefix(self.directory.path()).unwrap().to_owned();
                    files.insert(name, std::fs::read_to_string(path).unwrap());
                }
            }
        }
        files
    }
}

/// Answers honestly about files of three bytes in the directory `site` with these entries.
fn site(entries: Value) -> impl Fn(&FileRequest) -> Option<Value> + Send + Sync + 'static {
    let digest = json!({"Ok": steplatch_files::FileDigest::from_content(b"abc")});
    move |ask| match ask {
        FileRequest::Describe(path) if path == Path::new("site") => {
            Some(json!({"Ok": with(with(answer::file(), "/kind", "Directory"), "/path", "/home/ana/site")}))
        }
        FileRequest::List(path) if path == Path::new("site") => Some(json!({"Ok": entries})),
        FileRequest::Digest { .. } => Some(digest.clone()),
        _ => None,
    }
}

fn entry(name: &str, kind: &str) -> Value {
    json!({"name": name, "kind": kind, "size": 3})
}

#[tokio::test(flavor = "multi_thread")]
async fn remote_directory_writes_nothing_outside_its_copy() {
    for name in ["../../evil", "..", "/tmp/lies-evil", "a/../../evil", "", "."] {
        for kind in ["File", "Directory"] {
            let scene = Scene::new(site(json!([entry("a", "File"), entry(name, kind)]))).await;
            let error = scene.copy("site", "inbox").await.unwrap_err();
            assert!(error.contains("whose name is not a name of a file"), "{name:?}: {error}");
            assert!(scene.files().is_empty(), "{name:?}: {:?}", scene.files());
        }
    }
    assert!(!Path::new("/tmp/lies-evil").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_has_the_requested_name() {
    // The remote host claims that each file is /etc/passwd, and the directory /etc.
    let digest = json!({"Ok": steplatch_files::FileDigest::from_content(b"abc")});
    let reply = move |ask: &FileRequest| match ask {
        FileRequest::Describe(path) if path.ends_with("site") => {
            Some(json!({"Ok": with(with(answer::file(), "/kind", "Directory"), "/path", "/etc")}))
        }
        FileRequest::Describe(_) => Some(json!({"Ok": with(answer::file(), "/path", "/etc/passwd")})),
        FileRequest::List(_) => Some(json!({"Ok": [entry("a", "File")]})),
        FileRequest::Digest { .. } => Some(digest.clone()),
        _ => None,
    };
    let scene = Scene::new(reply).await;
    let report = scene.copy("reports/report.txt", "inbox").await.unwrap();
    // The report names the destination of the file.
    let target = std::fs::canonicalize(scene.directory.path()).unwrap().join("inbox/report.txt");
    assert!(report.contains(&format!("{:?}", target.display().to_string())), "{report}");
    scene.copy("site", "inbox").await.unwrap();
    let files: Vec<_> = scene.files().into_keys().collect();
    assert_eq!(files, [Path::new("inbox/report.txt"), Path::new("inbox/site/a")]);
    // Without a requested name, the host does not choose one either.
    for from in ["~", "..", "/", "a/.."] {
        let error = scene.copy(from, "inbox").await.unwrap_err();
        assert!(error.contains("has no name for the copy"), "{from}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn remote_copy_follows_no_link_and_enters_no_private_directory() {
    let scene = Scene::new(site(json!([entry("a", "File"), entry("link", "File")]))).await;
    let outside = scene.directory.path().join("outside");
    std::fs::write(&outside, "mine").unwrap();
    std::fs::create_dir(scene.directory.path().join("inbox/site")).unwrap();
    symlink(&outside, scene.directory.path().join("inbox/site/link")).unwrap();
    let error = scene.copy("site", "inbox").await.unwrap_err();
    assert!(error.contains("is a symbolic link"), "{error}");
    assert_eq!(scene.files(), BTreeMap::from([(PathBuf::from("outside"), "mine".to_owned())]));

    // Steplatch's own directory is within the target.
    let list = |entry: Value| Some(json!({"Ok": [entry]}));
    let scene = Scene::new(move |ask| match ask {
        FileRequest::Describe(_) => Some(json!({"Ok": with(answer::file(), "/kind", "Directory")})),
        FileRequest::List(path) if path == Path::new("home") => list(entry("state", "Directory")),
        FileRequest::List(_) => list(entry("approver.json", "File")),
        _ => None,
    })
    .await;
    let error = scene.copy("home", "./").await.unwrap_err();
    assert!(error.contains("is in a private directory of steplatch"), "{error}");
    assert!(scene.files().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_of_endless_directories_is_refused() {
    let (deep, wide) = (json!([entry(&"d".repeat(255), "Directory")]), 3000);
    let scene = Scene::new(move |ask| match ask {
        FileRequest::Describe(_) => Some(json!({"Ok": with(answer::file(), "/kind", "Directory")})),
        FileRequest::List(_) => Some(json!({"Ok": deep})),
        _ => None,
    })
    .await;
    let error = scene.copy("site", "inbox").await.unwrap_err();
    assert!(error.contains("paths that are too long to copy"), "{error}");
    let many: Value = (0..wide).map(|number| entry(&format!("{number}"), "Directory")).collect();
    let scene = Scene::new(move |ask| match ask {
        FileRequest::Describe(_) => Some(json!({"Ok": with(answer::file(), "/kind", "Directory")})),
        FileRequest::List(_) => Some(json!({"Ok": many})),
        _ => None,
    })
    .await;
    let error = scene.copy("site", "inbox").await.unwrap_err();
    assert!(error.contains("more than 100000 files"), "{error}");
    assert!(scene.files().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn overlong_file_content_is_refused() {
    let scene = Scene::new(|ask| match ask {
        FileRequest::Read { .. } => Some(json!({"Ok": {"bytes": vec![120; 100_000]}})),
        _ => None,
    })
    .await;
    let verb = GetFile {
        path: "a".to_owned(),
        to: None,
        offset: 0,
        limit: Some(10),
        overwrite: true,
        host: Some("box".to_owned()),
    };
    let reply = scene.sessions.get_file(&scene.caller, verb, None).await;
    assert!(reply.error.unwrap().contains("more of a file than was requested"));
}

#[tokio::test(flavor = "multi_thread")]
async fn file_content_must_match_its_size_and_digest() {
    let digest = |text: &str| json!(steplatch_files::FileDigest::from_content(text.as_bytes()));
    // The content and the digest of a file of three bytes, and the content returned.
    let cases = [
        ("abc", digest("abc"), Some("abc")),
        ("abcdef", digest("abc"), Some("abc")),
        ("XXX", digest("AAA"), None),
        ("ab", digest("abc"), None),
        ("", digest("abc"), None),
    ];
    for (content, digest, expected) in cases {
        let scene = Scene::new(move |ask| match ask {
            FileRequest::Read { offset, .. } => {
                Some(json!({"Ok": {"bytes": content.as_bytes().get(*offset as usize..).unwrap_or_default()}}))
            }
            FileRequest::Digest { .. } => Some(json!({"Ok": digest})),
            _ => None,
        })
        .await;
        let verb =
            GetFile { path: "a".to_owned(), host: Some("box".to_owned()), limit: Some(100), ..GetFile::default() };
        let reply = scene.sessions.get_file(&scene.caller, verb, None).await;
        assert_eq!(reply.content.as_deref(), expected, "{content}: {reply:?}");
        let error = reply.error.unwrap_or_default();
        assert_eq!(error.contains("changed"), expected.is_none(), "{content}: {error}");
    }
}
