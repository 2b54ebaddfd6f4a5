//! Admission of requests: checks the server's name in the request, the origin of the page, and the token.
//!
//! A page in a browser on this computer can send requests to any local port. The name in `Host` must therefore be a
//! name of this server: a page that uses DNS rebinding sends another name. Only browsers send an `Origin`, and it must
//! be allowed. The server checks the token last.

use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, HOST,
    HeaderMap, HeaderValue, ORIGIN, VARY,
};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::refusal::Refusal;
use crate::token::Token;

/// Checks for requests.
#[derive(Debug)]
pub(crate) struct Admission {
    token: Token,
    hosts: Vec<HostName>,
    /// Allowed origins, as browsers send them: scheme, name and port.
    origins: Vec<String>,
}

/// A name of this server. Without a port, it is valid with any port.
#[derive(Debug, PartialEq, Eq)]
struct HostName {
    host: String,
    port: Option<u16>,
}

impl HostName {
    /// Parses `name`, `name:port`, `[::1]` and `[::1]:port`; `None` for anything else.
    fn parse(text: &str) -> Option<Self> {
        // The colons of an address in brackets, or of a bare IPv6 address, do not separate a port.
        let is_bare_v6 = text.contains("::") && !text.starts_with('[');
        let colon = text.rfind(':').filter(|colon| !is_bare_v6 && !text[*colon..].contains(']'));
        let (host, port) = match colon {
            Some(colon) => (&text[..colon], Some(text[colon + 1..].parse().ok()?)),
            None => (text, None),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        // A trailing dot is the DNS root, and does not change the host.
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        (!host.is_empty()).then_some(Self { host, port })
    }

    fn matches(&self, requested: &Self) -> bool {
        // A requested name without a port means port 80.
        self.host == requested.host && self.port.is_none_or(|port| port == requested.port.unwrap_or(80))
    }
}

/// An invalid name or origin in the options.
#[derive(Debug, thiserror::Error)]
pub enum InvalidName {
    /// The text is not a host name.
    #[error("'{0}' is not a host name, such as steplatch.example or steplatch.example:443")]
    Host(String),
    /// The text is not an origin.
    #[error("'{0}' is not an origin, such as https://page.example or http://localhost:3000")]
    Origin(String),
}

/// Credentials of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The token is valid.
    Token,
    /// A browser has a session of the page: both halves of the session are valid.
    Page,
    /// The request has no valid credentials.
    Unknown,
}

impl Caller {
    /// Returns whether the caller has the permissions of the user's programs.
    pub(crate) fn is_known(self) -> bool {
        self != Self::Unknown
    }
}

impl Admission {
    /// Creates the checks of a server at `address` and `port`. A request must have `token`, and name the server by its
    /// address, a loopback name or one of `hosts`. A page must be of this server or one of `origins`.
    ///
    /// # Errors
    /// If one of the names is invalid.
    pub(crate) fn new(
        token: Token,
        address: &str,
        port: u16,
        hosts: &[String],
        origins: &[String],
    ) -> Result<Self, InvalidName> {
        let own_hosts = ["127.0.0.1", "localhost", "::1", address];
        let mut names: Vec<HostName> =
            own_hosts.iter().map(|host| HostName { host: host.to_ascii_lowercase(), port: Some(port) }).collect();
        for host in hosts {
            names.push(HostName::parse(host).ok_or_else(|| InvalidName::Host(host.clone()))?);
        }
        let mut allowed: Vec<String> =
            ["127.0.0.1", "localhost", "[::1]"].iter().map(|host| format!("http://{host}:{port}")).collect();
        for origin in origins {
            let normalized = origin.trim_end_matches('/').to_ascii_lowercase();
            let is_valid = normalized.split_once("://").is_some_and(|(scheme, name)| {
                !scheme.is_empty() && !name.contains('/') && HostName::parse(name).is_some()
            });
            if !is_valid {
                return Err(InvalidName::Origin(origin.clone()));
            }
            allowed.push(normalized);
        }
        Ok(Self { token, hosts: names, origins: allowed })
    }

    /// Checks the name of the server in the request, and the origin of the page.
    ///
    /// # Errors
    /// If one of the names is not allowed.
    pub(crate) fn check_names(&self, request: &Request) -> Result<(), Refusal> {
        let forbidden = |code, error: String| Err(Refusal::new(StatusCode::FORBIDDEN, code, error));
        let mut host_headers = request.headers().get_all(HOST).iter();
        let (first, second) = (host_headers.next(), host_headers.next());
        let is_allowed = |text: Option<&str>| {
            let requested = text.and_then(HostName::parse);
            requested.is_some_and(|requested| self.hosts.iter().any(|host| host.matches(&requested)))
        };
        // A request to a proxy names the server in its first line as well.
        let allows_line = request.uri().authority().is_none_or(|authority| is_allowed(Some(authority.as_str())));
        if second.is_some() || !allows_line || !is_allowed(first.and_then(|name| name.to_str().ok())) {
            return forbidden(
                "forbidden_host",
                "The name in Host is not a name of this server; allow it with: steplatch serve --allow-host NAME"
                    .to_owned(),
            );
        }
        if request.headers().contains_key(ORIGIN) && self.origin(request.headers()).is_none() {
            return forbidden(
                "forbidden_origin",
                "Pages of this origin may not send requests; allow it with: steplatch serve --allow-origin URL"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Returns the origin of the request, if the server allows it.
    fn origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let mut values = headers.get_all(ORIGIN).iter();
        let (Some(origin), None) = (values.next(), values.next()) else { return None };
        let text = origin.to_str().ok()?.to_ascii_lowercase();
        self.origins.contains(&text).then(|| origin.clone())
    }

    /// Returns the origin of the page if the request names this server `localhost`. Only at that name, pages are a
    /// secure context and cookies stay on this computer.
    pub(crate) fn page_origin(&self, headers: &HeaderMap) -> Option<String> {
        let authority = headers.get(HOST)?.to_str().ok()?.to_ascii_lowercase();
        (HostName::parse(&authority)?.host == "localhost").then(|| format!("http://{authority}"))
    }

    /// Returns whether the request names this server by a loopback address.
    pub(crate) fn uses_loopback_address(&self, headers: &HeaderMap) -> bool {
        let name = headers.get(HOST).and_then(|host| host.to_str().ok()).and_then(HostName::parse);
        name.is_some_and(|name| name.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback()))
    }

    /// Checks the token of the request, as `Bearer TOKEN` or `Api-Key TOKEN` (RFC 9110, 11.6.2).
    pub(crate) fn caller(&self, headers: &HeaderMap) -> Caller {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return Caller::Unknown };
        let Some((scheme, token)) = value.to_str().ok().and_then(|value| value.split_once(' ')) else {
            return Caller::Unknown;
        };
        let is_known_scheme = ["bearer", "api-key"].iter().any(|name| scheme.eq_ignore_ascii_case(name));
        if is_known_scheme && self.token.matches(token.trim()) { Caller::Token } else { Caller::Unknown }
    }

    /// Returns the response to a browser's preflight request for an allowed origin. Browsers send it without the token
    /// (<https://fetch.spec.whatwg.org/#http-cors-protocol>).
    pub(crate) fn answer_preflight(&self, request: &Request) -> Option<Response> {
        let is_preflight =
            request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if !is_preflight || self.origin(request.headers()).is_none() {
            return None;
        }
        let mut response = StatusCode::NO_CONTENT.into_response();
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT, DELETE"));
        let allowed = "authorization, content-type, idempotency-key, last-event-id, mcp-method, mcp-name, \
                       mcp-protocol-version, mcp-session-id";
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(allowed));
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        Some(response)
    }

    /// Adds the headers that let a page of an allowed origin read a response.
    pub(crate) fn add_cors_headers(&self, request: &HeaderMap, response: &mut Response) {
        if let Some(origin) = self.origin(request) {
            let headers = response.headers_mut();
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("mcp-session-id"));
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn admission() -> Admission {
        let hosts = ["steplatch.example".to_owned(), "other.example:8443".to_owned()];
        let origins = ["https://page.example/".to_owned()];
        Admission::new(Token::from_text(TOKEN, "the token").unwrap(), "10.0.0.5", 7878, &hosts, &origins).unwrap()
    }

    fn request(headers: &[(&str, &str)]) -> Request {
        let mut request = Request::builder().uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    #[test]
    fn only_requests_to_names_of_this_server_are_admitted() {
        let admission = admission();
        for allowed in
            ["127.0.0.1:7878", "localhost:7878", "LOCALHOST:7878", "[::1]:7878", "10.0.0.5:7878", "steplatch.example"]
        {
            assert!(admission.check_names(&request(&[("host", allowed)])).is_ok(), "{allowed}");
        }
        assert!(admission.check_names(&request(&[("host", "steplatch.example.:444")])).is_ok());
        assert!(admission.check_names(&request(&[("host", "other.example:8443")])).is_ok());
        for forbidden in [
            "evil.example:7878",
            "127.0.0.1",
            "localhost:7879",
            "other.example",
            "localhost:7878.evil.example",
            "evil.example#@localhost:7878",
            "",
            ":7878",
        ] {
            assert!(admission.check_names(&request(&[("host", forbidden)])).is_err(), "{forbidden}");
        }
        assert!(admission.check_names(&request(&[])).is_err(), "a request without a host name is refused");
        let two_hosts = [("host", "localhost:7878"), ("host", "evil.example")];
        assert!(admission.check_names(&request(&two_hosts)).is_err());
        let mut proxied = request(&[("host", "localhost:7878")]);
        *proxied.uri_mut() = "http://evil.example/".parse().unwrap();
        assert!(admission.check_names(&proxied).is_err());
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let admission = admission();
        let is_allowed =
            |origin: &str| admission.check_names(&request(&[("host", "localhost:7878"), ("origin", origin)])).is_ok();
        for allowed in ["http://localhost:7878", "http://127.0.0.1:7878", "http://[::1]:7878", "https://page.example"] {
            assert!(is_allowed(allowed), "{allowed}");
        }
        for forbidden in [
            "null",
            "http://localhost:3000",
            "https://localhost:7878",
            "https://page.example:8443",
            "https://evil.example",
            "",
        ] {
            assert!(!is_allowed(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn token_is_accepted_as_bearer_or_api_key() {
        let admission = admission();
        let caller_with = |value: &str| admission.caller(request(&[("authorization", value)]).headers());
        for valid in [format!("Bearer {TOKEN}"), format!("bearer {TOKEN}"), format!("Api-Key {TOKEN}")] {
            assert_eq!(caller_with(&valid), Caller::Token, "{valid}");
        }
        for invalid in [
            TOKEN.to_owned(),
            format!("Basic {TOKEN}"),
            format!("Bearer {TOKEN}x"),
            "Bearer".to_owned(),
            "Bearer ".to_owned(),
        ] {
            assert_eq!(caller_with(&invalid), Caller::Unknown, "{invalid}");
        }
        let two_headers = [("authorization", "Bearer no"), ("authorization", "Bearer 0123456789abcdef")];
        assert_eq!(admission.caller(request(&two_headers).headers()), Caller::Unknown);
    }

    #[test]
    fn invalid_names_in_options_are_refused() {
        let new = |hosts: &[&str], origins: &[&str]| {
            let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
            Admission::new(
                Token::from_text(TOKEN, "the token").unwrap(),
                "127.0.0.1",
                1,
                &strings(hosts),
                &strings(origins),
            )
        };
        assert!(new(&["a.example"], &["http://b.example:3000"]).is_ok());
        assert!(new(&["a.example:no"], &[]).is_err());
        for origin in ["b.example", "*", "http://", "http://b.example/path"] {
            assert!(new(&[], &[origin]).is_err(), "{origin}");
        }
    }
}
