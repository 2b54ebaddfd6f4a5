//! Clients of the fake service, with times that a test can wait for.

use std::time::Duration;

use steplatch_fake::{FakeService, TOKEN};
use steplatch_remote::{Client, Config, Limits, Token};

pub(crate) fn config(service: &FakeService) -> Config {
    Config { enabled: true, base_url: service.url(), token: Some(Token::Value(TOKEN.to_owned())), ..Config::default() }
}

pub(crate) fn quick() -> Limits {
    Limits {
        answering: Duration::from_secs(1),
        starting: Duration::from_secs(1),
        pausing: Duration::from_millis(1),
        ..Limits::default()
    }
}

pub(crate) fn client(service: &FakeService) -> Client {
    Client::with(&config(service), quick()).expect("a client")
}
