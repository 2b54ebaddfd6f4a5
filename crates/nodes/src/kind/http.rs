//! HTTP nodes. A call makes one request. This module follows redirects itself, not the HTTP library, because secrets
//! must not reach another origin: neither in a header nor in a body.

mod body;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Response, StatusCode, Url};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_workflow::Problem;
use tokio::sync::OnceCell;

pub(crate) use body::{BoundedBody, read_body};

use super::NodeSettings;
use crate::context::CallContext;
use crate::node::{read_object, schema_of};
use crate::outcome::{ErrorType, ExecutorOutcome, Failure};
use crate::secrets;
use crate::template::TemplateValues;

/// Connection timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Makes one HTTP request; success is a status from 200 to 299, and the output is the body: JSON as a value, else text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Http {
    /// Method (default GET)
    #[serde(default)]
    pub method: Method,
    /// URL; {input} is the input, percent-encoded unless the URL begins with it
    pub url: String,
    /// Headers; {secret:NAME} is a secret by reference
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// JSON to send
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    /// Text to send instead of JSON
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Maximum number of redirects to follow (default 5)
    #[serde(default = "five_redirects")]
    #[schemars(range(max = 20))]
    pub max_redirects: u8,
    /// Maximum number of bytes of the body; a longer body is an error (default 4 MiB)
    #[serde(default = "four_mebibytes")]
    #[schemars(range(max = 67_108_864))]
    pub max_bytes: u32,
}

fn five_redirects() -> u8 {
    5
}

fn four_mebibytes() -> u32 {
    4 << 20
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs, reason = "the variants are the methods of HTTP")]
pub enum Method {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
}

impl NodeSettings for Http {
    fn read(fields: &Map<String, Value>, common_keys: &[String], problems: &mut Vec<Problem>) -> Option<Self> {
        let http: Self = read_object(fields, "", "an http node", common_keys, problems)?;
        if http.json.is_some() && http.body.is_some() {
            problems.push(Problem::error("/body", "a request has 'json' or 'body', not both"));
        }
        Some(http)
    }

    fn schema() -> Value {
        schema_of::<Self>()
    }

    async fn perform(&self, context: &CallContext<'_>) -> ExecutorOutcome {
        let CallContext { limit, template_values, http_client, .. } = context;
        limit.run_within(run(self, template_values, http_client)).await
    }
}

/// The HTTP client that all nodes share. It is created on first use, because reading the system's certificates takes
/// time and may fail.
#[derive(Debug, Clone, Default)]
pub(crate) struct HttpClient(Arc<OnceCell<Client>>);

impl HttpClient {
    pub(crate) async fn client(&self) -> Result<&Client, Failure> {
        let shared = self.0.get_or_try_init(async || {
            let built = tokio::task::spawn_blocking(build_client).await;
            built.map_err(|error| error.to_string())?.map_err(|error| connection_failure(&error).message)
        });
        let message = |message| format!("The HTTP client could not be set up. {message}");
        shared.await.map_err(|error: String| Failure::new(ErrorType::NotStarted, message(error)))
    }
}

/// Builds the client, with the proxies of the environment.
fn build_client() -> reqwest::Result<Client> {
    // Only the first installation takes effect; later calls get the same provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .user_agent(concat!("steplatch/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .build()
}

/// A request; every redirect changes it.
struct Request {
    method: reqwest::Method,
    url: Url,
    headers: HeaderMap,
    /// Headers that only the first origin receives.
    private_headers: Vec<HeaderName>,
    body: Option<Vec<u8>>,
    body_is_private: bool,
}

async fn run(http: &Http, template_values: &TemplateValues, http_client: &HttpClient) -> ExecutorOutcome {
    match exchange(http, template_values, http_client).await {
        Ok(outcome) => outcome,
        Err(failure) => failure.into(),
    }
}

async fn exchange(
    http: &Http,
    template_values: &TemplateValues,
    http_client: &HttpClient,
) -> Result<ExecutorOutcome, Failure> {
    let client = http_client.client().await?;
    let mut request = Request::from_template(http, template_values)?;
    let mut redirects = 0;
    let response = loop {
        let response = request.send(client).await?;
        let Some(target) = redirect_target(&response, &request.url) else { break response };
        if redirects == http.max_redirects {
            break response;
        }
        redirects += 1;
        request.redirect_to(response.status(), target?)?;
    };
    let status = response.status();
    let headers = headers_as_json(response.headers());
    let is_json = content_type(response.headers()).is_some_and(|kind| is_json(&kind));
    let body = match request.method {
        reqwest::Method::HEAD => BoundedBody::default(),
        _ => read_body(response, http.max_bytes as usize).await.map_err(|error| connection_failure(&error))?,
    };
    let text = String::from_utf8_lossy(&body.bytes).into_owned();
    let output = match body.is_cut {
        // An incomplete body is not a value.
        true => Value::Null,
        false if is_json => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        false => text.into(),
    };
    let failure = if body.is_cut {
        let message = format!("The response exceeds the limit of {} bytes.", http.max_bytes);
        Some(Failure::new(ErrorType::TooLarge, message))
    } else if status.is_success() {
        None
    } else {
        let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
        let message = format!("The server answered {}{reason}.", status.as_u16());
        Some(Failure::new(ErrorType::Status, message))
    };
    Ok(ExecutorOutcome { output, failure, attributes: Map::new() }
        .with("status", status.as_u16())
        .with("headers", headers)
        .with("url", request.url.to_string())
        .with("redirects", redirects))
}

impl Request {
    fn from_template(http: &Http, template_values: &TemplateValues) -> Result<Self, Failure> {
        let invalid = |message: String| Failure::new(ErrorType::InvalidInput, message);
        let url = template_values.url(&http.url);
        let url: Url = url.parse().map_err(|error| invalid(format!("'{url}' is not a URL: {error}.")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid(format!("A URL must begin with http: or https:, not with {}:.", url.scheme())));
        }
        let mut headers = HeaderMap::new();
        let mut private_headers = vec![reqwest::header::AUTHORIZATION, reqwest::header::COOKIE];
        for (name, template) in &http.headers {
            let invalid_part = |what: &str| invalid(format!("{what} of header '{name}' cannot be sent."));
            let value = template_values.text(template);
            let mut value: HeaderValue = value.parse().map_err(|_| invalid_part("The value"))?;
            let name: HeaderName = name.parse().map_err(|_| invalid_part("The name"))?;
            if has_secret(&template.as_str().into()) {
                value.set_sensitive(true);
                private_headers.push(name.clone());
            }
            headers.insert(name, value);
        }
        let body = match (&http.json, &http.body) {
            (Some(json), _) => {
                let json_type = HeaderValue::from_static("application/json");
                headers.entry(reqwest::header::CONTENT_TYPE).or_insert(json_type);
                Some(template_values.value(json).to_string().into_bytes())
            }
            (None, Some(text)) => Some(template_values.text(text).into_bytes()),
            (None, None) => None,
        };
        let body_is_private = http.json.as_ref().is_some_and(has_secret)
            || http.body.as_deref().is_some_and(|body| has_secret(&body.into()));
        Ok(Self { method: method(http.method), url, headers, private_headers, body, body_is_private })
    }

    async fn send(&self, client: &Client) -> Result<Response, Failure> {
        let mut request = client.request(self.method.clone(), self.url.clone()).headers(self.headers.clone());
        if let Some(body) = &self.body {
            request = request.body(body.clone());
        }
        request.send().await.map_err(|error| connection_failure(&error))
    }

    /// Changes the request to the target of a redirect, see RFC 9110, 15.4.
    fn redirect_to(&mut self, status: StatusCode, target: Url) -> Result<(), Failure> {
        let becomes_get = match status {
            StatusCode::SEE_OTHER => self.method != reqwest::Method::HEAD,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == reqwest::Method::POST,
            _ => false,
        };
        if becomes_get {
            self.method = reqwest::Method::GET;
            self.body = None;
            self.headers.remove(reqwest::header::CONTENT_TYPE);
        }
        if target.origin() != self.url.origin() {
            if self.body.is_some() && self.body_is_private {
                let host = target.host_str().unwrap_or_default();
                let message = format!("The server redirects the request to {host}, but it contains a secret.");
                return Err(Failure::new(ErrorType::Connection, message));
            }
            for name in &self.private_headers {
                self.headers.remove(name);
            }
        }
        self.url = target;
        Ok(())
    }
}

fn has_secret(declared: &Value) -> bool {
    !secrets::names(declared).is_empty()
}

fn method(method: Method) -> reqwest::Method {
    match method {
        Method::Get => reqwest::Method::GET,
        Method::Head => reqwest::Method::HEAD,
        Method::Post => reqwest::Method::POST,
        Method::Put => reqwest::Method::PUT,
        Method::Patch => reqwest::Method::PATCH,
        Method::Delete => reqwest::Method::DELETE,
        Method::Options => reqwest::Method::OPTIONS,
    }
}

/// Returns the target of a response, if it redirects.
fn redirect_target(response: &Response, base: &Url) -> Option<Result<Url, Failure>> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    let invalid_url = |_| Failure::new(ErrorType::Protocol, "The server redirects to an address that is not a URL.");
    Some(base.join(location).map_err(invalid_url).and_then(|url| match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(Failure::new(ErrorType::Protocol, format!("The server redirects to a URL of scheme {other}."))),
    }))
}

fn headers_as_json(headers: &HeaderMap) -> Map<String, Value> {
    let mut headers_json = Map::new();
    for name in headers.keys() {
        let values: Vec<String> =
            headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
        headers_json.insert(name.to_string(), values.join(", ").into());
    }
    headers_json
}

/// Returns the media type of a body, without its parameters.
pub(crate) fn content_type(headers: &HeaderMap) -> Option<String> {
    let kind = headers.get(reqwest::header::CONTENT_TYPE)?.to_str().ok()?;
    Some(kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

fn is_json(kind: &str) -> bool {
    kind == "application/json" || kind.ends_with("+json")
}

/// Returns the failure of a connection. Omits the URL, because it may contain a secret.
pub(crate) fn connection_failure(error: &reqwest::Error) -> Failure {
    let mut causes = Vec::new();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        causes.push(error.to_string());
        cause = error.source();
    }
    let what = if error.is_connect() { "The server cannot be reached" } else { "The connection was lost" };
    let cause = causes.last().map(|cause| format!(": {cause}")).unwrap_or_default();
    Failure::new(ErrorType::Connection, format!("{what}{cause}."))
}
