//! Questions that were recorded and questions that are asked instead, in one table: a captured workflow answers no other one.

use serde_json::Value;
use steplatch_pattern::Pattern;

use crate::procedures::Log;

use crate::Captured;

/// Whether the answer to a question of a captured machine is typed where a program printed this.
fn answers(captured: &Captured, printed: &str) -> bool {
    let states = captured.definition["states"].as_object().expect("a machine has states");
    let state = states.values().find(|state| state["action"]["params"]["pattern"].is_string()).expect("a state waits");
    let pattern = state["action"]["params"]["pattern"].as_str().expect("a state waits");
    let conditions = &state["transitions"][0]["condition"];
    let pattern = pattern.replace("{HOME|regex}", "/home/ana").replace("{PWD|regex}", "/srv");
    let pattern = Pattern::new(&format!("(?m){pattern}")).expect("a captured pattern is valid");
    let Some(found) = pattern.find_at(printed, 0).expect("little text") else { return false };
    let fields = conditions["field_equals"].as_object();
    fields.into_iter().flatten().all(|(field, expected)| {
        let name = field.strip_prefix("groups.").expect("only groups are compared");
        let at = pattern.group_names().iter().position(|known| known.as_deref() == Some(name)).expect("a group");
        *expected == Value::Null && found.groups[at].is_none()
    })
}

fn captured(recorded: &str, answer: &str) -> Captured {
    let row = recorded.lines().next_back().unwrap_or_default();
    Log::default().starts("sh x", 0, recorded).answers(row, answer, "").runs("true", 0, "").captured(&[], "/srv")
}

/// The question that was recorded, its answer, what the program prints instead, and whether the answer is typed.
const QUESTIONS: [(&str, &str, &str, bool); 68] = [
    // Words of classes.
    ("Delete /tmp/old-build? [y/N] ", "y", "Delete /tmp/old-build? [y/N] ", true),
    ("Delete /tmp/old-build? [y/N] ", "y", "Delete everything? [y/N] ", false),
    ("Delete /tmp/old-build? [y/N] ", "y", "Delete /etc? [y/N] ", false),
    ("Delete /tmp/old-build? [y/N] ", "y", "Delete /tmp/old-build and /etc? [y/N] ", false),
    ("Delete /tmp/old-build? [y/N] ", "y", "Delete /tmp/../etc? [y/N] ", false),
    ("Delete /tmp/old-build? [y/N] ", "y", "Delete /tmp/production? [y/N] ", false),
    ("Delete /tmp/tmp.a8Xk2QzR1b? [y/N] ", "y", "Delete /tmp/tmp.Zz81pQ04Lm? [y/N] ", true),
    ("Delete /tmp/tmp.a8Xk2QzR1b? [y/N] ", "y", "Delete /tmp/*? [y/N] ", false),
    ("Delete /tmp/tmp.a8Xk2QzR1b? [y/N] ", "y", "Delete /home/tmp.a8Xk2QzR1b? [y/N] ", false),
    ("Delete /var/tmp/x9k2j4/out? [y/N] ", "y", "Delete /var/tmp/p0q3z7/out? [y/N] ", true),
    ("Delete /var/tmp/x9k2j4/out? [y/N] ", "y", "Delete /var/tmp/x9k2j4? [y/N] ", false),
    ("Revoke 3fa9c1d2? ", "yes", "Revoke 9b2c4d1e? ", true),
    ("Revoke 3fa9c1d2? ", "yes", "Revoke everything? ", false),
    ("Revoke 3fa9c1d2? ", "yes", "Revoke all-of-them-2? ", false),
    ("Drop 0f8fad5b-d9cb-469f-a165-70867728950e? ", "y", "Drop 7c9e6679-7425-40de-944b-e07fc1f90ae7? ", true),
    ("Drop 0f8fad5b-d9cb-469f-a165-70867728950e? ", "y", "Drop customers-2026? ", false),
    ("Delete backups of 3 May? ", "y", "Delete backups of 3 customers? ", false),
    ("Delete backups of 3 May? ", "y", "Delete backups of 3 Mayors? ", false),
    ("Drop 2 Mar? ", "y", "Drop 2 databases? ", false),
    ("Note for Sat 3 May: ", "closed", "Note for Sun 12 June: ", true),
    ("Note for Sat 3 May: ", "closed", "Note for All 12 customers: ", false),
    ("Note for Sat 3 May: ", "closed", "Note for Sat 3 customers: ", false),
    ("Trust SHA256:k3Lp/q+? ", "yes", "Trust SHA256:other? ", false),
    // Names of this machine and its user.
    ("Reboot mill? [y/n] ", "y", "Reboot barn? [y/n] ", false),
    ("Reboot mill? [y/n] ", "y", "Reboot everything? [y/n] ", false),
    ("Send it to ana@example.org? ", "y", "Send it to everyone@example.org? ", false),
    ("Remove ana@mill? ", "y", "Remove root@prod? ", false),
    ("Delete millions? ", "y", "Delete everything? ", false),
    ("Comment for ana@mill: ", "hello", "Comment for bo@barn: ", true),
    ("Comment for ana@mill: ", "hello", "Comment for everything: ", false),
    ("Delete /home/ana/old? ", "y", "Delete /home/ana/new? ", false),
    ("Delete /home/ana-old? ", "y", "Delete /home/bo? ", false),
    // Numbers where the answer says yes or no.
    ("Pay 5 EUR? [y/n] ", "y", "Pay 50000 EUR? [y/n] ", false),
    ("Pay 5 EUR? [y/n] ", "Y", "Pay 50000 EUR? [y/n] ", false),
    ("Pay 5 EUR? [yes/no] ", "yes", "Pay 50000 EUR? [yes/no] ", false),
    ("Pay 5 EUR? ", "ok", "Pay 50000 EUR? ", false),
    ("Pay 5 EUR? ", "ja", "Pay 50000 EUR? ", false),
    ("Pay 1234567 EUR? ", "y", "Pay 7654321 EUR? ", false),
    ("Scale to 3? ", "y", "Scale to 0? ", false),
    ("Allow 10.0.0.0/8? ", "y", "Allow 0.0.0.0/0? ", false),
    ("Keep 5 versions? ", "n", "Keep 0 versions? ", false),
    ("Erase disk 2, continue? ", "", "Erase disk 0, continue? ", false),
    ("Type DELETE to erase 5 rows: ", "DELETE", "Type DELETE to erase 50000 rows: ", false),
    ("Enter 1 to erase 5 rows: ", "1", "Enter 1 to erase 50000 rows: ", false),
    ("Say 'yes, do it' to erase 5 rows: ", "yes, do it", "Say 'yes, do it' to erase 50000 rows: ", false),
    ("(A)bort, (R)etry or (I)gnore 3 errors? ", "i", "(A)bort, (R)etry or (I)gnore 40 errors? ", false),
    ("Upgrade to v2.1.0? [y/n] ", "y", "Upgrade to v3.0.0? [y/n] ", false),
    ("Delete /tmp/job-17? ", "y", "Delete /tmp/job-18? ", false),
    // Numbers where it is data.
    ("Name of node 3: ", "web", "Name of node 4: ", true),
    ("version: (1.0.0) ", "2.0.0", "version: (1.4.12) ", true),
    ("Port [8123]: ", "9000", "Port [8555]: ", true),
    ("Port [8123]: ", "9000", "Port of the database [8555]: ", false),
    ("Port [8123]: ", "8123", "Port [8555]: ", false),
    ("Port [8123]: ", "9000", "Port [all]: ", false),
    // The words around.
    ("Continue? [Y/n] ", "y", "Continue without a backup? [Y/n] ", false),
    ("Continue? [Y/n] ", "y", "Really continue? [Y/n] ", false),
    ("Continue? [Y/n] ", "y", "Continue? [Y/n/force] ", false),
    ("Continue? [Y/n] ", "y", "Continue? [y/N] ", false),
    ("Continue? [Y/n] ", "y", "Continue? [Y/n] \nErase? ", false),
    ("Continue? [Y/n] ", "y", "Continue? [Y/n]   ", true),
    ("Continue? [Y/n] ", "y", "compiling\nContinue? [Y/n] ", true),
    ("Continue? [Y/n] ", "y", "not: Continue? [Y/n] ", false),
    // Menus.
    ("1) small\n2) full\n#? ", "2", "1) small\n2) full\n#? ", true),
    ("1) small\n2) full\n#? ", "2", "1) small\n2) full\nobsolete, new menu:\n1) full\n2) wipe\n#? ", false),
    ("1) small\n2) full\n#? ", "2", "1) full\n2) wipe\nremoved entries:\n1) small\n2) full\n#? ", false),
    ("1) 18.2.0 (node)\n2) 20.1.0 (node)\n#? ", "2", "1) 18.2.0 (node)\n2) 99.9.9 (node)\n#? ", false),
    ("1) small\n2) full\nChoose [1-2]: ", "2", "1) small\n2) full\n3) wipe\nChoose [1-3]: ", false),
    ("1) yes, 3 disks 2) no\n#? ", "1", "1) yes, 9 disks 2) no\n#? ", false),
];

#[test]
fn an_answer_is_typed_at_the_question_that_it_was_recorded_for_and_at_no_other_one() {
    let wrong: Vec<_> = QUESTIONS
        .iter()
        .filter(|(recorded, answer, printed, goes_on)| answers(&captured(recorded, answer), printed) != *goes_on)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for (recorded, answer, ..) in QUESTIONS {
        assert!(answers(&captured(recorded, answer), recorded), "the question itself: {recorded}");
    }
}

#[test]
fn what_a_client_waited_for_is_not_enough_where_each_word_of_the_question_counts() {
    let asked = "Delete /tmp/old-build? [y/N] ";
    let log = |answer| {
        let log = Log::default().starts("sh x", 0, asked).waits(r"\[y/N\]").answers(asked, answer, "");
        log.runs("true", 0, "").captured(&[], "/srv")
    };
    let patterns = |answer| crate::procedures::all(&log(answer), "pattern").join(" then ");
    assert_eq!(patterns("y"), r"\[y/N\] then ^Delete /tmp/old-build\? \[y/N\] *\Z");
    assert_eq!(patterns("a text"), r"\[y/N\]");
}

#[test]
fn a_secret_is_typed_at_the_question_that_it_was_recorded_for_and_at_no_other_one() {
    for (recorded, printed) in [
        ("ana@mill's password: ", "root@prod's password: "),
        ("ana@10.0.0.5's password: ", "ana@10.0.0.6's password: "),
        ("PIN of card 4711: ", "PIN of card 4712: "),
        ("Password: ", "Password of the other account: "),
    ] {
        let log = Log::default().starts("sh x", 0, recorded).hides(recorded, "").runs("true", 0, "");
        let captured = log.captured(&[], "/srv");
        assert!(answers(&captured, recorded) && !answers(&captured, printed), "{recorded}");
    }
}

/// The question in the first recording, in the second one, and a third one with whether the answer is typed.
#[test]
fn words_that_differ_between_two_recordings_keep_what_both_have_in_common() {
    for (one, other, printed, goes_on) in [
        ("Keep 5 of them? [y/n] ", "Keep 7 of them? [y/n] ", "Keep 12 of them? [y/n] ", true),
        ("Keep 5 of them? [y/n] ", "Keep 7 of them? [y/n] ", "Keep none of them? [y/n] ", false),
        ("Keep 5 of 9? [y/n] ", "Keep 7 of 9? [y/n] ", "Keep 7 of 8? [y/n] ", false),
        ("Paint it red? [y/n] ", "Paint it green? [y/n] ", "Paint it blue? [y/n] ", true),
        ("Paint it red? [y/n] ", "Paint it green? [y/n] ", "Paint it /etc? [y/n] ", false),
        ("Drop build-12? [y/n] ", "Drop build-13? [y/n] ", "Drop build-140? [y/n] ", true),
        ("Drop build-12? [y/n] ", "Drop build-13? [y/n] ", "Drop everything? [y/n] ", false),
        ("Clear /srv/a/one? [y/n] ", "Clear /srv/a/two? [y/n] ", "Clear /srv/a/three? [y/n] ", true),
        ("Clear /srv/a/one? [y/n] ", "Clear /srv/a/two? [y/n] ", "Clear /srv? [y/n] ", false),
    ] {
        let log = |asked| Log::default().starts("sh x", 0, asked).answers(asked, "y", "").runs("true", 0, "");
        let captured = log(one).compared(Some(log(other)), &[], "/srv");
        assert_eq!(answers(&captured, printed), goes_on, "{one} {printed}");
        assert!(answers(&captured, one) && answers(&captured, other), "{one}");
    }
}

#[test]
fn a_value_is_searched_only_behind_the_place_where_it_was_typed() {
    let pattern = |log: Log, inputs: &[(&str, &str)]| {
        let captured = log.captured(inputs, "/srv");
        crate::procedures::all(&captured, "pattern").into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let database = Log::default()
        .starts("sh x", 0, "Database (pg/sqlite): ")
        .answers("Database (pg/sqlite): ", "pg", "User of pg: ")
        .answers("User of pg: ", "ana", "");
    let patterns = pattern(database, &[("DB", "pg")]);
    assert_eq!(patterns, [r"^Database \(pg/sqlite\): *\Z", r"^User of {DB|regex}: *\Z"]);
    // In the line that starts the program, it was typed before.
    let started = Log::default().starts("sh x pg", 0, "Drop pg? ").answers("Drop pg? ", "y", "");
    assert_eq!(pattern(started, &[("DB", "pg")]), [r"^Drop {DB|regex}\? *\Z"]);
    // What a client waited for, too.
    let waited = Log::default().starts("sh x", 0, "a pg or b\n? ").waits("pg or b").answers("? ", "pg", "");
    assert_eq!(pattern(waited, &[("DB", "pg")])[0], "pg or b");
    // An entry of a menu names the value before it is typed.
    let menu = "[pg] small\n[my] large\nWhich? ";
    let menu = Log::default().starts("sh x", 0, menu).answers("Which? ", "pg", "");
    assert_eq!(pattern(menu, &[("DB", "pg")]), [r"^Which\? *\Z"]);
    // A directory is known from the beginning.
    let directory =
        Log::default().starts("sh x", 0, "Clean /home/ana/shop? ").answers("Clean /home/ana/shop? ", "y", "");
    let captured = directory.captured(&[], "/home/ana/shop");
    assert_eq!(crate::procedures::all(&captured, "pattern"), [r"^Clean {PWD|regex}\? *\Z"]);
}
