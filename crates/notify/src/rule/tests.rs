use super::*;
use crate::occasion::Subject;
use steplatch_clock::Timestamp;

fn read(text: &str) -> Result<Rule, Vec<String>> {
    let table: Table = text.parse().unwrap();
    Rule::read(&table, 2, |name| name == "desktop")
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

#[test]
fn rule_is_read_with_all_keys() {
    let rule = read(
        "name = 'night'\nwhen = ['gate', 'run_failed']\nworkflows = ['release*']\nterminals = ['!tmp*']\n\
         min_wait = '30s'\nquiet = '22:00-07:00'\nremind_after = '1h'\ninclude = ['prompt']\n\
         webhook = 'https://hooks.example.com/services/T0/secret'\nsecret = 'env:HOOK_SECRET'\n",
    )
    .unwrap();
    assert_eq!((rule.name.as_str(), rule.when.len(), rule.include_prompt), ("night", 2, true));
    assert_eq!(rule.way.destination(), "https://hooks.example.com/…");
    assert_eq!((rule.value("quiet"), rule.value("min_wait")), (json!("22:00-07:00"), json!("30s")));
    assert_eq!((rule.value("secret"), rule.value("desktop")), (json!("env:HOOK_SECRET"), Value::Null));
    assert!(!format!("{:?}", KEYS.iter().map(|(key, _)| rule.value(key)).collect::<Vec<_>>()).contains("T0/secret"));
}

#[test]
fn rule_without_a_name_is_called_like_its_destination() {
    let name = |way: &str| read(&format!("when = ['gate']\n{way}\n")).unwrap().name;
    for (way, expected) in [
        ("desktop = true", "desktop-2"),
        ("terminal = true", "terminal"),
        ("command = ['/usr/bin/notify-send', 'x']", "notify-send"),
        ("webhook = 'http://localhost:8080/a'", "localhost"),
        ("webhook = 'http://[::1]:8080/a'", "webhook"),
        ("ntfy = 'https://ntfy.sh/topic'", "ntfy"),
    ] {
        assert_eq!(name(way), expected);
    }
}

#[test]
fn all_problems_of_a_rule_are_named_with_what_is_valid() {
    let kinds = "gate, password, agent_asks, held, host_lost, schedule_failed, service_failed, run_failed, run_completed, \
                 run_repaired";
    for (text, problems) in [
        ("desktop = true", vec![format!("when of notify rule 2 is missing; it is a list of occasions: {kinds}")]),
        (
            "when = ['gates', 'gate']\ndesktop = true",
            vec![format!("when of notify rule 2 has the unknown occasion 'gates'; occasions are {kinds}")],
        ),
        (
            "when = ['gate']",
            vec!["notify rule 2 must have one of webhook, ntfy, command, desktop, terminal, and has none".to_owned()],
        ),
        (
            "when = 'gate'\nname = 'a b'\nmin_wait = '5'\nremind_after = 7\nquiet = 'night'\ninclude = ['output']\n\
             desktop = true\nterminal = true",
            vec![
                "when of notify rule 2 is invalid: invalid type: string \"gate\", expected a sequence".to_owned(),
                "min_wait of notify rule 2 must be a number with a unit, at most 30 days, such as 30s, 5m, 1h or 2d"
                    .to_owned(),
                "quiet of notify rule 2 must be two different times of day, such as 22:00-07:00".to_owned(),
                "remind_after of notify rule 2 is invalid: invalid type: integer `7`, expected a string".to_owned(),
                "include of notify rule 2 has 'output'; the only value is prompt".to_owned(),
                "notify rule 2 must have one of webhook, ntfy, command, desktop, terminal, and has desktop and terminal"
                    .to_owned(),
                "name of notify rule 2 must be 1 to 64 letters, digits, '.', '_' or '-'".to_owned(),
            ],
        ),
        (
            "when = ['gate']\nname = 'desktop'\nwebhook = 'http://example.com/a'\nsecret = 'whsec_abc'\ntoken = 'env:A'",
            vec![
                "token of notify rule 2 belongs to ntfy, and the rule has webhook".to_owned(),
                "webhook of notify rule 2 must be an address with https, or with http on this computer, without \
                 credentials"
                    .to_owned(),
                "secret of notify rule 2 must be env:NAME, file:PATH, keyring:NAME, secret-tool:ATTRIBUTE VALUE \
                 …, pass:NAME or command:PROGRAM ARGUMENT …; a settings file must not contain the secret itself"
                    .to_owned(),
                "name of notify rule 2 'desktop' is the name of an earlier rule".to_owned(),
            ],
        ),
        (
            "when = ['gate']\ndesktop = false",
            vec!["desktop of notify rule 2 must be true; remove the rule instead".to_owned()],
        ),
        (
            "when = ['gate']\ncommand = []\nworkflows = ['']",
            vec![
                "workflows of notify rule 2 must be at most 100 globs of 1 to 200 characters".to_owned(),
                "command of notify rule 2 must be a program and its arguments, such as [\"notify\", \"me\"]".to_owned(),
            ],
        ),
    ] {
        assert_eq!(read(text).unwrap_err(), problems, "{text}");
    }
}

#[test]
fn globs_select_workflows_of_runs_and_terminals_of_prompts() {
    let rule = read(
        "when = ['gate', 'password', 'run_completed', 'host_lost']\nworkflows = ['release*', '!*test']\n\
         terminals = ['build']\nterminal = true",
    )
    .unwrap();
    let concerns = |kind, workflow: &str, terminal: &str| {
        let name = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let subject = Subject { workflow: name(workflow), terminal: name(terminal), ..Subject::default() };
        rule.concerns(&Occasion { kind, key: String::new(), since: Timestamp(0), subject })
    };
    assert!(concerns(Kind::Gate, "release", ""));
    assert!(!concerns(Kind::Gate, "release-test", "") && !concerns(Kind::Gate, "other", "build"));
    assert!(concerns(Kind::Password, "", "build") && !concerns(Kind::Password, "release", "other"));
    assert!(concerns(Kind::RunRepaired, "release", ""), "a repaired run is a completed one");
    assert!(concerns(Kind::HostLost, "", "") && !concerns(Kind::RunFailed, "release", ""));
}
