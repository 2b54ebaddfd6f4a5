//! Third-party tools against the server's OpenAPI document.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::json;

use crate::http::client::{HttpServer, sleeping_workflow};

/// Returns a program of the Python environment installed by `cargo xtask test`.
fn find_program(name: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let found =
        exe.ancestors().map(|directory| directory.join("clients/openapi/bin").join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{name} is missing; run cargo xtask test, which installs it"))
}

fn output_text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn document_is_valid() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("crates/http/openapi.json");
    let output = Command::new(find_program("openapi-spec-validator")).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
}

/// Excluded addresses: generated values would be run as commands, or used as waiting times.
const EXCLUDED_PATHS: &str = "^/api/v1/(commands|terminals/.*/(command|await|input))$";

/// Generates valid and invalid requests from the document. None may break the server or cause a response outside of the
/// document.
#[test]
fn documented_requests_never_break_the_server() {
    let server = HttpServer::new();
    server.post("/api/v1/workflows", json!({"workflow_definition": sleeping_workflow(2, 0.0)}));
    // The events of this run end, unlike the events of a waiting run.
    let run = server.start_run(&sleeping_workflow(2, 0.0));
    assert_eq!(server.wait_for_run(&run)["status"], "completed");
    let checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";
    let mut command = server.home.inside(&find_program("schemathesis"));
    command
        .args(["run", &format!("http://127.0.0.1:{}/api/openapi.json", server.port)])
        .args(["-H", &format!("Authorization: Bearer {}", server.token)])
        .args(["--exclude-path-regex", EXCLUDED_PATHS, "--checks", checks])
        .args(["--phases", "examples,coverage,fuzzing", "--max-examples", "5", "--seed", "1"])
        .args(["--suppress-health-check", "all", "--no-color"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    assert_eq!(server.get("/health").1["status"], "ok");
}
