//! The sender of requests, with the token.
//!
//! Each start uses a new connection: the service may close a kept one at the moment of sending the start on it, and
//! then it is unknown whether the run started.

use std::time::Duration;

use reqwest::header::{ACCEPT, ACCEPT_LANGUAGE, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Method, Response, Url};
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell};

use super::answer::{self, Answer};
use super::error::{Trouble, causes};
use super::{Limits, apart};
use crate::config::{Secret, Token};

/// Time for keeping an idle connection; shorter than services usually keep theirs, so that the client closes it first.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3);

/// One request, to make once.
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) body: Option<Value>,
    /// Key by which the service knows a start.
    pub(super) key: Option<HeaderValue>,
}

/// Sender of requests.
#[derive(Debug)]
pub(super) struct Sender {
    token: Option<Token>,
    /// The token of a keyring, cached: reading may be slow, and may require a person to unlock the keyring.
    kept: Mutex<Option<Secret>>,
    is_here: bool,
    connecting: Duration,
    most_bytes: usize,
    /// For idempotent requests, and for starts; each made on first use, because reading the system's certificates takes
    /// a while.
    webs: [OnceCell<reqwest::Client>; 2],
}

impl Sender {
    /// Sends nothing yet. `is_here` means that the service is on this machine.
    pub(super) fn new(token: Option<Token>, is_here: bool, limits: &Limits) -> Self {
        let Limits { connecting, most_bytes, .. } = *limits;
        Self { token, kept: Mutex::default(), is_here, connecting, most_bytes, webs: Default::default() }
    }

    /// Makes one request and reads its answer.
    pub(super) async fn ask(&self, request: &Request, limit: Duration) -> Result<Answer, Trouble> {
        let web = self.web(request.key.is_some()).await?;
        let token = self.token().await?;
        let mut sending = web.request(request.method.clone(), request.url.clone()).timeout(limit);
        sending = sending.header(ACCEPT, "application/json").header(ACCEPT_LANGUAGE, "en");
        if let Some(token) = &token {
            let mut value = HeaderValue::from_str(&format!("Api-Key {}", token.expose()))
                .map_err(|_| Trouble::NotSent("The token cannot be sent.".to_owned()))?;
            value.set_sensitive(true);
            sending = sending.header(AUTHORIZATION, value);
        }
        if let Some(key) = &request.key {
            sending = sending.header("idempotency-key", key);
        }
        if let Some(body) = &request.body {
            sending = sending.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let response = sending.send().await.map_err(|error| Trouble::from_error(&error, limit))?;
        let answer = self.read(response, token).await.map_err(|error| Trouble::from_error(&error, limit))?;
        if answer.status.as_u16() == 401 {
            // There may be a newer one in the keyring by now.
            *self.kept.lock().await = None;
        }
        Ok(answer)
    }

    async fn read(&self, response: Response, token: Option<Secret>) -> reqwest::Result<Answer> {
        let status = response.status();
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let retry_after = header(RETRY_AFTER).and_then(|when| answer::retry_after(when, jiff::Timestamp::now()));
        let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
        let location = header(LOCATION).filter(|_| is_redirect).map(str::to_owned);
        let body = answer::read(response, self.most_bytes).await?;
        Ok(Answer { status, retry_after, location, body, token })
    }

    async fn token(&self) -> Result<Option<Secret>, Trouble> {
        let Some(token) = &self.token else { return Ok(None) };
        let failed = |error| Trouble::NotSent(format!("There is no token for the service: {error}."));
        if !matches!(token, Token::Keyring(_)) {
            return token.resolve().await.map(Some).map_err(failed);
        }
        let mut kept = self.kept.lock().await;
        if kept.is_none() {
            *kept = Some(token.resolve().await.map_err(failed)?);
        }
        Ok(kept.clone())
    }

    async fn web(&self, is_start: bool) -> Result<&reqwest::Client, Trouble> {
        let (is_here, connecting) = (self.is_here, self.connecting);
        let making = self.webs[usize::from(is_start)].get_or_try_init(move || async move {
            apart(move || web(is_here, is_start, connecting)).await.map_err(|error| causes(&error))
        });
        making.await.map_err(|error| Trouble::NotSent(format!("The HTTP client could not be set up: {error}.")))
    }
}

/// Makes the HTTP client. Proxies are those of the environment, as everywhere, except for services on this machine:
/// what is in clear text must not leave it.
fn web(is_here: bool, is_start: bool, connecting: Duration) -> reqwest::Result<reqwest::Client> {
    // Only the first installation takes effect; later calls get the same provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("steplatch/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(connecting)
        .pool_idle_timeout(IDLE_TIMEOUT);
    if is_here {
        builder = builder.no_proxy();
    }
    if is_start {
        builder = builder.pool_max_idle_per_host(0);
    }
    builder.build()
}
