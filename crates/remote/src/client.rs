//! The HTTP client of a remote service.
//!
//! The client only sends requests and reads responses; the other modules interpret them. It sends the token only to the
//! service's own origin, regardless of redirects and next-page links, and removes the token from all responses. The
//! size of responses is limited.

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

pub use error::{ClientError, RequestError, StartError};
pub use sender::install_tls;

use crate::backoff;
use crate::blocking::run_blocking;
use crate::config::{Config, is_loopback};
use crate::filter::Filter;
use crate::listing::{Listing, MAX_ANSWER_BYTES, MAX_PAGES, Page};
use crate::status::{StartedRun, Status};
use answer::Answer;
use error::SendError;
use sender::{Request, Sender};

/// Maximum number of followed redirects, within an origin.
const MAX_REDIRECTS: usize = 5;

/// Limits of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Time limit of connecting.
    pub connect_timeout: Duration,
    /// Time limit of a request.
    pub request_timeout: Duration,
    /// Time limit of a start. Longer, because after a timeout it is unknown whether the run started.
    pub start_timeout: Duration,
    /// Time limit of a list with all its pages.
    pub list_timeout: Duration,
    /// Delay before the first retry; doubled for each further retry.
    pub retry_delay: Duration,
    /// Maximum size of a response.
    pub max_response_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            start_timeout: Duration::from_secs(60),
            list_timeout: Duration::from_secs(120),
            retry_delay: Duration::from_millis(500),
            max_response_bytes: MAX_ANSWER_BYTES,
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
    /// The service accepted the request. The status of the run will show its end.
    Accepted,
    /// The service does not support cancellation, so the run continues there.
    NotSupported,
}

impl Client {
    /// Creates a client with the default limits, without connecting.
    ///
    /// # Errors
    ///
    /// If the URL of the configuration is invalid. The readers of [`Config`] already reject such a URL.
    pub fn new(config: &Config) -> Result<Self, ClientError> {
        Self::with_limits(config, Limits::default())
    }

    /// Creates a client with these limits, without connecting.
    ///
    /// # Errors
    ///
    /// Same as [`Client::new`].
    pub fn with_limits(config: &Config, limits: Limits) -> Result<Self, ClientError> {
        let url_error = |_| ClientError::Url(config.base_url.clone());
        let base: Url = config.base_url.parse().map_err(url_error)?;
        if base.cannot_be_a_base() {
            return Err(ClientError::Url(config.base_url.clone()));
        }
        Ok(Self(Arc::new(Inner {
            sender: Sender::new(config.token.clone(), is_loopback(&base), &limits),
            base,
            filter: Filter::new(&config.filter_patterns),
            retry_attempts: config.retry_attempts,
            limits,
        })))
    }

    /// Requests all pages of the list of workflows. Omits the workflows that the configuration excludes. Retries the
    /// request for a page after a temporary failure, up to `retry_attempts` times.
    ///
    /// # Errors
    ///
    /// If a page is not available, or is not a list. The other pages are then lost.
    #[boxed]
    pub async fn list(&self) -> Result<Listing, RequestError> {
        let limit = self.0.limits.list_timeout;
        let timeout_error = |_| {
            RequestError::temporary(format!(
                "The service did not return its list within {} seconds.",
                limit.as_secs_f64()
            ))
        };
        let mut listing = tokio::time::timeout(limit, self.read_pages()).await.map_err(timeout_error)??;
        listing.workflows.retain(|workflow| self.0.filter.admits(&workflow.title));
        Ok(listing)
    }

    async fn read_pages(&self) -> Result<Listing, RequestError> {
        let mut listing = Listing::default();
        let mut url = self.workflow_url(&["mcp"])?;
        let mut seen_urls = BTreeSet::new();
        loop {
            if !seen_urls.insert(url.to_string()) {
                listing.mark_cut("The pages of the list form a cycle. Each page is read once.");
                break;
            }
            if seen_urls.len() > MAX_PAGES {
                listing.mark_cut("The list has too many pages. Only the first 100 are read.");
                break;
            }
            let page_url = &url;
            let page = self.retry(move || async move {
                let answer = self.get(page_url.clone()).await?;
                answer.read(Page::read).await
            });
            let page = page.await?;
            let next = page.next.clone();
            let add_page = run_blocking(move || {
                listing.add(page);
                listing
            });
            listing = add_page.await;
            let Some(next) = next else { break };
            match url.join(&next) {
                Ok(next) if next.origin() == self.0.base.origin() => url = next,
                _ => {
                    listing
                        .mark_cut("The list continues on another server, which is not contacted because it would receive the token.");
                    break;
                }
            }
            if listing.is_cut {
                break;
            }
        }
        Ok(listing)
    }

    /// Starts a workflow. Sends the request once: unless the service refused it, the run may have started.
    ///
    /// # Errors
    ///
    /// [`StartError::Refused`] if the run did not start, [`StartError::Unknown`] if that is unknown.
    #[boxed]
    pub async fn start(
        &self,
        id: &str,
        input: &Map<String, Value>,
        idempotency_key: &str,
    ) -> Result<StartedRun, StartError> {
        let refused = |message: String| StartError::Refused { message, status: None, retry_after: None };
        let url = self.workflow_url(&[id, "start"]).map_err(|error| refused(error.message))?;
        let key: HeaderValue = idempotency_key
            .parse()
            .map_err(|_| refused("The idempotency key is not a valid HTTP header value.".to_owned()))?;
        let body = json!({ "input": input, "source": "application" });
        let request = Request { method: Method::POST, url, body: Some(body), idempotency_key: Some(key) };
        let answer = match self.0.sender.send(&request, self.0.limits.start_timeout).await {
            Ok(answer) => answer,
            Err(SendError::NotSent(message)) => return Err(refused(message)),
            Err(SendError::Lost(message)) => return Err(StartError::Unknown { message }),
        };
        match answer.status.as_u16() {
            200..=299 => answer.json().and_then(|json| StartedRun::read(&json)).map_err(|error| StartError::Unknown {
                message: format!("The service answered the start with {}, but {error}.", answer.status.as_u16()),
            }),
            // These statuses mean that the request must be sent to another address; the other redirects mean that the
            // server performed it.
            301 | 307 | 308 => {
                Err(refused(format!("{} The redirect was not followed; correct base_url.", answer.error_text())))
            }
            status @ 400..=499 => Err(StartError::Refused {
                message: answer.error_text(),
                status: Some(status),
                retry_after: answer.retry_after,
            }),
            _ => Err(StartError::Unknown { message: answer.error_text() }),
        }
    }

    /// Requests the status of a run, once. The caller decides when to request it again, see [`crate::PollBackoff`].
    ///
    /// # Errors
    ///
    /// If the service is unreachable or returns no status. With [`RequestError::is_temporary`] a later request may
    /// succeed.
    #[boxed]
    pub async fn status(&self, id: &str, instance: &str) -> Result<Status, RequestError> {
        let answer = self.get(self.workflow_url(&[id, "runs", instance, "status"])?).await?;
        answer.read(|json| Status::read(&json)).await
    }

    /// Requests the cancellation of a run and retries on temporary failures: cancelling is idempotent.
    ///
    /// # Errors
    ///
    /// If the service is unreachable, or refuses the request.
    #[boxed]
    pub async fn cancel(&self, id: &str, instance: &str) -> Result<Cancelled, RequestError> {
        let url = self.workflow_url(&[id, "runs", instance, "cancel"])?;
        let request = Request { method: Method::POST, url, body: Some(json!({})), idempotency_key: None };
        let request = &request;
        let cancelled = self.retry(move || async move {
            let answer = self.0.sender.send(request, self.0.limits.request_timeout).await?;
            match answer.status.as_u16() {
                200..=299 => Ok(Cancelled::Accepted),
                404 | 405 => Ok(Cancelled::NotSupported),
                _ => Err(answer.error()),
            }
        });
        cancelled.await
    }

    /// Retries a request until an answer or a permanent failure, up to `retry_attempts` times.
    ///
    /// The request is a function that returns a future, because a bound cannot yet require an async closure to be
    /// `Send`.
    async fn retry<T, F>(&self, request: impl Fn() -> F) -> Result<T, RequestError>
    where
        F: Future<Output = Result<T, RequestError>>,
    {
        let mut attempt = 0;
        loop {
            let error = match request().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            attempt += 1;
            if !error.is_temporary || attempt > self.0.retry_attempts {
                return Err(error);
            }
            match backoff::retry_delay(attempt, self.0.limits.retry_delay, error.retry_after, jitter()) {
                Some(delay) => tokio::time::sleep(delay).await,
                None => return Err(error),
            }
        }
    }

    /// Sends a GET request and follows redirects within the service's own origin.
    async fn get(&self, url: Url) -> Result<Answer, RequestError> {
        let mut request = Request { method: Method::GET, url, body: None, idempotency_key: None };
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.0.sender.send(&request, self.0.limits.request_timeout).await?;
            if answer.status.is_success() {
                return Ok(answer);
            }
            let target = answer.location.as_deref().and_then(|location| request.url.join(location).ok());
            match target {
                Some(target) if target.origin() == self.0.base.origin() => request.url = target,
                Some(_) => return Err(answer.redirect_error()),
                None => return Err(answer.error()),
            }
        }
        Err(RequestError::permanent("The service redirects too many times."))
    }

    /// Returns a URL under the workflows of the service. Encodes ids, so that each is one segment.
    fn workflow_url(&self, segments: &[&str]) -> Result<Url, RequestError> {
        if let Some(id) = segments.iter().find(|segment| matches!(**segment, "" | "." | "..")) {
            return Err(RequestError::permanent(format!("'{id}' is not a valid id.")));
        }
        let mut url = self.0.base.clone();
        let mut path = url.path_segments_mut().expect("a URL with a host has a path");
        path.pop_if_empty().extend(["api", "v1", "service", "workflows"]).extend(segments);
        drop(path);
        Ok(url)
    }
}

/// Returns a random number from 0 to 1, so that many waiting clients do not send at the same time.
#[must_use]
pub fn jitter() -> f64 {
    f64::from(getrandom::u32().unwrap_or_default()) / f64::from(u32::MAX)
}
