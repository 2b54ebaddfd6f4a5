//! Passkeys on the command line: a browser registers one, and the person confirms it in the requesting terminal.

use steplatch_passkey::{Challenge, SoftAuthenticator};
use steplatch_protocol::{PageSecret, PasskeyInfo, RegisterPasskey};
use steplatch_testkit::Home;

use crate::desk::Desk;

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Registers a passkey as a browser with this ticket.
async fn register_passkey(home: &Home, ticket: &str, key: &SoftAuthenticator) -> PasskeyInfo {
    let client = home.connect("browser").await;
    let client_data =
        SoftAuthenticator::client_data("webauthn.create", &Challenge::for_ticket(ticket), "http://localhost:7878");
    let [client_data, authenticator_data] = key.register(&client_data, "localhost", SoftAuthenticator::REGISTERED);
    let ticket = PageSecret(ticket.to_owned());
    let verb = RegisterPasskey { ticket, client_data, authenticator_data, name: "phone".to_owned() };
    let reply = client.call(verb).await.unwrap();
    assert!(reply.success, "{reply:?}");
    reply.passkey.unwrap()
}

/// Returns the number of passkeys that sign answers.
fn count_passkeys(home: &Home) -> usize {
    home.run(&["gates", "passkey", "list", "--json"]).json()["passkeys"].as_array().unwrap().len()
}

#[tokio::test]
async fn passkey_is_enabled_after_its_fingerprint_is_confirmed() {
    let home = Home::new(STEPLATCH);
    for (answer, expected, count) in
        [("no", "the passkey was removed", 0), ("yes", "phone signs answers from now on", 1)]
    {
        let command = format!("{STEPLATCH} gates passkey add --print; sleep 1000");
        let desk = Desk::start(&home, home.path(), &command, (250, 20), &[]).await;
        let screen = desk.expect_screen("&passkey=[\\w-]{43}$").await;
        let ticket = screen.split("&passkey=").nth(1).unwrap().lines().next().unwrap().trim().to_owned();
        let passkey = register_passkey(&home, &ticket, &SoftAuthenticator::new()).await;
        let screen = desk.expect_screen("Does the page show the same fingerprint").await;
        let fingerprint: String = screen.lines().map(|line| line.replace(' ', "")).collect();
        assert!(fingerprint.contains(&passkey.passkey_id), "{screen}");
        assert_eq!(count_passkeys(&home), 0);
        desk.press("perhaps\r").await;
        desk.expect_screen("perhaps\n.*the same fingerprint").await;
        desk.press(&format!("{answer}\r")).await;
        desk.expect_screen(expected).await;
        assert_eq!(count_passkeys(&home), count);
    }
    home.run(&["serve", "stop"]);
}
