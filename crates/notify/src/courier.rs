//! Delivery of messages by webhook, ntfy, command and desktop.
//!
//! A delivery is one attempt; the [`Board`](crate::Board) decides about repetitions. Every attempt has a time limit.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Url};
use steplatch_clock::Timestamp;
use steplatch_remote::{Token, TokenError, clean_text, is_loopback};
use steplatch_terminal::{Exit, Piped, PipedSpec, Programs, Stdin};
use tokio::io::AsyncReadExt as _;
use tokio::sync::OnceCell;

use crate::board::Phase;
use crate::desktop::{self, DesktopError};
use crate::message::Message;
use crate::rule::Way;
use crate::webhook;

/// Time limit of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Time limit of a command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit of reading the remaining output of a command that has ended.
const READ_TIMEOUT: Duration = Duration::from_millis(200);

/// Maximum length of a command's errors in a message, in bytes.
const MAX_ERROR_BYTES: u64 = 2_000;

/// Prefix of the variables of a command.
const VARIABLE_PREFIX: &str = "STEPLATCH_NOTIFY_";

/// Identifier of a delivered notification, for its withdrawal.
pub type Receipt = Option<u32>;

/// A failed attempt.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The request was not answered.
    #[error("{0}")]
    Request(String),
    /// The answer is no success.
    #[error("the receiver answered with the status {0}")]
    Status(u16),
    /// The answer is a redirect.
    #[error("the receiver redirects (status {0}), which is not followed; set the new address")]
    Redirect(u16),
    /// The token or the secret is missing.
    #[error("the token or secret is not available: {0}")]
    Token(#[from] TokenError),
    /// The command did not start.
    #[error("the command did not start: {0}")]
    Start(#[from] steplatch_terminal::SpawnError),
    /// The command failed.
    #[error("the command ended with exit code {code}{}", errors.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    Command {
        /// The exit code.
        code: i32,
        /// The beginning of the command's errors.
        errors: Option<String>,
    },
    /// The command did not end in time.
    #[error("the command did not end within {} seconds, and was killed", COMMAND_TIMEOUT.as_secs())]
    Hung,
    /// The desktop did not accept the notification.
    #[error(transparent)]
    Desktop(#[from] DesktopError),
}

/// Delivers messages. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Courier {
    /// HTTP clients for other computers and for this computer, built on first use.
    clients: Arc<[OnceCell<Client>; 2]>,
    programs: Programs,
    /// Variables of the daemon that a command does not receive.
    private_variables: &'static [&'static str],
}

impl Courier {
    /// Creates a courier whose commands do not receive some variables of this process.
    #[must_use]
    pub fn without_variables(private_variables: &'static [&'static str]) -> Self {
        Self { private_variables, ..Self::default() }
    }

    /// Makes one attempt. `decided` is the time of the event, and `now` is the time of the attempt. [`Way::Terminal`]
    /// needs no attempt: the daemon passes the message to its clients.
    ///
    /// # Errors
    /// If the message did not arrive, or may not have arrived.
    #[boxed]
    pub async fn deliver(
        &self,
        way: &Way,
        message: &Message,
        decided: Timestamp,
        now: Timestamp,
    ) -> Result<Receipt, SendError> {
        match way {
            Way::Webhook { url, secret } => {
                self.post_event(url, secret.as_ref(), message, decided, now).await.map(|()| None)
            }
            Way::Ntfy { url, token } => self.post_to_ntfy(url, token.as_ref(), message).await.map(|()| None),
            Way::Command(arguments) => self.run(arguments, message).await.map(|()| None),
            Way::Desktop => Ok(desktop::show(message).await?),
            Way::Terminal => Ok(None),
        }
    }

    async fn post_event(
        &self,
        url: &str,
        secret: Option<&Token>,
        message: &Message,
        decided: Timestamp,
        now: Timestamp,
    ) -> Result<(), SendError> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let body = message.cloud_event(&format!("/steplatch/{host}"), decided).to_string();
        let seconds = now.0.div_euclid(1_000_000);
        let mut request = self.client(url).await?.post(url);
        request = request.header(CONTENT_TYPE, "application/cloudevents+json; charset=UTF-8");
        request = request.header("webhook-id", &message.id).header("webhook-timestamp", seconds.to_string());
        if let Some(secret) = secret {
            let signature = webhook::sign(secret.resolve().await?.expose(), &message.id, seconds, &body);
            request = request.header("webhook-signature", signature);
        }
        send(request.body(body)).await
    }

    async fn post_to_ntfy(&self, url: &str, token: Option<&Token>, message: &Message) -> Result<(), SendError> {
        let header =
            |text: &str| HeaderValue::from_bytes(text.as_bytes()).expect("a message has no control characters");
        let mut request = self.client(url).await?.post(url).header("title", header(&message.title));
        if let Some(link) = &message.link {
            request = request.header("click", header(link));
        }
        if let Some(token) = token {
            let mut value = header(&format!("Bearer {}", token.resolve().await?.expose()));
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        send(request.body(message.body.clone())).await
    }

    async fn client(&self, url: &str) -> Result<&Client, SendError> {
        let is_local = Url::parse(url).is_ok_and(|url| is_loopback(&url));
        let client = self.clients[usize::from(is_local)].get_or_try_init(|| async move {
            // Loading the certificates of the system blocks.
            let built = tokio::task::spawn_blocking(move || build_client(is_local)).await;
            built.map_err(|error| error.to_string())?.map_err(|error| error_text(&error))
        });
        client.await.map_err(SendError::Request)
    }

    /// Runs a command. The processes of the command are marked like processes in a terminal, so that none of them
    /// counts as a person.
    async fn run(&self, arguments: &[String], message: &Message) -> Result<(), SendError> {
        let mut environment: Vec<(OsString, OsString)> = std::env::vars_os()
            .filter(|(name, _)| !self.private_variables.iter().any(|private| name == private))
            .filter(|(name, _)| !name.to_string_lossy().starts_with(VARIABLE_PREFIX))
            .collect();
        let occasion = if message.phase == Phase::Test { "test" } else { message.occasion.kind.name() };
        let own =
            [("id", message.id.clone()), ("occasion", occasion.to_owned()), ("phase", message.phase.name().to_owned())];
        environment.extend(
            own.into_iter()
                .chain(message.fields())
                .map(|(name, value)| (format!("{VARIABLE_PREFIX}{}", name.to_ascii_uppercase()).into(), value.into())),
        );
        let directory = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir());
        let spec = PipedSpec {
            arguments: arguments.iter().map(OsString::from).collect(),
            directory: directory.unwrap_or_else(|| PathBuf::from("/")),
            environment,
            stdin: Stdin::Nothing,
            family: None,
        };
        let mut program = self.programs.start(spec).await?;
        match tokio::time::timeout(COMMAND_TIMEOUT, finish(&mut program)).await {
            Ok(Ok((Exit { code: 0, .. }, _))) => Ok(()),
            Ok(Ok((Exit { code, .. }, errors))) => {
                let errors = Some(clean_text(&errors, 300)).filter(|text| !text.is_empty());
                Err(SendError::Command { code, errors })
            }
            Ok(Err(error)) => Err(SendError::Start(error.into())),
            Err(_) => {
                program.end(None).await;
                Err(SendError::Hung)
            }
        }
    }
}

/// Waits for the end of a program and reads its output. Returns the beginning of the errors.
async fn finish(program: &mut Piped) -> std::io::Result<(Exit, String)> {
    let (stdout, stderr) = (program.take_stdout(), program.take_stderr());
    let mut errors = Vec::new();
    let mut reading = Box::pin(async {
        let drain = async {
            if let Some(mut stdout) = stdout {
                let _ = tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await;
            }
        };
        let read = async {
            if let Some(mut stderr) = stderr {
                let _ = (&mut stderr).take(MAX_ERROR_BYTES).read_to_end(&mut errors).await;
                let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
            }
        };
        tokio::join!(drain, read);
    });
    let exit = tokio::select! {
        exit = program.wait() => {
            // A process in the background may keep the pipes open.
            let _ = tokio::time::timeout(READ_TIMEOUT, &mut reading).await;
            exit?
        }
        () = &mut reading => program.wait().await?,
    };
    drop(reading);
    Ok((exit, String::from_utf8_lossy(&errors).into_owned()))
}

fn build_client(is_local: bool) -> reqwest::Result<Client> {
    // Only the first installation takes effect.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .user_agent(concat!("steplatch/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(REQUEST_TIMEOUT)
        .pool_max_idle_per_host(0);
    if is_local { builder.no_proxy() } else { builder }.build()
}

async fn send(request: reqwest::RequestBuilder) -> Result<(), SendError> {
    let response = request.send().await.map_err(|error| SendError::Request(error_text(&error)))?;
    match response.status().as_u16() {
        200..=299 => Ok(()),
        status @ 300..=399 => Err(SendError::Redirect(status)),
        status => Err(SendError::Status(status)),
    }
}

/// Returns the deepest cause of an error. The other causes repeat the address, and the path of an address may be a
/// secret.
fn error_text(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return format!("the receiver did not answer within {} seconds", REQUEST_TIMEOUT.as_secs());
    }
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes
        .last()
        .map_or_else(|| "the request failed".to_owned(), |cause| format!("the receiver is not reachable: {cause}"))
}
