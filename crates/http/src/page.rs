//! The page for browsers: terminals, runs and gates.
//!
//! The files of the page are part of the program (`assets.rs`), its modules joined into one script (`bundle.rs`). A
//! browser logs in with a ticket (`login.rs`) and then sends the same requests as other clients, with both halves of
//! its session instead of the token. The page is only at `http://localhost`: under other names, browsers protect a page
//! without TLS less.

mod assets;
mod bundle;
pub(crate) mod login;
mod uploads;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    LOCATION, VARY,
};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};

use crate::app::App;
use crate::live;
use crate::refusal::Refusal;

/// Path of the login.
const LOGIN_PATH: &str = "/page/session";

/// Path of a tab's socket. The socket checks its caller itself.
const LIVE_PATH: &str = "/live";

/// Maximum size of the body of a login, in bytes.
pub(crate) const MAX_LOGIN_BYTES: usize = 4 << 10;

/// Content policy of the page: only its own files and its own server are allowed, and text cannot become markup.
const CONTENT_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'self'; \
     manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'",
);

/// Header that isolates the page from windows of other origins.
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

pub(crate) use assets::build;
pub(crate) use uploads::{Uploads, remove_stale as remove_stale_uploads};

/// Returns the routes of the page.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(index))
        .route("/a/{build}/{*path}", get(asset))
        .route(LOGIN_PATH, post(login::log_in))
        .route(LIVE_PATH, get(live::upgrade))
        .route("/page/uploads/{id}", put(uploads::put_piece).post(uploads::finish).delete(uploads::discard))
}

/// Returns whether an address needs neither a token nor a session: the (public) files of the page, and the login.
pub(crate) fn is_open(method: &Method, path: &str) -> bool {
    let is_page_path = path == "/" || path == LIVE_PATH || path.starts_with("/a/");
    is_page_path && matches!(*method, Method::GET | Method::HEAD) || is_login(method, path)
}

/// Returns whether a request is a login.
pub(crate) fn is_login(method: &Method, path: &str) -> bool {
    *method == Method::POST && path == LOGIN_PATH
}

/// Returns the document, or redirects to `localhost`.
async fn index(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    if app.admission.page_origin(&headers).is_some() {
        let headers = [
            (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
            (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
            (OPENER_POLICY, HeaderValue::from_static("same-origin")),
        ];
        return (headers, assets::index()).into_response();
    }
    let page = format!("http://localhost:{}/", app.port);
    if app.admission.uses_loopback_address(&headers) {
        return (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, page)]).into_response();
    }
    let text = format!(
        "The page of steplatch is at {page} on the server's computer. From another computer, forward the port:\n\
         ssh -L {0}:localhost:{0} HOST\n",
        app.port
    );
    (StatusCode::FORBIDDEN, text).into_response()
}

/// Returns a file of the page. Its address contains the build, so that browsers may cache it forever.
async fn asset(Path((build, path)): Path<(String, String)>, request_headers: HeaderMap) -> Result<Response, Refusal> {
    let asset = assets::find(&path).filter(|_| build == assets::build());
    let asset =
        asset.ok_or_else(|| Refusal::not_found("This file belongs to another version of the page; reload the page"))?;
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(asset.media_type)),
        (CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
        (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (VARY, HeaderValue::from_static("accept-encoding")),
    ];
    Ok(match accepts_gzip(&request_headers) {
        true => (headers, [(CONTENT_ENCODING, HeaderValue::from_static("gzip"))], &asset.gzip[..]).into_response(),
        false => (headers, asset.bytes).into_response(),
    })
}

/// Returns whether a client accepts gzip (RFC 9110, section 12.5.3). A quality of zero excludes it.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let quality = quality.trim().strip_prefix("q=").and_then(|quality| quality.parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && quality.is_none_or(|quality| quality > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_only_to_clients_that_accept_it() {
        let accepts = |value: &str| {
            accepts_gzip(&HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_str(value).unwrap())]))
        };
        for value in ["gzip", "deflate, gzip;q=0.5, br", "GZIP", "br, gzip; q=1.0"] {
            assert!(accepts(value), "{value}");
        }
        for value in ["", "identity", "br", "gzip;q=0", "gzip; q=0.000", "xgzip"] {
            assert!(!accepts(value), "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
