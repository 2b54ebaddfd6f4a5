//! Questions to a service, over HTTP.
//!
//! Thin: what answers mean is decided elsewhere. The token goes to the service's own
//! origin only, wherever it redirects to or says that the next page is, and is taken
//! out of everything that comes back. Answers are read up to a bound.

mod answer;
mod error;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, ACCEPT_LANGUAGE, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION};
use reqwest::{Method, Response, Url};
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, OnceCell};

pub use error::{AskError, SetUpError, StartError};

use crate::config::{Config, Secret, Token, is_loopback};
use crate::filter::Filter;
use crate::listing::{Listing, MOST_BYTES, MOST_PAGES, Page};
use crate::pace;
use crate::status::{Started, Status};
use answer::Answer;
use error::Trouble;

/// Redirects that are followed, within an origin.
const MOST_REDIRECTS: usize = 5;

/// How long things may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Until there is a connection.
    pub connecting: Duration,
    /// Until a question is answered.
    pub answering: Duration,
    /// Until a start is answered. Longer, because giving up on one leaves it unknown.
    pub starting: Duration,
    /// Before a question is asked a second time; twice as long each further time.
    pub pausing: Duration,
    /// Bytes of an answer.
    pub most_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connecting: Duration::from_secs(10),
            answering: Duration::from_secs(30),
            starting: Duration::from_secs(60),
            pausing: Duration::from_millis(500),
            most_bytes: MOST_BYTES,
        }
    }
}

/// A client of one service. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    base: Url,
    token: Option<Token>,
    filter: Filter,
    retry_attempts: u32,
    limits: Limits,
    /// Made when it is first needed: reading the system's certificates takes a while.
    web: OnceCell<reqwest::Client>,
    /// The token of a keyring, which is not asked each time: it may be slow, and a person may have to unlock it.
    kept: Mutex<Option<Secret>>,
}

/// What came of asking that a run be cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// The service was asked, and will say by the run's status when it is.
    Asked,
    /// It knows no such request, so the run goes on there.
    NotSupported,
}

impl Client {
    /// Makes a client with the usual limits. Nothing is asked yet.
    ///
    /// # Errors
    ///
    /// If the configuration was not read by [`Config`]'s readers, and has no usable URL.
    pub fn new(config: &Config) -> Result<Self, SetUpError> {
        Self::with(config, Limits::default())
    }

    /// Makes a client with these limits.
    ///
    /// # Errors
    ///
    /// As of [`Client::new`].
    pub fn with(config: &Config, limits: Limits) -> Result<Self, SetUpError> {
        let wrong = |_| SetUpError::Url(config.base_url.clone());
        let base: Url = config.base_url.parse().map_err(wrong)?;
        if base.cannot_be_a_base() {
            return Err(SetUpError::Url(config.base_url.clone()));
        }
        Ok(Self(Arc::new(Inner {
            base,
            token: config.token.clone(),
            filter: Filter::new(&config.filter_patterns),
            retry_attempts: config.retry_attempts,
            limits,
            web: OnceCell::new(),
            kept: Mutex::new(None),
        })))
    }

    /// Asks which workflows there are, over all pages, and leaves out those that the configuration filters. A page that can
    /// not be had in passing is asked for again, as often as the configuration says.
    ///
    /// # Errors
    ///
    /// If a page can not be had, or is no list. Nothing of the others is returned then.
    pub async fn list(&self) -> Result<Listing, AskError> {
        let mut listing = Listing::default();
        let mut url = self.url(&["mcp"])?;
        let mut seen = BTreeSet::new();
        loop {
            if !seen.insert(url.to_string()) {
                listing.cut("The pages of the list lead in a circle; those that were seen are taken.");
                break;
            }
            if seen.len() > MOST_PAGES {
                listing.cut("The list has too many pages; the first hundred are taken.");
                break;
            }
            let asked = &url;
            let page = self.patiently(move || async move {
                let answer = self.get(asked.clone()).await?;
                answer.read(Page::read).await
            });
            let page = page.await?;
            let next = page.next.clone();
            let adding = apart(move || {
                listing.add(page);
                listing
            });
            listing = adding.await;
            let Some(next) = next else { break };
            match url.join(&next) {
                Ok(next) if next.origin() == self.0.base.origin() => url = next,
                _ => {
                    listing
                        .cut("The list goes on at another address, which is not asked because it would get the token.");
                    break;
                }
            }
            if listing.is_cut {
                break;
            }
        }
        listing.workflows.retain(|workflow| self.0.filter.admits(&workflow.title));
        Ok(listing)
    }

    /// Starts a workflow. It is asked once: what is not known to have been refused may have been started.
    ///
    /// # Errors
    ///
    /// [`StartError::Refused`] if it was certainly not started, [`StartError::Unknown`] if nobody can tell.
    pub async fn start(
        &self,
        id: &str,
        input: &Map<String, Value>,
        idempotency_key: &str,
    ) -> Result<Started, StartError> {
        let refused = |words: String| StartError::Refused { words, status: None, retry_after: None };
        let url = self.url(&[id, "start"]).map_err(|error| refused(error.words))?;
        let key: HeaderValue =
            idempotency_key.parse().map_err(|_| refused("The idempotency key can not be sent.".to_owned()))?;
        let body = json!({ "input": input, "source": "application" });
        let request = Request { method: Method::POST, url, body: Some(body), key: Some(key) };
        let answer = match self.ask(&request, self.0.limits.starting).await {
            Ok(answer) => answer,
            Err(Trouble::NotSent(words)) => return Err(refused(words)),
            Err(Trouble::Lost(words)) => return Err(StartError::Unknown { words }),
        };
        match answer.status.as_u16() {
            200..=299 => answer.json().and_then(|json| Started::read(&json)).map_err(|why| StartError::Unknown {
                words: format!("The service answered the start with {}, and {why}.", answer.status.as_u16()),
            }),
            // These two say that the same request belongs elsewhere, and others that it was done.
            301 | 307 | 308 => Err(refused(format!("{} It is not followed; correct base_url.", answer.words()))),
            status @ 400..=499 => Err(StartError::Refused {
                words: answer.words(),
                status: Some(status),
                retry_after: answer.retry_after,
            }),
            _ => Err(StartError::Unknown { words: answer.words() }),
        }
    }

    /// Asks how a run is, once: when to ask again is for whoever follows it to say, see [`crate::Pace`].
    ///
    /// # Errors
    ///
    /// If the service can not be asked or does not tell; [`AskError::passing`] says whether it may tell later.
    pub async fn status(&self, id: &str, instance: &str) -> Result<Status, AskError> {
        let answer = self.get(self.url(&[id, "runs", instance, "status"])?).await?;
        answer.read(|json| Status::read(&json)).await
    }

    /// Asks that a run be cancelled, again if that fails in passing: cancelling twice is no worse than once.
    ///
    /// # Errors
    ///
    /// If the service can not be asked, or refuses.
    pub async fn cancel(&self, id: &str, instance: &str) -> Result<Cancelled, AskError> {
        let url = self.url(&[id, "runs", instance, "cancel"])?;
        let request = Request { method: Method::POST, url, body: Some(json!({})), key: None };
        let request = &request;
        let asked = self.patiently(move || async move {
            let answer = self.ask(request, self.0.limits.answering).await?;
            match answer.status.as_u16() {
                200..=299 => Ok(Cancelled::Asked),
                404 | 405 => Ok(Cancelled::NotSupported),
                _ => Err(answer.error()),
            }
        });
        asked.await
    }

    /// Asks until there is an answer or a failure that does not pass, as often as is configured.
    ///
    /// What is asked is a function that returns a future: of an async closure nobody can tell yet that it may be sent to
    /// another thread.
    async fn patiently<T, F>(&self, question: impl Fn() -> F) -> Result<T, AskError>
    where
        F: Future<Output = Result<T, AskError>>,
    {
        let mut attempt = 0;
        loop {
            let error = match question().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            attempt += 1;
            if !error.passing || attempt > self.0.retry_attempts {
                return Err(error);
            }
            match pace::retry(attempt, self.0.limits.pausing, error.retry_after, jitter()) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(error),
            }
        }
    }

    /// Gets something, also from where the service redirects to on its own origin.
    async fn get(&self, url: Url) -> Result<Answer, AskError> {
        let mut request = Request { method: Method::GET, url, body: None, key: None };
        for _ in 0..=MOST_REDIRECTS {
            let answer = self.ask(&request, self.0.limits.answering).await?;
            if answer.status.is_success() {
                return Ok(answer);
            }
            let target = answer.location.as_deref().and_then(|location| request.url.join(location).ok());
            match target {
                Some(target) if target.origin() == self.0.base.origin() => request.url = target,
                Some(_) => return Err(answer.elsewhere()),
                None => return Err(answer.error()),
            }
        }
        Err(AskError::lasting("The service redirects without end."))
    }

    /// Makes one request and reads its answer.
    async fn ask(&self, request: &Request, limit: Duration) -> Result<Answer, Trouble> {
        let web = self.web().await?;
        let token = self.token().await?;
        let mut sending = web.request(request.method.clone(), request.url.clone()).timeout(limit);
        sending = sending.header(ACCEPT, "application/json").header(ACCEPT_LANGUAGE, "en");
        if let Some(token) = &token {
            let mut value = HeaderValue::from_str(&format!("Api-Key {}", token.expose()))
                .map_err(|_| Trouble::NotSent("The token can not be sent.".to_owned()))?;
            value.set_sensitive(true);
            sending = sending.header(AUTHORIZATION, value);
        }
        if let Some(key) = &request.key {
            sending = sending.header("idempotency-key", key);
        }
        if let Some(body) = &request.body {
            sending = sending.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let response = sending.send().await.map_err(|error| Trouble::of(&error, limit))?;
        let answer = self.read(response, token.as_ref()).await.map_err(|error| Trouble::of(&error, limit))?;
        if answer.status.as_u16() == 401 {
            // There may be a newer one in the keyring by now.
            *self.0.kept.lock().await = None;
        }
        Ok(answer)
    }

    async fn read(&self, response: Response, token: Option<&Secret>) -> reqwest::Result<Answer> {
        let status = response.status();
        let retry_after = answer::retry_after(response.headers(), jiff::Timestamp::now());
        let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
        let location = response.headers().get(LOCATION).filter(|_| is_redirect);
        let location = location.and_then(|location| location.to_str().ok()).map(str::to_owned);
        let body = answer::read(response, self.0.limits.most_bytes).await?;
        Ok(Answer { status, retry_after, location, body, token: token.cloned() })
    }

    async fn web(&self) -> Result<&reqwest::Client, Trouble> {
        let is_here = is_loopback(&self.0.base);
        let connecting = self.0.limits.connecting;
        let making = self.0.web.get_or_try_init(async || {
            let made = tokio::task::spawn_blocking(move || web(is_here, connecting)).await;
            made.map_err(|error| error.to_string())?.map_err(|error| error::causes(&error))
        });
        making.await.map_err(|why| Trouble::NotSent(format!("The HTTP client could not be set up: {why}.")))
    }

    async fn token(&self) -> Result<Option<Secret>, Trouble> {
        let Some(token) = &self.0.token else { return Ok(None) };
        let failed = |error| Trouble::NotSent(format!("There is no token for the service: {error}."));
        if !matches!(token, Token::Keyring(_)) {
            return token.resolve().await.map(Some).map_err(failed);
        }
        let mut kept = self.0.kept.lock().await;
        if kept.is_none() {
            *kept = Some(token.resolve().await.map_err(failed)?);
        }
        Ok(kept.clone())
    }

    /// Returns the URL of something below the workflows of the service. Ids are encoded, so that each is one segment.
    fn url(&self, below: &[&str]) -> Result<Url, AskError> {
        if let Some(id) = below.iter().find(|segment| matches!(**segment, "" | "." | "..")) {
            return Err(AskError::lasting(format!("'{id}' is no id.")));
        }
        let mut url = self.0.base.clone();
        let mut segments = url.path_segments_mut().expect("a URL with a host has a path");
        segments.pop_if_empty().extend(["api", "v1", "service", "workflows"]).extend(below);
        drop(segments);
        Ok(url)
    }
}

/// One request, to be made once.
struct Request {
    method: Method,
    url: Url,
    body: Option<Value>,
    key: Option<HeaderValue>,
}

/// Makes what connections are made with. Proxies are those of the environment, as everywhere, except for services on this
/// machine: what is in clear text must not leave it.
fn web(is_here: bool, connecting: Duration) -> reqwest::Result<reqwest::Client> {
    // Only the first one counts, and whoever comes later gets the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("steplatch/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(connecting);
    if is_here {
        builder = builder.no_proxy();
    }
    builder.build()
}

/// Does something that may take a while on a thread that may block.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and whoever waits here with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Returns a number from 0 to 1 by chance, so that many who wait do not all come at once.
#[must_use]
pub fn jitter() -> f64 {
    f64::from(getrandom::u32().unwrap_or_default()) / f64::from(u32::MAX)
}
