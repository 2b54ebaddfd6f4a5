//! Models, simulated by a local server with the chat completions API.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::support::{self, Answer, Server, node, response};
use serde_json::{Value, json};
use steplatch_nodes::{Call, ErrorType, Node, NodeEnvironment, Nodes};

fn nodes() -> Nodes {
    let secrets = BTreeMap::from([("KEY".to_owned(), "sk-hunter22".to_owned())]);
    let node_environment =
        NodeEnvironment { secrets: Arc::new(secrets), ..NodeEnvironment::of_this_process().unwrap() };
    Nodes::new(node_environment)
}

fn model(server: &Server, more: Value) -> Node {
    let mut declared = json!({"id": "writer", "type": "llm", "base_url": format!("{}/v1/", server.url),
        "api_key": "{secret:KEY}", "model": "small-1", "retry_delay": 0.01});
    declared.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    node(declared)
}

/// An answer in one piece, as documented by OpenAI.
fn completion(text: &str) -> Answer {
    support::json(&json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "small-1-2026",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text, "refusal": null}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}}))
}

/// The head of a stream, with its events.
fn stream(events: &[Value], done: bool) -> Vec<u8> {
    let mut response_text =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n: ping\n\n".to_owned();
    for event in events {
        response_text.push_str(&format!("data: {event}\n\n"));
    }
    if done {
        response_text.push_str("data: [DONE]\n\n");
    }
    response_text.into_bytes()
}

fn delta(delta: Value, finish: Option<&str>) -> Value {
    json!({"id": "chatcmpl-2", "object": "chat.completion.chunk", "created": 1, "model": "small-1-2026",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": null})
}

#[tokio::test]
async fn request_has_the_format_of_the_api() {
    let server = Server::start(|_, _| completion("42")).await;
    let node = model(&server, json!({"system": "Be brief.", "prompt": "Why? {input}", "options": {"temperature": 0}}));
    let result = nodes().run(&node, Call::new("{secret:KEY}")).await;
    assert!(result.success, "{result:?}");
    assert_eq!(result.output, "42");
    assert_eq!(result.attributes["finish_reason"], "stop");
    assert_eq!(result.attributes["usage"]["total_tokens"], 7);
    let request = &server.requests()[0];
    assert_eq!(request.line, "POST /v1/chat/completions HTTP/1.1");
    assert_eq!(request.header("authorization"), Some("Bearer sk-hunter22"));
    assert_eq!(
        request.json(),
        json!({"model": "small-1", "temperature": 0, "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Why? {secret:KEY}"}]})
    );
    let messages = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]);
    nodes().run(&model(&server, json!({})), Call::new(messages.clone())).await;
    assert_eq!(server.requests()[1].json()["messages"], messages);
    let result = nodes().run(&model(&server, json!({})), Call::new(json!(["a"]))).await;
    assert_eq!(result.error_type, Some(ErrorType::InvalidInput));
}

#[tokio::test]
async fn stream_is_forwarded_wherever_its_bytes_are_split() {
    let server = Server::start(|_, count| {
        let response_bytes = stream(
            &[
                delta(json!({"role": "assistant", "content": ""}), None),
                delta(json!({"content": "Grüße"}), None),
                delta(json!({"content": ", Welt"}), None),
                delta(json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{\"a\""}}]}), None),
                delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}), None),
                delta(json!({}), Some("stop")),
                json!({"id": "chatcmpl-2", "choices": [], "usage": {"total_tokens": 9}}),
            ],
            true,
        );
        Answer::Pieces(response_bytes.chunks(count * 6 + 1).map(<[u8]>::to_vec).collect())
    })
    .await;
    for _ in 0..3 {
        let reported: Arc<Mutex<Vec<String>>> = Arc::default();
        let collected = reported.clone();
        let call = Call {
            on_text: Some(Arc::new(move |text| collected.lock().unwrap().push(text.to_owned()))),
            ..Call::new("hi")
        };
        let result = nodes().run(&model(&server, json!({"stream": true})), call).await;
        assert!(result.success, "{result:?}");
        assert_eq!(result.output, "Grüße, Welt");
        assert_eq!(result.attributes["usage"]["total_tokens"], 9);
        assert_eq!(result.attributes["tool_calls"][0]["function"], json!({"name": "add", "arguments": "{\"a\":1}"}));
        assert_eq!(*reported.lock().unwrap(), ["Grüße", ", Welt"]);
    }
    let request = server.requests()[0].json();
    assert_eq!((&request["stream"], &request["stream_options"]), (&json!(true), &json!({"include_usage": true})));
}

#[tokio::test]
async fn busy_endpoint_is_retried() {
    let server = Server::start(|_, count| match count {
        0 => response("429 Too Many Requests", "retry-after: 0\r\n", r#"{"error": {"message": "slow down"}}"#),
        1 => response("503 Service Unavailable", "", "overloaded"),
        2 => response("500 Internal Server Error", "retry-after: Wed, 21 Oct 2015 07:28:00 GMT\r\n", ""),
        _ => completion("at last"),
    })
    .await;
    let result = nodes().run(&model(&server, json!({})), Call::new("hi")).await;
    assert_eq!((&result.output, &result.attributes["attempts"]), (&json!("at last"), &json!(4)));
}

#[tokio::test]
async fn retries_end_and_permanent_errors_are_not_retried() {
    let busy =
        Server::start(|_, _| response("429 Too Many Requests", "", r#"{"error": {"message": "quota is used up"}}"#))
            .await;
    let result = nodes().run(&model(&busy, json!({"retries": 2})), Call::new("hi")).await;
    assert_eq!(result.error.as_deref(), Some("The endpoint answered 429: quota is used up"));
    assert_eq!((result.error_type, busy.requests().len()), (Some(ErrorType::Status), 3));
    let slow_server = Server::start(|_, _| response("429 Too Many Requests", "retry-after: 3600\r\n", "")).await;
    let result = nodes().run(&model(&slow_server, json!({})), Call::new("hi")).await;
    assert_eq!(
        (result.success, slow_server.requests().len()),
        (false, 1),
        "a requested delay of an hour fails the call"
    );
    let wrong =
        Server::start(|_, _| response("401 Unauthorized", "", r#"{"error": {"message": "bad key sk-hunter22"}}"#))
            .await;
    let result = nodes().run(&model(&wrong, json!({})), Call::new("hi")).await;
    assert_eq!(result.error.as_deref(), Some("The endpoint answered 401: bad key ••••••"));
    assert_eq!(wrong.requests().len(), 1);
    let page = Server::start(|_, _| response("200 OK", "content-type: text/html\r\n", "<html>")).await;
    let result = nodes().run(&model(&page, json!({})), Call::new("hi")).await;
    assert_eq!(result.error_type, Some(ErrorType::Protocol));
}

#[tokio::test]
async fn requested_delay_of_an_endpoint_is_observed() {
    let server = Server::start(|_, count| match count {
        0 => response("429 Too Many Requests", "retry-after: 1\r\n", ""),
        _ => completion("now"),
    })
    .await;
    let start = std::time::Instant::now();
    nodes().run(&model(&server, json!({})), Call::new("hi")).await;
    assert!(start.elapsed().as_secs_f64() >= 1.0);
}

#[tokio::test]
async fn broken_stream_keeps_its_text_and_is_not_retried() {
    let server =
        Server::start(|_, _| Answer::Pieces(vec![stream(&[delta(json!({"content": "half"}), None)], false)])).await;
    let result = nodes().run(&model(&server, json!({"stream": true})), Call::new("hi")).await;
    assert_eq!((result.error_type, &result.output), (Some(ErrorType::Connection), &json!("half")));
    assert_eq!(server.requests().len(), 1);
    let server =
        Server::start(|_, _| Answer::Pieces(vec![stream(&[delta(json!({"content": "all"}), Some("stop"))], false)]))
            .await;
    let result = nodes().run(&model(&server, json!({"stream": true})), Call::new("hi")).await;
    assert!(result.success, "a connection closed after a finished answer is a success: {result:?}");
}

#[tokio::test]
async fn interrupted_call_keeps_its_text() {
    let server = Server::start(|_, _| Answer::Silence).await;
    let result = nodes().run(&model(&server, json!({"timeout": 0.2})), Call::new("hi")).await;
    assert_eq!((result.error_type, &result.attributes["attempts"]), (Some(ErrorType::Timeout), &json!(1)));
}
