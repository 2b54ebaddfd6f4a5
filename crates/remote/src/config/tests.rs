use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use steplatch_secret::{SecretSource, SourceError};

use super::*;

fn table(text: &str) -> Result<Config, Vec<ConfigError>> {
    let table: toml::Table = text.parse().expect("TOML");
    Config::read("main", table.iter().map(|(key, value)| (key.as_str(), RawValue::from(value))))
}

fn environment(variables: &[(&str, &str)]) -> Result<Option<Config>, Vec<ConfigError>> {
    let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
    Config::from_environment(|name| variables.get(name).map(OsString::from))
}

fn error_lines(invalid: &[ConfigError]) -> String {
    invalid.iter().map(|invalid| format!("{invalid}\n")).collect()
}

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&error_lines(&table(text).expect_err("the table is invalid")));
}

#[test]
fn complete_table_is_read() {
    let config = table(
        r#"
        enabled = true
        base_url = "https://flows.example.com/team/"
        discovery_mcp = "http://127.0.0.1:9/mcp"
        token = "env:FLOWS_TOKEN"
        discovery_interval = 60000
        execution_timeout = 1000
        max_concurrent_executions = 100
        filter_patterns = ["deploy*", "!*prod*"]
        status_check_interval = 300000
        retry_attempts = 0
        "#,
    );
    let expected = Config {
        name: "main".to_owned(),
        enabled: true,
        base_url: "https://flows.example.com/team".to_owned(),
        discovery_mcp: Some("http://127.0.0.1:9/mcp".to_owned()),
        token: Token::parse("env:FLOWS_TOKEN").ok(),
        discovery_interval: Some(Duration::from_secs(60)),
        execution_timeout: Duration::from_secs(1),
        max_concurrent_executions: 100,
        filter_patterns: vec!["deploy*".to_owned(), "!*prod*".to_owned()],
        status_check_interval: Duration::from_secs(300),
        retry_attempts: 0,
    };
    assert_eq!(config, Ok(expected));
}

#[test]
fn missing_settings_have_documented_defaults() {
    let config = table("").expect("the configuration is valid");
    assert_eq!(config, Config { name: "main".to_owned(), ..Config::default() });
    let key = |name| keys::find(name).expect("a key").default.to_owned();
    assert_eq!(config.execution_timeout.as_millis().to_string(), key("execution_timeout"));
    assert_eq!(config.status_check_interval.as_millis().to_string(), key("status_check_interval"));
    assert_eq!(config.max_concurrent_executions.to_string(), key("max_concurrent_executions"));
    assert_eq!(config.retry_attempts.to_string(), key("retry_attempts"));
    assert_eq!(config.enabled.to_string(), key("enabled"));
}

#[test]
fn all_errors_are_reported_at_once() {
    check(
        r#"
        enabled = "maybe"
        base_url = "http://flows.example.com"
        token = "s3cr3t-t0ken"
        discovery_interval = 86400001
        execution_timeout = 999
        max_concurrent_executions = 0
        filter_patterns = ["ok", ""]
        status_check_interval = "5000"
        retry_attempts = 1.5
        retries = 3
        "#,
        expect![[r#"
            base_url of remote 'main' is 'http://flows.example.com', but must be a URL with https, or with http on loopback, such as https://flows.example.com/team.
            discovery_interval of remote 'main' is 86400001, but must be a whole number from 0 to 86400000.
            enabled of remote 'main' is 'maybe', but must be true or false.
            execution_timeout of remote 'main' is 999, but must be a whole number from 1000 to 3600000.
            filter_patterns of remote 'main' has the pattern '', but each pattern must have 1 to 200 characters.
            max_concurrent_executions of remote 'main' is 0, but must be a whole number from 1 to 100.
            retries of remote 'main' is unknown; the keys are name, enabled, base_url, discovery_mcp, token, discovery_interval, execution_timeout, max_concurrent_executions, filter_patterns, status_check_interval, retry_attempts.
            retry_attempts of remote 'main' is a decimal number, but must be a whole number from 0 to 10.
            status_check_interval of remote 'main' is '5000', but must be a whole number from 1000 to 300000.
            token of remote 'main' must be env:NAME, file:PATH, keyring:NAME, secret-tool:ATTRIBUTE VALUE …, pass:NAME or command:PROGRAM ARGUMENT …; a settings file must not contain the secret itself.
        "#]],
    );
}

#[test]
fn enabled_service_requires_a_url() {
    check(
        "enabled = true",
        expect![[r#"
        base_url of remote 'main' is missing, but the service is enabled; set it to the URL of the service.
    "#]],
    );
}

#[test]
fn environment_configures_one_service() {
    assert_eq!(environment(&[]), Ok(None));
    assert_eq!(environment(&[("WORKFLOWS_ENABLED", ""), ("OTHER", "x")]), Ok(None));
    let config = environment(&[
        ("WORKFLOWS_ENABLED", "TRUE"),
        ("WORKFLOWS_API_BASE_URL", "http://localhost:8080"),
        ("WORKFLOWS_API_TOKEN", "s3cr3t-t0ken"),
        ("WORKFLOW_DISCOVERY_INTERVAL", " 0 "),
        ("WORKFLOW_FILTER_PATTERNS", "deploy*, !*prod* ,,"),
        ("WORKFLOW_RETRY_ATTEMPTS", "10"),
    ]);
    let config = config.expect("the configuration is valid").expect("a service");
    assert!(config.enabled && config.name == "default" && config.base_url == "http://localhost:8080");
    assert_eq!((config.discovery_interval, config.retry_attempts), (None, 10));
    assert_eq!(config.filter_patterns, ["deploy*", "!*prod*"]);
    assert_eq!(config.token, Some(Token::Value("s3cr3t-t0ken".to_owned())));
    assert!(!format!("{config:?}").contains("s3cr3t"));
}

#[test]
fn invalid_variable_is_named_with_its_bounds() {
    let result = environment(&[
        ("WORKFLOWS_ENABLED", "yes"),
        ("WORKFLOWS_API_TOKEN", "s3cr3t with spaces"),
        ("WORKFLOW_STATUS_CHECK_INTERVAL", "999"),
        ("WORKFLOW_EXECUTION_TIMEOUT", "5s"),
    ]);
    expect![[r#"
        WORKFLOWS_ENABLED is 'yes', but must be true or false.
        WORKFLOWS_API_TOKEN cannot be sent as a token: it must be 4 to 8192 visible ASCII characters on one line.
        WORKFLOW_EXECUTION_TIMEOUT is '5s', but must be a whole number from 1000 to 3600000.
        WORKFLOW_STATUS_CHECK_INTERVAL is '999', but must be a whole number from 1000 to 300000.
    "#]]
    .assert_eq(&error_lines(&result.expect_err("the variables are invalid")));
}

#[test]
fn url_must_be_safe_for_a_token() {
    let valid = [
        ("https://x", "https://x"),
        ("https://x/", "https://x"),
        ("HTTPS://X:8443/a/b//", "https://x:8443/a/b"),
        ("http://localhost:1/", "http://localhost:1"),
        ("http://127.9.9.9", "http://127.9.9.9"),
        ("http://[::1]:80/x", "http://[::1]/x"),
    ];
    for (text, url) in valid {
        assert_eq!(parse_url(text).as_deref(), Ok(url), "{text}");
    }
    let invalid = [
        "",
        "x",
        "/a",
        "ftp://x",
        "http://x",
        "http://localhost.evil.com",
        "http://127.0.0.1.evil.com",
        "http://10.0.0.1",
        "http://[::2]",
        "https://",
        "file:///etc/passwd",
        "https://x?a=b",
        "https://x/#a",
        "https://me:hunter22@x",
        "https://hunter22@x",
        "http://localhost@x",
        "data:text/plain,x",
        "http://0.0.0.0",
    ];
    for text in invalid {
        let problem = parse_url(text).expect_err(text);
        assert!(!problem.to_string().contains("hunter22"), "{problem}");
    }
}

#[test]
fn token_itself_is_no_reference() {
    for text in ["", "abc", "env:", "env:A B", "file:", "keyring:", "ENV:A", "env", "Api-Key abc", "sk-1234:x"] {
        assert_eq!(Token::parse(text), Err(TokenError::Source(SourceError::Form)), "{text}");
    }
}

#[tokio::test]
async fn token_file_is_read_on_each_use() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("token");
    let token = Token::Source(SecretSource::File(path.clone()));
    assert!(matches!(token.resolve().await, Err(TokenError::Source(SourceError::File { .. }))));
    for (content, expected) in [("first\n", "first"), ("second\r\n", "second"), ("third", "third")] {
        std::fs::write(&path, content).expect("a file");
        assert_eq!(token.resolve().await.expect("a token").expose(), expected);
    }
    for unusable in ["", "\n", "abc", "two\nlines", "ümlaut", &"x".repeat(9_000)] {
        std::fs::write(&path, unusable).expect("a file");
        assert!(token.resolve().await.is_err(), "{unusable:?}");
    }
}

#[tokio::test]
async fn unset_variable_is_named() {
    let token = Token::parse("env:STEPLATCH_NO_SUCH_VARIABLE").expect("a reference");
    let error = token.resolve().await.expect_err("the variable is not set");
    assert_eq!(
        error.to_string(),
        "the variable STEPLATCH_NO_SUCH_VARIABLE is not set in the environment of the daemon"
    );
}

#[test]
fn token_is_masked_in_texts_and_values() {
    let secret = Secret::new("s3\"cr3t\n").expect("a token");
    assert_eq!(secret.mask("it is s3\"cr3t, s3\"cr3t"), "it is ••••••, ••••••");
    assert_eq!(secret.mask(r#"{"echo": "s3\"cr3t"}"#), r#"{"echo": "••••••"}"#);
    let value = serde_json::json!({ "a": ["x s3\"cr3t"], "s3\"cr3t": { "b": 1 } });
    let masked = serde_json::json!({ "a": ["x ••••••"], "••••••": { "b": 1 } });
    assert_eq!(secret.mask_value(value), masked);
    assert_eq!(format!("{secret:?}"), "Secret(…)");
}

#[test]
fn documentation_has_all_keys() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/remote.md");
    let text = std::fs::read_to_string(path).expect("the documentation");
    let mut table = "| key | variable | without | |\n|---|---|---|---|\n".to_owned();
    for Key { name, variable, default, bounds, description } in KEYS {
        let default = if default.is_empty() { "–".to_owned() } else { format!("`{default}`") };
        table += &format!("| `{name}` | `{variable}` | {default} | {description}; {bounds} |\n");
    }
    let (before, after_start) = text.split_once("compared by a test -->\n").expect("a start marker");
    let (documented, after) = after_start.split_once("<!-- end of keys -->").expect("an end marker");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let updated = format!("{before}compared by a test -->\n{table}<!-- end of keys -->{after}");
        std::fs::write(path, updated).expect("the documentation can be written");
    } else {
        assert_eq!(documented, table, "UPDATE_EXPECT=1 rewrites docs/remote.md");
    }
}
