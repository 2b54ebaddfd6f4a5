//! Discovery: the lists of workflows.

use std::time::Duration;

use serde_json::json;
use steplatch_fake::{Answer, FakeService, Route};
use steplatch_remote::{Client, Config};

use crate::support::{client, config, impatient_client, limits, titles};

#[tokio::test]
async fn all_pages_are_followed() {
    let service = FakeService::start().await;
    for number in 0..25 {
        service.offer(&format!("w{number}"), &format!("Workflow {number}"));
    }
    service.in_pages(10);
    let listing = client(&service).list().await.expect("a list");
    assert_eq!((listing.workflows.len(), listing.is_cut, service.count(Route::List)), (25, false, 3));
}

#[tokio::test]
async fn cyclic_pagination_stops() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    service.next_page_is(&format!("{}/api/v1/service/workflows/mcp?page=1", service.url()));
    let listing = client(&service).list().await.expect("a list");
    assert_eq!((titles(&listing.workflows), listing.is_cut, service.count(Route::List)), (vec!["Deploy"], true, 2));
    assert!(listing.skipped.iter().any(|reason| reason.contains("form a cycle")), "{:?}", listing.skipped);
}

#[tokio::test]
async fn pages_beyond_the_limit_are_ignored() {
    let service = FakeService::start().await;
    for number in 0..150 {
        service.offer(&format!("w{number}"), &format!("Workflow {number}"));
    }
    service.in_pages(1);
    let listing = client(&service).list().await.expect("a list");
    assert_eq!((listing.workflows.len(), listing.is_cut, service.count(Route::List)), (100, true, 100));
}

#[tokio::test]
async fn temporarily_failed_request_is_retried() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    let client = impatient_client(&service);
    for failure in [
        Answer::Refuse(500, "oops".to_owned()),
        Answer::Busy("0".to_owned()),
        Answer::Text("<html>Bad gateway</html>".to_owned()),
        Answer::Json(json!({ "results": 7 })),
        Answer::Cut,
        Answer::Hang,
    ] {
        service.once(Route::List, failure.clone());
        let listing = client.list().await;
        assert!(listing.as_ref().is_ok_and(|listing| listing.workflows.len() == 1), "{failure:?}: {listing:?}");
    }
    assert_eq!(service.count(Route::List), 12);
}

#[tokio::test]
async fn retries_are_bounded() {
    let service = FakeService::start().await;
    let client = client(&service);
    service.always(Route::List, Answer::Refuse(503, "down for a while".to_owned()));
    let error = client.list().await.expect_err("the service is down");
    assert_eq!(error.message, "The service answered 503 Service Unavailable: down for a while.");
    assert_eq!((error.is_temporary, error.status, service.count(Route::List)), (true, Some(503), 4));
    service.always(Route::List, Answer::Refuse(403, "no rights".to_owned()));
    let error = client.list().await.expect_err("the service refuses");
    assert_eq!((error.is_temporary, error.status, service.count(Route::List)), (false, Some(403), 5));
    service.always(Route::List, Answer::Busy("3600".to_owned()));
    let error = client.list().await.expect_err("the service is busy");
    assert_eq!((error.is_temporary, error.retry_after), (true, Some(Duration::from_secs(3600))));
    assert_eq!(service.count(Route::List), 6, "a call does not wait for an hour");
    service.always(Route::List, Answer::Busy("Thu, 01 Jan 1970 00:00:00 GMT".to_owned()));
    let error = client.list().await.expect_err("the service is busy");
    assert_eq!((error.retry_after, service.count(Route::List)), (Some(Duration::ZERO), 10));
}

#[tokio::test]
async fn overlong_answer_is_rejected() {
    let service = FakeService::start().await;
    let client = client(&service);
    service.always(Route::List, Answer::Huge(9 << 20));
    assert!(client.list().await.expect_err("the answer is too long").message.contains("too long"));
}

#[tokio::test]
async fn hostile_entries_are_cleaned() {
    let service = FakeService::start().await;
    service.offer_only(vec![
        json!({ "id": "a", "name": "\u{1b}]0;owned\u{7}Same", "description": "\u{202e}live\u{202c} text\u{e0041}" }),
        json!({ "id": "b", "name": "Same", "inputSchema": { "$ref": "http://127.0.0.1:1/schema" } }),
        json!({ "id": "../../start", "name": "Path" }),
        json!("no entry"),
    ]);
    let listing = client(&service).list().await.expect("a list");
    assert_eq!(titles(&listing.workflows), ["Same", "Same", "Path"]);
    assert_eq!(listing.workflows[0].description, "live text");
    assert_eq!(listing.workflows[1].input_schema, json!({ "type": "object" }));
    assert_eq!(listing.skipped, ["An entry is omitted: it is not an object."]);
    assert_eq!(listing.workflows[2].id, "../../start");
}

#[tokio::test]
async fn filtered_workflow_is_not_listed() {
    let service = FakeService::start().await;
    for title in ["Deploy to stage", "Deploy to prod", "Build"] {
        service.offer(title, title);
    }
    let filter_patterns = vec!["deploy*".to_owned(), "!*prod".to_owned()];
    let client = Client::with_limits(&Config { filter_patterns, ..config(&service) }, limits()).expect("a client");
    assert_eq!(titles(&client.list().await.expect("a list").workflows), ["Deploy to stage"]);
}

#[tokio::test]
async fn intermittent_service_is_listed_while_available() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    for _ in 0..3 {
        service.go_down();
        let client =
            Client::with_limits(&Config { retry_attempts: 0, ..config(&service) }, limits()).expect("a client");
        assert!(client.list().await.is_err_and(|error| error.is_temporary));
        service.come_up().await;
        assert!(client.list().await.is_ok());
    }
}
