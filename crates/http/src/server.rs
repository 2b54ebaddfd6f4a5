//! The listener, and everything that a request goes through before it is answered.

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
use axum::http::header::{CACHE_CONTROL, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Frame, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use steplatch_protocol::{Peer, Steady};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::{Service, ServiceExt as _};

use crate::admission::{Admission, Caller, InvalidName};
use crate::api;
use crate::connections::{Answering, Connection, Connections, Seat};
use crate::metrics::Metrics;
use crate::refusal::Refusal;
use crate::stream::Streams;
use crate::token::Token;

/// The largest body, in bytes. A large workflow takes 1 MB.
pub const MAX_BODY: usize = 4 << 20;

/// How long a body may take to come.
const BODY_TIME: Duration = Duration::from_secs(30);

/// How long a new connection may take to say what it wants.
const FIRST_HEAD_TIME: Duration = Duration::from_secs(10);

/// How long a connection may be quiet before its next request has come. Longer than clients keep connections for their
/// next request (90 s in several), so that it is they who close them.
const QUIET_TIME: Duration = Duration::from_secs(120);

/// The longest head of a request, in bytes.
const MAX_HEAD: usize = 32 << 10;

/// How long answers that are under way may take once the server is to end.
const ENDING_TIME: Duration = Duration::from_secs(5);

/// How long the end of an answer may take to be sent then.
const SENDING_TIME: Duration = Duration::from_millis(250);

/// Where and for whom to listen.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address, or a name that leads to one.
    pub host: String,
    /// The port; 0 for any that is free.
    pub port: u16,
    /// Names by which it may be called, besides its own.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may ask.
    pub allowed_origins: Vec<String>,
    /// Connections at once.
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

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Nobody can listen there.
    #[error("nothing can listen on {host}:{port}: {source}")]
    Listen {
        /// Where.
        host: String,
        /// On which port.
        port: u16,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A name can not be meant.
    #[error(transparent)]
    Name(#[from] InvalidName),
}

/// What answers have in common.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) daemon: Steady,
    pub(crate) metrics: Metrics,
    pub(crate) streams: Streams,
    pub(crate) connections: Arc<Connections>,
    /// Cancelled when the server is to end.
    pub(crate) ended: CancellationToken,
    pub(crate) admission: Admission,
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App>,
    routes: Router<Arc<App>>,
}

impl Server {
    /// Listens, and answers nothing yet.
    ///
    /// # Errors
    /// When nobody can listen there, or a name can not be meant.
    pub async fn bind(options: &Options, token: Token, daemon: Steady) -> Result<Self, ServeError> {
        let Options { host, port, allowed_hosts, allowed_origins, most_connections } = options;
        let failed = |source| ServeError::Listen { host: host.clone(), port: *port, source };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let listener = TcpListener::bind((bare, *port)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let admission = Admission::new(token, bare, address.port(), allowed_hosts, allowed_origins)?;
        let ended = CancellationToken::new();
        let app = Arc::new(App {
            streams: Streams::new(daemon.clone()),
            daemon,
            metrics: Metrics::default(),
            connections: Connections::new(*most_connections),
            ended,
            admission,
        });
        Ok(Self { listener, address, app, routes: Router::new() })
    }

    /// Returns where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves the contract: REST, events, the dialect of remote services, health, metrics, and the document of all that.
    #[must_use]
    pub fn with_api(mut self) -> Self {
        self.routes = self.routes.merge(api::routes());
        self
    }

    /// Serves `service` at `path`, behind the same checks as everything else.
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

    /// Returns what is cancelled when the server is to end, for whoever answers for a long time.
    #[must_use]
    pub fn ended(&self) -> CancellationToken {
        self.app.ended.clone()
    }

    /// Answers until `end` comes; then events end, and what is being answered is finished within some seconds.
    pub async fn serve(self, end: impl Future<Output = ()>) {
        let Self { listener, app, routes, .. } = self;
        let router = routes
            .fallback(|| async { Refusal::no_such_route() })
            .method_not_allowed_fallback(|| async { Refusal::method() })
            .layer(DefaultBodyLimit::disable())
            .layer(from_fn_with_state(app.clone(), admitted))
            .layer(from_fn_with_state(app.clone(), observed))
            .with_state(app.clone());
        let tasks = TaskTracker::new();
        let gone = CancellationToken::new();
        tokio::pin!(end);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = &mut end => break,
            };
            match accepted {
                Ok((stream, address)) => {
                    let Some(seat) = app.connections.seat() else {
                        turn_away(&stream);
                        continue;
                    };
                    let talk = talk(stream, Peer(address), seat, router.clone(), app.ended.clone());
                    let gone = gone.clone();
                    tasks.spawn(async move {
                        tokio::select! {
                            () = talk => {}
                            () = gone.cancelled() => {}
                        }
                    });
                }
                // Out of descriptors, or a client that was gone before it was accepted. The former lasts.
                Err(error) => {
                    tracing::warn!(%error, "a connection can not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(listener);
        app.ended.cancel();
        tasks.close();
        if tokio::time::timeout(ENDING_TIME, tasks.wait()).await.is_err() {
            gone.cancel();
            tasks.wait().await;
        }
    }
}

/// Tells a client in words that there is no room for it.
fn turn_away(stream: &TcpStream) {
    let body = r#"{"success":false,"error":"All connections are being answered; try again in a moment","code":"too_many_connections"}"#;
    let length = body.len();
    let text = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n{body}"
    );
    // A new connection has room for so little; where it has not, nobody is there to read it.
    let _ = stream.try_write(text.as_bytes());
}

/// Answers one connection until its end.
async fn talk(stream: TcpStream, peer: Peer, seat: Seat, router: Router, ended: CancellationToken) {
    // Answers are written in small pieces, and a delayed acknowledgement of one would hold up the next for 40 ms.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "small answers may be late");
    }
    let connection = seat.connection.clone();
    let service = service_fn(|mut request: hyper::Request<hyper::body::Incoming>| {
        let answering = connection.answers();
        request.extensions_mut().insert(connection.clone());
        // Whoever asks for them can tell who they are.
        request.extensions_mut().insert(peer);
        let router = router.clone();
        async move {
            let response = router.oneshot(request.map(Body::new)).await?;
            Ok::<_, Infallible>(response.map(|body| Sending { body, _answering: answering }))
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(QUIET_TIME).max_buf_size(MAX_HEAD.max(64 << 10));
    let talk = http.serve_connection(TokioIo::new(stream), service);
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
                // Who has only begun to say what they want is not waited for.
                let left = if seat.connection.is_answering() { ENDING_TIME } else { SENDING_TIME };
                silent.as_mut().reset(tokio::time::Instant::now() + left);
            }
        }
    }
}

/// The body of a response: its request is being answered for as long as it is there.
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

/// Whether an address is answered without the token: one tells that there is a server, the other what it can be asked.
fn is_open(method: &Method, path: &str) -> bool {
    matches!(*method, Method::GET | Method::HEAD) && ["/health", "/api/openapi.json"].contains(&path)
}

/// Lets a request in, or does not; what comes in has its whole body.
async fn admitted(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let headers = request.headers().clone();
    let mut response = match look(&app, request).await {
        Ok(Looked::Request(request)) => next.run(request).await,
        Ok(Looked::Preflight(response)) => response,
        Err(refusal) => refusal.into_response(),
    };
    app.admission.share(&headers, &mut response);
    let headers = response.headers_mut();
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

enum Looked {
    Request(Request),
    Preflight(Response),
}

async fn look(app: &App, mut request: Request) -> Result<Looked, Refusal> {
    app.admission.names(&request)?;
    if let Some(response) = app.admission.preflight(&request) {
        return Ok(Looked::Preflight(response));
    }
    let caller = app.admission.caller(request.headers());
    if caller == Caller::Known {
        if let Some(connection) = request.extensions().get::<Arc<Connection>>() {
            connection.is_known();
        }
    } else if !is_open(request.method(), request.uri().path()) {
        return Err(Refusal::unauthorized());
    }
    request.extensions_mut().insert(caller);
    if request.body().is_end_stream() {
        return Ok(Looked::Request(request));
    }
    if caller == Caller::Unknown {
        // Nobody fills our memory who does not have the token.
        return Err(Refusal::unauthorized());
    }
    let too_large = || {
        let error = format!("The body is larger than {} MB, which is the most that is read", MAX_BODY >> 20);
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", error)
    };
    if request.body().size_hint().lower() > MAX_BODY as u64 {
        return Err(too_large());
    }
    let (parts, body) = request.into_parts();
    let body = tokio::time::timeout(BODY_TIME, Limited::new(body, MAX_BODY).collect()).await.map_err(|_| {
        let error = format!("The body did not come within {} seconds", BODY_TIME.as_secs());
        Refusal::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", error)
    })?;
    match body {
        Ok(body) => Ok(Looked::Request(Request::from_parts(parts, Body::from(body.to_bytes())))),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(error) => {
            Err(Refusal::new(StatusCode::BAD_REQUEST, "invalid_body", format!("The body can not be read: {error}")))
        }
    }
}

/// Notes how requests go, by the rows of the table of routes: addresses are foreign text and have no end.
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
