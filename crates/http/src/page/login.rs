//! The login of a browser, and the proof of its session in later requests.
//!
//! A session has two halves. One is a cookie, which no script can read; but a browser sends it to every port of
//! `localhost`, whosever server that is. The other is in the storage of the page's origin, which includes the port, and
//! the page sends it in a header. The daemon checks both.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{COOKIE, HeaderMap, HeaderValue, ORIGIN, SET_COOKIE, USER_AGENT};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use steplatch_protocol::{BeginPageSession, CheckPageSession, PageSecret};

use crate::admission::Caller;
use crate::app::App;
use crate::carry_out::object;
use crate::page::assets;
use crate::refusal::Refusal;

/// Header with the half of the session bound to the origin.
pub(crate) const HALF: &str = "steplatch-half";

/// Tells which relation a request has to the page that sends it (<https://www.w3.org/TR/fetch-metadata/>).
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Returns the name of the cookie of the server at `port`. Servers at other ports of the host receive it as well, and
/// have their own.
fn cookie_name(port: u16) -> String {
    format!("steplatch-{port}")
}

/// Returns the one value of a header, if it is there once and is text.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut given = headers.get_all(name).iter();
    match (given.next(), given.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// Returns whether a page of `origin` itself sent the request. A browser states that in `Sec-Fetch-Site`; older ones state
/// the origin of a request that is not a plain read.
fn is_same_origin(headers: &HeaderMap, origin: &str) -> bool {
    let states_origin = headers.contains_key(ORIGIN);
    let is_origin = single(headers, ORIGIN.as_str()).is_some_and(|given| given.eq_ignore_ascii_case(origin));
    match headers.contains_key(SEC_FETCH_SITE) {
        true => single(headers, SEC_FETCH_SITE) == Some("same-origin") && (is_origin || !states_origin),
        false => is_origin,
    }
}

/// Returns whether a page of `origin` itself sent a request that states its origin in any case: one that changes something, or
/// opens a socket.
pub(crate) fn is_from_page(headers: &HeaderMap, origin: &str) -> bool {
    headers.contains_key(ORIGIN) && is_same_origin(headers, origin)
}

/// Returns the half of the session in the cookie.
pub(crate) fn cookie(headers: &HeaderMap, port: u16) -> Option<PageSecret> {
    let name = cookie_name(port);
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut found = cookies.flat_map(|value| value.split(';')).filter_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name).then(|| PageSecret(value.to_owned()))
    });
    match (found.next(), found.next()) {
        // Two cookies of one name are not ours: another server of the host has set one for a path.
        (Some(one), None) => Some(one),
        _ => None,
    }
}

/// Returns both halves of the session that a request of the page shows.
fn halves(headers: &HeaderMap, origin: Option<&str>, port: u16) -> Option<CheckPageSession> {
    let half = single(headers, HALF).map(|half| PageSecret(half.to_owned()))?;
    is_same_origin(headers, origin?).then_some(())?;
    Some(CheckPageSession { cookie: cookie(headers, port)?, half })
}

/// Returns whether a request without the token is one of a page with a session.
///
/// # Errors
/// If the daemon cannot check that, or the session has ended.
pub(crate) async fn caller(app: &App, headers: &HeaderMap) -> Result<Caller, Refusal> {
    let origin = app.admission.page_origin(headers);
    let Some(shown) = halves(headers, origin.as_deref(), app.port) else { return Ok(Caller::Unknown) };
    let checked = app.daemon.call(shown).await?;
    match checked.success {
        true => Ok(Caller::Page),
        false => Err(logged_out(checked.error)),
    }
}

fn logged_out(error: Option<String>) -> Refusal {
    let error = error.unwrap_or_else(|| "This browser is not logged in; log in with: steplatch open".to_owned());
    Refusal::new(StatusCode::UNAUTHORIZED, "logged_out", error)
}

/// Exchanges a ticket for a session.
pub(crate) async fn log_in(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Result<Response, Refusal> {
    let origin = app.admission.page_origin(&headers);
    if !origin.is_some_and(|origin| is_from_page(&headers, &origin)) {
        let error = "Only the page itself logs in, at http://localhost";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "forbidden_origin", error));
    }
    let fields = object(&headers, &body)?;
    let ticket = fields.get("ticket").and_then(|ticket| ticket.as_str()).unwrap_or_default().to_owned();
    let browser = headers.get(USER_AGENT).and_then(|browser| browser.to_str().ok()).unwrap_or_default().to_owned();
    let begun = app.daemon.call(BeginPageSession { ticket: PageSecret(ticket), browser }).await?;
    let (true, Some(cookie), Some(half)) = (begun.success, begun.cookie, begun.half) else {
        return Err(logged_out(begun.error));
    };
    let reply = json!({
        "success": true,
        "session_id": begun.session_id,
        "half": half.0,
        "build": assets::build(),
    });
    let cookie = format!(
        "{}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}",
        cookie_name(app.port),
        cookie.0,
        begun.expires_seconds
    );
    let cookie = HeaderValue::from_str(&cookie).expect("a cookie has only visible ASCII characters");
    Ok(([(SET_COOKIE, cookie)], Json(reply)).into_response())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    const ORIGIN_OF_PAGE: &str = "http://localhost:7878";

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let named = |name: &str| HeaderName::from_bytes(name.as_bytes()).unwrap();
        pairs.iter().map(|(name, value)| (named(name), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn only_the_page_itself_counts_as_the_same_origin() {
        let same = |pairs: &[(&str, &str)]| is_same_origin(&headers(pairs), ORIGIN_OF_PAGE);
        assert!(same(&[("sec-fetch-site", "same-origin")]));
        assert!(same(&[("sec-fetch-site", "same-origin"), ("origin", ORIGIN_OF_PAGE)]));
        assert!(same(&[("origin", ORIGIN_OF_PAGE)]));
        for foreign in ["same-site", "cross-site", "none", ""] {
            assert!(!same(&[("sec-fetch-site", foreign)]), "{foreign}");
            assert!(!same(&[("sec-fetch-site", foreign), ("origin", ORIGIN_OF_PAGE)]), "{foreign}");
        }
        for foreign in ["null", "http://localhost:7879", "https://localhost:7878", "http://127.0.0.1:7878"] {
            assert!(!same(&[("origin", foreign)]), "{foreign}");
            assert!(!same(&[("sec-fetch-site", "same-origin"), ("origin", foreign)]), "{foreign}");
        }
        assert!(!same(&[]), "a request that states nothing may be anyone's");
    }

    #[test]
    fn both_halves_are_shown_by_the_page_only() {
        let shown = |pairs: &[(&str, &str)]| halves(&headers(pairs), Some(ORIGIN_OF_PAGE), 7878);
        let (site, half) = (("sec-fetch-site", "same-origin"), ("steplatch-half", "h"));
        let found = shown(&[site, half, ("cookie", "a=b; steplatch-7878=c; steplatch-9=d")]).unwrap();
        assert_eq!((found.cookie.0.as_str(), found.half.0.as_str()), ("c", "h"));
        assert!(shown(&[site, half]).is_none(), "no cookie");
        assert!(shown(&[site, half, ("cookie", "steplatch-9=d")]).is_none(), "of another server");
        assert!(shown(&[site, ("cookie", "steplatch-7878=c")]).is_none(), "no half");
        assert!(shown(&[half, ("cookie", "steplatch-7878=c")]).is_none(), "from an unknown page");
        assert!(shown(&[site, half, ("cookie", "steplatch-7878=c; steplatch-7878=x")]).is_none(), "two of a name");
        let other = halves(&headers(&[site, half, ("cookie", "steplatch-7878=c")]), None, 7878);
        assert!(other.is_none(), "not at localhost");
    }
}
