//! The token: who receives it, and its removal from answers.

use serde_json::json;
use steplatch_fake::{Answer, FakeService, Route, TOKEN};
use steplatch_remote::{Client, Config, StartError, Token};
use steplatch_secret::SecretSource;

use crate::support::{client, config, input, limits, titles};

#[tokio::test]
async fn token_is_sent_only_to_its_service() {
    let (service, other_service) = (FakeService::start().await, FakeService::start().await);
    service.offer("deploy", "Deploy");
    let client = client(&service);
    for next in [
        other_service.url(),
        format!("//{}", other_service.url().trim_start_matches("http://")),
        "file:///etc/passwd".to_owned(),
    ] {
        service.next_page_is(&next);
        let listing = client.list().await.expect("a list");
        assert_eq!((titles(&listing.workflows), listing.is_cut), (vec!["Deploy"], true), "{next}");
    }
    service.well();
    for status in [301, 302, 303, 307, 308] {
        service.always(Route::List, Answer::Redirect(status, format!("{}/x", other_service.url())));
        let error = client.list().await.expect_err("the redirect is not followed");
        assert!(!error.is_temporary && error.message.contains("would receive the token"), "{error}");
        service.always(Route::Start, Answer::Redirect(status, format!("{}/x", other_service.url())));
        let error = client.start("deploy", &input(), "k").await.expect_err("the redirect is not followed");
        assert_eq!(matches!(error, StartError::Refused { .. }), matches!(status, 301 | 307 | 308), "{status}: {error}");
    }
    assert_eq!(other_service.requests().len(), 0);
}

#[tokio::test]
async fn redirect_within_the_service_is_followed_for_reads_only() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    let client = client(&service);
    service.once(Route::List, Answer::Redirect(302, "/v2/api/v1/service/workflows/mcp".to_owned()));
    assert_eq!(titles(&client.list().await.expect("a list").workflows), ["Deploy"]);
    assert!(service.requests()[1].path.starts_with("/v2/"));
    service.once(Route::Start, Answer::Redirect(307, "/v2/api/v1/service/workflows/deploy/start".to_owned()));
    assert!(matches!(client.start("deploy", &input(), "k").await, Err(StartError::Refused { .. })));
    assert_eq!(service.runs().len(), 0);
    service.always(Route::List, Answer::Redirect(302, "/api/v1/service/workflows/mcp".to_owned()));
    assert!(client.list().await.expect_err("a redirect loop").message.contains("too many times"));
}

#[tokio::test]
async fn echoed_token_is_removed() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    let client = client(&service);
    for status in [400, 401, 404, 429, 500] {
        service.always(Route::List, Answer::Echo(status));
        service.always(Route::Start, Answer::Echo(status));
        service.always(Route::Status, Answer::Echo(status));
        let output = [
            format!("{:?}", client.list().await.expect_err("an error")),
            format!("{:?}", client.start("deploy", &input(), "k").await.expect_err("an error")),
            format!("{:?}", client.status("deploy", "run-1").await.expect_err("an error")),
        ];
        for output in output {
            assert!(!output.contains(TOKEN) && output.contains("no rights for Api-Key ••••••, sorry"), "{output}");
        }
    }
    service.well();
    service.offer_only(vec![json!({ "id": "a", "name": format!("Deploy {TOKEN}"), "metadata": { (TOKEN): TOKEN } })]);
    let listing = client.list().await.expect("a list");
    assert!(!format!("{listing:?}").contains(TOKEN) && listing.workflows[0].title == "Deploy ••••••");
    service.always(Route::Status, Answer::Json(json!({ "status": "FAILED", "output": { "error": TOKEN } })));
    let status = client.status("a", "run-1").await.expect("a status");
    assert!(!format!("{status:?}").contains(TOKEN) && status.error_message() == "••••••");
}

#[tokio::test]
async fn wrong_or_missing_token_is_reported() {
    let service = FakeService::start().await;
    let client_with = |token| Client::with_limits(&Config { token, ..config(&service) }, limits()).expect("a client");
    let error = client_with(Some(Token::Value("another-t0ken".to_owned()))).list().await.expect_err("refused");
    assert_eq!(error.message, "The service answered 401 Unauthorized: not with this token.");
    let error = client_with(None).list().await.expect_err("refused");
    assert_eq!(error.status, Some(401));
    let before = service.requests().len();
    let unset = client_with(Token::parse("env:STEPLATCH_NO_SUCH_VARIABLE").ok());
    let error = unset.start("deploy", &input(), "k").await.expect_err("no token");
    assert!(
        matches!(&error, StartError::Refused { message, .. } if message.contains("STEPLATCH_NO_SUCH_VARIABLE")),
        "{error}"
    );
    assert_eq!(service.requests().len(), before, "no request is sent without the configured token");
}

#[tokio::test]
async fn changed_token_file_takes_effect_immediately() {
    let service = FakeService::start().await;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("token");
    std::fs::write(&path, "old-t0ken").expect("a file");
    let client = Client::with_limits(
        &Config { token: Some(Token::Source(SecretSource::File(path.clone()))), ..config(&service) },
        limits(),
    );
    let client = client.expect("a client");
    assert!(client.list().await.is_err());
    std::fs::write(&path, format!("{TOKEN}\n")).expect("a file");
    assert!(client.list().await.is_ok());
}
