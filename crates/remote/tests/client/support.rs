//! Clients of the fake service, with time limits short enough for tests.

use std::time::Duration;

use serde_json::{Map, Value, json};
use steplatch_fake::{FakeService, TOKEN};
use steplatch_remote::{Client, Config, Limits, Token};

pub(crate) fn config(service: &FakeService) -> Config {
    Config { enabled: true, base_url: service.url(), token: Some(Token::Value(TOKEN.to_owned())), ..Config::default() }
}

/// Limits with short delays, and with a request timeout that suffices on a busy host.
pub(crate) fn limits() -> Limits {
    let request_timeout = Duration::from_secs(60);
    Limits {
        request_timeout,
        start_timeout: request_timeout,
        retry_delay: Duration::from_millis(1),
        ..Limits::default()
    }
}

pub(crate) fn client(service: &FakeService) -> Client {
    Client::with_limits(&config(service), limits()).expect("a client")
}

/// A client with short timeouts, for a service that does not answer.
pub(crate) fn impatient_client(service: &FakeService) -> Client {
    let request_timeout = Duration::from_secs(3);
    Client::with_limits(&config(service), Limits { request_timeout, start_timeout: request_timeout, ..limits() })
        .expect("a client")
}

pub(crate) fn titles(workflows: &[steplatch_remote::RemoteWorkflow]) -> Vec<&str> {
    workflows.iter().map(|workflow| workflow.title.as_str()).collect()
}

pub(crate) fn input() -> Map<String, Value> {
    json!({ "branch": "main" }).as_object().expect("an object").clone()
}

pub(crate) async fn start(client: &Client) -> steplatch_remote::StartedRun {
    client.start("deploy", &input(), "key-1").await.expect("a start")
}
