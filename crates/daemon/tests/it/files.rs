//! Files that a client reads in parts, in a daemon in this process.

use steplatch_protocol::{GetFile, SendInput};
use steplatch_testkit::TestDaemon;

const SECRET: &str = "tok-83417-hidden";

/// Reads a file in parts of `limit` bytes and returns them joined.
async fn read_in_parts(daemon: &TestDaemon, path: &str, limit: u32) -> String {
    let (mut joined, mut offset) = (String::new(), 0);
    loop {
        let verb = GetFile { path: path.to_owned(), offset, limit: Some(limit), ..GetFile::default() };
        let part = daemon.call(verb).await;
        joined += part.content.as_deref().unwrap_or_else(|| panic!("no text with {limit} bytes: {:?}", part.error));
        match part.next_offset {
            Some(next) => offset = next,
            None => return joined,
        }
    }
}

#[tokio::test]
async fn no_part_of_a_file_shows_a_part_of_a_secret() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    session.type_in("read -rs TOKEN\n").await;
    let typed = SendInput {
        session_id: session.id.clone(),
        input_text: format!("{SECRET}\n"),
        secret: true,
        ..SendInput::default()
    };
    assert!(daemon.call(typed).await.success);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("env");
    std::fs::write(&file, format!("before={SECRET}=after\n")).unwrap();
    for limit in [1, 3, 12, 20, 1000] {
        let content = read_in_parts(&daemon, file.to_str().unwrap(), limit).await;
        assert!(content.starts_with("before=") && content.ends_with("=after\n"), "{limit}: {content}");
        let parts = SECRET.as_bytes().windows(3).map(|part| std::str::from_utf8(part).unwrap());
        for part in parts {
            assert!(!content.contains(part), "{limit} bytes at a time show {part:?}: {content}");
        }
        // If single bytes are read, every byte of the secret is hidden.
        assert_eq!(content.replace('•', ""), "before==after\n", "{limit}");
    }
}
