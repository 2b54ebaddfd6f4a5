//! HTTP requests against a local server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{self, Answer, Server, node, response};
use serde_json::{Value, json};
use steplatch_nodes::{Call, ErrorType, MASK, NodeEnvironment, Nodes};
use steplatch_patience::free_port;

fn nodes() -> Nodes {
    let secrets = BTreeMap::from([("KEY".to_owned(), "hunter22".to_owned())]);
    let node_environment =
        NodeEnvironment { secrets: Arc::new(secrets), ..NodeEnvironment::of_this_process().unwrap() };
    Nodes::new(node_environment)
}

#[tokio::test]
async fn request_is_sent_as_declared_and_its_answer_is_a_value() {
    let server = Server::start(|_, _| support::json(&json!({"id": 7}))).await;
    let post = node(
        json!({"id": "post", "type": "http", "method": "POST", "url": format!("{}/v1/{{name}}?q={{input}}", server.url),
        "headers": {"X-Who": "{name}"}, "json": {"name": "{name}", "all": "{input}", "n": 1}}),
    );
    let result = nodes().run(&post, Call::new(json!({"name": "a b/c"}))).await;
    assert!(result.success, "{result:?}");
    assert_eq!(result.output, json!({"id": 7}));
    assert_eq!((&result.attributes["status"], &result.attributes["redirects"]), (&json!(200), &json!(0)));
    let request = &server.requests()[0];
    assert_eq!(request.line, "POST /v1/a%20b%2Fc?q=%7B%22name%22%3A%22a%20b%2Fc%22%7D HTTP/1.1");
    assert_eq!(request.header("x-who"), Some("a b/c"));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.json(), json!({"name": "a b/c", "all": {"name": "a b/c"}, "n": 1}));
}

#[tokio::test]
async fn error_status_is_a_failure_with_the_body() {
    let server = Server::start(|_, _| response("404 Not Found", "content-type: text/plain\r\n", "no such thing")).await;
    let get = node(json!({"id": "get", "type": "http", "url": "{input}"}));
    let result = nodes().run(&get, Call::new(format!("{}/x", server.url))).await;
    assert_eq!((result.success, result.error_type), (false, Some(ErrorType::Status)));
    assert_eq!(result.error.as_deref(), Some("The server answered 404 Not Found."));
    assert_eq!(result.output, "no such thing");
}

#[tokio::test]
async fn secret_reaches_the_server_but_no_result() {
    let server = Server::start(|request, _| response("200 OK", "", &format!("you sent {:?}", request.headers))).await;
    let get = node(json!({"id": "get", "type": "http", "url": format!("{}/?k={{secret:KEY}}", server.url),
        "headers": {"Authorization": "Bearer {secret:KEY}"}}));
    let result = nodes().run(&get, Call::new("{secret:KEY}")).await;
    let request = &server.requests()[0];
    assert_eq!(request.header("authorization"), Some("Bearer hunter22"));
    assert_eq!(request.line, "GET /?k=hunter22 HTTP/1.1");
    let reported = serde_json::to_string(&result).unwrap();
    assert!(!reported.contains("hunter22") && reported.contains(MASK), "{reported}");
}

#[tokio::test]
async fn redirects_do_not_send_secrets_to_another_origin() {
    let target_server = Server::start(|_, _| response("200 OK", "", "there")).await;
    let target = target_server.url.clone();
    let server = Server::start(move |request, _| match request.line.split(' ').nth(1).unwrap() {
        "/here" => response("302 Found", "location: /there\r\n", ""),
        "/there" => response("200 OK", "", "same origin"),
        "/away" => response("303 See Other", &format!("location: {target}/\r\n"), ""),
        "/keep" => response("307 Temporary Redirect", &format!("location: {target}/\r\n"), ""),
        _ => response("302 Found", "location: /round\r\n", ""),
    })
    .await;
    let run = async |path: &str, more: Value| {
        let mut declared = json!({"id": "r", "type": "http", "url": format!("{}{path}", server.url),
            "headers": {"X-Key": "{secret:KEY}", "X-Open": "yes"}});
        declared.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        nodes().run(&node(declared), Call::default()).await
    };
    let result = run("/here", json!({})).await;
    assert_eq!((&result.output, &result.attributes["redirects"]), (&json!("same origin"), &json!(1)));
    assert_eq!(server.requests()[1].header("x-key"), Some("hunter22"));

    let result = run("/away", json!({"method": "POST", "body": "{secret:KEY}"})).await;
    assert_eq!(result.output, "there");
    let redirected_request = &target_server.requests()[0];
    assert_eq!(
        (redirected_request.line.as_str(), redirected_request.header("x-key"), redirected_request.header("x-open")),
        ("GET / HTTP/1.1", None, Some("yes"))
    );
    assert_eq!(redirected_request.body, "");

    let result = run("/keep", json!({"method": "POST", "body": "{secret:KEY}"})).await;
    assert_eq!(
        result.error.as_deref(),
        Some("The server redirects the request to 127.0.0.1, but it contains a secret.")
    );
    assert_eq!(target_server.requests().len(), 1);

    let result = run("/round", json!({"max_redirects": 3})).await;
    assert_eq!((&result.attributes["status"], &result.attributes["redirects"]), (&json!(302), &json!(3)));
    assert!(!result.success);
}

#[tokio::test]
async fn response_beyond_the_limit_fails() {
    let server = Server::start(|_, _| {
        let mut pieces = vec![b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_vec()];
        pieces.extend(std::iter::repeat_n(vec![b'x'; 1000], 1000));
        Answer::Pieces(pieces)
    })
    .await;
    let get = node(json!({"id": "get", "type": "http", "url": server.url, "max_bytes": 1500}));
    let result = nodes().run(&get, Call::default()).await;
    assert_eq!(result.error_type, Some(ErrorType::TooLarge));
    assert_eq!(result.output, Value::Null, "an incomplete body is not returned");
}

#[tokio::test]
async fn silent_and_missing_servers_are_distinguished() {
    let server = Server::start(|_, _| Answer::Silence).await;
    let get = node(json!({"id": "get", "type": "http", "url": "{input}", "timeout": 0.2}));
    let result = nodes().run(&get, Call::new(server.url.clone())).await;
    assert_eq!(result.error_type, Some(ErrorType::Timeout));
    let patient = node(json!({"id": "get", "type": "http", "url": "{input}"}));
    let result = nodes()
        .run(
            &patient,
            Call { timeout: Some(Duration::from_secs(60)), ..Call::new(format!("http://127.0.0.1:{}", free_port())) },
        )
        .await;
    assert_eq!(result.error_type, Some(ErrorType::Connection));
    assert!(result.error.unwrap().starts_with("The server cannot be reached"));
    for (url, message) in [
        ("nonsense", "'nonsense' is not a URL: relative URL without a base."),
        ("file:///etc/passwd", "A URL must begin with http: or https:, not with file:."),
    ] {
        let result = nodes().run(&patient, Call::new(url)).await;
        assert_eq!((result.error.as_deref(), result.error_type), (Some(message), Some(ErrorType::InvalidInput)));
    }
}
