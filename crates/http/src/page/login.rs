//! The login of a browser, and the proof of its session in later requests.
//!
//! A session has two halves. The first half is a cookie that no script can read, but a browser sends it to the servers
//! at all ports of `localhost`. The second half is in the storage of the page's origin (including the port), and the
//! page sends it in a header. The daemon checks both halves.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{COOKIE, HeaderMap, HeaderValue, ORIGIN, SET_COOKIE, USER_AGENT};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::json;
use steplatch_protocol::{AskError, BeginPageSession, CheckPageSession, PageSecret, Peer};

use crate::admission::Caller;
use crate::app::App;
use crate::execute::parse_body;
use crate::page::assets;
use crate::refusal::Refusal;

/// Header with the half of the session bound to the origin.
pub(crate) const HALF_HEADER: &str = "steplatch-half";

/// Header with the relation of a request to the page that sends it (<https://www.w3.org/TR/fetch-metadata/>).
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Returns the prefix of the cookies of the server at `port`; the id of the session follows. A fixed name would not do:
/// servers at other ports of the host receive the cookies, too, and could overwrite such a cookie.
fn cookie_prefix(port: u16) -> String {
    format!("steplatch-{port}-")
}

/// Maximum number of cookies to try. Other servers of the host may have set some, too.
const MAX_COOKIES: usize = 8;

/// Returns the value of a header, if there is exactly one and it is visible ASCII.
fn single_value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// Returns whether a page of `origin` sent the request. Browsers state that in `Sec-Fetch-Site`; older ones send the
/// origin with all requests except plain reads.
fn is_same_origin(headers: &HeaderMap, origin: &str) -> bool {
    let has_origin = headers.contains_key(ORIGIN);
    let is_origin = single_value(headers, ORIGIN.as_str()).is_some_and(|value| value.eq_ignore_ascii_case(origin));
    match headers.contains_key(SEC_FETCH_SITE) {
        true => single_value(headers, SEC_FETCH_SITE) == Some("same-origin") && (is_origin || !has_origin),
        false => is_origin,
    }
}

/// Returns whether a page of `origin` sent a request. Browsers always send the origin with requests that change data or
/// open a socket.
pub(crate) fn is_from_page(headers: &HeaderMap, origin: &str) -> bool {
    headers.contains_key(ORIGIN) && is_same_origin(headers, origin)
}

/// Returns the cookies that may be half of a session, up to [`MAX_COOKIES`].
pub(crate) fn session_cookies(headers: &HeaderMap, port: u16) -> Vec<PageSecret> {
    let prefix = cookie_prefix(port);
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let secrets = cookies.flat_map(|value| value.split(';')).filter_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        key.starts_with(&prefix).then(|| PageSecret(value.to_owned()))
    });
    secrets.take(MAX_COOKIES).collect()
}

/// Returns the pairs of halves in a request of the page. One of them may be a session.
fn session_pairs(headers: &HeaderMap, origin: Option<&str>, port: u16) -> Vec<CheckPageSession> {
    let half =
        single_value(headers, HALF_HEADER).filter(|_| origin.is_some_and(|origin| is_same_origin(headers, origin)));
    let Some(half) = half.map(|half| PageSecret(half.to_owned())) else { return Vec::new() };
    let pair = |cookie| CheckPageSession { cookie, half: half.clone(), may_be_link: true };
    session_cookies(headers, port).into_iter().map(pair).collect()
}

/// A browser session.
pub(crate) struct Session {
    /// Both halves of the session.
    pub(crate) pair: CheckPageSession,
    /// The only terminal that the session may show.
    pub(crate) terminal: Option<String>,
}

/// Returns the session among pairs of halves, or the reason for its absence.
///
/// # Errors
/// If the daemon cannot check the pairs.
pub(crate) async fn find_session(
    app: &App,
    pairs: Vec<CheckPageSession>,
) -> Result<Result<Session, Option<String>>, AskError> {
    let mut reason = None;
    for pair in pairs {
        let reply = app.daemon.call(pair.clone()).await?;
        if reply.success {
            return Ok(Ok(Session { pair, terminal: reply.terminal }));
        }
        reason = reply.error;
    }
    Ok(Err(reason))
}

/// Returns whether one of these cookies is half of a session.
///
/// # Errors
/// If the daemon cannot check the cookies.
pub(crate) async fn has_session_cookie(app: &App, cookies: &[PageSecret]) -> Result<bool, AskError> {
    for cookie in cookies {
        let check = CheckPageSession { cookie: cookie.clone(), ..CheckPageSession::default() };
        if app.daemon.call(check).await?.cookie_is_known {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the caller of a request without the token, by its session.
///
/// # Errors
/// If the daemon cannot check the session, or it has ended.
pub(crate) async fn find_caller(app: &App, headers: &HeaderMap) -> Result<Caller, Refusal> {
    let origin = app.admission.page_origin(headers);
    let pairs = session_pairs(headers, origin.as_deref(), app.port);
    if pairs.is_empty() {
        return Ok(Caller::Unknown);
    }
    match find_session(app, pairs).await? {
        Ok(Session { terminal: None, .. }) => Ok(Caller::Page),
        Ok(Session { terminal: Some(_), .. }) => {
            let error = "This browser uses a read-only link, which shows only one terminal";
            Err(Refusal::new(StatusCode::FORBIDDEN, "read_only_link", error))
        }
        Err(reason) => Err(logged_out_refusal(reason)),
    }
}

fn logged_out_refusal(error: Option<String>) -> Refusal {
    let error = error.unwrap_or_else(|| "This browser is not logged in; log in with: steplatch open".to_owned());
    Refusal::new(StatusCode::UNAUTHORIZED, "logged_out", error)
}

/// Exchanges a ticket for a session.
///
/// # Errors
/// If the request does not come from the page, or the daemon refuses the ticket or the client.
pub(crate) async fn log_in(
    State(app): State<Arc<App>>,
    Extension(Peer(address)): Extension<Peer>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    let origin = app.admission.page_origin(&headers);
    if !origin.is_some_and(|origin| is_from_page(&headers, &origin)) {
        let error = "Only the page at http://localhost may log in";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "forbidden_origin", error));
    }
    let fields = parse_body(&headers, &body)?;
    let ticket = fields.get("ticket").and_then(|ticket| ticket.as_str()).unwrap_or_default().to_owned();
    let browser = headers.get(USER_AGENT).and_then(|browser| browser.to_str().ok()).unwrap_or_default().to_owned();
    // The daemon checks the client: a program in a steplatch terminal may have read the ticket.
    let daemon = app.daemon.for_person("page", Some(Peer(address)));
    let reply = daemon.call(BeginPageSession { ticket: PageSecret(ticket), browser }).await?;
    let (true, Some(session), Some(cookie), Some(half)) = (reply.success, reply.session_id, reply.cookie, reply.half)
    else {
        return Err(logged_out_refusal(reply.error));
    };
    let body = json!({
        "success": true,
        "session_id": session,
        "half": half.0,
        "terminal": reply.terminal,
        "build": assets::build(),
    });
    let cookie = format!(
        "{}{session}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}",
        cookie_prefix(app.port),
        cookie.0,
        reply.expires_seconds
    );
    let cookie = HeaderValue::from_str(&cookie).expect("a cookie has only visible ASCII characters");
    Ok(([(SET_COOKIE, cookie)], Json(body)).into_response())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    const PAGE_ORIGIN: &str = "http://localhost:7878";

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let header_name = |name: &str| HeaderName::from_bytes(name.as_bytes()).unwrap();
        pairs.iter().map(|(name, value)| (header_name(name), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn only_the_page_is_the_same_origin() {
        let is_same = |pairs: &[(&str, &str)]| is_same_origin(&headers(pairs), PAGE_ORIGIN);
        assert!(is_same(&[("sec-fetch-site", "same-origin")]));
        assert!(is_same(&[("sec-fetch-site", "same-origin"), ("origin", PAGE_ORIGIN)]));
        assert!(is_same(&[("origin", PAGE_ORIGIN)]));
        for foreign in ["same-site", "cross-site", "none", ""] {
            assert!(!is_same(&[("sec-fetch-site", foreign)]), "{foreign}");
            assert!(!is_same(&[("sec-fetch-site", foreign), ("origin", PAGE_ORIGIN)]), "{foreign}");
        }
        for foreign in ["null", "http://localhost:7879", "https://localhost:7878", "http://127.0.0.1:7878"] {
            assert!(!is_same(&[("origin", foreign)]), "{foreign}");
            assert!(!is_same(&[("sec-fetch-site", "same-origin"), ("origin", foreign)]), "{foreign}");
        }
        assert!(!is_same(&[]), "a request without an origin is not from the page");
    }

    #[test]
    fn session_needs_both_halves_from_the_page() {
        let pairs_in = |pairs: &[(&str, &str)]| session_pairs(&headers(pairs), Some(PAGE_ORIGIN), 7878);
        let (site, half) = (("sec-fetch-site", "same-origin"), ("steplatch-half", "h"));
        let pairs = pairs_in(&[site, half, ("cookie", "a=b; steplatch-7878-s=c; steplatch-9-s=d")]);
        assert_eq!(pairs.iter().map(|pair| (&*pair.cookie.0, &*pair.half.0)).collect::<Vec<_>>(), [("c", "h")]);
        assert!(pairs_in(&[site, half]).is_empty(), "the cookie is missing");
        assert!(
            pairs_in(&[site, half, ("cookie", "steplatch-9-s=d")]).is_empty(),
            "the cookie belongs to another server"
        );
        assert!(pairs_in(&[site, ("cookie", "steplatch-7878-s=c")]).is_empty(), "the half is missing");
        assert!(pairs_in(&[half, ("cookie", "steplatch-7878-s=c")]).is_empty(), "the origin is unknown");
        // Another server of the host may have set a cookie for a path.
        assert_eq!(pairs_in(&[site, half, ("cookie", "steplatch-7878-s=x; steplatch-7878-s=c")]).len(), 2);
        assert_eq!(pairs_in(&[site, half, ("cookie", &"steplatch-7878-s=x; ".repeat(99))]).len(), MAX_COOKIES);
        let pairs = session_pairs(&headers(&[site, half, ("cookie", "steplatch-7878-s=c")]), None, 7878);
        assert!(pairs.is_empty(), "the page is not at localhost");
    }
}
