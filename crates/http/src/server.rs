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
use crate::connections::{Answering, Connection, ConnectionSlot, Connections};
use crate::live::Live;
use crate::metrics::Metrics;
use crate::page;
use crate::projects::Projects;
use crate::refusal::Refusal;
use crate::stream::Streams;
use crate::token::Token;

/// The largest body, in bytes. A large workflow takes 1 MB.
pub const MAX_BODY: usize = 4 << 20;

/// The time limit for receiving a body.
const BODY_TIME: Duration = Duration::from_secs(30);

/// The time limit for the first request of a new connection.
const FIRST_HEAD_TIME: Duration = Duration::from_secs(10);

/// Time that a connection may be idle between requests. Longer than clients keep idle connections (90 s in several), so
/// that the clients close them.
const QUIET_TIME: Duration = Duration::from_secs(120);

/// The longest head of a request, in bytes.
const MAX_HEAD: usize = 32 << 10;

/// Time that requests in progress may take once the server shuts down.
const ENDING_TIME: Duration = Duration::from_secs(5);

/// Time that sending the rest of a response may take during shutdown.
const SENDING_TIME: Duration = Duration::from_millis(250);

/// The options of the server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address, or a name that resolves to one.
    pub host: String,
    /// The port; 0 for any free port.
    pub port: u16,
    /// Further host names under which clients may call the server.
    pub allowed_hosts: Vec<String>,
    /// The origins whose pages may send requests.
    pub allowed_origins: Vec<String>,
    /// The most connections at the same time.
    pub most_connections: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 7878,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            most_connections: 4096,
        }
    }
}

/// Error that keeps the server from serving.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Listening on the address fails.
    #[error("nothing can listen on {host}:{port}: {source}")]
    Listen {
        /// The address.
        host: String,
        /// The port.
        port: u16,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A name in the options is invalid.
    #[error(transparent)]
    Name(#[from] InvalidName),
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    /// The listener at the other loopback address.
    twin: Option<TcpListener>,
    address: SocketAddr,
    app: Arc<App>,
    routes: Router<Arc<App>>,
}

impl Server {
    /// Listens without answering yet.
    ///
    /// # Errors
    /// If listening on the address fails, or a name is invalid.
    pub async fn bind(options: &Options, token: Token, daemon: ReconnectingClient) -> Result<Self, ServeError> {
        let Options { host, port, allowed_hosts, allowed_origins, most_connections } = options;
        let failed = |source| ServeError::Listen { host: host.clone(), port: *port, source };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let (listener, twin) = listeners(bare, *port).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let admission = Admission::new(token, bare, address.port(), allowed_hosts, allowed_origins)?;
        let ended = CancellationToken::new();
        let app = Arc::new(App {
            streams: Streams::new(daemon.clone()),
            live: Live::new(&daemon),
            tasks: TaskTracker::new(),
            daemon,
            metrics: Metrics::default(),
            projects: Projects::default(),
            connections: Connections::new(*most_connections),
            ended,
            admission,
            port: address.port(),
        });
        Ok(Self { listener, twin, address, app, routes: Router::new() })
    }

    /// Returns the address on which the server listens.
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

    /// Adds `service` at `path`, behind the same checks as everything else.
    #[must_use]
    pub fn with<S>(mut self, path: &str, service: S) -> Self
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
    pub fn ended(&self) -> CancellationToken {
        self.app.ended.clone()
    }

    /// Serves until `end` completes; then event streams end, and requests in progress finish within some seconds.
    pub async fn serve(self, end: impl Future<Output = ()>) {
        let Self { listener, twin, app, routes, .. } = self;
        let router = routes
            .fallback(|| async { Refusal::no_such_route() })
            .method_not_allowed_fallback(|| async { Refusal::method() })
            .layer(DefaultBodyLimit::disable())
            .layer(from_fn_with_state(app.clone(), admitted))
            .layer(from_fn_with_state(app.clone(), observed))
            .with_state(app.clone());
        let tasks = app.tasks.clone();
        let closed = CancellationToken::new();
        tokio::pin!(end);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                accepted = accepted_by(twin.as_ref()) => accepted,
                () = &mut end => break,
            };
            match accepted {
                Ok((stream, address)) => {
                    let Some(seat) = app.connections.seat() else {
                        turn_away(&stream);
                        continue;
                    };
                    let talk = talk(stream, Peer(address), seat, router.clone(), app.ended.clone());
                    let closed = closed.clone();
                    tasks.spawn(async move {
                        tokio::select! {
                            () = talk => {}
                            () = closed.cancelled() => {}
                        }
                    });
                }
                // Either there are no more descriptors, which lasts, or the client left before the accept.
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop((listener, twin));
        app.ended.cancel();
        tasks.close();
        if tokio::time::timeout(ENDING_TIME, tasks.wait()).await.is_err() {
            closed.cancel();
            tasks.wait().await;
        }
    }
}

/// Number of attempts to find a port that is free at both loopback addresses.
const PORT_ATTEMPTS: usize = 16;

/// Listens at `host`, and at the other loopback address too if `host` is one or means all: browsers resolve `localhost`
/// to both, and another user's program at one of them would receive what is meant for this server.
async fn listeners(host: &str, port: u16) -> io::Result<(TcpListener, Option<TcpListener>)> {
    let mut attempts = 0;
    loop {
        let listener = TcpListener::bind((host, port)).await?;
        let address = listener.local_addr()?;
        let twin: std::net::IpAddr = match address.ip() {
            std::net::IpAddr::V4(ip) if ip == std::net::Ipv4Addr::LOCALHOST || ip.is_unspecified() => {
                std::net::Ipv6Addr::LOCALHOST.into()
            }
            std::net::IpAddr::V6(ip) if ip.is_loopback() => std::net::Ipv4Addr::LOCALHOST.into(),
            _ => return Ok((listener, None)),
        };
        attempts += 1;
        match TcpListener::bind((twin, address.port())).await {
            Ok(twin) => return Ok((listener, Some(twin))),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && port == 0 && attempts < PORT_ATTEMPTS => {}
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
            Err(error) => {
                tracing::debug!(%error, %twin, "the machine has no such loopback address");
                return Ok((listener, None));
            }
        }
    }
}

/// Accepts a connection of an optional listener.
async fn accepted_by(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

/// Sends a client the response that the server has no room for it.
fn turn_away(stream: &TcpStream) {
    let body =
        r#"{"success":false,"error":"All connections are in use; try again later","code":"too_many_connections"}"#;
    let length = body.len();
    let text = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n{body}"
    );
    // The send buffer of a new connection has room for the response; otherwise the client has disconnected.
    let _ = stream.try_write(text.as_bytes());
}

/// Serves one connection until its end.
async fn talk(stream: TcpStream, peer: Peer, seat: ConnectionSlot, router: Router, ended: CancellationToken) {
    // The server writes responses in small pieces, and a delayed acknowledgement of one would hold up the next for 40
    // ms.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set; small answers may be late");
    }
    let seat = Arc::new(seat);
    let connection = seat.connection.clone();
    let socket_seat = seat.clone();
    let service = service_fn(|mut request: hyper::Request<hyper::body::Incoming>| {
        let answering = connection.answers();
        request.extensions_mut().insert(connection.clone());
        // Handlers can read the client's address.
        request.extensions_mut().insert(peer);
        // A socket keeps the connection's place after this has ended.
        request.extensions_mut().insert(socket_seat.clone());
        let router = router.clone();
        async move {
            let response = router.oneshot(request.map(Body::new)).await?;
            Ok::<_, Infallible>(response.map(|body| Sending { body, _answering: answering }))
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(QUIET_TIME).max_buf_size(MAX_HEAD.max(64 << 10));
    let talk = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
    tokio::pin!(talk);
    let silent = tokio::time::sleep(FIRST_HEAD_TIME);
    let (mut spoke, mut ending) = (false, false);
    tokio::pin!(silent);
    loop {
        tokio::select! {
            over = &mut talk => {
                if let Err(error) = over {
                    tracing::debug!(%error, "a connection broke");
                }
                return;
            }
            () = seat.connection.spoke.notified(), if !spoke => spoke = true,
            () = &mut silent, if !spoke || ending => return,
            () = seat.connection.gives_way.cancelled() => return,
            () = ended.cancelled(), if !ending => {
                ending = true;
                talk.as_mut().graceful_shutdown();
                // Does not wait for a connection without a complete request.
                let left = if seat.connection.is_answering() { ENDING_TIME } else { SENDING_TIME };
                silent.as_mut().reset(tokio::time::Instant::now() + left);
            }
        }
    }
}

/// The body of a response; its request counts as in progress until the drop of the body.
struct Sending {
    body: Body,
    _answering: Answering,
}

impl hyper::body::Body for Sending {
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

/// Returns whether an address needs no token: the health check, the OpenAPI document, and those of the page that check
/// their callers themselves or have nothing to protect.
fn is_open(method: &Method, path: &str) -> bool {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    is_read && ["/health", "/api/openapi.json"].contains(&path) || page::is_open(method, path)
}

/// Permissions of a browser for a response that is not the page: none.
const NO_CONTENT_POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");

/// The header that keeps a response out of pages of other origins.
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Admits or refuses a request; an admitted request has its whole body.
async fn admitted(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let headers = request.headers().clone();
    let mut response = match look(&app, request).await {
        Ok(HeaderCheck::Request(request)) => next.run(request).await,
        Ok(HeaderCheck::Preflight(response)) => response,
        Err(refusal) => refusal.into_response(),
    };
    app.admission.share(&headers, &mut response);
    let headers = response.headers_mut();
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(NO_CONTENT_POLICY);
    response
}

enum HeaderCheck {
    Request(Request),
    Preflight(Response),
}

async fn look(app: &App, mut request: Request) -> Result<HeaderCheck, Refusal> {
    app.admission.names(&request)?;
    if let Some(response) = app.admission.preflight(&request) {
        return Ok(HeaderCheck::Preflight(response));
    }
    let caller = match app.admission.caller(request.headers()) {
        Caller::Unknown => page::login::caller(app, request.headers()).await?,
        known => known,
    };
    if caller.is_known() {
        if let Some(connection) = request.extensions().get::<Arc<Connection>>() {
            connection.is_known();
        }
    } else if !is_open(request.method(), request.uri().path()) {
        return Err(Refusal::unauthorized());
    }
    request.extensions_mut().insert(caller);
    if request.body().is_end_stream() {
        return Ok(HeaderCheck::Request(request));
    }
    let limit = match caller {
        Caller::Token | Caller::Page => MAX_BODY,
        // A login has a body before it is known.
        Caller::Unknown if page::is_login(request.method(), request.uri().path()) => page::MAX_LOGIN,
        // Otherwise the server reads a body into memory only for requests with the token.
        Caller::Unknown => return Err(Refusal::unauthorized()),
    };
    let too_large = || {
        let error = format!("The body is larger than {} KB, the limit", limit >> 10);
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", error)
    };
    if request.body().size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let (parts, body) = request.into_parts();
    let body = tokio::time::timeout(BODY_TIME, Limited::new(body, limit).collect()).await.map_err(|_| {
        let error = format!("The body did not come within {} seconds", BODY_TIME.as_secs());
        Refusal::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", error)
    })?;
    match body {
        Ok(body) => Ok(HeaderCheck::Request(Request::from_parts(parts, Body::from(body.to_bytes())))),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(error) => {
            Err(Refusal::new(StatusCode::BAD_REQUEST, "invalid_body", format!("The body cannot be read: {error}")))
        }
    }
}

/// Records requests by the rows of the table of routes, because the addresses themselves are foreign and unbounded.
async fn observed(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let method = request.method().clone();
    let began = std::time::Instant::now();
    let response = next.run(request).await;
    let route = route.as_deref().unwrap_or("none");
    app.metrics.answered(&method, route, response.status(), began.elapsed());
    tracing::debug!(%method, route, status = response.status().as_u16(), "answered");
    response
}
