//! A fake remote workflow service that can be made to misbehave, for tests. Owns a loopback server that speaks the
//! small REST dialect, written independently of our own client and server so that they do not share bugs. The fake
//! responds as configured, and records its requests. For tests only: a failure panics with the expectation.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod answer;
mod mcp;
mod routes;
mod state;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use answer::Answer;
pub use state::{RecordedRequest, Route, Run};

use state::State;

/// A workflow service on loopback. Dropping this value stops the service. By default the service lists its
/// [offers](FakeService::offer), starts every requested run, reports a run once as `RUNNING` and then as `COMPLETED`
/// with its input in its output, and cancels.
#[derive(Debug)]
pub struct FakeService {
    address: SocketAddr,
    shared: Shared,
    serving: Mutex<Option<JoinHandle<()>>>,
}

/// State that the service and its requests share.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    state: Arc<Mutex<State>>,
    /// Counts requests, so that a test can wait for one without polling.
    request_count: Arc<watch::Sender<usize>>,
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn count_request(&self) {
        self.request_count.send_modify(|request_count| *request_count += 1);
    }
}

/// The token that the service requires.
pub const TOKEN: &str = "fake-t0ken-4711";

impl FakeService {
    /// Starts a service that offers nothing.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("the listener has an address");
        let shared = Shared { state: Arc::default(), request_count: Arc::new(watch::Sender::new(0)) };
        let service = Self { address, shared, serving: Mutex::default() };
        service.serve(listener);
        service
    }

    fn serve(&self, listener: TcpListener) {
        let router = routes::router(self.shared.clone()).into_make_service_with_connect_info::<SocketAddr>();
        let serving =
            tokio::spawn(async move { axum::serve(listener, router).await.expect("the service keeps serving") });
        *self.serving.lock().unwrap() = Some(serving);
    }

    /// Returns the base URL of the service.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the URL of its MCP endpoint, with the tool `workflows-list-tool`.
    #[must_use]
    pub fn mcp_url(&self) -> String {
        format!("{}/mcp", self.url())
    }

    /// Offers a workflow that accepts any input.
    pub fn offer(&self, id: &str, title: &str) {
        self.offer_entry(json!({ "id": id, "name": title, "description": format!("Does {title}.") }));
    }

    /// Offers an entry without any check.
    pub fn offer_entry(&self, entry: Value) {
        self.shared.state().entries.push(entry);
    }

    /// Offers exactly these entries.
    pub fn offer_only(&self, entries: Vec<Value>) {
        self.shared.state().entries = entries;
    }

    /// Lists in pages of `size` entries, rather than as an array.
    pub fn in_pages(&self, size: usize) {
        self.shared.state().page_size = Some(size);
    }

    /// Gives every page this link to the next page.
    pub fn next_page_is(&self, next: &str) {
        self.shared.state().next_page = Some(next.to_owned());
    }

    /// Queues a response for one request of this kind. Several queued responses are sent in order.
    pub fn once(&self, route: Route, answer: Answer) {
        self.shared.state().queued_answers.entry(route).or_default().push_back(answer);
    }

    /// Sends this response to all requests of this kind, until [`FakeService::well`].
    pub fn always(&self, route: Route, answer: Answer) {
        self.shared.state().default_answers.insert(route, answer);
    }

    /// Removes all configured responses.
    pub fn well(&self) {
        let mut state = self.shared.state();
        state.queued_answers.clear();
        state.default_answers.clear();
        state.next_page = None;
    }

    /// Sets the statuses of each run of this workflow, one for each request; the last status is repeated. A status is a
    /// complete response body, such as `{"status": "RUNNING", "output": null}`.
    pub fn script(&self, workflow: &str, statuses: Vec<Value>) {
        assert!(!statuses.is_empty(), "a run needs at least one status");
        self.shared.state().scripts.insert(workflow.to_owned(), statuses);
    }

    /// Sets the remaining statuses of this run.
    pub fn script_run(&self, run: &str, statuses: Vec<Value>) {
        assert!(!statuses.is_empty(), "a run needs at least one status");
        self.shared.state().runs.get_mut(run).expect("the run was started").statuses = statuses.into();
    }

    /// Refuses connections and closes open ones at their next request.
    pub fn go_down(&self) {
        self.shared.state().is_down = true;
        if let Some(serving) = self.serving.lock().unwrap().take() {
            serving.abort();
        }
    }

    /// Accepts connections again, at the same address.
    pub async fn come_up(&self) {
        self.shared.state().is_down = false;
        let listener = loop {
            // The port is free once the aborted task has ended.
            match TcpListener::bind(self.address).await {
                Ok(listener) => break listener,
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => tokio::task::yield_now().await,
                Err(error) => panic!("failed to bind the port again: {error}"),
            }
        };
        self.serve(listener);
    }

    /// Returns all requests, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.state().requests.clone()
    }

    /// Returns the number of requests of this kind.
    #[must_use]
    pub fn count(&self, route: Route) -> usize {
        self.shared.state().requests.iter().filter(|request| request.route == Some(route)).count()
    }

    /// Returns the started runs, oldest first.
    #[must_use]
    pub fn runs(&self) -> Vec<Run> {
        let state = self.shared.state();
        let mut runs: Vec<Run> = state.runs.values().cloned().collect();
        runs.sort_by_key(|run| run.number);
        runs
    }

    /// Returns the number of starts with each idempotency key.
    #[must_use]
    pub fn starts_by_key(&self) -> std::collections::BTreeMap<String, usize> {
        let mut starts = std::collections::BTreeMap::new();
        for request in self.shared.state().requests.iter().filter(|request| request.route == Some(Route::Start)) {
            let key = request.headers.get("idempotency-key").cloned().unwrap_or_default();
            *starts.entry(key).or_default() += 1;
        }
        starts
    }

    /// Waits until there were `times` requests of this kind.
    pub async fn wait_for(&self, route: Route, times: usize) {
        let mut request_count = self.shared.request_count.subscribe();
        let reached_count = request_count.wait_for(|_| self.count(route) >= times);
        let result = tokio::time::timeout(Duration::from_secs(60), reached_count).await;
        assert!(result.is_ok(), "{route:?} was requested {} times, not {times}", self.count(route));
    }
}

impl Drop for FakeService {
    fn drop(&mut self) {
        if let Some(serving) = self.serving.lock().unwrap().take() {
            serving.abort();
        }
    }
}
