//! Sender of HTTP requests to a service, with its token.
//!
//! Each start uses a new connection. The service may close an idle connection while the start is being sent, and then
//! the outcome of the start is unknown.

use std::time::Duration;

use reqwest::header::{ACCEPT, ACCEPT_LANGUAGE, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Method, Response, Url};
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell};

use super::Limits;
use super::answer::{self, Answer};
use super::error::{SendError, root_cause};
use crate::blocking::run_blocking;
use crate::config::{Secret, Token};

/// Maximum idle time of a connection: shorter than the limit of most services, so that the client closes the connection
/// first.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3);

/// A request that is sent once.
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) body: Option<Value>,
    /// Idempotency key of a start.
    pub(super) idempotency_key: Option<HeaderValue>,
}

/// Sender of requests.
#[derive(Debug)]
pub(super) struct Sender {
    token: Option<Token>,
    /// Token from a keyring, cached: reading it may be slow, and may require a person to unlock the keyring.
    cached_token: Mutex<Option<Secret>>,
    is_local: bool,
    connect_timeout: Duration,
    max_response_bytes: usize,
    /// HTTP clients for idempotent requests and for starts, built on first use: loading the system's certificates is
    /// slow.
    clients: [OnceCell<reqwest::Client>; 2],
}

impl Sender {
    /// Creates a sender without connecting. `is_local` is true if the service runs on this host.
    pub(super) fn new(token: Option<Token>, is_local: bool, limits: &Limits) -> Self {
        let Limits { connect_timeout, max_response_bytes, .. } = *limits;
        Self {
            token,
            cached_token: Mutex::default(),
            is_local,
            connect_timeout,
            max_response_bytes,
            clients: Default::default(),
        }
    }

    /// Sends a request and reads its answer.
    pub(super) async fn send(&self, request: &Request, limit: Duration) -> Result<Answer, SendError> {
        let client = self.client(request.idempotency_key.is_some()).await?;
        let token = self.resolve_token().await?;
        let mut builder = client.request(request.method.clone(), request.url.clone()).timeout(limit);
        builder = builder.header(ACCEPT, "application/json").header(ACCEPT_LANGUAGE, "en");
        if let Some(token) = &token {
            let mut value = HeaderValue::from_str(&format!("Api-Key {}", token.expose()))
                .map_err(|_| SendError::NotSent("The token cannot be sent.".to_owned()))?;
            value.set_sensitive(true);
            builder = builder.header(AUTHORIZATION, value);
        }
        if let Some(key) = &request.idempotency_key {
            builder = builder.header("idempotency-key", key);
        }
        if let Some(body) = &request.body {
            builder = builder.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let response = builder.send().await.map_err(|error| SendError::from_error(&error, limit))?;
        let answer = self.read_answer(response, token).await.map_err(|error| SendError::from_error(&error, limit))?;
        if answer.status.as_u16() == 401 {
            // The keyring may have a newer token.
            *self.cached_token.lock().await = None;
        }
        Ok(answer)
    }

    async fn read_answer(&self, response: Response, token: Option<Secret>) -> reqwest::Result<Answer> {
        let status = response.status();
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let retry_after = header(RETRY_AFTER).and_then(|text| answer::parse_retry_after(text, jiff::Timestamp::now()));
        let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
        let location = header(LOCATION).filter(|_| is_redirect).map(str::to_owned);
        let body = answer::read_body(response, self.max_response_bytes).await?;
        Ok(Answer { status, retry_after, location, body, token })
    }

    async fn resolve_token(&self) -> Result<Option<Secret>, SendError> {
        let Some(token) = &self.token else { return Ok(None) };
        let token_error = |error| SendError::NotSent(format!("The token of the service is not available: {error}."));
        if !token.runs_program() {
            return token.resolve().await.map(Some).map_err(token_error);
        }
        let mut cached_token = self.cached_token.lock().await;
        if cached_token.is_none() {
            *cached_token = Some(token.resolve().await.map_err(token_error)?);
        }
        Ok(cached_token.clone())
    }

    async fn client(&self, is_start: bool) -> Result<&reqwest::Client, SendError> {
        let (is_local, connect_timeout) = (self.is_local, self.connect_timeout);
        let client = self.clients[usize::from(is_start)].get_or_try_init(move || async move {
            run_blocking(move || build_client(is_local, is_start, connect_timeout))
                .await
                .map_err(|error| root_cause(&error))
        });
        client.await.map_err(|error| SendError::NotSent(format!("The HTTP client could not be created: {error}.")))
    }
}

/// Installs the cryptography of TLS for this process, which a client of HTTP needs.
pub fn install_tls() {
    // Only the first installation takes effect.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Builds an HTTP client with the proxies of the environment. Services on this host have no proxy, because their
/// unencrypted requests must not leave the host.
fn build_client(is_local: bool, is_start: bool, connect_timeout: Duration) -> reqwest::Result<reqwest::Client> {
    install_tls();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("steplatch/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(connect_timeout)
        .pool_idle_timeout(IDLE_TIMEOUT);
    if is_local {
        builder = builder.no_proxy();
    }
    if is_start {
        builder = builder.pool_max_idle_per_host(0);
    }
    builder.build()
}
