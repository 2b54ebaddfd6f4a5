//! The listener, and the layers that every request passes before its response.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Frame, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use steplatch_protocol::{Peer, ReconnectingClient};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::{Service, ServiceExt as _};

use crate::admission::{Admission, Caller, InvalidName};
use crate::api;
use crate::app::App;
use crate::connections::{Connection, ConnectionSlot, Connections, RequestGuard};
use crate::hooks;
use crate::live::Live;
use crate::metrics::Metrics;
use crate::page::{self, Uploads, remove_stale_uploads};
use crate::projects::Projects;
use crate::refusal::Refusal;
use crate::stream::Streams;
use crate::token::Token;

/// Maximum body size, in bytes. A large workflow has 1 MB.
pub const MAX_BODY_BYTES: usize = 4 << 20;

/// Maximum time to receive a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum time to receive the body of a login. The body is small and comes from an unknown client.
const LOGIN_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time until the first request of a new connection.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum idle time of a connection between requests. Clients keep idle connections for a shorter time (often 90 s),
/// so that they close connections first.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum size of a request head, in bytes.
const MAX_HEAD_BYTES: usize = 32 << 10;

/// Maximum time for requests in progress during shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time to send the rest of a response during shutdown.
const SEND_TIMEOUT: Duration = Duration::from_millis(250);

/// Options of the server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Address to listen on, or a name that resolves to one.
    pub host: String,
    /// Port to listen on; 0 for any free port.
    pub port: u16,
    /// Additional host names of the server, for requests of clients.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may send requests.
    pub allowed_origins: Vec<String>,
    /// Maximum number of open connections.
    pub max_connections: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 7878,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            max_connections: 4096,
        }
    }
}

/// Failure to start the server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The server cannot listen on the address.
    #[error("the server cannot listen on {host}:{port}: {source}")]
    Listen {
        /// Address of the server.
        host: String,
        /// Port of the server.
        port: u16,
        /// Error from the system.
        #[source]
        source: io::Error,
    },
    /// A name in the options is invalid.
    #[error(transparent)]
    Name(#[from] InvalidName),
}

/// A listening server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    /// Listener at the other loopback address.
    other_loopback: Option<TcpListener>,
    address: SocketAddr,
    app: Arc<App>,
    routes: Router<Arc<App>>,
}

impl Server {
    /// Listens without accepting connections yet.
    ///
    /// # Errors
    /// If the server cannot listen on the address, or a name is invalid.
    pub async fn bind(options: &Options, token: Token, daemon: ReconnectingClient) -> Result<Self, ServeError> {
        let Options { host, port, allowed_hosts, allowed_origins, max_connections } = options;
        let listen_error = |source| ServeError::Listen { host: host.clone(), port: *port, source };
        let bare_host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let (listener, other_loopback) = bind_listeners(bare_host, *port).await.map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let admission = Admission::new(token, bare_host, address.port(), allowed_hosts, allowed_origins)?;
        let shutdown = CancellationToken::new();
        let app = Arc::new(App {
            streams: Streams::new(daemon.clone()),
            live: Live::new(&daemon),
            uploads: {
                remove_stale_uploads();
                Uploads::default()
            },
            tasks: TaskTracker::new(),
            page_daemon: daemon.with_own_connection("page"),
            daemon,
            metrics: Metrics::default(),
            projects: Projects::default(),
            connections: Connections::new(*max_connections),
            shutdown,
            admission,
            port: address.port(),
        });
        Ok(Self { listener, other_loopback, address, app, routes: Router::new() })
    }

    /// Returns the listening address of the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds the API: REST, events, the protocol of remote services, health, metrics, and the OpenAPI document.
    #[must_use]
    pub fn with_api(mut self) -> Self {
        self.routes = self.routes.merge(api::routes());
        self
    }

    /// Adds the page for browsers, at `http://localhost`.
    #[must_use]
    pub fn with_page(mut self) -> Self {
        self.routes = self.routes.merge(page::routes());
        self
    }

    /// Adds `service` at `path`, protected by the same checks as all routes.
    #[must_use]
    pub fn with_service<S>(mut self, path: &str, service: S) -> Self
    where
        S: Service<Request, Error = Infallible> + Clone + Send + Sync + 'static,
        S::Response: IntoResponse,
        S::Future: Send + 'static,
    {
        self.routes = self.routes.nest_service(path, service);
        self
    }

    /// Returns the token that the server cancels when it shuts down, for handlers of long responses.
    #[must_use]
    pub fn shutdown_token(&self) -> CancellationToken {
        self.app.shutdown.clone()
    }

    /// Serves until `shutdown_signal` completes. Then ends event streams, and waits some seconds for requests in
    /// progress.
    pub async fn serve(self, shutdown_signal: impl Future<Output = ()>) {
        let Self { listener, other_loopback, app, routes, .. } = self;
        let router = routes
            .fallback(|| async { Refusal::unknown_address() })
            .method_not_allowed_fallback(|| async { Refusal::wrong_method() })
            .layer(DefaultBodyLimit::disable())
            .layer(from_fn_with_state(app.clone(), admit))
            .layer(from_fn_with_state(app.clone(), record_request))
            .with_state(app.clone());
        let tasks = app.tasks.clone();
        let force_close = CancellationToken::new();
        tokio::pin!(shutdown_signal);
        loop {
            let result = tokio::select! {
                result = listener.accept() => result,
                result = accept(other_loopback.as_ref()) => result,
                () = &mut shutdown_signal => break,
            };
            match result {
                Ok((stream, address)) => {
                    let Some(slot) = app.connections.open_slot() else {
                        refuse_connection(&stream);
                        continue;
                    };
                    let connection =
                        serve_connection(stream, Peer(address), slot, router.clone(), app.shutdown.clone());
                    let force_close = force_close.clone();
                    tasks.spawn(async move {
                        tokio::select! {
                            () = connection => {}
                            () = force_close.cancelled() => {}
                        }
                    });
                }
                // Either the process has no free file descriptors, or the client has already disconnected.
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop((listener, other_loopback));
        app.shutdown.cancel();
        tasks.close();
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, tasks.wait()).await.is_err() {
            force_close.cancel();
            tasks.wait().await;
        }
    }
}

/// Maximum number of attempts to find a port that is free at both loopback addresses.
const MAX_PORT_ATTEMPTS: usize = 16;

/// Listens at `host`, and also at the other loopback address if `host` is a loopback or unspecified address. Browsers
/// resolve `localhost` to both addresses, and another user's program at one of them would receive requests to this
/// server.
async fn bind_listeners(host: &str, port: u16) -> io::Result<(TcpListener, Option<TcpListener>)> {
    let mut attempts = 0;
    loop {
        let listener = TcpListener::bind((host, port)).await?;
        let address = listener.local_addr()?;
        let other_loopback: std::net::IpAddr = match address.ip() {
            std::net::IpAddr::V4(ip) if ip == std::net::Ipv4Addr::LOCALHOST || ip.is_unspecified() => {
                std::net::Ipv6Addr::LOCALHOST.into()
            }
            std::net::IpAddr::V6(ip) if ip.is_loopback() => std::net::Ipv4Addr::LOCALHOST.into(),
            _ => return Ok((listener, None)),
        };
        attempts += 1;
        match TcpListener::bind((other_loopback, address.port())).await {
            Ok(other_loopback) => return Ok((listener, Some(other_loopback))),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && port == 0 && attempts < MAX_PORT_ATTEMPTS => {}
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
            Err(error) => {
                tracing::debug!(%error, %other_loopback, "this computer has no such loopback address");
                return Ok((listener, None));
            }
        }
    }
}

/// Accepts a connection from an optional listener.
async fn accept(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

/// Responds to a client that all connections are in use.
fn refuse_connection(stream: &TcpStream) {
    let body =
        r#"{"success":false,"error":"All connections are in use; try again later","code":"too_many_connections"}"#;
    let length = body.len();
    let text = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n{body}"
    );
    // Ignore the error: the send buffer of a new connection has room for the response, so the client has disconnected.
    let _ = stream.try_write(text.as_bytes());
}

/// Serves one connection until its end.
async fn serve_connection(
    stream: TcpStream,
    peer: Peer,
    slot: ConnectionSlot,
    router: Router,
    shutdown: CancellationToken,
) {
    // The server writes responses in small pieces. A delayed acknowledgement of one would delay the next by 40 ms.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "failed to set TCP_NODELAY; small responses may be delayed");
    }
    let slot = Arc::new(slot);
    let connection = slot.connection.clone();
    let socket_slot = slot.clone();
    let service = service_fn(|mut request: hyper::Request<hyper::body::Incoming>| {
        let guard = connection.begin_request();
        request.extensions_mut().insert(connection.clone());
        // Handlers can read the client's address.
        request.extensions_mut().insert(peer);
        // A WebSocket keeps the connection's slot after this function has returned.
        request.extensions_mut().insert(socket_slot.clone());
        let router = router.clone();
        async move {
            let response = router.oneshot(request.map(Body::new)).await?;
            Ok::<_, Infallible>(response.map(|body| TrackedBody { body, _guard: guard }))
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(IDLE_TIMEOUT).max_buf_size(MAX_HEAD_BYTES);
    let http_connection = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
    tokio::pin!(http_connection);
    let deadline = tokio::time::sleep(FIRST_REQUEST_TIMEOUT);
    let (mut has_request, mut is_shutting_down) = (false, false);
    tokio::pin!(deadline);
    loop {
        tokio::select! {
            result = &mut http_connection => {
                if let Err(error) = result {
                    tracing::debug!(%error, "a connection failed");
                }
                return;
            }
            () = slot.connection.first_request.notified(), if !has_request => has_request = true,
            () = &mut deadline, if !has_request || is_shutting_down => return,
            () = slot.connection.replaced.cancelled() => return,
            () = shutdown.cancelled(), if !is_shutting_down => {
                is_shutting_down = true;
                http_connection.as_mut().graceful_shutdown();
                // Do not wait for a connection without a complete request.
                let limit = if slot.connection.is_busy() { SHUTDOWN_TIMEOUT } else { SEND_TIMEOUT };
                deadline.as_mut().reset(tokio::time::Instant::now() + limit);
            }
        }
    }
}

/// Body of a response. The request is considered in progress until the body is dropped.
struct TrackedBody {
    body: Body,
    _guard: RequestGuard,
}

impl hyper::body::Body for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Returns whether an address needs no token of the server: the health check, the OpenAPI document, hooks, which have
/// tokens of their own, and addresses of the page that check the caller themselves or are public.
fn is_open(method: &Method, path: &str) -> bool {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    is_read && ["/health", "/api/openapi.json"].contains(&path)
        || hooks::is_hook(method, path)
        || page::is_open(method, path)
}

/// Content policy of responses other than the page: it allows nothing.
const NO_CONTENT_POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");

/// Header that forbids pages of other origins to embed a response.
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Admits or refuses a request. An admitted request has its complete body.
async fn admit(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let headers = request.headers().clone();
    let mut response = match check_request(&app, request).await {
        Ok(CheckedRequest::Request(request)) => next.run(request).await,
        Ok(CheckedRequest::Preflight(response)) => response,
        Err(refusal) => refusal.into_response(),
    };
    app.admission.add_cors_headers(&headers, &mut response);
    let headers = response.headers_mut();
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(NO_CONTENT_POLICY);
    response
}

/// Result of checking a request.
enum CheckedRequest {
    Request(Request),
    Preflight(Response),
}

async fn check_request(app: &App, mut request: Request) -> Result<CheckedRequest, Refusal> {
    app.admission.check_names(&request)?;
    if let Some(response) = app.admission.answer_preflight(&request) {
        return Ok(CheckedRequest::Preflight(response));
    }
    let caller = match app.admission.caller(request.headers()) {
        Caller::Unknown => page::login::find_caller(app, request.headers()).await?,
        caller => caller,
    };
    if caller.is_known() {
        if let Some(connection) = request.extensions().get::<Arc<Connection>>() {
            connection.mark_known();
        }
    } else if !is_open(request.method(), request.uri().path()) {
        return Err(Refusal::unauthorized());
    }
    request.extensions_mut().insert(caller);
    if request.body().is_end_stream() {
        return Ok(CheckedRequest::Request(request));
    }
    let limit = match caller {
        Caller::Token | Caller::Page => MAX_BODY_BYTES,
        // A login has a body but no credentials yet.
        Caller::Unknown if page::is_login(request.method(), request.uri().path()) => page::MAX_LOGIN_BYTES,
        // The daemon knows the token of a hook.
        Caller::Unknown if hooks::is_hook(request.method(), request.uri().path()) => hooks::MAX_BODY_BYTES,
        // Read other bodies into memory only for requests with credentials.
        Caller::Unknown => return Err(Refusal::unauthorized()),
    };
    let too_large = || {
        let error = format!("The body is larger than the limit of {} KB", limit >> 10);
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", error)
    };
    if request.body().size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let (parts, body) = request.into_parts();
    // While an unknown client sends its body, another connection may replace its connection.
    let connection = parts.extensions.get::<Arc<Connection>>().filter(|_| !caller.is_known());
    let _receiving = connection.map(Connection::receive_body);
    let time_limit = if caller.is_known() { BODY_TIMEOUT } else { LOGIN_BODY_TIMEOUT };
    let body = tokio::time::timeout(time_limit, Limited::new(body, limit).collect()).await.map_err(|_| {
        let error = format!("The body did not arrive within {} seconds", time_limit.as_secs());
        Refusal::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", error)
    })?;
    match body {
        Ok(body) => Ok(CheckedRequest::Request(Request::from_parts(parts, Body::from(body.to_bytes())))),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(error) => {
            Err(Refusal::new(StatusCode::BAD_REQUEST, "invalid_body", format!("The body could not be read: {error}")))
        }
    }
}

/// Records requests by route, because the number of addresses is unlimited.
async fn record_request(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let method = request.method().clone();
    let started_at = std::time::Instant::now();
    let response = next.run(request).await;
    let route = route.as_deref().unwrap_or("none");
    app.metrics.record_response(&method, route, response.status(), started_at.elapsed());
    tracing::debug!(%method, route, status = response.status().as_u16(), "sent a response");
    response
}
