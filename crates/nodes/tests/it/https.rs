//! HTTPS, against a server whose certificate is unknown until it is configured.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use steplatch_nodes::{Call, ErrorType, Node, NodeEnvironment, NodeResult, Nodes};
use steplatch_patience::free_port;

/// Makes this test program request this URL and requires an answer.
const TRUSTED: &str = "STEPLATCH_TEST_TRUSTED_URL";

/// A server of openssl that runs while this value exists.
struct Server(Child);

impl Server {
    fn start(certificate: &Path, key: &Path, port: u16) -> Self {
        let mut child = Command::new("openssl")
            .args(["s_server", "-www", "-accept", &format!("127.0.0.1:{port}"), "-cert"])
            .arg(certificate)
            .arg("-key")
            .arg(key)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl is installed; cargo xtask test checks it");
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(output.any(|line| line.unwrap() == "ACCEPT"), "the server exited instead of listening");
        // The server keeps writing, and a closed pipe would end it.
        std::thread::spawn(move || output.for_each(drop));
        Self(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn get(url: String) -> NodeResult {
    let node = Node::parse(&json!({"id": "get", "type": "http", "url": "{input}", "timeout": 60})).unwrap();
    Nodes::new(NodeEnvironment::of_this_process().unwrap()).run(&node, Call::new(url)).await
}

#[tokio::test]
async fn certificate_is_accepted_only_if_the_system_trusts_it() {
    if let Ok(url) = std::env::var(TRUSTED) {
        let result = get(url).await;
        assert!(result.success && result.output.as_str().unwrap().contains("TLSv1.3"), "{result:?}");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = (directory.path().join("certificate"), directory.path().join("key"));
    let output = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=steplatch test", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let port = free_port();
    let _server = Server::start(&certificate, &key, port);
    let url = format!("https://127.0.0.1:{port}/");

    let result = get(url.clone()).await;
    assert_eq!(result.error_type, Some(ErrorType::Connection), "{result:?}");
    assert!(result.error.as_ref().unwrap().contains("certificate"), "{result:?}");

    let reported = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "https::certificate_is_accepted_only_if_the_system_trusts_it", "--nocapture"])
        .env(TRUSTED, &url)
        .env("SSL_CERT_FILE", &certificate)
        .output()
        .unwrap();
    assert!(
        reported.status.success(),
        "{}{}",
        String::from_utf8_lossy(&reported.stdout),
        String::from_utf8_lossy(&reported.stderr)
    );
}
