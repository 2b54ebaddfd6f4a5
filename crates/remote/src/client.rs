//! The HTTP client of a remote service.
//!
//! It only sends requests and reads responses; the other modules interpret them. It sends the token to the service's
//! own origin only, whatever redirects and next-page links say, and removes it from all responses. It reads responses
//! up to a bound.

mod answer;
mod error;
mod sender;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use reqwest::header::HeaderValue;
use reqwest::{Method, Url};
use serde_json::{Map, Value, json};

pub use error::{AskError, SetUpError, StartError};

use crate::backoff;
use crate::config::{Config, is_loopback};
use crate::filter::Filter;
use crate::listing::{Listing, MAX_ANSWER_BYTES, MAX_PAGES, Page};
use crate::status::{StartedRun, Status};
use answer::Answer;
use error::Trouble;
use sender::{Request, Sender};

/// Maximum number of followed redirects, within an origin.
const MAX_REDIRECTS: usize = 5;

/// Time limits of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Until the end of connecting.
    pub connecting: Duration,
    /// Until the response to a request.
    pub answering: Duration,
    /// Until the response to a start. Longer, because after a time-out it is unknown whether the run started.
    pub starting: Duration,
    /// Until a list is complete, over all its pages.
    pub listing: Duration,
    /// Before the first retry; doubled for each further one.
    pub pausing: Duration,
    /// The most bytes of a response.
    pub most_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connecting: Duration::from_secs(10),
            answering: Duration::from_secs(30),
            starting: Duration::from_secs(60),
            listing: Duration::from_secs(120),
            pausing: Duration::from_millis(500),
            most_bytes: MAX_ANSWER_BYTES,
        }
    }
}

/// A client of one service. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    base: Url,
    filter: Filter,
    retry_attempts: u32,
    limits: Limits,
    sender: Sender,
}

/// The result of a request to cancel a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// The service accepted the request; the run's status will show the end.
    Asked,
    /// The service does not support the request, so the run continues there.
    NotSupported,
}

impl Client {
    /// Makes a client with the usual limits. Sends nothing yet.
    ///
    /// # Errors
    ///
    /// If the configuration does not come from [`Config`]'s readers, and has no usable URL.
    pub fn new(config: &Config) -> Result<Self, SetUpError> {
        Self::with(config, Limits::default())
    }

    /// Makes a client with these limits.
    ///
    /// # Errors
    ///
    /// As of [`Client::new`].
    pub fn with(config: &Config, limits: Limits) -> Result<Self, SetUpError> {
        let url_error = |_| SetUpError::Url(config.base_url.clone());
        let base: Url = config.base_url.parse().map_err(url_error)?;
        if base.cannot_be_a_base() {
            return Err(SetUpError::Url(config.base_url.clone()));
        }
        Ok(Self(Arc::new(Inner {
            sender: Sender::new(config.token.clone(), is_loopback(&base), &limits),
            base,
            filter: Filter::new(&config.filter_patterns),
            retry_attempts: config.retry_attempts,
            limits,
        })))
    }

    /// Requests the list of workflows, over all pages, without those that the configuration excludes. Repeats the
    /// request for a page after a temporary failure, as often as the configuration states.
    ///
    /// # Errors
    ///
    /// If a page is not available, or is not a list. It returns nothing of the other pages then.
    #[boxed]
    pub async fn list(&self) -> Result<Listing, AskError> {
        let limit = self.0.limits.listing;
        let late =
            |_| AskError::passing(format!("The service did not give its list within {} seconds.", limit.as_secs_f64()));
        let mut listing = tokio::time::timeout(limit, self.pages()).await.map_err(late)??;
        listing.workflows.retain(|workflow| self.0.filter.admits(&workflow.title));
        Ok(listing)
    }

    async fn pages(&self) -> Result<Listing, AskError> {
        let mut listing = Listing::default();
        let mut url = self.url(&["mcp"])?;
        let mut seen = BTreeSet::new();
        loop {
            if !seen.insert(url.to_string()) {
                listing.cut("The pages of the list lead in a circle; those that were seen are taken.");
                break;
            }
            if seen.len() > MAX_PAGES {
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
                        .cut("The list continues at another address, which is not requested because it would receive the token.");
                    break;
                }
            }
            if listing.is_cut {
                break;
            }
        }
        Ok(listing)
    }

    /// Starts a workflow. Sends the request once: unless the service certainly refused it, the run may have started.
    ///
    /// # Errors
    ///
    /// [`StartError::Refused`] if it certainly did not start, [`StartError::Unknown`] if that is unknown.
    #[boxed]
    pub async fn start(
        &self,
        id: &str,
        input: &Map<String, Value>,
        idempotency_key: &str,
    ) -> Result<StartedRun, StartError> {
        let refused = |words: String| StartError::Refused { words, status: None, retry_after: None };
        let url = self.url(&[id, "start"]).map_err(|error| refused(error.words))?;
        let key: HeaderValue =
            idempotency_key.parse().map_err(|_| refused("The idempotency key cannot be sent.".to_owned()))?;
        let body = json!({ "input": input, "source": "application" });
        let request = Request { method: Method::POST, url, body: Some(body), key: Some(key) };
        let answer = match self.0.sender.ask(&request, self.0.limits.starting).await {
            Ok(answer) => answer,
            Err(Trouble::NotSent(words)) => return Err(refused(words)),
            Err(Trouble::Lost(words)) => return Err(StartError::Unknown { words }),
        };
        match answer.status.as_u16() {
            200..=299 => answer.json().and_then(|json| StartedRun::read(&json)).map_err(|why| StartError::Unknown {
                words: format!("The service answered the start with {}, and {why}.", answer.status.as_u16()),
            }),
            // These codes say that the request belongs elsewhere; the other redirects mean that the server performed
            // it.
            301 | 307 | 308 => Err(refused(format!("{} It is not followed; correct base_url.", answer.error_text()))),
            status @ 400..=499 => Err(StartError::Refused {
                words: answer.error_text(),
                status: Some(status),
                retry_after: answer.retry_after,
            }),
            _ => Err(StartError::Unknown { words: answer.error_text() }),
        }
    }

    /// Requests the status of a run, once. The caller decides when to request it again, see [`crate::Pace`].
    ///
    /// # Errors
    ///
    /// If the service is not reachable or gives no status; [`AskError::passing`] states whether a later request may
    /// succeed.
    #[boxed]
    pub async fn status(&self, id: &str, instance: &str) -> Result<Status, AskError> {
        let answer = self.get(self.url(&[id, "runs", instance, "status"])?).await?;
        answer.read(|json| Status::read(&json)).await
    }

    /// Requests the cancellation of a run, and retries on temporary failures: cancelling is idempotent.
    ///
    /// # Errors
    ///
    /// If the service is not reachable, or refuses.
    #[boxed]
    pub async fn cancel(&self, id: &str, instance: &str) -> Result<Cancelled, AskError> {
        let url = self.url(&[id, "runs", instance, "cancel"])?;
        let request = Request { method: Method::POST, url, body: Some(json!({})), key: None };
        let request = &request;
        let asked = self.patiently(move || async move {
            let answer = self.0.sender.ask(request, self.0.limits.answering).await?;
            match answer.status.as_u16() {
                200..=299 => Ok(Cancelled::Asked),
                404 | 405 => Ok(Cancelled::NotSupported),
                _ => Err(answer.error()),
            }
        });
        asked.await
    }

    /// Repeats a request until there is an answer or a permanent failure, as often as the configuration states.
    ///
    /// The request is a function that returns a future, because a bound cannot yet require an async closure to be
    /// `Send`.
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
            match backoff::retry(attempt, self.0.limits.pausing, error.retry_after, jitter()) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(error),
            }
        }
    }

    /// Sends a GET request, and follows redirects within the service's own origin.
    async fn get(&self, url: Url) -> Result<Answer, AskError> {
        let mut request = Request { method: Method::GET, url, body: None, key: None };
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.0.sender.ask(&request, self.0.limits.answering).await?;
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

    /// Returns a URL below the workflows of the service. Encodes ids, so that each is one segment.
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

/// Runs blocking work on a thread that may block.
pub(crate) async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and drops this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Returns a random number from 0 to 1, so that many waiting clients do not all send at once.
#[must_use]
pub fn jitter() -> f64 {
    f64::from(getrandom::u32().unwrap_or_default()) / f64::from(u32::MAX)
}
